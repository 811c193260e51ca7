/* append.c -- pieces at the end of a file, each at its place; what was written of one that did not
 * fit is cut off again. */
#include "train/append.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/save_file.h"

static int cut(int fd, int64_t end) {
    int r;
    do r = ftruncate(fd, (off_t)end);
    while (r != 0 && errno == EINTR);
    return r;
}

la_status la_append_open(la_append *a, const char *path, int flags, int64_t end) {
    *a = (la_append){.fd = la_open(path, O_RDWR | O_CLOEXEC | flags), .end = end};
    int64_t size = a->fd < 0 ? -1 : lseek(a->fd, 0, SEEK_END);
    int     e = size < 0 ? errno : 0;
    if (end < 0) a->end = size;
    if (!e && a->end != size && cut(a->fd, end) != 0) e = errno;
    if (!e && !(a->path = strdup(path))) e = ENOMEM;
    if (!e) return LA_OK;
    if (a->fd >= 0) close(a->fd);
    *a = (la_append){0};
    return la_fail(e == ENOMEM ? LA_NOMEM : LA_IO, "cannot write %s: %s", path, strerror(e));
}

static void keep(la_append *a, const void *piece, size_t n) {
    if (a->n + n > a->room) {
        size_t room = 2 * (a->n + n);
        char  *late = room / 2 > LA_APPEND_LATE ? NULL : realloc(a->late, room);
        if (!late) {
            a->lost++;
            return;
        }
        a->late = late;
        a->room = room;
    }
    memcpy(a->late + a->n, piece, n);
    a->n += n;
}

/* 0, or the error number. */
static int add(la_append *a, const void *piece, size_t n) {
    int e = la_write_at(a->fd, piece, n, a->end);
    if (!e)
        a->end += (int64_t)n;
    else /* where that fails too, the next piece is written over it */
        (void)cut(a->fd, a->end);
    return e;
}

static int add_late(la_append *a) {
    int e = a->n ? add(a, a->late, a->n) : 0;
    if (!e) a->n = 0;
    return e;
}

la_status la_append_put(la_append *a, const void *piece, size_t n) {
    int e = add_late(a);
    if (!e) e = add(a, piece, n);
    if (!e) return LA_OK;
    keep(a, piece, n);
    return la_fail(LA_IO, "cannot write %s: %s", a->path, strerror(e));
}

void la_append_warn(la_append *a, la_status s) {
    if (s != LA_OK && !a->told) fprintf(stderr, "warning: %s; training goes on\n", la_error());
    a->told |= s != LA_OK;
}

la_status la_append_replace(la_append *a, size_t back, const void *piece, size_t n) {
    char    was[8];
    int64_t end = a->end, at = end - (int64_t)back;
    if (pread(a->fd, was, back, at) != (ssize_t)back)
        return la_fail(LA_IO, "cannot read the last %zu bytes of %s", back, a->path);
    int e = la_write_at(a->fd, piece, n, at);
    if (!e) {
        a->end = at + (int64_t)n;
        return LA_OK;
    }
    (void)!la_write_at(a->fd, was, back, at); /* it has its place on the disk, so it fits */
    (void)cut(a->fd, end);
    return la_fail(LA_IO, "cannot write %s: %s", a->path, strerror(e));
}

void la_append_close(la_append *a) {
    if (!a->path) return;
    int e = add_late(a);
    if (close(a->fd) != 0 && errno != EINTR && !e) e = errno;
    if (e || a->lost)
        fprintf(stderr, "warning: the end of %s is missing: %s\n", a->path,
                e ? strerror(e) : "there was no memory to keep it");
    free(a->path);
    free(a->late);
    *a = (la_append){0};
}
