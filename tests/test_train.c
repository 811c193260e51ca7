/* test_train.c -- rates against a fake clock, metrics lines, the training step, the evaluation, the
 * sampler against the full forward pass, and the bigram model whose optimum can be counted. */
#include "models.h"

#include <unistd.h>

#include "autograd/ops.h"
#include "data/masking.h"
#include "tensor/parallel.h"
#include "tensor/rng.h"
#include "train/memory_plan.h"
#include "train/nonfinite.h"
#include "train/picture.h"
#include "train/report.h"
#include "train/sampler.h"
#include "train/trainer.h"

enum { TEXT = 3000, VOCAB = 7 };

/* A text with structure: the next id is mostly determined by this one. */
static la_ids text(void) {
    static uint8_t ids[TEXT];
    for (int i = 1; i < TEXT; i++)
        if (la_rng_uniform(5, la_rng_stream(LA_RNG_TEST, 0), (uint64_t)i) < 0.7)
            ids[i] = (uint8_t)((ids[i - 1] * 3 + 1) % VOCAB);
        else
            ids[i] = (uint8_t)la_rng_below(6, la_rng_stream(LA_RNG_TEST, 1), (uint64_t)i, VOCAB);
    return (la_ids){ids, 1, TEXT};
}

/* The text several times: more than one replay of an evaluation. */
static la_ids long_text(void) {
    enum { TIMES = 3 };
    static uint8_t ids[TIMES * TEXT];
    for (int i = 0; i < TIMES; i++) memcpy(ids + i * TEXT, text().data, TEXT);
    return (la_ids){ids, 1, sizeof ids};
}

static la_trainer_cfg small(const char *attn) {
    la_trainer_cfg c = {
        .lm = {.vocab = VOCAB, .dim = 16, .layers = 2, .heads = 2, .block_size = 12},
        .batch = 4,
        .grad_accum = 1,
        .seed = 3,
        .grad_clip = 1,
        .optim_cfg = {0.9, 0.99, 1e-8, 0.1},
        .schedule = {"constant", 3e-3, 3e-3, 0, 1}};
    c.lm.attn = pattern_of(attn, 1e-6);
    ck_assert_int_eq(la_optim_find("adamw", &c.optim), LA_OK);
    return c;
}

static void masked(la_trainer_cfg *c, int yes) { c->lm.bidirectional = c->lm.mask_token = yes; }

static void ok(la_status s) { ck_assert_msg(s == LA_OK, "%s", la_error()); }

/* --- rates --- */

static double clock_now;
static double fake_clock(void) { return clock_now; }

static void timed_step(la_rate *r, double seconds) {
    la_rate_begin(r);
    clock_now += seconds;
    la_rate_end(r);
}

START_TEST(rate_is_the_median_without_the_first_step_and_evaluations) {
    la_rate r;
    la_rate_init(&r, fake_clock);
    timed_step(&r, 9);
    ck_assert_double_eq(la_rate_median(&r), 0);
    timed_step(&r, 0.25);
    clock_now += 100; /* an evaluation */
    timed_step(&r, 0.5);
    timed_step(&r, 8);
    ck_assert_double_eq_tol(la_rate_median(&r), 0.5, 1e-12);
    timed_step(&r, 0.25);
    ck_assert_double_eq_tol(la_rate_median(&r), 0.375, 1e-12);
    r.eval_seconds = 2;
    ck_assert_double_eq_tol(la_rate_eta(&r, 10, 3), 9.75, 1e-9);
}
END_TEST

START_TEST(rate_forgets_old_steps) {
    la_rate r;
    la_rate_init(&r, fake_clock);
    for (int i = 0; i < 1 + LA_RATE_STEPS; i++) timed_step(&r, 4);
    ck_assert_double_eq_tol(la_rate_median(&r), 4, 1e-9);
    for (int i = 0; i < LA_RATE_STEPS; i++) timed_step(&r, 1);
    ck_assert_double_eq_tol(la_rate_median(&r), 1, 1e-9);
}
END_TEST

START_TEST(times_are_readable) {
    char b[LA_TIME_TEXT];
    ck_assert_str_eq(la_time_text(0, b), "0:00");
    ck_assert_str_eq(la_time_text(13.2, b), "0:13");
    ck_assert_str_eq(la_time_text(725, b), "12:05");
    ck_assert_str_eq(la_time_text(3723, b), "1:02:03");
}
END_TEST

static char *printed(const la_metrics *m) {
    char  *s = NULL;
    size_t n;
    FILE  *f = open_memstream(&s, &n);
    la_metrics_line(m, f);
    fclose(f);
    return s;
}

