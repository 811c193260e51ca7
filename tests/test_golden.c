/* test_golden.c -- outputs and gradients of every attention variant against those of PyTorch, in
 * golden/attention.txt; what its numbers are stands in golden/make_attention_golden.py. */
#include "golden.h"

#include "autograd/attention/attention.h"

enum { B = 2, T = 9, H = 2, D = 4, E = 3, LONGEST = 12 };

static const double TOLERANCE = BY_PRECISION(2e-5, 1e-9);

enum { Q, K, V, WEIGHT, WEIGHT_K, DECAY, COTANGENT };

/* Tensor number p of the file. */
static void fill(int p, const la_node *x) {
    static const double a[] = {1.5, 1.5, 1, 1.2, 1.2, 1, 1};
    for (int64_t i = 0; i < la_len(x->shape); i++) {
        double n = (double)(i + 1);
        x->x[i] = R(a[p] * sin(0.9 * (p + 1) + 1.7 * n + 0.013 * n * n) + (p == DECAY));
    }
}

static la_attn_cfg cfg_of(const golden_model *m) {
    la_attn_cfg cfg;
    OK(la_attn_parse(m->variant, 1e-6, &cfg));
    cfg.bidirectional = m->flag;
    la_attn_complete(&cfg, LONGEST);
    ck_assert_msg(la_attn_op(&cfg) != NULL, "%s is not there in this direction", m->variant);
    return cfg;
}

static void compare_gradient(const golden_model *m, const char *name, const la_node *x) {
    compare_reals(m, name, la_len(x->shape), x->g, 0, TOLERANCE);
}

/* A variant on the file's numbers; its outputs and gradients, and that the file has no others. */
static void compare_variant(const golden_model *m, const la_attn_cfg *cfg) {
    la_tape       *t;
    la_attn_weight w[2];
    la_attn_in     in = {0};
    char           name[24];
    int            n = la_attn_weights(cfg, H, D, w), compared = 4;
    OK(la_tape_create(&t, &(la_tape_cfg){.grad = 1}));
    in.q = la_input(t, "q", la_shape4(B, T, H, D), 1);
    in.k = la_input(t, "k", la_shape4(B, T, H, D), 1);
    in.v = la_input(t, "v", la_shape4(B, T, H, E), 1);
    for (int i = 0; i < n; i++) in.weight[i] = la_input(t, w[i].name, w[i].shape, !w[i].frozen);
    if (cfg->decay) in.decay = la_input(t, "decay", la_shape1(H), 1);
    la_node *o = la_keep(la_attention(t, cfg, &in, NULL));
    la_node *cotangent = la_input(t, "cotangent", la_shape4(B, T, H, E), 0);
    OK(la_tape_seal(t, la_inner(t, o, cotangent)));
    fill(Q, in.q), fill(K, in.k), fill(V, in.v), fill(COTANGENT, cotangent);
    for (int i = 0; i < n; i++) fill(WEIGHT + i, in.weight[i]);
    if (cfg->decay) fill(DECAY, in.decay);
    OK(la_tape_forward(t));
    OK(la_tape_backward(t, 1));
    compare_reals(m, "o", B * T * H * E, o->x, 0, TOLERANCE);
    compare_gradient(m, "dq", in.q);
    compare_gradient(m, "dk", in.k);
    compare_gradient(m, "dv", in.v);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "dweight.%d", i);
        if (!w[i].frozen) compare_gradient(m, name, in.weight[i]), compared++;
    }
    if (cfg->decay) compare_gradient(m, "ddecay", in.decay), compared++;
    ck_assert_msg(compared == m->n, "%s %s %d: attention.txt has %d tensors, and %d were compared",
                  m->variant, m->word, m->flag, m->n, compared);
    la_tape_destroy(t);
}

START_TEST(outputs_and_gradients_are_pytorchs) {
    la_attn_cfg cfg = cfg_of(models + _i);
    compare_variant(models + _i, &cfg);
}
END_TEST

START_TEST(by_chunks_they_are_the_same) {
    la_attn_cfg cfg = cfg_of(models + _i);
    if (!strstr(cfg.variant->options, "chunk")) return;
    for (cfg.chunk = 1; cfg.chunk < 6; cfg.chunk += 2) compare_variant(models + _i, &cfg);
}
END_TEST

START_TEST(by_features_they_are_the_same) {
    la_attn_cfg cfg = cfg_of(models + _i);
    la_attn     variant = *cfg.variant;
    if (!variant.pairwise) return;
    variant.pairwise = NULL;
    cfg.variant = &variant;
    compare_variant(models + _i, &cfg);
    cfg.chunk = 3;
    compare_variant(models + _i, &cfg);
}
END_TEST

/* Whether the file has a variant in a direction that there is. */
static int covered(const la_attn *a, int bidirectional) {
    for (int i = 0; i < n_models; i++)
        if (models[i].flag == bidirectional && cfg_of(models + i).variant == a) return 1;
    return 0;
}

START_TEST(every_variant_is_compared_in_each_direction) {
    ck_assert_msg(whole_file, "tests/golden/attention.txt is missing or cut off");
    for (int i = 0; la_attns[i]; i++)
        for (int both = 0; both < 2; both++) {
            la_attn_cfg cfg = la_attn_usual(la_attns[i], LONGEST);
            cfg.bidirectional = both;
            if (!la_attn_op(&cfg) || (!both && la_attns[i]->not_causal)) continue;
            ck_assert_msg(covered(la_attns[i], both),
                          "%s, bidirectional %d: tests/golden/attention.txt does not have it: add "
                          "it to make_attention_golden.py",
                          la_attns[i]->name, both);
        }
}
END_TEST

int main(void) {
    read_golden("attention.txt");
    Suite *s = suite_create("golden");
    TCase *c = add_case(s, "golden values");
    tcase_add_test(c, every_variant_is_compared_in_each_direction);
    tcase_add_loop_test(c, outputs_and_gradients_are_pytorchs, 0, n_models);
    tcase_add_loop_test(c, by_chunks_they_are_the_same, 0, n_models);
    tcase_add_loop_test(c, by_features_they_are_the_same, 0, n_models);
    return run_suite(s);
}
