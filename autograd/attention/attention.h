/* attention.h -- the attention variants, by name.
 *
 * A variant is one file in autograd/attention/ and one line in attn.def.  From that line come
 * `train --attn=NAME`, its help, gradcheck and the table-driven tests.
 *
 * All variants have one signature:
 *
 *   q, k (B,T,H,D)  v (B,T,H,E)  [state (B,H,L)  past]   ->   o (B,T,H,E)  [state (B,H,L)]
 *
 * Causal: o_t depends on tokens up to t.  With a state, the text continues one that had `past`
 * tokens; the state comes out again, with a gradient like any other tensor, so that reading a
 * prompt, decoding token by token, and splitting a text are one mechanism.  L = la_attn_state_len.
 * Bidirectional: o_t depends on every token; there is no state.
 *
 * Where a variant is a kernel, w_tj = phi(q_t).phi(k_j), its file has the map phi alone; the sums
 * are in autograd/ops/. */
#ifndef LA_ATTENTION_H
#define LA_ATTENTION_H
#include "autograd/op.h"
#include "autograd/ops.h"
#include "autograd/params.h"

typedef struct la_attn la_attn;
typedef struct la_map  la_map;

typedef enum la_decay {
    LA_DECAY_NONE,
    LA_DECAY_FIXED,
    LA_DECAY_RETENTION,
    LA_DECAY_LEARNED
} la_decay;
typedef enum la_head_norm { LA_HEAD_NORM_NONE, LA_HEAD_NORM_RMS } la_head_norm;

/* A variant and its options, options.def. */
typedef struct la_attn_cfg {
    const la_attn *variant;
    int            bidirectional;
    const la_map  *q, *k; /* feature maps; NULL: the variant's own, if it has any              */
    double         eps;   /* added to the normaliser, where there is one                       */
    int64_t        chunk; /* tokens handled by one matrix product; 0: the variant's own choice */
    int64_t        d, m, nu, redraw, length, w, s, c, rounds, buckets, r;
    la_decay       decay;
    double         gamma; /* of LA_DECAY_FIXED                                                 */
    la_head_norm   norm;
} la_attn_cfg;

/* What the table-driven tests must know of a variant, or of a map: la_attn_traits. */
enum {
    LA_ATTN_SIGNED = 1u << 0,     /* weights may be negative, so that o may leave [min v, max v]  */
    LA_ATTN_ZERO_ROWS = 1u << 1,  /* all weights of a row may be 0, and then o = 0                */
    LA_ATTN_POSITIONAL = 1u << 2, /* equal keys may have different weights                        */
    LA_ATTN_SPARSE = 1u << 3,     /* a token sees some of the tokens before it only               */
    LA_ATTN_NOT_MEAN = 1u << 4,   /* weights do not add to 1                                      */
};

/* --- feature maps --- */
typedef enum la_map_kind {
    LA_MAP_SIGNED,   /* features of either sign.  phi(q).phi(k) with another such map could add to
                        anything, and is refused; with itself it is not below 0, as the map's file
                        shows, or the map has a floor                                          */
    LA_MAP_POSITIVE, /* never below 0                                                          */
    LA_MAP_LOG,      /* forward gives the logarithms of positive features                      */
} la_map_kind;

/* What stands before a map: y = scale W x^ (+ b) - square |x|^2, ops/head_linear.c. */
typedef struct la_projection {
    int random; /* drawn, never trained, the same for q and k; else learned, W near identity at
                   first, further rows random */
    int64_t (*width)(const la_attn_cfg *c, int64_t D);  /* rows of W                            */
    void (*scales)(int64_t D, la_head_linear_cfg *out); /* NULL: scale 1, square 0             */
    int bias;                                           /* a last column of W                  */
    int pairs; /* a row of W gives two features, so that m is even */
} la_projection;

/* The heads of one token: x (rows,D), and their features (rows,m), both dense. */
typedef struct la_map_rows {
    int64_t            rows, D;
    int64_t            position; /* of the token in its text                                   */
    const la_attn_cfg *cfg;
} la_map_rows;

struct la_map {
    const char          *name;
    la_map_kind          kind;
    unsigned             traits;     /* LA_ATTN_..., of any kernel that it is a part of        */
    const char          *options;    /* keys of options.def that it reads, "m redraw"; NULL: none */
    const la_projection *projection; /* NULL: none */
    int64_t (*width)(const la_attn_cfg *c, int64_t D); /* m; D is behind the projection  */
    void (*forward)(const la_map_rows *r, const la_real *x, la_real *y);
    /* dx += dy times the Jacobian at x; y is what forward gave */
    void (*backward)(const la_map_rows *r, const la_real *x, const la_real *y, const la_real *dy,
                     la_real *dx);
    int64_t (*longest)(const la_attn_cfg *c); /* tokens a text may have; NULL: any number         */
    double floor; /* of q and k both: the normaliser is this, where it would be less; 0: none */
    /* The same, one row, as in the paper and in double: the oracle of the tests */
    void (*definition)(const la_attn_cfg *c, int64_t D, int64_t position, const double *x,
                       double *y);
};

