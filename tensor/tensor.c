/* tensor.c -- shapes, and two sums over flat arrays. */
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>

la_shape la_shape0(void) { return (la_shape){0}; }
la_shape la_shape1(int64_t a) { return (la_shape){1, {a}}; }
la_shape la_shape2(int64_t a, int64_t b) { return (la_shape){2, {a, b}}; }
la_shape la_shape3(int64_t a, int64_t b, int64_t c) { return (la_shape){3, {a, b, c}}; }
la_shape la_shape4(int64_t a, int64_t b, int64_t c, int64_t d) {
    return (la_shape){4, {a, b, c, d}};
}

int64_t la_len(la_shape s) {
    int64_t n = 1;
    for (int i = 0; i < s.n; i++) n *= s.d[i];
    return n;
}

int64_t la_last(la_shape s) { return s.n ? s.d[s.n - 1] : 1; }

int64_t la_rows(la_shape s) {
    int64_t n = 1;
    for (int i = 0; i < s.n - 1; i++) n *= s.d[i];
    return n;
}

int la_shape_eq(la_shape a, la_shape b) {
    if (a.n != b.n) return 0;
    for (int i = 0; i < a.n; i++)
        if (a.d[i] != b.d[i]) return 0;
    return 1;
}

int la_shape_ok(la_shape s) {
    const int64_t most = INT64_C(1) << 46;
    int64_t       n = 1;
    if (s.n < 0 || s.n > LA_MAX_DIM) return 0;
    for (int i = 0; i < s.n; i++) {
        if (s.d[i] <= 0 || s.d[i] > most / n) return 0;
        n *= s.d[i];
    }
    return 1;
}

const char *la_shape_text(la_shape s, char buf[LA_SHAPE_TEXT]) {
    int at = snprintf(buf, LA_SHAPE_TEXT, "(");
    for (int i = 0; i < s.n; i++)
        at += snprintf(buf + at, LA_SHAPE_TEXT - (size_t)at, "%s%lld", i ? "," : "",
                       (long long)s.d[i]);
    snprintf(buf + at, LA_SHAPE_TEXT - (size_t)at, ")");
    return buf;
}

/* Eight partial sums: the compiler may vectorise them, and the order is fixed. */
double la_norm2(size_t n, const la_real *x) {
    double part[8] = {0}, sum = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) part[j] += (double)x[i + (size_t)j] * (double)x[i + (size_t)j];
    for (; i < n; i++) sum += (double)x[i] * (double)x[i];
    for (int j = 0; j < 8; j++) sum += part[j];
    return sum;
}

int64_t la_find_nonfinite(size_t n, const la_real *x) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return (int64_t)i;
    return -1;
}
