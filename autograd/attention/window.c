/* window: softmax attention over the last w keys.
 * Beltagy, Peters, Cohan, "Longformer", 2020; Child et al., "Sparse Transformers", 2019.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   o (B,T,H,E)   state (B,H,w(D+E)): keys, then values, of the last
 * w tokens, position j in row j mod w
 *
 *   o_t = sum_{j in V(t)} softmax_j(q_t.k_j / sqrt D) v_j     V(t) = { j : t-w < j <= t }
 *   both ways:                                                V(t) = { j : |t-j| < w }
 *
 * w = 1 gives o = v, w >= T gives softmax.  The work is sparse_softmax's: a group is some queries
 * that follow each other, and all keys from w-1 before the first to the last (or w-1 after it).  It
 * has at least w queries, so that a key is gathered for two groups (three both ways) at most, and
 * else as many as fill a tile of keys.  A tile has half a window of queries: of the columns that it
 * computes, w + w/2, each row sees w.
 *
 * The ring holds all that later queries see, so that a text can be cut anywhere; its gradient goes
 * to the rows it was written from. */
#include "autograd/ops/sparse_softmax.h"

#include "autograd/kernel.h"

static int64_t group_size(const la_sparse_text *x) {
    return la_max(x->cfg->w, x->tile - x->cfg->w + 1);
}

static int64_t groups(const la_sparse_text *x) {
    return la_ceil_div(x->end - x->past, group_size(x));
}

static void group(const la_sparse_text *x, int64_t i, la_sparse_group *g) {
    const int64_t  w = x->cfg->w, ahead = x->cfg->bidirectional ? w : 1;
    const la_range t = la_cut(x->end - x->past, group_size(x), i);
    const la_range k = {la_max(0, x->past + t.from - w + 1),
                        la_min(x->end, x->past + t.to + ahead - 1)};
    g->last = 1;
    g->tile = la_max(16, w / 2);
    for (int64_t j = k.from; j < k.to; j++) g->k[g->nk++] = (int32_t)j;
    for (int64_t q = x->past + t.from; q < x->past + t.to; q++, g->nq++) {
        g->q[g->nq] = (int32_t)q;
        g->lo[g->nq] = (int32_t)(la_max(k.from, q - w + 1) - k.from);
        g->hi[g->nq] = (int32_t)(la_min(k.to, q + ahead) - k.from);
    }
}

static int sees(const la_attn_cfg *c, int64_t t, int64_t j) {
    return j > t - c->w && j < t + (c->bidirectional ? c->w : 1);
}

static void definition(const la_attn_head *x, double *w) { la_sparse_definition(x, w, sees); }

/* The first w queries see 1 .. w keys; both ways, the last ones see as many less after them. */
static double pairs(const la_attn_cfg *c, int64_t T) {
    const double w = (double)la_min(c->w, T), before = (double)T * w - w * (w - 1) / 2;
    return c->bidirectional ? 2 * before - (double)T : before;
}

static int64_t state_len(const la_attn_cfg *c, int64_t D, int64_t E, int64_t capacity) {
    (void)capacity;
    return c->w * (D + E);
}

static const la_sparse pattern = {.ring = 1, .groups = groups, .group = group};

const la_attn la_attn_window = {
    .name = "window",
    .formula = "o_t = sum_{t-w<j<=t} softmax_j(q_t.k_j / sqrt D) v_j",
    .paper = "Beltagy et al., Longformer, 2020",
    .cost = "O(T w (D+E)) time, state w(D+E)",
    .file = "autograd/attention/window.c",
    .options = "chunk w norm",
    .usual = {.w = 32},
    .tiny = "w=3",
    .traits = LA_ATTN_SPARSE,
    .causal = &la_op_sparse_softmax,
    .full = &la_op_sparse_softmax,
    .sparse = &pattern,
    .state_len = state_len,
    .pairs = pairs,
    .definition = definition,
};
