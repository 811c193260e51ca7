/* details.c -- the end of the page: gradients, samples, learning rates, settings, runs. */
#include <math.h>
#include <string.h>

#include "train/page/chart.h"

/* --- gradients --- */
void la_page_gradcheck(la_page *p) {
    const json_t *list = la_page_list(p, "gradcheck"), *e;
    if (!json_array_size(list)) return;
    la_page_section(p, "gradcheck", "Gradient check");
    la_table_begin(p, "Gradients against finite differences, in double precision");
    la_table_words(p, "variant");
    la_table_column(p, "cases", "");
    la_table_column(p, "worst error", "relative: max |a - n| / max |n| over all inputs of a case");
    la_table_words(p, "result");
    la_table_body(p);
    for (size_t i = 0; (e = json_array_get(list, i)); i++) {
        const int pass = json_is_true(json_object_get(e, "pass"));
        la_page_put(p, "<tr><th scope=\"row\">%s</th>", la_json_text(e, "name"));
        la_table_count(p, la_json_number(e, "cases"));
        la_table_cell(p, "%.1e", la_json_number(e, "worst"));
        la_page_put(p, "<td class=\"%s\">%s</td></tr>\n", pass ? "pass" : "bad",
                    pass ? "pass" : "FAIL");
    }
    la_table_end(p);
}

/* --- samples --- */
static int same_prompt(const json_t *a, const json_t *b) {
    return la_json_is_of(a, la_json_text(b, "problem"), NULL) &&
           strcmp(la_json_text(a, "prompt"), la_json_text(b, "prompt")) == 0 &&
           la_json_count(a, "seed") == la_json_count(b, "seed");
}

static int was_before(const json_t *list, size_t n, const json_t *sample) {
    for (size_t i = 0; i < n; i++)
        if (same_prompt(json_array_get(list, i), sample)) return 1;
    return 0;
}

void la_page_samples(la_page *p) {
    const json_t *list = la_page_list(p, "samples"), *e, *f;
    for (size_t i = 0; (e = json_array_get(list, i)); i++) {
        if (i == 0) la_page_section(p, "samples", "Samples");
        if (was_before(list, i, e)) continue;
        la_page_put(
            p, "<h3>%s, seed %.0f</h3>\n<p>After the prompt <q class=\"prompt\">%s</q></p>\n",
            la_json_text(e, "problem"), la_json_count(e, "seed"), la_json_text(e, "prompt"));
        la_page_put(p, "<div class=\"samples\">\n");
        for (size_t k = i; (f = json_array_get(list, k)); k++)
            if (same_prompt(e, f))
                la_page_put(p, "<figure><figcaption>%s</figcaption><pre>%s</pre></figure>\n",
                            la_json_text(f, "variant"), la_json_text(f, "text"));
        la_page_put(p, "</div>\n");
    }
}

/* --- learning rates --- */
static void put_sweep_chart(la_page *p, const char *problem) {
    const json_t *list = la_page_list(p, "sweeps"), *e, *t;
    char          caption[384];
    la_chart     *c = la_chart_begin("learning rate", "validation loss (nats a token)");
    la_chart_log(c, 1, 0);
    for (int ring = 0; ring < 2; ring++)
        for (size_t i = 0; (e = json_array_get(list, i)); i++) {
            const json_t *tried = json_object_get(e, "tried");
            if (!la_json_is_of(e, problem, NULL)) continue;
            la_chart_series(c, ring ? LA_CHART_RING : LA_CHART_BOTH,
                            la_page_variant(p, la_json_text(e, "variant")));
            for (size_t k = 0; (t = json_array_get(tried, k)); k++)
                if (!ring || la_json_number(t, "lr") == la_json_number(e, "chosen"))
                    la_chart_point(c, la_json_number(t, "lr"), la_json_number(t, "val_loss"));
        }
    snprintf(
        caption, sizeof caption,
        "%.100s: validation loss at the end of the sweep's runs against the learning rate, mean "
        "over the sweep's own seeds. The runs are as long as the others. A ring: chosen.",
        problem);
    la_chart_end(p, c, caption);
}

/* "The rate chosen for a, b is the highest that was tried, ...": which 1; the lowest: -1. */
static void put_edge(la_page *p, const char *problem, int which) {
    const json_t *list = la_page_list(p, "sweeps"), *e, *t;
    int           n = 0;
    for (size_t i = 0; (e = json_array_get(list, i)); i++) {
        const json_t *tried = json_object_get(e, "tried");
        const double  chosen = la_json_number(e, "chosen");
        int           edge = isfinite(chosen) && json_array_size(tried) > 1;
        for (size_t k = 0; (t = json_array_get(tried, k)); k++)
            if (which * la_json_number(t, "lr") > which * chosen) edge = 0;
        if (!edge || !la_json_is_of(e, problem, NULL)) continue;
        la_page_put(p, n++ ? ", <b>%s</b>" : "The rate chosen for <b>%s</b>",
                    la_json_text(e, "variant"));
    }
    if (n)
        la_page_put(p, " is the %s that was tried: a %s one may be better. ",
                    which > 0 ? "highest" : "lowest", which > 0 ? "higher" : "lower");
}

