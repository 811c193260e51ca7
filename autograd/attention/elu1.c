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

static int64_t width(int64_t D) { return D; }

static void forward(int64_t rows, int64_t D, double eps, const la_real *x, int64_t ldx,
                    la_real *y) {
    (void)eps;
    la_vec_table()->elu1(rows, D, x, ldx, y);
}

static void backward(int64_t rows, int64_t D, double eps, const la_real *x, int64_t ldx,
                     const la_real *y, const la_real *dy, la_real *dx, int64_t lddx) {
    (void)eps;
    la_vec_table()->elu1_backward(rows, D, x, ldx, y, dy, dx, lddx);
}

static const la_map map = {width, forward, backward};

const la_attn la_attn_elu1 = {
    .name = "elu1",
    .formula = "phi(x) = elu(x) + 1; o_t = phi(q_t)'(sum_{j<=t} phi(k_j) v_j') / (phi(q_t).sum "
               "phi(k_j) + eps)",
    .paper = "Katharopoulos et al., Transformers are RNNs, 2020",
    .cost = "O(T D E) time, state D(E+1)",
    .file = "autograd/attention/elu1.c",
    .op = &la_op_causal_linear,
    .map = &map,
    .state_len = la_map_state_len,
    .positive = 1,
};
