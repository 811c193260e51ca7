/* tape.c -- recording: nodes are appended, shapes are worked out, nothing is computed. */
#include "autograd/tape_impl.h"

#include <stdlib.h>
#include <string.h>

la_status la_tape_create(la_tape **out, const la_tape_cfg *cfg) {
    la_link_check();
    la_tape *t = *out = calloc(1, sizeof *t);
    if (!t) return la_fail(LA_NOMEM, "no memory for a tape");
    if (cfg) t->cfg = *cfg;
    return LA_OK;
}

void la_tape_destroy(la_tape *t) {
    if (!t) return;
    free(t->memory);
    free(t->schedule);
    free(t->nodes);
    free(t->info);
    la_arena_free(&t->arena);
    free(t);
}

int la_tape_training(const la_tape *t) { return t->cfg.grad; }

la_node *la_tape_fail(la_tape *t, la_status s) {
    if (!t->failed) {
        t->failed = s;
        t->error = la_arena_printf(&t->arena, "%s", la_error());
    }
    return NULL;
}

static la_node *append(la_tape *t, la_kind kind, const char *name, la_shape s) {
    if (t->sealed)
        return la_tape_fail(t, la_fail(LA_STATE, "%s: the tape is sealed; record before", name));
    if (t->n == t->room) {
        int       room = t->room ? 2 * t->room : 128;
        la_node **nodes = realloc(t->nodes, (size_t)room * sizeof *nodes);
        if (nodes) t->nodes = nodes;
        la_info *info = nodes ? realloc(t->info, (size_t)room * sizeof *info) : NULL;
        if (info) t->info = info;
        if (!info) return la_tape_fail(t, la_fail(LA_NOMEM, "no memory for %d nodes", room));
        t->room = room;
    }
    la_node *n = la_arena_alloc(&t->arena, sizeof *n);
    char    *copy = la_arena_printf(&t->arena, "%s", name);
    if (!n || !copy) return la_tape_fail(t, la_fail(LA_NOMEM, "no memory for the node %s", name));
    char text[LA_SHAPE_TEXT];
    if (!la_shape_ok(s))
        return la_tape_fail(
            t, la_fail(LA_SHAPE, "%s cannot have the shape %s", name, la_shape_text(s, text)));
    *n = (la_node){.name = copy, .id = t->n, .shape = s};
    n->ld = s.n == 4 ? s.d[2] * s.d[3] : la_last(s);
    t->info[t->n] = (la_info){.kind = kind, .part = t->part};
    t->nodes[t->n++] = n;
    return n;
}

la_node *la_leaf(la_tape *t, const char *name, la_shape s, la_real *x, la_real *g) {
    la_node *n = append(t, LA_KIND_LEAF, name, s);
    if (!n) return NULL;
    n->x = x;
    n->g = t->cfg.grad ? g : NULL;
    n->flags = LA_EXTERNAL | (n->g ? LA_NEEDS_GRAD : 0u);
    return n;
}

la_node *la_input(la_tape *t, const char *name, la_shape s, int needs_grad) {
    la_node *n = append(t, LA_KIND_INPUT, name, s);
    if (n && needs_grad && t->cfg.grad) n->flags = LA_NEEDS_GRAD;
    return n;
}

la_node *la_integers(la_tape *t, const char *name, la_shape s, const int32_t *ids) {
    la_node *n = append(t, LA_KIND_IDS, name, s);
    if (!n) return NULL;
    n->ids = ids;
    n->flags = LA_EXTERNAL;
    return n;
}

static la_node *view(la_tape *t, la_node *from, const char *name, int64_t offset, la_shape s) {
    la_node *n = append(t, LA_KIND_VIEW, name, s);
    if (!n) return NULL;
    n->from = from;
    n->offset = offset;
    n->flags = from->flags & LA_NEEDS_GRAD;
    return n;
}

static int is_dense(const la_node *n) {
    return n->ld == (n->shape.n == 4 ? n->shape.d[2] * n->shape.d[3] : la_last(n->shape));
}

la_node *la_reshape(la_tape *t, la_node *x, la_shape s) {
    char a[LA_SHAPE_TEXT], b[LA_SHAPE_TEXT];
    if (!x) return NULL;
    if (!is_dense(x) || la_len(x->shape) != la_len(s))
        return la_tape_fail(t, la_fail(LA_SHAPE, "reshape: %s is %s and cannot become %s", x->name,
                                       la_shape_text(x->shape, a), la_shape_text(s, b)));
    return view(t, x, x->name, 0, s);
}

la_node *la_heads(la_tape *t, la_node *x, int64_t first, int64_t H, int64_t D) {
    char text[LA_SHAPE_TEXT];
    if (!x) return NULL;
    if (x->shape.n != 3 || first < 0 || H < 1 || D < 1 || first + H * D > x->shape.d[2])
        return la_tape_fail(t, la_fail(LA_SHAPE,
                                       "heads: columns %lld to %lld (%lld heads of %lld) are not "
                                       "in %s, which is %s",
                                       (long long)first, (long long)(first + H * D), (long long)H,
                                       (long long)D, x->name, la_shape_text(x->shape, text)));
    la_node *n = view(t, x, x->name, first, la_shape4(x->shape.d[0], x->shape.d[1], H, D));
    if (n) n->ld = x->ld;
    return n;
}

