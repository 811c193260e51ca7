/* kernel.h -- what an op file may use besides op.h: libm in our precision, vectors, and the
 * cutting of rows into blocks. */
#ifndef LA_KERNEL_H
#define LA_KERNEL_H
#include <string.h>
#include <tgmath.h>
#undef I /* the imaginary unit; here the letter of an input dimension */

#include "autograd/op.h"
#include "tensor/vec.h"

enum { LA_BLOCK_REALS = 16384 }; /* of an element-wise op: 64 KiB in float, one core's L1 + L2 */

typedef struct la_range {
    int64_t from, to;
} la_range;

static inline int64_t la_ceil_div(int64_t n, int64_t size) { return (n + size - 1) / size; }
static inline int64_t la_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t la_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* x + at, or NULL where there is no x. */
static inline la_real *la_plus(la_real *x, int64_t at) { return x ? x + at : NULL; }

/* Block number i of [0,n) cut into pieces of `size`, the last one shorter. */
static inline la_range la_cut(int64_t n, int64_t size, int64_t i) {
    return (la_range){i * size, la_min(n, (i + 1) * size)};
}

/* Whether backward writes the gradient of input i with =. */
static inline int la_sets(const la_run *r, int i) { return (int)(r->first >> i & 1); }

/* Two kinds of blocks in one phase, mixed evenly so that each thread meets its part of both:
 * whether `block` is of the first kind, of which there are n, and its number among its kind. */
static inline int la_first_kind(int64_t block, int64_t n, int64_t others, int64_t *number) {
    int64_t before = block * n / (n + others), after = (block + 1) * n / (n + others);
    *number = after > before ? before : block - before;
    return after > before;
}

/* One matrix of a thread's scratch: where its pointer goes, and its reals. */
typedef struct la_part {
    la_real **where;
    int64_t   len;
} la_part;

/* Lays n parts one after the other from `at`, each aligned, and returns the reals they take; at
 * NULL only counts. */
static inline size_t la_carve(const la_part *parts, size_t n, la_real *at) {
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        if (at) *parts[i].where = at + used;
        used += (size_t)la_ceil_div(parts[i].len, 16) * 16;
    }
    return used;
}

/* y (cols,rows) = x' for x (rows,cols) with ld reals between rows. */
static inline void la_transpose(int64_t rows, int64_t cols, const la_real *x, int64_t ld,
                                la_real *y) {
    la_vec_table()->transpose(rows, cols, x, ld, y, rows);
}

/* P (C,C) o M: sets what is right of the diagonal to 0.  It does not multiply: 0 * inf is not 0. */
static inline void la_keep_lower(int64_t C, la_real *P) {
    for (int64_t i = 0; i < C; i++) memset(P + i * C + i + 1, 0, (size_t)(C - 1 - i) * sizeof *P);
}

/* Asks for the row at x + offset, which is needed soon; it may lie outside of the tensor. */
static inline void la_prefetch(int64_t len, const la_real *x, int64_t offset) {
    const uintptr_t at = (uintptr_t)x + (uintptr_t)(offset * (int64_t)sizeof *x);
    for (uintptr_t j = 0; j < (uintptr_t)len * sizeof *x; j += 64)
        __builtin_prefetch((const void *)(at + j), 0, 2);
}

/* Where head h of token t in batch row b begins, in x or g of a node (B,T,H,D). */
static inline int64_t la_token(const la_node *n, int64_t b, int64_t t, int64_t h) {
    return (b * n->shape.d[1] + t) * n->ld + h * n->shape.d[3];
}

/* --- masks: integers (B,T), 1 for a token that is there, 0 for one that is not --- */

static inline la_status la_check_mask(const char *op, const la_node *mask) {
    for (int64_t i = 0; i < la_len(mask->shape); i++)
        if (mask->ids[i] != 0 && mask->ids[i] != 1)
            return la_fail(LA_ARG, "%s: the mask has 0 and 1, and %d at %lld", op, mask->ids[i],
                           (long long)i);
    return LA_OK;
}

/* How many of n tokens are valid. */
static inline int64_t la_count(int64_t n, const int32_t *valid) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += valid[i];
    return count;
}
#endif
