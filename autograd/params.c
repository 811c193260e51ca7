/* params.c -- the store of trainable numbers. */
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
} entry;

struct la_params {
    la_arena  arena;
    entry    *entries;
    int       n, room;
    char      prefix[MAX_PREFIX];
    size_t    scope[MAX_SCOPE]; /* length of the prefix before each push */
    int       depth;
    size_t    len;
    int64_t   numbers;
    la_real  *x, *g;
    la_status failed; /* the first failure, reported by la_params_alloc */
};

la_status la_params_create(la_params **p) {
    *p = calloc(1, sizeof **p);
    return *p ? LA_OK : la_fail(LA_NOMEM, "no memory for a parameter store");
}

void la_params_destroy(la_params *p) {
    if (!p) return;
    free(p->x);
    free(p->g);
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

la_param la_params_add(la_params *p, const char *name, la_shape s, la_init how, double scale) {
    if (p->failed) return LA_NO_PARAM;
    char *full = la_arena_printf(&p->arena, "%s%s", p->prefix, name), text[LA_SHAPE_TEXT];
    if (!full) return fail(p, la_fail(LA_NOMEM, "no memory for the parameter name %s", name));
    if (!la_shape_ok(s))
        return fail(p, la_fail(LA_SHAPE, "parameter %s cannot have the shape %s", full,
                               la_shape_text(s, text)));
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
    p->entries[p->n] = (entry){full, s, how, scale, p->len};
    p->len += (len + GAP - 1) / GAP * GAP;
    p->numbers += (int64_t)len;
    return p->n++;
}

la_status la_params_alloc(la_params *p, uint64_t seed, int with_grad) {
    if (p->failed) return p->failed;
    p->x = la_alloc_aligned(p->len * sizeof *p->x);
    p->g = with_grad ? la_alloc_aligned(p->len * sizeof *p->g) : NULL;
    if (!p->x || (with_grad && !p->g))
        return la_fail(LA_NOMEM, "no memory for %lld parameters (%.1f MiB)", (long long)p->numbers,
                       (double)p->len * sizeof *p->x / 0x1p20);
    for (int i = 0; i < p->n; i++) {
        const entry *e = p->entries + i;
        la_real     *x = p->x + e->offset;
        for (int64_t j = 0, len = la_len(e->shape); j < len && e->how != LA_INIT_ZERO; j++)
            x[j] = e->how == LA_INIT_ONE
                       ? 1
                       : R(e->scale * la_rng_normal(seed, la_rng_stream(LA_RNG_INIT, (uint32_t)i),
                                                    (uint64_t)j));
    }
    return LA_OK;
}

int      la_params_count(const la_params *p) { return p->n; }
int64_t  la_params_numbers(const la_params *p) { return p->numbers; }
size_t   la_params_len(const la_params *p) { return p->len; }
la_real *la_params_x(la_params *p) { return p->x; }
la_real *la_params_g(la_params *p) { return p->g; }

const char *la_param_name(const la_params *p, la_param i) { return p->entries[i].name; }
la_shape    la_param_shape(const la_params *p, la_param i) { return p->entries[i].shape; }
size_t      la_param_offset(const la_params *p, la_param i) { return p->entries[i].offset; }
int         la_param_decays(const la_params *p, la_param i) { return p->entries[i].shape.n >= 2; }

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
    la_real *g = p->g && la_tape_training(t) ? p->g + e->offset : NULL;
    return la_leaf(t, e->name, e->shape, p->x + e->offset, g);
}
