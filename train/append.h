/* append.h -- a file that grows piece by piece (lines, records), on a disk that may be full.
 *
 * A piece that cannot be written is kept and goes out before the next one, once there is room; the
 * file ends after a whole piece whenever the program is killed. */
#ifndef LA_APPEND_H
#define LA_APPEND_H
#include "tensor/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct la_append {
    char   *path; /* NULL: not open */
    int     fd;
    int64_t end;  /* of the whole pieces in the file */
    char   *late; /* n bytes of pieces that wait, with nothing missing between them */
    size_t  n, room;
    int     told; /* the user was, of a first failure */
    int     full; /* a piece after the late ones was lost: none is kept until they are out */
    int64_t lost; /* pieces that were not even kept */
} la_append;

enum { LA_APPEND_LATE = 1 << 20 }; /* bytes that are kept at most */

/* flags: O_CREAT and others for open().  The file is cut to its first `end` bytes; -1: goes on
 * where it ends.  LA_IO, LA_NOMEM; *a is then as not open. */
la_status la_append_open(la_append *a, const char *path, int flags, int64_t end);
/* A last attempt, and a warning if something is missing for good.  Also of one that is all zeros.
 */
void      la_append_close(la_append *a);

/* LA_IO: not all of it is in the file now. */
la_status la_append_put(la_append *a, const void *piece, size_t n);
/* Tries again to write what waits.  LA_IO: it still does.  Also of one that is all zeros. */
la_status la_append_flush(la_append *a);
/* A failure is a warning on standard error, once for each file. */
void      la_append_warn(la_append *a, la_status s);
/* The last `back` (at most 8) bytes of all pieces give way to these; what waits is written before.
 * LA_IO: the file ends as it did.  LA_ARG: there are not so many. */
la_status la_append_replace(la_append *a, size_t back, const void *piece, size_t n);
/* Puts the file in the place of the one at `to`.  LA_IO, LA_NOMEM: neither is changed. */
la_status la_append_rename(la_append *a, const char *to);
#endif
