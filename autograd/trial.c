/* trial.c -- builds a trial, and compares its gradients with finite differences. */
#include "autograd/trial.h"

#include <math.h>
#include <string.h>

#include "autograd/kernel.h"
#include "autograd/ops.h"
#include "tensor/names.h"
#include "tensor/rng.h"

#define X(name) extern const la_op la_op_##name;
#include "autograd/ops.def"
#undef X

const la_op *const la_ops[] = {
#define X(name) &la_op_##name,
#include "autograd/ops.def"
#undef X
    NULL,
};

static int op_count(void) {
    int n = 0;
    while (la_ops[n]) n++;
    return n;
}

/* Variant number i of those that have an op. */
static const la_attn *variant_at(int i) {
    for (int j = 0; la_attns[j]; j++)
        if (la_attns[j]->op && i-- == 0) return la_attns[j];
    return NULL;
}

int la_subject_count(void) {
    int n = op_count(), i = 0;
    while (variant_at(i)) i++;
    return n + i;
}

la_subject la_subject_at(int i) {
    int n = op_count();
    if (i < n) {
        const la_op *op = la_ops[i];
        return (la_subject){op->name, op->formula, NULL, op->file, op, NULL, op->cases};
    }
    const la_attn *a = variant_at(i - n);
    return (la_subject){a->name, a->formula, a->paper, a->file, a->op, a, la_attn_cases};
}

static const char *name_at(int i) { return i < la_subject_count() ? la_subject_at(i).name : NULL; }

la_status la_subject_find(const char *name, la_subject *out) {
    int i = la_name_index(name, name_at);
    if (i < 0) return la_name_unknown("op or variant", name, name_at);
    *out = la_subject_at(i);
    return LA_OK;
}

static uint64_t stream(int input) { return la_rng_stream(LA_RNG_TEST, (uint32_t)input); }

static la_node *integers(la_trial *r, const la_case *c, int i, uint64_t seed) {
    int64_t  len = la_len(c->in[i]);
    int32_t *ids = la_arena_alloc(&r->arena, (size_t)len * sizeof *ids);
    for (int64_t j = 0; ids && j < len; j++)
        ids[j] = c->ids[i].lo + (int32_t)la_rng_below(seed, stream(i), (uint64_t)j,
                                                      (uint64_t)(c->ids[i].hi - c->ids[i].lo));
    return ids ? la_integers(r->tape, "integers", c->in[i], ids) : NULL;
}

static la_node *real_input(la_trial *r, la_shape s, const la_trial_cfg *cfg) {
    static const char *const names[LA_TRIAL_NODES] = {"input 0", "input 1", "input 2", "input 3",
                                                      "input 4", "input 5", "input 6", "input 7",
                                                      "input 8", "input 9"};
    int                      i = r->n_in++;
    la_node                 *n = la_input(r->tape, names[i], s, !(cfg->without_grad >> i & 1));
    r->in[i] = n;
    return cfg->behind ? la_dropout(r->tape, n, 0) : n;
}

/* An input of a plain op: a tensor of its own, or some columns of a wider one. */
static la_node *plain_input(la_trial *r, const la_case *c, la_shape s, const la_trial_cfg *cfg) {
    if (!c->wider || s.n != 4) return real_input(r, s, cfg);
    la_node *x = real_input(r, la_shape3(s.d[0], s.d[1], s.d[2] * s.d[3] + c->wider), cfg);
    return la_heads(r->tape, x, c->wider / 2, s.d[2], s.d[3]);
}

/* q, k, v (B,T,H,...) of these shapes: an input each, or columns of one. */
static void heads(la_trial *r, const la_shape s[3], const la_trial_cfg *cfg, la_node *in[3]) {
    int64_t width = 0, at = 0;
    for (int i = 0; i < 3; i++) width += s[i].d[2] * s[i].d[3];
    la_node *x = cfg->columns ? real_input(r, la_shape3(s[0].d[0], s[0].d[1], width), cfg) : NULL;
    for (int i = 0; i < 3; at += s[i].d[2] * s[i].d[3], i++)
        in[i] = cfg->columns ? la_heads(r->tape, x, at, s[i].d[2], s[i].d[3])
                             : real_input(r, s[i], cfg);
}

static void fill(la_node *n, double lo, double hi, uint64_t seed, uint64_t which) {
    for (int64_t j = 0; j < la_len(n->shape); j++)
        n->x[j] = R(lo + (hi - lo) * la_rng_uniform(seed, which, (uint64_t)j));
}

static void add_output(la_trial *r, la_node *n) {
    if (n) r->out[r->n_out++] = la_keep(n);
}

static void record_plain(la_trial *r, const la_subject *s, const la_case *c,
                         const la_trial_cfg *cfg) {
    la_node *in[LA_MAX_IN];
    int      n = 0;
    if (s->variant) heads(r, c->in, cfg, in), n = 3;
    for (; n < LA_MAX_IN && c->in[n].n; n++)
        in[n] = c->ids[n].hi > c->ids[n].lo ? integers(r, c, n, cfg->seed)
                                            : plain_input(r, c, c->in[n], cfg);
    const void *attr = c->attr;
    if (s->variant) {
        r->cfg = *(const la_attn_cfg *)c->attr;
        r->cfg.variant = s->variant;
        attr = &r->cfg;
    }
    la_node *y = la_apply(r->tape, s->op, n, in, attr);
    for (int k = 0; y && k < y->n_out; k++) add_output(r, y->out[k]);
}

