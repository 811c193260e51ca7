/* linear: an affine map of the last dimension, with PyTorch's layout of the weight, and what may
 * follow it at once: GELU, or the sum with another tensor.
 *
 *   x (...,I) as N rows   w (O,I)   b (O), optional   r (...,O), optional   y (...,O)
 *
 *   h_n = w x_n + b          y_n = f(h_n) + r_n,      f(h) = h or gelu(h)
 *
 * Backward.  dh_n = dy_n o f'(h_n), and h_no = sum_i w_oi x_ni + b_o is linear in each factor:
 *   dx_ni = sum_o dh_no w_oi        dX = dH W        rows of X are independent
 *   dw_oi = sum_n dh_no x_ni        dW = dH' X       elements of W are independent
 *   db_o  = sum_n dh_no             dr = dy
 *
 * Saved, with GELU: f'(h), which then becomes dh in place; h itself is not kept.
 *
 * Blocks: forward cuts Y into tiles and finishes each while it is in the cache.  Backward: dh (and
 * dr) by rows; then tiles of dX and of dW side by side.  Each element is summed by one block, in
 * one order. */
#include "autograd/kernel.h"
#include "autograd/ops.h"
#include "tensor/blas.h"

enum {
    ROWS = 384,
    COLUMNS = 64,
    FEW_ROWS = 16,       /* then the weight is the work: blocks of ... */
    FEW_WEIGHTS = 65536, /* reals of it, so that a small one needs no second thread */
    FEW_TILES = 6,       /* of dX, and of dW: then lower ones */
    DX_ROWS = 192,
    DW_ROWS = 128,
};

typedef struct attr {
    int bias, residual, gelu; /* which inputs there are after x and w, in this order; and f */
} attr;

typedef struct dims {
    int64_t        N, I, O;
    const la_node *x, *w, *b, *r; /* b, r: NULL without */
    int            gelu;
} dims;

static dims get(const la_node *n) {
    const attr *a = n->attr;
    return (dims){la_rows(n->in[0]->shape),
                  n->in[1]->shape.d[1],
                  n->in[1]->shape.d[0],
                  n->in[0],
                  n->in[1],
                  a->bias ? n->in[2] : NULL,
                  a->residual ? n->in[2 + a->bias] : NULL,
                  a->gelu};
}

/* A matrix cut into nearly equal tiles of about rows x cols. */
typedef struct grid {
    int64_t rows, cols, tile_rows, tile_cols, down, across;
} grid;

static grid cut(int64_t rows, int64_t cols, int64_t tile_rows, int64_t tile_cols) {
    grid g = {rows, cols, tile_rows, tile_cols, 0, 0};
    g.down = la_ceil_div(rows, tile_rows);
    g.across = la_ceil_div(cols, tile_cols);
    g.tile_rows = la_ceil_div(rows, g.down);
    g.tile_cols = la_ceil_div(la_ceil_div(cols, g.across), 16) * 16;
    g.across = la_ceil_div(cols, g.tile_cols);
    return g;
}

static int64_t  tiles(grid g) { return g.down * g.across; }
/* Blocks that follow each other share rows, which are then in the cache. */
static la_range tile_rows(grid g, int64_t block) {
    return la_cut(g.rows, g.tile_rows, block / g.across);
}
static la_range tile_cols(grid g, int64_t block) {
    return la_cut(g.cols, g.tile_cols, block % g.across);
}

static grid y_grid(dims s) {
    int64_t columns = s.N > FEW_ROWS ? COLUMNS : la_max(COLUMNS, FEW_WEIGHTS / s.I);
    return cut(s.N, s.O, ROWS, columns);
}
/* High tiles where there are enough, because each copies what it reads of the other factor. */
static grid gradient_grid(int64_t rows, int64_t cols, int64_t tile_cols, int64_t low) {
    grid g = cut(rows, cols, ROWS, tile_cols);
    return tiles(g) < FEW_TILES ? cut(rows, cols, low, tile_cols) : g;
}

static grid dx_grid(dims s) { return gradient_grid(s.N, s.I, s.I, DX_ROWS); }
static grid dw_grid(dims s) { return gradient_grid(s.O, s.I, COLUMNS, DW_ROWS); }

