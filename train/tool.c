/* tool.c -- start and end of every program. */
#include "train/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "tensor/blas.h"
#include "tensor/parallel.h"
#include "tensor/vec.h"

static int exit_code(la_status s) {
    switch (s) {
    case LA_OK:
        return 0;
    case LA_ARG:
    case LA_NAME:
    case LA_SHAPE:
        return 2;
    case LA_DATA:
        return 3;
    case LA_FORMAT:
        return 4;
    case LA_NUMERIC:
        return 5;
    case LA_NOMEM:
        return 6;
    case LA_STATE:
    case LA_IO:
        break;
    }
    return 1;
}

/* libgomp lets idle threads spin for 3 ms.  Where other processes want the processors too, a step
 * then takes up to ten times as long; 20 microseconds cost next to nothing on an idle machine.  It
 * reads the setting before main, so the program starts once more with it. */
static void spin_less(char **argv) {
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
    /* The main thread is bound already then, and the new program would see its processor only. */
    if (getenv("OMP_PROC_BIND") || getenv("OMP_PLACES") || getenv("GOMP_CPU_AFFINITY")) return;
    if (setenv("GOMP_SPINCOUNT", "2000", 1)) return;
    execv("/proc/self/exe", argv); /* returns where there is no /proc: then all stays as it is */
}

/* Large blocks go back to the system when they are freed.  By itself the C library raises the size
 * from which they do, up to 32 MiB, with each that is freed: checkpoints that were saved then leave
 * holes in which small blocks settle. */
static void return_large_blocks(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
}

/* A closed standard stream would give its number to the next file that is opened, and what is meant
 * for the screen would go into that file. */
static void open_standard_streams(void) {
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd < 3);
    if (fd >= 3) close(fd);
}

/* What was printed is the result of a program.  A reader that has gone wanted no more of it. */
static la_status end_output(void) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return LA_OK;
    int           error = errno;
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (error == EPIPE || (poll(&out, 1, 0) == 1 && (out.revents & POLLERR))) return LA_OK;
    return la_fail(LA_IO, "standard output could not be written%s%s: a part of it is missing",
                   error ? ": " : "", error ? strerror(error) : "");
}

int la_tool_start(la_config *c, la_tool tool, int argc, char **argv, int *code) {
    open_standard_streams();
    signal(SIGCHLD, SIG_DFL); /* ignored, as it may be inherited, children end untold */
    signal(SIGPIPE, SIG_IGN); /* a reader that has gone ends no training */
    signal(SIGXFSZ, SIG_IGN); /* past a size limit, writing fails with EFBIG */
    signal(SIGUSR1, SIG_IGN); /* "save", before there is anything to save */
    spin_less(argv);
    return_large_blocks();
    la_config_init(c);
    la_status s = la_config_parse(c, tool, argc, argv);
    if (s != LA_OK) {
        *code = la_tool_end(c, s);
        if (*code == 2) fprintf(stderr, "%s --help shows how it is used\n", la_tool_name(tool));
        la_config_free(c);
        return 0;
    }
    if (c->help == LA_HELP_VERSION)
        printf("lina %s, %s, vectors %s, %s\n", LA_VERSION, LA_REAL_BITS == 32 ? "float" : "double",
               la_vec_table()->name, la_blas_name());
    else if (c->help != LA_HELP_NONE)
        la_config_help(stdout, tool, c->help);
    if (c->help != LA_HELP_NONE) {
        *code = la_tool_end(c, LA_OK);
        la_config_free(c);
        return 0;
    }
    if (la_blas_warning()) fprintf(stderr, "warning: %s\n", la_blas_warning());
    if (c->threads > 0) la_threads_set((int)c->threads); /* else OMP_NUM_THREADS, or all */
    return 1;
}

/* Those of a training are files. */
static int results_are_printed(const la_config *c) {
    return c->tool != LA_TOOL_TRAIN || c->eval_only || c->dry_run || c->help != LA_HELP_NONE;
}

int la_tool_end(const la_config *c, la_status s) {
    if (s == LA_OK && results_are_printed(c))
        s = end_output();
    else
        fflush(stdout); /* what led to an error stands before it */
    if (s != LA_OK) fprintf(stderr, "%s: %s\n", la_tool_name(c->tool), la_error());
    return exit_code(s);
}
