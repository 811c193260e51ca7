/* findings.c -- who was better, in words; a table and a chart of each problem follow. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/page/findings.h"

double la_finding_number(const la_finding *r, const char *of, const char *what) {
    return la_json_number(json_object_get(r->summary, of), what);
}

const char *la_findings_measure(const la_findings *f) { return f->accuracy ? "accuracy" : "loss"; }

/* Lower loss first, higher accuracy first, what is not known last. */
static int by_loss(const void *a, const void *b) {
    const double x = ((const la_finding *)a)->measure, y = ((const la_finding *)b)->measure;
    if (!isfinite(x) || !isfinite(y)) return isfinite(y) - isfinite(x);
    return (x > y) - (x < y);
}

static int by_accuracy(const void *a, const void *b) {
    const double x = ((const la_finding *)a)->measure, y = ((const la_finding *)b)->measure;
    if (!isfinite(x) || !isfinite(y)) return isfinite(y) - isfinite(x);
    return (x < y) - (x > y);
}

enum { GUESSES = 2 }; /* references of a task beside its baselines                       */

static void add_guess(la_findings *f, const char *name, double measure) {
    if (!isfinite(measure)) return;
    f->rows[f->n] = (la_finding){.measure = measure, .loss = NAN, .variant = -1};
    snprintf(f->rows[f->n].words, LA_NAME_TEXT, "%s", name);
    f->n++;
}

static void add_baseline(la_findings *f, const json_t *b, double measure, double loss) {
    if (!isfinite(measure) && !isfinite(loss)) return;
    f->rows[f->n] = (la_finding){.measure = measure, .loss = loss, .variant = -1};
    la_baseline_words(b, f->rows[f->n].words);
    f->counts |= la_baseline_counts(b);
    f->n++;
}

/* The rows are to be freed. */
static void gather(la_page *p, la_findings *f) {
    const json_t *list = la_page_list(p, "summary"), *s, *b;
    const size_t  most =
        json_array_size(list) + json_array_size(json_object_get(f->problem, "baselines")) + GUESSES;
    f->rows = calloc(most, sizeof *f->rows);
    if (!f->rows) {
        if (p->status == LA_OK) p->status = la_fail(LA_NOMEM, "no memory for %zu findings", most);
        return;
    }
    for (size_t i = 0; (s = json_array_get(list, i)); i++) {
        if (!la_json_is_of(s, f->name, NULL)) continue;
        la_finding *r = &f->rows[f->n++];
        *r = (la_finding){.summary = s, .name = la_json_text(s, "variant")};
        r->variant = la_page_variant(p, r->name);
        r->measure = la_finding_number(r, la_findings_measure(f), "mean");
        r->loss = la_finding_number(r, "loss", "mean");
    }
    if (!f->n) return;
    list = json_object_get(f->problem, "baselines");
    for (size_t i = 0; (b = json_array_get(list, i)); i++) {
        const double loss = la_json_number(b, "loss");
        add_baseline(f, b, f->accuracy ? NAN : loss, loss);
    }
    if (f->accuracy) {
        add_guess(f, "a guess among all answers", la_json_number(f->problem, "chance"));
        add_guess(f, "a guess among the answers in the row",
                  la_json_number(f->problem, "context_chance"));
    }
    qsort(f->rows, f->n, sizeof *f->rows, f->accuracy ? by_accuracy : by_loss);
}

/* --- words --- */
const json_t *la_finding_difference(const la_finding *r) {
    const json_t *d = r->summary ? json_object_get(r->summary, "difference") : NULL;
    return json_is_object(d) ? d : NULL;
}

const la_finding *la_findings_first(const la_findings *f) {
    for (size_t i = 0; i < f->n; i++)
        if (f->rows[i].summary && f->rows[i].variant == 0) return &f->rows[i];
    return NULL;
}

static const la_finding *best_of(const la_findings *f, int baselines) {
    for (size_t i = 0; i < f->n; i++)
        if ((f->rows[i].summary == NULL) == baselines && isfinite(f->rows[i].measure))
            return &f->rows[i];
    return NULL;
}

static void put_best(la_page *p, const la_findings *f) {
    const la_finding *best = best_of(f, 0);
    if (!best) {
        la_page_put(p, "No run came to a result. ");
        return;
    }
    const double half = la_finding_number(best, la_findings_measure(f), "ci95");
    const double n = la_json_count(best->summary, "n");
    la_page_put(p, "The %s mean %s is that of <b>%s</b>, %.4f", f->accuracy ? "highest" : "lowest",
                f->accuracy ? "validation accuracy" : "validation loss", best->name, best->measure);
    if (!f->accuracy) la_page_put(p, " nats a token");
    if (isfinite(half))
        la_page_put(p, " ± %.4f (%.0f seeds; half width of the 95 %% confidence interval). ", half,
                    n);
    else
        la_page_put(p, ", from %.0f seed%s: no interval. ", n, n == 1 ? "" : "s");
}

/* "Higher than softmax: a (+0.01), b (+0.02). "; which: 1 above, -1 below, 0 not told apart */
static void put_group(la_page *p, const la_findings *f, const la_finding *first, int which) {
    int n = 0;
    for (size_t i = 0; i < f->n; i++) {
        const la_finding *r = &f->rows[i];
        const json_t     *d = la_finding_difference(r);
        const double      mean = la_json_number(d, "mean");
        if (!d || !isfinite(mean) || !isfinite(la_json_number(d, "ci95"))) continue;
        const int sure = json_is_true(json_object_get(d, "distinguishable"));
        const int is = sure ? (mean > 0 ? 1 : -1) : 0;
        if (is != which) continue;
        if (!n++) {
            if (which)
                la_page_put(p, "%s %s than %s, on the same seeds: ", which > 0 ? "Higher" : "Lower",
                            la_findings_measure(f), first->name);
            else
                la_page_put(p, "Not distinguishable from %s: ", first->name);
        } else {
            la_page_put(p, ", ");
        }
        la_page_put(p, "<b>%s</b> (%+.4f ± %.4f)", r->name, mean, la_json_number(d, "ci95"));
    }
    if (n) la_page_put(p, ". ");
}

