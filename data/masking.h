/* masking.h -- the masked objective: some tokens of each row are hidden, and are what is learnt.
 *
 * Of T tokens n = max(1, round(.15 T)) are chosen, every set of n places being equally likely.  The
 * label of a chosen place is the token that stood there, and the model sees there
 *
 *   [MASK], the id V after the vocabulary    with probability .8
 *   any of the V tokens, equally likely      with probability .1
 *   the token as it was                      with probability .1
 *
 * Other places are as they were, with the label LA_NO_TARGET.  The number of labels is the same in
 * every row, so that a mean over rows is a mean over labels.  Devlin, Chang, Lee, Toutanova, "BERT:
 * pre-training of deep bidirectional transformers for language understanding", 2019. */
#ifndef LA_MASKING_H
#define LA_MASKING_H
#include <stdint.h>

/* What validation texts are masked with: no seed of a run, which are below 2^53. */
#define LA_EVAL_MASK_SEED (UINT64_C(1) << 63)

int64_t la_masked_count(int64_t seq); /* n of a row of seq tokens */

/* Hides tokens of `rows` rows of seq tokens[rows][seq] and writes labels[rows][seq].  Row r is a
 * function of its tokens and (seed, first + r): in training first = step * rows, in an evaluation
 * the number of the first window. */
void la_mask_rows(uint64_t seed, uint64_t first, int64_t rows, int64_t seq, int64_t vocab,
                  int32_t *tokens, int32_t *labels);
#endif
