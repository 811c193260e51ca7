/* rope: rotary position embedding.  Su, Lu, Pan, Murtadha, Wen, Liu, "RoFormer", 2021.
 *
 *   x (B,T,H,D), D even, may be a view of heads   past (1) or (B): tokens before this text, of all
 *   rows or of each   mask (B,T), optional, 1 for a valid token and 0 for one that is not there
 *   y (B,T,H,D)
 *
 * Token t stands at position p = past + r, r the number of (valid) tokens before it in its row: t,
 * without a mask.  Each pair (x_2i, x_2i+1) is turned by the angle p w_i, w_i = 10000^(-2i/D):
 *
 *   y_2i   = x_2i cos - x_2i+1 sin          y_2i+1 = x_2i sin + x_2i+1 cos
 *
 * so that y_p . y_q depends on p - q only.  A masked token stands where the next valid one does.
 * Backward: the transpose of a rotation is the rotation by the opposite angle.
 *
 * Saved: cos and sin by r, a table (T, D/2, 2), or of each row with past (B).  Blocks: where all
 * rows have the same positions, one for each t, which makes its line of the table.  Else first the
 * lines of the table; then some tokens of a row each, with the valid ones before them counted. */
#include "autograd/kernel.h"
#include "autograd/ops.h"

enum { TOKENS = 64 };

typedef struct dims {
    int64_t        B, T, H, D;
    int64_t        tables; /* 1, or B */
    const int32_t *past, *valid;
    int            shared; /* positions, by all rows */
} dims;

static dims get(const la_node *n) {
    la_shape x = n->in[0]->shape;
    dims     s = {x.d[0],
                  x.d[1],
                  x.d[2],
                  x.d[3],
                  la_len(n->in[1]->shape),
                  n->in[1]->ids,
              n->n_in == 3 ? n->in[2]->ids : NULL,
                  0};
    s.shared = s.tables == 1 && !s.valid;
    return s;
}

static la_status infer(const la_node *n, la_plan *p) {
    char     text[LA_SHAPE_TEXT], other[LA_SHAPE_TEXT];
    la_shape x = n->in[0]->shape, past = n->in[1]->shape;
    if (x.n != 4 || x.d[3] % 2 || !n->in[1]->ids || (la_len(past) != 1 && la_len(past) != x.d[0]))
        return la_fail(LA_SHAPE,
                       "rope: wants (B,T,H,D) with an even D and one integer or B; x is %s, and "
                       "past is %s",
                       la_shape_text(x, text), la_shape_text(past, other));
    if (n->n_in == 3 &&
        (!n->in[2]->ids || !la_shape_eq(n->in[2]->shape, la_shape2(x.d[0], x.d[1]))))
        return la_fail(LA_SHAPE, "rope: the mask must be integers (B,T); x is %s, and it is %s",
                       la_shape_text(x, text), la_shape_text(n->in[2]->shape, other));
    dims s = get(n);
    p->n_out = 1;
    p->out[0] = x;
    p->n_saved = (size_t)(s.tables * s.T * s.D);
    p->n_scratch = (size_t)s.D;
    p->forward_blocks[0] = p->backward_blocks[0] = s.T;
    if (s.shared) return LA_OK;
    p->n_common = p->n_saved;
    p->forward_blocks[0] = s.tables * s.T;
    p->forward_blocks[1] = p->backward_blocks[0] = s.B * la_ceil_div(s.T, TOKENS);
    return LA_OK;
}

static la_status check(const la_node *n) {
    return n->n_in == 3 ? la_check_mask("rope", n->in[2]) : LA_OK;
}

static void angles(int64_t position, int64_t D, la_real *angle) {
    for (int64_t i = 0; i < D; i += 2) {
        double a = (double)position * pow(10000.0, -(double)i / (double)D);
        angle[i] = R(cos(a));
        angle[i + 1] = R(sin(a));
    }
}

/* y (+)= the rotation of x by `sign` times the angles, in every head of one token. */
static void rotate(dims s, const la_real *angle, la_real sign, const la_real *x, la_real *y,
                   int add) {
    for (int64_t h = 0; h < s.H; h++, x += s.D, y += s.D)
        for (int64_t i = 0; i < s.D; i += 2) {
            la_real cos_ = angle[i], sin_ = sign * angle[i + 1];
            la_real even = x[i] * cos_ - x[i + 1] * sin_, odd = x[i] * sin_ + x[i + 1] * cos_;
            y[i] = add ? y[i] + even : even;
            y[i + 1] = add ? y[i + 1] + odd : odd;
        }
}

/* Token t of every row. */
static void rotate_column(dims s, int64_t t, const la_real *angle, la_real sign,
                          const la_real *from, int64_t ld_from, la_real *to, int64_t ld_to,
                          int add) {
    for (int64_t i = t; i < s.B * s.T; i += s.T)
        rotate(s, angle, sign, from + i * ld_from, to + i * ld_to, add);
}

