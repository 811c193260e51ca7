/* tile_kernels.c -- exponentials of rows and tiles: maxima, sums, running sums, softmax and its
 * gradient; and the weights of taylor2.  Compiled once for each instruction set (LA_ISA). */
#include <math.h>
#include <string.h>

#include "tensor/vec.h"
#include "tensor/vec_isa.h"

la_real LA_KERNEL(max)(int64_t n, const la_real *x) {
    la_real m = x[0];
#pragma omp simd reduction(max : m)
    for (int64_t i = 1; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
}

void        LA_KERNEL(exp_minus)(int64_t n, la_real shift, const la_real *x, la_real *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = exp1(x[i] - shift);
}

la_real LA_KERNEL(exp_minus_sum)(int64_t n, la_real shift, const la_real *x, la_real *y) {
    la_real s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t i = 0; i < n; i++) {
        y[i] = exp1(x[i] - shift);
        s += y[i];
    }
    return s;
}

enum { SCAN = 512 }; /* columns whose running sums are at hand */

/* The rows add up from 0 and `before` is added last: with one large sum the small y_i would all be
 * rounded to its last place, and in the same direction. */
la_real LA_KERNEL(exp_scan)(int64_t rows, int64_t n, const la_real *x, int64_t ldx,
                            const la_real *c, const la_real *before, la_real *y, la_real *z,
                            int64_t ld) {
    la_real most = R(-1e30);
    for (int64_t from = 0; from < n; from += SCAN) {
        int64_t len = n - from < SCAN ? n - from : SCAN;
        la_real sum[SCAN];
        memset(sum, 0, (size_t)len * sizeof *sum);
        for (int64_t i = 0; i < rows; i++) {
            const la_real *xi = x + i * ldx + from, *ci = c + from, *bi = before + from;
            la_real       *yi = y + i * ld + from, *zi = z + i * ld + from;
#pragma omp simd reduction(max : most)
            for (int64_t j = 0; j < len; j++) {
                la_real up = xi[j] - ci[j], e = exp1(up);
                most = up > most ? up : most;
                yi[j] = e;
                sum[j] += e;
                zi[j] = bi[j] + sum[j];
            }
        }
    }
    return most;
}

void LA_KERNEL(exp_scan_backward)(int64_t rows, int64_t n, const la_real *y, const la_real *dy,
                                  int64_t ld, const la_real *dz, int64_t lddz, la_real *r,
                                  la_real *dx, int64_t lddx) {
    for (int64_t i = rows - 1; i >= 0; i--) {
        const la_real *yi = y + i * ld, *dyi = dy + i * ld, *dzi = dz + i * lddz;
        la_real       *dxi = dx + i * lddx;
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            r[j] += dzi[j];
            dxi[j] += yi[j] * (dyi[j] + r[j]);
        }
    }
}

void LA_KERNEL(softmax_over)(int64_t rows, int64_t n, const la_real *x, const la_real *z,
                             la_real *y) {
    for (int64_t i = 0; i < rows; i++, x += n, y += n, z += n) {
        la_real scale = 1 / LA_KERNEL(exp_minus_sum)(n, LA_KERNEL(max)(n, x), x, y);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) y[j] = y[j] * scale / z[j];
    }
}

/* With the softmax p = y z and its gradient dp = dy / z:  dx = p (dp - p.dp). */
void LA_KERNEL(softmax_over_backward)(int64_t rows, int64_t n, const la_real *y, const la_real *z,
                                      const la_real *dy, la_real *dz, la_real *dx) {
    for (int64_t i = 0; i < rows; i++, y += n, z += n, dy += n, dz += n, dx += n) {
        la_real along = vec_dot(n, y, dy);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            la_real both = y[j] * dy[j];
            dx[j] += both - y[j] * z[j] * along;
            dz[j] = -both / z[j];
        }
    }
}

