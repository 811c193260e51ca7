/* needle: a key and a value hidden in a running text.  After the needle in a haystack by which long
 * contexts are tested (Kamradt, 2023), at a fixed distance.
 *
 *   x_1 ... x_(p-1)  k  v  x_(p+2) ... x_(p+d-1)  k  x_(p+d+1) ... x_L
 *
 * x is a window of the text at a random place, whose ids are below V; k is one of K ids from V on,
 * v one of the ids after these.  The label at p + d is v.  Any p with p + d <= L is equally likely.
 * There is one value in a row, so that what is measured is reach and not the choice among keys. */
#include "data/task.h"

enum { START, PLACE, KEY, VALUE }; /* questions to the generator */

static la_status complete(la_task *t) {
    if (t->length <= t->distance)
        return la_fail(LA_ARG,
                       "needle: distance=%lld needs length=%lld or more, and length is %lld",
                       (long long)t->distance, (long long)t->distance + 1, (long long)t->length);
    t->labels = 1;
    t->answers = t->values;
    return LA_OK;
}

static void row(const la_task *t, uint64_t seed, uint64_t r, int32_t *tokens, int32_t *labels) {
    int64_t V = t->vocab - t->keys - t->values;
    int64_t start = la_task_below(t, seed, START, r, 0, t->text.n - t->length + 1);
    int64_t p = la_task_below(t, seed, PLACE, r, 0, t->length - t->distance);
    int64_t key = V + la_task_below(t, seed, KEY, r, 0, t->keys);
    int64_t value = V + t->keys + la_task_below(t, seed, VALUE, r, 0, t->values);
    la_ids_copy(&t->text, start, t->length, tokens);
    tokens[p] = tokens[p + t->distance] = (int32_t)key;
    tokens[p + 1] = labels[p + t->distance] = (int32_t)value;
}

const la_task_def la_task_needle = {
    .name = "needle",
    .about = "a key and a value hidden in the text of --data, and the key again further on",
    .paper = "after Kamradt, Needle in a haystack, 2023",
    .reads = "length distance keys values",
    .usual = {.length = 256, .distance = 128, .keys = 16, .values = 16},
    .on_text = 1,
    .complete = complete,
    .row = row,
};
