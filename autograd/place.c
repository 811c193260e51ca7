/* place.c -- gives each buffer its place in one block of memory; buffers whose lives do not meet
 * may share it.
 *
 * Greedy: largest first, each at the lowest offset where it meets no buffer that is alive at the
 * same time (as in Pisarchyk and Lee, "Efficient memory management for deep neural net inference",
 * 2020, greedy by size). */
#include <stdlib.h>

#include "autograd/tape_impl.h"

typedef struct buffer {
    la_real **where; /* the node's x, g or saved */
    size_t    len, offset;
    la_span   life[2];
    int       rank; /* to keep the sort stable */
} buffer;

static int larger_first(const void *a, const void *b) {
    const buffer *p = a, *q = b;
    if (p->len != q->len) return p->len < q->len ? 1 : -1;
    return p->rank - q->rank;
}

static int meet(const buffer *a, const buffer *b) {
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            if (a->life[i].first <= b->life[j].last && b->life[j].first <= a->life[i].last)
                return 1;
    return 0;
}

/* Gives each buffer an offset; `placed` is room for n pointers, which stand in the order of their
 * offsets.  Returns the reals needed. */
static size_t place(buffer *b, int n, buffer **placed) {
    size_t total = 0;
    qsort(b, (size_t)n, sizeof *b, larger_first);
    for (int i = 0; i < n; i++) {
        size_t at = 0;
        for (int j = 0; j < i; j++) {
            if (!meet(b + i, placed[j])) continue;
            if (placed[j]->offset >= at + b[i].len) break;
            if (placed[j]->offset + placed[j]->len > at) at = placed[j]->offset + placed[j]->len;
        }
        b[i].offset = at;
        if (at + b[i].len > total) total = at + b[i].len;
        int j = i;
        for (; j > 0 && placed[j - 1]->offset > at; j--) placed[j] = placed[j - 1];
        placed[j] = b + i;
    }
    return total;
}

static int add(buffer *b, int n, la_real **where, size_t len, la_span life, la_span again) {
    if (life.last < life.first) return n;
    b[n] = (buffer){where, la_padded(len), 0, {life, again}, n};
    return n + 1;
}

static int collect(la_tape *t, buffer *b) {
    int n = 0;
    for (int i = 0; i < t->n; i++) {
        la_node *d = t->nodes[i];
        la_info *f = t->info + i;
        size_t   len = (size_t)la_len(d->shape);
        if (f->kind == LA_KIND_LEAF || f->kind == LA_KIND_IDS) continue; /* the caller's memory */
        n = add(b, n, &d->x, len, f->x[0], f->x[1]);
        n = add(b, n, &d->g, len, f->g, (la_span){0, -1});
        if (f->plan.n_saved) n = add(b, n, &d->saved, f->plan.n_saved, f->saved[0], f->saved[1]);
    }
    return n;
}

la_status la_tape_allocate(la_tape *t) {
    buffer  *b = malloc(3 * (size_t)t->n * sizeof *b + 1);
    buffer **placed = malloc(3 * (size_t)t->n * sizeof *placed + 1);
    if (!b || !placed) {
        free(b);
        free(placed);
        return la_fail(LA_NOMEM, "no memory to plan a tape of %d nodes", t->n);
    }
    int    n = collect(t, b);
    size_t shared = place(b, n, placed), sum = 0, common = 0;
    for (int i = 0; i < n; i++) sum += b[i].len;
    for (int i = 0; i < t->n; i++) {
        const la_plan *p = &t->info[i].plan;
        if (p->n_scratch > t->scratch_each) t->scratch_each = p->n_scratch;
        if (p->n_common > common) common = p->n_common;
    }
    t->scratch_each = la_padded(t->scratch_each);
    common = la_padded(common);
    size_t work = common + t->scratch_each * (size_t)t->threads;
    t->bytes = (shared + work) * sizeof(la_real);
    t->unshared = (sum + work) * sizeof(la_real);

    la_status s = LA_OK;
    if (t->cfg.max_bytes && t->bytes > t->cfg.max_bytes)
        s = la_fail(LA_NOMEM, "the step needs %.1f MiB and %.1f MiB are free",
                    (double)t->bytes / 0x1p20, (double)t->cfg.max_bytes / 0x1p20);
    else if (!t->cfg.plan_only && !(t->memory = la_alloc_aligned(t->bytes)))
        s = la_fail(LA_NOMEM, "could not allocate the %.1f MiB that the step needs",
                    (double)t->bytes / 0x1p20);
    else if (t->memory) {
        for (int i = 0; i < n; i++) *b[i].where = (la_real *)t->memory + b[i].offset;
        t->common = (la_real *)t->memory + shared;
        t->scratch = t->common + common;
    }
    free(b);
    free(placed);
    return s;
}
