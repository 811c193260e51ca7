/* params.c -- the store of a model's numbers. */
#include "autograd/params.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/arena.h"
#include "tensor/rng.h"

enum { MAX_SCOPE = 16, MAX_PREFIX = 256, GAP = LA_ALIGN / (int)sizeof(la_real) };

typedef struct entry {
    const char *name;
    la_shape    shape;
    la_init     how;
    double      scale;
    size_t      offset;
    int         frozen;
} entry;

struct la_params {
    la_arena  arena;
    entry    *entries;
    int       n, room;
    char      prefix[MAX_PREFIX];
    size_t    scope[MAX_SCOPE]; /* length of the prefix before each push */
    int       depth;
    size_t    len;
    int64_t   numbers[2]; /* trainable, frozen */
    la_real  *x, *g;
    int       reserved; /* x and g are addresses only: x has those of both */
    double   *work;     /* of la_init_fill */
    la_status failed;   /* the first failure, reported by la_params_alloc */
};

la_status la_params_create(la_params **p) {
    *p = calloc(1, sizeof **p);
    return *p ? LA_OK : la_fail(LA_NOMEM, "no memory for a parameter store");
}

void la_params_destroy(la_params *p) {
    if (!p) return;
    if (p->reserved)
        la_unreserve(p->x, 2 * p->len * sizeof *p->x);
    else {
        free(p->x);
        free(p->g);
    }
    free(p->work);
    free(p->entries);
    la_arena_free(&p->arena);
    free(p);
}

void la_params_push(la_params *p, const char *fmt, ...) {
    size_t  at = strlen(p->prefix);
    va_list ap;
    if (p->depth == MAX_SCOPE) {
        p->failed = la_fail(LA_ARG, "parameter scopes are more than %d deep", MAX_SCOPE);
        return;
    }
    p->scope[p->depth++] = at;
    va_start(ap, fmt);
    int n = vsnprintf(p->prefix + at, MAX_PREFIX - at, fmt, ap);
    va_end(ap);
    if (n < 0 || at + (size_t)n + 2 > MAX_PREFIX) {
        p->prefix[at] = 0;
        if (!p->failed)
            p->failed = la_fail(LA_ARG, "a parameter name is longer than %d", MAX_PREFIX);
        return;
    }
    strcat(p->prefix, ".");
}

void la_params_pop(la_params *p) {
    if (p->depth) p->prefix[p->scope[--p->depth]] = 0;
}

static la_param fail(la_params *p, la_status s) {
    if (!p->failed) p->failed = s;
    return LA_NO_PARAM;
}

static la_param add(la_params *p, const char *name, la_shape s, la_init how, double scale,
                    int frozen) {
    if (p->failed) return LA_NO_PARAM;
    char *full = la_arena_printf(&p->arena, "%s%s", p->prefix, name), text[LA_SHAPE_TEXT];
    if (!full) return fail(p, la_fail(LA_NOMEM, "no memory for the parameter name %s", name));
    if (!la_shape_ok(s))
        return fail(p, la_fail(LA_SHAPE, "parameter %s cannot have the shape %s", full,
                               la_shape_text(s, text)));
    la_status checked = la_init_check(how, s, full);
    if (checked != LA_OK) return fail(p, checked);
    if (la_param_find(p, full) != LA_NO_PARAM)
        return fail(p, la_fail(LA_NAME, "there are two parameters named %s", full));
    if (p->n == p->room) {
        int    room = p->room ? 2 * p->room : 64;
        entry *more = realloc(p->entries, (size_t)room * sizeof *more);
        if (!more) return fail(p, la_fail(LA_NOMEM, "no memory for %d parameters", room));
        p->entries = more;
        p->room = room;
    }
    size_t len = (size_t)la_len(s);
    p->entries[p->n] = (entry){full, s, how, scale, p->len, frozen};
    p->len += (len + GAP - 1) / GAP * GAP;
    p->numbers[frozen] += (int64_t)len;
    return p->n++;
}

