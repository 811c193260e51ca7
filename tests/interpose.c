/* interpose.c -- makes calls of a program fail:
 *
 *   LD_PRELOAD=build/release/bin/interpose.so LINA_FAIL=write:7:ENOSPC train ...
 *
 * LINA_FAIL=KIND:WHEN:HOW; without it calls are only counted.
 *
 *   KIND
 *   - read
 *   - write: also pwrite
 *   - sync: fsync, fdatasync
 *   - space: posix_fallocate
 *   - cut: ftruncate
 *   - rename: also link
 *   - open: also fopen, opendir
 *   - close
 *   - mmap
 *   - malloc: also calloc, realloc, aligned_alloc, posix_memalign
 *
 *   WHEN
 *   - 7: the seventh call
 *   - 7+: from the seventh on
 *   - 7-9: these three
 *
 *   HOW
 *   - the name of an error number
 *   - short: half of the bytes are read or written
 *   - kill: SIGKILL
 *   - term: SIGTERM, and the call is made
 *
 * LINA_FAIL_IN=train: only in the program of that name; else in every one.  A process that a
 * program forks counts from 0 by itself, under the name train-child, until it becomes another.
 *
 * LINA_FAIL_LOG=FILE: lines are added to FILE, those of a forked process before the next of its
 * parent.
 *
 *   - PROGRAM began: main() was reached
 *   - PROGRAM failed KIND N OBJECT: the first call that failed, and the program or library it was
 *     made by
 *   - PROGRAM died SIGNAL OBJECT...: a signal, and the objects on the stack, the innermost first
 *   - PROGRAM exit CODE OBJECT: exit() or _exit() was called, and by whom
 *   - PROGRAM calls KIND=N ...: at its end, how many calls there were
 *   - PROGRAM peak KIB: at its end, the address space at its largest
 *
 * Calls are counted from main() on, in all threads.  Standard streams are left alone: calls on
 * descriptors 0 to 2 are not counted.  stdio's own writes do not pass through write(), so fopen()
 * makes streams here that do. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KINDS(X)                                                                                   \
    X(read) X(write) X(sync) X(space) X(cut) X(rename) X(open) X(close) X(mmap) X(malloc)
typedef enum kind {
#define X(name) K_##name,
    KINDS(X)
#undef X
        N_KINDS
} kind;
static const char *const kind_name[N_KINDS] = {
#define X(name) #name,
    KINDS(X)
#undef X
};

#define FORKED "-child" /* behind the name of a program */
enum { LOG_FD = 900 };  /* out of the way: the program's own descriptors keep their numbers */

static atomic_int  counting;
static atomic_int  failing; /* this process is the one whose calls fail */
static atomic_long calls[N_KINDS];
static char        name[64]; /* of this process, in the lines */
static struct {
    kind kind;
    long first, last; /* last 0: none fails */
    int  error, half, signal;
} plan;

/* The function that this one stands before. */
#define NEXT(name)                                                                                 \
    (__extension__({                                                                               \
        static __typeof__(&name) next;                                                             \
        if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                              \
        next;                                                                                      \
    }))
#define CALLER __builtin_return_address(0)

/* --- what is noted --- */