la_node *la_first_rows(la_tape *t, la_node *x, int64_t n) {
    char text[LA_SHAPE_TEXT];
    if (!x) return NULL;
    if (n < 1 || n > x->shape.d[0])
        return la_tape_fail(t, la_fail(LA_SHAPE, "first_rows: %lld are not in %s, which is %s",
                                       (long long)n, x->name, la_shape_text(x->shape, text)));
    la_shape s = x->shape;
    s.d[0] = n;
    la_node *y = view(t, x, x->name, 0, s);
    if (y) y->ld = x->ld;
    return y;
}

/* Two inputs of one tensor, where the op cannot take that. */
static la_status check_distinct(const la_tape *t, const la_op *op, const la_node *n) {
    for (int i = 0; op->distinct && i < n->n_in; i++)
        for (int j = 0; j < i; j++)
            if (n->in[i]->flags & LA_NEEDS_GRAD && la_owner(t, n->in[i]) == la_owner(t, n->in[j]))
                return la_fail(LA_ARG, "%s: inputs %d and %d are both %s; add 0 to one of them",
                               op->name, j + 1, i + 1, n->in[i]->name);
    return LA_OK;
}

static la_status infer(const la_op *op, const la_node *n, la_plan *p) {
    for (int i = 0; i < n->n_in; i++)
        if (!op->strided && !is_dense(n->in[i]))
            return la_fail(LA_SHAPE, "%s: %s is a view of columns, which this op does not take",
                           op->name, n->in[i]->name);
    LA_TRY(op->infer(n, p));
    if (!p->forward_blocks[0]) p->forward_blocks[0] = 1;
    if (!p->backward_blocks[0]) p->backward_blocks[0] = 1;
    return LA_OK;
}

la_node *la_apply(la_tape *t, const la_op *op, int n_in, la_node *const in[], const void *attr) {
    unsigned needs = 0;
    for (int i = 0; i < n_in; i++) {
        if (!in[i]) return NULL;
        needs |= op->backward ? in[i]->flags & LA_NEEDS_GRAD : 0u;
    }
    if (n_in > LA_MAX_IN)
        return la_tape_fail(t, la_fail(LA_ARG, "%s: %d inputs are too many", op->name, n_in));

    la_node probe = {.op = op, .name = op->name, .n_in = n_in};
    la_plan plan = {0};
    for (int i = 0; i < n_in; i++) probe.in[i] = in[i];
    if (op->attr_size) {
        void *copy = la_arena_alloc(&t->arena, op->attr_size);
        if (!copy) return la_tape_fail(t, la_fail(LA_NOMEM, "no memory for %s", op->name));
        memcpy(copy, attr, op->attr_size);
        probe.attr = copy;
    }
    la_status s = check_distinct(t, op, &probe);
    if (s == LA_OK) s = infer(op, &probe, &plan);
    if (s != LA_OK) return la_tape_fail(t, s);

    la_node *first = NULL;
    for (int k = 0; k < plan.n_out; k++) {
        la_node *n = append(t, k ? LA_KIND_OUTPUT : LA_KIND_OP, op->name, plan.out[k]);
        if (!n) return NULL;
        n->flags = needs;
        if (k == 0) {
            first = n;
            n->op = op;
            n->n_in = n_in;
            n->n_out = plan.n_out;
            n->attr = probe.attr;
            memcpy(n->in, probe.in, sizeof n->in);
            t->info[n->id].plan = plan;
        } else
            n->from = first;
        first->out[k] = n;
    }
    return first;
}

void la_recompute_begin(la_tape *t) {
    if (t->part) la_tape_fail(t, la_fail(LA_STATE, "la_recompute_begin twice: parts do not nest"));
    t->part = ++t->n_parts;
}

void la_recompute_end(la_tape *t) {
    if (!t->part) la_tape_fail(t, la_fail(LA_STATE, "la_recompute_end without a beginning"));
    t->part = 0;
}

la_node *la_keep(la_node *n) {
    if (n) n->flags |= LA_KEEP;
    return n;
}

la_node *la_named(la_tape *t, la_node *n, const char *name) {
    char *copy = n ? la_arena_printf(&t->arena, "%s", name) : NULL;
    if (copy) n->name = copy;
    return n;
}

int            la_tape_len(const la_tape *t) { return t->n; }
const la_node *la_tape_at(const la_tape *t, int id) { return t->nodes[id]; }

la_node *la_tape_find_leaf(const la_tape *t, const la_real *x) {
    for (int i = 0; i < t->n; i++)
        if (t->info[i].kind == LA_KIND_LEAF && t->nodes[i]->x == x) return t->nodes[i];
    return NULL;
}
