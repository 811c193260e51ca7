/* scan.h -- what the ops have in common that walk a text chunk by chunk, some heads of a batch row
 * side by side (la_attn_scan): where the rows are, which chunks are a block's, the maps of a row.
 */
#ifndef LA_SCAN_H
#define LA_SCAN_H
#include "autograd/attention/attention.h"
#include "autograd/kernel.h"

/* The rows of head h and those beside it in batch row b: where the first one's are, and how far
 * apart those of two tokens. */
typedef struct scan_rows {
    const la_real *q, *k, *v, *g;
    la_real       *o, *dq, *dk, *dv; /* gradients: NULL if nobody needs them                   */
    int64_t        ldq, ldk, ldv, ldo;
    int64_t        number;       /* of the head, in (B,H)                                      */
    int64_t        past, tokens; /* those before the text; valid ones in it, the first of T    */
} scan_rows;

static inline scan_rows scan_find(const la_node *n, int64_t b, int64_t h) {
    const la_node *q = n->in[0], *k = n->in[1], *v = n->in[2];
    return (scan_rows){.q = q->x + la_token(q, b, 0, h),
                       .k = k->x + la_token(k, b, 0, h),
                       .v = v->x + la_token(v, b, 0, h),
                       .g = la_plus(n->g, la_token(n, b, 0, h)),
                       .o = n->x + la_token(n, b, 0, h),
                       .dq = la_plus(q->g, la_token(q, b, 0, h)),
                       .dk = la_plus(k->g, la_token(k, b, 0, h)),
                       .dv = la_plus(v->g, la_token(v, b, 0, h)),
                       .ldq = q->ld,
                       .ldk = k->ld,
                       .ldv = v->ld,
                       .ldo = n->ld,
                       .number = b * n->shape.d[2] + h,
                       .past = la_attn_past(n, b),
                       .tokens = la_attn_tokens(n, b)};
}

/* What a block is about that walks a segment. */
typedef struct scan_piece {
    int64_t  b, h, segment; /* h: the first of its heads                                       */
    la_range tokens;        /* of the segment                                                  */
} scan_piece;

static inline scan_piece scan_cut(const la_node *n, la_scan s, int64_t block) {
    const int64_t number = block / s.segments, segment = block % s.segments;
    la_range      chunks = la_cut(s.chunks, s.segment, segment);
    return (scan_piece){
        .b = number / s.groups,
        .h = number % s.groups * s.group,
        .segment = segment,
        .tokens = {chunks.from * s.chunk, la_min(n->shape.d[1], chunks.to * s.chunk)}};
}

/* Of the tokens of a segment those that are valid, as chunks; none where from >= to. */
static inline la_range scan_chunks(la_scan s, la_range tokens, int64_t valid) {
    return (la_range){tokens.from / s.chunk, la_ceil_div(la_min(tokens.to, valid), s.chunk)};
}

/* Rows of padding among the tokens of a segment to 0; x, which may be NULL, begins at token 0. */
static inline void scan_clear(la_range tokens, int64_t valid, int64_t width, la_real *x,
                              int64_t ld) {
    for (int64_t t = la_max(tokens.from, valid); x && t < tokens.to; t++)
        memset(x + t * ld, 0, (size_t)width * sizeof *x);
}

/* y = the map of rows x (rows,D), a token's heads, for q (which = 0) or k (1). */
static inline void scan_map(const la_node *n, int which, int64_t rows, int64_t position,
                            const la_real *x, la_real *y) {
    const la_attn_cfg *c = la_attn_cfg_of(n);
    const la_map_rows  r = {rows, n->in[which]->shape.d[3], position, c};
    la_attn_map(c, which)->forward(&r, x, y);
}

/* dx += the gradient, or dx = if it is the first writer. */
static inline void scan_map_backward(const la_node *n, int which, int64_t rows, int64_t position,
                                     const la_real *x, const la_real *y, const la_real *dy,
                                     la_real *dx, int first) {
    const la_attn_cfg *c = la_attn_cfg_of(n);
    const la_map_rows  r = {rows, n->in[which]->shape.d[3], position, c};
    if (first) memset(dx, 0, (size_t)(rows * r.D) * sizeof *dx);
    la_attn_map(c, which)->backward(&r, x, y, dy, dx);
}
#endif
