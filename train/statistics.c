/* statistics.c -- Student's t, intervals, paired differences, slopes and crossings. */
#include "train/statistics.h"

#include <math.h>
#include <stddef.h>

/* --- Student's t --- */

/* P(T > t) for t >= 0 and df = v.  With tan a = t / sqrt v, P(|T| <= t) is (Abramowitz & Stegun,
 * 26.7.3 and 26.7.4)
 *
 *   v even   sin a {1 + 1/2 cos^2 a + 1.3/(2.4) cos^4 a + ...}                    v/2 terms
 *   v odd    2/pi {a + sin a [cos a + 2/3 cos^3 a + 2.4/(3.5) cos^5 a + ...]}     (v-1)/2 terms
 *
 * where term k+1 is term k times cos^2 a (2k+1)/(2k+2), for odd v (2k+2)/(2k+3).  Without an end
 * both series sum up to 1, so P(|T| > t) is the rest of them: from t = 1 on that is what is summed,
 * since 1 - P would lose the digits of a small tail. */
static double tail(double t, int64_t df) {
    if (isinf(t)) return 0;
    double v = (double)df, odd = (double)(df % 2);
    double sin = t / hypot(t, sqrt(v)), cos = sqrt(v) / hypot(t, sqrt(v)), cos2 = cos * cos;
    double term = odd > 0 ? cos : 1, head = 0, rest = 0, scale = odd > 0 ? M_2_PI : 1;
    double k = 0;
    for (; k < (double)(df / 2); k++) {
        head += term;
        term *= cos2 * (2 * k + 1 + odd) / (2 * k + 2 + odd);
    }
    if (t < 1) return (1 - scale * (odd * atan2(t, sqrt(v)) + sin * head)) / 2;
    for (; term > 1e-17 * sin * sin * rest; k++) { /* what is left out is below term / sin^2 a */
        rest += term;
        term *= cos2 * (2 * k + 1 + odd) / (2 * k + 2 + odd);
    }
    return scale * sin * rest / 2;
}

/* -d tail / dt = Gamma((v+1)/2) / (Gamma(v/2) sqrt(v pi)) cos^(v+1) a */
static double density(double t, int64_t df) {
    double v = (double)df, cos = sqrt(v) / hypot(t, sqrt(v));
    return exp(lgamma((v + 1) / 2) - lgamma(v / 2) + (v + 1) * log(cos)) / sqrt(v * M_PI);
}

/* Newton's steps for tail(t) = q, and halves where one would leave [low, high]. */
static double tail_inverse(double q, int64_t df) {
    enum { MOST = 200 };
    double low = 0, high = 1;
    while (tail(high, df) > q) low = high, high *= 2;
    double t = low;
    for (int i = 0; i < MOST; i++) {
        double last = t, above = tail(t, df) - q;
        if (above > 0)
            low = t;
        else
            high = t;
        t += above / density(t, df);
        if (!(t >= low && t <= high)) t = (low + high) / 2;
        if (fabs(t - last) <= 1e-15 * t) break;
    }
    return t;
}

double la_t_quantile(double p, int64_t df) {
    if (!(p > 0 && p < 1) || df < 1) return NAN;
    return p < 0.5 ? -tail_inverse(p, df) : tail_inverse(1 - p, df);
}

/* --- samples --- */

/* Element i of b, or of the differences b - a. */
static double element(const double *a, const double *b, int64_t i) {
    return a ? b[i] - a[i] : b[i];
}

static la_stats stats_of(int64_t n, const double *a, const double *b) {
    la_stats s = {0, NAN, NAN, NAN};
    double   sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = element(a, b, i);
        if (isnan(x)) continue;
        sum += x;
        s.n++;
    }
    if (s.n < 1) return s;
    s.mean = sum / (double)s.n;
    if (s.n < 2) return s;
    for (int64_t i = 0; i < n; i++) {
        double e = element(a, b, i) - s.mean;
        if (!isnan(e)) squares += e * e;
    }
    s.sd = sqrt(squares / (double)(s.n - 1));
    s.half = la_t_quantile(0.975, s.n - 1) * s.sd / sqrt((double)s.n);
    return s;
}

la_stats la_stats_of(int64_t n, const double *x) { return stats_of(n, NULL, x); }

la_paired la_paired_of(int64_t n, const double *a, const double *b) {
    la_paired r = {stats_of(n, a, b), NAN, NAN, false};
    if (r.d.n < 2) return r;
    r.t = r.d.mean == 0 ? 0 : r.d.mean / (r.d.sd / sqrt((double)r.d.n)); /* sd 0: infinite */
    r.p = 2 * tail(fabs(r.t), r.d.n - 1);
    r.distinguishable = fabs(r.d.mean) > r.d.half;
    return r;
}

/* --- lines and curves --- */

static bool has_log(double x) { return isfinite(x) && x > 0; }

/* With X = log x - mean, Y = log y - mean:  slope = sum XY / sum XX,
 * r2 = (sum XY)^2 / (sum XX sum YY),  error^2 = (sum YY - slope sum XY) / (n - 2) / sum XX;
 * its numerator is summed as residuals, since near a straight line the difference has no digits. */
la_slope la_slope_of(int64_t n, const double *x, const double *y) {
    la_slope s = {0, NAN, NAN, NAN, NAN};
    double   X = 0, Y = 0, XX = 0, XY = 0, YY = 0, residuals = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!has_log(x[i]) || !has_log(y[i])) continue;
        X += log(x[i]);
        Y += log(y[i]);
        s.n++;
    }
    X /= (double)s.n;
    Y /= (double)s.n;
    for (int64_t i = 0; i < n; i++) {
        if (!has_log(x[i]) || !has_log(y[i])) continue;
        double dx = log(x[i]) - X, dy = log(y[i]) - Y;
        XX += dx * dx;
        XY += dx * dy;
        YY += dy * dy;
    }
    if (s.n < 2 || XX == 0) return s;
    s.slope = XY / XX;
    s.intercept = Y - s.slope * X;
    if (YY > 0) s.r2 = XY / XX * XY / YY;
    if (s.n < 3) return s;
    for (int64_t i = 0; i < n; i++) {
        if (!has_log(x[i]) || !has_log(y[i])) continue;
        double r = log(y[i]) - s.intercept - s.slope * log(x[i]);
        residuals += r * r;
    }
    s.error = sqrt(residuals / (double)(s.n - 2) / XX);
    return s;
}

/* Backwards from the longest, until a is above b. */
double la_crossing(int64_t n, const double *x, const double *a, const double *b) {
    double from = NAN, behind = NAN; /* x of the point behind, and log(a/b) there */
    for (int64_t i = n - 1; i >= 0; i--) {
        if (!has_log(a[i]) || !has_log(b[i])) continue;
        double ratio = log(a[i] / b[i]);
        if (ratio > 0 && isnan(from)) return INFINITY;
        if (ratio > 0) return x[i] * pow(from / x[i], ratio / (ratio - behind));
        from = x[i];
        behind = ratio;
    }
    return from;
}

double la_steps_to(int64_t n, const double *step, const double *value, double target,
                   la_goal goal) {
    int64_t before = -1; /* the evaluation before */
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(value[i])) continue;
        if (goal == LA_AT_MOST ? value[i] <= target : value[i] >= target) {
            if (before < 0) return step[i];
            double part = (target - value[before]) / (value[i] - value[before]);
            return step[before] + part * (step[i] - step[before]);
        }
        before = i;
    }
    return NAN;
}
