/* script.c -- the commands with which gnuplot draws a chart.
 *
 * All sizes are in units of the drawing, WIDTH wide; names are written by `noenhanced` and in
 * single quotes, where nothing is special but the quote itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/utf8.h"
#include "train/page/chart_impl.h"

enum {
    WIDTH = 520,
    HEIGHT = 380,
    FONT = 14,
    SMALL = 12,
    ROW = 40, /* of a chart with rows: a name and its interval                       */
    ABOVE = 14,
    BELOW = 62, /* the axis, its numbers and words                                     */
    LETTERS = 66,
    RIGHT = 28, /* half of the last number                                               */
};

/* --- words --- */
static void put_quoted(FILE *out, const char *s) {
    int64_t left = (int64_t)strlen(s), shown = 0;
    putc('\'', out);
    while (left > 0 && shown < LETTERS) {
        uint32_t point = 0;
        int      n = la_utf8_decode(s, left, &point);
        if (!n) break;
        if (point == '\'') putc('\'', out);
        if (point < 0x20)
            putc(' ', out);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n;
        left -= n;
        shown++;
    }
    fputs(left > 0 ? "…'" : "'", out);
}

/* 1500, 20k, 3M, 0.05 */
static void put_tick(FILE *out, double x) {
    static const char *const unit[] = {"", "k", "M", "G", "T", "P", "E"};
    int                      i = 0;
    double                   y = x;
    if (fabs(x) >= 10000)
        for (; fabs(y) >= 1000 && i < 6; i++) y /= 1000;
    fprintf(out, "'%.6g%s' %.12g", fabs(y) < 1e-12 ? 0 : y, unit[i], x);
}

/* --- ticks --- */
static double nice_step(double span, int parts) { /* 1, 2 or 5 times a power of ten */
    const double least = span / parts, ten = pow(10, floor(log10(least)));
    return least <= ten ? ten : least <= 2 * ten ? 2 * ten : least <= 5 * ten ? 5 * ten : 10 * ten;
}

static void put_linear(FILE *out, const la_chart_axis *a) {
    const double nice = nice_step(a->to - a->from, 6), step = a->whole ? fmax(nice, 1) : nice;
    const double first = fmax(ceil(a->from / step - 1e-9), a->log ? 1 : -HUGE_VAL);
    /* i and not first is counted up: past 2^53 a number plus 1 is the same number */
    for (int i = 0; (first + i) * step <= a->to + 1e-9 * step; i++) {
        if (i) fputs(", ", out);
        put_tick(out, (first + i) * step);
    }
}

/* Whole powers of ten, or these in 3 or 6 parts.  -1: there would be fewer than three, and nothing
 * is written. */
static int put_log(FILE *out, const la_chart_axis *a, int parts) {
    static const double three[] = {1, 2, 5}, six[] = {1, 1.5, 2, 3, 5, 7};
    const double       *part = parts == 6 ? six : three;
    const double        decades = log10(a->to / a->from), first = floor(log10(a->from));
    const int           every = decades > 7 ? (int)ceil(decades / 6) : 1;
    const int           last = (int)ceil(decades) + 1;
    for (int write = 0; write < 2; write++) {
        int n = 0;
        for (int k = 0; k < (last + 1) * parts; k++) {
            const double x = part[k % parts] * pow(10, first + k / parts);
            if (x < a->from * (1 - 1e-9) || x > a->to * (1 + 1e-9) || k / parts % every) continue;
            if (n++ && write) fputs(", ", out);
            if (write) put_tick(out, x);
        }
        if (n < 3) return -1;
    }
    return 0;
}

