/* vec_kernels.c -- the table of vec.h, and its loops of plain arithmetic: sums, products, rows that
 * are added or divided, layernorm.  Compiled once for each instruction set (LA_ISA). */
#include <math.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "tensor/vec.h"
#include "tensor/vec_isa.h"

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

#if LA_REAL_BITS == 32
static const float LEAST = 1.17549435e-38f; /* the smallest normal number */
#else
static const double LEAST = 2.2250738585072014e-308;
#endif

/* Of a number too small for that, too: with eps = 0 it comes of features that are all but 0. */
static inline la_real inverse(la_real D) { return (D < 0 ? -D : D) < LEAST ? 0 : 1 / D; }

static void vec_normalise(int64_t rows, int64_t m, int64_t E, const la_real *A, int64_t lda,
                          const la_real *z, const la_real *P, int64_t ldp, la_real eps,
                          la_real floor, la_real *D, int64_t step, la_real *o, int64_t ldo) {
    for (int64_t i = 0; i < rows; i++, A += lda, o += ldo) {
        la_real d = vec_dot(m, A, z) + (P ? vec_sum(rows, P + i * ldp) : 0) + eps;
        d = d < floor ? floor : d; /* a NaN stays one */
        if (D) D[i * step] = d;
        vec_scale(E, inverse(d), o, o);
    }
}

static void vec_normalise_backward(int64_t rows, int64_t E, const la_real *g, const la_real *o,
                                   const la_real *D, la_real floor, la_real *U, la_real *w) {
    for (int64_t i = 0; i < rows; i++, g += E, o += E, U += E) {
        la_real r = inverse(D[i]);
        vec_scale(E, r, g, U);
        w[i] = D[i] == floor ? 0 : -vec_dot(E, g, o) * r;
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

const la_vec LA_KERNEL(vec) = {
    .name = LA_ISA_TEXT,
    .gemm = LA_VEC_BYTES > 16 ? LA_KERNEL(gemm) : NULL,
    .transpose = LA_KERNEL(transpose),
    .dot = vec_dot,
    .store = vec_store,
    .scale = vec_scale,
    .axpy = vec_axpy,
    .add_rows = vec_add_rows,
    .max = LA_KERNEL(max),
    .exp_minus = LA_KERNEL(exp_minus),
    .exp_minus_sum = LA_KERNEL(exp_minus_sum),
    .gelu = LA_KERNEL(gelu),
    .gelu_backward = LA_KERNEL(gelu_backward),
    .gelu_slope = LA_KERNEL(gelu_slope),
    .elu1 = LA_KERNEL(elu1),
    .elu1_backward = LA_KERNEL(elu1_backward),
    .softplus = LA_KERNEL(softplus),
    .softplus_backward = LA_KERNEL(softplus_backward),
    .sigmoid = LA_KERNEL(sigmoid),
    .sincos = LA_KERNEL(sincos),
    .normalise = vec_normalise,
    .normalise_backward = vec_normalise_backward,
    .outer = vec_outer,
    .norm = vec_norm,
    .norm_backward = vec_norm_backward,
    .norm_gain = vec_norm_gain,
    .mul = vec_mul,
    .mul_add_rows = vec_mul_add_rows,
    .exp_scan = LA_KERNEL(exp_scan),
    .exp_scan_backward = LA_KERNEL(exp_scan_backward),
    .softmax_over = LA_KERNEL(softmax_over),
    .softmax_over_backward = LA_KERNEL(softmax_over_backward),
    .exp_over = LA_KERNEL(exp_over),
    .exp_over_backward = LA_KERNEL(exp_over_backward),
    .softmax = LA_KERNEL(softmax),
    .softmax_backward = LA_KERNEL(softmax_backward),
    .taylor2 = LA_KERNEL(taylor2),
    .taylor2_backward = LA_KERNEL(taylor2_backward),
    .softmax_ranges = LA_KERNEL(softmax_ranges),
    .softmax_ranges_backward = LA_KERNEL(softmax_ranges_backward),
};
