/* dropout: each number is 0 with probability p, else divided by 1 - p.
 * Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, 2014.
 *
 *   y_i = m_i x_i      m_i = 0 or 1/(1-p)      dx_i += m_i dy_i
 *
 * m_i = f(seed, step, node, i) by the counter-based generator: the mask does not depend on
 * threads or on what was drawn before, and a resumed run draws the same.  It is not stored:
 * backward draws it again.  Recorded in training only (layers decide that). */
#include "autograd/kernel.h"
#include "autograd/ops.h"
#include "tensor/rng.h"

typedef struct attr {
    double p;
} attr;

static la_status infer(const la_node *n, la_plan *p) {
    double drop = ((const attr *)n->attr)->p;
    if (!(drop >= 0 && drop < 1))
        return la_fail(LA_ARG, "dropout: the probability must be in [0,1), and is %g", drop);
    p->n_out = 1;
    p->out[0] = n->in[0]->shape;
    p->forward_blocks[0] = p->backward_blocks[0] = la_ceil_div(la_len(p->out[0]), LA_BLOCK_REALS);
    return LA_OK;
}

/* Calls for element i, counted over all steps; four masks come from one draw. */
static void masks(const la_node *n, const la_run *run, int64_t quad, la_real m[4]) {
    const double p = ((const attr *)n->attr)->p;
    uint64_t     quads = (uint64_t)la_ceil_div(la_len(n->shape), 4);
    uint32_t     u[4];
    la_rng_block(run->seed, la_rng_stream(LA_RNG_DROPOUT, (uint32_t)n->id),
                 run->step * quads + (uint64_t)quad, u);
    for (int j = 0; j < 4; j++) m[j] = (double)u[j] * 0x1p-32 < p ? 0 : R(1 / (1 - p));
}

static void apply(const la_node *n, const la_run *run, const la_real *from, la_real *to, int add) {
    la_range r = la_cut(la_len(n->shape), LA_BLOCK_REALS, run->block);
    la_real  m[4];
    for (int64_t i = r.from; i < r.to; i++) { /* a block starts at a multiple of 4 */
        if (i % 4 == 0) masks(n, run, i / 4, m);
        la_real y = m[i % 4] == 0 ? 0 : m[i % 4] * from[i];
        to[i] = add ? to[i] + y : y;
    }
}

static void forward(const la_node *n, const la_run *run) { apply(n, run, n->in[0]->x, n->x, 0); }
static void backward(const la_node *n, const la_run *run) {
    apply(n, run, n->g, n->in[0]->g, !la_sets(run, 0));
}

/* What must hold whatever was drawn: each output is 0 or x/(1-p); keep those and recompute. */
static void reference(const la_node *n) {
    double p = ((const attr *)n->attr)->p;
    for (int64_t i = 0; i < la_len(n->shape); i++)
        n->x[i] = n->x[i] == 0 ? 0 : R((double)n->in[0]->x[i] / (1 - p));
}

static const attr    half = {0.5}, none = {0};
static const la_case cases[] = {
    {.name = "(2,3,5) p .5", .in = {{3, {2, 3, 5}}}, .attr = &half, .lo = 1, .hi = 2},
    {.name = "p 0", .in = {{1, {7}}}, .attr = &none},
    {.name = "two blocks", .in = {{1, {16387}}}, .attr = &half, .lo = 1, .hi = 2},
    {0},
};

const la_op la_op_dropout = {
    .name = "dropout",
    .formula = "y = m o x, m = 0 with probability p, else 1/(1-p)",
    .file = "autograd/ops/dropout.c",
    .attr_size = sizeof(attr),
    .sets = LA_SETS_IN(0),
    .cases = cases,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_dropout(la_tape *t, la_node *x, double p) {
    return la_apply(t, &la_op_dropout, 1, &x, &(attr){p});
}
