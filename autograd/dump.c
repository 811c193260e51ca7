/* dump.c -- a tape shows itself, as text and as a Graphviz drawing. */
#include "autograd/tape_impl.h"

static const char *label(const la_tape *t, const la_node *n) {
    switch (t->info[n->id].kind) {
    case LA_KIND_LEAF:
        return n->flags & LA_NEEDS_GRAD ? "parameter" : "constant";
    case LA_KIND_INPUT:
        return "input";
    case LA_KIND_IDS:
        return "integers";
    case LA_KIND_VIEW:
        return "view";
    case LA_KIND_OUTPUT:
        return "output 2";
    case LA_KIND_OP:
        break;
    }
    return n->op->name;
}

size_t la_tape_bytes(const la_tape *t) { return t->bytes; }
size_t la_tape_recorded(const la_tape *t) {
    return la_arena_bytes(&t->arena) + (size_t)t->room * (sizeof *t->nodes + sizeof *t->info) +
           (t->schedule ? 3 * (size_t)t->n * sizeof *t->schedule : 0);
}
size_t la_tape_unshared(const la_tape *t) { return t->unshared; }

static void lives(FILE *f, const char *what, la_span s, la_span again) {
    if (s.last >= s.first) fprintf(f, "  %s %d-%d", what, s.first, s.last);
    if (again.last >= again.first) fprintf(f, ", %d-%d", again.first, again.last);
}

void la_tape_print(const la_tape *t, FILE *f) {
    char text[LA_SHAPE_TEXT];
    for (int i = 0; i < t->n; i++) {
        const la_node *n = t->nodes[i];
        fprintf(f, "%4d  %-16s %-18s", i, label(t, n), la_shape_text(n->shape, text));
        for (int j = 0; j < n->n_in; j++) fprintf(f, "%s%d", j ? "," : " <- ", n->in[j]->id);
        if (n->from) fprintf(f, " <- %d", n->from->id);
        fprintf(f, "  %s", n->name);
        const la_info *d = t->info + i;
        if (d->part) fprintf(f, "  part %d%s", d->part, d->runs_again ? ", computed again" : "");
        lives(f, "value", d->x[0], d->x[1]);
        lives(f, "gradient", d->g, (la_span){0, -1});
        if (n->saved) lives(f, "saved", d->saved[0], d->saved[1]);
        fputc('\n', f);
    }
    fprintf(f, "%d nodes, %.2f MiB (%.2f MiB if no buffers shared memory)\n", t->n,
            (double)t->bytes / 0x1p20, (double)t->unshared / 0x1p20);
}

void la_tape_dot(const la_tape *t, FILE *f) {
    char text[LA_SHAPE_TEXT];
    fprintf(f, "digraph tape {\n  rankdir=TB; node [fontname=\"Helvetica\", fontsize=10];\n");
    for (int i = 0; i < t->n; i++) {
        const la_node *n = t->nodes[i];
        la_kind        k = t->info[i].kind;
        fprintf(f, "  n%d [shape=%s, style=filled, fillcolor=\"%s\", label=\"%s\\n%s\\n%s\"];\n", i,
                k == LA_KIND_OP ? "box" : "ellipse",
                n == t->loss               ? "#f4c7c3"
                : k == LA_KIND_OP          ? "#d9e8f6"
                : n->flags & LA_NEEDS_GRAD ? "#dff0d8"
                                           : "#eeeeee",
                label(t, n), n->name, la_shape_text(n->shape, text));
        for (int j = 0; j < n->n_in; j++) fprintf(f, "  n%d -> n%d;\n", n->in[j]->id, i);
        if (n->from) fprintf(f, "  n%d -> n%d [style=dashed];\n", n->from->id, i);
    }
    fprintf(f, "}\n");
}
