/* child.c -- fork, exec, two pipes. */
#include "train/compare/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "train/system.h"
#include "train/text_stream.h"

enum { NOT_STARTED = 127, LOOK_MS = 100 }; /* how often it is looked whether to stop */

extern char **environ;

typedef struct stream { /* what comes out of a pipe */
    int    end[2];      /* to read, to write; -1: closed */
    FILE  *memory;
    char  *text;
    size_t n;
} stream;

typedef struct child {
    char   path[LA_CHILD_PATH], threads[40];
    char **env; /* the strings are not its own */
    stream out, err;
    pid_t  pid;
    int    passed_on; /* the signal to stop */
} child;

static void shut(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static la_status stream_open(stream *s) {
    s->end[0] = s->end[1] = -1;
    s->memory = la_text_stream(&s->text, &s->n);
    if (!s->memory) return la_fail(LA_NOMEM, "no memory for what a child process writes");
    if (pipe(s->end) != 0)
        return la_fail(LA_IO, "no pipe for a child process: %s", strerror(errno));
    for (int i = 0; i < 2; i++) fcntl(s->end[i], F_SETFD, FD_CLOEXEC);
    return LA_OK;
}

static void stream_close(stream *s) {
    if (s->memory) fclose(s->memory);
    shut(&s->end[0]);
    shut(&s->end[1]);
    free(s->text);
}

/* --- start --- */
la_status la_child_program(const char *name, char path[LA_CHILD_PATH]) {
    ssize_t n = strchr(name, '/') ? -1 : readlink("/proc/self/exe", path, LA_CHILD_PATH - 1);
    size_t  folder = 0;
    for (ssize_t i = 0; i < n; i++)
        if (path[i] == '/') folder = (size_t)i + 1;
    if (folder + strlen(name) >= LA_CHILD_PATH)
        return la_fail(LA_IO, "the path of the program %.64s is too long", name);
    strcpy(path + folder, name);
    return LA_OK;
}

/* Between fork() and exec the child would run our handlers, and what they note would be lost. */
static void forget_handlers(void) {
    static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) {
        struct sigaction s;
        if (sigaction(handled[i], NULL, &s) == 0 && s.sa_handler != SIG_IGN) /* nohup */
            signal(handled[i], SIG_DFL);
    }
}

