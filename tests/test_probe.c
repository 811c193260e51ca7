/* test_probe.c -- what is measured on a trained model, against the same by hand and against models
 * whose answer is known. */
#include "models.h"

#include "data/masking.h"
#include "train/bench.h"
#include "train/compare/probe.h"
#include "train/picture.h"
#include "train/show.h"
#include "train/trainer.h"
#include "train/weights.h"

enum { TEXT = 1500, VOCAB = 7, BLOCK = 12 };

static la_ids text(void) {
    static uint8_t ids[TEXT];
    for (int i = 0; i < TEXT; i++)
        ids[i] = (uint8_t)la_rng_below(6, la_rng_stream(LA_RNG_TEST, 1), (uint64_t)i, VOCAB);
    return (la_ids){ids, 1, TEXT};
}

static la_lm_cfg small(const char *attn) {
    return (la_lm_cfg){.vocab = VOCAB,
                       .dim = 16,
                       .layers = 2,
                       .heads = 2,
                       .block_size = BLOCK,
                       .pos = LA_POS_NONE,
                       .attn = pattern_of(attn, 1e-6)};
}

/* Weights so large that positions, heads and tokens differ. */
static la_lm *model_of(const la_lm_cfg *cfg) {
    la_lm *lm;
    OK(la_lm_create(&lm, cfg, 3, 0));
    la_real *x = la_params_x(lm->params);
    for (la_param i = 0; i < la_params_count(lm->params); i++)
        if (!la_param_frozen(lm->params, i))
            fill_normal(la_len(la_param_shape(lm->params, i)), 0.3, (uint32_t)i,
                        x + la_param_offset(lm->params, i));
    return lm;
}

static la_lm *model(const char *attn) {
    la_lm_cfg cfg = small(attn);
    return model_of(&cfg);
}

/* --- loss by position --- */

/* The loss of the last of the n first tokens of a window, from a pass over these alone. */
static double loss_after(const la_lm *lm, const int32_t *window, int64_t n) {
    la_tape    *tape;
    int32_t     past = 0;
    la_shape    shape = la_shape2(1, n);
    la_lm_input in = {0};
    OK(la_tape_create(&tape, NULL));
    in.tokens = in.positions = la_integers(tape, "tokens", shape, window);
    in.past = la_integers(tape, "past", la_shape1(1), &past);
    la_node *y = la_keep(la_lm_logits(lm, tape, &in));
    OK(la_tape_seal(tape, NULL));
    OK(la_tape_forward(tape));
    const la_real *x = y->x + (n - 1) * VOCAB;
    double         sum = 0, loss;
    for (int v = 0; v < VOCAB; v++) sum += exp((double)x[v]);
    loss = log(sum) - (double)x[window[n]];
    la_tape_destroy(tape);
    return loss;
}

START_TEST(loss_by_position_is_that_of_the_tokens_before_it) { /* _i: times block_size - 1 */
    const int64_t      times = _i + 1, length = times * BLOCK, most = 150;
    la_ids             ids = text();
    la_lm             *lm = model("elu1/softmax");
    la_probe_positions p;
    OK(la_probe_loss_by_position(lm, &ids, times, most, &p));
    ck_assert_str_eq(p.refused, "");
    ck_assert_int_eq(p.length, length);
    ck_assert_int_eq(p.windows, most / length);
    ck_assert_int_eq(p.from[0], 0);
    for (int b = 0; b < p.n; b++) {
        double sum = 0;
        ck_assert_int_eq(p.from[b], b ? p.to[b - 1] : 0);
        ck_assert_int_eq(p.to[b], b + 1 < p.n ? (int64_t)1 << b : length);
        for (int64_t w = 0; w < p.windows; w++)
            for (int64_t t = p.from[b]; t < p.to[b]; t++) {
                int32_t window[64];
                la_ids_copy(&ids, w * length, t + 2, window);
                sum += loss_after(lm, window, t + 1);
            }
        ck_assert_double_eq_tol(p.loss[b], sum / (double)(p.windows * (p.to[b] - p.from[b])), 1e-5);
    }
    la_lm_destroy(lm);
}
END_TEST

