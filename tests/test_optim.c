/* test_optim.c -- optimisers against loops written from PyTorch's documentation, clipping,
 * schedules at points computed by hand. */
#include "testing.h"

#include "optim/optim.h"

/* Parameters of two kinds, with gaps, one larger than a block of work. */
enum { PARAMS = 4 };
static const la_shape shapes[PARAMS] = {{2, {3, 5}}, {1, {7}}, {3, {2, 100, 190}}, {1, {1}}};

static la_params *store(void) {
    la_params *p;
    OK(la_params_create(&p));
    for (int i = 0; i < PARAMS; i++) {
        char name[] = {(char)('a' + i), 0};
        la_params_add(p, name, shapes[i], LA_INIT_NORMAL, 1);
    }
    OK(la_params_alloc(p, 4, 1));
    return p;
}

/* The gradient of step t; parameter 3 has none. */
static void set_gradient(la_params *p, int t) {
    for (int i = 0; i < PARAMS - 1; i++)
        fill_normal(la_len(shapes[i]), 0.1, (uint32_t)(100 * t + i),
                    la_params_g(p) + la_param_offset(p, i));
}

static int optimisers(void) {
    int n = 0;
    while (la_optims[n]) n++;
    return n;
}

static const la_optim_cfg usual = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1};

/* --- against loops: torch.optim.AdamW and torch.optim.SGD (dampening 0, no Nesterov) --- */

typedef struct expected {
    double *x, *m, *v;
} expected;

static void adamw(expected *e, size_t i, double g, double lr, double decay, int t) {
    const la_optim_cfg *c = &usual;
    e->x[i] *= 1 - lr * decay;
    e->m[i] = c->beta1 * e->m[i] + (1 - c->beta1) * g;
    e->v[i] = c->beta2 * e->v[i] + (1 - c->beta2) * g * g;
    double m = e->m[i] / (1 - pow(c->beta1, t)), v = e->v[i] / (1 - pow(c->beta2, t));
    e->x[i] -= lr * m / (sqrt(v) + c->eps);
}

static void sgd(expected *e, size_t i, double g, double lr, double decay, int t) {
    g += decay * e->x[i];
    e->m[i] = t == 1 ? g : usual.beta1 * e->m[i] + g;
    e->x[i] -= lr * e->m[i];
}

static const struct {
    const char *name;
    void (*step)(expected *, size_t, double, double, double, int);
} rules[] = {{"adamw", adamw}, {"sgd", sgd}};

static void check_against(const char *name, int steps) {
    const la_optim_def *def;
    la_optim            o;
    la_params          *p = store();
    size_t              len = la_params_len(p), rule = strcmp(name, rules[0].name) != 0;
    expected            e = {calloc(len, sizeof(double)), calloc(len, sizeof(double)),
                             calloc(len, sizeof(double))};
    OK(la_optim_find(name, &def));
    OK(la_optim_create(&o, def, &usual, p));
    for (size_t i = 0; i < len; i++) e.x[i] = (double)la_params_x(p)[i];
    for (int t = 1; t <= steps; t++) {
        double lr = 0.01 / t;
        set_gradient(p, t);
        for (int k = 0; k < PARAMS; k++)
            for (size_t i = la_param_offset(p, k), n = 0; n < (size_t)la_len(shapes[k]); i++, n++)
                rules[rule].step(&e, i, (double)la_params_g(p)[i], lr,
                                 shapes[k].n >= 2 ? usual.weight_decay : 0, t);
        la_optim_step(&o, lr, 1);
        ck_assert_int_eq(o.t, t);
    }
    for (size_t i = 0; i < len; i++)
        if (fabs((double)la_params_x(p)[i] - e.x[i]) >
            BY_PRECISION(2e-6, 1e-14) * fmax(1, fabs(e.x[i])))
            ck_abort_msg("%s, %d steps: number %zu is %.12g, not %.12g", name, steps, i,
                         (double)la_params_x(p)[i], e.x[i]);
    free(e.x), free(e.m), free(e.v);
    la_optim_destroy(&o);
    la_params_destroy(p);
}

START_TEST(adamw_is_pytorchs) { check_against("adamw", _i ? 10 : 1); }
END_TEST

START_TEST(sgd_with_momentum_is_pytorchs) { check_against("sgd", _i ? 10 : 1); }
END_TEST

