/* gnuplot.c -- gnuplot as a child process.
 *
 * Script, output and messages are files without a name (tmpfile): nothing waits for a full pipe,
 * and nothing is left behind however either process ends. */
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/page/chart.h"

extern char **environ;

enum { NO_PROGRAM = 127 }; /* how a child ends that could not begin, where spawn cannot tell */

/* The last line of a file that has something in it. */
static void last_line(FILE *f, char *line, size_t size) {
    char text[512];
    line[0] = 0;
    rewind(f);
    while (fgets(text, sizeof text, f)) {
        text[strcspn(text, "\r\n")] = 0;
        const char *from = text + strspn(text, " \t^");
        if (*from) snprintf(line, size, "%s", from);
    }
}

static la_status read_all(FILE *f, char **bytes, size_t *n) {
    const long end = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    rewind(f);
    if (end < 0) return la_fail(LA_IO, "gnuplot's output cannot be read");
    *bytes = malloc((size_t)end + 1);
    if (!*bytes) return la_fail(LA_NOMEM, "no memory for a chart of %ld bytes", end);
    *n = fread(*bytes, 1, (size_t)end, f);
    (*bytes)[*n] = 0;
    return LA_OK;
}

/* -d: without the settings of its user. */
static int start(FILE *const files[3], pid_t *child) {
    char                       program[] = "gnuplot", option[] = "-d", dash[] = "-";
    char                      *argv[] = {program, option, dash, NULL};
    posix_spawn_file_actions_t actions;
    int                        error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    for (int i = 0; i < 3 && !error; i++)
        error = posix_spawn_file_actions_adddup2(&actions, fileno(files[i]), i);
    if (!error) error = posix_spawnp(child, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static la_status run(FILE *const files[3], char **svg, size_t *n) {
    pid_t child;
    int   status = 0, error = start(files, &child);
    char  line[256];
    if (!error)
        while (waitpid(child, &status, 0) < 0)
            if (errno != EINTR) return la_fail(LA_IO, "waiting for gnuplot: %s", strerror(errno));
    if (error == ENOENT || (WIFEXITED(status) && WEXITSTATUS(status) == NO_PROGRAM))
        return la_fail(LA_NAME, "gnuplot is not installed");
    if (error) return la_fail(LA_IO, "starting gnuplot: %s", strerror(error));
    last_line(files[2], line, sizeof line);
    if (WIFSIGNALED(status))
        return la_fail(LA_IO, "gnuplot was ended by signal %d: %s", WTERMSIG(status), line);
    if (WEXITSTATUS(status) != 0)
        return la_fail(LA_IO, "gnuplot ended with exit code %d: %s", WEXITSTATUS(status), line);
    LA_TRY(read_all(files[1], svg, n));
    if (*n) return LA_OK;
    free(*svg);
    *svg = NULL;
    return la_fail(LA_IO, "gnuplot drew nothing: %s", line);
}

la_status la_gnuplot(const char *script, size_t n, char **svg, size_t *svg_n) {
    FILE *files[3] = {tmpfile(), tmpfile(), tmpfile()};
    *svg = NULL;
    la_status status = LA_OK;
    if (!files[0] || !files[1] || !files[2])
        status = la_fail(LA_IO, "no temporary file for a chart: %s", strerror(errno));
    else if (fwrite(script, 1, n, files[0]) != n || fflush(files[0]) != 0)
        status = la_fail(LA_IO, "writing a chart's script: %s", strerror(errno));
    else
        rewind(files[0]), status = run(files, svg, svg_n);
    for (int i = 0; i < 3; i++)
        if (files[i]) fclose(files[i]);
    return status;
}
