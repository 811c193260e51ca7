/* chart.c -- what a chart holds, its range, and the figure in the page; script.c writes
 * gnuplot's commands. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/page/chart_impl.h"
#include "train/text_stream.h"

/* One more of an array that doubles; NULL: no memory. */
static void *grow(void *array, size_t n, size_t size) {
    if (n & (n - 1) || (n && n < 8)) return array;
    if (n == 0) return realloc(array, 8 * size);
    return realloc(array, 2 * n * size);
}

#define MORE(c, array, n)                                                                          \
    do {                                                                                           \
        void *more_ = grow(array, n, sizeof *(array));                                             \
        if (!more_) {                                                                              \
            (c)->failed = 1;                                                                       \
            return;                                                                                \
        }                                                                                          \
        (array) = more_;                                                                           \
    } while (0)

la_chart *la_chart_begin(const char *x_axis, const char *y_axis) {
    la_chart *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    snprintf(c->x.words, sizeof c->x.words, "%s", x_axis);
    snprintf(c->y.words, sizeof c->y.words, "%s", y_axis);
    c->by_rows = !*y_axis;
    c->x.from = c->y.from = INFINITY;
    c->x.to = c->y.to = -INFINITY;
    return c;
}

void la_chart_log(la_chart *c, int x, int y) {
    if (c) c->x.log = x, c->y.log = y;
}

void la_chart_y(la_chart *c, double from, double to) {
    if (c) c->y.from = from, c->y.to = to, c->y.fixed = 1;
}

void la_chart_whole(la_chart *c) {
    if (c) c->x.whole = 1;
}

void la_chart_share(la_chart *c) {
    if (c) c->share = 1;
}

void la_chart_ends(const la_chart *c, const la_chart_xy *p, double *low, double *high) {
    const double at = c->by_rows ? p->x : p->y, half = isfinite(p->half) ? p->half : 0;
    *low = c->share ? fmax(at - half, fmin(at, 0)) : at - half;
    *high = c->share ? fmin(at + half, fmax(at, 1)) : at + half;
}

static void add_series(la_chart *c, la_chart_style style, int variant) {
    MORE(c, c->series, c->n_series);
    c->series[c->n_series++] = (la_chart_line){.style = style, .variant = variant};
}

void la_chart_series(la_chart *c, la_chart_style style, int variant) {
    if (c) add_series(c, style, variant);
}

/* --- ranges --- */
static void widen(la_chart_axis *a, double x) {
    if (a->fixed || !isfinite(x) || (a->log && x <= 0)) return;
    a->from = fmin(a->from, x);
    a->to = fmax(a->to, x);
}

/* Further out no measure is, and the arithmetic of axes overflows. */
static int in_reach(const la_chart_axis *a, double x) {
    return fabs(x) < 1e100 && (!a->log || x > 1e-100);
}

static void add_point(la_chart *c, double x, double y, double half) {
    la_chart_line *s = &c->series[c->n_series - 1];
    const int      top = s->style == LA_CHART_CROSS;
    if (!in_reach(&c->x, x) || !(top || in_reach(&c->y, y))) x = y = NAN;
    if (!isfinite(x) && (s->n == 0 || !isfinite(s->points[s->n - 1].x))) return;
    MORE(c, s->points, s->n);
    s->points[s->n++] = (la_chart_xy){x, y, half};
    if (!isfinite(x)) return;
    widen(&c->x, x);
    if (top) return;
    c->n_points++;
    if (s->style == LA_CHART_THIN || s->style == LA_CHART_EARLY) return;
    widen(&c->y, y);
    if (!(half < 1e100)) return;
    double low, high;
    la_chart_ends(c, &s->points[s->n - 1], &low, &high);
    widen(c->by_rows ? &c->x : &c->y, low);
    widen(c->by_rows ? &c->x : &c->y, high);
}

void la_chart_interval(la_chart *c, double x, double y, double half) {
    if (c && !c->failed && c->n_series) add_point(c, x, y, half);
}

void la_chart_point(la_chart *c, double x, double y) { la_chart_interval(c, x, y, NAN); }

static void add_mark(la_chart *c, double at, const char *name, int upright) {
    if (!isfinite(at)) return;
    MORE(c, c->marks, c->n_marks);
    la_chart_mark *m = &c->marks[c->n_marks++];
    m->at = at;
    m->upright = upright;
    snprintf(m->name, sizeof m->name, "%s", name);
}

