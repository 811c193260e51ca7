/* page_findings.c -- who was better, in words, in a table and in a chart, for each problem. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/page_chart.h"

/* A row of the table: a variant's summary, or a baseline. */
typedef struct row {
    const json_t *summary;
    char          name[160]; /* of a baseline                                              */
    double        measure;   /* loss or accuracy: what the order goes by                   */
    double        loss;
    int           variant;
} row;

enum { MOST = 64 };

typedef struct findings {
    const json_t *problem;
    const char   *name;
    int           accuracy; /* is the measure: more is better                              */
    row           rows[MOST];
    size_t        n;
} findings;

static double statistic(const row *r, const char *of, const char *what) {
    return la_json_number(json_object_get(r->summary, of), what);
}

static const char *measure_of(const findings *f) { return f->accuracy ? "accuracy" : "loss"; }

/* Lower loss first, higher accuracy first, what is not known last. */
static int by_loss(const void *a, const void *b) {
    const double x = ((const row *)a)->measure, y = ((const row *)b)->measure;
    if (!isfinite(x) || !isfinite(y)) return isfinite(y) - isfinite(x);
    return (x > y) - (x < y);
}

static int by_accuracy(const void *a, const void *b) {
    const double x = ((const row *)a)->measure, y = ((const row *)b)->measure;
    if (!isfinite(x) || !isfinite(y)) return isfinite(y) - isfinite(x);
    return (x < y) - (x > y);
}

static void add_baseline(findings *f, const char *name, double measure, double loss) {
    if (f->n == MOST || (!isfinite(measure) && !isfinite(loss))) return;
    row *r = &f->rows[f->n++];
    *r = (row){.measure = measure, .loss = loss, .variant = -1};
    snprintf(r->name, sizeof r->name, "%s", name);
}

static void gather(la_page *p, findings *f) {
    const json_t *list = la_page_list(p, "summary"), *s, *b;
    for (size_t i = 0; (s = json_array_get(list, i)) && f->n < MOST; i++) {
        if (!la_json_is_of(s, f->name, NULL)) continue;
        row *r = &f->rows[f->n++];
        *r = (row){.summary = s, .variant = la_page_variant(p, la_json_text(s, "variant"))};
        snprintf(r->name, sizeof r->name, "%s", la_json_text(s, "variant"));
        r->measure = statistic(r, measure_of(f), "mean");
        r->loss = statistic(r, "loss", "mean");
    }
    if (!f->n) return;
    list = json_object_get(f->problem, "baselines");
    for (size_t i = 0; (b = json_array_get(list, i)); i++) {
        const double loss = la_json_number(b, "loss");
        add_baseline(f, la_json_text(b, "name"), f->accuracy ? NAN : loss, loss);
    }
    if (f->accuracy) {
        add_baseline(f, "a guess among all answers", la_json_number(f->problem, "chance"), NAN);
        add_baseline(f, "a guess among the answers in the row",
                     la_json_number(f->problem, "context_chance"), NAN);
    }
    qsort(f->rows, f->n, sizeof *f->rows, f->accuracy ? by_accuracy : by_loss);
}

/* --- words --- */
static const json_t *difference(const row *r) {
    const json_t *d = r->summary ? json_object_get(r->summary, "difference") : NULL;
    return json_is_object(d) ? d : NULL;
}

static const row *first_variant(const findings *f) {
    for (size_t i = 0; i < f->n; i++)
        if (f->rows[i].summary && f->rows[i].variant == 0) return &f->rows[i];
    return NULL;
}

static const row *best_of(const findings *f, int baselines) {
    for (size_t i = 0; i < f->n; i++)
        if ((f->rows[i].summary == NULL) == baselines && isfinite(f->rows[i].measure))
            return &f->rows[i];
    return NULL;
}

