/* attention.c -- the table of variants, what follows from their options, how they are recorded, and
 * the cases that all are tested on. */
#include "autograd/attention/attention.h"

#include <string.h>

#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"
#include "tensor/names.h"

#define X(name) extern const la_attn la_attn_##name;
#include "autograd/attention/attn.def"
#undef X

const la_attn *const la_attns[] = {
#define X(name) &la_attn_##name,
#include "autograd/attention/attn.def"
#undef X
    NULL,
};

static const char *name_at(int i) { return la_attns[i] ? la_attns[i]->name : NULL; }

la_status la_attn_find(const char *name, const la_attn **out) {
    int i = la_name_index(name, name_at);
    *out = i < 0 ? NULL : la_attns[i];
    return i < 0 ? la_name_unknown("attention variant", name, name_at) : LA_OK;
}

/* --- options --- */
const la_map *la_attn_map(const la_attn_cfg *c, int which) {
    const la_map *given = which ? c->k : c->q;
    return given ? given : c->variant ? c->variant->map : NULL;
}

const la_op *la_attn_op(const la_attn_cfg *c) {
    const la_attn *a = c->variant;
    const la_op   *own = c->bidirectional ? a->full : a->causal;
    if (own || !a->map) return own;
    if (la_attn_map(c, 1)->kind == LA_MAP_LOG)
        return c->bidirectional ? &la_op_full_exp_linear : &la_op_causal_exp_linear;
    return c->bidirectional ? &la_op_full_linear : &la_op_causal_linear;
}

void la_attn_complete(la_attn_cfg *c, int64_t longest) {
    if (c->length == 0) c->length = longest;
    if (c->variant->complete) c->variant->complete(c, longest);
}

int64_t la_attn_longest(const la_attn_cfg *c) {
    int64_t least = 0;
    for (int i = 0; i < 2; i++) {
        const la_map *map = la_attn_map(c, i);
        int64_t       most = map && map->longest ? map->longest(c) : 0;
        if (most > 0 && (least == 0 || most < least)) least = most;
    }
    return least;
}

la_attn_cfg la_attn_usual(const la_attn *a, int64_t longest) {
    la_attn_cfg c = a->usual;
    c.variant = a;
    la_attn_complete(&c, longest);
    return c;
}

static int64_t option_d(const la_attn_cfg *c, int64_t D) {
    (void)D;
    return c->d;
}

/* What stands before the map of q or k: its own projection, or that of the option d. */
const la_projection *la_attn_projection(const la_attn_cfg *c, int which) {
    static const la_projection learned = {.width = option_d};
    const la_map              *map = la_attn_map(c, which);
    if (map && map->projection) return map->projection;
    return map && c->d ? &learned : NULL;
}

static int64_t projected(const la_attn_cfg *c, int which, int64_t D) {
    const la_projection *p = la_attn_projection(c, which);
    return p ? p->width(c, D) : D;
}

static int64_t features(const la_attn_cfg *c, int which, int64_t D) {
    const la_map *map = la_attn_map(c, which);
    return map ? map->width(c, projected(c, which, D)) : D;
}

int64_t la_attn_features(const la_attn_cfg *c, int64_t D) { return features(c, 1, D); }

/* Pair by pair a token has T/2 scores (T both ways) of 2 d flops and 6 d backward, and 2 E and 4 E
 * for what they weigh: T/2 (8 d + 6 E).  With features it has 14 m E, at half the speed or less:
 * measured for d = E = 32 and 64, and d = 16, E = 64, where both take the same time from 1.1 to 1.5
 * times this T on. */
const la_op *la_attn_op_of_text(const la_attn_cfg *c, int64_t T, int64_t D, int64_t E) {
    const double d = (double)projected(c, 0, D), e = (double)E, seen = c->bidirectional ? 1 : 0.5;
    const double pair_by_pair = seen * (double)T * (8 * d + 6 * e);
    if (!c->variant->pairwise || c->decay) return la_attn_op(c);
    return pair_by_pair <= 2 * 14 * (double)features(c, 0, D) * e ? c->variant->pairwise
                                                                  : la_attn_op(c);
}

