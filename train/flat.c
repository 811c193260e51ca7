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
    f->head = f->confined.room;
    f->room = room;
    return LA_OK;
}

void la_flat_free(la_flat *f) {
    la_confined_free(&f->confined);
    free(f->image);
}

const char *la_flat_text(const la_flat *f, uint64_t at) {
    const char *room = (const char *)f->head;
    if (at < sizeof *f->head || at >= f->room) return NULL;
    return memchr(room + at, 0, f->room - at) ? room + at : NULL;
}

/* `bytes` bytes at `at` of n, where numbers of that size may stand. */
static int within(size_t n, uint64_t at, size_t bytes, size_t size) {
    return at % size == 0 && at <= n && bytes <= n - at;
}

la_status la_flat_points(const la_flat *f, const uint32_t **points, int64_t *n) {
    uint64_t at = f->head->points_at;
    *points = NULL;
    *n = f->head->points;
    if (*n == 0) return LA_OK;
    if (*n < 0 || *n > LA_VOCAB_MAX || at < sizeof *f->head ||
        !within(f->room, at, (size_t)*n * sizeof **points, sizeof **points))
        return la_fail(LA_FORMAT, "%s: the %" PRId64 " code points of its tokenizer cannot be read",
                       f->name, *n);
    *points = (const uint32_t *)(const void *)((const char *)f->head + at);
    return LA_OK;
}

/* ---- arrays ----------------------------------------------------------------------------- */

static uint64_t count(const la_flat *f) {
    uint64_t most = (f->room - sizeof *f->head) / sizeof(la_flat_array);
    return f->head->arrays < most ? f->head->arrays : most;
}

static const la_flat_array *line(const la_flat *f, uint64_t i) {
    return (const la_flat_array *)(const void *)((const char *)f->head + f->room) - 1 - i;
}

static const la_flat_array *find(const la_flat *f, int group, const char *name) {
    for (uint64_t i = 0; i < count(f); i++) {
        const la_flat_array *a = line(f, i);
        if (a->group == group && !strncmp(a->name, name, sizeof a->name)) return a;
    }
    return NULL;
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
    if (!within(a->in_room ? f->room : f->n, a->at, bytes, sizeof(la_real))) return NULL;
    const void *at = (a->in_room ? (const unsigned char *)f->head : f->image) + a->at;
    return at;
}

la_status la_flat_numbers(const la_flat *f, int group, const char *where, const char *name,
                          la_shape s, const la_real **x) {
    const la_flat_array *a = find(f, group, name);
    if (!a) return la_fail(LA_FORMAT, "%s/%s is missing; the model has such an array", where, name);
    int32_t problem = a->problem,
            n_is_known = problem == LA_FLAT_NONE || problem > LA_FLAT_NO_SHAPE;
    if (n_is_known) LA_TRY(check_shape(a, where, name, s));
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
    char name[LA_FILE_NAME], shown[LA_FILE_NAME];
    int  tied = la_param_find(p, LA_EMBEDDING) != LA_NO_PARAM;
    for (uint64_t i = 0; i < count(f); i++) {
        const la_flat_array *a = line(f, i);
        memcpy(name, a->name, sizeof name);
        name[sizeof name - 1] = 0;
        if (a->group == group && la_param_find(p, name) == LA_NO_PARAM &&
            !(tied && !strcmp(name, LA_HEAD)))
            return la_fail(LA_FORMAT, "%s/%s belongs to no parameter of the model", where,
                           la_file_name(name, shown));
    }
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
