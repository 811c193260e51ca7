/* vec.h -- loops over vectors of reals, compiled once for each instruction set.
 *
 * The files *_kernels.c are built several times with other compiler flags; la_vec_table() gives
 * the table of the widest set that this processor has.  A new hot loop is a member here, a function
 * in one of them and a line of the table in vec_kernels.c.  The choice is made once a process, so
 * a run repeats bit for bit on one machine. */
#ifndef LA_VEC_H
#define LA_VEC_H
#include <stdint.h>

#include "tensor/blas.h"

typedef enum la_form { LA_NN, LA_TN, LA_NT } la_form;
typedef struct la_gemm { /* a product of tensor/blas.h */
    la_form        form;
    unsigned       how;
    int64_t        m, n, k, lda, ldb, ldc;
    const la_real *A, *B;
    la_real       *C;
} la_gemm;

typedef struct la_vec {
    const char *name;               /* "baseline", "avx2", "avx512"                            */
    void (*gemm)(const la_gemm *g); /* NULL: left to OpenBLAS                                  */
    void (*transpose)(int64_t rows, int64_t cols, const la_real *x, int64_t ldx, la_real *y,
                      int64_t ldy); /* y (cols,rows) = x' for x (rows,cols)                    */
    la_real (*dot)(int64_t n, const la_real *a, const la_real *b); /* sum_i a_i b_i          */
    /* y = x, past the caches: for what is read much later */
    void (*store)(int64_t n, const la_real *x, la_real *y);
    void (*scale)(int64_t n, la_real k, const la_real *x, la_real *y); /* y_i = k x_i           */
    void (*axpy)(int64_t n, la_real k, const la_real *x, la_real *y);  /* y_i += k x_i           */
    /* y_j += sum_i w_i x_ij for x (rows,n); w_i at w[i * step], 1 if w is NULL */
    void (*add_rows)(int64_t rows, int64_t n, const la_real *x, int64_t ldx, const la_real *w,
                     int64_t step, la_real *y);
    la_real (*max)(int64_t n, const la_real *x); /* n > 0                  */
    void (*exp_minus)(int64_t n, la_real shift, const la_real *x,
                      la_real *y); /* y_i = exp(x_i - shift); y may be x */
    la_real (*exp_minus_sum)(int64_t n, la_real shift, const la_real *x,
                             la_real *y); /* the same, and sum_i y_i */
    /* x Phi(x), Phi the normal distribution function; and gx_i += gy_i (Phi(x_i) + x_i phi(x_i)) */
    void (*gelu)(int64_t n, const la_real *x, la_real *y);
    void (*gelu_backward)(int64_t n, const la_real *x, const la_real *gy, la_real *gx);
    /* the same function and, beside it, its derivative; y may be x */
    void (*gelu_slope)(int64_t n, const la_real *x, la_real *y, la_real *slope);
    /* y (rows,n) = elu(x) + 1; and dx += dy times its derivative */
    void (*elu1)(int64_t rows, int64_t n, const la_real *x, int64_t ldx, la_real *y);
    void (*elu1_backward)(int64_t rows, int64_t n, const la_real *x, int64_t ldx, const la_real *y,
                          const la_real *dy, la_real *dx, int64_t lddx);
    /* log(1 + exp(x)), and dx += dy times its derivative; 1 / (1 + exp(-x)) */
    void (*softplus)(int64_t n, const la_real *x, la_real *y);
    void (*softplus_backward)(int64_t n, const la_real *x, const la_real *dy, la_real *dx);
    void (*sigmoid)(int64_t n, const la_real *x, la_real *y);
    void (*sincos)(int64_t n, const la_real *x, la_real *s, la_real *c); /* neither may be x    */
    /* causal_linear, in its letters.  Rows of a chunk: D_i = A_i.z + sum_j P_ij + eps (P may be
     * NULL), or floor, where that is more; o_i /= D_i (0 where D_i is 0), D_i at D[i * step] if D
     * is not NULL.  And rows (rows,E) of a token's heads: U_i = g_i / D_i, w_i = -g_i.o_i / D_i, or
     * 0 where D_i is floor. */
    void (*normalise)(int64_t rows, int64_t m, int64_t E, const la_real *A, int64_t lda,
                      const la_real *z, const la_real *P, int64_t ldp, la_real eps, la_real floor,
                      la_real *D, int64_t step, la_real *o, int64_t ldo);
    void (*normalise_backward)(int64_t rows, int64_t E, const la_real *g, const la_real *o,
                               const la_real *D, la_real floor, la_real *U, la_real *w);
    /* y_i = w_i x for y (rows,n); w_i at w[i * step], 1 if w is NULL */
    void (*outer)(int64_t rows, int64_t n, const la_real *w, int64_t step, const la_real *x,
                  la_real *y, int64_t ldy);
    /* layernorm of a row, in the letters of autograd/ops/layernorm.c: stats gets m and r */
    void (*norm)(int64_t n, la_real eps, const la_real *x, const la_real *gain, const la_real *bias,
                 la_real *y, la_real stats[2]);
    void (*norm_backward)(int64_t n, const la_real *x, const la_real *gain, const la_real *dy,
                          const la_real stats[2], int set, la_real *dx); /* dx = or += */
    void (*norm_gain)(int64_t rows, int64_t n, const la_real *x, const la_real *dy, int64_t ld,
                      const la_real *stats,
                      la_real       *dgain); /* += over rows (rows,n), stats (rows,2) */
    void (*mul)(int64_t n, const la_real *x, la_real *y); /* y_i *= x_i */
    /* y_j += sum_i a_ij x_ij over rows a, x (rows,n) */
    void (*mul_add_rows)(int64_t rows, int64_t n, const la_real *a, int64_t lda, const la_real *x,
                         int64_t ldx, la_real *y);
    /* Rows i of x, y, z (rows,n): y_i = exp(x_i - c), z_i = before + y_0 + .. + y_i.  Returns the
     * largest x_ij - c_j.  And r += dz_i, dx_i += y_i (dy_i + r), from the last row to the first.
     */
    la_real (*exp_scan)(int64_t rows, int64_t n, const la_real *x, int64_t ldx, const la_real *c,
                        const la_real *before, la_real *y, la_real *z, int64_t ld);
    void (*exp_scan_backward)(int64_t rows, int64_t n, const la_real *y, const la_real *dy,
                              int64_t ld, const la_real *dz, int64_t lddz, la_real *r, la_real *dx,
                              int64_t lddx);
    /* Dense rows: y_i = softmax(x_i) / z_i, n > 0; and dx_i += its gradient, dz_i = that of z_i,
     * which may be dy_i. */
    void (*softmax_over)(int64_t rows, int64_t n, const la_real *x, const la_real *z, la_real *y);
    void (*softmax_over_backward)(int64_t rows, int64_t n, const la_real *y, const la_real *z,
                                  const la_real *dy, la_real *dz, la_real *dx);
    /* Dense rows: y_i = exp(x_i + c_i) / sum_j exp(x_ij + c_ij) z_ij, z >= 1, n > 0; y may be x.
     * And the gradients as above. */
    void (*exp_over)(int64_t rows, int64_t n, const la_real *x, const la_real *c, const la_real *z,
                     la_real *y);
    void (*exp_over_backward)(int64_t rows, int64_t n, const la_real *y, const la_real *z,
                              const la_real *dy, la_real *dz, la_real *dx);
    /* For a tile of scores S (rows,n), of which row i counts all, or the first i + 1 if lower.  m
     * and l (rows) are the maximum of a row over earlier tiles and the sum of exp(s - m); here they
     * move on, S = exp(S - m) with the new m, 0 where it does not count, and shrink = exp(the old m
     * - m).  ld is at least n up to a multiple of 16, and what a row has there is overwritten. */
    void (*softmax)(int64_t rows, int64_t n, int lower, la_real *S, int64_t ld, la_real *m,
                    la_real *l, la_real *shrink);
    /* The same tile backward: P = exp(S - lse) in the place of S, and P (dP - d) in that of dP. */
    void (*softmax_backward)(int64_t rows, int64_t n, int lower, const la_real *lse,
                             const la_real *d, la_real *S, la_real *dP, int64_t ld);
    /* The same tile, weighed by 1 + s + s^2/2, which need no maximum: S = the weights, l += their
     * sums; and backward, with l their whole sums: P = weights / l, and (1 + s) / l (dP - d). */
    void (*taylor2)(int64_t rows, int64_t n, int lower, la_real *S, int64_t ld, la_real *l);
    void (*taylor2_backward)(int64_t rows, int64_t n, int lower, const la_real *l, const la_real *d,
                             la_real *S, la_real *dP, int64_t ld);
    /* Softmax where row i counts columns [lo_i,hi_i), which may be none: then the row is 0 and
     * m, l stay.  Scores of -inf weigh nothing. */
    void (*softmax_ranges)(int64_t rows, int64_t n, const int32_t *lo, const int32_t *hi,
                           la_real *S, int64_t ld, la_real *m, la_real *l, la_real *shrink);
    void (*softmax_ranges_backward)(int64_t rows, int64_t n, const int32_t *lo, const int32_t *hi,
                                    const la_real *lse, const la_real *d, la_real *S, la_real *dP,
                                    int64_t ld);
} la_vec;

const la_vec        *la_vec_table(void);
/* All tables built into this library that the processor can run, the plainest first, then
 * NULL: so that tests cover each. */
const la_vec *const *la_vec_tables(void);
/* Another of them from now on, for tests that cover each; NULL: the widest again. */
void                 la_vec_use(const la_vec *table);
#endif
