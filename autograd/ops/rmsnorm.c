/* rmsnorm: each head's row over its root mean square, then a gain per head and channel.
 * Zhang, Sennrich, "Root mean square layer normalization", 2019.
 *
 *   x (B,T,H,E), N = B T tokens   gain (H E)   y (B,T,H,E)
 *
 *   r = 1 / sqrt(mean(x^2) + eps)    h = r x    y = gain o h,    for the E numbers of one head
 *
 * Backward, for one head's row, with e = gain o dy (the gradient at h):
 *   1. dgain_c += dy_c h_c, summed over the tokens.
 *   2. h_c = r x_c, and r depends on all x: dr/dx_j = -r^3/2 * 2 x_j / E = -r^3 x_j / E
 *   3. dx_j = sum_c e_c dh_c/dx_j = r e_j - (r^3 / E) (e.x) x_j.
 *
 * Saved: 0 and r of each row, by heads (H,N,2): a mean and a scale as layernorm has them, so that
 * its loop makes dgain.  Blocks: y and dx by tokens; dgain by heads. */
#include "autograd/kernel.h"
#include "autograd/ops.h"

enum { ROWS = 64 };

typedef struct attr {
    double eps;
} attr;

typedef struct dims {
    int64_t N, H, E, W; /* W = H E, a token's row */
} dims;

static dims get(const la_node *n) {
    la_shape x = n->in[0]->shape;
    return (dims){x.d[0] * x.d[1], x.d[2], x.d[3], x.d[2] * x.d[3]};
}

static la_status infer(const la_node *n, la_plan *p) {
    char     text[LA_SHAPE_TEXT], other[LA_SHAPE_TEXT];
    la_shape x = n->in[0]->shape, gain = n->in[1]->shape;
    if (x.n != 4 || !la_shape_eq(gain, la_shape1(x.d[2] * x.d[3])))
        return la_fail(LA_SHAPE, "rmsnorm: wants (B,T,H,E) and a gain (H E); %s is %s and %s is %s",
                       n->in[0]->name, la_shape_text(x, text), n->in[1]->name,
                       la_shape_text(gain, other));
    dims s = get(n);
    p->n_out = 1;
    p->out[0] = x;
    p->n_saved = (size_t)(2 * s.H * s.N);
    p->n_scratch = (size_t)s.W;
    p->forward_blocks[0] = la_ceil_div(s.N, ROWS);
    p->backward_blocks[0] = la_ceil_div(s.N, ROWS) + s.H;
    return LA_OK;
}

static void forward(const la_node *n, const la_run *run) {
    const la_vec *vec = la_vec_table();
    dims          s = get(n);
    la_range      rows = la_cut(s.N, ROWS, run->block);
    la_real       eps = R(((const attr *)n->attr)->eps);
    for (int64_t i = rows.from; i < rows.to; i++) {
        const la_real *x = n->in[0]->x + i * s.W;
        la_real       *y = n->x + i * s.W;
        for (int64_t h = 0; h < s.H; h++) {
            const la_real *xh = x + h * s.E;
            la_real        r = 1 / sqrt(vec->dot(s.E, xh, xh) / R(s.E) + eps);
            vec->scale(s.E, r, xh, y + h * s.E);
            if (n->saved)
                memcpy(n->saved + 2 * (h * s.N + i), (la_real[]){0, r}, 2 * sizeof(la_real));
        }
        vec->mul(s.W, n->in[1]->x, y);
    }
}

static void rows_backward(const la_node *n, dims s, la_range rows, la_real *e, int set) {
    const la_vec *vec = la_vec_table();
    for (int64_t i = rows.from; i < rows.to; i++) {
        const la_real *x = n->in[0]->x + i * s.W;
        la_real       *dx = n->in[0]->g + i * s.W;
        memcpy(e, n->g + i * s.W, (size_t)s.W * sizeof *e);
        vec->mul(s.W, n->in[1]->x, e);
        for (int64_t h = 0, at = 0; h < s.H; h++, at += s.E) {
            la_real r = n->saved[2 * (h * s.N + i) + 1];
            la_real along = r * r * r / R(s.E) * vec->dot(s.E, e + at, x + at);
            if (set)
                vec->scale(s.E, r, e + at, dx + at);
            else
                vec->axpy(s.E, r, e + at, dx + at);
            vec->axpy(s.E, -along, x + at, dx + at);
        }
    }
}

static void backward(const la_node *n, const la_run *run) {
    dims    s = get(n);
    int64_t block;
    if (la_first_kind(run->block, la_ceil_div(s.N, ROWS), s.H, &block)) {
        if (n->in[0]->g)
            rows_backward(n, s, la_cut(s.N, ROWS, block), run->scratch, la_sets(run, 0));
    } else if (n->in[1]->g) {
        int64_t at = block * s.E;
        la_vec_table()->norm_gain(s.N, s.E, n->in[0]->x + at, n->g + at, s.W,
                                  n->saved + 2 * block * s.N, n->in[1]->g + at);
    }
}

static void reference(const la_node *n) {
    dims s = get(n);
    for (int64_t i = 0; i < s.N * s.H; i++) {
        const la_real *x = n->in[0]->x + i * s.E, *gain = n->in[1]->x + i % s.H * s.E;
        double         square = 0;
        for (int64_t j = 0; j < s.E; j++) square += (double)x[j] * (double)x[j] / (double)s.E;
        for (int64_t j = 0; j < s.E; j++)
            n->x[i * s.E + j] =
                R((double)gain[j] * (double)x[j] / sqrt(square + ((const attr *)n->attr)->eps));
    }
}

static const attr    small = {1e-5}, large = {0.1};
static const la_case cases[] = {
    {.name = "B2 T3 H2 E4", .in = {{4, {2, 3, 2, 4}}, {1, {8}}}, .attr = &small},
    {.name = "eps .1", .in = {{4, {1, 4, 3, 3}}, {1, {9}}}, .attr = &large},
    {.name = "one channel", .in = {{4, {1, 2, 3, 1}}, {1, {3}}}, .attr = &large},
    {.name = "three blocks", .in = {{4, {2, 67, 2, 5}}, {1, {10}}}, .attr = &small},
    {0},
};

const la_op la_op_rmsnorm = {
    .name = "rmsnorm",
    .formula = "y = gain o x / sqrt(mean(x^2) + eps), the mean of each head",
    .file = "autograd/ops/rmsnorm.c",
    .attr_size = sizeof(attr),
    .reads = LA_READS_IN(0) | LA_READS_IN(1),
    .sets = LA_SETS_IN(0),
    .distinct = 1,
    .cases = cases,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_rmsnorm(la_tape *t, la_node *x, la_node *gain, double eps) {
    return la_apply(t, &la_op_rmsnorm, 2, (la_node *[]){x, gain}, &(attr){eps});
}