START_TEST(metrics_lines) {
    la_metrics m = {.step = 1250,
                    .max_iters = 2000,
                    .loss = 1.8756,
                    .val_loss = 2.0089,
                    .accuracy = NAN,
                    .val_accuracy = NAN,
                    .norm = 0.62,
                    .lr = 5.1e-4,
                    .ms = 18.2,
                    .tokens_per_s = 42100,
                    .elapsed_s = 30,
                    .eta_s = 13,
                    .rss_bytes = 118 << 20};
    char      *line = printed(&m), json[LA_METRICS_TEXT];
    ck_assert_uint_eq(la_metrics_json(&m, json), strlen(json));
    ck_assert_str_eq(
        line, "step 1250/2000 62% | loss 1.8756 | val 2.0089 | norm 0.62 | lr 5.1e-04 | 18.2 ms | "
              "42.1k tok/s | rss 118M | eta 0:13");
    ck_assert_str_eq(
        json,
        "{\"step\": 1250, \"loss\": 1.8756, \"val_loss\": 2.0089, \"lr\": 0.00051, \"grad_norm\": "
        "0.62, \"ms\": 18.2, \"tokens_per_s\": 42100, \"elapsed_s\": 30, \"rss_bytes\": "
        "123731968}\n");
    free(line);
    m.accuracy = 0.92314; /* of a task */
    m.val_accuracy = 0.911;
    line = printed(&m);
    la_metrics_json(&m, json);
    ck_assert_ptr_nonnull(
        strstr(line, "| loss 1.8756 | acc 0.9231 | val 2.0089 | val acc 0.9110 | norm"));
    ck_assert_ptr_nonnull(strstr(json, "\"loss\": 1.8756, \"accuracy\": 0.92314, \"val_loss\": "
                                       "2.0089, \"val_accuracy\": 0.911, \"lr\""));
    free(line);
    m.loss = m.norm = m.lr = m.val_loss = NAN;
    m.tokens_per_s = 0;
    la_metrics_json(&m, json);
    ck_assert_ptr_null(strstr(json, "nan"));
    ck_assert_ptr_null(strstr(json, "loss"));
}
END_TEST

/* --- training --- */

static double train_to(la_trainer *t, int64_t from, int64_t to) {
    la_step s = {0};
    for (int64_t i = from; i < to; i++) ok(la_trainer_step(t, i, &s));
    return s.loss;
}

START_TEST(weights_are_bitwise_equal_at_any_number_of_threads) { /* _i: spec, objective */
    const char *attn = model_spec(_i / 2);
    if (!goes(attn, _i % 2)) return;
    la_ids         ids = text();
    la_trainer_cfg c = small(attn);
    la_real       *first = NULL;
    c.lm.dropout = 0.1;
    masked(&c, _i % 2);
    for (int threads = 1; threads <= 3; threads++) {
        la_trainer t;
        la_threads_set(threads);
        ok(la_trainer_create(&t, &c, &ids));
        train_to(&t, 0, 12);
        size_t n = la_params_len(t.lm->params) * sizeof(la_real);
        if (!first) {
            first = malloc(n);
            memcpy(first, la_params_x(t.lm->params), n);
        }
        ck_assert_msg(!memcmp(first, la_params_x(t.lm->params), n),
                      "%s: %d threads give other weights", attn, threads);
        la_trainer_destroy(&t);
    }
    free(first);
}
END_TEST

START_TEST(accumulated_gradient_is_that_of_the_larger_batch) { /* _i: objective */
    la_ids         ids = text();
    la_trainer_cfg whole = small("elu1"), parts;
    masked(&whole, _i);
    parts = whole;
    parts.batch = 2;
    parts.grad_accum =
        2; /* rows of step i: batches 2i and 2i + 1 of two rows are those of batch i of four */
    la_trainer a, b;
    la_step    x, y;
    ok(la_trainer_create(&a, &whole, &ids));
    ok(la_trainer_create(&b, &parts, &ids));
    for (int64_t i = 0; i < 3; i++) {
        ok(la_trainer_step(&a, i, &x));
        ok(la_trainer_step(&b, i, &y));
        ck_assert_double_eq_tol(x.loss, y.loss, 1e-5);
        ck_assert_double_eq_tol(x.norm, y.norm, 1e-4 * x.norm);
    }
    la_trainer_destroy(&a);
    la_trainer_destroy(&b);
}
END_TEST

START_TEST(one_batch_is_overfitted) { /* _i: objective */
    la_ids         ids = text();
    la_trainer_cfg c = small("double-softmax");
    masked(&c, _i);
    la_trainer t;
    c.same_batch = 1;
    c.optim_cfg.weight_decay = 0;
    c.schedule.lr = 1e-2;
    ok(la_trainer_create(&t, &c, &ids));
    ck_assert_double_lt(train_to(&t, 0, 400), 0.25);
    la_trainer_destroy(&t);
}
END_TEST

