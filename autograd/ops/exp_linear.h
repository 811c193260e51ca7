/* exp_linear.h -- what causal_exp_linear.c and full_exp_linear.c share, in the letters of the
 * derivation in the first: how work is cut, rows in, runs, what keys add to the state, and
 * gradients out, of one chunk. */
#ifndef LA_EXP_LINEAR_H
#define LA_EXP_LINEAR_H
#include "autograd/attention/kernel_map.h"
#include "autograd/ops/scan.h"
#include "tensor/blas.h"

enum {
    CHUNK = 32,
    SLICE = 16, /* features of a state that a block of the scan takes */
};
static const la_real SPREAD = 30; /* exp(30) = 1e13: far from overflow, and from 0 when inverted */
static const la_real NOTHING =
    R(-1e30); /* a logarithm of 0: exp(NOTHING - c) is 0, also in float */

typedef struct dims {
    int64_t B, T, H, D, Dk, E, m, C, chunks; /* D of q, Dk of k; m features                      */
    int64_t L;                 /* m (E + 2): S, Z, c or R, rho, keep of a head           */
    int64_t group, groups, W;  /* heads of a block; blocks beside each other; group m    */
    int64_t segment, segments; /* chunks of a block; blocks after each other             */
    int64_t slices;            /* blocks of a state in the scan                          */
    la_scan scan;
    int     kernel;   /* the kernel form                                                       */
    int map_q, map_k; /* there are maps, and other than x as it is                             */
    int positive;     /* and that of q gives features, not logarithms                          */
} dims;

static inline int has_map(const la_map *map) { return map && map->forward != la_exp_forward; }

static inline dims get(const la_node *n) {
    const la_attn_cfg *cfg = la_attn_cfg_of(n);
    const la_map      *map_q = la_attn_map(cfg, 0), *map_k = la_attn_map(cfg, 1);
    la_shape           q = n->in[0]->shape;
    dims s = {.B = q.d[0], .T = q.d[1], .H = q.d[2], .D = q.d[3], .E = n->in[2]->shape.d[3]};
    s.Dk = n->in[1]->shape.d[3];
    s.m = map_k ? map_k->width(cfg, s.Dk) : s.Dk;
    s.kernel = map_k != NULL;
    s.map_q = has_map(map_q), s.map_k = has_map(map_k);
    s.positive = map_q && map_q->kind == LA_MAP_POSITIVE;
    s.L = s.m * (s.E + 2);
    la_scan c = s.scan = la_attn_scan(n, CHUNK, la_max(s.m, s.E), s.L);
    s.C = c.chunk, s.chunks = c.chunks, s.group = c.group, s.groups = c.groups;
    s.segment = c.segment, s.segments = c.segments;
    s.W = s.group * s.m;
    s.slices = la_ceil_div(s.m, SLICE);
    return s;
}

/* One thread's scratch: the rows of a chunk for all heads of the block, and the matrices of one
 * head at a time.  T marks a transpose. */
typedef struct work {
    la_real *A, *B, *Z, *dA, *dB; /* (C,W); dA becomes the gradient at Z                        */
    la_real *Q, *U, *dU;          /* (C,W): what the maps of q and k gave; the gradient at u    */
    la_real *BT, *P, *dP, *VT;    /* (m,C) (C,C) (C,C) (E,C)                                    */
    la_real *XT, *X, *BV;         /* (E,m): S' and then R'; (m,E): S at a later run; (m,E)      */
    la_real *S, *R;               /* (group,m,E) each                                           */
    la_real *c, *Z0, *rho, *keep; /* (W) each                                                   */
    la_real *start;               /* (group,C+2): first row of each run, and at the end C       */
    la_real *decay;               /* (C+1,W): row r, what run r > 0 does to the state           */
    la_real *pivot;               /* (C+1,W): row r, c in run r; in the kernel form             */
    la_real *spare;               /* (W)                                                        */
    const la_real *u;             /* (C,W), ldu: where the rows of the keys are                 */
    la_real       *du;            /* the same, lddu, of their gradients                         */
    int64_t        ldu, lddu;
    int            moves; /* some head of the chunk has several runs                            */
} work;

