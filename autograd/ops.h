/* ops.h -- the operations, one line each.  The formula and its derivation stand in
 * autograd/ops/NAME.c; attention is in autograd/attention/attention.h.
 *
 * Each records a node and returns it; NULL (and la_tape_seal says why) if the shapes do not
 * fit.  "(...,C)" is any shape whose last dimension is C. */
#ifndef LA_OPS_H
#define LA_OPS_H
#include "autograd/tape.h"

la_node *la_add(la_tape *t, la_node *a, la_node *b); /* a + b, equal shapes            */
la_node *la_linear(la_tape *t, la_node *x, la_node *w, la_node *b); /* x (...,I), w (O,I), b (O) or
                                                                    NULL: x w' + b, (...,O)      */
/* In one pass over the result, while it is in the cache: */
la_node *la_linear_gelu(la_tape *t, la_node *x, la_node *w, la_node *b); /* gelu(x w' + b) */
la_node *la_linear_add(la_tape *t, la_node *x, la_node *w, la_node *b,
                       la_node *r); /* x w' + b + r  */
/* Of each head, x (B,T,H,D), w (H,m,D) or, with bias, (H,m,D+1) whose last column it is:
 * y_i = scale w_i.x^ + w_iD - square |x|^2, (B,T,H,m); x^ = x, or, with unit, x / |x| */
typedef struct la_head_linear_cfg {
    double scale, square;
    int    unit, bias;
} la_head_linear_cfg;
la_node *la_head_linear(la_tape *t, la_node *x, la_node *w, const la_head_linear_cfg *c);
la_node *la_embedding(la_tape *t, la_node *ids,
                      la_node *w); /* ids (...), w (V,C): w[ids], (...,C) */
la_node *la_layernorm(la_tape *t, la_node *x, la_node *gain, la_node *bias, double eps);
/* gain, bias (C); bias may be NULL */
/* x (B,T,H,E), gain (H E): gain x / sqrt(mean(x^2) + eps), the mean of each head */
la_node *la_rmsnorm(la_tape *t, la_node *x, la_node *gain, double eps);
la_node *la_gelu(la_tape *t, la_node *x);              /* x Phi(x), exact               */
la_node *la_dropout(la_tape *t, la_node *x, double p); /* 0 with probability p, else x/(1-p) */
/* x (B,T,H,D), D even; past (1) or (B), tokens before the text; mask NULL or integers (B,T) */
la_node *la_rope(la_tape *t, la_node *x, la_node *past, la_node *mask);
/* x (B,T,C), w (C,W), W >= 2: y_t = sum_i w[:,W-1-i] x_{t-i} in each channel; mask NULL or integers
 * (B,T), 0 for a token to skip; state NULL or (B,W-1,C), the last tokens before the text, which
 * comes out at *state_out (NULL: not wanted) */
la_node *la_short_conv(la_tape *t, la_node *x, la_node *w, la_node *mask, la_node *state,
                       la_node **state_out);
la_node *la_cross_entropy(la_tape *t, la_node *logits, la_node *labels);
/* logits (...,V), labels (...): mean of -log softmax over labels >= 0    */
/* The same of x w', x (...,C), w (V,C), without the logits in memory */
la_node *la_linear_cross_entropy(la_tape *t, la_node *x, la_node *w, la_node *labels);
la_node *la_concat(la_tape *t, int n, la_node *const x[]); /* (B,T,H_i,D_i): (B,T,sum H_i D_i) */
/* x (B,T,H,D), mask integers (B,T): valid tokens, 1, to the front of their row, the rest 0; and
 * back to their places, masked ones 0 */
la_node *la_pack(la_tape *t, la_node *x, la_node *mask);
la_node *la_unpack(la_tape *t, la_node *x, la_node *mask);
la_node *la_inner(la_tape *t, la_node *a, la_node *b); /* sum_i a_i b_i, equal shapes    */
#endif
