/* statistics.h -- what a few numbers say: intervals, paired differences, slopes, crossings.
 *
 * Pure functions over arrays of n doubles, n >= 0.  NAN is a number that is missing: it is left
 * out, and of a pair both are.  What cannot be computed from the rest is NAN.  An infinite number
 * is not missing: a mean with one is infinite and has no interval.  Nothing fails. */
#ifndef LA_STATISTICS_H
#define LA_STATISTICS_H
#include <stdbool.h>
#include <stdint.h>

/* --- Student's t --- */

/* t with P(T <= t) = p, for df >= 1 degrees of freedom and 0 < p < 1, to about 1e-13 of itself
 * for the double that p is (beside 1 doubles are 1e-16 apart).  NAN outside of these.  The work
 * grows with df. */
double la_t_quantile(double p, int64_t df);

/* --- one sample --- */
typedef struct la_stats {
    int64_t n;    /* numbers that are not missing                                             */
    double  mean; /* n < 1: NAN                                                               */
    double  sd;   /* sqrt(sum (x - mean)^2 / (n - 1)); n < 2: NAN                             */
    double  half; /* of the 95 % interval mean +- half: t(.975, n - 1) sd / sqrt n; n < 2: NAN */
} la_stats;
la_stats la_stats_of(int64_t n, const double *x);

/* --- two samples on the same seeds: the differences d = b - a --- */
typedef struct la_paired {
    la_stats d;
    double   t;               /* mean / (sd / sqrt n); n < 2: NAN                             */
    double   p;               /* two-sided, df n - 1: P(|T| >= |t|) if the true mean were 0   */
    bool     distinguishable; /* the 95 % interval of the mean does not cover 0; n < 2: false */
} la_paired;
/* Differences that are all equal (sd 0) make an interval of one point: if it is 0, t = 0, p = 1 and
 * they are not distinguishable; if not, t is infinite with its sign, p = 0 and they are. */
la_paired la_paired_of(int64_t n, const double *a, const double *b);

/* --- y = e^intercept x^slope: least squares of log y over log x --- */
typedef struct la_slope {
    int64_t n;                /* points used: x and y finite and above 0                        */
    double  slope, intercept; /* n < 2, or all x equal: NAN                                     */
    double  r2;    /* part of the variance of log y that the line explains; y constant: NAN */
    double  error; /* standard error of the slope, n - 2 degrees of freedom; n < 3: NAN */
} la_slope;
la_slope la_slope_of(int64_t n, const double *x, const double *y);

/* --- curves --- */

/* The x from which curve a is at or below b at every longer x that was measured; x increases, a and
 * b are above 0.  Between two points log(a/b) is a straight line over log x.  x[0]: it is
 * everywhere (from x[0] or less); INFINITY: it is not at the last.  Points where a or b is missing
 * are left out; NAN: no point is left. */
double la_crossing(int64_t n, const double *x, const double *a, const double *b);

typedef enum la_goal { LA_AT_MOST, LA_AT_LEAST } la_goal; /* for losses; for accuracies */

/* The first step at which value reaches target, between two evaluations by a straight line; the
 * first evaluation's own step if it has reached it.  NAN: never.  Values that are not finite count
 * as missing. */
double la_steps_to(int64_t n, const double *step, const double *value, double target, la_goal goal);
#endif