static inline size_t carve(dims s, la_real *at, work *w) {
    const int64_t rows = s.C * s.W, states = s.W * s.E;
    const la_part parts[] = {
        {&w->A, rows},
        {&w->B, rows},
        {&w->Z, rows},
        {&w->dA, rows},
        {&w->dB, rows},
        {&w->Q, s.map_q ? rows : 0},
        {&w->U, s.map_k ? rows : 0},
        {&w->dU, s.map_k ? rows : 0},
        {&w->BT, s.m * s.C},
        {&w->P, s.C * s.C},
        {&w->dP, s.C * s.C},
        {&w->VT, s.E * s.C},
        {&w->XT, s.E * s.m},
        {&w->X, s.m * s.E},
        {&w->BV, s.m * s.E},
        {&w->S, states},
        {&w->R, states},
        {&w->c, s.W},
        {&w->Z0, s.W},
        {&w->rho, s.W},
        {&w->keep, s.W},
        {&w->spare, s.W},
        {&w->start, s.group * (s.C + 2)},
        {&w->decay, rows + s.W},
        {&w->pivot, s.kernel ? rows + s.W : 0},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
}

/* X (m,E), a row for each feature, times `by`. */
static inline void scale_rows(dims s, const la_real *by, la_real *X) {
    for (int64_t f = 0; f < s.m; f++, X += s.E)
        if (by[f] != 1) la_vec_table()->scale(s.E, by[f], X, X);
}

/* Three parts of a head's state side by side: S, Z, c or R, rho, keep. */
static inline void put(dims s, const la_real *X, const la_real *x, const la_real *y, la_real *to) {
    memcpy(to, X, (size_t)(s.m * s.E) * sizeof *to);
    memcpy(to + s.m * s.E, x, (size_t)s.m * sizeof *to);
    memcpy(to + s.m * (s.E + 1), y, (size_t)s.m * sizeof *to);
}

static inline void take(dims s, const la_real *from, la_real *X, la_real *x, la_real *y) {
    memcpy(X, from, (size_t)(s.m * s.E) * sizeof *X);
    memcpy(x, from + s.m * s.E, (size_t)s.m * sizeof *x);
    memcpy(y, from + s.m * (s.E + 1), (size_t)s.m * sizeof *y);
}

/* --- keys --- */
/* The pivot to max(c, u), and the factors that this puts on S and Z. */
static inline void move_pivot(dims s, const la_real *u, la_real *c, la_real *decay) {
    for (int64_t f = 0; f < s.m; f++) {
        la_real top = u[f] > c[f] ? u[f] : c[f];
        decay[f] = c[f] - top;
        c[f] = top;
    }
    la_vec_table()->exp_minus(s.m, 0, decay, decay);
}

/* The same differences, to the bit, as in exp_scan(): a chunk that this would cut is always found
 * to need it, whatever is in its other rows. */
static inline int far_above(dims s, const la_real *u, const la_real *c) {
    int far = 0;
    for (int64_t f = 0; f < s.m; f++) far |= u[f] - c[f] > SPREAD;
    return far;
}

/* The runs of head h in a chunk: B, Z and the moves of the pivot.  The first is empty if the pivot
 * moves before the first token. */
static inline void cut(dims s, work *w, int64_t h, int64_t C) {
    const la_vec  *vec = la_vec_table();
    const int64_t  at = h * s.m;
    const la_real *u = w->u + at, *before = w->Z0 + at;
    la_real       *start = w->start + h * (s.C + 2), *c = w->c + at;
    for (int64_t i = 0, j = 0, r = 0; i < C; i = j) {
        while (j < C && !far_above(s, u + j * w->ldu, c)) j++;
        vec->exp_scan(j - i, s.m, u + i * w->ldu, w->ldu, c, before, w->B + i * s.W + at,
                      w->Z + i * s.W + at, s.W);
        start[++r] = R(j);
        if (j == C) break;
        la_real *decay = w->decay + r * s.W + at;
        move_pivot(s, u + j * w->ldu, c, decay);
        if (s.kernel) memcpy(w->pivot + r * s.W + at, c, (size_t)s.m * sizeof *c);
        memcpy(w->spare, j ? w->Z + (j - 1) * s.W + at : before, (size_t)s.m * sizeof *c);
        vec->mul(s.m, decay, w->spare);
        before = w->spare;
    }
}

/* The row u of token t, for the heads of the block, from where i is its number in the chunk. */
static inline const la_real *load_key(const la_node *n, dims s, const scan_rows *a, work *w,
                                      int64_t t, int64_t i) {
    const la_real *k = a->k + t * a->ldk;
    if (!s.map_k) return k;
    scan_map(n, 1, s.group, a->past + t, k, w->U + i * s.W);
    return w->U + i * s.W;
}

/* B, Z and runs of the chunk at token t.  `next` tokens on (or back, below 0) are rows that are
 * needed soon: a token's heads are a part of its row only, and the processor does not see the
 * pattern. */
static inline void load_keys(const la_node *n, dims s, const scan_rows *a, work *w, int64_t t,
                             int64_t C, int64_t next) {
    for (int64_t i = 0; i < C; i++) {
        la_prefetch(s.group * s.Dk, a->k, (t + i + next) * a->ldk);
        la_prefetch(s.group * s.E, a->v, (t + i + next) * a->ldv);
        if (s.map_k) load_key(n, s, a, w, t + i, i);
    }
    w->u = s.map_k ? w->U : a->k + t * a->ldk;
    w->ldu = s.map_k ? s.W : a->ldk;
    w->moves =
        la_vec_table()->exp_scan(C, s.W, w->u, w->ldu, w->c, w->Z0, w->B, w->Z, s.W) > SPREAD;
    if (s.kernel) memcpy(w->pivot, w->c, (size_t)s.W * sizeof *w->c);
    for (int64_t h = 0; h < s.group; h++) {
        la_real *start = w->start + h * (s.C + 2);
        start[0] = 0;
        start[1] = R(C);
        if (w->moves) cut(s, w, h, C);
    }
}

static inline int64_t count_runs(dims s, const work *w, int64_t h, int64_t C) {
    const la_real *start = w->start + h * (s.C + 2);
    int64_t        r = 1;
    while (start[r] < R(C)) r++;
    return r;
}

/* S += B' V of n rows, the sum first, as in Z: see vec_exp_scan(). */
static inline void add_keys(dims s, work *w, int64_t n, const la_real *B, const la_real *v,
                            int64_t ldv, la_real *S) {
    la_gemm_tn(LA_SET, s.m, s.E, n, B, s.W, v, ldv, w->BV, s.E);
    la_vec_table()->axpy(s.m * s.E, 1, w->BV, S);
}

/* --- queries --- */
/* The pivot of row i of head h. */
static inline const la_real *pivot_of(dims s, const work *w, int64_t h, int64_t i) {
    const la_real *start = w->start + h * (s.C + 2);
    int64_t        r = 0;
    while (start[r + 1] <= R(i)) r++;
    return w->pivot + r * s.W + h * s.m;
}

/* Row i of A from the logarithms x of the features; Q has the features themselves if the map gives
 * those. */
static inline void load_kernel_row(dims s, work *w, int64_t i, const la_real *x) {
    const la_vec  *vec = la_vec_table();
    const la_real *Q = w->Q + i * s.W, *Z = w->Z + i * s.W;
    la_real       *A = w->A + i * s.W;
    for (int64_t j = 0; s.positive && j < s.W; j++)
        A[j] = Q[j] < LA_FEATURE_LEAST ? NOTHING : log(Q[j]);
    if (s.positive) x = A;
    if (!w->moves) vec->exp_over(s.group, s.m, x, w->pivot, Z, A);
    for (int64_t at = 0, h = 0; h < s.group && (w->moves || s.positive); h++, at += s.m) {
        if (w->moves) vec->exp_over(1, s.m, x + at, pivot_of(s, w, h, i), Z + at, A + at);
        if (s.positive && vec->max(s.m, Q + at) < LA_FEATURE_LEAST)
            memset(A + at, 0, (size_t)s.m * sizeof *A);
    }
}

static inline void load_queries(const la_node *n, dims s, const scan_rows *a, work *w, int64_t t,
                                int64_t C, int64_t next) {
    for (int64_t i = 0; i < C; i++) {
        const la_real *x = a->q + (t + i) * a->ldq;
        la_prefetch(s.group * s.D, a->q, (t + i + next) * a->ldq);
        if (next > 0) la_prefetch(s.group * s.E, a->o, (t + i + next) * a->ldo); /* forward */
        if (s.map_q) {
            scan_map(n, 0, s.group, a->past + t + i, x, w->Q + i * s.W);
            x = w->Q + i * s.W;
        }
        if (s.kernel)
            load_kernel_row(s, w, i, x);
        else
            la_vec_table()->softmax_over(s.group, s.m, x, w->Z + i * s.W, w->A + i * s.W);
    }
}

/* --- gradients --- */
/* dq and dZ, which may be where dA is: steps 2 and 5. */
static inline void store_dq(const la_node *n, dims s, const scan_rows *a, work *w, int64_t t,
                            int64_t C, la_real *dZ, int64_t ld, int first) {
    const int direct = a->dq && !s.map_q;
    for (int64_t i = 0; i < C; i++) {
        const la_real *A = w->A + i * s.W, *Z = w->Z + i * s.W, *dA = w->dA + i * s.W;
        la_real       *dq = la_plus(a->dq, (t + i) * a->ldq), *dx = direct ? dq : w->spare;
        if (dq) la_prefetch(s.group * s.D, dq, -s.C * a->ldq);
        if (!direct || first) memset(dx, 0, (size_t)s.W * sizeof *dx);
        (s.kernel ? la_vec_table()->exp_over_backward
                  : la_vec_table()->softmax_over_backward)(s.group, s.m, A, Z, dA, dZ + i * ld, dx);
        if (!dq || direct) continue;
        const la_real *Q = w->Q + i * s.W;
        for (int64_t j = 0; s.positive && j < s.W; j++)
            dx[j] = Q[j] < LA_FEATURE_LEAST ? 0 : dx[j] / Q[j];
        scan_map_backward(n, 0, s.group, a->past + t + i, a->q + (t + i) * a->ldq, Q, dx, dq,
                          first);
    }
}

/* Where the gradient at u of a chunk is added up: in dk, if there is no map; and from there to dk.
 */
static inline void begin_dk(dims s, const scan_rows *a, work *w, int64_t t, int64_t C, int first) {
    w->du = s.map_k ? w->dU : a->dk + t * a->ldk;
    w->lddu = s.map_k ? s.W : a->ldk;
    for (int64_t i = 0; (s.map_k || first) && i < C; i++)
        memset(w->du + i * w->lddu, 0, (size_t)s.W * sizeof *w->du);
}

static inline void end_dk(const la_node *n, dims s, const scan_rows *a, const work *w, int64_t t,
                          int64_t C, int first) {
    for (int64_t i = 0; s.map_k && i < C; i++)
        scan_map_backward(n, 1, s.group, a->past + t + i, a->k + (t + i) * a->ldk, w->U + i * s.W,
                          w->dU + i * s.W, a->dk + (t + i) * a->ldk, first);
}
#endif
