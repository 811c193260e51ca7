/* test_ops.c -- what every op and every variant must satisfy on each of its cases.
 *
 * The subjects are the lines of ops.def and attn.def, so a new one is covered without a new
 * line here.  Variants are also run split: the text in two parts, the state handed over. */
#include "testing.h"

#include <unistd.h>

#include "autograd/kernel.h"
#include "autograd/trial.h"
#include "tensor/vec.h"

typedef struct item {
    la_subject     subject;
    const la_case *c;
    int            split, masked;
} item;

enum { MOST = 4096 };
static item items[MOST];
static int  n_items;

/* A variant's cases that also run split, masked and both: two shapes within a few chunks, many
 * chunks, and segments. */
static int has_modes(const la_case *c) {
    return c == la_attn_cases || strstr(c->name, "T11, two") || strstr(c->name, "T69") ||
           strstr(c->name, "segments");
}

static void list_items(void) {
    for (int i = 0; i < la_subject_count(); i++) {
        la_subject s = la_subject_at(i);
        for (const la_case *c = s.cases; c && c->name; c++)
            for (int how = 0; how < 4; how++) {
                int split = how & 1, masked = how >> 1;
                if (how && (!s.variant || !has_modes(c))) continue;
                if (SANITIZED && s.variant && !has_modes(c)) continue;
                if (split && s.bidirectional) continue;
                if (n_items < MOST) items[n_items++] = (item){s, c, split, masked};
            }
    }
}

static const char *title(const item *it) {
    static char text[200];
    snprintf(text, sizeof text, "%s, %s%s%s (%s)", it->subject.name, it->c->name,
             it->split ? ", split" : "", it->masked ? ", masked" : "", la_vec_table()->name);
    return text;
}

/* Item i % n_items, under instruction set i / n_items from now on. */
static const item *item_of(int i) {
    la_vec_use(la_vec_tables()[i / n_items]);
    return items + i % n_items;
}

static int instruction_set_in_use;

static int instruction_sets(void) {
    int n = 0;
    while (la_vec_tables()[instruction_set_in_use] != la_vec_table()) instruction_set_in_use++;
    for (; la_vec_tables()[n]; n++)
        printf("instruction set %s: products by %s\n", la_vec_tables()[n]->name,
               la_vec_tables()[n]->gemm ? "our kernels" : "OpenBLAS");
    return SANITIZED ? 1 : n; /* the first: it needs no more than any processor has */
}

static void create(la_trial *r, const item *it, unsigned without_grad, int inference) {
    la_trial_cfg cfg = {.inference = inference,
                        .split = it->split,
                        .masked = it->masked,
                        .without_grad = without_grad,
                        .seed = 5};
    la_status    s = la_trial_create(r, &it->subject, it->c, &cfg);
    ck_assert_msg(s == LA_OK, "%s: %s", title(it), la_error());
    ck_assert_msg(r->n_out > 0 && r->n_in > 0, "%s: no output or no input", title(it));
}

static void step(la_trial *r) {
    OK(la_tape_forward(r->tape));
    OK(la_tape_backward(r->tape, 1));
}

/* --- the table: _i is the subject --- */

START_TEST(every_subject_is_complete) {
    la_subject s = la_subject_at(_i), found;
    ck_assert(s.name && *s.name);
    ck_assert_msg(s.formula && *s.formula && !strchr(s.formula, '\n'),
                  "%s: formula is not one line", s.name);
    ck_assert_msg(s.cases && s.cases[0].name, "%s has no cases", s.name);
    ck_assert_msg(s.op && s.op->infer && s.op->forward && s.op->backward,
                  "%s: infer, forward or backward is missing", s.name);
    ck_assert_msg(s.variant ? s.variant->definition != NULL : s.op->reference != NULL,
                  "%s: a definition to compare with is missing", s.name);
    char path[1024];
    for (int k = 0; k < 2; k++) {
        const char *file = k ? s.op->file : s.file;
        snprintf(path, sizeof path, "%s/%s", LA_SOURCE_DIR, file ? file : "?");
        ck_assert_msg(access(path, R_OK) == 0, "%s: the derivation should stand in %s", s.name,
                      path);
    }
    ck_assert_msg(!s.variant || (s.paper && *s.paper && s.variant->cost),
                  "%s: paper or cost is missing", s.name);
    OK(la_subject_find(s.name, &found));
    ck_assert_ptr_eq(found.op, s.op);
    ck_assert_ptr_eq(found.variant, s.variant);
}
END_TEST

