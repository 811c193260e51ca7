/* rope: rotary position embedding.  Su, Lu, Pan, Murtadha, Wen, Liu, "RoFormer", 2021.
 *
 *   x (B,T,H,D), D even, may be a view of heads   past (1): tokens before this text   y (B,T,H,D)
 *
 * Token t stands at position p = past + t.  Each pair (x_2i, x_2i+1) is turned by the angle
 * p w_i, w_i = 10000^(-2i/D):
 *
 *   y_2i   = x_2i cos - x_2i+1 sin          y_2i+1 = x_2i sin + x_2i+1 cos
 *
 * so that y_p . y_q depends on p - q only.  Backward: the transpose of a rotation is the
 * rotation by the opposite angle.  Saved: cos and sin, (T, D/2, 2). */
#include "autograd/kernel.h"
#include "autograd/ops.h"

static la_status infer(const la_node *n, la_plan *p) {
    char     text[LA_SHAPE_TEXT];
    la_shape x = n->in[0]->shape;
    if (x.n != 4 || x.d[3] % 2 || !n->in[1]->ids || la_len(n->in[1]->shape) != 1)
        return la_fail(LA_SHAPE, "rope: wants (B,T,H,D) with an even D and one integer; x is %s",
                       la_shape_text(x, text));
    p->n_out = 1;
    p->out[0] = x;
    p->n_saved = (size_t)(x.d[1] * x.d[3]);
    p->n_scratch = (size_t)x.d[3];
    p->forward_blocks[0] = p->backward_blocks[0] = x.d[1];
    return LA_OK;
}

/* to (+)= the rotation of from by `sign` times token t's angles, in every batch row and head. */
static void rotate(const la_node *n, int64_t t, const la_real *angle, la_real sign,
                   const la_real *from, int64_t ld_from, la_real *to, int64_t ld_to, int add) {
    int64_t B = n->shape.d[0], T = n->shape.d[1], H = n->shape.d[2], D = n->shape.d[3];
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h++) {
            const la_real *x = from + (b * T + t) * ld_from + h * D;
            la_real       *y = to + (b * T + t) * ld_to + h * D;
            for (int64_t i = 0; i < D; i += 2) {
                la_real c = angle[i], s = sign * angle[i + 1];
                la_real even = x[i] * c - x[i + 1] * s, odd = x[i] * s + x[i + 1] * c;
                y[i] = add ? y[i] + even : even;
                y[i + 1] = add ? y[i + 1] + odd : odd;
            }
        }
}

static void forward(const la_node *n, const la_run *run) {
    int64_t  t = run->block, D = n->shape.d[3];
    la_real *angle = n->saved ? n->saved + t * D : run->scratch;
    for (int64_t i = 0; i < D; i += 2) {
        double a = ((double)n->in[1]->ids[0] + (double)t) * pow(10000.0, -(double)i / (double)D);
        angle[i] = R(cos(a));
        angle[i + 1] = R(sin(a));
    }
    rotate(n, t, angle, 1, n->in[0]->x, n->in[0]->ld, n->x, n->ld, 0);
}

static void backward(const la_node *n, const la_run *run) {
    rotate(n, run->block, n->saved + run->block * n->shape.d[3], -1, n->g, n->ld, n->in[0]->g,
           n->in[0]->ld, !la_sets(run, 0));
}

static void reference(const la_node *n) {
    la_shape s = n->shape;
    for (int64_t b = 0; b < s.d[0]; b++)
        for (int64_t t = 0; t < s.d[1]; t++)
            for (int64_t h = 0; h < s.d[2]; h++)
                for (int64_t i = 0; i < s.d[3] / 2; i++) {
                    const la_real *x = n->in[0]->x + la_token(n->in[0], b, t, h) + 2 * i;
                    la_real       *y = n->x + la_token(n, b, t, h) + 2 * i;
                    double         a =
                        (double)(n->in[1]->ids[0] + t) / pow(10000, 2 * (double)i / (double)s.d[3]);
                    y[0] = R((double)x[0] * cos(a) - (double)x[1] * sin(a));
                    y[1] = R((double)x[0] * sin(a) + (double)x[1] * cos(a));
                }
}

static const la_case cases[] = {
    {.name = "B2 T5 H2 D6", .in = {{4, {2, 5, 2, 6}}, {1, {1}}}, .ids = {{0, 0}, {0, 1}}},
    {.name = "at position 1000",
     .in = {{4, {1, 3, 1, 4}}, {1, {1}}},
     .ids = {{0, 0}, {1000, 1001}}},
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
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_rope(la_tape *t, la_node *x, la_node *past) {
    return la_apply(t, &la_op_rope, 2, (la_node *[]){x, past}, NULL);
}
