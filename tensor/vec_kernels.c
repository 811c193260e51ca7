/* vec_kernels.c -- the loops of vec.h, compiled once for each instruction set (LA_ISA).
 *
 * In float, exp and Phi are polynomials that the compiler can vectorise; in double, where
 * only the precision counts, they are libm's.
 *
 * exp:  x = n ln 2 + r, |r| <= ln 2 / 2, so exp(x) = 2^n (1 + r + r^2/2! + ... + r^7/7!), the
 *       rest of the series being below 6e-9.  n is found by adding and subtracting
 *       1.5 * 2^23, which rounds to an integer and leaves it in the low bits.  2^n is applied
 *       in two factors, so that results below the smallest normal number are right too; for
 *       softmax, where they are nothing beside a 1, and for elu1 in one (exp_down), with 0 for
 *       them.
 * Phi:  the normal distribution function, and phi, its density, from one exp(-x^2/2) = E:
 *       Phi(-|x|) = E Q(t), t = 1 / (1 + 0.26 |x|), Q fitted for least maximum relative error over
 *       [0, 14.2] (5.4e-9); beyond, E is 0.  Unlike (1 + erf) / 2 it keeps its relative precision
 *       where Phi is small. */
#include "tensor/vec.h"

#include <math.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "tensor/vec_isa.h"

#if LA_REAL_BITS == 32
static inline float power_of_2(uint32_t n) { /* 2^n, -126 <= (int)n <= 127 */
    uint32_t bits = (n + 127u) << 23;
    float    f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline float exp_rest(float r) { /* exp(r), |r| <= ln 2 / 2 */
    float p = 1.98412698e-4f;
    p = p * r + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    return p * r * r + r + 1.0f;
}

static inline float exp1(float x) {
    const float round = 12582912.0f; /* 1.5 * 2^23 */
    uint32_t    bits, zero;
    x = 89.0f < x ? 89.0f : x; /* as min and max: a NaN stays one */
    x = -105.0f > x ? -105.0f : x;
    float shifted = x * 1.44269504f + round;
    memcpy(&bits, &shifted, sizeof bits);
    memcpy(&zero, &round, sizeof zero);
    float    n = shifted - round, p = exp_rest(x - n * 0.693359375f + n * 2.12194440e-4f);
    uint32_t i = bits - zero, half = (uint32_t)((int32_t)i >> 1);
    return p * power_of_2(half) * power_of_2(i - half);
}

/* exp for x <= 0, or a little above from rounding; 0 below -87.7, 2^-127 being the bits 0. */
static inline float exp_down(float x) {
    const float round = 12582912.0f;
    uint32_t    bits, zero;
    x = -88.0f > x ? -88.0f : x;
    float shifted = x * 1.44269504f + round;
    memcpy(&bits, &shifted, sizeof bits);
    memcpy(&zero, &round, sizeof zero);
    float n = shifted - round;
    return exp_rest(x - n * 0.693359375f + n * 2.12194440e-4f) * power_of_2(bits - zero);
}

static inline float Phi_phi(float x, float *phi) {
    float E = exp1(-0.5f * x * x), t = 1.0f / (1.0f + 0.26f * fabsf(x));
    float q = 0.0339260909f;
    q = q * t - 0.170518363f;
    q = q * t + 0.290981527f;
    q = q * t - 0.200810597f;
    q = q * t + 0.200117235f;
    q = q * t + 0.0312076331f;
    q = q * t + 0.109481614f;
    q = q * t + 0.101715415f;
    q = q * t + 0.103906614f;
    q = (q * t - 7.16690095e-06f) * E;
    *phi = 0.398942280f * E;
    return x > 0 ? 1.0f - q : q;
}
#else
static inline double exp1(double x) { return exp(x); }
static inline double exp_down(double x) { return exp(x); }
static inline double Phi_phi(double x, double *phi) {
    *phi = 0.39894228040143268 * exp(-0.5 * x * x);
    return 0.5 * erfc(-x * 0.70710678118654752);
}
#endif

/* Adds up the lanes, or takes the largest: by halves, not one after the other. */
LA_INLINE la_real sum_lanes(la_real *x) {
#pragma GCC       unroll 4
    for (int w = LA_LANES / 2; w > 0; w /= 2)
#pragma GCC unroll 8
        for (int l = 0; l < w; l++) x[l] += x[l + w];
    return x[0];
}

LA_INLINE la_real max_lanes(la_real *x) {
#pragma GCC       unroll 4
    for (int w = LA_LANES / 2; w > 0; w /= 2)
#pragma GCC unroll 8
        for (int l = 0; l < w; l++) x[l] = x[l] > x[l + w] ? x[l] : x[l + w];
    return x[0];
}

static la_real vec_dot(int64_t n, const la_real *a, const la_real *b) {
    la_real lanes[LA_LANES] = {0}, s = 0;
    int64_t i = 0;
    for (; i + LA_LANES <= n; i += LA_LANES)
#pragma omp simd
        for (int k = 0; k < LA_LANES; k++) lanes[k] += a[i + k] * b[i + k];
    for (; i < n; i++) s += a[i] * b[i];
    return s + sum_lanes(lanes);
}

static void vec_axpy(int64_t n, la_real k, const la_real *x, la_real *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] += k * x[i];
}

