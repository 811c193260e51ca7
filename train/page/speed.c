/* speed.c -- time and memory against length and position; what tasks of retrieval say. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/page/chart.h"

static const json_t *measured(const la_page *p, const char *what) {
    return json_object_get(la_page_list(p, "speed"), what);
}

/* One key of a list, a line for each variant, against another key. */
typedef struct speed_chart {
    const char *list, *x, *key;
    const char *x_axis, *y_axis, *caption;
    double      scale;
} speed_chart;

static const speed_chart charts[] = {
    {"length", "length", "ms_per_step", "length (tokens)", "a training step (ms)",
     "Time of a training step, forward and backward, of one window against its length.", 1},
    {"length", "length", "peak_bytes", "length (tokens)", "peak memory (MiB)",
     "Most memory in use in such a step.", 1. / 1048576},
    {"length", "length", "tokens_per_s", "length (tokens)", "training (tokens a second)",
     "Tokens a second of such a step.", 1},
    {"decode", "position", "ms_per_token", "position (tokens before)", "a token (ms)",
     "Time of one token of generation against the tokens before it.", 1},
    {"decode", "position", "tokens_per_s", "position (tokens before)",
     "generation (tokens a second)", "Tokens a second of generation.", 1},
    {"decode", "position", "state_bytes", "position (tokens before)", "state (KiB)",
     "Size of the state that generation keeps, all layers and heads, against the tokens before.",
     1. / 1024},
};

/* A cross at the top for each size that was refused. */
static int put_crosses(la_page *p, la_chart *c, const speed_chart *s) {
    const json_t *list = measured(p, s->list), *e;
    int           n = 0;
    for (size_t v = 0; v < json_array_size(la_page_list(p, "variants")); v++) {
        la_chart_series(c, LA_CHART_CROSS, (int)v);
        for (size_t i = 0; (e = json_array_get(list, i)); i++) {
            if (!la_json_is_of(e, NULL, la_page_variant_name(p, v)) || !*la_json_text(e, "refused"))
                continue;
            la_chart_point(c, la_json_number(e, s->x), 1);
            n++;
        }
    }
    return n;
}

static void put_chart(la_page *p, const speed_chart *s) {
    const json_t *list = measured(p, s->list), *e;
    char          caption[256];
    la_chart     *c = la_chart_begin(s->x_axis, s->y_axis);
    la_chart_log(c, 1, 1);
    for (size_t v = 0; v < json_array_size(la_page_list(p, "variants")); v++) {
        la_chart_series(c, LA_CHART_BOTH, (int)v);
        for (size_t i = 0; (e = json_array_get(list, i)); i++) {
            if (!la_json_is_of(e, NULL, la_page_variant_name(p, v))) continue;
            la_chart_point(c, la_json_number(e, s->x), s->scale * la_json_number(e, s->key));
        }
    }
    const int refused = put_crosses(p, c, s);
    snprintf(caption, sizeof caption, "%s%s", s->caption,
             refused ? " A cross at the top: refused, see the table." : "");
    la_chart_end(p, c, caption);
}

/* --- tables --- */
static const json_t *slope_of(la_page *p, const char *variant, const char *what) {
    const json_t *list = measured(p, "slopes"), *e;
    for (size_t i = 0; (e = json_array_get(list, i)); i++)
        if (la_json_is_of(e, NULL, variant) && strcmp(la_json_text(e, "what"), what) == 0) return e;
    return NULL;
}

static void put_slope(la_page *p, const json_t *e) {
    const double slope = la_json_number(e, "slope"), error = la_json_number(e, "error");
    char         from[LA_NUMBER_TEXT], to[LA_NUMBER_TEXT];
    if (!isfinite(slope) || la_json_count(e, "n") < 3) { /* two points are on any line */
        la_page_put(p, "<td class=\"n\">–</td><td></td>");
        return;
    }
    la_page_put(p, "<td class=\"n\" data-v=\"%.9g\">%.2f", slope, slope);
    if (isfinite(error)) la_page_put(p, " ± %.2f", error);
    la_page_put(p, "</td><td>%s to %s</td>", la_count_text(la_json_number(e, "from"), from),
                la_count_text(la_json_number(e, "to"), to));
}

/* The least length at which both this variant and the first were measured; 0: none. */
static double shortest(la_page *p, const char *variant) {
    const json_t *list = measured(p, "length"), *e, *f;
    double        least = 0;
    for (size_t i = 0; (e = json_array_get(list, i)); i++) {
        const double length = la_json_number(e, "length");
        if (!la_json_is_of(e, NULL, variant) || !isfinite(la_json_number(e, "ms_per_step")))
            continue;
        for (size_t k = 0; (f = json_array_get(list, k)); k++)
            if (la_json_is_of(f, NULL, la_page_variant_name(p, 0)) &&
                la_json_number(f, "length") == length &&
                isfinite(la_json_number(f, "ms_per_step")) && (!least || length < least))
                least = length;
    }
    return least;
}

static void put_crossover(la_page *p, const char *variant, int first) {
    const json_t *list = measured(p, "crossover"), *e;
    char          text[LA_NUMBER_TEXT];
    for (size_t i = 0; (e = json_array_get(list, i)) && !first; i++) {
        const double length = la_json_number(e, "length");
        if (!la_json_is_of(e, NULL, variant)) continue;
        if (isfinite(length))
            la_page_put(p, "<td class=\"n\" data-v=\"%.9g\">%s%s</td>", length,
                        la_count_text(length, text),
                        length == shortest(p, variant) ? " or less" : "");
        else
            la_page_put(p, "<td class=\"n\">nowhere</td>");
        return;
    }
    la_page_put(p, "<td class=\"n\">–</td>");
}