/* --- variants --- */
/* One head of a text, for definitions: q, k (T,D); weight[i] as in la_attn_in, this head's part;
 * gamma is its decay, 1 without. */
typedef struct la_attn_head {
    const la_attn_cfg *cfg;
    int64_t            T, D;
    const double      *q, *k, *weight[2];
    double             gamma;
} la_attn_head;

/* A tensor that a variant needs besides q, k, v: how it starts, and whether it is trained. */
typedef struct la_attn_weight {
    const char *name;
    la_shape    shape;
    la_init     how;
    double      scale;
    int         frozen;
} la_attn_weight;

struct la_attn {
    const char   *name;    /* "elu1"                                                      */
    const char   *formula; /* "phi(x) = elu(x) + 1"                                       */
    const char   *paper;
    const char   *cost;       /* time and state                                              */
    const char   *file;       /* where the derivation stands                                 */
    const char   *options;    /* keys of options.def that it reads: "chunk eps"              */
    la_attn_cfg   usual;      /* their defaults, where not 0                                 */
    const char   *tiny;       /* options that make a text of ten tokens interesting, "w=3"   */
    const char   *not_causal; /* why it has no causal form; NULL: it has                     */
    unsigned      traits;     /* LA_ATTN_..., besides those of the maps                      */
    int           shared_qk;  /* a model gives it its queries as keys                        */
    const la_map *map;        /* of a kernel variant, else NULL                              */
    const struct la_sparse *sparse; /* which keys a query sees, ops/sparse_softmax.h; else NULL */
    const la_op *causal, *full;     /* NULL: that of the maps, or none at all                    */
    const la_op *pairwise; /* of a kernel variant: the same without features, for short texts */
    /* NULL where there is nothing to say: */
    void (*complete)(la_attn_cfg *c, int64_t longest); /* options left at 0                   */
    la_status (*check)(const la_attn_cfg *c, int64_t H, int64_t D); /* options against sizes  */
    int (*weights)(const la_attn_cfg *c, int64_t H, int64_t D,
                   la_attn_weight out[2]); /* how many */
    /* reals of a head's state; D is behind a map's projection */
    int64_t (*state_len)(const la_attn_cfg *c, int64_t D, int64_t E, int64_t capacity);
    void (*state_start)(const la_attn_cfg *c, int64_t D, int64_t E, la_real *state);
    double (*pairs)(const la_attn_cfg *c, int64_t T); /* query and key that meet; NULL: linear  */
    /* w (T,T), zeros at first: row t, the weights of token t.  Or LA_NOMEM. */
    la_status (*definition)(const la_attn_head *x, double *w);
};

extern const la_attn *const la_attns[]; /* NULL-terminated, from attn.def */
/* For all suites: shapes, for every variant (attr is a la_attn_cfg of eps and chunk), and specs. */
extern const la_case        la_attn_cases[];
extern const char *const    la_attn_examples[];

la_status la_attn_find(const char     *name,
                       const la_attn **out); /* LA_NAME lists the names, nearest first */
/* NAME[:key=value,...]; LA_NAME and LA_ARG are sentences for whoever typed it.  spec.c */
la_status la_attn_parse(const char *spec, double eps, la_attn_cfg *out);
/* The options that the variant reads with their defaults, "w=32"; all keys by themselves if a is
 * NULL.  Calls each(ctx, option, help). */
void la_attn_options(const la_attn *a, void each(void *ctx, const char *option, const char *help),
                     void *ctx);
