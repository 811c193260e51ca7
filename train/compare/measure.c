/* measure.c -- command lines for bench and gradcheck, and rows from their JSON. */
#include "train/compare/measure.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/layers.h"
#include "train/compare/child.h"
#include "train/text_stream.h"

enum { OWN = 8, WORD = 64, REASON = 512 };
enum { DECODE_AFTER = 132 }; /* tokens bench decode takes after a position */
enum { USAGE = 2, NO_ROOM = 6, KILLED = 128 + 9 };

/* --- a command line --- */
typedef struct command {
    const char **argv;
    int          n;
    char         word[OWN][WORD], *attn, *list; /* what argv points to */
} command;

static int count(const char *const *list) {
    int n = 0;
    while (list && list[n]) n++;
    return n;
}

/* program, mode, the options, `more` of them, --attn: then there is room for OWN words. */
static la_status begin(command *x, const la_measure *m, const char *mode, const char *const *more) {
    int    n = count(m->options) + count(more);
    size_t length = strlen(m->attn) + sizeof "--attn=";
    *x = (command){.argv = calloc((size_t)n + OWN + 5, sizeof *x->argv), .attn = malloc(length)};
    if (!x->argv || !x->attn) return la_fail(LA_NOMEM, "no memory for a command of %d words", n);
    x->argv[x->n++] = "bench";
    x->argv[x->n++] = mode;
    for (int i = 0; i < count(m->options); i++) x->argv[x->n++] = m->options[i];
    for (int i = 0; i < count(more); i++) x->argv[x->n++] = more[i];
    snprintf(x->attn, length, "--attn=%s", m->attn);
    x->argv[x->n++] = x->attn;
    x->argv[x->n++] = "--json";
    return LA_OK;
}

static void end(command *x) {
    free(x->argv);
    free(x->attn);
    free(x->list);
    *x = (command){0};
}

/* A word of ours, a number behind it. */
static void add(command *x, int place, const char *option, int64_t value) {
    snprintf(x->word[place], WORD, "--%s=%lld", option, (long long)value);
    x->argv[x->n++] = x->word[place];
}

/* --- its end --- */
typedef struct outcome {
    json_t *lines;
    char   *message; /* of an end that is not as asked for */
    int     code;
} outcome;

static void forget(outcome *o) {
    json_decref(o->lines);
    free(o->message);
    *o = (outcome){0};
}

static bool is_refusal(int code) { return code == USAGE || code == NO_ROOM || code == KILLED; }

/* A usage error that does not come of the length: `ended` is of a length that should do. */
static la_status misused(const command *x, const outcome *ended) {
    return la_fail(LA_ARG, "%s %.32s: %.400s", x->argv[0], x->argv[1], ended->message);
}

static la_status unexpected(const command *x, const outcome *o) {
    return la_fail(LA_IO, "%s %.32s ended with code %d: %.400s", x->argv[0], x->argv[1], o->code,
                   o->message);
}

static void say_why(const outcome *o, char refused[REASON]) {
    snprintf(refused, REASON, "%s%s", o->code == USAGE ? "" : "did not fit: ", o->message);
}

static json_t *number_of(const json_t *line, const char *key) {
    json_t *x = line ? json_object_get(line, key) : NULL;
    return json_is_number(x) ? json_incref(x) : json_null();
}

/* Numbers that are counts: bench writes them as it writes any other. */
static json_t *count_of(const json_t *line, const char *key) {
    const json_t *x = line ? json_object_get(line, key) : NULL;
    return json_is_number(x) ? json_integer((json_int_t)json_number_value(x)) : json_null();
}

static la_status append(json_t *rows, json_t *row) {
    return row && json_array_append_new(rows, row) == 0
               ? LA_OK
               : la_fail(LA_NOMEM, "no memory for a row of a measurement");
}

/* --- training steps --- */
static int repeats_at(int64_t n) {
    return n < 4096 ? 0 : n < 16384 ? 3 : n < 32768 ? 2 : 1; /* 0: as many as bench likes */
}

/* line NULL: refused. */
static json_t *length_row(int64_t n, const json_t *line, const char *refused) {
    json_t *repeats = line ? count_of(line, "repeats") : json_integer(0);
    return json_pack("{s:I, s:s, s:o, s:o, s:o, s:o}", "length", (json_int_t)n, "refused", refused,
                     "ms_per_step", number_of(line, "ms_per_step"), "tokens_per_s",
                     number_of(line, "tokens_per_s"), "peak_bytes", count_of(line, "peak_bytes"),
                     "repeats", repeats);
}