static void put_slopes(la_page *p) {
    char caption[384];
    if (!json_array_size(measured(p, "slopes")) && !json_array_size(measured(p, "crossover")))
        return;
    snprintf(
        caption, sizeof caption,
        "Growth with length: time and memory go as length to the power of the slope (taylor2 has "
        "softmax's while a text is short); from which length a training step is faster than that "
        "of %.160s",
        la_page_variant_name(p, 0));
    la_table_begin(p, caption);
    la_table_words(p, "variant");
    la_table_column(p, "slope of time", "of log time over log length, ± standard error");
    la_table_words(p, "fitted over");
    la_table_column(p, "slope of memory", "of log peak memory over log length, ± standard error");
    la_table_words(p, "fitted over");
    la_table_column(p, "faster from",
                    "tokens: than the first variant at this length and all longer ones");
    la_table_body(p);
    for (size_t v = 0; v < json_array_size(la_page_list(p, "variants")); v++) {
        const char *name = la_page_variant_name(p, v);
        la_page_put(p, "<tr><th scope=\"row\">%s</th>", name);
        put_slope(p, slope_of(p, name, "time"));
        put_slope(p, slope_of(p, name, "memory"));
        put_crossover(p, name, v == 0);
        la_page_put(p, "</tr>\n");
    }
    la_table_end(p);
}

static void put_why(la_page *p, const json_t *e) {
    const char *why = la_json_text(e, "refused");
    if (*why)
        la_page_put(p, "<td class=\"why\">refused: %s</td></tr>\n", why);
    else
        la_page_put(p, "<td></td></tr>\n");
}

static void put_lengths(la_page *p) {
    const json_t *list = measured(p, "length"), *e;
    if (!json_array_size(list)) return;
    la_table_begin(p, "A training step of one window");
    la_table_words(p, "variant");
    la_table_column(p, "length", "tokens");
    la_table_column(p, "ms a step", "median");
    la_table_column(p, "tokens/s", "");
    la_table_column(p, "peak memory", "most in use");
    la_table_column(p, "repeats", "");
    la_table_words(p, "note");
    la_table_body(p);
    for (size_t i = 0; (e = json_array_get(list, i)); i++) {
        la_page_put(p, "<tr><th scope=\"row\">%s</th>", la_json_text(e, "variant"));
        la_table_count(p, la_json_number(e, "length"));
        la_table_cell(p, "%.3g", la_json_number(e, "ms_per_step"));
        la_table_count(p, la_json_number(e, "tokens_per_s"));
        la_table_bytes(p, la_json_number(e, "peak_bytes"));
        la_table_count(p, la_json_number(e, "repeats"));
        put_why(p, e);
    }
    la_table_end(p);
}

static void put_decode(la_page *p) {
    const json_t *list = measured(p, "decode"), *e;
    if (!json_array_size(list)) return;
    la_table_begin(p, "One token of generation");
    la_table_words(p, "variant");
    la_table_column(p, "position", "tokens before");
    la_table_column(p, "ms a token", "median");
    la_table_column(p, "tokens/s", "");
    la_table_column(p, "state", "all layers and heads");
    la_table_words(p, "note");
    la_table_body(p);
    for (size_t i = 0; (e = json_array_get(list, i)); i++) {
        la_page_put(p, "<tr><th scope=\"row\">%s</th>", la_json_text(e, "variant"));
        la_table_count(p, la_json_number(e, "position"));
        la_table_cell(p, "%.3g", la_json_number(e, "ms_per_token"));
        la_table_count(p, la_json_number(e, "tokens_per_s"));
        la_table_bytes(p, la_json_number(e, "state_bytes"));
        put_why(p, e);
    }
    la_table_end(p);
}

/* Whether both are about generation, and say the same. */
static int same_note(const json_t *a, const json_t *b) {
    const char *text = la_json_text(a, "text");
    return *text && strcmp(la_json_text(a, "what"), "decode") == 0 &&
           strcmp(la_json_text(b, "what"), "decode") == 0 &&
           strcmp(text, la_json_text(b, "text")) == 0;
}

/* Of generation: each text once, after the variants it is about. */
static void put_notes(la_page *p) {
    const json_t *list = measured(p, "notes"), *e, *other;
    int           n = 0;
    for (size_t i = 0; (e = json_array_get(list, i)); i++) {
        size_t first = 0, names = 0;
        while (first < i && !same_note(json_array_get(list, first), e)) first++;
        if (first < i || !same_note(e, e)) continue;
        la_page_put(p, n++ ? "<li>" : "<ul class=\"plain\">\n<li>");
        for (size_t j = i; (other = json_array_get(list, j)); j++)
            if (same_note(other, e))
                la_page_put(p, "%s<b>%s</b>", names++ ? ", " : "", la_json_text(other, "variant"));
        la_page_put(p, ": %s</li>\n", la_json_text(e, "text"));
    }
    if (n) la_page_put(p, "</ul>\n");
}

void la_page_speed(la_page *p) {
    const json_t *length = measured(p, "length"), *decode = measured(p, "decode");
    if (!json_array_size(length) && !json_array_size(decode)) return;
    la_page_section(p, "speed", "Speed and memory");
    la_page_put(p, "<p>Measured with the options of the first problem, <b>%s</b>.</p>\n",
                la_json_text(json_array_get(la_page_list(p, "problems"), 0), "name"));
    la_charts_begin(p);
    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++) put_chart(p, &charts[i]);
    la_charts_end(p, json_array_size(length) ? length : decode, NULL);
    put_notes(p);
    put_slopes(p);
    la_page_put(p, "<details><summary>All times, sizes, and what was refused</summary>\n");
    put_lengths(p);
    put_decode(p);
    la_page_put(p, "</details>\n");
}
