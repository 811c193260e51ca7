/* test_lm.c -- the language model: names, the loss it starts with and can reach, gradients, no
 * view of the future, decoding, and the values of PyTorch in golden/tiny.txt.
 *
 * Every line of attn.def is run, `none` included, with each kind of positions. */
#include "golden.h"
#include "models.h"

#include "autograd/ops.h"
#include "layers/layers.h"
#include "optim/optim.h"

enum { B = 2, T = 9, V = 11, C = 12, HEADS = 2, LAYERS = 2, POSITIONS = 3 };

static const char *const pos_names[POSITIONS] = {"learned", "rope", "none"};

static la_lm_cfg tiny(const char *spec, la_pos pos, int bias) {
    return (la_lm_cfg){.vocab = V,
                       .dim = C,
                       .layers = LAYERS,
                       .heads = HEADS,
                       .block_size = T,
                       .bias = bias,
                       .pos = pos,
                       .attn = pattern_of(spec, 1e-6)};
}

static const char *title(const la_lm_cfg *c) {
    static char text[96];
    snprintf(text, sizeof text, "%s%s, positions %s, bias %d%s",
             c->attn.mix[0].part[0].cfg.variant->name,
             c->attn.n > 1 || c->attn.mix[0].n > 1 ? " and others" : "", pos_names[c->pos], c->bias,
             c->short_conv ? ", short convolution" : "");
    return text;
}

/* The start of golden/make_golden.py: large enough that nothing is nearly linear. */
static void golden_start(la_lm *lm) {
    for (int p = 0; p < la_params_count(lm->params); p++) {
        const char *name = la_param_name(lm->params, p);
        size_t      n = strlen(name);
        int         norm = strstr(name, ".ln_") && !strcmp(name + n - 6, "weight");
        la_real    *x = la_params_x(lm->params) + la_param_offset(lm->params, p);
        for (int64_t i = 0; i < la_len(la_param_shape(lm->params, p)); i++) {
            double s = sin(1.7 * (double)(i + 1) + 0.9 * (double)(p + 1));
            x[i] = R(norm ? 1 + 0.1 * s : 0.4 * s);
        }
    }
}

/* A model on a text of its own. */
typedef struct model {
    la_lm   *lm;
    la_tape *t;
    la_node *logits, *loss;
    int64_t  b, len;
    int32_t *tokens, *positions, *labels, past;
} model;

static void fill_tokens(model *m) {
    for (int64_t b = 0; b < m->b; b++)
        for (int64_t t = 0; t < m->len; t++) {
            int64_t i = b * m->len + t, vocab = m->lm->cfg.vocab;
            m->tokens[i] = (int32_t)((7 * b + 3 * t * t + t) % vocab);
            m->labels[i] =
                (int32_t)(b == 1 && t == 4 ? -1 : (5 * b + 2 * t * t + 3 * t + 1) % vocab);
            m->positions[i] = (int32_t)t;
        }
}

/* state NULL: a whole text; mask NULL: of valid tokens. */
static void record_masked(model *m, la_lm *lm, int64_t b, int64_t len, int grad, la_real *state,
                          int64_t capacity, const int32_t *mask) {
    *m = (model){.lm = lm, .b = b, .len = len};
    m->tokens = calloc((size_t)(3 * b * len), sizeof *m->tokens);
    m->positions = m->tokens + b * len;
    m->labels = m->positions + b * len;
    fill_tokens(m);
    OK(la_tape_create(&m->t, &(la_tape_cfg){.grad = grad, .seed = 1}));
    la_lm_input in = {.tokens = la_integers(m->t, "tokens", la_shape2(b, len), m->tokens),
                      .positions = la_integers(m->t, "positions", la_shape2(b, len), m->positions),
                      .past = la_integers(m->t, "past", la_shape1(1), &m->past),
                      .mask = mask ? la_integers(m->t, "mask", la_shape2(b, len), mask) : NULL,
                      .state = state,
                      .capacity = capacity};
    m->logits = la_keep(la_lm_logits(lm, m->t, &in));
    m->loss = la_cross_entropy(m->t, m->logits,
                               la_integers(m->t, "labels", la_shape2(b, len), m->labels));
    OK(la_tape_seal(m->t, m->loss));
}

static void record(model *m, la_lm *lm, int64_t b, int64_t len, int grad, la_real *state,
                   int64_t capacity) {
    record_masked(m, lm, b, len, grad, state, capacity, NULL);
}

static void erase(model *m, int with_lm) {
    la_tape_destroy(m->t);
    free(m->tokens);
    if (with_lm) la_lm_destroy(m->lm);
}

static void make(model *m, const la_lm_cfg *cfg, int64_t b, int64_t len, int grad) {
    la_lm *lm;
    OK(la_lm_create(&lm, cfg, 1, grad));
    record(m, lm, b, len, grad, NULL, 0);
}

static double loss(model *m) {
    OK(la_tape_forward(m->t));
    return (double)*m->loss->x;
}

static void clear(la_params *p) { memset(la_params_g(p), 0, la_params_len(p) * sizeof(la_real)); }

