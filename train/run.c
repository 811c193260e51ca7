/* run.c -- what comes before and after the steps: options, texts, weights, the folder, the last
 * line. */
#include "train/run.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tensor/parallel.h"
#include "train/run_impl.h"
#include "train/system.h"

/* --- options and checkpoints --- */

/* A value, which may come from a checkpoint that somebody else made. */
static int print_value(const char *value) {
    char *text = strdup(value);
    if (!text) return printf("?");
    la_make_printable(text);
    int columns = printf("%s", text);
    free(text);
    return columns;
}

static void print_change(void *ctx, const char *name, const char *was, const char *now) {
    (void)ctx;
    printf("changed on resuming: %s was ", name);
    print_value(was);
    printf(", is ");
    print_value(now);
    putchar('\n');
}

static la_status take_config(la_run_state *r, const char *path, la_binding least) {
    la_config stored;
    la_config_init(&stored);
    la_status s = la_config_from_text(&stored, la_checkpoint_record(r->saved)->config, path);
    if (s != LA_OK)
        s = la_fail(LA_FORMAT, "%s", la_error());
    else
        s = la_config_take(r->c, &stored, least, r->resumes && !r->c->quiet ? print_change : NULL,
                           NULL);
    if (s == LA_OK && r->resumes && !r->c->eval_only && !*stored.val_data != !*r->c->val_data)
        s = la_fail(LA_ARG,
                    "the run was started %s --val-data, and on that its training text depends: "
                    "resume it the "
                    "same way",
                    *stored.val_data ? "with" : "without");
    la_config_free(&stored);
    return s;
}

/* Opens what --resume or --init-from names, and takes over the options it was made with. */
static la_status open_saved(la_run_state *r) {
    la_config *c = r->c;
    char      *path = NULL;
    la_status  s = LA_OK;
    r->resumes = *c->resume != 0;
    if (r->resumes && !*c->out_dir && strcmp(c->resume, "auto") && strcmp(c->resume, "last") &&
        strcmp(c->resume, "best")) {
        /* a path: its folder is the run's */
        const char *slash = strrchr(c->resume, '/');
        r->dir = slash ? strndup(c->resume, (size_t)(slash - c->resume)) : strdup(".");
        if (!r->dir) return la_fail(LA_NOMEM, "no memory for a name");
    } else
        LA_TRY(la_config_out_dir(c, &r->dir));
    if (r->resumes)
        s = la_folder_find(r->dir, c->resume, &r->saved, &path);
    else if (*c->init_from && la_checkpoint_is_ours(c->init_from)) {
        s = la_checkpoint_open(&r->saved, c->init_from);
        if (s == LA_IO) s = la_fail(LA_FORMAT, "%s", la_error());
        if (s == LA_OK && !(path = strdup(c->init_from)))
            s = la_fail(LA_NOMEM, "no memory for a name");
    } else if (*c->init_from && !c->trust_file)
        s = la_fail(LA_FORMAT,
                    "%s cannot be read, or was not written by this program and carries no hash: if "
                    "it is an HDF5 file "
                    "of weights from a source you trust, add --trust-file",
                    c->init_from);
    if (s == LA_OK && r->saved) s = take_config(r, path, r->resumes ? LA_BIND_FREE : LA_BIND_MODEL);
    if (s == LA_OK && !r->saved) s = la_config_check(c);
    if (s == LA_OK && r->resumes && !c->quiet) printf("resuming from %s\n", path);
    r->resumed_from = path;
    if (s == LA_OK && r->resumes && !strcmp(c->data, "-") && !c->eval_only)
        s = la_fail(
            LA_ARG,
            "a text from standard input cannot be read again, so this run cannot be resumed");
    return s;
}

static la_status check_corpus(const la_run_state *r) {
    const la_record *was = la_checkpoint_record(r->saved);
    uint64_t         hash = r->corpus_hash;
    int64_t          size = la_corpus_size(&r->texts.corpus);
    if (was->corpus_hash == hash && was->corpus_size == size) return LA_OK;
    return la_fail(LA_DATA,
                   "the checkpoint was trained on a text of %lld bytes with hash %016llx, and %s "
                   "has %lld bytes and "
                   "hash %016llx: resume with the same text, or start anew with --init-from",
                   (long long)was->corpus_size, (unsigned long long)was->corpus_hash, r->c->data,
                   (long long)size, (unsigned long long)hash);
}

static la_status load_weights(la_run_state *r) {
    la_params *p = r->trainer.lm->params;
    if (!r->saved && *r->c->init_from) {
        la_status s = la_weights_import(r->c->init_from, p);
        return s == LA_IO ? la_fail(LA_FORMAT, "%s", la_error()) : s;
    }
    if (!r->saved) return LA_OK;
    LA_TRY(la_checkpoint_params(r->saved, p));
    if (!r->resumes) return LA_OK;
    const la_record *was = la_checkpoint_record(r->saved);
    LA_TRY(la_checkpoint_optim(r->saved, &r->trainer.optim));
    r->step = was->step;
    r->best_val = was->best_val;
    r->best_step = was->best_step;
    return LA_OK;
}