START_TEST(its_mean_over_a_window_is_the_loss_of_an_evaluation) { /* _i: causal_spec */
    la_ids             ids = text();
    la_lm             *lm = model(causal_spec(_i));
    la_evaluator       e;
    la_probe_positions p;
    double             loss, sum = 0;
    OK(la_evaluator_create(&e, lm, NULL));
    OK(la_evaluate(&e, &ids, 0, NULL, &loss));
    OK(la_probe_loss_by_position(lm, &ids, 1, 0, &p));
    ck_assert_double_eq_tol(p.mean, loss, 2e-6 * loss);
    for (int b = 0; b < p.n; b++) sum += p.loss[b] * (double)(p.to[b] - p.from[b]);
    ck_assert_double_eq_tol(sum / BLOCK, p.mean, 1e-12);
    la_evaluator_destroy(&e);
    la_lm_destroy(lm);
}
END_TEST

START_TEST(rows_that_do_not_fill_a_pass_count_as_nothing) { /* a pass has 341 windows of 12 */
    static uint8_t     many[5000];
    la_ids             ids = {many, 1, sizeof many};
    la_lm             *lm = model("elu1");
    la_evaluator       e;
    la_probe_positions p;
    double             loss;
    for (size_t i = 0; i < sizeof many; i++) many[i] = (uint8_t)(i * i % VOCAB);
    OK(la_evaluator_create(&e, lm, NULL));
    OK(la_evaluate(&e, &ids, 0, NULL, &loss));
    OK(la_probe_loss_by_position(lm, &ids, 1, 0, &p));
    ck_assert_int_eq(p.windows, 416);
    ck_assert_double_eq_tol(p.mean, loss, 2e-6 * loss);
    la_evaluator_destroy(&e);
    la_lm_destroy(lm);
}
END_TEST

static void is_refused(const la_lm_cfg *cfg, int64_t times, int64_t most, const char *why) {
    la_ids             ids = text();
    la_lm             *lm = model_of(cfg);
    la_probe_positions p;
    OK(la_probe_loss_by_position(lm, &ids, times, most, &p));
    ck_assert_msg(strstr(p.refused, why) != NULL, "\"%s\" is not in: %s", why, p.refused);
    ck_assert_int_eq(p.n, 0);
    json_t *row = la_probe_positions_json(&p);
    ck_assert_str_eq(json_string_value(json_object_get(row, "refused")), p.refused);
    ck_assert_int_eq(json_array_size(json_object_get(row, "loss")), 0);
    json_decref(row);
    la_lm_destroy(lm);
}

START_TEST(what_cannot_be_read_is_refused_with_the_reason) {
    la_lm_cfg learned = small("elu1"), places = small("cosformer"), masked = small("elu1");
    learned.pos = LA_POS_LEARNED;
    masked.bidirectional = masked.mask_token = 1;
    is_refused(&learned, 4, 0, "learned positions of the model end at --block-size 12; with --pos");
    is_refused(&places, 4, 0, "weighs places and ends at 12 tokens; its option length=48");
    is_refused(&masked, 1, 0, "--objective=mlm");
    is_refused(&places, 1, 11, "the validation text has 12, and a window with the token after it");
}
END_TEST

START_TEST(learned_positions_are_read_up_to_the_block) {
    la_lm_cfg cfg = small("elu1");
    cfg.pos = LA_POS_LEARNED;
    la_ids             ids = text();
    la_lm             *lm = model_of(&cfg);
    la_evaluator       e;
    la_probe_positions p;
    double             loss;
    OK(la_evaluator_create(&e, lm, NULL));
    OK(la_evaluate(&e, &ids, 0, NULL, &loss));
    OK(la_probe_loss_by_position(lm, &ids, 1, 0, &p));
    ck_assert_double_eq_tol(p.mean, loss, 2e-6 * loss);
    la_evaluator_destroy(&e);
    la_lm_destroy(lm);
}
END_TEST

START_TEST(positions_as_json) {
    la_probe_positions p = {.times = 4, .length = 3, .n = 2, .from = {0, 1}, .to = {1, 3}};
    p.loss[0] = 1.5;
    p.loss[1] = NAN;
    json_t *row = la_probe_positions_json(&p);
    char   *s = json_dumps(row, JSON_SORT_KEYS);
    ck_assert_str_eq(s, "{\"from\": [0, 1], \"length\": 3, \"loss\": [1.5, null], \"refused\": "
                        "\"\", \"times\": 4, \"to\": [1, 3]}");
    free(s);
    json_decref(row);
}
END_TEST

/* --- entropy --- */

