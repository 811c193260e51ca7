/* linear: an affine map of the last dimension, with PyTorch's layout of the weight.
 *
 *   x (...,I) as N rows   w (O,I)   b (O), optional   y (...,O)
 *
 *   y_n = w x_n + b
 *
 * Backward.  y_no = sum_i w_oi x_ni + b_o is linear in each factor:
 *   dx_ni = sum_o dy_no w_oi        dX = dY W        rows of X are independent
 *   dw_oi = sum_n dy_no x_ni        dW = dY' X       rows of W (outputs o) are independent
 *   db_o  = sum_n dy_no
 *
 * Blocks: forward cuts Y into tiles; backward cuts dX into rows and dW, db into rows, and
 * does both kinds in one phase.  Each element is summed by one block, in one order. */
#include "autograd/kernel.h"
#include "autograd/ops.h"
#include "tensor/blas.h"

enum { ROWS = 192, FEW_ROWS = 64, COLUMNS = 128, WEIGHT_ROWS = 64 };

typedef struct dims {
    int64_t N, I, O;
} dims;

static dims get(const la_node *n) {
    return (dims){la_rows(n->in[0]->shape), n->in[1]->shape.d[1], n->in[1]->shape.d[0]};
}

/* Tiles of Y: whole rows; with few rows (decoding) columns are cut instead. */
static int64_t tile_columns(dims s) { return s.N > FEW_ROWS ? s.O : COLUMNS; }
static int64_t row_tiles(dims s) { return la_ceil_div(s.N, ROWS); }
/* dW in nearly equal strips of about WEIGHT_ROWS rows. */
static int64_t strip(dims s) {
    int64_t count = (s.O + WEIGHT_ROWS / 2) / WEIGHT_ROWS;
    return la_ceil_div(s.O, count ? count : 1);
}

static la_status infer(const la_node *n, la_plan *p) {
    char     text[LA_SHAPE_TEXT];
    la_shape x = n->in[0]->shape, w = n->in[1]->shape;
    if (w.n != 2 || x.n < 1)
        return la_fail(LA_SHAPE, "linear: the weight %s must be (outputs,inputs), and is %s",
                       n->in[1]->name, la_shape_text(w, text));
    if (la_last(x) != w.d[1])
        return la_fail(LA_SHAPE, "linear: x has %lld columns, and the weight %s is %lld by %lld",
                       (long long)la_last(x), n->in[1]->name, (long long)w.d[0], (long long)w.d[1]);
    if (n->n_in == 3 && !la_shape_eq(n->in[2]->shape, la_shape1(w.d[0])))
        return la_fail(LA_SHAPE, "linear: the bias %s must be (%lld), and is %s", n->in[2]->name,
                       (long long)w.d[0], la_shape_text(n->in[2]->shape, text));
    dims s = get(n);
    p->n_out = 1;
    p->out[0] = x;
    p->out[0].d[x.n - 1] = s.O;
    p->forward_blocks[0] = row_tiles(s) * la_ceil_div(s.O, tile_columns(s));
    p->backward_blocks[0] = row_tiles(s) + la_ceil_div(s.O, strip(s));
    return LA_OK;
}

static void forward(const la_node *n, const la_run *run) {
    dims           s = get(n);
    int64_t        tiles = row_tiles(s);
    la_range       r = la_cut(s.N, ROWS, run->block % tiles);
    la_range       c = la_cut(s.O, tile_columns(s), run->block / tiles);
    const la_real *w = n->in[1]->x + c.from * s.I;
    la_real       *y = n->x + r.from * s.O + c.from;
    la_gemm_nt(LA_SET, r.to - r.from, c.to - c.from, s.I, n->in[0]->x + r.from * s.I, s.I, w, s.I,
               y, s.O);
    if (n->n_in < 3) return;
    const la_real *b = n->in[2]->x + c.from;
    for (int64_t i = 0; i < r.to - r.from; i++, y += s.O)
        for (int64_t o = 0; o < c.to - c.from; o++) y[o] += b[o];
}

static void backward(const la_node *n, const la_run *run) {
    dims           s = get(n);
    int64_t        tiles = row_tiles(s);
    const la_real *x = n->in[0]->x, *w = n->in[1]->x, *dy = n->g;
    la_real       *dx = n->in[0]->g, *dw = n->in[1]->g, *db = n->n_in == 3 ? n->in[2]->g : NULL;
    if (run->block < tiles) {
        la_range r = la_cut(s.N, ROWS, run->block);
        if (dx)
            la_gemm_nn(LA_ADD, r.to - r.from, s.I, s.O, dy + r.from * s.O, s.O, w, s.I,
                       dx + r.from * s.I, s.I);
        return;
    }
    la_range c = la_cut(s.O, strip(s), run->block - tiles);
    if (dw)
        la_gemm_tn(LA_ADD, c.to - c.from, s.I, s.N, dy + c.from, s.O, x, s.I, dw + c.from * s.I,
                   s.I);
    for (int64_t i = 0; db && i < s.N; i++)
        for (int64_t o = c.from; o < c.to; o++) db[o] += dy[i * s.O + o];
}

static void reference(const la_node *n) {
    dims s = get(n);
    for (int64_t i = 0; i < s.N; i++)
        for (int64_t o = 0; o < s.O; o++) {
            la_real y = n->n_in == 3 ? n->in[2]->x[o] : 0;
            for (int64_t k = 0; k < s.I; k++)
                y += n->in[0]->x[i * s.I + k] * n->in[1]->x[o * s.I + k];
            n->x[i * s.O + o] = y;
        }
}

static const la_case cases[] = {
    {.name = "(2,3,5) by (4,5) with bias", .in = {{3, {2, 3, 5}}, {2, {4, 5}}, {1, {4}}}},
    {.name = "(7,3) by (2,3)", .in = {{2, {7, 3}}, {2, {2, 3}}}},
    {.name = "one row, outputs in two tiles", .in = {{2, {1, 5}}, {2, {131, 5}}, {1, {131}}}},
    {.name = "rows in two tiles", .in = {{2, {195, 3}}, {2, {99, 3}}, {1, {99}}}},
    {0},
};

const la_op la_op_linear = {
    .name = "linear",
    .formula = "y = x w' + b",
    .file = "autograd/ops/linear.c",
    .reads = LA_READS_IN(0) | LA_READS_IN(1),
    .cases = cases,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_linear(la_tape *t, la_node *x, la_node *w, la_node *b) {
    return la_apply(t, &la_op_linear, b ? 3 : 2, (la_node *[]){x, w, b}, NULL);
}