START_TEST(one_adamw_step_by_hand) { /* the first step is lr in the direction of -sign g */
    const la_optim_def *def;
    la_optim            o;
    la_params          *p;
    OK(la_params_create(&p));
    la_params_add(p, "w", la_shape2(1, 2), LA_INIT_ONE, 0);
    la_params_add(p, "b", la_shape1(2), LA_INIT_ONE, 0);
    OK(la_params_alloc(p, 1, 1));
    OK(la_optim_find("adamw", &def));
    OK(la_optim_create(&o, def, &usual, p));
    la_real *x = la_params_x(p), *g = la_params_g(p), *b = x + la_param_offset(p, 1);
    g[0] = R(0.25), g[1] = -3;
    g[la_param_offset(p, 1)] = R(0.25); /* b_1 has no gradient */
    la_optim_step(&o, 0.5, 1);
    ck_assert_double_eq_tol((double)x[0], 0.95 - 0.5,
                            BY_PRECISION(1e-6, 1e-7)); /* 1 - .5 * .1, then the step */
    ck_assert_double_eq_tol((double)x[1], 0.95 + 0.5, BY_PRECISION(1e-6, 1e-7));
    ck_assert_double_eq_tol((double)b[0], 0.5, BY_PRECISION(1e-6, 1e-7)); /* vectors do not decay */
    ck_assert(b[1] == 1);
    la_optim_destroy(&o);
    la_params_destroy(p);
}
END_TEST

/* --- what holds for each optimiser: _i --- */

static la_params *after(int optimiser, int steps, int threads, double decay, int gradient) {
    la_optim     o;
    la_optim_cfg cfg = usual;
    la_params   *p = store();
    cfg.weight_decay = decay;
    la_threads_set(threads);
    OK(la_optim_create(&o, la_optims[optimiser], &cfg, p));
    for (int t = 1; t <= steps; t++) {
        if (gradient) set_gradient(p, t);
        la_optim_step(&o, 0.01, 1);
    }
    la_threads_set(2);
    for (int i = 0; i < o.def->n_slots; i++) {
        ck_assert_ptr_nonnull(o.slot[i]);
        ck_assert_msg(!gradient || largest((int64_t)la_params_len(p), o.slot[i]) > 0, "slot %s",
                      o.def->slot_name[i]);
    }
    la_optim_destroy(&o);
    return p;
}

START_TEST(every_optimiser_is_complete_and_moves_against_the_gradient) {
    const la_optim_def *def = la_optims[_i], *found;
    ck_assert(def->name && def->formula && def->paper && def->step);
    ck_assert_int_le(def->n_slots, LA_MAX_SLOT);
    for (int i = 0; i < def->n_slots; i++) ck_assert_ptr_nonnull(def->slot_name[i]);
    OK(la_optim_find(def->name, &found));
    ck_assert_ptr_eq(found, def);
    la_params *a = store(), *b = after(_i, 1, 2, 0, 1);
    double     inner = 0;
    set_gradient(a, 1);
    for (size_t i = 0; i < la_params_len(a); i++)
        inner += (double)(la_params_x(b)[i] - la_params_x(a)[i]) * (double)la_params_g(a)[i];
    ck_assert_msg(inner < 0, "%s: the loss would change by %g", def->name, inner);
    la_params_destroy(a), la_params_destroy(b);
}
END_TEST

START_TEST(threads_change_no_bit) {
    la_params *a = after(_i, 3, 1, 0.1, 1), *b = after(_i, 3, 2, 0.1, 1);
    int64_t    at = differ((int64_t)la_params_len(a), la_params_x(a), la_params_x(b));
    ck_assert_msg(at < 0, "%s: number %lld", la_optims[_i]->name, (long long)at);
    la_params_destroy(a), la_params_destroy(b);
}
END_TEST

START_TEST(gradients_are_cleared_and_gaps_stay_zero) {
    la_params *p = after(_i, 3, 2, 0.1, 1);
    size_t     at = 0;
    ck_assert(largest((int64_t)la_params_len(p), la_params_g(p)) == 0);
    int gaps = 0;
    for (int i = 0; i <= PARAMS; i++) {
        size_t next = i < PARAMS ? la_param_offset(p, i) : la_params_len(p);
        for (; at < next; at++, gaps++)
            if (la_params_x(p)[at] != 0)
                ck_abort_msg("%s: the gap at %zu is %g", la_optims[_i]->name, at,
                             (double)la_params_x(p)[at]);
        if (i < PARAMS) at = next + (size_t)la_len(shapes[i]);
    }
    ck_assert_int_gt(gaps, 0);
    la_params_destroy(p);
}
END_TEST

/* Two frozen parameters, beside and between trained ones.  No tape gives them a gradient; even if
 * one stood there, nothing moves. */
