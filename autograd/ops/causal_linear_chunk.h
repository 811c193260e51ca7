/* causal_linear_chunk.h -- one chunk of causal_linear, in the letters of its derivation: how the
 * work is cut, the matrices of a chunk, the products.  Included by causal_linear.c alone. */
#ifndef LA_CAUSAL_LINEAR_CHUNK_H
#define LA_CAUSAL_LINEAR_CHUNK_H
#include "autograd/attention/attention.h"
#include "autograd/kernel.h"
#include "tensor/blas.h"

enum {
    CHUNK = 32,
    SLICE = 1024, /* reals of a state whose running sums a block takes */
};

typedef struct dims {
    int64_t B, T, H, D, Dk, E, m, L, C, chunks; /* D of q, Dk of k; L = m (E+1), one state      */
    int64_t group, groups;     /* heads of a block; blocks beside each other       */
    int64_t segment, segments; /* chunks of a block; blocks after each other       */
    int64_t slices;            /* blocks of a state in the scan                    */
    double  eps;
} dims;

static inline dims get(const la_node *n) {
    la_shape q = n->in[0]->shape;
    dims     s = {.B = q.d[0], .T = q.d[1], .H = q.d[2], .D = q.d[3], .E = n->in[2]->shape.d[3]};
    const la_attn_cfg *c = la_attn_cfg_of(n);
    s.Dk = n->in[1]->shape.d[3];
    s.m = la_attn_map(c, 1) ? la_attn_map(c, 1)->width(c, s.Dk) : s.Dk;
    s.L = s.m * (s.E + 1);
    s.eps = c->eps;
    la_scan cut = la_attn_scan(n, CHUNK, la_max(s.m, s.E), s.L);
    s.C = cut.chunk, s.chunks = cut.chunks, s.group = cut.group, s.groups = cut.groups;
    s.segment = cut.segment, s.segments = cut.segments;
    s.slices = la_ceil_div(s.L, SLICE);
    return s;
}

/* One thread's scratch: the rows of a chunk for all heads of the block, and the matrices of one
 * head at a time.  T marks a transpose. */
typedef struct work {
    la_real *A, *B, *dA, *dB;  /* (C,group,m)                          */
    la_real *U, *w;            /* (C,group,E) (C,group)                */
    la_real *BT, *P, *dP, *VT; /* (m,C) (C,C) (C,C) (E,C)              */
    la_real *XT;               /* (E,m): S' and then R'                */
    la_real *S, *R;            /* (group,L) (group,L)                  */
} work;

