/* attention.c -- the table of variants, what they have in common, and the cases that all are
 * tested on. */
#include "autograd/attention/attention.h"

#include <string.h>

#include "autograd/kernel.h"
#include "tensor/names.h"

#define X(name) extern const la_attn la_attn_##name;
#include "autograd/attention/attn.def"
#undef X

const la_attn *const la_attns[] = {
#define X(name) &la_attn_##name,
#include "autograd/attention/attn.def"
#undef X
    NULL,
};

static const char *name_at(int i) { return la_attns[i] ? la_attns[i]->name : NULL; }

la_status la_attn_find(const char *name, const la_attn **out) {
    int i = la_name_index(name, name_at);
    *out = i < 0 ? NULL : la_attns[i];
    return i < 0 ? la_name_unknown("attention variant", name, name_at) : LA_OK;
}

int64_t la_attn_state_len(const la_attn *a, int64_t D, int64_t E, int64_t capacity) {
    return a->state_len ? a->state_len(a, D, E, capacity) : 0;
}

void la_attn_state_start(const la_attn *a, int64_t rows, int64_t D, int64_t E, int64_t len,
                         la_real *state) {
    memset(state, 0, (size_t)(rows * len) * sizeof *state);
    for (int64_t r = 0; r < rows && a->state_start; r++) a->state_start(D, E, state + r * len);
}

int64_t la_attn_chunk(const la_node *n, int64_t usual) {
    int64_t chunk = ((const la_attn_cfg *)n->attr)->chunk;
    return la_min(chunk > 0 ? chunk : usual, n->in[0]->shape.d[1]);
}

enum {
    SCAN_WIDTH = 512, /* reals of a token's row in a block, at most: scratch stays in the L2  */
    SCAN_BLOCKS = 2,  /* of whole texts, at least, when heads share a block                   */
    SCAN_LITTLE = 1 << 17, /* tokens by states that are not worth a second block: decoding */
    SCAN_FEW_HEADS = 8, /* with fewer the text is cut as well                                   */
    SCAN_SEGMENTS = 16, /* of all texts together, about, if they are cut                        */
    SCAN_SEGMENT_LEAST = 8, /* chunks */
};

la_scan la_attn_scan(const la_node *n, int64_t chunk, int64_t width, int64_t state) {
    la_shape q = n->in[0]->shape;
    int64_t  B = q.d[0], H = q.d[2];
    la_scan  s = {.chunk = la_attn_chunk(n, chunk), .group = H};
    s.chunks = s.segment = la_ceil_div(q.d[1], s.chunk);
    if (B * H < SCAN_FEW_HEADS)
        s.segment = la_max(SCAN_SEGMENT_LEAST, la_ceil_div(s.chunks * B, SCAN_SEGMENTS));
    s.segments = la_ceil_div(s.chunks, s.segment);
    int one_will_do = s.segments > 1 || B * q.d[1] * H * state < SCAN_LITTLE;
    while (s.group > 1 && (H % s.group || s.group * width > SCAN_WIDTH ||
                           (!one_will_do && B * (H / s.group) < SCAN_BLOCKS)))
        s.group--;
    s.groups = H / s.group;
    return s;
}

la_status la_attn_infer(const la_node *n, la_plan *p) {
    const la_attn_cfg *c = n->attr;
    char               a[LA_SHAPE_TEXT], b[LA_SHAPE_TEXT], d[LA_SHAPE_TEXT];
    la_shape           q = n->in[0]->shape, k = n->in[1]->shape, v = n->in[2]->shape;
    la_shape           v_but_last = v;
    v_but_last.d[3] = q.d[3];
    if (q.n != 4 || v.n != 4 || !la_shape_eq(q, k) || !la_shape_eq(q, v_but_last))
        return la_fail(LA_SHAPE,
                       "%s: q and k must be (B,T,H,D) and v (B,T,H,E), and are %s, %s, %s",
                       n->op->name, la_shape_text(q, a), la_shape_text(k, b), la_shape_text(v, d));
    if (!(c->eps >= 0))
        return la_fail(LA_ARG, "%s: eps must not be negative, and is %g", n->op->name, c->eps);
    p->n_out = 1;
    p->out[0] = v;
    p->forward_blocks[0] = p->backward_blocks[0] = q.d[0] * q.d[2];
    if (n->n_in == 3) return LA_OK;

    la_shape s = n->in[3]->shape;
    int64_t  len = s.n == 3 ? s.d[2] : 0;
    if (s.n != 3 || s.d[0] != q.d[0] || s.d[1] != q.d[2] || n->n_in != 5 || !n->in[4]->ids ||
        la_attn_state_len(c->variant, q.d[3], v.d[3], len / (q.d[3] + v.d[3])) != len)
        return la_fail(LA_SHAPE, "%s: the state %s does not belong to q %s and v %s", n->op->name,
                       la_shape_text(s, a), la_shape_text(q, b), la_shape_text(v, d));
    p->n_out = 2;
    p->out[1] = s;
    p->in_place[1] = 1 + 3;
    return LA_OK;
}