START_TEST(frozen_parameters_keep_every_bit) {
    static const char *const names[] = {"a", "frozen matrix", "b", "frozen vector"};
    la_params               *p;
    la_optim                 o;
    OK(la_params_create(&p));
    for (int i = 0; i < PARAMS; i++)
        (i % 2 ? la_params_add_frozen : la_params_add)(p, names[i], la_shape2(130, 131),
                                                       LA_INIT_NORMAL, 1);
    OK(la_params_alloc(p, 4, 1));
    OK(la_optim_create(&o, la_optims[_i], &usual, p));
    int64_t  len = (int64_t)la_params_len(p);
    la_real *was = copy_of(len, la_params_x(p));
    for (int t = 1; t <= 3; t++) {
        fill_normal(len, 0.1, (uint32_t)t, la_params_g(p));
        la_optim_step(&o, 0.01, 1);
    }
    for (int i = 0; i < PARAMS; i++) {
        size_t  at = la_param_offset(p, i);
        int64_t n = 130 * 131;
        ck_assert_msg((differ(n, was + at, la_params_x(p) + at) < 0) == i % 2, "%s, %s",
                      o.def->name, names[i]);
        for (int k = 0; k < o.def->n_slots; k++)
            ck_assert_msg((largest(n, o.slot[k] + at) == 0) == i % 2, "%s of %s",
                          o.def->slot_name[k], names[i]);
    }
    free(was);
    la_optim_destroy(&o);
    la_params_destroy(p);
}
END_TEST

START_TEST(without_gradient_only_decay_moves_and_only_matrices) {
    for (int decay = 0; decay < 2; decay++) {
        la_params *a = store(), *b = after(_i, 1, 2, decay ? 0.1 : 0, 0);
        for (int k = 0; k < PARAMS; k++) {
            const la_real *x = la_params_x(a) + la_param_offset(a, k),
                          *y = la_params_x(b) + la_param_offset(b, k);
            for (int64_t i = 0; i < la_len(shapes[k]); i++) {
                double want = (double)x[i] * (decay && shapes[k].n >= 2 ? 1 - 0.01 * 0.1 : 1);
                if (fabs((double)y[i] - want) >
                    LA_REAL_EPSILON * fabs(want) * (decay && shapes[k].n >= 2 ? 2 : 0))
                    ck_abort_msg("%s, decay %d, parameter %d: %.12g, not %.12g",
                                 la_optims[_i]->name, decay, k, (double)y[i], want);
            }
        }
        la_params_destroy(a), la_params_destroy(b);
    }
}
END_TEST

START_TEST(an_unknown_optimiser_is_answered_with_the_nearest) {
    const la_optim_def *def;
    FAILS(la_optim_find("adam", &def), LA_NAME,
          "unknown optimiser \"adam\": did you mean adamw? (known: adamw, sgd");
    ck_assert_ptr_null(def);
}
END_TEST

/* --- clipping --- */

START_TEST(clipping_scales_to_the_norm_and_no_less) {
    static const double limits[] = {1, 0.5, 4.999, 5, 6, 0, -1, 1e300};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        /* torch.nn.utils.clip_grad_norm_: g *= min(1, max_norm / (norm + 1e-6)) */
        double by = limits[i] > 0 ? fmin(1, limits[i] / (5 + 1e-6)) : 1;
        ck_assert_double_eq(la_clip_scale(5, limits[i]), by);
        ck_assert(limits[i] > 0 && limits[i] <= 5 ? by < 1 : by == 1);
    }
}
END_TEST

START_TEST(a_step_with_a_scale_is_a_step_with_that_gradient) {
    const la_optim_def *def = la_optims[_i];
    la_optim_cfg        cfg = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1};
    la_params          *p[2] = {store(), store()};
    la_optim            o[2];
    for (int which = 0; which < 2; which++) {
        ck_assert_int_eq(la_optim_create(o + which, def, &cfg, p[which]), LA_OK);
        for (int step = 0; step < 3; step++) {
            set_gradient(p[which], step + 1);
            la_real *g = la_params_g(p[which]);
            for (size_t i = 0; which && i < la_params_len(p[which]); i++) g[i] *= R(0.25);
            la_optim_step(o + which, 0.01, which ? 1 : 0.25);
            for (size_t i = 0; i < la_params_len(p[which]); i++) ck_assert(g[i] == 0);
        }
        la_optim_destroy(o + which);
    }
    ck_assert(!memcmp(la_params_x(p[0]), la_params_x(p[1]), la_params_len(p[0]) * sizeof(la_real)));
    for (int which = 0; which < 2; which++) la_params_destroy(p[which]);
}
END_TEST

START_TEST(the_norm_is_that_of_all_gradients) {
    la_params *p = store();
    double     sum = 0;
    set_gradient(p, 1);
    for (size_t i = 0; i < la_params_len(p); i++)
        sum += (double)la_params_g(p)[i] * (double)la_params_g(p)[i];
    ck_assert_double_eq_tol(la_grad_norm(p), sqrt(sum), 1e-12 * sqrt(sum));
    la_params_destroy(p);
}
END_TEST

