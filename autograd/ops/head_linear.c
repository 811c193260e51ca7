/* head_linear: a projection of each head's vectors, and their square with it, as random features
 * have it.  Rahimi, Recht, "Random features for large-scale kernel machines", 2007; Choromanski
 * et al., "Rethinking attention with Performers", 2021.
 *
 *   x (B,T,H,D), may be a view of heads, N = B T rows of each head
 *   w (H,m,D), or (H,m,D+1) whose last column is a bias   y (B,T,H,m)
 *
 *   y_i = scale sum_d w_id x^_d + w_iD - square |x|^2,     of the x and w of one head
 *
 * x^ = x, or, with `unit`, s x with s = 1 / sqrt(|x|^2 + TINY): a unit vector.  A row of zeros has
 * x^ = 0, and no gradient through it.  The rows X~ = [x^, 1, |x|^2] (the columns that are needed)
 * and W~ = [scale w, bias, -square] make one product of it: Y = X~ W~'.
 *
 * Backward, with e = scale w' dy, the gradient at x^, and q = -square sum_i dy_i, that at |x|^2:
 *   1. e is a product again, E = scale dY W for its rows.
 *   2. dx^_c/dx_d = s delta_cd - s^3 x_c x_d, so that dx = s e + (2 q - s^3 (x.e)) x
 *                                                   (e + 2 q x, without `unit`)
 *   3. dw_id = scale sum_n dy_ni x^_nd        dw_iD = sum_n dy_ni
 *
 * Nothing is saved: s is computed again from x.  Blocks: y and dx by tiles of a head's rows; dw by
 * pieces of them, longer ones, each with a sum of its own, which a second phase adds up. */
#include "autograd/kernel.h"
#include "autograd/ops.h"
#include "tensor/blas.h"

enum { ROWS = 256, PIECE = 1024 };
static const double TINY = 1e-12;

typedef struct dims {
    int64_t        N, H, D, m;
    int64_t        L;             /* columns of w: D, or D + 1                              */
    int64_t        K;             /* columns of X~: L, or L + 1                             */
    int64_t        tiles, pieces; /* of a head's rows                                       */
    la_real        scale, square;
    int            unit;
    const la_node *x, *w;
} dims;

static dims get(const la_node *n) {
    const la_head_linear_cfg *c = n->attr;
    la_shape                  x = n->in[0]->shape;
    dims s = {.N = x.d[0] * x.d[1], .H = x.d[2], .D = x.d[3], .m = n->in[1]->shape.d[1]};
    s.L = s.D + (c->bias != 0);
    s.K = s.L + (c->square != 0);
    s.tiles = la_ceil_div(s.N, ROWS);
    s.pieces = n->in[1]->flags & LA_NEEDS_GRAD ? la_ceil_div(s.N, PIECE) : 0;
    s.scale = R(c->scale);
    s.square = R(c->square);
    s.unit = c->unit;
    s.x = n->in[0];
    s.w = n->in[1];
    return s;
}

typedef struct work {
    la_real *X, *W; /* X~ (ROWS,K) or e (ROWS,D); W~' (K,m) or scale w (m,D) */
} work;

static size_t carve(dims s, la_real *at, work *w) {
    return la_carve((la_part[]){{&w->X, ROWS * s.K}, {&w->W, s.K * s.m}}, 2, at);
}

static la_status infer(const la_node *n, la_plan *p) {
    const la_head_linear_cfg *c = n->attr;
    char                      text[LA_SHAPE_TEXT], other[LA_SHAPE_TEXT];
    la_shape                  x = n->in[0]->shape, w = n->in[1]->shape;
    if (x.n != 4 || w.n != 3 || w.d[0] != x.d[2] || w.d[2] != x.d[3] + (c->bias != 0))
        return la_fail(LA_SHAPE,
                       "head_linear: wants (B,T,H,D) and a weight (H,m,D%s); they are %s and %s",
                       c->bias ? "+1" : "", la_shape_text(x, text), la_shape_text(w, other));
    dims s = get(n);
    work k;
    p->n_out = 1;
    p->out[0] = la_shape4(x.d[0], x.d[1], s.H, s.m);
    p->n_scratch = carve(s, NULL, &k);
    p->n_common = (size_t)(s.H * s.pieces * s.m * s.L);
    p->forward_blocks[0] = s.H * s.tiles;
    p->backward_blocks[0] = s.H * (s.tiles + s.pieces);
    p->backward_blocks[1] = s.pieces ? s.H : 0;
    return LA_OK;
}

/* s of one row, whose |x|^2 is given. */
static la_real unit_scale(dims s, la_real square) {
    return !s.unit ? 1 : square > 0 ? 1 / sqrt(square + R(TINY)) : 0;
}

