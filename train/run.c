/* run.c -- what comes before and after the steps: options, texts, weights, the folder, the last
 * line. */
#include "train/run.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/parallel.h"
#include "train/run_impl.h"
#include "train/system.h"
#include "train/text_stream.h"

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
        column += la_print_text(value);
    }
    putchar('\n');
    int on_text = !r->texts.task.def || r->texts.task.def->on_text;
    if (!c->eval_only && on_text) {
        la_print_text(c->data);
        printf(": %lld tokens to train on, ", (long long)r->texts.train.n);
    }
    if (on_text)
        printf("%lld to validate, vocabulary %d\n", (long long)r->texts.valid.n,
               la_tokenizer_vocab(r->texts.tokenizer));
    if (r->texts.task.def) show_task(&r->texts.task);
    printf("%lld parameters", (long long)la_params_numbers(p));
    if (la_params_frozen_numbers(p))
        printf(", and %lld numbers that are not trained", (long long)la_params_frozen_numbers(p));
    const la_memory_plan *m = &r->plan;
    printf("; memory about %.1f MiB: weights, gradients and optimiser %.1f, step %.1f "
           "(%.1f without sharing), reading %.1f, evaluation %.1f, saving %.1f, samples %.1f, text "
           "%.1f, "
           "program %.1f; %d threads\n",
           (double)la_memory_plan_peak(m) / 0x1p20, (double)m->train.model / 0x1p20,
           (double)m->train.step / 0x1p20, (double)la_tape_unshared(r->trainer.tape) / 0x1p20,
           (double)m->reading / 0x1p20, (double)m->train.evaluation / 0x1p20,
           (double)m->saving / 0x1p20, (double)m->sampling / 0x1p20,
           (double)(m->text + m->mapped) / 0x1p20, (double)m->start / 0x1p20, la_threads());
    if (!strcmp(c->data, "-") && !c->dry_run && !c->eval_only)
        printf("the text comes from standard input: this run can be resumed only with --data FILE "
               "of the same text\n");
    if (c->warmup_iters >= c->max_iters && c->max_iters && !c->eval_only)
        printf("note: the learning rate rises for %lld steps and this run has %lld: for a short "
               "run, --warmup-iters "
               "%lld\n",
               (long long)c->warmup_iters, (long long)c->max_iters, (long long)c->max_iters / 10);
    fflush(stdout);
}

void la_run_print_loss(const la_run_state *r, double loss) {
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
    if (isfinite(r->last_val)) la_run_print_loss(r, r->last_val);
    printf(" | %.1f s | ", la_seconds() - r->started);
    if (r->best_saved < 0 && r->last_saved < 0)
        printf("NOT saved");
    else {
        la_print_text(r->dir);
        printf("/%s", r->best_saved >= 0 ? "best.h5" : "last.h5");
    }
    int saved = r->best_saved == r->best_step;
    if (isfinite(r->best_val) && (r->best_step != r->step || !saved))
        printf(" (best: step %lld, %.4f%s)", (long long)r->best_step, r->best_val,
               saved ? "" : ", not in best.h5");
    putchar('\n');
}

