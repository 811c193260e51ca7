/* sparse_softmax_chunk.h -- for sparse_softmax.c, in its letters: what a block works on, and how
 * the rows of a list of positions are gathered, and added to where they came from. */
#ifndef LA_SPARSE_SOFTMAX_CHUNK_H
#define LA_SPARSE_SOFTMAX_CHUNK_H
#include "autograd/kernel.h"
#include "autograd/ops/sparse_softmax.h"

enum {
    KEYS = 256,   /* of a tile: what is gathered of it stays in the L2                         */
    QUERIES = 16, /* of a tile: with more, more of what is computed lies outside of the ranges;
                     12, 24 and 32 were up to 15 % slower                                       */
    WIDE = 16,    /* columns of a product at a time; ld is a multiple, and not a power of 2     */
    AHEAD = 6,    /* rows that are asked for before they are gathered                          */
};

typedef struct dims {
    int64_t T, H, D, E, room; /* room: rows of the state                                       */
    int64_t C, R, ld;         /* keys and queries of a tile; of P and dS                       */
    int64_t keys;             /* positions there may be                                        */
    la_real scale;
} dims;

static dims get(const la_node *n) {
    const la_attn_cfg *c = la_attn_cfg_of(n);
    la_shape           q = n->in[0]->shape;
    dims               s = {.T = q.d[1], .H = q.d[2], .D = q.d[3], .E = n->in[2]->shape.d[3]};
    s.scale = 1 / sqrt(R(s.D));
    const la_node *state = la_attn_at(n, LA_AT_STATE);
    if (state)
        s.room = c->variant->sparse->ring ? state->shape.d[2] / (s.D + s.E) : la_attn_room(n);
    s.keys = s.T + s.room;
    s.C = la_min(c->chunk > 0 ? c->chunk : KEYS, s.keys);
    s.R = la_min(la_min(QUERIES, s.C), s.T);
    s.ld = la_ceil_div(s.C, 16) * 16 + 16;
    return s;
}

typedef struct work {
    la_real *m, *l;                  /* (T) (T); backward d and lse                             */
    la_real *Q, *G, *O;              /* (R,D) (R,E) (R,E); backward O is dQ (R,D)               */
    la_real *K, *V, *KT, *VT, *r;    /* (C,D) (C,E) (D,ld) (E,ld) (C)                             */
    la_real *P, *dS, *dK, *dV;       /* (R,ld) (R,ld) (C,D) (C,E)                               */
    la_real *row_m, *row_l, *shrink; /* (R): of the tile's rows                                */
    la_real *lo, *hi;                /* (R) integers, in the columns of the tile                */
    la_real *lists[4], *own;         /* integers, of the group; the pattern's                    */
} work;

