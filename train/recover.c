/* recover.c -- a step that was not finite: left out, or undone by going back to a checkpoint. */
#include <math.h>
#include <stdlib.h>

#include "train/run_impl.h"

static la_status skip(la_run_state *r, const char *what) {
    int64_t most = r->on_nonfinite.times;
    if (r->skipped >= most)
        return la_fail(LA_NUMERIC, "%s, after %lld step%s in a row that %s left out", what,
                       (long long)r->skipped, r->skipped == 1 ? "" : "s",
                       r->skipped == 1 ? "was" : "were");
    la_run_clear_bar(r);
    fprintf(stderr, "warning: step %lld: %s; the step is left out, %lld of at most %lld in a row\n",
            (long long)r->step + 1, what, (long long)r->skipped + 1, (long long)most);
    return LA_OK;
}

/* Weights, moments and their count of updates; nothing is changed on failure. */
static la_status load(la_run_state *r, const char *which, int64_t *step) {
    la_checkpoint *c;
    char          *path;
    LA_TRY(la_folder_find(r->dir, which, &c, &path));
    free(path);
    *step = la_checkpoint_record(c)->step;
    la_status s = *step <= r->step ? LA_OK
                                   : la_fail(LA_FORMAT, "%s.h5 in %s is of a later step, %lld",
                                             which, r->dir, (long long)*step);
    if (s == LA_OK) s = la_checkpoint_params(c, r->trainer.lm->params);
    if (s == LA_OK) s = la_checkpoint_optim(c, &r->trainer.optim);
    la_checkpoint_close(c);
    return s;
}

/* From the newer of last.h5 and best.h5 that this run knows of; else from the other. */
static la_status load_newest(la_run_state *r, int64_t *step) {
    int         best_first = r->best_saved > r->last_saved;
    const char *names[] = {best_first ? "best" : "last", best_first ? "last" : "best"};
    int64_t     saved[] = {best_first ? r->best_saved : r->last_saved,
                       best_first ? r->last_saved : r->best_saved};
    for (int i = 0; i < 2 && saved[i] >= 0; i++) {
        if (load(r, names[i], step) == LA_OK) return LA_OK;
        la_run_clear_bar(r);
        fprintf(stderr, "skipped %s.h5: %s\n", names[i], la_error());
    }
    return la_fail(LA_FORMAT, "there is no checkpoint to go back to");
}

/* Half of --lr and of --min-lr is half of the rate at every step.  These and the rollbacks that are
 * left go into the options of later checkpoints, and so a resumed run has them. */
static la_status rollback(la_run_state *r, const char *what) {
    static const char *const left[LA_MAX_ROLLBACKS] = {"rollback:0", "rollback:1", "rollback:2"};
    la_config               *c = r->c;
    int64_t                  step = 0;
    if (r->on_nonfinite.times == 0) return la_fail(LA_NUMERIC, "%s, and no rollback is left", what);
    if (load_newest(r, &step) != LA_OK) return la_fail(LA_NUMERIC, "%s", what);
    c->on_nonfinite = left[--r->on_nonfinite.times];
    r->trainer.cfg.schedule.lr = c->lr /= 2;
    r->trainer.cfg.schedule.min_lr = c->min_lr /= 2;
    free(r->config_text);
    r->config_text = NULL;
    LA_TRY(la_config_text(c, LA_TOOL_TRAIN, &r->config_text));
    la_run_clear_bar(r);
    fprintf(stderr,
            "warning: step %lld: %s; back to the weights of step %lld, from here on with half the "
            "learning rate, --lr %g; rollbacks left: %lld\n",
            (long long)r->step + 1, what, (long long)step, c->lr, (long long)r->on_nonfinite.times);
    return LA_OK;
}

la_status la_run_recover(la_run_state *r, la_step *s) {
    char what[512];
    snprintf(what, sizeof what, "%s", la_error());
    if (r->on_nonfinite.kind == LA_NONFINITE_STOP) return LA_NUMERIC;
    LA_TRY((r->on_nonfinite.kind == LA_NONFINITE_SKIP ? skip : rollback)(r, what));
    r->skipped++;
    *s = (la_step){NAN, NAN, la_schedule_lr(&r->trainer.cfg.schedule, r->step), NAN};
    return LA_OK;
}
