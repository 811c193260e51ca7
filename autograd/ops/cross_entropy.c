/* cross_entropy: the mean negative log likelihood of the labels under softmax.
 *
 *   logits z (...,V) as N rows   labels y (...) integers, negative: ignored   loss: one number
 *
 *   L = (1/M) sum_n (lse_n - z_n[y_n])      lse_n = log sum_v exp(z_nv)     M labels count
 *
 * Backward.  d lse_n / d z_nv = exp(z_nv - lse_n) = p_nv, so
 *   dz_nv += dL/M (p_nv - [v = y_n])   for labels that count, 0 for ignored ones.
 *
 * No label that counts: the loss is 0.  Saved: lse of each row, and M.  The rows'
 * losses are added in double in a second phase, so the order is fixed. */
#include "autograd/kernel.h"
#include "autograd/ops.h"

enum { ROWS = 64 };

static la_status infer(const la_node *n, la_plan *p) {
    char     a[LA_SHAPE_TEXT], b[LA_SHAPE_TEXT];
    la_shape z = n->in[0]->shape, y = n->in[1]->shape;
    if (!n->in[1]->ids || z.n < 1 || la_rows(z) != la_len(y))
        return la_fail(LA_SHAPE,
                       "cross_entropy: logits are %s and the labels must be one integer a "
                       "row, and are %s",
                       la_shape_text(z, a), la_shape_text(y, b));
    p->n_out = 1;
    p->out[0] = la_shape1(1);
    p->n_saved = (size_t)la_rows(z) + 1;
    p->n_common = (size_t)la_rows(z);
    p->n_scratch = (size_t)la_last(z);
    p->forward_blocks[0] = p->backward_blocks[0] = la_ceil_div(la_rows(z), ROWS);
    p->forward_blocks[1] = 1;
    return LA_OK;
}

static la_status check(const la_node *n) {
    const int32_t *label = n->in[1]->ids;
    int64_t        V = la_last(n->in[0]->shape);
    for (int64_t i = 0; i < la_len(n->in[1]->shape); i++)
        if (label[i] >= V)
            return la_fail(
                LA_ARG,
                "cross_entropy: label %d at %lld is not below the %lld columns of the logits",
                label[i], (long long)i, (long long)V);
    return LA_OK;
}

static void forward(const la_node *n, const la_run *run) {
    la_shape       z = n->in[0]->shape;
    int64_t        N = la_rows(z), V = la_last(z);
    const int32_t *label = n->in[1]->ids;
    la_real       *loss = run->common, *lse = n->saved;
    if (run->phase == 1) {
        double  sum = 0;
        int64_t count = 0;
        for (int64_t i = 0; i < N; i++) {
            sum += (double)loss[i];
            count += label[i] >= 0;
        }
        la_real M = R(count ? count : 1);
        if (lse) lse[N] = M;
        n->x[0] = R(sum / (double)M);
        return;
    }
    la_range r = la_cut(N, ROWS, run->block);
    for (int64_t i = r.from; i < r.to; i++) {
        const la_real *row = n->in[0]->x + i * V;
        la_real        max = la_vec_table()->max(V, row);
        la_real        l = max + log(la_vec_table()->exp_minus_sum(V, max, row, run->scratch));
        loss[i] = label[i] < 0 ? 0 : l - row[label[i]];
        if (lse) lse[i] = l;
    }
}

static void backward(const la_node *n, const la_run *run) {
    la_shape       z = n->in[0]->shape;
    int64_t        N = la_rows(z), V = la_last(z);
    const int32_t *label = n->in[1]->ids;
    const la_real *lse = n->saved, *M = n->saved + N;
    la_range       r = la_cut(N, ROWS, run->block);
    la_real        scale = n->g[0] / *M, *p = run->scratch;
    for (int64_t i = r.from; i < r.to; i++) {
        if (label[i] < 0) continue;
        la_vec_table()->exp_minus(V, lse[i], n->in[0]->x + i * V, p);
        p[label[i]] -= 1;
        la_vec_table()->axpy(V, scale, p, n->in[0]->g + i * V);
    }
}

static void reference(const la_node *n) {
    int64_t V = la_last(n->in[0]->shape), M = 0;
    double  sum = 0;
    for (int64_t i = 0; i < la_rows(n->in[0]->shape); i++) {
        const la_real *z = n->in[0]->x + i * V;
        double         total = 0;
        if (n->in[1]->ids[i] < 0) continue;
        M++;
        for (int64_t v = 0; v < V; v++) total += exp((double)z[v]);
        sum += log(total) - (double)z[n->in[1]->ids[i]];
    }
    n->x[0] = R(M ? sum / (double)M : 0);
}

static const la_case cases[] = {
    {.name = "(2,3,5), some ignored",
     .in = {{3, {2, 3, 5}}, {2, {2, 3}}},
     .lo = -3,
     .hi = 3,
     .ids = {{0, 0}, {-2, 5}}},
    {.name = "all ignored", .in = {{2, {3, 4}}, {1, {3}}}, .ids = {{0, 0}, {-1, 0}}},
    {.name = "two blocks",
     .in = {{2, {67, 9}}, {1, {67}}},
     .lo = -3,
     .hi = 3,
     .ids = {{0, 0}, {0, 9}}},
    {0},
};

const la_op la_op_cross_entropy = {
    .name = "cross_entropy",
    .formula = "L = mean over labels y_n >= 0 of log sum_v exp(z_nv) - z_n[y_n]",
    .file = "autograd/ops/cross_entropy.c",
    .reads = LA_READS_IN(0),
    .cases = cases,
    .infer = infer,
    .check = check,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_cross_entropy(la_tape *t, la_node *logits, la_node *labels) {
    return la_apply(t, &la_op_cross_entropy, 2, (la_node *[]){logits, labels}, NULL);
}
