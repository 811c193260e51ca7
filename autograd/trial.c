/* trial.c -- builds a trial, and compares its gradients with finite differences. */
#include "autograd/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/kernel.h"
#include "autograd/ops.h"
#include "tensor/rng.h"

/* --- recording --- */
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
    static const char *const names[LA_TRIAL_NODES] = {"input 0", "input 1", "input 2",  "input 3",
                                                      "input 4", "input 5", "input 6",  "input 7",
                                                      "input 8", "input 9", "input 10", "input 11"};
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
    for (; n < LA_MAX_IN && c->in[n].n; n++)
        in[n] = c->ids[n].hi > c->ids[n].lo ? integers(r, c, n, cfg->seed)
                                            : plain_input(r, c, c->in[n], cfg);
    la_node *y = la_apply(r->tape, s->op, n, in, c->attr);
    for (int k = 0; y && k < y->n_out; k++) add_output(r, y->out[k]);
}

/* What a variant needs besides q, k, v; the same for all parts of a text. */
static void record_weights(la_trial *r, int64_t H, int64_t D, const la_trial_cfg *cfg,
                           la_attn_in *in) {
    la_attn_weight w[2];
    int            n = la_attn_weights(&r->cfg, H, D, w);
    for (int i = 0; i < n; i++)
        in->weight[i] = w[i].frozen ? (r->frozen[i] = la_input(r->tape, w[i].name, w[i].shape, 0))
                                    : real_input(r, w[i].shape, cfg);
    if (r->cfg.decay) in->decay = real_input(r, la_shape1(H), cfg);
}

/* A part of n tokens from `from` on: every third token is not valid, another in each row; and of
 * several rows the first has none at all in a second part. */
static la_node *record_mask(la_trial *r, int64_t B, int64_t from, int64_t n) {
    int32_t *ids = la_arena_alloc(&r->arena, (size_t)(B * n) * sizeof *ids);
    for (int64_t i = 0; ids && i < B * n; i++)
        ids[i] = (from + i % n + i / n) % 3 != 1 && !(from > 0 && B > 1 && i / n == 0);
    return ids ? la_integers(r->tape, "mask", la_shape2(B, n), ids) : NULL;
}

/* Valid tokens of each row before token `from`. */
static la_node *record_past(la_trial *r, int64_t B, int64_t from, int masked) {
    int32_t *past = la_arena_alloc(&r->arena, (size_t)B * sizeof *past);
    for (int64_t b = 0; past && b < B; b++) {
        past[b] = 0;
        for (int64_t t = 0; t < from; t++) past[b] += !masked || (t + b) % 3 != 1;
    }
    return past ? la_integers(r->tape, "past", la_shape1(masked ? B : 1), past) : NULL;
}

