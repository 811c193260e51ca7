/* task.h -- made-up tasks: rows of tokens with a few labels, of which the answer stands in the row.
 *
 *     la_task task;
 *     LA_TRY(la_task_parse("mqar:vocab=256,length=64,pairs=4", &task));
 *     la_task_fill(&task, seed, first_row, rows, tokens, labels);
 *     la_task_free(&task);
 *
 * A label is what a model should say AT its position, and LA_NO_TARGET where nothing is asked.
 * Every row has the same number of labels, so that a mean over rows is a mean over labels. */
#ifndef LA_TASK_H
#define LA_TASK_H
#include "data/ids.h"
#include "data/loader.h"
#include "tensor/rng.h"
#include "tensor/status.h"

/* The seed of all test rows: no seed of a run, which are below 2^53. */
#define LA_TASK_TEST_SEED (UINT64_C(1) << 63)
enum { LA_TASK_TEST_ROWS = 1024, LA_TASK_TEXT = 256 };

typedef enum la_task_filling { LA_FILL_ZERO, LA_FILL_RANDOM } la_task_filling;

typedef struct la_task_def la_task_def;

typedef struct la_task { /* {0} is none */
    const la_task_def *def;
    int64_t            vocab, length; /* ids are below vocab; tokens of a row              */
    int64_t            pairs, distance, keys, values;
    double             power;
    la_task_filling    fill;
    /* what follows from these */
    int64_t labels;  /* of a row                                                           */
    int64_t answers; /* labels are one of so many ids, each equally likely                 */
    int64_t shown;   /* of those so many stand in the row, each equally likely; 0: varies  */
    double *weights; /* owned: mqar's of its slots                                         */
    la_ids  text;    /* needle's                                                           */
} la_task;

struct la_task_def {
    const char *name, *about, *paper;
    const char *reads; /* its keys: "vocab length" */
    la_task     usual;
    int         on_text; /* rows are windows of a text                                     */
    /* Checks the numbers and sets what follows from them. */
    la_status (*complete)(la_task *t);
    /* Row number `row` of a seed: tokens[length], and labels[length], all LA_NO_TARGET before. */
    void (*row)(const la_task *t, uint64_t seed, uint64_t row, int32_t *tokens, int32_t *labels);
};

extern const la_task_def *const la_tasks[]; /* ends with NULL */

/* NAME:key=value,key=value.  LA_NAME, with the nearest, for an unknown name or key; LA_ARG, with
 * what would fit, for numbers that do not.  After a failure there is nothing to free. */
la_status la_task_parse(const char *spec, la_task *out);
void      la_task_free(la_task *t);

/* As a spec that gives the same task: all of its keys, or (whole 0) those that are not as usual. */
void la_task_spec(const la_task *t, int whole, char out[LA_TASK_TEXT]);

/* Key number i of a task as "pairs=4", with its usual value, and what it is; NULL past the last. */
const char *la_task_key(const la_task_def *d, int i, char out[LA_TASK_TEXT], const char **help);

/* Of a task on a text (needle): the text, which must outlive the task, and its vocabulary, after
 * which come the task's own ids.  LA_DATA: the text is shorter than a row. */
la_status la_task_on_text(la_task *t, const la_ids *text, int64_t vocab);

/* Accuracy of a guess among all answers, and among those in the row (0: no such number). */
double la_task_chance(const la_task *t);
double la_task_shown_chance(const la_task *t);

/* tokens[rows][length] and labels[rows][length].  Row r is a function of the task, the seed and
 * first_row + r; with LA_TASK_TEST_SEED it is a test row, the same for all runs. */
void la_task_fill(const la_task *t, uint64_t seed, uint64_t first_row, int64_t rows,
                  int32_t *tokens, int32_t *labels);

/* For the files of tasks: number i that a row draws for a question, i < length, in [0, n). */
static inline int64_t la_task_below(const la_task *t, uint64_t seed, uint32_t question,
                                    uint64_t row, int64_t i, int64_t n) {
    uint64_t index = row * (uint64_t)t->length + (uint64_t)i;
    return (int64_t)la_rng_below(seed, la_rng_stream(LA_RNG_TASK, question), index, (uint64_t)n);
}
#endif
