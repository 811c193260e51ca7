/* resume.c -- what a run takes over from a checkpoint: options, weights, where it was. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/run_impl.h"

static void print_change(void *ctx, const char *name, const char *was, const char *now) {
    (void)ctx;
    printf("changed on resuming: %s was ", name);
    la_print_text(was);
    printf(", is ");
    la_print_text(now);
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
la_status la_run_open_saved(la_run_state *r) {
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
    if (s == LA_OK && r->resumes && !c->quiet) {
        printf("resuming from ");
        la_print_text(path);
        putchar('\n');
    }
    r->resumed_from = path;
    if (s == LA_OK && r->resumes && !strcmp(c->data, "-") && !c->eval_only)
        s = la_fail(LA_ARG, "a text from standard input cannot be read again: go on with --data "
                            "FILE of the same text");
    return s;
}

la_status la_run_check_corpus(const la_run_state *r) {
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

la_status la_run_load_weights(la_run_state *r) {
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

/* The step of a checkpoint; -1: it cannot be read; `likely`: there is no memory to look. */
static int64_t step_of(const char *path, int64_t likely) {
    la_checkpoint *c;
    la_status      s = la_checkpoint_open(&c, path);
    if (s != LA_OK) return s == LA_NOMEM ? likely : -1;
    int64_t step = la_checkpoint_record(c)->step;
    la_checkpoint_close(c);
    return step;
}

/* The checkpoints that are in the folder already; a run resumed from elsewhere has none of its own.
 */
void la_run_note_saved(la_run_state *r) {
    char *best = la_folder_path(r->dir, "best.h5"), *last = la_folder_path(r->dir, "last.h5");
    /* it may be an older one, if the best could not be saved */
    r->best_saved = r->resumes && best && !access(best, F_OK) ? step_of(best, r->best_step) : -1;
    r->last_saved = -1; /* saved again at the end, unless this very run has */
    if (r->resumes && last && r->resumed_from && !strcmp(r->resumed_from, last))
        r->last_saved = r->folder.last_step = r->step;
    free(best);
    free(last);
}
