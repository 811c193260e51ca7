/* budget.c -- how many steps a run has: --budget steps:N, tokens:N or seconds:N.
 *
 * Seconds become steps by the median time of a step, measured once on this machine and kept as a
 * record: a comparison that goes on has the steps it began with.  Evaluations come on top. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/hash.h"
#include "tensor/parallel.h"
#include "tensor/words.h"
#include "train/bench.h"
#include "train/compare/compare.h"
#include "train/setup.h"
#include "train/system.h"

enum { WARM = 3, TIMED = 15 }; /* steps */

la_status la_compare_number(const char *text, bool whole, double least, double most,
                            const char *what, double *x) {
    char shown[LA_SHOWN], a[LA_NUMBER_TEXT], b[LA_NUMBER_TEXT];
    if (la_read_number(text, whole, x) && *x >= least && *x <= most) return LA_OK;
    return la_fail(LA_ARG, "%s must be a %s from %s to %s, and is \"%s\"", what,
                   whole ? "whole number" : "number", la_number_text(least, a),
                   la_number_text(most, b), la_shown(text, shown));
}

static la_status time_steps(const la_config *c, la_texts *texts, la_trainer *t, double *seconds) {
    la_trainer_cfg cfg;
    la_samples     s = {0};
    LA_TRY(la_texts_open(texts, c, NULL));
    LA_TRY(la_trainer_cfg_of(c, texts->vocab, &cfg));
    cfg.task = texts->task.def ? &texts->task : NULL;
    LA_TRY(la_trainer_create(t, &cfg, &texts->train));
    for (int i = 0; i < WARM + TIMED; i++) {
        la_step ignored;
        double  begin = la_seconds();
        LA_TRY(la_trainer_step(t, i, &ignored));
        if (i >= WARM) la_samples_add(&s, la_seconds() - begin);
    }
    *seconds = la_samples_median(&s);
    return LA_OK;
}

/* As a run has its steps: with its share of the threads. */
static la_status measure(const la_comparison *k, const la_run_plan *r, double *seconds) {
    la_texts   texts = {0};
    la_trainer t = {0};
    int        all = la_threads();
    la_threads_set(la_job_threads(k));
    la_status s = time_steps(&r->config, &texts, &t, seconds);
    la_threads_set(all);
    la_trainer_destroy(&t);
    la_texts_close(&texts);
    return s;
}

/* The options of a run but for those that do not change the time of a step, and its threads. */
static la_status timing_name(la_comparison *k, const la_run_plan *r, const char **name) {
    uint64_t hash = LA_HASH64_START;
    int      threads = la_job_threads(k);
    for (int i = 1; i < r->argc; i++)
        if (strncmp(r->argv[i], "--seed=", 7) && strncmp(r->argv[i], "--lr=", 5) &&
            strncmp(r->argv[i], "--min-lr=", 9))
            hash = la_hash64(hash, r->argv[i], strlen(r->argv[i]) + 1);
    hash = la_hash64(hash, &threads, sizeof threads);
    *name = la_arena_printf(&k->arena, "step-time-%016llx", (unsigned long long)hash);
    return *name ? LA_OK : la_fail(LA_NOMEM, "no memory for a name");
}

static la_status step_seconds(la_comparison *k, const la_run_plan *r, double *seconds) {
    const char *name;
    json_t     *known;
    LA_TRY(timing_name(k, r, &name));
    *seconds = json_number_value(json_object_get(k->step_seconds, name));
    if (*seconds > 0) return LA_OK;
    LA_TRY(la_record_load(k, name, &known));
    *seconds = json_number_value(json_object_get(known, "seconds"));
    if (!known) LA_TRY(measure(k, r, seconds));
    json_object_set_new(k->step_seconds, name, json_real(*seconds));
    if (!known && !k->c->dry_run)
        LA_TRY(la_record_save(k, name, json_pack("{s:f}", "seconds", *seconds)));
    json_decref(known);
    if (*seconds > 0) return LA_OK;
    return la_fail(LA_IO, "the record %s has no time of a step: remove it", name);
}

la_status la_compare_budget(la_comparison *k, const la_run_plan *r, int64_t *steps) {
    static const char *const kinds[] = {"steps:", "tokens:", "seconds:"};
    const char              *text = k->c->budget;
    const la_config         *c = &r->config;
    double                   n, seconds;
    int                      kind = 0;
    *steps = 0;
    if (!*text) return LA_OK;
    while (kind < 3 && strncmp(text, kinds[kind], strlen(kinds[kind]))) kind++;
    if (kind == 3)
        return la_fail(LA_ARG, "--budget must be steps:N, tokens:N or seconds:N, and is \"%s\"",
                       text);
    LA_TRY(la_compare_number(text + strlen(kinds[kind]), kind == 0, kind == 2 ? 0.001 : 1, 1e12,
                             "the number of --budget", &n));
    if (la_config_given(k->c, LA_OPT_max_iters))
        return la_fail(LA_ARG,
                       "--budget and --max-iters both say how long a run is: give one of them");
    if (kind == 1) n /= (double)(c->batch_size * c->grad_accum * c->block_size);
    if (kind == 2) {
        LA_TRY(step_seconds(k, r, &seconds));
        n /= seconds;
    }
    *steps = n < 1 ? 1 : (int64_t)ceil(n - 1e-9);
    return LA_OK;
}
