/* lsh_lists.h -- for lsh.c, in its letters: the buckets of keys and queries, the keys of each
 * bucket in their order, their chunks, and where groups begin. */
#ifndef LA_LSH_LISTS_H
#define LA_LSH_LISTS_H
#include "autograd/kernel.h"
#include "autograd/ops/sparse_softmax.h"
#include "tensor/blas.h"

enum {
    GROUP = 128, /* keys of a group, about                                                     */
    HASHED = 64, /* rows that are hashed by one product                                        */
    APART = -9,  /* a chunk that no query is near                                              */
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

/* One query, at position past: of the keys, those of its bucket, in one pass over the numbers that
 * are stored.  It is a group of its own in each round. */
static void begin_one(const la_sparse_text *x, const lists *l) {
    for (int64_t r = 0; r < l->rounds; r++) {
        const la_real bucket = (la_real)l->bucket_q[r];
        int32_t      *sorted = l->sorted_k + r * l->N, *first = l->first_k + r * (l->buckets + 1);
        int32_t       rank = 0;
        for (int64_t j = 0; j < x->past; j++)
            if (x->old[r * x->room + j] == bucket) sorted[rank++] = (int32_t)j;
        first += l->bucket_q[r];
        first[0] = 0, first[1] = l->rank_q[r] = rank;
        l->chunk_q[r] = rank / (int32_t)l->c;
        l->sorted_q[r] = (int32_t)x->past;
        l->begins[1 + r] = (int32_t)r;
    }
    l->begins[0] = (int32_t)l->rounds;
    for (int own = 0; own < 2; own++) /* those it sees are in no chunk but where it meets them */
        for (int64_t r = 0; r < l->rounds; r++)
            for (int64_t i = la_max(0, l->chunk_q[r] - 1) * l->c; i < l->rank_q[r]; i++) {
                int32_t *chunk = l->chunk_k + l->sorted_k[r * l->N + i] * l->rounds;
                for (int64_t other = 0; !own && other < l->rounds; other++) chunk[other] = APART;
                if (own) chunk[r] = (int32_t)(i / l->c);
            }
}

static void begin_all(const la_sparse_text *x, const lists *l) {
    l->begins[0] = 0;
    for (int64_t r = 0; r < l->rounds; r++) {
        for (int64_t j = 0; j < x->past; j++)
            l->bucket_k[r * l->N + j] = (int32_t)x->old[r * x->room + j];
        sort(l->N, l->buckets, l->bucket_k + r * l->N, 0, l->first_k + r * (l->buckets + 1),
             l->sorted_k + r * l->N);
        sort(l->T, l->buckets, l->bucket_q + r * l->T, x->past, l->first_q + r * (l->buckets + 1),
             l->sorted_q + r * l->T);
        cut_round(x, l, r);
    }
}

static void begin(const la_sparse_text *x) {
    const lists   l = find(x);
    const int64_t bits = l.rounds * log2_of(l.buckets);
    la_transpose(bits, x->D, x->weight, x->D, l.W);
    hash(x, &l, x->q, x->ldq, l.bucket_q, l.T);
    hash(x, &l, x->k, x->ldk, l.bucket_k + x->past, l.N);
    if (l.T == 1 && !x->cfg->bidirectional)
        begin_one(x, &l);
    else
        begin_all(x, &l);
    l.begins[1 + l.begins[0]] = (int32_t)(l.rounds * l.T);
}
#endif