/* A text, or one in two parts: the second starts from the state that the first leaves. */
static void record_variant(la_trial *r, const la_subject *s, const la_case *c,
                           const la_trial_cfg *cfg, la_node **start) {
    const la_attn_cfg *given = c->attr;
    const int64_t      B = c->in[0].d[0], T = c->in[0].d[1], H = c->in[0].d[2], D = c->in[0].d[3],
                  E = c->in[2].d[3];
    const int split = cfg->split && T > 1;
    la_node  *state = NULL;
    r->cfg = la_subject_cfg(s, given->eps, given->chunk);
    record_weights(r, H, D, cfg, &r->text[0]);
    if (split)
        state = *start =
            la_input(r->tape, "state", la_shape3(B, H, la_attn_state_len(&r->cfg, D, E, T + 1)), 0);
    for (int part = 0; part <= split; part++) {
        int64_t     from = part ? T / 2 : 0, n = !split ? T : part ? T - T / 2 : T / 2;
        la_attn_in *in = &r->text[part];
        la_node    *x[3];
        la_shape    q = la_shape4(B, n, H, D);
        if (part) *in = r->text[0];
        heads(r, (la_shape[]){q, q, la_shape4(B, n, H, E)}, cfg, x);
        in->q = x[0], in->k = x[1], in->v = x[2];
        in->state = state;
        in->past = split ? record_past(r, B, from, cfg->masked) : NULL;
        in->mask = cfg->masked ? record_mask(r, B, from, n) : NULL;
        add_output(r, la_attention(r->tape, &r->cfg, in, &state));
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
        if (s->variant)
            record_variant(r, s, c, cfg, &start);
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
    for (int i = 0; i < r->n_in; i++) {
        int plain = !s->variant || r->in[i]->shape.n == 4 || cfg->columns;
        fill(r->in[i], plain ? lo : -1, plain ? hi : 1, cfg->seed, stream(i));
    }
    for (int i = 0; i < 2; i++)
        if (r->frozen[i]) fill(r->frozen[i], -1, 1, cfg->seed, stream(50 + i));
    for (int k = 0; k < r->n_out && r->cotangent[k]; k++)
        fill(r->cotangent[k], -1, 1, cfg->seed, stream(100 + k));
    if (start)
        la_attn_state_start(&r->cfg, start->shape.d[0] * start->shape.d[1], c->in[0].d[3],
                            c->in[2].d[3], start->shape.d[2], start->x);
    return LA_OK;
}

/* --- the slow definition --- */
static int valid(const la_attn_in *in, int64_t b, int64_t t) {
    return !in->mask || in->mask->ids[b * in->mask->shape.d[1] + t];
}

static void to_double(int64_t n, const la_real *x, double *y) {
    for (int64_t i = 0; i < n; i++) y[i] = (double)x[i];
}

/* Row t of head h: o = sum_j w_j v_j over the valid tokens of all parts. */
static void weighted_sum(const la_trial *r, int64_t b, int64_t h, int parts, const double *w,
                         la_real *o) {
    const la_node *v = r->text[0].v;
    double         sum[v->shape.d[3]];
    memset(sum, 0, sizeof sum);
    for (int part = 0; part < parts; part++) {
        v = r->text[part].v;
        for (int64_t t = 0; t < v->shape.d[1]; t++)
            if (valid(&r->text[part], b, t)) {
                for (int64_t e = 0; e < v->shape.d[3]; e++)
                    sum[e] += *w * (double)v->x[la_token(v, b, t, h) + e];
                w++;
            }
    }
    for (int64_t e = 0; e < v->shape.d[3]; e++) o[e] = R(sum[e]);
}

static la_status head_reference(const la_trial *r, int64_t b, int64_t h, int parts,
                                la_real *const want[]) {
    la_attn_head   x = {.cfg = &r->cfg, .D = r->text[0].q->shape.d[3], .gamma = 1};
    double         q[LA_TRIAL_TEXT * x.D], k[LA_TRIAL_TEXT * x.D];
    const la_node *decay = r->text[0].decay;
    double        *weight[2] = {0};
    la_status      s = LA_OK;
    for (int part = 0; part < parts; part++)
        for (int64_t t = 0; t < r->text[part].q->shape.d[1]; t++) {
            const la_attn_in *in = &r->text[part];
            if (!valid(in, b, t)) continue;
            to_double(x.D, in->q->x + la_token(in->q, b, t, h), q + x.T * x.D);
            to_double(x.D, in->k->x + la_token(in->k, b, t, h), k + x.T++ * x.D);
        }
    for (int i = 0; i < 2 && r->text[0].weight[i]; i++) {
        const la_node *w = r->text[0].weight[i];
        const int      each = w->shape.n == 3; /* a matrix for each head, or one for all */
        const int64_t  len = la_len(w->shape) / (each ? w->shape.d[0] : 1);
        weight[i] = malloc((size_t)len * sizeof *weight[i]);
        if (weight[i])
            to_double(len, w->x + (each ? h * len : 0), weight[i]);
        else
            s = LA_NOMEM;
        x.weight[i] = weight[i];
    }
    if (decay) x.gamma = 1 / (1 + exp(-(double)decay->x[h]));
    x.q = q, x.k = k;
    double *w = calloc((size_t)(x.T * x.T) + 1, sizeof *w), *row = w;
    if (!w || s != LA_OK) s = la_fail(LA_NOMEM, "no memory for the weights of a text");
    if (s == LA_OK) s = r->cfg.variant->definition(&x, w);
    for (int part = 0; part < parts && s == LA_OK; part++)
        for (int64_t t = 0; t < r->text[part].q->shape.d[1]; t++) {
            la_real *o = want[part] + la_token(r->out[part], b, t, h);
            if (valid(&r->text[part], b, t))
                weighted_sum(r, b, h, parts, row, o), row += x.T;
            else
                memset(o, 0, (size_t)r->text[part].v->shape.d[3] * sizeof *o);
        }
    free(w);
    free(weight[0]);
    free(weight[1]);
    return s;
}

la_status la_trial_reference(const la_trial *r, const la_subject *s, la_real *const want[],
                             int *known) {
    if (!s->variant) {
        s->op->reference(r->out[0]); /* in place of what forward gave */
        for (int k = 0; k < r->n_out; k++)
            memcpy(want[k], r->out[k]->x, (size_t)la_len(r->out[k]->shape) * sizeof **want);
        *known = r->n_out;
        return LA_OK;
    }
    const int parts = r->text[1].q ? 2 : 1;
    for (int64_t b = 0; b < r->text[0].q->shape.d[0]; b++)
        for (int64_t h = 0; h < r->text[0].q->shape.d[2]; h++)
            LA_TRY(head_reference(r, b, h, parts, want));
    *known = parts;
    return LA_OK;
}

void la_trial_destroy(la_trial *r) {
    la_tape_destroy(r->tape);
    la_arena_free(&r->arena);
    r->tape = NULL;
}

/* d loss / d x by central differences of step h. */
static la_status slope(la_trial *r, la_real *x, double h, double *out) {
    const la_real was = *x;
    *x = was + R(h);
    la_status s = la_tape_forward(r->tape);
    double    up = (double)*r->loss->x;
    *x = was - R(h);
    if (s == LA_OK) s = la_tape_forward(r->tape);
    *out = (up - (double)*r->loss->x) / (2 * h);
    *x = was;
    return s;
}

/* How far g is from the slope, which is at *numeric.  Where the loss bends within a step, as it
 * does where a normaliser is hardly more than eps, a shorter step sees better; a wrong g is off at
 * all. */
static la_status compare(la_trial *r, la_real *x, double g, double top, double *numeric,
                         double *gap) {
    *gap = HUGE_VAL;
    for (double h = 1e-5; h > 1e-8; h /= 10) {
        double d;
        LA_TRY(slope(r, x, h, &d));
        if (fabs(g - d) < *gap) *gap = fabs(g - d), *numeric = d;
        if (*gap <= 5e-8 * fmax(top, fabs(d))) break;
    }
    return LA_OK;
}

la_status la_gradcheck(const la_subject *s, const la_case *c, const la_trial_cfg *cfg,
                       double *worst) {
    enum { SAMPLE = 24 };
    double       gap = 0, top = 0;
    la_trial     r;
    la_trial_cfg seeded = *cfg;
    seeded.seed = 7;
    LA_TRY(la_trial_create(&r, s, c, &seeded));
    la_status status = la_tape_forward(r.tape);
    if (status == LA_OK) status = la_tape_backward(r.tape, 1);
    for (int i = 0; i < r.n_in && status == LA_OK; i++) {
        int64_t len = la_len(r.in[i]->shape);
        for (int64_t k = 0; k < la_min(len, SAMPLE) && status == LA_OK; k++) {
            int64_t j =
                len <= SAMPLE ? k : (int64_t)la_rng_below(9, stream(i), (uint64_t)k, (uint64_t)len);
            double numeric = 0, off, g = (double)r.in[i]->g[j];
            status = compare(&r, r.in[i]->x + j, g, top, &numeric, &off);
            gap = fmax(gap, off);
            top = fmax(top, fabs(numeric));
        }
    }
    la_trial_destroy(&r);
    *worst = gap == 0 ? 0 : gap / fmax(top, 1e-300);
    return status;
}
