/* test_tensor.c -- properties of tensor/: random numbers, shapes, arenas, names, vectors,
 * matrix products, blocks. */
#include "testing.h"

#include "tensor/arena.h"
#include "tensor/blas.h"
#include "tensor/names.h"
#include "tensor/vec.h"

/* --- random numbers --- */

START_TEST(philox_gives_the_published_vectors) { /* kat_vectors of Random123 */
    static const struct {
        uint64_t seed, stream, index;
        uint32_t out[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {~UINT64_C(0),
         ~UINT64_C(0),
         ~UINT64_C(0),
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x0370734413198a2e,
         0x85a308d3243f6a88,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    uint32_t out[4];
    la_rng_block(known[_i].seed, known[_i].stream, known[_i].index, out);
    for (int j = 0; j < 4; j++)
        ck_assert_msg(out[j] == known[_i].out[j], "vector %d, word %d: %08x, published %08x", _i, j,
                      out[j], known[_i].out[j]);
}
END_TEST

START_TEST(each_use_and_number_has_a_stream_of_its_own) {
    ck_assert(la_rng_stream(LA_RNG_INIT, 7) != la_rng_stream(LA_RNG_BATCH, 7));
    ck_assert(la_rng_stream(LA_RNG_INIT, 7) != la_rng_stream(LA_RNG_INIT, 8));
    ck_assert(la_rng_stream(LA_RNG_INIT, ~0u) != la_rng_stream(LA_RNG_BATCH, 0));
    ck_assert(la_rng_u64(1, 2, 3) != la_rng_u64(2, 2, 3));
    ck_assert(la_rng_u64(1, 2, 3) != la_rng_u64(1, 3, 3));
    ck_assert(la_rng_u64(1, 2, 3) != la_rng_u64(1, 2, 4));
    ck_assert(la_rng_u64(1, 2, 3) == la_rng_u64(1, 2, 3));
}
END_TEST

enum { DRAWS = 200000 };

START_TEST(uniform_has_the_moments_of_the_unit_interval) {
    double sum = 0, squares = 0, lag = 0, before = 0.5;
    for (int i = 0; i < DRAWS; i++) {
        double u = la_rng_uniform(3, 5, (uint64_t)i);
        if (!(u >= 0 && u < 1)) ck_abort_msg("draw %d is %g, not in [0,1)", i, u);
        sum += u;
        squares += u * u;
        lag += (u - 0.5) * (before - 0.5);
        before = u;
    }
    double mean = sum / DRAWS, variance = squares / DRAWS - mean * mean;
    ck_assert_double_eq_tol(mean, 0.5, 5 * sqrt(1.0 / 12 / DRAWS));
    ck_assert_double_eq_tol(variance, 1.0 / 12, 5 * sqrt(1.0 / 180 / DRAWS));
    ck_assert_double_eq_tol(lag / DRAWS, 0, 5.0 / 12 / sqrt(DRAWS));
}
END_TEST

START_TEST(normal_has_the_moments_and_tails_of_N01) {
    double m[5] = {0}, beyond2 = 0;
    for (int i = 0; i < DRAWS; i++) {
        double x = la_rng_normal(3, 5, (uint64_t)i), power = 1;
        if (!isfinite(x)) ck_abort_msg("draw %d is %g", i, x);
        for (int p = 1; p < 5; p++) m[p] += (power *= x) / DRAWS;
        beyond2 += (fabs(x) > 2) / (double)DRAWS;
    }
    ck_assert_double_eq_tol(m[1], 0, 5 * sqrt(1.0 / DRAWS));
    ck_assert_double_eq_tol(m[2], 1, 5 * sqrt(2.0 / DRAWS));
    ck_assert_double_eq_tol(m[3], 0, 5 * sqrt(15.0 / DRAWS));
    ck_assert_double_eq_tol(m[4], 3, 5 * sqrt(96.0 / DRAWS));
    ck_assert_double_eq_tol(beyond2, 0.0455003, 5 * sqrt(0.0434 / DRAWS));
}
END_TEST

START_TEST(below_is_in_range_and_even) {
    static const uint64_t limits[] = {1, 2, 7, 65, 1000003, UINT64_C(1) << 63};
    for (size_t j = 0; j < sizeof limits / sizeof *limits; j++) {
        uint64_t n = limits[j];
        double   sum = 0;
        for (uint64_t i = 0; i < 20000; i++) {
            uint64_t x = la_rng_below(1, j, i, n);
            if (x >= n)
                ck_abort_msg("%llu is not below %llu", (unsigned long long)x,
                             (unsigned long long)n);
            sum += (double)x / (double)n;
        }
        double mean = 0.5 * (1 - 1 / (double)n);
        ck_assert_msg(fabs(sum / 20000 - mean) <= 5 * sqrt(1.0 / 12 / 20000),
                      "n = %llu: mean %g, not %g", (unsigned long long)n, sum / 20000, mean);
    }
    int seen[7] = {0};
    for (uint64_t i = 0; i < 7000; i++) seen[la_rng_below(1, 9, i, 7)]++;
    for (int k = 0; k < 7; k++)
        ck_assert_msg(abs(seen[k] - 1000) < 150, "%d came %d times of 7000", k, seen[k]);
}
END_TEST

/* --- shapes --- */

START_TEST(shapes_count_what_they_hold) {
    la_shape s = la_shape4(2, 64, 4, 16);
    ck_assert_int_eq(la_len(s), 8192);
    ck_assert_int_eq(la_last(s), 16);
    ck_assert_int_eq(la_rows(s), 512);
    ck_assert_int_eq(la_len(la_shape0()), 1);
    ck_assert_int_eq(la_last(la_shape0()), 1);
    ck_assert_int_eq(la_rows(la_shape0()), 1);
    ck_assert_int_eq(la_rows(la_shape1(5)), 1);
    ck_assert_int_eq(la_rows(la_shape3(2, 3, 5)), 6);
    ck_assert(la_shape_eq(la_shape2(2, 3), la_shape2(2, 3)));
    ck_assert(!la_shape_eq(la_shape2(2, 3), la_shape2(3, 2)));
    ck_assert(!la_shape_eq(la_shape2(2, 1), la_shape1(2)));
}
END_TEST

START_TEST(shapes_that_cannot_be_are_refused) {
    ck_assert(la_shape_ok(la_shape0()));
    ck_assert(la_shape_ok(la_shape2(1, 1)));
    ck_assert(la_shape_ok(la_shape1(INT64_C(1) << 46)));
    ck_assert(!la_shape_ok(la_shape1((INT64_C(1) << 46) + 1)));
    ck_assert(!la_shape_ok(la_shape1(0)));
    ck_assert(!la_shape_ok(la_shape2(3, -1)));
    ck_assert(!la_shape_ok(la_shape2(-3, -3)));
    ck_assert(!la_shape_ok(la_shape2(0, INT64_MAX)));
    ck_assert(!la_shape_ok(la_shape2(INT64_MAX, INT64_MAX)));
    ck_assert(
        !la_shape_ok(la_shape2(INT64_C(1) << 32, INT64_C(1) << 32))); /* 2^64 is 0 in 64 bits */
    ck_assert(!la_shape_ok(la_shape4(1 << 16, 1 << 16, 1 << 16, 1 << 16)));
    ck_assert(!la_shape_ok((la_shape){LA_MAX_DIM + 1, {1, 1, 1, 1}}));
    ck_assert(!la_shape_ok((la_shape){-1, {1}}));
}
END_TEST

START_TEST(shapes_print_as_tuples) {
    char text[LA_SHAPE_TEXT];
    ck_assert_str_eq(la_shape_text(la_shape4(2, 64, 4, 16), text), "(2,64,4,16)");
    ck_assert_str_eq(la_shape_text(la_shape1(7), text), "(7)");
    ck_assert_str_eq(la_shape_text(la_shape0(), text), "()");
    ck_assert_str_eq(la_shape_text(la_shape2(-1, 0), text), "(-1,0)");
    ck_assert_ptr_eq(la_shape_text(la_shape4(INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN), text),
                     text);
    ck_assert_uint_eq(strlen(text), 85); /* the longest fits */
}
END_TEST

START_TEST(norm2_is_the_sum_of_squares) {
    static const la_real x[] = {3, 4, 12, 0, -1, 2, 2, 4, 1, -1};
    static const double  sums[] = {0, 9, 25, 169, 169, 170, 174, 178, 194, 195, 196};
    for (size_t n = 0; n <= 10; n++) ck_assert_double_eq(la_norm2(n, x), sums[n]);
    enum { N = 100000 };
    la_real *big = reals(N);
    for (int i = 0; i < N; i++) big[i] = R(1e-3);
    double each = (double)R(1e-3) * (double)R(1e-3);
    ck_assert_double_eq_tol(la_norm2(N, big) / (N * each), 1, 1e-12); /* added in double */
    free(big);
}
END_TEST

START_TEST(find_nonfinite_gives_the_first_place) {
    la_real x[40];
    fill_uniform(40, 1e30, 1, x);
    ck_assert_int_eq(la_find_nonfinite(40, x), -1);
    x[39] = R(INFINITY);
    ck_assert_int_eq(la_find_nonfinite(40, x), 39);
    ck_assert_int_eq(la_find_nonfinite(39, x), -1);
    x[17] = R(NAN);
    ck_assert_int_eq(la_find_nonfinite(40, x), 17);
    x[0] = R(-INFINITY);
    ck_assert_int_eq(la_find_nonfinite(40, x), 0);
    ck_assert_int_eq(la_find_nonfinite(0, x), -1);
}
END_TEST

/* --- memory, names, status --- */

START_TEST(an_arena_gives_aligned_zeros_that_do_not_overlap_or_move) {
    static const size_t sizes[] = {1, 64, 0, 65, 3, 70000, 8, 1 << 20, 12};
    enum { N = sizeof sizes / sizeof *sizes };
    la_arena       a = {0};
    unsigned char *p[N];
    for (int round = 0; round < 2; round++) { /* it is usable again after la_arena_free */
        for (int i = 0; i < N; i++) {
            p[i] = la_arena_alloc(&a, sizes[i]);
            ck_assert_ptr_nonnull(p[i]);
            ck_assert_uint_eq((uintptr_t)p[i] % LA_ALIGN, 0);
            for (size_t j = 0; j < sizes[i]; j++)
                if (p[i][j]) ck_abort_msg("byte %zu of block %d is not 0", j, i);
            memset(p[i], i + 1, sizes[i]);
        }
        for (int i = 0; i < N; i++)
            for (size_t j = 0; j < sizes[i]; j++)
                if (p[i][j] != i + 1) ck_abort_msg("block %d was overwritten at %zu", i, j);
        ck_assert_str_eq(la_arena_printf(&a, "%s %d", "h", 7), "h 7");
        la_arena_free(&a);
        ck_assert_ptr_null(a.last);
    }
}
END_TEST

START_TEST(impossible_sizes_give_null) {
    la_arena a = {0};
    ck_assert_ptr_null(la_arena_alloc(&a, SIZE_MAX));
    ck_assert_ptr_null(la_arena_alloc(&a, SIZE_MAX - LA_ALIGN));
    ck_assert_ptr_null(la_alloc_aligned(SIZE_MAX));
    la_arena_free(&a);
    la_real *x = la_alloc_aligned(100 * sizeof *x);
    ck_assert_uint_eq((uintptr_t)x % LA_ALIGN, 0);
    ck_assert(largest(100, x) == 0);
    free(x);
    const int64_t huge = (2 << 20) / (int64_t)sizeof *x + 16; /* above the size of a huge page */
    x = la_alloc_aligned((size_t)huge * sizeof *x);
    ck_assert_uint_eq((uintptr_t)x % LA_ALIGN, 0);
    ck_assert(largest(huge, x) == 0);
    free(x);
}
END_TEST

static const char *attention_name(int i) {
    static const char *const names[] = {"softmax", "elu1", "double-softmax", "cosine"};
    return i < 4 ? names[i] : NULL;
}
static const char *no_name(int i) {
    (void)i;
    return NULL;
}

START_TEST(names_are_found_and_the_nearest_is_offered) {
    ck_assert_int_eq(la_name_index("elu1", attention_name), 1);
    ck_assert_int_eq(la_name_index("double-softmax", attention_name), 2);
    ck_assert_int_eq(la_name_index("double_softmax", attention_name), 2);
    ck_assert_int_eq(la_name_index("elu", attention_name), -1);
    ck_assert_int_eq(la_name_index("elu11", attention_name), -1);
    ck_assert_int_eq(la_name_index("", attention_name), -1);
    ck_assert_str_eq(la_name_nearest("elu", attention_name), "elu1");
    ck_assert_str_eq(la_name_nearest("cosin", attention_name), "cosine");
    ck_assert_str_eq(la_name_nearest("double_softmx", attention_name), "double-softmax");
    ck_assert_ptr_null(la_name_nearest("x", no_name));
    FAILS(la_name_unknown("attention variant", "elu", attention_name), LA_NAME,
          "unknown attention variant \"elu\": did you mean elu1? (known: softmax, elu1, "
          "double-softmax, cosine)");
    char endless[5000];
    memset(endless, 'x', sizeof endless);
    endless[sizeof endless - 1] = 0;
    FAILS(la_name_unknown("attention variant", endless, attention_name), LA_NAME, "known: softmax");
    FAILS(la_name_unknown("thing", "x", no_name), LA_NAME, "unknown thing");
}
END_TEST

START_TEST(a_failure_keeps_its_sentence) {
    ck_assert_int_eq(la_fail(LA_SHAPE, "%d columns", 5), LA_SHAPE);
    ck_assert_str_eq(la_error(), "5 columns");
    ck_assert_int_eq(la_fail(LA_IO, "and then %s", la_error()),
                     LA_IO); /* the old one as argument */
    ck_assert_str_eq(la_error(), "and then 5 columns");
    ck_assert_str_eq(la_status_text(LA_OK), "ok");
    ck_assert_str_eq(la_status_text(LA_NUMERIC), "value is not finite");
    ck_assert_str_eq(la_status_text((la_status)999), "unknown status");
    ck_assert_str_eq(la_status_text((la_status)-1), "unknown status");
}
END_TEST

/* --- vectors: _i is the table --- */

static int table_count(void) {
    int n = 0;
    while (la_vec_tables()[n]) n++;
    return n;
}

static const la_vec *table(int i) { return la_vec_tables()[i]; }

START_TEST(the_table_in_use_is_the_last_that_runs_here) {
    ck_assert_str_eq(la_vec_tables()[0]->name, "baseline");
    ck_assert_ptr_eq(la_vec_table(), table(table_count() - 1));
}
END_TEST

/* |y - exp(x)| in units of the last place of exp(x), which long double knows better than either. */
static double exp_ulps(double x, double y) {
    long double e = expl((long double)x),
                limit = LA_REAL_BITS == 64 ? 0x1.fffffffffffffp1023L : 0x1.fffffep127L;
    int digits = LA_REAL_BITS == 64 ? 52 : 23, least = LA_REAL_BITS == 64 ? -1074 : -149;
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y) ? 0 : HUGE_VAL;
    if (isinf(y)) return y > 0 && e > limit * (1 - ldexpl(1, -digits)) ? 0 : HUGE_VAL;
    int place = e > 0 ? ilogbl(e) - digits : least;
    return (double)(fabsl((long double)y - e) / ldexpl(1, place > least ? place : least));
}

static void check_exp(const la_vec *v, int n, const la_real *x, double *worst) {
    la_real y[256], z[256];
    v->exp_minus(n, 0, x, y);
    memcpy(z, x, (size_t)n * sizeof *z);
    v->exp_minus(n, 0, z, z);
    if (differ(n, y, z) >= 0) ck_abort_msg("%s: exp in place differs", v->name);
    for (int i = 0; i < n; i++) {
        double u = exp_ulps((double)x[i], (double)y[i]);
        if (u > 2)
            ck_abort_msg("%s: exp(%.9g) is %.9g, %g ulp from %.9g", v->name, (double)x[i],
                         (double)y[i], u, exp((double)x[i]));
        *worst = fmax(*worst, u);
    }
}

START_TEST(exp_is_within_two_ulp_over_the_whole_range) {
    const la_vec *v = table(_i);
    la_real       x[256];
    double        worst = 0;
    int           n = 0;
#if LA_REAL_BITS == 32
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 1021) { /* floats of all sizes */
        uint32_t b = (uint32_t)bits;
        memcpy(x + n++, &b, sizeof b);
        if (n == 256) check_exp(v, n, x, &worst), n = 0;
    }
#endif
    double lo = LA_REAL_BITS == 64 ? -746 : -104.5, hi = LA_REAL_BITS == 64 ? 710 : 89.5;
    for (int i = 0; i < 1000000; i++) { /* where the result is neither 0 nor infinite, evenly */
        x[n++] = R(lo + (hi - lo) * i / 1e6);
        if (n == 256) check_exp(v, n, x, &worst), n = 0;
    }
    check_exp(v, n, x, &worst);
    ck_assert_msg(worst > 0, "no value was rounded: nothing was tested");
    la_real special[] = {0, R(-0.0), R(INFINITY), R(-INFINITY), R(NAN), R(-NAN), R(1e30), R(-1e30)},
            y[8];
    check_exp(v, 8, special, &worst);
    v->exp_minus(8, 0, special, y);
    ck_assert(y[0] == 1 && y[1] == 1 && isinf(y[2]) && y[3] == 0 && isnan(y[4]) && isnan(y[5]) &&
              y[7] == 0);
}
END_TEST

START_TEST(exp_minus_sum_is_exp_minus_and_its_sum) {
    const la_vec *v = table(_i);
    la_real       x[68], y[68], z[68];
    fill_uniform(68, 5, 2, x);
    for (int n = 0; n < 68; n++) {
        memset(y, 0x55, sizeof y);
        memcpy(z, y, sizeof z);
        v->exp_minus(n, R(1.5), x, y);
        double sum = 0, s = (double)v->exp_minus_sum(n, R(1.5), x, z);
        for (int i = 0; i < n; i++) sum += exp((double)(x[i] - R(1.5)));
        if (fabs(s - sum) > 8 * LA_REAL_EPSILON * sum)
            ck_abort_msg("%s, n %d: %.9g, not %.9g", v->name, n, s, sum);
        for (int i = 0; i < n; i++)
            if (exp_ulps((double)(x[i] - R(1.5)), (double)z[i]) > 2 ||
                fabs((double)(y[i] - z[i])) > 4 * LA_REAL_EPSILON * (double)z[i])
                ck_abort_msg("%s, n %d, element %d: %.9g and %.9g", v->name, n, i, (double)y[i],
                             (double)z[i]);
        if (differ(68 - n, y + n, z + n) >= 0)
            ck_abort_msg("%s, n %d: written beyond the end", v->name, n);
    }
}
END_TEST

/* gelu is x Phi(x): absolute error in units of epsilon times max(|x|, 1), which is what an erf that
 * is right to the last place or two gives; and in the tail relative as well. */
START_TEST(gelu_and_its_derivative_are_those_of_libm) {
    const la_vec *v = table(_i);
    enum { N = 40001 };
    la_real *x = reals(N), *y = reals(N), *one = reals(N), *g = reals(N);
    for (int i = 0; i < N; i++) x[i] = R((i - N / 2) * 1e-3), one[i] = 1, g[i] = 2;
    v->gelu(N, x, y);
    v->gelu_backward(N, x, one, g);
    la_real *z0 = reals(N), *slope = reals(N);
    v->gelu_slope(N, x, z0, slope);
    for (int i = 0; i < N; i++) {
        double a = (double)x[i], Phi = 0.5 * erfc(-a * sqrt(0.5)),
               phi = exp(-a * a / 2) * 0.3989422804014327;
        double unit = LA_REAL_EPSILON * fmax(1, fabs(a));
        double ey = fabs((double)y[i] - a * Phi) / unit,
               eg = fabs((double)g[i] - 2 - (Phi + a * phi)) / LA_REAL_EPSILON;
        if (!(ey <= 2))
            ck_abort_msg("%s: gelu(%g) is %.9g, not %.9g (%.1f units)", v->name, a, (double)y[i],
                         a * Phi, ey);
        double es = fabs((double)slope[i] - (Phi + a * phi)) / LA_REAL_EPSILON;
        /* where Phi is small: relative, and what rounding x^2 costs exp(-x^2/2) */
        double er = a > -12 ? fabs((double)y[i] / (a * Phi) - 1) / LA_REAL_EPSILON : 0;
        if (z0[i] != y[i] || !(es <= 3) || (a && !(er <= 4 + a * a / 2)))
            ck_abort_msg(
                "%s: at %g: gelu %.9g and %.9g, not %.9g (%.1f ulp), slope %.9g (%.1f units)",
                v->name, a, (double)y[i], (double)z0[i], a * Phi, er, (double)slope[i], es);
        if (!(eg <= 4))
            ck_abort_msg("%s: gelu'(%g) is %.9g, not %.9g (%.1f units)", v->name, a,
                         (double)g[i] - 2, Phi + a * phi, eg);
    }
    free(z0), free(slope);
    la_real odd[] = {R(NAN), R(1e30), R(-1e30), 0}, z[4];
    v->gelu(4, odd, z);
    ck_assert(isnan(z[0]) && z[1] == R(1e30) && z[2] == 0 && z[3] == 0);
    free(x), free(y), free(one), free(g);
}
END_TEST

START_TEST(dot_axpy_and_max_are_right_at_every_length) {
    const la_vec *v = table(_i);
    la_real       a[70], b[70], y[70];
    fill_uniform(70, 1, 3, a);
    fill_uniform(70, 1, 4, b);
    for (int n = 0; n <= 67; n++)
        for (int from = 0; from < 3; from++) { /* also at odd addresses */
            const la_real *x = a + from, *w = b + from;
            double         dot = 0, size = 0, max = -2;
            memcpy(y, b, sizeof y);
            v->axpy(n, R(0.75), x, y + from);
            for (int i = 0; i < n; i++) {
                dot += (double)x[i] * (double)w[i];
                size += fabs((double)x[i] * (double)w[i]);
                max = fmax(max, (double)x[i]);
                double want = (double)w[i] + 0.75 * (double)x[i];
                if (fabs((double)y[from + i] - want) > 2 * LA_REAL_EPSILON)
                    ck_abort_msg("%s: axpy, n %d, element %d: %.9g, not %.9g", v->name, n, i,
                                 (double)y[from + i], want);
            }
            if (differ(from, y, b) >= 0 || differ(70 - from - n, y + from + n, b + from + n) >= 0)
                ck_abort_msg("%s: axpy, n %d wrote outside", v->name, n);
            double d = (double)v->dot(n, x, w);
            if (fabs(d - dot) > 8 * LA_REAL_EPSILON * size)
                ck_abort_msg("%s: dot, n %d: %.9g, not %.9g", v->name, n, d, dot);
            if (n && (double)v->max(n, x) != max)
                ck_abort_msg("%s: max, n %d: %g, not %g", v->name, n, (double)v->max(n, x), max);
        }
}
END_TEST

/* Two tiles of keys one after the other, the second with its diagonal or not, and what does not
 * count NaN, against exp of libm. */
START_TEST(softmax_of_tiles_is_that_of_whole_rows) {
    const la_vec *v = table(_i);
    enum { ROWS = 37, LD = 48, TILES = 2 };
    static const double CLOSE = BY_PRECISION(1e-6, 1e-14);
    la_real S[TILES][ROWS * LD], P[TILES][ROWS * LD], dP[ROWS * LD], m[ROWS], l[ROWS], shrink[ROWS];
    la_real lse[ROWS], d[ROWS];
    for (int n = 1; n <= ROWS; n++)
        for (int lower = 0; lower < 2; lower++) {
            for (int i = 0; i < ROWS; i++) m[i] = R(-INFINITY), l[i] = 0;
            for (int t = 0; t < TILES; t++) {
                const int triangle = lower && t == TILES - 1;
                fill_uniform(ROWS * LD, t ? 9 : 5, (uint32_t)t + 3, S[t]);
                for (int i = 0; i < n; i++)
                    for (int j = triangle ? i + 1 : n; j < LD; j++) S[t][i * LD + j] = R(NAN);
                memcpy(P[t], S[t], sizeof *P);
                v->softmax(n, n, triangle, P[t], LD, m, l, shrink);
            }
            for (int i = 0; i < n; i++) {
                const int counts = lower ? i + 1 : n;
                double    before = -HUGE_VAL, top, sum = 0;
                for (int j = 0; j < n; j++) before = fmax(before, (double)S[0][i * LD + j]);
                top = before;
                for (int j = 0; j < counts; j++) top = fmax(top, (double)S[1][i * LD + j]);
                for (int j = 0; j < n; j++) sum += exp((double)S[0][i * LD + j] - top);
                for (int j = 0; j < n; j++) {
                    double want = j < counts ? exp((double)S[1][i * LD + j] - top) : 0;
                    sum += want;
                    if (!(fabs((double)P[1][i * LD + j] - want) <= CLOSE))
                        ck_abort_msg("%s: n %d, row %d: p_%d is %.9g, not %.9g", v->name, n, i, j,
                                     (double)P[1][i * LD + j], want);
                }
                ck_assert_msg((double)m[i] == top, "%s: n %d, row %d: m", v->name, n, i);
                ck_assert_msg(fabs((double)l[i] - sum) <= n * CLOSE,
                              "%s: n %d, row %d: l is %.9g, not %.9g", v->name, n, i, (double)l[i],
                              sum);
                ck_assert_msg(fabs((double)shrink[i] - exp(before - top)) <= CLOSE,
                              "%s: n %d, row %d: shrink is %.9g", v->name, n, i, (double)shrink[i]);
                lse[i] = m[i] + R(log((double)l[i]));
            }
            memcpy(P[0], S[1], sizeof *P);
            fill_uniform(ROWS, 1, 6, d);
            memcpy(dP, S[1], sizeof dP);
            v->softmax_backward(n, n, lower, lse, d, P[0], dP, LD);
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++) {
                    double s = (double)S[1][i * LD + j];
                    double p = lower && j > i ? 0 : exp(s - (double)lse[i]);
                    double ds = p > 0 ? p * (s - (double)d[i]) : 0;
                    if (!(fabs((double)P[0][i * LD + j] - p) <= CLOSE) ||
                        !(fabs((double)dP[i * LD + j] - ds) <= 20 * CLOSE))
                        ck_abort_msg(
                            "%s: n %d, row %d, column %d: P %.9g, not %.9g; dS %.9g, not %.9g",
                            v->name, n, i, j, (double)P[0][i * LD + j], p, (double)dP[i * LD + j],
                            ds);
                }
        }
}
END_TEST

