/* results_csv.c -- walks the results, and keeps on the way what a number is about. */
#include "train/page/results_csv.h"

#include <stdlib.h>
#include <string.h>

enum { PATH = 128, TEXT = 64 };

/* What is known of the numbers below a place; a copy goes down with each call. */
typedef struct place {
    char        table[PATH], what[PATH], at[TEXT], seed[TEXT], lr[TEXT];
    const char *problem, *variant, *name;
} place;

/* A string with quotes where a comma, a quote or the end of a line is in it. */
static void put_field(FILE *out, const char *s) {
    if (!s[strcspn(s, ",\"\r\n")]) {
        fputs(s, out);
        return;
    }
    putc('"', out);
    for (; *s; s++) {
        if (*s == '"') putc('"', out);
        putc(*s, out);
    }
    putc('"', out);
}

/* The shortest that reads back as the same number. */
static void number_text(const json_t *x, char text[TEXT]) {
    if (json_is_integer(x)) {
        snprintf(text, TEXT, "%" JSON_INTEGER_FORMAT, json_integer_value(x));
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, TEXT, "%.*g", digits, json_real_value(x));
        if (strtod(text, NULL) == json_real_value(x)) return;
    }
}

static void put_line(FILE *out, const place *p, const json_t *value) {
    const char *const field[] = {p->table, p->problem, p->variant, p->seed,
                                 p->lr,    p->name,    p->at,      p->what};
    char              text[TEXT];
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        put_field(out, field[i]);
        putc(',', out);
    }
    number_text(value, text);
    fprintf(out, "%s\n", text);
}

static void join(char *path, size_t size, char between, const char *more) {
    const size_t n = strlen(path);
    if (n)
        snprintf(path + n, size - n, "%c%s", between, more);
    else
        snprintf(path, size, "%s", more);
}

/* --- what an entry says of the numbers in it --- */
static void keep_text(const json_t *entry, const char *key, const char **text) {
    const char *s = json_string_value(json_object_get(entry, key));
    if (s) *text = s;
}

static void keep_number(const json_t *entry, const char *key, char text[TEXT]) {
    const json_t *x = json_object_get(entry, key);
    if (json_is_number(x)) number_text(x, text);
}

static void describe(const json_t *entry, place *p) {
    static const char *const names[] = {"what", "purpose", "name"};
    static const char *const places[] = {"length", "position", "layer", "head"};
    keep_text(entry, "problem", &p->problem);
    keep_text(entry, "variant", &p->variant);
    keep_number(entry, "seed", p->seed);
    keep_number(entry, "lr", p->lr);
    if (strcmp(p->table, "problems") == 0 && !*p->problem)
        keep_text(entry, "name", &p->problem);
    else
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            keep_text(entry, names[i], &p->name);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char text[TEXT] = "";
        keep_number(entry, places[i], text);
        if (*text) join(p->at, sizeof p->at, '/', text);
    }
}

/* Of an array of numbers: the steps or positions at which they are. */
static const json_t *marks_of(const json_t *entry, const json_t *marks) {
    const json_t *own = json_object_get(json_object_get(entry, "curve"), "step");
    if (!own) own = json_object_get(entry, "from");
    return json_is_array(own) ? own : marks;
}

/* --- the walk --- */
static void walk(FILE *out, const json_t *x, place p, const json_t *marks, int in_entry) {
    if (json_is_number(x)) {
        put_line(out, &p, x);
    } else if (json_is_object(x)) {
        const char *key;
        json_t     *value;
        if (in_entry) {
            describe(x, &p);
            marks = marks_of(x, marks);
        }
        json_object_foreach((json_t *)x, key, value) {
            place below = p;
            if (in_entry || json_is_number(value))
                join(below.what, sizeof below.what, '.', key);
            else
                join(below.table, sizeof below.table, '.', key);
            walk(out, value, below, marks, in_entry);
        }
    } else if (json_is_array(x)) {
        for (size_t i = 0; i < json_array_size(x); i++) {
            const json_t *value = json_array_get(x, i);
            place         below = p;
            char          text[TEXT] = "";
            if (json_is_number(json_array_get(marks, i)) && !json_is_object(value)) {
                number_text(json_array_get(marks, i), text);
                join(below.at, sizeof below.at, '/', text);
            }
            walk(out, value, below, marks, 1);
        }
    }
}

la_status la_results_csv(const json_t *results, FILE *out) {
    const place nothing = {.problem = "", .variant = "", .name = ""};
    fputs("table,problem,variant,seed,lr,name,at,what,value\n", out);
    walk(out, results, nothing, NULL, 0);
    return ferror(out) ? la_fail(LA_IO, "writing the table of results failed") : LA_OK;
}
