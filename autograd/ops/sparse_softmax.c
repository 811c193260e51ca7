/* sparse_softmax: softmax attention over some of the keys, which a pattern names.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   o (B,T,H,E)   state (B,H,L): a ring of keys (room,D), then
 * values (room,E), then what the pattern keeps of each; position j is in row j mod room
 *
 *   s_ij = q_i.k_j / sqrt D + b_ij    p_ij = exp(s_ij - lse_i)    o_i = sum_{j in V(i)} p_ij v_j
 *   lse_i = log sum_{j in V(i)} exp(s_ij)
 *
 * V(i) comes in groups, sparse_softmax.h: a list of queries, a list of keys, and for each query a
 * range of that list.  A group is walked in tiles of keys by queries.  Their rows are gathered
 * where they do not follow each other, so that a tile is a product however far apart they lie; of a
 * tile only the columns that some of its rows see are computed, and what is outside of a row's own
 * range is set to 0.  b_ij is the pattern's, in most 0.
 *
 * A query meets its keys tile by tile and group by group.  m is the running maximum, l the running
 * sum, and o itself the output before the division, as in attention/softmax.c:
 *
 *   S = Q K' + b    m' = max(m, max_j s_ij)    P = exp(S - m')    l = l exp(m - m') + sum_j p_ij
 *   O = O exp(m - m') + P V                    at the end:  o = O / l    lse = m + log l
 *
 * A query with l = 0 has seen nothing: then V(i) = {i} and o_i = v_i; lse_i = inf stands for it,
 * and exp(s - inf) = 0 leaves it out of what follows.
 *
 * Backward, g_i the gradient at o_i, d_i = g_i.o_i: the groups once more, each tile with
 *
 *   P = exp(S - lse)    dP = G V'    dS = P o (dP - d)
 *   dV += P' G          dK += dS' Q  dQ += dS K
 *
 * with 1/sqrt D in the rows K; and the rows of dQ, dK, dV are added where they came from.  Where
 * keys are divided by their length, k^ = k r, r = 1 / sqrt(|k|^2 + tiny):  dk = r (dk^ - k^
 * (k^.dk^)).
 *
 * Every product is NN or TN, but for decoding: fewer than FEW queries have their scores by NT.
 *
 * Blocks: one head of one row.  Saved: lse, (B,H,T).  Time O(pairs (D + E)), if the ranges of a
 * tile are alike; scratch one tile, and the lists of a group. */
#include "autograd/ops/sparse_softmax_chunk.h"
#include "tensor/blas.h"

enum { FEW = 3 };

static la_status check(const la_node *n) { return la_attn_check_past(n, la_attn_room(n)); }

static la_status infer(const la_node *n, la_plan *p) {
    LA_TRY(la_attn_infer(n, p));
    dims s = get(n);
    work w;
    p->n_saved = (size_t)(n->in[0]->shape.d[0] * s.H * s.T);
    p->n_scratch = carve(n, s, NULL, &w);
    return LA_OK;
}

/* The columns of a tile of keys that the queries i see, and each one's range of them. */
static la_range columns(const work *w, const la_sparse_group *g, la_range i, la_range keys) {
    int32_t *lo = (int32_t *)w->lo, *hi = (int32_t *)w->hi;
    la_range seen = {keys.to, keys.from};
    for (int64_t r = i.from; r < i.to; r++) {
        const int64_t from = la_max(g->lo[r], keys.from), to = la_min(g->hi[r], keys.to);
        lo[r - i.from] = (int32_t)from, hi[r - i.from] = (int32_t)la_max(from, to);
        if (from >= to) continue;
        seen.from = la_min(seen.from, from), seen.to = la_max(seen.to, to);
    }
    for (int64_t r = 0; r < i.to - i.from; r++)
        lo[r] -= (int32_t)seen.from, hi[r] -= (int32_t)seen.from;
    return seen;
}

/* n up to a multiple of WIDE: columns that are computed, though nobody looks at the last ones. */
static int64_t wide(int64_t n) { return la_ceil_div(n, WIDE) * WIDE; }

