/* sparse-strided: softmax attention over the last s keys, and every s-th before.
 * Child, Gray, Radford, Sutskever, "Generating long sequences with Sparse Transformers", 2019.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   o (B,T,H,E)   state (B,H,capacity(D+E)): keys, then values
 *
 *   o_t = sum_{j in V(t)} softmax_j(q_t.k_j / sqrt D) v_j
 *   V(t) = { j <= t : t-j < s or (t-j) mod s = 0 }     both ways: { j : |t-j| < s or s | t-j }
 *
 * Two steps reach any token before: one to the residue, one nearby.  With s = sqrt T both parts
 * have about sqrt T keys.
 *
 * The work is sparse_softmax's.  The two parts meet in j = t only, so that with t left out of the
 * second they are groups of it:
 *
 *   1. for each residue a mod s, the positions a, a + s, a + 2s, ...: query and keys alike.  The
 * one at place i of the list sees [0,i); both ways also [i+1,n), which is a group of its own;
 *   2. windows of s keys, as in window.c. */
#include "autograd/ops/sparse_softmax.h"

#include "autograd/kernel.h"

static int64_t classes(const la_sparse_text *x) {
    return la_min(x->cfg->s, x->end - x->past) * (x->cfg->bidirectional ? 2 : 1);
}

static int64_t groups(const la_sparse_text *x) {
    return classes(x) + la_sparse_windows(x, x->cfg->s);
}

static void group(const la_sparse_text *x, int64_t i, la_sparse_group *g) {
    const int64_t s = x->cfg->s;
    if (i >= classes(x)) {
        la_sparse_window(x, s, i - classes(x), g);
        return;
    }
    const int     after = x->cfg->bidirectional && i % 2; /* the keys after each query            */
    const int64_t first = x->past + i / (x->cfg->bidirectional ? 2 : 1); /* of the queries */
    for (int64_t j = first % s; j < x->end; j += s) g->k[g->nk++] = (int32_t)j;
    for (int64_t q = first; q < x->end; q += s, g->nq++) {
        g->q[g->nq] = (int32_t)q;
        g->lo[g->nq] = after ? (int32_t)(q / s + 1) : 0;
        g->hi[g->nq] = after ? (int32_t)g->nk : (int32_t)(q / s);
    }
}

static int sees(const la_attn_cfg *c, int64_t t, int64_t j) {
    const int64_t gap = t > j ? t - j : j - t;
    return (j <= t || c->bidirectional) && (gap < c->s || gap % c->s == 0);
}

static la_status definition(const la_attn_head *x, double *w) {
    return la_sparse_definition(x, w, sees);
}

static void complete(la_attn_cfg *c, int64_t longest) {
    if (c->s == 0) c->s = la_sparse_root(longest);
}

static la_status check(const la_attn_cfg *c, int64_t H, int64_t D) {
    (void)H, (void)D;
    if (c->s >= 1) return LA_OK;
    return la_fail(LA_ARG, "sparse-strided: s must be at least 1, and is %lld", (long long)c->s);
}

/* Token t has min(t+1, s) keys nearby and floor(t/s) further off. */
static double pairs(const la_attn_cfg *c, int64_t T) {
    const double s = (double)la_min(c->s, T), near = (double)T * s - s * (s - 1) / 2;
    const double m = (double)(T / c->s), rest = (double)(T % c->s);
    const double far = (double)c->s * m * (m - 1) / 2 + rest * m;
    return c->bidirectional ? 2 * (near + far) - (double)T : near + far;
}

static const la_sparse pattern = {.groups = groups, .group = group};

const la_attn la_attn_sparse_strided = {
    .name = "sparse-strided",
    .formula = "o_t = sum_j softmax_j(q_t.k_j / sqrt D) v_j over t-j < s and s | t-j",
    .paper = "Child et al., Generating long sequences with Sparse Transformers, 2019",
    .cost = "O(T (s + T/s) (D+E)) time, state t(D+E): a cache that grows with the text",
    .file = "autograd/attention/sparse_strided.c",
    .options = "chunk s norm",
    .tiny = "s=3",
    .traits = LA_ATTN_SPARSE,
    .causal = &la_op_sparse_softmax,
    .full = &la_op_sparse_softmax,
    .sparse = &pattern,
    .complete = complete,
    .check = check,
    .state_len = la_sparse_cache,
    .pairs = pairs,
    .definition = definition,
};
