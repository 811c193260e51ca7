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

enum { LA_GPT_MLP = 4 }; /* the MLP is this many times as wide as the model */

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
void     la_mlp_declare(la_mlp_layer *l, la_params *p, const char *name, int64_t dim, double std,
                        double proj_std, int bias);
la_node *la_mlp_apply(const la_mlp_layer *l, la_params *p, la_tape *t, la_node *x, la_node *r);

/* --- attention.c: heads around any variant --- */
typedef struct la_attn_layer {
    la_linear_layer c_attn, c_proj; /* c_attn makes q, k and v side by side: (3 dim, dim) */
    la_attn_cfg     cfg;
    int64_t         heads, dim;
    la_pos          pos;
} la_attn_layer;

/* A text that goes on: state in, the tokens before it, state out.  NULL where a text begins. */
typedef struct la_carry {
    la_node *state, *past, *state_out;
} la_carry;

void la_attn_layer_declare(la_attn_layer *l, la_params *p, const char *name, const la_attn_cfg *cfg,
                           int64_t heads, int64_t dim, la_pos pos, double std, double proj_std,
                           int bias);
/* x (B,T,dim) -> (B,T,dim), r added.  `past` is needed with rope, also where a text begins. */
la_node *la_attn_layer_apply(const la_attn_layer *l, la_params *p, la_tape *t, la_node *x,
                             la_node *r, la_node *past, la_carry *carry);

/* --- lm.c: the language model --- */
typedef struct la_lm_cfg {
    int64_t     vocab, dim, layers, heads, block_size;
    la_attn_cfg attn;
    la_pos      pos;
    double      dropout;
    int         bias;
    int         bidirectional; /* every token sees the whole text: the masked objective       */
    int         mask_token;    /* one more row of wte, [MASK]: looked up, never predicted     */
    int         recompute;     /* keep only what goes from block to block until backward      */
    size_t      max_bytes;     /* of weights and gradients; 0: no limit                       */
} la_lm_cfg;

typedef struct la_block_layer {
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
void      la_lm_destroy(la_lm *lm);

/* What decoding carries from one replay to the next, owned by the caller: la_lm_state_len reals,
 * set to the start of a text by la_lm_state_start. */
size_t la_lm_state_len(const la_lm *lm, int64_t B, int64_t capacity);
void   la_lm_state_start(const la_lm *lm, int64_t B, int64_t capacity, la_real *state);

typedef struct la_lm_input {
    la_node *tokens;    /* (B,T)                                                              */
    la_node *positions; /* (B,T): past, past + 1, ... in each row; read with learned positions */
    la_node *past;      /* (1)                                                                */
    la_real *state;     /* NULL, or as above for B rows; an inference tape updates it in place */
    int64_t  capacity;  /* of the state                                                       */
} la_lm_input;

/* Of the V tokens, also where there is a [MASK]. */
la_node *la_lm_logits(const la_lm *lm, la_tape *t, const la_lm_input *in); /* (B,T,V) */
la_node *la_lm_loss(const la_lm *lm, la_tape *t, const la_lm_input *in, la_node *labels); /* (1) */
#endif
