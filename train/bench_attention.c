/* bench_attention.c -- one attention variant, forward and backward, on random numbers.
 *
 * On the tape are the variant and one more node, the mark, which is the loss.  It takes the time
 * where the variant's own work ends and begins: its forward is the first thing after the variant's,
 * and its backward hands down a random gradient and then looks at the clock.  So nothing has to be
 * subtracted, and the variant's backward sees a gradient as it does in a model.  q, k and v are
 * inputs, whose gradients add up: in a model, where they are set, backward reads a little less. */
#include <math.h>

#include "autograd/kernel.h"
#include "tensor/parallel.h"
#include "train/bench.h"
#include "train/system.h"

/* --- nominal arithmetic --- */
const char la_attn_flops_text[] =
    "flops of a head, forward + backward: 2 and 5 products of 2 D for each query and key that "
    "meet,\n"
    "T (T+1) D (2 + 5) for causal softmax (Dao et al. 2022 count the same) and, on short texts, "
    "taylor2;\n"
    "linear variants with m features T m E (4 + 10), 2 and 5 products with the state; "
    "none has no arithmetic";

la_attn_flops la_attn_flops_of(const la_attn_cfg *c, int64_t T, int64_t D) {
    const la_attn *a = c->variant;
    double         t = (double)T, E = (double)D, d = c->d ? (double)c->d : E;
    la_attn_cfg    full = *c;
    if (!la_attn_op(c)) return (la_attn_flops){0};
    la_attn_complete(&full, T);
    c = &full;
    const double  pairs = la_attn_pairs(c, T, D, D), me = (double)la_attn_features(c, D) * E;
    la_attn_flops f = {4 * t * me, 10 * t * me, 4 * me};
    if (pairs > 0) f.forward = pairs * 2 * (d + E), f.backward = pairs * 2 * (3 * d + 2 * E);
    if (a->pairs) f.token = 4 * (a->pairs(c, T + 1) - a->pairs(c, T)) * E;
    return f;
}

la_attn_flops la_lm_attention_flops(const la_lm *lm, int64_t T) {
    la_attn_flops sum = {0};
    for (int64_t i = 0; i < lm->cfg.layers; i++) {
        const la_attn_layer *l = &lm->blocks[i].attn;
        for (int j = 0; lm->blocks[i].attends && j < l->n_groups; j++) {
            la_attn_flops f = la_attn_flops_of(&l->group[j].cfg, T, lm->cfg.dim / lm->cfg.heads);
            sum.forward += f.forward * (double)l->group[j].heads;
            sum.backward += f.backward * (double)l->group[j].heads;
            sum.token += f.token * (double)l->group[j].heads;
        }
    }
    return sum;
}

/* --- the mark: loss = 0; do += w, a constant --- */
typedef struct mark {
    double *seconds; /* [0] at the end of the variant's forward, [1] before its backward */
} mark;

static la_status mark_infer(const la_node *n, la_plan *p) {
    p->n_out = 1;
    p->out[0] = la_shape1(1);
    p->forward_blocks[0] = 1;
    p->backward_blocks[0] = la_ceil_div(la_len(n->in[0]->shape), LA_BLOCK_REALS);
    p->backward_blocks[1] = 1;
    return LA_OK;
}

static void mark_forward(const la_node *n, const la_run *run) {
    (void)run;
    n->x[0] = 0;
    ((const mark *)n->attr)->seconds[0] = la_seconds();
}

static void mark_backward(const la_node *n, const la_run *run) {
    if (run->phase == 1) {
        ((const mark *)n->attr)->seconds[1] = la_seconds();
        return;
    }
    la_range r = la_cut(la_len(n->in[0]->shape), LA_BLOCK_REALS, run->block);
    la_vec_table()->axpy(r.to - r.from, n->g[0], n->in[1]->x + r.from, n->in[0]->g + r.from);
}

static const la_op mark_op = {
    .name = "mark",
    .formula = "takes the time",
    .file = "train/bench_attention.c",
    .attr_size = sizeof(mark),
    .reads = LA_READS_IN(1),
    .infer = mark_infer,
    .forward = mark_forward,
    .backward = mark_backward,
};

