/* test_kernels.c -- kernel variants where their feature maps are at an edge: rows of zeros, a
 * normaliser below its floor, a text longer than a map can tell, a decay that lasts or is over at
 * once. */
#include "testing.h"

#include "autograd/attention/attention.h"
#include "autograd/ops.h"

enum { T = 40, H = 2, D = 4, N = T * H * D };

typedef struct trial {
    la_tape *tape;
    la_node *q, *k, *v, *w, *decay, *o;
} trial;

/* One text; q, k and v are uniform, and the loss is <o, o>. */
static void record(trial *r, const char *spec, double eps, int both, const int32_t *past) {
    la_attn_cfg    c;
    la_attn_weight w[2];
    la_shape       s = la_shape4(1, T, H, D);
    la_attn_in     in = {0};
    OK(la_attn_parse(spec, eps, &c));
    c.bidirectional = both;
    OK(la_tape_create(&r->tape, &(la_tape_cfg){.grad = 1}));
    in.q = r->q = la_input(r->tape, "q", s, 1);
    in.k = r->k = la_input(r->tape, "k", s, 1);
    in.v = r->v = la_input(r->tape, "v", s, 1);
    if (la_attn_weights(&c, H, D, w))
        in.weight[0] = r->w = la_input(r->tape, w[0].name, w[0].shape, 0);
    if (c.decay) in.decay = r->decay = la_input(r->tape, "decay", la_shape1(H), 1);
    if (past) {
        la_shape state = la_shape3(1, H, la_attn_state_len(&c, D, D, 2 * T));
        in.past = la_integers(r->tape, "past", la_shape1(1), past);
        in.state = la_input(r->tape, "state", state, 0);
    }
    r->o = la_keep(la_attention(r->tape, &c, &in, NULL));
    OK(la_tape_seal(r->tape, la_inner(r->tape, r->o, r->o)));
    fill_uniform(N, 1, 60, r->q->x);
    fill_uniform(N, 1, 61, r->k->x);
    fill_uniform(N, 1, 62, r->v->x);
}

static void step(trial *r) {
    OK(la_tape_forward(r->tape));
    OK(la_tape_backward(r->tape, 1));
}

START_TEST(a_query_without_features_gives_0_and_has_no_gradient) { /* with eps = 0 as well */
    static const char *const specs[] = {"relu", "relu2", "dpfp", "cosformer:length=40",
                                        "relu:decay=0.9"};
    for (int i = 0; i < 10; i++) {
        trial r = {0};
        int   both = i >= 5, dpfp = i % 5 == 2;
        if (both && i % 5 == 4) continue; /* decay has no bidirectional form */
        record(&r, specs[i % 5], 0, both, NULL);
        for (int64_t j = 0; j < N; j++) /* token 7 and every query of head 1 */
            if (j / (H * D) == 7 || j / D % H == 1)
                r.q->x[j] = dpfp ? 0 : R(-fabs((double)r.q->x[j]));
        if (r.decay) r.decay->x[0] = r.decay->x[1] = 2;
        step(&r);
        int64_t others = 0;
        for (int64_t j = 0; j < N; j++) {
            int zero = j / (H * D) == 7 || j / D % H == 1;
            ck_assert_msg(!zero || (r.o->x[j] == 0 && r.q->g[j] == 0),
                          "%s: o %g, dq %g of a row without weights", specs[i % 5],
                          (double)r.o->x[j], (double)r.q->g[j]);
            ck_assert_msg(isfinite(r.o->x[j]) && isfinite(r.q->g[j]) && isfinite(r.k->g[j]) &&
                              isfinite(r.v->g[j]),
                          "%s: not finite at %lld", specs[i % 5], (long long)j);
            if (j / D % H == 1) ck_assert(r.k->g[j] == 0 && r.v->g[j] == 0);
            others += !zero && r.o->x[j] != 0;
        }
        ck_assert_int_gt(others, N / 4);
        la_tape_destroy(r.tape);
    }
}
END_TEST

