/* jobs.c -- the trainings of a comparison as processes, some side by side.
 *
 * Each is a `train` with a folder of its own.  One that was stopped, or killed, has a checkpoint
 * there and goes on from it, with the numbers it would have had; so a comparison can be stopped at
 * any moment.  When compare is stopped it stops its trainings, which save; when it is killed, they
 * are stopped by the system (Linux) or go on to their ends. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tensor/parallel.h"
#include "train/compare/child.h"
#include "train/compare/compare.h"
#include "train/compare/screen.h"
#include "train/folder.h"
#include "train/system.h"

typedef struct job {
    pid_t        pid; /* 0: free */
    la_run_plan *run;
} job;

/* --- names --- */

static const char *named(const la_comparison *k, const char *id, const char *ending) {
    return la_arena_printf((la_arena *)(uintptr_t)&k->arena, "%s/runs/%s%s", k->dir, id, ending);
}

int la_job_threads(const la_comparison *k) {
    int threads = la_threads() / (int)k->c->jobs;
    return threads > 0 ? threads : 1;
}

const char *la_run_folder(const la_comparison *k, const char *id) { return named(k, id, ""); }

static int has_checkpoint(const la_comparison *k, const char *id) {
    const char *last = named(k, id, "/last.h5");
    return last && !access(last, F_OK);
}

/* The last line that a training printed, without its name before it. */
static char *last_words(const la_comparison *k, const char *id) {
    char  text[4096], *line = text;
    FILE *f = fopen(named(k, id, ".log"), "r");
    if (!f) return strdup("it said nothing");
    if (fseek(f, -(long)sizeof text + 1, SEEK_END)) rewind(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    while (n && strchr("\r\n ", text[n - 1])) n--;
    text[n] = 0;
    if (strrchr(text, '\n')) line = strrchr(text, '\n') + 1;
    if (!strncmp(line, "train: ", 7)) line += 7;
    return strdup(*line ? line : "it said nothing");
}

/* --- starting --- */

static void become(const char *log, const char *program, char **argv) {
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666), in = open("/dev/null", O_RDONLY);
    if (in >= 0) dup2(in, 0);
    if (out >= 0) dup2(out, 1), dup2(out, 2);
    execvp(program, argv);
    int  e = errno;
    char name[LA_FILE_NAME];
    fprintf(stderr, "train: cannot start %s: %s\n", la_file_name(program, name), strerror(e));
    _exit(127);
}

static la_status start(la_comparison *k, la_run_plan *r, job *j) {
    enum { MORE = 6 };
    const char **argv = la_arena_alloc(&k->arena, (size_t)(r->argc + MORE) * sizeof *argv);
    const char  *log = named(k, r->id, ".log");
    char         program[LA_CHILD_PATH];
    int          n = r->argc;
    LA_TRY(la_child_program("train", program));
    if (!argv || !log) return la_fail(LA_NOMEM, "no memory to start a training");
    memcpy(argv, r->argv, (size_t)n * sizeof *argv);
    argv[n++] = la_arena_printf(&k->arena, "--out-dir=%s", la_run_folder(k, r->id));
    argv[n++] = la_arena_printf(&k->arena, "--threads=%d", la_job_threads(k));
    argv[n++] = "--quiet";
    argv[n++] = has_checkpoint(k, r->id) ? "--resume=auto" : "--overwrite";
    argv[n] = NULL;
    for (int i = 0; i < n; i++)
        if (!argv[i]) return la_fail(LA_NOMEM, "no memory to start a training");
    pid_t pid = la_child_fork();
    if (pid < 0) return la_fail(LA_IO, "cannot start a process: %s", strerror(errno));
    if (!pid) become(log, program, (char **)(uintptr_t)argv);
    *j = (job){pid, r};
    r->state = LA_RUN_GOING;
    return LA_OK;
}

/* --- ending --- */

/* Whether the training comes to this end each time: then it is a result. */
static int is_a_result(int code) { return code == 0 || code == 5; }

/* What does not fit in memory now may fit another day: it is in the results, and is no record. */
static int did_not_fit(int code) { return code == 6; }

static la_status ended(la_comparison *k, la_run_plan *r, int status) {
    int       code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    la_status s;
    r->state = LA_RUN_OPEN;
    if (la_signal_stop()) return LA_OK; /* it has saved, or had ended: looked at next time */
    char *words = last_words(k, r->id);
    if (!words) return la_fail(LA_NOMEM, "no memory for a message");
    if (is_a_result(code) || did_not_fit(code)) {
        s = la_record_make(k, r, code, words, &r->record);
        if (s == LA_OK && is_a_result(code)) s = la_record_save(k, r->id, json_incref(r->record));
        r->state = LA_RUN_RECORDED;
    } else
        s = la_fail(code == 3 ? LA_DATA : LA_IO,
                    "the training %s %s %d: %s (all it said is in %s; the same command goes on)",
                    r->id, WIFSIGNALED(status) ? "was killed by signal" : "ended with code",
                    WIFSIGNALED(status) ? WTERMSIG(status) : code, words, named(k, r->id, ".log"));
    free(words);
    return s;
}

static job *job_of(job *jobs, int n, pid_t pid) {
    for (int i = 0; i < n; i++)
        if (jobs[i].pid == pid) return jobs + i;
    return NULL;
}

static la_run_plan *next_open(la_comparison *k) {
    for (int i = 0; i < k->n_runs; i++)
        if (k->run[i].state == LA_RUN_OPEN) return k->run + i;
    return NULL;
}

static void stop_all(job *jobs, int n) {
    for (int i = 0; i < n; i++)
        if (jobs[i].pid) kill(jobs[i].pid, SIGTERM);
}

/* Starts what can be started, and waits for ends; *s is the first failure, after which nothing new
 * starts. */
static void work(la_comparison *k, job *jobs, int n, la_status *s) {
    int stopping = 0;
    for (int busy = 1; busy;) {
        int status;
        for (int i = 0; i < n && *s == LA_OK && !la_signal_stop(); i++)
            if (!jobs[i].pid && next_open(k)) *s = start(k, next_open(k), jobs + i);
        if ((la_signal_stop() || *s != LA_OK) && !stopping) stop_all(jobs, n), stopping = 1;
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
            job *j = job_of(jobs, n, pid);
            if (!j) continue;
            la_run_plan *r = j->run;
            *j = (job){0};
            if (*s == LA_OK) *s = ended(k, r, status);
        }
        busy = *s == LA_OK && !la_signal_stop() && next_open(k) != NULL;
        for (int i = 0; i < n; i++) busy |= jobs[i].pid != 0;
        la_screen_progress(k);
        if (busy) usleep(50000);
    }
}

la_status la_compare_train(la_comparison *k) {
    const char *runs = la_arena_printf(&k->arena, "%s/runs", k->dir);
    int         n = (int)k->c->jobs;
    la_status   s = LA_OK;
    job        *jobs = calloc((size_t)n, sizeof *jobs);
    if (!jobs || !runs) {
        free(jobs);
        return la_fail(LA_NOMEM, "no memory for %d jobs", n);
    }
    if (next_open(k)) s = la_folder_make(runs);
    if (s == LA_OK) work(k, jobs, n, &s);
    la_screen_end(k);
    free(jobs);
    return s;
}
