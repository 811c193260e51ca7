/* flat.c -- what was decoded, checked as if a stranger had said it. */
#include "train/flat.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/arena.h"
#include "train/decode.h"

enum { SECONDS = 60, BYTES_PER_SECOND = 1 << 24 };

la_status la_flat_read(la_flat *f, la_confined_fn *decode, const la_params *wanted, size_t room) {
    room = (room + LA_ALIGN - 1) / LA_ALIGN * LA_ALIGN;
    la_image image = {.name = f->name, .bytes = f->image, .n = f->n, .wanted = wanted};
    f->confined = (la_confined){.name = f->name,
                                .bytes = room,
                                .memory = 4 * f->n + room + ((size_t)1 << 30),
                                .seconds = (int)(SECONDS + f->n / BYTES_PER_SECOND)};
    LA_TRY(la_confined_run(&f->confined, decode, &image));
    return la_flat_take(f, f->confined.room, room);
}

void la_flat_free(la_flat *f) {
    la_confined_free(&f->confined);
    free(f->image);
    free(f->config);
    free(f->kind);
    free(f->optim);
    free(f->points);
    free(f->line);
}

/* ---- copies ----------------------------------------------------------------------------- */

/* n bytes and a 0. */
static la_status copy(const la_flat *f, const void *from, size_t n, void *to) {
    char *bytes = malloc(n + 1);
    if (!bytes) return la_fail(LA_NOMEM, "no memory for %zu bytes of %s", n + 1, f->name);
    memcpy(bytes, from, n);
    bytes[n] = 0;
    *(void **)to = bytes;
    return LA_OK;
}

static la_status take_text(const la_flat *f, uint64_t at, char **text) {
    if (at < sizeof f->head || at >= f->bytes) return LA_OK;
    const unsigned char *from = f->room + at, *end = memchr(from, 0, f->bytes - at);
    return end ? copy(f, from, (size_t)(end - from), text) : LA_OK;
}

/* `bytes` bytes at `at` of n, where numbers of that size may stand. */
static int within(size_t n, uint64_t at, size_t bytes, size_t size) {
    return at % size == 0 && at <= n && bytes <= n - at;
}

static la_status take_points(la_flat *f) {
    uint64_t at = f->head.points_at;
    int64_t  n = f->head.points;
    if (n <= 0 || n > LA_VOCAB_MAX || at < sizeof f->head ||
        !within(f->bytes, at, (size_t)n * sizeof *f->points, sizeof *f->points))
        return LA_OK;
    return copy(f, f->room + at, (size_t)n * sizeof *f->points, &f->points);
}

static int order(int32_t group, const char *name, const la_flat_array *b) {
    return group != b->group ? (group < b->group ? -1 : 1) : strcmp(name, b->name);
}

static int by_name(const void *a, const void *b) {
    const la_flat_array *line = a;
    return order(line->group, line->name, b);
}

static la_status take_lines(la_flat *f) {
    char     shown[LA_FILE_NAME];
    uint64_t most = (f->bytes - sizeof f->head) / sizeof *f->line;
    f->lines = (size_t)(f->head.arrays < most ? f->head.arrays : most);
    size_t n = f->lines * sizeof *f->line;
    LA_TRY(copy(f, f->room + f->bytes - n, n, &f->line));
    for (size_t i = 0; i < f->lines; i++) f->line[i].name[sizeof f->line->name - 1] = 0;
    qsort(f->line, f->lines, sizeof *f->line, by_name);
    for (size_t i = 1; i < f->lines; i++)
        if (by_name(f->line + i - 1, f->line + i) == 0)
            return la_fail(LA_FORMAT, "%s has two arrays of the name %s in one group", f->name,
                           la_file_name(f->line[i].name, shown));
    return LA_OK;
}

la_status la_flat_take(la_flat *f, const void *room, size_t bytes) {
    f->room = room;
    f->bytes = bytes;
    memcpy(&f->head, room, sizeof f->head);
    LA_TRY(take_text(f, f->head.config, &f->config));
    LA_TRY(take_text(f, f->head.kind, &f->kind));
    LA_TRY(take_text(f, f->head.optim, &f->optim));
    LA_TRY(take_points(f));
    return take_lines(f);
}

la_status la_flat_points(const la_flat *f, const uint32_t **points, int64_t *n) {
    *points = f->points;
    *n = f->head.points;
    if (*n == 0 || *points) return LA_OK;
    return la_fail(LA_FORMAT, "%s: the %" PRId64 " code points of its tokenizer cannot be read",
                   f->name, *n);
}

/* ---- arrays ----------------------------------------------------------------------------- */

typedef struct wanted {
    int         group;
    const char *name;
} wanted;

static int by_wanted(const void *key, const void *line) {
    const wanted *w = key;
    return order(w->group, w->name, line);
}