static void show_task(const la_task *t) {
    printf("%s: vocabulary %lld, rows of %lld tokens, %lld label%s a row; accuracy at chance %.4f",
           t->def->name, (long long)t->vocab, (long long)t->length, (long long)t->labels,
           t->labels == 1 ? "" : "s", la_task_chance(t));
    if (t->shown) printf("; a guess among the row's values %.4f", la_task_shown_chance(t));
    putchar('\n');
}

static void show_plan(const la_run_state *r) {
    const la_config *c = r->c;
    la_params       *p = r->trainer.lm->params;
    if (c->quiet) return;
    char number[LA_NUMBER_TEXT];
    for (int i = 0, column = 0; i < LA_N_OPTIONS; i++) {
        const la_option *o = la_options + i;
        const char      *value = la_config_value(c, i, number);
        if (!(o->tools & LA_TOOL_TRAIN) || o->binding == LA_BIND_LOCAL || !*value) continue;
        int n = (int)(strlen(o->name) + strlen(value) + 3);
        if (column && column + n > 100) column = 0, putchar('\n');
        column += printf("%s%s=", column ? "  " : "", o->name);
        column += print_value(value);
    }
    putchar('\n');
    int on_text = !r->texts.task.def || r->texts.task.def->on_text;
    if (!c->eval_only && on_text)
        printf("%s: %lld tokens to train on, ", c->data, (long long)r->texts.train.n);
    if (on_text)
        printf("%lld to validate, vocabulary %d\n", (long long)r->texts.valid.n,
               la_tokenizer_vocab(r->texts.tokenizer));
    if (r->texts.task.def) show_task(&r->texts.task);
    printf("%lld parameters", (long long)la_params_numbers(p));
    if (la_params_frozen_numbers(p))
        printf(", and %lld numbers that are not trained", (long long)la_params_frozen_numbers(p));
    const la_memory_plan *m = &r->plan;
    printf("; memory %.1f MiB at most: weights, gradients and optimiser %.1f, step %.1f "
           "(%.1f without sharing), evaluation %.1f, saving %.1f, samples %.1f, text %.1f, "
           "program %.1f; %d threads\n",
           (double)la_memory_plan_peak(m) / 0x1p20, (double)m->train.model / 0x1p20,
           (double)m->train.step / 0x1p20, (double)la_tape_unshared(r->trainer.tape) / 0x1p20,
           (double)m->train.evaluation / 0x1p20, (double)m->saving / 0x1p20,
           (double)m->sampling / 0x1p20, (double)(m->text + m->mapped) / 0x1p20,
           (double)m->start / 0x1p20, la_threads());
    if (!strcmp(c->data, "-") && !c->dry_run && !c->eval_only)
        printf("the text comes from standard input: this run cannot be resumed\n");
    if (c->warmup_iters >= c->max_iters && c->max_iters && !c->eval_only)
        printf("note: the learning rate rises for %lld steps and this run has %lld: for a short "
               "run, --warmup-iters "
               "%lld\n",
               (long long)c->warmup_iters, (long long)c->max_iters, (long long)c->max_iters / 10);
    fflush(stdout);
}

static void print_loss(const la_run_state *r, double loss) {
    if (r->texts.task.def) {
        printf(" | val loss %.4f | val acc %.4f (chance %.4f)", loss, r->evaluator.accuracy,
               la_task_chance(&r->texts.task));
        return;
    }
    printf(" | val loss %.4f | ppl %.2f | %.3f bits/%s%s", loss, exp(loss), loss / log(2),
           r->trainer.cfg.lm.mask_token ? "hidden " : "",
           !strcmp(r->c->tokenizer, "byte") ? "byte" : "char");
}

static void print_done(const la_run_state *r) {
    printf("done: step %lld", (long long)r->step);
    if (isfinite(r->last_val)) print_loss(r, r->last_val);
    printf(" | %.1f s | ", la_seconds() - r->started);
    if (r->best_saved < 0 && r->last_saved < 0)
        printf("NOT saved");
    else
        printf("%s/%s", r->dir, r->best_saved >= 0 ? "best.h5" : "last.h5");
    if (isfinite(r->best_val) && r->best_step != r->step)
        printf(" (best: step %lld, %.4f)", (long long)r->best_step, r->best_val);
    putchar('\n');
}