/* 1 + s + s^2/2 and its slope 1 + s in rows of which all or a triangle counts, the rest NaN. */
START_TEST(taylor2_of_a_tile_is_that_of_its_numbers) {
    const la_vec *v = table(_i);
    enum { ROWS = 37, LD = 48 };
    static const double CLOSE = BY_PRECISION(1e-6, 1e-14);
    la_real             S[ROWS * LD], W[ROWS * LD], G[ROWS * LD], dP[ROWS * LD], l[ROWS], d[ROWS];
    for (int n = 1; n <= ROWS; n++)
        for (int lower = 0; lower < 2; lower++) {
            fill_uniform(ROWS * LD, 4, 8, S);
            fill_uniform(ROWS * LD, 1, 9, G);
            fill_uniform(ROWS, 1, 6, d);
            for (int i = 0; i < n; i++)
                for (int j = lower ? i + 1 : n; j < LD; j++) S[i * LD + j] = R(NAN);
            for (int i = 0; i < n; i++) l[i] = R(i);
            memcpy(W, S, sizeof W);
            v->taylor2(n, n, lower, W, LD, l);
            for (int i = 0; i < n; i++) {
                double sum = i;
                for (int j = 0; j < n; j++) {
                    double s = (double)S[i * LD + j], w = lower && j > i ? 0 : 1 + s + s * s / 2;
                    sum += w;
                    if (!(fabs((double)W[i * LD + j] - w) <= 20 * CLOSE))
                        ck_abort_msg("%s: n %d, row %d: w_%d is %.9g, not %.9g", v->name, n, i, j,
                                     (double)W[i * LD + j], w);
                }
                ck_assert_msg(fabs((double)l[i] - sum) <= 20 * n * CLOSE,
                              "%s: n %d, row %d: l is %.9g, not %.9g", v->name, n, i, (double)l[i],
                              sum);
            }
            memcpy(W, S, sizeof W);
            for (int i = 0; i < ROWS * LD; i++) dP[i] = isnan(S[i]) ? S[i] : G[i];
            v->taylor2_backward(n, n, lower, l, d, W, dP, LD);
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++) {
                    const int counts = !lower || j <= i;
                    double    s = (double)S[i * LD + j], whole = (double)l[i];
                    double    p = counts ? (1 + s + s * s / 2) / whole : 0;
                    double    ds =
                        counts ? (1 + s) * ((double)G[i * LD + j] - (double)d[i]) / whole : 0;
                    if (!(fabs((double)W[i * LD + j] - p) <= CLOSE * (1 + 20 / whole)) ||
                        !(fabs((double)dP[i * LD + j] - ds) <= CLOSE * (1 + 100 / whole)))
                        ck_abort_msg(
                            "%s: n %d, row %d, column %d: P %.9g, not %.9g; dS %.9g, not %.9g",
                            v->name, n, i, j, (double)W[i * LD + j], p, (double)dP[i * LD + j], ds);
                }
        }
}
END_TEST

