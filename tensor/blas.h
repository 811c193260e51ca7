/* blas.h -- the only way to a matrix product.
 *
 * Each call names the shapes and the orientation, row-major, with the leading dimension
 * (distance between rows) of every matrix; none says how it is computed.  Call it from
 * inside a block of la_parallel(): it runs on that thread alone. */
#ifndef LA_BLAS_H
#define LA_BLAS_H
#include <stdint.h>

#include "tensor/real.h"

typedef enum la_store { LA_SET, LA_ADD } la_store; /* C = product, or C += product */

/* C (m,n) from A (m,k) B (k,n). */
void la_gemm_nn(la_store how, int64_t m, int64_t n, int64_t k, const la_real *A, int64_t lda,
                const la_real *B, int64_t ldb, la_real *C, int64_t ldc);
/* C (m,n) from A' B, A (k,m), B (k,n). */
void la_gemm_tn(la_store how, int64_t m, int64_t n, int64_t k, const la_real *A, int64_t lda,
                const la_real *B, int64_t ldb, la_real *C, int64_t ldc);
/* C (m,n) from A B', A (m,k), B (n,k).  For large products only: small ones are slow, and
 * the bits of a row then depend on the number of rows. */
void la_gemm_nt(la_store how, int64_t m, int64_t n, int64_t k, const la_real *A, int64_t lda,
                const la_real *B, int64_t ldb, la_real *C, int64_t ldc);

/* NULL if the linked BLAS is what we ask for, else a sentence that says what to install. */
const char *la_blas_warning(void);
/* Name and version of the linked BLAS, for the record of a run. */
const char *la_blas_name(void);
#endif
