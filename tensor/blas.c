/* blas.c -- OpenBLAS behind la_gemm_*; the only includer of cblas.h. */
#include "tensor/blas.h"

#include <cblas.h>

enum { OPENMP_FLAVOUR = 2 }; /* openblas_get_parallel(): 0 sequential, 1 pthreads, 2 OpenMP */

static void gemm(la_store how, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int64_t m, int64_t n,
                 int64_t k, const la_real *A, int64_t lda, const la_real *B, int64_t ldb,
                 la_real *C, int64_t ldc) {
    LA_CBLAS(gemm)
    (CblasRowMajor, ta, tb, (blasint)m, (blasint)n, (blasint)k, 1, A, (blasint)lda, B, (blasint)ldb,
     how == LA_ADD ? 1 : 0, C, (blasint)ldc);
}

void la_gemm_nn(la_store how, int64_t m, int64_t n, int64_t k, const la_real *A, int64_t lda,
                const la_real *B, int64_t ldb, la_real *C, int64_t ldc) {
    gemm(how, CblasNoTrans, CblasNoTrans, m, n, k, A, lda, B, ldb, C, ldc);
}

void la_gemm_tn(la_store how, int64_t m, int64_t n, int64_t k, const la_real *A, int64_t lda,
                const la_real *B, int64_t ldb, la_real *C, int64_t ldc) {
    gemm(how, CblasTrans, CblasNoTrans, m, n, k, A, lda, B, ldb, C, ldc);
}

void la_gemm_nt(la_store how, int64_t m, int64_t n, int64_t k, const la_real *A, int64_t lda,
                const la_real *B, int64_t ldb, la_real *C, int64_t ldc) {
    gemm(how, CblasNoTrans, CblasTrans, m, n, k, A, lda, B, ldb, C, ldc);
}

const char *la_blas_warning(void) {
    if (openblas_get_parallel() == OPENMP_FLAVOUR) return NULL;
    return "the linked OpenBLAS is not the OpenMP build, so its threads may get in the way of "
           "ours: "
           "install libopenblas-openmp-dev and choose it with update-alternatives";
}

const char *la_blas_name(void) { return openblas_get_config(); }
