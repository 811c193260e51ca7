/* attention.c -- heads around a variant: one product makes q, k and v side by side, each head
 * reads its columns where they are, one product mixes the heads' outputs. */
#include "autograd/ops.h"
#include "layers/layers.h"

void la_attn_layer_declare(la_attn_layer *l, la_params *p, const char *name, const la_attn_cfg *cfg,
                           int64_t heads, int64_t dim, la_pos pos, double std, double proj_std,
                           int bias) {
    l->cfg = *cfg;
    l->heads = heads;
    l->dim = dim;
    l->pos = pos;
    la_params_push(p, "%s", name);
    la_linear_declare(&l->c_attn, p, "c_attn", dim, 3 * dim, std, bias);
    la_linear_declare(&l->c_proj, p, "c_proj", dim, dim, proj_std, bias);
    la_params_pop(p);
}

la_node *la_attn_layer_apply(const la_attn_layer *l, la_params *p, la_tape *t, la_node *x,
                             la_node *r, la_node *past, la_carry *carry) {
    la_node *qkv = la_linear_layer_apply(&l->c_attn, p, t, x, NULL);
    la_node *head[3]; /* q, k, v as (B,T,H,D), without a copy */
    for (int i = 0; i < 3; i++) head[i] = la_heads(t, qkv, i * l->dim, l->heads, l->dim / l->heads);
    for (int i = 0; i < 2 && l->pos == LA_POS_ROPE; i++) head[i] = la_rope(t, head[i], past, NULL);
    la_node *o = la_attention(t, &l->cfg, head[0], head[1], head[2], carry ? carry->state : NULL,
                              past, carry ? &carry->state_out : NULL);
    o = la_named(t, o, l->cfg.variant->name);
    return x ? la_linear_layer_apply(&l->c_proj, p, t, la_reshape(t, o, x->shape), r) : NULL;
}
