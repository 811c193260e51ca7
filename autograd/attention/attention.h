/* attention.h -- the attention variants, by name.
 *
 * A variant is one file in autograd/attention/ and one line in attn.def.  From that line come
 * `train --attn=NAME`, its help, gradcheck and the table-driven tests.
 *
 * All variants have one signature:
 *
 *   q, k (B,T,H,D)  v (B,T,H,E)  [state (B,H,L)  past (1)]   ->   o (B,T,H,E)  [state (B,H,L)]
 *
 * Causal: o_t depends on tokens up to t.  With a state, the text continues one that had `past`
 * tokens; the state comes out again, with a gradient like any other tensor, so that reading a
 * prompt, decoding token by token, and splitting a text are one mechanism.  L = la_attn_state_len.
 */
#ifndef LA_ATTENTION_H
#define LA_ATTENTION_H
#include "autograd/op.h"

typedef struct la_attn la_attn;

typedef struct la_attn_cfg {
    const la_attn *variant;
    double         eps;   /* added to the normaliser, where there is one                      */
    int64_t        chunk; /* tokens handled by one matrix product; 0: the variant's own choice */
} la_attn_cfg;

/* A feature map, applied to rows: x (rows,D) with ldx reals between rows, y (rows,m) dense. */
typedef struct la_map {
    int64_t (*width)(int64_t D); /* m */
    void (*forward)(int64_t rows, int64_t D, double eps, const la_real *x, int64_t ldx, la_real *y);
    /* dx += dy times the Jacobian at x; y is what forward gave */
    void (*backward)(int64_t rows, int64_t D, double eps, const la_real *x, int64_t ldx,
                     const la_real *y, const la_real *dy, la_real *dx, int64_t lddx);
} la_map;

struct la_attn {
    const char   *name;    /* "elu1"                                                          */
    const char   *formula; /* "phi(x) = elu(x) + 1"                                           */
    const char   *paper;
    const char   *cost; /* time and state                                                  */
    const char   *file; /* where the derivation stands                                     */
    const la_op  *op;   /* NULL: attention adds nothing                                    */
    const la_map *map;  /* of a kernel variant, else NULL                                  */
    int64_t (*state_len)(const la_attn *a, int64_t D, int64_t E, int64_t capacity); /* L      */
    void (*state_start)(int64_t D, int64_t E, la_real *state); /* one head; NULL: zeros       */
    int positive; /* weights are >= 0, so that min v <= o <= max v                            */
};

extern const la_attn *const la_attns[]; /* NULL-terminated, from attn.def */
extern const la_case la_attn_cases[]; /* for every variant; attr is a la_attn_cfg without variant */

la_status la_attn_find(const char     *name,
                       const la_attn **out); /* LA_NAME lists the names, nearest first */

/* Reals of state for each batch row and head; capacity: the most tokens a text will have (only
 * softmax, whose state is the cache of keys and values, depends on it). */
int64_t la_attn_state_len(const la_attn *a, int64_t D, int64_t E, int64_t capacity);
/* The state before the first token: rows heads of D and E, la_attn_state_len reals each. */
void    la_attn_state_start(const la_attn *a, int64_t rows, int64_t D, int64_t E, int64_t len,
                            la_real *state);

/* Records a variant.  state and past NULL: a text from its beginning, no state comes out; else
 * *state_out is the second output. */
la_node *la_attention(la_tape *t, const la_attn_cfg *c, la_node *q, la_node *k, la_node *v,
                      la_node *state, la_node *past, la_node **state_out);

/* For the files of variants: checks what all have in common and fills the shapes of the plan. */
la_status la_attn_infer(const la_node *n, la_plan *p);
/* How a variant that carries a state over chunks of the text cuts its work, by shapes alone.  A
 * block walks some heads of a batch row side by side, whose rows of a token are next to each other
 * in memory; with few heads the text is cut too, into segments that meet in running sums. */
typedef struct la_scan {
    int64_t chunk, chunks;     /* tokens, at most; in the text                  */
    int64_t group, groups;     /* heads of a block; blocks beside each other    */
    int64_t segment, segments; /* chunks of a block; blocks after each other    */
} la_scan;
/* chunk: tokens, if the option does not say; width: reals of a head's row in scratch; state: reals
 * of a head's state. */
la_scan la_attn_scan(const la_node *n, int64_t chunk, int64_t width, int64_t state);
/* Tokens a chunk may have at most: the option, or `usual`. */
int64_t la_attn_chunk(const la_node *n, int64_t usual);
#endif