static void zero(la_lm *lm, const char *name) {
    la_param i = la_param_find(lm->params, name);
    ck_assert_int_ge(i, 0);
    memset(la_params_x(lm->params) + la_param_offset(lm->params, i), 0,
           (size_t)la_len(la_param_shape(lm->params, i)) * sizeof(la_real));
}

/* Of positions 1 .. 11 that see all before them and themselves. */
static double uniform(void) {
    double sum = 0;
    for (int t = 1; t < BLOCK; t++) sum += log(t + 1);
    return sum / (BLOCK - 1);
}

START_TEST(equal_weights_have_the_entropy_of_equal_weights) {
    la_ids         ids = text();
    la_lm         *lm = model("elu1@1+softmax@1/none");
    la_probe_heads h;
    zero(lm, "transformer.h.0.attn.c_attn.weight"); /* all queries and keys are equal */
    OK(la_probe_entropy(lm, "elu1@1+softmax@1/none", &ids, 8, &h));
    ck_assert_int_eq(h.n, 2);
    for (int k = 0; k < 2; k++) {
        const la_probe_head *x = h.head + k;
        ck_assert_int_eq(x->layer, 0);
        ck_assert_int_eq(x->head, k);
        ck_assert_int_eq(x->rows, 8 * (BLOCK - 1));
        ck_assert_double_eq_tol(x->uniform, uniform(), 1e-12);
        ck_assert_double_eq_tol(x->mean, x->uniform, 1e-5);
        ck_assert_double_eq(x->negative, 0);
    }
    json_t *rows = la_probe_heads_json(&h), *row = json_array_get(rows, 1);
    ck_assert_int_eq(json_array_size(rows), 2);
    ck_assert_int_eq(json_object_size(row), 6);
    ck_assert_str_eq(json_string_value(json_object_get(row, "attn")), "softmax");
    ck_assert_double_eq(json_real_value(json_object_get(row, "mean")), h.head[1].mean);
    json_decref(rows);
    la_probe_heads_free(&h);
    la_lm_destroy(lm);
}
END_TEST

START_TEST(a_window_of_one_key_has_none) {
    la_ids         ids = text();
    la_lm         *lm = model("window:w=1");
    la_probe_heads h;
    OK(la_probe_entropy(lm, "window:w=1", &ids, 8, &h));
    ck_assert_int_eq(h.n, 4);
    for (int64_t k = 0; k < h.n; k++) {
        ck_assert_double_eq_tol(h.head[k].mean, 0, 1e-12);
        ck_assert_double_eq_tol(h.head[k].uniform, uniform(), 1e-12);
        ck_assert_int_eq(h.head[k].layer, k / 2);
        ck_assert_int_eq(h.head[k].attn_len, 10);
    }
    la_probe_heads_free(&h);
    la_lm_destroy(lm);
}
END_TEST

START_TEST(a_model_without_attention_has_no_entry) {
    la_ids         ids = text();
    la_lm         *lm = model("none");
    la_probe_heads h;
    OK(la_probe_entropy(lm, "none", &ids, 8, &h));
    ck_assert_int_eq(h.n, 0);
    la_lm_destroy(lm);
}
END_TEST

