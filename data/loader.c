/* loader.c -- windows of a text, at random places or one after the other. */
#include "data/loader.h"
#include "tensor/rng.h"

#include <inttypes.h>

la_status la_loader_init(la_loader *l, const la_ids *text, int64_t batch, int64_t seq,
                         uint64_t seed) {
    *l = (la_loader){text, batch, seq, seed};
    if (batch < 1 || seq < 1)
        return la_fail(LA_ARG, "a batch of %" PRId64 " rows of %" PRId64 " tokens is not possible",
                       batch, seq);
    if (text->n <= seq)
        return la_fail(LA_DATA,
                       "windows of %" PRId64 " tokens and their targets need more than "
                       "%" PRId64 " tokens; the text has %" PRId64,
                       seq, seq, text->n);
    return LA_OK;
}

int64_t la_loader_start(const la_loader *l, uint64_t step, int64_t row) {
    uint64_t index = step * (uint64_t)l->batch + (uint64_t)row;
    uint64_t starts = (uint64_t)(l->text->n - l->seq);
    return (int64_t)la_rng_below(l->seed, la_rng_stream(LA_RNG_BATCH, 0), index, starts);
}

static void window(const la_ids *text, int64_t start, int64_t seq, int32_t *tokens,
                   int32_t *targets) {
    la_ids_copy(text, start, seq, tokens);
    la_ids_copy(text, start + 1, seq, targets);
}

void la_loader_fill(const la_loader *l, uint64_t step, int32_t *tokens, int32_t *targets) {
    for (int64_t r = 0; r < l->batch; r++)
        window(l->text, la_loader_start(l, step, r), l->seq, tokens + r * l->seq,
               targets + r * l->seq);
}

int64_t la_eval_windows(int64_t n, int64_t seq) { return n > 0 && seq > 0 ? (n - 1) / seq : 0; }

void la_eval_fill(const la_ids *text, int64_t seq, int64_t first, int64_t rows, int32_t *tokens,
                  int32_t *targets) {
    int64_t windows = la_eval_windows(text->n, seq);
    for (int64_t r = 0; r < rows; r++, tokens += seq, targets += seq) {
        if (first + r < windows) {
            window(text, (first + r) * seq, seq, tokens, targets);
            continue;
        }
        for (int64_t t = 0; t < seq; t++) {
            tokens[t] = 0;
            targets[t] = LA_NO_TARGET;
        }
    }
}
