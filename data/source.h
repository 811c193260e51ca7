/* source.h -- the bytes behind a path, whatever is behind it.
 *
 * A regular file is mapped, so it may be larger than the memory; it must not be truncated
 * while it is in use (the system would answer with SIGBUS).  Standard input and FIFOs are
 * read to their end, up to a limit.  Devices are refused: they may never end. */
#ifndef LA_SOURCE_H
#define LA_SOURCE_H
#include "tensor/status.h"
#include "tensor/words.h"
#include <stdbool.h>
#include <stdint.h>

#define LA_STREAM_MAX (INT64_C(8) << 30) /* bytes taken from standard input or a FIFO: 8 GiB */

typedef struct la_source {
    char        name[LA_FILE_NAME]; /* for messages: the path, or "standard input" */
    const char *bytes;              /* NULL when closed                                    */
    int64_t     n;                  /* bytes                                               */
    bool        mapped;             /* else allocated                                      */
} la_source;                        /* {0} is closed */

/* Opens path; "-" is standard input.  A stream may have at most `limit` bytes, and at most
 * half of the machine's memory.  LA_DATA: missing, a directory, not readable, a device, too
 * long a stream, or empty.  LA_IO: reading failed half way.  LA_NOMEM.  Closed after a failure. */
la_status la_source_open(la_source *s, const char *path, int64_t limit);
void      la_source_close(la_source *s);
#endif
