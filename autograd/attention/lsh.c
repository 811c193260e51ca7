/* lsh: softmax attention over the keys that hash like the query.
 * Kitaev, Kaiser, Levskaya, "Reformer: the efficient Transformer", 2020, in a causal form.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   o (B,T,H,E)   R (H, rounds log2(buckets), D), drawn, not trained
 *   state (B,H,capacity(D+E+rounds)): keys, values, and for each round the buckets of the keys
 *
 *   k^ = k / |k|    s_tj = q_t.k^_j / sqrt D    o_t = sum_{j in V(t)} softmax_j(s_tj) v_j
 *
 * In a model queries serve as keys.  The bucket of a vector x in round r is the number whose bits
 * are the signs of log2(buckets) rows of R times x: the paper's argmax of [xR, -xR], in factors of
 * 2, so that a token is hashed in O(D log(buckets)).
 *
 * V(t).  In each round a bucket has its keys in the order of their positions, and is cut into
 * chunks of c of them.  The rank of a query is the number of keys that its bucket has before t:
 * rank / c, rounded down, is its own chunk.  It sees the keys j < t of its own chunk and of the one
 * before; both ways, all j != t of its own and its two neighbours.  V(t) is the union over the
 * rounds, and {t} where that is empty: then o_t = v_t.
 *
 * The paper sorts all tokens by bucket and cuts the whole list into chunks.  There a token that
 * comes later moves the borders of all buckets after its own, and so decides which earlier tokens
 * an earlier query sees: the objective leaks.  Here ranks and borders count what stands before a
 * token only.
 *
 * A pair that meets in N_tj rounds counts once: each time with -log N_tj added to its score, as in
 * the paper, for N exp(s - log N) = exp(s).  To count, each round numbers the chunks of all
 * buckets, with a number left out between buckets: query and key meet where their numbers differ by
 * 0 or 1 (both ways -1 also).
 *
 * Decoding, a single query needs the keys of its own buckets alone, and finds them by one pass over
 * the stored numbers: O(rounds t) comparisons beside O(rounds c (D+E)).
 *
 * The work is sparse_softmax's: a group is some chunks of a bucket that follow each other, with the
 * queries whose own chunks they are. */
#include "autograd/attention/kernel_map.h"
#include "autograd/attention/lsh_lists.h"

enum { PIECE = 256 }; /* keys whose biases are found at a time */

static void store(const la_sparse_text *x, la_real *extra) {
    const lists l = find(x);
    for (int64_t r = 0; r < l.rounds; r++)
        for (int64_t j = x->past; j < x->end; j++)
            extra[r * x->room + j] = (la_real)l.bucket_k[r * l.N + j];
}

static int64_t groups(const la_sparse_text *x) { return find(x).begins[0]; }

static void group(const la_sparse_text *x, int64_t i, la_sparse_group *g) {
    const lists    l = find(x);
    const int64_t  from = l.begins[1 + i], r = from / l.T, ahead = x->cfg->bidirectional ? 2 : 0;
    const int64_t  size = la_max(1, GROUP / l.c);
    const int32_t *rank = l.rank_q + r * l.T - x->past;
    g->q = l.sorted_q + from;
    g->nq = l.begins[2 + i] - from;
    g->last = r == l.rounds - 1;
    const int64_t  h = l.bucket_q[r * l.T + g->q[0] - x->past];
    const int32_t *first = l.first_k + r * (l.buckets + 1) + h;
    const int64_t  count = first[1] - first[0], chunk = rank[g->q[0]] / (size * l.c) * size;
    const int64_t  begin_k = la_min(count, la_max(0, chunk - 1) * l.c);
    g->k = l.sorted_k + r * l.N + first[0] + begin_k;
    for (int64_t t = 0; t < g->nq; t++) {
        const int64_t own = rank[g->q[t]] / l.c, lo = la_max(0, own - 1) * l.c;
        const int64_t hi = ahead ? la_min(count, (own + ahead) * l.c) : rank[g->q[t]];
        g->lo[t] = (int32_t)(la_min(lo, hi) - begin_k);
        g->hi[t] = (int32_t)(hi - begin_k);
        g->nk = la_max(g->nk, g->hi[t]);
    }
}

/* -log N_tj for the keys of a piece, and both ways -inf for t itself. */
static void bias_piece(const la_sparse_text *x, const lists *l, int64_t rows, const int32_t *q,
                       la_range piece, const int32_t *k, const int32_t *lo, const int32_t *hi,
                       la_real *S, int64_t ld) {
    const int      both = x->cfg->bidirectional;
    const unsigned most = both ? 2 : 1;
    la_real        minus_log[MOST_ROUNDS + 1] = {0};
    int32_t        number[MOST_ROUNDS][PIECE], meet[PIECE];
    for (int64_t n = 1; n <= l->rounds; n++) minus_log[n] = -log(R(n));
    for (int64_t j = piece.from; j < piece.to; j++)
        for (int64_t r = 0; r < l->rounds; r++)
            number[r][j - piece.from] = l->chunk_k[k[j] * l->rounds + r];
    for (int64_t i = 0; i < rows; i++, S += ld) {
        const int64_t from = la_max(lo[i], piece.from), to = la_min(hi[i], piece.to);
        const int64_t first = from - piece.from, end = to - piece.from;
        for (int64_t j = first; j < end; j++) meet[j] = 0;
        for (int64_t r = 0; r < l->rounds; r++) {
            const int32_t own = l->chunk_q[(q[i] - x->past) * l->rounds + r] + both;
            for (int64_t j = first; j < end; j++) meet[j] += (unsigned)(own - number[r][j]) <= most;
        }
        for (int64_t j = from; j < to; j++) S[j] += minus_log[meet[j - piece.from]];
        for (int64_t j = from; both && j < to; j++)
            if (k[j] == q[i]) S[j] = R(-INFINITY);
    }
}

