/* test_ngram.c -- counting models against the definition, fractions by hand, and what must hold of
 * any probabilities. */
#include <stdbool.h>

#include "testing.h"

#include "data/ngram.h"

/* --- texts --- */

enum { ROOM = 200000 };
static int32_t train_ids[ROOM], valid_ids[ROOM];

static la_ids view(const int32_t *ids, int64_t n) { return (la_ids){ids, 4, n}; }

static void draw(int32_t *ids, int64_t n, int vocab,
                 uint32_t which) { /* more small ids than large */
    for (int64_t i = 0; i < n; i++) {
        double u = (1 + test_uniform(which, i)) / 2;
        ids[i] = (int32_t)(u * u * vocab);
    }
}

static la_ngram *count(const int32_t *ids, int64_t n, int64_t vocab, int order) {
    la_ngram *g;
    la_ids    text = view(ids, n);
    OK(la_ngram_create(&g, &text, vocab, order));
    return g;
}

static double loss_of(const la_ngram *g, int order, const int32_t *ids, int64_t n, int64_t first,
                      int64_t targets) {
    double loss;
    la_ids text = view(ids, n);
    OK(la_ngram_loss(g, order, &text, first, targets, &loss));
    return loss;
}

/* p(ids[n - 1] | the tokens before it) */
static double p_last(const la_ngram *g, int order, const int32_t *ids, int64_t n) {
    return exp(-loss_of(g, order, ids, n, n - 1, 1));
}

/* --- the definition: the text is searched for every count --- */

static int64_t times(const int32_t *text, int64_t n, const int32_t *s, int64_t len) {
    int64_t found = 0;
    for (int64_t i = 0; i + len <= n; i++)
        found += memcmp(text + i, s, (size_t)len * sizeof *s) == 0;
    return found;
}

/* p(h[k] | h[0 .. k-1]) of order k + 1 */
static double defined(const int32_t *text, int64_t n, int64_t vocab, const int32_t *h, int64_t k) {
    double  shorter = k ? defined(text, n, vocab, h + 1, k - 1) : 1 / (double)vocab;
    int64_t follow = 0, types = 0;
    for (int64_t i = 0; i + k < n; i++) { /* h, and at i + k what follows it */
        if (memcmp(text + i, h, (size_t)k * sizeof *h) != 0) continue;
        follow++;
        bool first = true; /* the first time that this one does? */
        for (int64_t j = 0; j < i && first; j++)
            first = memcmp(text + j, text + i, (size_t)(k + 1) * sizeof *h) != 0;
        types += first;
    }
    if (follow == 0) return shorter;
    return ((double)times(text, n, h, k + 1) + (double)types * shorter) / (double)(follow + types);
}

/* -ln p of token i of a text that has its own tokens before it */
static double defined_loss(int64_t n, int64_t vocab, int order, int64_t i) {
    if (order == 0) return log((double)vocab);
    int64_t k = i < order - 1 ? i : order - 1;
    return -log(defined(train_ids, n, vocab, valid_ids + i - k, k));
}

static void near(double x, double wanted, double tolerance) {
    ck_assert_msg(fabs(x - wanted) <= tolerance * fabs(wanted), "%.17g and not %.17g", x, wanted);
}

/* --- tests --- */

/* a b a c a b b a c b, and d that never occurs: V = 4 */
static const int32_t ten[] = {0, 1, 0, 2, 0, 1, 1, 0, 2, 1};