/* The first `columns` of X~ in some rows of head h: D of them, which are x itself where it is not
 * changed, or all K.  Else they are made at `to`; ld gets what is between rows. */
static const la_real *load_rows(dims s, int64_t h, la_range rows, int64_t columns, la_real *to,
                                int64_t *ld) {
    const la_vec  *vec = la_vec_table();
    const la_real *x = s.x->x + rows.from * s.x->ld + h * s.D;
    int            as_it_is = columns == s.D && !s.unit;
    *ld = as_it_is ? s.x->ld : columns;
    if (as_it_is) return x;
    for (la_real *X = to; rows.from < rows.to; rows.from++, x += s.x->ld, X += columns) {
        la_real square = s.unit || columns > s.L ? vec->dot(s.D, x, x) : 0;
        vec->scale(s.D, unit_scale(s, square), x, X);
        if (columns > s.D && s.L > s.D) X[s.D] = 1;
        if (columns > s.L) X[s.L] = square;
    }
    return to;
}

static void forward(const la_node *n, const la_run *run) {
    dims     s = get(n);
    int64_t  h = run->block % s.H, ld;
    la_range rows = la_cut(s.N, ROWS, run->block / s.H);
    work     k = {0};
    carve(s, run->scratch, &k);
    la_transpose(s.m, s.L, s.w->x + h * s.m * s.L, s.L, k.W);
    la_vec_table()->scale(s.D * s.m, s.scale, k.W, k.W);
    for (int64_t i = 0; s.K > s.L && i < s.m; i++) k.W[s.L * s.m + i] = -s.square;
    const la_real *X = load_rows(s, h, rows, s.K, k.X, &ld);
    la_gemm_nn(LA_SET, rows.to - rows.from, s.m, s.K, X, ld, k.W, s.m,
               n->x + (rows.from * s.H + h) * s.m, s.H * s.m);
}

/* dx of some rows.  Without `unit` e goes there at once. */
static void rows_backward(const la_node *n, dims s, int64_t h, la_range rows, work k, int set) {
    const la_vec  *vec = la_vec_table();
    int64_t        at = rows.from * s.x->ld + h * s.D, ldy = s.H * s.m, len = rows.to - rows.from;
    const la_real *w = s.w->x + h * s.m * s.L, *dy = n->g + (rows.from * s.H + h) * s.m;
    for (int64_t i = 0; i < s.m; i++) vec->scale(s.D, s.scale, w + i * s.L, k.W + i * s.D);
    la_gemm_nn(set || s.unit ? LA_SET : LA_ADD, len, s.D, s.m, dy, ldy, k.W, s.D,
               s.unit ? k.X : s.x->g + at, s.unit ? s.D : s.x->ld);
    for (int64_t i = 0; i < s.m; i++) k.W[i] = -s.square; /* now for q = -square 1.dy */
    for (int64_t i = 0; i < len && (s.unit || s.square != 0); i++, at += s.x->ld, dy += ldy) {
        const la_real *x = s.x->x + at, *e = k.X + i * s.D;
        la_real       *dx = s.x->g + at, along = 0;
        if (s.square != 0) along = 2 * vec->dot(s.m, k.W, dy);
        if (s.unit) { /* step 2 */
            la_real r = unit_scale(s, vec->dot(s.D, x, x));
            along -= r * r * r * vec->dot(s.D, x, e);
            if (set)
                vec->scale(s.D, r, e, dx);
            else
                vec->axpy(s.D, r, e, dx);
        }
        vec->axpy(s.D, along, x, dx);
    }
}

/* Step 3 for some rows of a head, without scale: (m,D), then (m) of the bias. */
static void weight_backward(const la_node *n, dims s, int64_t h, la_range rows, work k,
                            la_real *sum) {
    for (int64_t first = rows.from, ld; first < rows.to; first += ROWS) {
        la_range       tile = {first, la_min(first + ROWS, rows.to)};
        const la_real *X = load_rows(s, h, tile, s.D, k.X, &ld);
        la_gemm_tn(first == rows.from ? LA_SET : LA_ADD, s.m, s.D, tile.to - tile.from,
                   n->g + (first * s.H + h) * s.m, s.H * s.m, X, ld, sum, s.D);
    }
    if (s.L == s.D) return;
    memset(sum + s.m * s.D, 0, (size_t)s.m * sizeof *sum);
    la_vec_table()->add_rows(rows.to - rows.from, s.m, n->g + (rows.from * s.H + h) * s.m,
                             s.H * s.m, NULL, 0, sum + s.m * s.D);
}

