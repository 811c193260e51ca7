/* lm.c -- a GPT-2 shaped language model, whatever its attention.
 *
 *   x = wte[tokens] (+ wpe[positions])
 *   x = x + attn(ln_1 x);   x = x + mlp(ln_2 x)        for each layer (pre-norm)
 *   logits = ln_f(x) wte'                              (tied embeddings)
 *
 * With a mask token wte is (V+1,C), and the logits are of its first V rows.
 *
 * Radford et al., "Language models are unsupervised multitask learners", 2019; weights N(0, .02^2),
 * the two projections onto the residual stream N(0, .02^2 / (2 layers)). */
#include <math.h>
#include <stdlib.h>

#include "autograd/ops.h"
#include "layers/layers.h"

static const double STD = 0.02;

static int attends(const la_lm_cfg *c) { /* any layer */
    for (int i = 0; i < c->attn.n; i++)
        if (!la_attn_mix_is_none(&c->attn.mix[i])) return 1;
    return 0;
}

static la_status check(la_lm_cfg *c) {
    if (c->vocab < 1 || c->dim < 1 || c->layers < 1 || c->heads < 1 || c->block_size < 1)
        return la_fail(LA_ARG,
                       "vocabulary, n-embd, n-layer, n-head and block-size must be at least 1");
    if (c->dim % c->heads)
        return la_fail(LA_ARG, "n-embd %lld does not divide by n-head %lld: use %lld or %lld",
                       (long long)c->dim, (long long)c->heads,
                       (long long)(c->dim < c->heads ? c->heads : c->dim / c->heads * c->heads),
                       (long long)((c->dim / c->heads + 1) * c->heads));
    if (c->pos == LA_POS_ROPE && c->dim / c->heads % 2)
        return la_fail(
            LA_ARG,
            "rope turns pairs of numbers, and each head has %lld: choose n-embd and n-head so "
            "that their quotient is even",
            (long long)(c->dim / c->heads));
    if (c->short_conv == 1 || c->short_conv < 0)
        return la_fail(LA_ARG, "a short convolution of %lld tokens sees no other: take 2 or more",
                       (long long)c->short_conv);
    if (c->short_conv && !attends(c))
        return la_fail(LA_ARG,
                       "a short convolution is over q, k and v, and no layer has attention");
    return la_attn_pattern_complete(&c->attn, c->layers, c->heads, c->dim, c->block_size,
                                    c->bidirectional);
}

static void declare(la_lm *lm) {
    const la_lm_cfg  *c = &lm->cfg;
    la_params        *p = lm->params;
    double            proj_std = STD / sqrt(2.0 * (double)c->layers);
    la_attn_layer_cfg attn = {.heads = c->heads,
                              .dim = c->dim,
                              .short_conv = c->short_conv,
                              .pos = c->pos,
                              .std = STD,
                              .proj_std = proj_std,
                              .bias = c->bias};
    la_params_push(p, "transformer");
    lm->wte = la_params_add(p, "wte.weight", la_shape2(c->vocab + !!c->mask_token, c->dim),
                            LA_INIT_NORMAL, STD);
    lm->wpe =
        c->pos == LA_POS_LEARNED
            ? la_params_add(p, "wpe.weight", la_shape2(c->block_size, c->dim), LA_INIT_NORMAL, STD)
            : LA_NO_PARAM;
    for (int64_t i = 0; i < c->layers; i++) {
        la_block_layer *b = lm->blocks + i;
        la_params_push(p, "h.%lld", (long long)i);
        b->attends = !la_attn_mix_is_none(la_attn_of_layer(&c->attn, i));
        if (b->attends) {
            la_norm_declare(&b->ln_1, p, "ln_1", c->dim, c->bias);
            la_attn_layer_declare(&b->attn, p, "attn", la_attn_of_layer(&c->attn, i), &attn);
        }
        la_norm_declare(&b->ln_2, p, "ln_2", c->dim, c->bias);
        la_mlp_declare(&b->mlp, p, "mlp", c->dim, c->mlp ? c->mlp : LA_GPT_MLP * c->dim, STD,
                       proj_std, c->bias);
        la_params_pop(p);
    }
    la_norm_declare(&lm->ln_f, p, "ln_f", c->dim, c->bias);
    la_params_pop(p);
}

