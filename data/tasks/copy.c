/* copy: a random text, a separator, and the text again.  Graves, Wayne and Danihelka, "Neural
 * Turing machines", 2014; Jelassi et al., "Repeat after me: transformers are better than state
 * space models at copying", 2024.
 *
 *   x_1 ... x_n  V-1  x_1 ... x_n        L = 2n + 1, x of [0, V-1)
 *
 * The label at the separator is x_1, at the second x_i it is x_(i+1); the last token has none. */
#include "data/task.h"

static la_status complete(la_task *t) {
    long long L = t->length;
    if (L % 2 == 0)
        return la_fail(LA_ARG,
                       "copy: length must be odd (a text, one separator, the text again), and is "
                       "%lld: %lld or %lld would do",
                       L, L > 2 ? L - 1 : L + 1, L > 2 ? L + 1 : L + 3);
    if (t->vocab < 3)
        return la_fail(LA_ARG,
                       "copy: vocab must be 3 or more, one of them the separator, and is "
                       "%lld",
                       (long long)t->vocab);
    t->labels = L / 2;
    t->answers = t->vocab - 1;
    return LA_OK;
}

static void row(const la_task *t, uint64_t seed, uint64_t r, int32_t *tokens, int32_t *labels) {
    int64_t n = t->length / 2;
    for (int64_t i = 0; i < n; i++) {
        tokens[i] = tokens[n + 1 + i] = (int32_t)la_task_below(t, seed, 0, r, i, t->vocab - 1);
        labels[n + i] = tokens[i];
    }
    tokens[n] = (int32_t)t->vocab - 1;
}

const la_task_def la_task_copy = {
    .name = "copy",
    .about = "a random text, a separator, and the text again, which is what is asked for",
    .paper = "Graves et al., Neural Turing machines, 2014; Jelassi et al., 2024",
    .reads = "vocab length",
    .usual = {.vocab = 32, .length = 65},
    .complete = complete,
    .row = row,
};
