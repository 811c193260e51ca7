/* child.h -- a program of ours as a child process, and what it prints with --json.
 *
 * The child ends when this process does (where the system can do that: Linux), and a signal to stop
 * (la_signals_install, system.h) is passed on to it. */
#ifndef LA_CHILD_H
#define LA_CHILD_H
#include <jansson.h>

#include "tensor/status.h"

/* Runs argv (NULL at its end) and waits.  argv[0] without a / is a program in the folder of the
 * running one; its standard input is empty.  threads: OMP_NUM_THREADS of the child; 0: as here.
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
