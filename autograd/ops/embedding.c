/* embedding: rows of a table, chosen by integers.
 *
 *   ids (...) as N integers in [0,V)   w (V,C)   y (...,C)
 *
 *   y_n = w[ids_n]         dw_v += sum over n with ids_n = v of dy_n
 *
 * Several n may hit one row v, so backward is cut by columns: a block owns a strip of
 * columns of all of dw and adds the rows of dy in their order. */
#include "autograd/kernel.h"
#include "autograd/ops.h"

enum { ROWS = 128, STRIP = 32 };

static la_status infer(const la_node *n, la_plan *p) {
    char     text[LA_SHAPE_TEXT];
    la_shape ids = n->in[0]->shape, w = n->in[1]->shape;
    if (!n->in[0]->ids || w.n != 2 || ids.n >= LA_MAX_DIM)
        return la_fail(LA_SHAPE, "embedding: wants integers and a table (V,C); the table %s is %s",
                       n->in[1]->name, la_shape_text(w, text));
    p->n_out = 1;
    p->out[0] = ids;
    p->out[0].d[p->out[0].n++] = w.d[1];
    p->forward_blocks[0] = la_ceil_div(la_len(ids), ROWS);
    p->backward_blocks[0] = la_ceil_div(w.d[1], STRIP);
    return LA_OK;
}

static la_status check(const la_node *n) {
    const int32_t *ids = n->in[0]->ids;
    int64_t        V = n->in[1]->shape.d[0];
    for (int64_t i = 0; i < la_len(n->in[0]->shape); i++)
        if (ids[i] < 0 || ids[i] >= V)
            return la_fail(LA_ARG, "embedding: id %d at %lld is not a row of %s, which has %lld",
                           ids[i], (long long)i, n->in[1]->name, (long long)V);
    return LA_OK;
}

static void forward(const la_node *n, const la_run *run) {
    int64_t  C = n->in[1]->shape.d[1];
    la_range r = la_cut(la_len(n->in[0]->shape), ROWS, run->block);
    for (int64_t i = r.from; i < r.to; i++)
        memcpy(n->x + i * C, n->in[1]->x + n->in[0]->ids[i] * C, (size_t)C * sizeof(la_real));
}

static void backward(const la_node *n, const la_run *run) {
    int64_t  N = la_len(n->in[0]->shape), C = n->in[1]->shape.d[1];
    la_range c = la_cut(C, STRIP, run->block);
    la_real *dw = n->in[1]->g;
    for (int64_t i = 0; dw && i < N; i++) {
        la_real       *row = dw + n->in[0]->ids[i] * C;
        const la_real *dy = n->g + i * C;
        for (int64_t j = c.from; j < c.to; j++) row[j] += dy[j];
    }
}

static void reference(const la_node *n) {
    int64_t C = n->in[1]->shape.d[1];
    for (int64_t i = 0; i < la_len(n->in[0]->shape); i++)
        for (int64_t j = 0; j < C; j++) n->x[i * C + j] = n->in[1]->x[n->in[0]->ids[i] * C + j];
}

static const la_case cases[] = {
    {.name = "(2,4) of (3,5), rows repeat", .in = {{2, {2, 4}}, {2, {3, 5}}}, .ids = {{0, 3}}},
    {.name = "strips and row blocks", .in = {{1, {131}}, {2, {7, 35}}}, .ids = {{0, 7}}},
    {0},
};

const la_op la_op_embedding = {
    .name = "embedding",
    .formula = "y = w[ids]",
    .file = "autograd/ops/embedding.c",
    .cases = cases,
    .infer = infer,
    .check = check,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_embedding(la_tape *t, la_node *ids, la_node *w) {
    return la_apply(t, &la_op_embedding, 2, (la_node *[]){ids, w}, NULL);
}
