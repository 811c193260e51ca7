/* linformer_tile.h -- what linformer.c is made of: sizes, a block's scratch, one batch row, and
 * some tokens of one head forward and backward.  The letters are those of linformer.c. */
#ifndef LA_LINFORMER_TILE_H
#define LA_LINFORMER_TILE_H
#include "autograd/attention/attention.h"
#include "autograd/kernel.h"
#include "tensor/blas.h"

enum {
    TILE = 64,    /* tokens */
    BLOCKS = 16,  /* at least, where the texts are long enough */
    SLICE = 8192, /* reals of X that one block adds up */
};

typedef struct dims {
    int64_t B, T, H, D, E, r, length;
    int64_t C, tiles;          /* tokens; of the text                                          */
    int64_t segment, segments; /* tokens of one, a multiple of C; in the text                  */
    int64_t keys, X;           /* reals of K~, and of X                                        */
    int64_t slices, ld;        /* of X; of P and dS: r up to a multiple of 16                  */
    la_real scale;
} dims;

static inline dims get(const la_node *n) {
    const la_attn_cfg *c = la_attn_cfg_of(n);
    la_shape           q = n->in[0]->shape, v = n->in[2]->shape;
    dims s = {.B = q.d[0], .T = q.d[1], .H = q.d[2], .D = q.d[3], .E = v.d[3], .r = c->r};
    s.length = c->length;
    s.C = la_attn_chunk(n, TILE);
    s.tiles = la_ceil_div(s.T, s.C);
    s.segment = la_ceil_div(s.tiles, la_ceil_div(BLOCKS, s.B)) * s.C;
    s.segments = la_ceil_div(s.T, s.segment);
    s.keys = s.r * s.H * s.D;
    s.X = s.keys + s.r * s.H * s.E;
    s.slices = la_ceil_div(s.X, SLICE);
    s.ld = la_ceil_div(s.r, 16) * 16;
    s.scale = 1 / sqrt(R(s.D));
    return s;
}

/* --- one block's scratch.  T marks a transpose --- */
typedef struct work {
    la_real *KT, *K, *VT;        /* K~' and K~, both / sqrt D: (H D,r) (r,H D); V~' (H E,r)   */
    la_real *P, *dS;             /* (C,ld) of one head                                        */
    la_real *m, *l, *shrink, *d; /* (C)                                                       */
    la_real *dW, *dWT;           /* (r,C) (C,r): columns of dW, or of dU                      */
} work;