/* By definition, from the weights themselves, of windows 0, 15, 31, ...: 125 there are. */
START_TEST(entropy_is_the_mean_over_rows_of_spread_windows) { /* _i: objective */
    static const char *const specs[] = {"rff:m=4/cosine", "rff:m=4/sigmoid"};
    la_ids                   ids = text();
    la_lm_cfg                cfg = small(specs[_i]);
    la_probe_heads           h;
    la_weights               w;
    int32_t                  labels[BLOCK];
    cfg.bidirectional = cfg.mask_token = _i;
    la_lm *lm = model_of(&cfg);
    OK(la_probe_entropy(lm, specs[_i], &ids, 8, &h));
    OK(la_weights_create(&w, lm, BLOCK, 0));
    ck_assert_int_eq(h.n, 4);
    double mean[4] = {0}, below[4] = {0}, seen[4] = {0};
    for (int i = 0; i < 8; i++) {
        const int64_t window = i * 125 / 8;
        la_ids_copy(&ids, window * BLOCK, BLOCK, w.tokens);
        if (_i)
            la_mask_rows(LA_EVAL_MASK_SEED, (uint64_t)window, 1, BLOCK, VOCAB, w.tokens, labels);
        OK(la_weights_compute(&w));
        for (int k = 0; k < 4; k++)
            for (int t = 1; t < BLOCK; t++) {
                la_weights_head x = la_weights_of(&w, k / 2, k % 2);
                const la_real  *row = x.w + t * x.ld;
                double          sum = 0;
                for (int j = 0; j < BLOCK; j++) sum += fabs((double)row[j]);
                for (int j = 0; j < BLOCK; j++) {
                    double p = fabs((double)row[j]) / sum;
                    mean[k] -= p == 0 ? 0 : p * log(p) / 88;
                    below[k] += row[j] < 0 ? p / 88 : 0;
                }
                seen[k] += log(_i ? BLOCK : t + 1) / 88;
            }
    }
    for (int k = 0; k < 4; k++) {
        ck_assert_double_eq_tol(h.head[k].mean, mean[k], 1e-12);
        ck_assert_double_eq_tol(h.head[k].negative, below[k], 1e-12);
        ck_assert_double_eq_tol(h.head[k].uniform, seen[k], 1e-12);
        ck_assert_double_gt(mean[k], 0.1);
    }
    ck_assert_double_gt(below[0] + below[1], 0); /* random features: of either sign */
    ck_assert_double_eq(below[2] + below[3], 0);
    la_weights_destroy(&w);
    la_probe_heads_free(&h);
    la_lm_destroy(lm);
}
END_TEST

START_TEST(entropy_is_refused_of_less_than_a_window) {
    la_ids         ids = text();
    la_lm         *lm = model("elu1");
    la_probe_heads h;
    ids.n = BLOCK - 1;
    FAILS(la_probe_entropy(lm, "elu1", &ids, 8, &h), LA_DATA, "has 11 tokens");
    ck_assert_ptr_null(h.head);
    la_lm_destroy(lm);
}
END_TEST

/* --- a sample, a picture, a cost --- */

START_TEST(a_sample_is_the_prompt_and_200_tokens_as_utf8) {
    la_lm_cfg     cfg = small("elu1");
    la_tokenizer *k;
    la_text       none = la_text_of("nothing", "", 0);
    char         *a, *b;
    cfg.vocab = 256; /* bytes, so that most of it is no UTF-8 */
    la_lm *lm = model_of(&cfg);
    OK(la_tokenizer_create(&k, "byte", none));
    OK(la_probe_sample(lm, k, "And", 5, &a));
    OK(la_probe_sample(lm, k, "And", 5, &b));
    ck_assert_str_eq(a, b);
    ck_assert(!strncmp(a, "And", 3));
    ck_assert_ptr_nonnull(strstr(a, "\xEF\xBF\xBD"));
    int64_t letters = la_utf8_count(a, (int64_t)strlen(a));
    ck_assert_int_le(letters, 203);
    ck_assert_int_gt(letters, 150); /* some bytes may meet and be one character */
    json_t *json = json_string(a);
    ck_assert_ptr_nonnull(json);
    json_decref(json);
    free(a);
    free(b);
    la_lm_destroy(lm);
    cfg.bidirectional = cfg.mask_token = 1;
    lm = model_of(&cfg);
    ck_assert_int_eq(la_probe_sample(lm, k, "And", 5, &a), LA_ARG);
    ck_assert_ptr_null(a);
    la_lm_destroy(lm);
    la_tokenizer_destroy(k);
}
END_TEST

