/* chart_impl.h -- the inside of a chart, for chart.c and script.c alone. */
#ifndef LA_PAGE_CHART_IMPL_H
#define LA_PAGE_CHART_IMPL_H
#include "train/page/chart.h"

typedef struct la_chart_xy {
    double x, y, half; /* x NAN: a gap; half NAN: no interval                              */
} la_chart_xy;

typedef struct la_chart_line {
    la_chart_style style;
    int            variant;
    la_chart_xy   *points; /* n                                                             */
    size_t         n;
} la_chart_line;

typedef struct la_chart_axis {
    char   words[64];
    int    log, fixed, whole;
    double from, to;
} la_chart_axis;

typedef struct la_chart_mark {
    double at;
    int    upright;
    char   name[48];
} la_chart_mark;

typedef struct la_chart_name {
    char name[160];
} la_chart_name;

struct la_chart {
    la_chart_axis  x, y;
    int            by_rows; /* y counts down from -1: rows with names                           */
    int            share;   /* intervals end at 0 and 1                                      */
    la_chart_line *series;
    la_chart_mark *marks;
    la_chart_name *rows;
    size_t         n_series, n_marks, n_rows, n_points;
    int            failed; /* no memory                                                     */
};

/* The ends of a point's interval; without one, the point itself. */
void la_chart_ends(const la_chart *c, const la_chart_xy *p, double *low, double *high);

/* gnuplot's commands and data, once the ranges are settled. */
void la_chart_script(const la_chart *c, FILE *out);
#endif
