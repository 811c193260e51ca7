/* trackers.h -- the numbers of metrics.jsonl once more, for programs that read something else.
 *
 *   metrics.csv             --csv: a line for each line of metrics.jsonl, numbers in the same text
 *   events.out.tfevents.*   --tensorboard: scalars (float), a file for each start of the run
 *
 * When a run is resumed, metrics.csv is made anew from the lines of metrics.jsonl that stay, and a
 * new event file begins by saying which steps of the earlier ones are void. */
#ifndef LA_TRACKERS_H
#define LA_TRACKERS_H
#include "train/events.h"
#include "train/report.h"

typedef struct la_trackers {
    char     *csv_path, *csv_next, *jsonl_path; /* NULL: not asked for */
    la_append csv;                              /* a piece is a line */
    la_events events;
} la_trackers;

/* dir has metrics.jsonl as it is to be gone on with.  resumed: the step of the checkpoint, -1: a
 * new run.  LA_IO, LA_NOMEM; *t needs la_trackers_close in any case. */
la_status la_trackers_open(la_trackers *t, const char *dir, int csv, int tensorboard,
                           int64_t resumed);
void      la_trackers_close(la_trackers *t); /* also of one that is all zeros */

/* After each change of metrics.jsonl: a line was added, or val_loss to the line of `step`.  A write
 * that fails is a warning, once for each kind of file. */
void la_trackers_line(la_trackers *t, const la_metrics *m);
void la_trackers_val_loss(la_trackers *t, int64_t step, double val_loss, double val_accuracy);
#endif
