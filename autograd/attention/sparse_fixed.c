/* sparse-fixed: softmax attention over the own block, and the last keys of each other block.
 * Child, Gray, Radford, Sutskever, "Generating long sequences with Sparse Transformers", 2019.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   o (B,T,H,E)   state (B,H,capacity(D+E)): keys, then values
 *
 * The text is cut into blocks of s, b(t) = floor(t/s):
 *
 *   o_t = sum_{j in V(t)} softmax_j(q_t.k_j / sqrt D) v_j
 *   V(t) = { j <= t : b(j) = b(t), or j mod s >= s-c }     both ways without j <= t
 *
 * The last c positions of a block are where it is summed up for all that follows.  With s = sqrt T
 * and c of a few, both parts have about sqrt T keys.
 *
 * The work is sparse_softmax's, in groups that have no pair in common:
 *
 *   1. all queries, with the last c positions of all blocks as keys, c b(t) of which stand in
 *      earlier blocks; both ways a second group, with those of later blocks: from c (b(t)+1) on;
 *   2. each block with itself. */
#include "autograd/ops/sparse_softmax.h"

#include "autograd/kernel.h"

static int64_t sums(const la_sparse_text *x) { return x->cfg->bidirectional ? 2 : 1; }

static int64_t groups(const la_sparse_text *x) {
    const int64_t s = x->cfg->s;
    return sums(x) + (x->end - 1) / s - x->past / s + 1;
}

static void group(const la_sparse_text *x, int64_t i, la_sparse_group *g) {
    const int64_t s = x->cfg->s, c = x->cfg->c, both = x->cfg->bidirectional;
    la_range      own = {0, x->end}, t = {x->past, x->end};
    if (i >= sums(x)) { /* a block */
        const int64_t b = x->past / s + i - sums(x);
        own = (la_range){b * s, la_min(x->end, (b + 1) * s)};
        t.from = la_max(x->past, own.from), t.to = own.to;
        for (int64_t j = own.from; j < own.to; j++) g->k[g->nk++] = (int32_t)j;
        g->last = 1;
    } else
        for (int64_t b = 0; b * s < x->end; b++)
            for (int64_t j = (b + 1) * s - c; j < la_min(x->end, (b + 1) * s); j++)
                g->k[g->nk++] = (int32_t)j;
    for (int64_t q = t.from; q < t.to; q++, g->nq++) {
        int64_t lo = 0, hi = c * (q / s);
        if (g->last) hi = both ? g->nk : q - own.from + 1;
        if (i == 1 && !g->last) lo = la_min(g->nk, hi + c), hi = g->nk;
        g->q[g->nq] = (int32_t)q, g->lo[g->nq] = (int32_t)lo, g->hi[g->nq] = (int32_t)hi;
    }
}

static int sees(const la_attn_cfg *c, int64_t t, int64_t j) {
    return (j <= t || c->bidirectional) && (j / c->s == t / c->s || j % c->s >= c->s - c->c);
}

static la_status definition(const la_attn_head *x, double *w) {
    return la_sparse_definition(x, w, sees);
}

static void complete(la_attn_cfg *c, int64_t longest) {
    if (c->s == 0) c->s = la_sparse_root(longest);
}

static la_status check(const la_attn_cfg *c, int64_t H, int64_t D) {
    (void)H, (void)D;
    if (c->s < 1 || c->c < 1 || c->c > c->s)
        return la_fail(LA_ARG,
                       "sparse-fixed sums up a block of s=%lld keys by its last c=%lld: c must be "
                       "from 1 to s",
                       (long long)c->s, (long long)c->c);
    return LA_OK;
}

/* A token sees what its block has up to it, and c keys of each block before; both ways, all of its
 * block, and of each other block those that there are. */
static double pairs(const la_attn_cfg *c, int64_t T) {
    const double s = (double)c->s, m = (double)(T / c->s), rest = (double)(T % c->s),
                 k = (double)c->c;
    const double last = (double)la_max(0, T % c->s - (c->s - c->c)); /* of the unfinished block */
    if (!c->bidirectional)
        return m * s * (s + 1) / 2 + rest * (rest + 1) / 2 + k * (s * m * (m - 1) / 2 + rest * m);
    return m * s * s + rest * rest + m * s * ((m - 1) * k + last) + rest * m * k;
}

static const la_sparse pattern = {.groups = groups, .group = group};

const la_attn la_attn_sparse_fixed = {
    .name = "sparse-fixed",
    .formula =
        "o_t = sum_j softmax_j(q_t.k_j / sqrt D) v_j over t's block and the last c of others",
    .paper = "Child et al., Generating long sequences with Sparse Transformers, 2019",
    .cost = "O(T (s + c T/s) (D+E)) time, state t(D+E): a cache that grows with the text",
    .file = "autograd/attention/sparse_fixed.c",
    .options = "chunk s c norm",
    .usual = {.c = 1},
    .tiny = "s=4,c=2",
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
