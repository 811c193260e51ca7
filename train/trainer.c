/* trainer.c -- the training step and the evaluation, over a recorded tape each. */
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/masking.h"

enum {
    EVAL_TOKENS = 4096
}; /* in one replay of the evaluator: its memory, not its result, depends on it */

static int32_t *ints(int64_t n) { return malloc((size_t)n * sizeof(int32_t)); }

static int32_t *row_positions(int64_t rows, int64_t seq) {
    int32_t *p = ints(rows * seq);
    for (int64_t i = 0; p && i < rows * seq; i++) p[i] = (int32_t)(i % seq);
    return p;
}

/* --- the labelled places of a batch --- */

static la_status create_labelled(la_labelled *a, const la_task *task, int64_t rows) {
    if (!task) return LA_OK;
    a->n = rows * task->labels;
    a->at = ints(a->n);
    a->label = ints(a->n);
    if (a->at && a->label) return LA_OK;
    return la_fail(LA_NOMEM, "no memory for %lld labels of a batch", (long long)a->n);
}

static void destroy_labelled(la_labelled *a) {
    free(a->at);
    free(a->label);
    *a = (la_labelled){0};
}

/* Finds them among labels (rows,length); what is missing in rows that are not there has no label.
 */
static void find_labelled(la_labelled *a, int64_t rows, int64_t length, const int32_t *labels) {
    int64_t n = 0;
    for (int64_t i = 0; i < rows * length && n < a->n; i++) {
        if (labels[i] == LA_NO_TARGET) continue;
        a->at[n] = (int32_t)i;
        a->label[n++] = labels[i];
    }
    for (; n < a->n; n++) a->at[n] = 0, a->label[n] = LA_NO_TARGET;
}

/* How many labels are the likeliest token; of equal ones the first counts. */
static int64_t count_right(const la_labelled *a) {
    int64_t V = la_last(a->logits->shape), right = 0;
    for (int64_t i = 0; i < a->n; i++) {
        const la_real *z = a->logits->x + i * V;
        int64_t        best = 0;
        for (int64_t v = 1; v < V; v++)
            if (z[v] > z[best]) best = v;
        right += best == a->label[i];
    }
    return right;
}

/* Records the loss of (rows,seq) tokens. */
static la_node *record(const la_lm *lm, la_tape *tape, int64_t rows, int64_t seq,
                       const int32_t *tokens, const int32_t *labels, const int32_t *positions,
                       const int32_t *past, la_labelled *a) {
    la_shape    s = la_shape2(rows, seq);
    la_lm_input in = {.tokens = la_integers(tape, "tokens", s, tokens),
                      .positions = la_integers(tape, "positions", s, positions),
                      .past = la_integers(tape, "past", la_shape1(1), past)};
    if (!a->n) return la_lm_loss(lm, tape, &in, la_integers(tape, "labels", s, labels));
    la_shape n = la_shape1(a->n);
    return la_lm_loss_at(lm, tape, &in, la_integers(tape, "at", n, a->at),
                         la_integers(tape, "labels", n, a->label), &a->logits);
}

/* What to try, where memory is missing. */
static la_status advise(la_status s) {
    if (s != LA_NOMEM) return s;
    return la_fail(s, "%s: take a smaller --batch-size, --block-size or --n-embd, or --recompute",
                   la_error());
}

/* --- what it takes --- */

static size_t arrays_bytes(const la_lm *lm, int arrays) {
    return la_params_len(lm->params) * sizeof(la_real) * (size_t)arrays;
}

static size_t model_bytes(const la_trainer *t) {
    return arrays_bytes(t->lm, 2 + t->cfg.optim->n_slots);
}

/* Windows in a replay of an evaluation. */
static int64_t eval_rows(int64_t seq) { return EVAL_TOKENS / seq > 0 ? EVAL_TOKENS / seq : 1; }

/* Of a tape over (rows,seq) tokens, and of the integers that it reads. */
static la_status replay_bytes(const la_trainer_cfg *c, const la_lm *lm, int grad, int64_t rows,
                              size_t *bytes) {
    int64_t     T = c->lm.block_size;
    int32_t     unread;
    la_labelled a = {c->task ? rows * c->task->labels : 0, &unread, &unread, NULL};
    la_tape    *tape;
    LA_TRY(la_tape_create(&tape, &(la_tape_cfg){.grad = grad, .plan_only = 1}));
    la_node  *loss = la_keep(record(lm, tape, rows, T, &unread, &unread, &unread, &unread, &a));
    la_status s = la_tape_seal(tape, grad ? loss : NULL);
    *bytes = la_tape_bytes(tape) + la_tape_recorded(tape) +
             (size_t)(3 * rows * T + 2 * a.n) * sizeof(int32_t);
    la_tape_destroy(tape);
    return s;
}

