/* weights.c -- what the heads look at: the entropy of their weights, and pictures of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/page/chart.h"
#include "train/save_file.h"

/* --- entropy --- */
enum { MOST = 1024 }; /* layers or heads that a chart can have                              */

static int number_of(la_page *p, const char *problem, const char *what) { /* layers or heads */
    const json_t *list = la_page_list(p, "entropy"), *e;
    int           most = 0;
    for (size_t i = 0; (e = json_array_get(list, i)); i++)
        if (la_json_is_of(e, problem, NULL) && la_json_number(e, what) < MOST)
            most = (int)fmax(most, la_json_number(e, what) + 1);
    return most;
}

/* The heads of a layer side by side, the variants of a head a little apart. */
static void put_entropy(la_page *p, const char *problem) {
    const json_t *list = la_page_list(p, "entropy"), *e;
    const int     layers = number_of(p, problem, "layer");
    const double  heads = number_of(p, problem, "head");
    const size_t  variants = json_array_size(la_page_list(p, "variants"));
    const int     masked =
        !strcmp(la_json_text(json_object_get(p->results, "settings"), "objective"), "mlm");
    char      caption[512];
    la_chart *c = la_chart_begin("layer (within it: heads from left to right)",
                                 "entropy / entropy of equal weights");
    for (size_t v = 0; v < variants; v++) {
        la_chart_series(c, LA_CHART_POINT, (int)v);
        for (size_t i = 0; (e = json_array_get(list, i)); i++) {
            if (!la_json_is_of(e, problem, la_page_variant_name(p, v))) continue;
            const double within =
                la_json_number(e, "head") + .15 + .7 * ((double)v + .5) / (double)variants;
            la_chart_point(c, la_json_number(e, "layer") - .5 + within / heads,
                           la_json_number(e, "mean") / la_json_number(e, "uniform"));
        }
    }
    la_chart_whole(c);
    la_chart_y(c, 0, 1.04);
    la_chart_level(c, 1, "equal");
    for (int layer = 1; layer < layers; layer++) la_chart_upright(c, layer - .5);
    snprintf(
        caption, sizeof caption,
        "%.100s: entropy of the weights of each head of the first seed's model, as a part of that "
        "of equal weights over all tokens %s, so that a window or a sparse pattern cannot reach "
        "1. 1: all tokens alike; near 0: one token.",
        problem, masked ? "of the window" : "before");
    la_chart_end(p, c, caption);
}

static void put_entropy_table(la_page *p, const char *problem) {
    const json_t *list = la_page_list(p, "entropy"), *e;
    la_page_put(p, "<details%s><summary>Each head</summary>\n", p->no_gnuplot ? " open" : "");
    la_table_begin(p, "Entropy of implied weights, nats, mean over rows");
    la_table_words(p, "variant");
    la_table_column(p, "layer", "");
    la_table_column(p, "head", "");
    la_table_words(p, "attention");
    la_table_column(p, "entropy", "nats");
    la_table_column(p, "of equal weights", "nats, over the same tokens");
    la_table_column(p, "negative", "part of the sum of |w| that is below 0");
    la_table_body(p);
    for (size_t i = 0; (e = json_array_get(list, i)); i++) {
        if (!la_json_is_of(e, problem, NULL)) continue;
        la_page_put(p, "<tr><th scope=\"row\">%s</th>", la_json_text(e, "variant"));
        la_table_count(p, la_json_number(e, "layer"));
        la_table_count(p, la_json_number(e, "head"));
        la_page_put(p, "<td>%s</td>", la_json_text(e, "attn"));
        la_table_cell(p, "%.3f", la_json_number(e, "mean"));
        la_table_cell(p, "%.3f", la_json_number(e, "uniform"));
        la_table_cell(p, "%.3f", la_json_number(e, "negative"));
        la_page_put(p, "</tr>\n");
    }
    la_table_end(p);
    la_page_put(p, "</details>\n");
}

void la_page_entropy(la_page *p) {
    const json_t *list = la_page_list(p, "problems"), *q;
    int           begun = 0;
    for (size_t i = 0; (q = json_array_get(list, i)); i++) {
        const char *name = la_json_text(q, "name");
        if (!number_of(p, name, "head")) continue;
        if (!begun++) {
            la_page_section(p, "weights", "Entropy of the weights");
            la_page_put(p, "<p>Weights are taken as |w| / sum |w|.</p>\n");
        }
        la_page_put(p, "<h3>%s</h3>\n", name);
        la_charts_begin(p);
        put_entropy(p, name);
        la_charts_end(p, la_page_list(p, "entropy"), name);
        put_entropy_table(p, name);
    }
}

/* --- pictures --- */
static void put_picture(la_page *p, const char *name, const char *path) {
    unsigned char *svg = NULL;
    size_t         n = 0;
    la_page_put(p, "<h3>%s</h3>\n<figure class=\"picture\">", name);
    la_status s = la_file_read(&svg, &n, path);
    if (s == LA_OK) s = la_page_svg(p, (const char *)svg, n, name);
    if (s != LA_OK) la_page_put(p, "<figcaption>Left out: %s.</figcaption>", la_error());
    la_page_put(p, "</figure>\n");
    free(svg);
}

/* The pictures that are there, in the order of the variants. */
void la_page_pictures(la_page *p) {
    const size_t n = json_array_size(la_page_list(p, "variants"));
    int          begun = 0;
    for (size_t i = 0; p->pictures_dir && i < n; i++) {
        const char *name = la_page_variant_name(p, i);
        char        path[4096];
        int         at = snprintf(path, sizeof path, "%s/", p->pictures_dir);
        if (at + strlen(name) + sizeof ".svg" > sizeof path) continue;
        snprintf(path + at, sizeof path - (size_t)at, "%s.svg", name);
        for (char *s = path + at; *s; s++)
            if (*s == '/') *s = '_';
        if (access(path, R_OK)) continue;
        if (!begun++) {
            la_page_section(p, "pictures", "Attention");
            la_page_put(p, "<p>What each token of the beginning of the validation text looks at, "
                           "in the first seed's model: a row of a picture has the weights of one "
                           "token.</p>\n");
        }
        put_picture(p, name, path);
    }
}