static const char *object_of(const void *address) {
    Dl_info     d;
    const char *path = dladdr(address, &d) && d.dli_fname ? d.dli_fname : "?";
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Lines of forked processes, until their parent writes them: such a process may have closed the
 * log, and may be allowed to write no file. */
static struct forked {
    atomic_size_t n;
    char          text[1 << 16]; /* 0 where a line is not whole yet */
} * forked;
static int    is_forked;
static size_t written; /* of forked->text */

static void put(const char *line, size_t n) {
    if (is_forked) {
        size_t at = atomic_fetch_add(&forked->n, n);
        if (at + n < sizeof forked->text) memcpy(forked->text + at, line, n);
        return;
    }
    size_t theirs = strlen(forked->text + written);
    (void)!NEXT(write)(LOG_FD, forked->text + written, theirs);
    written += theirs;
    (void)!NEXT(write)(LOG_FD, line, n);
}

static void note(const char *format, ...) {
    char    line[1024];
    int     before = errno;
    va_list ap;
    int     n = snprintf(line, sizeof line, "%s ", name);
    va_start(ap, format);
    n += vsnprintf(line + n, sizeof line - (size_t)n, format, ap);
    va_end(ap);
    if (n >= (int)sizeof line) n = sizeof line - 1;
    line[n++] = '\n';
    if (counting) put(line, (size_t)n);
    errno = before;
}

static void on_death(int number) {
    char  objects[800] = "";
    void *at[64];
    int   n = backtrace(at, 64);
    for (int i = 1; i < n; i++) {
        const char *object = object_of(at[i]);
        if (strlen(objects) + strlen(object) + 2 > sizeof objects) break;
        strcat(strcat(objects, " "), object);
    }
    note("died %d%s", number, objects);
    raise(number); /* its handler is gone */
}

static char other_stack[1 << 16]; /* for on_death, where the usual one is used up */

/* --- start and end --- */

static int error_number(const char *wanted) {
    static const struct {
        const char *name;
        int         number;
    } errors[] = {
#define X(e) {#e, e}
        X(ENOSPC), X(EIO),    X(EINTR),  X(EDQUOT), X(ENOMEM),     X(EMFILE),
        X(EACCES), X(ENODEV), X(EINVAL), X(EPERM),  X(EOPNOTSUPP), X(EFBIG),
#undef X
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (!strcmp(wanted, errors[i].name)) return errors[i].number;
    return 0;
}

static int parse(const char *spec) {
    char word[16], when[32], how[16], *end;
    if (sscanf(spec, "%15[^:]:%31[^:]:%15s", word, when, how) != 3) return 0;
    for (plan.kind = 0; plan.kind < N_KINDS && strcmp(word, kind_name[plan.kind]);) plan.kind++;
    plan.first = plan.last = strtol(when, &end, 10);
    if (*end == '+') plan.last = LONG_MAX, end++;
    if (*end == '-') plan.last = strtol(end + 1, &end, 10);
    plan.half = !strcmp(how, "short");
    plan.signal = !strcmp(how, "kill") ? SIGKILL : !strcmp(how, "term") ? SIGTERM : 0;
    plan.error = error_number(how);
    return plan.kind < N_KINDS && !*end && plan.first > 0 &&
           (plan.half || plan.signal || plan.error);
}

/* This process has that name: whether LINA_FAIL_IN means it. */
static int is_meant(void) {
    const char *in = getenv("LINA_FAIL_IN");
    return !in || !strcmp(in, name);
}

static void begin(void) {
    static const int deaths[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    const char      *in = getenv("LINA_FAIL_IN"), *spec = getenv("LINA_FAIL");
    const char      *us = program_invocation_short_name;
    size_t           n = strlen(us);
    const char      *path = getenv("LINA_FAIL_LOG");
    void            *at[2];
    if (in && (strncmp(in, us, n) || (in[n] && strcmp(in + n, FORKED)))) return;
    snprintf(name, sizeof name, "%.*s", (int)(sizeof name - sizeof FORKED), us);
    if (spec && *spec && !parse(spec)) {
        fprintf(stderr, "interpose: LINA_FAIL=%s is not KIND:WHEN:HOW\n", spec);
        _exit(2);
    }
    int fd = path ? NEXT(open)(path, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
    if (fd >= 0) {
        fcntl(fd, F_DUPFD_CLOEXEC, LOG_FD);
        NEXT(close)(fd);
    }
    forked =
        NEXT(mmap)(NULL, sizeof *forked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (forked == MAP_FAILED) return;
    backtrace(at, 2); /* loads what it needs now */
    sigaltstack(&(stack_t){.ss_sp = other_stack, .ss_size = sizeof other_stack}, NULL);
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++)
        sigaction(
            deaths[i],
            &(struct sigaction){.sa_handler = on_death, .sa_flags = SA_ONSTACK | SA_RESETHAND},
            NULL);
    failing = is_meant();
    counting = 1;
    note("began");
}

static void note_calls(void) {
    char line[512] = "";
    for (int i = 0; i < N_KINDS; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), " %s=%ld", kind_name[i],
                 (long)calls[i]);
    note("calls%s", line);
}

__attribute__((destructor)) static void end(void) {
    note_calls();
    char  status[4096] = "";
    int   fd = NEXT(open)("/proc/self/status", O_RDONLY);
    char *peak =
        fd >= 0 && NEXT(read)(fd, status, sizeof status - 1) > 0 ? strstr(status, "VmPeak:") : NULL;
    if (peak) note("peak %ld", strtol(peak + 7, NULL, 10));
}

__attribute__((noreturn)) void exit(int code) {
    note("exit %d %s", code, object_of(CALLER));
    NEXT(exit)(code);
    __builtin_unreachable();
}

__attribute__((noreturn)) void _exit(int code) {
    note("exit %d %s", code, object_of(CALLER));
    note_calls();
    NEXT(_exit)(code);
    __builtin_unreachable();
}

pid_t fork(void) {
    pid_t child = NEXT(fork)();
    if (child != 0 || !counting) return child;
    is_forked = 1;
    strcat(name, FORKED);
    for (int i = 0; i < N_KINDS; i++) calls[i] = 0;
    failing = is_meant();
    return child;
}

typedef int     main_fn(int, char **, char **);
static main_fn *program;
static int      counted_main(int argc, char **argv, char **environment) {
         begin();
         return program(argc, argv, environment);
}

int __libc_start_main(main_fn *, int, char **, void (*)(void), void (*)(void), void (*)(void),
                      void *);
int __libc_start_main(main_fn *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack_end) {
    program = main;
    return NEXT(__libc_start_main)(counted_main, argc, argv, init, fini, loader_fini, stack_end);
}

/* Counts a call.  Whether it is to be disturbed; errno is set then. */
static int hit(kind k, const void *caller) {
    if (!counting) return 0;
    long n = atomic_fetch_add(&calls[k], 1) + 1;
    if (!failing || k != plan.kind || n < plan.first || n > plan.last) return 0;
    if (n == plan.first) note("failed %s %ld %s", kind_name[k], n, object_of(caller));
    if (plan.signal) return raise(plan.signal), 0;
    errno = plan.error;
    return 1;
}

/* --- bytes --- */

typedef ssize_t transfer(int fd, void *bytes, size_t n, off_t at);

static ssize_t by_read(int fd, void *p, size_t n, off_t at) {
    return (void)at, NEXT(read)(fd, p, n);
}
static ssize_t by_write(int fd, void *p, size_t n, off_t at) {
    return (void)at, NEXT(write)(fd, p, n);
}
static ssize_t by_pwrite(int fd, void *p, size_t n, off_t at) { return NEXT(pwrite)(fd, p, n, at); }

static ssize_t disturbed(kind k, transfer *real, int fd, const void *bytes, size_t n, off_t at,
                         const void *caller) {
    if (fd > STDERR_FILENO && hit(k, caller)) {
        if (!plan.half) return -1;
        n = n > 1 ? n / 2 : n;
    }
    return real(fd, (void *)(uintptr_t)bytes, n, at);
}

ssize_t read(int fd, void *bytes, size_t n) {
    return disturbed(K_read, by_read, fd, bytes, n, 0, CALLER);
}
ssize_t write(int fd, const void *bytes, size_t n) {
    return disturbed(K_write, by_write, fd, bytes, n, 0, CALLER);
}
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) {
    return disturbed(K_write, by_pwrite, fd, bytes, n, at, CALLER);
}

/* --- files --- */

static int close_for(int fd, const void *caller) {
    int failed = fd > STDERR_FILENO && hit(K_close, caller), error = errno;
    int r = NEXT(close)(fd); /* a close that fails has closed */
    if (!failed) return r;
    errno = error;
    return -1;
}
int close(int fd) { return close_for(fd, CALLER); }

static int open_for(const char *path, int flags, mode_t mode, const void *caller) {
    return hit(K_open, caller) ? -1 : NEXT(open)(path, flags, mode);
}
int open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return open_for(path, flags, mode, CALLER);
}
DIR *opendir(const char *path) { return hit(K_open, CALLER) ? NULL : NEXT(opendir)(path); }

int fsync(int fd) { return hit(K_sync, CALLER) ? -1 : NEXT(fsync)(fd); }
int fdatasync(int fd) { return hit(K_sync, CALLER) ? -1 : NEXT(fdatasync)(fd); }
int posix_fallocate(int fd, off_t at, off_t n) {
    return hit(K_space, CALLER) ? plan.error : NEXT(posix_fallocate)(fd, at, n);
}
int ftruncate(int fd, off_t n) { return hit(K_cut, CALLER) ? -1 : NEXT(ftruncate)(fd, n); }
int rename(const char *from, const char *to) {
    return hit(K_rename, CALLER) ? -1 : NEXT(rename)(from, to);
}
int link(const char *from, const char *to) {
    return hit(K_rename, CALLER) ? -1 : NEXT(link)(from, to);
}
void *mmap(void *where, size_t n, int protection, int flags, int fd, off_t at) {
    return hit(K_mmap, CALLER) ? MAP_FAILED : NEXT(mmap)(where, n, protection, flags, fd, at);
}

/* --- streams --- */

static ssize_t stream_read(void *cookie, char *bytes, size_t n) {
    return disturbed(K_read, by_read, (int)(intptr_t)cookie, bytes, n, 0, (void *)fopen);
}
static ssize_t stream_write(void *cookie, const char *bytes,
                            size_t n) { /* as glibc's: to the end */
    size_t done = 0;
    while (done < n) {
        ssize_t did = disturbed(K_write, by_write, (int)(intptr_t)cookie, bytes + done, n - done, 0,
                                (void *)fopen);
        if (did < 0) break;
        done += (size_t)did;
    }
    return (ssize_t)done;
}
static int stream_seek(void *cookie, off64_t *at, int whence) {
    off_t to = lseek((int)(intptr_t)cookie, *at, whence);
    if (to >= 0) *at = to;
    return to < 0 ? -1 : 0;
}
static int stream_close(void *cookie) { return close_for((int)(intptr_t)cookie, (void *)fopen); }

FILE *fopen(const char *path, const char *mode) {
    static const cookie_io_functions_t io = {stream_read, stream_write, stream_seek, stream_close};
    int                                both = strchr(mode, '+') != NULL;
    int flags = *mode == 'r' ? 0 : O_CREAT | (*mode == 'w' ? O_TRUNC : O_APPEND);
    flags |= both ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
    int fd = open_for(path, flags, 0666, CALLER);
    if (fd < 0) return NULL;
    FILE *f = fopencookie((void *)(intptr_t)fd, mode, io);
    if (!f) NEXT(close)(fd);
    return f;
}

/* --- memory: glibc's own names need no look-up, which would need memory --- */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n) { return hit(K_malloc, CALLER) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) {
    return hit(K_malloc, CALLER) ? NULL : __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) { return hit(K_malloc, CALLER) ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t align, size_t n) {
    return hit(K_malloc, CALLER) ? NULL : __libc_memalign(align, n);
}
int posix_memalign(void **p, size_t align, size_t n) {
    int before = errno;
    if (hit(K_malloc, CALLER) || !(*p = __libc_memalign(align, n))) {
        errno = before;
        return ENOMEM;
    }
    return 0;
}

/* The same under the names of files of more than 2 GiB: off_t has 64 bits here. */
_Static_assert(sizeof(off_t) == 8, "64 bits");
#define ALSO(name) __attribute__((alias(#name)))
ssize_t pwrite64(int, const void *, size_t, off64_t) ALSO(pwrite);
int     open64(const char *, int, ...) ALSO(open);
FILE   *fopen64(const char *, const char *) ALSO(fopen);
int     posix_fallocate64(int, off64_t, off64_t) ALSO(posix_fallocate);
int     ftruncate64(int, off64_t) ALSO(ftruncate);
void   *mmap64(void *, size_t, int, int, int, off64_t) ALSO(mmap);