START_TEST(a_nan_stops_the_step_and_is_named_and_nothing_is_updated) {
    la_ids         ids = text();
    la_trainer_cfg c = small("elu1");
    la_trainer     t;
    la_step        s;
    ok(la_trainer_create(&t, &c, &ids));
    la_params *p = t.lm->params;
    la_param   bad = la_param_find(p, "transformer.h.1.mlp.c_fc.weight");
    la_params_x(p)[la_param_offset(p, bad)] = R(NAN);
    la_real before = la_params_x(p)[0];
    ck_assert_int_eq(la_trainer_step(&t, 0, &s), LA_NUMERIC);
    ck_assert_ptr_nonnull(strstr(la_error(), "transformer.h.1.mlp.c_fc.weight"));
    ck_assert_ptr_nonnull(strstr(la_error(), "not a number"));
    ck_assert(la_params_x(p)[0] == before && t.optim.t == 0);
    la_trainer_destroy(&t);
}
END_TEST

/* A bad gradient comes after two backward passes, which have left others; a bad weight before. */
START_TEST(a_step_that_was_not_finite_leaves_nothing) {
    la_ids         ids = text();
    la_trainer_cfg c = small("elu1");
    la_trainer     t[2];
    la_step        s;
    c.grad_accum = 2;
    c.lm.dropout = 0.1;
    for (int i = 0; i < 2; i++) {
        ok(la_trainer_create(&t[i], &c, &ids));
        la_params *p = t[i].lm->params;
        la_real   *x =
            la_params_x(p) + la_param_offset(p, la_param_find(p, "transformer.wte.weight"));
        for (int64_t step = 0; step < 5; step++) {
            if (step == 2 && i == 0) continue; /* as if it had not been */
            la_real was = *x;
            if (step == 2 && _i)
                *x = R(NAN);
            else if (step == 2)
                la_params_g(p)[x - la_params_x(p)] = R(INFINITY);
            la_status got = la_trainer_step(&t[i], step, &s);
            ck_assert_int_eq(got, step == 2 ? LA_NUMERIC : LA_OK);
            *x = step == 2 ? was : *x;
        }
        ck_assert_int_eq(t[i].optim.t, 4);
    }
    size_t bytes = la_params_len(t[0].lm->params) * sizeof(la_real);
    ck_assert_mem_eq(la_params_x(t[0].lm->params), la_params_x(t[1].lm->params), bytes);
    for (int k = 0; k < c.optim->n_slots; k++)
        ck_assert_mem_eq(t[0].optim.slot[k], t[1].optim.slot[k], bytes);
    for (int i = 0; i < 2; i++) la_trainer_destroy(&t[i]);
}
END_TEST

START_TEST(what_to_do_about_a_number_that_is_not_finite) {
    static const struct {
        const char *text;
        int         kind;
        int64_t     times;
    } good[] = {{"stop", LA_NONFINITE_STOP, 0},           {"skip:1", LA_NONFINITE_SKIP, 1},
                {"skip:250", LA_NONFINITE_SKIP, 250},     {"rollback", LA_NONFINITE_ROLLBACK, 3},
                {"rollback:3", LA_NONFINITE_ROLLBACK, 3}, {"rollback:0", LA_NONFINITE_ROLLBACK, 0}};
    static const char *const bad[] = {"",       "skip",    "skip:",       "skip:0",   "skip:-1",
                                      "skip:x", "skip:1e", "rollback:4",  "stop:1",   "rollbacks",
                                      "Stop",   "skip:.5", "rollback:-1", "rollback:"};
    la_nonfinite             n;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ok(la_nonfinite_parse(good[i].text, &n));
        ck_assert_int_eq(n.kind, good[i].kind);
        ck_assert_int_eq(n.times, good[i].times);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(la_nonfinite_parse(bad[i], &n), LA_ARG, "--on-nonfinite must be stop, skip:K");
}
END_TEST

/* Losses 1 ... 63: the median is 32, the quartiles are 16 and 48, and so the limit is 32 + 160. */
START_TEST(a_loss_spike_is_told_once_in_a_hundred_steps) {
    la_spikes s = {0}, narrow = {0};
    double    median = 0;
    for (int64_t i = 1; i <= 62; i++) ck_assert_int_eq(la_spike(&s, i, (double)i, &median), 0);
    ck_assert_int_eq(la_spike(&s, 63, 1e6, &median), 0); /* there are only 62 before it */
    s.losses[62] = 63;
    la_spikes again = s;
    ck_assert_int_eq(la_spike(&again, 64, 192, &median), 0);
    again = s;
    ck_assert_int_eq(la_spike(&again, 64, 192.001, &median), 1);
    ck_assert_double_eq(median, 32);
    ck_assert_int_eq(la_spike(&again, 163, 1e6, &median), 0);
    ck_assert_int_eq(la_spike(&again, 164, 1e6, &median), 1);
    again = s;
    ck_assert_int_eq(la_spike(&again, 64, 1e6, &median), 1);
    ck_assert_int_eq(la_spike(&again, 164, 193, &median), 0); /* that spike is one of the losses */
    ck_assert_double_eq(median, 33);
    for (int64_t i = 1; i <= 63; i++) la_spike(&narrow, i, 2, &median);
    ck_assert_int_eq(la_spike(&narrow, 64, 3, &median), 0); /* 1 at least, above the median */
    ck_assert_int_eq(la_spike(&narrow, 65, 3.001, &median), 1);
    ck_assert_double_eq(median, 2);
}
END_TEST

