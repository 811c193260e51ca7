/* linear_cross_entropy: the loss of a language model from its last hidden rows, without logits in
 * memory: cross_entropy (that file) of x w', computed tile by tile and forgotten.
 *
 *   x (...,C) as N rows   w (V,C)   labels y (...) integers, negative: ignored   loss: one number
 *
 *   z_nv = x_n.w_v     lse_n = log sum_v exp(z_nv)     L = (1/M) sum_n (lse_n - z_n[y_n])
 *
 * Forward, over tiles of words, with m the running maximum of a row and l the running sum:
 *   m' = max(m, max_v z_nv)    l = l exp(m - m') + sum_v exp(z_nv - m')    lse = m + log l
 *
 * Backward, Z computed again:
 *   1. dz_nv = dL/M (exp(z_nv - lse_n) - [v = y_n])   for labels that count, 0 for ignored ones.
 *   2. z = x w' is linear in each factor:   dX = dZ W     dW = dZ' X
 *
 * Blocks: dX by rows, dW by strips of words, side by side; so Z is computed twice more, 5 products
 * instead of 3, and 2 N V numbers of memory are saved.  The rows' losses are added in double in a
 * second phase, so the order is fixed.  Saved: lse of each row, and M. */
#include "autograd/kernel.h"
#include "autograd/ops.h"
#include "tensor/blas.h"

enum { ROWS = 192, WORDS = 256, STRIP = 64 };

typedef struct dims {
    int64_t        N, V, C, strip; /* words of a block of dW: nearly equal strips */
    const la_real *x, *w;
    const int32_t *label;
} dims;

static dims get(const la_node *n) {
    dims s = {.N = la_rows(n->in[0]->shape),
              .V = n->in[1]->shape.d[0],
              .C = n->in[1]->shape.d[1],
              .x = n->in[0]->x,
              .w = n->in[1]->x,
              .label = n->in[2]->ids};
    s.strip = la_ceil_div(s.V, la_ceil_div(s.V, STRIP));
    return s;
}

static int64_t tile_words(dims s) { return la_min(s.V, WORDS); }

static la_status infer(const la_node *n, la_plan *p) {
    char     a[LA_SHAPE_TEXT], b[LA_SHAPE_TEXT];
    la_shape x = n->in[0]->shape, w = n->in[1]->shape, y = n->in[2]->shape;
    if (w.n != 2 || x.n < 1 || la_last(x) != w.d[1])
        return la_fail(LA_SHAPE, "linear_cross_entropy: x is %s and the weight %s is %s",
                       la_shape_text(x, a), n->in[1]->name, la_shape_text(w, b));
    if (!n->in[2]->ids || la_rows(x) != la_len(y))
        return la_fail(LA_SHAPE,
                       "linear_cross_entropy: x is %s and the labels must be one integer a row, "
                       "and are %s",
                       la_shape_text(x, a), la_shape_text(y, b));
    dims s = get(n);
    p->n_out = 1;
    p->out[0] = la_shape1(1);
    p->n_saved = (size_t)s.N + 1;
    p->n_common = (size_t)s.N;
    p->n_scratch = (size_t)(ROWS * (la_max(tile_words(s), s.strip) + 3));
    p->forward_blocks[0] = la_ceil_div(s.N, ROWS);
    p->forward_blocks[1] = 1;
    p->backward_blocks[0] = la_ceil_div(s.N, ROWS) + la_ceil_div(s.V, s.strip);
    return LA_OK;
}

static la_status check(const la_node *n) {
    dims s = get(n);
    for (int64_t i = 0; i < s.N; i++)
        if (s.label[i] >= s.V)
            return la_fail(
                LA_ARG, "linear_cross_entropy: label %d at %lld is not below the %lld rows of %s",
                s.label[i], (long long)i, (long long)s.V, n->in[1]->name);
    return LA_OK;
}

/* Z (rows, words) */
static void logits(dims s, la_range rows, la_range words, la_real *Z) {
    la_gemm_nt(LA_SET, rows.to - rows.from, words.to - words.from, s.C, s.x + rows.from * s.C, s.C,
               s.w + words.from * s.C, s.C, Z, words.to - words.from);
}

static void add_losses(const la_node *n, dims s, const la_real *loss) {
    double  sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < s.N; i++) {
        sum += (double)loss[i];
        count += s.label[i] >= 0;
    }
    la_real M = R(count ? count : 1);
    if (n->saved) n->saved[s.N] = M;
    n->x[0] = R(sum / (double)M);
}

static void forward(const la_node *n, const la_run *run) {
    const la_vec *vec = la_vec_table();
    dims          s = get(n);
    if (run->phase == 1) {
        add_losses(n, s, run->common);
        return;
    }
    la_range rows = la_cut(s.N, ROWS, run->block);
    la_real *m = run->scratch, *l = m + ROWS, *at_label = l + ROWS, *Z = at_label + ROWS;
    for (int64_t i = 0; i < ROWS; i++) m[i] = R(-INFINITY), l[i] = at_label[i] = 0;
    for (int64_t v = 0; v < s.V; v += WORDS) {
        la_range words = {v, la_min(s.V, v + WORDS)};
        logits(s, rows, words, Z);
        for (int64_t i = 0; i < rows.to - rows.from; i++) {
            int64_t  label = s.label[rows.from + i], width = words.to - words.from;
            la_real *z = Z + i * width, top = vec->max(width, z);
            if (label >= words.from && label < words.to) at_label[i] = z[label - words.from];
            if (!(top <= m[i])) {
                l[i] *= exp(m[i] - top);
                m[i] = top;
            }
            l[i] += vec->exp_minus_sum(width, m[i], z, z);
        }
    }
    for (int64_t i = 0; i < rows.to - rows.from; i++) {
        la_real lse = m[i] + log(l[i]);
        run->common[rows.from + i] = s.label[rows.from + i] < 0 ? 0 : lse - at_label[i];
        if (n->saved) n->saved[rows.from + i] = lse;
    }
}

