/* sigmoid: linear attention with the logistic function as its map.
 * As a map of linear attention: Su, "Attention must have a softmax?", 2020 (any positive map).
 *
 *   phi(x) = 1 / (1 + exp(-x))       phi'(x) = phi (1 - phi)
 *
 * Written with exp(-|x|), which cannot overflow.  Features lie between 0 and 1, so that no token
 * outweighs another by more than its m numbers.  The rest is causal_linear, or full_linear. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

static void forward(const la_map_rows *r, const la_real *x, la_real *y) {
    la_vec_table()->sigmoid(r->rows * r->D, x, y);
}

static void backward(const la_map_rows *r, const la_real *x, const la_real *y, const la_real *dy,
                     la_real *dx) {
    (void)x;
    for (int64_t i = 0; i < r->rows * r->D; i++) dx[i] += dy[i] * y[i] * (1 - y[i]);
}

static void definition(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                       double *y) {
    (void)c;
    (void)position;
    for (int64_t i = 0; i < D; i++) y[i] = 1 / (1 + exp(-x[i]));
}

static const la_map map = {.name = "sigmoid",
                           .kind = LA_MAP_POSITIVE,
                           .width = la_map_width_same,
                           .forward = forward,
                           .backward = backward,
                           .definition = definition};

const la_attn la_attn_sigmoid = {
    .name = "sigmoid",
    .formula = "phi(x) = 1/(1 + exp(-x)); o_t = phi(q_t)'(sum_{j<=t} phi(k_j) v_j') / "
               "(phi(q_t).sum phi(k_j) + eps)",
    .paper = "Su, Attention must have a softmax?, 2020 (the general form)",
    .cost = "O(T D E) time, state D(E+1)",
    .file = "autograd/attention/sigmoid.c",
    .options = "chunk eps d decay norm",
    .map = &map,
    .definition = la_kernel_definition,
};