START_TEST(a_picture_without_a_file) {
    la_lm_cfg     cfg = small("elu1");
    la_tokenizer *k;
    la_showing    what = {.checkpoint = "best.h5", .attn = "elu1", .objective = "causal"};
    char         *svg, too_long[LA_PICTURE_TOKENS + 2];
    size_t        n;
    cfg.vocab = 256;
    la_lm *lm = model_of(&cfg);
    OK(la_tokenizer_create(&k, "byte", la_text_of("nothing", "", 0)));
    what.prompt = "And God";
    OK(la_show_svg(lm, k, &what, &svg, &n));
    ck_assert_int_eq(strlen(svg), n);
    ck_assert_ptr_nonnull(strstr(svg, "layer 1 head 1"));
    ck_assert(!strcmp(svg + n - 7, "</svg>\n"));
    free(svg);
    what.prompt = "";
    FAILS(la_show_svg(lm, k, &what, &svg, &n), LA_ARG, "is of a text");
    memset(too_long, 'a', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = 0;
    what.prompt = too_long;
    FAILS(la_show_svg(lm, k, &what, &svg, &n), LA_ARG, "1 to 256 tokens");
    la_tokenizer_destroy(k);
    la_lm_destroy(lm);
}
END_TEST

START_TEST(costs_are_counted) {
    la_lm        *lm = model("softmax");
    la_probe_cost c = la_probe_cost_of(lm, 4, 0);
    ck_assert_int_eq(c.parameters, la_params_numbers(lm->params));
    ck_assert_int_eq(c.frozen, 0);
    ck_assert_int_eq(c.tokens_per_step, 48);
    ck_assert_uint_eq(c.state_bytes, 2 * (2 * 16 * BLOCK) * sizeof(la_real)); /* keys, values */
    /* a block: c_attn 3, c_proj 1, MLP 8 times 16^2; wte.  Pairs: 78 a head, 2 + 5 products of 2 D
     * for each */
    double weights = 2 * 12 * 16 * 16 + VOCAB * 16;
    ck_assert_double_eq_tol(c.flops_per_step, 6 * weights * 48 + 4 * 4 * 78 * 7 * 2 * 8, 1e-6);
    /* of a task: the logits, wte, of 3 tokens of each of the 4 rows and not of all 48 */
    c = la_probe_cost_of(lm, 4, 3);
    double head = VOCAB * 16, body = weights - head;
    ck_assert_double_eq_tol(c.flops_per_step, 6 * (body * 48 + head * 12) + 4 * 4 * 78 * 7 * 2 * 8,
                            1e-6);
    la_lm_destroy(lm);
    lm = model("taylor2"); /* 12 tokens, 45 features: pair by pair, as softmax */
    ck_assert_double_eq_tol(la_probe_cost_of(lm, 4, 0).flops_per_step,
                            6 * weights * 48 + 4 * 4 * 78 * 7 * 2 * 8, 1e-6);
    la_lm_destroy(lm);
    lm = model("taylor2:decay=0.9"); /* with each feature */
    ck_assert_double_eq_tol(la_probe_cost_of(lm, 4, 0).flops_per_step,
                            6 * weights * 48 + 4 * 4 * 12 * 14 * 45 * 8, 1e-6);
    la_lm_destroy(lm);
    lm = model("favor:m=8");
    ck_assert_int_eq(la_probe_cost_of(lm, 4, 0).frozen, la_params_frozen_numbers(lm->params));
    ck_assert_int_gt(la_probe_cost_of(lm, 4, 0).frozen, 0);
    la_lm_destroy(lm);
    la_lm_cfg both = small("softmax");
    both.bidirectional = both.mask_token = 1;
    lm = model_of(&both);
    c = la_probe_cost_of(lm, 4, 0);
    ck_assert_uint_eq(c.state_bytes, 0);
    /* [MASK] is no word to predict; 12^2 pairs a head */
    ck_assert_double_eq_tol(c.flops_per_step, 6 * weights * 48 + 4 * 4 * 144 * 7 * 2 * 8, 1e-6);
    la_lm_destroy(lm);
}
END_TEST

int main(void) {
    Suite *s = suite_create("probe");
    TCase *c = add_case(s, "models");
    tcase_add_loop_test(c, loss_by_position_is_that_of_the_tokens_before_it, 0, 4);
    tcase_add_loop_test(c, its_mean_over_a_window_is_the_loss_of_an_evaluation, 0, causal_specs());
    tcase_add_test(c, rows_that_do_not_fill_a_pass_count_as_nothing);
    tcase_add_test(c, what_cannot_be_read_is_refused_with_the_reason);
    tcase_add_test(c, learned_positions_are_read_up_to_the_block);
    tcase_add_test(c, positions_as_json);
    tcase_add_test(c, equal_weights_have_the_entropy_of_equal_weights);
    tcase_add_test(c, a_window_of_one_key_has_none);
    tcase_add_test(c, a_model_without_attention_has_no_entry);
    tcase_add_loop_test(c, entropy_is_the_mean_over_rows_of_spread_windows, 0, 2);
    tcase_add_test(c, entropy_is_refused_of_less_than_a_window);
    tcase_add_test(c, a_sample_is_the_prompt_and_200_tokens_as_utf8);
    tcase_add_test(c, a_picture_without_a_file);
    tcase_add_test(c, costs_are_counted);
    return run_suite(s);
}
