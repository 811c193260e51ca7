/* test_attention.c -- the invariants of every variant, whatever its algorithm.
 *
 * Each test runs for each subject of trial.h that is a variant, causal or bidirectional, and if it
 * goes by chunks at chunks of 4, 16 and its own choice, on texts around the chunk: 1, 2, C-1, C,
 * C+1 and 2C+3 tokens.  What a variant need not satisfy is skipped with a line that says why. */
#include "testing.h"

#include "autograd/kernel.h"
#include "autograd/ops.h"
#include "autograd/trial.h"
#include "tensor/vec.h"

enum {
    B = 2,
    H = 2,
    D = 5,
    E = 3,
    OWN_CHUNK = 32, /* of the variants with a state of fixed size */
    LONGEST = 2 * OWN_CHUNK + 3,
    CHUNKS = 3,
    TEXTS = 6,
    ANY_LENGTH = 6000, /* tokens that a text of these tests may have */
    MOST = 512
};

static const int64_t chunks[CHUNKS] = {4, 16, 0};

/* Subjects that are variants, and those with each chunk; filled by list(). */
static la_subject all[MOST], causal[MOST];
static int        n_all, n_causal;
static struct {
    la_subject subject;
    int64_t    chunk;
} settings[MOST];
static int n_settings, n_causal_settings; /* the causal ones come first */

static int by_chunks(const la_subject *s) { return strstr(s->variant->options, "chunk") != NULL; }

static void list_settings(int bidirectional) {
    for (int i = 0; i < la_subject_count(); i++) {
        la_subject s = la_subject_at(i);
        if (!s.variant || s.bidirectional != bidirectional) continue;
        all[n_all++] = s;
        if (!bidirectional) causal[n_causal++] = s;
        for (int c = by_chunks(&s) ? 0 : CHUNKS - 1; c < (SANITIZED && by_chunks(&s) ? 1 : CHUNKS);
             c++) {
            settings[n_settings].subject = s;
            settings[n_settings++].chunk = chunks[c];
        }
    }
    if (!bidirectional) n_causal_settings = n_settings;
}

typedef struct setting {
    la_attn_cfg cfg;
    int64_t     C, T[TEXTS];
    char        name[120];
} setting;

static setting setting_of(const la_subject *subject, int64_t chunk, double eps) {
    setting s = {.cfg = la_subject_cfg(subject, eps, chunk)};
    s.cfg.length = ANY_LENGTH;
    s.C = s.cfg.chunk ? s.cfg.chunk : OWN_CHUNK;
    const int64_t T[TEXTS] = {1, 2, s.C - 1, s.C, s.C + 1, 2 * s.C + 3};
    memcpy(s.T, T, sizeof T);
    snprintf(s.name, sizeof s.name, "%s, chunk %lld, eps %g", subject->name, (long long)s.cfg.chunk,
             eps);
    return s;
}

static setting setting_at(int i, double eps) {
    return setting_of(&settings[i].subject, settings[i].chunk, eps);
}

static unsigned traits(const setting *s) { return la_attn_traits(&s->cfg); }

/* Whether the subject is left out of a test; why: NULL if it is not. */
static int skipped(const setting *s, const char *what, const char *why) {
    if (why) printf("%s: not checked that %s: %s\n", s->name, what, why);
    return why != NULL;
}

static const char *weights_do_not_add_to_1(const setting *s) {
    return la_attn_floor(&s->cfg) > 0     ? "its normaliser has a floor"
           : traits(s) & LA_ATTN_NOT_MEAN ? "its weights do not add to 1"
                                          : NULL;
}

/* One text on a tape of its own; the loss is <o, random> and <state out, random>. */
typedef struct text {
    la_tape *t;
    la_node *q, *k, *v, *state, *o, *state_out, *weight[2], *decay;
    int64_t  T, len_k, len_v, len_state;
    int32_t  past;
} text;

typedef struct want {
    int     grad, state;
    int64_t capacity, b, h, d, e; /* 0: the usual B, H, D, E */
} want;

static la_node *cotangent(la_tape *t, la_node *loss, la_node *x, la_node **c) {
    *c = la_input(t, "cotangent", x->shape, 0);
    la_node *s = la_inner(t, x, *c);
    return loss ? la_add(t, loss, s) : s;
}

/* What the variant needs besides q, k, v; the same numbers in every text.  To be filled after
 * sealing. */
static void add_weights(la_tape *t, const la_attn_cfg *cfg, int64_t h, int64_t d, la_attn_in *in) {
    la_attn_weight w[2];
    int            n = la_attn_weights(cfg, h, d, w);
    for (int i = 0; i < n; i++) in->weight[i] = la_input(t, w[i].name, w[i].shape, !w[i].frozen);
    if (cfg->decay) in->decay = la_input(t, "decay", la_shape1(h), 1);
}

static void fill_weights(const la_attn_in *in) {
    for (uint32_t i = 0; i < 2 && in->weight[i]; i++) {
        la_shape s = in->weight[i]->shape;
        fill_normal(la_len(s), 1 / sqrt((double)la_last(s)), 70 + i, in->weight[i]->x);
    }
    for (int64_t h = 0; in->decay && h < la_len(in->decay->shape); h++)
        in->decay->x[h] = R(1 + 0.5 * (double)(h % 4));
}

static void make(text *x, const la_attn_cfg *cfg, int64_t T, want w) {
    int64_t    b = w.b ? w.b : B, h = w.h ? w.h : H, d = w.d ? w.d : D, e = w.e ? w.e : E;
    la_node   *c[2] = {0}, *loss = NULL;
    la_attn_in in = {0};
    *x = (text){.T = T, .len_k = b * T * h * d, .len_v = b * T * h * e};
    OK(la_tape_create(&x->t, &(la_tape_cfg){.grad = w.grad}));
    in.q = x->q = la_input(x->t, "q", la_shape4(b, T, h, d), 1);
    in.k = x->k = la_input(x->t, "k", la_shape4(b, T, h, d), 1);
    in.v = x->v = la_input(x->t, "v", la_shape4(b, T, h, e), 1);
    add_weights(x->t, cfg, h, d, &in);
    int64_t len = la_attn_state_len(cfg, d, e, w.capacity);
    if (w.state) {
        x->len_state = b * h * len;
        in.state = x->state = la_input(x->t, "state", la_shape3(b, h, len), 1);
        in.past = la_integers(x->t, "past", la_shape1(1), &x->past);
    }
    x->o = la_keep(la_attention(x->t, cfg, &in, &x->state_out));
    if (w.grad) loss = cotangent(x->t, NULL, x->o, c);
    if (w.grad && w.state) loss = cotangent(x->t, loss, la_keep(x->state_out), c + 1);
    OK(la_tape_seal(x->t, loss));
    for (int i = 0; i < 2 && c[i]; i++)
        fill_uniform(la_len(c[i]->shape), 1, 90 + (uint32_t)i, c[i]->x);
    fill_normal(x->len_k, 1, 1, x->q->x);
    fill_normal(x->len_k, 1, 2, x->k->x);
    fill_normal(x->len_v, 1, 3, x->v->x);
    fill_weights(&in);
    memcpy(x->weight, in.weight, sizeof x->weight);
    x->decay = in.decay;
    if (w.state) la_attn_state_start(cfg, b * h, d, e, len, x->state->x);
}

