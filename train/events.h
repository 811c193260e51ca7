/* events.h -- event files of TensorBoard: scalars over steps, for a program that draws them.
 *
 * A file is records; numbers are little-endian:
 *
 *     uint64 n | uint32 mask(crc32c of n) | n bytes | uint32 mask(crc32c of the n bytes)
 *
 * mask(c) = (c >> 15 | c << 17) + 0xa282ead8, modulo 2^32.  The n bytes of each are a message Event
 * of protocol buffers, and the first Event says file_version "brain.Event:2".  Of tensorflow's
 * event.proto and summary.proto there is needed:
 *
 *     Event       double wall_time = 1, int64 step = 2, and one of
 *                 string file_version = 3, Summary summary = 5, SessionLog session_log = 7
 *     Summary     repeated Value value = 1
 *     Value       string tag = 1, float simple_value = 2
 *     SessionLog  enum status = 1, of which START is 1 */
#ifndef LA_EVENTS_H
#define LA_EVENTS_H
#include "train/append.h"

typedef la_append la_events; /* a piece is a record */

typedef struct la_scalar {
    const char *tag; /* "loss/train": TensorBoard draws tags with the same beginning together */
    double      value;
} la_scalar;

/* Begins a new file in the folder dir:
 *     events.out.tfevents.<seconds>.<host>.<process>
 * wall_time is in seconds since 1970.  TensorBoard reads the files of a folder in the order of
 * their names, so <seconds> is more than those of any file that is there, and at least wall_time.
 * LA_IO, LA_NOMEM; *e needs la_append_close in any case. */
la_status la_events_open(la_events *e, const char *dir, double wall_time);

/* Each writes one record, at once.  LA_IO: it could not be written; the records before it are as
 * they were, and it is written with the next one.  LA_ARG: an Event of more than LA_EVENT_BYTES. */
enum { LA_EVENT_BYTES = 4096 };
/* Tells readers to forget what earlier files say of `step` and of later steps. */
la_status la_events_restart(la_events *e, double wall_time, int64_t step);
la_status la_events_scalars(la_events *e, double wall_time, int64_t step, int n,
                            const la_scalar *scalars);

int la_events_name(const char *name); /* whether a file is named like ours */

/* CRC-32C (RFC 3720, 12.1): the reflected polynomial 0x82f63b78. */
uint32_t la_crc32c(const void *bytes, size_t n);
#endif
