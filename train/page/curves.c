/* curves.c -- what is drawn against training and against positions: learning, lengths, rates.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "train/page/chart.h"

/* --- learning --- */
typedef enum against { STEPS, SECONDS, FLOPS } against;

static double x_of(const json_t *run, against what, size_t i) {
    const double step = la_json_at(json_object_get(json_object_get(run, "curve"), "step"), i);
    if (what == STEPS) return step;
    if (what == FLOPS) return step * la_json_number(run, "flops_per_step");
    return la_json_at(json_object_get(json_object_get(run, "timing"), "elapsed_s"), i);
}

static double y_of(const json_t *run, const char *measure, size_t i) {
    return la_json_at(json_object_get(json_object_get(run, "curve"), measure), i);
}

static size_t length_of(const json_t *run) {
    return json_array_size(json_object_get(json_object_get(run, "curve"), "step"));
}

static void put_seeds(la_page *p, la_chart *c, const char *problem, size_t variant, against what,
                      const char *measure) {
    const json_t *list = la_page_list(p, "runs"), *run;
    const char   *name = la_page_variant_name(p, variant);
    for (size_t i = 0; (run = json_array_get(list, i)); i++) {
        if (!la_json_is_of(run, problem, name) || !la_json_is_main(run)) continue;
        la_chart_series(c, LA_CHART_THIN, (int)variant);
        for (size_t k = 0; k < length_of(run); k++)
            la_chart_point(c, x_of(run, what, k), y_of(run, measure, k));
    }
}

enum { FEW = 8 }; /* evaluations, up to which each is a point                            */

/* The mean over the runs that count, up to the last evaluation that all of them have.  What comes
 * before a twentieth of them is drawn, and does not widen the range, since all begin at equal
 * guesses; of a few evaluations nothing is left out. */
static void put_mean(la_page *p, la_chart *c, const char *problem, size_t variant, against what,
                     const char *measure) {
    const json_t *list = la_page_list(p, "runs"), *run;
    const char   *name = la_page_variant_name(p, variant);
    size_t        all = SIZE_MAX, early;
    for (size_t i = 0; (run = json_array_get(list, i)); i++)
        if (la_json_is_of(run, problem, name) && la_json_is_counted(run) && length_of(run) < all)
            all = length_of(run);
    if (all == SIZE_MAX) return;
    const int few = all <= FEW;
    early = few ? 0 : 1 + (all - 2) / 20;
    for (int part = few; part < 2; part++) {
        la_chart_series(c,
                        few    ? LA_CHART_BOTH
                        : part ? LA_CHART_LINE
                               : LA_CHART_EARLY,
                        (int)variant);
        for (size_t k = part ? early : 0; k < (part ? all : early + 1) && k < all; k++) {
            double x = 0, y = 0;
            int    n = 0;
            for (size_t i = 0; (run = json_array_get(list, i)); i++) {
                if (!la_json_is_of(run, problem, name) || !la_json_is_counted(run)) continue;
                x += x_of(run, what, k);
                y += y_of(run, measure, k);
                n++;
            }
            la_chart_point(c, x / n, y / n);
        }
    }
}

static void put_levels(la_chart *c, const json_t *problem, int accuracy) {
    const json_t *list = json_object_get(problem, "baselines"), *b;
    if (accuracy) {
        la_chart_level(c, la_json_number(problem, "chance"), "chance");
        la_chart_level(c, la_json_number(problem, "context_chance"), "1/N");
        return;
    }
    for (size_t i = 0; (b = json_array_get(list, i)); i++) {
        char words[LA_NAME_TEXT];
        la_chart_level(c, la_json_number(b, "loss"), la_baseline_words(b, words));
    }
}