static la_status take_steps(command *x, const la_measure *m, int64_t n, int repeats, outcome *o) {
    LA_TRY(begin(x, m, "train", m->training));
    add(x, 0, "batch-size", 1);
    add(x, 1, "grad-accum", 1);
    add(x, 2, "block-size", n);
    add(x, 3, "repeats", repeats);
    return la_child_json(x->argv, m->threads, &o->lines, &o->message, &o->code);
}

/* LA_ARG: the options are refused with windows of n tokens, too, which they should go with. */
static la_status check_options(const la_measure *m, int64_t n) {
    command   x = {0};
    outcome   o = {0};
    la_status s = take_steps(&x, m, n, 1, &o);
    if (s == LA_OK && o.code == USAGE) s = misused(&x, &o);
    end(&x);
    forget(&o);
    return s;
}

/* *sound: that the options go with some length is known. */
static la_status measure_length(command *x, const la_measure *m, int64_t n, int64_t usual,
                                bool *sound, json_t *rows) {
    char      refused[REASON];
    outcome   o = {0};
    la_status s = take_steps(x, m, n, repeats_at(n), &o);
    if (s == LA_OK && o.code == USAGE && !*sound)
        s = n == usual ? misused(x, &o) : check_options(m, usual);
    if (s == LA_OK) {
        const json_t *line = json_array_get(o.lines, 0);
        *sound = *sound || o.code == 0 || o.code == USAGE;
        if (o.code == 0 && line)
            s = append(rows, length_row(n, line, ""));
        else if (is_refusal(o.code)) {
            say_why(&o, refused);
            s = append(rows, length_row(n, NULL, refused));
        } else
            s = unexpected(x, &o);
    }
    forget(&o);
    return s;
}

la_status la_measure_length(const la_measure *m, int64_t shortest, int64_t longest, json_t *rows) {
    la_status s = LA_OK;
    int64_t   usual = m->block ? m->block : shortest;
    bool      sound = false;
    if (shortest < 1) return la_fail(LA_ARG, "lengths begin at 1, not %lld", (long long)shortest);
    for (int64_t n = shortest; n <= longest && s == LA_OK; n *= 2) {
        command x = {0};
        s = measure_length(&x, m, n, usual, &sound, rows);
        end(&x);
    }
    return s;
}

/* --- decoding --- */
/* Tokens that the attention lets a text have, where options that are open are for n; 0: any. */
static la_status longest_of(const la_measure *m, int64_t n, int64_t *longest) {
    la_attn_pattern p;
    *longest = 0;
    LA_TRY(la_attn_pattern_parse(m->attn, 0, &p));
    for (int i = 0; i < p.n; i++)
        for (int j = 0; j < p.mix[i].n; j++) {
            la_attn_cfg c = p.mix[i].part[j].cfg;
            la_attn_complete(&c, n);
            int64_t most = la_attn_longest(&c);
            if (most > 0 && (!*longest || most < *longest)) *longest = most;
        }
    return LA_OK;
}

/* Whether the options say --pos=rope, or --pos rope; the last word on it counts. */
static bool is_rope(const la_measure *m) {
    bool rope = false;
    for (int i = 0; m->options && m->options[i]; i++) {
        const char *o = m->options[i];
        if (!strncmp(o, "--pos=", 6)) rope = !strcmp(o + 6, "rope");
        if (!strcmp(o, "--pos") && m->options[i + 1]) rope = !strcmp(m->options[i + 1], "rope");
    }
    return rope;
}

static json_t *decode_row(int64_t position, const json_t *line, const char *refused) {
    json_t *ms = number_of(line, "ms_per_token");
    double  x = json_number_value(ms);
    return json_pack("{s:I, s:s, s:o, s:o, s:o}", "position", (json_int_t)position, "refused",
                     refused, "ms_per_token", ms, "tokens_per_s",
                     x > 0 ? json_real(1e3 / x) : json_null(), "state_bytes",
                     count_of(line, "state_bytes"));
}

static la_status make_list(command *x, const int64_t *positions, int n) {
    size_t size;
    FILE  *f = la_text_stream(&x->list, &size);
    if (!f) return la_fail(LA_NOMEM, "no memory for %d positions", n);
    fputs("--positions=", f);
    for (int i = 0; i < n; i++) fprintf(f, "%s%lld", i ? "," : "", (long long)positions[i]);
    if (fclose(f) != 0) return la_fail(LA_NOMEM, "no memory for %d positions", n);
    x->argv[x->n++] = x->list;
    return LA_OK;
}

static la_status generate(command *x, const la_measure *m, const int64_t *positions, int n,
                          int64_t block, outcome *o) {
    LA_TRY(begin(x, m, "decode", NULL));
    x->argv[x->n++] = is_rope(m) ? "--pos=rope" : "--pos=none";
    if (block) add(x, 0, "block-size", block);
    LA_TRY(make_list(x, positions, n));
    return la_child_json(x->argv, m->threads, &o->lines, &o->message, &o->code);
}