/* The largest x + c has the exponential 1, and all z are 1 or more: the sum is not 0. */
void LA_KERNEL(exp_over)(int64_t rows, int64_t n, const la_real *x, const la_real *c,
                         const la_real *z, la_real *y) {
    for (int64_t i = 0; i < rows; i++, x += n, c += n, z += n, y += n) {
        la_real top = x[0] + c[0], total = 0;
#pragma omp simd reduction(max : top)
        for (int64_t j = 0; j < n; j++) {
            la_real up = x[j] + c[j];
            top = up > top ? up : top;
        }
#pragma omp simd reduction(+ : total)
        for (int64_t j = 0; j < n; j++) {
            y[j] = exp_down(x[j] + c[j] - top);
            total += y[j] * z[j];
        }
        const la_real scale = 1 / total;
#pragma omp simd
        for (int64_t j = 0; j < n; j++) y[j] *= scale;
    }
}

/* dy_j counts in y_j and, through the sum, in all:  dx = y (dy - z (y.dy)), dz = -y (y.dy). */
void LA_KERNEL(exp_over_backward)(int64_t rows, int64_t n, const la_real *y, const la_real *z,
                                  const la_real *dy, la_real *dz, la_real *dx) {
    for (int64_t i = 0; i < rows; i++, y += n, z += n, dy += n, dz += n, dx += n) {
        la_real along = vec_dot(n, y, dy);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            dx[j] += y[j] * (dy[j] - z[j] * along);
            dz[j] = -y[j] * along;
        }
    }
}

/* The largest of the lanes: by halves. */
LA_INLINE la_real max_lanes(la_real *x) {
#pragma GCC       unroll 4
    for (int w = LA_LANES / 2; w > 0; w /= 2)
#pragma GCC unroll 8
        for (int l = 0; l < w; l++) x[l] = x[l] > x[l + w] ? x[l] : x[l + w];
    return x[0];
}

/* Sets a row (n) to 0 outside of the vectors that [lo,hi) is in, and returns where these begin. */
LA_INLINE int64_t clear_around(int64_t lo, int64_t hi, int64_t n, la_real *x) {
    const int64_t from = lo / LA_LANES * LA_LANES, end = (hi + LA_LANES - 1) / LA_LANES * LA_LANES;
    if (from > 0) memset(x, 0, (size_t)from * sizeof *x);
    if (end < n) memset(x + end, 0, (size_t)(n - end) * sizeof *x);
    return from;
}

/* One row of vec_softmax, of which [lo,hi) counts, lo < hi.  All that counts may be -inf, and so
 * may be what came before: then m stays -inf. */
LA_INLINE void softmax_row(int64_t lo, int64_t hi, int64_t n, la_real *S, la_real *m, la_real *l,
                           la_real *shrink) {
    const la_real none = -(la_real)INFINITY;
    const int64_t from = clear_around(lo, hi, n, S);
    la_real       most[LA_LANES], sum[LA_LANES] = {0};
    for (int k = 0; k < LA_LANES; k++) most[k] = *m;
    for (int64_t j = from; j < hi; j += LA_LANES)
#pragma omp simd
        for (int k = 0; k < LA_LANES; k++) {
            la_real s = (k >= (int)(lo - j)) & (k < (int)(hi - j)) ? S[j + k] : none;
            most[k] = s > most[k] ? s : most[k];
        }
    const la_real top = max_lanes(most), shift = top > none ? top : 0;
    for (int64_t j = from; j < hi; j += LA_LANES)
#pragma omp simd
        for (int k = 0; k < LA_LANES; k++) {
            la_real s = (k >= (int)(lo - j)) & (k < (int)(hi - j)) ? S[j + k] : none;
            S[j + k] = exp_down(s - shift);
            sum[k] += S[j + k];
        }
    *shrink = exp_down(*m - shift);
    *l = *l * *shrink + sum_lanes(sum);
    *m = top;
}

