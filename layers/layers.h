/* layers.h -- pieces of a model.  A layer is a struct of parameter indices and two
 * functions: _declare says which parameters it has, _apply records it on a tape.  There is
 * no base class: a model is ordinary C that calls these in order.
 *
 * Names and shapes of parameters are GPT-2's as PyTorch users know them, so that a
 * checkpoint's arrays go straight into load_state_dict and come back. */
#ifndef LA_LAYERS_H
#define LA_LAYERS_H
#include "autograd/attention/attention.h"
#include "autograd/params.h"

enum { LA_GPT_MLP = 4 }; /* the MLP is usually this many times as wide as the model */

typedef enum la_pos { LA_POS_LEARNED, LA_POS_ROPE, LA_POS_NONE } la_pos;

/* --- basic.c: y = x w' + b; layer norm; w_proj gelu(w_fc x) --- */
typedef struct la_linear_layer {
    la_param w, b; /* (out,in) (out) */
} la_linear_layer;
typedef struct la_norm_layer {
    la_param gain, bias; /* (dim) each */
} la_norm_layer;
typedef struct la_mlp_layer {
    la_linear_layer c_fc, c_proj;
} la_mlp_layer;

/* std: of the initial weights, N(0, std^2); biases start at 0, gains at 1. */
void la_linear_declare(la_linear_layer *l, la_params *p, const char *name, int64_t in, int64_t out,
                       double std, int bias);
/* r: added to the result; NULL: nothing. */
la_node *la_linear_layer_apply(const la_linear_layer *l, la_params *p, la_tape *t, la_node *x,
                               la_node *r);
void     la_norm_declare(la_norm_layer *l, la_params *p, const char *name, int64_t dim, int bias);
la_node *la_norm_apply(const la_norm_layer *l, la_params *p, la_tape *t, la_node *x);
void     la_mlp_declare(la_mlp_layer *l, la_params *p, const char *name, int64_t dim, int64_t width,
                        double std, double proj_std, int bias);
la_node *la_mlp_apply(const la_mlp_layer *l, la_params *p, la_tape *t, la_node *x, la_node *r);

/* --- pattern.c: which attention each layer has --- */
enum { LA_MAX_MIX = 4, LA_MAX_PATTERN = 16 };

typedef struct la_attn_part {
    la_attn_cfg cfg;
    int64_t     heads; /* 0: all there are */
} la_attn_part;

typedef struct la_attn_mix { /* one layer: some heads have one variant, others another          */
    int          n;
    la_attn_part part[LA_MAX_MIX];
} la_attn_mix;

typedef struct la_attn_pattern { /* layer i has mix[i % n] */
    int         n;
    la_attn_mix mix[LA_MAX_PATTERN];
} la_attn_pattern;

/* NAME:options, with / between layers, + between the variants of a layer, each then with @HEADS.
 * LA_NAME and LA_ARG are sentences for whoever typed it. */
la_status          la_attn_pattern_parse(const char *spec, double eps, la_attn_pattern *out);
la_attn_pattern    la_attn_everywhere(const la_attn_cfg *c);
const la_attn_mix *la_attn_of_layer(const la_attn_pattern *p, int64_t layer);
int                la_attn_mix_is_none(const la_attn_mix *m); /* the layer has no attention       */
/* Fills what was left open; LA_ARG where it does not fit the sizes of the model. */
la_status la_attn_pattern_complete(la_attn_pattern *p, int64_t layers, int64_t heads, int64_t dim,
                                   int64_t longest, int bidirectional);

/* --- attention.c: heads around variants --- */
typedef struct la_attn_layer_cfg {
    int64_t heads, dim, short_conv; /* tokens of the convolution; 0: none                     */
    la_pos  pos;
    double  std, proj_std;
    int     bias;
} la_attn_layer_cfg;

typedef struct la_attn_group { /* the heads of one variant */
    la_attn_cfg cfg;
    int64_t     heads, column[3]; /* where q, k, v begin in the product                     */
    la_param    weight[2], decay, gain;
} la_attn_group;

typedef struct la_attn_layer {
    la_attn_layer_cfg cfg;
    la_linear_layer   c_attn, c_proj; /* c_attn makes q, k and v side by side: (columns, dim)   */
    int64_t           columns;        /* 3 dim, less where queries serve as keys                */
    la_param          conv;           /* (columns, short_conv)                                  */
    int               n_groups;
    la_attn_group     group[LA_MAX_MIX];
} la_attn_layer;

/* Where a text stands, and what it leaves behind. */
typedef struct la_attn_text {
    la_node  *past;     /* tokens before it, as in la_attn_in; read with rope and with a state   */
    la_node  *mask;     /* NULL, or which tokens are valid                                       */
    la_real  *state;    /* NULL where a text begins; this layer's                                */
    int64_t   capacity; /* of the state                                                          */
    la_node  *unit;     /* NULL, or (B,T,H T): unit vector t for each head of token t.  Then the
                           weights of each group, (B,T,H,T), are added to `weights`              */
    la_node **weights;
    int       n_weights;
} la_attn_text;

