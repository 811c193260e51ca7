/* relu: linear attention with phi(x) = max(x, 0).
 * Kasai et al., "Finetuning pretrained transformers into RNNs", 2021; Cai et al., "EfficientViT",
 * 2023, with no projection.
 *
 *   phi(x) = max(x, 0)       phi'(x) = 1 for x > 0, else 0
 *
 * A query without a positive number, or one that meets only keys that are 0 where it is not, gives
 * every key the weight 0: then o_t = 0.  The rest is causal_linear, or full_linear. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

void la_relu_rows(const la_map_rows *r, const la_real *x, la_real *y) {
    for (int64_t i = 0; i < r->rows * r->D; i++) y[i] = x[i] > 0 ? x[i] : 0;
}

void la_relu_rows_backward(const la_map_rows *r, const la_real *x, const la_real *y,
                           const la_real *dy, la_real *dx) {
    (void)y;
    for (int64_t i = 0; i < r->rows * r->D; i++) dx[i] += x[i] > 0 ? dy[i] : 0;
}

void la_relu_definition(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                        double *y) {
    (void)c;
    (void)position;
    for (int64_t i = 0; i < D; i++) y[i] = fmax(x[i], 0);
}

static const la_map map = {.name = "relu",
                           .kind = LA_MAP_POSITIVE,
                           .traits = LA_ATTN_ZERO_ROWS,
                           .width = la_map_width_same,
                           .forward = la_relu_rows,
                           .backward = la_relu_rows_backward,
                           .definition = la_relu_definition};

const la_attn la_attn_relu = {
    .name = "relu",
    .formula = "phi(x) = max(x, 0); o_t = phi(q_t)'(sum_{j<=t} phi(k_j) v_j') / (phi(q_t).sum "
               "phi(k_j) + eps)",
    .paper = "Kasai et al., Finetuning pretrained transformers into RNNs, 2021",
    .cost = "O(T D E) time, state D(E+1)",
    .file = "autograd/attention/relu.c",
    .options = "chunk eps d decay norm",
    .map = &map,
    .definition = la_kernel_definition,
};