/* The step of a checkpoint; -1: there is none that can be read. */
static int64_t step_of(const char *path) {
    la_checkpoint *c;
    if (la_checkpoint_open(&c, path) != LA_OK) return -1;
    int64_t step = la_checkpoint_record(c)->step;
    la_checkpoint_close(c);
    return step;
}

/* The checkpoints that are in the folder already; a run resumed from elsewhere has none of its own.
 */
static void note_saved(la_run_state *r) {
    char *best = la_folder_path(r->dir, "best.h5"), *last = la_folder_path(r->dir, "last.h5");
    r->best_saved = r->resumes && best && !access(best, F_OK) ? r->best_step : -1;
    if (r->best_saved >= 0 &&
        r->best_step == r->step) /* an older one, if that could not be saved */
        r->best_saved = step_of(best);
    r->last_saved = -1; /* saved again at the end, unless this very run has */
    if (r->resumes && last && r->resumed_from && !strcmp(r->resumed_from, last))
        r->last_saved = r->step;
    free(best);
    free(last);
}

static la_status open_folder(la_run_state *r, int argc, char **argv) {
    const la_config *c = r->c;
    la_folder_mode   mode = r->resumes     ? LA_FOLDER_RESUME
                            : c->overwrite ? LA_FOLDER_OVERWRITE
                                           : LA_FOLDER_NEW;
    struct winsize   w;
    LA_TRY(la_folder_open(&r->folder, r->dir, mode, c->keep, r->step, &r->evaluated));
    LA_TRY(la_trackers_open(&r->folder.trackers, r->dir, c->csv, c->tensorboard,
                            r->resumes ? r->step : -1));
    r->started -= r->folder.elapsed_s; /* resumed: its time goes on */
    r->skipped = r->folder.skipped;
    note_saved(r);
    LA_TRY(la_folder_run_json(&r->folder, c, argc, argv, la_corpus_size(&r->texts.corpus),
                              r->corpus_hash));
    r->bar = !c->quiet && isatty(STDOUT_FILENO) && getenv("TERM") && strcmp(getenv("TERM"), "dumb");
    r->columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 80;
    return la_config_text(c, LA_TOOL_TRAIN, &r->config_text);
}

static la_status not_finite(const la_run_state *r) {
    char what[512], where[512] = "nothing was saved before";
    snprintf(what, sizeof what, "%s", la_error());
    if (r->last_saved >= 0 || r->best_saved >= 0)
        snprintf(where, sizeof where, "the last good checkpoint is in %s", r->dir);
    return la_fail(LA_NUMERIC, "step %lld: %s; %s; try a smaller --lr or --grad-clip",
                   (long long)r->step + 1, what, where);
}

static la_status not_saved(const la_run_state *r, const char *how) {
    return la_fail(
        LA_IO, "%s step %lld, which could NOT be saved%s%s", how, (long long)r->step,
        r->last_saved >= 0 ? "; go on from an earlier step with: train --resume --out-dir " : "",
        r->last_saved >= 0 ? r->dir : "");
}

static la_status stopped(la_run_state *r, int *signal) {
    const char *name = *signal == SIGINT ? "SIGINT" : *signal == SIGTERM ? "SIGTERM" : "SIGHUP";
    if (la_run_save(r, 0)) {
        printf("stopped by %s after step %lld; go on with: train --resume --out-dir %s\n", name,
               (long long)r->step, r->dir);
        return LA_OK;
    }
    char how[64];
    snprintf(how, sizeof how, "stopped by %s after", name);
    *signal = 0;
    return not_saved(r, how);
}

static la_status train(la_run_state *r, int argc, char **argv, int *signal) {
    la_config *c = r->c;
    LA_TRY(open_folder(r, argc, argv));
    la_signals_install();
    la_status s = la_run_loop(r);
    if (s == LA_NUMERIC) return not_finite(r);
    LA_TRY(s);
    if ((*signal = la_signal_stop())) return stopped(r, signal);
    if (la_run_reached(r))
        printf("reached %.4f of the labels of test rows: ended at step %lld\n", r->last_accuracy,
               (long long)r->step);
    else if (r->step < c->max_iters)
        printf("no progress in %lld evaluations: ended at step %lld\n", (long long)c->patience,
               (long long)r->step);
    int best = la_run_save_best(r);
    if (r->last_saved != r->step) la_run_save(r, 0);
    if (!isfinite(r->last_val) &&
        la_texts_validate(&r->texts)) /* resumed with nothing left to do */
        LA_TRY(la_evaluate(&r->evaluator, &r->texts.valid, c->eval_iters, NULL, &r->last_val));
    print_done(r);
    if (r->last_saved != r->step) return not_saved(r, "the run ended at");
    return best ? LA_OK
                : la_fail(
                      LA_IO,
                      "step %lld, the best, could NOT be saved as %s/best.h5; last.h5 has it, and "
                      "to try again: train --resume --out-dir %s",
                      (long long)r->step, r->dir, r->dir);
}