double la_attn_pairs(const la_attn_cfg *c, int64_t T, int64_t D, int64_t E) {
    const la_attn *a = c->variant;
    if (a->pairwise && la_attn_op_of_text(c, T, D, E) == a->pairwise) a = &la_attn_softmax;
    return a->pairs ? a->pairs(c, T) : 0;
}

unsigned la_attn_traits(const la_attn_cfg *c) {
    const la_map *q = la_attn_map(c, 0), *k = la_attn_map(c, 1);
    if (!q) return c->variant->traits;
    const int either_sign = q != k && (q->kind == LA_MAP_SIGNED || k->kind == LA_MAP_SIGNED);
    return c->variant->traits | q->traits | k->traits | (either_sign ? LA_ATTN_SIGNED : 0);
}

double la_attn_floor(const la_attn_cfg *c) {
    const la_map *q = la_attn_map(c, 0), *k = la_attn_map(c, 1);
    return q && q == k ? q->floor : 0;
}

la_status la_attn_check(const la_attn_cfg *c, int64_t H, int64_t D) {
    const la_attn *a = c->variant;
    const la_map  *q = la_attn_map(c, 0), *k = la_attn_map(c, 1);
    if (!c->bidirectional && a->not_causal)
        return la_fail(LA_ARG, "%s has no causal form: %s", a->name, a->not_causal);
    if (!la_attn_op(c) && (a->causal || a->full))
        return la_fail(LA_ARG, "%s has no %s form", a->name,
                       c->bidirectional ? "bidirectional" : "causal");
    if (c->bidirectional && c->decay)
        return la_fail(LA_ARG,
                       "decay in %s fades what came before a token, and the bidirectional "
                       "objective has no before",
                       a->name);
    if (c->decay && k->kind == LA_MAP_LOG)
        return la_fail(LA_ARG,
                       "decay multiplies a plain sum over tokens, and %s keeps a running "
                       "softmax in its place: use a map such as elu1",
                       k->name);
    if (k && k->kind == LA_MAP_LOG && q->kind == LA_MAP_SIGNED)
        return la_fail(LA_ARG, "q=%s has features of either sign, and k=%s needs positive ones",
                       q->name, k->name);
    for (int which = 0; which < 2; which++) {
        const la_projection *p = la_attn_projection(c, which);
        if (p && p->pairs && c->m % 2)
            return la_fail(LA_ARG, "%s makes features in pairs: m must be even, and is %lld",
                           la_attn_map(c, which)->name, (long long)c->m);
    }
    if (q && q != k && q->kind == LA_MAP_SIGNED && k->kind == LA_MAP_SIGNED)
        return la_fail(LA_ARG,
                       "q=%s and k=%s have features of either sign, and weights that add to any "
                       "number, 0 as well: each goes with itself only, or with positive features",
                       q->name, k->name);
    if (q && features(c, 0, D) != features(c, 1, D))
        return la_fail(
            LA_ARG,
            "q=%s makes %lld features of a head of %lld and k=%s makes %lld: they must be "
            "as many",
            q->name, (long long)features(c, 0, D), (long long)D, k->name,
            (long long)features(c, 1, D));
    return a->check ? a->check(c, H, D) : LA_OK;
}

/* --- weights --- */
static la_attn_weight projection_weight(const la_attn_cfg *c, int which, int64_t H, int64_t D) {
    const la_projection *p = la_attn_projection(c, which);
    return (la_attn_weight){.name = which ? "map_k" : "map_q",
                            .shape = la_shape3(H, p->width(c, D), D + p->bias),
                            .how = p->random ? LA_INIT_ORTHOGONAL
                                   : p->bias ? LA_INIT_IDENTITY_BIAS
                                             : LA_INIT_IDENTITY,
                            .scale = p->random ? 1 : 0.02,
                            .frozen = p->random};
}