/* Rows of which a range counts, that of some rows empty or all -inf, and what does not count NaN.
 */
START_TEST(softmax_of_ranges_is_that_of_what_counts) {
    const la_vec *v = table(_i);
    enum { ROWS = 40, LD = 48 };
    static const double CLOSE = BY_PRECISION(1e-6, 1e-14);
    la_real             S[ROWS * LD], P[ROWS * LD], dP[ROWS * LD], m[ROWS], l[ROWS], shrink[ROWS];
    la_real             lse[ROWS], d[ROWS];
    int32_t             lo[ROWS], hi[ROWS];
    for (int n = 1; n <= LD; n++) {
        fill_uniform(ROWS * LD, 5, 3, S);
        fill_uniform(ROWS, 1, 6, d);
        for (int i = 0; i < ROWS; i++) {
            lo[i] = i * 7 % n, hi[i] = lo[i] + i * 5 % (n - lo[i] + 1);
            for (int j = 0; j < LD; j++)
                if (j < lo[i] || j >= hi[i] || i % 9 == 4)
                    S[i * LD + j] = i % 9 == 4 && j >= lo[i] && j < hi[i] ? R(-INFINITY) : R(NAN);
            m[i] = i % 2 ? R(-INFINITY) : R(1), l[i] = i % 2 ? 0 : 2;
            lse[i] = R(i % 5);
        }
        memcpy(P, S, sizeof P);
        v->softmax_ranges(ROWS, n, lo, hi, P, LD, m, l, shrink);
        for (int i = 0; i < ROWS; i++) {
            const double before = i % 2 ? -HUGE_VAL : 1;
            double       top = before, sum = 0;
            for (int j = lo[i]; j < hi[i]; j++) top = fmax(top, (double)S[i * LD + j]);
            for (int j = 0; j < n; j++) {
                int    counts = j >= lo[i] && j < hi[i] && top > -HUGE_VAL;
                double want = counts ? exp((double)S[i * LD + j] - top) : 0;
                sum += want;
                if (!(fabs((double)P[i * LD + j] - want) <= CLOSE))
                    ck_abort_msg("%s: n %d, row %d: p_%d is %.9g, not %.9g", v->name, n, i, j,
                                 (double)P[i * LD + j], want);
            }
            if (!(i % 2)) sum += 2 * exp(1 - top);
            ck_assert_msg((double)m[i] == top, "%s: n %d, row %d: m is %g", v->name, n, i,
                          (double)m[i]);
            ck_assert_msg(fabs((double)l[i] - sum) <= n * CLOSE,
                          "%s: n %d, row %d: l is %.9g, not %.9g", v->name, n, i, (double)l[i],
                          sum);
            if (!(i % 2) && !(fabs((double)shrink[i] - exp(1 - top)) <= CLOSE))
                ck_abort_msg("%s: n %d, row %d: shrink is %.9g", v->name, n, i, (double)shrink[i]);
        }
        memcpy(P, S, sizeof P);
        fill_uniform(ROWS * LD, 2, 8, dP);
        la_real *was = copy_of(ROWS * LD, dP);
        v->softmax_ranges_backward(ROWS, n, lo, hi, lse, d, P, dP, LD);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < n; j++) {
                double p = j >= lo[i] && j < hi[i] ? exp((double)(S[i * LD + j] - lse[i])) : 0;
                double ds = p * (double)(was[i * LD + j] - d[i]);
                if (!(fabs((double)P[i * LD + j] - p) <= 200 * CLOSE) ||
                    !(fabs((double)dP[i * LD + j] - ds) <= 1000 * CLOSE))
                    ck_abort_msg("%s: n %d, row %d, column %d: P %.9g, not %.9g; dS %.9g, not %.9g",
                                 v->name, n, i, j, (double)P[i * LD + j], p, (double)dP[i * LD + j],
                                 ds);
            }
        free(was);
    }
}
END_TEST