LA_INLINE void softmax_row_backward(int64_t lo, int64_t hi, int64_t n, la_real lse, la_real d,
                                    la_real *S, la_real *dP) {
    const la_real none = -(la_real)INFINITY;
    const int64_t from = clear_around(lo, hi, n, S);
    clear_around(lo, hi, n, dP);
    for (int64_t j = from; j < hi; j += LA_LANES)
#pragma omp simd
        for (int k = 0; k < LA_LANES; k++) {
            const int counts = (k >= (int)(lo - j)) & (k < (int)(hi - j));
            la_real   s = counts ? S[j + k] : none, t = counts ? dP[j + k] : 0;
            S[j + k] = exp_down(s - lse);
            dP[j + k] = S[j + k] * (t - d);
        }
}

void LA_KERNEL(softmax)(int64_t rows, int64_t n, int lower, la_real *S, int64_t ld, la_real *m,
                        la_real *l, la_real *shrink) {
    for (int64_t i = 0; i < rows; i++, S += ld)
        softmax_row(0, lower && i + 1 < n ? i + 1 : n, n, S, m + i, l + i, shrink + i);
}

void LA_KERNEL(softmax_backward)(int64_t rows, int64_t n, int lower, const la_real *lse,
                                 const la_real *d, la_real *S, la_real *dP, int64_t ld) {
    for (int64_t i = 0; i < rows; i++, S += ld, dP += ld)
        softmax_row_backward(0, lower && i + 1 < n ? i + 1 : n, n, lse[i], d[i], S, dP);
}

void LA_KERNEL(taylor2)(int64_t rows, int64_t n, int lower, la_real *S, int64_t ld, la_real *l) {
    for (int64_t i = 0; i < rows; i++, S += ld) {
        const int64_t hi = lower && i + 1 < n ? i + 1 : n;
        la_real       sum[LA_LANES] = {0};
        clear_around(0, hi, n, S);
        for (int64_t j = 0; j < hi; j += LA_LANES)
#pragma omp simd
            for (int k = 0; k < LA_LANES; k++) {
                const int counts = k < (int)(hi - j);
                la_real   up = 1 + (counts ? S[j + k] : 0);
                S[j + k] = counts ? R(0.5) * (up * up + 1) : 0;
                sum[k] += S[j + k];
            }
        l[i] += sum_lanes(sum);
    }
}

void LA_KERNEL(taylor2_backward)(int64_t rows, int64_t n, int lower, const la_real *l,
                                 const la_real *d, la_real *S, la_real *dP, int64_t ld) {
    for (int64_t i = 0; i < rows; i++, S += ld, dP += ld) {
        const int64_t hi = lower && i + 1 < n ? i + 1 : n;
        const la_real scale = 1 / l[i], di = d[i];
        clear_around(0, hi, n, S);
        clear_around(0, hi, n, dP);
        for (int64_t j = 0; j < hi; j += LA_LANES)
#pragma omp simd
            for (int k = 0; k < LA_LANES; k++) {
                const int counts = k < (int)(hi - j);
                la_real   up = 1 + (counts ? S[j + k] : 0), t = counts ? dP[j + k] - di : 0;
                S[j + k] = counts ? R(0.5) * (up * up + 1) * scale : 0;
                dP[j + k] = up * scale * t;
            }
    }
}

void LA_KERNEL(softmax_ranges)(int64_t rows, int64_t n, const int32_t *lo, const int32_t *hi,
                               la_real *S, int64_t ld, la_real *m, la_real *l, la_real *shrink) {
    for (int64_t i = 0; i < rows; i++, S += ld)
        if (lo[i] < hi[i])
            softmax_row(lo[i], hi[i], n, S, m + i, l + i, shrink + i);
        else {
            memset(S, 0, (size_t)n * sizeof *S);
            shrink[i] = 1;
        }
}

void LA_KERNEL(softmax_ranges_backward)(int64_t rows, int64_t n, const int32_t *lo,
                                        const int32_t *hi, const la_real *lse, const la_real *d,
                                        la_real *S, la_real *dP, int64_t ld) {
    for (int64_t i = 0; i < rows; i++, S += ld, dP += ld)
        if (lo[i] < hi[i])
            softmax_row_backward(lo[i], hi[i], n, lse[i], d[i], S, dP);
        else {
            memset(S, 0, (size_t)n * sizeof *S);
            memset(dP, 0, (size_t)n * sizeof *dP);
        }
}
