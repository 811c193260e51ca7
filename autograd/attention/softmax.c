/* softmax: scaled dot-product attention, tiled, causal or over the whole text.
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
 * The tiles are also those of taylor2_pairs, taylor2.c: weights in the place of exponentials, no
 * maximum, and l + eps in that of lse.
 *
 * With a state, queries stand at positions past + i and see the cache too; rows past .. past+N-1
 * of the state that goes out are the new keys and values.  The cache has tiles of its own, so that
 * the diagonal always goes from corner to corner of a tile.
 *
 * Both ways, j runs over the whole text: every tile of scores counts in full, and there is no
 * state.
 *
 * With a mask a batch row has N <= T tokens, its first, and a past of its own.  Blocks and strips
 * are still those of T; a short row has less in its tiles, and nothing in the last of them. */
#include "autograd/attention/kernel_map.h"
#include "autograd/attention/softmax_tile.h"
#include "autograd/ops/sparse_softmax.h"

static int64_t state_len(const la_attn_cfg *c, int64_t D, int64_t E, int64_t capacity) {
    (void)c;
    return capacity * (D + E);
}

static la_status check(const la_node *n) { return la_attn_check_past(n, la_attn_room(n)); }

static la_status infer(const la_node *n, la_plan *p) {
    LA_TRY(la_attn_infer(n, p));
    dims    s = get(n, EXPONENTIAL); /* sizes do not depend on it */
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

static head find(const la_node *n, dims s, int64_t number) {
    const la_node *q = n->in[0], *k = n->in[1], *v = n->in[2];
    int64_t        b = number / s.H, h = number % s.H, at = la_token(n, b, 0, h);
    head           a = {.number = number, .ldq = q->ld, .ldo = n->ld};
    a.N = la_attn_tokens(n, b), a.tiles = la_ceil_div(a.N, s.C);
    a.past = la_attn_past(n, b), a.old = la_ceil_div(a.past, s.C); /* read anew at each replay */
    a.ldk = a.lddk = k->ld, a.ldv = a.lddv = v->ld;
    a.o = n->x + at, a.g = la_plus(n->g, at), a.norm = la_plus(n->saved, number * s.T);
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
    const int64_t  N = la_attn_tokens(n, b), past = la_attn_past(n, b);
    const la_real *old = la_attn_at(n, LA_AT_STATE)->x + number * len;
    la_real       *K = n->out[1]->x + number * len, *V = K + s.capacity * s.D;
    if (K != old) memcpy(K, old, (size_t)len * sizeof *K);
    for (int64_t t = 0; t < N; t++) {
        memcpy(K + (past + t) * s.D, n->in[1]->x + la_token(n->in[1], b, t, h),
               (size_t)s.D * sizeof *K);
        memcpy(V + (past + t) * s.E, n->in[2]->x + la_token(n->in[2], b, t, h),
               (size_t)s.E * sizeof *V);
    }
}

/* The tile that a strip has in some round.  They are dealt 0 1 2, 2 1 0, 0 1 2 and so on, so that
 * strips have about equal shares of the triangle. */
static int64_t deal(dims s, int64_t strip, int64_t round) {
    return round * s.strips + (round % 2 ? s.strips - 1 - strip : strip);
}

static void forward(const la_node *n, const la_run *run, dims s) {
    if (n->n_out == 2 && run->phase == 0) {
        extend_cache(n, s, run->block);
        if (s.strips > 1) return;
    }
    head    a = find(n, s, run->block / s.strips);
    int64_t strip = run->block % s.strips;
    ahead   w;
    carve_ahead(s, run->scratch, &w);
    for (int64_t tile = 0; s.T >= FEW && tile < a.old + a.tiles; tile++) {
        la_range j = key_tile(s, &a, tile);
        la_transpose(j.to - j.from, s.D, a.k + j.from * a.ldk, a.ldk, w.KT + j.from * s.D);
    }
    for (int64_t round = 0, c; (c = deal(s, strip, round)) < s.tiles; round++) {
        if (c < a.tiles) forward_tile(s, &a, &w, c);
        clear_rows(la_max(a.N, c * s.C), la_min(s.T, (c + 1) * s.C), s.E, a.o, a.ldo);
    }
}

/* The gradients of the keys and values of a tile go to where those came from. */
static void put_keys(dims s, const head *a, const back *w, la_range j, unsigned first) {
    int64_t rows = j.to - j.from, t = j.from - a->past;
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
    const int64_t  len = s.capacity * (s.D + s.E), end = a->past + a->N;
    const la_real *g = n->out[1]->g + a->number * len, *gv = g + s.capacity * s.D;
    la_real       *dv = la_plus(a->dcache, s.capacity * s.D);
    if (a->dk) put_rows(a->N, s.D, 0, g + a->past * s.D, a->dk, a->lddk);
    if (a->dv) put_rows(a->N, s.E, 0, gv + a->past * s.E, a->dv, a->lddv);
    if (!a->dcache) return;
    put_rows(a->past, s.D, 0, g, a->dcache, s.D);
    put_rows(a->past, s.E, 0, gv, dv, s.E);
    put_rows(s.capacity - end, s.D, 0, g + end * s.D, a->dcache + end * s.D, s.D);
    put_rows(s.capacity - end, s.E, 0, gv + end * s.E, dv + end * s.E, s.E);
}

/* The gradients of padding are 0; of dq only without strips, whose sum sees to it. */
static void clear_padding(dims s, const head *a, unsigned first) {
    if (a->dq && s.strips == 1 && first & LA_SETS_IN(0)) clear_rows(a->N, s.T, s.D, a->dq, a->ldq);
    if (a->dk && first & LA_SETS_IN(1)) clear_rows(a->N, s.T, s.D, a->dk, a->lddk);
    if (a->dv && first & LA_SETS_IN(2)) clear_rows(a->N, s.T, s.E, a->dv, a->lddv);
}

/* dq of tile c: the sum of what the strips have whose first tile it sees; and 0 for padding. */
static void sum_strips(dims s, const head *a, const la_real *parts, int64_t c, int set) {
    const la_range i = query_tile(s, a, c);
    const int64_t  strips = la_min(s.strips, seen_tiles(s, a, c));
    if (!a->dq) return;
    for (int64_t strip = 0; strip < strips; strip++)
        put_rows(i.to - i.from, s.D, set && strip == 0, parts + (strip * s.T + i.from) * s.D,
                 a->dq + i.from * a->ldq, a->ldq);
    if (set) clear_rows(la_max(a->N, c * s.C), la_min(s.T, (c + 1) * s.C), s.D, a->dq, a->ldq);
}

static void backward(const la_node *n, const la_run *run, dims s) {
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
    const int64_t tiles = a.N ? a.old + a.tiles : 0; /* no query, no gradient */
    carve_back(s, run->scratch, &w);
    load_queries(s, &a, &w, first_query(s, &a, strip) * s.C);
    for (int64_t round = 0, tile; (tile = deal(s, strip, round)) < tiles; round++) {
        backward_tile(s, &a, &w, tile, set && round == 0, dq, ld);
        put_keys(s, &a, &w, key_tile(s, &a, tile), run->first);
    }
    if (strip == 0) clear_padding(s, &a, run->first);
    if (n->n_out == 2 && s.strips == 1) put_state(n, s, &a);
}

static int sees(const la_attn_cfg *c, int64_t t, int64_t j) { return j <= t || c->bidirectional; }

static la_status definition(const la_attn_head *x, double *w) {
    return la_sparse_definition(x, w, sees);
}

static double pairs(const la_attn_cfg *c, int64_t T) {
    return c->bidirectional ? (double)T * (double)T : (double)T * (double)(T + 1) / 2;
}

static void softmax_forward(const la_node *n, const la_run *run) {
    forward(n, run, get(n, EXPONENTIAL));
}

static void softmax_backward(const la_node *n, const la_run *run) {
    backward(n, run, get(n, EXPONENTIAL));
}

static void taylor2_forward(const la_node *n, const la_run *run) {
    forward(n, run, get(n, TAYLOR2));
}

static void taylor2_backward(const la_node *n, const la_run *run) {
    backward(n, run, get(n, TAYLOR2));
}

static const la_op op = {
    .name = "softmax_attention",
    .formula = "o_t = sum_j softmax_j(q_t.k_j / sqrt D) v_j, over j <= t or over all",
    .file = "autograd/attention/softmax.c",
    .attr_size = sizeof(la_attn_call),
    .reads = LA_READS_ATTENTION | LA_READS_OUT(0) | LA_READS_OUT(1),
    .sets = LA_SETS_IN(0) | LA_SETS_IN(1) | LA_SETS_IN(2),
    .strided = 1,
    .infer = infer,
    .check = check,
    .forward = softmax_forward,
    .backward = softmax_backward,
};

const la_op la_op_taylor2_pairs = {
    .name = "taylor2_pairs",
    .formula = "o_t = sum_j w_tj v_j / (sum_j w_tj + eps), w = 1 + s + s^2/2, s = q_t.k_j / sqrt D",
    .file = "autograd/attention/taylor2.c",
    .attr_size = sizeof(la_attn_call),
    .reads = LA_READS_ATTENTION | LA_READS_OUT(0),
    .sets = LA_SETS_IN(0) | LA_SETS_IN(1) | LA_SETS_IN(2),
    .strided = 1,
    .infer = infer,
    .check = check,
    .forward = taylor2_forward,
    .backward = taylor2_backward,
};

const la_attn la_attn_softmax = {
    .name = "softmax",
    .formula = "o_t = sum_j softmax_j(q_t.k_j / sqrt D) v_j, over j <= t or over all",
    .paper = "Vaswani et al., Attention is all you need, 2017",
    .cost = "O(T^2 (D+E)) time, state t(D+E): a cache that grows with the text",
    .file = "autograd/attention/softmax.c",
    .options = "chunk norm",
    .causal = &op,
    .full = &op,
    .state_len = state_len,
    .pairs = pairs,
    .definition = definition,
};
