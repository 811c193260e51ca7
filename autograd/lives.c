/* lives.c -- how long each buffer lives, and who writes a gradient first.
 *
 * Time runs in ticks, the places in the schedule: node i runs forward at tick i.
 *   value      from its node's forward to its last reader, forward or backward (op->reads)
 *   gradient   from its first writer in the backward pass to its node's own backward
 *   saved      from forward to backward of its node, if that runs
 * Leaves and inputs live always.  What runs forward again has two lives: the first ends with the
 * last reader in the first forward, the second begins when it is computed again.  Only a value
 * that leaves its part goes on living in between. */
#include "autograd/tape_impl.h"

#include <stdlib.h>

static const la_span never = {0, -1};

/* Also called for leaves, which own no buffer: place.c leaves them out. */
static void live_until(la_span *s, int tick) {
    if (tick > s->last) s->last = tick;
}

/* The life of a value after the first forward. */
static la_span *later_life(la_info *f) { return f->x + (f->x[1].last >= 0); }

static void begin(la_tape *t, int i) {
    la_info *f = t->info + i, *op = f->kind == LA_KIND_OUTPUT ? t->info + t->nodes[i]->from->id : f;
    f->x[0] = f->x[1] = f->saved[0] = f->saved[1] = f->g = never;
    f->first = 0;
    f->n_zero = 0;
    if (f->kind == LA_KIND_INPUT) {
        f->x[0] = (la_span){0, t->n_ticks};
        if (t->nodes[i]->flags & LA_NEEDS_GRAD) f->g = f->x[0];
    }
    if (op->kind != LA_KIND_OP) return;
    int tick = (int)(op - t->info);
    f->x[0] = (la_span){tick, i};
    if (op->runs_again && f->read_outside) live_until(f->x, op->again);
    if (op->runs_again && !f->read_outside) f->x[1] = (la_span){op->again, op->again};
    if (f->runs_backward) f->saved[0] = (la_span){i, f->backward};
    if (f->runs_backward && f->runs_again) {
        f->saved[0].last = i;
        f->saved[1] = (la_span){f->again, f->backward};
    }
}

static void value_lives(la_tape *t) {
    for (int i = 0; i < t->n; i++) begin(t, i);
    for (int i = 0; i < t->n; i++) {
        la_node *n = t->nodes[i];
        la_info *f = t->info + i;
        if (n->flags & LA_KEEP) live_until(t->info[la_owner(t, n)->id].x, t->n_ticks);
        for (int j = 0; j < n->n_in; j++) {
            la_info *in = t->info + la_owner(t, n->in[j])->id;
            live_until(in->x, i);
            if (f->runs_again) live_until(later_life(in), f->again);
            if (f->runs_backward && n->op->reads & LA_READS_IN(j))
                live_until(later_life(in), f->backward);
        }
        for (int k = 0; k < n->n_out; k++)
            if (f->runs_backward && n->op->reads & LA_READS_OUT(k))
                live_until(later_life(t->info + n->out[k]->id), f->backward);
    }
}

/* Whether the gradient of node i adds up over replays. */
static int adds_up(const la_tape *t, int i) {
    return t->info[i].kind == LA_KIND_LEAF || t->info[i].kind == LA_KIND_INPUT;
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
    int64_t  covered = 0, ld = 0;
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
        covered += la_len(n->in[i]->shape);
        ld = a.ld;
    }
    return covered == la_len(owner->shape) ? mask : 0;
}

/* The walk goes down, so the first op met that has `owner` as input writes it first: with =, or
 * it is cleared before.  An output that nobody reads is cleared before its own op. */
static void gradient_lives(la_tape *t, char *written) {
    if (t->loss) {
        int id = la_owner(t, t->loss)->id;
        written[id] = 1; /* by la_tape_backward itself */
        if (!adds_up(t, id)) t->info[id].g = (la_span){t->n, t->n};
    }
    for (int i = t->n - 1; i >= 0; i--) {
        la_node *n = t->nodes[i];
        la_info *f = t->info + i;
        if (f->kind != LA_KIND_OP || !f->runs_backward) continue;
        for (int k = 0; k < n->n_out; k++) {
            la_span *g = &t->info[n->out[k]->id].g;
            if (!written[n->out[k]->id]) {
                f->zero[f->n_zero++] = n->out[k];
                g->first = f->backward;
            }
            g->last = f->backward;
        }
        for (int j = 0; j < n->n_in; j++) {
            la_node *owner = la_owner(t, n->in[j]);
            if (!(owner->flags & LA_NEEDS_GRAD) || written[owner->id] || adds_up(t, owner->id))
                continue;
            written[owner->id] = 1;
            unsigned first = settable(t, n, owner);
            f->first |= first;
            if (!first) f->zero[f->n_zero++] = owner;
            t->info[owner->id].g = (la_span){f->backward, f->backward};
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

/* Without a backward, an output may take over the memory of an input that outlives the tape's
 * replays, if it is that input's last reader. */
static void choose_in_place(la_tape *t) {
    for (int i = 0; i < t->n; i++) {
        la_node *n = t->nodes[i];
        for (int k = 0; k < n->n_out; k++) {
            int from = t->info[i].plan.in_place[k] - 1;
            if (from < 0) continue;
            const la_node *owner = la_owner(t, n->in[from]);
            la_kind        kind = t->info[owner->id].kind;
            if ((kind != LA_KIND_LEAF && kind != LA_KIND_INPUT) || read_later(t, owner, i))
                continue;
            t->info[n->out[k]->id].in_place = from + 1;
            t->info[n->out[k]->id].x[0] = never;
        }
    }
}

la_status la_tape_plan_lives(la_tape *t) {
    value_lives(t);
    if (!t->cfg.grad) {
        choose_in_place(t);
        return LA_OK;
    }
    char *written = calloc((size_t)t->n + 1, 1);
    if (!written) return la_fail(LA_NOMEM, "no memory to plan a tape of %d nodes", t->n);
    gradient_lives(t, written);
    free(written);
    return LA_OK;
}
