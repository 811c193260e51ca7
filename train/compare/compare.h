/* compare.h -- several variants trained alike, and what came of it: the parts of `compare`.
 *
 * A problem is a text or a task, a variant an attention with options of its own.  Each problem,
 * variant and seed is one run: a `train` of its own, in its own folder, with the same options,
 * data order and budget.  What a run has found is its record, a small file:
 *
 *   OUT/records/ID.json   kept: runs with a record are not run again
 *   OUT/runs/ID/          train's folder: checkpoints, metrics; may go once all is measured
 *   OUT/runs/ID.log       what train printed
 *
 * ID ends with a hash of what differs from train's defaults and of the text, so a record is never
 * taken for another run's.
 */
#ifndef LA_COMPARE_H
#define LA_COMPARE_H
#include <jansson.h>

#include "tensor/arena.h"
#include "train/config.h"

enum { LA_MAX_OWN = 16 }; /* options of one problem or variant */

typedef struct la_own { /* options that stand behind a variant or a task: --name=value */
    int         n;
    const char *option[LA_MAX_OWN];
} la_own;

typedef struct la_problem {
    const char *name, *spec; /* short and unique; the file or task                             */
    int         task;
    la_own      own;
    json_t     *about; /* as in results.json, but for `target`                           */
    int64_t     vocab, parameters; /* these of the first variant                               */
    int64_t     labels;            /* of a row; 0: every token is one                          */
    uint64_t    hash;
} la_problem;

typedef struct la_variant {
    const char *name, *attn; /* as typed; without the options                                  */
    la_own      own;
} la_variant;

typedef enum la_run_stage {
    LA_RUN_OPEN,    /* has no record yet                                                     */
    LA_RUN_GOING,   /* its training is at work                                               */
    LA_RUN_RECORDED /* has one                                                               */
} la_run_stage;

typedef struct la_run_plan {
    int          problem, variant;
    int64_t      seed, steps;
    double       lr;
    int          sweep; /* it helps to choose the learning rate                              */
    const char  *id;
    uint64_t     hash;   /* of options and text: the same for the same run                     */
    la_config    config; /* of train, complete                                                */
    int          argc;
    const char **argv; /* of train, without what is said when it is started                    */
    int64_t      parameters, frozen, state_bytes, tokens; /* tokens of a step                */
    double       flops;                                   /* of a step                       */
    la_run_stage state;
    int          told;   /* on the screen                                                      */
    json_t      *record; /* of a recorded run: its entry of `runs` in results.json             */
} la_run_plan;

typedef struct la_screen { /* screen.c                                                 */
    double started, drawn; /* 0: not yet                                                       */
    double before;         /* work that was done when it started                               */
    int    bar, columns, told;
    int    measured, measures; /* measurements that are over, of how many                      */
} la_screen;

typedef struct la_comparison {
    const la_config *c;
    la_arena         arena;
    const char      *dir;
    int              argc; /* of compare */
    char           **argv;
    int              n_problems, n_variants, n_seeds, n_rates, n_runs, room;
    la_problem      *problem;
    la_variant      *variant;
    int64_t         *seed;
    double          *rate;
    la_run_plan *run; /* sweeps of all, then, once rates are chosen, the main runs              */
    la_screen    screen;
    json_t      *step_seconds; /* that were measured, by name of their record              */
    json_t      *missing;      /* sentences: what could not be measured                    */
    int          all_done;     /* everything that was asked for, without a stop            */
} la_comparison;

/* --- ask.c: what was asked for --- */
enum { LA_FIRST_SWEEP_SEED = 1001 };
/* Seeds, rates, variants and problems.  LA_ARG, LA_NAME. */
la_status la_compare_ask(la_comparison *k);

/* --- plan.c: from options to runs --- */
/* Reads texts, checks every option of every run.  LA_ARG, LA_NAME: usage; LA_DATA, LA_IO: a text.
 */
la_status la_compare_open(la_comparison *k, const la_config *c, int argc, char **argv);
void      la_compare_close(la_comparison *k);
/* Adds a run.  sweep: with seed and rate of a sweep. */
la_status la_compare_add(la_comparison *k, int problem, int variant, int64_t seed, double lr,
                         int sweep);
/* The sweeps, if several rates are to be tried: they come first. */
la_status la_compare_add_sweeps(la_comparison *k);
/* The main runs; all sweeps have records. */
la_status la_compare_add_main(la_comparison *k);
/* Whether a rate is chosen for it by a sweep. */
int       la_compare_chooses(const la_comparison *k, int problem, int variant);
/* The rate of a problem and variant: of several the one with the lowest mean validation loss over
 * the sweep's seeds, the smaller one of equals; NAN: not known, or all of them diverged. */
double    la_compare_rate(const la_comparison *k, int problem, int variant);
/* That mean for one rate; NAN: one of the runs diverged or has no record.  *n: runs. */
double la_compare_sweep_loss(const la_comparison *k, int problem, int variant, double rate, int *n);

/* --- budget.c --- */
/* Steps by --budget, of a run whose config is known but for them; 0: there is no --budget. */
la_status la_compare_budget(la_comparison *k, const la_run_plan *r, int64_t *steps);
/* A number that somebody typed; LA_ARG: it is none, or not from least to most. */
la_status la_compare_number(const char *text, bool whole, double least, double most,
                            const char *what, double *x);

/* --- problem.c: texts and tasks --- */
/* Reads it once: p->about, vocab, hash.  train: the options of one of its runs. */
la_status la_problem_open(la_problem *p, const la_config *train);
/* Counting baselines of a text into p->about, from their record or with a new one. */
la_status la_problem_count(la_comparison *k, la_problem *p, const la_config *train);

/* --- record.c: what a run has found --- */
/* The record of an ended training, from its folder.  code: its exit code; message: its last words.
 */
la_status la_record_make(const la_comparison *k, const la_run_plan *r, int code,
                         const char *message, json_t **record);
/* Loads OUT/records/NAME.json; *value NULL if there is none.  A damaged one is removed with a note.
 */
la_status la_record_load(const la_comparison *k, const char *name, json_t **value);
/* Whether it is an object with all of these keys, which stand between blanks. */
int       la_record_has(const json_t *value, const char *keys);
/* Takes value over; NULL is LA_NOMEM. */
la_status la_record_save(const la_comparison *k, const char *name, json_t *value);
/* Puts value in the place of the file at path, whole or not at all.  LA_IO, LA_NOMEM. */
la_status la_json_save(const char *path, const json_t *value);

/* --- jobs.c: side by side --- */
/* Runs what has no record, --jobs at a time.  Ended by a signal: LA_OK, and la_signal_stop() says
 * so. LA_IO: a program cannot be started, or a training failed for a reason that will not go away.
 */
la_status   la_compare_train(la_comparison *k);
const char *la_run_folder(const la_comparison *k, const char *id);
int         la_job_threads(const la_comparison *k); /* of one run */

/* --- measured.c: once trainings are done --- */
/* Measures what has no record: the first seed's models of texts; time, memory and gradients of each
 * variant.  Stopped by a signal: LA_OK. */
la_status la_compare_measure(la_comparison *k);
/* Adds all of that which has a record to results.json. */
la_status la_compare_put_measures(la_comparison *k, json_t *results);

/* --- results.c: statistics --- */
/* All of results.json but what is measured on models and machine: those parts are empty.  NULL: no
 * memory. */
json_t *la_compare_results(const la_comparison *k);
#endif