static void run(text *x) {
    OK(la_tape_forward(x->t));
    if (x->q->g) OK(la_tape_backward(x->t, 1));
}

static la_real *row(const la_node *n, int64_t b, int64_t t, int64_t h) {
    return n->x + ((b * n->shape.d[1] + t) * n->shape.d[2] + h) * n->shape.d[3];
}

/* A row without weights, where the variant may have such, is 0. */
static int no_weights(const setting *s, const la_real *o, int64_t width) {
    return traits(s) & LA_ATTN_ZERO_ROWS && largest(width, o) == 0;
}

static void each_row_is(const text *x, const setting *s, const char *what, const la_real *expected,
                        double tolerance) {
    int64_t width = x->o->shape.d[3];
    for (int64_t i = 0; i < x->len_v; i++) {
        if (no_weights(s, x->o->x + i / width * width, width)) continue;
        double d = fabs((double)x->o->x[i] - (double)expected[i]);
        if (!(d <= tolerance))
            ck_abort_msg("%s, T %lld: %s: row %lld, column %lld is %.9g, not %.9g", s->name,
                         (long long)x->T, what, (long long)(i / width), (long long)(i % width),
                         (double)x->o->x[i], (double)expected[i]);
    }
}

static void within(const setting *s, const char *what, int64_t n, const la_real *a,
                   const la_real *b, double tolerance, double top) {
    double d = gap(n, a, b);
    ck_assert_msg(d <= tolerance * top, "%s: %s differs by %g, largest %g", s->name, what, d, top);
}

static void close_to(const setting *s, const char *what, int64_t n, const la_real *a,
                     const la_real *b, double tolerance) {
    within(s, what, n, a, b, tolerance, largest(n, b));
}

static void same_bits(const setting *s, const char *what, int64_t n, const la_real *a,
                      const la_real *b) {
    int64_t at = differ(n, a, b);
    ck_assert_msg(at < 0, "%s: %s differs at %lld: %.9g and %.9g", s->name, what, (long long)at,
                  (double)a[at < 0 ? 0 : at], (double)b[at < 0 ? 0 : at]);
}

static const double CLOSE = BY_PRECISION(2e-5, 1e-11);

/* --- what weights that add to 1 give; eps = 0, so that they do --- */

START_TEST(values_of_one_give_one) {
    setting s = setting_at(_i, 0);
    if (skipped(&s, "V = 1 gives 1", weights_do_not_add_to_1(&s))) return;
    for (int j = 0; j < TEXTS; j++) {
        text x;
        make(&x, &s.cfg, s.T[j], (want){0});
        for (int64_t i = 0; i < x.len_v; i++) x.v->x[i] = 1;
        run(&x);
        each_row_is(&x, &s, "V = 1", x.v->x, CLOSE);
        la_tape_destroy(x.t);
    }
}
END_TEST

START_TEST(the_first_output_is_the_first_value) {
    setting s = setting_at(_i, 0);
    if (skipped(&s, "o_0 = v_0", weights_do_not_add_to_1(&s))) return;
    for (int j = 0; j < TEXTS; j++) {
        text x;
        make(&x, &s.cfg, s.T[j], (want){0});
        run(&x);
        for (int64_t b = 0; b < B; b++)
            for (int64_t h = 0; h < H; h++)
                if (!no_weights(&s, row(x.o, b, 0, h), E))
                    close_to(&s, "o_0 against v_0", E, row(x.o, b, 0, h), row(x.v, b, 0, h), CLOSE);
        la_tape_destroy(x.t);
    }
}
END_TEST

START_TEST(a_constant_value_comes_out_as_it_is) {
    setting s = setting_at(_i, 0);
    if (skipped(&s, "a constant v comes out", weights_do_not_add_to_1(&s))) return;
    for (int j = 0; j < TEXTS; j++) {
        text x;
        make(&x, &s.cfg, s.T[j], (want){0});
        for (int64_t i = 0; i < x.len_v; i++)
            x.v->x[i] = R(0.3 + (double)(i % E) - (double)(i % (H * E)) / 7);
        run(&x);
        each_row_is(&x, &s, "constant v", x.v->x, 3 * CLOSE);
        la_tape_destroy(x.t);
    }
}
END_TEST

START_TEST(equal_keys_give_the_running_mean) {
    setting s = setting_at(_i, 0);
    if (skipped(&s, "equal keys give the mean", weights_do_not_add_to_1(&s))) return;
    if (skipped(&s, "equal keys give the mean",
                traits(&s) & LA_ATTN_POSITIONAL || s.cfg.decay ? "they count by their positions"
                : traits(&s) & LA_ATTN_SPARSE                  ? "it sees some tokens only"
                                                               : NULL))
        return;
    for (int j = 0; j < TEXTS; j++) {
        text x;
        make(&x, &s.cfg, s.T[j], (want){0});
        la_real *mean = reals(x.len_v);
        for (int64_t i = 0; i < x.len_k; i++)
            x.k->x[i] = R(0.5 - 0.3 * (double)(i % D)), x.q->x[i] = R(fabs((double)x.q->x[i]));
        for (int64_t b = 0; b < B; b++)
            for (int64_t i = 0; i < H * E; i++) {
                double sum = 0;
                for (int64_t t = 0; t < x.T; t++) {
                    int64_t at = (b * x.T + t) * H * E + i;
                    mean[at] = R((sum += (double)x.v->x[at]) / (double)(t + 1));
                }
                for (int64_t t = 0; s.cfg.bidirectional && t < x.T; t++)
                    mean[(b * x.T + t) * H * E + i] = R(sum / (double)x.T);
            }
        run(&x);
        each_row_is(&x, &s, "equal keys", mean, 3 * CLOSE);
        free(mean);
        la_tape_destroy(x.t);
    }
}
END_TEST

START_TEST(outputs_lie_between_the_values_so_far) {
    setting s = setting_at(_i, 0);
    if (skipped(&s, "min v <= o <= max v",
                traits(&s) & LA_ATTN_SIGNED ? "its weights may be negative"
                                            : weights_do_not_add_to_1(&s)))
        return;
    for (int j = 0; j < TEXTS; j++) {
        text x;
        make(&x, &s.cfg, s.T[j], (want){0});
        run(&x);
        for (int64_t b = 0; b < B; b++)
            for (int64_t i = 0; i < H * E; i++) {
                double lo = HUGE_VAL, hi = -HUGE_VAL;
                for (int64_t t = 0; s.cfg.bidirectional && t < x.T; t++) {
                    double v = (double)row(x.v, b, t, 0)[i];
                    lo = fmin(lo, v), hi = fmax(hi, v);
                }
                if (traits(&s) & LA_ATTN_ZERO_ROWS) lo = fmin(lo, 0), hi = fmax(hi, 0);
                for (int64_t t = 0; t < x.T; t++) {
                    double v = (double)row(x.v, b, t, 0)[i], o = (double)row(x.o, b, t, 0)[i];
                    lo = fmin(lo, v), hi = fmax(hi, v);
                    if (!(o >= lo - 3 * CLOSE && o <= hi + 3 * CLOSE))
                        ck_abort_msg("%s, T %lld: o_%lld = %g is not in [%g, %g]", s.name,
                                     (long long)x.T, (long long)t, o, lo, hi);
                }
            }
        la_tape_destroy(x.t);
    }
}
END_TEST

