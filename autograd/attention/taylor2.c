/* taylor2: the exponential of softmax by its Taylor series to the second order.
 * Zhang et al., "The hedgehog & the porcupine", 2024; Arora et al., "Simple linear attention
 * language models balance the recall-throughput tradeoff" (Based), 2024.
 *
 *   phi(x) = [1; x_i / d^(1/4); x_i^2 / (sqrt 2 sqrt d), x_i x_j / sqrt d for i < j]
 *   phi(q).phi(k) = 1 + s + s^2/2,   s = q.k / sqrt d,   since (q.k)^2 = sum_ij q_i q_j k_i k_j and
 *   the terms (i,j) and (j,i) are one feature of weight 2; m = 1 + d + d(d+1)/2.
 *
 * Features have either sign, but weights do not: 1 + s + s^2/2 = ((1 + s)^2 + 1) / 2 >= 1/2.
 * A state is d^2/2 (E+1): at d = 64 that is 33 times elu1's; --attn=taylor2:d=16, which projects q
 * and k, is what Based does.
 *
 * Pair by pair.  A short text (about 4 m tokens, 2 m both ways: la_attn_op_of_text) that neither
 * goes on from a state nor fades is quicker without features, by the tiles of softmax.c with w_tj =
 * 1 + s_tj + s_tj^2/2 in the place of exponentials.  With l_t = sum_j w_tj + eps, g_t the gradient
 * at o_t, and d_t = g_t.o_t as there:
 *
 *   dw_tj = (g_t.v_j - d_t) / l_t     ds_tj = (1 + s_tj) dw_tj     dv_j = sum_t w_tj g_t / l_t
 *
 * Other texts, among them a prompt before it is continued, go by features in causal_linear.c or
 * full_linear.c, and so does kernel:q=taylor2,k=taylor2, which is the same function.
 *
 * Backward, with c = 1 / sqrt d, c' = c / sqrt 2, and dy_ij the gradient of pair (i,j), i <= j:
 *
 *   dx_i = dy_i / d^(1/4) + 2 c' x_i dy_ii + c sum_{j>i} x_j dy_ij + c sum_{j<i} x_j dy_ji
 *
 * The constant 1 has no gradient. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

static int64_t width(const la_attn_cfg *c, int64_t D) {
    (void)c;
    return 1 + D + D * (D + 1) / 2;
}

static void forward(const la_map_rows *r, const la_real *x, la_real *y) {
    const la_vec *vec = la_vec_table();
    const int64_t D = r->D;
    const la_real c = R(1 / sqrt((double)D)), half = c * R(sqrt(0.5));
    for (int64_t row = 0; row < r->rows; row++, x += D) {
        *y++ = 1;
        vec->scale(D, sqrt(c), x, y);
        y += D;
        for (int64_t i = 0; i < D; y += D - i, i++) {
            y[0] = half * x[i] * x[i];
            vec->scale(D - i - 1, c * x[i], x + i + 1, y + 1);
        }
    }
}

static void backward(const la_map_rows *r, const la_real *x, const la_real *y, const la_real *dy,
                     la_real *dx) {
    const la_vec *vec = la_vec_table();
    const int64_t D = r->D;
    const la_real c = R(1 / sqrt((double)D)), half = c * R(sqrt(0.5));
    (void)y;
    for (int64_t row = 0; row < r->rows; row++, x += D, dx += D) {
        dy++;
        vec->axpy(D, sqrt(c), dy, dx);
        dy += D;
        for (int64_t i = 0; i < D; dy += D - i, i++) {
            const int64_t n = D - i - 1;
            dx[i] += 2 * half * x[i] * dy[0] + c * vec->dot(n, x + i + 1, dy + 1);
            vec->axpy(n, c * x[i], dy + 1, dx + i + 1);
        }
    }
}

static void definition(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                       double *y) {
    const double root = sqrt((double)D);
    (void)c;
    (void)position;
    *y++ = 1;
    for (int64_t i = 0; i < D; i++) *y++ = x[i] / sqrt(root);
    for (int64_t i = 0; i < D; i++) *y++ = x[i] * x[i] / (sqrt(2) * root);
    for (int64_t i = 0; i < D; i++)
        for (int64_t j = i + 1; j < D; j++) *y++ = x[i] * x[j] / root;
}

static const la_map map = {.name = "taylor2",
                           .kind = LA_MAP_SIGNED,
                           .width = width,
                           .forward = forward,
                           .backward = backward,
                           .definition = definition};

const la_attn la_attn_taylor2 = {
    .name = "taylor2",
    .formula = "phi(q).phi(k) = 1 + s + s^2/2, s = q.k/sqrt(d); o_t = phi(q_t)'(sum_{j<=t} "
               "phi(k_j) v_j') / (phi(q_t).sum phi(k_j) + eps)",
    .paper = "Arora et al., Simple linear attention language models balance the "
             "recall-throughput tradeoff, 2024",
    .cost = "O(T min(m,T) E) time, state m(E+1), m = 1 + d + d(d+1)/2",
    .file = "autograd/attention/taylor2.c",
    .options = "chunk eps d decay norm",
    .map = &map,
    .pairwise = &la_op_taylor2_pairs,
    .definition = la_kernel_definition,
};
