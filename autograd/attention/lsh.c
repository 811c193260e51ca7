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
 * The work is sparse_softmax's: a group is some chunks of a bucket that follow each other, with the
 * queries whose own chunks they are. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"
#include "autograd/ops/sparse_softmax.h"
#include "tensor/blas.h"

enum {
    GROUP = 128, /* keys of a group, about                                                     */
    HASHED = 64, /* rows that are hashed by one product                                        */
    MOST_ROUNDS = 16,
};

static int64_t log2_of(int64_t n) {
    int64_t bits = 0;
    while (n > 1) n /= 2, bits++;
    return bits;
}

/* What is found of a text before its groups.  Each for all rounds, one after the other. */
typedef struct lists {
    int64_t  T, N, buckets, rounds, c;
    la_real *W, *y;                           /* R' (D,bits), R x (HASHED,bits)                */
    int32_t *bucket_k, *sorted_k;             /* (N) of a position; the positions by bucket    */
    int32_t *bucket_q, *sorted_q, *rank_q;    /* (T) of a query                                */
    int32_t *chunk_k, *chunk_q;               /* (N) (T) their numbers, but (.,rounds): a position's
                                                 next to each other                            */
    int32_t *first_k, *first_q, *first_chunk; /* (buckets + 1) where each begins in sorted, and in
                                                 the numbers of chunks                         */
    int32_t *begins; /* how many groups there are in all rounds, then their first places in
                        sorted_q, then the end of it                                           */
} lists;

/* Lays them out from `at`, and returns the reals they take; at NULL only counts. */
static size_t lay(const la_attn_cfg *c, int64_t D, int64_t T, int64_t N, la_real *at, lists *l) {
    const int64_t bits = c->rounds * log2_of(c->buckets), edges = c->rounds * (c->buckets + 1);
    const int64_t keys = c->rounds * N, queries = c->rounds * T;
    la_real      *integers = NULL;
    const la_part parts[] = {{&l->W, D * bits},
                             {&l->y, HASHED * bits},
                             {&integers, 3 * keys + 5 * queries + 3 * edges + 2}};
    const size_t  used = la_carve(parts, sizeof parts / sizeof *parts, at);
    int32_t      *i = (int32_t *)integers;
    l->T = T, l->N = N, l->buckets = c->buckets, l->rounds = c->rounds, l->c = c->c;
    if (!at) return used;
    l->bucket_k = i, l->sorted_k = i + keys, l->chunk_k = i + 2 * keys, i += 3 * keys;
    l->bucket_q = i, l->sorted_q = i + queries, l->rank_q = i + 2 * queries, i += 3 * queries;
    l->chunk_q = i, i += queries;
    l->first_k = i, l->first_q = i + edges, l->first_chunk = i + 2 * edges, i += 3 * edges;
    l->begins = i;
    return used;
}

static size_t own(const la_attn_cfg *c, int64_t D, int64_t keys) {
    lists l;
    return lay(c, D, keys, keys, NULL, &l);
}

static lists find(const la_sparse_text *x) {
    lists l;
    lay(x->cfg, x->D, x->end - x->past, x->end, x->own, &l);
    return l;
}

/* The buckets of T rows, those of round r at out[r * step]. */
static void hash(const la_sparse_text *x, const lists *l, const la_real *rows, int64_t ld,
                 int32_t *out, int64_t step) {
    const int64_t bits = log2_of(l->buckets), all = l->rounds * bits;
    for (int64_t t = 0; t < l->T; t += HASHED) {
        const int64_t n = la_min(HASHED, l->T - t);
        la_gemm_nn(LA_SET, n, all, x->D, rows + t * ld, ld, l->W, all, l->y, all);
        for (int64_t r = 0; r < l->rounds; r++)
            for (int64_t i = 0; i < n; i++) {
                int32_t bucket = 0;
                for (int64_t b = 0; b < bits; b++)
                    bucket |= (int32_t)(l->y[i * all + r * bits + b] > 0) << b;
                out[r * step + t + i] = bucket;
            }
    }
}

/* Positions `from` + 0 .. n-1 by bucket, in their order; first[h]: where bucket h begins. */
static void sort(int64_t n, int64_t buckets, const int32_t *bucket, int64_t from, int32_t *first,
                 int32_t *sorted) {
    memset(first, 0, (size_t)(buckets + 1) * sizeof *first);
    for (int64_t i = 0; i < n; i++) first[bucket[i] + 1]++;
    for (int64_t h = 0; h < buckets; h++) first[h + 1] += first[h];
    for (int64_t i = 0; i < n; i++) sorted[first[bucket[i]]++] = (int32_t)(from + i);
    for (int64_t h = buckets; h > 0; h--) first[h] = first[h - 1];
    first[0] = 0;
}