START_TEST(outputs_are_linear_in_the_values) {
    setting s = setting_at(_i, 1e-6);
    for (int j = 0; j < TEXTS; j++) {
        text x[3];
        for (int i = 0; i < 3; i++) make(x + i, &s.cfg, s.T[j], (want){0});
        fill_normal(x[1].len_v, 1, 4, x[1].v->x);
        for (int64_t i = 0; i < x[2].len_v; i++) x[2].v->x[i] = 2 * x[0].v->x[i] - 3 * x[1].v->x[i];
        for (int i = 0; i < 3; i++) run(x + i);
        for (int64_t i = 0; i < x[2].len_v; i++) x[0].o->x[i] = 2 * x[0].o->x[i] - 3 * x[1].o->x[i];
        each_row_is(x + 2, &s, "2 o(v) - 3 o(w)", x[0].o->x, 20 * CLOSE);
        for (int i = 0; i < 3; i++) la_tape_destroy(x[i].t);
    }
}
END_TEST

/* Values that are unit vectors give the weights, as --show-attention has them. */
START_TEST(weights_times_values_are_the_outputs) {
    setting s = setting_at(_i, 1e-6);
    for (int j = 0; j < TEXTS; j++) {
        const int64_t T = s.T[j];
        text          x, w;
        make(&x, &s.cfg, T, (want){0});
        make(&w, &s.cfg, T, (want){.e = T});
        memset(w.v->x, 0, (size_t)w.len_v * sizeof(la_real));
        for (int64_t r = 0; r < B * H; r++)
            for (int64_t t = 0; t < T; t++) row(w.v, r / H, t, r % H)[t] = 1;
        run(&x), run(&w);
        la_real *o = reals(x.len_v);
        for (int64_t i = 0; i < x.len_v; i++) {
            const int64_t  r = i / E, t = r / H % T;
            const la_real *weight = w.o->x + r * T;
            double         sum = 0;
            for (int64_t k = 0; k < T; k++)
                sum += (double)weight[k] * (double)row(x.v, r / H / T, k, r % H)[i % E];
            o[i] = R(sum);
            for (int64_t k = t + 1; !s.cfg.bidirectional && k < T; k++)
                ck_assert_msg(weight[k] == 0, "%s, T %lld: token %lld has the weight %g at %lld",
                              s.name, (long long)T, (long long)k, (double)weight[k], (long long)t);
        }
        close_to(&s, "weights times values", x.len_v, o, x.o->x, CLOSE);
        free(o);
        la_tape_destroy(x.t), la_tape_destroy(w.t);
    }
}
END_TEST

/* --- what may not depend on what --- */

START_TEST(heads_and_batch_rows_are_independent) {
    setting s = setting_at(_i, 1e-6);
    for (int j = 0; j < TEXTS; j++) {
        text x, y;
        make(&x, &s.cfg, s.T[j], (want){.grad = 1});
        make(&y, &s.cfg, s.T[j], (want){.grad = 1});
        for (int64_t t = 0; t < y.T; t++) { /* row 1, head 0 is another text */
            for (int d = 0; d < D; d++) row(y.q, 1, t, 0)[d] *= 100, row(y.k, 1, t, 0)[d] *= 100;
            for (int e = 0; e < E; e++) row(y.v, 1, t, 0)[e] *= 100;
        }
        run(&x), run(&y);
        la_real changed = 0;
        for (int64_t b = 0; b < B; b++)
            for (int64_t t = 0; t < x.T; t++)
                for (int64_t h = 0; h < H; h++) {
                    if (b == 1 && h == 0) {
                        changed =
                            R(fmax((double)changed, gap(E, row(x.o, b, t, h), row(y.o, b, t, h))));
                        continue;
                    }
                    int64_t at = row(x.q, b, t, h) - x.q->x, av = row(x.v, b, t, h) - x.v->x;
                    same_bits(&s, "another head's output", E, x.o->x + av, y.o->x + av);
                    same_bits(&s, "another head's dq", D, x.q->g + at, y.q->g + at);
                    same_bits(&s, "another head's dk", D, x.k->g + at, y.k->g + at);
                    same_bits(&s, "another head's dv", E, x.v->g + av, y.v->g + av);
                }
        ck_assert_msg(changed > 1e-3 || (traits(&s) & LA_ATTN_ZERO_ROWS && x.T < 3),
                      "%s, T %lld: the head itself did not change", s.name, (long long)x.T);
        la_tape_destroy(x.t), la_tape_destroy(y.t);
    }
}
END_TEST

/* Where the change is so large that a variant takes another path (double-softmax cuts its chunk
 * before a key far above the others) the shapes of products change, and with them the rounding of
 * products that are left to OpenBLAS. */
START_TEST(the_future_changes_no_bit_of_the_past) {
    setting s = setting_at(_i, 1e-6);
    for (int j = 1; j < TEXTS; j++) /* with one token there is no past */
        for (int large = 0; large < 2; large++) {
            int64_t T = s.T[j], places[] = {T - 1, T / 2, s.C < T ? s.C : 1};
            text    x;
            make(&x, &s.cfg, T, (want){0});
            run(&x);
            for (int p = 0; p < 3; p++) {
                text    y;
                int64_t at = places[p];
                make(&y, &s.cfg, T, (want){0});
                for (int64_t b = 0; b < B; b++) {
                    fill_normal(H * D, large ? 50 : 1, 31, row(y.q, b, at, 0));
                    fill_normal(H * D, large ? 50 : 1, 32, row(y.k, b, at, 0));
                    fill_normal(H * E, large ? 50 : 1, 33, row(y.v, b, at, 0));
                }
                run(&y);
                for (int64_t b = 0; b < B; b++) {
                    int64_t was = differ(at * H * E, row(x.o, b, 0, 0), row(y.o, b, 0, 0));
                    ck_assert_msg((large && !la_vec_table()->gemm) || was < 0,
                                  "%s, T %lld: token %lld changes the output at token %lld", s.name,
                                  (long long)T, (long long)at, (long long)(was / (H * E)));
                    double d = gap(at * H * E, row(x.o, b, 0, 0), row(y.o, b, 0, 0));
                    ck_assert_msg(d <= BY_PRECISION(1e-6, 1e-14),
                                  "%s, T %lld: token %lld changes the past by %g", s.name,
                                  (long long)T, (long long)at, d);
                    if (traits(&s) & LA_ATTN_ZERO_ROWS || s.cfg.variant->shared_qk)
                        continue; /* it may weigh nothing, or see only what is before it */
                    ck_assert_msg(gap(H * E, row(x.o, b, at, 0), row(y.o, b, at, 0)) > 1e-3,
                                  "%s, T %lld: token %lld does not change its own output", s.name,
                                  (long long)T, (long long)at);
                }
                la_tape_destroy(y.t);
            }
            la_tape_destroy(x.t);
        }
}
END_TEST