START_TEST(what_does_not_fit_is_refused) {
    la_ids         ids = text();
    la_trainer_cfg c = small("softmax");
    la_trainer     t;
    c.max_bytes = 100000;
    ck_assert_int_eq(la_trainer_create(&t, &c, &ids), LA_NOMEM);
    ck_assert_ptr_nonnull(strstr(la_error(), "MiB"));
    c.lm.layers = 1000;
    c.lm.dim = 65536;
    ck_assert_int_eq(la_trainer_create(&t, &c, &ids), LA_NOMEM);
}
END_TEST

START_TEST(an_open_checkpoint_is_memory_that_comes_back) {
    enum { FREE = 1 << 24 };
    const char     *tmp = getenv("TMPDIR");
    char            path[300];
    la_ids          ids = text();
    la_texts        texts = {0};
    la_trainer_cfg  c = small("elu1");
    la_trainer      t;
    la_checkpoint  *saved;
    la_memory_plan  plan;
    la_memory_needs needs = {.saves = 1};
    la_config       config;
    snprintf(path, sizeof path, "%.200s/test_train_XXXXXX", tmp ? tmp : P_tmpdir);
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    la_config_init(&config);
    ok(la_tokenizer_create(&texts.tokenizer, "byte", la_text_of("the text", "", 0)));
    ok(la_trainer_create(&t, &c, &ids));
    ok(la_checkpoint_save(path, &(la_record){.config = ""}, t.lm->params, &t.optim,
                          texts.tokenizer));
    ok(la_checkpoint_open(&saved, path));
    unlink(path);
    size_t holds = la_checkpoint_bytes(saved), weights = la_params_numbers(t.lm->params);
    ck_assert_uint_ge(holds, 3 * weights * sizeof(float)); /* with both moments */
    ck_assert_uint_eq(la_checkpoint_bytes(NULL), 0);

    c.max_bytes = FREE;
    ok(la_memory_plan_make(&plan, &c, &texts, &needs, 0));
    size_t fresh = la_memory_plan_peak(&plan), saving = plan.saving;
    ck_assert_uint_eq(plan.available, FREE);
    ck_assert_uint_gt(saving, holds);
    needs.saved = saved; /* resumed, it takes no more and has as much */
    ok(la_memory_plan_make(&plan, &c, &texts, &needs, 0));
    ck_assert_uint_eq(plan.available, FREE + holds);
    ck_assert_uint_eq(la_memory_plan_peak(&plan), fresh);
    needs.saves = 0; /* --eval-only */
    ok(la_memory_plan_make(&plan, &c, &texts, &needs, 0));
    ck_assert_uint_eq(la_memory_plan_peak(&plan), fresh - saving + holds);
    c.max_bytes = 0;
    ok(la_memory_plan_make(&plan, &c, &texts, &needs, 0));
    ck_assert_uint_eq(plan.available, 0); /* unknown stays so */
    c.max_bytes = 1000; /* less than the weights: still it is said what everything takes */
    ok(la_memory_plan_make(&plan, &c, &texts, &needs, 0));
    FAILS(la_memory_plan_check(&plan, &config), LA_NOMEM, "the training needs ");

    la_checkpoint_close(saved);
    la_trainer_destroy(&t);
    la_texts_close(&texts);
    la_config_free(&config);
}
END_TEST