/* Two features, W = pi/2 along the first number: q = e_1, k = -e_1 have the kernel cos(pi) = -1. */
START_TEST(a_normaliser_below_the_floor_is_the_floor) {
    const double floor_of_rff = exp(-2);
    for (int i = 0; i < 4; i++) {
        trial r = {0};
        int   both = i % 2;
        record(&r, i / 2 ? "kernel:q=rff,k=rff,m=2" : "rff:m=2", 0, both, NULL);
        for (int64_t j = 0; j < N; j++) {
            r.q->x[j] = R(j % D == 0);
            r.k->x[j] = R(-(j % D == 0));
            r.v->x[j] = 1;
        }
        for (int h = 0; h < H; h++) r.w->x[h * D] = R(3.141592653589793 / 2);
        step(&r);
        for (int64_t j = 0; j < N; j++) {
            double keys = (double)(both ? T : j / (H * D) + 1), want = -keys / floor_of_rff;
            ck_assert_msg(fabs((double)r.o->x[j] / want - 1) < BY_PRECISION(1e-5, 1e-13),
                          "o is %g, not %g", (double)r.o->x[j], want);
        }
        /* dv_s = sum_t 2 o_t w_ts, w_ts = -1 / floor */
        double first = (double)(both ? T * T : T * (T + 1) / 2) * 2 / pow(floor_of_rff, 2);
        ck_assert_double_lt(fabs((double)r.v->g[0] / first - 1), BY_PRECISION(1e-5, 1e-12));
        la_tape_destroy(r.tape);
    }
}
END_TEST

START_TEST(a_text_beyond_a_map_is_refused) {
    int32_t past = 3;
    trial   r = {0};
    record(&r, "cosformer:length=43", 0, 0, &past);
    OK(la_tape_forward(r.tape));
    past = 4;
    FAILS(la_tape_forward(r.tape), LA_ARG,
          "cosformer weighs tokens by their place in a text of at most 43, and these are 40 after "
          "4: choose a larger length");
    past = -1;
    FAILS(la_tape_forward(r.tape), LA_ARG, "40 tokens after -1");
    la_tape_destroy(r.tape);
    record(&r, "kernel:q=dpfp,k=cosformer,length=39", 0, 1, NULL);
    FAILS(la_tape_forward(r.tape), LA_ARG, "a text of at most 39, and these are 40 after 0");
    la_tape_destroy(r.tape);
    for (int both = 0; both < 2; both++) { /* beside keys that are given by logarithms */
        record(&r, "kernel:q=cosformer,k=favor,length=39", 0, both, NULL);
        FAILS(la_tape_forward(r.tape), LA_ARG, "a text of at most 39, and these are 40 after 0");
        la_tape_destroy(r.tape);
    }
}
END_TEST

START_TEST(maps_of_either_sign_go_with_themselves) {
    static const char *const good[] = {"rff", "taylor2", "cosine"};
    la_attn_cfg              c;
    char                     spec[64];
    for (int i = 0; i < 9; i++) {
        const char *q = good[i / 3], *k = good[i % 3];
        snprintf(spec, sizeof spec, "kernel:q=%s,k=%s", q, k);
        OK(la_attn_parse(spec, 0, &c));
        if (q == k)
            OK(la_attn_check(&c, H, D));
        else
            FAILS(la_attn_check(&c, H, D), LA_ARG, "have features of either sign");
        ck_assert_double_eq(la_attn_floor(&c), i == 0 ? 0.1353352832366127 : 0);
    }
}
END_TEST

/* Logits of a gamma of 1 and of 0: all that was seen, and nothing but the token itself. */
START_TEST(decay_goes_from_none_to_all) {
    trial r = {0}, plain = {0};
    record(&r, "elu1:decay=learned", 0, 0, NULL);
    record(&plain, "elu1", 0, 0, NULL);
    r.decay->x[0] = 60, r.decay->x[1] = -60;
    step(&r);
    step(&plain);
    for (int64_t j = 0; j < N; j++) {
        double want = (double)(j / D % H == 0 ? plain.o : r.v)->x[j];
        ck_assert_msg(fabs((double)r.o->x[j] - want) < BY_PRECISION(2e-6, 1e-14),
                      "o at %lld is %g, not %g", (long long)j, (double)r.o->x[j], want);
    }
    for (int h = 0; h < H; h++) ck_assert_double_lt(fabs((double)r.decay->g[h]), 1e-6);
    la_tape_destroy(r.tape), la_tape_destroy(plain.tape);
}
END_TEST

int main(void) {
    Suite *s = suite_create("kernels");
    TCase *c = add_case(s, "edges");
    tcase_add_test(c, a_query_without_features_gives_0_and_has_no_gradient);
    tcase_add_test(c, a_normaliser_below_the_floor_is_the_floor);
    tcase_add_test(c, a_text_beyond_a_map_is_refused);
    tcase_add_test(c, maps_of_either_sign_go_with_themselves);
    tcase_add_test(c, decay_goes_from_none_to_all);
    return run_suite(s);
}
