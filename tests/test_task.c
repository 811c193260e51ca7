/* test_task.c -- tasks: the rows of each, word for word and on the average; specs good and bad; the
 * trainer and the evaluation on them against the loss over all labels. */
#include "models.h"

#include "autograd/ops.h"
#include "data/task.h"
#include "train/trainer.h"

static la_task task;

static void parse(const char *spec) { OK(la_task_parse(spec, &task)); }
static void drop(void) { la_task_free(&task); }

/* A text of which every window is different. */
enum { TEXT = 5000, WORDS = 300 };
static la_ids text(void) {
    static uint16_t ids[TEXT];
    for (int i = 0; i < TEXT; i++)
        ids[i] = (uint16_t)la_rng_below(5, la_rng_stream(LA_RNG_TEST, 9), (uint64_t)i, WORDS);
    return (la_ids){ids, 2, TEXT};
}

static const char *const specs[] = {
    "mqar",
    "mqar:vocab=10,length=16,pairs=4",
    "mqar:vocab=11,length=34,pairs=4,fill=random,power=1",
    "mqar:vocab=64,length=20,pairs=1,power=3",
    "copy",
    "copy:vocab=3,length=3",
    "induction",
    "induction:vocab=3,length=3",
    "needle",
    "needle:length=9,distance=8,keys=1,values=2",
    "needle:length=40,distance=2,keys=3,values=5",
};
enum { SPECS = sizeof specs / sizeof *specs };

/* Of number i, on a text if it needs one. */
static void open_spec(int i) {
    la_ids ids = text();
    parse(specs[i]);
    if (!task.def->on_text) return;
    static la_ids all;
    all = ids;
    OK(la_task_on_text(&task, &all, WORDS));
}

/* --- rows --- */

START_TEST(every_row_has_as_many_labels_and_ids_of_the_vocabulary) { /* _i: spec */
    enum { ROWS = 50 };
    open_spec(_i);
    size_t   n = (size_t)(ROWS * task.length);
    int32_t *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y), *a = malloc(n * sizeof *x),
            *b = malloc(n * sizeof *y);
    la_task_fill(&task, 3, 7, ROWS, x, y);
    for (int64_t r = 0; r < ROWS; r++) {
        int64_t labels = 0;
        for (int64_t i = r * task.length; i < (r + 1) * task.length; i++) {
            ck_assert(x[i] >= 0 && x[i] < task.vocab && y[i] >= LA_NO_TARGET && y[i] < task.vocab);
            labels += y[i] != LA_NO_TARGET;
        }
        ck_assert_int_eq(labels, task.labels);
        la_task_fill(&task, 3, 7 + (uint64_t)r, 1, a + r * task.length, b + r * task.length);
    }
    ck_assert_mem_eq(x, a, n * sizeof *x); /* whatever is filled with it */
    ck_assert_mem_eq(y, b, n * sizeof *y);
    uint64_t others[][2] = {
        {4, 7}, {3, 7 + ROWS}, {LA_TASK_TEST_SEED, 7}, {LA_TASK_TEST_SEED + 3, 7}};
    for (int i = 0; i < 4; i++) {
        la_task_fill(&task, others[i][0], others[i][1], ROWS, a, b);
        ck_assert_mem_ne(x, a, n * sizeof *x);
    }
    free(x), free(y), free(a), free(b);
    drop();
}
END_TEST

