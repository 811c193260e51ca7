/* blas.h -- the only way to a matrix product.
 *
 * Each call names the shapes and the orientation, row-major, with the leading dimension
 * (distance between rows) of every matrix; none says how it is computed.  Call it from
 * inside a block of la_parallel(): it runs on that thread alone.
 *
 * A product takes up to 0.3 MB of the thread's stack.
 *
 * Products go to our own kernels (gemm_kernels.c) where there is a set of vector instructions that
 * they are written for, and to OpenBLAS elsewhere. */
#ifndef LA_BLAS_H
#define LA_BLAS_H
#include <stdint.h>

#include "tensor/real.h"

/* C = product, or C += product; and what is known of a triangle, which saves about half: */
enum {
    LA_SET = 0,
    LA_ADD = 1u << 0,
    LA_C_LOWER = 1u << 1, /* only entries (i,j) with j <= i are wanted; others are undefined      */
    LA_A_LOWER = 1u << 2, /* entries (i,p) of A, as it enters the product, with p > i are 0 */
    LA_A_UPPER = 1u << 3, /* entries (i,p) with p < i are 0: of A', when A is lower triangular */
};

/* C (m,n) from A (m,k) B (k,n). */
void la_gemm_nn(unsigned how, int64_t m, int64_t n, int64_t k, const la_real *A, int64_t lda,
                const la_real *B, int64_t ldb, la_real *C, int64_t ldc);
/* C (m,n) from A' B, A (k,m), B (k,n). */
void la_gemm_tn(unsigned how, int64_t m, int64_t n, int64_t k, const la_real *A, int64_t lda,
                const la_real *B, int64_t ldb, la_real *C, int64_t ldc);
/* C (m,n) from A B', A (m,k), B (n,k).  Small ones are slow; and the bits of a row depend on the
 * number of rows. */
void la_gemm_nt(unsigned how, int64_t m, int64_t n, int64_t k, const la_real *A, int64_t lda,
                const la_real *B, int64_t ldb, la_real *C, int64_t ldc);

/* NULL if the linked BLAS is what we ask for, else a sentence that says what to install. */
const char *la_blas_warning(void);
/* Name and version of the linked BLAS, for the record of a run. */
const char *la_blas_name(void);
#endif
