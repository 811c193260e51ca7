/* softmax: scaled dot-product attention, causal, tiled.
 * Vaswani et al., "Attention is all you need", 2017; the running maximum and sum: Milakov and
 * Gimelshein, 2018; tiles and recomputation: Dao et al., "FlashAttention", 2022.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   o (B,T,H,E)   state (B,H,L), L = capacity (D+E): the cache of
 *   keys (capacity,D), then values (capacity,E), of which the first `past` rows are filled
 *
 *   s_ij = q_i.k_j / sqrt D     p_ij = exp(s_ij - lse_i) for j <= i     o_i = sum_j p_ij v_j
 *   lse_i = log sum_{j<=i} exp(s_ij)
 *
 * Tiles of C queries by C keys, in matrices S, P (C,C); those above the diagonal are skipped, and
 * in those on it the products leave out most of what is above.  1/sqrt D is in the rows Q.  m is
 * the running maximum of a row, l the running sum, O the output before the division:
 *
 *   S = Q K'    m' = max(m, max_j s_ij)    P = exp(S - m')    l = l exp(m - m') + sum_j p_ij
 *   O = O exp(m - m') + P V                at the end:  o = O / l    lse = m + log l
 *
 * Backward, g_i the gradient at o_i:
 *   1. dv_j = sum_i p_ij g_i                         dp_ij = g_i.v_j
 *   2. p_i is a softmax: ds_ij = p_ij (dp_ij - sum_l p_il dp_il), and
 *      sum_l p_il dp_il = g_i.sum_l p_il v_l = g_i.o_i = d_i, known without the row.
 *   3. dq_i = sum_j ds_ij k_j / sqrt D               dk_j = sum_i ds_ij q_i / sqrt D
 * For a tile of keys, over the tiles of queries, with P from lse again:
 *
 *   P = exp(Q K' - lse)    dP = G V'    dS = P o (dP - d)
 *   dV += P' G             dK += dS' Q  dQ += dS (K / sqrt D)
 *
 * Every product is NN or TN: K and V are transposed once for a block or a tile of keys.
 *
 * Blocks.  With enough heads one is a block.  With few, a long text's tiles are dealt to strips as
 * well: forward those of queries, backward those of keys.  Each strip then adds up a dQ of its own,
 * and the sum of these, in order, is a second phase.  That takes (strips,T,D) for a head; a second
 * walk, by tiles of queries, needs no memory, but computes S and dP twice: 9 products in place
 * of 7.
 *
 * Saved: lse, (B,H,T).  Memory O(T), time O(T^2 (D + E)).
 *
 * With a state, queries stand at positions past + i and see the cache too; rows past .. past+T-1
 * of the state that goes out are the new keys and values.  The cache has tiles of its own, so that
 * the diagonal always goes from corner to corner of a tile. */
#include "autograd/attention/attention.h"
#include "autograd/kernel.h"
#include "tensor/blas.h"

enum {
    TILE = 256,  /* queries, and keys: what backward has of a tile stays in an L2 of 1 MiB     */
    LEAST = 64,  /* and down to this where a text has too few tiles for its strips             */
    BLOCKS = 16, /* at least, where the texts are long enough                                  */
    FEW = 3,     /* queries: with fewer a score is a dot product with the key as it lies       */
};

typedef struct dims {
    int64_t B, T, H, D, E, capacity, past;
    int64_t C, tiles; /* of tokens                                                             */
    int64_t old;      /* tiles of the cache                                                    */
    int64_t strips;   /* blocks of a head                                                      */
    int64_t ld;       /* of S, P, dP, dS: C up to a multiple of 16                             */
    la_real scale;
} dims;

static dims get(const la_node *n) {
    la_shape      q = n->in[0]->shape;
    const int64_t chunk = la_attn_cfg_of(n)->chunk;
    dims s = {.B = q.d[0], .T = q.d[1], .H = q.d[2], .D = q.d[3], .E = n->in[2]->shape.d[3]};
    s.scale = 1 / sqrt(R(s.D));
    s.capacity = la_attn_room(n);
    if (s.capacity) s.past = la_attn_past(n, 0); /* read anew at each replay */
    s.strips = la_ceil_div(BLOCKS, s.B * s.H);
    s.C = chunk > 0 ? chunk : TILE;
    if (chunk <= 0 && s.strips > 1 && s.T > LEAST)
        while (s.C > LEAST && s.T < 2 * s.strips * s.C) s.C /= 2;
    s.C = la_min(s.C, la_max(s.T, s.capacity));
    s.tiles = la_ceil_div(s.T, s.C);
    s.old = la_ceil_div(s.past, s.C);
    s.strips = la_max(1, la_min(s.strips, s.tiles / 2));
    s.ld = la_ceil_div(s.C, 16) * 16;
    return s;
}