static la_status infer(const la_node *n, la_plan *p) {
    char        text[LA_SHAPE_TEXT];
    const attr *a = n->attr;
    la_shape    x = n->in[0]->shape, w = n->in[1]->shape;
    if (w.n != 2 || x.n < 1)
        return la_fail(LA_SHAPE, "linear: the weight %s must be (outputs,inputs), and is %s",
                       n->in[1]->name, la_shape_text(w, text));
    if (la_last(x) != w.d[1])
        return la_fail(LA_SHAPE, "linear: x has %lld columns, and the weight %s is %lld by %lld",
                       (long long)la_last(x), n->in[1]->name, (long long)w.d[0], (long long)w.d[1]);
    if (a->bias && !la_shape_eq(n->in[2]->shape, la_shape1(w.d[0])))
        return la_fail(LA_SHAPE, "linear: the bias %s must be (%lld), and is %s", n->in[2]->name,
                       (long long)w.d[0], la_shape_text(n->in[2]->shape, text));
    dims s = get(n);
    p->n_out = 1;
    p->out[0] = x;
    p->out[0].d[x.n - 1] = s.O;
    if (s.r && !la_shape_eq(s.r->shape, p->out[0])) {
        char want[LA_SHAPE_TEXT];
        return la_fail(LA_SHAPE, "linear: what is added, %s, must be %s, and is %s", s.r->name,
                       la_shape_text(p->out[0], want), la_shape_text(s.r->shape, text));
    }
    p->n_saved = s.gelu ? (size_t)(s.N * s.O) : 0;
    p->forward_blocks[0] = tiles(y_grid(s));
    int first = 0;
    if (s.gelu || s.r) p->backward_blocks[first++] = la_ceil_div(s.N, ROWS);
    p->backward_blocks[first] = tiles(dx_grid(s)) + tiles(dw_grid(s));
    return LA_OK;
}

static void forward(const la_node *n, const la_run *run) {
    const la_vec *vec = la_vec_table();
    dims          s = get(n);
    la_range      rows = tile_rows(y_grid(s), run->block), c = tile_cols(y_grid(s), run->block);
    int64_t       width = c.to - c.from, first = rows.from * s.O + c.from;
    la_gemm_nt(LA_SET, rows.to - rows.from, width, s.I, s.x->x + rows.from * s.I, s.I,
               s.w->x + c.from * s.I, s.I, n->x + first, s.O);
    for (int64_t i = 0; i < rows.to - rows.from; i++) {
        int64_t  at = first + i * s.O;
        la_real *y = n->x + at;
        if (s.b) vec->axpy(width, 1, s.b->x + c.from, y);
        if (s.gelu && n->saved)
            vec->gelu_slope(width, y, y, n->saved + at);
        else if (s.gelu)
            vec->gelu(width, y, y);
        if (s.r) vec->axpy(width, 1, s.r->x + at, y);
    }
}

/* dh (in saved) and dr of some rows. */
static void rows_backward(const la_node *n, dims s, la_range rows, int first_dr) {
    int64_t first = rows.from * s.O, len = (rows.to - rows.from) * s.O;
    if (s.gelu) la_vec_table()->mul(len, n->g + first, n->saved + first);
    if (!s.r || !s.r->g) return;
    if (first_dr)
        memcpy(s.r->g + first, n->g + first, (size_t)len * sizeof *n->g);
    else
        la_vec_table()->axpy(len, 1, n->g + first, s.r->g + first);
}

static void backward(const la_node *n, const la_run *run) {
    dims           s = get(n);
    const la_real *dh = s.gelu ? n->saved : n->g;
    la_real       *dx = s.x->g, *dw = s.w->g, *db = s.b ? s.b->g : NULL;
    if ((s.gelu || s.r) && run->phase == 0) {
        rows_backward(n, s, la_cut(s.N, ROWS, run->block), s.r && la_sets(run, s.b ? 3 : 2));
        return;
    }
    grid    g = dx_grid(s);
    int64_t block;
    if (la_first_kind(run->block, tiles(g), tiles(dw_grid(s)), &block)) {
        la_range r = tile_rows(g, block), c = tile_cols(g, block);
        if (dx)
            la_gemm_nn(la_sets(run, 0) ? LA_SET : LA_ADD, r.to - r.from, c.to - c.from, s.O,
                       dh + r.from * s.O, s.O, s.w->x + c.from, s.I, dx + r.from * s.I + c.from,
                       s.I);
        return;
    }
    g = dw_grid(s);
    la_range o = tile_rows(g, block), i = tile_cols(g, block);
    if (dw)
        la_gemm_tn(LA_ADD, o.to - o.from, i.to - i.from, s.N, dh + o.from, s.O, s.x->x + i.from,
                   s.I, dw + o.from * s.I + i.from, s.I);
    if (!db || i.from > 0) return;
    if (la_sets(run, 2)) memset(db + o.from, 0, (size_t)(o.to - o.from) * sizeof *db);
    la_vec_table()->add_rows(s.N, o.to - o.from, dh + o.from, s.O, NULL, 0, db + o.from);
}