static void put_learning(la_page *p, const json_t *problem, int accuracy, against what) {
    static const char *const axis[] = {"training steps", "wall time (seconds)",
                                       "work (nominal floating-point operations)"};
    static const char *const words[] = {"training steps",
                                        "wall time, with evaluations (each point: mean over seeds)",
                                        "the nominal work of training"};
    const char              *name = la_json_text(problem, "name");
    const char              *measure = accuracy ? "val_accuracy" : "val_loss";
    const json_t            *levels = json_object_get(problem, "baselines");
    char                     caption[512];
    la_chart                *c = la_chart_begin(axis[what], accuracy ? "validation accuracy"
                                                                     : "validation loss (nats a token)");
    la_chart_log(c, what == FLOPS, 0);
    if (accuracy) la_chart_y(c, 0, 1.02);
    for (size_t i = 0; i < json_array_size(la_page_list(p, "variants")); i++)
        put_seeds(p, c, name, i, what, measure);
    for (size_t i = 0; i < json_array_size(la_page_list(p, "variants")); i++)
        put_mean(p, c, name, i, what, measure);
    put_levels(c, problem, accuracy);
    snprintf(caption, sizeof caption,
             "%.100s: validation %s against %s. Thin: each seed; thick: their mean.%s", name,
             accuracy ? "accuracy" : "loss", words[what],
             accuracy ? " Grey: a guess among all answers (chance), and among the answers that "
                        "stand in the row (1/N)."
             : json_array_size(levels)
                 ? " Grey: references without a model, where they are in range."
                 : "");
    la_chart_end(p, c, caption);
}

static int has_accuracy(la_page *p, const char *problem) {
    const json_t *list = la_page_list(p, "runs"), *run;
    for (size_t i = 0; (run = json_array_get(list, i)); i++)
        if (la_json_is_of(run, problem, NULL) && la_json_is_main(run))
            for (size_t k = 0; k < length_of(run); k++)
                if (isfinite(y_of(run, "val_accuracy", k))) return 1;
    return 0;
}

/* Whether a run that counts was evaluated: the others alone make no chart. */
static int has_curves(la_page *p, const char *problem) {
    const json_t *list = la_page_list(p, "runs"), *run;
    for (size_t i = 0; (run = json_array_get(list, i)); i++)
        if (la_json_is_of(run, problem, NULL) && la_json_is_counted(run))
            for (size_t k = 0; k < length_of(run); k++)
                if (isfinite(y_of(run, "val_loss", k))) return 1;
    return 0;
}

void la_page_learning(la_page *p) {
    const json_t *list = la_page_list(p, "problems"), *q;
    int           begun = 0;
    if (p->no_gnuplot) return; /* the tables before have the results; the curves are in the CSV */
    for (size_t i = 0; (q = json_array_get(list, i)); i++) {
        const char *name = la_json_text(q, "name");
        const int   both = has_accuracy(p, name);
        if (!has_curves(p, name)) continue;
        if (!begun++) la_page_section(p, "learning", "Learning");
        la_page_put(p, "<h3>%s</h3>\n", name);
        la_charts_begin(p);
        for (int accuracy = both; accuracy >= 0; accuracy--)
            for (int what = STEPS; what <= FLOPS; what++)
                put_learning(p, q, accuracy, (against)what);
        la_charts_end(p, la_page_list(p, "runs"), name);
    }
}

/* --- positions --- */
static void put_times(la_page *p, const char *problem, double times, double least) {
    const json_t *list = la_page_list(p, "positions"), *e;
    double        length = NAN;
    char          caption[512], text[LA_NUMBER_TEXT], as_long[64];
    la_chart *c = la_chart_begin("position in the window (tokens, from 1)", "loss (nats a token)");
    la_chart_log(c, 1, 0);
    for (size_t i = 0; (e = json_array_get(list, i)); i++) {
        const json_t *from = json_object_get(e, "from"), *to = json_object_get(e, "to");
        if (!la_json_is_of(e, problem, NULL) || la_json_number(e, "times") != times) continue;
        length = la_json_number(e, "length");
        la_chart_series(c, LA_CHART_BOTH, la_page_variant(p, la_json_text(e, "variant")));
        for (size_t k = 0; k < json_array_size(from); k++) /* from 1: there is no log 0 */
            la_chart_point(c, (la_json_at(from, k) + 1 + la_json_at(to, k)) / 2,
                           la_json_at(json_object_get(e, "loss"), k));
    }
    snprintf(as_long, sizeof as_long,
             times == 1 ? "as in training" : "%g times as long as in training", times);
    if (times > least) la_chart_upright(c, length * least / times);
    snprintf(caption, sizeof caption,
             "%.100s: mean validation loss of the first seed's model by position, in windows of %s "
             "tokens, %s.%s",
             problem, la_count_text(length, text), as_long,
             times > least ? " Dotted: where the training windows ended." : "");
    la_chart_end(p, c, caption);
}