START_TEST(mqar_asks_for_each_key_once_and_the_label_is_its_value) { /* _i: spec */
    int32_t x[64], y[64];
    open_spec(_i);
    int64_t N = task.pairs, others = 0, half = task.vocab / 2;
    for (uint64_t r = 0; r < 300; r++) {
        la_task_fill(&task, 1, r, 1, x, y);
        for (int64_t n = 0; n < N; n++) {
            ck_assert(x[2 * n] >= 1 && x[2 * n] < half && x[2 * n + 1] >= half);
            for (int64_t m = 0; m < n; m++)
                ck_assert(x[2 * m] != x[2 * n] && x[2 * m + 1] != x[2 * n + 1]);
            ck_assert(y[2 * n] == LA_NO_TARGET && y[2 * n + 1] == LA_NO_TARGET);
            int asked = 0;
            for (int64_t i = 2 * N; i < task.length; i++)
                if (x[i] == x[2 * n] && y[i] != LA_NO_TARGET) {
                    ck_assert_int_eq(y[i], x[2 * n + 1]);
                    ck_assert_int_eq(i % 2, 0);
                    asked++;
                }
            ck_assert_int_eq(asked, 1);
        }
        for (int64_t i = 2 * N; i < task.length; i++) others += y[i] == LA_NO_TARGET && x[i] != 0;
    }
    if (task.fill == LA_FILL_ZERO) ck_assert_int_eq(others, 0);
    if (task.fill == LA_FILL_RANDOM) /* of 11 ids one is 0 */
        ck_assert_double_eq_tol((double)others / (300.0 * (double)(task.length - 3 * N)), 10.0 / 11,
                                0.02);
    drop();
}
END_TEST

/* Pearson's sum over k cells; its mean is k - 1 and its variance 2 (k - 1). */
static void agrees(int64_t k, const double *count, const double *p, double rows, const char *what) {
    double chi = 0;
    for (int64_t i = 0; i < k; i++) {
        double want = rows * p[i];
        ck_assert_msg(want > 5, "%s: cell %lld expects %g", what, (long long)i, want);
        chi += (count[i] - want) * (count[i] - want) / want;
    }
    double df = (double)k - 1;
    ck_assert_msg(chi < df + 5 * sqrt(2 * df) + 5 && chi > df - 5 * sqrt(2 * df),
                  "%s: chi square %.1f of %.0f", what, chi, df);
}

START_TEST(mqar_draws_slots_by_weight_without_replacement) { /* _i: power */
    enum { SLOTS = 10, N = 3, ROWS = 20000 };
    static const double power[] = {0.01, 0.5, 1, 2};
    char                spec[80];
    double w[SLOTS], all = 0, p[2][SLOTS] = {{0}}, count[2][SLOTS] = {{0}}, key[N][15] = {{0}},
                     value[N][16] = {{0}}, even[16];
    snprintf(spec, sizeof spec, "mqar:vocab=32,length=26,pairs=3,power=%g", power[_i]);
    parse(spec);
    for (int i = 0; i < SLOTS; i++) all += w[i] = pow(i + 1, power[_i] - 1);
    for (int i = 0; i < SLOTS; i++) p[0][i] = w[i] / all;
    for (int j = 0; j < SLOTS; j++) /* the second of two draws */
        for (int i = 0; i < SLOTS; i++)
            if (i != j) p[1][j] += p[0][i] * w[j] / (all - w[i]);
    for (uint64_t r = 0; r < ROWS; r++) {
        int32_t x[26], y[26];
        la_task_fill(&task, 2, r, 1, x, y);
        for (int n = 0; n < N; n++) {
            key[n][x[2 * n] - 1]++;
            value[n][x[2 * n + 1] - 16]++;
        }
        for (int n = 0; n < 2; n++)
            for (int g = 0; g < SLOTS; g++)
                if (y[2 * N + 2 * g] == x[2 * n + 1]) count[n][g]++;
    }
    agrees(SLOTS, count[0], p[0], ROWS, "the first slot");
    agrees(SLOTS, count[1], p[1], ROWS, "the second slot");
    for (int n = 0; n < N; n++) {
        for (int i = 0; i < 15; i++) even[i] = 1.0 / 15;
        agrees(15, key[n], even, ROWS, "keys");
        for (int i = 0; i < 16; i++) even[i] = 1.0 / 16;
        agrees(16, value[n], even, ROWS, "values");
    }
    drop();
}
END_TEST

START_TEST(copy_asks_for_the_text_again) {
    int32_t x[9], y[9];
    parse("copy:vocab=7,length=9");
    double count[6] = {0}, even[6];
    for (uint64_t r = 0; r < 2000; r++) {
        la_task_fill(&task, 1, r, 1, x, y);
        ck_assert_int_eq(x[4], 6);
        for (int i = 0; i < 4; i++) {
            ck_assert_int_eq(x[i], x[5 + i]);
            ck_assert_int_eq(y[i], LA_NO_TARGET);
            ck_assert_int_eq(y[4 + i], x[i]); /* what comes next */
            count[x[i]]++;
        }
        ck_assert_int_eq(y[8], LA_NO_TARGET);
    }
    for (int i = 0; i < 6; i++) even[i] = 1.0 / 6;
    agrees(6, count, even, 8000, "copied tokens");
    drop();
}
END_TEST

