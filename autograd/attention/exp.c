/* exp: the exponential of each number as its feature, the plainest map that is positive.  The form
 * is that of Katharopoulos et al., "Transformers are RNNs", 2020; the running normaliser that makes
 * it exact is that of Shen et al., "Efficient attention", 2018.
 *
 *   phi(x) = exp(x)       sim(q,k) = sum_f exp(q_f + k_f)
 *   o_t = sum_{j<=t} sim(q_t,k_j) v_j / sum_{j<=t} sim(q_t,k_j)
 *
 * The map gives logarithms, so that it is x as it is; exp is taken where the sums of the keys so
 * far are at hand.  With z_tf = log sum_{j<=t} exp(k_jf) and the moving averages C_tf of
 * double-softmax,
 *
 *   o_t = sum_f softmax_f(q_t + z_t) C_tf,
 *
 * for numbers of any size and without eps.  Double-softmax shares a query out over features by q_t
 * alone; here a feature that the keys so far have much of counts for more.  The derivation is in
 * ops/causal_exp_linear.c. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

void la_exp_forward(const la_map_rows *r, const la_real *x, la_real *y) {
    memcpy(y, x, (size_t)(r->rows * r->D) * sizeof *y);
}

void la_exp_backward(const la_map_rows *r, const la_real *x, const la_real *y, const la_real *dy,
                     la_real *dx) {
    (void)x;
    (void)y;
    la_vec_table()->axpy(r->rows * r->D, 1, dy, dx);
}

void la_exp_definition(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                       double *y) {
    (void)c;
    (void)position;
    memcpy(y, x, (size_t)D * sizeof *y);
}

const la_map la_map_exp = {.name = "exp",
                           .kind = LA_MAP_LOG,
                           .width = la_map_width_same,
                           .forward = la_exp_forward,
                           .backward = la_exp_backward,
                           .definition = la_exp_definition};

const la_attn la_attn_exp = {
    .name = "exp",
    .formula = "phi(x) = exp(x); o_t = phi(q_t)'(sum_{j<=t} phi(k_j) v_j') / phi(q_t).sum_{j<=t} "
               "phi(k_j)",
    .paper =
        "exp kernel: the form of Katharopoulos et al., Transformers are RNNs, 2020; the running "
        "normaliser of Shen et al., Efficient Attention, 2018",
    .cost = "O(T D E) time, state D(E+1)",
    .file = "autograd/attention/exp.c",
    .options = "chunk norm",
    .map = &la_map_exp,
    .definition = la_kernel_definition,
};