static int of_spec(const char *spec) {
    int n = 0;
    for (int i = 0; i < la_subject_count(); i++) {
        la_subject s = la_subject_at(i);
        n += s.spec && !strcmp(s.spec, spec);
    }
    return n;
}

START_TEST(every_line_of_the_tables_and_every_example_has_a_subject) {
    char spec[100];
    OK(la_subject_check());
    for (int i = 0; la_attns[i]; i++) {
        const la_attn *a = la_attns[i];
        snprintf(spec, sizeof spec, "%s%s%s", a->name, a->tiny ? ":" : "", a->tiny ? a->tiny : "");
        const la_attn_cfg c = la_attn_usual(a, LA_TRIAL_TEXT);
        ck_assert_msg(of_spec(spec) > 0 || !la_attn_op(&c), "%s has no subject", spec);
    }
    for (int i = 0; la_attn_examples[i]; i++)
        ck_assert_msg(of_spec(la_attn_examples[i]) > 0, "%s has no subject", la_attn_examples[i]);
}
END_TEST

START_TEST(an_unknown_subject_is_answered_with_the_nearest) {
    la_subject s;
    FAILS(la_subject_find("layer_nrm", &s), LA_NAME, "did you mean layernorm?");
    ck_assert_int_lt(n_items, MOST);
}
END_TEST

/* What flops are counted by; a pattern that depends on the text only knows about how many. */
START_TEST(pairs_are_as_many_as_the_definition_has_weights) {
    la_subject     s = la_subject_at(_i);
    la_attn_weight none[2];
    enum { D = 2, MOST_T = 40 };
    double x[MOST_T * D], w[MOST_T * MOST_T];
    if (!s.variant || !s.variant->pairs) return;
    la_attn_cfg c = la_subject_cfg(&s, 0, 0);
    if (la_attn_weights(&c, 1, D, none)) return;
    for (int i = 0; i < MOST_T * D; i++) x[i] = 1e-3 * i;
    for (int T = 1; T <= MOST_T; T++) {
        la_attn_head head = {.cfg = &c, .T = T, .D = D, .q = x, .k = x, .gamma = 1};
        double       count = 0;
        memset(w, 0, sizeof w);
        OK(s.variant->definition(&head, w));
        for (int i = 0; i < T * T; i++) count += w[i] > 0;
        ck_assert_msg(c.variant->pairs(&c, T) == count, "%s: %g pairs in %d tokens, not %g", s.name,
                      count, T, c.variant->pairs(&c, T));
    }
}
END_TEST

/* --- _i is the item: a subject and one of its cases --- */

/* --- the next two under every instruction set that runs here --- */

/* The state that a split text leaves has no definition of its own: what the next part makes of it
 * has. */
START_TEST(forward_equals_the_reference) {
    const item *it = item_of(_i);
    la_trial    r;
    create(&r, it, 0, 0);
    OK(la_tape_forward(r.tape));
    la_real *is[LA_TRIAL_NODES], *want[LA_TRIAL_NODES];
    for (int k = 0; k < r.n_out; k++) {
        is[k] = copy_of(la_len(r.out[k]->shape), r.out[k]->x);
        want[k] = reals(la_len(r.out[k]->shape));
    }
    int known = 0;
    OK(la_trial_reference(&r, &it->subject, want, &known));
    ck_assert_int_gt(known, 0);
    for (int k = 0; k < known; k++) {
        int64_t len = la_len(r.out[k]->shape);
        double  top = largest(len, want[k]), d = gap(len, is[k], want[k]);
        ck_assert_msg(d <= BY_PRECISION(2e-5, 1e-11) * top,
                      "%s: output %d differs by %g, largest is %g", title(it), k, d, top);
    }
    for (int k = 0; k < r.n_out; k++) free(is[k]), free(want[k]);
    la_trial_destroy(&r);
    la_vec_use(NULL);
}
END_TEST