START_TEST(induction_asks_what_followed_the_special_token) {
    enum { L = 12, ROWS = 5000 };
    int32_t x[L], y[L];
    double  place[L - 2] = {0}, answer[4] = {0}, even[L - 2];
    parse("induction:vocab=5,length=12");
    for (uint64_t r = 0; r < ROWS; r++) {
        la_task_fill(&task, 1, r, 1, x, y);
        int first = 0, special = 0;
        while (x[first] != 4) first++;
        for (int i = 0; i < L; i++) special += x[i] == 4;
        ck_assert(special == 2 && x[L - 1] == 4 && first < L - 2);
        ck_assert_int_eq(y[L - 1], x[first + 1]);
        place[first]++;
        answer[y[L - 1]]++;
    }
    for (int i = 0; i < L - 2; i++) even[i] = 1.0 / (L - 2);
    agrees(L - 2, place, even, ROWS, "places");
    for (int i = 0; i < 4; i++) even[i] = 1.0 / 4;
    agrees(4, answer, even, ROWS, "answers");
    drop();
}
END_TEST

/* Where n tokens stand in a text, but for those that are not of it. */
static int64_t window_of(const la_ids *ids, int64_t n, const int32_t *x) {
    for (int64_t s = 0; s + n <= TEXT; s++) {
        int64_t same = 0, i = 0;
        for (; i < n; i++) same += x[i] >= WORDS || x[i] == la_ids_get(ids, s + i);
        if (same == n) return s;
    }
    ck_abort_msg("the tokens are no window of the text");
}

START_TEST(needle_changes_three_tokens_of_a_window) {
    enum { L = 20, D = 7, ROWS = 4000 };
    la_ids  ids = text();
    int32_t x[L], y[L];
    double  place[L - D] = {0}, value[5] = {0}, even[L];
    int64_t farthest = 0, nearest = TEXT;
    parse("needle:length=20,distance=7,keys=4,values=5");
    OK(la_task_on_text(&task, &ids, WORDS));
    ck_assert_int_eq(task.vocab, WORDS + 9);
    for (uint64_t r = 0; r < ROWS; r++) {
        la_task_fill(&task, 1, r, 1, x, y);
        int p = 0, changed = 0;
        while (x[p] < WORDS) p++;
        for (int i = 0; i < L; i++) changed += x[i] >= WORDS;
        ck_assert_int_eq(changed, 3);
        ck_assert(x[p] < WORDS + 4 && x[p + D] == x[p]);
        ck_assert(x[p + 1] >= WORDS + 4 && x[p + 1] < WORDS + 9);
        for (int i = 0; i < L; i++) ck_assert_int_eq(y[i], i == p + D ? x[p + 1] : LA_NO_TARGET);
        int64_t s = window_of(&ids, L, x);
        if (s > farthest) farthest = s;
        if (s < nearest) nearest = s;
        place[p]++;
        value[x[p + 1] - WORDS - 4]++;
    }
    for (int i = 0; i < L; i++) even[i] = 1.0 / (L - D);
    agrees(L - D, place, even, ROWS, "places");
    for (int i = 0; i < 5; i++) even[i] = 1.0 / 5;
    agrees(5, value, even, ROWS, "values");
    ck_assert(nearest < 20 && farthest > TEXT - L - 20);
    ids.n = L - 1;
    FAILS(la_task_on_text(&task, &ids, WORDS), LA_DATA,
          "windows of 20 tokens, and the text has 19");
    for (int more = 0; more < 3; more++) { /* from the first window to the last */
        double window[3] = {0};
        ids.n = L + more;
        OK(la_task_on_text(&task, &ids, WORDS));
        for (uint64_t r = 0; r < ROWS; r++) {
            la_task_fill(&task, 2, r, 1, x, y);
            int64_t s = window_of(&ids, L, x);
            ck_assert_int_le(s, more);
            window[s]++;
        }
        for (int i = 0; i <= more; i++) even[i] = 1.0 / (more + 1);
        if (more) agrees(more + 1, window, even, ROWS, "windows");
    }
    drop();
}
END_TEST