static inline size_t carve(dims s, la_real *at, work *w) {
    const la_part parts[] = {
        {&w->KT, s.keys},     {&w->K, s.keys},     {&w->VT, s.X - s.keys}, {&w->P, s.C * s.ld},
        {&w->dS, s.C * s.ld}, {&w->m, s.C},        {&w->l, s.C},           {&w->shrink, s.C},
        {&w->d, s.C},         {&w->dW, s.C * s.r}, {&w->dWT, s.C * s.r},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
}

/* --- one batch row: its first rows, of all heads --- */
typedef struct row {
    const la_real *q, *k, *v, *g, *W, *U;
    la_real       *o, *dq, *dk, *dv;
    la_real       *lse;    /* (H,T), or NULL                                                */
    la_real       *X, *dX; /* their sum over segments; forward has no dX                    */
    la_real       *parts;  /* X or dX of each segment                                       */
    int64_t        N, ldq, ldk, ldv, ldo;
} row;

static inline row find(const la_node *n, dims s, int64_t b, la_real *common) {
    const la_node *q = n->in[0], *k = n->in[1], *v = n->in[2];
    const la_node *W = la_attn_at(n, LA_AT_WEIGHT), *U = la_attn_at(n, LA_AT_WEIGHT_K);
    row            a = {.ldq = q->ld, .ldk = k->ld, .ldv = v->ld, .ldo = n->ld};
    const int64_t  at = la_token(n, b, 0, 0), atq = la_token(q, b, 0, 0);
    const int64_t  atk = la_token(k, b, 0, 0), atv = la_token(v, b, 0, 0);
    a.N = la_attn_tokens(n, b);
    a.q = q->x + atq, a.k = k->x + atk, a.v = v->x + atv, a.o = n->x + at;
    a.dq = la_plus(q->g, atq), a.dk = la_plus(k->g, atk), a.dv = la_plus(v->g, atv);
    a.g = la_plus(n->g, at), a.W = W->x, a.U = U->x;
    a.parts = common + b * s.segments * s.X;
    a.dX = common + (s.B * s.segments + b) * s.X;
    a.X = n->saved ? n->saved + b * s.X : a.dX; /* the one or the other is there */
    a.lse = la_plus(n->saved, s.B * s.X + b * s.T * s.H);
    return a;
}

/* Tokens from .. to - 1 of tile or segment i, those that are valid. */
static inline la_range valid(const row *a, int64_t size, int64_t i) {
    return (la_range){la_min(a->N, i * size), la_min(a->N, (i + 1) * size)};
}

/* The tiles of a segment that have valid tokens. */
static inline la_range tiles_of(dims s, const row *a, int64_t segment) {
    const la_range t = valid(a, s.segment, segment);
    return (la_range){la_ceil_div(t.from, s.C), la_ceil_div(t.to, s.C)};
}

/* Rows of padding among those of tile or segment i are 0. */
static inline void clear_padding(dims s, const row *a, int64_t size, int64_t i, int64_t len,
                                 la_real *y, int64_t ld) {
    for (int64_t t = la_max(a->N, i * size); t < la_min(s.T, (i + 1) * size); t++)
        memset(y + t * ld, 0, (size_t)len * sizeof *y);
}

/* K~' / sqrt D */
static inline void load_rows(dims s, const row *a, const work *w) {
    la_transpose(s.r, s.H * s.D, a->X, s.H * s.D, w->KT);
    la_vec_table()->scale(s.keys, s.scale, w->KT, w->KT);
}

/* o of head h for tokens t: P = softmax(Q K~' / sqrt D), o = P V~ */
static inline void forward_tile(dims s, const row *a, const work *w, int64_t h, la_range t) {
    const la_vec  *vec = la_vec_table();
    const int64_t  N = t.to - t.from, HE = s.H * s.E;
    const la_real *V = a->X + s.keys + h * s.E;
    la_gemm_nn(LA_SET, N, s.r, s.D, a->q + t.from * a->ldq + h * s.D, a->ldq, w->KT + h * s.D * s.r,
               s.r, w->P, s.ld);
    for (int64_t i = 0; i < N; i++) w->m[i] = R(-INFINITY), w->l[i] = 0;
    vec->softmax(N, s.r, 0, w->P, s.ld, w->m, w->l, w->shrink);
    for (int64_t i = 0; i < N; i++) {
        vec->scale(s.r, 1 / w->l[i], w->P + i * s.ld, w->P + i * s.ld);
        if (a->lse) a->lse[h * s.T + t.from + i] = w->m[i] + log(w->l[i]);
    }
    la_gemm_nn(LA_SET, N, s.E, s.r, w->P, s.ld, V, HE, a->o + t.from * a->ldo + h * s.E, a->ldo);
}

/* dq of head h for tokens t, and what these add to dX, dK~ without its 1/sqrt D: steps 1 and 2. */
static inline void backward_tile(dims s, const row *a, const work *w, int64_t h, la_range t,
                                 int set, la_real *dX) {
    const la_vec  *vec = la_vec_table();
    const int64_t  N = t.to - t.from, HD = s.H * s.D, HE = s.H * s.E;
    const la_real *q = a->q + t.from * a->ldq + h * s.D, *g = a->g + t.from * a->ldo + h * s.E;
    const la_real *o = a->o + t.from * a->ldo + h * s.E;
    la_gemm_nn(LA_SET, N, s.r, s.D, q, a->ldq, w->KT + h * s.D * s.r, s.r, w->P, s.ld);
    la_gemm_nn(LA_SET, N, s.r, s.E, g, a->ldo, w->VT + h * s.E * s.r, s.r, w->dS, s.ld);
    for (int64_t i = 0; i < N; i++) w->d[i] = vec->dot(s.E, g + i * a->ldo, o + i * a->ldo);
    vec->softmax_backward(N, s.r, 0, a->lse + h * s.T + t.from, w->d, w->P, w->dS, s.ld);
    la_gemm_tn(LA_ADD, s.r, s.D, N, w->dS, s.ld, q, a->ldq, dX + h * s.D, HD);
    la_gemm_tn(LA_ADD, s.r, s.E, N, w->P, s.ld, g, a->ldo, dX + s.keys + h * s.E, HE);
    if (a->dq)
        la_gemm_nn(set ? LA_SET : LA_ADD, N, s.D, s.r, w->dS, s.ld, w->K + h * s.D, HD,
                   a->dq + t.from * a->ldq + h * s.D, a->ldq);
}
#endif
