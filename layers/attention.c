/* attention.c -- heads around variants: one product makes q, k and v side by side, a short
 * convolution may mix each with the tokens before it, each head reads its columns where they are,
 * and one product mixes the heads' outputs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/ops.h"
#include "layers/layers.h"

static const double NORM_EPS = 1e-5; /* of the heads' outputs */

/* Retention's gamma_h = 1 - 2^(-5-h), Sun et al., 2023; fixed or to start from.  A number is the
 * same for all heads. */
static la_param declare_decay(la_params *p, const la_attn_part *part) {
    const la_attn_cfg *c = &part->cfg;
    const la_shape     s = la_shape1(part->heads);
    if (c->decay == LA_DECAY_NONE) return LA_NO_PARAM;
    if (c->decay == LA_DECAY_LEARNED) return la_params_add(p, "decay", s, LA_INIT_RETENTION, 0);
    if (c->decay == LA_DECAY_RETENTION)
        return la_params_add_frozen(p, "decay", s, LA_INIT_RETENTION, 0);
    return la_params_add_frozen(p, "decay", s, LA_INIT_CONSTANT, log(c->gamma / (1 - c->gamma)));
}

static void declare_group(la_attn_group *g, la_params *p, const la_attn_part *part, int64_t D) {
    la_attn_weight w[2];
    g->cfg = part->cfg;
    g->heads = part->heads;
    int n = la_attn_weights(&g->cfg, g->heads, D, w);
    for (int i = 0; i < 2; i++) {
        g->weight[i] = LA_NO_PARAM;
        if (i >= n) continue;
        la_params_push(p, "%s", w[i].name);
        g->weight[i] = w[i].frozen
                           ? la_params_add_frozen(p, "weight", w[i].shape, w[i].how, w[i].scale)
                           : la_params_add(p, "weight", w[i].shape, w[i].how, w[i].scale);
        la_params_pop(p);
    }
    g->decay = declare_decay(p, part);
    g->gain = LA_NO_PARAM;
    if (g->cfg.norm == LA_HEAD_NORM_RMS)
        g->gain = la_params_add(p, "norm.weight", la_shape1(g->heads * D), LA_INIT_ONE, 0);
}

/* Where the columns of each group are in the product: all q, then the keys of those that have keys
 * of their own, then all v. */
static void place_columns(la_attn_layer *l, int64_t D) {
    int64_t at = 0;
    for (int part = 0; part < 3; part++)
        for (int i = 0; i < l->n_groups; i++) {
            la_attn_group *g = &l->group[i];
            const int      shared = part == 1 && g->cfg.variant->shared_qk;
            g->column[part] = shared ? g->column[0] : at;
            if (!shared) at += g->heads * D;
        }
    l->columns = at;
}

void la_attn_layer_declare(la_attn_layer *l, la_params *p, const char *name, const la_attn_mix *mix,
                           const la_attn_layer_cfg *c) {
    *l = (la_attn_layer){.cfg = *c, .n_groups = mix->n, .conv = LA_NO_PARAM};
    la_params_push(p, "%s", name);
    for (int i = 0; i < mix->n; i++)
        l->group[i] = (la_attn_group){.cfg = mix->part[i].cfg, .heads = mix->part[i].heads};
    place_columns(l, c->dim / c->heads);
    la_linear_declare(&l->c_attn, p, "c_attn", c->dim, l->columns, c->std, c->bias);
    if (c->short_conv)
        l->conv = la_params_add(p, "short_conv.weight", la_shape2(l->columns, c->short_conv),
                                LA_INIT_LAST, 0);
    for (int i = 0; i < mix->n; i++) {
        if (mix->n > 1) la_params_push(p, "mix.%d", i);
        declare_group(&l->group[i], p, &mix->part[i], c->dim / c->heads);
        if (mix->n > 1) la_params_pop(p);
    }
    la_linear_declare(&l->c_proj, p, "c_proj", c->dim, c->dim, c->proj_std, c->bias);
    la_params_pop(p);
}

void la_attn_layer_redraw(const la_attn_layer *l, la_params *p, uint64_t seed, int64_t step) {
    for (int i = 0; i < l->n_groups; i++) {
        const la_attn_group *g = &l->group[i];
        const int64_t        every = g->cfg.redraw;
        for (int w = 0; w < 2 && every > 0 && step % every == 0; w++)
            if (g->weight[w] != LA_NO_PARAM && la_param_frozen(p, g->weight[w]))
                la_param_redraw(p, g->weight[w], seed, (uint64_t)(step / every));
    }
}

/* --- state: of the convolution, then of each group --- */
static int64_t conv_state(const la_attn_layer *l, int64_t B) {
    return l->conv == LA_NO_PARAM ? 0 : B * (l->cfg.short_conv - 1) * l->columns;
}

