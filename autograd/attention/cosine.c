/* cosine: weights 1 + cos(q, k).  Su, "Attention must have a softmax?", 2020.
 *
 *   sim(q,k) = 1 + q^.k^      x^ = x / |x|_eps      |x|_eps = sqrt(|x|^2 + eps^2)
 *
 * A kernel with D + 1 features, phi(x) = [1; x^]; the rest is causal_linear.
 *
 * Backward.  x^ = x / r, r = |x|_eps, dr/dx = x / r = x^:
 *   dx = dx^ / r - x (dx^.x) / r^3 = (dx^ - x^ (x^.dx^)) / r.   The constant 1 has no gradient.
 *
 * eps keeps x = 0 finite (x^ = 0, slope 1/eps) and, in the normaliser, q = -k at the first
 * token, whose weight is 0.  Where q is opposite to every key so far, numerator and normaliser are
 * both rounding noise of the sums: in float the output then is finite but means nothing, and may
 * leave [min v, max v].  That is the kernel's: it has no weight to give there. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

static int64_t width(const la_attn_cfg *c, int64_t D) {
    (void)c;
    return D + 1;
}

static la_real length(const la_map_rows *r, const la_real *x) {
    return sqrt(la_vec_table()->dot(r->D, x, x) + R(r->cfg->eps) * R(r->cfg->eps));
}

/* No length is 0: with eps = 0 a zero row keeps x^ = 0. */
static la_real inverse(la_real r) { return r > 0 ? 1 / r : 0; }

static void forward(const la_map_rows *r, const la_real *x, la_real *y) {
    for (int64_t i = 0; i < r->rows; i++, x += r->D, y += r->D + 1) {
        la_real s = inverse(length(r, x));
        y[0] = 1;
        for (int64_t j = 0; j < r->D; j++) y[1 + j] = x[j] * s;
    }
}

static void backward(const la_map_rows *r, const la_real *x, const la_real *y, const la_real *dy,
                     la_real *dx) {
    for (int64_t i = 0; i < r->rows; i++, x += r->D, y += r->D + 1, dy += r->D + 1, dx += r->D) {
        la_real s = inverse(length(r, x)), along = la_vec_table()->dot(r->D, y + 1, dy + 1);
        for (int64_t j = 0; j < r->D; j++) dx[j] += (dy[1 + j] - y[1 + j] * along) * s;
    }
}

static void definition(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                       double *y) {
    double square = c->eps * c->eps;
    (void)position;
    for (int64_t i = 0; i < D; i++) square += x[i] * x[i];
    y[0] = 1;
    for (int64_t i = 0; i < D; i++) y[1 + i] = x[i] / sqrt(square);
}

static const la_map map = {.name = "cosine",
                           .kind = LA_MAP_SIGNED,
                           .width = width,
                           .forward = forward,
                           .backward = backward,
                           .definition = definition};

const la_attn la_attn_cosine = {
    .name = "cosine",
    .formula = "sim(q,k) = 1 + q.k/(|q| |k|); o_t = sum_{j<=t} sim(q_t,k_j) v_j / (sum_{j<=t} "
               "sim(q_t,k_j) + eps)",
    .paper = "Su, Attention must have a softmax?, 2020",
    .cost = "O(T D E) time, state (D+1)(E+1)",
    .file = "autograd/attention/cosine.c",
    .options = "chunk eps d decay norm",
    .map = &map,
    .definition = la_kernel_definition,
};
