/* weights.c -- a forward pass whose weights are kept. */
#include "train/weights.h"

#include <stdlib.h>
#include <string.h>

int64_t la_weights_layers(const la_lm *lm) {
    int64_t n = 0;
    for (int64_t i = 0; i < lm->cfg.layers; i++) n += lm->blocks[i].attends;
    return n;
}

double la_weights_bytes(const la_lm *lm, int64_t T) {
    double squares = (double)lm->cfg.heads * (double)T * (double)T;
    return squares * (double)(1 + la_weights_layers(lm)) * sizeof(la_real);
}

static la_status create(la_weights *w, size_t max_bytes) {
    const int64_t T = w->T, H = w->lm->cfg.heads;
    w->tokens = calloc((size_t)T, sizeof *w->tokens);
    w->positions = malloc((size_t)T * sizeof *w->positions);
    w->node = calloc((size_t)la_lm_groups(w->lm) + 1, sizeof *w->node);
    if (!w->tokens || !w->positions || !w->node)
        return la_fail(LA_NOMEM, "no memory for a text of %lld tokens", (long long)T);
    for (int64_t t = 0; t < T; t++) w->positions[t] = (int32_t)t;
    LA_TRY(la_tape_create(&w->tape, &(la_tape_cfg){.max_bytes = max_bytes}));
    la_shape    row = la_shape2(1, T);
    la_lm_input in = {.tokens = la_integers(w->tape, "tokens", row, w->tokens),
                      .positions = la_integers(w->tape, "positions", row, w->positions),
                      .past = la_integers(w->tape, "past", la_shape1(1), &w->past),
                      .unit = la_input(w->tape, "unit", la_shape3(1, T, H * T), 0),
                      .weights = w->node};
    la_lm_logits(w->lm, w->tape, &in);
    LA_TRY(la_tape_seal(w->tape, NULL));
    memset(in.unit->x, 0, (size_t)(T * H * T) * sizeof(la_real));
    for (int64_t t = 0; t < T; t++)
        for (int64_t h = 0; h < H; h++) in.unit->x[(t * H + h) * T + t] = 1;
    return LA_OK;
}

la_status la_weights_create(la_weights *w, const la_lm *lm, int64_t T, size_t max_bytes) {
    *w = (la_weights){.lm = lm, .T = T, .layers = la_weights_layers(lm)};
    la_status s = create(w, max_bytes);
    if (s != LA_OK) la_weights_destroy(w);
    return s;
}

void la_weights_destroy(la_weights *w) {
    la_tape_destroy(w->tape);
    free(w->node);
    free(w->tokens);
    free(w->positions);
    *w = (la_weights){0};
}

la_status la_weights_compute(la_weights *w) {
    LA_TRY(la_tape_forward(w->tape));
    for (int g = 0; g < la_lm_groups(w->lm); g++)
        if (la_find_nonfinite((size_t)la_len(w->node[g]->shape), w->node[g]->x) >= 0)
            return la_fail(LA_NUMERIC, "a weight of %s is not finite", w->node[g]->op->name);
    return LA_OK;
}

la_weights_head la_weights_of(const la_weights *w, int64_t layer, int64_t head) {
    const la_attn_layer *l = &w->lm->blocks[layer].attn;
    la_node *const      *node = w->node;
    int                  g = 0;
    for (int64_t i = 0; i < layer; i++)
        if (w->lm->blocks[i].attends) node += w->lm->blocks[i].attn.n_groups;
    for (; head >= l->group[g].heads; g++) head -= l->group[g].heads;
    return (la_weights_head){.w = node[g]->x + head * w->T,
                             .ld = l->group[g].heads * w->T,
                             .group = g,
                             .cfg = &l->group[g].cfg};
}

/* Part number i of a text that is cut at each `at`, without what follows an @. */
static const char *part_of(const char *spec, char at, int64_t i, int *n) {
    for (; i > 0 && strchr(spec, at); i--) spec = strchr(spec, at) + 1;
    *n = (int)strcspn(spec, at == '/' ? "/" : "/+@");
    return spec;
}

const char *la_weights_spec(const char *attn, int64_t patterns, int64_t layer, int group, int *n) {
    return part_of(part_of(attn, '/', layer % patterns, n), '+', group, n);
}
