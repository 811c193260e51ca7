/* dry_run.c -- --dry-run and --eval-only: what is done in the place of a training. */
#include "train/run_impl.h"
#include "train/system.h"

/* Of one replay, the second, times as many as there are. */
static la_status time_evaluation(la_run_state *r) {
    const la_ids *text = &r->texts.valid;
    double        loss, replays = (double)la_eval_replays(&r->evaluator, text, r->c->eval_iters);
    for (int i = 0; i < 2; i++) {
        double begin = la_seconds();
        LA_TRY(la_evaluate(&r->evaluator, text, 1, NULL, &loss));
        r->rate.eval_seconds = replays * (la_seconds() - begin);
    }
    return LA_OK;
}

/* From r->step on; a run that is resumed has had that of its step. */
static int64_t evaluations_left(const la_run_state *r) {
    int64_t every = r->c->eval_interval, last = r->c->max_iters;
    if (!la_texts_validate(&r->texts) || (r->resumes && r->step >= last)) return 0;
    return last / every - r->step / every + (last % every != 0) + !r->resumes;
}

la_status la_run_dry(la_run_state *r) {
    la_step s;
    LA_TRY(la_trainer_step(&r->trainer, r->step, &s)); /* the first step is slow: caches, threads */
    la_rate_init(&r->rate, la_seconds);
    for (int i = 0; i < 3; i++) {
        la_rate_begin(&r->rate);
        LA_TRY(la_trainer_step(&r->trainer, r->step + 1 + i, &s));
        la_rate_end(&r->rate);
    }
    char    text[LA_TIME_TEXT];
    int64_t left = r->c->max_iters > r->step ? r->c->max_iters - r->step : 0;
    int64_t evals = evaluations_left(r);
    if (evals) LA_TRY(time_evaluation(r));
    double all = la_rate_eta(&r->rate, left, evals);
    printf("dry run: loss %.4f, %.3f ms a step, %.3f ms an evaluation, about %s (%.3f s) for %lld "
           "steps and %lld evaluations; nothing was written\n",
           s.loss, 1e3 * la_rate_median(&r->rate), 1e3 * r->rate.eval_seconds,
           la_time_text(all, text), all, (long long)left, (long long)evals);
    return LA_OK;
}

la_status la_run_eval_only(la_run_state *r) {
    double loss;
    if (!la_texts_validate(&r->texts))
        return la_fail(LA_DATA,
                       "there is no validation text: give --val-data or a --val-frac above 0");
    LA_TRY(la_evaluate(&r->evaluator, &r->texts.valid, r->c->eval_iters, NULL, &loss));
    if (r->texts.task.def)
        printf("evaluated: %d rows", LA_TASK_TEST_ROWS);
    else
        printf("evaluated: %lld tokens", (long long)r->texts.valid.n);
    la_run_print_loss(r, loss);
    putchar('\n');
    return LA_OK;
}