/* How the rates were chosen, and where more of them should be tried. */
static void put_choice(la_page *p, const json_t *problem) {
    const json_t *list = la_page_list(p, "sweeps"), *e, *t;
    const char   *name = la_json_text(problem, "name");
    double        least = INFINITY, most = 0;
    for (size_t i = 0; (e = json_array_get(list, i)); i++)
        for (size_t k = 0; (t = json_array_get(json_object_get(e, "tried"), k)); k++)
            if (la_json_is_of(e, name, NULL) && la_json_count(t, "n") > 0) {
                least = fmin(least, la_json_count(t, "n"));
                most = fmax(most, la_json_count(t, "n"));
            }
    la_page_put(p, "<p>");
    if (most > 0) {
        la_page_put(p, "Chosen by the validation loss, from ");
        if (least < most) la_page_put(p, "%.0f to ", least);
        la_page_put(p, "%.0f seed%s for each rate", most, most == 1 ? "" : "s");
        la_page_put(p, strcmp(la_json_text(problem, "measure"), "val_accuracy")
                           ? ". "
                           : "; the findings are of accuracy. ");
    }
    for (int which = 1; which >= -1; which -= 2) put_edge(p, name, which);
    la_page_put(p, "</p>\n");
}

static void put_sweep_table(la_page *p, const char *problem) {
    const json_t *list = la_page_list(p, "sweeps"), *e, *t;
    la_table_begin(p, "Learning rates that were tried");
    la_table_words(p, "variant");
    la_table_column(p, "rate", "");
    la_table_column(p, "n", "runs");
    la_table_column(p, "loss", "nats a token, mean");
    la_table_words(p, "");
    la_table_body(p);
    for (size_t i = 0; (e = json_array_get(list, i)); i++) {
        const json_t *tried = json_object_get(e, "tried");
        if (!la_json_is_of(e, problem, NULL)) continue;
        for (size_t k = 0; (t = json_array_get(tried, k)); k++) {
            const double loss = la_json_number(t, "val_loss");
            la_page_put(p, "<tr><th scope=\"row\">%s</th>", la_json_text(e, "variant"));
            la_table_cell(p, "%g", la_json_number(t, "lr"));
            la_table_count(p, la_json_number(t, "n"));
            la_table_cell(p, "%.4f", loss);
            la_page_put(p, "<td>%s</td></tr>\n",
                        la_json_number(t, "lr") == la_json_number(e, "chosen") ? "chosen"
                        : isfinite(loss)                                       ? ""
                                                                               : "diverged");
        }
    }
    la_table_end(p);
}

void la_page_sweeps(la_page *p) {
    const json_t *list = la_page_list(p, "problems"), *sweeps = la_page_list(p, "sweeps"), *q, *e;
    int           begun = 0;
    for (size_t i = 0; (q = json_array_get(list, i)); i++) {
        const char *name = la_json_text(q, "name");
        int         n = 0;
        for (size_t k = 0; (e = json_array_get(sweeps, k)); k++) n += la_json_is_of(e, name, NULL);
        if (!n) continue;
        if (!begun++) la_page_section(p, "rates", "Learning rates");
        la_page_put(p, "<h3>%s</h3>\n", name);
        put_choice(p, q);
        la_charts_begin(p);
        put_sweep_chart(p, name);
        la_charts_end(p, sweeps, name);
        la_page_put(p, "<details%s><summary>All rates</summary>\n", p->no_gnuplot ? " open" : "");
        put_sweep_table(p, name);
        la_page_put(p, "</details>\n");
    }
}

/* --- settings --- */
void la_page_settings(la_page *p) {
    json_t     *settings = json_object_get(p->results, "settings"), *value;
    const char *key;
    if (!json_object_size(settings)) return;
    la_page_section(p, "settings", "Settings");
    la_page_put(p,
                "<p>Shared by all runs, but where a variant has options of its own.</p>\n<dl>\n");
    json_object_foreach(settings, key, value) {
        la_page_put(p, "<dt>%s</dt><dd>", key);
        la_page_value(p, value);
        la_page_put(p, "</dd>\n");
    }
    la_page_put(p, "</dl>\n");
}

/* --- runs --- */
/* Options that stand in columns of their own. */
static int has_column(const char *key) {
    return !strcmp(key, "attn") || !strcmp(key, "task") || !strcmp(key, "seed") ||
           !strcmp(key, "lr");
}

