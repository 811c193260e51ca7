/* loop.c -- the steps of a training: update, evaluate, show, save.
 *
 * Order at step s (s updates done): update, evaluation if due, the line of metrics, checkpoint if
 * due, sample if due. A stop between the update and the evaluation leaves a line without val_loss;
 * resuming evaluates first and adds it, so that every step has one line with the numbers of an
 * uninterrupted run; the sample of the step that is resumed is written once more. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/run_impl.h"
#include "train/system.h"
#include "train/text_stream.h"

/* --- what is shown --- */

static int line_due(const la_run_state *r) {
    int64_t every = r->c->log_interval ? r->c->log_interval : r->c->eval_interval;
    return r->step % every == 0 || r->step == r->c->max_iters;
}

static int eval_due(const la_run_state *r) {
    return la_texts_validate(&r->texts) &&
           (r->step % r->c->eval_interval == 0 || r->step == r->c->max_iters);
}

void la_run_clear_bar(const la_run_state *r) {
    if (r->bar) printf("\r%*s\r", r->columns - 1, "");
}

static la_metrics metrics(const la_run_state *r, const la_step *s, double val) {
    const la_config *c = r->c;
    double           seconds = la_rate_median(&r->rate);
    int64_t          left = c->max_iters - r->step;
    return (la_metrics){
        .step = r->step,
        .max_iters = c->max_iters,
        .loss = s ? s->loss : NAN,
        .norm = s ? s->norm : NAN,
        .lr = s ? s->lr : NAN,
        .val_loss = val,
        .accuracy = s ? s->accuracy : NAN,
        .val_accuracy = isfinite(val) ? r->last_accuracy : NAN,
        .ms = 1e3 * (r->rate.steps > 1 ? seconds : r->rate.last),
        .elapsed_s = la_seconds() - r->started,
        .tokens_per_s =
            seconds > 0 ? (double)(c->batch_size * c->grad_accum * c->block_size) / seconds : 0,
        .eta_s = la_rate_eta(&r->rate, left, (left + c->eval_interval - 1) / c->eval_interval),
        .skipped = (double)r->skipped,
        .rss_bytes = la_memory_resident()};
}

static void show(la_run_state *r, const la_metrics *m) {
    if (r->c->quiet) return;
    if (line_due(r) || isfinite(m->val_loss)) {
        la_run_clear_bar(r);
        la_metrics_line(m, stdout);
        putchar('\n');
        fflush(stdout);
    } else if (r->bar && la_seconds() - r->drawn > 0.2) {
        r->drawn = la_seconds();
        la_progress_bar(m, r->columns, stdout);
    }
}

la_writing la_run_sample(const la_run_state *r) {
    enum { TOKENS = 200 };
    return (la_writing){
        .prompt = r->c->prompt,
        .tokens = TOKENS,
        .sampler = {0.8, 200, 1, (uint64_t)(r->c->seed + r->step), 0},
        .stop = la_signal_stop,
    };
}

static la_status sample(la_run_state *r) {
    char      *text = NULL;
    size_t     size = 0;
    FILE      *out = la_text_stream(&text, &size);
    la_writing w = la_run_sample(r);
    if (!out) return la_fail(LA_NOMEM, "no memory for a sample");
    la_status s = la_write_text(r->trainer.lm, r->texts.tokenizer, &w, out, NULL);
    if (fclose(out) != 0 && s == LA_OK) s = la_fail(LA_NOMEM, "no memory for a sample");
    if (s == LA_OK) {
        s = la_folder_sample(&r->folder, r->step, text);
        la_run_clear_bar(r);
        if (!r->c->quiet)
            printf("--- sample at step %lld ---\n%s\n---\n", (long long)r->step, text);
    }
    free(text);
    return s;
}

int la_run_sample_due(const la_run_state *r) {
    return r->c->sample_every && r->step && r->step % r->c->sample_every == 0;
}

static la_status sample_if_due(la_run_state *r) {
    if (!la_run_sample_due(r)) return LA_OK;
    la_status s = sample(r);
    if (s != LA_NOMEM) return s;
    la_run_clear_bar(r); /* no reason to lose a training */
    fprintf(stderr, "warning: no sample at step %lld: %s; training goes on\n", (long long)r->step,
            la_error());
    return LA_OK;
}

/* --- saving --- */

static la_record record(const la_run_state *r) {
    return (la_record){.config = r->config_text,
                       .step = r->step,
                       .updates = r->trainer.optim.t,
                       .best_val = r->best_val,
                       .best_step = r->best_step,
                       .corpus_hash = r->corpus_hash,
                       .corpus_size = la_corpus_size(&r->texts.corpus)};
}