static inline size_t carve(dims s, la_real *at, work *w) {
    const la_part parts[] = {
        {&w->A, s.C * s.group * s.m},  {&w->B, s.C * s.group * s.m}, {&w->dA, s.C * s.group * s.m},
        {&w->dB, s.C * s.group * s.m}, {&w->U, s.C * s.group * s.E}, {&w->w, s.C * s.group},
        {&w->BT, s.m * s.C},           {&w->P, s.C * s.C},           {&w->dP, s.C * s.C},
        {&w->VT, s.E * s.C},           {&w->XT, s.E * s.m},          {&w->S, s.group * s.L},
        {&w->R, s.group * s.L},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
}

/* The heads of a block: where their first rows begin, how far apart a token's rows are, and what
 * one of them has for itself, `number` being its place in (B,H). */
typedef struct heads {
    const la_real *q, *k, *v, *g;
    la_real       *o, *dq, *dk, *dv; /* gradients: NULL if nobody needs them                    */
    int64_t        ldq, ldk, ldv, ldo, number, past;
    const la_real *state, *dstate_out; /* (B,H,L); NULL without                         */
    la_real       *state_out, *dstate; /* (B,H,L); NULL without                         */
    la_real       *S, *D;              /* (B,H,chunks,L) (B,T,H); NULL: not kept          */
    la_real       *sums;               /* (B,H,segments,L), if there are several        */
} heads;

static inline heads find(const la_node *n, dims s, int64_t b, int64_t h, la_real *common) {
    const la_node *q = n->in[0], *k = n->in[1], *v = n->in[2];
    heads          a = {.ldq = q->ld, .ldk = k->ld, .ldv = v->ld, .ldo = n->ld};
    a.number = b * s.H + h;
    a.q = q->x + la_token(q, b, 0, h), a.dq = la_plus(q->g, la_token(q, b, 0, h));
    a.k = k->x + la_token(k, b, 0, h), a.dk = la_plus(k->g, la_token(k, b, 0, h));
    a.v = v->x + la_token(v, b, 0, h), a.dv = la_plus(v->g, la_token(v, b, 0, h));
    a.o = n->x + la_token(n, b, 0, h), a.g = la_plus(n->g, la_token(n, b, 0, h));
    a.past = la_attn_past(n, b);
    if (n->n_out == 2) {
        const la_node *state = la_attn_at(n, LA_AT_STATE);
        a.state = state->x, a.dstate = state->g;
        a.state_out = n->out[1]->x, a.dstate_out = n->out[1]->g;
    }
    a.S = n->saved;
    a.D = la_plus(n->saved, s.B * s.H * s.chunks * s.L + b * s.T * s.H + h);
    a.sums = common;
    return a;
}

/* S, z of head h of the block before chunk c. */
static inline la_real *saved_state(dims s, const heads *a, int64_t h, int64_t c) {
    return a->S + ((a->number + h) * s.chunks + c) * s.L;
}

/* y = phi(x) for the rows of a token's heads, one after the other; q has which = 0, k has 1. */
static inline void map_rows(const la_node *n, dims s, int which, int64_t t, const la_real *x,
                            la_real *y) {
    const la_map     *map = la_attn_map(la_attn_cfg_of(n), which);
    const int64_t     D = which ? s.Dk : s.D;
    const la_map_rows rows = {s.group, D, t, la_attn_cfg_of(n)};
    if (map)
        map->forward(&rows, x, y);
    else
        memcpy(y, x, (size_t)(s.group * D) * sizeof *y);
}

static inline void map_rows_backward(const la_node *n, dims s, int which, int64_t t,
                                     const la_real *x, const la_real *y, const la_real *dy,
                                     la_real *dx) {
    const la_map     *map = la_attn_map(la_attn_cfg_of(n), which);
    const int64_t     D = which ? s.Dk : s.D;
    const la_map_rows rows = {s.group, D, t, la_attn_cfg_of(n)};
    if (map)
        map->backward(&rows, x, y, dy, dx);
    else
        la_vec_table()->axpy(s.group * D, 1, dy, dx);
}

/* The rows of the chunk at token t, and `next` tokens on (or back, below 0) those that are needed
 * soon: a token's heads are a part of its row only, and the processor does not see the pattern. */
static inline void load_keys(const la_node *n, dims s, const heads *a, work *w, int64_t t,
                             int64_t C, int64_t next) {
    for (int64_t i = 0; i < C; i++) {
        la_prefetch(s.group * s.Dk, a->k, (t + i + next) * a->ldk);
        la_prefetch(s.group * s.E, a->v, (t + i + next) * a->ldv);
        map_rows(n, s, 1, a->past + t + i, a->k + (t + i) * a->ldk, w->B + i * s.group * s.m);
    }
}

static inline void load_queries(const la_node *n, dims s, const heads *a, work *w, int64_t t,
                                int64_t C, int64_t next) {
    for (int64_t i = 0; i < C; i++) {
        la_prefetch(s.group * s.D, a->q, (t + i + next) * a->ldq);
        la_prefetch(s.group * s.E, a->o, (t + i + next) * a->ldo);
        map_rows(n, s, 0, a->past + t + i, a->q + (t + i) * a->ldq, w->A + i * s.group * s.m);
    }
}

/* P of head h from A and B. */
static inline void load_weights(dims s, work *w, int64_t h, int64_t C) {
    const int64_t ld = s.group * s.m;
    la_transpose(C, s.m, w->B + h * s.m, ld, w->BT);
    la_gemm_nn(LA_SET | LA_C_LOWER, C, C, s.m, w->A + h * s.m, ld, w->BT, C, w->P, C);
    la_keep_lower(C, w->P);
}

/* S += B' V, z += B' 1 */
static inline void add_keys(dims s, const heads *a, const work *w, int64_t h, int64_t t, int64_t C,
                            la_real *S) {
    const int64_t  ld = s.group * s.m;
    const la_real *B = w->B + h * s.m, *v = a->v + t * a->ldv + h * s.E;
    la_gemm_tn(LA_ADD, s.m, s.E, C, B, ld, v, a->ldv, S, s.E);
    la_vec_table()->add_rows(C, s.m, B, ld, NULL, 0, S + s.m * s.E);
}

/* R += A' U, r += A' w */
static inline void add_queries(dims s, const work *w, int64_t h, int64_t C, la_real *R) {
    const int64_t  ld = s.group * s.m;
    const la_real *A = w->A + h * s.m;
    la_gemm_tn(LA_ADD, s.m, s.E, C, A, ld, w->U + h * s.E, s.group * s.E, R, s.E);
    la_vec_table()->add_rows(C, s.m, A, ld, w->w + h, s.group, R + s.m * s.E);
}

/* o of head h for the chunk at token t, from A, P and the state S, z before it. */
static inline void chunk_forward(dims s, const heads *a, work *w, int64_t h, int64_t t, int64_t C,
                                 const la_real *S) {
    const int64_t  ld = s.group * s.m;
    const la_real *A = w->A + h * s.m, *z = S + s.m * s.E;
    la_real       *o = a->o + t * a->ldo + h * s.E;
    la_gemm_nn(LA_SET, C, s.E, s.m, A, ld, S, s.E, o, a->ldo);
    la_gemm_nn(LA_ADD | LA_A_LOWER, C, s.E, C, w->P, C, a->v + t * a->ldv + h * s.E, a->ldv, o,
               a->ldo);
    la_vec_table()->normalise(C, s.m, s.E, A, ld, z, w->P, C, R(s.eps), la_plus(a->D, t * s.H + h),
                              s.H, o, a->ldo);
}

/* U and w of a chunk: step 1. */
static inline void load_gradient(dims s, const heads *a, work *w, int64_t t, int64_t C) {
    for (int64_t i = 0; i < C; i++) {
        int64_t at = (t + i) * a->ldo;
        la_prefetch(s.group * s.E, a->g, at - s.C * a->ldo);
        la_vec_table()->normalise_backward(s.group, s.E, a->g + at, a->o + at, a->D + (t + i) * s.H,
                                           w->U + i * s.group * s.E, w->w + i * s.group);
    }
}

/* dA, dB and dv of head h for the chunk at token t, from A, B, P, U, w, the state S, z before it
 * and R, r from after it. */
static inline void chunk_backward(dims s, const heads *a, work *w, int64_t h, int64_t t, int64_t C,
                                  const la_real *S, const la_real *R, int first_dv) {
    const int64_t  ld = s.group * s.m, ldu = s.group * s.E;
    const la_real *z = S + s.m * s.E, *r = R + s.m * s.E, *v = a->v + t * a->ldv + h * s.E;
    const la_real *A = w->A + h * s.m, *B = w->B + h * s.m, *U = w->U + h * s.E;
    la_real       *dA = w->dA + h * s.m, *dB = w->dB + h * s.m;
    la_transpose(C, s.E, v, a->ldv, w->VT);
    for (int64_t i = 0; i < C; i++)
        for (int64_t j = 0; j < C; j++) w->dP[i * C + j] = w->w[i * s.group + h];
    la_gemm_nn(LA_ADD | LA_C_LOWER, C, C, s.E, U, ldu, w->VT, C, w->dP, C);
    la_keep_lower(C, w->dP);
    if (a->dq) {
        la_vec_table()->outer(C, s.m, w->w + h, s.group, z, dA, ld);
        la_transpose(s.m, s.E, S, s.E, w->XT);
        la_gemm_nn(LA_ADD, C, s.m, s.E, U, ldu, w->XT, s.m, dA, ld);
        la_gemm_nn(LA_ADD | LA_A_LOWER, C, s.m, C, w->dP, C, B, ld, dA, ld);
    }
    if (a->dk) {
        la_vec_table()->outer(C, s.m, NULL, 0, r, dB, ld);
        la_transpose(s.m, s.E, R, s.E, w->XT);
        la_gemm_nn(LA_ADD, C, s.m, s.E, v, a->ldv, w->XT, s.m, dB, ld);
        la_gemm_tn(LA_ADD | LA_A_UPPER, C, s.m, C, w->dP, C, A, ld, dB, ld);
    }
    if (a->dv) {
        la_real *dv = a->dv + t * a->ldv + h * s.E;
        la_gemm_nn(first_dv ? LA_SET : LA_ADD, C, s.E, s.m, B, ld, R, s.E, dv, a->ldv);
        la_gemm_tn(LA_ADD | LA_A_UPPER, C, s.E, C, w->P, C, U, ldu, dv, a->ldv);
    }
}

/* dx, the rows of the chunk at token t, from dy; = instead of += if it is the first writer. */
static inline void store_gradient(const la_node *n, dims s, int which, int64_t t, int64_t C,
                                  const la_real *x, int64_t ld, const la_real *y, const la_real *dy,
                                  la_real *dx, int first) {
    const int64_t width = s.group * (which ? s.Dk : s.D), m = s.group * s.m;
    for (int64_t i = 0; i < C; i++, x += ld, dx += ld, y += m, dy += m) {
        la_prefetch(width, dx, -s.C * ld);
        if (first) memset(dx, 0, (size_t)width * sizeof *dx);
        map_rows_backward(n, s, which, t + i, x, y, dy, dx);
    }
}

static inline void copy_or_zero(int64_t n, const la_real *x, la_real *y) {
    if (x)
        memcpy(y, x, (size_t)n * sizeof *y);
    else
        memset(y, 0, (size_t)n * sizeof *y);
}
#endif