/* --- specs --- */

START_TEST(a_spec_is_read_and_written) {
    char whole[LA_TASK_TEXT], brief[LA_TASK_TEXT];
    parse("mqar:fill=random,pairs=8");
    la_task_spec(&task, 1, whole);
    la_task_spec(&task, 0, brief);
    ck_assert_str_eq(whole, "mqar:vocab=256,length=64,pairs=8,fill=random,power=0.01");
    ck_assert_str_eq(brief, "mqar:pairs=8,fill=random");
    ck_assert_double_eq(la_task_chance(&task), 1.0 / 128);
    ck_assert_double_eq(la_task_shown_chance(&task), 1.0 / 8);
    drop();
    for (int i = 0; i < SPECS; i++) { /* what is written gives the same */
        parse(specs[i]);
        la_task_spec(&task, 1, whole);
        drop();
        parse(whole);
        la_task_spec(&task, 1, brief);
        ck_assert_str_eq(whole, brief);
        drop();
    }
    parse("induction");
    ck_assert_double_eq(la_task_chance(&task), 1.0 / 19);
    ck_assert_double_eq(la_task_shown_chance(&task), 0);
    drop();
    parse("needle:values=4");
    ck_assert_double_eq(la_task_chance(&task), 1.0 / 4);
    drop();
    parse("copy:vocab=11");
    ck_assert_double_eq(la_task_chance(&task), 1.0 / 10);
    drop();
}
END_TEST

START_TEST(a_bad_spec_is_a_sentence) {
    static const struct {
        const char *spec, *says;
        la_status   status;
    } bad[] = {
        {"mqra", "unknown task \"mqra\": did you mean mqar?", LA_NAME},
        {"", "did you mean", LA_NAME},
        {"mqar:", "nothing stands after the colon", LA_ARG},
        {"mqar:vocab=64,", "nothing stands after the colon or a comma of --task mqar", LA_ARG},
        {"mqar:vocb=64", "unknown key of --task \"vocb\": did you mean vocab?", LA_NAME},
        {"mqar:distance=9", "mqar does not read distance (tokens from", LA_ARG},
        {"induction:pairs=9", "it reads vocab length", LA_ARG},
        {"mqar:pairs", "pairs in --task must be a whole number from 1 to", LA_ARG},
        {"mqar:pairs=0", "from 1 to 4194304, and is \"0\"", LA_ARG},
        {"mqar:pairs=2.5", "whole number", LA_ARG},
        {"mqar:power=0", "power in --task must be a number from 0.001 to 8, and is \"0\"", LA_ARG},
        {"mqar:power=nan", "and is \"nan\"", LA_ARG},
        {"mqar:fill=ones",
         "unknown fill of --task \"ones\": did you mean zero? (known: zero, random)", LA_NAME},
        {"mqar:length=63", "length must be even, and is 63: 62 or 64 would do", LA_ARG},
        {"mqar:pairs=17", "needs length=68 or more", LA_ARG},
        {"mqar:pairs=17", "enough for pairs=16", LA_ARG},
        {"mqar:vocab=9", "needs vocab=10 or more", LA_ARG},
        {"copy:length=64",
         "must be odd (a text, one separator, the text again), and is 64: 63 or 65", LA_ARG},
        {"copy:length=2", "3 or 5 would do", LA_ARG},
        {"copy:vocab=2", "vocab must be 3 or more", LA_ARG},
        {"induction:vocab=2", "vocab must be 3 or more", LA_ARG},
        {"induction:length=2", "length must be 3 or more", LA_ARG},
        {"needle:distance=256", "distance=256 needs length=257 or more, and length is 256", LA_ARG},
        {"needle:vocab=9", "needle does not read vocab", LA_ARG},
        {"needle:values=1", "values in --task must be a whole number from 2", LA_ARG},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(la_task_parse(bad[i].spec, &task), bad[i].status, bad[i].says);
        ck_assert(!task.def && !task.weights);
    }
    parse("mqar:pairs=16"); /* what was offered works */
    drop();
    parse("mqar:pairs=4,vocab=10,length=16");
    drop();
    parse("copy:length=3");
    drop();
}
END_TEST

