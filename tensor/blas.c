/* blas.c -- our kernels or OpenBLAS behind la_gemm_*; the only includer of cblas.h. */
#include "tensor/vec.h"

#include <cblas.h>

enum { OPENMP_FLAVOUR = 2 }; /* openblas_get_parallel(): 0 sequential, 1 pthreads, 2 OpenMP */

static void openblas(const la_gemm *g) {
    LA_CBLAS(gemm)
    (CblasRowMajor, g->form == LA_TN ? CblasTrans : CblasNoTrans,
     g->form == LA_NT ? CblasTrans : CblasNoTrans, (blasint)g->m, (blasint)g->n, (blasint)g->k, 1,
     g->A, (blasint)g->lda, g->B, (blasint)g->ldb, g->how & LA_ADD ? 1 : 0, g->C, (blasint)g->ldc);
}

static void gemm(const la_gemm *g) {
    void (*own)(const la_gemm *g) = la_vec_table()->gemm;
    (own ? own : openblas)(g);
}

void la_gemm_nn(unsigned how, int64_t m, int64_t n, int64_t k, const la_real *A, int64_t lda,
                const la_real *B, int64_t ldb, la_real *C, int64_t ldc) {
    gemm(&(la_gemm){LA_NN, how, m, n, k, lda, ldb, ldc, A, B, C});
}

void la_gemm_tn(unsigned how, int64_t m, int64_t n, int64_t k, const la_real *A, int64_t lda,
                const la_real *B, int64_t ldb, la_real *C, int64_t ldc) {
    gemm(&(la_gemm){LA_TN, how, m, n, k, lda, ldb, ldc, A, B, C});
}

void la_gemm_nt(unsigned how, int64_t m, int64_t n, int64_t k, const la_real *A, int64_t lda,
                const la_real *B, int64_t ldb, la_real *C, int64_t ldc) {
    gemm(&(la_gemm){LA_NT, how, m, n, k, lda, ldb, ldc, A, B, C});
}

const char *la_blas_warning(void) {
    if (openblas_get_parallel() == OPENMP_FLAVOUR) return NULL;
    return "the linked OpenBLAS is not the OpenMP build, so its threads may get in the way of "
           "ours: "
           "install libopenblas-openmp-dev and choose it with update-alternatives";
}

const char *la_blas_name(void) { return openblas_get_config(); }
