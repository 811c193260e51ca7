/* import.c -- weights from an HDF5 file that somebody else made.
 *
 * The HDF5 library has known faults with files made to exploit them, and such a file has no hash
 * that would show that it is merely what a program wrote.  So a child process reads it, which may
 * use only so much memory and time and can write no file, and hands back flat arrays through memory
 * that both see.  If it crashes, it crashes alone.  It is a fence against damage and known faults;
 * it does not take from the child what the user may do. */
#include "tensor/words.h"
#include "train/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tensor/arena.h"
#include "tensor/parallel.h"
#include "train/h5_io.h"
#include "train/save_file.h"

enum { SECONDS = 60, FINISHED = 0x4C494E41 };

/* Shared with the child; the flat arrays follow, at a multiple of LA_ALIGN. */
typedef struct answer {
    int  finished; /* FINISHED: the rest is filled in */
    int  status;
    char sentence[1024];
} answer;

static size_t head_bytes(void) { return (sizeof(answer) + LA_ALIGN - 1) / LA_ALIGN * LA_ALIGN; }

/* ---- in the child ----------------------------------------------------------------------- */

/* Our model computes its logits with the embedding, as GPT-2 does.  A file whose output layer has
 * weights of its own is another model. */
static la_status check_tied(hid_t group, const char *where, const la_params *p, const la_real *x) {
    la_param e = la_param_find(p, LA_EMBEDDING);
    if (e == LA_NO_PARAM || la_param_find(p, LA_HEAD) != LA_NO_PARAM || !la_h5_has(group, LA_HEAD))
        return LA_OK;
    la_shape s = la_param_shape(p, e);
    size_t   n = (size_t)la_len(s), i = 0;
    la_real *head = malloc(n * sizeof *head);
    if (!head) return la_fail(LA_NOMEM, "no memory for the %zu numbers of %s", n, LA_HEAD);
    la_status done = la_h5_array(group, where, LA_HEAD, s, head);
    for (x += la_param_offset(p, e); done == LA_OK && i < n; i++)
        if (head[i] != x[i])
            done = la_fail(
                LA_FORMAT,
                "%s/%s is not tied to %s: number %zu is %g there and %g here; the model has one "
                "table for both",
                where, LA_HEAD, LA_EMBEDDING, i, (double)x[i], (double)head[i]);
    free(head);
    return done;
}

static la_status read_weights(void *bytes, size_t n, const char *name, const la_params *p,
                              la_real *x) {
    char  where[LA_H5_WHERE];
    hid_t file = la_h5_open(bytes, n), group = file;
    if (file < 0)
        return la_fail(LA_FORMAT, "%s (%zu bytes) is no HDF5 file, or a damaged one", name, n);
    snprintf(where, sizeof where, "%s: ", name);
    int at_root = la_params_count(p) > 0 && la_h5_has(file, la_param_name(p, 0));
    if (!at_root && la_h5_has(file, "params")) {
        snprintf(where, sizeof where, "%s: /params", name);
        group = H5Gopen2(file, "params", H5P_DEFAULT);
        if (group < 0) return la_fail(LA_FORMAT, "%s is not a group that can be read", where);
    }
    LA_TRY(la_h5_arrays(group, where, p, x));
    return check_tied(group, where, p, x);
}

/* Bytes of address space in use, from which the limit counts; 0: not known. */
static size_t address_space(void) {
    unsigned long pages = 0;
    FILE         *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    if (fscanf(f, "%lu", &pages) != 1) pages = 0;
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void limit(int what, rlim_t most) {
    struct rlimit r;
    if (getrlimit(what, &r) != 0) return;
    if (r.rlim_max != RLIM_INFINITY && most > r.rlim_max) most = r.rlim_max;
    r.rlim_cur = r.rlim_max = most;
    setrlimit(what, &r);
}

static void confine(size_t file, size_t arrays) {
    static const int ends[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGTERM, SIGINT};
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) sigaction(ends[i], &by_default, NULL);
    limit(RLIMIT_CPU, SECONDS);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* those reserve terabytes */
    size_t used = address_space();
    if (used) limit(RLIMIT_AS, (rlim_t)used + 4 * (rlim_t)file + arrays + ((rlim_t)1 << 30));
#else
    (void)file, (void)arrays, (void)address_space;
#endif
    /* libc reports a damaged heap on standard error: the parent's sentence is enough */
    int nothing = open("/dev/null", O_RDWR);
    for (int fd = 0; nothing >= 0 && fd <= 2; fd++) dup2(nothing, fd);
    H5PLset_loading_state(0); /* no filters from other files */
}

