/* t2r: a learned map, from transformers to RNNs.
 * Kasai et al., "Finetuning pretrained transformers into RNNs", 2021.
 *
 *   phi(x) = relu(W x + b), W (m,D) and b (m) of each head, learned; another for q than for k
 *
 * W starts near the identity, its rows beyond D as random directions, and b near 0.
 * The projection is head_linear's; the map behind it is relu's, and as there all weights of a row
 * may be 0, and then o_t = 0.  m is D, or the option m. */
#include "autograd/attention/kernel_map.h"

static int64_t rows_of_W(const la_attn_cfg *c, int64_t D) { return c->m ? c->m : D; }

static const la_projection projection = {.width = rows_of_W, .bias = 1};
static const la_map        map = {.name = "t2r",
                                  .kind = LA_MAP_POSITIVE,
                                  .options = "m",
                                  .traits = LA_ATTN_ZERO_ROWS,
                                  .projection = &projection,
                                  .width = la_map_width_same,
                                  .forward = la_relu_rows,
                                  .backward = la_relu_rows_backward,
                                  .definition = la_relu_definition};

const la_attn la_attn_t2r = {
    .name = "t2r",
    .formula = "phi(x) = max(W x + b, 0), W and b learned; o_t = phi(q_t)'(sum_{j<=t} phi(k_j) "
               "v_j') / (phi(q_t).sum phi(k_j) + eps)",
    .paper = "Kasai et al., Finetuning pretrained transformers into RNNs, 2021",
    .cost = "O(T m (D + E)) time, state m(E+1)",
    .file = "autograd/attention/t2r.c",
    .options = "chunk eps m decay norm",
    .tiny = "m=4",
    .map = &map,
    .definition = la_kernel_definition,
};
