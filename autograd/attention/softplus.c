/* softplus: linear attention with phi(x) = log(1 + exp(x)).
 * Dugas et al., "Incorporating second-order functional knowledge for better option pricing", 2000
 * (the function); as a map of linear attention: Su, "Attention must have a softmax?", 2020.
 *
 *   phi(x) = log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))      phi'(x) = 1 / (1 + exp(-x))
 *
 * The second form neither overflows nor loses the last digits of small numbers.  Positive as elu1,
 * and smooth.  The rest is causal_linear, or full_linear. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

static void forward(const la_map_rows *r, const la_real *x, la_real *y) {
    la_vec_table()->softplus(r->rows * r->D, x, y);
}

static void backward(const la_map_rows *r, const la_real *x, const la_real *y, const la_real *dy,
                     la_real *dx) {
    (void)y;
    la_vec_table()->softplus_backward(r->rows * r->D, x, dy, dx);
}

static void definition(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                       double *y) {
    (void)c;
    (void)position;
    for (int64_t i = 0; i < D; i++) y[i] = fmax(x[i], 0) + log1p(exp(-fabs(x[i])));
}

const la_map la_map_softplus = {.name = "softplus",
                                .kind = LA_MAP_POSITIVE,
                                .width = la_map_width_same,
                                .forward = forward,
                                .backward = backward,
                                .definition = definition};

const la_attn la_attn_softplus = {
    .name = "softplus",
    .formula = "phi(x) = log(1 + exp(x)); o_t = phi(q_t)'(sum_{j<=t} phi(k_j) v_j') / "
               "(phi(q_t).sum phi(k_j) + eps)",
    .paper = "Su, Attention must have a softmax?, 2020 (the general form)",
    .cost = "O(T D E) time, state D(E+1)",
    .file = "autograd/attention/softplus.c",
    .options = "chunk eps d decay norm",
    .map = &la_map_softplus,
    .definition = la_kernel_definition,
};