int la_attn_weights(const la_attn_cfg *c, int64_t H, int64_t D, la_attn_weight out[2]) {
    int n = 0;
    if (c->variant->weights) return c->variant->weights(c, H, D, out);
    for (int i = 0; i < 2; i++) {
        const la_projection *p = la_attn_projection(c, i);
        if (!p || (i && p == la_attn_projection(c, 0) && p->random)) continue;
        out[n++] = projection_weight(c, i, H, D);
    }
    if (n == 1) out[0].name = "map";
    return n;
}

/* --- state --- */
int64_t la_attn_op_state(const la_attn_cfg *c, int64_t D, int64_t E, int64_t capacity) {
    const la_attn *a = c->variant;
    if (a->state_len) return a->state_len(c, D, E, capacity);
    return a->map ? la_attn_map(c, 1)->width(c, D) * (E + 1) : 0;
}

int64_t la_attn_state_len(const la_attn_cfg *c, int64_t D, int64_t E, int64_t capacity) {
    return la_attn_op_state(c, projected(c, 1, D), E, capacity);
}

void la_attn_state_start(const la_attn_cfg *c, int64_t rows, int64_t D, int64_t E, int64_t len,
                         la_real *state) {
    const la_map *k = la_attn_map(c, 1);
    memset(state, 0, (size_t)(rows * len) * sizeof *state);
    for (int64_t r = 0; r < rows; r++, state += len)
        if (c->variant->state_start)
            c->variant->state_start(c, projected(c, 1, D), E, state);
        else if (k && k->kind == LA_MAP_LOG)
            la_exp_state_start(k->width(c, projected(c, 1, D)), E, state);
}

/* --- recording --- */
static la_node *project(la_tape *t, const la_attn_cfg *c, int which, la_node *x, la_node *w) {
    const la_projection *p = la_attn_projection(c, which);
    la_head_linear_cfg   how = {.scale = 1, .bias = p ? p->bias : 0};
    if (!p || !x) return x;
    if (p->scales) p->scales(x->shape.d[3], &how);
    return la_head_linear(t, x, w, &how);
}

la_node *la_attention(la_tape *t, const la_attn_cfg *c, const la_attn_in *in, la_node **state_out) {
    const la_op *op = la_attn_op(c);
    la_node     *x[LA_AT_COUNT] = {in->q,     in->k,    in->v,     in->weight[0], in->weight[1],
                                   in->decay, in->mask, in->state, in->past};
    if (state_out) *state_out = NULL;
    if (!x[0] || !x[1] || !x[2]) return NULL;
    if (x[0]->shape.n == 4) {
        la_status s = op ? la_attn_check(c, x[0]->shape.d[2], x[0]->shape.d[3])
                         : la_fail(LA_ARG, "%s is no attention", c->variant->name);
        if (s != LA_OK) return la_tape_fail(t, s);
        if (!in->state && x[2]->shape.n == 4)
            op = la_attn_op_of_text(c, x[0]->shape.d[1], x[0]->shape.d[3], x[2]->shape.d[3]);
    }
    for (int i = 0; i < 3 && in->mask; i++) x[i] = la_pack(t, x[i], in->mask);
    if (c->variant->map) { /* the weights are those of projections */
        for (int i = 0; i < 2; i++)
            x[i] = project(t, c, i, x[i], i && in->weight[1] ? in->weight[1] : in->weight[0]);
        x[LA_AT_WEIGHT] = x[LA_AT_WEIGHT_K] = NULL;
    }
    la_attn_call call = {.cfg = *c};
    la_node     *all[LA_MAX_IN];
    int          n = 0;
    for (int i = 0; i < LA_AT_COUNT; i++) {
        call.at[i] = x[i] || i < 3 ? (int8_t)n : -1;
        if (x[i] || i < 3) all[n++] = x[i];
    }
    la_node *o = la_apply(t, op, n, all, &call);
    if (state_out) *state_out = o && in->state ? o->out[1] : NULL;
    return in->mask ? la_unpack(t, o, in->mask) : o;
}