static la_real vec_sum(int64_t n, const la_real *x) {
    la_real lanes[LA_LANES] = {0}, s = 0;
    int64_t i = 0;
    for (; i + LA_LANES <= n; i += LA_LANES)
#pragma omp simd
        for (int k = 0; k < LA_LANES; k++) lanes[k] += x[i + k];
    for (; i < n; i++) s += x[i];
    return s + sum_lanes(lanes);
}

/* An ordinary store reads the line first. */
static void vec_store(int64_t n, const la_real *x, la_real *y) {
#ifdef __AVX512F__
    if ((uintptr_t)y % LA_VEC_BYTES == 0) {
        int64_t i = 0;
        for (; i + LA_LANES <= n; i += LA_LANES)
            _mm512_stream_si512((__m512i *)(y + i), _mm512_loadu_si512(x + i));
        memcpy(y + i, x + i, (size_t)(n - i) * sizeof *y);
        _mm_sfence(); /* other threads see it as they see ordinary stores */
        return;
    }
#endif
    memcpy(y, x, (size_t)n * sizeof *y);
}

static void vec_scale(int64_t n, la_real k, const la_real *x, la_real *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = k * x[i];
}

static void vec_add_rows(int64_t rows, int64_t n, const la_real *x, int64_t ldx, const la_real *w,
                         int64_t step, la_real *y) {
    for (int64_t i = 0; i < rows; i++, x += ldx) {
        la_real k = w ? w[i * step] : 1;
#pragma omp simd
        for (int64_t j = 0; j < n; j++) y[j] += k * x[j];
    }
}

static la_real vec_max(int64_t n, const la_real *x) {
    la_real m = x[0];
#pragma omp simd reduction(max : m)
    for (int64_t i = 1; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
}

static void vec_exp_minus(int64_t n, la_real shift, const la_real *x, la_real *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = exp1(x[i] - shift);
}

static la_real vec_exp_minus_sum(int64_t n, la_real shift, const la_real *x, la_real *y) {
    la_real s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t i = 0; i < n; i++) {
        y[i] = exp1(x[i] - shift);
        s += y[i];
    }
    return s;
}

static void vec_gelu(int64_t n, const la_real *x, la_real *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        la_real phi;
        y[i] = x[i] * Phi_phi(x[i], &phi);
    }
}

static void vec_gelu_backward(int64_t n, const la_real *x, const la_real *gy, la_real *gx) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        la_real phi, Phi = Phi_phi(x[i], &phi);
        gx[i] += gy[i] * (Phi + x[i] * phi);
    }
}

static void vec_gelu_slope(int64_t n, const la_real *x, la_real *y, la_real *slope) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        la_real a = x[i], phi, Phi = Phi_phi(a, &phi);
        slope[i] = Phi + a * phi;
        y[i] = a * Phi;
    }
}

static void vec_elu1(int64_t rows, int64_t n, const la_real *x, int64_t ldx, la_real *y) {
    for (int64_t i = 0; i < rows; i++, x += ldx, y += n)
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            la_real up = x[j] > 0 ? x[j] : 0;
            y[j] = exp_down(x[j] - up) + up;
        }
}

static void vec_elu1_backward(int64_t rows, int64_t n, const la_real *x, int64_t ldx,
                              const la_real *y, const la_real *dy, la_real *dx, int64_t lddx) {
    for (int64_t i = 0; i < rows; i++, x += ldx, y += n, dy += n, dx += lddx)
#pragma omp simd
        for (int64_t j = 0; j < n; j++) dx[j] += dy[j] * (x[j] > 0 ? 1 : y[j]);
}

static inline la_real inverse(la_real D) { return D != 0 ? 1 / D : 0; }