la_node *la_attention(la_tape *t, const la_attn_cfg *c, la_node *q, la_node *k, la_node *v,
                      la_node *state, la_node *past, la_node **state_out) {
    la_node *in[] = {q, k, v, state, past};
    la_node *o = la_apply(t, c->variant->op, state ? 5 : 3, in, c);
    if (state_out) *state_out = o && state ? o->out[1] : NULL;
    return o;
}

/* Chunks of 4 so that short texts have several; every case also with a large eps, or an eps
 * forgotten in a backward pass stays invisible. */
static const la_attn_cfg small = {.eps = 1e-6, .chunk = 4}, large = {.eps = 0.1, .chunk = 4};
static const la_attn_cfg usual = {.eps = 1e-6};

const la_case la_attn_cases[] = {
    {.name = "B2 T5 H2 D3 E3",
     .in = {{4, {2, 5, 2, 3}}, {4, {2, 5, 2, 3}}, {4, {2, 5, 2, 3}}},
     .attr = &small},
    {.name = "D3 E5, eps .1",
     .in = {{4, {1, 6, 2, 3}}, {4, {1, 6, 2, 3}}, {4, {1, 6, 2, 5}}},
     .attr = &large},
    {.name = "T1", .in = {{4, {2, 1, 1, 4}}, {4, {2, 1, 1, 4}}, {4, {2, 1, 1, 2}}}, .attr = &small},
    {.name = "T1, eps .1",
     .in = {{4, {1, 1, 2, 3}}, {4, {1, 1, 2, 3}}, {4, {1, 1, 2, 3}}},
     .attr = &large},
    {.name = "T2", .in = {{4, {1, 2, 1, 4}}, {4, {1, 2, 1, 4}}, {4, {1, 2, 1, 4}}}, .attr = &small},
    {.name = "T3, a chunk less one",
     .in = {{4, {1, 3, 1, 4}}, {4, {1, 3, 1, 4}}, {4, {1, 3, 1, 4}}},
     .attr = &small},
    {.name = "T4, one chunk",
     .in = {{4, {1, 4, 1, 4}}, {4, {1, 4, 1, 4}}, {4, {1, 4, 1, 4}}},
     .attr = &small},
    {.name = "T11, two chunks and 3",
     .in = {{4, {1, 11, 2, 4}}, {4, {1, 11, 2, 4}}, {4, {1, 11, 2, 3}}},
     .attr = &small},
    {.name = "T11, wide, eps .1",
     .in = {{4, {1, 11, 1, 3}}, {4, {1, 11, 1, 3}}, {4, {1, 11, 1, 3}}},
     .attr = &large,
     .lo = -3,
     .hi = 3},
    {.name = "T69, 18 chunks, few heads",
     .in = {{4, {1, 69, 2, 2}}, {4, {1, 69, 2, 2}}, {4, {1, 69, 2, 3}}},
     .attr = &small},
    {.name = "16 heads, two chunks and 1",
     .in = {{4, {2, 9, 8, 2}}, {4, {2, 9, 8, 2}}, {4, {2, 9, 8, 3}}},
     .attr = &large},
    {.name = "T45, in segments",
     .in = {{4, {1, 45, 2, 2}}, {4, {1, 45, 2, 2}}, {4, {1, 45, 2, 2}}},
     .attr = &large},
    {.name = "T37, one head, ten chunks",
     .in = {{4, {1, 37, 1, 2}}, {4, {1, 37, 1, 2}}, {4, {1, 37, 1, 3}}},
     .attr = &small},
    {.name = "T67, usual chunk",
     .in = {{4, {1, 67, 1, 2}}, {4, {1, 67, 1, 2}}, {4, {1, 67, 1, 3}}},
     .attr = &usual},
    {0},
};
