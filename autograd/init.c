/* init.c -- initial values.
 *
 * Orthogonal features, Choromanski et al., "Rethinking attention with Performers", 2021: the m rows
 * of a head are cut into blocks of up to D.  The rows of a block have directions q_i that are
 * orthogonal to each other, each of them uniform on the sphere, and lengths of their own, those of
 * vectors of D independent normal numbers, so that a single row is N(0, 1)^D:
 *
 *   G (D,D) normal     G = L Q by Gram-Schmidt on its rows, with the diagonal of L positive
 *   w_i = |g'_i| q_i   g'_i (D) normal, fresh
 *
 * The decomposition with a positive diagonal is unique, and G V is distributed as G for an
 * orthogonal V, so that Q V is as Q: Q is Haar distributed.  With the signs that Householder's
 * reflections happen to give it is not, and estimates by these features are biased. */
#include "autograd/init.h"

#include <math.h>

#include "tensor/rng.h"

static int is_identity(la_init how) {
    return how == LA_INIT_IDENTITY || how == LA_INIT_IDENTITY_BIAS;
}

la_status la_init_check(la_init how, la_shape s, const char *name) {
    char text[LA_SHAPE_TEXT];
    if (is_identity(how) && s.n < 2)
        return la_fail(LA_SHAPE,
                       "parameter %s starts as an identity and must be (...,rows,cols); "
                       "it is %s",
                       name, la_shape_text(s, text));
    if (how == LA_INIT_ORTHOGONAL && s.n != 3)
        return la_fail(LA_SHAPE,
                       "parameter %s starts as orthogonal features and must be (H,m,D); "
                       "it is %s",
                       name, la_shape_text(s, text));
    return LA_OK;
}

int la_init_random(la_init how) {
    return how == LA_INIT_NORMAL || is_identity(how) || how == LA_INIT_ORTHOGONAL;
}

static int64_t block_of(la_shape s) { return s.d[1] < s.d[2] ? s.d[1] : s.d[2]; }

size_t la_init_work(la_init how, la_shape s) {
    return how == LA_INIT_ORTHOGONAL ? (size_t)(block_of(s) * s.d[2]) : 0;
}

static double dot(int64_t n, const double *a, const double *b) {
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

/* Rows q (rows,D) to orthonormal ones, in place; twice, so that rounding is all that is left. */
static void orthonormal(int64_t rows, int64_t D, double *q) {
    for (int64_t i = 0; i < rows; i++)
        for (int again = 0; again < 2; again++) {
            double *qi = q + i * D;
            for (int64_t j = 0; j < i; j++) {
                double along = dot(D, qi, q + j * D);
                for (int64_t d = 0; d < D; d++) qi[d] -= along * q[j * D + d];
            }
            double norm = sqrt(dot(D, qi, qi)); /* L_ii, the first time: positive */
            for (int64_t d = 0; d < D; d++) qi[d] /= norm;
        }
}

static void orthogonal(la_shape s, uint64_t seed, uint64_t stream, uint64_t draw, double *q,
                       la_real *x) {
    int64_t  m = s.d[1], D = s.d[2], len = la_len(s);
    uint64_t directions = 2 * draw * (uint64_t)len, lengths = directions + (uint64_t)len;
    for (int64_t h = 0; h < s.d[0]; h++)
        for (int64_t from = 0; from < m; from += D) {
            int64_t rows = m - from < D ? m - from : D, at = (h * m + from) * D;
            for (int64_t i = 0; i < rows * D; i++)
                q[i] = la_rng_normal(seed, stream, directions + (uint64_t)(at + i));
            orthonormal(rows, D, q);
            for (int64_t i = 0; i < rows; i++, at += D) {
                double square = 0;
                for (int64_t d = 0; d < D; d++)
                    square += pow(la_rng_normal(seed, stream, lengths + (uint64_t)(at + d)), 2);
                for (int64_t d = 0; d < D; d++) x[at + d] = R(sqrt(square) * q[i * D + d]);
            }
        }
}

/* An identity of `cols` columns, with what is beside and below it. */
static double near_identity(double scale, int64_t cols, int64_t row, int64_t col, double normal) {
    if (col < cols && row >= cols) return normal / sqrt((double)cols);
    return (row == col && col < cols) + scale * normal;
}

/* Number j of the kinds that draw each by itself. */
static double value(la_init how, double scale, la_shape s, int64_t j, double normal) {
    int64_t cols = la_last(s), row = j / cols, col = j % cols;
    switch (how) {
    case LA_INIT_ONE:
        return 1;
    case LA_INIT_CONSTANT:
        return scale;
    case LA_INIT_NORMAL:
        return scale * normal;
    case LA_INIT_IDENTITY:
    case LA_INIT_IDENTITY_BIAS:
        return near_identity(scale, cols - (how == LA_INIT_IDENTITY_BIAS), row % s.d[s.n - 2], col,
                             normal);
    case LA_INIT_LAST:
        return col == cols - 1;
    case LA_INIT_RETENTION: /* Sun et al., "Retentive network", 2023 */
        return log(pow(2, 5 + (double)j) - 1);
    default:
        return 0;
    }
}

void la_init_fill(la_init how, double scale, la_shape s, uint64_t seed, uint64_t stream,
                  uint64_t draw, double *work, la_real *x) {
    int64_t len = la_len(s);
    if (how == LA_INIT_ORTHOGONAL) {
        orthogonal(s, seed, stream, draw, work, x);
        return;
    }
    for (int64_t j = 0; j < len; j++) {
        uint64_t index = draw * (uint64_t)len + (uint64_t)j;
        x[j] = R(
            value(how, scale, s, j, la_init_random(how) ? la_rng_normal(seed, stream, index) : 0));
    }
}