/* --- one variant --- */
static la_status record(la_tape *t, const la_bench *b, const la_attn_cfg *attn, int64_t n,
                        double *seconds) {
    const la_config         *c = b->c;
    static const char *const names[] = {"q", "k", "v", "w"};
    la_node                 *in[4], *more[2] = {0};
    la_attn_weight           w[2];
    la_attn_cfg              full = *attn;
    la_shape                 s = la_shape4(c->batch, n, c->heads, c->d);
    la_attn_complete(&full, n);
    if (!la_shape_ok(s))
        return la_fail(LA_ARG,
                       "--batch %lld, %lld tokens, --heads %lld, --d %lld are too many "
                       "numbers: at most 2^46",
                       (long long)c->batch, (long long)n, (long long)c->heads, (long long)c->d);
    for (int i = 0; i < 4; i++) in[i] = la_input(t, names[i], s, i < 3);
    int n_more = la_attn_weights(&full, c->heads, c->d, w);
    for (int i = 0; i < n_more; i++) more[i] = la_input(t, w[i].name, w[i].shape, !w[i].frozen);
    la_node   *decay = full.decay ? la_input(t, "decay", la_shape1(c->heads), 0) : NULL;
    la_attn_in all = {
        .q = in[0], .k = in[1], .v = in[2], .weight = {more[0], more[1]}, .decay = decay};
    la_node *o = la_attention(t, &full, &all, NULL);
    LA_TRY(la_tape_seal(t, la_apply(t, &mark_op, 2, (la_node *[]){o, in[3]}, &(mark){seconds})));
    for (int i = 0; i < 4; i++)
        la_bench_fill((size_t)la_len(s), in[i]->x, (uint64_t)c->seed, (uint32_t)i);
    for (int i = 0; i < n_more; i++)
        la_bench_fill((size_t)la_len(w[i].shape), more[i]->x, (uint64_t)c->seed, 4 + (uint32_t)i);
    for (int64_t i = 0; decay && i < c->heads; i++) decay->x[i] = 3; /* gamma .95 */
    return LA_OK;
}

static la_status pass(la_tape *t, const double *mark_seconds, double *forward, double *backward) {
    double begin = la_seconds();
    LA_TRY(la_tape_forward(t));
    *forward = mark_seconds[0] - begin;
    LA_TRY(la_tape_backward(t, 1));
    *backward = la_seconds() - mark_seconds[1];
    return LA_OK;
}

static la_status measure(la_tape *t, const la_bench *b, const la_attn_cfg *attn, int64_t n,
                         double seconds, la_attn_timing *out) {
    double marks[2], forward, backward;
    size_t before = la_memory_peak_begin();
    LA_TRY(record(t, b, attn, n, marks));
    LA_TRY(pass(t, marks, &forward, &backward)); /* pages come in, threads wake up */
    size_t peak = la_memory_peak();
    out->planned = la_tape_bytes(t);
    out->peak = before && peak > before ? peak - before : 0;
    while (la_samples_wanted(&out->backward, b->c->repeats, seconds - out->forward.total)) {
        LA_TRY(pass(t, marks, &forward, &backward));
        la_samples_add(&out->forward, forward);
        la_samples_add(&out->backward, backward);
    }
    return LA_OK;
}

la_status la_attn_time(const la_bench *b, const la_attn_cfg *attn, int64_t n, double seconds,
                       la_attn_timing *out) {
    la_tape    *t;
    la_tape_cfg cfg = {.grad = 1, .max_bytes = la_memory_available()};
    *out = (la_attn_timing){0};
    la_bench_progress(b, "%s, %lld tokens", attn->variant->name, (long long)n);
    LA_TRY(la_tape_create(&t, &cfg));
    la_status s = measure(t, b, attn, n, seconds, out);
    la_tape_destroy(t);
    return s;
}

