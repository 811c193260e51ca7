/* record.c -- what a run has found, as a small file; and how it is made from the run's folder. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/compare/compare.h"
#include "train/compare/numbers.h"
#include "train/folder.h"
#include "train/save_file.h"

/* --- files --- */

static char *record_path(const la_comparison *k, const char *name) {
    size_t room = strlen(k->dir) + strlen(name) + 32;
    char  *path = malloc(room);
    if (path) snprintf(path, room, "%s/records/%s.json", k->dir, name);
    return path;
}

la_status la_record_load(const la_comparison *k, const char *name, json_t **value) {
    json_error_t error;
    char        *path = record_path(k, name);
    *value = NULL;
    if (!path) return la_fail(LA_NOMEM, "no memory for the name of a record");
    if (!access(path, F_OK)) {
        *value = json_load_file(path, 0, &error);
        if (!*value && !k->c->dry_run) {
            (void)la_fail(LA_DATA, "%s is damaged (line %d: %s) and is made anew", path, error.line,
                          error.text); /* the last may repeat what stands there */
            fprintf(stderr, "note: %s\n", la_error());
            unlink(path);
        }
    }
    free(path);
    return LA_OK;
}

int la_record_has(const json_t *value, const char *keys) {
    char key[64];
    for (int n; sscanf(keys, " %63s%n", key, &n) == 1; keys += n)
        if (!json_object_get(value, key)) return 0;
    return 1;
}

