/* replay.c -- the engine: one loop over the schedule. */
#include <math.h>
#include <string.h>

#include "autograd/tape_impl.h"
#include "tensor/parallel.h"

enum { CLEAR_REALS = 65536 }; /* of a gradient, cleared by one block */

typedef struct job {
    const la_tape *tape;
    const la_node *node;
    int            phase;
    unsigned       first;
    void (*kernel)(const la_node *, const la_run *);
} job;

static void run_block(void *ctx, int64_t block, int thread) {
    const job *j = ctx;
    la_run     run = {.phase = j->phase,
                      .block = block,
                      .scratch = j->tape->scratch + j->tape->scratch_each * (size_t)thread,
                      .common = j->tape->common,
                      .seed = j->tape->cfg.seed,
                      .step = j->tape->step,
                      .first = j->first};
    j->kernel(j->node, &run);
}

static void run_phases(const la_tape *t, const la_node *n, const int64_t *blocks, unsigned first,
                       void (*kernel)(const la_node *, const la_run *)) {
    for (int p = 0; p < LA_MAX_PHASE && blocks[p]; p++) {
        job j = {t, n, p, first, kernel};
        la_parallel(blocks[p], run_block, &j);
    }
}

static void node_forward(const la_tape *t, int i) {
    if (t->info[i].kind == LA_KIND_OP)
        run_phases(t, t->nodes[i], t->info[i].plan.forward_blocks, 0, t->nodes[i]->op->forward);
}

static void clear_block(void *ctx, int64_t block, int thread) {
    const la_node *n = ctx;
    int64_t        from = block * CLEAR_REALS, left = la_len(n->shape) - from;
    (void)thread;
    memset(n->g + from, 0, (size_t)(left < CLEAR_REALS ? left : CLEAR_REALS) * sizeof *n->g);
}

static void node_backward(const la_tape *t, int i) {
    const la_info *f = t->info + i;
    for (int k = 0; k < f->n_zero; k++)
        la_parallel((la_len(f->zero[k]->shape) + CLEAR_REALS - 1) / CLEAR_REALS, clear_block,
                    f->zero[k]);
    run_phases(t, t->nodes[i], f->plan.backward_blocks, f->first, t->nodes[i]->op->backward);
}

static void run_entry(const la_tape *t, la_entry e) {
    if (e.backward)
        node_backward(t, e.node);
    else
        node_forward(t, e.node);
}

static void run(const la_tape *t, int from, int to) {
    for (int i = from; i < to; i++) run_entry(t, t->schedule[i]);
}

static la_status ready(const la_tape *t) {
    if (!t->sealed) return la_fail(LA_STATE, "the tape has not been sealed");
    if (la_threads() > t->threads)
        return la_fail(LA_STATE, "the tape was sealed for %d threads and there are now %d",
                       t->threads, la_threads());
    return LA_OK;
}

static la_status ready_backward(const la_tape *t) {
    if (!t->forwarded) return la_fail(LA_STATE, "backward needs a forward before it");
    if (!t->loss || !(t->loss->flags & LA_NEEDS_GRAD))
        return la_fail(LA_STATE, "no parameter that the loss depends on has a gradient");
    return LA_OK;
}

la_status la_tape_forward(la_tape *t) {
    LA_TRY(ready(t));
    for (int i = 0; i < t->n; i++)
        if (t->nodes[i]->op && t->nodes[i]->op->check) LA_TRY(t->nodes[i]->op->check(t->nodes[i]));
    run(t, 0, t->n);
    t->forwarded = 1;
    return LA_OK;
}

la_status la_tape_backward(la_tape *t, double scale) {
    LA_TRY(ready(t));
    LA_TRY(ready_backward(t));
    t->forwarded = 0; /* gradients have taken over the memory of values */
    la_kind kind = t->info[la_owner(t, t->loss)->id].kind;
    if (kind != LA_KIND_LEAF && kind != LA_KIND_INPUT)
        *t->loss->g = 0; /* those add up over replays */
    *t->loss->g += R(scale);
    run(t, t->n, t->n_ticks);
    return LA_OK;
}

void la_tape_set_step(la_tape *t, uint64_t step) { t->step = step; }

static la_status check(const la_node *n, const la_real *x, const char *what) {
    if (!x) return LA_OK;
    int64_t at = la_find_nonfinite((size_t)la_len(n->shape), x);
    if (at < 0) return LA_OK;
    int64_t last = la_last(n->shape);
    return la_fail(LA_NUMERIC, "the %s of %s (%s) is %s at row %lld, column %lld", what, n->name,
                   n->op ? n->op->name : "leaf", isnan(x[at]) ? "not a number" : "infinite",
                   (long long)(at / last), (long long)(at % last));
}

static la_status run_checked(const la_tape *t, int from, int to) {
    for (int i = from; i < to; i++) {
        const la_node *n = t->nodes[t->schedule[i].node];
        run_entry(t, t->schedule[i]);
        if (!t->schedule[i].backward) {
            if (t->info[n->id].kind == LA_KIND_LEAF) LA_TRY(check(n, n->x, "value"));
            for (int k = 0; k < n->n_out; k++) LA_TRY(check(n->out[k], n->out[k]->x, "value"));
        } else
            for (int j = 0; j < n->n_in; j++) {
                const la_node *owner = la_owner(t, n->in[j]);
                LA_TRY(check(owner, owner->g, "gradient"));
            }
    }
    return LA_OK;
}

la_status la_tape_find_nonfinite(la_tape *t) {
    LA_TRY(ready(t));
    LA_TRY(run_checked(t, 0, t->n));
    t->forwarded = 1;
    LA_TRY(ready_backward(t));
    t->forwarded = 0;
    *t->loss->g = 1;
    return run_checked(t, t->n, t->n_ticks);
}
