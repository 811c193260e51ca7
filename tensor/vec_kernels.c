/* vec_kernels.c -- the loops of vec.h, compiled once for each instruction set (LA_ISA).
 *
 * In float, exp and erf are polynomials that the compiler can vectorise; in double, where
 * only the precision counts, they are libm's.
 *
 * exp:  x = n ln 2 + r, |r| <= ln 2 / 2, so exp(x) = 2^n (1 + r + r^2/2! + ... + r^7/7!), the
 *       rest of the series being below 6e-9.  n is found by adding and subtracting
 *       1.5 * 2^23, which rounds to an integer and leaves it in the low bits.  2^n is applied
 *       in two factors, so that results below the smallest normal number are right too; for
 *       softmax, where they are nothing beside a 1, in one (exp_down).
 * erf:  |x| <= 1: x P(x^2);  |x| > 1: 1 - exp(Q(|x|)), Q approximating log(erfc).  P and Q were
 *       fitted for least maximum relative error of erf (1.2e-9 and 2.1e-11). */
#include "tensor/vec.h"

#include <math.h>
#include <string.h>

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

static inline float erf1(float x) {
    float a = fabsf(x), s = x * x, b = a > 4.0f ? 4.0f : a;
    float p = 7.85386115e-05f;
    p = p * s - 8.01019356e-04f;
    p = p * s + 5.18832768e-03f;
    p = p * s - 2.68538119e-02f;
    p = p * s + 1.12835851e-01f;
    p = p * s - 3.76126258e-01f;
    p = p * s + 1.12837917f;
    float q = -2.16976015e-05f;
    q = q * b + 4.41472486e-04f;
    q = q * b - 4.20528385e-03f;
    q = q * b + 2.52103371e-02f;
    q = q * b - 1.08422095e-01f;
    q = q * b - 6.33216401e-01f;
    q = q * b - 1.12958031f;
    q = q * b + 1.88467285e-04f;
    float tail = copysignf(1.0f - exp1(q), x);
    return a <= 1.0f ? x * p : x != x ? x : tail;
}
#else
static inline double exp1(double x) { return exp(x); }
static inline double exp_down(double x) { return exp(x); }
static inline double erf1(double x) { return erf(x); }
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
    la_real s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t i = 0; i < n; i++) s += x[i];
    return s;
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

static const la_real sqrt_half = R(0.70710678118654752), inv_sqrt_2pi = R(0.39894228040143268);

static void vec_gelu(int64_t n, const la_real *x, la_real *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = R(0.5) * x[i] * (1 + erf1(x[i] * sqrt_half));
}

static void vec_gelu_backward(int64_t n, const la_real *x, const la_real *gy, la_real *gx) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        la_real Phi = R(0.5) * (1 + erf1(x[i] * sqrt_half));
        la_real phi = inv_sqrt_2pi * exp1(R(-0.5) * x[i] * x[i]);
        gx[i] += gy[i] * (Phi + x[i] * phi);
    }
}

static void vec_gelu_slope(int64_t n, const la_real *x, la_real *y, la_real *slope) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        la_real a = x[i], Phi = R(0.5) * (1 + erf1(a * sqrt_half));
        slope[i] = Phi + a * inv_sqrt_2pi * exp1(R(-0.5) * a * a);
        y[i] = a * Phi;
    }
}

static void vec_elu1(int64_t rows, int64_t n, const la_real *x, int64_t ldx, la_real *y) {
    for (int64_t i = 0; i < rows; i++, x += ldx, y += n)
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            la_real up = x[j] > 0 ? x[j] : 0;
            y[j] = exp1(x[j] - up) + up;
        }
}

static void vec_elu1_backward(int64_t rows, int64_t n, const la_real *x, int64_t ldx,
                              const la_real *y, const la_real *dy, la_real *dx, int64_t lddx) {
    for (int64_t i = 0; i < rows; i++, x += ldx, y += n, dy += n, dx += lddx)
#pragma omp simd
        for (int64_t j = 0; j < n; j++) dx[j] += dy[j] * (x[j] > 0 ? 1 : y[j]);
}

static void vec_mul(int64_t n, const la_real *x, la_real *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] *= x[i];
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
    .sum = vec_sum,
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
    .mul = vec_mul,
    .softmax = vec_softmax,
    .softmax_backward = vec_softmax_backward,
};
