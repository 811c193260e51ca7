/* masking.c -- n of T places without repetition, walking over the row once:
 *
 *   place t is chosen with probability (n - c) / (T - t), where c places before it are.
 *
 * The last places are certain if n - c = T - t and impossible if c = n, so that n are chosen; and
 * the probability of a set of places, the product of its factors, is n! (T - n)! / T! for each
 * (Fan, Muller and Rezucha, 1962; Knuth, TAOCP 2, 3.4.2, algorithm S).
 *
 * Place t of row r draws its numbers at the index r T + t, of a stream for each question. */
#include "data/masking.h"

#include "data/loader.h"
#include "tensor/rng.h"

enum { CHOSEN, SHOWN, WORD }; /* streams */

int64_t la_masked_count(int64_t seq) {
    int64_t n = (3 * seq + 10) / 20; /* .15 seq + .5 */
    return n > 0 ? n : 1;
}

static int64_t below(uint64_t seed, uint32_t stream, uint64_t index, int64_t n) {
    return (int64_t)la_rng_below(seed, la_rng_stream(LA_RNG_MASK, stream), index, (uint64_t)n);
}

/* What the model sees of a chosen token. */
static int32_t shown(uint64_t seed, uint64_t index, int64_t vocab, int32_t token) {
    int64_t of_ten = below(seed, SHOWN, index, 10);
    if (of_ten < 8) return (int32_t)vocab;
    return of_ten == 8 ? (int32_t)below(seed, WORD, index, vocab) : token;
}

void la_mask_rows(uint64_t seed, uint64_t first, int64_t rows, int64_t seq, int64_t vocab,
                  int32_t *tokens, int32_t *labels) {
    for (int64_t r = 0; r < rows; r++, tokens += seq, labels += seq) {
        int64_t left = la_masked_count(seq);
        for (int64_t t = 0; t < seq; t++) {
            uint64_t index = (first + (uint64_t)r) * (uint64_t)seq + (uint64_t)t;
            int      chosen = below(seed, CHOSEN, index, seq - t) < left;
            labels[t] = chosen ? tokens[t] : LA_NO_TARGET;
            if (chosen) tokens[t] = shown(seed, index, vocab, tokens[t]);
            left -= chosen;
        }
    }
}
