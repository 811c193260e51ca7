/* test_leak.c -- whole models trained on fresh uniformly random characters: there is nothing to
 * learn, so a loss below ln V can only come from the future.
 *
 * 500 steps on texts that are never seen twice.  The mean training loss of the last 100 steps and
 * the loss of 100 further texts must stay at .995 ln V or above, for every causal attention of
 * models.h and with a short convolution; a model that does see the next token must not pass. */
#include "models.h"

#include "optim/optim.h"

enum { VOCAB = 65, B = 8, T = 40, STEPS = 500, LAST = 100 };

static const double LEAST = 0.995;

typedef struct run {
    la_lm   *lm;
    la_tape *tape;
    la_node *loss;
    la_optim optim;
    int32_t  tokens[B * T], labels[B * T], positions[B * T], past;
} run;

static void begin(run *r, const char *spec, int short_conv, int leaky) {
    la_lm_cfg           cfg = {.vocab = VOCAB,
                               .dim = 32,
                               .layers = 2,
                               .heads = 2,
                               .block_size = T,
                               .short_conv = short_conv,
                               .bidirectional = leaky,
                               .attn = pattern_of(spec, 1e-6)};
    const la_optim_def *adamw;
    *r = (run){0};
    for (int i = 0; i < B * T; i++) r->positions[i] = i % T;
    OK(la_lm_create(&r->lm, &cfg, 1, 1));
    OK(la_optim_find("adamw", &adamw));
    OK(la_optim_create(&r->optim, adamw, &(la_optim_cfg){0.9, 0.99, 1e-8, 0.1}, r->lm->params));
    OK(la_tape_create(&r->tape, &(la_tape_cfg){.grad = 1}));
    la_shape    s = la_shape2(B, T);
    la_lm_input in = {.tokens = la_integers(r->tape, "tokens", s, r->tokens),
                      .positions = la_integers(r->tape, "positions", s, r->positions),
                      .past = la_integers(r->tape, "past", la_shape1(1), &r->past)};
    r->loss = la_lm_loss(r->lm, r->tape, &in, la_integers(r->tape, "labels", s, r->labels));
    OK(la_tape_seal(r->tape, r->loss));
}

static void end(run *r) {
    la_tape_destroy(r->tape);
    la_optim_destroy(&r->optim);
    la_lm_destroy(r->lm);
}

/* The loss of batch `number` of an endless random text. */
static double fresh_loss(run *r, int number) {
    for (int b = 0; b < B; b++)
        for (int t = 0; t <= T; t++) {
            uint64_t at = (uint64_t)((number * B + b) * (T + 1) + t);
            int32_t  id = (int32_t)la_rng_below(9, la_rng_stream(LA_RNG_TEST, 7), at, VOCAB);
            if (t < T) r->tokens[b * T + t] = id;
            if (t > 0) r->labels[b * T + t - 1] = id;
        }
    OK(la_tape_forward(r->tape));
    return (double)*r->loss->x;
}

/* The mean loss over the last steps, and over texts after them. */
static void train(const char *spec, int short_conv, int leaky, double *training,
                  double *validation) {
    run r;
    *training = *validation = 0;
    begin(&r, spec, short_conv, leaky);
    for (int i = 0; i < STEPS; i++) {
        double loss = fresh_loss(&r, i);
        OK(la_tape_backward(r.tape, 1));
        la_optim_step(&r.optim, 3e-3, la_clip_scale(la_grad_norm(r.lm->params), 1));
        if (i >= STEPS - LAST) *training += loss / LAST;
    }
    for (int i = 0; i < LAST; i++) *validation += fresh_loss(&r, STEPS + i) / LAST;
    end(&r);
}

static void sees_nothing(const char *spec, int short_conv) {
    double training, validation, least = LEAST * log(VOCAB);
    if (SANITIZED && strcmp(spec, "softmax")) return; /* what it learns is the same */
    train(spec, short_conv, 0, &training, &validation);
    ck_assert_msg(training >= least && validation >= least,
                  "%s%s: loss %.4f in training and %.4f after it, below %.4f: it sees the future",
                  spec, short_conv ? " behind a convolution" : "", training, validation, least);
    ck_assert_msg(training < 1.05 * log(VOCAB), "%s: it did not train: %.4f", spec, training);
}

START_TEST(random_characters_teach_nothing) { sees_nothing(causal_spec(_i), 0); }
END_TEST

/* Variants that are tried with options for tiny texts, with their usual ones. */
START_TEST(nor_with_the_usual_options) {
    const la_attn *a = la_attns[_i];
    if (a->tiny && !a->not_causal) sees_nothing(a->name, 0);
}
END_TEST

START_TEST(nor_behind_a_short_convolution) { sees_nothing("elu1", 4); }
END_TEST

START_TEST(a_model_that_sees_the_next_token_is_caught) {
    double training, validation;
    train("softmax", 0, 1, &training, &validation);
    ck_assert_msg(training < LEAST * log(VOCAB) && validation < LEAST * log(VOCAB),
                  "a model that sees the future has losses of %.4f and %.4f: this test cannot fail",
                  training, validation);
}
END_TEST

int main(void) {
    Suite *s = suite_create("leak");
    TCase *c = add_case(s, "leak");
    tcase_add_loop_test(c, random_characters_teach_nothing, 0, causal_specs());
    int variants = 0;
    while (la_attns[variants]) variants++;
    tcase_add_loop_test(c, nor_with_the_usual_options, 0, variants);
    tcase_add_test(c, nor_behind_a_short_convolution);
    tcase_add_test(c, a_model_that_sees_the_next_token_is_caught);
    return run_suite(s);
}
