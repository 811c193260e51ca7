/* run_impl.h -- what the files of a training share: run.c (what comes before and after), resume.c
 * (what is taken over from a checkpoint), loop.c (the steps), recover.c (steps that are not finite)
 * and dry_run.c (no training).  Nobody else includes this. */
#ifndef LA_RUN_IMPL_H
#define LA_RUN_IMPL_H
#include "train/folder.h"
#include "train/memory_plan.h"
#include "train/nonfinite.h"

typedef struct la_run_state {
    la_config     *c;
    la_checkpoint *saved; /* resumed from or initialised from; NULL: fresh */
    int            resumes;
    char          *dir, *resumed_from;
    char          *go_on; /* the command by which it does */
    la_texts       texts;
    la_trainer     trainer;
    la_evaluator   evaluator;
    la_folder      folder;
    char          *config_text;
    uint64_t       corpus_hash;
    la_rate        rate;
    int64_t        step, best_step;
    double         best_val, last_val; /* HUGE_VAL, NAN: none */
    double         last_accuracy;      /* of a task, at last_val; NAN: none */
    double         started;            /* by la_seconds, less the time of a run that is resumed */
    int            evaluated;          /* at this step */
    int            bar;                /* stdout is a terminal */
    int            columns;
    int64_t        best_saved; /* step of the best.h5 in the folder; -1: none that we know of */
    int64_t        last_saved; /* step of the last.h5 in the folder; -1: none that we know of */
    double         drawn;      /* when the bar was drawn last */
    la_nonfinite   on_nonfinite;
    int64_t        skipped; /* steps in a row up to this one that were not finite */
    la_spikes      spikes;
    la_memory_plan plan;
} la_run_state;

/* Opens what --resume or --init-from names, and takes over the options it was made with. */
la_status la_run_open_saved(la_run_state *r);
/* LA_DATA: the run was trained on another text. */
la_status la_run_check_corpus(const la_run_state *r);
/* Weights and, of a run that is resumed, moments, step and best loss. */
la_status la_run_load_weights(la_run_state *r);
/* The checkpoints that are in the folder already; a run resumed from elsewhere has none of its own.
 */
void      la_run_note_saved(la_run_state *r);

/* Both print the loss and write nothing. */
la_status la_run_dry(la_run_state *r);
la_status la_run_eval_only(la_run_state *r);

void la_run_print_loss(const la_run_state *r, double loss);

/* Steps from r->step to --max-iters, or until a signal, --patience or --stop-at ends them. */
la_status  la_run_loop(la_run_state *r);
int        la_run_reached(const la_run_state *r); /* --stop-at */
/* Saves last.h5 (or best.h5).  A failure is a warning, and 0 is returned: training goes on, the
 * next save tries again. */
int        la_run_save(la_run_state *r, int best);
/* Saves best.h5 if this step is the best and that is not done yet.  0: it failed, as above. */
int        la_run_save_best(la_run_state *r);
/* What a sample at this step is to be. */
la_writing la_run_sample(const la_run_state *r);
int        la_run_sample_due(const la_run_state *r);
void       la_run_clear_bar(const la_run_state *r); /* before a line of its own */
/* After LA_NUMERIC of step r->step + 1, as --on-nonfinite says.  LA_OK: the run goes on with the
 * batch of the step after it, the weights are those of the step before or of a checkpoint, and *s
 * has no numbers but the rate.  LA_NUMERIC: it is to stop; la_error() says why. */
la_status  la_run_recover(la_run_state *r, la_step *s);
#endif