static la_status dump_graph(const la_run_state *r) {
    FILE *f = fopen(r->c->dump_graph, "w");
    if (!f) return la_fail(LA_IO, "cannot write %s", r->c->dump_graph);
    la_tape_dot(r->trainer.tape, f);
    return fclose(f) ? la_fail(LA_IO, "cannot write %s", r->c->dump_graph) : LA_OK;
}

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

static la_status dry_run(la_run_state *r) {
    la_step s;
    LA_TRY(la_trainer_step(&r->trainer, r->step, &s)); /* the first step is slow: caches, threads */
    la_rate_init(&r->rate, la_seconds);
    for (int i = 0; i < 3; i++) {
        la_rate_begin(&r->rate);
        LA_TRY(la_trainer_step(&r->trainer, r->step + 1 + i, &s));
        la_rate_end(&r->rate);
    }
    char    text[LA_TIME_TEXT];
    int64_t left = r->c->max_iters - r->step, evals = evaluations_left(r);
    if (evals) LA_TRY(time_evaluation(r));
    double all = la_rate_eta(&r->rate, left, evals);
    printf("dry run: loss %.4f, %.3f ms a step, %.3f ms an evaluation, about %s (%.3f s) for %lld "
           "steps and %lld evaluations; nothing was written\n",
           s.loss, 1e3 * la_rate_median(&r->rate), 1e3 * r->rate.eval_seconds,
           la_time_text(all, text), all, (long long)left, (long long)evals);
    return LA_OK;
}

static la_status eval_only(la_run_state *r) {
    double loss;
    if (!la_texts_validate(&r->texts))
        return la_fail(LA_DATA,
                       "there is no validation text: give --val-data or a --val-frac above 0");
    LA_TRY(la_evaluate(&r->evaluator, &r->texts.valid, r->c->eval_iters, NULL, &loss));
    if (r->texts.task.def)
        printf("evaluated: %d rows", LA_TASK_TEST_ROWS);
    else
        printf("evaluated: %lld tokens", (long long)r->texts.valid.n);
    print_loss(r, loss);
    putchar('\n');
    return LA_OK;
}

static la_status prepare(la_run_state *r) {
    la_trainer_cfg cfg;
    size_t         start = la_memory_resident();
    LA_TRY(open_saved(r));
    LA_TRY(la_nonfinite_parse(r->c->on_nonfinite, &r->on_nonfinite));
    LA_TRY(la_texts_open(&r->texts, r->c, r->saved));
    if (!r->c->eval_only && !r->c->dry_run)
        r->corpus_hash = la_corpus_hash(&r->texts.corpus); /* reads it all */
    if (r->resumes && !r->c->eval_only && !r->c->dry_run) LA_TRY(check_corpus(r));
    if (r->c->sample_every) LA_TRY(la_prompt_check(r->texts.tokenizer, r->c->prompt));
    LA_TRY(la_trainer_cfg_of(r->c, r->texts.vocab, &cfg));
    cfg.task = r->texts.task.def ? &r->texts.task : NULL;
    la_writing sample = la_run_sample(r);
    LA_TRY(
        la_memory_plan_make(&r->plan, &cfg, &r->texts, r->c->sample_every ? &sample : NULL, start));
    LA_TRY(la_memory_plan_check(&r->plan, r->c));
    cfg.max_bytes = 0; /* the plan has looked */
    LA_TRY(la_trainer_create(&r->trainer, &cfg, &r->texts.train));
    LA_TRY(load_weights(r));
    la_checkpoint_close(r->saved); /* as large as the weights and moments that came out of it */
    r->saved = NULL;
    LA_TRY(la_evaluator_create(&r->evaluator, r->trainer.lm,
                               r->texts.test.def ? &r->texts.test : NULL));
    if (*r->c->dump_graph) LA_TRY(dump_graph(r));
    show_plan(r);
    return LA_OK;
}

la_status la_run_train(la_config *c, int argc, char **argv, int *signal) {
    la_run_state r = {.folder = {.lock = -1},
                      .c = c,
                      .best_val = HUGE_VAL,
                      .last_val = NAN,
                      .last_accuracy = NAN,
                      .started = la_seconds()};
    *signal = 0;
    la_rate_init(&r.rate, la_seconds);
    la_status s = prepare(&r);
    if (s == LA_OK)
        s = c->dry_run ? dry_run(&r) : c->eval_only ? eval_only(&r) : train(&r, argc, argv, signal);
    la_folder_close(&r.folder);
    la_evaluator_destroy(&r.evaluator);
    la_trainer_destroy(&r.trainer);
    la_texts_close(&r.texts);
    la_checkpoint_close(r.saved);
    free(r.config_text);
    free(r.resumed_from);
    free(r.dir);
    return s;
}
