/* double-softmax: one softmax over the features of a query, one over the sequence for each feature
 * of the keys.  Shen, Zhang, Zhao, Yi, Li, "Efficient attention", 2018.
 *
 *   o_t = sum_f softmax_f(q_t) sum_s softmax_s(k_sf) v_s
 *
 * Bidirectional, as published, s runs over the whole text; causal, over the tokens up to t, which
 * is its exact restriction: the last row of any prefix is what the published form gives for it.  No
 * scale and no eps, and weights add to 1.  The derivation is in ops/causal_exp_linear.c and
 * ops/full_exp_linear.c. */
#include <stdlib.h>
#include <string.h>

#include "autograd/attention/kernel_map.h"

static int64_t state_len(const la_attn_cfg *c, int64_t D, int64_t E, int64_t capacity) {
    (void)c;
    (void)capacity;
    return D * (E + 1);
}

static void state_start(const la_attn_cfg *c, int64_t D, int64_t E, la_real *state) {
    (void)c;
    la_exp_state_start(D, E, state);
}

static la_status definition(const la_attn_head *x, double *w) {
    double *q = malloc((size_t)(x->D + x->T) * sizeof *q), *k = q ? q + x->D : NULL;
    if (!q) return la_fail(LA_NOMEM, "no memory for a row of %lld weights", (long long)x->T);
    for (int64_t t = 0; t < x->T; t++) {
        const int64_t seen = x->cfg->bidirectional ? x->T : t + 1;
        memcpy(q, x->q + t * x->D, (size_t)x->D * sizeof *q);
        la_softmax_definition(x->D, q);
        for (int64_t f = 0; f < x->D; f++) {
            for (int64_t s = 0; s < seen; s++) k[s] = x->k[s * x->D + f];
            la_softmax_definition(seen, k);
            for (int64_t s = 0; s < seen; s++) w[t * x->T + s] += q[f] * k[s];
        }
    }
    free(q);
    return LA_OK;
}

const la_attn la_attn_double_softmax = {
    .name = "double-softmax",
    .formula = "o_t = softmax_D(q_t)' (softmax over j<=t of k_j, per feature)' v",
    .paper = "Shen et al., Efficient Attention, 2018; causal restriction",
    .cost = "O(T D E) time, state D(E+1)",
    .file = "autograd/attention/double_softmax.c",
    .options = "chunk norm",
    .causal = &la_op_causal_exp_linear,
    .full = &la_op_full_exp_linear,
    .state_len = state_len,
    .state_start = state_start,
    .definition = definition,
};