static la_status check_batch(const la_trainer_cfg *c) {
    int64_t n = c->batch * c->lm.block_size;
    if (n <= INT32_MAX) return LA_OK;
    return la_fail(LA_ARG, "a batch of %lld tokens is not possible: %d at most", (long long)n,
                   INT32_MAX);
}

la_status la_trainer_plan_of(const la_trainer_cfg *c, la_trainer_plan *out) {
    la_lm    *lm;
    la_lm_cfg cfg = c->lm;
    LA_TRY(check_batch(c));
    cfg.max_bytes = c->max_bytes;
    LA_TRY(la_lm_plan(&lm, &cfg));
    *out = (la_trainer_plan){.model = arrays_bytes(lm, 2 + c->optim->n_slots)};
    la_status s = replay_bytes(c, lm, 1, c->batch, &out->step);
    if (s == LA_OK) s = replay_bytes(c, lm, 0, eval_rows(cfg.block_size), &out->evaluation);
    la_lm_destroy(lm);
    return s;
}

static la_status fits(const la_trainer_cfg *c) {
    la_trainer_plan plan;
    if (!c->max_bytes) return LA_OK;
    LA_TRY(la_trainer_plan_of(c, &plan));
    if (plan.model + plan.step <= c->max_bytes) return LA_OK;
    return advise(la_fail(
        LA_NOMEM, "the model needs %.1f MiB and the step %.1f MiB, and %.1f MiB are free",
        (double)plan.model / 0x1p20, (double)plan.step / 0x1p20, (double)c->max_bytes / 0x1p20));
}

/* --- training --- */

static la_status create(la_trainer *t, const la_ids *text) {
    const la_trainer_cfg *c = &t->cfg;
    int64_t               T = c->lm.block_size, n = c->batch * T;
    LA_TRY(check_batch(c));
    LA_TRY(fits(c));
    LA_TRY(la_lm_create(&t->lm, &c->lm, c->seed, 1));
    LA_TRY(la_optim_create(&t->optim, c->optim, &c->optim_cfg, t->lm->params));
    if (!c->task) LA_TRY(la_loader_init(&t->loader, text, c->batch, T, c->seed));
    t->tokens = ints(n);
    t->labels = ints(n);
    t->positions = row_positions(c->batch, T);
    if (!t->tokens || !t->labels || !t->positions)
        return la_fail(LA_NOMEM, "no memory for a batch of %lld tokens", (long long)n);
    LA_TRY(create_labelled(&t->asked, c->task, c->batch));
    LA_TRY(la_tape_create(&t->tape, &(la_tape_cfg){.grad = 1, .seed = c->seed}));
    t->loss = record(t->lm, t->tape, c->batch, T, t->tokens, t->labels, t->positions, &t->past,
                     &t->asked);
    return advise(la_tape_seal(t->tape, t->loss));
}

la_status la_trainer_create(la_trainer *t, const la_trainer_cfg *cfg, const la_ids *text) {
    *t = (la_trainer){.cfg = *cfg};
    la_status s = create(t, text);
    if (s != LA_OK) la_trainer_destroy(t);
    return s;
}

void la_trainer_destroy(la_trainer *t) {
    la_tape_destroy(t->tape);
    la_optim_destroy(&t->optim);
    la_lm_destroy(t->lm);
    free(t->tokens);
    free(t->labels);
    free(t->positions);
    destroy_labelled(&t->asked);
    *t = (la_trainer){0};
}

size_t la_trainer_bytes(const la_trainer *t) { return model_bytes(t) + la_tape_bytes(t->tape); }

/* Batch number `draw` of the run: tokens and labels. */
static void fill(la_trainer *t, uint64_t draw) {
    const la_lm_cfg *lm = &t->cfg.lm;
    uint64_t         first = draw * (uint64_t)t->cfg.batch;
    if (t->cfg.task) {
        la_task_fill(t->cfg.task, t->cfg.seed, first, t->cfg.batch, t->tokens, t->labels);
        find_labelled(&t->asked, t->cfg.batch, lm->block_size, t->labels);
        return;
    }
    la_loader_fill(&t->loader, draw, t->tokens, t->labels);
    if (lm->mask_token)
        la_mask_rows(t->cfg.seed, first, t->cfg.batch, lm->block_size, lm->vocab, t->tokens,
                     t->labels);
}