la_status la_json_save(const char *path, const json_t *value) {
    char *text = json_dumps(value, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (!text) return la_fail(LA_NOMEM, "no memory for %s", path);
    size_t n = strlen(text);
    text[n] = '\n'; /* in the place of the 0 */
    la_status s = la_file_put(path, (const unsigned char *)text, n + 1);
    free(text);
    return s;
}

la_status la_record_save(const la_comparison *k, const char *name, json_t *value) {
    char     *path = record_path(k, name), *folder = la_folder_path(k->dir, "records");
    la_status s = LA_OK;
    if (!path || !folder || !value) s = la_fail(LA_NOMEM, "no memory for a record");
    if (s == LA_OK) s = la_folder_make(folder);
    if (s == LA_OK) s = la_json_save(path, value);
    free(path);
    free(folder);
    json_decref(value);
    return s;
}

/* --- metrics.jsonl as a curve --- */

typedef struct curve {
    json_t *step, *loss, *val_loss, *val_accuracy, *elapsed;
    double  sum; /* of the training losses since the last evaluation */
    int64_t count, last_step;
    double  seconds, rss, ms[LA_RATE_STEPS];
    int64_t n_ms;
} curve;

static void take_line(curve *c, const json_t *line) {
    json_t *loss = json_object_get(line, "loss"), *val = json_object_get(line, "val_loss");
    c->last_step = json_integer_value(json_object_get(line, "step"));
    c->seconds = json_number_value(json_object_get(line, "elapsed_s"));
    c->rss = fmax(c->rss, json_number_value(json_object_get(line, "rss_bytes")));
    if (json_is_number(loss)) {
        c->sum += json_number_value(loss);
        c->count++;
        if (c->last_step > 1)
            c->ms[c->n_ms++ % LA_RATE_STEPS] = json_number_value(json_object_get(line, "ms"));
    }
    if (!json_is_number(val)) return;
    json_array_append_new(c->step, json_integer(c->last_step));
    json_array_append_new(c->loss, la_number_or_null(c->sum / (double)c->count));
    json_array_append_new(c->val_loss, la_number_or_null(la_number_of(val)));
    json_array_append_new(c->val_accuracy,
                          la_number_or_null(la_number_of(json_object_get(line, "val_accuracy"))));
    json_array_append_new(c->elapsed, json_real(c->seconds));
    c->sum = 0;
    c->count = 0;
}

static la_status read_metrics(const char *path, curve *c) {
    FILE   *f = fopen(path, "r");
    char   *line = NULL;
    size_t  room = 0;
    ssize_t n;
    if (!f && errno == ENOENT) return LA_OK; /* it ended before its first step */
    if (!f) return la_fail(LA_IO, "cannot read %s: %s", path, strerror(errno));
    while ((n = getline(&line, &room, f)) > 0) {
        json_t *object = json_loadb(line, (size_t)n, 0, NULL);
        if (object) take_line(c, object); /* the torn line of a killed run is no line */
        json_decref(object);
    }
    free(line);
    fclose(f);
    return LA_OK;
}

/* --- the record --- */

static json_t *last_of(const json_t *array) {
    size_t n = json_array_size(array);
    return n ? json_incref(json_array_get(array, n - 1)) : json_null();
}

static const char *status_of(int code, int64_t steps, int64_t wanted) {
    return code == 5 ? "diverged" : code ? "failed" : steps < wanted ? "early" : "finished";
}

static void add_option(void *options, const char *name, const char *was, const char *now) {
    (void)was;
    if (strcmp(name, "data") && strcmp(name, "keep"))
        json_object_set_new(options, name, json_string(now));
}

/* What differs from train's defaults. */
static json_t *options_of(const la_run_plan *r) {
    la_config usual;
    json_t   *options = json_object();
    la_config_init(&usual);
    la_config_diff(&usual, &r->config, add_option, options);
    return options;
}

static json_t *entry(const la_comparison *k, const la_run_plan *r, int code, const char *message,
                     curve *c) {
    int64_t last = c->n_ms < LA_RATE_STEPS ? c->n_ms : LA_RATE_STEPS;
    double  ms = last ? la_median(last, c->ms) : NAN;
    json_t *final = json_pack("{s:o,s:o}", "val_loss", code ? json_null() : last_of(c->val_loss),
                              "val_accuracy", code ? json_null() : last_of(c->val_accuracy));
    json_t *timing =
        json_pack("{s:i,s:i,s:f,s:o,s:o,s:I,s:O}", "threads", la_job_threads(k), "jobs",
                  (int)k->c->jobs, "seconds", c->seconds, "ms_per_step", la_number_or_null(ms),
                  "tokens_per_s", la_number_or_null((double)r->tokens / ms * 1e3), "peak_bytes",
                  (json_int_t)c->rss, "elapsed_s", c->elapsed);
    return json_pack(
        "{s:s,s:s,s:I,s:f,s:s,s:o,s:s,s:s,s:I,s:I,s:I,s:I,s:f,s:I,s:o,s:{s:O,s:O,s:O,s:O},s:o}",
        "problem", k->problem[r->problem].name, "variant", k->variant[r->variant].name, "seed",
        (json_int_t)r->seed, "lr", r->lr, "purpose", r->sweep ? "sweep" : "main", "options",
        options_of(r), "status", status_of(code, c->last_step, r->steps), "message",
        code ? message : "", "steps", (json_int_t)c->last_step, "parameters",
        (json_int_t)r->parameters, "frozen", (json_int_t)r->frozen, "state_bytes",
        (json_int_t)r->state_bytes, "flops_per_step", r->flops, "tokens_per_step",
        (json_int_t)r->tokens, "final", final, "curve", "step", c->step, "loss", c->loss,
        "val_loss", c->val_loss, "val_accuracy", c->val_accuracy, "timing", timing);
}

la_status la_record_make(const la_comparison *k, const la_run_plan *r, int code,
                         const char *message, json_t **record) {
    curve     c = {json_array(),
                   json_array(),
                   json_array(),
                   json_array(),
                   json_array(),
                   0,
                   0,
                   0,
                   0,
                   0,
                   {0},
                   0};
    char     *path = la_folder_path(la_run_folder(k, r->id), "metrics.jsonl");
    la_status s = path ? read_metrics(path, &c) : la_fail(LA_NOMEM, "no memory for a record");
    *record = s == LA_OK ? entry(k, r, code, message, &c) : NULL;
    if (s == LA_OK && !*record) s = la_fail(LA_NOMEM, "no memory for a record");
    json_decref(c.step);
    json_decref(c.loss);
    json_decref(c.val_loss);
    json_decref(c.val_accuracy);
    json_decref(c.elapsed);
    free(path);
    return s;
}