static int64_t head_state(const la_attn_layer *l, const la_attn_group *g, int64_t capacity) {
    int64_t D = l->cfg.dim / l->cfg.heads;
    return la_attn_state_len(&g->cfg, D, D, capacity);
}

int64_t la_attn_layer_state_len(const la_attn_layer *l, int64_t B, int64_t capacity) {
    int64_t len = conv_state(l, B);
    for (int i = 0; i < l->n_groups; i++)
        len += B * l->group[i].heads * head_state(l, &l->group[i], capacity);
    return len;
}

void la_attn_layer_state_start(const la_attn_layer *l, int64_t B, int64_t capacity,
                               la_real *state) {
    int64_t D = l->cfg.dim / l->cfg.heads, len = conv_state(l, B);
    memset(state, 0, (size_t)len * sizeof *state);
    state += len;
    for (int i = 0; i < l->n_groups; i++) {
        const la_attn_group *g = &l->group[i];
        len = head_state(l, g, capacity);
        la_attn_state_start(&g->cfg, B * g->heads, D, D, len, state);
        state += B * g->heads * len;
    }
}

/* --- recording --- */
static la_node *optional(la_tape *t, la_params *p, la_param i) {
    return i == LA_NO_PARAM ? NULL : la_param_node(t, p, i);
}

static la_node *convolve(const la_attn_layer *l, la_params *p, la_tape *t, la_node *x,
                         const la_attn_text *text, la_real **state) {
    la_node *before = NULL, *after;
    if (l->conv == LA_NO_PARAM || !x) return x;
    if (*state) {
        int64_t B = x->shape.d[0];
        before = la_leaf(t, "state", la_shape3(B, l->cfg.short_conv - 1, l->columns), *state, NULL);
        *state += conv_state(l, B);
    }
    la_node *w = la_param_node(t, p, l->conv);
    x = la_short_conv(t, x, w, text->mask, before, &after);
    return w ? la_named(t, x, w->name) : x;
}

/* Adds the weights that the variant gives each token: the output for values that are the unit
 * vectors. */
static void add_weights(la_tape *t, const la_attn_group *g, la_attn_in in, la_attn_text *text) {
    la_shape q = in.q->shape;
    in.v = la_heads(t, text->unit, 0, g->heads, q.d[1]);
    text->weights[text->n_weights++] = la_keep(la_attention(t, &g->cfg, &in, NULL));
}

static la_node *attend(const la_attn_layer *l, const la_attn_group *g, la_params *p, la_tape *t,
                       la_node *qkv, la_attn_text *text, la_real **state) {
    const int64_t D = l->cfg.dim / l->cfg.heads;
    la_node      *head[3]; /* q, k, v as (B,T,H,D), without a copy */
    for (int i = 0; i < 3; i++) head[i] = la_heads(t, qkv, g->column[i], g->heads, D);
    for (int i = 0; i < 2 && l->cfg.pos == LA_POS_ROPE; i++)
        head[i] =
            i && g->cfg.variant->shared_qk ? head[0] : la_rope(t, head[i], text->past, text->mask);
    la_attn_in in = {.q = head[0],
                     .k = head[1],
                     .v = head[2],
                     .weight = {optional(t, p, g->weight[0]), optional(t, p, g->weight[1])},
                     .decay = optional(t, p, g->decay),
                     .mask = text->mask};
    if (text->unit && qkv) add_weights(t, g, in, text);
    if (*state && qkv) {
        int64_t B = qkv->shape.d[0], len = head_state(l, g, text->capacity);
        in.state = la_leaf(t, "state", la_shape3(B, g->heads, len), *state, NULL);
        in.past = text->past;
        *state += B * g->heads * len;
    }
    la_node *o = la_named(t, la_attention(t, &g->cfg, &in, NULL), g->cfg.variant->name);
    return g->gain == LA_NO_PARAM ? o : la_rmsnorm(t, o, la_param_node(t, p, g->gain), NORM_EPS);
}

la_node *la_attn_layer_apply(const la_attn_layer *l, la_params *p, la_tape *t, la_node *x,
                             la_node *r, la_attn_text *text) {
    la_real *state = text->state;
    la_node *qkv = la_linear_layer_apply(&l->c_attn, p, t, x, NULL), *o[LA_MAX_MIX];
    qkv = convolve(l, p, t, qkv, text, &state);
    for (int i = 0; i < l->n_groups; i++) o[i] = attend(l, &l->group[i], p, t, qkv, text, &state);
    if (!x) return NULL;
    la_node *all = l->n_groups == 1 ? la_reshape(t, o[0], x->shape) : la_concat(t, l->n_groups, o);
    return la_linear_layer_apply(&l->c_proj, p, t, all, r);
}