/* LA_ARG: the options are refused at the first position alone, too. */
static la_status check_first(const la_measure *m, int64_t position, int64_t block) {
    command   x = {0};
    outcome   o = {0};
    int64_t   end_of_it = position + DECODE_AFTER;
    la_status s = generate(&x, m, &position, 1, block < end_of_it ? block : end_of_it, &o);
    if (s == LA_OK && o.code == USAGE) s = misused(&x, &o);
    end(&x);
    forget(&o);
    return s;
}

/* The first `within` positions are measured, in one process; from the first one that it cannot do
 * on they are refused. */
static la_status measure_decode(command *x, const la_measure *m, const int64_t *positions,
                                int within, int64_t block, json_t *rows) {
    char      refused[REASON];
    outcome   o = {0};
    la_status s = generate(x, m, positions, within, block, &o);
    if (s == LA_OK && o.code == USAGE && !json_array_size(o.lines))
        s = check_first(m, positions[0], block);
    if (s == LA_OK && o.code != 0 && !is_refusal(o.code)) s = unexpected(x, &o);
    if (s == LA_OK) say_why(&o, refused);
    for (int i = 0; i < within && s == LA_OK; i++) {
        const json_t *line = json_array_get(o.lines, (size_t)i);
        s = append(rows, decode_row(positions[i], line, line ? "" : refused));
    }
    forget(&o);
    return s;
}

la_status la_measure_decode(const la_measure *m, const int64_t *positions, int n, json_t *rows,
                            char note[LA_MEASURE_NOTE]) {
    int64_t longest, block, most = n > 0 ? positions[n - 1] + DECODE_AFTER : 0;
    int     within = 0;
    char    refused[200];
    LA_TRY(longest_of(m, most, &longest));
    block = longest < most ? longest : most; /* 0: as it is */
    while (within < n && (!longest || positions[within] + DECODE_AFTER <= longest)) within++;
    snprintf(
        note, LA_MEASURE_NOTE, "Tokens are generated with --pos %s%s%s.",
        is_rope(m) ? "rope" : "none", is_rope(m) ? "" : ": learned positions end at --block-size",
        longest ? ", and with a --block-size as long as the text: the attention ends there" : "");
    command   x = {0};
    la_status s = within ? measure_decode(&x, m, positions, within, block, rows) : LA_OK;
    end(&x);
    snprintf(refused, sizeof refused,
             "the attention weighs places and ends at %lld tokens, by its option length",
             (long long)longest);
    for (int i = within; i < n && s == LA_OK; i++)
        s = append(rows, decode_row(positions[i], NULL, refused));
    return s;
}

/* --- gradients --- */
enum { MOST_NAMES = LA_MAX_PATTERN * LA_MAX_MIX };

/* "elu1", "softmax both ways": each variant of the pattern once, without none. */
static la_status names_of(const la_measure *m, char (*name)[WORD], int *n) {
    la_attn_pattern p;
    LA_TRY(la_attn_pattern_parse(m->attn, 0, &p));
    *n = 0;
    for (int i = 0; i < p.n; i++)
        for (int j = 0; j < p.mix[i].n; j++) {
            la_attn_cfg c = p.mix[i].part[j].cfg;
            int         known = 0;
            c.bidirectional = m->bidirectional;
            if (!la_attn_op(&c)) continue;
            snprintf(name[*n], WORD, "%s%s", c.variant->name, m->bidirectional ? " both ways" : "");
            while (strcmp(name[known], name[*n]) != 0) known++;
            *n += known == *n;
        }
    return LA_OK;
}

la_status la_measure_gradcheck(const la_measure *m, json_t *rows) {
    char        name[MOST_NAMES][WORD];
    const char *argv[MOST_NAMES + 3] = {"gradcheck", "--json"};
    outcome     o = {0};
    int         n;
    LA_TRY(names_of(m, name, &n));
    if (!n) return LA_OK;
    for (int i = 0; i < n; i++) argv[2 + i] = name[i];
    LA_TRY(la_child_json(argv, m->threads, &o.lines, &o.message, &o.code));
    la_status s = LA_OK;
    if (o.code > 1 || json_array_size(o.lines) != (size_t)n) /* 1, and all lines: one is wrong */
        s = la_fail(LA_IO, "gradcheck of %.64s ended with code %d: %.400s", m->attn, o.code,
                    o.message);
    else if (json_array_extend(rows, o.lines))
        s = la_fail(LA_NOMEM, "no memory for rows of gradcheck");
    forget(&o);
    return s;
}
