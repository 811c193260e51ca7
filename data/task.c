/* task.c -- NAME:key=value,key=value for tasks, and rows one after the other. */
#include "data/task.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/names.h"
#include "tensor/words.h"

#define X(name) extern const la_task_def la_task_##name;
#include "data/tasks/tasks.def"
#undef X

const la_task_def *const la_tasks[] = {
#define X(name) &la_task_##name,
#include "data/tasks/tasks.def"
#undef X
    NULL,
};

typedef enum type { INT, REAL, FILL } type;

static const struct key {
    const char *name;
    type        type;
    double      min, max;
    size_t      at; /* its field in la_task */
    const char *help;
} keys[] = {
#define K(name, type, min, max, help) {#name, type, min, max, offsetof(la_task, name), help},
    K(vocab, INT, 2, 1 << 24, "ids there are") K(length, INT, 2, 1 << 24, "tokens of a row")
        K(pairs, INT, 1, 1 << 22, "keys with a value each")
            K(fill, FILL, 0, 0, "tokens between the questions: zero or random")
                K(power, REAL, 0.001, 8,
                  "slot i has the weight i^(power-1): small is near, 1 is anywhere")
                    K(distance, INT, 2, 1 << 24, "tokens from the key to where it stands again")
                        K(keys, INT, 1, 1 << 20, "ids that serve as keys")
                            K(values, INT, 2, 1 << 20, "ids that serve as values")
#undef K
                                {0},
};

static const char *const fills[] = {"zero", "random", NULL}; /* la_task_filling */

static const char *task_at(int i) { return la_tasks[i] ? la_tasks[i]->name : NULL; }
static const char *fill_at(int i) { return fills[i]; }

static const char *key_at(int i) { return keys[i].name; }

static la_status set(const struct key *k, const char *value, la_task *t) {
    void  *field = (char *)t + k->at;
    char   shown[LA_SHOWN];
    double x;
    if (k->type == FILL) {
        int i = la_name_index(value, fill_at);
        if (i < 0) return la_name_unknown("fill of --task", la_shown(value, shown), fill_at);
        t->fill = (la_task_filling)i;
        return LA_OK;
    }
    if (!la_read_number(value, k->type == INT, &x) || !(x >= k->min && x <= k->max))
        return la_fail(LA_ARG, "%s in --task must be a %snumber from %.15g to %.15g, and is \"%s\"",
                       k->name, k->type == INT ? "whole " : "", k->min, k->max,
                       la_shown(value, shown));
    if (k->type == INT)
        *(int64_t *)field = (int64_t)x;
    else
        *(double *)field = x;
    return LA_OK;
}

static la_status pair(char *text, la_task *t) {
    char shown[LA_SHOWN], *value = strchr(text, '=');
    if (!*text)
        return la_fail(LA_ARG,
                       "nothing stands after the colon or a comma of --task %s: write key=value, "
                       "or leave it out",
                       t->def->name);
    if (value) *value++ = 0;
    int i = la_name_index(text, key_at);
    if (i < 0) return la_name_unknown("key of --task", la_shown(text, shown), key_at);
    if (!la_has_word(t->def->reads, keys[i].name))
        return la_fail(LA_ARG, "the task %s does not read %s (%s): it reads %s", t->def->name,
                       keys[i].name, keys[i].help, t->def->reads);
    return set(keys + i, value ? value : "", t);
}

la_status la_task_parse(const char *spec, la_task *out) {
    char shown[LA_SHOWN], *copy = strdup(spec), *text = copy ? strchr(copy, ':') : NULL, *next;
    *out = (la_task){0};
    if (!copy) return la_fail(LA_NOMEM, "no memory for --task");
    if (text) *text++ = 0;
    int       i = la_name_index(copy, task_at);
    la_status s = i < 0 ? la_name_unknown("task", la_shown(copy, shown), task_at) : LA_OK;
    if (s == LA_OK) {
        *out = la_tasks[i]->usual;
        out->def = la_tasks[i];
    }
    for (; text && s == LA_OK; text = next) {
        next = strchr(text, ',');
        if (next) *next++ = 0;
        s = pair(text, out);
    }
    if (s == LA_OK) s = out->def->complete(out);
    free(copy);
    if (s != LA_OK) la_task_free(out);
    return s;
}

void la_task_free(la_task *t) {
    free(t->weights);
    *t = (la_task){0};
}

/* "pairs=4" */
static void write_key(const la_task *t, const struct key *k, char out[LA_TASK_TEXT]) {
    const void *field = (const char *)t + k->at;
    char        number[LA_NUMBER_TEXT];
    switch (k->type) {
    case INT:
        snprintf(out, LA_TASK_TEXT, "%s=%lld", k->name, (long long)*(const int64_t *)field);
        break;
    case REAL:
        snprintf(out, LA_TASK_TEXT, "%s=%s", k->name,
                 la_number_text(*(const double *)field, number));
        break;
    case FILL:
        snprintf(out, LA_TASK_TEXT, "%s=%s", k->name, fills[t->fill]);
        break;
    }
}

void la_task_spec(const la_task *t, int whole, char out[LA_TASK_TEXT]) {
    int  n = snprintf(out, LA_TASK_TEXT, "%s", t->def->name);
    char is[LA_TASK_TEXT], usually[LA_TASK_TEXT];
    for (int i = 0, any = 0; keys[i].name; i++) {
        if (!la_has_word(t->def->reads, keys[i].name)) continue;
        write_key(t, keys + i, is);
        write_key(&t->def->usual, keys + i, usually);
        if (!whole && !strcmp(is, usually)) continue;
        n += snprintf(out + n, (size_t)(LA_TASK_TEXT - n), "%c%s", any++ ? ',' : ':', is);
    }
}

const char *la_task_key(const la_task_def *d, int i, char out[LA_TASK_TEXT], const char **help) {
    for (const struct key *k = keys; k->name; k++) {
        if (!la_has_word(d->reads, k->name) || i-- > 0) continue;
        write_key(&d->usual, k, out);
        *help = k->help;
        return out;
    }
    return NULL;
}

la_status la_task_on_text(la_task *t, const la_ids *text, int64_t vocab) {
    if (text->n < t->length)
        return la_fail(LA_DATA,
                       "the task %s hides in windows of %lld tokens, and the text has %lld",
                       t->def->name, (long long)t->length, (long long)text->n);
    t->text = *text;
    t->vocab = vocab + t->keys + t->values;
    return LA_OK;
}

double la_task_chance(const la_task *t) { return 1.0 / (double)t->answers; }
double la_task_shown_chance(const la_task *t) { return t->shown ? 1.0 / (double)t->shown : 0; }

void la_task_fill(const la_task *t, uint64_t seed, uint64_t first_row, int64_t rows,
                  int32_t *tokens, int32_t *labels) {
    for (int64_t r = 0; r < rows; r++, tokens += t->length, labels += t->length) {
        for (int64_t i = 0; i < t->length; i++) labels[i] = LA_NO_TARGET;
        t->def->row(t, seed, first_row + (uint64_t)r, tokens, labels);
    }
}
