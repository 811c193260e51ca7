/* summary.c -- the final measures of one problem, in a table and in a chart. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/page/findings.h"

/* --- the table --- */
/* Columns that stand only where they say something. */
typedef struct summary_columns {
    int bits; /* the tokens are characters or bytes                                       */
    int rate; /* differs between rows                                                   */
    int diverged, failed;
} summary_columns;

static summary_columns columns_of(la_page *p, const la_findings *f) {
    const char     *tokens = la_json_text(json_object_get(p->results, "settings"), "tokenizer");
    summary_columns c = {0};
    double          rate = NAN;
    c.bits = !f->accuracy && (strcmp(tokens, "char") == 0 || strcmp(tokens, "byte") == 0);
    for (size_t i = 0; i < f->n; i++) {
        const json_t *s = f->rows[i].summary;
        const double  lr = la_json_number(s, "lr");
        if (!s) continue;
        c.diverged |= la_json_count(s, "diverged") != 0;
        c.failed |= la_json_count(s, "failed") != 0;
        if (!isfinite(lr)) continue;
        c.rate |= isfinite(rate) && lr != rate;
        rate = lr;
    }
    return c;
}

static void put_columns(la_page *p, const la_findings *f, const summary_columns *c) {
    la_table_words(p, "variant");
    if (c->rate) la_table_column(p, "rate", "learning rate");
    la_table_column(p, f->accuracy ? "accuracy" : "loss",
                    f->accuracy ? "mean over seeds" : "nats a token, mean over seeds");
    if (c->bits) la_table_column(p, "bits", "a token: loss / ln 2; at a number: perplexity");
    la_table_column(p, "sd", "standard deviation over seeds");
    la_table_column(p, "± 95 % CI", "half width of the 95 % confidence interval of the mean");
    if (f->accuracy) la_table_column(p, "loss", "nats a token, mean over seeds");
    la_table_column(p, "difference", "to the first variant, on the same seeds");
    la_table_column(p, "± 95 % CI", "of the difference");
    la_table_column(p, "p", "two-sided, Student's paired t test");
    la_table_column(p, "n", "seeds that count");
    la_table_column(p, "parameters", "numbers that are trained or drawn");
    la_table_column(p, "ms a step", "mean over runs of the median step");
    la_table_column(p, "steps to target", "mean over the runs, or how many of them got there");
    if (c->diverged) la_table_column(p, "diverged", "runs");
    if (c->failed) la_table_column(p, "failed", "runs");
    la_table_body(p);
}

static void put_bits(la_page *p, double loss) {
    if (isfinite(loss))
        la_page_put(p, "<td class=\"n\" data-v=\"%.9g\" title=\"perplexity %.4g\">%.3f</td>",
                    loss / log(2), exp(loss), loss / log(2));
    else
        la_page_put(p, "<td class=\"n\">–</td>");
}

static void put_p(la_page *p, const json_t *d) {
    const double x = la_json_number(d, "p");
    la_table_cell(p, x < .001 ? "%.1e" : "%.3f", x);
}

static double ms_a_step(la_page *p, const la_findings *f, const char *variant) {
    const json_t *list = la_page_list(p, "runs"), *r;
    double        sum = 0;
    int           n = 0;
    for (size_t i = 0; (r = json_array_get(list, i)); i++) {
        const double ms = la_json_number(json_object_get(r, "timing"), "ms_per_step");
        if (!la_json_is_of(r, f->name, variant) || !la_json_is_counted(r) || !isfinite(ms))
            continue;
        sum += ms;
        n++;
    }
    return n ? sum / n : NAN;
}

/* The mean, or how many of the runs got there. */
static void put_steps(la_page *p, const json_t *summary) {
    const json_t *s = json_object_get(summary, "steps_to_target");
    const double  mean = la_json_number(s, "mean"), n = la_json_count(summary, "n");
    if (isfinite(mean) || n == 0)
        la_table_count(p, mean);
    else
        la_page_put(p, "<td class=\"n\">%.0f of %.0f</td>", la_json_count(s, "n"), n);
}

static int is_unclear(const json_t *d) {
    return d && !json_is_true(json_object_get(d, "distinguishable")) &&
           isfinite(la_json_number(d, "p"));
}