/* The usual options of a variant, for texts of up to `longest` tokens; eps is 0. */
la_attn_cfg   la_attn_usual(const la_attn *a, int64_t longest);
/* Tokens that a text may have at most; 0: any number. */
int64_t       la_attn_longest(const la_attn_cfg *c);
/* Fills options that were left open. */
void          la_attn_complete(la_attn_cfg *c, int64_t longest);
/* LA_ARG, with a sentence, where options do not go together or with the sizes of a head. */
la_status     la_attn_check(const la_attn_cfg *c, int64_t H, int64_t D);
/* The op that computes a text that goes on from a state, or fades; NULL: attention adds nothing. */
const la_op  *la_attn_op(const la_attn_cfg *c);
/* The op for T tokens by themselves: that, or `pairwise` where it is quicker. */
const la_op  *la_attn_op_of_text(const la_attn_cfg *c, int64_t T, int64_t D, int64_t E);
/* How many times a query and a key meet in it; 0: features are summed up instead. */
double        la_attn_pairs(const la_attn_cfg *c, int64_t T, int64_t D, int64_t E);
const la_map *la_attn_map(const la_attn_cfg *c, int which); /* 0: of q, 1: of k; or NULL        */
const la_projection *la_attn_projection(const la_attn_cfg *c, int which); /* before it, or NULL  */
unsigned la_attn_traits(const la_attn_cfg *c); /* of the variant and of its maps              */
double   la_attn_floor(const la_attn_cfg *c);  /* of the normaliser; 0: none                    */
int64_t  la_attn_features(const la_attn_cfg *c, int64_t D); /* m of a kernel variant, else D */

/* The tensors that go into la_attn_in.weight: 0, 1 or 2 of them; one is for both. */
int la_attn_weights(const la_attn_cfg *c, int64_t H, int64_t D, la_attn_weight out[2]);

/* Reals of state for each batch row and head; capacity: the most tokens a text will have (only
 * variants that cache keys and values depend on it). */
int64_t la_attn_state_len(const la_attn_cfg *c, int64_t D, int64_t E, int64_t capacity);
/* The state before the first token: rows heads of D and E, la_attn_state_len reals each. */
void    la_attn_state_start(const la_attn_cfg *c, int64_t rows, int64_t D, int64_t E, int64_t len,
                            la_real *state);

/* What a variant reads.  Those after v may be NULL. */
typedef struct la_attn_in {
    la_node *q, *k, *v;
    la_node *weight[2]; /* la_attn_weights                                                     */
    la_node *decay;     /* (H): logits, gamma_h = 1 / (1 + exp(-decay_h)), where cfg.decay is on */
    la_node *mask;      /* (B,T) integers, 0 or 1.  A token with 0 is as if it were not there: its o
                           and its gradients are 0                                             */
    la_node *state;     /* (B,H,L); it goes with past: integers, one or one for each row of B:
                           valid tokens before this text                                       */
    la_node *past;
} la_attn_in;

/* Records a variant.  state and past NULL: a text from its beginning, no state comes out; else
 * *state_out is the second output. */
la_node *la_attention(la_tape *t, const la_attn_cfg *c, const la_attn_in *in, la_node **state_out);

/* --- for the files of variants and of their ops --- */
enum {
    LA_AT_Q,
    LA_AT_K,
    LA_AT_V,
    LA_AT_WEIGHT,
    LA_AT_WEIGHT_K, /* the second */
    LA_AT_DECAY,
    LA_AT_MASK, /* with it the valid tokens of a row are its first ones: la_pack has been here */
    LA_AT_STATE,
    LA_AT_PAST,
    LA_AT_COUNT
};

/* The attr of an attention op. */
typedef struct la_attn_call {
    la_attn_cfg cfg;
    int8_t      at[LA_AT_COUNT]; /* which input of the node it is; below 0: none              */
} la_attn_call;

/* Backward may look at all of them: those beyond v are small, or the caller's. */
#define LA_READS_ATTENTION                                                                         \
    (LA_READS_IN(0) | LA_READS_IN(1) | LA_READS_IN(2) | LA_READS_IN(3) | LA_READS_IN(4) |          \
     LA_READS_IN(5) | LA_READS_IN(6) | LA_READS_IN(7) | LA_READS_IN(8))

static inline const la_attn_cfg *la_attn_cfg_of(const la_node *n) {
    return &((const la_attn_call *)n->attr)->cfg;
}

static inline la_node *la_attn_at(const la_node *n, int which) {
    int i = ((const la_attn_call *)n->attr)->at[which];
    return i < 0 ? NULL : n->in[i];
}

/* As la_attn_state_len, for a D that is behind the projection already. */
int64_t la_attn_op_state(const la_attn_cfg *c, int64_t D, int64_t E, int64_t capacity);
int64_t la_attn_tokens(const la_node *n,
                       int64_t        b);                 /* valid ones of batch row b: T without a mask */
int64_t la_attn_past(const la_node *n, int64_t b); /* tokens before them: 0 without a state       */
int64_t la_attn_room(const la_node *n);            /* tokens that fit the state; 0: any number */

/* Checks what all have in common and fills the shapes of the plan. */
la_status la_attn_infer(const la_node *n, la_plan *p);
/* A check for la_op.check: past is not below 0, and past + T fits `room`; 0: any. */
la_status la_attn_check_past(const la_node *n, int64_t room);
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
