/* trackers.c -- metrics.csv, made of the lines of metrics.jsonl; event files, of their numbers. */
#include "train/trackers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double wall_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void warn(int *told) {
    if (!*told) fprintf(stderr, "warning: %s; training goes on\n", la_error());
    *told = 1;
}

/* --- metrics.csv --- */

/* A new file takes the place of metrics.csv: either one is whole, whenever the run is killed. Lines
 * are added to it through t->csv. */
static la_status write_csv(la_trackers *t) {
    FILE  *in = fopen(t->jsonl_path, "r"), *out = NULL;
    char  *line = NULL, *next = malloc(strlen(t->csv_path) + 5);
    size_t room = 0;
    int    ok = in && next;
    if (ok) {
        sprintf(next, "%s.tmp", t->csv_path);
        ok = (out = fopen(next, "w")) != NULL;
    }
    if (ok) la_csv_header(out);
    while (ok && getline(&line, &room, in) > 0) la_csv_line(line, out);
    ok = ok && !ferror(in) && fflush(out) == 0 && !ferror(out) && rename(next, t->csv_path) == 0;
    int error = errno;
    if (ok) {
        if (t->csv) fclose(t->csv);
        t->csv = out;
    } else if (out) {
        fclose(out);
        unlink(next);
    }
    if (in) fclose(in);
    free(line);
    free(next);
    return ok ? LA_OK : la_fail(LA_IO, "cannot write %s: %s", t->csv_path, strerror(error));
}

static void add_csv_line(la_trackers *t, const la_metrics *m) {
    char  *json = NULL;
    size_t n;
    off_t  end = ftello(t->csv);
    FILE  *text = open_memstream(&json, &n);
    if (text) la_metrics_json(m, text);
    int ok = text && fclose(text) == 0;
    if (ok) la_csv_line(json, t->csv);
    ok = ok && fflush(t->csv) == 0;
    free(json);
    if (ok) return;
    la_fail(LA_IO, "cannot write %s: %s", t->csv_path, strerror(errno));
    warn(&t->csv_failed);
    clearerr(t->csv); /* the next line takes the place of what was written of this one */
    if (ftruncate(fileno(t->csv), end) == 0) fseeko(t->csv, end, SEEK_SET);
}

/* --- event files --- */

static void add_event(la_trackers *t, int64_t step, int n, const la_scalar *scalars) {
    if (la_events_scalars(&t->events, wall_time(), step, n, scalars) != LA_OK)
        warn(&t->events_failed);
}

/* --- both --- */

static char *path_of(const char *dir, const char *name) {
    size_t n = strlen(dir) + strlen(name) + 2;
    char  *p = malloc(n);
    if (p) snprintf(p, n, "%s/%s", dir, name);
    return p;
}

la_status la_trackers_open(la_trackers *t, const char *dir, int csv, int tensorboard,
                           int64_t resumed) {
    *t = (la_trackers){0};
    if (csv) {
        t->csv_path = path_of(dir, "metrics.csv");
        t->jsonl_path = path_of(dir, "metrics.jsonl");
        if (!t->csv_path || !t->jsonl_path)
            return la_fail(LA_NOMEM, "no memory for the name %s", dir);
        LA_TRY(write_csv(t));
    }
    if (tensorboard) LA_TRY(la_events_open(&t->events, dir, wall_time()));
    /* The line of step `resumed` stays: void is what came after it. */
    if (tensorboard && resumed >= 0)
        LA_TRY(la_events_restart(&t->events, wall_time(), resumed + 1));
    return LA_OK;
}

void la_trackers_close(la_trackers *t) {
    if (t->csv) fclose(t->csv);
    free(t->csv_path);
    free(t->jsonl_path);
    la_events_close(&t->events);
    *t = (la_trackers){0};
}

void la_trackers_line(la_trackers *t, const la_metrics *m) {
    la_scalar scalars[LA_COLUMNS];
    int       n = 0;
    if (t->csv) add_csv_line(t, m);
    if (!t->events.path) return;
    for (const la_column *c = la_columns; c->name; c++) {
        double x = la_metrics_value(m, c);
        if (c->tag && isfinite(x)) scalars[n++] = (la_scalar){c->tag, x};
    }
    add_event(t, m->step, n, scalars);
}

void la_trackers_val_loss(la_trackers *t, int64_t step, double val_loss, double val_accuracy) {
    la_scalar scalars[] = {{LA_TAG_VAL_LOSS, val_loss}, {LA_TAG_VAL_ACCURACY, val_accuracy}};
    if (t->csv && write_csv(t) != LA_OK) warn(&t->csv_failed);
    if (t->events.path) add_event(t, step, isfinite(val_accuracy) ? 2 : 1, scalars);
}
