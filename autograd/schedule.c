/* schedule.c -- which ops run backward, which run forward a second time, and in what order.
 *
 * Forward runs all nodes in their order, backward goes down through those that the loss depends
 * on.  A part that is recomputed runs forward again just before its first backward, but only ops
 * whose results are needed there and were given up:
 *   - backward of the part reads what the op saved, or
 *   - backward of the part, or another op that runs again, reads a value of the op that does not
 *     leave the part.
 * A value leaves its part if an op outside reads it or it is kept; it stays in memory. */
#include <stdlib.h>

#include "autograd/tape_impl.h"

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

static void mark_leaving(la_tape *t) {
    for (int i = 0; i < t->n; i++) {
        la_node *n = t->nodes[i];
        if (n->flags & LA_KEEP) t->info[la_owner(t, n)->id].read_outside = 1;
        for (int j = 0; j < n->n_in; j++) {
            la_info *f = t->info + la_owner(t, n->in[j])->id;
            if (f->part != t->info[i].part) f->read_outside = 1;
        }
    }
}

/* Readers come after what they read, so a walk down knows all that is wanted of an op. */
static void mark_again(la_tape *t, char *wanted) {
    for (int i = t->n - 1; i >= 0; i--) {
        la_node *n = t->nodes[i];
        la_info *f = t->info + i;
        if (f->kind != LA_KIND_OP || !f->part) continue;
        f->runs_again = f->runs_backward && f->plan.n_saved;
        for (int k = 0; k < n->n_out; k++) {
            int id = n->out[k]->id, read = f->runs_backward && n->op->reads & LA_READS_OUT(k);
            f->runs_again |= (wanted[id] || read) && !t->info[id].read_outside;
        }
        for (int j = 0; j < n->n_in; j++)
            if (f->runs_again || (f->runs_backward && n->op->reads & LA_READS_IN(j)))
                wanted[la_owner(t, n->in[j])->id] = 1;
    }
}

static void forward_again(la_tape *t, int part) {
    for (int i = 0; i < t->n; i++) {
        if (t->info[i].part != part || !t->info[i].runs_again) continue;
        t->info[i].again = t->n_ticks;
        t->schedule[t->n_ticks++] = (la_entry){i, 0};
    }
}

la_status la_tape_plan_schedule(la_tape *t) {
    char *marks = calloc(2 * (size_t)t->n + 1, 1);
    free(t->schedule); /* of a seal that failed */
    t->n_ticks = 0;
    t->schedule = malloc(3 * (size_t)t->n * sizeof *t->schedule + 1);
    if (!marks || !t->schedule) {
        free(marks);
        return la_fail(LA_NOMEM, "no memory to plan a tape of %d nodes", t->n);
    }
    if (t->cfg.grad) mark_backward(t, marks);
    mark_leaving(t);
    mark_again(t, marks + t->n);
    free(marks);
    for (int i = 0; i < t->n; i++) t->schedule[t->n_ticks++] = (la_entry){i, 0};
    for (int i = t->n - 1, part = 0; i >= 0; i--) {
        if (!t->info[i].runs_backward) continue;
        if (t->info[i].part != part && (part = t->info[i].part)) forward_again(t, part);
        t->info[i].backward = t->n_ticks;
        t->schedule[t->n_ticks++] = (la_entry){i, 1};
    }
    return LA_OK;
}
