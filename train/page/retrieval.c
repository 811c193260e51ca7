/* retrieval.c -- what the tasks say: accuracy against pairs to remember and against the state.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/page/chart.h"

static double accuracy_of(la_page *p, const char *problem, const char *variant, const char *what) {
    const json_t *list = la_page_list(p, "summary"), *s;
    for (size_t i = 0; (s = json_array_get(list, i)); i++)
        if (la_json_is_of(s, problem, variant))
            return la_json_number(json_object_get(s, "accuracy"), what);
    return NAN;
}

static int is_task(const json_t *problem) {
    return strcmp(la_json_text(problem, "kind"), "task") == 0;
}

/* "mqar:length=64,pairs=8" has pairs 8; NAN: another task, or the usual number. */
static double option_of(const json_t *problem, const char *key) {
    const char  *spec = la_json_text(problem, "spec");
    const size_t n = strlen(key);
    for (const char *at = spec; (at = strstr(at, key)); at += n)
        if (at > spec && (at[-1] == ':' || at[-1] == ',') && at[n] == '=') return atof(at + n + 1);
    return NAN;
}

typedef struct pairs_point {
    double        pairs;
    const json_t *problem;
} pairs_point;

static int by_pairs(const void *a, const void *b) {
    const double x = ((const pairs_point *)a)->pairs, y = ((const pairs_point *)b)->pairs;
    return (x > y) - (x < y);
}

static void put_pairs(la_page *p) {
    const json_t *list = la_page_list(p, "problems"), *q;
    enum { TASKS = 32 };
    pairs_point tasks[TASKS];
    size_t      n = 0;
    int         lengths_differ = 0;
    for (size_t i = 0; (q = json_array_get(list, i)) && n < TASKS; i++)
        if (is_task(q) && isfinite(option_of(q, "pairs")))
            tasks[n++] = (pairs_point){option_of(q, "pairs"), q};
    if (n < 2) return;
    qsort(tasks, n, sizeof *tasks, by_pairs);
    for (size_t i = 1; i < n; i++)
        lengths_differ |=
            option_of(tasks[i].problem, "length") != option_of(tasks[0].problem, "length");
    la_chart *c = la_chart_begin("pairs of key and value in a row", "validation accuracy");
    la_chart_log(c, 1, 0);
    la_chart_y(c, 0, 1.02);
    for (size_t v = 0; v < json_array_size(la_page_list(p, "variants")); v++) {
        const char *name = la_page_variant_name(p, v);
        la_chart_series(c, LA_CHART_BOTH, (int)v);
        for (size_t i = 0; i < n; i++)
            la_chart_point(c, tasks[i].pairs,
                           accuracy_of(p, la_json_text(tasks[i].problem, "name"), name, "mean"));
    }
    la_chart_end(p, c,
                 lengths_differ
                     ? "Accuracy of retrieval against the number of pairs, mean over seeds. "
                       "The lengths of these tasks differ too."
                     : "Accuracy of retrieval against the number of pairs, mean over seeds.");
}

static double state_of(la_page *p, const char *problem, const char *variant) {
    const json_t *list = la_page_list(p, "runs"), *r;
    for (size_t i = 0; (r = json_array_get(list, i)); i++)
        if (la_json_is_of(r, problem, variant) && la_json_is_main(r))
            return la_json_number(r, "state_bytes");
    return NAN;
}

static void put_states(la_page *p, const json_t *problem) {
    const char *name = la_json_text(problem, "name");
    char        caption[384];
    la_chart   *c = la_chart_begin("state of one text (KiB)", "validation accuracy");
    la_chart_log(c, 1, 0);
    la_chart_y(c, 0, 1.02);
    la_chart_share(c);
    for (size_t v = 0; v < json_array_size(la_page_list(p, "variants")); v++) {
        const char *variant = la_page_variant_name(p, v);
        la_chart_series(c, LA_CHART_POINT, (int)v);
        la_chart_interval(c, state_of(p, name, variant) / 1024,
                          accuracy_of(p, name, variant, "mean"),
                          accuracy_of(p, name, variant, "ci95"));
    }
    la_chart_level(c, la_json_number(problem, "chance"), "chance");
    la_chart_level(c, la_json_number(problem, "context_chance"), "1/N");
    snprintf(caption, sizeof caption,
             "%.100s: accuracy against the size of the state at the end of a training window, mean "
             "over seeds with its 95 %% confidence interval, cut at 0 and 1.",
             name);
    la_chart_end(p, c, caption);
}

static void put_tasks(la_page *p) {
    const json_t *list = la_page_list(p, "problems"), *q;
    la_table_begin(p, "Accuracy on tasks, mean over seeds, and the state of one text");
    la_table_words(p, "variant");
    for (size_t i = 0; (q = json_array_get(list, i)); i++) {
        if (!is_task(q)) continue;
        la_table_column(p, la_json_text(q, "name"), la_json_text(q, "spec"));
        la_table_column(p, "state", "at the end of a training window, all layers and heads");
    }
    la_table_body(p);
    for (size_t v = 0; v < json_array_size(la_page_list(p, "variants")); v++) {
        const char *variant = la_page_variant_name(p, v);
        la_page_put(p, "<tr><th scope=\"row\">%s</th>", variant);
        for (size_t i = 0; (q = json_array_get(list, i)); i++) {
            const char *name = la_json_text(q, "name");
            if (!is_task(q)) continue;
            la_table_cell(p, "%.4f", accuracy_of(p, name, variant, "mean"));
            la_table_bytes(p, state_of(p, name, variant));
        }
        la_page_put(p, "</tr>\n");
    }
    la_table_end(p);
}

void la_page_retrieval(la_page *p) {
    const json_t *list = la_page_list(p, "problems"), *q;
    int           tasks = 0;
    for (size_t i = 0; (q = json_array_get(list, i)); i++) tasks += is_task(q);
    if (!tasks || !json_array_size(la_page_list(p, "summary"))) return;
    la_page_section(p, "retrieval", "Retrieval");
    la_charts_begin(p);
    put_pairs(p);
    for (size_t i = 0; (q = json_array_get(list, i)); i++)
        if (is_task(q)) put_states(p, q);
    la_charts_end(p, la_page_list(p, "summary"), NULL);
    put_tasks(p);
}
