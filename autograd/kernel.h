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

/* Block number i of [0,n) cut into pieces of `size`, the last one shorter. */
static inline la_range la_cut(int64_t n, int64_t size, int64_t i) {
    return (la_range){i * size, la_min(n, (i + 1) * size)};
}

/* Where head h of token t in batch row b begins, in x or g of a node (B,T,H,D). */
static inline int64_t la_token(const la_node *n, int64_t b, int64_t t, int64_t h) {
    return (b * n->shape.d[1] + t) * n->ld + h * n->shape.d[3];
}
#endif
