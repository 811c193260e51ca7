/* tensor.h -- a shape and a pointer.  Dense, row-major, last index fastest.
 *
 * A tensor is a value, passed by copy, and never owns its memory: an arena, the
 * parameter store or the caller does.  There are no strides and no hidden copies. */
#ifndef LA_TENSOR_H
#define LA_TENSOR_H
#include <stddef.h>
#include <stdint.h>

#include "tensor/real.h"
#include "tensor/status.h"

enum { LA_MAX_DIM = 4, LA_SHAPE_TEXT = 96 };

typedef struct la_shape {
    int     n; /* number of dimensions; 0 is a scalar */
    int64_t d[LA_MAX_DIM];
} la_shape;

typedef struct la_tensor {
    la_shape shape;
    la_real *x;
} la_tensor;

la_shape la_shape0(void); /* a scalar */
la_shape la_shape1(int64_t a);
la_shape la_shape2(int64_t a, int64_t b);
la_shape la_shape3(int64_t a, int64_t b, int64_t c);
la_shape la_shape4(int64_t a, int64_t b, int64_t c, int64_t d);

int64_t     la_len(la_shape s);  /* product of all dimensions, 1 for a scalar       */
int64_t     la_last(la_shape s); /* columns: the last dimension, 1 for a scalar     */
int64_t     la_rows(la_shape s); /* la_len / la_last                                */
int         la_shape_eq(la_shape a, la_shape b);
int         la_shape_ok(la_shape s); /* every d > 0, la_len below 2^46   */
const char *la_shape_text(la_shape s, char buf[LA_SHAPE_TEXT]); /* "(2,64,4,16)"; returns buf */

double  la_norm2(size_t n, const la_real *x); /* sum of squares, in double, a fixed order   */
int64_t la_find_nonfinite(size_t n, const la_real *x); /* first index that is NaN or inf, or -1 */
#endif