START_TEST(a_prefix_gives_the_first_rows) {
    setting s = setting_at(_i, 1e-6);
    text    whole;
    make(&whole, &s.cfg, LONGEST, (want){0});
    run(&whole);
    for (int j = 0; j < TEXTS; j++) {
        text x;
        make(&x, &s.cfg, s.T[j], (want){0});
        for (int64_t b = 0; b < B; b++) {
            memcpy(row(x.q, b, 0, 0), row(whole.q, b, 0, 0),
                   (size_t)(x.T * H * D) * sizeof(la_real));
            memcpy(row(x.k, b, 0, 0), row(whole.k, b, 0, 0),
                   (size_t)(x.T * H * D) * sizeof(la_real));
            memcpy(row(x.v, b, 0, 0), row(whole.v, b, 0, 0),
                   (size_t)(x.T * H * E) * sizeof(la_real));
        }
        run(&x);
        for (int64_t b = 0; b < B; b++)
            close_to(&s, "the prefix", x.T * H * E, row(x.o, b, 0, 0), row(whole.o, b, 0, 0),
                     CLOSE);
        la_tape_destroy(x.t);
    }
    la_tape_destroy(whole.t);
}
END_TEST

START_TEST(the_chunk_is_of_no_consequence) {
    setting              s = setting_at(_i, 1e-6);
    static const int64_t others[] = {1, 3, 7, 64, 1000};
    text                 x, y;
    if (!strstr(s.cfg.variant->options, "chunk")) return; /* it has none */
    make(&x, &s.cfg, LONGEST, (want){.grad = 1});
    run(&x);
    for (size_t j = 0; j < sizeof others / sizeof *others; j++) {
        la_attn_cfg other = s.cfg;
        other.chunk = others[j];
        make(&y, &other, LONGEST, (want){.grad = 1});
        run(&y);
        close_to(&s, "o at another chunk", x.len_v, y.o->x, x.o->x, CLOSE);
        close_to(&s, "dq at another chunk", x.len_k, y.q->g, x.q->g, 5 * CLOSE);
        close_to(&s, "dk at another chunk", x.len_k, y.k->g, x.k->g, 5 * CLOSE);
        close_to(&s, "dv at another chunk", x.len_v, y.v->g, x.v->g, 5 * CLOSE);
        la_tape_destroy(y.t);
    }
    la_tape_destroy(x.t);
}
END_TEST

/* --- state --- */

/* 17 + 1 + 32 tokens on one tape against 50, both after 5 earlier ones: values, the state, and
 * every gradient, that of the state that came in included. */
START_TEST(split_and_resumed_equals_whole) {
    enum { EARLIER = 5, WHOLE = 50, PARTS = 3, CAPACITY = 60 };
    static const int64_t parts[PARTS] = {17, 1, 32};
    setting              s = setting_at(_i, 1e-6);
    text                 early, x;
    make(&early, &s.cfg, EARLIER, (want){.state = 1, .capacity = CAPACITY});
    fill_normal(early.len_k, 1, 41, early.k->x);
    run(&early);
    make(&x, &s.cfg, WHOLE, (want){.grad = 1, .state = 1, .capacity = CAPACITY});
    memcpy(x.state->x, early.state_out->x, (size_t)x.len_state * sizeof(la_real));
    x.past = EARLIER;
    run(&x);

    la_tape *t;
    la_node *q[PARTS], *k[PARTS], *v[PARTS], *o[PARTS], *c[PARTS + 1], *loss = NULL;
    int32_t  past[PARTS];
    OK(la_tape_create(&t, &(la_tape_cfg){.grad = 1}));
    la_node   *start = la_input(t, "state", x.state->shape, 1), *state = start;
    la_attn_in in = {0};
    add_weights(t, &s.cfg, H, D, &in);
    for (int64_t i = 0, at = 0; i < PARTS; at += parts[i++]) {
        q[i] = la_input(t, "q", la_shape4(B, parts[i], H, D), 1);
        k[i] = la_input(t, "k", la_shape4(B, parts[i], H, D), 1);
        v[i] = la_input(t, "v", la_shape4(B, parts[i], H, E), 1);
        past[i] = (int32_t)(EARLIER + at);
        in.q = q[i], in.k = k[i], in.v = v[i], in.state = state;
        in.past = la_integers(t, "past", la_shape1(1), past + i);
        o[i] = la_keep(la_attention(t, &s.cfg, &in, &state));
        loss = cotangent(t, loss, o[i], c + i);
    }
    loss = cotangent(t, loss, la_keep(state), c + PARTS);
    OK(la_tape_seal(t, loss));
    fill_weights(&in);
    la_real *all_o = reals(x.len_v);
    fill_uniform(x.len_v, 1, 90, all_o);
    fill_uniform(x.len_state, 1, 91, c[PARTS]->x);
    memcpy(start->x, early.state_out->x, (size_t)x.len_state * sizeof(la_real));
    for (int64_t i = 0, at = 0; i < PARTS; at += parts[i++])
        for (int64_t b = 0; b < B; b++) {
            size_t n = (size_t)(parts[i] * H) * sizeof(la_real);
            memcpy(row(q[i], b, 0, 0), row(x.q, b, at, 0), n * D);
            memcpy(row(k[i], b, 0, 0), row(x.k, b, at, 0), n * D);
            memcpy(row(v[i], b, 0, 0), row(x.v, b, at, 0), n * E);
            memcpy(row(c[i], b, 0, 0), all_o + (b * WHOLE + at) * H * E, n * E);
        }
    OK(la_tape_forward(t));
    OK(la_tape_backward(t, 1));
    for (int64_t i = 0, at = 0; i < PARTS; at += parts[i++])
        for (int64_t b = 0; b < B; b++) {
            int64_t n = parts[i] * H, here = b * parts[i] * H, there = (b * WHOLE + at) * H;
            close_to(&s, "o", n * E, o[i]->x + here * E, x.o->x + there * E, CLOSE);
            within(&s, "dq", n * D, q[i]->g + here * D, x.q->g + there * D, 5 * CLOSE,
                   largest(x.len_k, x.q->g));
            within(&s, "dk", n * D, k[i]->g + here * D, x.k->g + there * D, 5 * CLOSE,
                   largest(x.len_k, x.k->g));
            within(&s, "dv", n * E, v[i]->g + here * E, x.v->g + there * E, 5 * CLOSE,
                   largest(x.len_v, x.v->g));
        }
    close_to(&s, "the state that goes out", x.len_state, state->x, x.state_out->x, CLOSE);
    close_to(&s, "the gradient of the state that came in", x.len_state, start->g, x.state->g,
             5 * CLOSE);
    ck_assert(largest(x.len_state, start->g) > 0);
    la_node *whole[] = {x.weight[0], x.weight[1], x.decay},
            *in_parts[] = {in.weight[0], in.weight[1], in.decay};
    for (int i = 0; i < 3; i++)
        if (whole[i] && whole[i]->g)
            close_to(&s, "the gradient of a weight", la_len(whole[i]->shape), in_parts[i]->g,
                     whole[i]->g, 5 * CLOSE);
    free(all_o);
    la_tape_destroy(t), la_tape_destroy(x.t), la_tape_destroy(early.t);
}
END_TEST

