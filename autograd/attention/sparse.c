/* sparse.c -- what the patterns of sparse_softmax.h have in common.
 *
 * A window's group is some queries that follow each other, and all keys from w-1 before the first
 * to the last, or to w-1 after it.  It has at least w queries, so that a key is gathered for two
 * groups at most (three both ways), and else as many as fill a tile of keys. */
#include "autograd/kernel.h"
#include "autograd/ops/sparse_softmax.h"

static int64_t group_size(const la_sparse_text *x, int64_t w) { return la_max(w, x->tile - w + 1); }

int64_t la_sparse_windows(const la_sparse_text *x, int64_t w) {
    return la_ceil_div(x->end - x->past, group_size(x, w));
}

void la_sparse_window(const la_sparse_text *x, int64_t w, int64_t i, la_sparse_group *g) {
    const int64_t  ahead = x->cfg->bidirectional ? w : 1;
    const la_range t = la_cut(x->end - x->past, group_size(x, w), i);
    const la_range q = {x->past + t.from, x->past + t.to};
    const la_range k = {la_max(0, q.from - w + 1), la_min(x->end, q.to + ahead - 1)};
    g->last = 1;
    for (int64_t j = k.from; j < k.to; j++) g->k[g->nk++] = (int32_t)j;
    for (int64_t j = q.from; j < q.to; j++, g->nq++) {
        g->q[g->nq] = (int32_t)j;
        g->lo[g->nq] = (int32_t)(la_max(k.from, j - w + 1) - k.from);
        g->hi[g->nq] = (int32_t)(la_min(k.to, j + ahead) - k.from);
    }
}

int64_t la_sparse_root(int64_t n) {
    int64_t root = (int64_t)sqrt((double)n);
    while (root * root < n) root++;
    return la_max(1, root);
}

int64_t la_sparse_cache(const la_attn_cfg *c, int64_t D, int64_t E, int64_t capacity) {
    (void)c;
    return capacity * (D + E);
}
