/* trainer.h -- a model in training: one step, and an evaluation.
 *
 * A model with a mask token (lm.mask_token) learns the masked objective of data/masking.h: the mean
 * is over the labelled tokens, of which every row has the same number.
 *
 * A model of a task (data/task.h) learns its labels, and has an accuracy: the part of them that is
 * the likeliest of all V tokens.  The head is computed at the labels only.
 *
 * It knows nothing of files, screens or options; run.c is built on it. */
#ifndef LA_TRAINER_H
#define LA_TRAINER_H
#include "data/loader.h"
#include "data/task.h"
#include "layers/layers.h"
#include "optim/optim.h"

typedef struct la_trainer_cfg {
    la_lm_cfg           lm;
    int64_t             batch, grad_accum;
    uint64_t            seed;
    double              grad_clip; /* 0: off */
    const la_optim_def *optim;
    la_optim_cfg        optim_cfg;
    la_schedule         schedule;
    size_t              max_bytes;  /* model, optimiser and step together; 0: no limit   */
    int                 same_batch; /* each step sees the first batch: overfitting on purpose */
    const la_task      *task;       /* NULL: a text; it must outlive the trainer              */
} la_trainer_cfg;

/* The labelled places of a batch of a task: n = rows by labels of a row. */
typedef struct la_labelled {
    int64_t  n;
    int32_t *at, *label; /* (n) each: place in the batch, and what is right there         */
    la_node *logits;     /* (n,V); NULL: not a task                                       */
} la_labelled;

typedef struct la_trainer {
    la_trainer_cfg cfg;
    la_lm         *lm;
    la_optim       optim;
    la_loader      loader;
    la_tape       *tape;
    la_node       *loss;
    int32_t       *tokens, *labels, *positions, past; /* (B,T) each                     */
    la_labelled    asked;
} la_trainer;

typedef struct la_step {
    double loss, norm, lr; /* mean over the step's tokens; gradient norm before clipping */
    double accuracy;       /* of a task; else NAN                                        */
} la_step;

/* Bytes that a training takes: what la_trainer_create and la_evaluator_create allocate. */
typedef struct la_trainer_plan {
    size_t model;      /* weights, gradients, the optimiser's arrays */
    size_t step;       /* its tape and its batch                     */
    size_t evaluation; /* the same of an evaluation                  */
} la_trainer_plan;

/* Allocates nothing large.  LA_NOMEM: weights and gradients alone are above max_bytes. */
la_status la_trainer_plan_of(const la_trainer_cfg *cfg, la_trainer_plan *out);

/* text: more than block_size tokens; with a task it is not looked at.  LA_NOMEM, before anything
 * large is allocated: model and step would not fit into max_bytes. */
la_status la_trainer_create(la_trainer *t, const la_trainer_cfg *cfg, const la_ids *text);
void      la_trainer_destroy(la_trainer *t);
size_t    la_trainer_bytes(const la_trainer *t); /* weights, gradients, moments, step     */

/* Step number `step` (from 0): batch = f(seed, step), then an update.  LA_NUMERIC, with the first
 * bad tensor and nothing updated, if the loss or the gradient norm is not finite: the next step is
 * as if this one had not been. */
la_status la_trainer_step(la_trainer *t, int64_t step, la_step *out);

/* --- evaluation: mean loss over windows of block_size, independent of the batch size.  What is
 * masked in a window depends on its number alone.  Of a task: over LA_TASK_TEST_ROWS test rows ---
 */
typedef struct la_evaluator {
    la_tape       *tape;
    la_node       *loss;
    int64_t        rows, seq; /* windows in a replay; a fixed number of tokens                */
    int64_t        masked;    /* 0, or the vocabulary before [MASK]                           */
    int32_t       *tokens, *labels, *positions, past;
    const la_task *task; /* NULL: a text                                                */
    la_labelled    asked;
    double         accuracy; /* of the last evaluation; NAN: not a task                 */
} la_evaluator;

/* task NULL: evaluates texts. */
la_status la_evaluator_create(la_evaluator *e, const la_lm *lm, const la_task *task);
void      la_evaluator_destroy(la_evaluator *e);
/* Replays of an evaluation: `most` of them at most, spread evenly over the text; 0: the whole text.
 */
int64_t   la_eval_replays(const la_evaluator *e, const la_ids *text, int64_t most);
/* With a task text is not looked at, and e->accuracy is set.  stop() is asked between replays; if
 * it says yes, LA_STATE is returned. */
la_status la_evaluate(la_evaluator *e, const la_ids *text, int64_t most, int (*stop)(void),
                      double *loss);
#endif
