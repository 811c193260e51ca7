/* rff: random Fourier features of the Gaussian kernel.
 * Rahimi, Recht, "Random features for large-scale kernel machines", 2007; Peng et al., "Random
 * feature attention", 2021.
 *
 *   u = W x^, x^ = x / |x|, the rows of W (m/2,D) drawn from N(0, I)
 *   phi(x) = (m/2)^(-1/2) [sin u; cos u]
 *   phi(q).phi(k) = (2/m) sum_i cos(w_i.(q^ - k^)),  of mean exp(-|q^ - k^|^2 / 2) = exp(q^.k^ - 1)
 *
 * With unit vectors the Gaussian kernel is that of softmax at temperature 1.  The projection is
 * head_linear's, random and one for q and k; this is the map behind it.  m is 2D, or the option m,
 * which is even.
 *
 * An estimate may be negative, and a normaliser 0 or less.  The kernel that is estimated is not
 * below exp(-2), |q^ - k^| being 2 at most, and each token sees one key at least: where a
 * normaliser is less than that, it is noise, and exp(-2) stands in its place.
 *
 * Backward: du = (m/2)^(-1/2) (dy_sin cos u - dy_cos sin u) = dy_sin o y_cos - dy_cos o y_sin. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

static int64_t rows_of_W(const la_attn_cfg *c, int64_t D) { return c->m ? c->m / 2 : D; }

static void unit(int64_t D, la_head_linear_cfg *out) {
    (void)D;
    out->unit = 1;
}

static int64_t width(const la_attn_cfg *c, int64_t D) {
    (void)c;
    return 2 * D;
}

static void forward(const la_map_rows *r, const la_real *x, la_real *y) {
    const la_vec *vec = la_vec_table();
    const int64_t D = r->D;
    for (int64_t row = 0; row < r->rows; row++, x += D, y += 2 * D) {
        vec->sincos(D, x, y, y + D);
        vec->scale(2 * D, R(1 / sqrt((double)D)), y, y);
    }
}

static void backward(const la_map_rows *r, const la_real *x, const la_real *y, const la_real *dy,
                     la_real *dx) {
    const int64_t D = r->D;
    (void)x;
    for (int64_t row = 0; row < r->rows; row++, y += 2 * D, dy += 2 * D, dx += D)
        for (int64_t i = 0; i < D; i++) dx[i] += dy[i] * y[D + i] - dy[D + i] * y[i];
}

static void definition(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                       double *y) {
    (void)c;
    (void)position;
    for (int64_t i = 0; i < D; i++) {
        y[i] = sin(x[i]) / sqrt((double)D);
        y[D + i] = cos(x[i]) / sqrt((double)D);
    }
}

static const la_projection projection = {
    .random = 1, .width = rows_of_W, .scales = unit, .pairs = 1};
static const la_map map = {.name = "rff",
                           .kind = LA_MAP_SIGNED,
                           .options = "m redraw",
                           .traits = LA_ATTN_SIGNED,
                           .projection = &projection,
                           .width = width,
                           .floor = 0.1353352832366127,
                           .forward = forward,
                           .backward = backward,
                           .definition = definition};

const la_attn la_attn_rff = {
    .name = "rff",
    .formula = "phi(x) = [sin u; cos u] / sqrt(m/2), u = W x/|x|, W random; o_t = "
               "phi(q_t)'(sum_{j<=t} phi(k_j) v_j') / max(phi(q_t).sum phi(k_j) + eps, exp(-2))",
    .paper = "Peng et al., Random feature attention, 2021",
    .cost = "O(T m (D + E)) time, state m(E+1)",
    .file = "autograd/attention/rff.c",
    .options = "chunk eps m redraw decay norm",
    .map = &map,
    .definition = la_kernel_definition,
};