/* Tapes of one token, the state kept outside and updated in place, against the whole text. */
START_TEST(decoding_token_by_token_equals_the_whole_text) {
    setting  s = setting_at(_i, 1e-6);
    int64_t  T = s.T[TEXTS - 1], len = la_attn_state_len(&s.cfg, D, E, T);
    la_real *memory[2];
    text     x;
    make(&x, &s.cfg, T, (want){.grad = 1, .state = 1, .capacity = T}); /* copies the state */
    OK(la_tape_forward(x.t));
    la_node *state_out = x.state_out;
    for (int i = 0; i < 2;
         i++) { /* 0: an inference tape, in place; 1: one that trains, and copies */
        la_tape   *t;
        la_node   *in[3], *out, *loss = NULL, *c;
        la_attn_in what = {0};
        int32_t    past = 0;
        la_real   *memory_g = reals(B * H * len);
        memory[i] = reals(B * H * len);
        la_attn_state_start(&s.cfg, B * H, D, E, len, memory[i]);
        OK(la_tape_create(&t, &(la_tape_cfg){.grad = i}));
        add_weights(t, &s.cfg, H, D, &what);
        for (int k = 0; k < 3; k++)
            in[k] = la_input(t, "qkv", la_shape4(B, 1, H, k < 2 ? D : E), 1);
        la_node *state = la_leaf(t, "state", la_shape3(B, H, len), memory[i], memory_g);
        what.q = in[0], what.k = in[1], what.v = in[2], what.state = state;
        what.past = la_integers(t, "past", la_shape1(1), &past);
        la_node *o = la_keep(la_attention(t, &s.cfg, &what, &out));
        la_keep(out);
        if (i) loss = cotangent(t, NULL, o, &c);
        OK(la_tape_seal(t, loss));
        fill_weights(&what);
        ck_assert_msg((out->x == memory[i]) == !i, "%s: the state is %supdated in place", s.name,
                      i ? "" : "not ");
        for (; past < T; past++) {
            for (int64_t b = 0; b < B; b++) {
                memcpy(row(in[0], b, 0, 0), row(x.q, b, past, 0), H * D * sizeof(la_real));
                memcpy(row(in[1], b, 0, 0), row(x.k, b, past, 0), H * D * sizeof(la_real));
                memcpy(row(in[2], b, 0, 0), row(x.v, b, past, 0), H * E * sizeof(la_real));
            }
            OK(la_tape_forward(t));
            if (i) memcpy(memory[i], out->x, (size_t)(B * H * len) * sizeof(la_real));
            for (int64_t b = 0; b < B; b++)
                close_to(&s, "a decoded token", H * E, row(o, b, 0, 0), row(x.o, b, past, 0),
                         2 * CLOSE);
        }
        close_to(&s, "the state at the end", B * H * len, memory[i], state_out->x, 2 * CLOSE);
        free(memory_g);
        la_tape_destroy(t);
    }
    same_bits(&s, "the state in place, against copies,", B * H * len, memory[0], memory[1]);
    free(memory[0]), free(memory[1]);
    la_tape_destroy(x.t);
}
END_TEST

START_TEST(
    two_readers_of_one_state_see_the_same) { /* _i is the variant; the last may overwrite it */
    la_attn_cfg cfg = la_subject_cfg(&causal[_i], 1e-6, 0);
    enum { LEN = 4 };
    int64_t  len = la_attn_state_len(&cfg, D, E, LEN);
    int32_t  past = 0;
    la_real *memory = reals(B * H * len);
    la_tape *t;
    la_attn_state_start(&cfg, B * H, D, E, len, memory);
    OK(la_tape_create(&t, NULL));
    la_node   *o[2], *out, *k = la_input(t, "k", la_shape4(B, LEN, H, D), 0);
    la_node   *v = la_input(t, "v", la_shape4(B, LEN, H, E), 0);
    la_attn_in in = {.q = k, .k = k, .v = v};
    add_weights(t, &cfg, H, D, &in);
    in.state = la_leaf(t, "state", la_shape3(B, H, len), memory, NULL);
    in.past = la_integers(t, "past", la_shape1(1), &past);
    for (int i = 0; i < 2; i++) o[i] = la_keep(la_attention(t, &cfg, &in, &out));
    OK(la_tape_seal(t, NULL));
    fill_weights(&in);
    fill_normal(la_len(k->shape), 1, 1, k->x);
    fill_normal(la_len(v->shape), 1, 2, v->x);
    OK(la_tape_forward(t));
    int64_t at = differ(la_len(v->shape), o[0]->x, o[1]->x);
    ck_assert_msg(at < 0, "%s: the second reader differs at %lld", cfg.variant->name,
                  (long long)at);
    la_tape_destroy(t);
    free(memory);
}
END_TEST

START_TEST(a_text_longer_than_the_state_can_hold_is_a_sentence) { /* _i is the variant */
    setting s = setting_of(&causal[_i], 4, 1e-6);
    enum { ROOM = 6, LEN = 4 };
    text x;
    make(&x, &s.cfg, LEN, (want){.state = 1, .capacity = ROOM});
    x.past = ROOM - LEN;
    OK(la_tape_forward(x.t));
    if (la_attn_state_len(&s.cfg, D, E, ROOM) == la_attn_state_len(&s.cfg, D, E, ROOM + 1)) {
        printf("%s: not checked that a text can be too long: its state holds any\n", s.name);
        x.past = 1000;
        OK(la_tape_forward(x.t));
    } else
        for (int k = 0; k < 2; k++) {
            x.past = k ? -1 : ROOM - LEN + 1;
            FAILS(la_tape_forward(x.t), LA_ARG, "do not fit");
        }
    la_tape_destroy(x.t);
}
END_TEST

START_TEST(a_state_that_does_not_fit_is_a_sentence) { /* _i is the variant */
    la_attn_cfg cfg = la_subject_cfg(&causal[_i], 1e-6, 0);
    int32_t     past = 0;
    int64_t     len = la_attn_state_len(&cfg, D, E, 7);
    for (int k = 0; k < 5; k++) {
        la_shape state = k == 0   ? la_shape3(B, H, len + 1)
                         : k == 1 ? la_shape3(B, H + 1, len)
                                  : la_shape2(B * H, len);
        la_tape *t;
        OK(la_tape_create(&t, NULL));
        la_node   *q = la_input(t, "q", la_shape4(B, 4, H, D), 0);
        la_node   *v = la_input(t, "v", la_shape4(B, k == 3 ? 5 : 4, H, E), 0);
        la_node   *p = la_integers(t, "past", la_shape1(1), &past);
        la_attn_in in = {.q = q, .k = q, .v = v};
        if (k == 4) cfg.eps = -1;
        if (k < 3) in.state = la_input(t, "s", state, 0), in.past = p;
        add_weights(t, &cfg, H, D, &in);
        ck_assert_ptr_null(la_attention(t, &cfg, &in, NULL));
        FAILS(la_tape_seal(t, NULL), k == 4 ? LA_ARG : LA_SHAPE,
              k < 3    ? "the state"
              : k == 3 ? "(2,5,2,3)"
                       : "eps");
        la_tape_destroy(t);
    }
}
END_TEST

/* --- extreme inputs --- */

static void all_finite(const setting *s, const char *what, const text *x) {
    ck_assert_msg(la_find_nonfinite((size_t)x->len_v, x->o->x) < 0,
                  "%s, T %lld, %s: o is not finite", s->name, (long long)x->T, what);
    ck_assert_msg(la_find_nonfinite((size_t)x->len_k, x->q->g) < 0,
                  "%s, T %lld, %s: dq is not finite", s->name, (long long)x->T, what);
    ck_assert_msg(la_find_nonfinite((size_t)x->len_k, x->k->g) < 0,
                  "%s, T %lld, %s: dk is not finite", s->name, (long long)x->T, what);
    ck_assert_msg(la_find_nonfinite((size_t)x->len_v, x->v->g) < 0,
                  "%s, T %lld, %s: dv is not finite", s->name, (long long)x->T, what);
}

