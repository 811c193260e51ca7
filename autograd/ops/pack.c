/* pack: the valid tokens of each row to its front; and unpack, back to where they were.
 *
 *   x (B,T,H,D), may be a view of heads   mask (B,T), integers 0 or 1   y (B,T,H,D)
 *
 * Let t_0 < t_1 < ... < t_{n-1} be the tokens of a row whose mask is 1.
 *
 *   pack    y_r = x_{t_r} for r < n, y_r = 0 for r >= n
 *   unpack  y_{t_r} = x_r for r < n, y_t = 0 for a masked t
 *
 * Each is the transpose of the other, so that backward of one is forward of the other.
 *
 * Blocks: some tokens of a row each, with those before them counted.  Both maps move a row between
 * place t and place r; who writes to t writes 0 where it is masked, who writes to r writes 0 to
 * those of its own places that are n or more, which nobody else writes. */
#include "autograd/kernel.h"
#include "autograd/ops.h"

enum { TOKENS = 512 };

typedef struct attr {
    int back; /* unpack */
} attr;

static la_status infer(const la_node *n, la_plan *p) {
    const attr *a = n->attr;
    char        text[LA_SHAPE_TEXT], other[LA_SHAPE_TEXT];
    la_shape    x = n->in[0]->shape, mask = n->in[1]->shape;
    if (x.n != 4 || !n->in[1]->ids || !la_shape_eq(mask, la_shape2(x.d[0], x.d[1])))
        return la_fail(LA_SHAPE, "%s: wants (B,T,H,D) and integers (B,T); they are %s and %s",
                       a->back ? "unpack" : "pack", la_shape_text(x, text),
                       la_shape_text(mask, other));
    p->n_out = 1;
    p->out[0] = x;
    p->forward_blocks[0] = p->backward_blocks[0] = x.d[0] * la_ceil_div(x.d[1], TOKENS);
    return LA_OK;
}

static la_status check(const la_node *n) { return la_check_mask("pack", n->in[1]); }

/* to = from, or += it, or 0 without it. */
static void put(int64_t len, const la_real *from, la_real *to, int set) {
    if (!set && from)
        la_vec_table()->axpy(len, 1, from, to);
    else if (set && from)
        memcpy(to, from, (size_t)len * sizeof *to);
    else if (set)
        memset(to, 0, (size_t)len * sizeof *to);
}

/* One block of a map from rows at `from` to rows at `to`; forth: that of pack. */
static void move(const la_node *n, int64_t block, int forth, const la_real *from, int64_t ld_from,
                 la_real *to, int64_t ld_to, int set) {
    int64_t        T = n->shape.d[1], len = n->shape.d[2] * n->shape.d[3];
    int64_t        b = block / la_ceil_div(T, TOKENS);
    const int32_t *valid = n->in[1]->ids + b * T;
    la_range       part = la_cut(T, TOKENS, block % la_ceil_div(T, TOKENS));
    from += b * T * ld_from;
    to += b * T * ld_to;
    int64_t r = la_count(part.from, valid);
    for (int64_t t = part.from; t < part.to; t++) {
        if (!forth)
            put(len, valid[t] ? from + r * ld_from : NULL, to + t * ld_to, set);
        else if (valid[t])
            put(len, from + t * ld_from, to + r * ld_to, set);
        r += valid[t];
    }
    r += la_count(T - part.to, valid + part.to); /* all that are valid */
    for (r = la_max(r, part.from); forth && r < part.to; r++) put(len, NULL, to + r * ld_to, set);
}

static void forward(const la_node *n, const la_run *run) {
    const attr *a = n->attr;
    move(n, run->block, !a->back, n->in[0]->x, n->in[0]->ld, n->x, n->ld, 1);
}

static void backward(const la_node *n, const la_run *run) {
    const attr *a = n->attr;
    move(n, run->block, a->back, n->g, n->ld, n->in[0]->g, n->in[0]->ld, la_sets(run, 0));
}

static void reference(const la_node *n) {
    la_shape       s = n->shape;
    const la_node *x = n->in[0];
    int            forth = !((const attr *)n->attr)->back;
    for (int64_t i = 0; i < la_len(s); i++) n->x[i] = 0;
    for (int64_t b = 0; b < s.d[0]; b++)
        for (int64_t t = 0, r = 0; t < s.d[1]; t++) {
            if (!n->in[1]->ids[b * s.d[1] + t]) continue;
            for (int64_t j = 0; j < s.d[2] * s.d[3]; j++)
                n->x[la_token(n, b, forth ? r : t, 0) + j] =
                    x->x[la_token(x, b, forth ? t : r, 0) + j];
            r++;
        }
}

static const attr    pack = {.back = 0}, unpack = {.back = 1};
static const la_case cases[] = {
    {.name = "B3 T6 H2 D3",
     .in = {{4, {3, 6, 2, 3}}, {2, {3, 6}}},
     .attr = &pack,
     .ids = {{0, 0}, {0, 2}}},
    {.name = "unpack, B3 T6 H2 D3",
     .in = {{4, {3, 6, 2, 3}}, {2, {3, 6}}},
     .attr = &unpack,
     .ids = {{0, 0}, {0, 2}}},
    {.name = "none valid",
     .in = {{4, {2, 3, 1, 2}}, {2, {2, 3}}},
     .attr = &pack,
     .ids = {{0, 0}, {0, 1}}},
    {.name = "unpack, all valid",
     .in = {{4, {2, 3, 1, 2}}, {2, {2, 3}}},
     .attr = &unpack,
     .ids = {{0, 0}, {1, 2}}},
    {.name = "T1", .in = {{4, {4, 1, 2, 2}}, {2, {4, 1}}}, .attr = &pack, .ids = {{0, 0}, {0, 2}}},
    {.name = "three blocks of a row",
     .in = {{4, {2, 1100, 1, 2}}, {2, {2, 1100}}},
     .attr = &pack,
     .ids = {{0, 0}, {0, 2}}},
    {.name = "unpack, three blocks of a row",
     .in = {{4, {2, 1100, 1, 2}}, {2, {2, 1100}}},
     .attr = &unpack,
     .ids = {{0, 0}, {0, 2}}},
    {.name = "a view of heads",
     .in = {{4, {2, 7, 2, 3}}, {2, {2, 7}}},
     .attr = &pack,
     .ids = {{0, 0}, {0, 2}},
     .wider = 5},
    {.name = "unpack, a view of heads",
     .in = {{4, {2, 7, 2, 3}}, {2, {2, 7}}},
     .attr = &unpack,
     .ids = {{0, 0}, {0, 2}},
     .wider = 5},
    {0},
};

const la_op la_op_pack = {
    .name = "pack",
    .formula =
        "y_r = x_{t_r}, t_r the r-th valid token of a row, the rest 0; or back, y_{t_r} = x_r",
    .file = "autograd/ops/pack.c",
    .attr_size = sizeof(attr),
    .sets = LA_SETS_IN(0),
    .strided = 1,
    .cases = cases,
    .infer = infer,
    .check = check,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_pack(la_tape *t, la_node *x, la_node *mask) {
    return la_apply(t, &la_op_pack, 2, (la_node *[]){x, mask}, &pack);
}

la_node *la_unpack(la_tape *t, la_node *x, la_node *mask) {
    return la_apply(t, &la_op_pack, 2, (la_node *[]){x, mask}, &unpack);
}
