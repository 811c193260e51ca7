/* results.c -- from records to results.json: what was run, and the statistics over seeds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "autograd/attention/attention.h"
#include "tensor/blas.h"
#include "tensor/parallel.h"
#include "tensor/vec.h"
#include "train/compare/compare.h"
#include "train/compare/numbers.h"
#include "train/statistics.h"
#include "train/system.h"
#include "train/text_stream.h"

/* --- what was asked for, and where --- */

/* As one types it in a shell: words with other characters than these stand in '...'. */
static json_t *command(const la_comparison *k) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-=/:,+@%";
    char  *text = NULL;
    size_t n = 0;
    FILE  *out = la_text_stream(&text, &n);
    if (!out) return NULL;
    fputs("compare", out);
    for (int i = 1; i < k->argc; i++) {
        const char *word = k->argv[i];
        if (*word && !word[strspn(word, plain)]) {
            fprintf(out, " %s", word);
            continue;
        }
        fputs(" '", out);
        for (; *word; word++) fputs(*word == '\'' ? "'\\''" : (char[]){*word, 0}, out);
        putc('\'', out);
    }
    json_t *result = fclose(out) ? NULL : json_string(text);
    free(text);
    return result;
}

static json_t *machine(const la_comparison *k) {
    struct utsname u;
    char           cpu[LA_PROCESSOR];
    char           date[32] = "";
    time_t         now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%MZ", gmtime(&now));
    json_t *system =
        uname(&u) ? json_string("") : json_sprintf("%s %s %s", u.sysname, u.release, u.machine);
    return json_pack("{s:s,s:o,s:I,s:i,s:i,s:o,s:s,s:s}", "date", date, "processor",
                     json_string_nocheck(la_processor_name(cpu)), "cores",
                     (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "threads", la_job_threads(k),
                     "jobs", (int)k->c->jobs, "system", system, "vectors", la_vec_table()->name,
                     "blas", la_blas_name());
}

/* The options of train that no problem and no variant has of its own. */
static json_t *settings(const la_comparison *k) {
    json_t          *all = json_object();
    const la_config *c = k->n_runs ? &k->run[0].config : NULL;
    static const int differ[] = {LA_OPT_csv,          LA_OPT_tensorboard,  LA_OPT_overfit_batch,
                                 LA_OPT_log_interval, LA_OPT_sample_every, LA_OPT_save_interval,
                                 LA_OPT_val_data,     LA_OPT_prompt,       LA_OPT_attn,
                                 LA_OPT_data,         LA_OPT_task,         LA_OPT_seed,
                                 LA_OPT_lr,           LA_OPT_min_lr,       LA_OPT_keep};
    for (int i = 0; c && i < LA_N_OPTIONS; i++) {
        const la_option *o = la_options + i;
        char             buf[LA_NUMBER_TEXT];
        int              skip = !(o->tools & LA_TOOL_TRAIN) || o->binding == LA_BIND_LOCAL;
        for (size_t j = 0; j < sizeof differ / sizeof *differ; j++) skip |= differ[j] == i;
        for (int j = 1; !skip && j < k->n_runs; j++) {
            char other[LA_NUMBER_TEXT];
            skip = strcmp(la_config_value(&k->run[j].config, i, other),
                          la_config_value(c, i, buf)) != 0;
        }
        if (skip) continue;
        const char *value = la_config_value(c, i, buf);
        json_object_set_new(all, o->name,
                            o->type == LA_INT    ? json_integer(strtoll(value, NULL, 10))
                            : o->type == LA_REAL ? json_real(strtod(value, NULL))
                            : o->type == LA_FLAG ? json_boolean(!strcmp(value, "on"))
                                                 : json_string(value));
    }
    return all;
}

static json_t *own_options(const la_own *own) {
    json_t *all = json_object();
    for (int i = 0; i < own->n; i++) {
        const char *name = own->option[i] + 2, *value = strchr(name, '=') + 1;
        json_object_setn_new(all, name, (size_t)(value - 1 - name), json_string(value));
    }
    return all;
}

static json_t *variants(const la_comparison *k) {
    json_t *list = json_array();
    for (int i = 0; i < k->n_variants; i++) {
        const la_variant *v = k->variant + i;
        la_attn_pattern   p;
        int one = la_attn_pattern_parse(v->attn, 0, &p) == LA_OK && p.n == 1 && p.mix[0].n == 1;
        const la_attn *a = one ? p.mix[0].part[0].cfg.variant : NULL;
        json_array_append_new(list, json_pack("{s:s,s:s,s:o,s:s,s:s}", "name", v->name, "attn",
                                              v->attn, "options", own_options(&v->own), "formula",
                                              a ? a->formula : "a pattern over layers or heads",
                                              "paper", a && a->paper ? a->paper : ""));
    }
    return list;
}

/* --- statistics --- */

/* The numbers of the main runs of a problem and variant, NAN where a seed has none. */
typedef struct sample {
    int     n, diverged, failed;
    double *loss, *accuracy, *steps; /* by seed */
    double  lr;
    int64_t parameters;
} sample;

static double steps_to(const json_t *record, const char *measure, double target) {
    json_t *curve = json_object_get(record, "curve"), *step = json_object_get(curve, "step");
    size_t  n = json_array_size(step);
    double *x = malloc((n + 1) * sizeof *x), *y = malloc((n + 1) * sizeof *y), result = NAN;
    for (size_t i = 0; x && y && i < n; i++) {
        x[i] = la_number_of(json_array_get(step, i));
        y[i] = la_number_of(json_array_get(json_object_get(curve, measure), i));
    }
    if (x && y)
        result = la_steps_to((int64_t)n, x, y, target,
                             strcmp(measure, "val_loss") ? LA_AT_LEAST : LA_AT_MOST);
    free(x);
    free(y);
    return result;
}

static int seed_index(const la_comparison *k, int64_t seed) {
    int i = 0;
    while (k->seed[i] != seed) i++;
    return i;
}

static sample collect(const la_comparison *k, int problem, int variant, double target,
                      double *room) {
    sample s = {
        .loss = room, .accuracy = room + k->n_seeds, .steps = room + 2 * k->n_seeds, .lr = NAN};
    const char *measure = k->problem[problem].task ? "val_accuracy" : "val_loss";
    for (int i = 0; i < 3 * k->n_seeds; i++) room[i] = NAN;
    for (int i = 0; i < k->n_runs; i++) {
        const la_run_plan *r = k->run + i;
        if (r->problem != problem || r->variant != variant) continue;
        s.parameters = r->parameters;
        if (r->sweep) continue;
        s.lr = r->lr;
        if (!r->record) continue;
        int         at = seed_index(k, r->seed);
        json_t     *final = json_object_get(r->record, "final");
        const char *status = json_string_value(json_object_get(r->record, "status"));
        s.diverged += !strcmp(status, "diverged");
        s.failed += !strcmp(status, "failed");
        s.loss[at] = la_number_of(json_object_get(final, "val_loss"));
        s.accuracy[at] = la_number_of(json_object_get(final, "val_accuracy"));
        s.n += isfinite(s.loss[at]);
        s.steps[at] = steps_to(r->record, measure, target);
    }
    return s;
}

static json_t *statistics(la_stats s) {
    return json_pack("{s:o,s:o,s:o}", "mean", la_number_or_null(s.mean), "sd",
                     la_number_or_null(s.sd), "ci95", la_number_or_null(s.half));
}

static json_t *difference(const double *first, const double *this, int n) {
    la_paired d = la_paired_of(n, first, this);
    return json_pack("{s:I,s:o,s:o,s:o,s:o,s:b}", "n", (json_int_t)d.d.n, "mean",
                     la_number_or_null(d.d.mean), "sd", la_number_or_null(d.d.sd), "ci95",
                     la_number_or_null(d.d.half), "p", la_number_or_null(d.p), "distinguishable",
                     d.distinguishable);
}

/* What is to be reached: --target; or the highest final loss, which every run has reached, and of a
 * task, where that may be chance, an accuracy of .9. */
static double target_of(const la_comparison *k, int problem) {
    double worst = NAN;
    if (k->c->target > 0) return k->c->target;
    if (k->problem[problem].task) return .9;
    for (int i = 0; i < k->n_runs; i++) {
        const la_run_plan *r = k->run + i;
        double             loss =
            la_number_of(json_object_get(json_object_get(r->record, "final"), "val_loss"));
        if (!r->sweep && r->problem == problem) worst = fmax(worst, loss);
    }
    return worst;
}

static void summarise(const la_comparison *k, int problem, json_t *problems, json_t *list,
                      double *first, double *room) {
    int     task = k->problem[problem].task;
    double  target = target_of(k, problem);
    json_t *about = json_copy(k->problem[problem].about);
    json_object_set_new(about, "target", la_number_or_null(target));
    json_array_append_new(problems, about);
    for (int v = 0; v < k->n_variants; v++) {
        sample   s = collect(k, problem, v, target, v ? room : first);
        sample   base = collect(k, problem, 0, target, first);
        la_stats reached = la_stats_of(k->n_seeds, s.steps);
        json_t  *d =
            v ? difference(task ? base.accuracy : base.loss, task ? s.accuracy : s.loss, k->n_seeds)
               : json_null();
        json_array_append_new(
            list, json_pack("{s:s,s:s,s:o,s:i,s:i,s:i,s:I,s:o,s:o,s:o,s:{s:I,s:o}}", "problem",
                            k->problem[problem].name, "variant", k->variant[v].name, "lr",
                            la_number_or_null(s.lr), "n", s.n, "diverged", s.diverged, "failed",
                            s.failed, "parameters", (json_int_t)s.parameters, "loss",
                            statistics(la_stats_of(k->n_seeds, s.loss)), "accuracy",
                            statistics(la_stats_of(k->n_seeds, s.accuracy)), "difference", d,
                            "steps_to_target", "n", (json_int_t)reached.n, "mean",
                            reached.n == s.n ? la_number_or_null(reached.mean) : json_null()));
    }
}

static json_t *sweeps(const la_comparison *k) {
    json_t *list = json_array();
    for (int p = 0; k->n_rates > 1 && p < k->n_problems; p++)
        for (int v = 0; v < k->n_variants; v++) {
            if (!la_compare_chooses(k, p, v)) continue;
            json_t *tried = json_array();
            for (int i = 0; i < k->n_rates; i++) {
                int    n;
                double loss = la_compare_sweep_loss(k, p, v, k->rate[i], &n);
                json_array_append_new(tried, json_pack("{s:f,s:i,s:o}", "lr", k->rate[i], "n", n,
                                                       "val_loss", la_number_or_null(loss)));
            }
            json_array_append_new(
                list, json_pack("{s:s,s:s,s:o,s:o}", "problem", k->problem[p].name, "variant",
                                k->variant[v].name, "chosen",
                                la_number_or_null(la_compare_rate(k, p, v)), "tried", tried));
        }
    return list;
}

/* --- the whole --- */

json_t *la_compare_results(const la_comparison *k) {
    json_t *problems = json_array(), *summary = json_array(), *runs = json_array();
    double *room = calloc((size_t)(6 * k->n_seeds), sizeof *room);
    int     done = k->all_done && !json_array_size(k->missing);
    for (int p = 0; room && p < k->n_problems; p++)
        summarise(k, p, problems, summary, room, room + 3 * k->n_seeds);
    for (int i = 0; i < k->n_runs; i++) {
        if (k->run[i].record) json_array_append(runs, k->run[i].record);
        done &= k->run[i].record != NULL;
    }
    free(room);
    json_t *all =
        json_pack("{s:s,s:o,s:b,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:O,s:[],s:[],s:[],s:{s:[],s:[],s:["
                  "],s:[],s:[]},s:[]}",
                  "schema", "lina-results-1", "command", command(k), "complete", done, "program",
                  "lina " LA_VERSION, "machine", machine(k), "settings", settings(k), "problems",
                  problems, "variants", variants(k), "runs", runs, "sweeps", sweeps(k), "summary",
                  summary, "missing", k->missing, "positions", "entropy", "samples", "speed",
                  "length", "slopes", "crossover", "decode", "notes", "gradcheck");
    return room ? all : (json_decref(all), NULL);
}