/* Within 2 ulp where the result is a normal number; 0, or next to it, below. */
START_TEST(softmax_has_an_exp_that_is_right_down_to_0) {
    const la_vec *v = table(_i);
    const la_real zero = 0;
    for (int i = 0; i <= 200000; i++) {
        const la_real x = R(-i * 6e-4);
        const double  want = exp((double)x);
        la_real       y[16] = {x}, dP[16] = {0};
        v->softmax_backward(1, 1, 0, &zero, &zero, y, dP, 16);
        const double tiny = BY_PRECISION((double)x > -87 ? 0 : 1.2e-38, 0);
        if (!(fabs((double)y[0] - want) <= 2 * LA_REAL_EPSILON * want + tiny))
            ck_abort_msg("%s: exp(%.9g) is %.9g, not %.9g", v->name, (double)x, (double)y[0], want);
    }
}
END_TEST

START_TEST(max_finds_the_largest_wherever_it_is) {
    const la_vec *v = table(_i);
    la_real       x[67];
    for (int n = 1; n <= 67; n++)
        for (int at = 0; at < n; at++) {
            for (int i = 0; i < n; i++) x[i] = R(-1000 - i);
            x[at] = R(-3.5);
            if (v->max(n, x) != R(-3.5))
                ck_abort_msg("%s: max, n %d, at %d: %g", v->name, n, at, (double)v->max(n, x));
        }
}
END_TEST

