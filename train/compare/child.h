/* child.h -- a program of ours as a child process, and what it prints with --json.
 *
 * The child ends when this process does (where the system can do that: Linux), and a signal to stop
 * (la_signals_install, system.h) is passed on to it; from the terminal it gets none. */
#ifndef LA_CHILD_H
#define LA_CHILD_H
#include <jansson.h>
#include <sys/types.h>

#include "tensor/status.h"

/* The path of a program that stands beside the running one; a name with a / as it is, and where the
 * system does not say which program is running the name alone, for execvp to look for in PATH.
 * LA_IO: longer than LA_CHILD_PATH. */
enum { LA_CHILD_PATH = 4096 };
la_status la_child_program(const char *name, char path[LA_CHILD_PATH]);

/* fork(), for a child that is about to become another program.  In the child (0) a signal that we
 * have a handler for has its usual effect again, also one that comes before the fork has returned;
 * what we ignore stays ignored.  It has a process group of its own, so that Ctrl-C reaches us
 * alone, and gets SIGTERM when we end (Linux); had we ended before, it ends with 127. */
pid_t la_child_fork(void);

/* Runs argv (NULL at its end) and waits.  argv[0] is found by la_child_program; its standard input
 * is empty.  threads: OMP_NUM_THREADS of the child; 0: as here.
 *
 *   *lines    an array of the objects it wrote, one a line; also those before it failed
 *   *message  one line to free(): what it said of its failure on standard error, without its name,
 *             or how it ended; "" for code 0
 *   *code     its exit code; 128 + n after signal n; 127: it could not be started
 *
 * A child that fails is a result: LA_OK.  LA_FORMAT: a line that is no object.  LA_STATE: stopped
 * by a signal to us.  LA_IO, LA_NOMEM.  After a failure *lines and *message are NULL. */
la_status la_child_json(const char *const argv[], int threads, json_t **lines, char **message,
                        int *code);
#endif
