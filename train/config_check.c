/* config_check.c -- options against each other, and against those of a checkpoint. */
#include <stdlib.h>
#include <string.h>

#include "data/task.h"
#include "train/config_impl.h"
#include "train/nonfinite.h"

/* --- checks --- */
la_status la_config_check_request(const la_config *c) {
    bool checkpoint = *c->resume || *c->init_from;
    if (c->tool == LA_TOOL_GENERATE && !*c->checkpoint)
        return la_fail(LA_ARG,
                       "--checkpoint is missing: generate --checkpoint runs/softmax-s1337/best.h5");
    for (int i = 0; c->tool == LA_TOOL_COMPARE && *c->report && i < LA_N_OPTIONS; i++)
        if (i != LA_OPT_report && la_config_given(c, i))
            return la_fail(
                LA_ARG, "--report only writes the page of results that are there: leave out --%s",
                la_options[i].name);
    if (c->tool == LA_TOOL_COMPARE && !*c->report && (!*c->variants || (!*c->texts && !*c->tasks)))
        return la_fail(LA_ARG,
                       "--%s is missing: compare --attn=softmax --attn=elu1 --data corpus.txt",
                       *c->variants ? "data (or --task)" : "attn");
    if (c->tool != LA_TOOL_TRAIN) return LA_OK;
    if (*c->resume && *c->init_from)
        return la_fail(
            LA_ARG,
            "--resume goes on with a run and --init-from begins one: only one can be given");
    if (*c->resume && c->overwrite)
        return la_fail(LA_ARG,
                       "--resume goes on with what --overwrite deletes: only one can be given");
    if (c->eval_only && !checkpoint)
        return la_fail(LA_ARG, "--eval-only needs a model: --init-from FILE or --resume");
    if (la_config_given(c, LA_OPT_val_data) && la_config_given(c, LA_OPT_val_frac))
        return la_fail(LA_ARG,
                       "--val-data replaces the part --val-frac of --data: only one can be given");
    if (strcmp(c->data, "-") == 0 && strcmp(c->val_data, "-") == 0)
        return la_fail(LA_ARG, "--data and --val-data cannot both be standard input");
    if (!*c->data && !*c->task && !*c->resume && !(c->eval_only && *c->val_data))
        return la_fail(LA_ARG,
                       "--data is missing: train --data corpus.txt (or - for standard input; or "
                       "--task, see --list-tasks)");
    return LA_OK;
}

/* Options that a task does not go with. */
static la_status check_task(const la_config *c, const la_task *t) {
    static const int texts[] = {LA_OPT_val_data, LA_OPT_val_frac, LA_OPT_tokenizer};
    const char      *name = t->def->name;
    if (t->def->on_text && !*c->data && !(c->eval_only && *c->val_data))
        return la_fail(
            LA_ARG, "--task %s hides in a text, and --data FILE, which names it, is missing", name);
    if (!t->def->on_text && *c->data)
        return la_fail(
            LA_ARG, "--task %s makes its own rows instead of --data: only one can be given", name);
    for (int i = 0; !t->def->on_text && i < 3; i++)
        if (la_config_given(c, texts[i]))
            return la_fail(LA_ARG, "--task %s makes its own rows, and has no text for --%s", name,
                           la_options[texts[i]].name);
    if (!strcmp(c->objective, "mlm"))
        return la_fail(LA_ARG, "--task %s has its own labels, and --objective mlm hides others",
                       name);
    if (c->sample_every)
        return la_fail(LA_ARG, "--sample-every writes text, and a model of --task %s learns none",
                       name);
    if (c->block_size != t->length)
        return la_fail(LA_ARG,
                       "--block-size is %lld, and the rows of --task %s have %lld tokens: leave it "
                       "out, or give length=%lld",
                       (long long)c->block_size, name, (long long)t->length,
                       (long long)c->block_size);
    return LA_OK;
}

la_status la_config_check(const la_config *c) {
    LA_TRY(la_config_check_request(c));
    if (c->tool != LA_TOOL_TRAIN && c->tool != LA_TOOL_BENCH) return LA_OK;
    if (*c->task) {
        la_task task;
        LA_TRY(la_task_parse(c->task, &task));
        la_status s = check_task(c, &task);
        la_task_free(&task);
        LA_TRY(s);
    } else if (c->stop_at > 0)
        return la_fail(LA_ARG, "--stop-at is an accuracy, which only --task has: for a text there "
                               "is --patience");
    long long dim = c->n_embd, heads = c->n_head, below = dim / heads * heads;
    if (below == 0)
        return la_fail(LA_ARG,
                       "--n-embd must be a multiple of --n-head %lld, and is %lld: %lld would do",
                       heads, dim, heads);
    if (below != dim)
        return la_fail(
            LA_ARG,
            "--n-embd must be a multiple of --n-head %lld, and is %lld: %lld or %lld would do",
            heads, dim, below, below + heads);
    if (strcmp(c->pos, "rope") == 0 && dim / heads % 2)
        return la_fail(
            LA_ARG,
            "--pos rope needs heads of even size, and --n-embd %lld by --n-head %lld is %lld", dim,
            heads, dim / heads);
    if (c->short_conv == 1)
        return la_fail(LA_ARG, "--short-conv 1 sees no other token: take 2 or more, or 0 for none");
    la_attn_pattern attn;
    LA_TRY(la_attn_pattern_parse(c->attn, c->eps, &attn));
    if (c->tool == LA_TOOL_TRAIN) /* bench has sizes of its own where it has no model */
        LA_TRY(la_attn_pattern_complete(&attn, c->n_layer, heads, dim, c->block_size,
                                        !strcmp(c->objective, "mlm")));
    if (c->sample_every && !strcmp(c->objective, "mlm"))
        return la_fail(LA_ARG,
                       "--sample-every writes the next token again and again, and a model of "
                       "--objective mlm has none: it fills in hidden tokens of a whole text");
    la_nonfinite ignored;
    LA_TRY(la_nonfinite_parse(c->on_nonfinite, &ignored));
    if (strcmp(c->schedule, "constant") != 0 && c->min_lr > c->lr) {
        char low[LA_NUMBER_TEXT], high[LA_NUMBER_TEXT];
        return la_fail(LA_ARG, "--min-lr must not be above --lr %s, and is %s%s",
                       la_number_text(c->lr, high), la_number_text(c->min_lr, low),
                       la_config_given(c, LA_OPT_min_lr) ? "" : " by default: give both");
    }
    return LA_OK;
}