la_param la_params_add(la_params *p, const char *name, la_shape s, la_init how, double scale) {
    return add(p, name, s, how, scale, 0);
}

la_param la_params_add_frozen(la_params *p, const char *name, la_shape s, la_init how,
                              double scale) {
    return add(p, name, s, how, scale, 1);
}

static void draw_one(la_params *p, int i, uint64_t seed, uint64_t draw) {
    const entry *e = p->entries + i;
    la_init_fill(e->how, e->scale, e->shape, seed, la_rng_stream(LA_RNG_INIT, (uint32_t)i), draw,
                 p->work, p->x + e->offset);
}

la_status la_params_alloc(la_params *p, uint64_t seed, int with_grad) {
    if (p->failed) return p->failed;
    p->x = la_alloc_aligned(p->len * sizeof *p->x);
    p->g = with_grad ? la_alloc_aligned(p->len * sizeof *p->g) : NULL;
    size_t work = 1;
    for (int i = 0; i < p->n; i++) {
        size_t needs = la_init_work(p->entries[i].how, p->entries[i].shape);
        if (needs > work) work = needs;
    }
    p->work = malloc(work * sizeof *p->work);
    if (!p->x || (with_grad && !p->g) || !p->work)
        return la_fail(LA_NOMEM, "no memory for %lld parameters (%.1f MiB)",
                       (long long)(p->numbers[0] + p->numbers[1]),
                       (double)p->len * sizeof *p->x / 0x1p20);
    for (int i = 0; i < p->n; i++) draw_one(p, i, seed, 0);
    return LA_OK;
}

la_status la_params_reserve(la_params *p) {
    if (p->failed) return p->failed;
    p->x = la_reserve(2 * p->len * sizeof *p->x);
    if (!p->x)
        return la_fail(LA_NOMEM, "no addresses for %lld parameters and their gradients (%.1f MiB)",
                       (long long)(p->numbers[0] + p->numbers[1]),
                       2.0 * (double)p->len * sizeof *p->x / 0x1p20);
    p->g = p->x + p->len;
    p->reserved = 1;
    return LA_OK;
}

void la_param_redraw(la_params *p, la_param i, uint64_t seed, uint64_t draw) {
    draw_one(p, i, seed, draw);
}

int      la_params_count(const la_params *p) { return p->n; }
int64_t  la_params_numbers(const la_params *p) { return p->numbers[0]; }
int64_t  la_params_frozen_numbers(const la_params *p) { return p->numbers[1]; }
size_t   la_params_len(const la_params *p) { return p->len; }
la_real *la_params_x(la_params *p) { return p->x; }
la_real *la_params_g(la_params *p) { return p->g; }

const char *la_param_name(const la_params *p, la_param i) { return p->entries[i].name; }
la_shape    la_param_shape(const la_params *p, la_param i) { return p->entries[i].shape; }
size_t      la_param_offset(const la_params *p, la_param i) { return p->entries[i].offset; }
int         la_param_frozen(const la_params *p, la_param i) { return p->entries[i].frozen; }
int         la_param_decays(const la_params *p, la_param i) {
            return !p->entries[i].frozen && p->entries[i].shape.n >= 2;
}

la_param la_param_find(const la_params *p, const char *name) {
    for (int i = 0; i < p->n; i++)
        if (!strcmp(p->entries[i].name, name)) return i;
    return LA_NO_PARAM;
}

la_node *la_param_node(la_tape *t, la_params *p, la_param i) {
    if (i == LA_NO_PARAM || !p->x)
        return la_tape_fail(t, la_fail(LA_STATE, "a parameter was used before it was allocated"));
    const entry *e = p->entries + i;
    la_node     *n = la_tape_find_leaf(t, p->x + e->offset);
    if (n) return n;
    la_real *g = p->g && la_tape_training(t) && !e->frozen ? p->g + e->offset : NULL;
    return la_leaf(t, e->name, e->shape, p->x + e->offset, g);
}
