/* loader.h -- batches of training windows, and the windows of an evaluation.
 *
 * B = batch rows, T = seq tokens a row.  Both functions fill tokens[B][T] and targets[B][T],
 * where the target of a token is the one that follows it in the text. */
#ifndef LA_LOADER_H
#define LA_LOADER_H
#include "data/ids.h"
#include "tensor/status.h"

enum { LA_NO_TARGET = -1 }; /* a target that does not count in a loss */

/* Row r of step i starts at a random place f(seed, i, r).  There is no other state, so a run
 * is reproducible, a resumed run sees the batches it would have seen, and the number of
 * threads or processes changes nothing.  The text must outlive the loader. */
typedef struct la_loader {
    const la_ids *text; /* more than seq ids */
    int64_t       batch, seq;
    uint64_t      seed;
} la_loader;

/* LA_ARG: batch or seq below 1.  LA_DATA: fewer than seq + 1 tokens. */
la_status la_loader_init(la_loader *l, const la_ids *text, int64_t batch, int64_t seq,
                         uint64_t seed);

/* Start of row r of a step: one of the n - seq places 0 .. n - seq - 1, each equally likely. */
int64_t la_loader_start(const la_loader *l, uint64_t step, int64_t row);

void la_loader_fill(const la_loader *l, uint64_t step, int32_t *tokens, int32_t *targets);

/* Windows of seq tokens, one after the other, that n tokens hold together with their targets:
 * (n - 1) / seq.  Each token but the first of them is a target exactly once; a shorter tail
 * is left out. */
int64_t la_eval_windows(int64_t n, int64_t seq);

/* Fills rows windows from number `first` on.  Rows past the last window get token 0 and
 * LA_NO_TARGET, so that every batch of an evaluation has the same shape. */
void la_eval_fill(const la_ids *text, int64_t seq, int64_t first, int64_t rows, int32_t *tokens,
                  int32_t *targets);
#endif