static const char *const extremes[] = {
    "q, k of 30 N(0,1)", "keys at +-500", "keys that climb by 40", "q = 0", "k = 0",
    "q = k = 0",         "q = -k",        "q = -k, all keys equal"};
enum { EXTREMES = sizeof extremes / sizeof *extremes };

static void set_extreme(int kind, text *x) {
    for (int64_t i = 0; i < x->len_k; i++) {
        la_real *q = x->q->x + i, *k = x->k->x + i;
        int64_t  t = i / (H * D) % x->T;
        switch (kind) {
        case 0:
            *q *= 30, *k *= 30;
            break;
        case 1:
            *k = *k > 0 ? 500 : -500;
            break;
        case 2:
            *k += R(40 * t - 300);
            break;
        case 3:
            *q = 0;
            break;
        case 4:
            *k = 0;
            break;
        case 5:
            *q = *k = 0;
            break;
        case 6:
            *q = -*k;
            break;
        case 7:
            *k = R(0.7 - 0.3 * (double)(i % D)), *q = -*k;
            break;
        }
    }
}

START_TEST(extreme_inputs_give_finite_outputs_and_gradients) {
    setting s = setting_at(_i / EXTREMES, 1e-6);
    for (int j = 0; j < TEXTS; j++) {
        text x;
        make(&x, &s.cfg, s.T[j], (want){.grad = 1});
        set_extreme(_i % EXTREMES, &x);
        run(&x);
        all_finite(&s, extremes[_i % EXTREMES], &x);
        la_tape_destroy(x.t);
    }
}
END_TEST

/* Finite differences along a random direction of each input, for keys that rise by 40 every third
 * token: gradcheck's are uniform, and never so far apart. */
static double loss_of(text *x) {
    double   loss = 0;
    la_node *out[] = {x->o, x->state_out};
    OK(la_tape_forward(x->t));
    for (int i = 0; i < 2; i++) {
        int64_t  len = la_len(out[i]->shape);
        la_real *c = reals(len);
        fill_uniform(len, 1, 90 + (uint32_t)i, c);
        for (int64_t j = 0; j < len; j++) loss += (double)c[j] * (double)out[i]->x[j];
        free(c);
    }
    return loss;
}

/* How far beyond rounding the slope of the loss along d is from a difference of the fourth order,
 * (8 (L(h) - L(-h)) - (L(2h) - L(-2h))) / 12 h: the loss adds up to 10^5, so that a short step is
 * lost in rounding, and bends where kernels are steep, so that a long one misses.  The step is the
 * one whose error and rounding are least together. */
static double slope_error(text *x, la_node *in, const la_real *d, double slope) {
    static const double at[] = {1, -1, 2, -2}, factor[] = {8, -8, -1, 1};
    const int64_t       len = la_len(in->shape);
    la_real            *was = copy_of(len, in->x);
    double              error = 0, least = HUGE_VAL;
    for (double h = 1e-3; h > 1e-7; h /= 4) {
        double difference = 0, rounding = 0;
        for (int i = 0; i < 4; i++) {
            for (int64_t l = 0; l < len; l++) in->x[l] = was[l] + R(at[i] * h) * d[l];
            const double part = factor[i] * loss_of(x) / (12 * h);
            difference += part, rounding += 8e-16 * fabs(part);
        }
        const double off = fabs(difference - slope);
        if (off + rounding < least) least = off + rounding, error = off - rounding;
    }
    memcpy(in->x, was, (size_t)len * sizeof *was);
    free(was);
    return error;
}

START_TEST(steep_keys_have_the_gradient_of_differences) {
    setting s = setting_at(_i, 1e-6);
    if (skipped(&s, "steep keys have the gradient of differences",
                traits(&s) & LA_ATTN_ZERO_ROWS ? "a normaliser near eps bends within a step"
                                               : NULL))
        return;
    for (int j = 0; j < TEXTS; j++) {
        text x;
        make(&x, &s.cfg, s.T[j], (want){.grad = 1, .state = 1, .capacity = s.T[j]});
        for (int64_t i = 0; i < x.len_k; i++) x.k->x[i] += R(40 * (i / (H * D) % x.T / 3));
        run(&x);
        la_node *in[] = {x.q, x.k, x.v, x.state};
        for (int k = 0; k < 4; k++) {
            int64_t  len = la_len(in[k]->shape);
            la_real *d = reals(len);
            double   slope = 0, size = 0;
            fill_normal(len, 1, 51 + (uint32_t)k, d);
            for (int64_t i = 0; i < len; i++) {
                slope += (double)d[i] * (double)in[k]->g[i];
                size += pow((double)d[i] * (double)in[k]->g[i], 2);
            }
            double error = slope_error(&x, in[k], d, slope);
            ck_assert_msg(error <= 1e-6 * (1 + sqrt(size)),
                          "%s, T %lld, input %d: slope %.12g, a difference is %g off", s.name,
                          (long long)x.T, k, slope, error);
            free(d);
        }
        la_tape_destroy(x.t);
    }
}
END_TEST

/* --- against the definitions in the files of the variants, O(T^2) and in double --- */

static double *doubles(int64_t n, const la_real *x, int64_t step, int64_t width) {
    double *y = calloc((size_t)(n * width) + 1, sizeof *y);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < width; j++) y[i * width + j] = (double)x[i * step + j];
    return y;
}

/* The weights of one head, (T,T). */
static double *defined_weights(const setting *s, const text *x, int64_t b, int64_t h) {
    const int64_t step = x->q->ld, d = x->q->shape.d[3];
    la_attn_head  head = {.cfg = &s->cfg, .T = x->T, .D = d, .gamma = 1};
    double       *weight[2] = {0}, *w = calloc((size_t)(x->T * x->T), sizeof *w);
    double       *q = doubles(x->T, row(x->q, b, 0, h), step, d),
           *k = doubles(x->T, row(x->k, b, 0, h), step, d);
    for (int i = 0; i < 2 && x->weight[i]; i++) {
        la_shape      shape = x->weight[i]->shape;
        const int     each = shape.n == 3;
        const int64_t len = la_len(shape) / (each ? shape.d[0] : 1);
        head.weight[i] = weight[i] = doubles(1, x->weight[i]->x + (each ? h * len : 0), 0, len);
    }
    if (x->decay) head.gamma = 1 / (1 + exp(-(double)x->decay->x[h]));
    head.q = q, head.k = k;
    OK(s->cfg.variant->definition(&head, w));
    free(q), free(k), free(weight[0]), free(weight[1]);
    return w;
}

static void compare(const setting *s, const char *what, const text *x, int64_t from,
                    double tolerance) {
    for (int64_t b = 0; b < x->o->shape.d[0]; b++)
        for (int64_t h = 0; h < x->o->shape.d[2]; h++) {
            double *w = defined_weights(s, x, b, h);
            for (int64_t t = from; t < x->T; t++)
                for (int e = 0; e < E; e++) {
                    double o = 0;
                    for (int64_t j = 0; j < x->T; j++)
                        o += w[t * x->T + j] * (double)row(x->v, b, j, h)[e];
                    if (!(fabs(o - (double)row(x->o, b, t, h)[e]) <= tolerance))
                        ck_abort_msg("%s, T %lld, %s: o_%lld is %.9g, not %.9g", s->name,
                                     (long long)x->T, what, (long long)t,
                                     (double)row(x->o, b, t, h)[e], o);
                }
            free(w);
        }
}