/* --- names --- */

static int next_is(const la_params *p, int i, const char *name, la_shape s) {
    char a[LA_SHAPE_TEXT], b[LA_SHAPE_TEXT];
    ck_assert_msg(i < la_params_count(p), "%s is missing", name);
    ck_assert_str_eq(la_param_name(p, i), name);
    ck_assert_msg(la_shape_eq(la_param_shape(p, i), s), "%s is %s, not %s", name,
                  la_shape_text(la_param_shape(p, i), a), la_shape_text(s, b));
    return i + 1;
}

START_TEST(parameters_are_gpt2s) { /* _i: variant, positions, bias */
    static const char *const with_nothing_of_their_own[] = {"softmax", "elu1", "cosine", "none"};
    const int                attends = strcmp(with_nothing_of_their_own[_i / 6], "none") != 0;
    la_lm_cfg cfg = tiny(with_nothing_of_their_own[_i / 6], (la_pos)(_i / 2 % 3), _i % 2);
    la_lm    *lm;
    char      name[64];
    int       i = 0;
    OK(la_lm_create(&lm, &cfg, 1, 0));
    const la_params *p = lm->params;
    i = next_is(p, i, "transformer.wte.weight", la_shape2(V, C));
    if (cfg.pos == LA_POS_LEARNED) i = next_is(p, i, "transformer.wpe.weight", la_shape2(T, C));
    static const struct {
        const char *name;
        int64_t     out, in; /* in 0: a vector, and its bias has as many numbers */
        int         attention;
    } parts[] = {{"ln_1", C, 0, 1}, {"attn.c_attn", 3 * C, C, 1}, {"attn.c_proj", C, C, 1},
                 {"ln_2", C, 0, 0}, {"mlp.c_fc", 4 * C, C, 0},    {"mlp.c_proj", C, 4 * C, 0}};
    for (int l = 0; l < LAYERS; l++)
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            if (parts[k].attention && !attends) continue;
            snprintf(name, sizeof name, "transformer.h.%d.%s.weight", l, parts[k].name);
            i = next_is(p, i, name,
                        parts[k].in ? la_shape2(parts[k].out, parts[k].in)
                                    : la_shape1(parts[k].out));
            snprintf(name, sizeof name, "transformer.h.%d.%s.bias", l, parts[k].name);
            if (cfg.bias) i = next_is(p, i, name, la_shape1(parts[k].out));
        }
    i = next_is(p, i, "transformer.ln_f.weight", la_shape1(C));
    if (cfg.bias) i = next_is(p, i, "transformer.ln_f.bias", la_shape1(C));
    ck_assert_int_eq(la_params_count(p), i);
    la_lm_destroy(lm);
}
END_TEST

START_TEST(the_reference_model_has_as_many_numbers_as_gpt2_counts) {
    la_lm    *lm;
    la_lm_cfg cfg = {.vocab = 65,
                     .dim = 128,
                     .layers = 4,
                     .heads = 4,
                     .block_size = 64,
                     .attn = pattern_of("softmax", 0)};
    OK(la_lm_create(&lm, &cfg, 1, 0));
    /* per layer 12 C^2 + 2 C, and (V + T) C + C */
    ck_assert_int_eq(la_params_numbers(lm->params),
                     4 * (12 * 128 * 128 + 2 * 128) + (65 + 64) * 128 + 128);
    la_lm_destroy(lm);
}
END_TEST

START_TEST(weights_start_with_the_spread_of_gpt2) {
    la_lm    *lm;
    la_lm_cfg cfg = {.vocab = 65,
                     .dim = 128,
                     .layers = 4,
                     .heads = 4,
                     .block_size = 64,
                     .bias = 1,
                     .attn = pattern_of("softmax", 0)};
    OK(la_lm_create(&lm, &cfg, 1, 0));
    for (int i = 0; i < la_params_count(lm->params); i++) {
        const char *name = la_param_name(lm->params, i);
        la_shape    s = la_param_shape(lm->params, i);
        int64_t     n = la_len(s);
        la_real    *x = la_params_x(lm->params) + la_param_offset(lm->params, i);
        if (s.n == 1) {
            for (int64_t j = 0; j < n; j++)
                ck_assert_msg(x[j] == !strstr(name, "bias"), "%s starts at %g", name, (double)x[j]);
            continue;
        }
        double std = strstr(name, "c_proj") ? 0.02 / sqrt(8) : 0.02,
               is = sqrt(la_norm2((size_t)n, x) / (double)n);
        ck_assert_msg(fabs(is / std - 1) < 5 / sqrt(2 * (double)n), "%s: spread %g, not %g", name,
                      is, std);
    }
    la_lm_destroy(lm);
}
END_TEST

