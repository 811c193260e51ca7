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

#include "tensor/words.h"
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

static int make_room(la_append *a, size_t n) {
    size_t need = a->n + n, room = 2 * need < LA_APPEND_LATE ? 2 * need : LA_APPEND_LATE;
    if (need <= a->room) return 1;
    char *late = need > LA_APPEND_LATE ? NULL : realloc(a->late, room);
    if (!late) return 0;
    a->late = late;
    a->room = room;
    return 1;
}

/* After the first that is lost no smaller one either: what is missing then is in one place. */
static void keep(la_append *a, const void *piece, size_t n) {
    a->full = a->full || !make_room(a, n);
    if (a->full) {
        a->lost++;
        return;
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
    if (!e) a->n = 0, a->full = 0;
    return e;
}

static la_status failed(const la_append *a, int e) {
    return la_fail(LA_IO, "cannot write %s: %s", a->path, strerror(e));
}

la_status la_append_put(la_append *a, const void *piece, size_t n) {
    int e = add_late(a);
    if (!e) e = add(a, piece, n);
    if (!e) return LA_OK;
    keep(a, piece, n);
    return failed(a, e);
}

la_status la_append_flush(la_append *a) {
    int e = add_late(a);
    return e ? failed(a, e) : LA_OK;
}

void la_append_warn(la_append *a, la_status s) {
    if (s != LA_OK && !a->told) fprintf(stderr, "warning: %s; training goes on\n", la_error());
    a->told |= s != LA_OK;
}

la_status la_append_replace(la_append *a, size_t back, const void *piece, size_t n) {
    char was[8];
    LA_TRY(la_append_flush(a));
    int64_t end = a->end, at = end - (int64_t)back;
    if (back > sizeof was || at < 0)
        return la_fail(LA_ARG,
                       "%zu bytes of %s cannot be replaced: there are %" PRId64
                       ", and %zu are possible",
                       back, a->path, end, sizeof was);
    if (pread(a->fd, was, back, at) != (ssize_t)back)
        return la_fail(LA_IO, "cannot read the last %zu bytes of %s", back, a->path);
    int e = la_write_at(a->fd, piece, n, at);
    if (!e) {
        a->end = at + (int64_t)n;
        return LA_OK;
    }
    (void)!la_write_at(a->fd, was, back, at); /* it has its place on the disk, so it fits */
    (void)cut(a->fd, end);
    return failed(a, e);
}

la_status la_append_rename(la_append *a, const char *to) {
    char *path = strdup(to);
    if (!path) return la_fail(LA_NOMEM, "no memory for the name %s", to);
    if (rename(a->path, to) != 0) {
        int e = errno;
        free(path);
        return la_fail(LA_IO, "cannot write %s: %s", to, strerror(e));
    }
    free(a->path);
    a->path = path;
    return LA_OK;
}

void la_append_close(la_append *a) {
    char name[LA_FILE_NAME];
    if (!a->path) return;
    la_file_name(a->path, name);
    int e = add_late(a);
    if (close(a->fd) != 0 && errno != EINTR && !e) e = errno;
    if (e) fprintf(stderr, "warning: the end of %s is missing: %s\n", name, strerror(e));
    if (a->lost)
        fprintf(stderr,
                "warning: of %s %" PRId64 " lines or records are missing: while it could not be "
                "written there was no room to keep them (%d bytes at most)\n",
                name, a->lost, LA_APPEND_LATE);
    free(a->path);
    free(a->late);
    *a = (la_append){0};
}