START_TEST(every_row_is_that_of_the_definition) {
    static const double eps[] = {1e-6, 0.1}; /* a large one, or a forgotten eps would not show */
    setting             s = setting_at(_i / 2, eps[_i % 2]);
    for (int j = 0; j < TEXTS; j++) {
        text x;
        make(&x, &s.cfg, s.T[j], (want){0});
        run(&x);
        compare(&s, "N(0,1)", &x, 0, 3 * CLOSE);
        la_tape_destroy(x.t);
    }
}
END_TEST

/* Whether features of either sign are summed up: weights then may cancel. */
static int cancels(const setting *s) {
    const la_map *map = la_attn_map(&s->cfg, 1);
    return map && map->kind == LA_MAP_SIGNED &&
           la_attn_op_of_text(&s->cfg, s->T[TEXTS - 1], D, E) == la_attn_op(&s->cfg);
}

START_TEST(extreme_inputs_give_what_the_definition_gives) { /* _i: the subject and the kind */
    setting s = setting_of(&all[_i / EXTREMES], 4, 1e-6);
    int     kind = _i % EXTREMES;
    if (skipped(&s, extremes[kind],
                kind >= 6 && cancels(&s)
                    ? "features of either sign leave weights of 0 but for rounding"
                    : NULL))
        return;
    /* q.k is about 2000 and right to 1e-4 in float, and so are the weights; less so where features
     * of either sign cancel, and where the logarithms of features have |k|^2 = 10^6 in them */
    const la_map *map = la_attn_map(&s.cfg, 1);
    const int     square = map && map->kind == LA_MAP_LOG && map->projection;
    const double  rounding = square ? 3e-2 : cancels(&s) ? 5e-3 : kind ? 1e-4 : 1e-3;
    for (int j = 0; j < TEXTS; j++) {
        text x;
        make(&x, &s.cfg, s.T[j], (want){0});
        set_extreme(kind, &x);
        run(&x);
        compare(&s, extremes[kind], &x, 0, BY_PRECISION(rounding, 1e-9));
        la_tape_destroy(x.t);
    }
}
END_TEST

/* --- views and long texts --- */

START_TEST(columns_of_one_product_equal_dense_inputs) { /* here E = D, as in a model */
    setting s = setting_at(_i, 1e-6);
    for (int j = 0; j < TEXTS; j++) {
        int64_t T = s.T[j], C = H * D;
        text    x;
        make(&x, &s.cfg, T, (want){.grad = 1, .e = D});
        la_tape   *t;
        la_node   *head[3], *c;
        la_attn_in in = {0};
        OK(la_tape_create(&t, &(la_tape_cfg){.grad = 1}));
        add_weights(t, &s.cfg, H, D, &in);
        la_node *qkv = la_input(t, "qkv", la_shape3(B, T, 3 * C), 1);
        for (int i = 0; i < 3; i++) head[i] = la_heads(t, qkv, i * C, H, D);
        in.q = head[0], in.k = head[1], in.v = head[2];
        la_node *o = la_keep(la_attention(t, &s.cfg, &in, NULL));
        la_node *loss = cotangent(t, NULL, o, &c);
        OK(la_tape_seal(t, loss));
        fill_weights(&in);
        fill_uniform(x.len_v, 1, 90, c->x);
        la_node *dense[] = {x.q, x.k, x.v};
        for (int64_t r = 0; r < B * T; r++)
            for (int i = 0; i < 3; i++)
                memcpy(qkv->x + (3 * r + i) * C, dense[i]->x + r * C, (size_t)C * sizeof(la_real));
        run(&x);
        OK(la_tape_forward(t));
        OK(la_tape_backward(t, 1));
        same_bits(&s, "o of columns", x.len_v, o->x, x.o->x);
        for (int64_t r = 0; r < B * T; r++)
            for (int i = 0; i < 3; i++)
                same_bits(&s,
                          i == 0   ? "dq of columns"
                          : i == 1 ? "dk of columns"
                                   : "dv of columns",
                          C, qkv->g + (3 * r + i) * C, dense[i]->g + r * C);
        la_tape_destroy(t), la_tape_destroy(x.t);
    }
}
END_TEST

START_TEST(a_text_of_600_tokens_ends_as_the_definition_says) { /* _i is the variant */
    setting s = setting_of(&all[_i], 0, 1e-6);
    text    x;
    make(&x, &s.cfg, 600, (want){.grad = 1, .b = 1, .h = 1});
    run(&x);
    all_finite(&s, "a long text", &x);
    compare(&s, "a long text", &x, 590, BY_PRECISION(1e-4, 1e-11));
    la_tape_destroy(x.t);
}
END_TEST

static void expect_linear_memory(const setting *s, int64_t T, int64_t width) {
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        text x;
        make(&x, &s->cfg, T << i, (want){.grad = 1, .d = width, .e = width});
        bytes[i] = la_tape_bytes(x.t);
        la_tape_destroy(x.t);
    }
    double ratio = (double)bytes[1] / (double)bytes[0];
    ck_assert_msg(ratio < 2.2 && ratio > 1.5, "%s: %lld tokens need %.2f times what %lld need",
                  s->name, (long long)T * 2, ratio, (long long)T);
}

START_TEST(memory_grows_linearly_with_the_text) { /* _i is the variant */
    setting s = setting_of(&causal[_i], 0, 1e-6);
    if (s.cfg.variant->pairwise && !s.cfg.d && !s.cfg.decay) { /* not from one op to the other */
        ck_assert_ptr_eq(la_attn_op_of_text(&s.cfg, 4096, 64, 64), s.cfg.variant->pairwise);
        ck_assert_ptr_eq(la_attn_op_of_text(&s.cfg, 2048, 16, 16), la_attn_op(&s.cfg));
        expect_linear_memory(&s, 2048, 64);
        expect_linear_memory(&s, 2048, 16);
    } else
        expect_linear_memory(&s, 2048, 32);
}
END_TEST

/* --- the table --- */

START_TEST(variants_are_found_by_name) {
    const la_attn *a;
    for (int i = 0; la_attns[i]; i++) {
        OK(la_attn_find(la_attns[i]->name, &a));
        ck_assert_ptr_eq(a, la_attns[i]);
        for (int j = 0; j < i; j++) ck_assert_str_ne(a->name, la_attns[j]->name);
    }
    FAILS(la_attn_find("elu", &a), LA_NAME,
          "unknown attention variant \"elu\": did you mean elu1?");
    ck_assert_ptr_null(a);
}
END_TEST

/* --- the cut into blocks: shapes for which it differs must agree where the numbers are the same
 * --- */

static const double CUT = BY_PRECISION(1e-4, 1e-10);

static la_node *named(const la_tape *t, const char *name) {
    for (int i = 0; i < la_tape_len(t); i++)
        if (!strcmp(la_tape_at(t, i)->name, name)) return (la_node *)la_tape_at(t, i);
    return NULL;
}