static void near(const la_vec *v, const char *what, int n, int i, la_real is, double want,
                 double size) {
    if (!(fabs((double)is - want) <= 16 * LA_REAL_EPSILON * size))
        ck_abort_msg("%s: %s, n %d, element %d: %.9g, not %.9g", v->name, what, n, i, (double)is,
                     want);
}

enum { SCAN_ROWS = 5, SCAN_WIDE = 1100 };

START_TEST(exp_scan_and_its_gradient_are_those_of_loops) {
    static const int widths[] = {1, 2, 7, 16, 33, 511, 513, 1097};
    const la_vec    *v = table(_i);
    enum { ROWS = SCAN_ROWS, LD = SCAN_WIDE, LDX = SCAN_WIDE + 3, LEN = ROWS * LDX };
    la_real *x = reals(LEN), *c = reals(LD), *before = reals(LD), *y = reals(LEN), *z = reals(LEN);
    la_real *dy = reals(LEN), *dz = reals(LEN), *r = reals(LD), *dx = reals(LEN);
    fill_uniform(LEN, 3, 11, x), fill_uniform(LD, 2, 12, c), fill_uniform(LEN, 1, 13, dy);
    fill_uniform(LEN, 1, 14, dz);
    for (int i = 0; i < LD; i++) before[i] = R(i % 3);
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        int    n = widths[w];
        double most = -HUGE_VAL;
        for (int i = 0; i < LEN; i++) y[i] = z[i] = dx[i] = 7;
        for (int j = 0; j < LD; j++) r[j] = 2;
        la_real up = v->exp_scan(ROWS, n, x, LDX, c, before, y, z, LD);
        v->exp_scan_backward(ROWS, n, y, dy, LD, dz, LDX, r, dx, LDX);
        for (int j = 0; j < LD; j++) {
            double sum = (double)before[j], back = 2;
            for (int i = 0; i < ROWS && j < n; i++) {
                double e = exp((double)(x[i * LDX + j] - c[j]));
                most = fmax(most, (double)(x[i * LDX + j] - c[j]));
                sum += e;
                near(v, "y", n, j, y[i * LD + j], e, e);
                near(v, "z", n, j, z[i * LD + j], sum, sum);
            }
            for (int i = ROWS - 1; i >= 0 && j < n; i--) {
                double e = exp((double)(x[i * LDX + j] - c[j]));
                back += (double)dz[i * LDX + j];
                near(v, "dx", n, j, dx[i * LDX + j], 7 + e * ((double)dy[i * LD + j] + back),
                     7 + 8 * e);
            }
            near(v, "r", n, j, r[j], back, 8);
            for (int i = 0; i < ROWS && j >= n; i++)
                ck_assert(y[i * LD + j] == 7 && z[i * LD + j] == 7 && dx[i * LDX + j] == 7);
        }
        ck_assert_msg((double)up == most, "%s, n %d: the largest is %g, not %g", v->name, n,
                      (double)up, most);
    }
    free(x), free(c), free(before), free(y), free(z), free(dy), free(dz), free(r), free(dx);
}
END_TEST

START_TEST(softmax_over_and_its_gradient_are_those_of_loops) {
    const la_vec *v = table(_i);
    enum { ROWS = 3, MOST = 67, LEN = ROWS * MOST + 1 };
    la_real x[LEN], z[LEN], y[LEN], dy[LEN], dz[LEN], dx[LEN];
    fill_uniform(LEN, 20, 15, x), fill_uniform(LEN, 1, 16, dy);
    for (int i = 0; i < LEN; i++) z[i] = R(1 + i % 5);
    for (int n = 1; n <= MOST; n++) {
        for (int i = 0; i < LEN; i++) y[i] = dz[i] = dx[i] = 7;
        v->softmax_over(ROWS, n, x, z, y);
        memcpy(dz, dy, (size_t)(ROWS * n) * sizeof *dz); /* it may take dy's place */
        v->softmax_over_backward(ROWS, n, y, z, dz, dz, dx);
        ck_assert(y[ROWS * n] == 7 && dz[ROWS * n] == 7 && dx[ROWS * n] == 7);
        for (int i = 0; i < ROWS; i++) {
            const int at = i * n;
            la_real   top = x[at];
            double    total = 0, along = 0;
            for (int j = 0; j < n; j++) top = x[at + j] > top ? x[at + j] : top;
            for (int j = 0; j < n; j++) total += exp((double)(x[at + j] - top));
            for (int j = 0; j < n; j++)
                along += exp((double)(x[at + j] - top)) / total * (double)(dy[at + j] / z[at + j]);
            for (int j = 0; j < n; j++) {
                double p = exp((double)(x[at + j] - top)) / total, Z = (double)z[at + j],
                       dp = (double)dy[at + j];
                near(v, "y", n, j, y[at + j], p / Z, p);
                near(v, "dz", n, j, dz[at + j], -p / Z * dp / Z, p);
                near(v, "dx", n, j, dx[at + j], 7 + p * (dp / Z - along), 8);
            }
        }
    }
}
END_TEST

/* x + c is up to 40 and z up to 5e4, so that the largest share is not always that of the largest x
 * + c. */
START_TEST(exp_over_and_its_gradient_are_those_of_loops) {
    const la_vec *v = table(_i);
    enum { ROWS = 3, MOST = 67, LEN = ROWS * MOST + 1 };
    la_real x[LEN], c[LEN], z[LEN], y[LEN], dy[LEN], dz[LEN], dx[LEN];
    fill_uniform(LEN, 1, 16, dy), fill_uniform(LEN, 20, 18, c);
    for (int i = 0; i < LEN; i++) z[i] = R(i % 5 ? 1 + i % 5 : 50000);
    for (int n = 1; n <= MOST; n++) {
        fill_uniform(LEN, 20, 17, x);
        for (int i = 0; i < LEN; i++) y[i] = dz[i] = dx[i] = 7;
        v->exp_over(ROWS, n, x, c, z, y);
        v->exp_over(ROWS, n, x, c, z, x); /* it may take x's place */
        ck_assert(!memcmp(x, y, (size_t)(ROWS * n) * sizeof *y));
        fill_uniform(LEN, 20, 17, x);
        memcpy(dz, dy, (size_t)(ROWS * n) * sizeof *dz);
        v->exp_over_backward(ROWS, n, y, z, dz, dz, dx);
        ck_assert(y[ROWS * n] == 7 && dz[ROWS * n] == 7 && dx[ROWS * n] == 7);
        for (int i = 0; i < ROWS; i++) {
            const int at = i * n;
            double    e[MOST], total = 0, along = 0;
            for (int j = 0; j < n; j++) {
                e[j] = exp((double)(x[at + j] + c[at + j]));
                total += e[j] * (double)z[at + j];
            }
            for (int j = 0; j < n; j++) along += e[j] / total * (double)dy[at + j];
            for (int j = 0; j < n; j++) {
                double a = e[j] / total, Z = (double)z[at + j], dp = (double)dy[at + j];
                /* of the whole row's error each has its share, and exponents of 40 add theirs */
                near(v, "y", n, j, y[at + j], a, 8 * a);
                near(v, "dz", n, j, dz[at + j], -a * along, 8 * a);
                near(v, "dx", n, j, dx[at + j], 7 + a * (dp - Z * along), 8);
            }
        }
    }
}
END_TEST

/* --- loops of several rows, each against plain ones in double --- */

enum { ROWS = 5, LD = 41 };

static void close_to(const char *what, int n, double is, double want, double size) {
    if (!(fabs(is - want) <= 8 * LA_REAL_EPSILON * (size + 1)))
        ck_abort_msg("%s: %s, n %d: %.9g, not %.9g", la_vec_table()->name, what, n, is, want);
}

