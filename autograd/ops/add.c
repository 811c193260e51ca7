/* add: the sum of two tensors of one shape.
 *
 *   y = a + b          da += dy,   db += dy            nothing is saved */
#include "autograd/kernel.h"
#include "autograd/ops.h"

static la_status infer(const la_node *n, la_plan *p) {
    char a[LA_SHAPE_TEXT], b[LA_SHAPE_TEXT];
    if (!la_shape_eq(n->in[0]->shape, n->in[1]->shape))
        return la_fail(LA_SHAPE, "add: %s is %s and %s is %s; they must agree", n->in[0]->name,
                       la_shape_text(n->in[0]->shape, a), n->in[1]->name,
                       la_shape_text(n->in[1]->shape, b));
    p->n_out = 1;
    p->out[0] = n->in[0]->shape;
    p->forward_blocks[0] = p->backward_blocks[0] = la_ceil_div(la_len(p->out[0]), LA_BLOCK_REALS);
    return LA_OK;
}

static void forward(const la_node *n, const la_run *run) {
    la_range       r = la_cut(la_len(n->shape), LA_BLOCK_REALS, run->block);
    const la_real *a = n->in[0]->x, *b = n->in[1]->x;
    for (int64_t i = r.from; i < r.to; i++) n->x[i] = a[i] + b[i];
}

static void backward(const la_node *n, const la_run *run) {
    la_range r = la_cut(la_len(n->shape), LA_BLOCK_REALS, run->block);
    for (int j = 0; j < 2; j++) {
        la_real *g = n->in[j]->g;
        if (g && la_sets(run, j))
            memcpy(g + r.from, n->g + r.from, (size_t)(r.to - r.from) * sizeof *g);
        else
            for (int64_t i = r.from; g && i < r.to; i++) g[i] += n->g[i];
    }
}

static void reference(const la_node *n) {
    for (int64_t i = 0; i < la_len(n->shape); i++) n->x[i] = n->in[0]->x[i] + n->in[1]->x[i];
}

static const la_case cases[] = {
    {.name = "(2,3,5)", .in = {{3, {2, 3, 5}}, {3, {2, 3, 5}}}},
    {.name = "one number", .in = {{1, {1}}, {1, {1}}}},
    {.name = "three blocks", .in = {{2, {3, 13001}}, {2, {3, 13001}}}},
    {0},
};

const la_op la_op_add = {
    .name = "add",
    .formula = "y = a + b",
    .file = "autograd/ops/add.c",
    .sets = LA_SETS_IN(0) | LA_SETS_IN(1),
    .cases = cases,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_add(la_tape *t, la_node *a, la_node *b) {
    return la_apply(t, &la_op_add, 2, (la_node *[]){a, b}, NULL);
}