static void put_best(la_page *p, const findings *f) {
    const row *best = best_of(f, 0);
    if (!best) {
        la_page_put(p, "No run came to a result. ");
        return;
    }
    const double half = statistic(best, measure_of(f), "ci95");
    const int    n = (int)la_json_number(best->summary, "n");
    la_page_put(p, "The %s mean %s is that of <b>%s</b>, %.4f", f->accuracy ? "highest" : "lowest",
                f->accuracy ? "validation accuracy" : "validation loss", best->name, best->measure);
    if (!f->accuracy) la_page_put(p, " nats a token");
    if (isfinite(half))
        la_page_put(p, " ± %.4f (%d seeds; half width of the 95 %% confidence interval). ", half,
                    n);
    else
        la_page_put(p, ", from %d seed%s: no interval, and no difference can be told from chance. ",
                    n, n == 1 ? "" : "s");
}

/* "Higher than softmax: a (+0.01), b (+0.02). "; which: 1 above, -1 below, 0 not told apart */
static void put_group(la_page *p, const findings *f, const row *first, int which) {
    int n = 0;
    for (size_t i = 0; i < f->n; i++) {
        const row    *r = &f->rows[i];
        const json_t *d = difference(r);
        const double  mean = la_json_number(d, "mean");
        if (!d || !isfinite(mean) || !isfinite(la_json_number(d, "ci95"))) continue;
        const int sure = json_is_true(json_object_get(d, "distinguishable"));
        const int is = sure ? (mean > 0 ? 1 : -1) : 0;
        if (is != which) continue;
        if (!n++) {
            if (which)
                la_page_put(p, "%s %s than %s, on the same seeds: ", which > 0 ? "Higher" : "Lower",
                            measure_of(f), first->name);
            else
                la_page_put(p, "Not distinguishable from %s: ", first->name);
        } else {
            la_page_put(p, ", ");
        }
        la_page_put(p, "<b>%s</b> (%+.4f ± %.4f)", r->name, mean, la_json_number(d, "ci95"));
    }
    if (n) la_page_put(p, ". ");
}

static void put_lost(la_page *p, const findings *f) {
    for (size_t i = 0; i < f->n; i++) {
        const row *r = &f->rows[i];
        if (!r->summary) continue;
        const int n = (int)la_json_number(r->summary, "n");
        const int diverged = (int)la_json_number(r->summary, "diverged");
        const int failed = (int)la_json_number(r->summary, "failed");
        if (diverged)
            la_page_put(p, "<b>%s</b> diverged in %d of %d runs. ", r->name, diverged,
                        n + diverged + failed);
        if (failed)
            la_page_put(p, "<b>%s</b> failed in %d of %d runs. ", r->name, failed,
                        n + diverged + failed);
    }
}

static void put_against_counting(la_page *p, const findings *f) {
    const row *base = best_of(f, 1);
    int        better = 0, variants = 0;
    if (!base) return;
    for (size_t i = 0; i < f->n; i++) {
        const row *r = &f->rows[i];
        if (!r->summary || !isfinite(r->measure)) continue;
        variants++;
        better += f->accuracy ? r->measure > base->measure : r->measure < base->measure;
    }
    la_page_put(p,
                "%d of %d variants are better than the best reference without a model, "
                "<b>%s</b> with %.4f. ",
                better, variants, base->name, base->measure);
}