/* --- the trainer --- */

static la_trainer_cfg small(const char *attn) {
    la_trainer_cfg c = {
        .lm = {.vocab = task.vocab, .dim = 16, .layers = 2, .heads = 2, .block_size = task.length},
        .batch = 3,
        .grad_accum = 1,
        .seed = 3,
        .optim_cfg = {0.9, 0.99, 1e-8, 0},
        .schedule = {"constant", 3e-3, 3e-3, 0, 1},
        .task = &task};
    c.lm.attn = pattern_of(attn, 1e-6);
    OK(la_optim_find("adamw", &c.optim));
    return c;
}

/* The loss over all labels, and (grad) its gradients, of `rows` rows; *right: how many labels are
 * the largest of the logits. */
static double by_hand(const la_lm *lm, uint64_t seed, uint64_t first, int64_t rows, int grad,
                      int64_t *right) {
    int64_t  T = task.length, V = task.vocab, n = rows * T;
    int32_t *x = malloc((size_t)n * 4), *y = malloc((size_t)n * 4), *p = malloc((size_t)n * 4);
    int32_t  past = 0;
    la_tape *tape, *out;
    la_shape s = la_shape2(rows, T);
    la_task_fill(&task, seed, first, rows, x, y);
    for (int64_t i = 0; i < n; i++) p[i] = (int32_t)(i % T);
    OK(la_tape_create(&tape, &(la_tape_cfg){.grad = grad}));
    OK(la_tape_create(&out, NULL));
    la_lm_input in = {.tokens = la_integers(tape, "x", s, x),
                      .positions = la_integers(tape, "p", s, p),
                      .past = la_integers(tape, "past", la_shape1(1), &past)};
    la_node    *loss = la_keep(la_lm_loss(lm, tape, &in, la_integers(tape, "y", s, y)));
    OK(la_tape_seal(tape, grad ? loss : NULL));
    OK(la_tape_forward(tape));
    if (grad) OK(la_tape_backward(tape, 1));
    in = (la_lm_input){.tokens = la_integers(out, "x", s, x),
                       .positions = la_integers(out, "p", s, p),
                       .past = la_integers(out, "past", la_shape1(1), &past)};
    la_node *z = la_keep(la_lm_logits(lm, out, &in));
    OK(la_tape_seal(out, NULL));
    OK(la_tape_forward(out));
    *right = 0;
    for (int64_t i = 0; i < n; i++) {
        int above = 0;
        for (int64_t v = 0; y[i] >= 0 && v < V; v++) above += z->x[i * V + v] > z->x[i * V + y[i]];
        *right += y[i] >= 0 && !above;
    }
    double value = (double)*loss->x;
    la_tape_destroy(tape);
    la_tape_destroy(out);
    free(x), free(y), free(p);
    return value;
}

static void clear(la_params *p) { memset(la_params_g(p), 0, la_params_len(p) * sizeof(la_real)); }

START_TEST(a_step_has_the_loss_and_accuracy_of_all_labels) { /* _i: spec */
    open_spec(_i);
    if (task.length > 100) return drop();
    la_trainer_cfg c = small("softmax");
    la_trainer     t;
    la_step        s;
    int64_t        right, some = 0;
    OK(la_trainer_create(&t, &c, NULL));
    for (int64_t step = 0; step < 20; step++) OK(la_trainer_step(&t, step, &s));
    t.cfg.schedule.lr = t.cfg.schedule.min_lr = 0; /* now the weights stay */
    for (int64_t step = 4; step < 30; step++) {
        OK(la_trainer_step(&t, step, &s));
        clear(t.lm->params);
        double loss = by_hand(t.lm, c.seed, (uint64_t)(step * c.batch), c.batch, 1, &right);
        double norm = la_grad_norm(t.lm->params);
        clear(t.lm->params);
        ck_assert_double_eq_tol(s.loss, loss, 1e-5);
        ck_assert_double_eq_tol(s.norm, norm, 1e-4 * norm);
        ck_assert_double_eq_tol(s.accuracy, (double)right / (double)(c.batch * task.labels), 1e-12);
        some += right;
    }
    if (task.vocab < 5) ck_assert_int_gt(some, 0);
    la_trainer_destroy(&t);
    drop();
}
END_TEST

