/* elu1: linear attention with phi(x) = elu(x) + 1.
 * Katharopoulos, Vyas, Pappas, Fleuret, "Transformers are RNNs", 2020.
 *
 *   phi(x) = x + 1 for x > 0, exp(x) otherwise       phi'(x) = 1, or exp(x) = phi(x)
 *
 * Written as exp(min(x,0)) + max(x,0), x - max(x,0) being min(x,0).  Not as expm1(x) + 1: in float
 * that is 2.6e-2 wrong at x = -15 and 0 below -17.3; this is 0 in float below -87.7, where exp has
 * no normal number.  At x = 0 both branches agree, in value and in derivative. The rest is
 * causal_linear. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

static void forward(const la_map_rows *r, const la_real *x, la_real *y) {
    la_vec_table()->elu1(r->rows, r->D, x, r->D, y);
}

static void backward(const la_map_rows *r, const la_real *x, const la_real *y, const la_real *dy,
                     la_real *dx) {
    la_vec_table()->elu1_backward(r->rows, r->D, x, r->D, y, dy, dx, r->D);
}

static void definition(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                       double *y) {
    (void)c;
    (void)position;
    for (int64_t i = 0; i < D; i++) y[i] = x[i] > 0 ? x[i] + 1 : exp(x[i]);
}

static const la_map map = {.name = "elu1",
                           .kind = LA_MAP_POSITIVE,
                           .width = la_map_width_same,
                           .forward = forward,
                           .backward = backward,
                           .definition = definition};

const la_attn la_attn_elu1 = {
    .name = "elu1",
    .formula = "phi(x) = elu(x) + 1; o_t = phi(q_t)'(sum_{j<=t} phi(k_j) v_j') / (phi(q_t).sum "
               "phi(k_j) + eps)",
    .paper = "Katharopoulos et al., Transformers are RNNs, 2020",
    .cost = "O(T D E) time, state D(E+1)",
    .file = "autograd/attention/elu1.c",
    .options = "chunk eps d decay norm",
    .map = &map,
    .definition = la_kernel_definition,
};