START_TEST(sizes_that_do_not_fit_are_sentences) {
    static const struct {
        int64_t     vocab, dim, layers, heads, block;
        la_pos      pos;
        const char *says;
    } bad[] = {
        {11, 30, 1, 4, 8, LA_POS_NONE, "n-embd 30 does not divide by n-head 4: use 28 or 32"},
        {11, 3, 1, 4, 8, LA_POS_NONE, "n-embd 3 does not divide by n-head 4"},
        {11, 12, 1, 4, 8, LA_POS_ROPE, "each head has 3"},
        {0, 12, 1, 4, 8, LA_POS_NONE, "at least 1"},
        {11, 0, 1, 4, 8, LA_POS_NONE, "at least 1"},
        {11, 12, 0, 4, 8, LA_POS_NONE, "at least 1"},
        {11, 12, 1, 0, 8, LA_POS_NONE, "at least 1"},
        {11, 12, 1, -2, 8, LA_POS_NONE, "at least 1"},
        {11, 12, 1, 4, 0, LA_POS_NONE, "at least 1"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        la_lm    *lm = (la_lm *)&lm;
        la_lm_cfg c = {.vocab = bad[i].vocab,
                       .dim = bad[i].dim,
                       .layers = bad[i].layers,
                       .heads = bad[i].heads,
                       .block_size = bad[i].block,
                       .pos = bad[i].pos,
                       .attn = pattern_of("softmax", 0)};
        FAILS(la_lm_create(&lm, &c, 1, 1), LA_ARG, bad[i].says);
        ck_assert_ptr_null(lm);
    }
}
END_TEST

/* --- losses: _i is the variant --- */

START_TEST(the_first_loss_is_that_of_equal_guesses) {
    model     m;
    la_lm_cfg cfg = {.vocab = 65,
                     .dim = 128,
                     .layers = 4,
                     .heads = HEADS,
                     .block_size = 64,
                     .attn = pattern_of(causal_spec(_i), 1e-6)};
    make(&m, &cfg, 4, 64, 0);
    double l = loss(&m);
    ck_assert_msg(fabs(l - log(65)) < 0.05, "%s: %g, and ln 65 is %g", causal_spec(_i), l, log(65));
    erase(&m, 1);
}
END_TEST

/* Eight texts that differ in their first token only, with other labels each: whoever does not look
 * back cannot tell them apart. */
START_TEST(one_batch_is_learnt_by_heart_if_the_context_is_seen) {
    enum { TEXTS = 8, LEN = 5, STEPS = 400 }; /* two layers of w=3 see four tokens back */
    const la_optim_def *def;
    la_optim            o;
    model               m;
    la_lm_cfg           cfg = tiny(causal_spec(_i), LA_POS_LEARNED, 0);
    const int           attends = strcmp(causal_spec(_i), "none") != 0;
    double              blind = 0, last = HUGE_VAL;
    cfg.dim = 32;
    make(&m, &cfg, TEXTS, LEN, 1);
    for (int t = 0; t < LEN; t++) {
        int count[V] = {0};
        for (int b = 0; b < TEXTS; b++) {
            m.tokens[b * LEN + t] = t ? 8 : b;
            count[m.labels[b * LEN + t] =
                      (int32_t)la_rng_below(3, 4, (uint64_t)(b * LEN + t), V)]++;
        }
        for (int v = 0; t && v < V; v++) /* the entropy of the labels at t */
            if (count[v]) blind -= count[v] * log(count[v] / (double)TEXTS) / (TEXTS * LEN);
    }
    ck_assert(blind > 0.5);
    OK(la_optim_find("adamw", &def));
    OK(la_optim_create(&o, def, &(la_optim_cfg){.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
                       m.lm->params));
    for (int step = 0; step < STEPS && last >= 0.1; step++) {
        last = loss(&m);
        OK(la_tape_backward(m.t, 1));
        la_optim_step(&o, 1e-2, la_clip_scale(la_grad_norm(m.lm->params), 1));
        ck_assert_msg(attends || last > blind * (1 - 1e-4),
                      "without attention: loss %g, below the entropy %g", last, blind);
    }
    if (attends)
        ck_assert_msg(last < 0.1, "%s: the loss is still %g after %d steps", title(&cfg), last,
                      STEPS);
    else
        ck_assert_msg(last < blind * 1.1, "%s: the loss is still %g, the entropy %g", title(&cfg),
                      last, blind);
    la_optim_destroy(&o);
    erase(&m, 1);
}
END_TEST

/* --- the whole model: _i is variant and positions --- */

static la_lm_cfg combination(int i) {
    la_lm_cfg cfg = tiny(causal_spec(i / POSITIONS), (la_pos)(i % POSITIONS), i % 2);
    if (i % 5 == 1 && !la_attn_mix_is_none(&cfg.attn.mix[0])) cfg.short_conv = 3;
    return cfg;
}

static void move(la_params *p, const la_real *from, double step) {
    for (int i = 0; i < la_params_count(p); i++)
        for (size_t n = 0, j = la_param_offset(p, i);
             !la_param_frozen(p, i) && n < (size_t)la_len(la_param_shape(p, i)); n++, j++)
            la_params_x(p)[j] = from[j] + R(step * cos(1.3 * (double)j));
}

START_TEST(the_gradient_predicts_the_loss_in_any_direction) {
    la_lm_cfg cfg = combination(_i);
    if (cfg.attn.mix[0].part[0].cfg.variant->shared_qk) {
        printf("%s: no gradient of the whole model: a query may change its bucket\n", title(&cfg));
        return;
    }
    model        m;
    const double h = 1e-5;
    make(&m, &cfg, B, T, 1);
    golden_start(m.lm);
    la_params *p = m.lm->params;
    loss(&m);
    OK(la_tape_backward(m.t, 1));
    la_real *start = copy_of((int64_t)la_params_len(p), la_params_x(p));
    double   along = 0, size = 0;
    for (int i = 0; i < la_params_count(p); i++) /* without the gaps */
        for (size_t j = la_param_offset(p, i), n = 0; n < (size_t)la_len(la_param_shape(p, i));
             j++, n++) { /* 0 for frozen ones */
            along += (double)la_params_g(p)[j] * cos(1.3 * (double)j);
            size += fabs((double)la_params_g(p)[j]);
        }
    move(p, start, h);
    double up = loss(&m);
    move(p, start, -h);
    double numeric = (up - loss(&m)) / (2 * h);
    ck_assert_msg(fabs(along - numeric) <= 1e-6 * fmax(fabs(numeric), 0.01 * size),
                  "%s: gradient %.12g, difference %.12g", title(&cfg), along, numeric);
    ck_assert(fabs(numeric) > 1e-3);
    free(start);
    erase(&m, 1);
}
END_TEST

START_TEST(the_last_token_changes_no_bit_of_an_earlier_logit) {
    la_lm_cfg cfg = combination(_i);
    model     m;
    make(&m, &cfg, B, T, 0);
    golden_start(m.lm);
    loss(&m);
    la_real *before = copy_of(B * T * V, m.logits->x);
    for (int b = 0; b < B; b++) m.tokens[b * T + T - 1] = (m.tokens[b * T + T - 1] + 1) % V;
    loss(&m);
    for (int b = 0; b < B; b++) {
        int64_t at = differ((T - 1) * V, before + b * T * V, m.logits->x + b * T * V);
        ck_assert_msg(at < 0, "%s: the logit at token %lld changes", title(&cfg),
                      (long long)(at / V));
        ck_assert(gap(V, before + (b * T + T - 1) * V, m.logits->x + (b * T + T - 1) * V) > 1e-3);
    }
    free(before);
    erase(&m, 1);
}
END_TEST

/* A text with masked tokens against the one that has only the others: logits, loss, gradients. */
START_TEST(masked_tokens_are_as_if_they_were_not_there) {
    static const int32_t mask[T] = {1, 0, 1, 1, 0, 0, 1, 1, 0};
    enum { VALID = 5 };
    la_lm_cfg cfg = combination(_i);
    model     all, valid;
    la_lm    *lm;
    OK(la_lm_create(&lm, &cfg, 1, 1));
    golden_start(lm);
    record_masked(&all, lm, 1, T, 1, NULL, 0, mask);
    record(&valid, lm, 1, VALID, 1, NULL, 0);
    for (int t = 0, n = 0; t < T; t++) {
        all.positions[t] = n;
        if (!mask[t]) all.labels[t] = -1;
        if (mask[t]) valid.tokens[n] = all.tokens[t], valid.labels[n++] = all.labels[t];
    }
    const int64_t len = (int64_t)la_params_len(lm->params);
    double        masked = loss(&all), compact = loss(&valid);
    ck_assert_msg(fabs(masked - compact) <= BY_PRECISION(1e-5, 1e-12) * compact,
                  "%s: loss %.9g with masked tokens, %.9g without", title(&cfg), masked, compact);
    for (int t = 0, n = 0; t < T; n += mask[t++])
        ck_assert_msg(!mask[t] || gap(V, all.logits->x + t * V, valid.logits->x + n * V) <=
                                      BY_PRECISION(1e-3, 1e-11),
                      "%s: other logits at token %d", title(&cfg), t);
    OK(la_tape_backward(all.t, 1));
    la_real *g = copy_of(len, la_params_g(lm->params));
    clear(lm->params);
    OK(la_tape_backward(valid.t, 1));
    double top = largest(len, g), d = gap(len, g, la_params_g(lm->params));
    ck_assert_msg(d <= BY_PRECISION(1e-3, 1e-10) * top, "%s: gradients %g apart, largest %g",
                  title(&cfg), d, top);
    free(g);
    erase(&valid, 0), erase(&all, 1);
}
END_TEST

/* The text in pieces of `lens` tokens: a tape for each length, one state for all. */
static void decode(const la_lm_cfg *cfg, const int64_t *lens) {
    model whole, part;
    make(&whole, cfg, B, T, 0);
    golden_start(whole.lm);
    loss(&whole);
    size_t   n = la_lm_state_len(whole.lm, B, T);
    la_real *state = reals((int64_t)n + 1);
    state[n] = 77; /* beyond the end */
    la_lm_state_start(whole.lm, B, T, state);
    for (int64_t at = 0, i = 0; at < T; at += lens[i++]) {
        int64_t len = lens[i];
        record(&part, whole.lm, B, len, 0, state, T);
        for (int64_t again = 0; again < (len == 1 ? T - at : 1);
             again++) { /* the tape of one token is replayed */
            part.past = (int32_t)(at + again);
            for (int64_t b = 0; b < B; b++)
                for (int64_t t = 0; t < len; t++) {
                    part.tokens[b * len + t] = whole.tokens[b * T + part.past + t];
                    part.positions[b * len + t] = (int32_t)(part.past + t);
                }
            loss(&part);
            for (int64_t b = 0; b < B; b++) {
                const la_real *is = part.logits->x + b * len * V,
                              *want = whole.logits->x + (b * T + part.past) * V;
                double d = gap(len * V, is, want);
                ck_assert_msg(d <= BY_PRECISION(1e-4, 1e-9),
                              "%s: %lld tokens after %d: logits differ by %g", title(cfg),
                              (long long)len, part.past, d);
            }
        }
        if (len == 1) at = T;
        erase(&part, 0);
    }
    ck_assert(state[n] == 77);
    free(state);
    erase(&whole, 1);
}

START_TEST(decoding_token_by_token_gives_the_logits_of_the_whole_text) {
    la_lm_cfg cfg = combination(_i);
    decode(&cfg, (int64_t[]){1});
}
END_TEST

START_TEST(decoding_goes_on_from_a_prompt) {
    la_lm_cfg cfg = combination(_i);
    decode(&cfg, (int64_t[]){7, 1});
    decode(&cfg, (int64_t[]){2, 5, 1});
}
END_TEST

START_TEST(recomputation_changes_no_bit_and_needs_less_memory) {
    model  m[2], plain[2];
    double l[2] = {0};
    for (int k = 0; k < 2; k++) {
        la_lm_cfg cfg = combination(_i);
        cfg.dropout = 0.2;
        cfg.recompute = k;
        cfg.layers = 4;
        make(m + k, &cfg, B, T, 1);
        golden_start(m[k].lm);
        for (int batch = 0; batch < 2; batch++) { /* gradients add up */
            la_tape_set_step(m[k].t, (uint64_t)batch);
            m[k].tokens[3] = batch;
            l[k] += loss(m + k);
            OK(la_tape_backward(m[k].t, 0.5));
        }
        record(plain + k, m[k].lm, B, T, 0, NULL, 0);
    }
    ck_assert(l[0] == l[1]);
    int64_t at = differ((int64_t)la_params_len(m[0].lm->params), la_params_g(m[0].lm->params),
                        la_params_g(m[1].lm->params));
    ck_assert_msg(at < 0, "%s: gradients differ at %lld", title(&m[0].lm->cfg), (long long)at);
    ck_assert_msg(la_tape_bytes(m[1].t) < la_tape_bytes(m[0].t) * 2 / 3,
                  "%s: %zu bytes, and %zu without", title(&m[0].lm->cfg), la_tape_bytes(m[1].t),
                  la_tape_bytes(m[0].t));
    ck_assert_uint_eq(la_tape_bytes(plain[0].t), la_tape_bytes(plain[1].t)); /* inference */
    for (int k = 0; k < 2; k++) erase(plain + k, 0), erase(m + k, 1);
}
END_TEST

START_TEST(dropout_is_for_training_only) {
    la_lm_cfg cfg = combination(_i);
    model     a, b, c;
    cfg.dropout = 0.5;
    make(&a, &cfg, B, T, 0);
    golden_start(a.lm);
    record(&b, a.lm, B, T, 1, NULL, 0);
    cfg.dropout = 0;
    make(&c, &cfg, B, T, 0);
    golden_start(c.lm);
    double with = loss(&a), training = loss(&b), without = loss(&c);
    ck_assert_msg(with == without, "%s: %g and %g", title(&cfg), with, without);
    ck_assert_msg(fabs(training - without) > 1e-3, "%s: dropout changes nothing in training",
                  title(&cfg));
    erase(&a, 0), erase(&b, 1), erase(&c, 1);
}
END_TEST

/* --- golden/tiny.txt --- */

/* One number for each parameter: sum_i x_i sin(i + 1). */
static void compare_sums(const golden_model *m, const char *name, const la_params *p,
                         const la_real *x, double tolerance) {
    double sums[80];
    int    n = la_params_count(p);
    for (int k = 0; k < n; k++) {
        sums[k] = 0;
        for (int64_t i = 0; i < la_len(la_param_shape(p, k)); i++)
            sums[k] += (double)x[la_param_offset(p, k) + (size_t)i] * sin((double)i + 1);
    }
    compare(m, name, n, sums, 0, tolerance);
}

static const double GOLDEN = BY_PRECISION(2e-4, 1e-8);

static void make_golden_model(model *m, const golden_model *g, double eps, int64_t len) {
    la_lm_cfg cfg = tiny(g->variant, LA_POS_LEARNED, g->flag);
    cfg.attn = pattern_of(g->variant, eps);
    make(m, &cfg, B, len, 1);
    golden_start(m->lm);
}

START_TEST(golden_values_are_there_for_every_variant) {
    ck_assert_msg(whole_file, "tests/golden/tiny.txt is missing or cut off");
    for (int i = 0; la_attns[i]; i++) {
        int found = 0;
        for (int j = 0; j < n_models; j++) found |= !strcmp(models[j].variant, la_attns[i]->name);
        if (!found)
            printf("%s: not compared with PyTorch: tests/golden/tiny.txt does not have it\n",
                   la_attns[i]->name);
    }
    ck_assert_int_ge(n_models, 5);
}
END_TEST

START_TEST(logits_loss_and_gradients_are_pytorchs) {
    const golden_model *g = models + _i;
    model               m;
    make_golden_model(&m, g, 1e-6, T);
    la_params *p = m.lm->params;
    for (int i = 0; i < B * T; i++) {
        ck_assert(m.tokens[i] == (int32_t)find(g, "tokens")->x[i]);
        ck_assert(m.labels[i] == (int32_t)find(g, "targets")->x[i]);
    }
    compare_sums(g, "sum.start", p, la_params_x(p), BY_PRECISION(1e-6, 1e-10));
    double l = loss(&m), top = 0;
    OK(la_tape_backward(m.t, 1));
    compare_reals(g, "logits", B * T * V, m.logits->x, 0, GOLDEN);
    compare(g, "loss", 1, &l, 0, GOLDEN);
    int  compared = 0;
    char name[96];
    for (int i = 0; i < g->n; i++)
        if (!strncmp(g->tensors[i].name, "grad.", 5)) top = fmax(top, golden_top(g->tensors + i));
    for (int i = 0; top > 0 && i < la_params_count(p); i++, compared++) {
        snprintf(name, sizeof name, "grad.%s", la_param_name(p, i));
        compare_reals(g, name, la_len(la_param_shape(p, i)), la_params_g(p) + la_param_offset(p, i),
                      top, GOLDEN);
    }
    ck_assert_msg(compared || !strcmp(g->variant, "none"), "%s: tiny.txt has no gradients",
                  g->variant);
    compare_sums(g, "sum.grad", p, la_params_g(p), GOLDEN);
    erase(&m, 1);
}
END_TEST

START_TEST(ten_clipped_adamw_steps_are_pytorchs) {
    const golden_model *g = models + _i;
    const la_optim_def *def;
    la_optim            o;
    model               m;
    double              losses[10], norms[10];
    make_golden_model(&m, g, 1e-6, T);
    la_params *p = m.lm->params;
    OK(la_optim_find("adamw", &def));
    OK(la_optim_create(
        &o, def, &(la_optim_cfg){.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1},
        p));
    for (int i = 0; i < 10; i++) {
        losses[i] = loss(&m);
        OK(la_tape_backward(m.t, 1));
        norms[i] = la_grad_norm(p);
        la_optim_step(&o, 0.01, la_clip_scale(norms[i], 1));
    }
    compare(g, "losses", 10, losses, 0, GOLDEN);
    compare(g, "norms", 10, norms, 0, GOLDEN);
    char name[96];
    for (int i = 0; i < la_params_count(p); i++) {
        snprintf(name, sizeof name, "after.%s", la_param_name(p, i));
        if (find(g, name))
            compare_reals(g, name, la_len(la_param_shape(p, i)),
                          la_params_x(p) + la_param_offset(p, i), 0, GOLDEN);
    }
    compare_sums(g, "sum.after", p, la_params_x(p), GOLDEN);
    la_optim_destroy(&o);
    erase(&m, 1);
}
END_TEST

START_TEST(a_shorter_text_and_a_larger_eps_are_pytorchs) {
    static const struct {
        const char *prefix;
        double      eps;
        int64_t     len;
    } others[] = {{"short", 1e-6, 5}, {"eps", 0.1, T}};
    const golden_model *g = models + _i;
    char                name[32];
    for (int k = 0; k < 2; k++) {
        model m;
        snprintf(name, sizeof name, "%s.logits", others[k].prefix);
        if (!find(g, name)) {
            printf("%s: not compared with PyTorch at eps .1: tiny.txt does not have it\n",
                   g->variant);
            ck_assert_msg(k == 1, "%s: there is no %s", g->variant, name);
            continue;
        }
        make_golden_model(&m, g, others[k].eps, others[k].len);
        double l = loss(&m);
        OK(la_tape_backward(m.t, 1));
        compare_reals(g, name, B * others[k].len * V, m.logits->x, 0, GOLDEN);
        snprintf(name, sizeof name, "%s.loss", others[k].prefix);
        compare(g, name, 1, &l, 0, GOLDEN);
        snprintf(name, sizeof name, "%s.sum.grad", others[k].prefix);
        compare_sums(g, name, m.lm->params, la_params_g(m.lm->params), GOLDEN);
        erase(&m, 1);
    }
}
END_TEST

START_TEST(accumulated_micro_batches_are_one_batch) { /* two texts, each with a scale of a half */
    la_lm_cfg cfg = combination(_i);
    model     m, one;
    make(&m, &cfg, B, T, 1);
    golden_start(m.lm);
    m.labels[T + 4] = 3; /* as many labels in each */
    loss(&m);
    OK(la_tape_backward(m.t, 1));
    la_params *p = m.lm->params;
    la_real   *g = copy_of((int64_t)la_params_len(p), la_params_g(p));
    clear(p);
    record(&one, m.lm, 1, T, 1, NULL, 0);
    for (int b = 0; b < B; b++) {
        memcpy(one.tokens, m.tokens + b * T, T * sizeof *m.tokens);
        memcpy(one.labels, m.labels + b * T, T * sizeof *m.labels);
        loss(&one);
        OK(la_tape_backward(one.t, 0.5));
    }
    double top = largest((int64_t)la_params_len(p), g),
           d = gap((int64_t)la_params_len(p), g, la_params_g(p));
    ck_assert_msg(d <= BY_PRECISION(2e-5, 1e-13) * top, "%s: gradients differ by %g, largest %g",
                  title(&cfg), d, top);
    free(g);
    erase(&one, 0), erase(&m, 1);
}
END_TEST

/* Number i of both models, where wte differs by a last row. */
static void same_bits(const char *what, const model *a, const model *b, la_param i) {
    la_params *p = a->lm->params, *q = b->lm->params;
    int64_t    n = la_len(la_param_shape(p, i));
    size_t     at = la_param_offset(p, i), to = la_param_offset(q, i);
    ck_assert_msg(differ(n, la_params_x(p) + at, la_params_x(q) + to) < 0 &&
                      differ(n, la_params_g(p) + at, la_params_g(q) + to) < 0,
                  "%s: %s has other bits", what, la_param_name(p, i));
}

START_TEST(a_mask_token_is_looked_up_and_never_predicted) {
    la_lm_cfg cfg = tiny(causal_spec(_i / POSITIONS), (la_pos)(_i % POSITIONS), _i % 2);
    model     plain, masked;
    make(&plain, &cfg, B, T, 1);
    cfg.mask_token = 1;
    make(&masked, &cfg, B, T, 1);
    la_params *p = masked.lm->params;
    la_shape   logits = masked.logits->shape, wte = la_param_shape(p, masked.lm->wte);
    ck_assert_int_eq(la_last(logits), V);
    ck_assert(la_shape_eq(wte, la_shape2(V + 1, C)));
    /* a text without it: the model without it */
    double without = loss(&plain);
    ck_assert_double_eq(loss(&masked), without);
    OK(la_tape_backward(plain.t, 1));
    OK(la_tape_backward(masked.t, 1));
    for (la_param i = 0; i < la_params_count(p); i++) same_bits(title(&cfg), &plain, &masked, i);
    const la_real *row = la_params_g(p) + la_param_offset(p, masked.lm->wte) + V * C;
    ck_assert_double_eq(largest(C, row), 0);
    /* a text with it */
    masked.tokens[3] = V;
    ck_assert_double_ne(loss(&masked), without);
    OK(la_tape_backward(masked.t, 1));
    ck_assert_double_gt(largest(C, row), 0);
    masked.labels[2] = V;
    FAILS(la_tape_forward(masked.t), LA_ARG, "label 11 at 2");
    plain.tokens[3] = V;
    FAILS(la_tape_forward(plain.t), LA_ARG, "id 11 at 3");
    erase(&plain, 1), erase(&masked, 1);
}
END_TEST

/* The group's own attention is recorded right after its weights, from the same q and k. */
static la_node *own_output(const la_tape *t, const la_node *weights) {
    for (int i = weights->id + 1; i < la_tape_len(t); i++)
        if (la_tape_at(t, i)->op == weights->op) return (la_node *)la_tape_at(t, i);
    return NULL;
}

/* w (B,T,h,T) times v, whose rows of a token are ld apart, against o. */
static void weights_give(const la_lm_cfg *cfg, const la_node *w, const la_node *v,
                         const la_node *o) {
    const int64_t h = w->shape.d[2], D = C / HEADS;
    la_real      *wv = reals(la_len(o->shape));
    for (int64_t r = 0; r < B * T * h; r++)
        for (int64_t d = 0; d < D; d++) {
            double sum = 0;
            for (int64_t j = 0; j < T; j++)
                sum += (double)w->x[r * T + j] *
                       (double)v->x[(r / h / T * T + j) * v->ld + r % h * D + d];
            wv[r * D + d] = R(sum);
        }
    double worst = gap(B * T * h * D, wv, o->x);
    ck_assert_msg(worst <= BY_PRECISION(1e-5, 1e-13) * largest(B * T * h * D, o->x),
                  "%s: %s is not weights times values, by %g", title(cfg), o->name, worst);
    free(wv);
}

START_TEST(the_weights_of_each_head_give_its_output) {
    enum { GROUPS = LAYERS * LA_MAX_MIX };
    la_lm_cfg cfg = combination(_i);
    model     m;
    la_node  *weights[GROUPS], *o[GROUPS];
    make(&m, &cfg, B, T, 0);
    golden_start(m.lm);
    loss(&m);
    la_tape *t;
    OK(la_tape_create(&t, NULL));
    la_lm_input in = {.tokens = la_integers(t, "tokens", la_shape2(B, T), m.tokens),
                      .positions = la_integers(t, "positions", la_shape2(B, T), m.positions),
                      .past = la_integers(t, "past", la_shape1(1), &m.past),
                      .unit = la_input(t, "unit", la_shape3(B, T, HEADS * T), 0),
                      .weights = weights};
    la_node    *logits = la_keep(la_lm_logits(m.lm, t, &in));
    const int   n = la_lm_groups(m.lm);
    for (int g = 0; g < n; g++) {
        ck_assert_ptr_nonnull(o[g] = own_output(t, weights[g]));
        la_keep(o[g]), la_keep(o[g]->in[2]->from);
    }
    OK(la_tape_seal(t, NULL));
    memset(in.unit->x, 0, (size_t)la_len(in.unit->shape) * sizeof(la_real));
    for (int64_t i = 0; i < B * T * HEADS; i++) in.unit->x[i * T + i / HEADS % T] = 1;
    OK(la_tape_forward(t));
    ck_assert_msg(differ(B * T * V, logits->x, m.logits->x) < 0, "%s: other logits", title(&cfg));
    int64_t heads = 0;
    for (int g = 0; g < n; g++) {
        heads += weights[g]->shape.d[2];
        weights_give(&cfg, weights[g], o[g]->in[2], o[g]);
    }
    int layers = 0;
    for (int l = 0; l < LAYERS; l++) layers += m.lm->blocks[l].attends;
    ck_assert_int_eq(heads, layers * HEADS);
    la_tape_destroy(t);
    erase(&m, 1);
}
END_TEST

START_TEST(a_plus_in_a_number_does_not_begin_a_part_of_a_mix) {
    la_attn_pattern p;
    OK(la_attn_pattern_parse("elu1:eps=1e+0@1+window:w=4@2", 0, &p));
    ck_assert_int_eq(p.mix[0].n, 2);
    ck_assert_double_eq(p.mix[0].part[0].cfg.eps, 1);
    ck_assert_int_eq(p.mix[0].part[0].heads, 1);
    ck_assert_str_eq(p.mix[0].part[1].cfg.variant->name, "window");
    ck_assert_int_eq(p.mix[0].part[1].heads, 2);
    FAILS(la_attn_pattern_parse("elu1@1+", 0, &p), LA_ARG, "\"1+\" is not");
}
END_TEST

int main(void) {
    read_golden("tiny.txt");
    int    n = causal_specs() * POSITIONS;
    Suite *s = suite_create("lm");
    TCase *c = add_case(s, "parameters");
    tcase_add_test(c, a_plus_in_a_number_does_not_begin_a_part_of_a_mix);
    tcase_add_loop_test(c, parameters_are_gpt2s, 0, 4 * 6);
    tcase_add_test(c, the_reference_model_has_as_many_numbers_as_gpt2_counts);
    tcase_add_test(c, weights_start_with_the_spread_of_gpt2);
    tcase_add_test(c, sizes_that_do_not_fit_are_sentences);
    c = add_case(s, "losses");
    tcase_add_loop_test(c, the_first_loss_is_that_of_equal_guesses, 0, causal_specs());
    tcase_add_loop_test(c, one_batch_is_learnt_by_heart_if_the_context_is_seen, 0, causal_specs());
    c = add_case(s, "whole model");
    if (LA_REAL_BITS == 64)
        tcase_add_loop_test(c, the_gradient_predicts_the_loss_in_any_direction, 0, n);
    else
        printf("not checked in float: the gradient against differences, which need double; see the "
               "64-bit test\n");
    tcase_add_loop_test(c, the_last_token_changes_no_bit_of_an_earlier_logit, 0, n);
    tcase_add_loop_test(c, masked_tokens_are_as_if_they_were_not_there, 0, n);
    tcase_add_loop_test(c, decoding_token_by_token_gives_the_logits_of_the_whole_text, 0, n);
    tcase_add_loop_test(c, decoding_goes_on_from_a_prompt, 0, n);
    tcase_add_loop_test(c, recomputation_changes_no_bit_and_needs_less_memory, 0, n);
    tcase_add_loop_test(c, the_weights_of_each_head_give_its_output, 0, n);
    tcase_add_loop_test(c, dropout_is_for_training_only, 0, n);
    tcase_add_loop_test(c, a_mask_token_is_looked_up_and_never_predicted, 0, n);
    tcase_add_loop_test(c, accumulated_micro_batches_are_one_batch, 0, n);
    c = add_case(s, "golden values");
    tcase_add_test(c, golden_values_are_there_for_every_variant);
    tcase_add_loop_test(c, logits_loss_and_gradients_are_pytorchs, 0, n_models);
    tcase_add_loop_test(c, ten_clipped_adamw_steps_are_pytorchs, 0, n_models);
    tcase_add_loop_test(c, a_shorter_text_and_a_larger_eps_are_pytorchs, 0, n_models);
    return run_suite(s);
}
