/* gelu: the Gaussian error linear unit, exact.  Hendrycks, Gimpel, 2016.
 *
 *   y = x Phi(x)       Phi(x) = (1 + erf(x / sqrt 2)) / 2
 *
 * Backward.  Phi' = phi, phi(x) = exp(-x^2/2) / sqrt(2 pi), so dx += dy (Phi(x) + x phi(x)).
 * Nothing is saved: x is still there. */
#include "autograd/kernel.h"
#include "autograd/ops.h"

static la_status infer(const la_node *n, la_plan *p) {
    p->n_out = 1;
    p->out[0] = n->in[0]->shape;
    p->forward_blocks[0] = p->backward_blocks[0] = la_ceil_div(la_len(p->out[0]), LA_BLOCK_REALS);
    return LA_OK;
}

static void forward(const la_node *n, const la_run *run) {
    la_range r = la_cut(la_len(n->shape), LA_BLOCK_REALS, run->block);
    la_vec_table()->gelu(r.to - r.from, n->in[0]->x + r.from, n->x + r.from);
}

static void backward(const la_node *n, const la_run *run) {
    la_range r = la_cut(la_len(n->shape), LA_BLOCK_REALS, run->block);
    la_real *dx = n->in[0]->g + r.from;
    if (la_sets(run, 0)) memset(dx, 0, (size_t)(r.to - r.from) * sizeof *dx); /* it is in cache */
    la_vec_table()->gelu_backward(r.to - r.from, n->in[0]->x + r.from, n->g + r.from, dx);
}

static void reference(const la_node *n) {
    for (int64_t i = 0; i < la_len(n->shape); i++) {
        double x = (double)n->in[0]->x[i];
        n->x[i] = R(x * 0.5 * (1 + erf(x * sqrt(0.5))));
    }
}

static const la_case cases[] = {
    {.name = "(2,3,5)", .in = {{3, {2, 3, 5}}}, .lo = -4, .hi = 4},
    {.name = "two blocks", .in = {{1, {16387}}}, .lo = -3, .hi = 3},
    {0},
};

const la_op la_op_gelu = {
    .name = "gelu",
    .formula = "y = x Phi(x)",
    .file = "autograd/ops/gelu.c",
    .reads = LA_READS_IN(0),
    .sets = LA_SETS_IN(0),
    .cases = cases,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_gelu(la_tape *t, la_node *x) { return la_apply(t, &la_op_gelu, 1, &x, NULL); }