/* --- the table --- */
static void put_columns(la_page *p, const findings *f, const row *first) {
    char head[224];
    la_table_words(p, "variant");
    la_table_column(p, f->accuracy ? "accuracy" : "loss",
                    f->accuracy ? "mean over seeds" : "nats a token, mean over seeds");
    la_table_column(p, "sd", "standard deviation over seeds");
    la_table_column(p, "± 95 % CI", "half width of the 95 % confidence interval of the mean");
    if (f->accuracy) la_table_column(p, "loss", "nats a token, mean over seeds");
    snprintf(head, sizeof head, "to %.60s", first ? first->name : "the first");
    la_table_column(p, head, "difference on the same seeds");
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

static double ms_a_step(la_page *p, const findings *f, const char *variant) {
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
        la_page_put(p, " <small>(%d of %d)</small>", (int)n, (int)la_json_number(summary, "n"));
    la_page_put(p, "</td>");
}

static void put_variant(la_page *p, const findings *f, const row *r) {
    const json_t *d = difference(r);
    la_page_put(p, "<tr><th scope=\"row\">%s</th>", r->name);
    la_table_cell(p, "%.4f", r->measure);
    la_table_cell(p, "%.4f", statistic(r, measure_of(f), "sd"));
    la_table_cell(p, "%.4f", statistic(r, measure_of(f), "ci95"));
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

static void put_table(la_page *p, const findings *f) {
    char         caption[256], target[64] = "";
    const double at = la_json_number(f->problem, "target");
    if (isfinite(at)) snprintf(target, sizeof target, "; target: %.4g", at);
    snprintf(caption, sizeof caption, "%.100s: final validation %s%s%s", f->name, measure_of(f),
             f->accuracy ? "" : ", nats a token", target);
    la_table_begin(p, caption);
    put_columns(p, f, first_variant(f));
    for (size_t i = 0; i < f->n; i++) {
        const row *r = &f->rows[i];
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
static void put_seeds(la_page *p, la_chart *c, const findings *f, const row *r, double y) {
    const json_t *list = la_page_list(p, "runs"), *run;
    la_chart_series(c, LA_CHART_DOTS, r->variant);
    for (size_t i = 0; (run = json_array_get(list, i)); i++)
        if (la_json_is_of(run, f->name, r->name) && la_json_is_counted(run))
            la_chart_point(c,
                           la_json_number(json_object_get(run, "final"),
                                          f->accuracy ? "val_accuracy" : "val_loss"),
                           y - .22);
}

static void put_chart(la_page *p, const findings *f) {
    char      caption[512];
    la_chart *c = la_chart_begin(f->accuracy ? "validation accuracy (share of right answers)"
                                             : "validation loss (nats a token)",
                                 "");
    for (size_t i = 0; i < f->n; i++) {
        const row *r = &f->rows[i];
        if (!r->summary || !isfinite(r->measure)) continue;
        const double y = la_chart_row(c, r->name);
        put_seeds(p, c, f, r, y);
        la_chart_series(c, LA_CHART_POINT, r->variant);
        la_chart_interval(c, r->measure, y, statistic(r, measure_of(f), "ci95"));
    }
    snprintf(
        caption, sizeof caption,
        "%.100s: final validation %s of each variant, best first. Large: the mean with its 95 %% "
        "confidence interval; small, below: each seed. %s is better.",
        f->name, measure_of(f), f->accuracy ? "Right" : "Left");
    la_page_put(p, "<div class=\"charts\">\n");
    la_chart_end(p, c, caption);
    la_page_put(p, "</div>\n");
}

static void put_problem(la_page *p, const json_t *problem) {
    findings f = {.problem = problem, .name = la_json_text(problem, "name")};
    f.accuracy = strcmp(la_json_text(problem, "measure"), "val_accuracy") == 0;
    gather(p, &f);
    const row *first = first_variant(&f);
    if (!f.n) return;
    la_page_put(p, "<h3>%s</h3>\n<p>", f.name);
    put_best(p, &f);
    for (int which = 1; first && which >= -1; which--)
        put_group(p, &f, first, f.accuracy ? which : -which);
    put_lost(p, &f);
    put_against_counting(p, &f);
    la_page_put(p, "</p>\n");
    put_chart(p, &f);
    put_table(p, &f);
}

void la_page_findings(la_page *p) {
    const json_t *list = la_page_list(p, "problems"), *q;
    if (!json_array_size(la_page_list(p, "summary"))) return;
    la_page_section(p, "findings", "Findings");
    for (size_t i = 0; (q = json_array_get(list, i)); i++) put_problem(p, q);
}