/* *own: the checkpoint that is resumed from is in the folder that is written to. */
static la_status is_of_folder(const la_run_state *r, int *own) {
    char       *from = strdup(r->resumed_from), *slash = from ? strrchr(from, '/') : NULL;
    struct stat a, b;
    if (!from) return la_fail(LA_NOMEM, "no memory for a name");
    if (slash) slash[1] = 0; /* "/" of a file in the root */
    *own = stat(slash ? from : ".", &a) == 0 && stat(r->dir, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
    free(from);
    return LA_OK;
}

static la_status open_files(la_run_state *r) {
    const la_config *c = r->c;
    la_folder_mode   mode = c->overwrite ? LA_FOLDER_OVERWRITE : LA_FOLDER_NEW;
    int              own = 0;
    if (r->resumes) LA_TRY(is_of_folder(r, &own));
    if (own) mode = strcmp(c->resume, "auto") ? LA_FOLDER_GO_BACK : LA_FOLDER_RESUME;
    la_status s = la_folder_open(&r->folder, r->dir, mode, c->keep, r->step, &r->evaluated);
    if (s == LA_ARG && r->resumes && !own)
        return la_fail(LA_ARG,
                       "%s is of another folder than %s, which is in use: choose an --out-dir that "
                       "is empty",
                       r->resumed_from, r->dir);
    LA_TRY(s);
    LA_TRY(la_folder_open_samples(&r->folder, c->sample_every > 0,
                                  la_run_sample_due(r) ? r->step : r->step + 1));
    return la_trackers_open(&r->folder.trackers, r->dir, c->csv, c->tensorboard,
                            r->resumes ? r->step : -1);
}

static la_status open_folder(la_run_state *r, int argc, char **argv) {
    const la_config *c = r->c;
    struct winsize   w;
    LA_TRY(open_files(r));
    r->started -= r->folder.elapsed_s; /* resumed: its time goes on */
    r->skipped = r->folder.skipped;
    la_run_note_saved(r);
    LA_TRY(la_folder_run_json(&r->folder, c, argc, argv, la_corpus_size(&r->texts.corpus),
                              r->corpus_hash));
    r->bar = !c->quiet && isatty(STDOUT_FILENO) && getenv("TERM") && strcmp(getenv("TERM"), "dumb");
    r->columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 80;
    return la_config_text(c, LA_TOOL_TRAIN, &r->config_text);
}

static int is_saved(const la_run_state *r) { return r->last_saved >= 0 || r->best_saved >= 0; }

/* As a word of the shell. */
static void put_word(FILE *out, const char *s) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./=+:,@%";
    if (*s && !s[strspn(s, plain)]) {
        fputs(s, out);
        return;
    }
    fputc('\'', out);
    for (; *s; s++) fputs(*s == '\'' ? "'\\''" : (char[]){*s, 0}, out);
    fputc('\'', out);
}

/* The command by which this run goes on. */
static la_status write_go_on(la_run_state *r) {
    size_t size;
    FILE  *out = la_text_stream(&r->go_on, &size);
    if (out) {
        fputs("train --resume --out-dir ", out);
        put_word(out, r->dir);
        if (r->c->threads) fprintf(out, " --threads %lld", (long long)r->c->threads);
    }
    return out && fclose(out) == 0 ? LA_OK : la_fail(LA_NOMEM, "no memory for a sentence");
}

/* What that needs besides. */
static const char *and_text(const la_run_state *r) {
    return strcmp(r->c->data, "-") ? "" : " --data FILE, the same text";
}

static la_status not_finite(const la_run_state *r) {
    double      lr = r->c->lr / 10, min_lr = r->c->min_lr < lr ? r->c->min_lr : lr;
    char        what[512];
    const char *try =
        r->c->grad_clip > 0 ? "a smaller --lr or --grad-clip" : "a smaller --lr, or --grad-clip 1";
    snprintf(what, sizeof what, "%s", la_error());
    if (!is_saved(r))
        return la_fail(LA_NUMERIC, "step %lld: %s; nothing was saved before; try %s",
                       (long long)r->step + 1, what, try);
    return la_fail(LA_NUMERIC,
                   "step %lld: %s; the last good checkpoint is in %s; try %s, as in: %s --lr %g "
                   "--min-lr %g%s",
                   (long long)r->step + 1, what, r->dir, try, r->go_on, lr, min_lr, and_text(r));
}

static la_status not_saved(const la_run_state *r, const char *how) {
    int some = is_saved(r);
    return la_fail(LA_IO, "%s step %lld, which could NOT be saved%s%s%s", how, (long long)r->step,
                   some ? "; go on from what is there with: " : "", some ? r->go_on : "",
                   some ? and_text(r) : "");
}

static la_status best_not_saved(const la_run_state *r) {
    return la_fail(LA_IO,
                   "step %lld, the best, could NOT be saved as %s/best.h5; last.h5 has it, and to "
                   "try again: %s%s",
                   (long long)r->step, r->dir, r->go_on, and_text(r));
}

