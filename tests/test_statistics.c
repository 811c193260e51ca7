/* test_statistics.c -- Student's t, intervals, paired differences, slopes, crossings and steps to a
 * target, against SciPy 1.10 and what can be computed by hand. */
#include "testing.h"

#include "train/statistics.h"

static double off(double x, double wanted) { /* relative; NAN and infinity equal themselves */
    if (isnan(wanted)) return isnan(x) ? 0 : HUGE_VAL;
    if (x == wanted) return 0;
    double d = fabs(x - wanted) / fabs(wanted);
    return isfinite(d) ? d : HUGE_VAL;
}

static void is(double x, double wanted, double tolerance) {
    ck_assert_msg(off(x, wanted) <= tolerance, "%.17g and not %.17g (off by %.2g)", x, wanted,
                  off(x, wanted));
}

#define COUNT(a) ((int64_t)(sizeof(a) / sizeof *(a)))

/* --- Student's t --- */

static const double probabilities[] = {0.9, 0.975, 0.995, 0.9999};

/* x = scipy.special.betaincinv(df / 2, .5, 2 * (1 - p)); sqrt(df * (1 - x) / x).  (That of
 * scipy.stats.t.ppf, from cdflib, agrees to its 2e-9.) */
static const struct {
    int    df;
    double t[4];
} quantiles[] = {
    {1, {3.07768353717525, 12.7062047361747, 63.6567411628715, 3183.0987571185}},
    {2, {1.88561808316413, 4.30265272974946, 9.92484320091829, 70.7000710749682}},
    {3, {1.63774435369621, 3.18244630528371, 5.84090930973336, 22.203742273205}},
    {4, {1.53320627405894, 2.77644510519779, 4.60409487134999, 13.0336717208968}},
    {5, {1.47588404882448, 2.57058183563632, 4.03214298355523, 9.67756630088281}},
    {9, {1.38302873839663, 2.2621571627982, 3.24983554159213, 6.01013212908153}},
    {10, {1.37218364111034, 2.22813885198627, 3.16927267261695, 5.69382010145759}},
    {30, {1.3104150253914, 2.04227245630124, 2.74999565356722, 4.23398595727206}},
    {99, {1.29016144203449, 1.98421695158641, 2.62640545728083, 3.86308910712729}},
    {200, {1.28579879399481, 1.97189622363391, 2.60063443619156, 3.78912078874774}},
};

START_TEST(quantiles_are_those_of_the_incomplete_beta_function) {
    for (int i = 0; i < COUNT(quantiles); i++)
        for (int j = 0; j < 4; j++) {
            is(la_t_quantile(probabilities[j], quantiles[i].df), quantiles[i].t[j], 1e-13);
            is(la_t_quantile(1 - probabilities[j], quantiles[i].df), -quantiles[i].t[j], 1e-13);
        }
}
END_TEST

/* Integral of cos^(df-1) from 0 to a by Simpson's rule. */
static double integral(int df, double a) {
    enum { PIECES = 20000 };
    double sum = 0;
    for (int i = 0; i <= PIECES; i++)
        sum += pow(cos(a * i / PIECES), df - 1) * (i == 0 || i == PIECES ? 1 : i % 2 ? 4 : 2);
    return sum * a / PIECES / 3;
}

/* With tan a = t / sqrt df the density of t becomes cos^(df-1) a, so that
 * P(T > t) = (integral from a to pi/2) / (2 integral from 0 to pi/2). */
START_TEST(a_quantile_leaves_its_share_of_the_density_for_df_1_to_200) {
    for (int df = 1; df <= 200; df++) {
        double whole = integral(df, M_PI / 2);
        for (int j = 0; j < 4; j++) {
            double t = la_t_quantile(probabilities[j], df);
            double half = integral(df, atan2(t, sqrt(df))) / whole / 2;
            ck_assert_msg(fabs(0.5 + half - probabilities[j]) < 1e-13, "df %d, p %g: %.17g", df,
                          probabilities[j], 0.5 + half);
        }
    }
}
END_TEST

/* df 1: t = tan(pi (p - 1/2));  df 2: t = (2p - 1) / sqrt(2 p (1 - p)) */
START_TEST(quantiles_of_1_and_2_degrees_are_closed_forms_far_out_too) {
    for (int e = 1; e <= 300; e += 13) {
        double p = pow(10, -e);
        is(la_t_quantile(p, 1), -1 / tan(M_PI * p), 1e-13);
        is(la_t_quantile(p, 2), (2 * p - 1) / sqrt(2 * p * (1 - p)), 1e-13);
    }
}
END_TEST