/* ---- in the parent ---------------------------------------------------------------------- */

static la_status wait_for(pid_t child, const answer *a, const char *name) {
    int   how = 0;
    pid_t got;
    do got = waitpid(child, &how, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0) /* somebody else waits for our children, or SIGCHLD is ignored */
        return a->finished == FINISHED
                   ? LA_OK
                   : la_fail(LA_FORMAT, "the process that reads %s was lost: %s", name,
                             strerror(errno));
    if (WIFSIGNALED(how) && (WTERMSIG(how) == SIGXCPU || WTERMSIG(how) == SIGKILL))
        return la_fail(
            LA_FORMAT,
            "reading %s was ended by signal %d (%s), as it is after %d seconds; the file is "
            "damaged or hostile",
            name, WTERMSIG(how), strsignal(WTERMSIG(how)), SECONDS);
    if (WIFSIGNALED(how))
        return la_fail(
            LA_FORMAT,
            "reading %s ended the reader by signal %d (%s); the file is damaged or hostile", name,
            WTERMSIG(how), strsignal(WTERMSIG(how)));
    if (WEXITSTATUS(how) != 0 || a->finished != FINISHED)
        return la_fail(
            LA_FORMAT,
            "reading %s ended the reader with exit code %d; the file is damaged or hostile", name,
            WEXITSTATUS(how));
    return LA_OK;
}

/* The child may be in the hands of the file: what it says is looked at as if the file said it. */
static la_status take_answer(answer *a, const la_real *x, la_params *p) {
    char sentence[sizeof a->sentence];
    memcpy(sentence, a->sentence, sizeof sentence);
    sentence[sizeof sentence - 1] = 0;
    for (char *c = sentence; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = '?';
    if (a->status != LA_OK)
        return la_fail(a->status == LA_NOMEM ? LA_NOMEM : LA_FORMAT, "%s", sentence);
    for (int i = 0; i < la_params_count(p); i++)
        if (la_find_nonfinite((size_t)la_len(la_param_shape(p, i)), x + la_param_offset(p, i)) >= 0)
            return la_fail(LA_FORMAT, "the array %s holds a number that is not finite",
                           la_param_name(p, i));
    for (int i = 0; i < la_params_count(p); i++) /* one by one: the gaps between them stay 0 */
        memcpy(la_params_x(p) + la_param_offset(p, i), x + la_param_offset(p, i),
               (size_t)la_len(la_param_shape(p, i)) * sizeof *x);
    return LA_OK;
}

static la_status read_in_child(void *bytes, size_t n, const char *name, la_params *p, answer *a) {
    size_t   arrays = la_params_len(p) * sizeof(la_real);
    la_real *x = (la_real *)((char *)a + head_bytes());
    la_threads_release(); /* OpenMP's workers do not live on in a child */
    pid_t child = fork();
    if (child < 0)
        return la_fail(LA_NOMEM, "cannot start a process to read %s: %s", name, strerror(errno));
    if (child == 0) {
        confine(n, arrays);
        a->status = read_weights(bytes, n, name, p, x);
        snprintf(a->sentence, sizeof a->sentence, "%s", la_error());
        a->finished = FINISHED;
        _exit(0);
    }
    LA_TRY(wait_for(child, a, name));
    return take_answer(a, x, p);
}

la_status la_weights_import(const char *path, la_params *p) {
    char           name[LA_FILE_NAME];
    unsigned char *bytes;
    size_t         n, room = head_bytes() + la_params_len(p) * sizeof(la_real);
    if (!la_params_x(p))
        return la_fail(LA_STATE, "weights were imported before there was room for them");
    LA_TRY(la_file_read(&bytes, &n, path));
    void     *shared = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    la_status done = shared == MAP_FAILED
                         ? la_fail(LA_NOMEM, "no memory for %zu bytes of weights", room)
                         : read_in_child(bytes, n, la_file_name(path, name), p, shared);
    if (shared != MAP_FAILED) munmap(shared, room);
    free(bytes);
    return done;
}