static void put_variant(la_page *p, const la_findings *f, const la_finding *r,
                        const summary_columns *c) {
    const json_t *d = la_finding_difference(r);
    la_page_put(p, "<tr><th scope=\"row\">%s</th>", r->name);
    if (c->rate) la_table_cell(p, "%g", la_json_number(r->summary, "lr"));
    la_table_cell(p, "%.4f", r->measure);
    if (c->bits) put_bits(p, r->loss);
    la_table_cell(p, "%.4f", la_finding_number(r, la_findings_measure(f), "sd"));
    la_table_cell(p, "%.4f", la_finding_number(r, la_findings_measure(f), "ci95"));
    if (f->accuracy) la_table_cell(p, "%.4f", r->loss);
    la_table_cell(p, "%+.4f", la_json_number(d, "mean"));
    la_table_cell(p, "%.4f", la_json_number(d, "ci95"));
    if (is_unclear(d))
        la_page_put(p,
                    "<td class=\"n weak\" data-v=\"%.9g\" title=\"not distinguishable\">%.3f "
                    "<small>n. d.</small></td>",
                    la_json_number(d, "p"), la_json_number(d, "p"));
    else
        put_p(p, d);
    la_table_count(p, la_json_number(r->summary, "n"));
    la_table_count(p, la_json_number(r->summary, "parameters"));
    la_table_cell(p, "%.2f", ms_a_step(p, f, r->name));
    put_steps(p, r->summary);
    if (c->diverged) la_table_count(p, la_json_number(r->summary, "diverged"));
    if (c->failed) la_table_count(p, la_json_number(r->summary, "failed"));
    la_page_put(p, "</tr>\n");
}

static void put_empty(la_page *p, int n) {
    for (int i = 0; i < n; i++) la_page_put(p, "<td></td>");
}

static void put_baseline(la_page *p, const la_findings *f, const la_finding *r,
                         const summary_columns *c) {
    la_page_put(p, "<tr class=\"base\"><th scope=\"row\">%s</th>", r->words);
    put_empty(p, c->rate);
    la_table_cell(p, "%.4f", r->measure);
    if (c->bits) put_bits(p, r->loss);
    put_empty(p, 2);
    if (f->accuracy) la_table_cell(p, "%.4f", r->loss);
    put_empty(p, 7 + c->diverged + c->failed);
    la_page_put(p, "</tr>\n");
}

void la_findings_table(la_page *p, const la_findings *f) {
    const la_finding     *first = la_findings_first(f);
    const summary_columns c = columns_of(p, f);
    const double          at = la_json_number(f->problem, "target");
    char                  caption[512], target[96] = "";
    int                   unclear = 0;
    if (isfinite(at))
        snprintf(target, sizeof target, "; steps to target: until the %s is at %s %.4g",
                 la_findings_measure(f), f->accuracy ? "least" : "most", at);
    snprintf(caption, sizeof caption, "%.100s: final validation %s%s%s%.160s%s", f->name,
             la_findings_measure(f), f->accuracy ? "" : ", nats a token",
             first ? "; differences to " : "", first ? first->name : "", target);
    la_table_begin(p, caption);
    put_columns(p, f, &c);
    for (size_t i = 0; i < f->n; i++) {
        const la_finding *r = &f->rows[i];
        if (r->summary)
            put_variant(p, f, r, &c);
        else
            put_baseline(p, f, r, &c);
        unclear |= is_unclear(la_finding_difference(r));
    }
    la_table_end(p);
    if (unclear)
        la_page_put(p, "<p class=\"note\">n. d.: not distinguishable from the first variant, the "
                       "interval of the difference covers 0.</p>\n");
}

/* --- the chart --- */
static void put_seeds(la_page *p, la_chart *c, const la_findings *f, const la_finding *r,
                      double y) {
    const json_t *list = la_page_list(p, "runs"), *run;
    la_chart_series(c, LA_CHART_DOTS, r->variant);
    for (size_t i = 0; (run = json_array_get(list, i)); i++)
        if (la_json_is_of(run, f->name, r->name) && la_json_is_counted(run))
            la_chart_point(c,
                           la_json_number(json_object_get(run, "final"),
                                          f->accuracy ? "val_accuracy" : "val_loss"),
                           y - .22);
}

void la_findings_chart(la_page *p, const la_findings *f) {
    char      caption[512];
    la_chart *c = la_chart_begin(f->accuracy ? "validation accuracy (share of right answers)"
                                             : "validation loss (nats a token)",
                                 "");
    if (f->accuracy) la_chart_share(c);
    for (size_t i = 0; i < f->n; i++) {
        const la_finding *r = &f->rows[i];
        if (!r->summary || !isfinite(r->measure)) continue;
        const double y = la_chart_row(c, r->name);
        put_seeds(p, c, f, r, y);
        la_chart_series(c, LA_CHART_POINT, r->variant);
        la_chart_interval(c, r->measure, y, la_finding_number(r, la_findings_measure(f), "ci95"));
    }
    snprintf(
        caption, sizeof caption,
        "%.100s: final validation %s of each variant, best first. Large: the mean with its 95 %% "
        "confidence interval; small, below: each seed. %s",
        f->name, la_findings_measure(f),
        f->accuracy ? "Right is better; intervals are cut at 0 and 1." : "Left is better.");
    la_charts_begin(p);
    la_chart_end(p, c, caption);
    la_charts_end(p, NULL, NULL);
}