/* --- checkpoints --- */
static bool same_value(const la_config *a, const la_config *b, int i) {
    const void *x = la_config_field(a, i), *y = la_config_field(b, i);
    switch (la_options[i].type) {
    case LA_INT:
        return *(const int64_t *)x == *(const int64_t *)y;
    case LA_REAL:
        return *(const double *)x == *(const double *)y;
    case LA_FLAG:
        return *(const bool *)x == *(const bool *)y;
    default:
        return strcmp(la_config_string(a, i), la_config_string(b, i)) == 0;
    }
}

void la_config_diff(const la_config *was, const la_config *now, la_config_change_fn *differs,
                    void *ctx) {
    for (int i = 0; i < LA_N_OPTIONS; i++) {
        char a[LA_NUMBER_TEXT], b[LA_NUMBER_TEXT];
        if (la_options[i].binding == LA_BIND_LOCAL || !(la_options[i].tools & now->tool)) continue;
        if (same_value(was, now, i)) continue;
        differs(ctx, la_options[i].name, la_config_value(was, i, a), la_config_value(now, i, b));
    }
}

static la_status must_not_change(const la_config *stored, const la_config *c, int i) {
    const la_option *o = &la_options[i];
    char             a[LA_NUMBER_TEXT], b[LA_NUMBER_TEXT], was[LA_SHOWN], now[LA_SHOWN];
    return la_fail(
        LA_ARG, "--%s is %s in the checkpoint and cannot become %s: %s", o->name,
        la_shown(la_config_value(stored, i, a), was), la_shown(la_config_value(c, i, b), now),
        o->binding == LA_BIND_MODEL ? "its weights depend on it"
                                    : "it would be another run (--init-from begins one)");
}

la_status la_config_take(la_config *c, const la_config *stored, la_binding least,
                         la_config_change_fn *changed, void *ctx) {
    for (int i = 0; i < LA_N_OPTIONS;
         i++) { /* first the errors, then the news, so that no news is wrong */
        const la_option *o = &la_options[i];
        if (o->binding < least || o->binding <= LA_BIND_FREE || !(o->tools & c->tool)) continue;
        if (la_config_given(c, i) && !same_value(stored, c, i))
            return must_not_change(stored, c, i);
    }
    for (int i = 0; i < LA_N_OPTIONS; i++) {
        const la_option *o = &la_options[i];
        char             a[LA_NUMBER_TEXT], b[LA_NUMBER_TEXT];
        if (o->binding == LA_BIND_LOCAL || o->binding < least || !(o->tools & c->tool)) continue;
        if (!la_config_given(c, i)) {
            LA_TRY(la_config_copy(c, stored, i));
        } else if (changed && !same_value(stored, c, i)) {
            changed(ctx, o->name, la_config_value(stored, i, a), la_config_value(c, i, b));
        }
    }
    return la_config_check(c);
}

/* "-rope-conv4-mqar-pairs-8", with what is not as usual. */
static la_status task_name(const la_config *c, char *out, size_t room) {
    la_task task;
    char    spec[LA_TASK_TEXT], conv[32] = "";
    LA_TRY(la_task_parse(c->task, &task));
    la_task_spec(&task, 0, spec);
    la_task_free(&task);
    if (c->short_conv) snprintf(conv, sizeof conv, "-conv%lld", (long long)c->short_conv);
    bool usual = !strcmp(c->pos, "learned");
    snprintf(out, room, "%s%s%s-%s", usual ? "" : "-", usual ? "" : c->pos, conv, spec);
    return LA_OK;
}

la_status la_config_out_dir(const la_config *c, char **path) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    size_t room = strlen(c->out_dir) + strlen(c->attn) + LA_TASK_TEXT + 96;
    char   what[LA_TASK_TEXT + 64] = "";
    if (*c->task) LA_TRY(task_name(c, what, sizeof what));
    *path = malloc(room);
    if (!*path) return la_fail(LA_NOMEM, "no memory for the name of the output folder");
    if (*c->out_dir) {
        snprintf(*path, room, "%s", c->out_dir);
        return LA_OK;
    }
    if (!*c->task && strcmp(c->objective, "causal"))
        snprintf(what, sizeof what, "-%s", c->objective);
    snprintf(*path, room, "runs/%s%s-s%lld", c->attn, what, (long long)c->seed);
    for (char *s = *path + strlen("runs/"); *s; s++)
        if (!strchr(plain, *s)) *s = '-';
    return LA_OK;
}