/* Gathered before the head or not: the gradient of every weight is the same. */
START_TEST(gradients_equal_those_of_all_labels) { /* _i: recompute */
    enum { ROWS = 3, T = 20, L = 4 };
    parse("mqar:vocab=24,length=20,pairs=4,fill=random");
    la_trainer_cfg c = small("elu1/softmax");
    la_lm         *lm;
    la_tape       *tape;
    la_node       *logits;
    int32_t        x[ROWS * T], y[ROWS * T], p[ROWS * T], past = 0, at[ROWS * L], label[ROWS * L];
    int64_t        right, n = 0;
    c.lm.recompute = _i;
    OK(la_lm_create(&lm, &c.lm, 5, 1));
    double   loss = by_hand(lm, 8, 0, ROWS, 1, &right);
    size_t   len = la_params_len(lm->params);
    la_real *g = malloc(len * sizeof *g);
    memcpy(g, la_params_g(lm->params), len * sizeof *g);
    clear(lm->params);
    la_task_fill(&task, 8, 0, ROWS, x, y);
    for (int i = 0; i < ROWS * T; i++) {
        p[i] = i % T;
        if (y[i] >= 0) at[n] = i, label[n++] = y[i];
    }
    ck_assert_int_eq(n, ROWS * L);
    la_shape s = la_shape2(ROWS, T), few = la_shape1(ROWS * L);
    OK(la_tape_create(&tape, &(la_tape_cfg){.grad = 1}));
    la_lm_input in = {.tokens = la_integers(tape, "x", s, x),
                      .positions = la_integers(tape, "p", s, p),
                      .past = la_integers(tape, "past", la_shape1(1), &past)};
    la_node    *found = la_lm_loss_at(lm, tape, &in, la_integers(tape, "at", few, at),
                                      la_integers(tape, "y", few, label), &logits);
    OK(la_tape_seal(tape, la_keep(found)));
    OK(la_tape_forward(tape));
    OK(la_tape_backward(tape, 1));
    ck_assert(logits->shape.d[0] == ROWS * L && la_last(logits->shape) == task.vocab);
    ck_assert_double_eq_tol((double)*found->x, loss, 2e-6);
    la_real top = R(largest((int64_t)len, g));
    for (size_t i = 0; i < len; i++)
        ck_assert_double_le(fabs((double)(la_params_g(lm->params)[i] - g[i])), 3e-6 * (double)top);
    la_tape_destroy(tape);
    la_lm_destroy(lm);
    free(g);
    drop();
}
END_TEST

START_TEST(accumulation_and_recomputing_change_little_or_nothing) {
    parse("induction:vocab=6,length=12");
    la_trainer_cfg c[3] = {small("elu1"), small("elu1"), small("elu1")};
    la_trainer     t[3];
    la_step        s[3];
    for (int i = 0; i < 3; i++) c[i].batch = 4;
    c[1].lm.recompute = 1;
    c[2].batch = c[2].grad_accum = 2;
    for (int i = 0; i < 3; i++) OK(la_trainer_create(t + i, c + i, NULL));
    for (int64_t step = 0; step < 5; step++) {
        for (int i = 0; i < 3; i++) OK(la_trainer_step(t + i, step, s + i));
        ck_assert(s[0].loss == s[1].loss && s[0].norm == s[1].norm);
        ck_assert_double_eq_tol(s[0].loss, s[2].loss, 1e-5);
        ck_assert_double_eq(s[0].accuracy, s[2].accuracy);
    }
    for (int i = 0; i < 3; i++) la_trainer_destroy(t + i);
    drop();
}
END_TEST

