/* seal.c -- works out how long each buffer lives, lets buffers whose lives do not meet share
 * memory, and makes the one allocation.
 *
 * Time runs in ticks: node i runs forward at tick i and backward at tick 2n-1-i.
 *   value      from its node's forward to its last reader, forward or backward (op->reads)
 *   gradient   from its first writer in the backward pass to its node's own backward
 *   saved      from forward to backward of its node, if that runs
 * Leaves and inputs live always.  Placement is greedy: largest first, each at the lowest
 * offset where it meets no buffer that is alive at the same time (as in Pisarchyk and Lee,
 * "Efficient memory management for deep neural net inference", 2020, greedy by size). */
#include "autograd/tape_impl.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/parallel.h"

typedef struct buffer {
    la_real **where; /* the node's x, g or saved */
    size_t    len, offset;
    la_span   span;
    int       rank; /* to keep the sort stable */
} buffer;

static int forward_tick(const la_node *n) { return n->id; }
static int backward_tick(const la_tape *t, const la_node *n) { return 2 * t->n - 1 - n->id; }

/* Also called for leaves, which own no buffer: collect() leaves them out. */
static void live_until(la_span *s, int tick) {
    if (tick > s->last) s->last = tick;
}

/* Which ops the loss depends on through a gradient: walk down from the loss. */
static void mark_backward(la_tape *t, char *reached) {
    if (!t->loss || !(t->loss->flags & LA_NEEDS_GRAD)) return;
    reached[la_owner(t, t->loss)->id] = 1;
    for (int i = t->n - 1; i >= 0; i--) {
        la_node *n = t->nodes[i];
        if (t->info[i].kind != LA_KIND_OP || !(n->flags & LA_NEEDS_GRAD)) continue;
        for (int k = 0; k < n->n_out; k++) t->info[i].runs_backward |= reached[n->out[k]->id];
        for (int j = 0; j < n->n_in && t->info[i].runs_backward; j++)
            if (n->in[j]->flags & LA_NEEDS_GRAD) reached[la_owner(t, n->in[j])->id] = 1;
    }
}

static void value_spans(la_tape *t) {
    const int always = 2 * t->n;
    for (int i = 0; i < t->n; i++) {
        la_node *n = t->nodes[i];
        la_info *f = t->info + i;
        f->x = f->g = f->saved = (la_span){0, -1};
        f->first = 0;
        f->n_zero = 0;
        if (f->kind == LA_KIND_INPUT) {
            f->x = (la_span){0, always};
            if (n->flags & LA_NEEDS_GRAD) f->g = (la_span){0, always};
        }
        if (f->kind == LA_KIND_OP || f->kind == LA_KIND_OUTPUT)
            f->x = (la_span){f->kind == LA_KIND_OP ? i : n->from->id, i};
        if (n->flags & LA_KEEP) live_until(&t->info[la_owner(t, n)->id].x, always);
        if (f->kind != LA_KIND_OP) continue;
        if (f->runs_backward) f->saved = (la_span){i, backward_tick(t, n)};
        for (int j = 0; j < n->n_in; j++) {
            la_span *x = &t->info[la_owner(t, n->in[j])->id].x;
            live_until(x, forward_tick(n));
            if (f->runs_backward && n->op->reads & LA_READS_IN(j))
                live_until(x, backward_tick(t, n));
        }
    }
    for (int i = 0; i < t->n; i++) /* after the loop above has set every first tick */
        for (int k = 0; k < t->nodes[i]->n_out; k++)
            if (t->info[i].runs_backward && t->nodes[i]->op->reads & LA_READS_OUT(k))
                live_until(&t->info[t->nodes[i]->out[k]->id].x, backward_tick(t, t->nodes[i]));
}

/* Columns [from, to) of every `ld` reals: where the numbers of a node are in its owner. */
typedef struct columns {
    int64_t from, to, ld;
} columns;

static columns columns_of(const la_tape *t, const la_node *n) {
    columns c = {0, n->shape.n == 4 ? n->shape.d[2] * n->shape.d[3] : la_last(n->shape), n->ld};
    for (; t->info[n->id].kind == LA_KIND_VIEW; n = n->from) c.from += n->offset;
    c.to += c.from;
    return c;
}