/* All items under the instruction set in use, the first of each subject under the others. */
START_TEST(gradient_equals_finite_differences) {
    const item *it = item_of(_i);
    double      worst;
    if (la_vec_table() != la_vec_tables()[instruction_set_in_use] && it->c != it->subject.cases) {
        la_vec_use(NULL);
        return;
    }
    la_trial_cfg cfg = {.split = it->split, .masked = it->masked};
    OK(la_gradcheck(&it->subject, it->c, &cfg, &worst));
    ck_assert_msg(worst < 1e-7, "%s: gradient and differences are %g apart", title(it), worst);
    la_vec_use(NULL);
}
END_TEST

/* --- and these under the one in use --- */

START_TEST(inference_gives_the_values_of_training) {
    const item *it = items + _i;
    la_trial    a, b;
    create(&a, it, 0, 0);
    create(&b, it, 0, 1);
    OK(la_tape_forward(a.tape));
    OK(la_tape_forward(b.tape));
    ck_assert_int_eq(a.n_out, b.n_out);
    for (int k = 0; k < a.n_out; k++) {
        int64_t at = differ(la_len(a.out[k]->shape), a.out[k]->x, b.out[k]->x);
        ck_assert_msg(at < 0, "%s: output %d differs at %lld", title(it), k, (long long)at);
    }
    for (int i = 0; i < la_tape_len(b.tape); i++) /* nothing is kept for a backward */
        ck_assert_ptr_null(la_tape_at(b.tape, i)->saved);
    FAILS(la_tape_backward(b.tape, 1), LA_STATE, "no parameter");
    la_trial_destroy(&a);
    la_trial_destroy(&b);
}
END_TEST

/* The ops of a subject (its op, and that of a variant pair by pair) as they are, and changed. */
static const la_op *right[2];
static la_op        changed[2];

static const la_op *right_op(const la_node *n) { return right[n->op == changed + 1]; }

static void no_sets(la_op *op) { op->sets = 0; }

/* A variant is changed in a copy. */
static void change_ops(la_subject *s, void change(la_op *), la_attn *copy) {
    right[0] = s->op, right[1] = s->variant ? s->variant->pairwise : NULL;
    for (int i = 0; i < 2 && right[i]; i++) change(memcpy(changed + i, right[i], sizeof **right));
    s->op = changed;
    if (!s->variant) return;
    *copy = *s->variant;
    copy->causal = copy->full = changed;
    if (copy->pairwise) copy->pairwise = changed + 1;
    s->variant = copy;
}

/* A backward that is right but for one part in a million of its first block. */
static void nearly_right(const la_node *n, const la_run *run) {
    right_op(n)->backward(n, run);
    for (int i = 0; i < n->n_in; i++)
        for (int64_t j = 0; n->in[i]->g && run->block == 0 && j < la_len(n->in[i]->shape); j++)
            n->in[i]->g[j] *= R(1 + 1e-6);
}

static void make_nearly_right(la_op *op) { op->backward = nearly_right; }

START_TEST(gradcheck_sees_one_part_in_a_million) { /* _i is the subject */
    la_subject s = la_subject_at(_i);
    double     worst;
    la_threads_set(1); /* blocks in order */
    la_attn variant;
    change_ops(&s, make_nearly_right, &variant);
    OK(la_gradcheck(&s, s.cases, &(la_trial_cfg){0}, &worst));
    ck_assert_msg(worst > 1e-7 && worst < 1e-5, "%s: a gradient 1e-6 off shows as %g", s.name,
                  worst);
}
END_TEST

START_TEST(two_backwards_give_twice_the_gradient) {
    const item *it = items + _i;
    la_trial    r;
    create(&r, it, 0, 0);
    step(&r);
    la_real *once[LA_TRIAL_NODES];
    for (int i = 0; i < r.n_in; i++) {
        once[i] = copy_of(la_len(r.in[i]->shape), r.in[i]->g);
        for (int64_t j = 0; j < la_len(r.in[i]->shape); j++) once[i][j] *= 2;
    }
    step(&r);
    for (int i = 0; i < r.n_in; i++) {
        int64_t len = la_len(r.in[i]->shape);
        double  top = largest(len, once[i]), d = gap(len, once[i], r.in[i]->g);
        ck_assert_msg(d <= BY_PRECISION(2e-6, 1e-14) * top,
                      "%s: input %d, twice is %g off, largest %g", title(it), i, d, top);
        free(once[i]);
    }
    la_trial_destroy(&r);
}
END_TEST