static la_status fits(const la_lm *lm, int with_grad) {
    double bytes = (double)la_params_len(lm->params) * sizeof(la_real) * (with_grad ? 2 : 1);
    if (!lm->cfg.max_bytes || bytes <= (double)lm->cfg.max_bytes) return LA_OK;
    return la_fail(
        LA_NOMEM,
        "%lld parameters need %.1f MiB and %.1f MiB are free: take a smaller n-embd or n-layer",
        (long long)la_params_numbers(lm->params), bytes / 0x1p20,
        (double)lm->cfg.max_bytes / 0x1p20);
}

/* A model with parameters that are declared and have no place yet. */
static la_status declared(la_lm **out, const la_lm_cfg *cfg, int with_grad) {
    la_lm *lm = *out = calloc(1, sizeof *lm);
    if (!lm) return la_fail(LA_NOMEM, "no memory for a model");
    lm->cfg = *cfg;
    la_status s = check(&lm->cfg);
    if (s == LA_OK && !(lm->blocks = calloc((size_t)cfg->layers, sizeof *lm->blocks)))
        s = la_fail(LA_NOMEM, "no memory for %lld layers", (long long)cfg->layers);
    if (s == LA_OK) s = la_params_create(&lm->params);
    if (s == LA_OK) {
        declare(lm);
        s = fits(lm, with_grad);
    }
    return s;
}

/* s: of making it, after which there is a model or none. */
static la_status made(la_lm **lm, la_status s) {
    if (s == LA_OK) return s;
    la_lm_destroy(*lm);
    *lm = NULL;
    return s;
}

la_status la_lm_create(la_lm **lm, const la_lm_cfg *cfg, uint64_t seed, int with_grad) {
    la_status s = declared(lm, cfg, with_grad);
    return made(lm, s == LA_OK ? la_params_alloc((*lm)->params, seed, with_grad) : s);
}

la_status la_lm_plan(la_lm **lm, const la_lm_cfg *cfg) {
    la_status s = declared(lm, cfg, 1);
    return made(lm, s == LA_OK ? la_params_reserve((*lm)->params) : s);
}

void la_lm_destroy(la_lm *lm) {
    if (!lm) return;
    la_params_destroy(lm->params);
    free(lm->blocks);
    free(lm);
}

void la_lm_begin_step(la_lm *lm, uint64_t seed, int64_t step) {
    for (int64_t i = 0; i < lm->cfg.layers; i++)
        if (lm->blocks[i].attends)
            la_attn_layer_redraw(&lm->blocks[i].attn, lm->params, seed, step);
}

static int64_t layer_state(const la_lm *lm, int64_t layer, int64_t B, int64_t capacity) {
    const la_block_layer *b = lm->blocks + layer;
    return b->attends ? la_attn_layer_state_len(&b->attn, B, capacity) : 0;
}

size_t la_lm_state_len(const la_lm *lm, int64_t B, int64_t capacity) {
    size_t len = 0;
    for (int64_t i = 0; i < lm->cfg.layers; i++) len += (size_t)layer_state(lm, i, B, capacity);
    return len;
}

void la_lm_state_start(const la_lm *lm, int64_t B, int64_t capacity, la_real *state) {
    for (int64_t i = 0; i < lm->cfg.layers; i++) {
        if (!lm->blocks[i].attends) continue;
        la_attn_layer_state_start(&lm->blocks[i].attn, B, capacity, state);
        state += layer_state(lm, i, B, capacity);
    }
}

int64_t la_lm_longest(const la_lm *lm) {
    int64_t least = lm->cfg.pos == LA_POS_LEARNED ? lm->cfg.block_size : 0;
    for (int64_t i = 0; i < lm->cfg.layers; i++) {
        const la_attn_layer *l = &lm->blocks[i].attn;
        for (int j = 0; lm->blocks[i].attends && j < l->n_groups; j++) {
            int64_t most = la_attn_longest(&l->group[j].cfg);
            if (most > 0 && (least == 0 || most < least)) least = most;
        }
    }
    return least;
}

int la_lm_groups(const la_lm *lm) {
    int n = 0;
    for (int64_t i = 0; i < lm->cfg.layers; i++)
        if (lm->blocks[i].attends) n += lm->blocks[i].attn.n_groups;
    return n;
}

