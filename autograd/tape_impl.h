/* tape_impl.h -- what the files of the tape share: tape.c (record); seal.c with schedule.c, lives.c
 * and place.c; replay.c; dump.c.  Nobody else includes this. */
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

typedef struct la_span { /* a buffer's life, in ticks: places in the schedule */
    int first, last;     /* last < first: none */
} la_span;

typedef struct la_info { /* what the tape knows of a node beyond la_node */
    la_kind  kind;
    la_plan  plan;              /* of an op node                                                  */
    int      part;              /* that is recomputed, from 1; 0: none                            */
    int      read_outside;      /* of its part, or kept                                           */
    int      runs_backward;     /* of an op node: the loss depends on it                          */
    int      runs_again;        /* forward, before the part's backward                            */
    int      backward, again;   /* their ticks                                                  */
    int      in_place;          /* this output uses the memory of an input of its op              */
    la_span  x[2], saved[2], g; /* lives of the node's own buffers; the second: after `again`  */
    unsigned first;             /* inputs whose gradient this node's backward writes with =       */
    int      n_zero;            /* gradients to clear just before it                              */
    la_node *zero[LA_MAX_IN + LA_MAX_OUT];
} la_info;

typedef struct la_entry { /* one node's forward or backward */
    int node, backward;
} la_entry;

struct la_tape {
    la_tape_cfg cfg;
    la_arena    arena; /* nodes, names, attributes */
    la_node   **nodes;
    la_info    *info; /* info[node->id] */
    int         n, room;
    la_status   failed; /* the first failure while recording */
    const char *error;
    la_node    *loss;
    int         part, n_parts; /* the one that is being recorded, or 0 */
    la_entry   *schedule;      /* n_ticks entries, the first n of them forward */
    int         n_ticks;
    int         sealed, forwarded;
    void       *memory; /* every buffer, what the blocks of a node share, each thread's scratch */
    la_real    *common, *scratch;
    size_t      scratch_each; /* reals for each thread */
    int         threads;
    uint64_t    step;
    size_t      bytes, unshared;
};

la_status la_tape_plan_schedule(la_tape *t); /* schedule, and what info says of it              */
la_status la_tape_plan_lives(la_tape *t);    /* spans, first writers, in_place                  */
la_status la_tape_allocate(la_tape *t);      /* offsets, memory                                 */

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
