/* chart.h -- a chart of report.html: lines and points in memory, drawn by gnuplot.
 *
 *     la_chart *c = la_chart_begin("steps", "nats a token");
 *     la_chart_series(c, LA_CHART_LINE, variant);
 *     la_chart_point(c, x, y);
 *     la_chart_end(p, c, "Validation loss against steps.");
 *
 * Memory that is not there is told by la_chart_end. */
#ifndef LA_PAGE_CHART_H
#define LA_PAGE_CHART_H
#include "train/page/page.h"

typedef enum la_chart_style {
    LA_CHART_THIN,  /* a pale line; does not widen the chart's range                          */
    LA_CHART_EARLY, /* a thick one that does not either                                       */
    LA_CHART_LINE,  /* a thick one                                                         */
    LA_CHART_BOTH,  /* a line with points                                                  */
    LA_CHART_DOTS,  /* small pale points                                                   */
    LA_CHART_POINT, /* a point with its interval, if there is one                           */
    LA_CHART_RING,  /* a large empty circle                                                */
    LA_CHART_CROSS, /* at the top of the chart, y does not matter: something that is not    */
} la_chart_style;

typedef struct la_chart la_chart;

/* The words at the axes, units included; y_axis "": rows with names instead, see la_chart_row. */
la_chart *la_chart_begin(const char *x_axis, const char *y_axis);
void la_chart_log(la_chart *c, int x, int y); /* logarithmic axes: only what is above 0 shows */
void la_chart_y(la_chart *c, double from, double to); /* the range of y, whatever comes     */
void la_chart_whole(la_chart *c);                     /* x counts: its ticks are whole numbers */
void la_chart_share(la_chart *c);                     /* of shares: intervals end at 0 and 1 */

void la_chart_series(la_chart *c, la_chart_style style, int variant);
void la_chart_point(la_chart *c, double x, double y); /* not finite: the line has a gap          */
/* The same, with the half width of an interval along x (in a chart with rows) or y; NAN: none. */
void la_chart_interval(la_chart *c, double x, double y, double half);

/* A thin line across the chart, with its name beside it. */
void   la_chart_level(la_chart *c, double y, const char *name);
/* A thin line from top to bottom. */
void   la_chart_upright(la_chart *c, double x);
/* The next row of a chart with rows, below the others; returns its y. */
double la_chart_row(la_chart *c, const char *name);

/* Draws it with a caption (a sentence), and frees it.  A chart without a point, or with none that
 * gives it a range, is left out.  Failures are kept in p->status. */
void la_chart_end(la_page *p, la_chart *c, const char *caption);

/* What is drawn in between stands in a grid below the legend of the variants that have an entry in
 * `list` about the problem (NULL: no legend).  Without a chart there is neither. */
void la_charts_begin(la_page *p);
void la_charts_end(la_page *p, const json_t *list, const char *problem);

/* --- gnuplot.c --- */
/* Runs gnuplot on a script; *svg is what it wrote, to free().  LA_NAME: there is no gnuplot.
 * LA_IO: it failed; the sentence has its last line. */
la_status la_gnuplot(const char *script, size_t n, char **svg, size_t *svg_n);
#endif