START_TEST(the_plan_is_what_is_allocated) { /* _i: spec, objective */
    if (!goes(model_spec(_i / 2), _i % 2)) return;
    la_ids          ids = text();
    la_trainer_cfg  c = small(model_spec(_i / 2));
    la_trainer      t;
    la_evaluator    e;
    la_trainer_plan plan;
    masked(&c, _i % 2);
    c.lm.recompute = _i % 3 == 0;
    ck_assert_int_eq(la_optim_find(_i % 4 < 2 ? "adamw" : "sgd", &c.optim), LA_OK);
    ok(la_trainer_plan_of(&c, &plan));
    ok(la_trainer_create(&t, &c, &ids));
    ok(la_evaluator_create(&e, t.lm, NULL));
    size_t array = la_params_len(t.lm->params) * sizeof(la_real), slots = 0;
    for (int i = 0; i < LA_MAX_SLOT; i++) slots += t.optim.slot[i] != NULL;
    ck_assert_uint_eq(plan.model, (2 + slots) * array);
    ck_assert_uint_eq(plan.step, la_tape_bytes(t.tape) + la_tape_recorded(t.tape) + 3 * 4 * 12 * sizeof(int32_t));
    ck_assert_uint_eq(plan.evaluation,
                      la_tape_bytes(e.tape) + la_tape_recorded(e.tape) +
                          3 * (size_t)(e.rows * e.seq) * sizeof(int32_t));
    la_evaluator_destroy(&e);
    la_trainer_destroy(&t);
    c.max_bytes = plan.model + plan.step - 1;
    FAILS(la_trainer_create(&t, &c, &ids), LA_NOMEM, "MiB are free");
    c.max_bytes++;
    ok(la_trainer_create(&t, &c, &ids));
    la_trainer_destroy(&t);
}
END_TEST

START_TEST(the_first_masked_loss_is_that_of_equal_guesses) { /* of V words: [MASK] is none */
    if (!goes(model_spec(_i), 1)) return;
    la_ids         ids = text();
    la_trainer_cfg c = small(model_spec(_i));
    la_trainer     t;
    la_step        s;
    masked(&c, 1);
    ok(la_trainer_create(&t, &c, &ids));
    ok(la_trainer_step(&t, 0, &s));
    ck_assert_double_eq_tol(s.loss, log(VOCAB), 0.06); /* ln 8 is .13 more */
    la_trainer_destroy(&t);
}
END_TEST

START_TEST(a_masked_batch_hides_its_labels) {
    la_ids         ids = text();
    la_trainer_cfg c = small("elu1");
    la_trainer     t;
    int32_t        tokens[48], next[48], first[48];
    masked(&c, 1);
    ok(la_trainer_create(&t, &c, &ids));
    train_to(&t, 5, 6);
    la_loader_fill(&t.loader, 5, tokens, next);
    for (int r = 0, hidden = 0; r < 4; r++) {
        int labels = 0;
        for (int i = 12 * r; i < 12 * r + 12; i++) {
            labels += t.labels[i] != LA_NO_TARGET;
            hidden += t.tokens[i] == VOCAB;
            ck_assert_int_eq(t.labels[i] == LA_NO_TARGET ? t.tokens[i] : t.labels[i], tokens[i]);
        }
        ck_assert_int_eq(labels, 2);
        if (r == 3) ck_assert_int_gt(hidden, 3);
    }
    memcpy(first, t.labels, sizeof first);
    train_to(&t, 6, 7);
    ck_assert_mem_ne(first, t.labels, sizeof first);
    train_to(&t, 5, 6); /* f(seed, step) alone */
    ck_assert_mem_eq(first, t.labels, sizeof first);
    la_trainer_destroy(&t);
}
END_TEST

/* The mean loss over a text, one window at a time. */
static double by_hand(const la_lm *lm, const la_ids *ids) {
    double      sum = 0;
    int64_t     windows = la_eval_windows(ids->n, 12);
    la_tape    *tape;
    int32_t     tok[12], lab[12], pos[12], past = 0;
    la_shape    s = la_shape2(1, 12);
    la_lm_input in = {0};
    for (int i = 0; i < 12; i++) pos[i] = i;
    ok(la_tape_create(&tape, NULL));
    in.tokens = la_integers(tape, "tokens", s, tok);
    in.positions = la_integers(tape, "positions", s, pos);
    in.past = la_integers(tape, "past", la_shape1(1), &past);
    la_node *loss = la_keep(la_lm_loss(lm, tape, &in, la_integers(tape, "labels", s, lab)));
    ok(la_tape_seal(tape, NULL));
    for (int64_t w = 0; w < windows; w++) {
        la_eval_fill(ids, 12, w, 1, tok, lab);
        if (lm->cfg.mask_token)
            la_mask_rows(LA_EVAL_MASK_SEED, (uint64_t)w, 1, 12, VOCAB, tok, lab);
        ok(la_tape_forward(tape));
        sum += (double)*loss->x;
    }
    la_tape_destroy(tape);
    return sum / (double)windows;
}