/* The first numbers of a and b, and of their gradients. */
static void agree(const setting *s, const char *what, const text *a, const text *b, int64_t len_k,
                  int64_t len_v) {
    char           title[160];
    const la_node *na[] = {a->q, a->k, a->v}, *nb[] = {b->q, b->k, b->v};
    snprintf(title, sizeof title, "%s: o", what);
    close_to(s, title, len_v, a->o->x, b->o->x, CUT);
    for (int i = 0; i < 3; i++) {
        snprintf(title, sizeof title, "%s: d%s", what, na[i]->name);
        close_to(s, title, i < 2 ? len_k : len_v, na[i]->g, nb[i]->g, CUT);
    }
}

/* Wide heads, so that running sums of a state are cut as well.  A row of the batch is the first. */
START_TEST(a_text_cut_into_segments_is_the_one_that_is_not) {
    setting s = setting_of(&all[_i], 4, 0.1);
    text    one, eight;
    make(&one, &s.cfg, 45, (want){.grad = 1, .b = 1, .h = 2, .d = 33, .e = 33});
    make(&eight, &s.cfg, 45, (want){.grad = 1, .b = 8, .h = 2, .d = 33, .e = 33});
    run(&one);
    run(&eight);
    agree(&s, "1 and 8 texts", &one, &eight, one.len_k, one.len_v);
    la_tape_destroy(one.t);
    la_tape_destroy(eight.t);
}
END_TEST

START_TEST(many_heads_give_the_same_in_chunks_of_any_size) {
    setting s = setting_of(&all[_i], 0, 0.1);
    text    own, small;
    make(&own, &s.cfg, 300, (want){.grad = 1, .b = 4, .h = 4});
    s.cfg.chunk = 64;
    make(&small, &s.cfg, 300, (want){.grad = 1, .b = 4, .h = 4});
    run(&own);
    run(&small);
    agree(&s, "chunks", &own, &small, own.len_k, own.len_v);
    la_tape_destroy(own.t);
    la_tape_destroy(small.t);
}
END_TEST

/* Eight heads in two blocks of four, each against a text that has it alone. */
START_TEST(heads_side_by_side_give_what_each_gives_alone) {
    enum { T = 230, HEADS = 8, W = 8 };
    setting s = setting_of(&all[_i], 4, 0.1);
    text    together;
    make(&together, &s.cfg, T, (want){.grad = 1, .b = 1, .h = HEADS, .d = W, .e = W});
    run(&together);
    for (int64_t h = 0; h < HEADS; h += 3) { /* of both blocks */
        text alone;
        make(&alone, &s.cfg, T, (want){.grad = 1, .b = 1, .h = 1, .d = W, .e = W});
        const la_node *from[] = {together.q, together.k, together.v,
                                 named(together.t, "cotangent")};
        la_node       *to[] = {alone.q, alone.k, alone.v, named(alone.t, "cotangent")};
        for (int i = 0; i < 4; i++)
            for (int64_t t = 0; t < T; t++)
                memcpy(to[i]->x + t * W, from[i]->x + (t * HEADS + h) * W, W * sizeof(la_real));
        for (int i = 0; i < 2 && alone.weight[i]; i++) { /* those of head h, or of all */
            int64_t len = la_len(alone.weight[i]->shape), each = alone.weight[i]->shape.n == 3;
            memcpy(alone.weight[i]->x, together.weight[i]->x + (each ? h * len : 0),
                   (size_t)len * sizeof(la_real));
        }
        if (alone.decay) alone.decay->x[0] = together.decay->x[h];
        run(&alone);
        const la_real *a[] = {together.o->x, together.q->g, together.k->g, together.v->g};
        const la_real *b[] = {alone.o->x, alone.q->g, alone.k->g, alone.v->g};
        for (int i = 0; i < 4; i++) {
            la_real mine[T * W];
            for (int64_t t = 0; t < T; t++)
                memcpy(mine + t * W, a[i] + (t * HEADS + h) * W, W * sizeof(la_real));
            close_to(&s, i ? "a gradient of a head" : "o of a head", T * W, mine, b[i], CUT);
        }
        la_tape_destroy(alone.t);
    }
    la_tape_destroy(together.t);
}
END_TEST

int main(void) {
    list_settings(0);
    list_settings(1);
    const int n = n_settings, n_one_way = n_causal_settings;
    Suite    *s = suite_create("attention");
    TCase    *c = add_case(s, "table");
    tcase_add_test(c, variants_are_found_by_name);
    c = add_case(s, "weights");
    tcase_add_loop_test(c, values_of_one_give_one, 0, n);
    tcase_add_loop_test(c, the_first_output_is_the_first_value, 0, n_one_way);
    tcase_add_loop_test(c, a_constant_value_comes_out_as_it_is, 0, n);
    tcase_add_loop_test(c, equal_keys_give_the_running_mean, 0, n);
    tcase_add_loop_test(c, outputs_lie_between_the_values_so_far, 0, n);
    tcase_add_loop_test(c, outputs_are_linear_in_the_values, 0, n);
    tcase_add_loop_test(c, weights_times_values_are_the_outputs, 0, n);
    c = add_case(s, "independence");
    tcase_add_loop_test(c, heads_and_batch_rows_are_independent, 0, n);
    tcase_add_loop_test(c, the_future_changes_no_bit_of_the_past, 0, n_one_way);
    tcase_add_loop_test(c, a_prefix_gives_the_first_rows, 0, n_one_way);
    tcase_add_loop_test(c, the_chunk_is_of_no_consequence, 0, n);
    c = add_case(s, "state");
    tcase_add_loop_test(c, split_and_resumed_equals_whole, 0, n_one_way);
    tcase_add_loop_test(c, decoding_token_by_token_equals_the_whole_text, 0, n_one_way);
    tcase_add_loop_test(c, two_readers_of_one_state_see_the_same, 0, n_causal);
    tcase_add_loop_test(c, a_state_that_does_not_fit_is_a_sentence, 0, n_causal);
    tcase_add_loop_test(c, a_text_longer_than_the_state_can_hold_is_a_sentence, 0, n_causal);
    c = add_case(s, "extreme inputs");
    tcase_add_loop_test(c, extreme_inputs_give_finite_outputs_and_gradients, 0, n * EXTREMES);
    tcase_add_loop_test(c, extreme_inputs_give_what_the_definition_gives, 0, n_all * EXTREMES);
    if (LA_REAL_BITS == 64)
        tcase_add_loop_test(c, steep_keys_have_the_gradient_of_differences, 0, n_one_way);
    c = add_case(s, "definitions");
    tcase_add_loop_test(c, every_row_is_that_of_the_definition, 0, 2 * n);
    c = add_case(s, "views and long texts");
    tcase_add_loop_test(c, columns_of_one_product_equal_dense_inputs, 0, n);
    tcase_add_loop_test(c, a_text_of_600_tokens_ends_as_the_definition_says, 0, n_all);
    tcase_add_loop_test(c, memory_grows_linearly_with_the_text, 0, n_causal);
    c = add_case(s, "blocks");
    tcase_add_loop_test(c, a_text_cut_into_segments_is_the_one_that_is_not, 0, n_all);
    tcase_add_loop_test(c, many_heads_give_the_same_in_chunks_of_any_size, 0, n_all);
    tcase_add_loop_test(c, heads_side_by_side_give_what_each_gives_alone, 0, n_all);
    return run_suite(s);
}