static int64_t state_len(const la_attn_cfg *c, int64_t D, int64_t E, int64_t capacity) {
    (void)c;
    return capacity * (D + E);
}

static la_status check(const la_node *n) { return la_attn_check_past(n, la_attn_room(n)); }

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

static size_t carve_ahead(dims s, la_real *at, ahead *w) {
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

static size_t carve_back(dims s, la_real *at, back *w) {
    const la_part parts[] = {
        {&w->Q, s.T * s.D},  {&w->G, s.T * s.E},  {&w->d, s.T},        {&w->K, s.C * s.D},
        {&w->KT, s.D * s.C}, {&w->VT, s.E * s.C}, {&w->P, s.C * s.ld}, {&w->dS, s.C * s.ld},
        {&w->dK, s.C * s.D}, {&w->dV, s.C * s.E},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
}

static la_status infer(const la_node *n, la_plan *p) {
    LA_TRY(la_attn_infer(n, p));
    dims    s = get(n);
    ahead   w;
    back    x;
    int64_t heads = s.B * s.H, *blocks = p->forward_blocks;
    size_t  forward = carve_ahead(s, NULL, &w), backward = carve_back(s, NULL, &x);
    p->n_saved = (size_t)(heads * s.T);
    p->n_scratch = forward > backward ? forward : backward;
    if (s.strips == 1) return LA_OK;
    p->n_common = (size_t)(heads * s.strips * s.T * s.D);
    if (p->n_out == 2) *blocks++ = p->backward_blocks[2] = heads; /* the state: first, and last */
    *blocks = p->backward_blocks[0] = heads * s.strips;
    p->backward_blocks[1] = heads * s.tiles;
    return LA_OK;
}

/* One head: where its first rows begin, and how far apart they are. */
typedef struct head {
    int64_t        number; /* in (B,H)                                                         */
    const la_real *q, *k, *v, *g; /* keys and values lie in the cache if there is one          */
    la_real       *o, *lse, *dq, *dk, *dv; /* but for o, NULL where nobody needs them          */
    la_real       *dcache;                 /* (L), of the state that came in, or NULL          */
    int64_t        ldq, ldk, ldv, lddk, lddv, ldo;
} head;

static head find(const la_node *n, dims s, int64_t number) {
    const la_node *q = n->in[0], *k = n->in[1], *v = n->in[2];
    int64_t        b = number / s.H, h = number % s.H, at = la_token(n, b, 0, h);
    head           a = {.number = number, .ldq = q->ld, .ldo = n->ld};
    a.ldk = a.lddk = k->ld, a.ldv = a.lddv = v->ld;
    a.o = n->x + at, a.g = la_plus(n->g, at), a.lse = la_plus(n->saved, number * s.T);
    a.q = q->x + la_token(q, b, 0, h), a.dq = la_plus(q->g, la_token(q, b, 0, h));
    a.k = k->x + la_token(k, b, 0, h), a.dk = la_plus(k->g, la_token(k, b, 0, h));
    a.v = v->x + la_token(v, b, 0, h), a.dv = la_plus(v->g, la_token(v, b, 0, h));
    if (n->n_out == 2) {
        int64_t cache = number * s.capacity * (s.D + s.E);
        a.k = n->out[1]->x + cache, a.v = a.k + s.capacity * s.D;
        a.ldk = s.D, a.ldv = s.E;
        a.dcache = la_plus(la_attn_at(n, LA_AT_STATE)->g, cache);
    }
    return a;
}

/* Copies the old cache, unless it is updated in place, and writes the new rows. */
static void extend_cache(const la_node *n, dims s, int64_t number) {
    int64_t        b = number / s.H, h = number % s.H, len = s.capacity * (s.D + s.E);
    const la_real *old = la_attn_at(n, LA_AT_STATE)->x + number * len;
    la_real       *K = n->out[1]->x + number * len, *V = K + s.capacity * s.D;
    if (K != old) memcpy(K, old, (size_t)len * sizeof *K);
    for (int64_t t = 0; t < s.T; t++) {
        memcpy(K + (s.past + t) * s.D, n->in[1]->x + la_token(n->in[1], b, t, h),
               (size_t)s.D * sizeof *K);
        memcpy(V + (s.past + t) * s.E, n->in[2]->x + la_token(n->in[2], b, t, h),
               (size_t)s.E * sizeof *V);
    }
}

/* The keys of a tile: first come the tiles of the cache, then those of the tokens, so that tile c
 * of queries is tile old + c of keys. */
static la_range key_tile(dims s, int64_t tile) {
    if (tile < s.old) return la_cut(s.past, s.C, tile);
    la_range r = la_cut(s.T, s.C, tile - s.old);
    return (la_range){s.past + r.from, s.past + r.to};
}

/* The tile that a strip has in some round.  They are dealt 0 1 2, 2 1 0, 0 1 2 and so on, so that
 * strips have about equal shares of the triangle. */
static int64_t deal(dims s, int64_t strip, int64_t round) {
    return round * s.strips + (round % 2 ? s.strips - 1 - strip : strip);
}

static void scale_rows(int64_t rows, int64_t n, la_real k, const la_real *x, int64_t ldx,
                       la_real *y) {
    for (int64_t i = 0; i < rows; i++) la_vec_table()->scale(n, k, x + i * ldx, y + i * n);
}

static void prefetch_rows(int64_t rows, int64_t n, const la_real *x, int64_t ldx) {
    for (int64_t i = 0; i < rows; i++) la_prefetch(n, x, i * ldx);
}

/* o and lse of the queries of tile c. */
static void forward_tile(dims s, const head *a, const ahead *w, int64_t c) {
    const la_vec *vec = la_vec_table();
    la_range      i = la_cut(s.T, s.C, c);
    int64_t       rows = i.to - i.from;
    scale_rows(rows, s.D, s.scale, a->q + i.from * a->ldq, a->ldq, w->Q);
    for (int64_t r = 0; r < rows; r++) w->m[r] = R(-INFINITY), w->l[r] = 0;
    for (int64_t tile = 0; tile <= s.old + c; tile++) {
        la_range       j = key_tile(s, tile);
        const int64_t  keys = j.to - j.from;
        const int      lower = tile == s.old + c;
        const la_real *k = a->k + j.from * a->ldk, *v = a->v + j.from * a->ldv;
        if (!lower) prefetch_rows(keys, s.E, v + keys * a->ldv, a->ldv);
        if (s.T < FEW)
            la_gemm_nt(LA_SET, rows, keys, s.D, w->Q, s.D, k, a->ldk, w->P, s.ld);
        else
            la_gemm_nn(LA_SET | (lower ? LA_C_LOWER : 0), rows, keys, s.D, w->Q, s.D,
                       w->KT + j.from * s.D, keys, w->P, s.ld);
        vec->softmax(rows, keys, lower, w->P, s.ld, w->m, w->l, w->shrink);
        for (int64_t r = 0; r < rows && tile > 0; r++)
            if (w->shrink[r] != 1) vec->scale(s.E, w->shrink[r], w->O + r * s.E, w->O + r * s.E);
        la_gemm_nn((tile ? LA_ADD : LA_SET) | (lower ? LA_A_LOWER : 0), rows, s.E, keys, w->P, s.ld,
                   v, a->ldv, w->O, s.E);
    }
    for (int64_t r = 0; r < rows; r++) {
        vec->scale(s.E, 1 / w->l[r], w->O + r * s.E, a->o + (i.from + r) * a->ldo);
        if (a->lse) a->lse[i.from + r] = w->m[r] + log(w->l[r]);
    }
}

static void forward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (n->n_out == 2 && run->phase == 0) {
        extend_cache(n, s, run->block);
        if (s.strips > 1) return;
    }
    head    a = find(n, s, run->block / s.strips);
    int64_t strip = run->block % s.strips;
    ahead   w;
    carve_ahead(s, run->scratch, &w);
    for (int64_t tile = 0; s.T >= FEW && tile < s.old + s.tiles; tile++) {
        la_range j = key_tile(s, tile);
        la_transpose(j.to - j.from, s.D, a.k + j.from * a.ldk, a.ldk, w.KT + j.from * s.D);
    }
    for (int64_t round = 0, c; (c = deal(s, strip, round)) < s.tiles; round++)
        forward_tile(s, &a, &w, c);
}

/* y += x, or y = x, row by row. */
static void put_rows(int64_t rows, int64_t n, int set, const la_real *x, la_real *y, int64_t ldy) {
    for (int64_t i = 0; i < rows; i++, x += n, y += ldy)
        if (set)
            memcpy(y, x, (size_t)n * sizeof *y);
        else
            la_vec_table()->axpy(n, 1, x, y);
}

/* The gradients of the keys and values of a tile go to where those came from. */
static void put_keys(dims s, const head *a, const back *w, la_range j, unsigned first) {
    int64_t rows = j.to - j.from, t = j.from - s.past;
    if (t >= 0) {
        if (a->dk) put_rows(rows, s.D, first & LA_SETS_IN(1), w->dK, a->dk + t * a->lddk, a->lddk);
        if (a->dv) put_rows(rows, s.E, first & LA_SETS_IN(2), w->dV, a->dv + t * a->lddv, a->lddv);
    } else if (a->dcache) {
        put_rows(rows, s.D, 0, w->dK, a->dcache + j.from * s.D, s.D);
        put_rows(rows, s.E, 0, w->dV, a->dcache + s.capacity * s.D + j.from * s.E, s.E);
    }
}

/* The gradient of the state that goes out: its new rows came from k and v, the others from the
 * state that came in. */
static void put_state(const la_node *n, dims s, const head *a) {
    const int64_t  len = s.capacity * (s.D + s.E), end = s.past + s.T;
    const la_real *g = n->out[1]->g + a->number * len, *gv = g + s.capacity * s.D;
    la_real       *dv = la_plus(a->dcache, s.capacity * s.D);
    if (a->dk) put_rows(s.T, s.D, 0, g + s.past * s.D, a->dk, a->lddk);
    if (a->dv) put_rows(s.T, s.E, 0, gv + s.past * s.E, a->dv, a->lddv);
    if (!a->dcache) return;
    put_rows(s.past, s.D, 0, g, a->dcache, s.D);
    put_rows(s.past, s.E, 0, gv, dv, s.E);
    put_rows(s.capacity - end, s.D, 0, g + end * s.D, a->dcache + end * s.D, s.D);
    put_rows(s.capacity - end, s.E, 0, gv + end * s.E, dv + end * s.E, s.E);
}

/* Q, G and d of the tokens from t on. */
static void load_queries(dims s, const head *a, const back *w, int64_t t) {
    for (; t < s.T; t++) {
        const la_real *g = a->g + t * a->ldo;
        la_vec_table()->scale(s.D, s.scale, a->q + t * a->ldq, w->Q + t * s.D);
        memcpy(w->G + t * s.E, g, (size_t)s.E * sizeof *g);
        w->d[t] = la_vec_table()->dot(s.E, g, a->o + t * a->ldo);
    }
}

/* dK and dV of a tile of keys, and dQ += what these add to it (T,D), with ld between rows; = if
 * set, which is for the first tile of a strip: it is seen by every query that sees another. */
static void backward_tile(dims s, const head *a, const back *w, int64_t tile, int set, la_real *dQ,
                          int64_t ld) {
    const la_vec  *vec = la_vec_table();
    const la_range j = key_tile(s, tile);
    const int64_t  keys = j.to - j.from, from = la_max(0, tile - s.old);
    la_transpose(keys, s.D, a->k + j.from * a->ldk, a->ldk, w->KT);
    la_transpose(keys, s.E, a->v + j.from * a->ldv, a->ldv, w->VT);
    scale_rows(keys, s.D, s.scale, a->k + j.from * a->ldk, a->ldk, w->K);
    for (int64_t c = from; c < s.tiles; c++) {
        const la_range i = la_cut(s.T, s.C, c);
        const int64_t  rows = i.to - i.from;
        const int      lower = tile == s.old + c;
        const la_real *Q = w->Q + i.from * s.D, *G = w->G + i.from * s.E;
        const unsigned scores = LA_SET | (lower ? LA_C_LOWER : 0);
        const unsigned sum = (c > from ? LA_ADD : LA_SET) | (lower ? LA_A_UPPER : 0);
        if (dQ) prefetch_rows(rows, s.D, dQ + i.from * ld, ld);
        la_gemm_nn(scores, rows, keys, s.D, Q, s.D, w->KT, keys, w->P, s.ld);
        la_gemm_nn(scores, rows, keys, s.E, G, s.E, w->VT, keys, w->dS, s.ld);
        vec->softmax_backward(rows, keys, lower, a->lse + i.from, w->d + i.from, w->P, w->dS, s.ld);
        la_gemm_tn(sum, keys, s.E, rows, w->P, s.ld, G, s.E, w->dV, s.E);
        la_gemm_tn(sum, keys, s.D, rows, w->dS, s.ld, Q, s.D, w->dK, s.D);
        if (dQ)
            la_gemm_nn((set ? LA_SET : LA_ADD) | (lower ? LA_A_LOWER : 0), rows, s.D, keys, w->dS,
                       s.ld, w->K, s.D, dQ + i.from * ld, ld);
    }
}

/* dq of tile c: the sum of what the strips have whose first tile it sees. */
static void sum_strips(dims s, const head *a, const la_real *parts, int64_t c, int set) {
    const la_range i = la_cut(s.T, s.C, c);
    for (int64_t strip = 0; a->dq && strip < s.strips && strip <= s.old + c; strip++)
        put_rows(i.to - i.from, s.D, set && strip == 0, parts + (strip * s.T + i.from) * s.D,
                 a->dq + i.from * a->ldq, a->ldq);
}

static void backward(const la_node *n, const la_run *run) {
    dims s = get(n);
    back w;
    if (run->phase == 1) {
        int64_t c = run->block % s.tiles, number = run->block / s.tiles;
        head    a = find(n, s, number);
        sum_strips(s, &a, run->common + number * s.strips * s.T * s.D, c, la_sets(run, 0));
        return;
    }
    if (run->phase == 2) {
        head a = find(n, s, run->block);
        put_state(n, s, &a);
        return;
    }
    int64_t  strip = run->block % s.strips, ld = s.D, set = 1;
    head     a = find(n, s, run->block / s.strips);
    la_real *dq = a.dq ? run->common + run->block * s.T * s.D : NULL;
    if (s.strips == 1) dq = a.dq, ld = a.ldq, set = la_sets(run, 0);
    carve_back(s, run->scratch, &w);
    load_queries(s, &a, &w, la_max(0, strip - s.old) * s.C);
    for (int64_t round = 0, tile; (tile = deal(s, strip, round)) < s.old + s.tiles; round++) {
        backward_tile(s, &a, &w, tile, set && round == 0, dq, ld);
        put_keys(s, &a, &w, key_tile(s, tile), run->first);
    }
    if (n->n_out == 2 && s.strips == 1) put_state(n, s, &a);
}

static void definition(const la_attn_head *x, double *w) {
    for (int64_t t = 0; t < x->T; t++) {
        int64_t seen = x->cfg->bidirectional ? x->T : t + 1;
        double *p = w + t * x->T, top = -HUGE_VAL, total = 0;
        for (int64_t s = 0; s < seen; s++) {
            for (int64_t d = 0; d < x->D; d++) p[s] += x->q[t * x->D + d] * x->k[s * x->D + d];
            top = fmax(top, p[s] /= sqrt((double)x->D));
        }
        for (int64_t s = 0; s < seen; s++) total += p[s] = exp(p[s] - top);
        for (int64_t s = 0; s < seen; s++) p[s] /= total;
    }
}

static double pairs(const la_attn_cfg *c, int64_t T) {
    return c->bidirectional ? (double)T * (double)T : (double)T * (double)(T + 1) / 2;
}

static const la_op op = {
    .name = "softmax_attention",
    .formula = "o_t = sum_{j<=t} softmax_j(q_t.k_j / sqrt D) v_j",
    .file = "autograd/attention/softmax.c",
    .attr_size = sizeof(la_attn_call),
    .reads = LA_READS_ATTENTION | LA_READS_OUT(0) | LA_READS_OUT(1),
    .sets = LA_SETS_IN(0) | LA_SETS_IN(1) | LA_SETS_IN(2),
    .strided = 1,
    .infer = infer,
    .check = check,
    .forward = forward,
    .backward = backward,
};

const la_attn la_attn_softmax = {
    .name = "softmax",
    .formula = "o_t = sum_{j<=t} softmax_j(q_t.k_j / sqrt D) v_j",
    .paper = "Vaswani et al., Attention is all you need, 2017",
    .cost = "O(T^2 (D+E)) time, state t(D+E): a cache that grows with the text",
    .file = "autograd/attention/softmax.c",
    .options = "chunk norm",
    .causal = &op,
    .state_len = state_len,
    .pairs = pairs,
    .definition = definition,
};