START_TEST(an_input_without_gradient_leaves_the_others_alone) {
    const item *it = items + _i;
    la_trial    all, some;
    create(&all, it, 0, 0);
    step(&all);
    for (unsigned mask = 1; mask < 1u << all.n_in; mask++) {
        create(&some, it, mask, 0);
        OK(la_tape_forward(some.tape));
        if (mask + 1 == 1u << all.n_in)
            FAILS(la_tape_backward(some.tape, 1), LA_STATE,
                  "no parameter that the loss depends on");
        else
            OK(la_tape_backward(some.tape, 1));
        ck_assert_msg(differ(1, all.loss->x, some.loss->x) < 0, "%s: mask %x changes the loss",
                      title(it), mask);
        for (int i = 0; i < all.n_in; i++) {
            if (mask >> i & 1) {
                ck_assert_ptr_null(some.in[i]->g);
                continue;
            }
            int64_t at = differ(la_len(all.in[i]->shape), all.in[i]->g, some.in[i]->g);
            ck_assert_msg(at < 0,
                          "%s: without gradients of mask %x, that of input %d differs at %lld",
                          title(it), mask, i, (long long)at);
        }
        la_trial_destroy(&some);
    }
    la_trial_destroy(&all);
}
END_TEST

/* A backward that may not write = has all gradients cleared before it: the same bits must come of
 * the two ways, and of memory that holds NaN or the garbage that forward leaves there. */
static void fill_gradients(const la_tape *t, la_real with) {
    for (int i = 0; i < la_tape_len(t); i++) {
        const la_node *n = la_tape_at(t, i);
        int            of_op = n->op || (n->from && n->from->out[1] == n);
        for (int64_t j = 0; of_op && n->g && j < la_len(n->shape); j++) n->g[j] = with;
    }
}

START_TEST(no_gradient_depends_on_what_its_memory_held) {
    for (int columns = 0; columns <= (items[_i].subject.variant != NULL); columns++) {
        item         cleared = items[_i];
        la_subject  *s = &cleared.subject;
        la_attn      variant;
        la_trial     r[2];
        la_trial_cfg cfg = {.split = cleared.split,
                            .masked = cleared.masked,
                            .behind = 1,
                            .columns = columns,
                            .seed = 5};
        change_ops(s, no_sets, &variant);
        OK(la_trial_create(r, s, cleared.c, &cfg));
        OK(la_trial_create(r + 1, &items[_i].subject, cleared.c, &cfg));
        step(r);
        fill_gradients(r[1].tape, R(NAN));
        step(r + 1);
        for (int k = 0; k < r[0].n_in; k++) {
            int64_t at = differ(la_len(r[0].in[k]->shape), r[0].in[k]->g, r[1].in[k]->g);
            ck_assert_msg(at < 0, "%s, %s: gradient %d is %g and %g at %lld", title(&cleared),
                          columns ? "columns" : "inputs", k, (double)r[0].in[k]->g[at],
                          (double)r[1].in[k]->g[at], (long long)at);
        }
        la_trial_destroy(r), la_trial_destroy(r + 1);
    }
}
END_TEST

START_TEST(threads_change_no_bit) {
    const item *it = items + _i;
    la_trial    r[3];
    for (int i = 0; i < 3; i++) {
        la_threads_set(i + 1);
        create(r + i, it, 0, 0);
        step(r + i);
    }
    la_threads_set(2);
    for (int i = 1; i < 3; i++) {
        for (int k = 0; k < r[0].n_out; k++)
            ck_assert_msg(differ(la_len(r[0].out[k]->shape), r[0].out[k]->x, r[i].out[k]->x) < 0,
                          "%s: output %d differs at %d threads", title(it), k, i + 1);
        for (int k = 0; k < r[0].n_in; k++)
            ck_assert_msg(differ(la_len(r[0].in[k]->shape), r[0].in[k]->g, r[i].in[k]->g) < 0,
                          "%s: gradient %d differs at %d threads", title(it), k, i + 1);
    }
    for (int i = 0; i < 3; i++) la_trial_destroy(r + i);
}
END_TEST

/* --- padding: la_pack and la_unpack hide what an op makes of it, so the op is watched --- */
enum { NODES = 128 };
static int64_t left_over[NODES]; /* numbers of padding that are not 0 after the node's last block */

