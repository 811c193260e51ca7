/* kernel_linear_chunk.h -- what causal_linear and full_linear have in common: how the work is cut,
 * the rows of a chunk and their features, and back to gradients. */
#ifndef LA_KERNEL_LINEAR_CHUNK_H
#define LA_KERNEL_LINEAR_CHUNK_H
#include "autograd/attention/kernel_map.h"
#include "autograd/ops/scan.h"
#include "tensor/blas.h"

enum {
    CHUNK = 32,
    SLICE = 1024, /* reals of a state whose sums over segments a block takes */
};

typedef struct dims {
    int64_t B, T, H, D, Dk, E, m, L, C, chunks; /* D of q, Dk of k; L = m (E+1), one state      */
    int64_t group, groups;                      /* heads of a block; blocks beside each other   */
    int64_t segments;                           /* blocks after each other                      */
    int64_t slices;                             /* blocks of a state in sums over segments      */
    int     decay;
    int     log_q; /* the map of q gives logarithms: the features are their softmax            */
    la_real eps, floor;
    la_scan scan;
} dims;

static inline dims get(const la_node *n) {
    la_shape q = n->in[0]->shape;
    dims     s = {.B = q.d[0], .T = q.d[1], .H = q.d[2], .D = q.d[3], .E = n->in[2]->shape.d[3]};
    const la_attn_cfg *c = la_attn_cfg_of(n);
    const la_map      *map[2] = {la_attn_map(c, 0), la_attn_map(c, 1)};
    const double       floor_of = la_attn_floor(c);
    s.Dk = n->in[1]->shape.d[3];
    s.m = map[1]->width(c, s.Dk);
    s.L = s.m * (s.E + 1);
    s.decay = la_attn_at(n, LA_AT_DECAY) != NULL;
    s.log_q = map[0]->kind == LA_MAP_LOG;
    s.eps = R(c->eps);
    s.floor = floor_of > 0 ? R(floor_of) : R(-HUGE_VAL);
    s.scan = la_attn_scan(n, CHUNK, la_max(s.m, s.E), s.L);
    s.C = s.scan.chunk, s.chunks = s.scan.chunks;
    s.group = s.scan.group, s.groups = s.scan.groups, s.segments = s.scan.segments;
    s.slices = la_ceil_div(s.L, SLICE);
    return s;
}

/* One thread's scratch: the rows of a chunk for all heads of the block, and the matrices of one
 * head at a time.  T marks a transpose. */
typedef struct work {
    la_real *A, *B, *dA, *dB;  /* (C,group,m)                                                  */
    la_real *U, *w;            /* (C,group,E) (C,group)                                        */
    la_real *BT, *P, *dP, *VT; /* (m,C) (C,C) (C,C) (E,C)                                      */
    la_real *XT;               /* (E,m): S' and then R'                                        */
    la_real *S, *R;            /* (group,L) (group,L)                                          */
    la_real *Af, *Bf;          /* (C,m) (C,m)   with decay; and, for each head of the block,   */
    la_real *up, *down;        /* (group,C+1) (group,C+1): up[i] = down[C-i] = gamma^i         */
    la_real *log, *dlog;       /* (group,m) (group,m), if q has logarithms                     */
} work;

/* The heads of a block: their rows, and their states. */
typedef struct heads {
    scan_rows      x;
    const la_real *state, *dstate_out; /* (B,H,L); NULL without                                 */
    la_real       *state_out, *dstate; /* (B,H,L); NULL without                                 */
} heads;

static inline heads find(const la_node *n, int64_t b, int64_t h) {
    heads a = {.x = scan_find(n, b, h)};
    if (n->n_out == 2) {
        const la_node *state = la_attn_at(n, LA_AT_STATE);
        a.state = state->x, a.dstate = state->g;
        a.state_out = n->out[1]->x, a.dstate_out = n->out[1]->g;
    }
    return a;
}

/* What a block is about that walks a segment. */
typedef struct piece {
    heads    a;
    int64_t  segment;
    la_range tokens, chunks; /* of the segment; of these, chunks that have valid tokens         */
    int      only_sums;      /* phase 0 of several                                              */
} piece;

static inline piece find_piece(const la_node *n, dims s, const la_run *run) {
    const scan_piece at = scan_cut(n, s.scan, run->block);
    piece            p = {.a = find(n, at.b, at.h), .segment = at.segment, .tokens = at.tokens};
    p.only_sums = s.segments > 1 && run->phase == 0;
    p.chunks = scan_chunks(s.scan, at.tokens, p.a.x.tokens);
    return p;
}

static inline int64_t tokens_of(dims s, const piece *p, int64_t chunk) {
    return la_min(s.C, p->a.x.tokens - chunk * s.C);
}

/* --- features --- */
/* y = phi(x) for the rows of a token's heads, one after the other; q has which = 0, k has 1. */
static inline void map_rows(const la_node *n, dims s, int which, int64_t position, const la_real *x,
                            la_real *y) {
    const la_vec *vec = la_vec_table();
    scan_map(n, which, s.group, position, x, y);
    if (which || !s.log_q) return;
    for (int64_t h = 0; h < s.group; h++, y += s.m)
        vec->scale(s.m, 1 / vec->exp_minus_sum(s.m, vec->max(s.m, y), y, y), y, y);
}