static const la_flat_array *find(const la_flat *f, int group, const char *name) {
    wanted w = {group, name};
    return bsearch(&w, f->line, f->lines, sizeof *f->line, by_wanted);
}

static const char *problem_text(int32_t problem) {
    static const char *const text[] = {
#define X(id, words) [LA_FLAT_##id] = words,
        LA_FLAT_PROBLEM_MAP(X)
#undef X
    };
    int known = problem > 0 && (size_t)problem < sizeof text / sizeof *text;
    return text[known ? problem : LA_FLAT_UNREADABLE];
}

static const char *shape_text(const la_flat_array *a, char *buf, size_t room) {
    size_t at = (size_t)snprintf(buf, room, "(");
    for (int i = 0; i < a->rank && at < room; i++)
        at += (size_t)snprintf(buf + at, room - at, "%s%" PRIu64, i ? "," : "", a->d[i]);
    if (at < room) snprintf(buf + at, room - at, ")");
    return buf;
}

static la_status check_shape(const la_flat_array *a, const char *where, const char *name,
                             la_shape s) {
    char has[200], asks[LA_SHAPE_TEXT];
    if (a->rank < 0 || a->rank > LA_FLAT_RANK)
        return la_fail(LA_FORMAT, "%s/%s has no shape", where, name);
    int same = a->rank == s.n;
    for (int i = 0; same && i < s.n; i++) same = a->d[i] == (uint64_t)s.d[i];
    if (same) return LA_OK;
    return la_fail(LA_FORMAT, "%s/%s has the shape %s; the model's is %s", where, name,
                   shape_text(a, has, sizeof has), la_shape_text(s, asks));
}

/* NULL: they do not stand where they are said to. */
static const la_real *numbers(const la_flat *f, const la_flat_array *a, int64_t n) {
    size_t bytes = (size_t)n * sizeof(la_real);
    if (!within(a->in_room ? f->bytes : f->n, a->at, bytes, sizeof(la_real))) return NULL;
    const void *at = (a->in_room ? f->room : f->image) + a->at;
    return at;
}

la_status la_flat_numbers(const la_flat *f, int group, const char *where, const char *name,
                          la_shape s, const la_real **x) {
    const la_flat_array *a = find(f, group, name);
    if (!a) return la_fail(LA_FORMAT, "%s/%s is missing; the model has such an array", where, name);
    int32_t problem = a->problem;
    int     shape_is_known = problem == LA_FLAT_NONE || problem > LA_FLAT_NO_SHAPE;
    if (shape_is_known) LA_TRY(check_shape(a, where, name, s));
    *x = problem ? NULL : numbers(f, a, la_len(s));
    if (!*x) return la_fail(LA_FORMAT, "%s/%s %s", where, name, problem_text(problem));
    int64_t bad = la_find_nonfinite((size_t)la_len(s), *x);
    if (bad >= 0)
        return la_fail(LA_FORMAT,
                       "%s/%s holds a number that is not finite in %d bits: number %" PRId64
                       " of %" PRId64 " is %g",
                       where, name, LA_REAL_BITS, bad, la_len(s), (double)(*x)[bad]);
    return LA_OK;
}

la_status la_flat_check(const la_flat *f, int group, const char *where, const la_params *p) {
    const la_real *x;
    for (int i = 0; i < la_params_count(p); i++)
        LA_TRY(la_flat_numbers(f, group, where, la_param_name(p, i), la_param_shape(p, i), &x));
    return LA_OK;
}

la_status la_flat_no_more(const la_flat *f, int group, const char *where, const la_params *p) {
    char shown[LA_FILE_NAME];
    int  tied = la_param_find(p, LA_EMBEDDING) != LA_NO_PARAM;
    for (const la_flat_array *a = f->line; a < f->line + f->lines; a++)
        if (a->group == group && la_param_find(p, a->name) == LA_NO_PARAM &&
            !(tied && !strcmp(a->name, LA_HEAD)))
            return la_fail(LA_FORMAT, "%s/%s belongs to no parameter of the model", where,
                           la_file_name(a->name, shown));
    return LA_OK;
}

/* One by one: the gaps between them stay 0. */
void la_flat_copy(const la_flat *f, int group, const la_params *p, la_real *x) {
    for (int i = 0; i < la_params_count(p); i++) {
        int64_t        n = la_len(la_param_shape(p, i));
        const la_real *from = numbers(f, find(f, group, la_param_name(p, i)), n);
        memcpy(x + la_param_offset(p, i), from, (size_t)n * sizeof *x);
    }
}

int la_flat_has(const la_flat *f, int group, const char *name) {
    const la_flat_array *a = find(f, group, name);
    return a && a->problem != LA_FLAT_LINK;
}
