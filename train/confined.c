/* confined.c -- a child process with limits, and what is made of its end. */
#include "train/confined.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "tensor/arena.h"
#include "tensor/parallel.h"
#include "tensor/words.h"

enum { FINISHED = 0x4C494E41 };

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
    static const int ends[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU};
    static const int parents[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    struct sigaction by_default = {.sa_handler = SIG_DFL}, ignored = {.sa_handler = SIG_IGN};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) sigaction(ends[i], &by_default, NULL);
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++)
        sigaction(parents[i], &ignored, NULL);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) _exit(1); /* it was gone before that */
}

static void confine(const la_confined *c, pid_t parent) {
    take_signals(parent);
    limit(RLIMIT_CPU, (rlim_t)c->seconds, 1);
    limit(RLIMIT_CORE, 0, 0);
    limit(RLIMIT_FSIZE, 0, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* those reserve terabytes */
    size_t used = address_space();
    if (used) limit(RLIMIT_AS, (rlim_t)used + c->memory, 0);
#else
    (void)address_space;
#endif
    /* libc reports a damaged heap on standard error: the parent's sentence is enough */
    int nothing = open("/dev/null", O_RDWR);
    for (int fd = 0; nothing >= 0 && fd <= 2; fd++) dup2(nothing, fd);
    limit(RLIMIT_NOFILE, 0, 0);
}

/* ---- in the parent ---------------------------------------------------------------------- */

/* Of computing, after which the system ends the child. */
static int seconds_of(const la_confined *c) {
    struct rlimit r;
    int           bounded = getrlimit(RLIMIT_CPU, &r) == 0 && r.rlim_cur < (rlim_t)c->seconds;
    return bounded ? (int)r.rlim_cur : c->seconds;
}

static la_status wait_for(const la_confined *c, pid_t child, const answer *a) {
    int   how = 0;
    pid_t got;
    do got = waitpid(child, &how, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0) /* somebody else waits for our children, or SIGCHLD is ignored */
        return a->finished == FINISHED
                   ? LA_OK
                   : la_fail(LA_FORMAT, "the process that reads %s was lost: %s", c->name,
                             strerror(errno));
    int by = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
    if (by == SIGXCPU || by == SIGKILL)
        return la_fail(LA_FORMAT,
                       "reading %s was ended by signal %d (%s), as it is after %d seconds of "
                       "computing%s; the file is damaged or hostile",
                       c->name, by, strsignal(by), seconds_of(c),
                       by == SIGKILL ? " (or when the system runs out of memory)" : "");
    if (by)
        return la_fail(
            LA_FORMAT,
            "reading %s ended the reader by signal %d (%s); the file is damaged or hostile",
            c->name, by, strsignal(by));
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
