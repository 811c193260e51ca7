/* trial.h -- one op or variant on one of its cases with random inputs: what gradcheck and the
 * table-driven tests run.
 *
 * The subjects are the lines of ops.def that have cases of their own and those of attn.def, with
 * the option `tiny`, causal and bidirectional, and la_attn_examples.  A trial's loss is sum_k
 * <output_k, cotangent_k> with random cotangents, so its gradients are those of a random direction.
 */
#ifndef LA_TRIAL_H
#define LA_TRIAL_H
#include "autograd/attention/attention.h"
#include "tensor/arena.h"

typedef struct la_subject {
    const char    *name, *formula, *paper, *file; /* paper NULL for a plain op          */
    const la_op   *op;
    const la_attn *variant; /* NULL for a plain op                                      */
    const la_case *cases;
    const char    *spec; /* of a variant: what la_attn_parse() makes its options of     */
    int            bidirectional;
} la_subject;

enum { LA_TRIAL_TEXT = 70 }; /* tokens of the longest case, for options that depend on it */
/* The options of a variant's subject; those of the case are eps and chunk. */
la_attn_cfg la_subject_cfg(const la_subject *s, double eps, int64_t chunk);

int        la_subject_count(void);
la_status  la_subject_check(void); /* LA_OK if none is missing for a spec that fails or for room */
la_subject la_subject_at(int i);   /* 0 <= i < la_subject_count()               */
la_status  la_subject_find(const char *name, la_subject *out);

enum { LA_TRIAL_NODES = 12 };

typedef struct la_trial_cfg {
    int      inference; /* no loss, no gradients                                     */
    int      split;     /* variants with T > 1: two texts, the state handed from one to the other */
    unsigned without_grad; /* bit i: input i gets no gradient                           */
    int      behind;       /* the op reads results of another op (the same numbers), not leaves */
    int      columns;      /* variants: q, k, v are columns of one input, as in a model */
    int      masked; /* variants: some tokens are not valid, others in each row of the batch */
    uint64_t seed;
} la_trial_cfg;

typedef struct la_trial {
    la_tape    *tape;
    la_node    *in[LA_TRIAL_NODES];  /* real inputs, filled                        */
    la_node    *out[LA_TRIAL_NODES]; /* what the loss is made of; kept             */
    la_node    *cotangent[LA_TRIAL_NODES];
    int         n_in, n_out;
    la_node    *loss; /* NULL for inference */
    la_attn_cfg cfg;  /* of a variant, and what it reads, for each part of the text */
    la_attn_in  text[2];
    la_node    *frozen[2]; /* weights of a variant that are not trained */
    la_arena    arena;     /* integers */
} la_trial;

/* Recorded, sealed, filled; not yet run. */
la_status la_trial_create(la_trial *r, const la_subject *s, const la_case *c,
                          const la_trial_cfg *cfg);
void      la_trial_destroy(la_trial *r);
/* After a forward: what out[k] should be by the slow definition, for k below *known; that leaves
 * out the state.  want[k] has room for out[k]. */
la_status la_trial_reference(const la_trial *r, const la_subject *s, la_real *const want[],
                             int *known);

/* max |analytic - numeric| / max |numeric| over all inputs of the case, numeric by central
 * differences.  Meant for lina64; of a large input 24 elements are checked. */
la_status la_gradcheck(const la_subject *s, const la_case *c, const la_trial_cfg *cfg,
                       double *worst);
#endif
