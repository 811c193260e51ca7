/* softmax_tile.h -- what softmax.c is made of: sizes, one head of a batch row, a block's scratch,
 * one tile of queries forward, one tile of keys backward.  The letters are those of softmax.c. */
#ifndef LA_SOFTMAX_TILE_H
#define LA_SOFTMAX_TILE_H
#include "autograd/attention/attention.h"
#include "autograd/kernel.h"
#include "tensor/blas.h"

enum {
    TILE = 256,  /* queries, and keys: what backward has of a tile stays in an L2 of 1 MiB     */
    LEAST = 64,  /* and down to this where a text has too few tiles for its strips             */
    BLOCKS = 16, /* at least, where the texts are long enough                                  */
    FEW = 3,     /* queries: with fewer a score is a dot product with the key as it lies       */
};

/* What a score makes of a pair of tokens: exp(s), or 1 + s + s^2/2. */
typedef enum weights { EXPONENTIAL, TAYLOR2 } weights;

/* Sizes, by shapes alone. */
typedef struct dims {
    int64_t B, T, H, D, E, capacity;
    int64_t C, tiles; /* of T tokens                                                           */
    int64_t strips;   /* blocks of a head                                                      */
    int64_t ld;       /* of S, P, dP, dS: C up to a multiple of 16                             */
    int     both;     /* ways: every token sees every other                                    */
    weights weights;
    la_real scale, eps;
} dims;

static inline dims get(const la_node *n, weights kind) {
    la_shape           q = n->in[0]->shape;
    const la_attn_cfg *c = la_attn_cfg_of(n);
    dims s = {.B = q.d[0], .T = q.d[1], .H = q.d[2], .D = q.d[3], .E = n->in[2]->shape.d[3]};
    s.scale = 1 / sqrt(R(s.D));
    s.both = c->bidirectional;
    s.weights = kind;
    s.eps = R(c->eps);
    s.capacity = la_attn_room(n);
    s.strips = la_ceil_div(BLOCKS, s.B * s.H);
    s.C = c->chunk > 0 ? c->chunk : TILE;
    if (c->chunk <= 0 && s.strips > 1 && s.T > LEAST)
        while (s.C > LEAST && s.T < 2 * s.strips * s.C) s.C /= 2;
    s.C = la_min(s.C, la_max(s.T, s.capacity));
    s.tiles = la_ceil_div(s.T, s.C);
    s.strips = la_max(1, la_min(s.strips, s.tiles / 2));
    s.ld = la_ceil_div(s.C, 16) * 16;
    return s;
}

/* A block's scratch, forward and backward.  T marks a transpose. */
typedef struct ahead {
    la_real *KT, *Q, *P, *O; /* (D,C) for each tile of keys; (C,D) (C,ld) (C,E)               */
    la_real *m, *l, *shrink; /* (C) (C) (C): exp(m - m')                                       */
} ahead;

typedef struct back {
    la_real *Q, *G, *d;            /* (T,D) (T,E) (T): of the whole text                       */
    la_real *K, *KT, *VT, *P, *dS; /* (C,D) (D,C) (E,C) (C,ld) (C,ld)                          */
    la_real *dK, *dV;              /* (C,D) (C,E)                                              */
} back;