/* Whether two entries were refused for the same reason. */
static int same_refusal(const json_t *a, const json_t *b, const char *problem) {
    return la_json_is_of(b, problem, NULL) &&
           !strcmp(la_json_text(a, "refused"), la_json_text(b, "refused"));
}

/* Each reason once, after the variants that it is about; it names the length if that matters. */
static void put_refused(la_page *p, const char *problem) {
    const json_t *list = la_page_list(p, "positions"), *e, *other;
    const size_t  variants = json_array_size(la_page_list(p, "variants"));
    int           n = 0;
    for (size_t i = 0; (e = json_array_get(list, i)); i++) {
        const char *why = la_json_text(e, "refused");
        size_t      first = 0, names = 0;
        if (!la_json_is_of(e, problem, NULL) || !*why) continue;
        while (!same_refusal(e, json_array_get(list, first), problem)) first++;
        if (first < i) continue; /* said already */
        la_page_put(p, n++ ? "<li>" : "<p>Not measured:</p>\n<ul class=\"plain\">\n<li>");
        for (size_t v = 0; v < variants; v++)
            for (size_t j = i; (other = json_array_get(list, j)); j++) {
                if (!same_refusal(e, other, problem) ||
                    !la_json_is_of(other, NULL, la_page_variant_name(p, v)))
                    continue;
                la_page_put(p, "%s<b>%s</b>", names++ ? ", " : "", la_page_variant_name(p, v));
                break;
            }
        la_page_put(p, ": %s.</li>\n", why);
    }
    if (n) la_page_put(p, "</ul>\n");
}

/* Whether a loss of this problem is known. */
static int has_losses(la_page *p, const char *problem) {
    const json_t *list = la_page_list(p, "positions"), *e;
    for (size_t i = 0; (e = json_array_get(list, i)); i++)
        if (la_json_is_of(e, problem, NULL) && json_array_size(json_object_get(e, "loss")))
            return 1;
    return 0;
}

static void put_position_table(la_page *p, const char *problem) {
    const json_t *list = la_page_list(p, "positions"), *e;
    la_page_put(p, "<details><summary>All losses by position</summary>\n");
    la_table_begin(p, "Loss by position, nats a token");
    la_table_words(p, "variant");
    la_table_column(p, "length", "tokens of a window");
    la_table_column(p, "from", "position");
    la_table_column(p, "to", "position, not included");
    la_table_column(p, "loss", "nats a token");
    la_table_body(p);
    for (size_t i = 0; (e = json_array_get(list, i)); i++) {
        const json_t *from = json_object_get(e, "from");
        if (!la_json_is_of(e, problem, NULL)) continue;
        for (size_t k = 0; k < json_array_size(from); k++) {
            la_page_put(p, "<tr><th scope=\"row\">%s</th>", la_json_text(e, "variant"));
            la_table_count(p, la_json_number(e, "length"));
            la_table_count(p, la_json_at(from, k));
            la_table_count(p, la_json_at(json_object_get(e, "to"), k));
            la_table_cell(p, "%.4f", la_json_at(json_object_get(e, "loss"), k));
            la_page_put(p, "</tr>\n");
        }
    }
    la_table_end(p);
    la_page_put(p, "</details>\n");
}

/* The next larger number of times that is there; 0: none. */
static double next_times(la_page *p, const char *problem, double after) {
    const json_t *list = la_page_list(p, "positions"), *e;
    double        next = 0;
    for (size_t i = 0; (e = json_array_get(list, i)); i++) {
        const double times = la_json_count(e, "times");
        if (la_json_is_of(e, problem, NULL) && times > after && (!next || times < next))
            next = times;
    }
    return next;
}

void la_page_positions(la_page *p) {
    const json_t *list = la_page_list(p, "problems"), *q;
    int           begun = 0;
    for (size_t i = 0; (q = json_array_get(list, i)); i++) {
        const char  *name = la_json_text(q, "name");
        const double least = next_times(p, name, 0);
        if (!least) continue;
        if (!begun++) la_page_section(p, "positions", "Positions");
        la_page_put(p, "<h3>%s</h3>\n", name);
        put_refused(p, name);
        if (!has_losses(p, name)) continue;
        la_charts_begin(p);
        for (double times = least; times > 0; times = next_times(p, name, times))
            put_times(p, name, times, least);
        la_charts_end(p, la_page_list(p, "positions"), name);
        put_position_table(p, name);
    }
}
