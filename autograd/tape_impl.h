/* tape_impl.h -- what the four files of the tape share: tape.c (record), seal.c (memory),
 * replay.c, dump.c.  Nobody else includes this. */
#ifndef LA_TAPE_IMPL_H
#define LA_TAPE_IMPL_H
#include "autograd/op.h"
#include "tensor/arena.h"

typedef enum la_kind {
    LA_KIND_LEAF,
    LA_KIND_INPUT,
    LA_KIND_IDS,
    LA_KIND_VIEW,
    LA_KIND_OP,
    LA_KIND_OUTPUT
} la_kind;

typedef struct la_span { /* a buffer's life, in ticks: node i runs forward at i, backward at 2n-1-i
                          */
    int first, last; /* last < first: no buffer                                                 */
} la_span;

typedef struct la_info { /* what the tape knows of a node beyond la_node */
    la_kind  kind;
    la_plan  plan;          /* of an op node                                                  */
    int      runs_backward; /* of an op node: the loss depends on it                          */
    int      in_place;      /* this output uses the memory of an input of its op              */
    la_span  x, g, saved;   /* of the node that owns the buffer                               */
    unsigned first;         /* inputs whose gradient this node's backward writes with =       */
    int      n_zero;        /* gradients to clear just before it                              */
    la_node *zero[LA_MAX_IN + LA_MAX_OUT];
} la_info;

struct la_tape {
    la_tape_cfg cfg;
    la_arena    arena; /* nodes, names, attributes */
    la_node   **nodes;
    la_info    *info; /* info[node->id] */
    int         n, room;
    la_status   failed; /* the first failure while recording */
    const char *error;
    la_node    *loss;
    int         sealed, forwarded;
    void       *memory; /* every buffer, what the blocks of a node share, each thread's scratch */
    la_real    *common, *scratch;
    size_t      scratch_each; /* reals for each thread */
    int         threads;
    uint64_t    step;
    size_t      bytes, unshared;
};

/* The node whose buffers this one uses: itself, or where its views begin. */
static inline la_node *la_owner(const la_tape *t, la_node *n) {
    while (t->info[n->id].kind == LA_KIND_VIEW) n = n->from;
    return n;
}

/* Reals of one buffer, rounded up so that the next one is aligned. */
static inline size_t la_padded(size_t reals) {
    const size_t unit = LA_ALIGN / sizeof(la_real);
    return (reals + unit - 1) / unit * unit;
}
#endif