START_TEST(the_median_is_0_and_what_is_no_probability_has_no_quantile) {
    for (int df = 1; df <= 200; df++) ck_assert_double_eq(la_t_quantile(0.5, df), 0);
    const double none[] = {0, 1, -0.1, 1.1, NAN};
    for (int i = 0; i < COUNT(none); i++) ck_assert(isnan(la_t_quantile(none[i], 3)));
    ck_assert(isnan(la_t_quantile(0.9, 0)));
}
END_TEST

/* --- samples --- */

START_TEST(mean_deviation_and_interval) {
    const double few[] = {1, 2, 3, 4};
    la_stats     s = la_stats_of(4, few);
    ck_assert_int_eq(s.n, 4);
    is(s.mean, 2.5, 0);
    is(s.sd, sqrt(5. / 3), 1e-15);                          /* 1.2909944487 */
    is(s.half, 3.18244630528371 * sqrt(5. / 3) / 2, 1e-13); /* t(.975, 3) */
    const double x[] = {1.902, 1.934, 1.968, 2.034, 2.486};
    s = la_stats_of(5, x);
    is(s.mean, 2.0648, 1e-15);
    is(s.sd, 0.240489500810327, 1e-14);   /* numpy.std(x, ddof=1) */
    is(s.half, 0.298607155102178, 1e-14); /* scipy.stats.t.interval(.95, 4, mean, sem(x)) */
}
END_TEST

START_TEST(missing_numbers_are_left_out_and_too_few_have_no_interval) {
    const double x[] = {NAN, 1, 2, NAN, 3, 4};
    la_stats     s = la_stats_of(6, x), plain = la_stats_of(4, (const double[]){1, 2, 3, 4});
    ck_assert_int_eq(s.n, 4);
    is(s.mean, plain.mean, 0);
    is(s.sd, plain.sd, 0);
    is(s.half, plain.half, 0);
    s = la_stats_of(2, x);
    ck_assert_int_eq(s.n, 1);
    is(s.mean, 1, 0);
    ck_assert(isnan(s.sd) && isnan(s.half));
    s = la_stats_of(1, x);
    ck_assert_int_eq(s.n, 0);
    ck_assert(isnan(s.mean) && isnan(s.sd) && isnan(s.half));
    ck_assert_int_eq(la_stats_of(0, NULL).n, 0);
}
END_TEST

START_TEST(paired_differences_are_those_of_ttest_rel) {
    const double a[] = {1.904, 1.895, 1.907, 1.911, 1.899};
    const double b[] = {1.964, 1.976, 1.965, 1.959, 1.981};
    la_paired    r = la_paired_of(5, a, b); /* scipy.stats.ttest_rel(b, a) */
    is(r.t, 9.78283200025338, 1e-12);       /* a difference of .06 has lost two digits */
    is(r.p, 0.000611828909297023, 1e-11);
    is(r.d.mean, 0.0658, 1e-13);           /* (b - a).mean() */
    is(r.d.sd, 0.0150399468084166, 1e-12); /* (b - a).std(ddof=1) */
    ck_assert(r.distinguishable);
    ck_assert_int_eq(r.d.n, 5);
    la_paired back = la_paired_of(5, b, a);
    is(back.t, -r.t, 0);
    is(back.p, r.p, 0);
    ck_assert(back.distinguishable);
    const double near[] = {1.910, 1.890, 1.915, 1.909, 1.902};
    r = la_paired_of(5, a, near); /* scipy.stats.ttest_rel(near, a) */
    is(r.t, 0.823386969592595, 1e-12);
    is(r.p, 0.456546244338796, 1e-12);
    ck_assert(!r.distinguishable);
    double far[40], zero[40]; /* ttest_rel(far, zero) on these is (882.174..., 1.787...e-85) */
    for (int i = 0; i < 40; i++) {
        zero[i] = .01 * i;
        far[i] = zero[i] + 1 + .01 * cos(i);
    }
    r = la_paired_of(40, zero, far);
    is(r.t, 882.174286815078, 1e-12);
    is(r.p, 1.787921789100e-85, 1e-10);
}
END_TEST