/* S (rows,n) of the columns from `at` on of a tile. */
static void scores(dims s, const head *a, const work *w, const int32_t *q, int64_t rows,
                   const la_real *Q, int64_t ldq, const int32_t *k, int64_t n, int64_t at) {
    if (s.T < FEW)
        la_gemm_nt(LA_SET, rows, n, s.D, Q, ldq, w->K + at * s.D, s.D, w->P, s.ld);
    else
        la_gemm_nn(LA_SET, rows, wide(n), s.D, Q, ldq, w->KT + at, s.ld, w->P, s.ld);
    if (a->p->bias)
        a->p->bias(&a->text, rows, q, n, k, (int32_t *)w->lo, (int32_t *)w->hi, w->P, s.ld);
}

/* O of the tile's queries, scaled by how far m moved: where o is, or in scratch; ld is that of
 * either. */
static la_real *load_sums(dims s, const head *a, const work *w, const int32_t *q, int64_t rows,
                          int64_t *ld) {
    const int direct = in_place(q, rows);
    *ld = direct ? a->ldo : s.E;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t t = q[r] - a->text.past;
        la_real      *o = a->o + t * a->ldo, *to = direct ? o : w->O + r * s.E;
        if (w->l[t] == 0) /* o holds nothing yet */
            memset(to, 0, (size_t)s.E * sizeof *to);
        else if (w->shrink[r] != 1 || !direct)
            la_vec_table()->scale(s.E, w->shrink[r], o, to);
        w->m[t] = w->row_m[r], w->l[t] = w->row_l[r];
    }
    return direct ? a->o + (q[0] - a->text.past) * a->ldo : w->O;
}

static void forward_tile(dims s, const head *a, const work *w, const la_sparse_group *g, la_range i,
                         la_range keys) {
    const la_range seen = columns(w, g, i, keys);
    const int64_t  rows = i.to - i.from, n = seen.to - seen.from, at = seen.from - keys.from;
    const int32_t *q = g->q + i.from;
    int64_t        ldq = a->ldq, ldo;
    if (n <= 0) return;
    const la_real *Q = load_queries(a, q, rows, a->q, s.D, w->Q, &ldq);
    scores(s, a, w, q, rows, Q, ldq, g->k + seen.from, n, at);
    for (int64_t r = 0; r < rows; r++) {
        w->row_m[r] = w->m[q[r] - a->text.past], w->row_l[r] = w->l[q[r] - a->text.past];
        la_prefetch(s.E, a->o, (q[r] - a->text.past) * a->ldo);
    }
    la_vec_table()->softmax_ranges(rows, n, (int32_t *)w->lo, (int32_t *)w->hi, w->P, s.ld,
                                   w->row_m, w->row_l, w->shrink);
    la_real *O = load_sums(s, a, w, q, rows, &ldo);
    la_gemm_nn(LA_ADD, rows, s.E, n, w->P, s.ld, w->V + at * s.E, s.E, O, ldo);
    for (int64_t r = 0; r < rows && O == w->O; r++)
        memcpy(a->o + (q[r] - a->text.past) * a->ldo, O + r * s.E, (size_t)s.E * sizeof *O);
}

/* o and lse of queries whose keys have all been seen. */
static void finish(dims s, const head *a, const work *w, const la_sparse_group *g) {
    for (int64_t i = 0; i < g->nq; i++) {
        const int64_t t = g->q[i] - a->text.past;
        la_real      *o = a->o + t * a->ldo;
        if (w->l[t] > 0)
            la_vec_table()->scale(s.E, 1 / w->l[t], o, o);
        else
            memcpy(o, a->v + t * a->ldv, (size_t)s.E * sizeof *o);
        if (a->lse) a->lse[t] = w->l[t] > 0 ? w->m[t] + log(w->l[t]) : R(INFINITY);
    }
}

static void clear_rows(int64_t rows, int64_t n, la_real *x, int64_t ld) {
    for (int64_t t = 0; x && t < rows; t++) memset(x + t * ld, 0, (size_t)n * sizeof *x);
}

