/* confined.c -- a child process with limits, and what is made of its end. */
#include "train/confined.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "tensor/arena.h"
#include "tensor/parallel.h"
#include "tensor/words.h"

enum {
    FINISHED = 0x4C494E41,
    WAITS = 20 /* times the seconds of computing: on a busy machine it takes longer than that */
};

/* Shared with the child; the room follows, at a multiple of LA_ALIGN. */
typedef struct answer {
    int  finished; /* FINISHED: the rest is filled in */
    int  status;
    char sentence[1024];
} answer;

static size_t head_bytes(void) { return (sizeof(answer) + LA_ALIGN - 1) / LA_ALIGN * LA_ALIGN; }

/* ---- in the child ----------------------------------------------------------------------- */

/* Bytes of address space in use, from which the limit counts; 0: not known. */
static size_t address_space(void) {
    unsigned long pages = 0;
    FILE         *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    if (fscanf(f, "%lu", &pages) != 1) pages = 0;
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static rlim_t least(rlim_t a, rlim_t b) { return a < b ? a : b; }

/* `most` and, where passing that is told by a signal, `spare` more until the end. */
static void limit(int what, rlim_t most, rlim_t spare) {
    struct rlimit r;
    if (getrlimit(what, &r) != 0) return;
    most = least(most, r.rlim_cur);
    r.rlim_max = least(r.rlim_max, most + spare);
    r.rlim_cur = least(r.rlim_max, most);
    setrlimit(what, &r);
}

/* Faults end it.  What is meant for the program does not: the parent answers for that, and takes
 * the child along when it goes. */
static void take_signals(pid_t parent) {
    static const int ends[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGALRM};
    static const int parents[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    sigset_t         none;
    struct sigaction by_default = {.sa_handler = SIG_DFL}, ignored = {.sa_handler = SIG_IGN};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) sigaction(ends[i], &by_default, NULL);
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++)
        sigaction(parents[i], &ignored, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) _exit(1); /* it was gone before that */
}

/* Its metrics, its lock: what the program has open is not the child's. */
static void close_all(void) {
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 0U, ~0U, 0U) == 0) return;
#endif
    enum { MOST = 1 << 16 }; /* the limit may be a thousand million */
    long most = sysconf(_SC_OPEN_MAX);
    if (most < 0 || most > MOST) most = MOST;
    for (int fd = 0; fd < most; fd++) close(fd);
}

static void confine(const la_confined *c, pid_t parent) {
    take_signals(parent);
    struct itimerval until = {.it_value.tv_sec = (time_t)WAITS * c->seconds};
    setitimer(ITIMER_REAL, &until, NULL);
    limit(RLIMIT_CPU, (rlim_t)c->seconds, 1);
    limit(RLIMIT_CORE, 0, 0);
    limit(RLIMIT_FSIZE, 0, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* those reserve terabytes */
    size_t used = address_space();
    if (used) limit(RLIMIT_AS, (rlim_t)used + c->memory, 0);
#else
    (void)address_space;
#endif
    close_all();
    /* libc reports a damaged heap on standard error: the parent's sentence is enough */
    for (int fd = 0; fd <= 2; fd++) (void)!open("/dev/null", O_RDWR);
    limit(RLIMIT_NOFILE, 0, 0);
    limit(RLIMIT_NPROC, 0, 0);
}

/* ---- in the parent ---------------------------------------------------------------------- */

/* Of computing, after which the system ends the child. */
static int seconds_of(const la_confined *c) {
    struct rlimit r;
    int           bounded = getrlimit(RLIMIT_CPU, &r) == 0 && r.rlim_cur < (rlim_t)c->seconds;
    return bounded ? (int)r.rlim_cur : c->seconds;
}

static double seconds_in(const struct timeval *t) {
    return (double)t->tv_sec + 1e-6 * (double)t->tv_usec;
}

/* The sentence for a child that a signal ended after so many seconds of computing. */
static la_status ended_by(const la_confined *c, int by, double computed) {
    /* The limit is held against ticks of the clock, and may seem to come before its time. */
    double slack = .5;
    if (by == SIGKILL && computed + slack < seconds_of(c))
        return la_fail(LA_NOMEM,
                       "reading %s was ended by signal %d (%s) after %.1f seconds of computing: "
                       "the system does that where memory runs out; try again with more of it free",
                       c->name, by, strsignal(by), computed);
    if (by == SIGXCPU || by == SIGKILL)
        return la_fail(LA_FORMAT,
                       "reading %s was ended by signal %d (%s), as it is after %d seconds of "
                       "computing; the file is damaged or hostile",
                       c->name, by, strsignal(by), seconds_of(c));
    if (by == SIGALRM)
        return la_fail(LA_FORMAT,
                       "reading %s did not end within %d seconds, of which it computed for %.1f; "
                       "the file is damaged or hostile",
                       c->name, WAITS * c->seconds, computed);
    return la_fail(LA_FORMAT,
                   "reading %s ended the reader by signal %d (%s); the file is damaged or hostile",
                   c->name, by, strsignal(by));
}

static la_status wait_for(const la_confined *c, pid_t child, const answer *a) {
    struct rusage used = {0};
    int           how = 0;
    pid_t         got;
    do got = wait4(child, &how, 0, &used);
    while (got < 0 && errno == EINTR);
    if (got < 0) /* somebody else waits for our children, or SIGCHLD is ignored */
        return a->finished == FINISHED
                   ? LA_OK
                   : la_fail(LA_FORMAT, "the process that reads %s was lost: %s", c->name,
                             strerror(errno));
    if (WIFSIGNALED(how))
        return ended_by(c, WTERMSIG(how), seconds_in(&used.ru_utime) + seconds_in(&used.ru_stime));
    if (WEXITSTATUS(how) != 0 || a->finished != FINISHED)
        return la_fail(
            LA_FORMAT,
            "reading %s ended the reader with exit code %d; the file is damaged or hostile",
            c->name, WEXITSTATUS(how));
    return LA_OK;
}

/* Its status and its sentence, looked at as if the file said them. */
static la_status repeat(const answer *a) {
    char sentence[sizeof a->sentence];
    if (a->status == LA_OK) return LA_OK;
    memcpy(sentence, a->sentence, sizeof sentence);
    sentence[sizeof sentence - 1] = 0;
    la_make_printable(sentence);
    return la_fail(a->status == LA_NOMEM ? LA_NOMEM : LA_FORMAT, "%s", sentence);
}

la_status la_confined_run(la_confined *c, la_confined_fn *fn, void *ctx) {
    size_t all = head_bytes() + c->bytes;
    c->room = NULL;
    answer *a =
        mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a == MAP_FAILED)
        return la_fail(LA_NOMEM, "no memory for the %zu bytes in which %s is read", all, c->name);
    void *room = (char *)a + head_bytes();
    la_threads_release(); /* OpenMP's workers do not live on in a child */
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        confine(c, parent);
        a->status = fn(ctx, room, c->bytes);
        snprintf(a->sentence, sizeof a->sentence, "%s", la_error());
        a->finished = FINISHED;
        _exit(0);
    }
    la_status done = child < 0 ? la_fail(LA_NOMEM, "cannot start a process to read %s: %s", c->name,
                                         strerror(errno))
                               : wait_for(c, child, a);
    if (done == LA_OK) done = repeat(a);
    if (done == LA_OK)
        c->room = room;
    else
        munmap(a, all);
    return done;
}

void la_confined_free(la_confined *c) {
    if (c->room) munmap((char *)c->room - head_bytes(), head_bytes() + c->bytes);
    c->room = NULL;
}