START_TEST(one_batch_of_a_task_is_learnt_by_heart) {
    parse("mqar:vocab=24,length=20,pairs=4");
    la_trainer_cfg c = small("softmax");
    la_trainer     t;
    la_step        s;
    c.same_batch = 1;
    c.schedule.lr = 1e-2;
    OK(la_trainer_create(&t, &c, NULL));
    for (int64_t i = 0; i < 300; i++) OK(la_trainer_step(&t, i, &s));
    ck_assert_double_eq(s.accuracy, 1);
    ck_assert_double_lt(s.loss, 0.1);
    la_trainer_destroy(&t);
    drop();
}
END_TEST

START_TEST(an_evaluation_is_over_the_test_rows) { /* _i: rows do or do not fill the replays */
    parse(_i ? "induction:vocab=6,length=30" : "copy:vocab=5,length=3");
    la_trainer_cfg c = small("elu1");
    la_trainer     t;
    la_evaluator   e;
    la_step        s;
    double         loss, again, some;
    int64_t        right;
    c.batch = 8;
    OK(la_trainer_create(&t, &c, NULL));
    for (int64_t i = 0; i < 20; i++) OK(la_trainer_step(&t, i, &s));
    OK(la_evaluator_create(&e, t.lm, &task));
    ck_assert((_i ? LA_TASK_TEST_ROWS % e.rows : e.rows > LA_TASK_TEST_ROWS) != 0);
    OK(la_evaluate(&e, NULL, 0, NULL, &loss));
    double accuracy = e.accuracy;
    ck_assert_double_eq_tol(loss, by_hand(t.lm, LA_TASK_TEST_SEED, 0, LA_TASK_TEST_ROWS, 0, &right),
                            1e-5);
    ck_assert_double_eq_tol(accuracy, (double)right / LA_TASK_TEST_ROWS / (double)task.labels,
                            1e-12);
    OK(la_evaluate(&e, NULL, 1, NULL, &some)); /* the first replay */
    int64_t rows = e.rows < LA_TASK_TEST_ROWS ? e.rows : LA_TASK_TEST_ROWS;
    ck_assert_double_eq_tol(some, by_hand(t.lm, LA_TASK_TEST_SEED, 0, rows, 0, &right), 1e-5);
    ck_assert_double_eq_tol(e.accuracy, (double)right / (double)(rows * task.labels), 1e-12);
    OK(la_evaluate(&e, NULL, 0, NULL, &again));
    ck_assert(again == loss && e.accuracy == accuracy);
    la_evaluator_destroy(&e);
    la_trainer_destroy(&t);
    drop();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("task");
    TCase *rows = tcase_create("rows"), *spec = tcase_create("specs"), *step = tcase_create("step");
    tcase_add_loop_test(rows, every_row_has_as_many_labels_and_ids_of_the_vocabulary, 0, SPECS);
    tcase_add_loop_test(rows, mqar_asks_for_each_key_once_and_the_label_is_its_value, 0, 4);
    tcase_add_loop_test(rows, mqar_draws_slots_by_weight_without_replacement, 0, 4);
    tcase_add_test(rows, copy_asks_for_the_text_again);
    tcase_add_test(rows, induction_asks_what_followed_the_special_token);
    tcase_add_test(rows, needle_changes_three_tokens_of_a_window);
    tcase_add_test(spec, a_spec_is_read_and_written);
    tcase_add_test(spec, a_bad_spec_is_a_sentence);
    tcase_add_loop_test(step, a_step_has_the_loss_and_accuracy_of_all_labels, 0, SPECS);
    tcase_add_loop_test(step, gradients_equal_those_of_all_labels, 0, 2);
    tcase_add_test(step, accumulation_and_recomputing_change_little_or_nothing);
    tcase_add_test(step, one_batch_of_a_task_is_learnt_by_heart);
    tcase_add_loop_test(step, an_evaluation_is_over_the_test_rows, 0, 2);
    TCase *cases[] = {rows, spec, step};
    for (int i = 0; i < 3; i++) {
        tcase_set_timeout(cases[i], 120);
        suite_add_tcase(suite, cases[i]);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
