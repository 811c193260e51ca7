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
 *   x_i < 0.
 *
 * A row is handled in pieces of r, with the nu numbers that stand before a piece. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

static int64_t width(const la_attn_cfg *c, int64_t D) { return 2 * D * c->nu; }

enum { PIECE = 256, MOST_NU = 64 }; /* numbers of r at a time; nu is at most, options.def */

/* n of the 2D numbers of r from place `at` on, which may be below 0: the last one is before the
 * first one. */
static void some_of_r(int64_t D, const la_real *x, int64_t at, int64_t n, la_real *r) {
    at = (at % (2 * D) + 2 * D) % (2 * D);
    for (int64_t i = 0; i < n; i++, at = at + 1 < 2 * D ? at + 1 : 0) {
        const la_real u = at < D ? x[at] : -x[at - D];
        r[i] = u > 0 ? u : 0;
    }
}

/* From dr of the same numbers to dx. */
static void add_to_x(int64_t D, const la_real *x, int64_t at, int64_t n, const la_real *dr,
                     la_real *dx) {
    at = (at % (2 * D) + 2 * D) % (2 * D);
    for (int64_t i = 0; i < n; i++, at = at + 1 < 2 * D ? at + 1 : 0)
        if (at < D)
            dx[at] += x[at] > 0 ? dr[i] : 0;
        else
            dx[at - D] -= x[at - D] < 0 ? dr[i] : 0;
}

static void forward(const la_map_rows *rows, const la_real *x, la_real *y) {
    const int64_t D = rows->D, nu = rows->cfg->nu;
    la_real       memory[MOST_NU + PIECE], *r = memory + nu;
    for (int64_t row = 0; row < rows->rows; row++, x += D, y += nu * 2 * D)
        for (int64_t at = 0; at < 2 * D; at += PIECE) {
            const int64_t n = la_min(PIECE, 2 * D - at);
            some_of_r(D, x, at - nu, nu + n, memory);
            for (int64_t j = 1; j <= nu; j++) {
                la_real *block = y + (j - 1) * 2 * D + at;
                for (int64_t i = 0; i < n; i++) block[i] = r[i] * r[i - j];
            }
        }
}

static void backward(const la_map_rows *rows, const la_real *x, const la_real *y, const la_real *dy,
                     la_real *dx) {
    const int64_t D = rows->D, nu = rows->cfg->nu;
    la_real       memory[MOST_NU + PIECE], *r = memory + nu;
    la_real       gradient[MOST_NU + PIECE], *dr = gradient + nu;
    (void)y;
    for (int64_t row = 0; row < rows->rows; row++, x += D, dx += D, dy += nu * 2 * D)
        for (int64_t at = 0; at < 2 * D; at += PIECE) {
            const int64_t n = la_min(PIECE, 2 * D - at);
            some_of_r(D, x, at - nu, nu + n, memory);
            memset(gradient, 0, (size_t)(nu + n) * sizeof *gradient);
            for (int64_t j = 1; j <= nu; j++) {
                const la_real *block = dy + (j - 1) * 2 * D + at;
                for (int64_t i = 0; i < n; i++) dr[i] += block[i] * r[i - j];
                for (int64_t i = 0; i < n; i++) dr[i - j] += block[i] * r[i];
            }
            add_to_x(D, x, at - nu, nu + n, gradient, dx);
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
