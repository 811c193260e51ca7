/* screen.c -- progress over all runs, and the table at the end. */
#include "train/compare/screen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "train/compare/numbers.h"
#include "train/report.h"
#include "train/system.h"

/* Work of a run: nominal flops of all its steps. */
static double work_of(const la_run_plan *r) { return r->flops * (double)(r->steps ? r->steps : 1); }

/* Steps that a training at work has done: the last whole line of its metrics. */
static double steps_done(const la_comparison *k, const la_run_plan *r) {
    char text[2048], path[4096];
    snprintf(path, sizeof path, "%s/runs/%s/metrics.jsonl", k->dir, r->id);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (fseek(f, -(long)sizeof text + 1, SEEK_END)) rewind(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    char *end = strrchr(text, '\n');
    if (!end) return 0;
    *end = 0;
    char *line = strrchr(text, '\n');
    line = strstr(line ? line : text, "\"step\": ");
    return line ? strtod(line + strlen("\"step\": "), NULL) : 0;
}

static void totals(const la_comparison *k, double *done, double *all, int *recorded) {
    *done = *all = 0;
    *recorded = 0;
    for (int i = 0; i < k->n_runs; i++) {
        const la_run_plan *r = k->run + i;
        *all += work_of(r);
        if (r->state == LA_RUN_RECORDED) *done += work_of(r), ++*recorded;
        if (r->state == LA_RUN_GOING && r->steps)
            *done += work_of(r) * steps_done(k, r) / (double)r->steps;
    }
}

static void clear(const la_comparison *k) {
    if (k->screen.bar) printf("\r%*s\r", k->screen.columns - 1, "");
}

static void begin(la_comparison *k) {
    struct winsize w;
    int            recorded;
    double         all;
    la_screen     *s = &k->screen;
    s->bar =
        !k->c->quiet && isatty(STDOUT_FILENO) && getenv("TERM") && strcmp(getenv("TERM"), "dumb");
    s->columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 80;
    s->started = la_seconds();
    totals(k, &s->before, &all, &recorded);
    s->told = recorded;
    for (int i = 0; i < k->n_runs; i++) k->run[i].told = k->run[i].state == LA_RUN_RECORDED;
}

static void tell(la_comparison *k, const la_run_plan *r, int recorded, const char *eta) {
    const json_t *final = json_object_get(r->record, "final"),
                 *loss = json_object_get(final, "val_loss");
    const json_t *accuracy = json_object_get(final, "val_accuracy");
    char          result[96];
    if (json_is_number(accuracy))
        snprintf(result, sizeof result, "val acc %.4f", json_number_value(accuracy));
    else if (json_is_number(loss))
        snprintf(result, sizeof result, "val loss %.4f", json_number_value(loss));
    else
        snprintf(result, sizeof result, "%s",
                 json_string_value(json_object_get(r->record, "status")));
    clear(k);
    printf("%3d/%d  %s, %s, seed %lld%s, lr %g: %s after %lld steps, %.0f s; about %s left\n",
           recorded, k->n_runs, k->problem[r->problem].name, k->variant[r->variant].name,
           (long long)r->seed, r->sweep ? " (sweep)" : "", r->lr, result,
           (long long)json_integer_value(json_object_get(r->record, "steps")),
           json_number_value(json_object_get(json_object_get(r->record, "timing"), "seconds")),
           eta);
    fflush(stdout);
}

void la_screen_progress(la_comparison *k) {
    la_screen *s = &k->screen;
    double     done, all;
    int        recorded;
    char       eta[LA_TIME_TEXT];
    if (k->c->quiet) return;
    if (!s->started) begin(k);
    if (la_seconds() - s->drawn < 0.5) return;
    s->drawn = la_seconds();
    totals(k, &done, &all, &recorded);
    double fresh = done - s->before, elapsed = la_seconds() - s->started;
    la_time_text(fresh > 0 ? elapsed * (all - done) / fresh : 0, eta);
    for (int i = 0; i < k->n_runs && s->told < recorded; i++) {
        la_run_plan *r = k->run + i;
        if (r->state != LA_RUN_RECORDED || r->told) continue;
        tell(k, r, ++s->told, fresh > 0 ? eta : "?");
        r->told = 1;
    }
    if (!s->bar) return;
    int bars = (int)(20 * done / all);
    printf("\r%3.0f%% [%.*s%.*s] %d of %d runs, %s left ", floor(100 * done / all), bars,
           "####################", 20 - bars, "....................", recorded, k->n_runs,
           fresh > 0 ? eta : "?");
    fflush(stdout);
}

void la_screen_end(la_comparison *k) {
    k->screen.drawn = 0;
    la_screen_progress(k); /* what ended since the last line */
    clear(k);
    fflush(stdout);
    k->screen.started = 0;
}

void la_screen_step(const la_comparison *k, const char *what, const char *whose) {
    char text[160];
    if (k->c->quiet) return;
    snprintf(text, sizeof text, "measuring %d of %d: %s, %s", k->screen.measured + 1,
             k->screen.measures, what, whose);
    if (k->screen.bar)
        printf("\r%-*.*s", k->screen.columns - 1, k->screen.columns - 1, text);
    else
        puts(text);
    fflush(stdout);
}

void la_screen_plan(const la_comparison *k) {
    int recorded = 0, sweeps = 0;
    if (k->c->quiet) return;
    for (int i = 0; i < k->n_runs; i++) {
        recorded += k->run[i].record != NULL;
        sweeps += k->run[i].sweep;
    }
    const la_config *c = k->n_runs ? &k->run[0].config : NULL;
    if (c && c->warmup_iters >= c->max_iters)
        printf("note: the learning rate rises for %lld steps and a run has %lld: for short runs, "
               "--warmup-iters %lld\n",
               (long long)c->warmup_iters, (long long)c->max_iters, (long long)c->max_iters / 10);
    printf("%d problem%s, %d variant%s, %d seed%s: %d runs%s, %d of them done; into ",
           k->n_problems, k->n_problems > 1 ? "s" : "", k->n_variants, k->n_variants > 1 ? "s" : "",
           k->n_seeds, k->n_seeds > 1 ? "s" : "", k->n_runs,
           sweeps == k->n_runs && sweeps ? " to choose learning rates" : "", recorded);
    la_print_text(k->dir);
    putchar('\n');
    if (sweeps && k->c->dry_run)
        printf("then, each with the best of its rates, %d runs\n",
               k->n_problems * k->n_variants * k->n_seeds);
    for (int i = 0; k->c->dry_run && i < k->n_runs; i++) {
        const la_run_plan *r = k->run + i;
        printf("%s  %s, %s, seed %lld, lr %g, %lld steps, %lld parameters, %.3g TFLOP\n",
               r->record ? "done" : "    ", k->problem[r->problem].name,
               k->variant[r->variant].name, (long long)r->seed, r->lr, (long long)r->steps,
               (long long)r->parameters, 1e-12 * work_of(r));
    }
    fflush(stdout);
}

void la_screen_rates(const la_comparison *k) {
    for (int p = 0; p < k->n_problems && !k->c->quiet; p++)
        for (int v = 0; v < k->n_variants; v++) {
            double rate = la_compare_rate(k, p, v), least = INFINITY, most = 0;
            if (!la_compare_chooses(k, p, v)) continue;
            for (int i = 0; i < k->n_rates; i++)
                least = fmin(least, k->rate[i]), most = fmax(most, k->rate[i]);
            printf("learning rate of %s, %s: ", k->problem[p].name, k->variant[v].name);
            if (isnan(rate))
                printf("none, all diverged\n");
            else
                printf("%g%s\n", rate,
                       rate == most    ? ", the highest that was tried"
                       : rate == least ? ", the lowest that was tried"
                                       : "");
        }
}

/* 1: it has a (*). */
static int print_row(const json_t *row, const char *measure, int width) {
    const json_t *s = json_object_get(row, measure), *d = json_object_get(row, "difference");
    double        mean = la_number_of(json_object_get(s, "mean")),
           half = la_number_of(json_object_get(s, "ci95"));
    printf("  %-*s ", width, json_string_value(json_object_get(row, "variant")));
    if (isfinite(mean))
        printf("%9.4f", mean);
    else
        printf("%9s", "-");
    if (isfinite(half))
        printf(" +- %-8.4f", half);
    else
        printf(" %-11s", "");
    if (json_is_null(d) || !isfinite(la_number_of(json_object_get(d, "mean"))))
        printf(" %-28s", "");
    else if (isfinite(la_number_of(json_object_get(d, "ci95"))))
        printf(" %+8.4f +- %-7.4f %-8s", la_number_of(json_object_get(d, "mean")),
               la_number_of(json_object_get(d, "ci95")),
               json_is_true(json_object_get(d, "distinguishable")) ? "" : "(*)");
    else
        printf(" %+8.4f %-19s", la_number_of(json_object_get(d, "mean")), "(one seed)");
    printf(" %4.0f", la_number_of(json_object_get(row, "n")));
    if (la_number_of(json_object_get(row, "diverged")) > 0)
        printf("   %.0f diverged", la_number_of(json_object_get(row, "diverged")));
    if (la_number_of(json_object_get(row, "failed")) > 0)
        printf("   %.0f failed", la_number_of(json_object_get(row, "failed")));
    putchar('\n');
    return isfinite(la_number_of(json_object_get(d, "ci95"))) &&
           !json_is_true(json_object_get(d, "distinguishable"));
}

void la_screen_summary(const la_comparison *k, const json_t *results) {
    const json_t *summary = json_object_get(results, "summary"), *row;
    size_t        i;
    int           width = 8, starred = 0;
    for (int v = 0; v < k->n_variants; v++)
        if ((int)strlen(k->variant[v].name) > width) width = (int)strlen(k->variant[v].name);
    for (int p = 0; p < k->n_problems; p++) {
        const char *measure = k->problem[p].task ? "accuracy" : "loss";
        printf("%s: %s, mean over seeds with 95 %% interval, the difference to %s, and how many "
               "seeds\n",
               k->problem[p].name, measure, k->variant[0].name);
        json_array_foreach(summary, i,
                           row) if (!strcmp(json_string_value(json_object_get(row, "problem")),
                                            k->problem[p].name)) starred |=
            print_row(row, measure, width);
    }
    if (starred) printf("(*) not distinguishable: the interval of the difference covers 0\n");
}
