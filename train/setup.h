/* setup.h -- from options to things: a text and its tokens, a model, a trainer; and a model out of
 * a checkpoint. */
#ifndef LA_SETUP_H
#define LA_SETUP_H
#include "data/corpus.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/trainer.h"

/* The text(s) of a run, tokenized and split, or its task.  A task that is not on a text has the
 * tokenizer "ids" and no texts.  {0} is closed. */
typedef struct la_texts {
    la_corpus     corpus, valid_corpus;
    la_tokenizer *tokenizer;
    la_ids        train, valid; /* views */
    la_task       task, test;   /* test: with the validation text, a view; {0}: no task */
    int64_t       vocab;        /* of the model, without [MASK] */
} la_texts;

/* saved: the checkpoint to take the tokenizer from, or NULL.  With --eval-only and only --val-data
 * that whole file is `valid`.  Notes about the text go to stderr.  LA_DATA as in data/corpus.h. */
la_status la_texts_open(la_texts *t, const la_config *c, const la_checkpoint *saved);
void      la_texts_close(la_texts *t);
/* Whether there is something to evaluate on. */
int       la_texts_validate(const la_texts *t);

la_status la_model_cfg(const la_config *c, int64_t vocab, la_lm_cfg *out);
/* max_bytes: what the machine has free.  task is left to the caller. */
la_status la_trainer_cfg_of(const la_config *c, int64_t vocab, la_trainer_cfg *out);

/* A model for inference, with the weights and the tokenizer of a checkpoint.  `stored` receives the
 * options it was trained with; free it with la_config_free.  LA_FORMAT for anything that is wrong.
 */
la_status la_model_load(const char *path, la_config *stored, la_lm **lm, la_tokenizer **k);
#endif
