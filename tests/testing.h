/* testing.h -- what the tests of the numerical core share.
 *
 * No test may start a parallel region before srunner_run_all(): libgomp's threads do not
 * survive the fork of each test.  Tests also pass with CK_FORK=no. */
#ifndef LA_TESTING_H
#define LA_TESTING_H
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/parallel.h"
#include "tensor/rng.h"
#include "tensor/tensor.h"
#include "tests/suite.h"

/* Under AddressSanitizer everything takes ten times as long: loops over variants then go through
 * what differs in memory, and leave the rest to the plain build. */
#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* A tolerance for each precision: that of the library under test. */
#define BY_PRECISION(float_value, double_value)                                                    \
    (LA_REAL_BITS == 64 ? (double_value) : (float_value))

#define OK(call)                                                                                   \
    do {                                                                                           \
        la_status ok_ = (call);                                                                    \
        ck_assert_msg(ok_ == LA_OK, "%s: %s (%s)", #call, la_error(), la_status_text(ok_));        \
    } while (0)

/* The call fails with this status, and its sentence contains `part`. */
#define FAILS(call, status, part)                                                                  \
    do {                                                                                           \
        la_status fails_ = (call);                                                                 \
        ck_assert_msg(fails_ == (status), "%s gives \"%s\" and not \"%s\"; the message is: %s",    \
                      #call, la_status_text(fails_), la_status_text(status), la_error());          \
        ck_assert_msg(strstr(la_error(), part) != NULL, "%s: \"%s\" is not in the message: %s",    \
                      #call, part, la_error());                                                    \
    } while (0)

static inline double test_uniform(uint32_t which, int64_t i) { /* in [-1,1) */
    return 2 * la_rng_uniform(11, la_rng_stream(LA_RNG_TEST, which), (uint64_t)i) - 1;
}

static inline void fill_uniform(int64_t n, double scale, uint32_t which, la_real *x) {
    for (int64_t i = 0; i < n; i++) x[i] = R(scale * test_uniform(which, i));
}

static inline void fill_normal(int64_t n, double scale, uint32_t which, la_real *x) {
    for (int64_t i = 0; i < n; i++)
        x[i] = R(scale * la_rng_normal(12, la_rng_stream(LA_RNG_TEST, which), (uint64_t)i));
}

static inline double largest(int64_t n, const la_real *x) {
    double top = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, fabs((double)x[i]));
    return top;
}

/* max |a - b|; infinite if either holds a NaN or an infinity. */
static inline double gap(int64_t n, const la_real *a, const la_real *b) {
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        worst = isfinite(d) ? fmax(worst, d) : HUGE_VAL;
    }
    return worst;
}

/* First place where the bits differ, or -1. */
static inline int64_t differ(int64_t n, const la_real *a, const la_real *b) {
    for (int64_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0) return i;
    return -1;
}

static inline la_real *reals(int64_t n) { /* zeros; free() them */
    la_real *x = calloc((size_t)n, sizeof *x);
    ck_assert_ptr_nonnull(x);
    return x;
}

static inline la_real *copy_of(int64_t n, const la_real *x) {
    return memcpy(reals(n), x, (size_t)n * sizeof *x);
}
#endif
