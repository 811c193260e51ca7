/* vec_isa.h -- for the files that are compiled once for each instruction set (LA_ISA): the name of
 * the set, and a vector of the width that it has. */
#ifndef LA_VEC_ISA_H
#define LA_VEC_ISA_H
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

/* gemm_kernels.c, for the table in vec_kernels.c */
void LA_ISA_NAME(la_gemm_)(const la_gemm *g);
void LA_ISA_NAME(la_transpose_)(int64_t rows, int64_t cols, const la_real *x, int64_t ldx,
                                la_real *y, int64_t ldy);

#define LA_INLINE static inline __attribute__((always_inline))
#endif