/* The inputs of n that are `owner` or views of it, if backward may write = to all of them: they
 * cover its every element exactly once, as q, k and v do in one product.  Else 0. */
static unsigned settable(const la_tape *t, const la_node *n, const la_node *owner) {
    unsigned mask = 0;
    int64_t  sum = 0, ld = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (la_owner(t, n->in[i]) != owner) continue;
        columns a = columns_of(t, n->in[i]);
        if (!(n->op->sets & LA_SETS_IN(i)) || (mask && a.ld != ld)) return 0;
        for (int j = 0; j < i; j++) {
            if (!(mask & LA_SETS_IN(j))) continue;
            columns b = columns_of(t, n->in[j]);
            if (a.from < b.to && b.from < a.to) return 0;
        }
        mask |= LA_SETS_IN(i);
        sum += a.to - a.from;
        ld = a.ld;
    }
    return sum == ld ? mask : 0;
}

/* The walk goes down, so the first op met that has `owner` as input writes it first: with =, or
 * it is cleared before.  An output that nobody reads is cleared before its own op. */
static void gradient_spans(la_tape *t, char *written) {
    if (t->loss) {
        la_node *owner = la_owner(t, t->loss);
        written[owner->id] = 1; /* by la_tape_backward itself */
        t->info[owner->id].g = (la_span){t->n, backward_tick(t, owner)};
    }
    for (int i = t->n - 1; i >= 0; i--) {
        la_node *n = t->nodes[i];
        la_info *f = t->info + i;
        if (f->kind != LA_KIND_OP || !f->runs_backward) continue;
        for (int k = 0; k < n->n_out; k++) {
            la_span *g = &t->info[n->out[k]->id].g;
            if (!written[n->out[k]->id]) {
                f->zero[f->n_zero++] = n->out[k];
                g->first = backward_tick(t, n);
            }
            g->last = backward_tick(t, n);
        }
        for (int j = 0; j < n->n_in; j++) {
            la_node *owner = la_owner(t, n->in[j]);
            la_kind  kind = t->info[owner->id].kind;
            if (!(owner->flags & LA_NEEDS_GRAD) || written[owner->id] || kind == LA_KIND_LEAF ||
                kind == LA_KIND_INPUT)
                continue;
            written[owner->id] = 1;
            unsigned first = settable(t, n, owner);
            f->first |= first;
            if (!first) f->zero[f->n_zero++] = owner;
            t->info[owner->id].g = (la_span){backward_tick(t, n), backward_tick(t, n)};
        }
    }
}

/* Whether an op after node `id` reads what `owner` holds. */
static int read_later(const la_tape *t, const la_node *owner, int id) {
    for (int i = id + 1; i < t->n; i++)
        for (int j = 0; j < t->nodes[i]->n_in; j++)
            if (la_owner(t, t->nodes[i]->in[j]) == owner) return 1;
    return 0;
}

/* An output may take over the memory of an input that outlives the tape's replays, if it is that
 * input's last reader. */
static void choose_in_place(la_tape *t) {
    for (int i = 0; i < t->n; i++) {
        la_node *n = t->nodes[i];
        for (int k = 0; k < n->n_out; k++) {
            int from = t->info[i].plan.in_place[k] - 1;
            if (from < 0 || n->flags & LA_NEEDS_GRAD) continue;
            const la_node *owner = la_owner(t, n->in[from]);
            la_kind        kind = t->info[owner->id].kind;
            if ((kind != LA_KIND_LEAF && kind != LA_KIND_INPUT) || read_later(t, owner, i))
                continue;
            t->info[n->out[k]->id].in_place = from + 1;
            t->info[n->out[k]->id].x = (la_span){0, -1};
        }
    }
}

static int larger_first(const void *a, const void *b) {
    const buffer *p = a, *q = b;
    if (p->len != q->len) return p->len < q->len ? 1 : -1;
    return p->rank - q->rank;
}

static int meet(const buffer *a, const buffer *b) {
    return a->span.first <= b->span.last && b->span.first <= a->span.last;
}