static int64_t count_padding(const la_node *n, const la_node *of, const la_real *x) {
    int64_t count = 0;
    for (int64_t b = 0; x && b < of->shape.d[0]; b++)
        for (int64_t t = la_attn_tokens(n, b); t < of->shape.d[1]; t++)
            for (int64_t j = 0; j < of->shape.d[2] * of->shape.d[3]; j++)
                count += x[la_token(of, b, t, 0) + j] != 0;
    return count;
}

static void fill_with_nan(size_t n, la_real *x) {
    for (size_t i = 0; i < n; i++) x[i] = R(NAN);
}

/* What an op may not take for cleared; whether this is its first block. */
static int spoil_memory(const la_node *n, const la_run *run) {
    la_plan   p = {0};
    const int first = run->phase == 0 && run->block == 0;
    OK(right_op(n)->infer(n, &p));
    fill_with_nan(p.n_scratch, run->scratch);
    if (first) fill_with_nan(p.n_common, run->common);
    return first;
}

static void watched_forward(const la_node *n, const la_run *run) {
    if (spoil_memory(n, run)) fill_with_nan((size_t)la_len(n->shape), n->x);
    right_op(n)->forward(n, run);
    left_over[n->id] = count_padding(n, n, n->x);
}

static void watched_backward(const la_node *n, const la_run *run) {
    const int first = spoil_memory(n, run);
    for (int i = 0; i < 3 && first; i++)
        if (la_sets(run, i)) fill_with_nan((size_t)la_len(n->in[i]->shape), n->in[i]->g);
    right_op(n)->backward(n, run);
    left_over[n->id] = 0;
    for (int i = 0; i < 3; i++) left_over[n->id] += count_padding(n, n->in[i], n->in[i]->g);
}

/* Row 0 of every part has no token, and a state that is not that of a beginning. */
static void empty_row_0(la_trial *r) {
    const la_node *start = r->text[0].state;
    for (int part = 0; part < 2 && r->text[part].q; part++) {
        const la_attn_in *in = &r->text[part]; /* its integers are the trial's own */
        memset((int32_t *)in->mask->ids, 0, (size_t)in->mask->shape.d[1] * sizeof *in->mask->ids);
        if (in->past) ((int32_t *)in->past->ids)[0] = 1;
    }
    if (start) fill_uniform(la_len(start->shape) / start->shape.d[0], 0.5, 70, start->x);
}

static void expect_no_padding(const item *it, const la_trial *r, const char *what) {
    int watched = 0;
    for (int i = 0; i < la_tape_len(r->tape); i++)
        if (la_tape_at(r->tape, i)->op && la_tape_at(r->tape, i)->op->forward == watched_forward) {
            ck_assert_msg(left_over[i] == 0, "%s: %lld numbers of padding are not 0 in %s",
                          title(it), (long long)left_over[i], what);
            watched++;
        }
    ck_assert_int_eq(watched, r->text[1].q ? 2 : 1);
}

static void expect_zeros(const item *it, const char *what, int64_t n, const la_real *x) {
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(x[i] == 0, "%s: %s of a row without tokens has %g", title(it), what,
                      (double)x[i]);
}

static void expect_empty_row_0(const item *it, const la_trial *r) {
    const la_node *start = r->text[0].state, *end = start ? r->out[r->n_out - 1] : NULL;
    const int64_t  B = r->text[0].q->shape.d[0];
    for (int k = 0; k < r->n_out; k++)
        if (r->out[k] != end) expect_zeros(it, "o", la_len(r->out[k]->shape) / B, r->out[k]->x);
    ck_assert_msg(!end || differ(la_len(end->shape) / B, start->x, end->x) < 0,
                  "%s: the state of a row without tokens has changed", title(it));
    for (int i = 0; i < r->n_in; i++)
        if (r->in[i]->shape.n == 4)
            expect_zeros(it, "a gradient", la_len(r->in[i]->shape) / B, r->in[i]->g);
}

static void expect_finite(const item *it, const la_trial *r) {
    for (int k = 0; k < r->n_out; k++)
        ck_assert_msg(la_find_nonfinite((size_t)la_len(r->out[k]->shape), r->out[k]->x) < 0,
                      "%s: output %d is not finite", title(it), k);
    for (int i = 0; i < r->n_in; i++)
        ck_assert_msg(la_find_nonfinite((size_t)la_len(r->in[i]->shape), r->in[i]->g) < 0,
                      "%s: gradient %d is not finite", title(it), i);
}