START_TEST(sums_and_copies_are_right_at_every_length) {
    const la_vec *v = table(_i);
    la_real       x[ROWS * LD], y[ROWS * LD] __attribute__((aligned(64))), w[ROWS * 2];
    la_vec_use(v);
    fill_uniform(ROWS * LD, 1, 21, x);
    fill_uniform(ROWS * 2, 1, 22, w);
    for (int n = 1; n <= LD; n++) {
        for (int from = 0; from < 2; from++) { /* at an aligned address, and beside it */
            memset(y, 0, sizeof y);
            v->store(n, x, y + from);
            for (int i = 0; i < n; i++) ck_assert(y[from + i] == x[i]);
            ck_assert(y[from + n] == 0);
        }
        v->scale(n, R(-0.5), x, y);
        for (int i = 0; i < n; i++) ck_assert(y[i] == R(-0.5) * x[i]);
        memcpy(y, x, sizeof y);
        v->mul(n, x + 1, y);
        for (int i = 0; i < n; i++) ck_assert(y[i] == x[i] * x[i + 1]);
        ck_assert(n == LD || y[n] == x[n]);
        la_real products[LD + 1] = {0};
        for (int j = 0; j <= n; j++) products[j] = R(0.5);
        v->mul_add_rows(ROWS - 1, n, x + 1, LD, x, LD - 1, products);
        for (int j = 0; j < n; j++) {
            double want = 0.5;
            for (int i = 0; i < ROWS - 1; i++)
                want += (double)x[i * LD + 1 + j] * (double)x[i * (LD - 1) + j];
            close_to("mul_add_rows", n, (double)products[j], want, ROWS);
        }
        ck_assert(products[n] == R(0.5));
        for (int weighted = 0; weighted < 2; weighted++) {
            la_real total[LD] = {0};
            v->add_rows(ROWS, n, x, LD, weighted ? w : NULL, 2, total);
            for (int j = 0; j < n; j++) {
                double want = 0;
                for (int i = 0; i < ROWS; i++)
                    want += (weighted ? (double)w[2 * i] : 1) * (double)x[i * LD + j];
                close_to("add_rows", n, (double)total[j], want, ROWS);
            }
            memset(y, 0, sizeof y);
            v->outer(ROWS, n, weighted ? w : NULL, 2, x, y, LD);
            for (int i = 0; i < ROWS * LD; i++)
                close_to(
                    "outer", n, (double)y[i],
                    i % LD < n ? (weighted ? (double)w[i / LD * 2] : 1) * (double)x[i % LD] : 0, 0);
        }
    }
    la_vec_use(NULL);
}
END_TEST

START_TEST(elu1_is_exp_below_0_and_x_plus_1_above) {
    const la_vec *v = table(_i);
    la_real       x[ROWS * LD], y[ROWS * LD], dy[ROWS * LD], dx[ROWS * LD];
    la_vec_use(v);
    fill_uniform(ROWS * LD, 6, 23, x);
    fill_uniform(ROWS * LD, 1, 24, dy);
    x[0] = 0, x[1] = R(1e30), x[2] = R(-1e30), x[3] = R(NAN);
    for (int n = 4; n <= LD; n++) {
        for (int i = 0; i < ROWS * LD; i++) dx[i] = 3;
        v->elu1(ROWS, n, x, LD, y);
        v->elu1_backward(ROWS, n, x, LD, y, dy, dx, LD);
        ck_assert(y[0] == 1 && y[1] == R(1e30) && y[2] >= 0 && y[2] < R(1e-38) && isnan(y[3]));
        for (int i = 4; i < ROWS * n; i++) {
            double a = (double)x[i / n * LD + i % n], want = a > 0 ? a + 1 : exp(a);
            if (i % n < 4 && i < n) continue;
            close_to("elu1", n, (double)y[i], want, want);
            close_to("elu1_backward", n, (double)dx[i / n * LD + i % n],
                     3 + (double)dy[i] * (a > 0 ? 1 : exp(a)), 3);
        }
        for (int i = 0; i < ROWS * LD; i++) ck_assert(i % LD < n || dx[i] == 3);
    }
    la_vec_use(NULL);
}
END_TEST

START_TEST(softplus_and_sigmoid_are_those_of_libm) {
    const la_vec *v = table(_i);
    enum { N = 20001 };
    la_real *x = reals(N), *y = reals(N), *s = reals(N), *one = reals(N), *dx = reals(N);
    for (int i = 0; i < N; i++) x[i] = R((i - N / 2) * 8e-3), one[i] = 1, dx[i] = 2;
    v->softplus(N, x, y);
    v->softplus_backward(N, x, one, dx);
    v->sigmoid(N, x, s);
    for (int i = 0; i < N; i++) {
        double a = (double)x[i], e = exp(-fabs(a)), up = fmax(a, 0) + log1p(e);
        double slope = (a > 0 ? 1 : e) / (1 + e);
        if (!(fabs((double)y[i] / up - 1) <= 4 * LA_REAL_EPSILON) ||
            !(fabs((double)s[i] / slope - 1) <= 4 * LA_REAL_EPSILON) ||
            !(fabs((double)dx[i] - 2 - slope) <= 4 * LA_REAL_EPSILON))
            ck_abort_msg(
                "%s: at %g: softplus %.9g, not %.9g, slope %.9g and sigmoid %.9g, not %.9g",
                v->name, a, (double)y[i], up, (double)dx[i] - 2, (double)s[i], slope);
    }
    la_real odd[] = {R(NAN), R(1e30), R(-1e30)}, z[3];
    v->softplus(3, odd, z);
    ck_assert(isnan(z[0]) && z[1] == R(1e30) && z[2] == 0);
    v->sigmoid(3, odd, z);
    ck_assert(isnan(z[0]) && z[1] == 1 && z[2] == 0);
    free(x), free(y), free(s), free(one), free(dx);
}
END_TEST

START_TEST(sincos_is_that_of_libm) {
    const la_vec *v = table(_i);
    enum { N = 40001 };
    la_real *x = reals(N), *s = reals(N), *c = reals(N);
    for (int i = 0; i < 3 * N; i++) { /* to 2, to 4000, and beyond what the polynomials are for */
        static const double steps[] = {1e-4, 0.2, 1e3};
        double              step = steps[i / N];
        x[i % N] = R((i % N - N / 2) * step);
        if (i % N < N - 1) continue;
        v->sincos(N, x, s, c);
        for (int j = 0; j < N; j++) {
            double a = (double)x[j];
            if (!(fabs((double)s[j] - sin(a)) <= 2 * LA_REAL_EPSILON) ||
                !(fabs((double)c[j] - cos(a)) <= 2 * LA_REAL_EPSILON))
                ck_abort_msg("%s: at %.9g: sin %.9g, not %.9g, cos %.9g, not %.9g", v->name, a,
                             (double)s[j], sin(a), (double)c[j], cos(a));
        }
    }
    x[3] = R(NAN);
    v->sincos(9, x, s, c);
    ck_assert(isnan(s[3]) && isnan(c[3]) && isfinite(s[2]) && isfinite(c[4]));
    free(x), free(s), free(c);
}
END_TEST

START_TEST(normalising_divides_by_the_sum_of_the_weights) {
    const la_vec *v = table(_i);
    la_real A[ROWS * LD], z[LD], P[ROWS * LD], o[ROWS * LD], D[ROWS * 3], U[ROWS * LD], w[ROWS];
    la_vec_use(v);
    for (int n = 1; n < LD; n++) {
        fill_uniform(ROWS * LD, 1, 25, A);
        fill_uniform(LD, 1, 26, z);
        fill_uniform(ROWS * LD, 1, 27, P);
        fill_uniform(ROWS * LD, 1, 28, o);
        memset(A, 0, (size_t)n * sizeof *A); /* row 0: D = 0 */
        memset(P, 0, ROWS * sizeof *P);
        la_real before[ROWS * LD];
        memcpy(before, o, sizeof o);
        v->normalise(ROWS, n, n, A, LD, z, P, LD, 0, R(-INFINITY), D, 3, o, LD);
        for (int i = 0; i < ROWS; i++) {
            double d = 0;
            for (int j = 0; j < n; j++) d += (double)A[i * LD + j] * (double)z[j];
            for (int j = 0; j < ROWS; j++) d += (double)P[i * LD + j];
            close_to("normalise, D", n, (double)D[3 * i], d, n);
            for (int j = 0; j < LD; j++) {
                double by = j < n ? (D[3 * i] != 0 ? 1 / (double)D[3 * i] : 0) : 1;
                double want = (double)before[i * LD + j] * by;
                close_to("normalise, o", n, (double)o[i * LD + j], want, fabs(want));
            }
        }
        la_real dense[ROWS] = {D[0], D[3], D[6], D[9], D[12]};
        v->normalise_backward(ROWS, n, before, A, dense, R(-INFINITY), U, w);
        for (int i = 0; i < ROWS; i++) {
            double r = dense[i] != 0 ? 1 / (double)dense[i] : 0, along = 0;
            for (int j = 0; j < n; j++) {
                along += (double)before[i * n + j] * (double)A[i * n + j];
                double want = (double)before[i * n + j] * r;
                close_to("normalise_backward, U", n, (double)U[i * n + j], want, fabs(want));
            }
            close_to("normalise_backward, w", n, (double)w[i], -along * r, n * fabs(r));
        }
    }
    la_vec_use(NULL);
}
END_TEST