/* Ranks of the queries, chunks of the keys, and where groups begin, in round r. */
static void cut_round(const la_sparse_text *x, const lists *l, int64_t r) {
    const int32_t *fk = l->first_k + r * (l->buckets + 1), *fq = l->first_q + r * (l->buckets + 1);
    const int32_t *sk = l->sorted_k + r * l->N, *sq = l->sorted_q + r * l->T;
    int32_t       *chunk = l->first_chunk + r * (l->buckets + 1), *begins = l->begins + 1;
    const int64_t  size = la_max(1, GROUP / l->c) * l->c;
    chunk[0] = 0;
    for (int64_t h = 0; h < l->buckets; h++) {
        const int64_t count = fk[h + 1] - fk[h];
        int64_t       rank = 0, group = -1;
        chunk[h + 1] = chunk[h] + (int32_t)(count / l->c) + 2;
        for (int64_t i = 0; i < count; i++)
            l->chunk_k[sk[fk[h] + i] * l->rounds + r] = chunk[h] + (int32_t)(i / l->c);
        for (int64_t i = fq[h]; i < fq[h + 1]; i++) {
            while (rank < count && sk[fk[h] + rank] < sq[i]) rank++;
            l->rank_q[r * l->T + sq[i] - x->past] = (int32_t)rank;
            l->chunk_q[(sq[i] - x->past) * l->rounds + r] = chunk[h] + (int32_t)(rank / l->c);
            if (rank / size != group) begins[l->begins[0]++] = (int32_t)(r * l->T + i);
            group = rank / size;
        }
    }
}

static void begin(const la_sparse_text *x) {
    const lists   l = find(x);
    const int64_t bits = l.rounds * log2_of(l.buckets);
    la_transpose(bits, x->D, x->weight, x->D, l.W);
    hash(x, &l, x->q, x->ldq, l.bucket_q, l.T);
    hash(x, &l, x->k, x->ldk, l.bucket_k + x->past, l.N);
    l.begins[0] = 0;
    for (int64_t r = 0; r < l.rounds; r++) {
        for (int64_t j = 0; j < x->past; j++)
            l.bucket_k[r * l.N + j] = (int32_t)x->old[r * x->room + j];
        sort(l.N, l.buckets, l.bucket_k + r * l.N, 0, l.first_k + r * (l.buckets + 1),
             l.sorted_k + r * l.N);
        sort(l.T, l.buckets, l.bucket_q + r * l.T, x->past, l.first_q + r * (l.buckets + 1),
             l.sorted_q + r * l.T);
        cut_round(x, &l, r);
    }
    l.begins[1 + l.begins[0]] = (int32_t)(l.rounds * l.T);
}

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

/* -log N_tj, and both ways -inf for t itself. */
static void bias(const la_sparse_text *x, int64_t rows, const int32_t *q, int64_t keys,
                 const int32_t *k, const int32_t *lo, const int32_t *hi, la_real *S, int64_t ld) {
    const lists    l = find(x);
    const int      both = x->cfg->bidirectional;
    const unsigned most = both ? 2 : 1;
    la_real        minus_log[MOST_ROUNDS + 1] = {0};
    int32_t        number[MOST_ROUNDS][keys];
    for (int64_t n = 1; n <= l.rounds; n++) minus_log[n] = -log(R(n));
    for (int64_t j = 0; j < keys; j++)
        for (int64_t r = 0; r < l.rounds; r++) number[r][j] = l.chunk_k[k[j] * l.rounds + r];
    for (int64_t i = 0; i < rows; i++, S += ld) {
        int32_t meet[keys];
        for (int64_t j = lo[i]; j < hi[i]; j++) meet[j] = 0;
        for (int64_t r = 0; r < l.rounds; r++) {
            const int32_t own = l.chunk_q[(q[i] - x->past) * l.rounds + r] + both;
            for (int64_t j = lo[i]; j < hi[i]; j++)
                meet[j] += (unsigned)(own - number[r][j]) <= most;
        }
        for (int64_t j = lo[i]; j < hi[i]; j++) S[j] += minus_log[meet[j]];
        for (int64_t j = lo[i]; both && j < hi[i]; j++)
            if (k[j] == q[i]) S[j] = R(-INFINITY);
    }
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
    .formula = "o_t = sum_j softmax_j(q_t.k_j / |k_j| sqrt D) v_j over j that hash like t",
    .paper = "Kitaev et al., Reformer, 2020",
    .cost = "O(T rounds (c (D+E) + D log T)) time, state t(D+E+rounds): a cache that grows with "
            "the text",
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
