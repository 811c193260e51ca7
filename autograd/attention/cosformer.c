/* cosformer: relu features, weighed by the cosine of a distance.
 * Qin et al., "cosFormer: rethinking softmax in attention", 2022.
 *
 *   sim(q_i, k_j) = relu(q_i).relu(k_j) cos(pi (i-j) / 2M)
 *   phi(x at place i) = [relu(x) sin(pi i / 2M); relu(x) cos(pi i / 2M)],   m = 2D
 *
 * since cos(a - b) = cos a cos b + sin a sin b.  M, the option length, is the longest text: up to
 * there every feature is >= 0, and near tokens weigh more than far ones.  It is fixed for a model:
 * a length that grew with the text would change the weights of tokens that have been read.  As with
 * relu all weights of a row may be 0, and then o_t = 0.  Gradient: where x > 0, the two of its
 * features times their sine and cosine. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

static int64_t width(const la_attn_cfg *c, int64_t D) {
    (void)c;
    return 2 * D;
}

static int64_t longest(const la_attn_cfg *c) { return c->length; }

static double angle(const la_attn_cfg *c, int64_t position) {
    return 1.5707963267948966 * (double)position / (double)c->length;
}

static void forward(const la_map_rows *r, const la_real *x, la_real *y) {
    const double  a = angle(r->cfg, r->position);
    const la_real s = R(sin(a)), c = R(cos(a));
    for (int64_t row = 0; row < r->rows; row++, x += r->D, y += 2 * r->D)
        for (int64_t i = 0; i < r->D; i++) {
            la_real up = x[i] > 0 ? x[i] : 0;
            y[i] = up * s;
            y[r->D + i] = up * c;
        }
}

static void backward(const la_map_rows *r, const la_real *x, const la_real *y, const la_real *dy,
                     la_real *dx) {
    const double  a = angle(r->cfg, r->position);
    const la_real s = R(sin(a)), c = R(cos(a));
    (void)y;
    for (int64_t row = 0; row < r->rows; row++, x += r->D, dx += r->D, dy += 2 * r->D)
        for (int64_t i = 0; i < r->D; i++) dx[i] += x[i] > 0 ? dy[i] * s + dy[r->D + i] * c : 0;
}

static void definition(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                       double *y) {
    const double pi = 3.141592653589793, M = (double)c->length;
    for (int64_t i = 0; i < D; i++) {
        y[i] = fmax(x[i], 0) * sin(pi * (double)position / (2 * M));
        y[D + i] = fmax(x[i], 0) * cos(pi * (double)position / (2 * M));
    }
}

static const la_map map = {.name = "cosformer",
                           .kind = LA_MAP_POSITIVE,
                           .options = "length",
                           .traits = LA_ATTN_ZERO_ROWS | LA_ATTN_POSITIONAL,
                           .width = width,
                           .longest = longest,
                           .forward = forward,
                           .backward = backward,
                           .definition = definition};

const la_attn la_attn_cosformer = {
    .name = "cosformer",
    .formula = "sim(q_i,k_j) = relu(q_i).relu(k_j) cos(pi (i-j)/2M); o_t = sum_{j<=t} sim(q_t,k_j) "
               "v_j / (sum_{j<=t} sim(q_t,k_j) + eps)",
    .paper = "Qin et al., cosFormer: rethinking softmax in attention, 2022",
    .cost = "O(T D E) time, state 2D(E+1)",
    .file = "autograd/attention/cosformer.c",
    .options = "chunk eps d length decay norm",
    .tiny = "length=96",
    .map = &map,
    .definition = la_kernel_definition,
};