la_status la_trainer_step(la_trainer *t, int64_t step, la_step *out) {
    const la_trainer_cfg *c = &t->cfg;
    double                loss = 0;
    int64_t               right = 0;
    la_lm_begin_step(t->lm, c->seed, step);
    for (int64_t micro = 0; micro < c->grad_accum; micro++) {
        uint64_t draw = (uint64_t)(step * c->grad_accum + micro); /* numbers the batches of a run */
        fill(t, c->same_batch ? (uint64_t)micro : draw);
        la_tape_set_step(t->tape, draw);
        LA_TRY(la_tape_forward(t->tape));
        loss += (double)*t->loss->x / (double)c->grad_accum;
        if (!isfinite(loss)) break;
        if (c->task) right += count_right(&t->asked);
        LA_TRY(la_tape_backward(t->tape, 1.0 / (double)c->grad_accum));
    }
    double norm = isfinite(loss) ? la_grad_norm(t->lm->params) : NAN;
    if (!isfinite(norm)) {
        la_status found = la_tape_find_nonfinite(t->tape); /* says which tensor */
        memset(la_params_g(t->lm->params), 0, la_params_len(t->lm->params) * sizeof(la_real));
        LA_TRY(found);
        return la_fail(LA_NUMERIC, "the %s is not finite",
                       isfinite(loss) ? "gradient norm" : "loss");
    }
    *out = (la_step){loss, norm, la_schedule_lr(&c->schedule, step),
                     c->task ? (double)right / (double)(t->asked.n * c->grad_accum) : NAN};
    la_optim_step(&t->optim, out->lr, la_clip_scale(norm, c->grad_clip));
    return LA_OK;
}

static la_status create_evaluator(la_evaluator *e, const la_lm *lm) {
    e->seq = lm->cfg.block_size;
    e->masked = lm->cfg.mask_token ? lm->cfg.vocab : 0;
    e->rows = eval_rows(e->seq);
    e->tokens = ints(e->rows * e->seq);
    e->labels = ints(e->rows * e->seq);
    e->positions = row_positions(e->rows, e->seq);
    if (!e->tokens || !e->labels || !e->positions)
        return la_fail(LA_NOMEM, "no memory for an evaluation of %lld tokens",
                       (long long)(e->rows * e->seq));
    LA_TRY(create_labelled(&e->asked, e->task, e->rows));
    LA_TRY(la_tape_create(&e->tape, NULL));
    e->loss = record(lm, e->tape, e->rows, e->seq, e->tokens, e->labels, e->positions, &e->past,
                     &e->asked);
    la_keep(e->loss);
    return advise(la_tape_seal(e->tape, NULL));
}

la_status la_evaluator_create(la_evaluator *e, const la_lm *lm, const la_task *task) {
    *e = (la_evaluator){.task = task, .accuracy = NAN};
    la_status s = create_evaluator(e, lm);
    if (s != LA_OK) la_evaluator_destroy(e);
    return s;
}

void la_evaluator_destroy(la_evaluator *e) {
    la_tape_destroy(e->tape);
    free(e->tokens);
    free(e->labels);
    free(e->positions);
    destroy_labelled(&e->asked);
    *e = (la_evaluator){0};
}

/* Windows first ... of a text or rows of a task; `full` of them are there. */
static void fill_evaluator(la_evaluator *e, const la_ids *text, int64_t first, int64_t full) {
    if (e->task) {
        la_task_fill(e->task, LA_TASK_TEST_SEED, (uint64_t)first, full, e->tokens, e->labels);
        for (int64_t i = full * e->seq; i < e->rows * e->seq; i++) e->tokens[i] = 0;
        find_labelled(&e->asked, full, e->seq, e->labels);
        return;
    }
    la_eval_fill(text, e->seq, first, e->rows, e->tokens, e->labels);
    if (e->masked) /* not the rows past the last window: they keep LA_NO_TARGET */
        la_mask_rows(LA_EVAL_MASK_SEED, (uint64_t)first, full, e->seq, e->masked, e->tokens,
                     e->labels);
}

static int64_t windows_of(const la_evaluator *e, const la_ids *text) {
    return e->task ? LA_TASK_TEST_ROWS : la_eval_windows(text->n, e->seq);
}

int64_t la_eval_replays(const la_evaluator *e, const la_ids *text, int64_t most) {
    int64_t all = (windows_of(e, text) + e->rows - 1) / e->rows;
    return most > 0 && most < all ? most : all;
}

la_status la_evaluate(la_evaluator *e, const la_ids *text, int64_t most, int (*stop)(void),
                      double *loss) {
    int64_t windows = windows_of(e, text), replays = la_eval_replays(e, text, 0);
    int64_t used = la_eval_replays(e, text, most), seen = 0, right = 0;
    double  sum = 0;
    for (int64_t i = 0; i < used; i++) {
        if (stop && stop()) return la_fail(LA_STATE, "the evaluation was interrupted");
        int64_t first = i * replays / used * e->rows;
        int64_t full = windows - first < e->rows ? windows - first : e->rows;
        fill_evaluator(e, text, first, full);
        LA_TRY(la_tape_forward(e->tape));
        sum += (double)*e->loss->x * (double)full; /* every window has as many labels */
        if (e->task) right += count_right(&e->asked);
        seen += full;
    }
    *loss = seen ? sum / (double)seen : NAN;
    if (e->task) e->accuracy = (double)right / (double)(seen * e->task->labels);
    return LA_OK;
}