static int drops(const la_lm *lm, const la_tape *t) {
    return lm->cfg.dropout > 0 && la_tape_training(t);
}

static la_node *drop(const la_lm *lm, la_tape *t, la_node *x) {
    return drops(lm, t) ? la_dropout(t, x, lm->cfg.dropout) : x;
}

/* The sum with the residual stream is taken within a branch's last product, or after dropout. */
static la_node *within(const la_lm *lm, const la_tape *t, la_node *x) {
    return drops(lm, t) ? NULL : x;
}

static la_node *after(const la_lm *lm, la_tape *t, la_node *x, la_node *y) {
    return drops(lm, t) ? la_add(t, x, drop(lm, t, y)) : y;
}

static la_node *embed(const la_lm *lm, la_tape *t, const la_lm_input *in) {
    la_node *x = la_embedding(t, in->tokens, la_param_node(t, lm->params, lm->wte));
    x = la_named(t, x, "transformer.wte");
    if (lm->wpe != LA_NO_PARAM) {
        la_node *e = la_embedding(t, in->positions, la_param_node(t, lm->params, lm->wpe));
        x = la_add(t, x, la_named(t, e, "transformer.wpe"));
    }
    return drop(lm, t, x);
}

static la_node *attend(const la_lm *lm, la_tape *t, int64_t i, la_node *x, la_attn_text *text) {
    const la_block_layer *b = lm->blocks + i;
    la_node              *y = la_norm_apply(&b->ln_1, lm->params, t, x);
    y = la_attn_layer_apply(&b->attn, lm->params, t, y, within(lm, t, x), text);
    if (text->state && x) text->state += layer_state(lm, i, x->shape.d[0], text->capacity);
    return after(lm, t, x, y);
}

/* The rows that the output projection reads. */
static la_node *hidden(const la_lm *lm, la_tape *t, const la_lm_input *in) {
    la_node     *x = embed(lm, t, in);
    la_attn_text text = {.past = in->past,
                         .mask = in->mask,
                         .state = in->state,
                         .capacity = in->capacity,
                         .unit = in->unit,
                         .weights = in->weights};
    for (int64_t i = 0; i < lm->cfg.layers; i++) {
        const la_block_layer *b = lm->blocks + i;
        if (lm->cfg.recompute) la_recompute_begin(t);
        if (b->attends) x = attend(lm, t, i, x, &text);
        la_node *y = la_norm_apply(&b->ln_2, lm->params, t, x);
        x = after(lm, t, x, la_mlp_apply(&b->mlp, lm->params, t, y, within(lm, t, x)));
        if (lm->cfg.recompute) la_recompute_end(t);
    }
    return la_norm_apply(&lm->ln_f, lm->params, t, x);
}

/* The rows of wte that are words to predict. */
static la_node *words(const la_lm *lm, la_tape *t) {
    la_node *w = la_param_node(t, lm->params, lm->wte);
    return lm->cfg.mask_token ? la_first_rows(t, w, lm->cfg.vocab) : w;
}

la_node *la_lm_logits(const la_lm *lm, la_tape *t, const la_lm_input *in) {
    la_node *x = hidden(lm, t, in), *w = words(lm, t);
    return la_named(t, la_linear(t, x, w, NULL), "lm_head");
}

la_node *la_lm_loss(const la_lm *lm, la_tape *t, const la_lm_input *in, la_node *labels) {
    la_node *x = hidden(lm, t, in), *w = words(lm, t);
    return la_named(t, la_linear_cross_entropy(t, x, w, labels), "loss");
}

/* Rows of h (B T,C) are gathered as those of a table, so the head costs N rows and not B T. */
la_node *la_lm_loss_at(const la_lm *lm, la_tape *t, const la_lm_input *in, la_node *at,
                       la_node *labels, la_node **logits) {
    la_node *x = hidden(lm, t, in), *w = words(lm, t);
    if (x) x = la_reshape(t, x, la_shape2(la_rows(x->shape), la_last(x->shape)));
    *logits = la_keep(la_named(t, la_linear(t, la_embedding(t, at, x), w, NULL), "lm_head"));
    return la_named(t, la_cross_entropy(t, *logits, labels), "loss");
}