static void add_pieces(dims s, int64_t h, const la_real *sums) {
    la_real *dw = s.w->g + h * s.m * s.L;
    for (int64_t piece = h * s.pieces; piece < (h + 1) * s.pieces; piece++) {
        const la_real *sum = sums + piece * s.m * s.L;
        for (int64_t i = 0; i < s.m; i++) {
            la_vec_table()->axpy(s.D, s.scale, sum + i * s.D, dw + i * s.L);
            if (s.L > s.D) dw[i * s.L + s.D] += sum[s.m * s.D + i];
        }
    }
}

static void backward(const la_node *n, const la_run *run) {
    dims    s = get(n);
    int64_t block;
    work    k = {0};
    if (run->phase == 1) {
        add_pieces(s, run->block, run->common);
        return;
    }
    carve(s, run->scratch, &k);
    if (la_first_kind(run->block, s.H * s.tiles, s.H * s.pieces, &block)) {
        if (s.x->g)
            rows_backward(n, s, block % s.H, la_cut(s.N, ROWS, block / s.H), k, la_sets(run, 0));
    } else
        weight_backward(n, s, block / s.pieces, la_cut(s.N, PIECE, block % s.pieces), k,
                        run->common + block * s.m * s.L);
}

static void reference(const la_node *n) {
    dims s = get(n);
    for (int64_t i = 0; i < s.N * s.H; i++) {
        const la_real *x = s.x->x + i / s.H * s.x->ld + i % s.H * s.D;
        double         square = 0;
        for (int64_t d = 0; d < s.D; d++) square += (double)x[d] * (double)x[d];
        double unit = !s.unit ? 1 : square > 0 ? 1 / sqrt(square + TINY) : 0;
        for (int64_t j = 0; j < s.m; j++) {
            const la_real *w = s.w->x + (i % s.H * s.m + j) * s.L;
            double         y = (s.L > s.D ? (double)w[s.D] : 0) - (double)s.square * square;
            for (int64_t d = 0; d < s.D; d++)
                y += (double)s.scale * (double)w[d] * (double)x[d] * unit;
            n->x[i * s.m + j] = R(y);
        }
    }
}

static const la_head_linear_cfg plain = {.scale = 1}, scaled = {.scale = -0.7};
static const la_head_linear_cfg biased = {.scale = 0.5, .bias = 1};
static const la_head_linear_cfg squared = {.scale = 0.8, .square = 0.3};
static const la_head_linear_cfg unit = {.scale = 1.5, .unit = 1};
static const la_head_linear_cfg all = {.scale = 1.5, .square = 0.2, .unit = 1, .bias = 1};
static const la_case            cases[] = {
               {.name = "B2 T5 H2 D3 m4", .in = {{4, {2, 5, 2, 3}}, {3, {2, 4, 3}}}, .attr = &plain},
               {.name = "scale -.7, a view",
                .in = {{4, {2, 5, 2, 3}}, {3, {2, 4, 3}}},
                .attr = &scaled,
                .wider = 3},
               {.name = "bias", .in = {{4, {1, 5, 3, 4}}, {3, {3, 2, 5}}}, .attr = &biased},
               {.name = "square", .in = {{4, {1, 5, 2, 4}}, {3, {2, 3, 4}}}, .attr = &squared},
               {.name = "unit vectors",
                .in = {{4, {1, 5, 2, 4}}, {3, {2, 3, 4}}},
                .attr = &unit,
                .lo = 0.1,
                .hi = 1},
               {.name = "all of it, a view",
                .in = {{4, {2, 4, 2, 3}}, {3, {2, 5, 4}}},
                .attr = &all,
                .wider = 1},
               {.name = "T1 D1 m1", .in = {{4, {1, 1, 1, 1}}, {3, {1, 1, 2}}}, .attr = &biased},
               {.name = "tiles and pieces", .in = {{4, {1, 1100, 2, 2}}, {3, {2, 3, 2}}}, .attr = &plain},
               {.name = "tiles and pieces, all of it",
                .in = {{4, {3, 400, 1, 3}}, {3, {1, 2, 4}}},
                .attr = &all},
               {0},
};

const la_op la_op_head_linear = {
    .name = "head_linear",
    .formula = "y_i = scale w_i.x^ + bias_i - square |x|^2, x^ = x or x / |x|, of each head",
    .file = "autograd/ops/head_linear.c",
    .attr_size = sizeof(la_head_linear_cfg),
    .reads = LA_READS_IN(0) | LA_READS_IN(1),
    .sets = LA_SETS_IN(0),
    .strided = 1,
    .distinct = 1,
    .cases = cases,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_head_linear(la_tape *t, la_node *x, la_node *w, const la_head_linear_cfg *c) {
    return la_apply(t, &la_op_head_linear, 2, (la_node *[]){x, w}, c);
}