int la_run_save(la_run_state *r, int best) {
    la_record rec = record(r);
    la_append_warn(&r->folder.metrics, la_append_flush(&r->folder.metrics));
    la_append_warn(&r->folder.samples, la_append_flush(&r->folder.samples));
    la_status s = (best ? la_folder_save_best : la_folder_save_last)(
        &r->folder, &rec, r->trainer.lm->params, &r->trainer.optim, r->texts.tokenizer);
    if (s == LA_OK) {
        *(best ? &r->best_saved : &r->last_saved) = r->step;
        return 1;
    }
    la_run_clear_bar(r);
    fprintf(stderr, "warning: %s; training goes on\n", la_error());
    return 0;
}

int la_run_save_best(la_run_state *r) {
    int due = isfinite(r->best_val) && r->best_step == r->step && r->best_saved != r->step;
    return !due || la_run_save(r, 1);
}

/* --- the loop --- */

/* Returns LA_STATE if a signal came in between. */
static la_status evaluate(la_run_state *r, double *val) {
    double before = la_seconds();
    LA_TRY(la_evaluate(&r->evaluator, &r->texts.valid, r->c->eval_iters, la_signal_stop, val));
    r->rate.eval_seconds = la_seconds() - before;
    r->last_val = *val;
    r->last_accuracy = r->evaluator.accuracy;
    if (*val < r->best_val) {
        r->best_val = *val;
        r->best_step = r->step;
    }
    return LA_OK;
}

/* After step r->step: evaluation, line, checkpoint, sample.  s NULL: before the first step. */
static la_status after_step(la_run_state *r, const la_step *s) {
    double val = NAN;
    if (eval_due(r)) {
        la_status status = evaluate(r, &val);
        if (status != LA_OK && status != LA_STATE) return status;
    }
    la_metrics m = metrics(r, s, val);
    la_folder_metrics(&r->folder, &m);
    show(r, &m);
    int64_t every = r->c->save_interval ? r->c->save_interval : r->c->eval_interval;
    /* After the line: a checkpoint is not ahead of the metrics, unless these cannot be written.
     * Their lines then wait in memory, and each save tries again. */
    la_run_save_best(r);
    if (la_signal_stop()) return LA_OK;
    if (s && (r->step % every == 0 || r->step == r->c->max_iters || la_signal_save()))
        la_run_save(r, 0);
    return sample_if_due(r);
}

static int out_of_patience(const la_run_state *r) {
    return r->c->patience && la_texts_validate(&r->texts) &&
           (r->step - r->best_step) / r->c->eval_interval >= r->c->patience;
}

int la_run_reached(const la_run_state *r) {
    return r->c->stop_at > 0 && r->last_accuracy >= r->c->stop_at;
}

/* The loss of step r->step + 1. */
static void note_spike(la_run_state *r, double loss) {
    double median;
    if (!la_spike(&r->spikes, r->step + 1, loss, &median) || r->c->quiet) return;
    la_run_clear_bar(r);
    fprintf(stderr, "note: loss spike at step %lld: %.4f against a median of %.4f\n",
            (long long)r->step + 1, loss, median);
}

la_status la_run_loop(la_run_state *r) {
    if (!r->resumes)
        LA_TRY(after_step(r, NULL));
    else if (eval_due(r) && (!r->evaluated || r->c->stop_at > 0)) {
        /* stopped within that evaluation, or perhaps ended by it */
        double    val;
        la_status s = evaluate(r, &val);
        if (s == LA_OK && !r->evaluated) {
            /* first: the line says that the checkpoint resumed from knows of this loss */
            if (r->best_step == r->step) {
                r->last_saved = -1;
                la_run_save_best(r);
                la_run_save(r, 0);
            }
            s = la_folder_add_val_loss(&r->folder, r->step, val, r->last_accuracy);
        }
        if (s != LA_OK && s != LA_STATE) return s;
    }
    if (r->resumes) {
        la_run_save_best(r);
        /* perhaps it was stopped before that, or cut it short: the file has it no more */
        if (!la_signal_stop()) LA_TRY(sample_if_due(r));
    }
    while (r->step < r->c->max_iters && !la_signal_stop() && !out_of_patience(r) &&
           !la_run_reached(r)) {
        la_step s;
        la_rate_begin(&r->rate);
        la_status status = la_trainer_step(&r->trainer, r->step, &s);
        if (status == LA_OK) {
            la_rate_end(&r->rate);
            r->skipped = 0;
            note_spike(r, s.loss);
        } else if (status == LA_NUMERIC)
            status = la_run_recover(r, &s);
        if (status != LA_OK) {
            la_run_clear_bar(r);
            return status;
        }
        r->step++;
        LA_TRY(after_step(r, &s));
    }
    la_run_clear_bar(r);
    return LA_OK;
}