/* Whether all runs have this value of an option. */
static int is_common(const json_t *runs, const char *key, const json_t *value) {
    const json_t *r;
    for (size_t i = 0; (r = json_array_get(runs, i)); i++) {
        const json_t *other = json_object_get(json_object_get(r, "options"), key);
        if (!other || !json_equal(other, value)) return 0;
    }
    return 1;
}

/* What a run has other than some of the rest; counts it, and writes it or not. */
static void put_options(la_page *p, const json_t *r, int write, int *n) {
    json_t     *value, *options = json_object_get(r, "options");
    const char *key;
    json_object_foreach(options, key, value) {
        if (has_column(key) || is_common(la_page_list(p, "runs"), key, value)) continue;
        if (write) {
            la_page_put(p, *n ? " %s=" : "%s=", key);
            la_page_value(p, value);
        }
        (*n)++;
    }
}

static int options_differ(la_page *p) {
    const json_t *list = la_page_list(p, "runs"), *r;
    int           n = 0;
    for (size_t i = 0; (r = json_array_get(list, i)); i++) put_options(p, r, 0, &n);
    return n > 0;
}

static void put_run(la_page *p, const json_t *r, int options) {
    const json_t *final = json_object_get(r, "final"), *timing = json_object_get(r, "timing");
    const char   *message = la_json_text(r, "message"), *status = la_json_text(r, "status");
    const int     bad = strcmp(status, "diverged") == 0 || strcmp(status, "failed") == 0;
    la_page_put(p, "<tr><th scope=\"row\">%s</th><td>%s</td>", la_json_text(r, "variant"),
                la_json_text(r, "problem"));
    la_table_cell(p, "%.0f", la_json_number(r, "seed"));
    la_table_cell(p, "%g", la_json_number(r, "lr"));
    la_page_put(p, "<td>%s</td><td class=\"%s\">%s%s%s</td>", la_json_text(r, "purpose"),
                bad ? "bad" : "", status, *message ? ": " : "", message);
    if (options) {
        int n = 0;
        la_page_put(p, "<td class=\"words\">");
        put_options(p, r, 1, &n);
        la_page_put(p, "</td>");
    }
    la_table_count(p, la_json_number(r, "steps"));
    la_table_cell(p, "%.4f", la_json_number(final, "val_loss"));
    la_table_cell(p, "%.4f", la_json_number(final, "val_accuracy"));
    la_table_count(p, la_json_number(r, "parameters"));
    la_table_count(p, la_json_number(r, "frozen"));
    la_table_bytes(p, la_json_number(r, "state_bytes"));
    la_table_cell(p, "%.3g", la_json_number(r, "flops_per_step"));
    la_table_count(p, la_json_number(r, "tokens_per_step"));
    la_table_cell(p, "%.1f", la_json_number(timing, "seconds"));
    la_table_cell(p, "%.2f", la_json_number(timing, "ms_per_step"));
    la_table_count(p, la_json_number(timing, "tokens_per_s"));
    la_table_bytes(p, la_json_number(timing, "peak_bytes"));
    la_page_put(p, "</tr>\n");
}

void la_page_runs(la_page *p) {
    const json_t *list = la_page_list(p, "runs"), *r;
    if (!json_array_size(list)) return;
    const int options = options_differ(p);
    la_page_section(p, "runs", "Runs");
    la_page_put(p, "<details><summary>All %d runs</summary>\n", (int)json_array_size(list));
    la_table_begin(p, "Runs; those of a sweep chose the learning rate and count nowhere else");
    la_table_words(p, "variant");
    la_table_words(p, "problem");
    la_table_column(p, "seed", "");
    la_table_column(p, "rate", "learning rate");
    la_table_words(p, "purpose");
    la_table_words(p, "status");
    if (options) la_table_words(p, "options that differ");
    la_table_column(p, "steps", "done");
    la_table_column(p, "loss", "of validation, nats a token");
    la_table_column(p, "accuracy", "of validation");
    la_table_column(p, "parameters", "");
    la_table_column(p, "frozen", "numbers that are not trained: random features");
    la_table_column(p, "state", "of one text, in generation");
    la_table_column(p, "flops a step", "nominal, forward and backward");
    la_table_column(p, "tokens a step", "");
    la_table_column(p, "seconds", "of training, with evaluations");
    la_table_column(p, "ms a step", "median");
    la_table_column(p, "tokens/s", "");
    la_table_column(p, "peak memory", "most in use at a line of metrics");
    la_table_body(p);
    for (size_t i = 0; (r = json_array_get(list, i)); i++) put_run(p, r, options);
    la_table_end(p);
    la_page_put(p, "</details>\n");
}
