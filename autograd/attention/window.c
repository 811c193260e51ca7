/* window: softmax attention over the last w keys.
 * Beltagy, Peters, Cohan, "Longformer", 2020; Child et al., "Sparse Transformers", 2019.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   o (B,T,H,E)   state (B,H,W(D+E)), W = min(w, capacity): keys,
 * then values, of the last W tokens, position j in row j mod W
 *
 *   o_t = sum_{j in V(t)} softmax_j(q_t.k_j / sqrt D) v_j     V(t) = { j : t-w < j <= t }
 *   both ways:                                                V(t) = { j : |t-j| < w }
 *
 * w = 1 gives o = v, w >= T gives softmax.  The work is sparse_softmax's, and its windows are the
 * groups.
 *
 * With W = w a text may have any length; with less it has capacity tokens at most, and the ring
 * never wraps.  The ring holds all that later queries see, so that a text can be cut anywhere; its
 * gradient goes to the rows it was written from. */
#include "autograd/ops/sparse_softmax.h"

#include "autograd/kernel.h"

static int64_t groups(const la_sparse_text *x) { return la_sparse_windows(x, x->cfg->w); }

static void group(const la_sparse_text *x, int64_t i, la_sparse_group *g) {
    la_sparse_window(x, x->cfg->w, i, g);
}

static int sees(const la_attn_cfg *c, int64_t t, int64_t j) {
    return j > t - c->w && j < t + (c->bidirectional ? c->w : 1);
}

static la_status definition(const la_attn_head *x, double *w) {
    return la_sparse_definition(x, w, sees);
}

static la_status check(const la_attn_cfg *c, int64_t H, int64_t D) {
    (void)H, (void)D;
    if (c->w >= 1) return LA_OK;
    return la_fail(LA_ARG, "window: w must be at least 1, and is %lld", (long long)c->w);
}

/* The first w queries see 1 .. w keys; both ways, the last ones see as many less after them. */
static double pairs(const la_attn_cfg *c, int64_t T) {
    const double w = (double)la_min(c->w, T), before = (double)T * w - w * (w - 1) / 2;
    return c->bidirectional ? 2 * before - (double)T : before;
}

static int64_t state_len(const la_attn_cfg *c, int64_t D, int64_t E, int64_t capacity) {
    return la_min(c->w, capacity) * (D + E);
}

static const la_sparse pattern = {.ring = 1, .groups = groups, .group = group};

const la_attn la_attn_window = {
    .name = "window",
    .formula = "o_t = sum_{t-w<j<=t} softmax_j(q_t.k_j / sqrt D) v_j",
    .paper = "Beltagy et al., Longformer, 2020",
    .cost = "O(T min(w, T) (D+E)) time, state min(w, capacity) (D+E)",
    .file = "autograd/attention/window.c",
    .options = "chunk w norm",
    .usual = {.w = 32},
    .tiny = "w=3",
    .traits = LA_ATTN_SPARSE,
    .causal = &la_op_sparse_softmax,
    .full = &la_op_sparse_softmax,
    .sparse = &pattern,
    .check = check,
    .state_len = state_len,
    .pairs = pairs,
    .definition = definition,
};