/* The last rows of the text take their places in the ring. */
static void put_state(const la_node *n, dims s, const head *a) {
    const int64_t  L = n->out[1]->shape.d[2];
    const la_real *old = la_attn_at(n, LA_AT_STATE)->x + a->number * L;
    la_real       *K = n->out[1]->x + a->number * L, *V = K + s.room * s.D;
    if (K != old) memcpy(K, old, (size_t)L * sizeof *K);
    for (int64_t t = la_max(0, a->T - s.room); t < a->T; t++) {
        const int64_t at = (a->text.past + t) % s.room;
        memcpy(K + at * s.D, a->k + t * a->ldk, (size_t)s.D * sizeof *K);
        memcpy(V + at * s.E, a->v + t * a->ldv, (size_t)s.E * sizeof *V);
    }
    if (a->p->store) a->p->store(&a->text, V + s.room * s.E);
}

/* Adds to dK, dV of the columns seen, and to dq. */
static void backward_tile(dims s, const head *a, const work *w, const la_sparse_group *g,
                          la_range i, la_range keys) {
    const la_range seen = columns(w, g, i, keys);
    const int64_t  rows = i.to - i.from, n = seen.to - seen.from, at = seen.from - keys.from;
    const int32_t *q = g->q + i.from;
    int64_t        ldq = a->ldq, ldg = a->ldo;
    if (n <= 0) return;
    const la_real *Q = load_queries(a, q, rows, a->q, s.D, w->Q, &ldq);
    const la_real *G = load_queries(a, q, rows, a->g, s.E, w->G, &ldg);
    scores(s, a, w, q, rows, Q, ldq, g->k + seen.from, n, at);
    la_gemm_nn(LA_SET, rows, wide(n), s.E, G, ldg, w->VT + at, s.ld, w->dS, s.ld);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t t = q[r] - a->text.past;
        w->row_m[r] = w->m[t], w->row_l[r] = w->l[t];
        if (a->dq) la_prefetch(s.D, a->dq, t * a->ldq);
    }
    la_vec_table()->softmax_ranges_backward(rows, n, (int32_t *)w->lo, (int32_t *)w->hi, w->row_l,
                                            w->row_m, w->P, w->dS, s.ld);
    la_gemm_tn(LA_ADD, n, s.E, rows, w->P, s.ld, G, ldg, w->dV + at * s.E, s.E);
    la_gemm_tn(LA_ADD, n, s.D, rows, w->dS, s.ld, Q, ldq, w->dK + at * s.D, s.D);
    if (a->dq && in_place(q, rows))
        la_gemm_nn(LA_ADD, rows, s.D, n, w->dS, s.ld, w->K + at * s.D, s.D,
                   a->dq + (q[0] - a->text.past) * a->ldq, a->ldq);
    else if (a->dq) {
        la_gemm_nn(LA_SET, rows, s.D, n, w->dS, s.ld, w->K + at * s.D, s.D, w->O, s.D);
        scatter(a, rows, q, 1, w->O, s.D, a->dq, a->ldq, NULL);
    }
}

/* In K there is 1/sqrt D, and not in Q. */
static void put_keys(dims s, const head *a, const work *w, const int32_t *list, int64_t n) {
    const la_vec *vec = la_vec_table();
    for (int64_t i = 0; i < n && a->p->unit_keys; i++) {
        la_real *dk = w->dK + i * s.D, *k = w->K + i * s.D;
        vec->axpy(s.D, -vec->dot(s.D, k, dk) / (s.scale * s.scale), k, dk);
        vec->scale(s.D, w->r[i], dk, dk);
    }
    scatter(a, n, list, s.scale, w->dK, s.D, a->dk, a->ldk, a->dK);
    scatter(a, n, list, 1, w->dV, s.E, a->dv, a->ldv, a->dV);
}

/* d and lse; and the queries that see but themselves. */
static void begin_backward(dims s, const head *a, const work *w) {
    for (int64_t t = 0; t < a->T; t++) {
        const la_real *g = a->g + t * a->ldo;
        w->m[t] = la_vec_table()->dot(s.E, g, a->o + t * a->ldo);
        w->l[t] = a->lse[t];
        if (a->dv && a->lse[t] == R(INFINITY)) la_vec_table()->axpy(s.E, 1, g, a->dv + t * a->ldv);
    }
}

