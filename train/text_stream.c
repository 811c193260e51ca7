/* text_stream.c -- stdio's stream with our own writing behind it. */
#define _GNU_SOURCE /* fopencookie */
#include "train/text_stream.h"

#include <stdlib.h>
#include <string.h>

typedef struct target {
    char  **text;
    size_t *n, room;
    int     lost;
} target;

/* 0 is a failure. */
static ssize_t add(void *cookie, const char *bytes, size_t n) {
    target *t = cookie;
    size_t  need = *t->n + n + 1;
    if (need > t->room) {
        char *more = realloc(*t->text, 2 * need);
        if (!more) {
            t->lost = 1;
            return 0;
        }
        *t->text = more;
        t->room = 2 * need;
    }
    memcpy(*t->text + *t->n, bytes, n);
    *t->n += n;
    (*t->text)[*t->n] = 0;
    return (ssize_t)n;
}

static int end(void *cookie) {
    target *t = cookie;
    int     lost = t->lost;
    if (lost) {
        free(*t->text);
        *t->text = NULL;
        *t->n = 0;
    }
    free(t);
    return lost ? EOF : 0;
}

FILE *la_text_stream(char **text, size_t *n) {
    target *t = malloc(sizeof *t);
    *text = calloc(1, 1);
    *n = 0;
    if (t) *t = (target){.text = text, .n = n, .room = 1};
    FILE *f = t && *text ? fopencookie(t, "w", (cookie_io_functions_t){.write = add, .close = end})
                         : NULL;
    if (f) return f;
    free(t);
    free(*text);
    *text = NULL;
    return NULL;
}
