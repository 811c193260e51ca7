/* vec_isa.h -- for the files that are compiled once for each instruction set (LA_ISA): the name of
 * the set, a vector of the width that it has, and the few loops that several of them use. */
#ifndef LA_VEC_ISA_H
#define LA_VEC_ISA_H
#include <math.h>
#include <string.h>

#include "tensor/vec.h"

#ifndef LA_ISA
#define LA_ISA baseline
#endif
#define LA_NAME_(a, b) a##b
#define LA_NAME2(a, b) LA_NAME_(a, b)
#define LA_ISA_NAME(prefix) LA_NAME2(prefix, LA_ISA) /* la_gemm_avx2 */
#define LA_TEXT_(a) #a
#define LA_TEXT2(a) LA_TEXT_(a)
#define LA_ISA_TEXT LA_TEXT2(LA_ISA) /* "avx2" */

#if defined(__AVX512F__)
enum { LA_VEC_BYTES = 64, LA_VEC_REGISTERS = 32 };
#elif defined(__AVX__)
enum { LA_VEC_BYTES = 32, LA_VEC_REGISTERS = 16 };
#elif defined(__aarch64__)
enum { LA_VEC_BYTES = 16, LA_VEC_REGISTERS = 32 };
#else
enum { LA_VEC_BYTES = 16, LA_VEC_REGISTERS = 16 };
#endif
enum { LA_LANES = LA_VEC_BYTES / (int)sizeof(la_real) };

/* In a register; and in memory, where it begins at any real. */
typedef la_real la_lanes __attribute__((vector_size(LA_VEC_BYTES)));
typedef la_real la_lanes_at
    __attribute__((vector_size(LA_VEC_BYTES), aligned(sizeof(la_real)), may_alias));

#define LA_INLINE static inline __attribute__((always_inline))

/* The members of la_vec that vec_kernels.c finds in the other files, with the members' types. */
#define LA_KERNEL(name) LA_ISA_NAME(la_##name##_)
#define LA_DECLARE(name) __typeof__(*((la_vec *)0)->name) LA_KERNEL(name)
/* gemm_kernels.c */
LA_DECLARE(gemm);
LA_DECLARE(transpose);
/* map_kernels.c */
LA_DECLARE(gelu);
LA_DECLARE(gelu_backward);
LA_DECLARE(gelu_slope);
LA_DECLARE(elu1);
LA_DECLARE(elu1_backward);
LA_DECLARE(softplus);
LA_DECLARE(softplus_backward);
LA_DECLARE(sigmoid);
LA_DECLARE(sincos);
/* tile_kernels.c */
LA_DECLARE(max);
LA_DECLARE(exp_minus);
LA_DECLARE(exp_minus_sum);
LA_DECLARE(exp_scan);
LA_DECLARE(exp_scan_backward);
LA_DECLARE(softmax_over);
LA_DECLARE(softmax_over_backward);
LA_DECLARE(exp_over);
LA_DECLARE(exp_over_backward);
LA_DECLARE(softmax);
LA_DECLARE(softmax_backward);
LA_DECLARE(taylor2);
LA_DECLARE(taylor2_backward);
LA_DECLARE(softmax_ranges);
LA_DECLARE(softmax_ranges_backward);

/* --- what several of them use --- */

/* Adds up the lanes: by halves, not one after the other. */
LA_INLINE la_real sum_lanes(la_real *x) {
#pragma GCC       unroll 4
    for (int w = LA_LANES / 2; w > 0; w /= 2)
#pragma GCC unroll 8
        for (int l = 0; l < w; l++) x[l] += x[l + w];
    return x[0];
}

static inline la_real vec_dot(int64_t n, const la_real *a, const la_real *b) {
    la_real lanes[LA_LANES] = {0}, s = 0;
    int64_t i = 0;
    for (; i + LA_LANES <= n; i += LA_LANES)
#pragma omp simd
        for (int k = 0; k < LA_LANES; k++) lanes[k] += a[i + k] * b[i + k];
    for (; i < n; i++) s += a[i] * b[i];
    return s + sum_lanes(lanes);
}

/* exp.  In double, where only the precision counts, it is libm's; in float a polynomial that the
 * compiler can vectorise:
 *
 * x = n ln 2 + r, |r| <= ln 2 / 2, so exp(x) = 2^n (1 + r + r^2/2! + ... + r^7/7!), the rest of the
 * series being below 6e-9.  n is found by adding and subtracting 1.5 * 2^23, which rounds to an
 * integer and leaves it in the low bits.  2^n is applied in two factors, so that results below the
 * smallest normal number are right too; for softmax, where they are nothing beside a 1, and for
 * elu1 in one (exp_down), with 0 for them. */
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
#else
static inline double exp1(double x) { return exp(x); }
static inline double exp_down(double x) { return exp(x); }
#endif
#endif
