/* sparse_softmax.h -- what a variant says of the keys that its queries see.
 *
 * A pattern is made of groups.  A group is a list of queries, a list of keys, both positions in
 * rising order, and for each query a range [lo,hi) of the list of keys.  A query may be in several
 * groups; it sees a key in one of them only, or the pattern's `bias` makes up for it.  A query that
 * sees no key at all sees itself. */
#ifndef LA_SPARSE_SOFTMAX_H
#define LA_SPARSE_SOFTMAX_H
#include "autograd/attention/attention.h"

/* One head of a batch row: queries stand at positions past .. end-1, keys at 0 .. end-1. */
typedef struct la_sparse_text {
    const la_attn_cfg *cfg;
    int64_t            past, end, D;
    int64_t            tile;           /* keys that are handled at a time */
    const la_real     *q, *k, *weight; /* rows of position `past` on, and this head's weight      */
    int64_t            ldq, ldk;
    const la_real     *old;  /* what `store` left of positions below past: extra rows ...         */
    int64_t            room; /* ... of so many reals                                              */
    la_real           *own; /* the pattern's memory, which `begin` fills                          */
} la_sparse_text;

typedef struct la_sparse_group {
    int64_t  nq, nk;
    int      last;            /* its queries are in no group after it                            */
    int32_t *q, *k, *lo, *hi; /* given with room for all positions; may be pointed elsewhere     */
} la_sparse_group;

typedef struct la_sparse {
    int ring; /* no query sees further back than cfg->w keys: the state holds so many, or all */
    int unit_keys; /* keys are divided by their length                                            */
    int64_t (*groups)(const la_sparse_text *x);
    void (*group)(const la_sparse_text *x, int64_t i, la_sparse_group *g);
    /* Those below may be NULL. */
    size_t (*own)(const la_attn_cfg *c, int64_t D, int64_t keys); /* reals of x->own, at most     */
    void (*begin)(const la_sparse_text *x);
    /* Adds to a tile of scores S (rows,keys) of these positions; of row i [lo_i,hi_i) counts     */
    void (*bias)(const la_sparse_text *x, int64_t rows, const int32_t *q, int64_t keys,
                 const int32_t *k, const int32_t *lo, const int32_t *hi, la_real *S, int64_t ld);
    void (*store)(const la_sparse_text *x, la_real *extra); /* rows of `room` reals              */
} la_sparse;

extern const la_op la_op_sparse_softmax;

/* The length of a key is sqrt(|k|^2 + this), so that rows of zeros stay. */
#define LA_SPARSE_TINY 1e-12

/* Groups of which each query sees the keys less than w from it, up to itself or both ways; there
 * are so many.  After them nothing is missing: they come last. */
int64_t   la_sparse_windows(const la_sparse_text *x, int64_t w);
void      la_sparse_window(const la_sparse_text *x, int64_t w, int64_t i, la_sparse_group *g);
/* The root of n, rounded up. */
int64_t   la_sparse_root(int64_t n);
/* State of a variant that may see any token before: capacity (D+E). */
int64_t   la_sparse_cache(const la_attn_cfg *c, int64_t D, int64_t E, int64_t capacity);
/* Softmax over the keys that sees(x,t,j) names: the definition of a variant. */
la_status la_sparse_definition(const la_attn_head *x, double *w,
                               int sees(const la_attn_cfg *c, int64_t t, int64_t j));
#endif
