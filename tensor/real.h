/* real.h -- the one place that knows which floating-point type we compute in.
 *
 * Every library source is compiled twice: into `lina` with LA_REAL_BITS=32 (training)
 * and into `lina64` with LA_REAL_BITS=64 (gradient checks).  A program links one of the
 * two, never both: la_link_check has another name in each, so that headers of one with
 * the library of the other do not link. */
#ifndef LA_REAL_H
#define LA_REAL_H

#ifndef LA_REAL_BITS
#define LA_REAL_BITS 32
#endif

#if LA_REAL_BITS == 64
typedef double la_real;
#define LA_REAL_EPSILON 2.220446049250313e-16
#define LA_CBLAS(fn) cblas_d##fn /* LA_CBLAS(gemm) is cblas_dgemm */
#define la_link_check la_link_check_f64
#else
typedef float la_real;
#define LA_REAL_EPSILON 1.1920928955078125e-07
#define LA_CBLAS(fn) cblas_s##fn
#define la_link_check la_link_check_f32
#endif

#define R(x) ((la_real)(x)) /* a literal in the type we compute in: R(0.5) */

int la_link_check(void); /* called by la_tape_create() */
#endif
