/* fuzz_spec.c -- what follows --attn= and --task=: parsed, completed for models of several sizes,
 * and a task's rows drawn. */
#include "data/task.h"
#include "layers/layers.h"
#include "tests/fuzz/fuzz.h"

static void attention(const char *spec) {
    static const int64_t sizes[][4] = {
        {1, 1, 1, 1}, {2, 2, 12, 16}, {5, 4, 128, 64}, {3, 8, 64, 16777216}};
    la_attn_pattern p, q;
    if (!fuzz_worked(la_attn_pattern_parse(spec, 1e-6, &p))) return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int both = 0; both < 2; both++) {
            const int64_t *s = sizes[i];
            q = p;
            fuzz_worked(la_attn_pattern_complete(&q, s[0], s[1], s[2], s[3], both));
        }
}

static void rows(const la_task *t) {
    enum { MOST = 1024 };
    int32_t tokens[2 * MOST], labels[2 * MOST];
    int64_t asked = 0;
    if (t->def->on_text || t->length > MOST) return;
    la_task_fill(t, 1, 0, 2, tokens, labels);
    for (int64_t i = 0; i < 2 * t->length; i++) {
        HOLDS(tokens[i] >= 0 && tokens[i] < t->vocab);
        HOLDS(labels[i] == LA_NO_TARGET || (labels[i] >= 0 && labels[i] < t->vocab));
        asked += labels[i] != LA_NO_TARGET;
    }
    HOLDS(asked == 2 * t->labels);
}

static void task(const char *spec) {
    la_task t, again;
    char    text[2][LA_TASK_TEXT];
    for (int whole = 0; whole < 2; whole++) {
        if (!fuzz_worked(la_task_parse(spec, &t))) return;
        la_task_spec(&t, whole, text[0]);
        HOLDS(la_task_parse(text[0], &again) == LA_OK);
        la_task_spec(&again, whole, text[1]);
        HOLDS(strcmp(text[0], text[1]) == 0);
        la_task_free(&again);
        if (whole) rows(&t);
        la_task_free(&t);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char *spec = fuzz_text(data, n);
    attention(spec);
    task(spec);
    free(spec);
    return 0;
}