/* dZ (rows, words): step 1. */
static void gradient(const la_node *n, dims s, la_range rows, la_range words, la_real *dZ) {
    const la_real *lse = n->saved, scale = n->g[0] / n->saved[s.N];
    int64_t        width = words.to - words.from;
    logits(s, rows, words, dZ);
    for (int64_t i = rows.from; i < rows.to; i++, dZ += width) {
        int64_t label = s.label[i];
        if (label < 0) {
            memset(dZ, 0, (size_t)width * sizeof *dZ);
            continue;
        }
        la_vec_table()->exp_minus(width, lse[i], dZ, dZ);
        if (label >= words.from && label < words.to) dZ[label - words.from] -= 1;
        la_vec_table()->scale(width, scale, dZ, dZ);
    }
}

static void backward(const la_node *n, const la_run *run) {
    dims     s = get(n);
    int64_t  row_blocks = la_ceil_div(s.N, ROWS);
    la_real *dx = n->in[0]->g, *dw = n->in[1]->g, *dZ = run->scratch;
    int64_t  block;
    if (la_first_kind(run->block, row_blocks, la_ceil_div(s.V, s.strip), &block)) {
        la_range rows = la_cut(s.N, ROWS, block);
        for (int64_t v = 0; dx && v < s.V; v += WORDS) {
            la_range words = {v, la_min(s.V, v + WORDS)};
            int64_t  width = words.to - words.from;
            gradient(n, s, rows, words, dZ);
            la_gemm_nn(v == 0 && la_sets(run, 0) ? LA_SET : LA_ADD, rows.to - rows.from, s.C, width,
                       dZ, width, s.w + v * s.C, s.C, dx + rows.from * s.C, s.C);
        }
        return;
    }
    la_range words = la_cut(s.V, s.strip, block);
    int64_t  width = words.to - words.from;
    for (int64_t i = 0; dw && i < s.N; i += ROWS) {
        la_range rows = {i, la_min(s.N, i + ROWS)};
        gradient(n, s, rows, words, dZ);
        la_gemm_tn(LA_ADD, width, s.C, rows.to - rows.from, dZ, width, s.x + i * s.C, s.C,
                   dw + words.from * s.C, s.C);
    }
}

static void reference(const la_node *n) {
    dims    s = get(n);
    int64_t M = 0;
    double  sum = 0;
    for (int64_t i = 0; i < s.N; i++) {
        double total = 0, at_label = 0;
        if (s.label[i] < 0) continue;
        M++;
        for (int64_t v = 0; v < s.V; v++) {
            double z = 0;
            for (int64_t c = 0; c < s.C; c++)
                z += (double)s.x[i * s.C + c] * (double)s.w[v * s.C + c];
            total += exp(z);
            if (v == s.label[i]) at_label = z;
        }
        sum += log(total) - at_label;
    }
    n->x[0] = R(M ? sum / (double)M : 0);
}

static const la_case cases[] = {
    {.name = "(2,3,4) by 5 words, some ignored",
     .in = {{3, {2, 3, 4}}, {2, {5, 4}}, {2, {2, 3}}},
     .lo = -2,
     .hi = 2,
     .ids = {{0, 0}, {0, 0}, {-2, 5}}},
    {.name = "all ignored",
     .in = {{2, {3, 2}}, {2, {4, 2}}, {1, {3}}},
     .ids = {{0, 0}, {0, 0}, {-1, 0}}},
    {.name = "two blocks of rows, two strips",
     .in = {{2, {195, 2}}, {2, {67, 2}}, {1, {195}}},
     .ids = {{0, 0}, {0, 0}, {0, 67}}},
    {.name = "two tiles of words",
     .in = {{2, {5, 3}}, {2, {300, 3}}, {1, {5}}},
     .lo = -2,
     .hi = 2,
     .ids = {{0, 0}, {0, 0}, {0, 300}}},
    {0},
};

const la_op la_op_linear_cross_entropy = {
    .name = "linear_cross_entropy",
    .formula = "L = mean over labels y_n >= 0 of log sum_v exp(x_n.w_v) - x_n.w[y_n]",
    .file = "autograd/ops/linear_cross_entropy.c",
    .reads = LA_READS_IN(0) | LA_READS_IN(1),
    .sets = LA_SETS_IN(0),
    .distinct = 1,
    .cases = cases,
    .infer = infer,
    .check = check,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_linear_cross_entropy(la_tape *t, la_node *x, la_node *w, la_node *labels) {
    return la_apply(t, &la_op_linear_cross_entropy, 3, (la_node *[]){x, w, labels}, NULL);
}