/* Normalisers are the rows' first numbers: no P, and z is a unit vector. */
START_TEST(a_normaliser_is_kept_off_0_and_then_has_no_gradient) {
    const la_vec *v = table(_i);
    la_real       A[ROWS * 2] = {1, 0, R(0.25), 0, -3, 0, R(0.5), 0, R(1e-9), 0}, z[2] = {1, 0};
    la_real       o[ROWS * 2] = {1, 2, 1, 2, 1, 2, 1, 2, 1, 2}, D[ROWS], U[ROWS * 2], w[ROWS];
    v->normalise(ROWS, 2, 2, A, 2, z, NULL, 0, R(0.125), R(0.5), D, 1, o, 2);
    const la_real want[ROWS] = {R(1.125), R(0.5), R(0.5), R(0.625), R(0.5)};
    for (int i = 0; i < ROWS; i++) {
        close_to("D", i, (double)D[i], (double)want[i], 0);
        close_to("o", i, (double)o[2 * i + 1], 2 / (double)want[i], 2);
    }
    v->normalise_backward(ROWS, 2, A, o, D, R(0.5), U, w);
    for (int i = 0; i < ROWS; i++) {
        close_to("U", i, (double)U[2 * i], (double)(A[2 * i] / want[i]), 6);
        ck_assert_msg((w[i] == 0) == (want[i] == R(0.5)), "%s: w %d is %g", v->name, i,
                      (double)w[i]);
    }
    la_real tiny = R(LA_REAL_BITS == 32 ? 1e-40 : 1e-310), small = 1, one = 1;
    v->normalise(1, 1, 1, &tiny, 1, &one, NULL, 0, 0, R(-INFINITY), D, 1, &small, 1);
    ck_assert_msg(small == 0, "%s: 1 over a number without an inverse is %g", v->name,
                  (double)small);
}
END_TEST

START_TEST(layernorm_rows_are_the_formulas) {
    const la_vec *v = table(_i);
    la_real x[ROWS * LD], gain[LD], bias[LD], y[LD], dy[ROWS * LD], dx[LD], s[ROWS * 2], dg[LD];
    la_vec_use(v);
    fill_uniform(ROWS * LD, 2, 31, x);
    fill_uniform(LD, 1, 32, gain);
    fill_uniform(LD, 1, 33, bias);
    fill_uniform(ROWS * LD, 1, 34, dy);
    for (int n = 2; n <= LD; n++) {
        double want_gain[LD] = {0};
        for (int i = 0; i < ROWS; i++) {
            const la_real *xi = x + i * LD, *di = dy + i * LD;
            double         m = 0, var = 0, e = 0, eh = 0;
            for (int c = 0; c < n; c++) m += (double)xi[c] / n;
            for (int c = 0; c < n; c++) var += ((double)xi[c] - m) * ((double)xi[c] - m) / n;
            double r = 1 / sqrt(var + 0.1);
            v->norm(n, R(0.1), xi, gain, i % 2 ? bias : NULL, y, s + 2 * i);
            close_to("norm, m", n, (double)s[2 * i], m, 2);
            close_to("norm, r", n, (double)s[2 * i + 1], r, 4);
            for (int c = 0; c < n; c++) {
                double h = ((double)xi[c] - m) * r, d = (double)gain[c] * (double)di[c];
                close_to("norm, y", n, (double)y[c],
                         (double)gain[c] * h + (i % 2 ? (double)bias[c] : 0), 8);
                e += d / n, eh += d * h / n;
                want_gain[c] += (double)di[c] * h;
            }
            for (int set = 0; set < 2; set++) {
                for (int c = 0; c < n; c++) dx[c] = 5;
                v->norm_backward(n, xi, gain, di, s + 2 * i, set, dx);
                for (int c = 0; c < n; c++) {
                    double h = ((double)xi[c] - m) * r;
                    close_to("norm_backward", n, (double)dx[c],
                             (set ? 0 : 5) + r * ((double)gain[c] * (double)di[c] - e - h * eh),
                             20);
                }
            }
        }
        memset(dg, 0, sizeof dg);
        v->norm_gain(ROWS, n, x, dy, LD, s, dg);
        for (int c = 0; c < n; c++) close_to("norm_gain", n, (double)dg[c], want_gain[c], 20);
    }
    la_vec_use(NULL);
}
END_TEST

/* --- matrix products, inside a block as the ops call them --- */

static void multiply(void *ctx, int64_t block, int thread) {
    la_gemm *p = ctx;
    (void)block, (void)thread;
    (p->form == LA_NN ? la_gemm_nn
     : p->form == LA_TN
         ? la_gemm_tn
         : la_gemm_nt)(p->how, p->m, p->n, p->k, p->A, p->lda, p->B, p->ldb, p->C, p->ldc);
}

static double by_hand(const la_gemm *p, int64_t i, int64_t j) {
    double s = 0;
    for (int64_t l = 0; l < p->k; l++)
        s += (double)(p->form == LA_TN ? p->A[l * p->lda + i] : p->A[i * p->lda + l]) *
             (double)(p->form == LA_NT ? p->B[j * p->ldb + l] : p->B[l * p->ldb + j]);
    return s;
}

static void clear_triangle(const la_gemm *p, la_real *A) {
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t l = 0; l < p->k; l++)
            if ((p->how & LA_A_LOWER && l > i) || (p->how & LA_A_UPPER && l < i))
                A[p->form == LA_TN ? l * p->lda + i : i * p->lda + l] = 0;
}

/* exact: rows of A are a multiple of 4096 bytes apart, which takes a path of its own. */
static void check_spaced(la_form form, unsigned how, int64_t m, int64_t n, int64_t k, int exact) {
    static const char *const forms[] = {"nn", "tn", "nt"};
    enum { EXTRA = 3 };
    la_gemm p = {.form = form, .how = how, .m = m, .n = n, .k = k, .ldc = n + EXTRA};
    int64_t la = (form == LA_TN ? k : m) * (p.lda = exact ? 1024 : (form == LA_TN ? m : k) + EXTRA);
    int64_t lb = (form == LA_NT ? n : k) * (p.ldb = (form == LA_NT ? k : n) + EXTRA);
    int64_t lc = m * p.ldc;
    la_real *A = reals(la), *B = reals(lb), *before = reals(lc);
    fill_uniform(la, 1, 5, A);
    fill_uniform(lb, 1, 6, B);
    fill_uniform(lc, 1, 7, before);
    for (int64_t i = 0; i < m && !(how & LA_ADD); i++)
        for (int64_t j = 0; j < n; j++)
            before[i * p.ldc + j] = R(NAN); /* what was there must not matter */
    clear_triangle(&p, A);
    p.A = A, p.B = B, p.C = copy_of(lc, before);
    la_parallel(1, multiply, &p);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < p.ldc; j++) {
            la_real c = p.C[i * p.ldc + j], was = before[i * p.ldc + j];
            if (how & LA_C_LOWER && j > i && j < n) continue; /* undefined */
            double want =
                j >= n ? (double)was : by_hand(&p, i, j) + (how & LA_ADD ? (double)was : 0);
            double allowed = j >= n ? 0 : LA_REAL_EPSILON * (2 + (double)k);
            if (!(fabs((double)c - want) <= allowed))
                ck_abort_msg("%s %s, how %u, %lld x %lld x %lld, at %lld,%lld: %.9g, not %.9g",
                             la_vec_table()->name, forms[form], how, (long long)m, (long long)n,
                             (long long)k, (long long)i, (long long)j, (double)c, want);
        }
    free(A), free(B), free(before), free(p.C);
}

static void check_product(la_form form, unsigned how, int64_t m, int64_t n, int64_t k) {
    check_spaced(form, how, m, n, k, 0);
}