static size_t carve(const la_node *n, dims s, la_real *at, work *w) {
    const la_attn_cfg *c = la_attn_cfg_of(n);
    const la_sparse   *p = c->variant->sparse;
    const la_part      parts[] = {
             {&w->m, s.T},
             {&w->l, s.T},
             {&w->Q, s.R * s.D},
             {&w->G, s.R * s.E},
             {&w->O, s.R * la_max(s.D, s.E)},
             {&w->K, s.C * s.D},
             {&w->V, s.C * s.E},
             {&w->KT, s.D * s.ld},
             {&w->VT, s.E * s.ld},
             {&w->r, s.C},
             {&w->P, s.R * s.ld},
             {&w->dS, s.R * s.ld},
             {&w->dK, s.C * s.D},
             {&w->dV, s.C * s.E},
             {&w->row_m, s.R},
             {&w->row_l, s.R},
             {&w->shrink, s.R},
             {&w->lo, s.R},
             {&w->hi, s.R},
             {&w->lists[0], s.T},
             {&w->lists[1], s.keys},
             {&w->lists[2], s.T},
             {&w->lists[3], s.T},
             {&w->own, p->own ? (int64_t)p->own(c, s.D, s.keys) : 0},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
}

/* One head of one row. */
typedef struct head {
    la_sparse_text   text;
    const la_sparse *p;
    int64_t          number, T, room; /* in (B,H); valid tokens; rows of the state        */
    const la_real   *q, *k, *v, *g;   /* of the first token                               */
    const la_real   *K, *V;           /* the state that came in                           */
    la_real         *o, *lse, *dq, *dk, *dv, *dK, *dV; /* but for o, NULL where not needed     */
    int64_t          ldq, ldk, ldv, ldo;
} head;

static head find(const la_node *n, dims s, const work *w, int64_t number) {
    const la_node *q = n->in[0], *k = n->in[1], *v = n->in[2];
    const la_node *state = la_attn_at(n, LA_AT_STATE), *weight = la_attn_at(n, LA_AT_WEIGHT);
    const int64_t  b = number / s.H, h = number % s.H, at = la_token(n, b, 0, h);
    const int64_t  atq = la_token(q, b, 0, h), atk = la_token(k, b, 0, h);
    const int64_t  atv = la_token(v, b, 0, h);
    head           a = {.number = number, .T = la_attn_tokens(n, b), .room = s.room, .ldq = q->ld};
    a.ldk = k->ld, a.ldv = v->ld, a.ldo = n->ld;
    a.q = q->x + atq, a.k = k->x + atk, a.v = v->x + atv, a.g = la_plus(n->g, at);
    a.dq = la_plus(q->g, atq), a.dk = la_plus(k->g, atk), a.dv = la_plus(v->g, atv);
    a.o = n->x + at, a.lse = la_plus(n->saved, number * s.T);
    a.text = (la_sparse_text){.cfg = la_attn_cfg_of(n), .past = la_attn_past(n, b), .D = s.D};
    a.text.end = a.text.past + a.T, a.text.tile = s.C, a.text.room = s.room;
    a.text.q = a.q, a.text.k = a.k, a.text.ldq = a.ldq, a.text.ldk = a.ldk;
    a.text.own = w->own;
    a.p = a.text.cfg->variant->sparse;
    if (weight) /* one for all heads, or one each */
        a.text.weight = weight->x + (weight->shape.n == 3 ? h * la_len(weight->shape) / s.H : 0);
    if (state) {
        const int64_t L = state->shape.d[2];
        a.K = state->x + number * L, a.V = a.K + s.room * s.D, a.text.old = a.V + s.room * s.E;
        a.dK = la_plus(state->g, number * L), a.dV = la_plus(a.dK, s.room * s.D);
    }
    if (a.p->begin) a.p->begin(&a.text);
    return a;
}

/* Row j of the keys or values: of the text x, or of the ring it continues. */
static const la_real *row_at(const head *a, const la_real *x, int64_t ld, const la_real *ring,
                             int64_t len, int64_t j) {
    return j >= a->text.past ? x + (j - a->text.past) * ld : ring + j % a->room * len;
}

static void gather(const head *a, int64_t n, const int32_t *list, const la_real *x, int64_t ld,
                   const la_real *ring, int64_t len, la_real *y) {
    for (int64_t i = 0; i < n; i++, y += len) {
        if (i + AHEAD < n) la_prefetch(len, row_at(a, x, ld, ring, len, list[i + AHEAD]), 0);
        memcpy(y, row_at(a, x, ld, ring, len, list[i]), (size_t)len * sizeof *y);
    }
}

/* Adds k y to the rows that those of the list come from; to NULL: nothing. */
static void scatter(const head *a, int64_t n, const int32_t *list, la_real k, const la_real *y,
                    int64_t len, la_real *x, int64_t ld, la_real *ring) {
    for (int64_t i = 0; i < n; i++, y += len) {
        const int64_t t = list[i] - a->text.past;
        la_real      *to = t >= 0 ? la_plus(x, t * ld) : la_plus(ring, list[i] % a->room * len);
        if (i + AHEAD < n && x) la_prefetch(len, x, (list[i + AHEAD] - a->text.past) * ld);
        if (to) la_vec_table()->axpy(len, k, y, to);
    }
}

static la_sparse_group group(const head *a, const work *w, int64_t i) {
    la_sparse_group g = {.q = (int32_t *)w->lists[0], .k = (int32_t *)w->lists[1]};
    g.lo = (int32_t *)w->lists[2], g.hi = (int32_t *)w->lists[3];
    a->p->group(&a->text, i, &g);
    return g;
}

/* K, in which 1/sqrt D is, K' and V of the keys of a tile. */
static void load_keys(dims s, const head *a, const work *w, const int32_t *list, int64_t n) {
    const la_vec *vec = la_vec_table();
    gather(a, n, list, a->k, a->ldk, a->K, s.D, w->K);
    gather(a, n, list, a->v, a->ldv, a->V, s.E, w->V);
    for (int64_t i = 0; i < n; i++) {
        la_real *k = w->K + i * s.D;
        w->r[i] = a->p->unit_keys ? 1 / sqrt(vec->dot(s.D, k, k) + R(LA_SPARSE_TINY)) : 1;
        vec->scale(s.D, w->r[i] * s.scale, k, k);
    }
    vec->transpose(n, s.D, w->K, s.D, w->KT, s.ld);
}

/* Queries of a tile that follow each other are worked on where they lie. */
static int in_place(const int32_t *q, int64_t rows) { return q[rows - 1] - q[0] == rows - 1; }

/* The rows x of the tile's queries, or a copy of them in y; ld is that of either. */
static const la_real *load_queries(const head *a, const int32_t *q, int64_t rows, const la_real *x,
                                   int64_t len, la_real *y, int64_t *ld) {
    if (in_place(q, rows)) return x + (q[0] - a->text.past) * *ld;
    gather(a, rows, q, x, *ld, NULL, len, y);
    *ld = len;
    return y;
}
#endif