static void reference(const la_node *n) {
    dims s = get(n);
    for (int64_t i = 0; i < s.N; i++)
        for (int64_t o = 0; o < s.O; o++) {
            double h = s.b ? (double)s.b->x[o] : 0;
            for (int64_t k = 0; k < s.I; k++)
                h += (double)s.x->x[i * s.I + k] * (double)s.w->x[o * s.I + k];
            if (s.gelu) h *= 0.5 * (1 + erf(h * sqrt(0.5)));
            n->x[i * s.O + o] = R(h + (s.r ? (double)s.r->x[i * s.O + o] : 0));
        }
}

static const attr    plain = {0}, with_bias = {.bias = 1}, with_gelu = {.gelu = 1};
static const attr    with_residual = {.residual = 1};
static const attr    with_all = {.bias = 1, .residual = 1, .gelu = 1};
static const la_case cases[] = {
    {.name = "(2,3,5) by (4,5) with bias",
     .in = {{3, {2, 3, 5}}, {2, {4, 5}}, {1, {4}}},
     .attr = &with_bias},
    {.name = "(7,3) by (2,3)", .in = {{2, {7, 3}}, {2, {2, 3}}}, .attr = &plain},
    {.name = "one row, many outputs",
     .in = {{2, {1, 5}}, {2, {131, 5}}, {1, {131}}},
     .attr = &with_bias},
    {.name = "many rows", .in = {{2, {195, 3}}, {2, {99, 3}}, {1, {99}}}, .attr = &with_bias},
    {.name = "gradient of the weight in two by two tiles",
     .in = {{2, {9, 67}}, {2, {130, 67}}, {1, {130}}},
     .attr = &with_bias},
    {.name = "gelu", .in = {{2, {5, 3}}, {2, {7, 3}}}, .attr = &with_gelu, .lo = -2, .hi = 2},
    {.name = "a sum", .in = {{2, {5, 3}}, {2, {7, 3}}, {2, {5, 7}}}, .attr = &with_residual},
    {.name = "bias, gelu and a sum, in tiles",
     .in = {{2, {389, 2}}, {2, {66, 2}}, {1, {66}}, {2, {389, 66}}},
     .attr = &with_all},
    {0},
};

const la_op la_op_linear = {
    .name = "linear",
    .formula = "y = f(x w' + b) + r, f the identity or gelu",
    .file = "autograd/ops/linear.c",
    .attr_size = sizeof(attr),
    .reads = LA_READS_IN(0) | LA_READS_IN(1),
    .sets = LA_SETS_IN(0) | LA_SETS_IN(2) | LA_SETS_IN(3),
    .distinct = 1,
    .cases = cases,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

static la_node *record(la_tape *t, la_node *x, la_node *w, la_node *b, la_node *r, int gelu) {
    attr     a = {.bias = b != NULL, .residual = r != NULL, .gelu = gelu};
    la_node *in[] = {x, w, b ? b : r, r};
    return la_apply(t, &la_op_linear, 2 + a.bias + a.residual, in, &a);
}

la_node *la_linear(la_tape *t, la_node *x, la_node *w, la_node *b) {
    return record(t, x, w, b, NULL, 0);
}

la_node *la_linear_gelu(la_tape *t, la_node *x, la_node *w, la_node *b) {
    return record(t, x, w, b, NULL, 1);
}

la_node *la_linear_add(la_tape *t, la_node *x, la_node *w, la_node *b, la_node *r) {
    if (!r) return NULL; /* its recording failed */
    return record(t, x, w, b, r, 0);
}
