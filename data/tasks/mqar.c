/* mqar: multi-query associative recall.  Arora et al., "Zoology: measuring and improving recall in
 * efficient language models", 2023.
 *
 *   k_1 v_1 ... k_N v_N  then (L - 2N) / 2 slots of two tokens
 *
 * Keys are N different ids of [1, V/2), values N different ids of [V/2, V).  Key n stands again in
 * the first place of slot g_n, at 2N + 2 g_n, and the label there is v_n.  Slots g_1, g_2, ... are
 * drawn one after the other from those that are left, slot i = 1, 2, ... with a weight of i^(a-1),
 * a = power: a small a puts most questions soon after the pairs.  All other tokens are 0 with
 * fill=zero (the setting of the published figure), or any of the V ids with fill=random. */
#include <math.h>
#include <stdlib.h>

#include "data/task.h"

enum { KEYS, KEY_ORDER, VALUES, VALUE_ORDER, SLOTS, OTHERS }; /* questions to the generator */

static la_status complete(la_task *t) {
    long long L = t->length, N = t->pairs, V = t->vocab, slots = (L - 2 * N) / 2;
    if (L % 2)
        return la_fail(LA_ARG, "mqar: length must be even, and is %lld: %lld or %lld would do", L,
                       L - 1, L + 1);
    if (L < 4 * N)
        return la_fail(
            LA_ARG,
            "mqar: pairs=%lld needs length=%lld or more (2 tokens a pair, and as many to "
            "ask for it), and length is %lld, enough for pairs=%lld",
            N, 4 * N, L, L / 4);
    if (V < 2 * N + 2)
        return la_fail(
            LA_ARG,
            "mqar: pairs=%lld needs vocab=%lld or more (keys are different ids from 1 to "
            "below half of it), and vocab is %lld",
            N, 2 * N + 2, V);
    t->labels = t->shown = N;
    t->answers = V - V / 2;
    t->weights = malloc((size_t)slots * sizeof *t->weights);
    if (!t->weights) return la_fail(LA_NOMEM, "no memory for %lld slots of mqar", slots);
    for (int64_t i = 0; i < slots; i++) t->weights[i] = pow((double)(i + 1), t->power - 1);
    return LA_OK;
}

/* out[0], out[2], ...: n different ids of [from, from + m), every sequence equally likely: a set
 * by Floyd's algorithm (Bentley, "Programming pearls", 1987), then shuffled. */
static void distinct(const la_task *t, uint64_t seed, uint32_t question, uint64_t row, int64_t n,
                     int64_t from, int64_t m, int32_t *out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t last = m - n + i;
        int32_t id = (int32_t)(from + la_task_below(t, seed, question, row, i, last + 1));
        for (int64_t j = 0; j < i; j++)
            if (out[2 * j] == id) id = (int32_t)(from + last), j = i;
        out[2 * i] = id;
    }
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = la_task_below(t, seed, question + 1, row, i, i + 1);
        int32_t id = out[2 * i];
        out[2 * i] = out[2 * j];
        out[2 * j] = id;
    }
}

/* A slot without a label, by weight; u in [0, 1). */
static int64_t free_slot(const la_task *t, const int32_t *slot_labels, double u) {
    int64_t slots = (t->length - 2 * t->pairs) / 2, slot = -1;
    double  left = 0;
    for (int64_t i = 0; i < slots; i++)
        if (slot_labels[2 * i] == LA_NO_TARGET) left += t->weights[i];
    left *= u;
    for (int64_t i = 0; i < slots && left >= 0; i++) {
        if (slot_labels[2 * i] != LA_NO_TARGET) continue;
        slot = i;
        left -= t->weights[i];
    }
    return slot;
}

static void row(const la_task *t, uint64_t seed, uint64_t r, int32_t *tokens, int32_t *labels) {
    int64_t N = t->pairs, half = t->vocab / 2;
    distinct(t, seed, KEYS, r, N, 1, half - 1, tokens);
    distinct(t, seed, VALUES, r, N, half, t->vocab - half, tokens + 1);
    for (int64_t i = 2 * N; i < t->length; i++)
        tokens[i] =
            t->fill == LA_FILL_ZERO ? 0 : (int32_t)la_task_below(t, seed, OTHERS, r, i, t->vocab);
    for (int64_t n = 0; n < N; n++) {
        uint64_t index = r * (uint64_t)t->length + (uint64_t)n;
        double   u = la_rng_uniform(seed, la_rng_stream(LA_RNG_TASK, SLOTS), index);
        int64_t  at = 2 * N + 2 * free_slot(t, labels + 2 * N, u);
        tokens[at] = tokens[2 * n];
        labels[at] = tokens[2 * n + 1];
    }
}

const la_task_def la_task_mqar = {
    .name = "mqar",
    .about = "pairs of key and value, then keys again: what was the value of each?",
    .paper = "Arora et al., Zoology, 2023",
    .reads = "vocab length pairs fill power",
    .usual = {.vocab = 256, .length = 64, .pairs = 4, .power = 0.01},
    .complete = complete,
    .row = row,
};