static void put_axis(FILE *out, const la_chart_axis *a, char name) {
    fprintf(out, "set %crange [%.12g:%.12g]\n", name, a->from, a->to);
    if (a->log) fprintf(out, "set logscale %c\n", name);
    fprintf(out, "set %clabel ", name);
    put_quoted(out, a->words);
    fprintf(out, " offset %s\nset %ctics (", name == 'x' ? "0,.2" : "0,0", name);
    const int wide = a->to / a->from > 160; /* there, powers of ten are enough */
    if (!a->log ||
        ((!wide || put_log(out, a, 1) < 0) && put_log(out, a, 3) < 0 && put_log(out, a, 6) < 0))
        put_linear(out, a);
    fputs(") nomirror scale 0 textcolor rgb '#444444'\n", out);
}

/* Where a value is, from 0 at the bottom to 1 at the top. */
static double share(const la_chart_axis *a, double x) {
    if (a->log) return log(x / a->from) / log(a->to / a->from);
    return (x - a->from) / (a->to - a->from);
}

static double at_share(const la_chart_axis *a, double f) {
    return a->log ? a->from * pow(a->to / a->from, f) : a->from + f * (a->to - a->from);
}

/* --- lines across, whose names stand beside the chart and do not touch --- */
static int upwards(const void *a, const void *b) {
    const la_chart_mark *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static int is_level(const la_chart *c, const la_chart_mark *m) {
    return !m->upright && m->at >= c->y.from && m->at <= c->y.to;
}

/* Letters of the longest name beside the chart. */
static size_t longest(const la_chart *c) {
    size_t n = 0;
    for (size_t i = 0; i < c->n_marks; i++)
        if (is_level(c, &c->marks[i]) && strlen(c->marks[i].name) > n) n = strlen(c->marks[i].name);
    return n;
}

static void put_marks(const la_chart *c, FILE *out) {
    const double line = (SMALL + 3.) / (HEIGHT - ABOVE - BELOW);
    size_t       left = 0;
    double       next = -1; /* the lowest place that is free */
    for (size_t i = 0; i < c->n_marks; i++) left += (size_t)is_level(c, &c->marks[i]);
    for (size_t i = 0; i < c->n_marks; i++) {
        const la_chart_mark *m = &c->marks[i];
        if (m->upright)
            fprintf(out, "set arrow from %.12g, graph 0 to %.12g, graph 1 nohead dt (3,3)", m->at,
                    m->at);
        else if (is_level(c, m))
            fprintf(out, "set arrow from graph 0, first %.12g to graph 1, first %.12g nohead",
                    m->at, m->at);
        else
            continue;
        fputs(" lw 1 lc rgb '#888888' back\n", out);
        if (m->upright) continue;
        double at = fmax(share(&c->y, m->at), next);
        at = fmin(at, 1 - line * (double)(--left)); /* room for those above */
        next = at + line;
        fputs("set label ", out);
        put_quoted(out, m->name);
        fprintf(out, " at graph 1.015, graph %.4f font ',%d' textcolor rgb '#555555'\n", at, SMALL);
    }
}

/* --- data --- */
static int crosses(const la_chart *c) {
    int n = 0;
    for (size_t i = 0; i < c->n_series; i++)
        n += c->series[i].style == LA_CHART_CROSS && c->series[i].n;
    return n;
}

static void put_data(const la_chart *c, FILE *out) {
    int above = 0;
    for (size_t i = 0; i < c->n_series; i++) {
        const la_chart_line *s = &c->series[i];
        const int            top = s->style == LA_CHART_CROSS;
        const double         y = at_share(&c->y, 1 - .022 - .042 * above);
        if (!s->n) continue;
        above += top;
        fprintf(out, "$d%zu << EOD\n", i);
        for (size_t j = 0; j < s->n; j++)
            if (isfinite(s->points[j].x)) {
                double low, high;
                la_chart_ends(c, &s->points[j], &low, &high);
                fprintf(out, "%.9g %.9g %.9g %.9g\n", s->points[j].x, top ? y : s->points[j].y, low,
                        high);
            } else {
                fputs("\n", out);
            }
        fputs("EOD\n", out);
    }
}

static void put_plot(const la_chart *c, FILE *out, size_t i) {
    const la_chart_line *s = &c->series[i];
    const la_look        look = la_look_of(s->variant);
    char                 dash[LA_NUMBER_TEXT], dt[LA_NUMBER_TEXT + 8] = "";
    const char          *bars = c->by_rows ? "xerrorbars" : "yerrorbars";
    if (look.dash) snprintf(dt, sizeof dt, " dt (%s)", la_look_dashes(look.dash, ',', dash));
    fprintf(out, "$d%zu using 1:2", i);
    switch (s->style) {
    case LA_CHART_THIN:
        fprintf(out, " with lines lw 1 lc rgb '#A8%06X'%s", look.colour, dt);
        break;
    case LA_CHART_EARLY:
    case LA_CHART_LINE:
        fprintf(out, " with lines lw 2.4 lc rgb '#%06X'%s", look.colour, dt);
        break;
    case LA_CHART_BOTH:
        fprintf(out, " with linespoints lw 2 pt %d ps .8 lc rgb '#%06X'%s", look.point, look.colour,
                dt);
        break;
    case LA_CHART_DOTS:
        fprintf(out, " with points pt 7 ps .45 lc rgb '#70%06X'", look.colour);
        break;
    case LA_CHART_POINT:
        fprintf(out, ":3:4 with %s lw 2 pt %d ps 1 lc rgb '#%06X'", bars, look.point, look.colour);
        break;
    case LA_CHART_RING:
        fprintf(out, " with points pt 6 ps 1.9 lw 2 lc rgb '#%06X'", look.colour);
        break;
    case LA_CHART_CROSS:
        fprintf(out, " with points pt 2 ps .8 lw 2 lc rgb '#%06X'", look.colour);
        break;
    }
}

void la_chart_script(const la_chart *chart, FILE *out) {
    la_chart  c = *chart;
    const int height = c.by_rows ? ABOVE + BELOW + ROW * (int)c.n_rows : HEIGHT;
    const int above = crosses(&c);
    if (above) c.y.to = at_share(&c.y, 1 / (1 - fmin(.5, .01 + .042 * above)));
    if (c.n_marks) qsort(c.marks, c.n_marks, sizeof *c.marks, upwards);
    fprintf(out,
            "set encoding utf8\nset terminal svg size %d,%d font 'sans-serif,%d' noenhanced\n"
            "set key off\nset border %d lc rgb '#999999'\n"
            "set grid lt 1 lc rgb '#e4e4e4' lw 1\nset bars .6\n"
            "set tmargin at screen %.4f\nset bmargin at screen %.4f\n",
            WIDTH, height, FONT, c.by_rows ? 1 : 3, 1 - (double)ABOVE / height,
            (double)BELOW / height);
    put_axis(out, &c.x, 'x');
    if (c.by_rows) {
        fprintf(out, "set yrange [%.12g:%.12g]\nunset ytics\nset lmargin at screen .02\n", c.y.from,
                c.y.to);
        for (size_t i = 0; i < c.n_rows; i++) {
            fputs("set label ", out);
            put_quoted(out, c.rows[i].name);
            fprintf(out, " at graph .01, first %.12g font ',%d' textcolor rgb '#333333' front\n",
                    -(double)i - 1 + .42, FONT - 1);
        }
    } else {
        put_axis(out, &c.y, 'y');
    }
    const double beside = fmin(8 + 6.6 * (double)longest(&c), .36 * WIDTH);
    fprintf(out, "set rmargin at screen %.4f\n", 1 - fmax(beside, RIGHT) / WIDTH);
    put_marks(&c, out);
    put_data(&c, out);
    int n = 0;
    for (size_t i = 0; i < c.n_series; i++) {
        if (!c.series[i].n) continue;
        fputs(n++ ? ", \\\n  " : "plot ", out);
        put_plot(&c, out, i);
    }
    fputs("\n", out);
}
