/* tape.h -- the computation, written down once and replayed each step.
 *
 *   record   la_node *y = la_linear(t, x, w, b);    shapes only, no arithmetic
 *   seal     LA_TRY(la_tape_seal(t, loss));         one allocation for everything
 *   replay   LA_TRY(la_tape_forward(t));  LA_TRY(la_tape_backward(t, 1));
 *
 * Nodes stand in the order they were recorded, so inputs precede their readers: forward
 * is a loop up, backward a loop down (in which a part that is recomputed runs forward once more,
 * and reads its integers again), and there is no sort.  Recording never crashes: a failure returns
 * NULL, NULL inputs give NULL, and la_tape_seal() reports the first failure as a sentence.  A
 * sealed tape allocates nothing. */
#ifndef LA_TAPE_H
#define LA_TAPE_H
#include <stdio.h>

#include "tensor/tensor.h"

typedef struct la_tape la_tape;
typedef struct la_op   la_op;
enum { LA_MAX_IN = 9, LA_MAX_OUT = 2, LA_MAX_PHASE = 4 };

enum {
    LA_NEEDS_GRAD = 1u << 0, /* d loss / d value is wanted, here or further down      */
    LA_EXTERNAL = 1u << 1,   /* value (and gradient) belong to the caller             */
    LA_KEEP = 1u << 2,       /* value stays readable until the next forward           */
};

typedef struct la_node {
    const la_op    *op;   /* NULL: a leaf, a view, or a further output of `from`        */
    const char     *name; /* "transformer.h.0.attn.c_attn": for messages and dumps      */
    int             id, n_in, n_out;
    unsigned        flags;
    la_shape        shape;
    int64_t         ld;  /* reals from one token's row to the next; see la_heads()      */
    la_real        *x;   /* value                                                       */
    la_real        *g;   /* d loss / d value, +=; NULL if nobody needs it               */
    const int32_t  *ids; /* integer leaves only: token ids, labels, positions           */
    struct la_node *in[LA_MAX_IN];
    struct la_node *out[LA_MAX_OUT]; /* out[0] is the node itself                       */
    struct la_node *from;            /* a view's source, or the op node of an output    */
    int64_t         offset;          /* of a view, in reals, into its source            */
    const void     *attr;            /* the op's parameters, copied into the tape       */
    la_real        *saved;           /* by forward for backward; NULL if none follows   */
} la_node;

typedef struct la_tape_cfg {
    int      grad;      /* record for training: gradients, and dropout is active           */
    uint64_t seed;      /* dropout mask = f(seed, step, node, index)                       */
    size_t   max_bytes; /* la_tape_seal fails with LA_NOMEM above this; 0: no limit        */
    int      plan_only; /* la_tape_seal works out la_tape_bytes; the tape cannot be replayed */
} la_tape_cfg;

la_status la_tape_create(la_tape **t, const la_tape_cfg *cfg); /* cfg NULL: inference     */
void      la_tape_destroy(la_tape *t);                         /* NULL is fine            */
int       la_tape_training(const la_tape *t);                  /* cfg.grad                */

/* --- record --- */
/* A leaf whose value and gradient the caller owns; g NULL: a constant. */
la_node *la_leaf(la_tape *t, const char *name, la_shape s, la_real *x, la_real *g);
/* A leaf whose value (and gradient, if asked) the tape owns; the caller fills n->x after
 * sealing, and it keeps its value over replays. */
la_node *la_input(la_tape *t, const char *name, la_shape s, int needs_grad);
/* Integers: the caller's array, read at each replay; it must outlive the tape. */
la_node *la_integers(la_tape *t, const char *name, la_shape s, const int32_t *ids);
/* The same numbers under another shape; la_len must agree. */
la_node *la_reshape(la_tape *t, la_node *x, la_shape s);
/* Columns [first, first + H*D) of x (B,T,C), seen as (B,T,H,D) without a copy: the rows of
 * a token are C apart.  Only ops marked `strided` take such a node. */
la_node *la_heads(la_tape *t, la_node *x, int64_t first, int64_t H, int64_t D);
/* Rows [0, n) of x (N,...), seen as (n,...) without a copy. */
la_node *la_first_rows(la_tape *t, la_node *x, int64_t n);
/* Any op.  in[i] NULL gives NULL.  attr has op->attr_size bytes.  Further outputs are
 * result->out[1...]. */
la_node *la_apply(la_tape *t, const la_op *op, int n_in, la_node *const in[], const void *attr);
/* Keep the value readable after forward: logits, a state. */
la_node *la_keep(la_node *n);
/* Names the node for messages and dumps; copied. */
la_node *la_named(la_tape *t, la_node *n, const char *name);
/* A failure outside of la_apply (a layer that does not fit): seal reports it. */
la_node *la_tape_fail(la_tape *t, la_status s);

/* What is recorded between the two is a part that trades time for memory: after forward its values
 * are given up, and before its backward they are computed again, with the same bits.  Values that
 * are kept or read outside of the part stay.  Parts do not nest; without a backward they do
 * nothing. */
void la_recompute_begin(la_tape *t);
void la_recompute_end(la_tape *t);

/* --- seal: works out which buffers may share memory, then allocates once --- */
la_status la_tape_seal(la_tape *t, la_node *loss); /* loss NULL: inference only           */

/* --- replay --- */
la_status la_tape_forward(la_tape *t);
la_status la_tape_backward(la_tape *t,
                           double scale); /* of the last forward; leaf g += scale * d loss/d leaf */
void      la_tape_set_step(la_tape *t, uint64_t step); /* for dropout masks               */
/* Repeats forward and backward node by node; LA_NUMERIC names the first tensor that holds a
 * NaN or an infinity, with the place.  Leaf gradients are spoilt by it. */
la_status la_tape_find_nonfinite(la_tape *t);

/* --- look --- */
int            la_tape_len(const la_tape *t);
const la_node *la_tape_at(const la_tape *t, int id);
la_node       *la_tape_find_leaf(const la_tape *t, const la_real *x); /* NULL if none      */
size_t         la_tape_bytes(const la_tape *t);          /* all that seal allocates             */
size_t         la_tape_recorded(const la_tape *t);       /* of the record: nodes, names, schedule */
size_t         la_tape_unshared(const la_tape *t);       /* the same if no buffers shared memory */
void           la_tape_print(const la_tape *t, FILE *f); /* one line a node                */
void           la_tape_dot(const la_tape *t, FILE *f);   /* Graphviz                       */
#endif
