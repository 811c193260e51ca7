/* call.c -- what the ops of variants ask of the node they run for: valid tokens and those before,
 * the room of a state, checks that all have in common, and how the work is cut. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

/* --- cutting the work --- */
int64_t la_attn_chunk(const la_node *n, int64_t usual) {
    int64_t chunk = la_attn_cfg_of(n)->chunk;
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

int64_t la_attn_tokens(const la_node *n, int64_t b) {
    const la_node *mask = la_attn_at(n, LA_AT_MASK);
    const int64_t  T = n->in[0]->shape.d[1];
    if (!mask) return T;
    return la_count(T, mask->ids + b * T);
}

int64_t la_attn_past(const la_node *n, int64_t b) {
    const la_node *past = la_attn_at(n, LA_AT_PAST);
    return past ? past->ids[la_len(past->shape) == 1 ? 0 : b] : 0;
}

/* The least capacity of a state of `len` reals; 0 where its length does not depend on it. */
static int64_t capacity_of(const la_attn_cfg *c, int64_t D, int64_t E, int64_t len) {
    const int64_t each = la_attn_op_state(c, D, E, 1) - la_attn_op_state(c, D, E, 0);
    return each > 0 ? len / each : 0;
}

int64_t la_attn_room(const la_node *n) {
    const la_node *state = la_attn_at(n, LA_AT_STATE);
    if (!state) return 0;
    const la_attn_cfg *c = la_attn_cfg_of(n);
    const int64_t      D = n->in[1]->shape.d[3], E = n->in[2]->shape.d[3], len = state->shape.d[2];
    const int64_t      capacity = capacity_of(c, D, E, len);
    return la_attn_op_state(c, D, E, capacity + 1) == len
               ? 0
               : capacity; /* one that grows no further */
}

la_status la_attn_check_past(const la_node *n, int64_t room) {
    for (int64_t b = 0; b < n->shape.d[0]; b++) {
        int64_t past = la_attn_past(n, b), T = la_attn_tokens(n, b);
        if (past < 0 || (room > 0 && past + T > room))
            return la_fail(LA_ARG,
                           "%s: %lld tokens after %lld do not fit the %lld that there is room for",
                           n->op->name, (long long)T, (long long)past, (long long)room);
    }
    return LA_OK;
}

la_status la_kernel_check(const la_node *n) {
    const la_attn_cfg *c = la_attn_cfg_of(n);
    LA_TRY(la_attn_check_past(n, 0));
    for (int which = 0; which < 2; which++) {
        const la_map *map = la_attn_map(c, which);
        if (!map || !map->longest) continue;
        for (int64_t b = 0; b < n->shape.d[0]; b++) {
            int64_t past = la_attn_past(n, b), T = la_attn_tokens(n, b);
            if (past + T > map->longest(c))
                return la_fail(
                    LA_ARG,
                    "%s weighs tokens by their place in a text of at most %lld, and these "
                    "are %lld after %lld: choose a larger length",
                    map->name, (long long)map->longest(c), (long long)T, (long long)past);
        }
    }
    return LA_OK;
}

/* Optional inputs: their shapes against q and v. */
static la_status check_optional(const la_node *n, la_shape k, la_shape v) {
    const la_attn_cfg *c = la_attn_cfg_of(n);
    const la_node     *decay = la_attn_at(n, LA_AT_DECAY), *mask = la_attn_at(n, LA_AT_MASK);
    const la_node     *state = la_attn_at(n, LA_AT_STATE), *past = la_attn_at(n, LA_AT_PAST);
    char               a[LA_SHAPE_TEXT], b[LA_SHAPE_TEXT], d[LA_SHAPE_TEXT];
    if (decay && (decay->ids || !la_shape_eq(decay->shape, la_shape1(k.d[2]))))
        return la_fail(LA_SHAPE, "%s: decay must be a number for each of %lld heads, and is %s",
                       n->op->name, (long long)k.d[2], la_shape_text(decay->shape, a));
    if (mask && (!mask->ids || !la_shape_eq(mask->shape, la_shape2(k.d[0], k.d[1]))))
        return la_fail(LA_SHAPE, "%s: the mask must be integers (%lld,%lld), and is %s",
                       n->op->name, (long long)k.d[0], (long long)k.d[1],
                       la_shape_text(mask->shape, a));
    if (!state && !past) return LA_OK;
    int64_t len = state && state->shape.n == 3 ? state->shape.d[2] : 0;
    int64_t rows = past && past->ids ? la_len(past->shape) : 0;
    if (len < 1 || state->shape.d[0] != k.d[0] || state->shape.d[1] != k.d[2] ||
        (rows != 1 && rows != k.d[0]) || c->bidirectional ||
        la_attn_op_state(c, k.d[3], v.d[3], capacity_of(c, k.d[3], v.d[3], len)) != len)
        return la_fail(LA_SHAPE, "%s: the state %s does not belong to k %s and v %s", n->op->name,
                       la_shape_text(state ? state->shape : (la_shape){0}, a), la_shape_text(k, b),
                       la_shape_text(v, d));
    return LA_OK;
}

la_status la_attn_infer(const la_node *n, la_plan *p) {
    const la_attn_cfg *c = la_attn_cfg_of(n);
    const la_node     *state = la_attn_at(n, LA_AT_STATE);
    char               a[LA_SHAPE_TEXT], b[LA_SHAPE_TEXT], d[LA_SHAPE_TEXT];
    la_shape           q = n->in[0]->shape, k = n->in[1]->shape, v = n->in[2]->shape;
    la_shape           k_but_last = k, v_but_last = v;
    k_but_last.d[3] = v_but_last.d[3] = q.d[3];
    if (q.n != 4 || v.n != 4 || k.n != 4 || !la_shape_eq(q, k_but_last) ||
        !la_shape_eq(q, v_but_last) || (!c->q && !c->k && k.d[3] != q.d[3]))
        return la_fail(LA_SHAPE,
                       "%s: q and k must be (B,T,H,D) and v (B,T,H,E), and are %s, %s, %s",
                       n->op->name, la_shape_text(q, a), la_shape_text(k, b), la_shape_text(v, d));
    if (!(c->eps >= 0))
        return la_fail(LA_ARG, "%s: eps must not be negative, and is %g", n->op->name, c->eps);
    LA_TRY(check_optional(n, k, v));
    p->n_out = 1;
    p->out[0] = v;
    p->forward_blocks[0] = p->backward_blocks[0] = q.d[0] * q.d[2];
    if (!state) return LA_OK;
    p->n_out = 2;
    p->out[1] = state->shape;
    p->in_place[1] = 1 + ((const la_attn_call *)n->attr)->at[LA_AT_STATE];
    return LA_OK;
}
