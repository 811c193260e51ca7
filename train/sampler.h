/* sampler.h -- text from a model, one token after the other, with a carried state.
 *
 * A prompt is read by the parallel form, which leaves the same state as reading it token by
 * token; then each token costs one replay of a T = 1 tape.  Nothing is allocated per token. */
#ifndef LA_SAMPLER_H
#define LA_SAMPLER_H
#include "layers/layers.h"

typedef struct la_sampler_cfg {
    double   temperature; /* 0: the likeliest token                                       */
    int64_t  top_k;       /* 0: all                                                      */
    double   top_p;       /* 1: all                                                      */
    uint64_t seed;
    int64_t
        capacity; /* tokens that prompt and answer may have together; sizes the cache of softmax */
} la_sampler_cfg;

typedef struct la_sampler la_sampler;

/* LA_ARG, with a sentence: a model of the masked objective, which has no next token. */
la_status la_sampler_check(const la_lm_cfg *model);

la_status la_sampler_create(la_sampler **s, const la_lm *lm, const la_sampler_cfg *cfg);
/* Bytes of a sampler after a prompt of n tokens and as many more as there is room for.  The model's
 * parameters need no memory (la_lm_plan). */
la_status la_sampler_plan(const la_lm *lm, const la_sampler_cfg *cfg, int64_t n, size_t *bytes);
void      la_sampler_destroy(la_sampler *s);

/* A new text: forgets the state and reads n > 0 tokens.  With learned positions a prompt longer
 * than block_size is cut to its last half block (la_sampler_rebuilt then says so). */
la_status      la_sampler_prompt(la_sampler *s, const int32_t *ids, int64_t n);
/* Draws the next token and reads it.  With learned positions, at the end of a block the state is
 * rebuilt from the last half block. */
la_status      la_sampler_next(la_sampler *s, int32_t *id);
/* Logits of the next token, (vocab). */
const la_real *la_sampler_logits(const la_sampler *s);
/* How often the state was rebuilt or a prompt was cut. */
int64_t        la_sampler_rebuilt(const la_sampler *s);
#endif