static void vec_normalise(int64_t rows, int64_t m, int64_t E, const la_real *A, int64_t lda,
                          const la_real *z, const la_real *P, int64_t ldp, la_real eps, la_real *D,
                          int64_t step, la_real *o, int64_t ldo) {
    for (int64_t i = 0; i < rows; i++, A += lda, P += ldp, o += ldo) {
        la_real d = vec_dot(m, A, z) + vec_sum(rows, P) + eps;
        if (D) D[i * step] = d;
        vec_scale(E, inverse(d), o, o);
    }
}

static void vec_normalise_backward(int64_t rows, int64_t E, const la_real *g, const la_real *o,
                                   const la_real *D, la_real *U, la_real *w) {
    for (int64_t i = 0; i < rows; i++, g += E, o += E, U += E) {
        la_real r = inverse(D[i]);
        vec_scale(E, r, g, U);
        w[i] = -vec_dot(E, g, o) * r;
    }
}

static void vec_outer(int64_t rows, int64_t n, const la_real *w, int64_t step, const la_real *x,
                      la_real *y, int64_t ldy) {
    for (int64_t i = 0; i < rows; i++, y += ldy) vec_scale(n, w ? w[i * step] : 1, x, y);
}

static void vec_norm(int64_t n, la_real eps, const la_real *x, const la_real *gain,
                     const la_real *bias, la_real *y, la_real stats[2]) {
    la_real m = 0, v = 0;
#pragma omp simd reduction(+ : m)
    for (int64_t c = 0; c < n; c++) m += x[c];
    m /= R(n);
#pragma omp simd reduction(+ : v)
    for (int64_t c = 0; c < n; c++) v += (x[c] - m) * (x[c] - m);
    const la_real r = R(1 / sqrt((double)(v / R(n) + eps)));
#pragma omp simd
    for (int64_t c = 0; c < n; c++) y[c] = gain[c] * ((x[c] - m) * r);
    if (bias) vec_axpy(n, 1, bias, y);
    stats[0] = m, stats[1] = r;
}

static void vec_norm_backward(int64_t n, const la_real *x, const la_real *gain, const la_real *dy,
                              const la_real stats[2], int set, la_real *dx) {
    const la_real m = stats[0], r = stats[1];
    la_real       mean_e = 0, mean_eh = 0;
#pragma omp simd reduction(+ : mean_e, mean_eh)
    for (int64_t c = 0; c < n; c++) {
        la_real e = gain[c] * dy[c];
        mean_e += e;
        mean_eh += e * ((x[c] - m) * r);
    }
    mean_e /= R(n);
    mean_eh /= R(n);
#pragma omp simd
    for (int64_t c = 0; c < n; c++) {
        la_real d = r * (gain[c] * dy[c] - mean_e - (x[c] - m) * r * mean_eh);
        dx[c] = set ? d : dx[c] + d;
    }
}

static void vec_norm_gain(int64_t rows, int64_t n, const la_real *x, const la_real *dy, int64_t ld,
                          const la_real *stats, la_real *dgain) {
    for (int64_t i = 0; i < rows; i++, x += ld, dy += ld, stats += 2)
#pragma omp simd
        for (int64_t c = 0; c < n; c++) dgain[c] += dy[c] * ((x[c] - stats[0]) * stats[1]);
}

static void vec_mul(int64_t n, const la_real *x, la_real *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] *= x[i];
}

static void vec_mul_add_rows(int64_t rows, int64_t n, const la_real *a, int64_t lda,
                             const la_real *x, int64_t ldx, la_real *y) {
    for (int64_t i = 0; i < rows; i++, a += lda, x += ldx)
#pragma omp simd
        for (int64_t j = 0; j < n; j++) y[j] += a[j] * x[j];
}

enum { SCAN = 512 }; /* columns whose running sums are at hand */

/* The rows add up from 0 and `before` is added last: with one large sum the small y_i would all be
 * rounded to its last place, and in the same direction. */
