/* concat: columns side by side.
 *
 *   x_i (B,T,H_i,D_i), i < n, may be views of heads        y (B,T, sum_i H_i D_i)
 *
 *   y_bt = [x_0,bt  x_1,bt  ...]        dx_i,bt += its columns of dy_bt
 *
 * Blocks: some tokens each. */
#include "autograd/kernel.h"
#include "autograd/ops.h"

static int64_t width_of(const la_node *x) { return x->shape.d[2] * x->shape.d[3]; }

/* Tokens of a block. */
static int64_t rows_of(const la_node *n) { return la_max(1, LA_BLOCK_REALS / la_last(n->shape)); }

static la_status infer(const la_node *n, la_plan *p) {
    char     text[LA_SHAPE_TEXT], other[LA_SHAPE_TEXT];
    la_shape first = n->in[0]->shape;
    p->n_out = 1;
    p->out[0] = la_shape3(first.d[0], first.d[1], 0);
    for (int i = 0; i < n->n_in; i++) {
        la_shape x = n->in[i]->shape;
        if (x.n != 4 || first.n != 4 || x.d[0] != first.d[0] || x.d[1] != first.d[1])
            return la_fail(LA_SHAPE,
                           "concat: wants (B,T,H,D) of one B and T; %s is %s and %s is %s",
                           n->in[0]->name, la_shape_text(first, text), n->in[i]->name,
                           la_shape_text(x, other));
        p->out[0].d[2] += width_of(n->in[i]);
    }
    int64_t rows = la_max(1, LA_BLOCK_REALS / p->out[0].d[2]);
    p->forward_blocks[0] = p->backward_blocks[0] = la_ceil_div(la_rows(p->out[0]), rows);
    return LA_OK;
}

static void forward(const la_node *n, const la_run *run) {
    la_range rows = la_cut(la_rows(n->shape), rows_of(n), run->block);
    int64_t  at = 0;
    for (int i = 0; i < n->n_in; at += width_of(n->in[i++]))
        for (int64_t t = rows.from; t < rows.to; t++)
            memcpy(n->x + t * n->ld + at, n->in[i]->x + t * n->in[i]->ld,
                   (size_t)width_of(n->in[i]) * sizeof *n->x);
}

static void backward(const la_node *n, const la_run *run) {
    la_range rows = la_cut(la_rows(n->shape), rows_of(n), run->block);
    int64_t  at = 0;
    for (int i = 0; i < n->n_in; at += width_of(n->in[i++])) {
        const la_node *x = n->in[i];
        for (int64_t t = rows.from; x->g && t < rows.to; t++) {
            const la_real *dy = n->g + t * n->ld + at;
            if (la_sets(run, i))
                memcpy(x->g + t * x->ld, dy, (size_t)width_of(x) * sizeof *dy);
            else
                la_vec_table()->axpy(width_of(x), 1, dy, x->g + t * x->ld);
        }
    }
}

static void reference(const la_node *n) {
    la_shape y = n->shape;
    for (int64_t b = 0; b < y.d[0]; b++)
        for (int64_t t = 0; t < y.d[1]; t++) {
            la_real *to = n->x + (b * y.d[1] + t) * y.d[2];
            for (int i = 0; i < n->n_in; i++)
                for (int64_t j = 0; j < width_of(n->in[i]); j++)
                    *to++ = n->in[i]->x[la_token(n->in[i], b, t, 0) + j];
        }
}

static const la_case cases[] = {
    {.name = "two, of 2x3 and 1x4", .in = {{4, {2, 3, 2, 3}}, {4, {2, 3, 1, 4}}}},
    {.name = "one", .in = {{4, {1, 3, 2, 2}}}},
    {.name = "three views",
     .in = {{4, {2, 2, 1, 3}}, {4, {2, 2, 2, 2}}, {4, {2, 2, 1, 1}}},
     .wider = 3},
    {.name = "nine",
     .in = {{4, {1, 2, 1, 1}},
            {4, {1, 2, 1, 2}},
            {4, {1, 2, 2, 1}},
            {4, {1, 2, 1, 1}},
            {4, {1, 2, 1, 3}},
            {4, {1, 2, 1, 1}},
            {4, {1, 2, 2, 2}},
            {4, {1, 2, 1, 1}},
            {4, {1, 2, 1, 2}}}},
    {.name = "blocks of rows", .in = {{4, {2, 5, 3, 1000}}, {4, {2, 5, 1, 700}}}},
    {0},
};

const la_op la_op_concat = {
    .name = "concat",
    .formula = "y_t = [x_0,t  x_1,t  ...]",
    .file = "autograd/ops/concat.c",
    .sets = LA_SETS_IN(0) | LA_SETS_IN(1) | LA_SETS_IN(2) | LA_SETS_IN(3) | LA_SETS_IN(4) |
            LA_SETS_IN(5) | LA_SETS_IN(6) | LA_SETS_IN(7) | LA_SETS_IN(8),
    .strided = 1,
    .cases = cases,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_concat(la_tape *t, int n, la_node *const x[]) {
    if (n < 1) return la_tape_fail(t, la_fail(LA_ARG, "concat: wants tensors, and has none"));
    return la_apply(t, &la_op_concat, n, x, NULL);
}