static inline size_t carve_ahead(dims s, la_real *at, ahead *w) {
    const la_part parts[] = {
        {&w->KT, s.T < FEW ? 0 : la_max(s.T, s.capacity) * s.D},
        {&w->Q, s.C * s.D},
        {&w->P, s.C * s.ld},
        {&w->O, s.C * s.E},
        {&w->m, s.C},
        {&w->l, s.C},
        {&w->shrink, s.C},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
}

static inline size_t carve_back(dims s, la_real *at, back *w) {
    const la_part parts[] = {
        {&w->Q, s.T * s.D},  {&w->G, s.T * s.E},  {&w->d, s.T},        {&w->K, s.C * s.D},
        {&w->KT, s.D * s.C}, {&w->VT, s.E * s.C}, {&w->P, s.C * s.ld}, {&w->dS, s.C * s.ld},
        {&w->dK, s.C * s.D}, {&w->dV, s.C * s.E},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
}

/* One head of a batch row: how long its text is, where its first rows begin, and how far apart they
 * are. */
typedef struct head {
    int64_t        number;                  /* in (B,H)                                         */
    int64_t        N, tiles;                /* valid tokens, and their tiles: s.tiles, or fewer */
    int64_t        past, old;               /* tokens before them, in the cache, and their tiles */
    const la_real *q, *k, *v, *g;           /* keys and values lie in the cache if there is one */
    la_real       *o, *norm, *dq, *dk, *dv; /* but for o, NULL where nobody needs them; norm:
                                               lse, or l + eps                                  */
    la_real       *dcache;                  /* (L), of the state that came in, or NULL          */
    int64_t        ldq, ldk, ldv, lddk, lddv, ldo;
} head;

/* The tokens of tile c that are valid. */
static inline la_range query_tile(dims s, const head *a, int64_t c) {
    return (la_range){la_min(a->N, c * s.C), la_min(a->N, (c + 1) * s.C)};
}

/* The keys of a tile: first come the tiles of the cache, then those of the tokens, so that tile c
 * of queries is tile old + c of keys. */
static inline la_range key_tile(dims s, const head *a, int64_t tile) {
    if (tile < a->old) return la_cut(a->past, s.C, tile);
    la_range r = la_cut(a->N, s.C, tile - a->old);
    return (la_range){a->past + r.from, a->past + r.to};
}

/* How many tiles of keys the queries of tile c see. */
static inline int64_t seen_tiles(dims s, const head *a, int64_t c) {
    return a->old + (s.both ? a->tiles : c + 1);
}

/* The first tile of queries that sees this tile of keys. */
static inline int64_t first_query(dims s, const head *a, int64_t tile) {
    return s.both ? 0 : la_max(0, tile - a->old);
}

/* Whether the diagonal goes through this tile of scores. */
static inline int on_diagonal(dims s, const head *a, int64_t c, int64_t tile) {
    return !s.both && tile == a->old + c;
}

static inline void scale_rows(int64_t rows, int64_t n, la_real k, const la_real *x, int64_t ldx,
                              la_real *y) {
    for (int64_t i = 0; i < rows; i++) la_vec_table()->scale(n, k, x + i * ldx, y + i * n);
}

static inline void prefetch_rows(int64_t rows, int64_t n, const la_real *x, int64_t ldx) {
    for (int64_t i = 0; i < rows; i++) la_prefetch(n, x, i * ldx);
}

/* y += x, or y = x, row by row. */
static inline void put_rows(int64_t rows, int64_t n, int set, const la_real *x, la_real *y,
                            int64_t ldy) {
    for (int64_t i = 0; i < rows; i++, x += n, y += ldy)
        if (set)
            memcpy(y, x, (size_t)n * sizeof *y);
        else
            la_vec_table()->axpy(n, 1, x, y);
}

/* y = 0, for rows from `from` on. */
static inline void clear_rows(int64_t from, int64_t to, int64_t n, la_real *y, int64_t ldy) {
    for (int64_t i = from; i < to; i++) memset(y + i * ldy, 0, (size_t)n * sizeof *y);
}

/* A tile of scores becomes weights P.  The sums l move on, and with exponentials m and O do. */
static inline void weigh(dims s, const ahead *w, int64_t rows, int64_t keys, int lower, int first) {
    const la_vec *vec = la_vec_table();
    if (s.weights == TAYLOR2) {
        vec->taylor2(rows, keys, lower, w->P, s.ld, w->l);
        return;
    }
    vec->softmax(rows, keys, lower, w->P, s.ld, w->m, w->l, w->shrink);
    for (int64_t r = 0; r < rows && !first; r++)
        if (w->shrink[r] != 1) vec->scale(s.E, w->shrink[r], w->O + r * s.E, w->O + r * s.E);
}

/* What O of row r is divided by; *norm: what backward has in its place. */
static inline la_real divisor(dims s, const ahead *w, int64_t r, la_real *norm) {
    if (s.weights == TAYLOR2) return *norm = w->l[r] + s.eps;
    *norm = w->m[r] + log(w->l[r]);
    return w->l[r];
}

/* o and norm of the queries of tile c. */
static inline void forward_tile(dims s, const head *a, const ahead *w, int64_t c) {
    const la_vec *vec = la_vec_table();
    la_range      i = query_tile(s, a, c);
    int64_t       rows = i.to - i.from;
    scale_rows(rows, s.D, s.scale, a->q + i.from * a->ldq, a->ldq, w->Q);
    for (int64_t r = 0; r < rows; r++) w->m[r] = R(-INFINITY), w->l[r] = 0;
    for (int64_t tile = 0; tile < seen_tiles(s, a, c); tile++) {
        la_range       j = key_tile(s, a, tile);
        const int64_t  keys = j.to - j.from;
        const int      lower = on_diagonal(s, a, c, tile);
        const la_real *k = a->k + j.from * a->ldk, *v = a->v + j.from * a->ldv;
        if (!lower) prefetch_rows(keys, s.E, v + keys * a->ldv, a->ldv);
        if (s.T < FEW)
            la_gemm_nt(LA_SET, rows, keys, s.D, w->Q, s.D, k, a->ldk, w->P, s.ld);
        else
            la_gemm_nn(LA_SET | (lower ? LA_C_LOWER : 0), rows, keys, s.D, w->Q, s.D,
                       w->KT + j.from * s.D, keys, w->P, s.ld);
        weigh(s, w, rows, keys, lower, tile == 0);
        la_gemm_nn((tile ? LA_ADD : LA_SET) | (lower ? LA_A_LOWER : 0), rows, s.E, keys, w->P, s.ld,
                   v, a->ldv, w->O, s.E);
    }
    for (int64_t r = 0; r < rows; r++) {
        la_real norm, l = divisor(s, w, r, &norm);
        vec->scale(s.E, 1 / l, w->O + r * s.E, a->o + (i.from + r) * a->ldo);
        if (a->norm) a->norm[i.from + r] = norm;
    }
}

/* Q, G and d of the valid tokens from t on. */
static inline void load_queries(dims s, const head *a, const back *w, int64_t t) {
    for (; t < a->N; t++) {
        const la_real *g = a->g + t * a->ldo;
        la_vec_table()->scale(s.D, s.scale, a->q + t * a->ldq, w->Q + t * s.D);
        memcpy(w->G + t * s.E, g, (size_t)s.E * sizeof *g);
        w->d[t] = la_vec_table()->dot(s.E, g, a->o + t * a->ldo);
    }
}

/* dK and dV of a tile of keys, and dQ (T,D) += what these add to it, with ld between rows; = if
 * set, which is for the first tile of a strip: every query that sees one of the strip sees it. */
static inline void backward_tile(dims s, const head *a, const back *w, int64_t tile, int set,
                                 la_real *dQ, int64_t ld) {
    const la_vec  *vec = la_vec_table();
    const la_range j = key_tile(s, a, tile);
    const int64_t  keys = j.to - j.from, from = first_query(s, a, tile);
    la_transpose(keys, s.D, a->k + j.from * a->ldk, a->ldk, w->KT);
    la_transpose(keys, s.E, a->v + j.from * a->ldv, a->ldv, w->VT);
    scale_rows(keys, s.D, s.scale, a->k + j.from * a->ldk, a->ldk, w->K);
    for (int64_t c = from; c < a->tiles; c++) {
        const la_range i = query_tile(s, a, c);
        const int64_t  rows = i.to - i.from;
        const int      lower = on_diagonal(s, a, c, tile);
        const la_real *Q = w->Q + i.from * s.D, *G = w->G + i.from * s.E;
        const unsigned scores = LA_SET | (lower ? LA_C_LOWER : 0);
        const unsigned sum = (c > from ? LA_ADD : LA_SET) | (lower ? LA_A_UPPER : 0);
        if (dQ) prefetch_rows(rows, s.D, dQ + i.from * ld, ld);
        la_gemm_nn(scores, rows, keys, s.D, Q, s.D, w->KT, keys, w->P, s.ld);
        la_gemm_nn(scores, rows, keys, s.E, G, s.E, w->VT, keys, w->dS, s.ld);
        (s.weights == TAYLOR2 ? vec->taylor2_backward : vec->softmax_backward)(
            rows, keys, lower, a->norm + i.from, w->d + i.from, w->P, w->dS, s.ld);
        la_gemm_tn(sum, keys, s.E, rows, w->P, s.ld, G, s.E, w->dV, s.E);
        la_gemm_tn(sum, keys, s.D, rows, w->dS, s.ld, Q, s.D, w->dK, s.D);
        if (dQ)
            la_gemm_nn((set ? LA_SET : LA_ADD) | (lower ? LA_A_LOWER : 0), rows, s.D, keys, w->dS,
                       s.ld, w->K, s.D, dQ + i.from * ld, ld);
    }
}
#endif
