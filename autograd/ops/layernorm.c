/* layernorm: each row to mean 0 and variance 1, then a gain and an offset per column.
 * Ba, Kiros, Hinton, "Layer normalization", 2016.
 *
 *   x (...,C) as N rows   gain (C)   bias (C), optional   y (...,C)
 *
 *   m = mean(x)    r = 1 / sqrt(mean((x - m)^2) + eps)    h = (x - m) r    y = gain o h + bias
 *
 * Backward, for one row, with e = gain o dy (the gradient at h):
 *   1. dgain_c += dy_c h_c,   dbias_c += dy_c, summed over the rows.
 *   2. h_c = (x_c - m) r, and m and r depend on all x:
 *        dm/dx_j = 1/C
 *        dr/dx_j = -r^3/2 * 2 (x_j - m) / C = -r^2 h_j / C
 *   3. dx_j = sum_c e_c dh_c/dx_j = r e_j - r mean(e) - (r h_j) mean(e o h)
 *           = r (e_j - mean(e) - h_j mean(e o h)).
 *
 * Saved: m and r of each row.  Blocks: dx by rows; dgain and dbias by strips of columns. */
#include "autograd/kernel.h"
#include "autograd/ops.h"

enum { ROWS = 64, STRIP = 32 };

typedef struct attr {
    double eps;
} attr;

static la_status infer(const la_node *n, la_plan *p) {
    char     text[LA_SHAPE_TEXT];
    la_shape x = n->in[0]->shape;
    for (int i = 1; i < n->n_in; i++)
        if (!la_shape_eq(n->in[i]->shape, la_shape1(la_last(x))))
            return la_fail(LA_SHAPE, "layernorm: %s must be (%lld), and is %s", n->in[i]->name,
                           (long long)la_last(x), la_shape_text(n->in[i]->shape, text));
    p->n_out = 1;
    p->out[0] = x;
    p->n_saved = 2 * (size_t)la_rows(x);
    p->forward_blocks[0] = la_ceil_div(la_rows(x), ROWS);
    p->backward_blocks[0] = p->forward_blocks[0] + la_ceil_div(la_last(x), STRIP);
    return LA_OK;
}

static void forward(const la_node *n, const la_run *run) {
    int64_t        C = la_last(n->shape);
    la_range       rows = la_cut(la_rows(n->shape), ROWS, run->block);
    la_real        eps = R(((const attr *)n->attr)->eps);
    const la_real *gain = n->in[1]->x, *bias = n->n_in == 3 ? n->in[2]->x : NULL;
    for (int64_t i = rows.from; i < rows.to; i++) {
        la_real stats[2]; /* m and r */
        la_vec_table()->norm(C, eps, n->in[0]->x + i * C, gain, bias, n->x + i * C, stats);
        if (n->saved) memcpy(n->saved + 2 * i, stats, sizeof stats);
    }
}

static void rows_backward(const la_node *n, la_range rows, int set) { /* step 3 */
    int64_t C = la_last(n->shape);
    for (int64_t i = rows.from; i < rows.to; i++)
        la_vec_table()->norm_backward(C, n->in[0]->x + i * C, n->in[1]->x, n->g + i * C,
                                      n->saved + 2 * i, set, n->in[0]->g + i * C);
}

static void columns_backward(const la_node *n, la_range cols) { /* step 1 */
    int64_t        C = la_last(n->shape), N = la_rows(n->shape), width = cols.to - cols.from;
    la_real       *dgain = n->in[1]->g, *dbias = n->n_in == 3 ? n->in[2]->g : NULL;
    const la_real *x = n->in[0]->x + cols.from, *dy = n->g + cols.from;
    if (dgain) la_vec_table()->norm_gain(N, width, x, dy, C, n->saved, dgain + cols.from);
    if (dbias) la_vec_table()->add_rows(N, width, dy, C, NULL, 0, dbias + cols.from);
}

static void backward(const la_node *n, const la_run *run) {
    int64_t rows = la_ceil_div(la_rows(n->shape), ROWS),
            strips = la_ceil_div(la_last(n->shape), STRIP);
    int64_t block;
    if (!la_first_kind(run->block, rows, strips, &block))
        columns_backward(n, la_cut(la_last(n->shape), STRIP, block));
    else if (n->in[0]->g)
        rows_backward(n, la_cut(la_rows(n->shape), ROWS, block), la_sets(run, 0));
}

static void reference(const la_node *n) {
    int64_t C = la_last(n->shape);
    for (int64_t i = 0; i < la_rows(n->shape); i++) {
        double m = 0, v = 0;
        for (int64_t c = 0; c < C; c++) m += (double)n->in[0]->x[i * C + c] / (double)C;
        for (int64_t c = 0; c < C; c++) v += pow((double)n->in[0]->x[i * C + c] - m, 2) / (double)C;
        for (int64_t c = 0; c < C; c++) {
            double h =
                ((double)n->in[0]->x[i * C + c] - m) / sqrt(v + ((const attr *)n->attr)->eps);
            n->x[i * C + c] =
                R((double)n->in[1]->x[c] * h + (n->n_in == 3 ? (double)n->in[2]->x[c] : 0));
        }
    }
}

static const attr    small = {1e-5}, large = {0.1};
static const la_case cases[] = {
    {.name = "(2,3,6) with bias", .in = {{3, {2, 3, 6}}, {1, {6}}, {1, {6}}}, .attr = &small},
    {.name = "(2,3,6) eps .1", .in = {{3, {2, 3, 6}}, {1, {6}}}, .attr = &large},
    {.name = "row blocks and strips", .in = {{2, {67, 37}}, {1, {37}}, {1, {37}}}, .attr = &small},
    {0},
};

const la_op la_op_layernorm = {
    .name = "layernorm",
    .formula = "y = gain o (x - mean) / sqrt(variance + eps) + bias",
    .file = "autograd/ops/layernorm.c",
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

la_node *la_layernorm(la_tape *t, la_node *x, la_node *gain, la_node *bias, double eps) {
    return la_apply(t, &la_op_layernorm, bias ? 3 : 2, (la_node *[]){x, gain, bias}, &(attr){eps});
}