/* The gradient of the state that goes out: of rows from this text, it is theirs. */
static void put_state_gradient(const la_node *n, dims s, const head *a) {
    const int64_t  L = n->out[1]->shape.d[2];
    const la_real *gK = n->out[1]->g + a->number * L, *gV = gK + s.room * s.D;
    for (int64_t at = 0; at < s.room; at++) {
        const int64_t first = a->text.past + la_max(0, a->T - s.room); /* of those in the ring */
        const int64_t t = first + ((at - first) % s.room + s.room) % s.room - a->text.past;
        la_real      *dk = t < a->T ? la_plus(a->dk, t * a->ldk) : la_plus(a->dK, at * s.D);
        la_real      *dv = t < a->T ? la_plus(a->dv, t * a->ldv) : la_plus(a->dV, at * s.E);
        if (dk) la_vec_table()->axpy(s.D, 1, gK + at * s.D, dk);
        if (dv) la_vec_table()->axpy(s.E, 1, gV + at * s.E, dv);
    }
}

/* All tiles of a group, forward or backward: of keys, and for each of those, of queries. */
static void walk(dims s, const head *a, const work *w, const la_sparse_group *g, int back) {
    for (int64_t c = 0; g->nq && c * s.C < g->nk; c++) {
        const la_range k = la_cut(g->nk, s.C, c);
        const int64_t  keys = k.to - k.from;
        load_keys(s, a, w, g->k + k.from, keys);
        if (back) {
            la_vec_table()->transpose(keys, s.E, w->V, s.E, w->VT, s.ld);
            memset(w->dK, 0, (size_t)(keys * s.D) * sizeof *w->dK);
            memset(w->dV, 0, (size_t)(keys * s.E) * sizeof *w->dV);
        }
        for (int64_t i = 0; i * s.R < g->nq; i++)
            (back ? backward_tile : forward_tile)(s, a, w, g, la_cut(g->nq, s.R, i), k);
        if (back) put_keys(s, a, w, g->k + k.from, keys);
    }
}

static void forward(const la_node *n, const la_run *run) {
    dims s = get(n);
    work w;
    carve(n, s, run->scratch, &w);
    head a = find(n, s, &w, run->block);
    for (int64_t t = 0; t < a.T; t++) w.m[t] = R(-INFINITY), w.l[t] = 0;
    for (int64_t i = 0, groups = a.T ? a.p->groups(&a.text) : 0; i < groups; i++) {
        la_sparse_group g = group(&a, &w, i);
        walk(s, &a, &w, &g, 0);
        if (g.last) finish(s, &a, &w, &g);
    }
    clear_rows(s.T - a.T, s.E, a.o + a.T * a.ldo, a.ldo);
    if (n->n_out == 2) put_state(n, s, &a);
}

static void backward(const la_node *n, const la_run *run) {
    dims s = get(n);
    work w;
    carve(n, s, run->scratch, &w);
    head a = find(n, s, &w, run->block);
    if (la_sets(run, 0)) clear_rows(s.T, s.D, a.dq, a.ldq);
    if (la_sets(run, 1)) clear_rows(s.T, s.D, a.dk, a.ldk);
    if (la_sets(run, 2)) clear_rows(s.T, s.E, a.dv, a.ldv);
    begin_backward(s, &a, &w);
    for (int64_t i = 0, groups = a.T ? a.p->groups(&a.text) : 0; i < groups; i++) {
        la_sparse_group g = group(&a, &w, i);
        walk(s, &a, &w, &g, 1);
    }
    if (n->n_out == 2) put_state_gradient(n, s, &a);
}

const la_op la_op_sparse_softmax = {
    .name = "sparse_softmax",
    .formula = "o_t = sum_{j in V(t)} softmax_j(q_t.k_j / sqrt D) v_j",
    .file = "autograd/ops/sparse_softmax.c",
    .attr_size = sizeof(la_attn_call),
    .reads = LA_READS_ATTENTION | LA_READS_OUT(0),
    .sets = LA_SETS_IN(0) | LA_SETS_IN(1) | LA_SETS_IN(2),
    .strided = 1,
    .infer = infer,
    .check = check,
    .forward = forward,
    .backward = backward,
};