START_TEST(ten_tokens_give_these_fractions) {
    la_ngram *g = count(ten, 10, 4, 3);
    const struct {
        int     order, n;
        int32_t s[3];
        double  p;
    } cases[] = {
        {0, 1, {2}, 1. / 4},
        {1, 1, {0}, 19. / 52}, /* (4 + 3/4) / (10 + 3) */
        {1, 1, {2}, 11. / 52},
        {1, 1, {3}, 3. / 52},
        {2, 2, {0, 1}, 71. / 156},     /* (2 + 2 x 19/52) / (4 + 2) */
        {2, 2, {0, 3}, 1. / 52},       /* 2 x 3/52 / (4 + 2) */
        {2, 2, {1, 1}, 9. / 26},       /* (1 + 2 x 19/52) / (3 + 2): nothing follows the last b */
        {2, 2, {1, 0}, 71. / 130},     /* (2 + 2 x 19/52) / (3 + 2) */
        {2, 2, {3, 0}, 19. / 52},      /* d never occurred */
        {3, 3, {0, 1, 0}, 34. / 65},   /* (1 + 2 x 71/130) / (2 + 2) */
        {3, 3, {1, 1, 0}, 201. / 260}, /* (1 + 71/130) / (1 + 1) */
        {3, 3, {2, 1, 0}, 71. / 130},  /* c b is the end: nothing follows it */
        {3, 3, {1, 2, 0}, (1 + 2 * 19. / 52) / 4}, /* b c never occurred, c did */
        {3, 3, {0, 3, 0}, 19. / 52},
        {3, 2, {0, 1}, 71. / 156}, /* a context of one token at the beginning */
        {3, 1, {0}, 19. / 52},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        near(p_last(g, cases[i].order, cases[i].s, cases[i].n), cases[i].p, 1e-15);
    const int32_t aba[] = {0, 1, 0};
    near(loss_of(g, 2, aba, 3, 1, 2), -log(71. / 156 * 71 / 130) / 2, 1e-15);
    near(loss_of(g, 3, aba, 3, 1, 2), -log(71. / 156 * 34 / 65) / 2, 1e-15);
    near(loss_of(g, 3, aba, 3, 0, 3), -log(19. / 52 * 71 / 156 * 34 / 65) / 3, 1e-15);
    la_ngram_destroy(g);
}
END_TEST

/* Each order of each model on random texts; _i: how many ids there are, and so how many contexts of
 * the second text the first one lacks. */
START_TEST(losses_are_those_of_the_definition) {
    const int vocabs[] = {1, 2, 3, 7, 40};
    enum { N = 90, M = 60 };
    int vocab = vocabs[_i];
    draw(train_ids, N, vocab, 1);
    draw(valid_ids, M, vocab, 2);
    for (int most = 1; most <= LA_NGRAM_MOST; most++) {
        la_ngram *g = count(train_ids, N, vocab, most);
        for (int order = 0; order <= most; order++) {
            double sum = 0;
            for (int64_t i = 0; i < M; i++) {
                double l = defined_loss(N, vocab, order, i);
                ck_assert(fabs(loss_of(g, order, valid_ids, M, i, 1) - l) < 1e-13);
                if (i > 0) sum += l;
            }
            ck_assert(fabs(loss_of(g, order, valid_ids, M, 1, M - 1) - sum / (M - 1)) < 1e-13);
        }
        la_ngram_destroy(g);
    }
}
END_TEST

/* More sequences than the first tables hold; at places of the text itself and of another one. */
START_TEST(a_long_text_has_the_counts_of_the_definition) {
    enum { N = 20000, VOCAB = 60 };
    draw(train_ids, N, VOCAB, 3);
    draw(valid_ids, N, VOCAB, 4);
    memcpy(valid_ids + N / 2, train_ids + 1000, N / 2 * sizeof *valid_ids);
    la_ngram *g = count(train_ids, N, VOCAB, LA_NGRAM_MOST);
    for (int64_t i = 7; i < N; i += 997)
        for (int order = 1; order <= LA_NGRAM_MOST; order++)
            near(loss_of(g, order, valid_ids, N, i, 1), defined_loss(N, VOCAB, order, i), 1e-12);
    la_ngram_destroy(g);
}
END_TEST

START_TEST(probabilities_sum_up_to_1_after_any_context) {
    enum { N = 3000, VOCAB = 17 };
    draw(train_ids, N, VOCAB - 2, 5); /* two ids never occur */
    la_ngram *g = count(train_ids, N, VOCAB, LA_NGRAM_MOST);
    for (int c = 0; c < 60; c++) {
        int32_t s[LA_NGRAM_MOST];
        int     k = c % LA_NGRAM_MOST; /* tokens of the context: seen, the text's end, or drawn */
        for (int j = 0; j < k; j++)
            s[j] = c < 20   ? train_ids[c * 50 + j]
                   : c < 30 ? train_ids[N - k + j]
                            : (int32_t)((1 + test_uniform(6, c * 8 + j)) / 2 * VOCAB);
        for (int order = 0; order <= LA_NGRAM_MOST; order++) {
            double sum = 0;
            for (s[k] = 0; s[k] < VOCAB; s[k]++) {
                double p = p_last(g, order, s, k + 1);
                ck_assert(p > 0 && p <= 1);
                sum += p;
            }
            ck_assert_msg(fabs(sum - 1) < 1e-14, "%d tokens, order %d: %.17g", k, order, sum);
        }
    }
    la_ngram_destroy(g);
}
END_TEST

/* x_i = x_(i-k) + k, k drawn from 1 to 4, or 0: each token more that is seen tells more. */
START_TEST(each_order_gains_where_the_text_looks_back_four_tokens) {
    enum { N = 100000, VOCAB = 8 };
    int32_t *texts[] = {train_ids, valid_ids};
    for (uint32_t t = 0; t < 2; t++)
        for (int i = 0; i < N; i++) {
            int k = (int)((1 + test_uniform(7 + t, i)) / 2 * 5);
            texts[t][i] = k == 0 || i < k ? 0 : (texts[t][i - k] + k) % VOCAB;
        }
    la_ngram *g = count(train_ids, N, VOCAB, LA_NGRAM_MOST);
    double    last = loss_of(g, 0, valid_ids, N, 1, N - 1);
    near(last, log(VOCAB), N * 0x1p-53); /* N roundings that may all go one way */
    for (int order = 1; order <= LA_NGRAM_MOST; order++) {
        double l = loss_of(g, order, valid_ids, N, 1, N - 1);
        ck_assert_msg(l < last - 0.05, "order %d: %g after %g", order, l, last);
        last = l;
    }
    la_ngram_destroy(g);
}
END_TEST

START_TEST(lower_orders_and_widths_of_ids_change_no_bit) {
    enum { N = 2000, VOCAB = 50 };
    static uint8_t  one[2][N];
    static uint16_t two[2][N];
    draw(train_ids, N, VOCAB, 9);
    draw(valid_ids, N, VOCAB, 10);
    for (int i = 0; i < N; i++) {
        one[0][i] = (uint8_t)train_ids[i], one[1][i] = (uint8_t)valid_ids[i];
        two[0][i] = (uint16_t)train_ids[i], two[1][i] = (uint16_t)valid_ids[i];
    }
    const la_ids texts[3][2] = {{view(train_ids, N), view(valid_ids, N)},
                                {{one[0], 1, N}, {one[1], 1, N}},
                                {{two[0], 2, N}, {two[1], 2, N}}};
    la_ngram    *whole = count(train_ids, N, VOCAB, LA_NGRAM_MOST);
    for (int w = 0; w < 3; w++)
        for (int most = 1; most <= LA_NGRAM_MOST; most++) {
            la_ngram *g;
            double    l;
            OK(la_ngram_create(&g, &texts[w][0], VOCAB, most));
            OK(la_ngram_loss(g, most, &texts[w][1], 1, N - 1, &l));
            ck_assert(l == loss_of(whole, most, valid_ids, N, 1, N - 1));
            la_ngram_destroy(g);
        }
    la_ngram_destroy(whole);
}
END_TEST

START_TEST(the_largest_vocabulary_has_all_its_ids) {
    const int64_t vocab = INT64_C(1) << 31;
    draw(train_ids, 200, 6, 11);
    draw(valid_ids, 50, 6, 12);
    for (int i = 0; i < 200; i++) train_ids[i] = INT32_MAX - 500000000 * (train_ids[i] % 5);
    for (int i = 0; i < 50; i++) valid_ids[i] = INT32_MAX - 500000000 * (valid_ids[i] % 5);
    la_ngram *g = count(train_ids, 200, vocab, LA_NGRAM_MOST);
    near(loss_of(g, 0, valid_ids, 50, 0, 50), 31 * log(2), 1e-14);
    for (int order = 1; order <= LA_NGRAM_MOST; order++)
        for (int64_t i = 0; i < 50; i++)
            near(loss_of(g, order, valid_ids, 50, i, 1), defined_loss(200, vocab, order, i), 1e-12);
    la_ngram_destroy(g);
}
END_TEST

START_TEST(empty_texts_and_texts_of_one_token) {
    la_ngram     *g = count(ten, 0, 4, 5);
    const int32_t abc[] = {0, 1, 2};
    for (int order = 0; order <= 5; order++)
        near(loss_of(g, order, abc, 3, 0, 3), log(4), 1e-15); /* nothing was counted: even */
    la_ngram_destroy(g);
    g = count(ten + 2, 1, 4, 5); /* a: p(a) = (1 + 1/4) / 2, the others have 1/8 */
    for (int order = 1; order <= 5; order++) {
        near(loss_of(g, order, abc, 1, 0, 1), log(8. / 5), 1e-15);
        near(loss_of(g, order, abc, 3, 1, 2), log(8), 1e-15); /* nothing follows a */
    }
    double l;
    la_ids none = {0}, one = view(abc, 1);
    FAILS(la_ngram_loss(g, 5, &none, 0, 1, &l), LA_ARG, "of a text of 0");
    FAILS(la_ngram_loss(g, 5, &one, 1, 0, &l), LA_ARG, "0 tokens from 1 on, of a text of 1");
    la_ngram_destroy(g);
}
END_TEST

START_TEST(what_does_not_fit_is_a_sentence) {
    la_ngram     *g;
    const int32_t odd[] = {0, 1, 4, 0}, negative[] = {0, -1};
    la_ids        text = view(ten, 10), bad = view(odd, 4), worse = view(negative, 2);
    FAILS(la_ngram_create(&g, &bad, 4, 2), LA_DATA, "token 2 of the text is 4");
    ck_assert_ptr_null(g);
    FAILS(la_ngram_create(&g, &worse, 4, 2), LA_DATA, "token 1 of the text is -1");
    FAILS(la_ngram_create(&g, &text, 4, 0), LA_ARG, "and not of 0");
    FAILS(la_ngram_create(&g, &text, 4, 6), LA_ARG, "1 to 5 tokens, and not of 6");
    FAILS(la_ngram_create(&g, &text, 0, 2), LA_ARG, "and not 0");
    FAILS(la_ngram_create(&g, &text, (INT64_C(1) << 31) + 1, 2), LA_ARG, "2147483649");
    la_ids endless = {ten, 1, INT64_C(1) << 32}; /* refused before it is read */
    FAILS(la_ngram_create(&g, &endless, 4, 2), LA_DATA, "4294967296 tokens");
    ck_assert_ptr_null(g);
    double l = 7;
    OK(la_ngram_create(&g, &text, 4, 2));
    FAILS(la_ngram_loss(g, 3, &text, 1, 9, &l), LA_ARG, "order 3");
    FAILS(la_ngram_loss(g, -1, &text, 1, 9, &l), LA_ARG, "order -1");
    FAILS(la_ngram_loss(g, 2, &text, 1, 10, &l), LA_ARG, "10 tokens from 1 on, of a text of 10");
    FAILS(la_ngram_loss(g, 2, &text, -1, 2, &l), LA_ARG, "from -1 on");
    FAILS(la_ngram_loss(g, 2, &text, 11, INT64_MAX, &l), LA_ARG, "from 11 on");
    FAILS(la_ngram_loss(g, 2, &bad, 1, 3, &l), LA_DATA, "token 2 of the text is 4");
    FAILS(la_ngram_loss(g, 0, &bad, 1, 3, &l), LA_DATA, "token 2 of the text is 4");
    ck_assert_double_eq(l, 7);
    la_ngram_destroy(g);
    la_ngram_destroy(NULL);
}
END_TEST

int main(void) {
    Suite *s = suite_create("ngram");
    TCase *t = add_case(s, "ngram");
    tcase_add_test(t, ten_tokens_give_these_fractions);
    tcase_add_loop_test(t, losses_are_those_of_the_definition, 0, 5);
    tcase_add_test(t, a_long_text_has_the_counts_of_the_definition);
    tcase_add_test(t, probabilities_sum_up_to_1_after_any_context);
    tcase_add_test(t, each_order_gains_where_the_text_looks_back_four_tokens);
    tcase_add_test(t, lower_orders_and_widths_of_ids_change_no_bit);
    tcase_add_test(t, the_largest_vocabulary_has_all_its_ids);
    tcase_add_test(t, empty_texts_and_texts_of_one_token);
    tcase_add_test(t, what_does_not_fit_is_a_sentence);
    return run_suite(s);
}