static void run_padding(const item *it, int empty) {
    la_trial     r;
    la_trial_cfg cfg = {.split = it->split, .masked = 1, .seed = 5};
    OK(la_trial_create(&r, &it->subject, it->c, &cfg));
    ck_assert_int_le(la_tape_len(r.tape), NODES);
    if (empty) empty_row_0(&r);
    OK(la_tape_forward(r.tape));
    expect_no_padding(it, &r, "o");
    OK(la_tape_backward(r.tape, 1));
    expect_no_padding(it, &r, "the gradients of q, k, v");
    expect_finite(it, &r);
    if (empty) expect_empty_row_0(it, &r);
    la_trial_destroy(&r);
}

static void watch(la_op *op) { op->forward = watched_forward, op->backward = watched_backward; }

START_TEST(padding_counts_as_nothing) { /* _i is the subject */
    la_subject s = la_subject_at(_i);
    la_attn    variant;
    if (!s.variant) return;
    la_threads_set(1); /* blocks in order */
    change_ops(&s, watch, &variant);
    for (int split = 0; split <= !s.bidirectional; split++)
        for (const la_case *c = s.cases; c->name; c++)
            for (int empty = 0; empty < 2; empty++)
                if (c->in[0].d[1] > split) run_padding(&(item){s, c, split, 1}, empty);
}
END_TEST

static void say_what_has_no_padding(void) {
    printf("without a mask, and so not run with padding: the ops");
    for (int i = 0; i < la_subject_count(); i++)
        if (!la_subject_at(i).variant) printf(" %s", la_subject_at(i).name);
    printf("; without a state there: what goes both ways\n");
}

START_TEST(linformer_says_what_it_cannot_do) {
    const la_attn_cfg small = {.eps = 1e-6};
    const la_case     longer = {.in = {{4, {1, LA_TRIAL_TEXT + 1, 1, 2}},
                                       {4, {1, LA_TRIAL_TEXT + 1, 1, 2}},
                                       {4, {1, LA_TRIAL_TEXT + 1, 1, 2}}},
                                .attr = &small};
    la_attn_cfg       c;
    la_subject        s;
    la_trial          r;
    OK(la_subject_find("linformer both ways", &s));
    FAILS(la_trial_create(&r, &s, &longer, &(la_trial_cfg){0}), LA_SHAPE,
          "for 70 tokens at most, and a text has 71");
    OK(la_attn_parse("linformer", 0, &c));
    la_attn_complete(&c, 8);
    FAILS(la_attn_check(&c, 1, 4), LA_ARG, "linformer has no causal form: it projects keys");
}
END_TEST

START_TEST(features_in_pairs_are_refused_in_odd_numbers) {
    static const char *const specs[] = {"rff:m=7", "hedgehog:m=7", "kernel:q=t2r,k=hedgehog,m=7"};
    la_attn_cfg              c;
    for (int i = 0; i < 3; i++) {
        OK(la_attn_parse(specs[i], 0, &c));
        FAILS(la_attn_check(&c, 2, 8), LA_ARG, "m must be even, and is 7");
        c.m = 8;
        OK(la_attn_check(&c, 2, 8));
    }
}
END_TEST

/* A row that dpfp cannot handle in one piece, against its definition, and its gradient along a
 * direction against a difference: the features are products of two, and nothing changes its sign.
 */
START_TEST(dpfp_of_a_wide_head_is_that_of_its_definition) {
    enum { D = 300, NU = 3, M = 2 * D * NU };
    static la_real    x[D], v[D], dx[D], y[M], dy[M];
    static double     wide[D], want[2][M];
    la_attn_cfg       c;
    const la_map_rows rows = {.rows = 1, .D = D, .cfg = &c};
    double            slope = 0, difference = 0, size = 0;
    OK(la_attn_parse("dpfp:nu=3", 0, &c));
    const la_map *map = c.variant->map;
    fill_uniform(D, 1, 31, x), fill_uniform(D, 1, 32, v), fill_uniform(M, 1, 33, dy);
    for (int i = 0; i < D; i++) x[i] += x[i] > 0 ? 1 : -1, wide[i] = (double)x[i];
    map->definition(&c, D, 0, wide, want[0]);
    map->forward(&rows, x, y);
    for (int i = 0; i < M; i++) ck_assert_double_eq_tol((double)y[i], want[0][i], 1e-6);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < D; i++) wide[i] = (double)x[i] + (k ? -1e-3 : 1e-3) * (double)v[i];
        map->definition(&c, D, 0, wide, want[k]);
    }
    map->backward(&rows, x, y, dy, dx);
    for (int i = 0; i < M; i++) difference += (double)dy[i] * (want[0][i] - want[1][i]) / 2e-3;
    for (int i = 0; i < D; i++)
        slope += (double)dx[i] * (double)v[i], size += fabs((double)dx[i] * (double)v[i]);
    ck_assert_double_eq_tol(slope, difference, BY_PRECISION(1e-6, 1e-10) * size);
}
END_TEST