/* --- schedules --- */

static const struct {
    const char *name;
    int64_t     step;
    double      lr;
} points[] = {
    /* lr 1, min 0.1, warm-up 9, decay to 109 */
    {"cosine", 0, 0.1},
    {"cosine", 4, 0.5},
    {"cosine", 8, 0.9},
    {"cosine", 9, 1},
    {"cosine", 59, 0.55},
    {"cosine", 34, 0.1 + 0.9 * 0.8535533905932737},
    {"cosine", 84, 0.1 + 0.9 * 0.14644660940672624},
    {"cosine", 109, 0.1},
    {"cosine", 110, 0.1},
    {"cosine", 100000, 0.1},
    {"linear", 0, 0.1},
    {"linear", 9, 1},
    {"linear", 34, 0.775},
    {"linear", 59, 0.55},
    {"linear", 109, 0.1},
    {"linear", 500, 0.1},
    {"constant", 0, 0.1},
    {"constant", 8, 0.9},
    {"constant", 9, 1},
    {"constant", 109, 1},
    {"constant", 5000, 1},
};

START_TEST(schedules_pass_through_the_points_computed_by_hand) {
    la_schedule s = {.name = points[_i].name, .lr = 1, .min_lr = 0.1, .warmup = 9, .decay = 109};
    double      lr = la_schedule_lr(&s, points[_i].step);
    ck_assert_msg(fabs(lr - points[_i].lr) < 1e-14, "%s at %lld: %.17g, not %.17g", points[_i].name,
                  (long long)points[_i].step, lr, points[_i].lr);
}
END_TEST

START_TEST(every_schedule_has_points_and_edges) {
    for (int i = 0; la_schedule_names[i]; i++) {
        int known = 0;
        for (size_t j = 0; j < sizeof points / sizeof *points; j++)
            known += !strcmp(points[j].name, la_schedule_names[i]);
        ck_assert_msg(known >= 3, "%s has %d points in this test", la_schedule_names[i], known);
        la_schedule s = {
            .name = la_schedule_names[i], .lr = 2, .min_lr = 0, .warmup = 0, .decay = 10};
        ck_assert(la_schedule_lr(&s, 0) == 2); /* no warm-up */
        s.warmup = s.decay = 10;               /* nothing between warm-up and the end */
        double lr = la_schedule_lr(&s, 10), before = la_schedule_lr(&s, 9);
        ck_assert_msg(isfinite(lr) && lr >= 0 && lr <= 2, "%s: %g", s.name, lr);
        ck_assert_double_eq_tol(before, 2.0 * 10 / 11, 1e-15);
        for (int64_t step = 0; step < 200; step++) {
            la_schedule t = {
                .name = la_schedule_names[i], .lr = 1, .min_lr = 0.1, .warmup = 9, .decay = 109};
            double d = la_schedule_lr(&t, step + 1) - la_schedule_lr(&t, step);
            if (step < 9 ? d <= 0 : d > 0)
                ck_abort_msg("%s: from step %lld the rate changes by %g", t.name, (long long)step,
                             d);
        }
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("optim");
    TCase *c = add_case(s, "by hand");
    tcase_add_loop_test(c, adamw_is_pytorchs, 0, 2);
    tcase_add_loop_test(c, sgd_with_momentum_is_pytorchs, 0, 2);
    tcase_add_test(c, one_adamw_step_by_hand);
    c = add_case(s, "every optimiser");
    tcase_add_loop_test(c, every_optimiser_is_complete_and_moves_against_the_gradient, 0,
                        optimisers());
    tcase_add_loop_test(c, threads_change_no_bit, 0, optimisers());
    tcase_add_loop_test(c, gradients_are_cleared_and_gaps_stay_zero, 0, optimisers());
    tcase_add_loop_test(c, frozen_parameters_keep_every_bit, 0, optimisers());
    tcase_add_loop_test(c, without_gradient_only_decay_moves_and_only_matrices, 0, optimisers());
    tcase_add_test(c, an_unknown_optimiser_is_answered_with_the_nearest);
    c = add_case(s, "clipping");
    tcase_add_test(c, clipping_scales_to_the_norm_and_no_less);
    int optims = 0;
    while (la_optims[optims]) optims++;
    tcase_add_loop_test(c, a_step_with_a_scale_is_a_step_with_that_gradient, 0, optims);
    tcase_add_test(c, the_norm_is_that_of_all_gradients);
    c = add_case(s, "schedules");
    tcase_add_loop_test(c, schedules_pass_through_the_points_computed_by_hand, 0,
                        sizeof points / sizeof *points);
    tcase_add_test(c, every_schedule_has_points_and_edges);
    return run_suite(s);
}