START_TEST(evaluation_covers_the_text_and_knows_no_batch_size) { /* _i: objective */
    la_ids         ids = text(), more = long_text();
    la_trainer_cfg c = small("cosine");
    la_trainer     t;
    la_evaluator   e;
    double         all, some;
    masked(&c, _i);
    ok(la_trainer_create(&t, &c, &ids));
    train_to(&t, 0, 30);
    ok(la_evaluator_create(&e, t.lm, NULL));
    ok(la_evaluate(&e, &ids, 0, NULL, &all));
    ck_assert_double_eq_tol(all, by_hand(t.lm, &ids), 1e-5);
    ok(la_evaluate(&e, &ids, 1, NULL, &some)); /* the first replay: here all there is */
    ck_assert(la_eval_windows(ids.n, 12) <= e.rows);
    ck_assert_double_eq(some, all);
    ck_assert(la_eval_windows(more.n, 12) % e.rows); /* the last replay is not full */
    ok(la_evaluate(&e, &more, 0, NULL, &some));
    ck_assert_double_eq_tol(some, by_hand(t.lm, &more), 1e-5);
    ok(la_evaluate(&e, &ids, 0, NULL, &some)); /* nothing is left of what came before */
    ck_assert_double_eq(some, all);
    la_evaluator_destroy(&e);
    la_trainer_destroy(&t);
}
END_TEST

static int yes(void) { return 1; }

START_TEST(an_evaluation_can_be_interrupted) {
    la_ids         ids = text();
    la_trainer_cfg c = small("elu1");
    la_trainer     t;
    la_evaluator   e;
    double         loss;
    ok(la_trainer_create(&t, &c, &ids));
    ok(la_evaluator_create(&e, t.lm, NULL));
    ck_assert_int_eq(la_evaluate(&e, &ids, 0, yes, &loss), LA_STATE);
    la_evaluator_destroy(&e);
    la_trainer_destroy(&t);
}
END_TEST

/* --- sampling --- */

static int32_t likeliest(const la_real *x) {
    int32_t best = 0;
    for (int32_t v = 1; v < VOCAB; v++)
        if (x[v] > x[best]) best = v;
    return best;
}

/* Logits after the last of n tokens, from one forward pass over all of them; without learned
 * positions. */
static void full_pass(const la_lm *lm, const int32_t *tokens, int64_t n, la_real *logits) {
    la_tape    *tape;
    la_shape    shape = la_shape2(1, n);
    int32_t     past = 0;
    la_lm_input in = {0};
    ok(la_tape_create(&tape, NULL));
    in.tokens = in.positions =
        la_integers(tape, "tokens", shape, tokens); /* positions are not read */
    in.past = la_integers(tape, "past", la_shape1(1), &past);
    la_node *all = la_keep(la_lm_logits(lm, tape, &in));
    ok(la_tape_seal(tape, NULL));
    ok(la_tape_forward(tape));
    memcpy(logits, all->x + (n - 1) * VOCAB, VOCAB * sizeof *logits);
    la_tape_destroy(tape);
}

/* Greedy decoding with a carried state equals running the whole text again for each token. */
START_TEST(greedy_tokens_equal_those_of_the_full_forward_pass) {
    enum { PROMPT = 5, N = 64 };
    const char *attn = model_spec(_i);
    if (!goes(attn, 0)) return;
    la_ids         ids = text();
    la_trainer_cfg c = small(attn);
    la_trainer     t;
    la_sampler    *s;
    int32_t        seen[PROMPT + N] = {1, 4, 6, 5, 2};
    la_real        full[VOCAB];
    c.lm.pos = LA_POS_NONE;
    ok(la_trainer_create(&t, &c, &ids));
    train_to(&t, 0, 60);
    la_sampler_cfg cfg = {.temperature = 0, .top_p = 1, .capacity = PROMPT + N};
    ok(la_sampler_create(&s, t.lm, &cfg));
    ok(la_sampler_prompt(s, seen, PROMPT));
    for (int i = 0; i < N; i++) {
        const la_real *streamed = la_sampler_logits(s);
        full_pass(t.lm, seen, PROMPT + i, full);
        for (int v = 0; v < VOCAB; v++)
            ck_assert_msg(fabs((double)(full[v] - streamed[v])) < 1e-3,
                          "%s, token %d: logits %g and %g", attn, i, (double)full[v],
                          (double)streamed[v]);
        int32_t expected = likeliest(full);
        ok(la_sampler_next(s, seen + PROMPT + i));
        ck_assert_msg(seen[PROMPT + i] == expected, "%s: token %d is %d, the full pass says %d",
                      attn, i, seen[PROMPT + i], expected);
    }
    int32_t one_more;
    if (!strcmp(attn, "softmax")) ck_assert_int_eq(la_sampler_next(s, &one_more), LA_STATE);
    la_sampler_destroy(s);
    la_trainer_destroy(&t);
}
END_TEST

