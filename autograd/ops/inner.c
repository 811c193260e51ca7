/* inner: the inner product of two tensors of one shape, one number.
 *
 *   s = sum_i a_i b_i        da_i += ds b_i,   db_i += ds a_i
 *
 * It turns any tensor into a scalar with a chosen cotangent b: that is how gradients are
 * checked.  Summed in two phases: blocks, then the blocks' sums in their order. */
#include "autograd/kernel.h"
#include "autograd/ops.h"

static la_status infer(const la_node *n, la_plan *p) {
    char a[LA_SHAPE_TEXT], b[LA_SHAPE_TEXT];
    if (!la_shape_eq(n->in[0]->shape, n->in[1]->shape))
        return la_fail(LA_SHAPE, "inner: %s is %s and %s is %s; they must agree", n->in[0]->name,
                       la_shape_text(n->in[0]->shape, a), n->in[1]->name,
                       la_shape_text(n->in[1]->shape, b));
    int64_t blocks = la_ceil_div(la_len(n->in[0]->shape), LA_BLOCK_REALS);
    p->n_out = 1;
    p->out[0] = la_shape1(1);
    p->n_common = (size_t)blocks;
    p->forward_blocks[0] = p->backward_blocks[0] = blocks;
    p->forward_blocks[1] = 1;
    return LA_OK;
}

static void forward(const la_node *n, const la_run *run) {
    int64_t  len = la_len(n->in[0]->shape);
    la_range r = la_cut(len, LA_BLOCK_REALS, run->block);
    if (run->phase == 0) {
        run->common[run->block] =
            la_vec_table()->dot(r.to - r.from, n->in[0]->x + r.from, n->in[1]->x + r.from);
        return;
    }
    n->x[0] = 0;
    for (int64_t i = 0; i < la_ceil_div(len, LA_BLOCK_REALS); i++) n->x[0] += run->common[i];
}

static void backward(const la_node *n, const la_run *run) {
    la_range r = la_cut(la_len(n->in[0]->shape), LA_BLOCK_REALS, run->block);
    for (int j = 0; j < 2; j++)
        if (n->in[j]->g)
            la_vec_table()->axpy(r.to - r.from, n->g[0], n->in[1 - j]->x + r.from,
                                 n->in[j]->g + r.from);
}

static void reference(const la_node *n) {
    double s = 0;
    for (int64_t i = 0; i < la_len(n->in[0]->shape); i++)
        s += (double)n->in[0]->x[i] * (double)n->in[1]->x[i];
    n->x[0] = R(s);
}

static const la_case cases[] = {
    {.name = "(2,3,5)", .in = {{3, {2, 3, 5}}, {3, {2, 3, 5}}}},
    {.name = "two blocks", .in = {{1, {16389}}, {1, {16389}}}},
    {0},
};

const la_op la_op_inner = {
    .name = "inner",
    .formula = "s = sum_i a_i b_i",
    .file = "autograd/ops/inner.c",
    .reads = LA_READS_IN(0) | LA_READS_IN(1),
    .cases = cases,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_inner(la_tape *t, la_node *a, la_node *b) {
    return la_apply(t, &la_op_inner, 2, (la_node *[]){a, b}, NULL);
}
