/* setup.c -- builds what the options describe. */
#include "train/setup.h"

#include <stdio.h>
#include <string.h>

#include "train/system.h"

static void print_notes(const la_corpus *c) {
    for (int i = 0; la_corpus_note(c, i); i++) fprintf(stderr, "note: %s\n", la_corpus_note(c, i));
}

static la_status open_text(la_texts *t, const la_config *c, const la_checkpoint *saved) {
    int evaluate = c->eval_only && !*c->data && *c->val_data; /* that file alone */
    if (!*c->data && !evaluate) return la_fail(LA_ARG, "which text? --data FILE names it");
    LA_TRY(la_corpus_open(&t->corpus, evaluate ? c->val_data : c->data));
    print_notes(&t->corpus);
    if (*c->val_data && !evaluate) {
        LA_TRY(la_corpus_open(&t->valid_corpus, c->val_data));
        print_notes(&t->valid_corpus);
    }
    if (saved)
        LA_TRY(la_checkpoint_tokenizer(saved, &t->tokenizer));
    else
        LA_TRY(la_tokenizer_create(&t->tokenizer, c->tokenizer, la_corpus_text(&t->corpus)));
    la_corpus *valid = *c->val_data && !evaluate ? &t->valid_corpus : NULL;
    LA_TRY(la_corpus_split(&t->corpus, valid, t->tokenizer, evaluate ? 0 : c->val_frac,
                           c->block_size));
    t->train = t->corpus.train;
    t->valid = evaluate ? t->corpus.train : t->corpus.valid;
    t->vocab = la_tokenizer_vocab(t->tokenizer);
    return LA_OK;
}

/* Of a model with these options and this tokenizer. */
static la_status vocab_of(const la_config *c, const la_tokenizer *k, int64_t *vocab) {
    la_task task;
    *vocab = la_tokenizer_vocab(k);
    if (!*c->task) return LA_OK;
    LA_TRY(la_task_parse(c->task, &task));
    *vocab = task.def->on_text ? *vocab + task.keys + task.values : task.vocab;
    la_task_free(&task);
    return LA_OK;
}

static la_status open_texts(la_texts *t, const la_config *c, const la_checkpoint *saved) {
    if (!*c->task) return open_text(t, c, saved);
    LA_TRY(la_task_parse(c->task, &t->task));
    if (t->task.def->on_text) {
        int64_t words;
        LA_TRY(open_text(t, c, saved));
        words = t->vocab;
        t->test = t->task;
        LA_TRY(la_task_on_text(&t->task, &t->train, words));
        if (t->valid.n) LA_TRY(la_task_on_text(&t->test, &t->valid, words));
    } else {
        LA_TRY(la_tokenizer_load(&t->tokenizer, la_tokenizer_ids.name, NULL, 0));
        t->test = t->task;
    }
    t->vocab = t->task.vocab;
    return LA_OK;
}

int la_texts_validate(const la_texts *t) {
    return t->valid.n > 0 || (t->task.def && !t->task.def->on_text);
}

la_status la_texts_open(la_texts *t, const la_config *c, const la_checkpoint *saved) {
    *t = (la_texts){0};
    la_status s = open_texts(t, c, saved);
    if (s != LA_OK) la_texts_close(t);
    return s;
}

void la_texts_close(la_texts *t) {
    la_corpus_close(&t->corpus);
    la_corpus_close(&t->valid_corpus);
    la_tokenizer_destroy(t->tokenizer);
    la_task_free(&t->task);
    *t = (la_texts){0};
}

la_status la_model_cfg(const la_config *c, int64_t vocab, la_lm_cfg *out) {
    int masked = !strcmp(c->objective, "mlm");
    *out = (la_lm_cfg){.vocab = vocab,
                       .dim = c->n_embd,
                       .mlp = c->n_mlp,
                       .layers = c->n_layer,
                       .heads = c->n_head,
                       .block_size = c->block_size,
                       .short_conv = c->short_conv,
                       .pos = !strcmp(c->pos, "learned") ? LA_POS_LEARNED
                              : !strcmp(c->pos, "rope")  ? LA_POS_ROPE
                                                         : LA_POS_NONE,
                       .dropout = c->dropout,
                       .bias = c->bias,
                       .bidirectional = masked,
                       .mask_token = masked,
                       .recompute = c->recompute};
    return la_attn_pattern_parse(c->attn, c->eps, &out->attn);
}

la_status la_trainer_cfg_of(const la_config *c, int64_t vocab, la_trainer_cfg *out) {
    *out = (la_trainer_cfg){
        .batch = c->batch_size,
        .grad_accum = c->grad_accum,
        .seed = (uint64_t)c->seed,
        .grad_clip = c->grad_clip,
        .optim_cfg = {c->beta1, c->beta2, 1e-8, c->weight_decay},
        .schedule = {c->schedule, c->lr, c->min_lr, c->warmup_iters,
                     c->lr_decay_iters > 0 ? c->lr_decay_iters : c->max_iters},
        .max_bytes = la_memory_available(),
        .same_batch = c->overfit_batch,
    };
    LA_TRY(la_optim_find(c->optim, &out->optim));
    return la_model_cfg(c, vocab, &out->lm);
}

static la_status load(const la_checkpoint *saved, const char *path, la_config *stored, la_lm **lm,
                      la_tokenizer **k) {
    la_lm_cfg cfg;
    int64_t   vocab;
    LA_TRY(la_config_from_text(stored, la_checkpoint_record(saved)->config, path));
    LA_TRY(la_checkpoint_tokenizer(saved, k));
    LA_TRY(vocab_of(stored, *k, &vocab));
    LA_TRY(la_model_cfg(stored, vocab, &cfg));
    cfg.max_bytes = la_memory_available();
    LA_TRY(la_lm_create(lm, &cfg, 0, 0));
    return la_checkpoint_params(saved, (*lm)->params);
}

la_status la_model_load(const char *path, la_config *stored, la_lm **lm, la_tokenizer **k) {
    la_checkpoint *saved = NULL;
    *lm = NULL;
    *k = NULL;
    la_config_init(stored);
    la_status s = la_checkpoint_open(&saved, path);
    if (s == LA_OK) s = load(saved, path, stored, lm, k);
    la_checkpoint_close(saved);
    if (s == LA_OK) return s;
    la_lm_destroy(*lm);
    la_tokenizer_destroy(*k);
    la_config_free(stored);
    *lm = NULL;
    *k = NULL;
    return s == LA_NOMEM ? s : la_fail(LA_FORMAT, "%s", la_error());
}
