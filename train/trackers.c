/* trackers.c -- metrics.csv, made of the lines of metrics.jsonl; event files, of their numbers. */
#include "train/trackers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "train/folder.h"

static double wall_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- metrics.csv --- */

/* The lines of metrics.jsonl as CSV. */
static int copy_lines(FILE *in, FILE *out) {
    char  *line = NULL, text[LA_METRICS_TEXT];
    size_t room = 0;
    la_csv_header(text);
    int ok = fputs(text, out) >= 0;
    while (ok && getline(&line, &room, in) > 0) {
        la_csv_line(line, text);
        ok = fputs(text, out) >= 0;
    }
    free(line);
    return ok && feof(in) && !ferror(in) && fflush(out) == 0;
}

static la_status write_next(const la_trackers *t) {
    FILE *in = fopen(t->jsonl_path, "r"), *out = in ? fopen(t->csv_next, "w") : NULL;
    int   ok = out && copy_lines(in, out), error = ok ? 0 : errno;
    if (in) fclose(in);
    if (out && fclose(out) != 0 && ok) ok = 0, error = errno;
    if (ok) return LA_OK;
    unlink(t->csv_next); /* also where it was made, and no stream for it */
    return la_fail(error == ENOMEM ? LA_NOMEM : LA_IO, "cannot write %s: %s", t->csv_path,
                   strerror(error));
}

/* A new file takes the place of metrics.csv: either one is whole, whenever the run is killed.  It
 * is open before it does, so that lines go on to be added to the old one if that fails. */
static la_status write_csv(la_trackers *t) {
    la_append next = {0};
    LA_TRY(write_next(t));
    la_status s = la_append_open(&next, t->csv_next, 0, -1);
    if (s == LA_OK) s = la_append_rename(&next, t->csv_path);
    if (s != LA_OK) {
        la_append_close(&next);
        unlink(t->csv_next);
        return s;
    }
    next.told = t->csv.told;
    t->csv.n = 0; /* metrics.jsonl has these lines, and so has the new file */
    t->csv.lost = 0;
    la_append_close(&t->csv);
    t->csv = next;
    return LA_OK;
}

static void add_csv_line(la_trackers *t, const la_metrics *m) {
    char json[LA_METRICS_TEXT], text[LA_METRICS_TEXT];
    la_metrics_json(m, json);
    la_append_warn(&t->csv, la_append_put(&t->csv, text, la_csv_line(json, text)));
}

/* --- event files --- */

static void add_event(la_trackers *t, int64_t step, int n, const la_scalar *scalars) {
    la_append_warn(&t->events, la_events_scalars(&t->events, wall_time(), step, n, scalars));
}

/* --- both --- */

la_status la_trackers_open(la_trackers *t, const char *dir, int csv, int tensorboard,
                           int64_t resumed) {
    *t = (la_trackers){0};
    if (csv) {
        t->csv_path = la_folder_path(dir, "metrics.csv");
        t->csv_next = la_folder_path(dir, "metrics.csv.tmp");
        t->jsonl_path = la_folder_path(dir, "metrics.jsonl");
        if (!t->csv_path || !t->csv_next || !t->jsonl_path)
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
    la_append_close(&t->csv);
    free(t->csv_path);
    free(t->csv_next);
    free(t->jsonl_path);
    la_append_close(&t->events);
    *t = (la_trackers){0};
}

void la_trackers_line(la_trackers *t, const la_metrics *m) {
    la_scalar scalars[LA_COLUMNS];
    int       n = 0;
    if (t->csv.path) add_csv_line(t, m);
    if (!t->events.path) return;
    for (const la_column *c = la_columns; c->name; c++) {
        double x = la_metrics_value(m, c);
        if (c->tag && isfinite(x)) scalars[n++] = (la_scalar){c->tag, x};
    }
    add_event(t, m->step, n, scalars);
}

void la_trackers_val_loss(la_trackers *t, int64_t step, double val_loss, double val_accuracy) {
    la_scalar scalars[] = {{LA_TAG_VAL_LOSS, val_loss}, {LA_TAG_VAL_ACCURACY, val_accuracy}};
    if (t->csv.path) la_append_warn(&t->csv, write_csv(t));
    if (t->events.path) add_event(t, step, isfinite(val_accuracy) ? 2 : 1, scalars);
}
