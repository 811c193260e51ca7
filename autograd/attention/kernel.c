/* kernel: linear attention in its general form, a map for queries and one for keys.
 * Su, "Attention must have a softmax?", 2020; Katharopoulos et al., "Transformers are RNNs", 2020.
 *
 *   sim(q, k) = phi(q).varphi(k)         --attn=kernel:q=relu,k=sigmoid
 *
 * Any two maps that make as many features.  Their options are read here as in their own variants
 * (one that neither map reads is refused), and a projection of theirs comes with them, one for q
 * and one for k.  Where varphi gives logarithms (exp and the like) the sums are those of
 * causal_exp_linear, else of causal_linear; a phi with logarithms beside a varphi without has the
 * softmax of them as features, exp but for a factor that only eps can tell. */
#include "autograd/attention/kernel_map.h"

const la_attn la_attn_kernel = {
    .name = "kernel",
    .formula = "sim(q,k) = phi(q).varphi(k), any two maps; o_t = sum_{j<=t} sim(q_t,k_j) v_j / "
               "(sum_{j<=t} sim(q_t,k_j) + eps)",
    .paper = "Su, Attention must have a softmax?, 2020",
    .cost = "O(T m E) time, state m(E+1)",
    .file = "autograd/attention/kernel.c",
    .options = "q k chunk eps d m nu length redraw decay norm",
    .usual = {.q = &la_map_softplus, .k = &la_map_exp, .nu = 1},
    .map = &la_map_exp, /* one to take the place of q or k, which are never left out          */
    .definition = la_kernel_definition,
};
