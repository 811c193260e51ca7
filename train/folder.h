/* folder.h -- the folder of a run.
 *
 *   run.json        what was asked for, and where
 *   metrics.jsonl   one object a line, each step once
 *   metrics.csv, events.out.tfevents.*   the same for other programs, where asked for (trackers.h)
 *   last.h5, last.1.h5, ...   the newest checkpoint, the one before, ... (--keep)
 *   best.h5         the checkpoint with the lowest validation loss
 *   aside.STEP.h5   one that was later than the step the run went back to (--resume=best, =FILE)
 *   samples.txt */
#ifndef LA_FOLDER_H
#define LA_FOLDER_H
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/report.h"
#include "train/trackers.h"

typedef struct la_folder {
    char       *dir;
    int64_t     keep;
    la_append   metrics;   /* a piece is a line */
    la_append   samples;   /* la_folder_open_samples */
    int64_t     last_line; /* step of the last line of metrics.jsonl; -1: none */
    double      elapsed_s; /* of the lines that stayed on resuming, the last; 0: none */
    int64_t     skipped;   /* of the line of the step that is resumed; 0: none */
    int         saved;     /* last.h5, by this run: it is whole */
    int64_t     last_step; /* of last.h5, if this run knows it; -1 */
    int         lock;      /* the folder, locked against a second run; -1: not open */
    la_trackers trackers;  /* la_trackers_open them after the folder */
} la_folder;

typedef enum la_folder_mode {
    LA_FOLDER_NEW,
    LA_FOLDER_OVERWRITE,
    LA_FOLDER_RESUME,
    LA_FOLDER_GO_BACK
} la_folder_mode;

/* Makes a folder, with its parents; one that is there is taken.  LA_IO. */
la_status la_folder_make(const char *dir);

/* Locks a folder against a second program of ours: until *lock is closed or the process ends,
 * however it ends.  *lock -1: the file system has no locks.  LA_ARG: somebody else has it. */
la_status la_folder_lock(const char *dir, int *lock);

/* Makes the folder, with its parents.  NEW: LA_ARG if there is something in it.  OVERWRITE: removes
 * the files of an earlier run, and only those.  RESUME: drops the lines of metrics.jsonl after
 * `step`, with a warning if the file ends before it; GO_BACK: as RESUME, from a
 * checkpoint that need not be the newest: la_folder_set_aside first.  *evaluated says whether the
 * line of `step` has a val_loss. */
la_status la_folder_open(la_folder *s, const char *dir, la_folder_mode mode, int64_t keep,
                         int64_t step, int *evaluated);
void      la_folder_close(la_folder *s);

/* The file of that name in the folder.  free() it; NULL when out of memory. */
char *la_folder_path(const char *dir, const char *name);

void      la_folder_metrics(la_folder *s, const la_metrics *m);
/* A run was stopped within the evaluation of `step`: adds val_loss (and val_accuracy; NAN: none) to
 * the line of that step, which is the last, or writes a line of its own if the file has none. */
la_status la_folder_add_val_loss(la_folder *s, int64_t step, double val_loss, double val_accuracy);
/* Of samples.txt only those of steps before `from` stay; without one it is made if `wanted`. LA_IO,
 * LA_NOMEM. */
la_status la_folder_open_samples(la_folder *s, int wanted, int64_t from);
/* LA_NOMEM: it is not there.  What cannot be written is a warning, as for metrics. */
la_status la_folder_sample(la_folder *s, int64_t step, const char *text);
la_status la_folder_run_json(la_folder *s, const la_config *c, int argc, char **argv,
                             int64_t corpus_bytes, uint64_t corpus_hash);

/* last.h5 becomes last.1.h5 and so on, and the new checkpoint last.h5; at any moment there is a
 * last.h5.  One that is damaged, or of the same step, is replaced and takes no place in the row. On
 * failure the earlier ones are as they were. */
la_status la_folder_save_last(la_folder *s, const la_record *r, const la_params *p,
                              const la_optim *o, const la_tokenizer *k);
/* Between saving and that row a killed run has left the checkpoint before as last.old.tmp: it takes
 * its place.  One that is last.h5 under a second name, or damaged, or no checkpoint, stays. */
void      la_folder_finish_rotation(la_folder *s);
/* A run goes on from `step`, and checkpoints of later steps are no part of it: they are renamed to
 * aside.STEP.h5, which is said, as is what is damaged and stays.  LA_NOMEM, LA_IO: the step of one
 * is not known. */
la_status la_folder_set_aside(la_folder *s, int64_t step);
la_status la_folder_save_best(la_folder *s, const la_record *r, const la_params *p,
                              const la_optim *o, const la_tokenizer *k);

int la_folder_checkpoint_name(const char *name); /* whether a file is named like one of these */
int la_folder_aside_name(const char *name);      /* or like one that was set aside */

/* Opens what --resume names: "last", "best", a path, or "auto": the newest valid one in dir; what
 * was skipped, and why, goes to stderr.  LA_FORMAT if there is none. */
la_status la_folder_find(const char *dir, const char *which, la_checkpoint **c, char **path);
#endif