pid_t la_child_fork(void) {
    pid_t    parent = getpid();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* until the child has no handlers any more */
    pid_t pid = fork();
    if (pid == 0) {
        forget_handlers();
        setpgid(0, 0);
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
        if (getppid() != parent) _exit(NOT_STARTED);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

/* The environment with OMP_NUM_THREADS. */
static la_status make_environment(child *c, int threads) {
    static const char key[] = "OMP_NUM_THREADS=";
    size_t            n = 0, to = 0;
    while (environ[n]) n++;
    c->env = malloc((n + 2) * sizeof *c->env);
    if (!c->env) return la_fail(LA_NOMEM, "no memory for an environment of %zu words", n);
    for (size_t i = 0; i < n; i++)
        if (threads <= 0 || strncmp(environ[i], key, sizeof key - 1) != 0)
            c->env[to++] = environ[i];
    snprintf(c->threads, sizeof c->threads, "%s%d", key, threads);
    if (threads > 0) c->env[to++] = c->threads;
    c->env[to] = NULL;
    return LA_OK;
}

/* In the child: only calls that are safe after fork() of a process with threads. */
static void become(const child *c, const char *const argv[]) {
    int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(c->out.end[1], STDOUT_FILENO);
    dup2(c->err.end[1], STDERR_FILENO);
    environ = c->env;
    execvp(c->path, (char *const *)argv);
    _exit(NOT_STARTED);
}

static la_status start(child *c, const char *const argv[], int threads) {
    LA_TRY(la_child_program(argv[0], c->path));
    LA_TRY(make_environment(c, threads));
    LA_TRY(stream_open(&c->out));
    LA_TRY(stream_open(&c->err));
    c->pid = la_child_fork();
    if (c->pid == 0) become(c, argv);
    if (c->pid < 0) return la_fail(LA_IO, "%.64s cannot be started: %s", argv[0], strerror(errno));
    shut(&c->out.end[1]);
    shut(&c->err.end[1]);
    return LA_OK;
}

/* --- while it runs --- */
static la_status take(stream *s) {
    char    bytes[1 << 14];
    ssize_t n = read(s->end[0], bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) return LA_OK;
    if (n < 0) return la_fail(LA_IO, "reading from a child process: %s", strerror(errno));
    if (n == 0)
        shut(&s->end[0]);
    else if (fwrite(bytes, 1, (size_t)n, s->memory) != (size_t)n)
        return la_fail(LA_NOMEM, "no memory for what a child process writes");
    return LA_OK;
}

static void pass_on_stop(child *c) {
    if (!la_signal_stop() || c->passed_on) return;
    kill(c->pid, SIGTERM);
    c->passed_on = 1;
}

static la_status listen_to(child *c) {
    stream *const s[] = {&c->out, &c->err};
    while (c->out.end[0] >= 0 || c->err.end[0] >= 0) {
        struct pollfd p[2];
        for (int i = 0; i < 2; i++) p[i] = (struct pollfd){.fd = s[i]->end[0], .events = POLLIN};
        pass_on_stop(c);
        int ready = poll(p, 2, LOOK_MS);
        if (ready < 0 && errno != EINTR)
            return la_fail(LA_IO, "waiting for a child process: %s", strerror(errno));
        for (int i = 0; i < 2 && ready > 0; i++)
            if (p[i].revents) LA_TRY(take(s[i]));
    }
    return LA_OK;
}

static int wait_for(child *c) {
    int status = 0;
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) pass_on_stop(c);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* --- what it said --- */
/* The line of standard error that begins with the program's name, or else the last one. */
static char *message_of(const char *program, char *err, int code) {
    char       *said = NULL, *rest = err, *line;
    char        how[160];
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    size_t      n = strlen(name);
    if (!code) return strdup("");
    while ((line = strsep(&rest, "\n"))) {
        if (!strncmp(line, name, n) && !strncmp(line + n, ": ", 2)) return strdup(line + n + 2);
        if (*line) said = line;
    }
    if (code == NOT_STARTED)
        snprintf(how, sizeof how, "%.64s cannot be started: it should stand beside this program",
                 name);
    else if (code > 128)
        snprintf(how, sizeof how, "%.64s was ended by signal %d (%.40s)", name, code - 128,
                 strsignal(code - 128));
    else
        snprintf(how, sizeof how, "%.64s ended with code %d", name, code);
    return strdup(said ? said : how);
}

static la_status parse(const char *program, char *text, int code, json_t *lines) {
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n"))) {
        json_error_t error;
        if (!*line || (!rest && code)) continue; /* the last is whole only if all went well */
        json_t *object = json_loads(line, 0, &error);
        if (!json_is_object(object)) {
            json_decref(object);
            return la_fail(LA_FORMAT, "%.64s wrote a line that is no JSON object: %.80s", program,
                           line);
        }
        if (json_array_append_new(lines, object))
            return la_fail(LA_NOMEM, "no memory for a line of %.64s", program);
    }
    return LA_OK;
}

static la_status run(child *c, const char *const argv[], int threads, json_t **lines,
                     char **message, int *code) {
    LA_TRY(start(c, argv, threads));
    la_status s = listen_to(c);
    if (s != LA_OK) kill(c->pid, SIGKILL);
    *code = wait_for(c);
    LA_TRY(s);
    if (la_signal_stop()) return la_fail(LA_STATE, "%.64s was stopped by a signal", argv[0]);
    if (fflush(c->out.memory) || fflush(c->err.memory) || !(*lines = json_array()) ||
        !(*message = message_of(argv[0], c->err.text, *code)))
        return la_fail(LA_NOMEM, "no memory for what %.64s wrote", argv[0]);
    return parse(argv[0], c->out.text, *code, *lines);
}

la_status la_child_json(const char *const argv[], int threads, json_t **lines, char **message,
                        int *code) {
    child c = {.out.end = {-1, -1}, .err.end = {-1, -1}};
    *lines = NULL;
    *message = NULL;
    *code = 0;
    la_status s = run(&c, argv, threads, lines, message, code);
    stream_close(&c.out);
    stream_close(&c.err);
    free(c.env);
    if (s == LA_OK) return s;
    json_decref(*lines);
    free(*message);
    *lines = NULL;
    *message = NULL;
    return s;
}
