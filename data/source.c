/* source.c -- files are mapped, streams are read. */
#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static la_status cannot(const la_source *s, int error) {
    return la_fail(LA_DATA, "cannot read %s: %s", s->name, strerror(error));
}

/* Refuses what can never be a text. */
static la_status check_mode(const la_source *s, mode_t mode, bool terminal) {
    if (S_ISDIR(mode)) return cannot(s, EISDIR);
    if (S_ISSOCK(mode) || S_ISREG(mode) || S_ISFIFO(mode) || terminal) return LA_OK;
    return la_fail(LA_DATA,
                   "cannot read %s: it is a %s device, not a text, and may never end; give a "
                   "file, a FIFO, or - for standard input",
                   s->name, S_ISCHR(mode) ? "character" : "block");
}

static int64_t stream_limit(int64_t limit) {
    int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0 && pages / 2 < limit / page) return pages / 2 * page;
    return limit;
}

/* Reads fd to its end into memory that doubles: at most limit bytes. */
static la_status read_stream(la_source *s, int fd, int64_t limit) {
    char   *bytes = NULL;
    int64_t n = 0, room = 0;
    limit = stream_limit(limit);
    for (;;) {
        if (n == room) {
            room = room ? 2 * room : 1 << 16;
            if (room > limit + 1) room = limit + 1; /* one more, to see that there is more */
            char *larger = realloc(bytes, (size_t)room);
            if (!larger) {
                free(bytes);
                return la_fail(LA_NOMEM,
                               "no memory for more than %" PRId64 " bytes of %s; store "
                               "them in a file, which needs no memory",
                               n, s->name);
            }
            bytes = larger;
        }
        ssize_t got = read(fd, bytes + n, (size_t)(room - n));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            int error = errno;
            free(bytes);
            if (n == 0) return cannot(s, error);
            return la_fail(LA_IO, "reading %s failed after %" PRId64 " bytes: %s", s->name, n,
                           strerror(error));
        }
        if (got == 0) break;
        n += got;
        if (n > limit) {
            free(bytes);
            return la_fail(LA_DATA,
                           "%s has more than %" PRId64 " bytes, the most that is read "
                           "from a stream; store the text in a file",
                           s->name, limit);
        }
    }
    char *exact = n > 0 ? realloc(bytes, (size_t)n) : NULL;
    s->bytes = exact ? exact : bytes;
    s->n = n;
    return LA_OK;
}

/* Maps a regular file of n > 0 bytes.  LA_OK without a map: its file system has no maps. */
static la_status map_file(la_source *s, int fd, int64_t n) {
    void *p = mmap(NULL, (size_t)n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED && errno != ENOMEM) return LA_OK;
    if (p == MAP_FAILED)
        return la_fail(LA_NOMEM, "cannot map the %" PRId64 " bytes of %s: %s", n, s->name,
                       strerror(ENOMEM));
    s->bytes = p;
    s->n = n;
    s->mapped = true;
    return LA_OK;
}

static la_status take(la_source *s, int fd, bool standard, int64_t limit) {
    struct stat st;
    if (fstat(fd, &st) != 0) return cannot(s, errno);
    LA_TRY(check_mode(s, st.st_mode, standard && isatty(fd)));
    /* standard input may be a file of which a part has been read: only a whole one is mapped.
     * Files of /proc have size 0 and are not empty: those are read. */
    if (S_ISREG(st.st_mode) && st.st_size > 0 && (!standard || lseek(fd, 0, SEEK_CUR) == 0))
        LA_TRY(map_file(s, fd, st.st_size));
    if (!s->mapped) LA_TRY(read_stream(s, fd, limit));
    if (s->n == 0)
        return la_fail(LA_DATA,
                       "%s is empty: it has 0 bytes, so 0 tokens, and training needs at "
                       "least --block-size + 1 of them",
                       s->name);
    return LA_OK;
}

la_status la_source_open(la_source *s, const char *path, int64_t limit) {
    struct stat st;
    *s = (la_source){0};
    if (!path || limit < 0) return la_fail(LA_ARG, "a source needs a path and a limit >= 0");
    bool standard = strcmp(path, "-") == 0;
    la_file_name(standard ? "standard input" : path, s->name);
    int fd = STDIN_FILENO;
    if (!standard) {
        /* asked before opening, since opening a device can block or act on it */
        if (stat(path, &st) != 0) return cannot(s, errno);
        LA_TRY(check_mode(s, st.st_mode, false));
        do fd = open(path, O_RDONLY | O_CLOEXEC);
        while (fd < 0 && errno == EINTR);
        if (fd < 0) return cannot(s, errno);
    }
    la_status done = take(s, fd, standard, limit);
    if (!standard) close(fd);
    if (done != LA_OK) la_source_close(s);
    return done;
}

void la_source_close(la_source *s) {
    if (s->mapped)
        munmap((void *)(uintptr_t)s->bytes, (size_t)s->n);
    else
        free((void *)(uintptr_t)s->bytes);
    *s = (la_source){0};
}