START_TEST(a_long_prompt_is_read_in_pieces) {
    la_ids         ids = text();
    la_trainer_cfg c = small("elu1");
    la_trainer     t;
    la_sampler    *s;
    int32_t        prompt[1200];
    la_real        full[VOCAB];
    c.lm.pos = LA_POS_ROPE;
    ok(la_trainer_create(&t, &c, &ids));
    train_to(&t, 0, 30);
    la_ids_copy(&ids, 0, 1200, prompt);
    la_sampler_cfg cfg = {.temperature = 0, .top_p = 1, .capacity = 1200};
    ok(la_sampler_create(&s, t.lm, &cfg));
    ok(la_sampler_prompt(s, prompt, 1200)); /* 512 + 512 + 176 */
    full_pass(t.lm, prompt, 1200, full);
    for (int v = 0; v < VOCAB; v++)
        ck_assert_double_eq_tol((double)la_sampler_logits(s)[v], (double)full[v], 1e-4);
    la_sampler_destroy(s);
    la_trainer_destroy(&t);
}
END_TEST

START_TEST(learned_positions_rebuild_from_the_last_half_block) {
    la_ids         ids = text();
    la_trainer_cfg c = small("softmax");
    la_trainer     t;
    la_sampler    *s, *fresh;
    int32_t        out[40] = {0}, id;
    ok(la_trainer_create(&t, &c, &ids));
    la_sampler_cfg cfg = {.temperature = 0.8, .top_k = 3, .top_p = 1, .seed = 4};
    ok(la_sampler_create(&s, t.lm, &cfg));
    ok(la_sampler_prompt(s, out, 1));
    for (int i = 1; i <= 12; i++)
        ok(la_sampler_next(s, out + i)); /* the 12th no longer fits the block of 12 */
    ck_assert_int_eq(la_sampler_rebuilt(s), 1);
    ok(la_sampler_create(&fresh, t.lm, &cfg));
    ok(la_sampler_prompt(fresh, out + 7, 6));
    for (int v = 0; v < VOCAB; v++)
        ck_assert_double_eq((double)la_sampler_logits(s)[v], (double)la_sampler_logits(fresh)[v]);
    for (int i = 0; i < 30; i++) ok(la_sampler_next(s, &id));
    la_sampler_destroy(s);
    la_sampler_destroy(fresh);
    la_trainer_destroy(&t);
}
END_TEST

START_TEST(a_model_of_the_masked_objective_writes_no_text) {
    la_ids         ids = text();
    la_trainer_cfg c = small("elu1");
    la_trainer     t;
    la_sampler    *s = (la_sampler *)&s;
    masked(&c, 1);
    ok(la_trainer_create(&t, &c, &ids));
    ck_assert_int_eq(la_sampler_create(&s, t.lm, &(la_sampler_cfg){.capacity = 9}), LA_ARG);
    ck_assert_ptr_nonnull(strstr(la_error(), "no next token"));
    ck_assert_ptr_null(s);
    la_trainer_destroy(&t);
}
END_TEST

/* --- the bigram model is convex: training must find what counting finds --- */

START_TEST(bigram_optimum_equals_the_counted_one) {
    la_ids     ids = text();
    int32_t    tokens[TEXT], *labels = tokens + 1;
    double     count[VOCAB][VOCAB] = {{0}}, row[VOCAB] = {0}, counted = 0;
    la_params *p;
    la_tape   *t;
    la_optim   o;
    la_ids_copy(&ids, 0, TEXT, tokens);
    for (int i = 0; i + 1 < TEXT; i++) count[tokens[i]][tokens[i + 1]]++, row[tokens[i]]++;
    for (int a = 0; a < VOCAB; a++)
        for (int b = 0; b < VOCAB; b++)
            if (count[a][b] > 0) counted -= count[a][b] * log(count[a][b] / row[a]) / (TEXT - 1);
    ok(la_params_create(&p));
    la_param w = la_params_add(p, "table", la_shape2(VOCAB, VOCAB), LA_INIT_NORMAL, 0.02);
    ok(la_params_alloc(p, 1, 1));
    ok(la_tape_create(&t, &(la_tape_cfg){.grad = 1}));
    la_shape s = la_shape1(TEXT - 1);
    la_node *logits = la_embedding(t, la_integers(t, "tokens", s, tokens), la_param_node(t, p, w));
    la_node *loss = la_cross_entropy(t, logits, la_integers(t, "labels", s, labels));
    ok(la_tape_seal(t, loss));
    ok(la_optim_create(&o, la_optims[0], &(la_optim_cfg){0.9, 0.99, 1e-8, 0}, p));
    for (int i = 0; i < 800; i++) {
        ok(la_tape_forward(t));
        ok(la_tape_backward(t, 1));
        la_optim_step(&o, i < 500 ? 0.05 : 0.002, 1);
    }
    ok(la_tape_forward(t));
    ck_assert_double_eq_tol((double)*loss->x, counted, 1e-4);
    la_optim_destroy(&o);
    la_tape_destroy(t);
    la_params_destroy(p);
}
END_TEST

/* --- pictures --- */

/* Two tokens and one matrix; has: what must stand in it, NULL-terminated; without: what must not.
 */