/* A block of tokens of one row. */
static void rotate_row(dims s, int64_t block, const la_real *table, la_real sign,
                       const la_real *from, int64_t ld_from, la_real *to, int64_t ld_to, int add) {
    int64_t  blocks = la_ceil_div(s.T, TOKENS), b = block / blocks;
    la_range t = la_cut(s.T, TOKENS, block % blocks);
    int64_t  r = s.valid ? la_count(t.from, s.valid + b * s.T) : t.from;
    table += b % s.tables * s.T * s.D;
    for (int64_t i = b * s.T + t.from; i < b * s.T + t.to; i++) {
        rotate(s, table + r * s.D, sign, from + i * ld_from, to + i * ld_to, add);
        r += s.valid ? s.valid[i] : 1;
    }
}

static void forward(const la_node *n, const la_run *run) {
    const la_node *x = n->in[0];
    dims           s = get(n);
    if (s.shared) {
        la_real *angle = n->saved ? n->saved + run->block * s.D : run->scratch;
        angles(s.past[0] + run->block, s.D, angle);
        rotate_column(s, run->block, angle, 1, x->x, x->ld, n->x, n->ld, 0);
        return;
    }
    la_real *table = n->saved ? n->saved : run->common;
    if (run->phase == 0)
        angles(s.past[run->block / s.T] + run->block % s.T, s.D, table + run->block * s.D);
    else
        rotate_row(s, run->block, table, 1, x->x, x->ld, n->x, n->ld, 0);
}

static void backward(const la_node *n, const la_run *run) {
    const la_node *x = n->in[0];
    dims           s = get(n);
    int            add = !la_sets(run, 0);
    if (s.shared)
        rotate_column(s, run->block, n->saved + run->block * s.D, -1, n->g, n->ld, x->g, x->ld,
                      add);
    else
        rotate_row(s, run->block, n->saved, -1, n->g, n->ld, x->g, x->ld, add);
}

static void reference(const la_node *n) {
    la_shape s = n->shape;
    for (int64_t b = 0; b < s.d[0]; b++)
        for (int64_t t = 0, r = 0; t < s.d[1]; t++) {
            int64_t p = n->in[1]->ids[la_len(n->in[1]->shape) == 1 ? 0 : b] + r;
            for (int64_t h = 0; h < s.d[2]; h++)
                for (int64_t i = 0; i < s.d[3] / 2; i++) {
                    const la_real *x = n->in[0]->x + la_token(n->in[0], b, t, h) + 2 * i;
                    la_real       *y = n->x + la_token(n, b, t, h) + 2 * i;
                    double         a = (double)p / pow(10000, 2 * (double)i / (double)s.d[3]);
                    y[0] = R((double)x[0] * cos(a) - (double)x[1] * sin(a));
                    y[1] = R((double)x[0] * sin(a) + (double)x[1] * cos(a));
                }
            if (n->n_in == 2 || n->in[2]->ids[b * s.d[1] + t]) r++;
        }
}

static const la_case cases[] = {
    {.name = "B2 T5 H2 D6", .in = {{4, {2, 5, 2, 6}}, {1, {1}}}, .ids = {{0, 0}, {0, 1}}},
    {.name = "at position 1000",
     .in = {{4, {1, 3, 1, 4}}, {1, {1}}},
     .ids = {{0, 0}, {1000, 1001}}},
    {.name = "a view of heads",
     .in = {{4, {2, 5, 2, 4}}, {1, {1}}},
     .ids = {{0, 0}, {3, 4}},
     .wider = 3},
    {.name = "a past for each row", .in = {{4, {3, 5, 2, 4}}, {1, {3}}}, .ids = {{0, 0}, {0, 50}}},
    {.name = "a mask",
     .in = {{4, {3, 7, 2, 4}}, {1, {1}}, {2, {3, 7}}},
     .ids = {{0, 0}, {9, 10}, {0, 2}}},
    {.name = "both, a view, three blocks",
     .in = {{4, {2, 131, 1, 2}}, {1, {2}}, {2, {2, 131}}},
     .ids = {{0, 0}, {0, 50}, {0, 2}},
     .wider = 1},
    {0},
};

const la_op la_op_rope = {
    .name = "rope",
    .formula = "(y_2i, y_2i+1) = (x_2i, x_2i+1) turned by p 10000^(-2i/D)",
    .file = "autograd/ops/rope.c",
    .sets = LA_SETS_IN(0),
    .strided = 1,
    .cases = cases,
    .infer = infer,
    .check = check,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_rope(la_tape *t, la_node *x, la_node *past, la_node *mask) {
    return la_apply(t, &la_op_rope, mask ? 3 : 2, (la_node *[]){x, past, mask}, NULL);
}
