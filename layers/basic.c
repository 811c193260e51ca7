/* basic.c -- linear, norm and MLP layers: names, shapes and initial values. */
#include "autograd/ops.h"
#include "layers/layers.h"

static const double NORM_EPS = 1e-5; /* PyTorch's default for LayerNorm */

static la_node *node(la_tape *t, la_params *p, la_param i) {
    return i == LA_NO_PARAM ? NULL : la_param_node(t, p, i);
}

void la_linear_declare(la_linear_layer *l, la_params *p, const char *name, int64_t in, int64_t out,
                       double std, int bias) {
    la_params_push(p, "%s", name);
    l->w = la_params_add(p, "weight", la_shape2(out, in), LA_INIT_NORMAL, std);
    l->b = bias ? la_params_add(p, "bias", la_shape1(out), LA_INIT_ZERO, 0) : LA_NO_PARAM;
    la_params_pop(p);
}

la_node *la_linear_layer_apply(const la_linear_layer *l, la_params *p, la_tape *t, la_node *x,
                               la_node *r) {
    la_node *w = la_param_node(t, p, l->w), *b = node(t, p, l->b);
    la_node *y = r ? la_linear_add(t, x, w, b, r) : la_linear(t, x, w, b);
    return w ? la_named(t, y, w->name) : y;
}

void la_norm_declare(la_norm_layer *l, la_params *p, const char *name, int64_t dim, int bias) {
    la_params_push(p, "%s", name);
    l->gain = la_params_add(p, "weight", la_shape1(dim), LA_INIT_ONE, 0);
    l->bias = bias ? la_params_add(p, "bias", la_shape1(dim), LA_INIT_ZERO, 0) : LA_NO_PARAM;
    la_params_pop(p);
}

la_node *la_norm_apply(const la_norm_layer *l, la_params *p, la_tape *t, la_node *x) {
    la_node *gain = la_param_node(t, p, l->gain);
    la_node *y = la_layernorm(t, x, gain, node(t, p, l->bias), NORM_EPS);
    return gain ? la_named(t, y, gain->name) : y;
}

void la_mlp_declare(la_mlp_layer *l, la_params *p, const char *name, int64_t dim, int64_t width,
                    double std, double proj_std, int bias) {
    la_params_push(p, "%s", name);
    la_linear_declare(&l->c_fc, p, "c_fc", dim, width, std, bias);
    la_linear_declare(&l->c_proj, p, "c_proj", width, dim, proj_std, bias);
    la_params_pop(p);
}

la_node *la_mlp_apply(const la_mlp_layer *l, la_params *p, la_tape *t, la_node *x, la_node *r) {
    la_node *w = la_param_node(t, p, l->c_fc.w);
    la_node *h = la_linear_gelu(t, x, w, node(t, p, l->c_fc.b));
    if (w) h = la_named(t, h, w->name);
    return la_linear_layer_apply(&l->c_proj, p, t, h, r);
}