/* Chunks of 4 so that short texts have several; every case also with a large eps, or an eps
 * forgotten in a backward pass stays invisible. */
static const la_attn_cfg small = {.eps = 1e-6, .chunk = 4}, large = {.eps = 0.1, .chunk = 4};
static const la_attn_cfg usual = {.eps = 1e-6};

/* Besides each variant with its option `tiny`. */
const char *const la_attn_examples[] = {
    "elu1:d=2",
    "elu1:decay=retention",
    "cosine:decay=0.7",
    "window:w=9",
    "relu2:decay=learned",
    "kernel:q=taylor2,k=taylor2",
    "kernel:q=exp,k=sigmoid",
    "kernel:q=relu,k=exp",
    "kernel:q=cosformer,k=favor,length=1000",
    "kernel:q=hedgehog,k=t2r,m=6",
    "kernel:q=favor,k=favor,m=3",
    "kernel:q=rff,k=rff,m=4",
    NULL,
};

const la_case la_attn_cases[] = {
    {.name = "B2 T5 H2 D3 E3",
     .in = {{4, {2, 5, 2, 3}}, {4, {2, 5, 2, 3}}, {4, {2, 5, 2, 3}}},
     .attr = &small},
    {.name = "D3 E5, eps .1",
     .in = {{4, {1, 6, 2, 3}}, {4, {1, 6, 2, 3}}, {4, {1, 6, 2, 5}}},
     .attr = &large},
    {.name = "T1", .in = {{4, {2, 1, 1, 4}}, {4, {2, 1, 1, 4}}, {4, {2, 1, 1, 2}}}, .attr = &small},
    {.name = "T1, eps .1",
     .in = {{4, {1, 1, 2, 3}}, {4, {1, 1, 2, 3}}, {4, {1, 1, 2, 3}}},
     .attr = &large},
    {.name = "T2", .in = {{4, {1, 2, 1, 4}}, {4, {1, 2, 1, 4}}, {4, {1, 2, 1, 4}}}, .attr = &small},
    {.name = "T3, a chunk less one",
     .in = {{4, {1, 3, 1, 4}}, {4, {1, 3, 1, 4}}, {4, {1, 3, 1, 4}}},
     .attr = &small},
    {.name = "T4, one chunk",
     .in = {{4, {1, 4, 1, 4}}, {4, {1, 4, 1, 4}}, {4, {1, 4, 1, 4}}},
     .attr = &small},
    {.name = "T11, two chunks and 3",
     .in = {{4, {1, 11, 2, 4}}, {4, {1, 11, 2, 4}}, {4, {1, 11, 2, 3}}},
     .attr = &small},
    {.name = "T11, wide, eps .1",
     .in = {{4, {1, 11, 1, 3}}, {4, {1, 11, 1, 3}}, {4, {1, 11, 1, 3}}},
     .attr = &large,
     .lo = -3,
     .hi = 3},
    {.name = "T69, 18 chunks, few heads",
     .in = {{4, {1, 69, 2, 2}}, {4, {1, 69, 2, 2}}, {4, {1, 69, 2, 3}}},
     .attr = &small},
    {.name = "16 heads, two chunks and 1",
     .in = {{4, {2, 9, 8, 2}}, {4, {2, 9, 8, 2}}, {4, {2, 9, 8, 3}}},
     .attr = &large},
    {.name = "T45, in segments",
     .in = {{4, {1, 45, 2, 4}}, {4, {1, 45, 2, 4}}, {4, {1, 45, 2, 2}}},
     .attr = &large},
    {.name = "T37, one head, ten chunks",
     .in = {{4, {1, 37, 1, 2}}, {4, {1, 37, 1, 2}}, {4, {1, 37, 1, 3}}},
     .attr = &small},
    {.name = "T67, usual chunk",
     .in = {{4, {1, 67, 1, 2}}, {4, {1, 67, 1, 2}}, {4, {1, 67, 1, 3}}},
     .attr = &usual},
    {0},
};
