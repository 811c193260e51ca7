/* save_file.c -- write a temporary, sync it, rename it; read and verify.
 *
 * A reader of `path` sees the old file or the new one, each whole, at whatever moment the program
 * or the machine stops: the new bytes are on the disk before their name is (fsync, then rename),
 * and the name is when we return (fsync of the folder).  Space is asked for first, so that a full
 * disk is noticed before anything is written. */
#include "train/save_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/hash.h"
#include "tensor/words.h"
#include "train/system.h"

enum { AT_FORMAT = 8, AT_LENGTH = 16, AT_HASH = 24, PART = 1 << 26 };

#define SIZE_MOST (INT64_C(64) << 30) /* bytes of a file that is read */

static const unsigned char magic[8] = {0x89, 'L', 'I', 'N', 'A', '\r', '\n', 0x1A};
static const unsigned char hdf5_magic[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'};

static void put64(unsigned char *p, uint64_t x) {
    for (int i = 0; i < 8; i++) p[i] = (unsigned char)(x >> 8 * i);
}

static uint64_t get64(const unsigned char *p) {
    uint64_t x = 0;
    for (int i = 0; i < 8; i++) x |= (uint64_t)p[i] << 8 * i;
    return x;
}

/* Of the block without its own field, and the image. */
static uint64_t hash_of(const unsigned char *bytes, size_t n) {
    static const unsigned char zero[8];
    uint64_t                   h = la_hash64(LA_HASH64_START, bytes, AT_HASH);
    h = la_hash64(h, zero, sizeof zero);
    return la_hash64(h, bytes + AT_HASH + 8, n - AT_HASH - 8);
}

/* ---- saving ----------------------------------------------------------------------------- */

/* 0, or the error number.  File systems that cannot reserve space are not an error. */
static int reserve(int fd, size_t n) {
    int e;
    do e = posix_fallocate(fd, 0, (off_t)n);
    while (e == EINTR);
    return e == EINVAL || e == EOPNOTSUPP || e == ENOSYS ? 0 : e;
}

int la_open(const char *path, int flags) {
    int fd;
    do fd = open(path, flags, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

int la_write_at(int fd, const void *bytes, size_t n, int64_t at) {
    const unsigned char *p = bytes;
    while (n) {
        ssize_t did = pwrite(fd, p, n < PART ? n : PART, (off_t)at);
        if (did < 0 && errno == EINTR) continue;
        if (did < 0) return errno;
        if (did == 0) return EIO; /* no progress and no reason: do not try for ever */
        p += did;
        at += did;
        n -= (size_t)did;
    }
    return 0;
}

static int sync_file(int fd) {
    int r;
    do r = fsync(fd);
    while (r != 0 && errno == EINTR);
    return r ? errno : 0;
}

/* The folder keeps the name.  One that may not be read, or has no fsync, cannot be synced. */
static int sync_folder(const char *path) {
    char *folder = strdup(path);
    if (!folder) return ENOMEM;
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = 0;
    int fd = la_open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int e = fd < 0 ? errno : sync_file(fd);
    if (fd >= 0) close(fd);
    free(folder);
    return e == EACCES || e == EINVAL ? 0 : e;
}

/* Makes the file `temporary` with these bytes.  On failure it is gone again, *what says what
 * failed. */
static int write_temporary(const char *temporary, const unsigned char *bytes, size_t n,
                           const char **what) {
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, fd = la_open(temporary, flags);
    *what = "creating a temporary file beside it";
    if (fd < 0 && errno == EEXIST) { /* of a killed process that had our number */
        unlink(temporary);
        fd = la_open(temporary, flags);
    }
    if (fd < 0) return errno;
    *what = "reserving the space";
    int e = reserve(fd, n);
    if (!e) {
        *what = "writing";
        e = la_write_at(fd, bytes, n, 0);
    }
    if (!e) {
        *what = "syncing";
        e = sync_file(fd);
    }
    if (close(fd) != 0 && !e && errno != EINTR) { /* EINTR: closed nevertheless, and synced */
        *what = "closing";
        e = errno;
    }
    if (e) unlink(temporary);
    return e;
}

static la_status replace(const char *target, const char *path, const unsigned char *bytes,
                         size_t n) {
    char        name[LA_FILE_NAME];
    const char *what;
    size_t      room = strlen(target) + 32;
    char       *temporary = malloc(room);
    if (!temporary) return la_fail(LA_NOMEM, "no memory for a path of %zu bytes", room);
    snprintf(temporary, room, "%s.tmp.%ld", target, (long)getpid());
    int e = write_temporary(temporary, bytes, n, &what);
    if (!e && rename(temporary, target) != 0) {
        e = errno;
        what = "renaming the temporary file";
        unlink(temporary);
    }
    free(temporary);
    if (e)
        return la_fail(LA_IO,
                       "saving %s (%zu bytes) failed while %s: %s; the previous file there, "
                       "if there was one, is intact",
                       la_file_name(path, name), n, what, strerror(e));
    e = sync_folder(target);
    if (e)
        return la_fail(LA_IO,
                       "%s (%zu bytes) is written and whole, but syncing its folder failed: %s; "
                       "after a power failure the previous file may be there instead",
                       la_file_name(path, name), n, strerror(e));
    return LA_OK;
}

void la_file_seal(unsigned char *bytes, size_t n) {
    memset(bytes, 0, LA_BLOCK);
    memcpy(bytes, magic, sizeof magic);
    put64(bytes + AT_FORMAT, LA_FILE_FORMAT);
    put64(bytes + AT_LENGTH, n - LA_BLOCK);
    put64(bytes + AT_HASH, hash_of(bytes, n));
}

la_status la_file_save(const char *path, unsigned char *bytes, size_t n) {
    la_file_seal(bytes, n);
    return la_file_put(path, bytes, n);
}

la_status la_file_put(const char *path, const unsigned char *bytes, size_t n) {
    char        name[LA_FILE_NAME];
    struct stat st;
    /* a rename would put a file in the place of a device; through a link it goes to the link's
     * target */
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return la_fail(LA_IO,
                       "saving %s (%zu bytes) failed: there is something that is no regular file",
                       la_file_name(path, name), n);
    char     *target = realpath(path, NULL);
    la_status done = replace(target ? target : path, path, bytes, n);
    free(target);
    return done;
}

/* ---- reading ---------------------------------------------------------------------------- */

/* A descriptor of a regular file and its size. */
static la_status open_regular(int *fd, int64_t *size, const char *path) {
    char        name[LA_FILE_NAME];
    struct stat st;
    la_file_name(path, name);
    *fd = -1;
    /* asked before opening, since opening a device can act on it; and after, since names change
     * hands */
    if (stat(path, &st) != 0) return la_fail(LA_IO, "cannot read %s: %s", name, strerror(errno));
    if (S_ISREG(st.st_mode)) {
        *fd = la_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (*fd < 0 || fstat(*fd, &st) != 0) {
            int e = errno;
            if (*fd >= 0) close(*fd);
            return la_fail(LA_IO, "cannot read %s: %s", name, strerror(e));
        }
    }
    *size = st.st_size;
    if (S_ISREG(st.st_mode)) return LA_OK;
    if (*fd >= 0) close(*fd);
    return la_fail(LA_IO, "cannot read %s: it is a %s, not a regular file", name,
                   S_ISDIR(st.st_mode)    ? "directory"
                   : S_ISFIFO(st.st_mode) ? "FIFO"
                                          : "device or socket");
}

/* Reads n bytes, or as many as there are; -1 with errno. */
static int64_t read_all(int fd, unsigned char *p, int64_t n) {
    int64_t at = 0;
    while (at < n) {
        ssize_t got = read(fd, p + at, (size_t)(n - at < PART ? n - at : PART));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        at += got;
    }
    return at;
}

/* n bytes at p, or a sentence. */
static la_status read_exactly(int fd, unsigned char *p, int64_t n, const char *name) {
    int64_t got = read_all(fd, p, n);
    if (got < 0) return la_fail(LA_IO, "reading %s failed: %s", name, strerror(errno));
    if (got < n)
        return la_fail(LA_IO, "%s became shorter while it was read: %" PRId64 " bytes are missing",
                       name, n - got);
    return LA_OK;
}

static la_status check_block(const unsigned char *block, int64_t size, const char *name) {
    if (memcmp(block, magic, sizeof magic) != 0 && memcmp(block, hdf5_magic, sizeof magic) == 0)
        return la_fail(
            LA_FORMAT,
            "%s is an HDF5 file that was not written by this program, so nothing vouches "
            "for it; --init-from FILE --trust-file reads its weights",
            name);
    if (memcmp(block, magic, sizeof magic) != 0)
        return la_fail(LA_FORMAT,
                       "%s is not a checkpoint: its first %zu bytes are not those of one", name,
                       sizeof magic);
    uint64_t format = get64(block + AT_FORMAT), length = get64(block + AT_LENGTH);
    if (format != LA_FILE_FORMAT)
        return la_fail(LA_FORMAT, "%s has format %" PRIu64 "; this program reads format %d", name,
                       format, LA_FILE_FORMAT);
    if (length > (uint64_t)(size - LA_BLOCK))
        return la_fail(LA_FORMAT,
                       "%s is truncated or damaged: it has %" PRId64
                       " bytes after its first %d, and they say that there are %" PRIu64,
                       name, size - LA_BLOCK, LA_BLOCK, length);
    return LA_OK;
}

/* More than is free may be given out all the same, and the process be killed when it is filled. */
static la_status room_for(unsigned char **bytes, size_t n, const char *name) {
    size_t left = la_memory_available();
    if (left && n > left)
        return la_fail(LA_NOMEM, "no memory for the %zu bytes of %s: %zu are free", n, name, left);
    *bytes = malloc(n);
    return *bytes ? LA_OK : la_fail(LA_NOMEM, "no memory for the %zu bytes of %s", n, name);
}

static la_status load(int fd, int64_t size, unsigned char **bytes, size_t *n, const char *name) {
    unsigned char block[LA_BLOCK];
    if (size < LA_BLOCK)
        return la_fail(LA_FORMAT,
                       "%s is not a checkpoint, or is truncated: it has %" PRId64
                       " bytes, and one begins with a block of %d",
                       name, size, LA_BLOCK);
    LA_TRY(read_exactly(fd, block, LA_BLOCK, name));
    LA_TRY(check_block(block, size, name));
    int64_t length = (int64_t)get64(block + AT_LENGTH);
    if (length > SIZE_MOST)
        return la_fail(LA_FORMAT, "%s has %" PRId64 " bytes; at most %" PRId64 " are read", name,
                       length, SIZE_MOST);
    *n = (size_t)length + LA_BLOCK;
    LA_TRY(room_for(bytes, *n, name));
    memcpy(*bytes, block, LA_BLOCK);
    LA_TRY(read_exactly(fd, *bytes + LA_BLOCK, length, name));
    uint64_t found = hash_of(*bytes, *n), noted = get64(block + AT_HASH);
    if (found != noted)
        return la_fail(LA_FORMAT,
                       "%s is damaged, or was edited: the hash of its %zu bytes is %016" PRIx64
                       ", and it notes %016" PRIx64,
                       name, *n, found, noted);
    return LA_OK;
}

static la_status read_any(int fd, int64_t size, unsigned char **bytes, size_t *n,
                          const char *name) {
    if (size < 1 || size > SIZE_MOST)
        return la_fail(LA_FORMAT, "%s has %" PRId64 " bytes; 1 to %" PRId64 " can be read", name,
                       size, SIZE_MOST);
    *n = (size_t)size;
    LA_TRY(room_for(bytes, *n, name));
    return read_exactly(fd, *bytes, size, name);
}

static la_status with_file(unsigned char **bytes, size_t *n, const char *path, int verify) {
    char    name[LA_FILE_NAME];
    int     fd;
    int64_t size;
    *bytes = NULL;
    LA_TRY(open_regular(&fd, &size, path));
    la_status done = (verify ? load : read_any)(fd, size, bytes, n, la_file_name(path, name));
    close(fd);
    if (done != LA_OK) {
        free(*bytes);
        *bytes = NULL;
    }
    return done;
}

la_status la_file_load(unsigned char **bytes, size_t *n, const char *path) {
    return with_file(bytes, n, path, 1);
}

la_status la_file_read(unsigned char **bytes, size_t *n, const char *path) {
    return with_file(bytes, n, path, 0);
}

int la_file_is_ours(const char *path) {
    unsigned char head[sizeof magic];
    int           fd;
    int64_t       size;
    if (open_regular(&fd, &size, path) != LA_OK) return 0;
    int ours = read_all(fd, head, sizeof head) == sizeof head && !memcmp(head, magic, sizeof head);
    close(fd);
    return ours;
}

int la_file_is_damaged(const char *path) {
    unsigned char block[LA_BLOCK], *bytes = NULL;
    size_t        n;
    int           fd;
    int64_t       size;
    if (open_regular(&fd, &size, path) != LA_OK) return 0;
    int64_t got = read_all(fd, block, LA_BLOCK);
    close(fd);
    if (got >= 0 && got < LA_BLOCK) return 1;
    if (got < 0 || memcmp(block, magic, sizeof magic) || get64(block + AT_FORMAT) != LA_FILE_FORMAT)
        return 0;
    la_status s = la_file_load(&bytes, &n, path);
    free(bytes);
    return s == LA_FORMAT;
}
