/* summary.c -- the final measures of one problem, in a table and in a chart. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/page/findings.h"

/* --- the table --- */
static void put_columns(la_page *p, const la_findings *f) {
    la_table_words(p, "variant");
    la_table_column(p, f->accuracy ? "accuracy" : "loss",
                    f->accuracy ? "mean over seeds" : "nats a token, mean over seeds");
    la_table_column(p, "sd", "standard deviation over seeds");
    la_table_column(p, "± 95 % CI", "half width of the 95 % confidence interval of the mean");
    if (f->accuracy) la_table_column(p, "loss", "nats a token, mean over seeds");
    la_table_column(p, "difference", "to the first variant, on the same seeds");
    la_table_column(p, "± 95 % CI", "of the difference");
    la_table_column(p, "p", "two-sided, Student's paired t test");
    la_table_column(p, "n", "seeds that count");
    la_table_column(p, "diverged", "runs");
    la_table_column(p, "failed", "runs");
    la_table_column(p, "steps to target", "mean over the runs that got there");
    la_table_column(p, "parameters", "numbers that are trained or drawn");
    la_table_column(p, "ms a step", "mean over runs of the median step");
    la_table_body(p);
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

static void put_steps(la_page *p, const json_t *summary) {
    const json_t *s = json_object_get(summary, "steps_to_target");
    const double  mean = la_json_number(s, "mean"), n = la_json_number(s, "n");
    char          text[LA_NUMBER_TEXT];
    if (!isfinite(mean)) {
        la_page_put(p, "<td class=\"n\">–</td>");
        return;
    }
    la_page_put(p, "<td class=\"n\" data-v=\"%.9g\">%s", mean, la_count_text(mean, text));
    if (n < la_json_number(summary, "n"))
        la_page_put(p, " <small>(%.0f of %.0f)</small>", n, la_json_count(summary, "n"));
    la_page_put(p, "</td>");
}

static void put_variant(la_page *p, const la_findings *f, const la_finding *r) {
    const json_t *d = la_finding_difference(r);
    la_page_put(p, "<tr><th scope=\"row\">%s</th>", r->name);
    la_table_cell(p, "%.4f", r->measure);
    la_table_cell(p, "%.4f", la_finding_number(r, la_findings_measure(f), "sd"));
    la_table_cell(p, "%.4f", la_finding_number(r, la_findings_measure(f), "ci95"));
    if (f->accuracy) la_table_cell(p, "%.4f", r->loss);
    la_table_cell(p, "%+.4f", la_json_number(d, "mean"));
    la_table_cell(p, "%.4f", la_json_number(d, "ci95"));
    if (d && !json_is_true(json_object_get(d, "distinguishable")) &&
        isfinite(la_json_number(d, "p")))
        la_page_put(p,
                    "<td class=\"n weak\" data-v=\"%.9g\">%.3f <small>not "
                    "distinguishable</small></td>",
                    la_json_number(d, "p"), la_json_number(d, "p"));
    else
        put_p(p, d);
    la_table_count(p, la_json_number(r->summary, "n"));
    la_table_count(p, la_json_number(r->summary, "diverged"));
    la_table_count(p, la_json_number(r->summary, "failed"));
    put_steps(p, r->summary);
    la_table_count(p, la_json_number(r->summary, "parameters"));
    la_table_cell(p, "%.2f", ms_a_step(p, f, r->name));
    la_page_put(p, "</tr>\n");
}

void la_findings_table(la_page *p, const la_findings *f) {
    const la_finding *first = la_findings_first(f);
    const double      at = la_json_number(f->problem, "target");
    char              caption[512], target[64] = "";
    if (isfinite(at)) snprintf(target, sizeof target, "; target: %.4g", at);
    snprintf(caption, sizeof caption, "%.100s: final validation %s%s%s%s%.160s", f->name,
             la_findings_measure(f), f->accuracy ? "" : ", nats a token", target,
             first ? "; differences to " : "", first ? first->name : "");
    la_table_begin(p, caption);
    put_columns(p, f);
    for (size_t i = 0; i < f->n; i++) {
        const la_finding *r = &f->rows[i];
        if (r->summary) {
            put_variant(p, f, r);
            continue;
        }
        la_page_put(p, "<tr class=\"base\"><th scope=\"row\">%s</th>", r->name);
        la_table_cell(p, "%.4f", r->measure);
        la_page_put(p, "<td></td><td></td>");
        if (f->accuracy) la_table_cell(p, "%.4f", r->loss);
        for (int k = 0; k < 9; k++) la_page_put(p, "<td></td>");
        la_page_put(p, "</tr>\n");
    }
    la_table_end(p);
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
        "confidence interval; small, below: each seed. %s is better.",
        f->name, la_findings_measure(f), f->accuracy ? "Right" : "Left");
    la_page_put(p, "<div class=\"charts\">\n");
    la_chart_end(p, c, caption);
    la_page_put(p, "</div>\n");
}