static la_real vec_exp_scan(int64_t rows, int64_t n, const la_real *x, int64_t ldx,
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

static void vec_exp_scan_backward(int64_t rows, int64_t n, const la_real *y, const la_real *dy,
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

static void vec_softmax_over(int64_t rows, int64_t n, const la_real *x, const la_real *z,
                             la_real *y) {
    for (int64_t i = 0; i < rows; i++, x += n, y += n, z += n) {
        la_real scale = 1 / vec_exp_minus_sum(n, vec_max(n, x), x, y);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) y[j] = y[j] * scale / z[j];
    }
}

/* With the softmax p = y z and its gradient dp = dy / z:  dx = p (dp - p.dp). */
static void vec_softmax_over_backward(int64_t rows, int64_t n, const la_real *y, const la_real *z,
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
static void vec_exp_over(int64_t rows, int64_t n, const la_real *x, const la_real *c,
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
        vec_scale(n, 1 / total, y, y);
    }
}

/* dy_j counts in y_j and, through the sum, in all:  dx = y (dy - z (y.dy)), dz = -y (y.dy). */
static void vec_exp_over_backward(int64_t rows, int64_t n, const la_real *y, const la_real *z,
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

/* How many entries of row i of a tile count; what follows the vectors they are in is set to 0. */
LA_INLINE int64_t seen_of_row(int64_t i, int64_t n, int lower, la_real *x) {
    const int64_t seen = lower && i + 1 < n ? i + 1 : n;
    const int64_t end = (seen + LA_LANES - 1) / LA_LANES * LA_LANES;
    if (end < n) memset(x + end, 0, (size_t)(n - end) * sizeof *x);
    return seen;
}

static void vec_softmax(int64_t rows, int64_t n, int lower, la_real *S, int64_t ld, la_real *m,
                        la_real *l, la_real *shrink) {
    const la_real none = -(la_real)INFINITY;
    for (int64_t i = 0; i < rows; i++, S += ld) {
        const int64_t seen = seen_of_row(i, n, lower, S);
        la_real       most[LA_LANES], sum[LA_LANES] = {0};
        for (int k = 0; k < LA_LANES; k++) most[k] = m[i];
        for (int64_t j = 0; j < seen; j += LA_LANES)
#pragma omp simd
            for (int k = 0; k < LA_LANES; k++) {
                la_real s = k < (int)(seen - j) ? S[j + k] : none;
                most[k] = s > most[k] ? s : most[k];
            }
        const la_real top = max_lanes(most);
        for (int64_t j = 0; j < seen; j += LA_LANES)
#pragma omp simd
            for (int k = 0; k < LA_LANES; k++) {
                la_real s = k < (int)(seen - j) ? S[j + k] : none;
                S[j + k] = exp_down(s - top);
                sum[k] += S[j + k];
            }
        shrink[i] = exp_down(m[i] - top);
        l[i] = l[i] * shrink[i] + sum_lanes(sum);
        m[i] = top;
    }
}

static void vec_softmax_backward(int64_t rows, int64_t n, int lower, const la_real *lse,
                                 const la_real *d, la_real *S, la_real *dP, int64_t ld) {
    const la_real none = -(la_real)INFINITY;
    for (int64_t i = 0; i < rows; i++, S += ld, dP += ld) {
        const int64_t seen = seen_of_row(i, n, lower, S);
        seen_of_row(i, n, lower, dP);
        for (int64_t j = 0; j < seen; j += LA_LANES)
#pragma omp simd
            for (int k = 0; k < LA_LANES; k++) {
                la_real s = k < (int)(seen - j) ? S[j + k] : none;
                la_real t = k < (int)(seen - j) ? dP[j + k] : 0;
                S[j + k] = exp_down(s - lse[i]);
                dP[j + k] = S[j + k] * (t - d[i]);
            }
    }
}

const la_vec LA_ISA_NAME(la_vec_) = {
    .name = LA_ISA_TEXT,
    .gemm = LA_VEC_BYTES > 16 ? LA_ISA_NAME(la_gemm_) : NULL,
    .transpose = LA_ISA_NAME(la_transpose_),
    .dot = vec_dot,
    .store = vec_store,
    .scale = vec_scale,
    .axpy = vec_axpy,
    .add_rows = vec_add_rows,
    .max = vec_max,
    .exp_minus = vec_exp_minus,
    .exp_minus_sum = vec_exp_minus_sum,
    .gelu = vec_gelu,
    .gelu_backward = vec_gelu_backward,
    .gelu_slope = vec_gelu_slope,
    .elu1 = vec_elu1,
    .elu1_backward = vec_elu1_backward,
    .normalise = vec_normalise,
    .normalise_backward = vec_normalise_backward,
    .outer = vec_outer,
    .norm = vec_norm,
    .norm_backward = vec_norm_backward,
    .norm_gain = vec_norm_gain,
    .mul = vec_mul,
    .mul_add_rows = vec_mul_add_rows,
    .exp_scan = vec_exp_scan,
    .exp_scan_backward = vec_exp_scan_backward,
    .softmax_over = vec_softmax_over,
    .softmax_over_backward = vec_softmax_over_backward,
    .exp_over = vec_exp_over,
    .exp_over_backward = vec_exp_over_backward,
    .softmax = vec_softmax,
    .softmax_backward = vec_softmax_backward,
};
