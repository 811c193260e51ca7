/* op.h -- what an operation is: one file, one la_op at its end, one line in a table.
 *
 * Work is cut into phases, and a phase into blocks that may run at the same time.  A block
 * writes what no other block of its phase writes, and the cut depends on shapes alone, so an
 * op says nothing about threads and its result does not depend on their number. */
#ifndef LA_OP_H
#define LA_OP_H
#include "autograd/tape.h"

typedef struct la_plan { /* infer's answer; all zero when infer is called                     */
    int      n_out;
    la_shape out[LA_MAX_OUT];
    int      in_place[LA_MAX_OUT]; /* 1 + input whose memory this output takes over when no
                                      gradient is wanted; 0: none                             */
    size_t   n_saved;              /* reals kept from forward to backward; where no backward
                                      follows there are none, and n->saved is NULL            */
    size_t   n_common;             /* reals for all blocks together, valid from the first phase
                                      of a forward or a backward to its last                  */
    size_t   n_scratch;            /* reals for each thread, valid during one block           */
    int64_t  forward_blocks[LA_MAX_PHASE];  /* blocks of each phase; a 0 ends the list         */
    int64_t  backward_blocks[LA_MAX_PHASE]; /* none given: one phase of one block              */
} la_plan;

typedef struct la_run { /* what a block may use while it runs                                 */
    int      phase;
    int64_t  block;
    la_real *scratch; /* n_scratch reals, this thread's own, not zeroed                       */
    la_real *common;  /* n_common reals, not zeroed                                           */
    uint64_t seed, step;
    unsigned first; /* backward, bit i: in[i]->g holds garbage; write = to its every element  */
} la_run;

typedef struct la_case { /* one example: tests, gradcheck, bench, documentation                */
    const char *name;    /* "B2 T5 H2 D3"; NULL ends the list                                  */
    la_shape    in[LA_MAX_IN]; /* how many: those before the first with n == 0              */
    const void *attr;
    double      lo, hi; /* real inputs are uniform in [lo,hi); 0,0 stands for [-1,1)           */
    struct {
        int32_t lo, hi; /* hi > lo: this input is integers in [lo,hi)                          */
    } ids[LA_MAX_IN];
    int64_t wider; /* each real input (B,T,H,D) is a view of heads, whose rows have as many
                      columns more; only for a plain op marked `strided`                       */
} la_case;

/* Which tensors backward reads: they stay in memory until then. */
#define LA_READS_IN(i) (1u << (i))
#define LA_READS_OUT(i) (1u << (LA_MAX_IN + (i)))
/* Which gradients backward can write with = where run->first asks for it.  Others are cleared
 * before, and are always +=; so are those of leaves, which add up over replays. */
#define LA_SETS_IN(i) (1u << (i))

struct la_op {
    const char    *name;      /* "causal_linear"                                              */
    const char    *formula;   /* one line, for dumps and `gradcheck --explain`                */
    const char    *file;      /* where the derivation stands                                  */
    size_t         attr_size; /* bytes                                                        */
    unsigned       reads;     /* LA_READS_IN | LA_READS_OUT                                   */
    unsigned       sets;      /* LA_SETS_IN                                                   */
    int            strided;   /* takes the nodes of la_heads()                                */
    int            distinct;  /* backward writes gradients of several inputs side by side, which
                                 may not be one tensor                                        */
    const la_case *cases;     /* NULL for an op whose cases come with a table of its own      */
    la_status (*infer)(const la_node *n, la_plan *p);    /* every check is made here    */
    la_status (*check)(const la_node *n);                /* before each forward: integers in
                                                             range; NULL: nothing to check */
    void (*forward)(const la_node *n, const la_run *r);  /* writes out[i]->x; saved, if not NULL */
    void (*backward)(const la_node *n, const la_run *r); /* in[i]->g += ..., if not NULL;
                                                             = if it is among r->first */
    void (*reference)(const la_node *n);                 /* slow, obvious forward       */
};

extern const la_op *const la_ops[]; /* NULL-terminated, from ops.def */
#endif