/* y = softmax(log) has dlog = y (dy - y.dy). */
static inline void map_rows_backward(const la_node *n, dims s, const work *w, int which,
                                     int64_t position, const la_real *x, const la_real *y,
                                     const la_real *dy, la_real *dx, int first) {
    if (!which && s.log_q) {
        scan_map(n, which, s.group, position, x, w->log);
        for (int64_t h = 0; h < s.group; h++) {
            const la_real *yh = y + h * s.m, *dyh = dy + h * s.m;
            const la_real  along = la_vec_table()->dot(s.m, yh, dyh);
            for (int64_t f = 0; f < s.m; f++) w->dlog[h * s.m + f] = yh[f] * (dyh[f] - along);
        }
        y = w->log, dy = w->dlog;
    }
    scan_map_backward(n, which, s.group, position, x, y, dy, dx, first);
}

/* The rows of the chunk at token t, and `next` tokens on (or back, below 0) those that are needed
 * soon: a token's heads are a part of its row only, and the processor does not see the pattern. */
static inline void load_keys(const la_node *n, dims s, const scan_rows *a, work *w, int64_t t,
                             int64_t C, int64_t next) {
    for (int64_t i = 0; i < C; i++) {
        la_prefetch(s.group * s.Dk, a->k, (t + i + next) * a->ldk);
        la_prefetch(s.group * s.E, a->v, (t + i + next) * a->ldv);
        map_rows(n, s, 1, a->past + t + i, a->k + (t + i) * a->ldk, w->B + i * s.group * s.m);
    }
}

static inline void load_queries(const la_node *n, dims s, const scan_rows *a, work *w, int64_t t,
                                int64_t C, int64_t next) {
    for (int64_t i = 0; i < C; i++) {
        la_prefetch(s.group * s.D, a->q, (t + i + next) * a->ldq);
        la_prefetch(s.group * s.E, a->o, (t + i + next) * a->ldo);
        map_rows(n, s, 0, a->past + t + i, a->q + (t + i) * a->ldq, w->A + i * s.group * s.m);
    }
}

/* U and w of a chunk, from D (T,H) of this batch row and head: step 1 of both derivations. */
static inline void load_gradient(dims s, const scan_rows *a, const la_real *D, work *w, int64_t t,
                                 int64_t C, int64_t next) {
    for (int64_t i = 0; i < C; i++) {
        int64_t at = (t + i) * a->ldo;
        la_prefetch(s.group * s.E, a->g, at + next * a->ldo);
        la_vec_table()->normalise_backward(s.group, s.E, a->g + at, a->o + at, D + (t + i) * s.H,
                                           s.floor, w->U + i * s.group * s.E, w->w + i * s.group);
    }
}

/* dx of the rows of the chunk at token t, from dy; = instead of += if it is the first writer. */
static inline void store_gradient(const la_node *n, dims s, const scan_rows *a, const work *w,
                                  int which, int64_t t, int64_t C, int64_t next, int first) {
    const int64_t  width = s.group * (which ? s.Dk : s.D), m = s.group * s.m;
    const int64_t  ld = which ? a->ldk : a->ldq;
    const la_real *x = (which ? a->k : a->q) + t * ld, *y = which ? w->B : w->A;
    const la_real *dy = which ? w->dB : w->dA;
    la_real       *dx = (which ? a->dk : a->dq) + t * ld;
    for (int64_t i = 0; i < C; i++, x += ld, dx += ld, y += m, dy += m) {
        la_prefetch(width, dx, next * ld);
        map_rows_backward(n, s, w, which, a->past + t + i, x, y, dy, dx, first);
    }
}

/* --- states --- */
typedef struct matrix { /* rows x, ld reals apart */
    const la_real *x;
    int64_t        ld;
} matrix;

/* Of head h, in rows of all heads of the block. */
static inline matrix head_of(const la_real *x, int64_t group, int64_t width, int64_t h) {
    return (matrix){x + h * width, group * width};
}

static inline matrix values_of(dims s, const scan_rows *a, int64_t t, int64_t h) {
    return (matrix){a->v + t * a->ldv + h * s.E, a->ldv};
}

/* S += X' Y and z += X' y for X (C,m), Y (C,E); y (C), `step` apart, or 1 if NULL. */
static inline void add_state(dims s, int64_t C, matrix X, matrix Y, const la_real *y, int64_t step,
                             la_real *S) {
    la_gemm_tn(LA_ADD, s.m, s.E, C, X.x, X.ld, Y.x, Y.ld, S, s.E);
    la_vec_table()->add_rows(C, s.m, X.x, X.ld, y, step, S + s.m * s.E);
}

static inline void copy_or_zero(int64_t n, const la_real *x, la_real *y) {
    if (x)
        memcpy(y, x, (size_t)n * sizeof *y);
    else
        memset(y, 0, (size_t)n * sizeof *y);
}

/* Gradients of padding: 0, where backward says so. */
static inline void clear_gradients(dims s, const piece *p, const la_run *run) {
    const scan_rows *x = &p->a.x;
    if (la_sets(run, 0)) scan_clear(p->tokens, x->tokens, s.group * s.D, x->dq, x->ldq);
    if (la_sets(run, 1)) scan_clear(p->tokens, x->tokens, s.group * s.Dk, x->dk, x->ldk);
    if (la_sets(run, 2)) scan_clear(p->tokens, x->tokens, s.group * s.E, x->dv, x->ldv);
}
#endif