/* --- the mode --- */
la_status la_bench_variant(const la_config *c, la_attn_cfg *out) {
    la_attn_pattern p;
    LA_TRY(la_attn_pattern_parse(c->attn, c->eps, &p));
    if (p.n > 1 || p.mix[0].n > 1)
        return la_fail(LA_ARG,
                       "--attn %s is for a whole model (bench train); here one variant is measured",
                       c->attn);
    *out = p.mix[0].part[0].cfg;
    out->bidirectional = !strcmp(c->objective, "mlm");
    if (!la_attn_op(out) && !out->variant->not_causal)
        return la_fail(LA_ARG, "--attn %s adds no attention: there is nothing to measure", c->attn);
    la_attn_cfg full = *out;
    la_attn_complete(&full, c->n);
    return la_attn_check(&full, c->heads, c->d);
}

static void say_head(const la_bench *b) {
    const la_config *c = b->c;
    la_bench_say(b,
                 "forward and backward of attention: batch %lld, %lld tokens, %lld heads of %lld",
                 (long long)c->batch, (long long)c->n, (long long)c->heads, (long long)c->d);
    la_bench_say(b, "%s", la_attn_flops_text);
    la_bench_say_peak(b);
}

la_attn_cfg la_bench_usual(const la_config *c, const la_attn *a) {
    la_attn_cfg usual = a->usual;
    usual.variant = a;
    usual.eps = c->eps;
    usual.bidirectional = !strcmp(c->objective, "mlm");
    return usual;
}

/* name: the variant's, or --attn with its keys */
static la_status row(la_bench *b, const la_attn_cfg *attn, const char *name) {
    const la_config *c = b->c;
    la_attn_timing   time;
    LA_TRY(la_attn_time(b, attn, c->n, 1, &time));
    LA_TRY(la_bench_peak(b));
    double f = 1e3 * la_samples_median(&time.forward), g = 1e3 * la_samples_median(&time.backward);
    la_attn_flops flops = la_attn_flops_of(attn, c->n, c->d);
    double        gflops =
        1e-6 * (flops.forward + flops.backward) * (double)(c->heads * c->batch) / (f + g);
    la_cell cells[] = {
        {"attn", "attn", name, 0, 1, 0},
        {"n", NULL, NULL, (double)c->n, 1, 0},
        {"d", NULL, NULL, (double)c->d, 1, 0},
        {"heads", NULL, NULL, (double)c->heads, 1, 0},
        {"batch", NULL, NULL, (double)c->batch, 1, 0},
        {"threads", NULL, NULL, la_threads(), 1, 0},
        {"repeats", NULL, NULL, (double)time.forward.n, 1, 0},
        {"forward_ms", "forward ms", NULL, f, 1, 3},
        {"backward_ms", "backward ms", NULL, g, 1, 3},
        {"forward_min_ms", "min", NULL, 1e3 * la_samples_min(&time.forward), 1, 3},
        {"backward_min_ms", "min", NULL, 1e3 * la_samples_min(&time.backward), 1, 3},
        {"gflops", "GFLOP/s", NULL, gflops, 1, 1},
        {"percent_of_peak", "% of peak", NULL, 100 * gflops / b->peak, 1, 1},
        {"peak_gflops", NULL, NULL, b->peak, 1, 0},
        {"planned_bytes", "planned MiB", NULL, (double)time.planned, 0x1p20, 2},
        {"peak_bytes", "peak MiB", NULL, time.peak ? (double)time.peak : NAN, 0x1p20, 2},
    };
    if (b->rows == 0) say_head(b); /* not before it is known that this fits in memory */
    la_bench_row(b, cells, sizeof cells / sizeof *cells);
    if (!time.peak && b->rows == 1)
        la_bench_say(b, "(the peak of memory in use cannot be measured on this system)");
    return LA_OK;
}

la_status la_bench_attention(la_bench *b) {
    const la_config *c = b->c;
    la_attn_cfg      attn;
    LA_TRY(la_bench_variant(c, &attn));
    LA_TRY(la_bench_peak(b));
    if (la_config_given(c, LA_OPT_attn)) return row(b, &attn, c->attn);
    for (int i = 0; la_attns[i]; i++) {
        la_attn_cfg usual = la_bench_usual(c, la_attns[i]);
        if (la_attn_op(&usual) && (usual.bidirectional || !la_attns[i]->not_causal))
            LA_TRY(row(b, &usual, la_attns[i]->name));
    }
    return LA_OK;
}
