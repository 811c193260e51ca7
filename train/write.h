/* write.h -- a prompt and what a model makes of it, as text. */
#ifndef LA_WRITE_H
#define LA_WRITE_H
#include <stdio.h>

#include "data/tokenizer.h"
#include "train/sampler.h"

typedef struct la_writing {
    const char
           *prompt; /* "": begins with a new line, or the first token if there is none, unprinted */
    int64_t tokens; /* to write after it                                                      */
    la_sampler_cfg sampler; /* capacity is set from the above                                 */
    int (*stop)(void);      /* asked before each token; NULL: never                           */
} la_writing;

/* Writes prompt and tokens to out, each as it comes.  LA_DATA: the prompt has a character that the
 * tokenizer does not know.  A closed out ends it without a failure.  *rebuilt (or NULL): how often
 * the state had to be rebuilt, as la_sampler_rebuilt says. */
la_status la_write_text(const la_lm *lm, const la_tokenizer *k, const la_writing *w, FILE *out,
                        int64_t *rebuilt);

/* Bytes that writing takes, as la_sampler_plan. */
la_status la_write_plan(const la_lm *lm, const la_tokenizer *k, const la_writing *w, size_t *bytes);

/* Whether the tokenizer knows all of the prompt; LA_DATA names what it does not. */
la_status la_prompt_check(const la_tokenizer *k, const char *prompt);
#endif