START_TEST(products_are_those_of_three_loops) {
    static const int64_t sizes[] = {1, 2, 3, 7, 16, 33, 65};
    enum { N = sizeof sizes / sizeof *sizes };
    la_form form = (la_form)(_i % 3);
    la_vec_use(table(_i / 3));
    for (int i = 0; i < N * N * N; i++)
        for (unsigned how = 0; how < 16; how++)
            if (!(how & LA_A_LOWER && how & LA_A_UPPER))
                check_product(form, how, sizes[i / N / N], sizes[i / N % N], sizes[i % N]);
    check_product(form, LA_ADD, 131, 257, 190);
    check_product(form, LA_SET, 250, 40, 1030);
    check_product(form, LA_SET | LA_A_LOWER, 530, 20, 530); /* triangles over several pieces of k */
    check_product(form, LA_ADD | LA_A_UPPER, 530, 20, 530);
    check_product(form, LA_SET | LA_C_LOWER, 260, 260, 5);
    for (int64_t m = 12; m < 250; m = 2 * m + 73) { /* 12, 97 */
        check_spaced(form, LA_ADD, m, 140, 511, 1);
        check_spaced(form, LA_SET, m, 131, 600, 1);
        check_spaced(form, LA_SET | LA_A_LOWER, m, 131, 97, 1);
    }
    la_vec_use(NULL);
}
END_TEST

START_TEST(bits_of_a_row_do_not_depend_on_the_rows_beside_it) {
    enum { M = 300, N = 70, K = 77 };
    la_real *A = reals(M * K), *B = reals(K * N), *all = reals(M * N), *one = reals(M * N);
    fill_uniform(M * K, 1, 5, A);
    fill_uniform(K * N, 1, 6, B);
    if (table(_i)->gemm) {
        la_vec_use(table(_i));
        la_gemm_nn(LA_SET, M, N, K, A, K, B, N, all, N);
        for (int64_t i = 0, rows = 1; i < M; i += rows, rows = rows % 29 + 1) {
            if (rows > M - i) rows = M - i;
            la_gemm_nn(LA_SET, rows, N, K, A + i * K, K, B, N, one + i * N, N);
        }
        ck_assert_int_eq(differ(M * N, all, one), -1);
        la_vec_use(NULL);
    }
    free(A), free(B), free(all), free(one);
}
END_TEST

START_TEST(transposing_is_exact_at_every_size) {
    la_real x[40 * 43], y[40 * 45];
    fill_uniform(40 * 43, 1, 8, x);
    for (int rows = 1; rows <= 37; rows += 3)
        for (int cols = 1; cols <= 37; cols += 2) {
            for (int i = 0; i < 40 * 45; i++) y[i] = 9;
            table(_i)->transpose(rows, cols, x, 43, y, 45);
            for (int j = 0; j < 40; j++)
                for (int i = 0; i < 45; i++)
                    ck_assert(y[j * 45 + i] == (i < rows && j < cols ? x[i * 43 + j] : 9));
        }
}
END_TEST

/* --- blocks --- */

typedef struct tally {
    int count[1000], bad_thread;
} tally;

static void count_block(void *ctx, int64_t block, int thread) {
    tally *t = ctx;
    __atomic_fetch_add(t->count + block, 1, __ATOMIC_RELAXED);
    if (thread < 0 || thread >= la_threads()) __atomic_store_n(&t->bad_thread, 1, __ATOMIC_RELAXED);
}

START_TEST(parallel_does_each_block_once) {
    static const int blocks[] = {0, 1, 2, 7, 1000};
    int              usual = la_threads();
    for (int threads = 1; threads <= 4; threads++) {
        la_threads_set(threads);
        ck_assert_int_eq(la_threads(), threads);
        for (size_t j = 0; j < sizeof blocks / sizeof *blocks; j++) {
            tally t = {0};
            la_parallel(blocks[j], count_block, &t);
            ck_assert(!t.bad_thread);
            for (int i = 0; i < 1000; i++)
                if (t.count[i] != (i < blocks[j]))
                    ck_abort_msg("block %d of %d was done %d times", i, blocks[j], t.count[i]);
        }
    }
    la_threads_set(0);
    ck_assert_int_eq(la_threads(), 1);
    la_threads_release();
    la_threads_set(usual);
}
END_TEST

START_TEST(the_precision_is_the_one_asked_for) {
    ck_assert_int_eq(la_link_check(), LA_REAL_BITS);
    ck_assert_uint_eq(sizeof(la_real) * 8, LA_REAL_BITS);
    ck_assert(R(1) + R(LA_REAL_EPSILON) != 1 && R(1) + R(LA_REAL_EPSILON / 2) == 1);
}
END_TEST

int main(void) {
    Suite *s = suite_create("tensor");
    TCase *c = add_case(s, "random numbers");
    tcase_add_loop_test(c, philox_gives_the_published_vectors, 0, 3);
    tcase_add_test(c, each_use_and_number_has_a_stream_of_its_own);
    tcase_add_test(c, uniform_has_the_moments_of_the_unit_interval);
    tcase_add_test(c, normal_has_the_moments_and_tails_of_N01);
    tcase_add_test(c, below_is_in_range_and_even);
    c = add_case(s, "shapes");
    tcase_add_test(c, shapes_count_what_they_hold);
    tcase_add_test(c, shapes_that_cannot_be_are_refused);
    tcase_add_test(c, shapes_print_as_tuples);
    tcase_add_test(c, norm2_is_the_sum_of_squares);
    tcase_add_test(c, find_nonfinite_gives_the_first_place);
    c = add_case(s, "memory, names, status");
    tcase_add_test(c, an_arena_gives_aligned_zeros_that_do_not_overlap_or_move);
    tcase_add_test(c, impossible_sizes_give_null);
    tcase_add_test(c, names_are_found_and_the_nearest_is_offered);
    tcase_add_test(c, a_failure_keeps_its_sentence);
    tcase_add_test(c, the_precision_is_the_one_asked_for);
    c = add_case(s, "vectors");
    int tables = table_count();
    tcase_add_test(c, the_table_in_use_is_the_last_that_runs_here);
    tcase_add_loop_test(c, exp_is_within_two_ulp_over_the_whole_range, 0, tables);
    tcase_add_loop_test(c, exp_minus_sum_is_exp_minus_and_its_sum, 0, tables);
    tcase_add_loop_test(c, gelu_and_its_derivative_are_those_of_libm, 0, tables);
    tcase_add_loop_test(c, dot_axpy_and_max_are_right_at_every_length, 0, tables);
    tcase_add_loop_test(c, max_finds_the_largest_wherever_it_is, 0, tables);
    tcase_add_loop_test(c, exp_scan_and_its_gradient_are_those_of_loops, 0, tables);
    tcase_add_loop_test(c, softmax_over_and_its_gradient_are_those_of_loops, 0, tables);
    tcase_add_loop_test(c, exp_over_and_its_gradient_are_those_of_loops, 0, tables);
    tcase_add_loop_test(c, softmax_of_tiles_is_that_of_whole_rows, 0, tables);
    tcase_add_loop_test(c, taylor2_of_a_tile_is_that_of_its_numbers, 0, tables);
    tcase_add_loop_test(c, softmax_of_ranges_is_that_of_what_counts, 0, tables);
    tcase_add_loop_test(c, softmax_has_an_exp_that_is_right_down_to_0, 0, tables);
    tcase_add_loop_test(c, sums_and_copies_are_right_at_every_length, 0, tables);
    tcase_add_loop_test(c, elu1_is_exp_below_0_and_x_plus_1_above, 0, tables);
    tcase_add_loop_test(c, softplus_and_sigmoid_are_those_of_libm, 0, tables);
    tcase_add_loop_test(c, sincos_is_that_of_libm, 0, tables);
    tcase_add_loop_test(c, normalising_divides_by_the_sum_of_the_weights, 0, tables);
    tcase_add_loop_test(c, a_normaliser_is_kept_off_0_and_then_has_no_gradient, 0, tables);
    tcase_add_loop_test(c, layernorm_rows_are_the_formulas, 0, tables);
    c = add_case(s, "products and blocks");
    tcase_add_loop_test(c, products_are_those_of_three_loops, 0, 3 * tables);
    tcase_add_loop_test(c, bits_of_a_row_do_not_depend_on_the_rows_beside_it, 0, tables);
    tcase_add_loop_test(c, transposing_is_exact_at_every_size, 0, tables);
    tcase_add_test(c, parallel_does_each_block_once);
    return run_suite(s);
}