void la_attn_layer_declare(la_attn_layer *l, la_params *p, const char *name, const la_attn_mix *mix,
                           const la_attn_layer_cfg *c);
/* x (B,T,dim) -> (B,T,dim), r added. */
la_node *la_attn_layer_apply(const la_attn_layer *l, la_params *p, la_tape *t, la_node *x,
                             la_node *r, la_attn_text *text);
/* Draws the random features anew of which step `step` is the first with others: redraw=STEPS. */
void     la_attn_layer_redraw(const la_attn_layer *l, la_params *p, uint64_t seed, int64_t step);
int64_t  la_attn_layer_state_len(const la_attn_layer *l, int64_t B, int64_t capacity);
void la_attn_layer_state_start(const la_attn_layer *l, int64_t B, int64_t capacity, la_real *state);

/* --- lm.c: the language model --- */
typedef struct la_lm_cfg {
    int64_t         vocab, dim, layers, heads, block_size;
    int64_t         mlp; /* numbers within the MLP; 0: 4 dim                                    */
    la_attn_pattern attn;
    int64_t         short_conv; /* tokens of a convolution over q, k and v; 0: none             */
    la_pos          pos;
    double          dropout;
    int             bias;
    int             bidirectional; /* every token sees the whole text: the masked objective      */
    int             mask_token;    /* one more row of wte, [MASK]: looked up, never predicted    */
    int             recompute; /* keep only what goes from block to block until backward         */
    size_t          max_bytes; /* of weights and gradients; 0: no limit                        */
} la_lm_cfg;

typedef struct la_block_layer {
    int           attends; /* else a block is its MLP alone */
    la_norm_layer ln_1, ln_2;
    la_attn_layer attn;
    la_mlp_layer  mlp;
} la_block_layer;

typedef struct la_lm {
    la_lm_cfg       cfg;
    la_params      *params;
    la_param        wte, wpe;
    la_norm_layer   ln_f;
    la_block_layer *blocks;
} la_lm;

/* Parameters are declared and drawn from the seed.  LA_ARG, with a sentence, for sizes that do
 * not fit together (dim by heads, ...); LA_NOMEM, before anything large is allocated, above
 * max_bytes. */
la_status la_lm_create(la_lm **lm, const la_lm_cfg *cfg, uint64_t seed, int with_grad);
/* The same without memory for weights and gradients, for tapes that only plan. */
la_status la_lm_plan(la_lm **lm, const la_lm_cfg *cfg);
void      la_lm_destroy(la_lm *lm);

/* What changes at the beginning of a training step, by seed and step alone: random features. */
void la_lm_begin_step(la_lm *lm, uint64_t seed, int64_t step);

/* What decoding carries from one replay to the next, owned by the caller: la_lm_state_len reals,
 * set to the start of a text by la_lm_state_start. */
size_t la_lm_state_len(const la_lm *lm, int64_t B, int64_t capacity);
void   la_lm_state_start(const la_lm *lm, int64_t B, int64_t capacity, la_real *state);

typedef struct la_lm_input {
    la_node  *tokens;    /* (B,T)                                                              */
    la_node  *positions; /* (B,T): past, past + 1, ... in each row; read with learned positions */
    la_node  *past;      /* (1), or (B) with a mask                                            */
    la_node  *mask;      /* NULL, or integers (B,T), 0 or 1: tokens with 0 are as if they were not
                            there; labels are the caller's                                     */
    la_real  *state;     /* NULL, or as above for B rows; an inference tape updates it in place */
    int64_t   capacity;  /* of the state                                                       */
    la_node  *unit;      /* as in la_attn_text: then weights[] gets the nodes of all groups    */
    la_node **weights;   /* of all layers, la_lm_groups() of them                              */
} la_lm_input;

/* Tokens that a text may have at most, by its positions or by attention that weighs places; 0: any.
 */
int64_t la_lm_longest(const la_lm *lm);
/* Groups of heads that attend, over all layers. */
int     la_lm_groups(const la_lm *lm);

/* Of the V tokens, also where there is a [MASK]. */
la_node *la_lm_logits(const la_lm *lm, la_tape *t, const la_lm_input *in); /* (B,T,V) */
la_node *la_lm_loss(const la_lm *lm, la_tape *t, const la_lm_input *in, la_node *labels); /* (1) */
/* The same at N places only, where labels are few: at (N), integers b T + t of [0, B T), and labels
 * (N) -> loss (1).  *logits (N,V) are of those places, and kept. */
la_node *la_lm_loss_at(const la_lm *lm, la_tape *t, const la_lm_input *in, la_node *at,
                       la_node *labels, la_node **logits);
#endif
