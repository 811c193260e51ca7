/* map_kernels.c -- functions of each element: gelu, elu + 1, softplus, sigmoid, sin and cos.
 * Compiled once for each instruction set (LA_ISA).
 *
 * In float they are polynomials that the compiler can vectorise, as exp in vec_isa.h; in double,
 * where only the precision counts, they are libm's.
 *
 * Phi:  the normal distribution function, and phi, its density, from one exp(-x^2/2) = E:
 *       Phi(-|x|) = E Q(t), t = 1 / (1 + 0.26 |x|), Q fitted for least maximum relative error over
 *       [0, 14.2] (5.4e-9); beyond, E is 0.  Unlike (1 + erf) / 2 it keeps its relative precision
 *       where Phi is small.
 * log1p: log(1 + u) = 2 atanh(s) = 2 s (1 + s^2/3 + ... + s^12/13), s = u / (2 + u) <= 1/3 for
 *       u <= 1; the rest of the series is below 2e-8.
 * sin, cos: x = n pi/2 + r, |r| <= pi/4, pi/2 in three parts of which the first two times n are
 *       exact while |x| <= SINCOS_MOST; the series of r up to r^9 and r^10, below 2e-9; n mod 4
 *       says which of the two it is and its sign.  Larger x go to libm. */
#include <math.h>
#include <string.h>

#include "tensor/vec.h"
#include "tensor/vec_isa.h"

#if LA_REAL_BITS == 32
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

static inline float log1p1(float u) { /* log(1 + u), 0 <= u <= 1 */
    float s = u / (2.0f + u), t = s * s, p = 0.0769230769f;
    p = p * t + 0.0909090909f;
    p = p * t + 0.111111111f;
    p = p * t + 0.142857143f;
    p = p * t + 0.2f;
    p = p * t + 0.333333333f;
    return 2.0f * s + 2.0f * s * t * p;
}

static inline float sincos1(float x, float *c) { /* |x| <= SINCOS_MOST */
    const float round = 12582912.0f;
    uint32_t    quarter;
    float       shifted = x * 0.636619772f + round, n = shifted - round;
    memcpy(&quarter, &shifted, sizeof quarter); /* its low bits: round has none */
    float r = x - n * 1.5703125f - n * 4.83751297e-4f - n * 7.54978995e-8f, t = r * r;
    float a = 2.75573192e-6f, b = -2.75573192e-7f;
    a = a * t - 1.98412698e-4f;
    a = a * t + 8.33333333e-3f;
    a = a * t - 1.66666667e-1f;
    a = r + r * t * a;
    b = b * t + 2.48015873e-5f;
    b = b * t - 1.38888889e-3f;
    b = b * t + 4.16666667e-2f;
    b = 1.0f - 0.5f * t + t * t * b;
    float s = quarter & 1 ? b : a, k = quarter & 1 ? a : b;
    *c = (quarter + 1) & 2 ? -k : k;
    return quarter & 2 ? -s : s;
}

static const float SINCOS_MOST = 4096;
#else
static inline double Phi_phi(double x, double *phi) {
    *phi = 0.39894228040143268 * exp(-0.5 * x * x);
    return 0.5 * erfc(-x * 0.70710678118654752);
}
static inline double log1p1(double u) { return log1p(u); }
static inline double sincos1(double x, double *c) {
    *c = cos(x);
    return sin(x);
}
static const double SINCOS_MOST = 1e300;
#endif

void        LA_KERNEL(gelu)(int64_t n, const la_real *x, la_real *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        la_real phi;
        y[i] = x[i] * Phi_phi(x[i], &phi);
    }
}

void        LA_KERNEL(gelu_backward)(int64_t n, const la_real *x, const la_real *gy, la_real *gx) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        la_real phi, Phi = Phi_phi(x[i], &phi);
        gx[i] += gy[i] * (Phi + x[i] * phi);
    }
}

void        LA_KERNEL(gelu_slope)(int64_t n, const la_real *x, la_real *y, la_real *slope) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        la_real a = x[i], phi, Phi = Phi_phi(a, &phi);
        slope[i] = Phi + a * phi;
        y[i] = a * Phi;
    }
}

void LA_KERNEL(elu1)(int64_t rows, int64_t n, const la_real *x, int64_t ldx, la_real *y) {
    for (int64_t i = 0; i < rows; i++, x += ldx, y += n)
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            la_real up = x[j] > 0 ? x[j] : 0;
            y[j] = exp_down(x[j] - up) + up;
        }
}

void LA_KERNEL(elu1_backward)(int64_t rows, int64_t n, const la_real *x, int64_t ldx,
                              const la_real *y, const la_real *dy, la_real *dx, int64_t lddx) {
    for (int64_t i = 0; i < rows; i++, x += ldx, y += n, dy += n, dx += lddx)
#pragma omp simd
        for (int64_t j = 0; j < n; j++) dx[j] += dy[j] * (x[j] > 0 ? 1 : y[j]);
}

/* With e = exp(-|x|), 0 < e <= 1. */
void        LA_KERNEL(softplus)(int64_t n, const la_real *x, la_real *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        la_real up = x[i] > 0 ? x[i] : 0;
        y[i] = up + log1p1(exp1(x[i] - up - up));
    }
}

static inline la_real sigmoid1(la_real x) {
    la_real up = x > 0 ? x : 0, e = exp1(x - up - up);
    return (x > 0 ? 1 : e) / (1 + e);
}

void LA_KERNEL(softplus_backward)(int64_t n, const la_real *x, const la_real *dy, la_real *dx) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) dx[i] += dy[i] * sigmoid1(x[i]);
}

void        LA_KERNEL(sigmoid)(int64_t n, const la_real *x, la_real *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = sigmoid1(x[i]);
}

void LA_KERNEL(sincos)(int64_t n, const la_real *x, la_real *s, la_real *c) {
    la_real most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        la_real a = x[i] < 0 ? -x[i] : x[i];
        most = a <= most ? most : a;
    }
    if (most <= SINCOS_MOST)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) s[i] = sincos1(x[i], c + i);
    else
        for (int64_t i = 0; i < n; i++) {
            s[i] = R(sin((double)x[i]));
            c[i] = R(cos((double)x[i]));
        }
}