static la_status stopped(la_run_state *r, int *signal) {
    const char *name = *signal == SIGINT ? "SIGINT" : *signal == SIGTERM ? "SIGTERM" : "SIGHUP";
    if (la_run_save(r, 0) || r->last_saved == r->step) {
        if (!la_run_save_best(r)) {
            *signal = 0;
            return best_not_saved(r);
        }
        printf("stopped by %s after step %lld; go on with: ", name, (long long)r->step);
        la_print_text(r->go_on);
        puts(and_text(r));
        return LA_OK;
    }
    char how[64];
    snprintf(how, sizeof how, "stopped by %s after", name);
    *signal = 0;
    return not_saved(r, how);
}

static la_status train(la_run_state *r, int argc, char **argv, int *signal) {
    la_config *c = r->c;
    la_signals_install();
    LA_TRY(write_go_on(r));
    LA_TRY(open_folder(r, argc, argv));
    if (r->step >= c->max_iters && r->resumes && !c->quiet)
        printf("nothing left to train: the checkpoint is of step %lld and --max-iters is %lld\n",
               (long long)r->step, (long long)c->max_iters);
    /* gone back, or begun in a new folder: from here on it is resumed as it would have been */
    if (r->resumes && strcmp(c->resume, "auto") && r->last_saved != r->step) la_run_save(r, 0);
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
    if (!isfinite(r->last_val) && la_texts_validate(&r->texts)) { /* resumed, nothing was left */
        s = la_evaluate(&r->evaluator, &r->texts.valid, c->eval_iters, la_signal_stop,
                        &r->last_val);
        if (s == LA_STATE && (*signal = la_signal_stop())) return stopped(r, signal);
        LA_TRY(s);
    }
    print_done(r);
    if (r->last_saved != r->step) return not_saved(r, "the run ended at");
    return best ? LA_OK : best_not_saved(r);
}

static la_status dump_graph(const la_run_state *r) {
    FILE *f = fopen(r->c->dump_graph, "w");
    if (!f) return la_fail(LA_IO, "cannot write %s", r->c->dump_graph);
    la_tape_dot(r->trainer.tape, f);
    return fclose(f) ? la_fail(LA_IO, "cannot write %s", r->c->dump_graph) : LA_OK;
}

static void watch(const la_source *s) {
    if (s->mapped) la_watch_text(s->bytes, (size_t)s->n);
}

static la_status prepare(la_run_state *r) {
    la_trainer_cfg cfg;
    size_t         start = la_memory_resident();
    LA_TRY(la_run_open_saved(r));
    LA_TRY(la_nonfinite_parse(r->c->on_nonfinite, &r->on_nonfinite));
    LA_TRY(la_texts_open(&r->texts, r->c, r->saved));
    watch(&r->texts.corpus.source);
    watch(&r->texts.valid_corpus.source);
    if (!r->c->eval_only && !r->c->dry_run)
        r->corpus_hash = la_corpus_hash(&r->texts.corpus); /* reads it all */
    if (r->resumes && !r->c->eval_only && !r->c->dry_run) LA_TRY(la_run_check_corpus(r));
    if (r->c->sample_every) LA_TRY(la_prompt_check(r->texts.tokenizer, r->c->prompt));
    LA_TRY(la_trainer_cfg_of(r->c, r->texts.vocab, &cfg));
    cfg.task = r->texts.task.def ? &r->texts.task : NULL;
    la_writing      sample = la_run_sample(r);
    la_memory_needs needs = {.saved = r->saved, .saves = !r->c->eval_only};
    if (r->c->sample_every && needs.saves) needs.sample = &sample;
    LA_TRY(la_memory_plan_make(&r->plan, &cfg, &r->texts, &needs, start));
    LA_TRY(la_memory_plan_check(&r->plan, r->c));
    cfg.max_bytes = 0; /* the plan has looked */
    LA_TRY(la_trainer_create(&r->trainer, &cfg, &r->texts.train));
    LA_TRY(la_run_load_weights(r));
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
        s = c->dry_run     ? la_run_dry(&r)
            : c->eval_only ? la_run_eval_only(&r)
                           : train(&r, argc, argv, signal);
    la_folder_close(&r.folder);
    la_evaluator_destroy(&r.evaluator);
    la_trainer_destroy(&r.trainer);
    la_texts_close(&r.texts);
    la_checkpoint_close(r.saved);
    free(r.config_text);
    free(r.resumed_from);
    free(r.dir);
    free(r.go_on);
    return s;
}
