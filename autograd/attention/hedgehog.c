/* hedgehog: a learned map that is as spiky as softmax.
 * Zhang, Bhatia, Kumbong, Re, "The hedgehog & the porcupine: expressive linear attentions with
 * softmax mimicry", 2024.
 *
 *   u = W x, W (D,D) of each head, learned, near the identity at first, its rows beyond D random;
 *   another for q than for k
 *   phi(x) = softmax([u; -u]) over its 2D numbers      m = 2D; or W (m/2,D), with the option m,
 * even
 *
 * The projection is head_linear's; this is the map behind it.
 * Backward.  y = softmax(s) has ds = y o (dy - y.dy), and u stands in s twice: du = ds_1 - ds_2. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

static int64_t rows_of_W(const la_attn_cfg *c, int64_t D) { return c->m ? c->m / 2 : D; }

static int64_t width(const la_attn_cfg *c, int64_t D) {
    (void)c;
    return 2 * D;
}

static void forward(const la_map_rows *r, const la_real *x, la_real *y) {
    const la_vec *vec = la_vec_table();
    const int64_t D = r->D;
    for (int64_t row = 0; row < r->rows; row++, x += D, y += 2 * D) {
        memcpy(y, x, (size_t)D * sizeof *y);
        vec->scale(D, -1, x, y + D);
        vec->scale(2 * D, 1 / vec->exp_minus_sum(2 * D, vec->max(2 * D, y), y, y), y, y);
    }
}

static void backward(const la_map_rows *r, const la_real *x, const la_real *y, const la_real *dy,
                     la_real *dx) {
    const int64_t D = r->D;
    (void)x;
    for (int64_t row = 0; row < r->rows; row++, y += 2 * D, dy += 2 * D, dx += D) {
        const la_real along = la_vec_table()->dot(2 * D, y, dy);
        for (int64_t i = 0; i < D; i++)
            dx[i] += y[i] * (dy[i] - along) - y[D + i] * (dy[D + i] - along);
    }
}

static void definition(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                       double *y) {
    double total = 0, top = 0;
    (void)c;
    (void)position;
    for (int64_t i = 0; i < D; i++) top = fmax(top, fabs(x[i]));
    for (int64_t i = 0; i < D; i++)
        total += (y[i] = exp(x[i] - top)) + (y[D + i] = exp(-x[i] - top));
    for (int64_t i = 0; i < 2 * D; i++) y[i] /= total;
}

static const la_projection projection = {.width = rows_of_W, .pairs = 1};
static const la_map        map = {.name = "hedgehog",
                                  .kind = LA_MAP_POSITIVE,
                                  .options = "m",
                                  .projection = &projection,
                                  .width = width,
                                  .forward = forward,
                                  .backward = backward,
                                  .definition = definition};

const la_attn la_attn_hedgehog = {
    .name = "hedgehog",
    .formula = "phi(x) = softmax([W x; -W x]), W learned; o_t = phi(q_t)'(sum_{j<=t} phi(k_j) "
               "v_j') / (phi(q_t).sum phi(k_j) + eps)",
    .paper = "Zhang et al., The hedgehog & the porcupine, 2024",
    .cost = "O(T m (D + E)) time, state m(E+1), m = 2D",
    .file = "autograd/attention/hedgehog.c",
    .options = "chunk eps m decay norm",
    .map = &map,
    .definition = la_kernel_definition,
};
