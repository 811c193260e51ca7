/* definition.c -- variants as their papers write them: all weights of a text, one by one and in
 * double.  Slow, and the oracle for what is in autograd/ops/. */
#include <math.h>
#include <stdlib.h>

#include "autograd/attention/kernel_map.h"
#include "autograd/ops/sparse_softmax.h"

/* The rows x (T,D) behind what stands before a map: y = scale W x^ (+ b) - square |x|^2, x^ as
 * head_linear has it; NULL: no memory. */
static double *project(const la_attn_head *x, const double *from, const la_projection *p,
                       const double *W, int64_t D) {
    la_head_linear_cfg how = {.scale = 1, .bias = p->bias};
    const int64_t      m = p->width(x->cfg, D), cols = D + p->bias;
    double            *y = calloc((size_t)(x->T * m) + 1, sizeof *y);
    if (p->scales) p->scales(D, &how);
    for (int64_t t = 0; y && t < x->T; t++) {
        double square = 0;
        for (int64_t d = 0; d < D; d++) square += from[t * D + d] * from[t * D + d];
        double scale = how.scale * (!how.unit ? 1 : square > 0 ? 1 / sqrt(square + 1e-12) : 0);
        for (int64_t i = 0; i < m; i++) {
            for (int64_t d = 0; d < D; d++)
                y[t * m + i] += scale * W[i * cols + d] * from[t * D + d];
            if (p->bias) y[t * m + i] += W[i * cols + D];
            y[t * m + i] -= how.square * square;
        }
    }
    return y;
}

/* phi of all rows, (T,m), or log phi; NULL: no memory. */
static double *map_rows(const la_attn_head *x, int which, const double *from, int64_t *m) {
    const la_map        *map = la_attn_map(x->cfg, which);
    const la_projection *p = la_attn_projection(x->cfg, which);
    const double        *W = which && x->weight[1] ? x->weight[1] : x->weight[0];
    const int64_t        D = p ? p->width(x->cfg, x->D) : x->D;
    double              *rows = p ? project(x, from, p, W, x->D) : NULL, *y = NULL;
    *m = map->width(x->cfg, D);
    if (rows || !p) y = calloc((size_t)(x->T * *m) + 1, sizeof *y);
    for (int64_t t = 0; y && t < x->T; t++)
        map->definition(x->cfg, D, t, (rows ? rows : from) + t * D, y + t * *m);
    free(rows);
    return y;
}

void la_softmax_definition(int64_t n, double *x) {
    double top = -HUGE_VAL, total = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, x[i]);
    for (int64_t i = 0; i < n; i++) total += x[i] = top > -HUGE_VAL ? exp(x[i] - top) : 0;
    for (int64_t i = 0; i < n && total > 0; i++) x[i] /= total;
}

/* log sum_f exp(a_f + b_f), the logarithm of 0 being -inf */
static double log_dot(int64_t m, const double *a, const double *b) {
    double top = -HUGE_VAL, total = 0;
    for (int64_t f = 0; f < m; f++) top = fmax(top, a[f] + b[f]);
    for (int64_t f = 0; f < m && top > -HUGE_VAL; f++) total += exp(a[f] + b[f] - top);
    return top + log(total);
}

static double dot(int64_t m, const double *a, const double *b) {
    double total = 0;
    for (int64_t f = 0; f < m; f++) total += a[f] * b[f];
    return total;
}

/* One row from the features a of its query and those of all keys, b. */
static void weigh(const la_attn_head *x, int64_t t, int64_t m, const double *a, const double *b,
                  double *row) {
    const double  floor = la_attn_floor(x->cfg);
    double        total = x->cfg->eps;
    const int64_t seen = x->cfg->bidirectional ? x->T : t + 1;
    for (int64_t s = 0; s < seen; s++)
        total += row[s] = dot(m, a, b + s * m) * pow(x->gamma, (double)(t - s));
    if (floor > 0) total = fmax(total, floor);
    for (int64_t s = 0; s < seen; s++) row[s] = total != 0 ? row[s] / total : 0;
}

/* The same from logarithms: a common factor cancels, and there is no eps. */
static void weigh_logs(const la_attn_head *x, int64_t t, int64_t m, const double *a,
                       const double *b, double *row) {
    const int64_t seen = x->cfg->bidirectional ? x->T : t + 1;
    for (int64_t s = 0; s < seen; s++) row[s] = log_dot(m, a, b + s * m);
    la_softmax_definition(seen, row);
}

/* A query whose map gives logarithms beside keys whose map does not has the softmax of them. */
la_status la_kernel_definition(const la_attn_head *x, double *w) {
    const int log_q = la_attn_map(x->cfg, 0)->kind == LA_MAP_LOG;
    const int log_k = la_attn_map(x->cfg, 1)->kind == LA_MAP_LOG;
    int64_t   m;
    double   *a = map_rows(x, 0, x->q, &m), *b = map_rows(x, 1, x->k, &m);
    for (int64_t t = 0; a && b && t < x->T; t++) {
        double *row = a + t * m;
        for (int64_t f = 0; f < m && log_k && !log_q; f++) row[f] = log(row[f]);
        if (log_q && !log_k) la_softmax_definition(m, row);
        (log_k ? weigh_logs : weigh)(x, t, m, row, b, w + t * x->T);
    }
    la_status s = a && b ? LA_OK : la_fail(LA_NOMEM, "no memory for the features of a text");
    free(a);
    free(b);
    return s;
}

la_status la_sparse_definition(const la_attn_head *x, double *w,
                               int sees(const la_attn_cfg *c, int64_t t, int64_t j)) {
    for (int64_t t = 0; t < x->T; t++) {
        double *row = w + t * x->T;
        for (int64_t j = 0; j < x->T; j++)
            row[j] = sees(x->cfg, t, j)
                         ? dot(x->D, x->q + t * x->D, x->k + j * x->D) / sqrt((double)x->D)
                         : -HUGE_VAL;
        la_softmax_definition(x->T, row);
    }
    return LA_OK;
}
