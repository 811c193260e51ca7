/* relu2: linear attention with the squared relu as its map.
 * The activation is that of So et al., "Primer: searching for efficient transformers", 2021.
 *
 *   phi(x) = max(x, 0)^2       phi'(x) = 2 max(x, 0)
 *
 * Large numbers of a query and of a key weigh more than with relu; as there, all weights of a row
 * may be 0, and then o_t = 0.  The rest is causal_linear, or full_linear. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

static void forward(const la_map_rows *r, const la_real *x, la_real *y) {
    for (int64_t i = 0; i < r->rows * r->D; i++) {
        la_real up = x[i] > 0 ? x[i] : 0;
        y[i] = up * up;
    }
}

static void backward(const la_map_rows *r, const la_real *x, const la_real *y, const la_real *dy,
                     la_real *dx) {
    (void)y;
    for (int64_t i = 0; i < r->rows * r->D; i++) dx[i] += 2 * (x[i] > 0 ? x[i] : 0) * dy[i];
}

static void definition(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                       double *y) {
    (void)c;
    (void)position;
    for (int64_t i = 0; i < D; i++) y[i] = pow(fmax(x[i], 0), 2);
}

static const la_map map = {.name = "relu2",
                           .kind = LA_MAP_POSITIVE,
                           .traits = LA_ATTN_ZERO_ROWS,
                           .width = la_map_width_same,
                           .forward = forward,
                           .backward = backward,
                           .definition = definition};

const la_attn la_attn_relu2 = {
    .name = "relu2",
    .formula = "phi(x) = max(x, 0)^2; o_t = phi(q_t)'(sum_{j<=t} phi(k_j) v_j') / (phi(q_t).sum "
               "phi(k_j) + eps)",
    .paper = "So et al., Primer: searching for efficient transformers, 2021 (the activation)",
    .cost = "O(T D E) time, state D(E+1)",
    .file = "autograd/attention/relu2.c",
    .options = "chunk eps d decay norm",
    .map = &map,
    .definition = la_kernel_definition,
};