/* There was no run to count: the sweep found no rate. */
static void put_no_rate(la_page *p, const la_findings *f, const la_finding *r) {
    const json_t *list = la_page_list(p, "sweeps"), *e, *t;
    int           n = 0;
    la_page_put(p, "Every learning rate that was tried ");
    for (size_t i = 0; (e = json_array_get(list, i)); i++)
        for (size_t k = 0; la_json_is_of(e, f->name, r->name) &&
                           (t = json_array_get(json_object_get(e, "tried"), k));
             k++)
            la_page_put(p, n++ ? ", %g" : "(%g", la_json_count(t, "lr"));
    la_page_put(p, "%sdiverged for <b>%s</b>. ", n ? ") " : "", r->name);
}

static void put_lost(la_page *p, const la_findings *f) {
    for (size_t i = 0; i < f->n; i++) {
        const la_finding *r = &f->rows[i];
        if (!r->summary) continue;
        const double n = la_json_count(r->summary, "n");
        const double diverged = la_json_count(r->summary, "diverged");
        const double failed = la_json_count(r->summary, "failed");
        if (n == 0 && json_is_null(json_object_get(r->summary, "lr"))) put_no_rate(p, f, r);
        if (diverged > 0)
            la_page_put(p, "<b>%s</b> diverged in %.0f of %.0f runs. ", r->name, diverged,
                        n + diverged + failed);
        if (failed > 0)
            la_page_put(p, "<b>%s</b> failed in %.0f of %.0f runs. ", r->name, failed,
                        n + diverged + failed);
    }
}

/* "No variant is below 1.6700, the loss of 5-gram counts. ": of the best reference. */
static void put_against_counting(la_page *p, const la_findings *f) {
    const la_finding *base = best_of(f, 1);
    const char       *side = f->accuracy ? "above" : "below";
    int               better = 0, variants = 0, n = 0;
    if (!base) return;
    for (size_t i = 0; i < f->n; i++) {
        const la_finding *r = &f->rows[i];
        if (!r->summary || !isfinite(r->measure)) continue;
        variants++;
        better += f->accuracy ? r->measure > base->measure : r->measure < base->measure;
    }
    if (!variants) return;
    if (better == variants && variants > 1)
        la_page_put(p, "Every variant is %s ", side);
    else if (!better)
        la_page_put(p, "No variant is %s ", side);
    else /* the best are the first */
        la_page_put(p, f->accuracy ? "Above " : "Below ");
    la_page_put(p, "%.4f, the %s of <b>%s</b>", base->measure, la_findings_measure(f), base->words);
    if (better && (better < variants || variants == 1))
        for (size_t i = 0; n < better; i++)
            if (f->rows[i].summary)
                la_page_put(p, n++ ? ", <b>%s</b>" : ": <b>%s</b>", f->rows[i].name);
    la_page_put(p, ". ");
}

static void put_problem(la_page *p, const json_t *problem) {
    la_findings f = {.problem = problem, .name = la_json_text(problem, "name")};
    f.accuracy = strcmp(la_json_text(problem, "measure"), "val_accuracy") == 0;
    gather(p, &f);
    const la_finding *first = la_findings_first(&f);
    if (!f.n) {
        free(f.rows);
        return;
    }
    la_page_put(p, "<h3>%s</h3>\n<p>", f.name);
    put_best(p, &f);
    for (int which = 1; first && which >= -1; which--)
        put_group(p, &f, first, f.accuracy ? which : -which);
    put_lost(p, &f);
    put_against_counting(p, &f);
    la_page_put(p, "</p>\n");
    la_findings_chart(p, &f);
    la_findings_table(p, &f);
    if (f.counts)
        la_page_put(p,
                    "<p class=\"note\">Counts are interpolated Witten-Bell counts of the training "
                    "part, evaluated on the same tokens; their context runs across windows.</p>\n");
    free(f.rows);
}

/* Of any entry, those that were lost too. */
static double most_seeds(la_page *p) {
    const json_t *list = la_page_list(p, "summary"), *s;
    double        most = 0;
    for (size_t i = 0; (s = json_array_get(list, i)); i++)
        most = fmax(most, la_json_count(s, "n") + la_json_count(s, "diverged") +
                              la_json_count(s, "failed"));
    return most;
}

void la_page_findings(la_page *p) {
    const json_t *list = la_page_list(p, "problems"), *q;
    if (!json_array_size(la_page_list(p, "summary"))) return;
    la_page_section(p, "findings", "Findings");
    if (most_seeds(p) > 1)
        la_page_put(p, "<p>Differences are to the first variant, paired by seed. Intervals are "
                       "Student's t at 95 %%; p is of a two-sided paired t test, not corrected for "
                       "the number of comparisons.</p>\n");
    else
        la_page_put(p, "<p>One seed has no interval and no p: whether a difference is more than "
                       "chance cannot be told from it.</p>\n");
    for (size_t i = 0; (q = json_array_get(list, i)); i++) put_problem(p, q);
}