/* The interval covers 0 exactly if p > .05: the two come from different functions. */
START_TEST(distinguishable_is_p_below_a_twentieth) {
    int yes = 0;
    for (uint32_t i = 0; i < 400; i++) {
        double a[8], b[8];
        int    n = 2 + (int)(i % 7);
        for (int j = 0; j < n; j++) {
            a[j] = test_uniform(2 * i, j);
            b[j] = a[j] + test_uniform(2 * i + 1, j) + 0.004 * i;
        }
        la_paired r = la_paired_of(n, a, b);
        ck_assert_int_eq(r.distinguishable, r.p < 0.05);
        yes += r.distinguishable;
    }
    ck_assert_int_gt(yes, 100);
    ck_assert_int_lt(yes, 300);
}
END_TEST

START_TEST(pairs_that_lack_one_are_left_out_and_equal_differences_are_a_point) {
    const double a[] = {1, NAN, 2, 3, 5}, b[] = {2, 7, 4, NAN, 8};
    la_paired    r = la_paired_of(5, a, b); /* 1, 2, 3 */
    ck_assert_int_eq(r.d.n, 3);
    is(r.d.mean, 2, 0);
    is(r.d.sd, 1, 0);
    is(r.t, 2 * sqrt(3), 1e-15);
    is(r.p, 1 - sqrt(12. / 14), 1e-14); /* P(|T| <= t) = t / sqrt(2 + t^2) for df 2 */
    r = la_paired_of(2, a, b);
    ck_assert(r.d.n == 1 && r.d.mean == 1 && isnan(r.t) && isnan(r.p) && !r.distinguishable);
    r = la_paired_of(0, a, b);
    ck_assert(r.d.n == 0 && isnan(r.d.mean) && isnan(r.p) && !r.distinguishable);
    const double x[] = {1, 2, 3}, y[] = {1.5, 2.5, 3.5};
    r = la_paired_of(3, x, x);
    ck_assert(r.d.mean == 0 && r.d.sd == 0 && r.t == 0 && r.p == 1 && !r.distinguishable);
    r = la_paired_of(3, x, y);
    ck_assert(r.d.mean == 0.5 && r.d.half == 0 && r.t == INFINITY && r.p == 0 && r.distinguishable);
    ck_assert(la_paired_of(3, y, x).t == -INFINITY);
}
END_TEST

/* --- lines and curves --- */

START_TEST(a_slope_is_that_of_linregress) {
    const double x[] = {NAN, 32, 64, 100, 128, 256, 0, 512, 7};
    const double y[] = {1, .11, .31, NAN, .92, 3.3, 5, 12.9, -1};
    la_slope     s = la_slope_of(9, x, y); /* scipy.stats.linregress(log(x), log(y)), five points */
    ck_assert_int_eq(s.n, 5);
    is(s.slope, 1.71595733672056, 1e-14);
    is(s.intercept, -8.26801487412138, 1e-14);
    is(s.r2, 0.996350265343503, 1e-14);
    is(s.error, 0.0599612232128573, 1e-13);
}
END_TEST

START_TEST(powers_have_their_slope_and_too_few_points_none) {
    const double x[] = {2, 4, 16, 256}, y[] = {3 * 4, 3 * 16, 3 * 256, 3 * 65536.};
    la_slope     s = la_slope_of(4, x, y); /* 3 x^2 */
    is(s.slope, 2, 1e-14);
    is(s.intercept, log(3), 1e-13);
    is(s.r2, 1, 1e-14);
    ck_assert(s.error >= 0 && s.error < 1e-14);
    s = la_slope_of(2, x, y);
    is(s.slope, 2, 1e-14);
    ck_assert(isnan(s.error));
    s = la_slope_of(1, x, y);
    ck_assert(s.n == 1 && isnan(s.slope) && isnan(s.intercept) && isnan(s.r2) && isnan(s.error));
    s = la_slope_of(3, (const double[]){2, 2, 2}, y);
    ck_assert(isnan(s.slope) && isnan(s.intercept));
    s = la_slope_of(3, x, (const double[]){5, 5, 5});
    ck_assert(s.slope == 0 && isnan(s.r2) && s.error == 0);
}
END_TEST

