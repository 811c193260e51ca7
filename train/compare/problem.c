/* problem.c -- the texts and tasks of a comparison, and what counting words makes of a text. */
#include <math.h>
#include <string.h>

#include "data/ngram.h"
#include "train/compare/compare.h"
#include "train/compare/screen.h"
#include "train/setup.h"
#include "train/write.h"

enum { ORDERS = 5 };

static const char *const baseline_names[ORDERS + 1] = {"uniform", "unigram", "bigram",
                                                       "trigram", "4-gram",  "5-gram"};

static json_t *baseline(int order, double loss) {
    return json_pack("{s:s,s:f}", "name", baseline_names[order], "loss", loss);
}

/* ln V, and interpolated Witten-Bell of order 1 to 5 on the tokens that an evaluation predicts. */
static la_status count_words(const la_texts *t, int64_t block, json_t *list) {
    int64_t windows = la_eval_windows(t->valid.n, block);
    json_array_append_new(list, baseline(0, log((double)la_tokenizer_vocab(t->tokenizer))));
    la_ngram *g;
    LA_TRY(la_ngram_create(&g, &t->train, la_tokenizer_vocab(t->tokenizer), ORDERS));
    la_status s = LA_OK;
    for (int order = 1; s == LA_OK && order <= ORDERS; order++) {
        double loss;
        s = la_ngram_loss(g, order, &t->valid, 1, windows * block, &loss);
        if (s == LA_OK) json_array_append_new(list, baseline(order, loss));
    }
    la_ngram_destroy(g);
    return s;
}

/* ID of the record: what the counts depend on. */
static const char *record_name(la_comparison *k, const la_problem *p, const la_config *c) {
    char at[LA_NUMBER_TEXT];
    return la_arena_printf(&k->arena, "counts-%016llx-%s-%s-%lld", (unsigned long long)p->hash,
                           c->tokenizer, la_number_text(c->val_frac, at), (long long)c->block_size);
}

static la_status count(la_comparison *k, const char *name, const la_config *c) {
    la_texts t;
    json_t  *list = json_array();
    if (!list) return la_fail(LA_NOMEM, "no memory for the baselines");
    la_status s = la_texts_open(&t, c, NULL);
    if (s == LA_OK) {
        s = count_words(&t, c->block_size, list);
        la_texts_close(&t);
    }
    if (s == LA_OK) return la_record_save(k, name, list);
    json_decref(list);
    return s;
}

la_status la_problem_count(la_comparison *k, la_problem *p, const la_config *train) {
    const char *name = record_name(k, p, train);
    json_t     *list;
    if (p->task || strcmp(train->objective, "causal")) return LA_OK;
    if (!name) return la_fail(LA_NOMEM, "no memory for the name of a record");
    LA_TRY(la_record_load(k, name, &list));
    if (!list) {
        la_screen_step(k, "the model that counts", p->name);
        LA_TRY(count(k, name, train));
        LA_TRY(la_record_load(k, name, &list));
    }
    if (list) json_object_set_new(p->about, "baselines", list);
    return LA_OK;
}

/* Its hash, and what the text is. */
static void put_corpus(la_problem *p, const la_texts *t) {
    char hash[24];
    p->hash = la_corpus_hash(&t->corpus);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)p->hash);
    json_object_set_new(p->about, "bytes", json_integer(la_corpus_size(&t->corpus)));
    json_object_set_new(p->about, "hash", json_string(hash));
    json_object_set_new(p->about, "train_tokens", json_integer(t->train.n));
    json_object_set_new(p->about, "valid_tokens", json_integer(t->valid.n));
}

static la_status open_text(la_problem *p, const la_texts *t, const la_config *c) {
    if (!strcmp(c->objective, "causal"))
        LA_TRY(la_prompt_check(t->tokenizer, c->prompt)); /* of samples */
    if (!t->valid.n)
        return la_fail(
            LA_DATA, "%s has no validation part to compare by: take a --val-frac above 0", p->spec);
    p->vocab = la_tokenizer_vocab(t->tokenizer);
    p->about =
        json_pack("{s:s,s:s,s:s,s:o,s:s,s:I,s:n,s:n,s:[]}", "name", p->name, "kind", "text", "spec",
                  p->spec, "what",
                  json_sprintf("%lld tokens to train on, %lld to validate, vocabulary %lld",
                               (long long)t->train.n, (long long)t->valid.n, (long long)p->vocab),
                  "measure", "val_loss", "vocab", (json_int_t)p->vocab, "chance", "context_chance",
                  "baselines");
    put_corpus(p, t);
    return p->about ? LA_OK : la_fail(LA_NOMEM, "no memory for what is known of %s", p->spec);
}

static la_status open_task(la_problem *p, const la_texts *t) {
    char           spec[LA_TASK_TEXT];
    const la_task *task = &t->task;
    double         shown = la_task_shown_chance(task);
    p->vocab = t->vocab;
    p->labels = task->labels;
    la_task_spec(task, 1, spec);
    p->about = json_pack("{s:s,s:s,s:s,s:o,s:s,s:I,s:f,s:o,s:[]}", "name", p->name, "kind", "task",
                         "spec", p->spec, "what",
                         json_sprintf("%s: %s; labels of a row: %lld", spec, task->def->about,
                                      (long long)task->labels),
                         "measure", "val_accuracy", "vocab", (json_int_t)p->vocab, "chance",
                         la_task_chance(task), "context_chance",
                         shown > 0 ? json_real(shown) : json_null(), "baselines");
    if (task->def->on_text) put_corpus(p, t);
    return p->about ? LA_OK : la_fail(LA_NOMEM, "no memory for what is known of %s", p->spec);
}

la_status la_problem_open(la_problem *p, const la_config *train) {
    la_texts t;
    LA_TRY(la_texts_open(&t, train, NULL));
    la_status s = p->task ? open_task(p, &t) : open_text(p, &t, train);
    la_texts_close(&t);
    return s;
}