void la_chart_level(la_chart *c, double y, const char *name) {
    if (c && !c->failed) add_mark(c, y, name, 0);
}

void la_chart_upright(la_chart *c, double x) {
    if (c && !c->failed) add_mark(c, x, "", 1);
}

static void add_row(la_chart *c, const char *name) {
    MORE(c, c->rows, c->n_rows);
    snprintf(c->rows[c->n_rows++].name, sizeof c->rows->name, "%s", name);
}

double la_chart_row(la_chart *c, const char *name) {
    if (!c || c->failed) return NAN;
    add_row(c, name);
    return -(double)c->n_rows;
}

/* Some room at both ends; an axis that spans less than a factor of two need not be logarithmic. */
static void settle(la_chart_axis *a) {
    if (a->log && a->to < 2 * a->from) a->log = 0;
    if (a->fixed) return;
    if (a->log) {
        const double room = pow(a->to / a->from, .04);
        a->from /= room;
        a->to *= room;
        return;
    }
    double room = .04 * (a->to - a->from);
    if (room <= 0) room = a->to != 0 ? .05 * fabs(a->to) : .5;
    const int above = a->from >= 0; /* 0 is an end, where it is near */
    a->from -= room;
    a->to += room;
    if (above && a->from < .04 * a->to) a->from = 0;
}

/* --- the figure --- */
static la_status draw(la_page *p, la_chart *c, const char *caption) {
    char     *script = NULL, *svg = NULL;
    size_t    n = 0, svg_n = 0;
    FILE     *out = la_text_stream(&script, &n);
    la_status status = LA_OK;
    if (!out) return la_fail(LA_NOMEM, "no memory for a chart");
    la_chart_script(c, out);
    const int bad = ferror(out);
    if (fclose(out) != 0 || bad)
        status = la_fail(LA_NOMEM, "no memory for a chart's script");
    else
        status = la_gnuplot(script, n, &svg, &svg_n);
    if (status == LA_OK) {
        la_page_put(p, "<figure>");
        p->figures++;
        status = la_page_svg(p, svg, svg_n, caption);
        if (status == LA_DATA) { /* as with the other pictures: the page goes without it */
            la_page_put(p, "Left out: %s. ", la_error());
            status = LA_OK;
        }
        la_page_put(p, "<figcaption>%s</figcaption></figure>\n", caption);
    }
    free(script);
    free(svg);
    return status;
}

static void drop(la_chart *c) {
    for (size_t i = 0; i < c->n_series; i++) free(c->series[i].points);
    free(c->series);
    free(c->marks);
    free(c->rows);
    free(c);
}

void la_chart_end(la_page *p, la_chart *c, const char *caption) {
    const int shown = c && c->n_points > 0 && (c->by_rows || isfinite(c->y.from));
    if (!c || c->failed) {
        if (p->status == LA_OK) p->status = la_fail(LA_NOMEM, "no memory for a chart");
    } else if (shown && p->status == LA_OK && !p->no_gnuplot) {
        if (c->by_rows) la_chart_y(c, -(double)c->n_rows - .35, -.2);
        settle(&c->x);
        settle(&c->y);
        p->status = draw(p, c, caption);
    }
    if (c) drop(c);
}

/* --- a grid of charts --- */
void la_charts_begin(la_page *p) {
    FILE *grid = la_text_stream(&p->grid, &p->grid_n);
    if (!grid) {
        if (p->status == LA_OK) p->status = la_fail(LA_NOMEM, "no memory for charts");
        return;
    }
    p->around = p->out;
    p->out = grid;
    p->figures = 0;
}

void la_charts_end(la_page *p, const json_t *list, const char *problem) {
    if (!p->around) return;
    const int bad = ferror(p->out);
    if ((fclose(p->out) != 0 || bad) && p->status == LA_OK)
        p->status = la_fail(LA_NOMEM, "no memory for charts");
    p->out = p->around;
    p->around = NULL;
    if (p->figures && p->status == LA_OK) {
        if (list) la_page_legend(p, list, problem);
        fprintf(p->out, "<div class=\"charts\">\n%s</div>\n", p->grid);
    }
    free(p->grid);
    p->grid = NULL;
}