/* Whatever favor's definition says: with many features the weights are those of exp(q.k / sqrt D).
 */
static void attend(const char *spec, la_real *o) {
    enum { T = 6, D = 8 };
    const la_shape s = la_shape4(1, T, 1, D);
    la_attn_cfg    c;
    la_attn_weight w[2];
    la_attn_in     in = {0};
    la_tape       *t;
    OK(la_attn_parse(spec, 0, &c));
    OK(la_tape_create(&t, NULL));
    in.q = la_input(t, "q", s, 0), in.k = la_input(t, "k", s, 0), in.v = la_input(t, "v", s, 0);
    int n = la_attn_weights(&c, 1, D, w);
    if (n) in.weight[0] = la_input(t, "features", w[0].shape, 0);
    la_node *out = la_keep(la_attention(t, &c, &in, NULL));
    OK(la_tape_seal(t, NULL));
    fill_uniform(T * D, 1.5, 21, in.q->x), fill_uniform(T * D, 1.5, 22, in.k->x);
    for (int i = 0; i < T * D; i++) in.v->x[i] = i % D == i / D; /* o is the weights */
    double work[D * D];
    if (n) la_init_fill(w[0].how, w[0].scale, w[0].shape, 1, 2, 0, work, in.weight[0]->x);
    OK(la_tape_forward(t));
    memcpy(o, out->x, T * D * sizeof *o);
    la_tape_destroy(t);
}

START_TEST(favor_with_many_features_is_softmax) {
    la_real want[48], is[48];
    attend("softmax", want), attend("favor:m=65536", is);
    ck_assert_msg(gap(48, is, want) < 0.03, "weights differ by %g", gap(48, is, want));
}
END_TEST

int main(void) {
    list_items();
    int    sets = instruction_sets();
    Suite *s = suite_create("ops");
    TCase *c = add_case(s, "table");
    tcase_add_loop_test(c, every_subject_is_complete, 0, la_subject_count());
    tcase_add_loop_test(c, pairs_are_as_many_as_the_definition_has_weights, 0, la_subject_count());
    tcase_add_test(c, every_line_of_the_tables_and_every_example_has_a_subject);
    tcase_add_test(c, an_unknown_subject_is_answered_with_the_nearest);
    c = add_case(s, "values");
    tcase_add_loop_test(c, forward_equals_the_reference, 0, n_items * sets);
    tcase_add_loop_test(c, inference_gives_the_values_of_training, 0, n_items);
    tcase_add_test(c, favor_with_many_features_is_softmax);
    tcase_add_test(c, features_in_pairs_are_refused_in_odd_numbers);
    tcase_add_test(c, dpfp_of_a_wide_head_is_that_of_its_definition);
    c = add_case(s, "gradients");
    if (LA_REAL_BITS == 64) {
        tcase_add_loop_test(c, gradient_equals_finite_differences, 0, n_items * sets);
        tcase_add_loop_test(c, gradcheck_sees_one_part_in_a_million, 0, la_subject_count());
    } else
        printf("not checked in float: gradients against differences, which need double; see the "
               "64-bit test\n");
    tcase_add_loop_test(c, two_backwards_give_twice_the_gradient, 0, n_items);
    tcase_add_loop_test(c, an_input_without_gradient_leaves_the_others_alone, 0, n_items);
    tcase_add_loop_test(c, no_gradient_depends_on_what_its_memory_held, 0, n_items);
    tcase_add_loop_test(c, padding_counts_as_nothing, 0, la_subject_count());
    say_what_has_no_padding();
    tcase_add_test(c, linformer_says_what_it_cannot_do);
    c = add_case(s, "threads");
    tcase_add_loop_test(c, threads_change_no_bit, 0, n_items);
    return run_suite(s);
}
