/* induction: what came after a special token when it stood in the text?  Olsson et al., "In-context
 * learning and induction heads", 2022; as a task Dao et al., "Hungry hungry hippos", 2023.
 *
 *   x_1 ... x_(p-1)  V-1  x_(p+1) ... x_(L-1)  V-1       x of [0, V-1)
 *
 * The place p of the first special token is any from 1 to L-2, so that an answer follows; the label
 * at the last position is x_(p+1). */
#include "data/task.h"

enum { OTHERS, PLACE }; /* questions to the generator */

static la_status complete(la_task *t) {
    if (t->length < 3 || t->vocab < 3)
        return la_fail(LA_ARG, "induction: %s must be 3 or more (%s), and is %lld",
                       t->length < 3 ? "length" : "vocab",
                       t->length < 3 ? "the special token, an answer, the special token"
                                     : "one of them is the special token",
                       (long long)(t->length < 3 ? t->length : t->vocab));
    t->labels = 1;
    t->answers = t->vocab - 1;
    return LA_OK;
}

static void row(const la_task *t, uint64_t seed, uint64_t r, int32_t *tokens, int32_t *labels) {
    int64_t last = t->length - 1, p = la_task_below(t, seed, PLACE, r, 0, last - 1);
    for (int64_t i = 0; i < last; i++)
        tokens[i] = (int32_t)la_task_below(t, seed, OTHERS, r, i, t->vocab - 1);
    tokens[p] = tokens[last] = (int32_t)t->vocab - 1;
    labels[last] = tokens[p + 1];
}

const la_task_def la_task_induction = {
    .name = "induction",
    .about = "random tokens with a special one twice: what followed the first?",
    .paper = "Olsson et al., 2022; Dao et al., Hungry hungry hippos, 2023",
    .reads = "vocab length",
    .usual = {.vocab = 20, .length = 30},
    .complete = complete,
    .row = row,
};