static int by_offset(const void *a, const void *b) {
    const buffer *p = *(const buffer *const *)a, *q = *(const buffer *const *)b;
    return p->offset < q->offset ? -1 : p->offset > q->offset;
}

/* Gives each buffer an offset; `met` is room for n pointers.  Returns the reals needed. */
static size_t place(buffer *b, int n, buffer **met) {
    size_t total = 0;
    qsort(b, (size_t)n, sizeof *b, larger_first);
    for (int i = 0; i < n; i++) {
        int m = 0;
        for (int j = 0; j < i; j++)
            if (meet(b + i, b + j)) met[m++] = b + j;
        qsort(met, (size_t)m, sizeof *met, by_offset);
        size_t at = 0;
        for (int j = 0; j < m; j++) {
            if (met[j]->offset >= at + b[i].len) break;
            if (met[j]->offset + met[j]->len > at) at = met[j]->offset + met[j]->len;
        }
        b[i].offset = at;
        if (at + b[i].len > total) total = at + b[i].len;
    }
    return total;
}

static int collect(la_tape *t, buffer *b) {
    int n = 0;
    for (int i = 0; i < t->n; i++) {
        la_node *d = t->nodes[i];
        la_info *f = t->info + i;
        size_t   len = la_padded((size_t)la_len(d->shape)), saved = la_padded(f->plan.n_saved);
        if (f->kind == LA_KIND_LEAF || f->kind == LA_KIND_IDS) continue; /* the caller's memory */
        if (f->x.last >= f->x.first) b[n] = (buffer){&d->x, len, 0, f->x, n}, n++;
        if (f->g.last >= f->g.first) b[n] = (buffer){&d->g, len, 0, f->g, n}, n++;
        if (f->runs_backward && saved) b[n] = (buffer){&d->saved, saved, 0, f->saved, n}, n++;
    }
    return n;
}

static la_status allocate(la_tape *t) {
    buffer  *b = malloc(3 * (size_t)t->n * sizeof *b + 1);
    buffer **met = malloc(3 * (size_t)t->n * sizeof *met + 1);
    if (!b || !met) {
        free(b);
        free(met);
        return la_fail(LA_NOMEM, "no memory to plan a tape of %d nodes", t->n);
    }
    int    n = collect(t, b);
    size_t shared = place(b, n, met), sum = 0, common = 0;
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
    else if (!(t->memory = la_alloc_aligned(t->bytes)))
        s = la_fail(LA_NOMEM, "could not allocate the %.1f MiB that the step needs",
                    (double)t->bytes / 0x1p20);
    else {
        for (int i = 0; i < n; i++) *b[i].where = (la_real *)t->memory + b[i].offset;
        t->common = (la_real *)t->memory + shared;
        t->scratch = t->common + common;
    }
    free(b);
    free(met);
    return s;
}

la_status la_tape_seal(la_tape *t, la_node *loss) {
    char text[LA_SHAPE_TEXT];
    if (t->failed) return la_fail(t->failed, "%s", t->error ? t->error : "out of memory");
    if (t->sealed) return la_fail(LA_STATE, "the tape is already sealed");
    if (loss && la_len(loss->shape) != 1)
        return la_fail(LA_SHAPE, "the loss must be one number, and %s is %s", loss->name,
                       la_shape_text(loss->shape, text));
    t->loss = la_keep(loss);
    t->threads = la_threads();
    char *marks = calloc(2 * (size_t)t->n + 1, 1);
    if (!marks) return la_fail(LA_NOMEM, "no memory to plan a tape of %d nodes", t->n);
    if (t->cfg.grad) mark_backward(t, marks);
    value_spans(t);
    if (t->cfg.grad) gradient_spans(t, marks + t->n);
    free(marks);
    choose_in_place(t);
    LA_TRY(allocate(t));
    for (int i = 0; i < t->n; i++) {
        la_node *n = t->nodes[i], *from = n->from;
        if (t->info[i].in_place) n->x = (from ? from : n)->in[t->info[i].in_place - 1]->x;
        if (t->info[i].kind != LA_KIND_VIEW) continue;
        n->x = from->x ? from->x + n->offset : NULL;
        n->g = from->g ? from->g + n->offset : NULL;
    }
    t->sealed = 1;
    return LA_OK;
}