static void bias(const la_sparse_text *x, int64_t rows, const int32_t *q, int64_t keys,
                 const int32_t *k, const int32_t *lo, const int32_t *hi, la_real *S, int64_t ld) {
    const lists l = find(x);
    for (int64_t i = 0; i * PIECE < keys; i++)
        bias_piece(x, &l, rows, q, la_cut(keys, PIECE, i), k, lo, hi, S, ld);
}

/* --- the definition: buckets and ranks by counting --- */
static int64_t bucket_of(const la_attn_head *x, int64_t r, const double *row) {
    const int64_t bits = log2_of(x->cfg->buckets);
    int64_t       bucket = 0;
    for (int64_t b = 0; b < bits; b++) {
        double y = 0;
        for (int64_t d = 0; d < x->D; d++) y += x->weight[0][(r * bits + b) * x->D + d] * row[d];
        bucket |= (int64_t)(y > 0) << b;
    }
    return bucket;
}

/* Whether t sees j in round r. */
static int meet(const la_attn_head *x, int64_t r, int64_t t, int64_t j) {
    const int64_t h = bucket_of(x, r, x->q + t * x->D);
    int64_t       rank_q = 0, rank_k = 0;
    if (j == t || (j > t && !x->cfg->bidirectional) || bucket_of(x, r, x->k + j * x->D) != h)
        return 0;
    for (int64_t i = 0; i < x->T; i++) {
        const int same = bucket_of(x, r, x->k + i * x->D) == h;
        rank_q += same && i < t, rank_k += same && i < j;
    }
    const int64_t ahead = rank_k / x->cfg->c - rank_q / x->cfg->c;
    return ahead == 0 || ahead == -1 || (ahead == 1 && x->cfg->bidirectional);
}

static la_status definition(const la_attn_head *x, double *w) {
    for (int64_t t = 0; t < x->T; t++) {
        double *row = w + t * x->T;
        int     any = 0;
        for (int64_t j = 0; j < x->T; j++) {
            double dot = 0, square = LA_SPARSE_TINY;
            int    seen = 0;
            for (int64_t r = 0; r < x->cfg->rounds; r++) seen |= meet(x, r, t, j);
            for (int64_t d = 0; d < x->D; d++) {
                const double k = x->k[j * x->D + d];
                dot += x->q[t * x->D + d] * k, square += k * k;
            }
            row[j] = seen ? dot / sqrt(square * (double)x->D) : -HUGE_VAL;
            any |= seen;
        }
        if (!any) row[t] = 0;
        la_softmax_definition(x->T, row);
    }
    return LA_OK;
}

/* --- the variant --- */
static void complete(la_attn_cfg *c, int64_t longest) {
    if (c->buckets) return;
    const double wish = round(log2((double)longest / (double)c->c));
    c->buckets = (int64_t)1 << (wish < 1 ? 1 : wish > 16 ? 16 : (int)wish);
}

static la_status check(const la_attn_cfg *c, int64_t H, int64_t D) {
    (void)H, (void)D;
    if (c->rounds < 1 || c->rounds > MOST_ROUNDS || c->c < 1)
        return la_fail(
            LA_ARG, "lsh: rounds must be from 1 to %d and c at least 1, and they are %lld and %lld",
            MOST_ROUNDS, (long long)c->rounds, (long long)c->c);
    if (c->buckets >= 2 && c->buckets == (int64_t)1 << log2_of(c->buckets)) return LA_OK;
    return la_fail(LA_ARG, "lsh: buckets must be a power of 2 from 2 on, and are %lld",
                   (long long)c->buckets);
}

static int weights(const la_attn_cfg *c, int64_t H, int64_t D, la_attn_weight out[2]) {
    out[0] = (la_attn_weight){.name = "hash",
                              .shape = la_shape3(H, c->rounds * log2_of(c->buckets), D),
                              .how = LA_INIT_NORMAL,
                              .scale = 1,
                              .frozen = 1};
    return 1;
}

static int64_t state_len(const la_attn_cfg *c, int64_t D, int64_t E, int64_t capacity) {
    return capacity * (D + E + c->rounds);
}

/* About: in each round the chunk before and half of the own; both ways three chunks. */
static double pairs(const la_attn_cfg *c, int64_t T) {
    const double wide = (double)c->c * (c->bidirectional ? 3 : 1.5), all = (double)T;
    return (double)c->rounds * all * fmin(wide, c->bidirectional ? all : all / 2);
}

static const la_sparse pattern = {.unit_keys = 1,
                                  .own = own,
                                  .begin = begin,
                                  .groups = groups,
                                  .group = group,
                                  .bias = bias,
                                  .store = store};

const la_attn la_attn_lsh = {
    .name = "lsh",
    .formula = "o_t = sum_j softmax_j(q_t.k_j / (|k_j| sqrt D)) v_j over j that hash like t",
    .paper = "Kitaev et al., Reformer, 2020",
    .cost = "O(T rounds (c (D+E) + D log T)) time, decoding a token O(rounds t) more for a look at "
            "the buckets of all keys; state t(D+E+rounds): a cache that grows with the text",
    .file = "autograd/attention/lsh.c",
    .options = "chunk rounds buckets c norm",
    .usual = {.rounds = 2, .c = 16},
    .tiny = "rounds=2,buckets=2,c=2",
    .traits = LA_ATTN_SPARSE,
    .shared_qk = 1,
    .causal = &la_op_sparse_softmax,
    .full = &la_op_sparse_softmax,
    .sparse = &pattern,
    .complete = complete,
    .check = check,
    .weights = weights,
    .state_len = state_len,
    .pairs = pairs,
    .definition = definition,
};