START_TEST(a_crossing_lies_between_two_lengths_on_logarithmic_scales) {
    const double x[] = {32, 64, 128, 256, 512};
    double       a[5], b[5];
    for (int i = 0; i < 5; i++) { /* a = 100 x, b = x^2: a <= b from x = 100 */
        a[i] = 100 * x[i];
        b[i] = x[i] * x[i];
    }
    is(la_crossing(5, x, a, b), 100, 1e-14);
    is(la_crossing(5, x, b, a), INFINITY, 0);
    is(la_crossing(3, x + 2, a + 2, b + 2), 128, 0); /* at each of them */
    a[2] = NAN;                                      /* the line from 64 to 256 is the same */
    is(la_crossing(5, x, a, b), 100, 1e-14);
    a[4] = NAN;
    is(la_crossing(5, x, a, b), 100, 1e-14);
    a[3] = NAN;
    is(la_crossing(5, x, a, b), INFINITY, 0);
    a[0] = a[1] = NAN;
    ck_assert(isnan(la_crossing(5, x, a, b)));
    ck_assert(isnan(la_crossing(0, x, a, b)));
}
END_TEST

START_TEST(an_early_lead_that_is_lost_again_does_not_count) {
    const double x[] = {1, 2, 4, 8, 16}, b[] = {1, 1, 1, 1, 1};
    is(la_crossing(5, x, (const double[]){.5, 2, .5, 2, .5}, b), sqrt(8. * 16), 1e-15);
    is(la_crossing(5, x, (const double[]){.5, .5, .5, .5, 2}, b), INFINITY, 0);
    is(la_crossing(5, x, (const double[]){2, 1, .5, 1, 1}, b), 2, 0); /* equal is at or below */
    is(la_crossing(5, x, b, b), 1, 0);
}
END_TEST

START_TEST(steps_to_a_target_lie_on_the_line_between_two_evaluations) {
    const double step[] = {0, 100, 200, 300, 400}, loss[] = {4, 3, NAN, 1, 2};
    is(la_steps_to(5, step, loss, 3.25, LA_AT_MOST), 75, 1e-15);
    is(la_steps_to(5, step, loss, 3, LA_AT_MOST), 100, 1e-15);
    is(la_steps_to(5, step, loss, 1.5, LA_AT_MOST), 250, 1e-15);
    is(la_steps_to(5, step, loss, 5, LA_AT_MOST), 0, 0);
    is(la_steps_to(5, step, loss, 0.9, LA_AT_MOST), NAN, 0);
    is(la_steps_to(0, step, loss, 9, LA_AT_MOST), NAN, 0);
    const double accuracy[] = {NAN, .2, .4, 1, .5};
    is(la_steps_to(5, step, accuracy, .1, LA_AT_LEAST), 100, 0);
    is(la_steps_to(5, step, accuracy, .7, LA_AT_LEAST), 250, 1e-14);
    is(la_steps_to(5, step, accuracy, 1, LA_AT_LEAST), 300, 1e-15);
    is(la_steps_to(3, step, accuracy, .7, LA_AT_LEAST), NAN, 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("statistics");
    TCase *student = add_case(s, "Student's t"), *sample = add_case(s, "samples"),
          *curve = add_case(s, "curves");
    tcase_add_test(student, quantiles_are_those_of_the_incomplete_beta_function);
    tcase_add_test(student, a_quantile_leaves_its_share_of_the_density_for_df_1_to_200);
    tcase_add_test(student, quantiles_of_1_and_2_degrees_are_closed_forms_far_out_too);
    tcase_add_test(student, the_median_is_0_and_what_is_no_probability_has_no_quantile);
    tcase_add_test(sample, mean_deviation_and_interval);
    tcase_add_test(sample, missing_numbers_are_left_out_and_too_few_have_no_interval);
    tcase_add_test(sample, paired_differences_are_those_of_ttest_rel);
    tcase_add_test(sample, distinguishable_is_p_below_a_twentieth);
    tcase_add_test(sample, pairs_that_lack_one_are_left_out_and_equal_differences_are_a_point);
    tcase_add_test(curve, a_slope_is_that_of_linregress);
    tcase_add_test(curve, powers_have_their_slope_and_too_few_points_none);
    tcase_add_test(curve, a_crossing_lies_between_two_lengths_on_logarithmic_scales);
    tcase_add_test(curve, an_early_lead_that_is_lost_again_does_not_count);
    tcase_add_test(curve, steps_to_a_target_lie_on_the_line_between_two_evaluations);
    return run_suite(s);
}