/* The text in two parts; the second starts from the state that the first leaves. */
static void record_split(la_trial *r, const la_subject *s, const la_case *c,
                         const la_trial_cfg *cfg, la_node **start) {
    int64_t B = c->in[0].d[0], T = c->in[0].d[1], H = c->in[0].d[2], D = c->in[0].d[3],
            E = c->in[2].d[3];
    int64_t  len = la_attn_state_len(s->variant, D, E, T + 1);
    int32_t *past = la_arena_alloc(&r->arena, 2 * LA_ALIGN);
    r->cfg = *(const la_attn_cfg *)c->attr;
    r->cfg.variant = s->variant;
    la_node *state = *start = la_input(r->tape, "state", la_shape3(B, H, len), 0);
    for (int part = 0; past && part < 2; part++) {
        int64_t  n = part ? T - T / 2 : T / 2;
        la_node *in[3];
        la_shape q = la_shape4(B, n, H, D);
        heads(r, (la_shape[]){q, q, la_shape4(B, n, H, E)}, cfg, in);
        past[16 * part] = part ? (int32_t)(T / 2) : 0;
        la_node *p = la_integers(r->tape, "past", la_shape1(1), past + 16 * part);
        add_output(r, la_attention(r->tape, &r->cfg, in[0], in[1], in[2], state, p, &state));
    }
    add_output(r, state);
}

static void add_loss(la_trial *r) {
    for (int k = 0; k < r->n_out; k++) {
        r->cotangent[k] = la_input(r->tape, "cotangent", r->out[k]->shape, 0);
        la_node *s = la_inner(r->tape, r->out[k], r->cotangent[k]);
        r->loss = k ? la_add(r->tape, r->loss, s) : s;
    }
}

la_status la_trial_create(la_trial *r, const la_subject *s, const la_case *c,
                          const la_trial_cfg *cfg) {
    la_tape_cfg tape = {.grad = !cfg->inference, .seed = cfg->seed};
    la_node    *start = NULL;
    *r = (la_trial){0};
    la_status status = la_tape_create(&r->tape, &tape);
    if (status == LA_OK) {
        if (cfg->split && s->variant && c->in[0].d[1] > 1)
            record_split(r, s, c, cfg, &start);
        else
            record_plain(r, s, c, cfg);
        if (!cfg->inference) add_loss(r);
        status = la_tape_seal(r->tape, r->loss);
    }
    if (status != LA_OK) {
        la_trial_destroy(r);
        return status;
    }
    double lo = c->lo, hi = c->hi;
    if (lo == 0 && hi == 0) lo = -1, hi = 1;
    for (int i = 0; i < r->n_in; i++) fill(r->in[i], lo, hi, cfg->seed, stream(i));
    for (int k = 0; k < r->n_out && r->cotangent[k]; k++)
        fill(r->cotangent[k], -1, 1, cfg->seed, stream(100 + k));
    if (start)
        la_attn_state_start(s->variant, start->shape.d[0] * start->shape.d[1], c->in[0].d[3],
                            c->in[2].d[3], start->shape.d[2], start->x);
    return LA_OK;
}

void la_trial_destroy(la_trial *r) {
    la_tape_destroy(r->tape);
    la_arena_free(&r->arena);
    r->tape = NULL;
}

la_status la_gradcheck(const la_subject *s, const la_case *c, int split, double *worst) {
    enum { SAMPLE = 64 };
    const double h = 1e-5;
    double       gap = 0, top = 0;
    la_trial     r;
    LA_TRY(la_trial_create(&r, s, c, &(la_trial_cfg){.split = split, .seed = 7}));
    la_status status = la_tape_forward(r.tape);
    if (status == LA_OK) status = la_tape_backward(r.tape, 1);
    for (int i = 0; i < r.n_in && status == LA_OK; i++) {
        int64_t len = la_len(r.in[i]->shape);
        for (int64_t k = 0; k < la_min(len, SAMPLE) && status == LA_OK; k++) {
            int64_t j =
                len <= SAMPLE ? k : (int64_t)la_rng_below(9, stream(i), (uint64_t)k, (uint64_t)len);
            la_real *x = r.in[i]->x + j, was = *x;
            *x = was + R(h);
            status = la_tape_forward(r.tape);
            double up = (double)*r.loss->x;
            *x = was - R(h);
            if (status == LA_OK) status = la_tape_forward(r.tape);
            double numeric = (up - (double)*r.loss->x) / (2 * h), g = (double)r.in[i]->g[j];
            *x = was;
            gap = fmax(gap, fabs(g - numeric));
            top = fmax(top, fabs(numeric));
            if (!isfinite(g) || !isfinite(numeric)) gap = HUGE_VAL;
        }
    }
    la_trial_destroy(&r);
    *worst = gap == 0 ? 0 : gap / fmax(top, 1e-300);
    return status;
}
