/* dpfp: deterministic parameter-free projection.
 * Schlag, Irie, Schmidhuber, "Linear transformers are secretly fast weight programmers", 2021.
 *
 *   r = [max(x, 0); max(-x, 0)] in R^2D       phi(x) = [r o roll(r, 1); ..; r o roll(r, nu)]
 *   roll(r, j)_i = r_{i-j mod 2D}             m = 2 D nu, every feature >= 0
 *
 * A feature needs two numbers of certain signs, so that keys overlap little; a query and its keys
 * may share none at all, and then o_t = 0.
 *
 * Backward, with dy_j the gradient of block j:
 *   dr_i = sum_j dy_ji r_{i-j} + dy_j,i+j r_{i+j}      dx_i = dr_i where x_i > 0, -dr_{D+i} where
 *   x_i < 0. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

static int64_t width(const la_attn_cfg *c, int64_t D) { return 2 * D * c->nu; }

static void halves(int64_t D, const la_real *x, la_real *r) {
    for (int64_t i = 0; i < D; i++) {
        r[i] = x[i] > 0 ? x[i] : 0;
        r[D + i] = x[i] < 0 ? -x[i] : 0;
    }
}

/* y_i = r_i r_{i-j}, i from..to-1, all of them inside of r */
static void products(int64_t from, int64_t to, const la_real *r, int64_t j, la_real *y) {
    for (int64_t i = from; i < to; i++) y[i] = r[i] * r[i - j];
}

static void products_backward(int64_t from, int64_t to, const la_real *r, int64_t j,
                              const la_real *dy, la_real *dr) {
    for (int64_t i = from; i < to; i++) dr[i] += dy[i] * r[i - j];
    for (int64_t i = from; i < to; i++) dr[i - j] += dy[i] * r[i];
}

static void forward(const la_map_rows *rows, const la_real *x, la_real *y) {
    const int64_t D = rows->D;
    la_real       r[2 * D];
    for (int64_t row = 0; row < rows->rows; row++, x += D) {
        halves(D, x, r);
        for (int64_t j = 1; j <= rows->cfg->nu; j++, y += 2 * D) {
            const int64_t by = j % (2 * D);
            products(0, by, r, by - 2 * D, y);
            products(by, 2 * D, r, by, y);
        }
    }
}

static void backward(const la_map_rows *rows, const la_real *x, const la_real *y, const la_real *dy,
                     la_real *dx) {
    const int64_t D = rows->D;
    la_real       r[2 * D], dr[2 * D];
    (void)y;
    for (int64_t row = 0; row < rows->rows; row++, x += D, dx += D) {
        halves(D, x, r);
        memset(dr, 0, sizeof dr);
        for (int64_t j = 1; j <= rows->cfg->nu; j++, dy += 2 * D) {
            const int64_t by = j % (2 * D);
            products_backward(0, by, r, by - 2 * D, dy, dr);
            products_backward(by, 2 * D, r, by, dy, dr);
        }
        for (int64_t i = 0; i < D; i++) dx[i] += x[i] > 0 ? dr[i] : x[i] < 0 ? -dr[D + i] : 0;
    }
}

static void definition(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                       double *y) {
    (void)position;
    for (int64_t j = 1; j <= c->nu; j++)
        for (int64_t i = 0; i < 2 * D; i++) {
            const int64_t other = ((i - j) % (2 * D) + 2 * D) % (2 * D);
            *y++ =
                fmax(i < D ? x[i] : -x[i - D], 0) * fmax(other < D ? x[other] : -x[other - D], 0);
        }
}

static const la_map map = {.name = "dpfp",
                           .kind = LA_MAP_POSITIVE,
                           .options = "nu",
                           .traits = LA_ATTN_ZERO_ROWS,
                           .width = width,
                           .forward = forward,
                           .backward = backward,
                           .definition = definition};

const la_attn la_attn_dpfp = {
    .name = "dpfp",
    .formula = "r = [relu(x); relu(-x)], phi(x) = [r o roll(r,1); ..; r o roll(r,nu)]; o_t = "
               "phi(q_t)'(sum_{j<=t} phi(k_j) v_j') / (phi(q_t).sum phi(k_j) + eps)",
    .paper = "Schlag et al., Linear transformers are secretly fast weight programmers, 2021",
    .cost = "O(T m E) time, state m(E+1), m = 2 D nu",
    .file = "autograd/attention/dpfp.c",
    .options = "chunk eps d nu decay norm",
    .usual = {.nu = 1},
    .tiny = "nu=2",
    .map = &map,
    .definition = la_kernel_definition,
};
