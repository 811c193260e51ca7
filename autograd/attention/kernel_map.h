/* kernel_map.h -- the ops behind kernel variants, w_tj = phi(q_t).phi(k_j), and their definition.
 */
#ifndef LA_KERNEL_MAP_H
#define LA_KERNEL_MAP_H
#include "autograd/attention/attention.h"

extern const la_op la_op_causal_linear, la_op_full_linear; /* sums of phi(k) v'                */
extern const la_op la_op_causal_exp_linear, la_op_full_exp_linear; /* the same for features that are
                                                                      given by their logarithms */

/* Weights 1 + s + s^2/2 of each pair of tokens, by the tiles of softmax.c; it has no state. */
extern const la_op la_op_taylor2_pairs;

/* A check for la_op.check: past is not below 0, and a text is not longer than the maps can tell. */
la_status la_kernel_check(const la_node *n);

/* The state of causal_exp_linear before the first token: C (m,E), then z (m). */
void      la_exp_state_start(int64_t m, int64_t E, la_real *state);
/* w_tj = phi(q_t).phi(k_j) / (sum of these + eps), from the definitions of the maps. */
la_status la_kernel_definition(const la_attn_head *x, double *w);
/* For definitions: softmax of n numbers, in place; zeros where all are logarithms of 0. */
void      la_softmax_definition(int64_t n, double *x);

/* The map of exp and of what stands behind a projection as in favor: x as it is are the logarithms.
 */
void la_exp_forward(const la_map_rows *r, const la_real *x, la_real *y);
void la_exp_backward(const la_map_rows *r, const la_real *x, const la_real *y, const la_real *dy,
                     la_real *dx);
void la_exp_definition(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                       double *y);

/* Beside keys that are given by logarithms a feature of a query below this counts as 0: the
 * gradient at it, which is divided by it, stays finite. */
#define LA_FEATURE_LEAST R(LA_REAL_BITS == 64 ? 1e-300 : 1e-30)

/* Maps that other files name. */
extern const la_map la_map_softplus, la_map_exp;
/* The map relu, which is also what stands behind the projection of t2r. */
void                la_relu_rows(const la_map_rows *r, const la_real *x, la_real *y);
void                la_relu_rows_backward(const la_map_rows *r, const la_real *x, const la_real *y,
                                          const la_real *dy, la_real *dx);
void la_relu_definition(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                        double *y);

/* Maps of each number by itself have as many features as there are numbers. */
static inline int64_t la_map_width_same(const la_attn_cfg *c, int64_t D) {
    (void)c;
    return D;
}
#endif