static void picture(const la_real w[4], const char *const has[], const char *without) {
    const char *const       tokens[] = {"<", " "};
    const la_picture_matrix m = {.title = "layer 0 head 0", .variant = "a&b", .w = w, .ld = 2};
    la_picture              p = {.T = 2,
                                 .rows = 1,
                                 .columns = 1,
                                 .matrix = &m,
                                 .tokens = tokens,
                                 .line = {"one", "two\xff", "three"}};
    char                   *svg;
    size_t                  n;
    OK(la_picture_svg(&p, &svg, &n));
    ck_assert_uint_eq(strlen(svg), n);
    for (int i = 0; has[i]; i++) ck_assert_msg(strstr(svg, has[i]) != NULL, "no %s", has[i]);
    ck_assert_msg(!strstr(svg, without), "there is %s", without);
    free(svg);
}

/* Of 1: the darkest; -1/4: half way to the darkest orange; 1/16: half way from white to the middle.
 */
START_TEST(a_shade_is_the_square_root_of_a_weight) {
    picture((la_real[]){1, 0, R(-0.25), R(0.0625)},
            (const char *const[]){"<path stroke=\"#08306b\" d=\"M0 0h1\"/>",
                                  "<path stroke=\"#f16913\" d=\"M0 1h1\"/>",
                                  "<path stroke=\"#a1c9e3\" d=\"M1 1h1\"/>", "below 0",
                                  "a&amp;b, largest 1<", ">&lt;</text>", ">\u00b7</text>",
                                  ">two\ufffd</text>", NULL},
            "M1 0");
    picture((la_real[]){3, 3, 0, 3},
            (const char *const[]){"d=\"M0 0h2M1 1h1\"/>", "largest 3<", NULL}, "below 0");
    picture((la_real[]){0, 0, 0, 0}, (const char *const[]){"largest 0<", NULL}, "<path");
}
END_TEST

START_TEST(a_picture_of_many_tokens_is_a_sentence) {
    la_picture p = {.T = LA_PICTURE_TOKENS + 1};
    char      *svg = (char *)&svg;
    size_t     n;
    FAILS(la_picture_svg(&p, &svg, &n), LA_ARG, "1 to 256 tokens, and not 257");
    ck_assert_ptr_null(svg);
}
END_TEST

int main(void) {
    const int variants = model_specs();
    Suite    *suite = suite_create("train");
    TCase    *report = tcase_create("report"), *step = tcase_create("step"),
          *sample = tcase_create("sample"), *drawn = tcase_create("pictures");
    tcase_add_test(report, rate_is_the_median_without_the_first_step_and_evaluations);
    tcase_add_test(report, rate_forgets_old_steps);
    tcase_add_test(report, times_are_readable);
    tcase_add_test(report, metrics_lines);
    tcase_add_loop_test(step, weights_are_bitwise_equal_at_any_number_of_threads, 0, 2 * variants);
    tcase_add_loop_test(step, accumulated_gradient_is_that_of_the_larger_batch, 0, 2);
    tcase_add_loop_test(step, one_batch_is_overfitted, 0, 2);
    tcase_add_loop_test(step, the_first_masked_loss_is_that_of_equal_guesses, 0, variants);
    tcase_add_test(step, a_masked_batch_hides_its_labels);
    tcase_add_test(step, a_nan_stops_the_step_and_is_named_and_nothing_is_updated);
    tcase_add_loop_test(step, a_step_that_was_not_finite_leaves_nothing, 0, 2);
    tcase_add_test(step, what_to_do_about_a_number_that_is_not_finite);
    tcase_add_test(step, a_loss_spike_is_told_once_in_a_hundred_steps);
    tcase_add_test(step, what_does_not_fit_is_refused);
    tcase_add_test(step, an_open_checkpoint_is_memory_that_comes_back);
    tcase_add_loop_test(step, the_plan_is_what_is_allocated, 0, 2 * variants);
    tcase_add_loop_test(step, evaluation_covers_the_text_and_knows_no_batch_size, 0, 2);
    tcase_add_test(step, an_evaluation_can_be_interrupted);
    tcase_add_test(step, bigram_optimum_equals_the_counted_one);
    tcase_add_loop_test(sample, greedy_tokens_equal_those_of_the_full_forward_pass, 0, variants);
    tcase_add_test(sample, a_long_prompt_is_read_in_pieces);
    tcase_add_test(sample, learned_positions_rebuild_from_the_last_half_block);
    tcase_add_test(sample, a_model_of_the_masked_objective_writes_no_text);
    tcase_add_test(drawn, a_shade_is_the_square_root_of_a_weight);
    tcase_add_test(drawn, a_picture_of_many_tokens_is_a_sentence);
    TCase *cases[] = {report, step, sample, drawn};
    for (int i = 0; i < 4; i++) {
        tcase_set_timeout(cases[i], 120);
        suite_add_tcase(suite, cases[i]);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
