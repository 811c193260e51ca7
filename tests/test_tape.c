/* test_tape.c -- properties of the tape: errors as sentences, hand-computed derivatives, memory,
 * dropout, dumps, parameters. */
#include <dlfcn.h>

#include "testing.h"

#include "autograd/op.h"
#include "autograd/ops.h"
#include "autograd/params.h"
#include "autograd/trial.h"
#include "tensor/arena.h"

/* --- every allocation of the process passes here, and those of our own code are counted ---
 * Not those of libraries: OpenBLAS takes the scratch of some small products from malloc. */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COUNTING = 0 }; /* the sanitizer has hooks of its own */
static long allocations;
#else
enum { COUNTING = 1 };
static long   allocations;
static char   early[4096]; /* for dlsym itself, which may allocate */
static size_t early_used;

static void *next(const char *name) {
    void *p = dlsym(RTLD_NEXT, name);
    if (!p) abort();
    return p;
}

extern const char __executable_start, etext; /* by the linker: where this program's code is */

static void tally(const char *caller) {
    if (caller >= &__executable_start && caller < &etext)
        __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
}

#define FORWARD(type, name, parameters, ...)                                                       \
    tally(__builtin_return_address(0));                                                            \
    static type(*real) parameters;                                                                 \
    if (!real) *(void **)&real = next(#name);                                                      \
    return real(__VA_ARGS__)

void *malloc(size_t n) { FORWARD(void *, malloc, (size_t), n); }
void *realloc(void *p, size_t n) { FORWARD(void *, realloc, (void *, size_t), p, n); }
void *aligned_alloc(size_t a, size_t n) { FORWARD(void *, aligned_alloc, (size_t, size_t), a, n); }
void *memalign(size_t a, size_t n);
void *memalign(size_t a, size_t n) { FORWARD(void *, memalign, (size_t, size_t), a, n); }
int   posix_memalign(void **p, size_t a, size_t n) {
      FORWARD(int, posix_memalign, (void **, size_t, size_t), p, a, n);
}
void *calloc(size_t count, size_t n) {
    static int inside;
    if (inside) {
        void *p = early + early_used;
        early_used += (count * n + 15) / 16 * 16;
        if (early_used > sizeof early) abort();
        return p;
    }
    static void *(*real)(size_t, size_t);
    tally(__builtin_return_address(0));
    if (!real) {
        inside = 1;
        *(void **)&real = next("calloc");
        inside = 0;
    }
    return real(count, n);
}
void free(void *p) {
    static void (*real)(void *);
    if ((char *)p >= early && (char *)p < early + sizeof early) return;
    if (!real) *(void **)&real = next("free");
    real(p);
}
#endif

static la_tape *training(void) {
    la_tape *t;
    OK(la_tape_create(&t, &(la_tape_cfg){.grad = 1, .seed = 3}));
    return t;
}

static la_node *input(la_tape *t, la_shape s) { return la_input(t, "x", s, 1); }

static void step(la_tape *t) {
    OK(la_tape_forward(t));
    OK(la_tape_backward(t, 1));
}

/* Sum of all elements: the inner product with ones. */
static la_node *ones;
static la_node *sum(la_tape *t, la_node *x) {
    ones = la_input(t, "ones", x ? x->shape : la_shape1(1), 0);
    return la_inner(t, x, ones);
}
static void seal_sum(la_tape *t, la_node *x) {
    la_node *loss = sum(t, x);
    OK(la_tape_seal(t, loss));
    for (int64_t i = 0; i < la_len(ones->shape); i++) ones->x[i] = 1;
}

/* --- recording errors --- */

START_TEST(a_wrong_shape_is_a_sentence_at_seal) {
    la_tape *t = training();
    la_node *x = input(t, la_shape3(2, 3, 5)), *w = la_input(t, "w", la_shape2(4, 6), 1);
    la_node *y = la_linear(t, x, w, NULL);
    ck_assert_ptr_null(y);
    ck_assert_ptr_null(la_gelu(t, y)); /* NULL gives NULL, and does not replace the message */
    ck_assert_ptr_null(la_add(t, x, NULL));
    ck_assert_ptr_null(la_reshape(t, NULL, la_shape1(1)));
    ck_assert_ptr_null(la_heads(t, NULL, 0, 1, 1));
    ck_assert_ptr_null(la_first_rows(t, NULL, 1));
    ck_assert_ptr_null(la_keep(NULL));
    ck_assert_ptr_null(la_named(t, NULL, "nobody"));
    ck_assert_ptr_null(la_add(t, x, w));
    FAILS(la_tape_seal(t, NULL), LA_SHAPE, "linear: x has 5 columns, and the weight w is 4 by 6");
    FAILS(la_tape_forward(t), LA_STATE, "not been sealed");
    la_tape_destroy(t);
}
END_TEST

typedef la_node *mistake(la_tape *t, la_node *x, la_node *ids); /* x (2,3,8) */

static la_node *add_other_shape(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_add(t, x, la_named(t, la_input(t, "b", la_shape2(6, 8), 0), "other"));
}
static la_node *bias_too_short(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_linear(t, x, la_input(t, "w", la_shape2(4, 8), 1), la_input(t, "b", la_shape1(3), 1));
}
static la_node *reshape_other_length(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_reshape(t, x, la_shape2(6, 7));
}
static la_node *heads_outside(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_heads(t, x, 4, 2, 3);
}
static la_node *heads_of_a_matrix(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_heads(t, la_reshape(t, x, la_shape2(6, 8)), 0, 2, 2);
}
static la_node *gelu_of_columns(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_gelu(t, la_heads(t, x, 0, 2, 2));
}
static la_node *reshape_of_columns(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_reshape(t, la_heads(t, x, 0, 2, 2), la_shape1(24));
}
static la_node *rows_outside(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_first_rows(t, x, 3);
}
static la_node *no_rows(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_first_rows(t, x, 0);
}
static la_node *gain_too_long(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_layernorm(t, x, la_input(t, "gain", la_shape1(9), 1), NULL, 1e-5);
}
static la_node *gain_of_one_head(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    la_node *heads = la_reshape(t, x, la_shape4(2, 3, 2, 4));
    return la_rmsnorm(t, heads, la_input(t, "gain", la_shape1(4), 1), 1e-5);
}
static la_node *drop_all(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_dropout(t, x, 1);
}
static la_node *embed_reals(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_embedding(t, x, la_input(t, "table", la_shape2(5, 3), 1));
}
static la_node *labels_too_few(la_tape *t, la_node *x, la_node *ids) {
    return la_cross_entropy(t, x, ids);
}
static la_node *rope_of_odd_heads(la_tape *t, la_node *x, la_node *ids) {
    return la_rope(t, la_heads(t, x, 0, 2, 3), ids, NULL);
}
static la_node *rope_of_two_pasts_more(la_tape *t, la_node *x, la_node *ids) {
    static const int32_t past[4];
    (void)ids;
    return la_rope(t, la_heads(t, x, 0, 2, 4), la_integers(t, "p", la_shape1(4), past), NULL);
}
static la_node *rope_with_a_short_mask(la_tape *t, la_node *x, la_node *ids) {
    return la_rope(t, la_heads(t, x, 0, 2, 4), ids, ids);
}
static la_node *conv_of_width_1(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_short_conv(t, x, la_input(t, "w", la_shape2(8, 1), 1), NULL, NULL, NULL);
}
static la_node *conv_of_other_channels(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_short_conv(t, x, la_input(t, "w", la_shape2(7, 4), 1), NULL, NULL, NULL);
}
static la_node *conv_with_a_long_state(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_short_conv(t, x, la_input(t, "w", la_shape2(8, 4), 1), NULL,
                         la_input(t, "s", la_shape3(2, 4, 8), 0), NULL);
}
static la_node *linear_of_itself(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    la_node *square = la_reshape(t, x, la_shape2(6, 8));
    return la_linear(t, square, square, NULL);
}
static la_node *head_linear_without_bias(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_head_linear(t, la_heads(t, x, 0, 2, 3), la_input(t, "w", la_shape3(2, 5, 3), 1),
                          &(la_head_linear_cfg){.scale = 1, .bias = 1});
}
static la_node *linear_of_other_sum(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    return la_linear_add(t, x, la_input(t, "w", la_shape2(4, 8), 1), NULL, x);
}
static la_node *concat_of_other_rows(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    la_node *a = la_heads(t, x, 0, 2, 2), *b = la_input(t, "b", la_shape4(2, 4, 1, 1), 0);
    return la_concat(t, 2, (la_node *[]){a, b});
}
static la_node *concat_of_nothing(la_tape *t, la_node *x, la_node *ids) {
    (void)x, (void)ids;
    return la_concat(t, 0, NULL);
}
static la_node *concat_of_ten(la_tape *t, la_node *x, la_node *ids) {
    (void)ids;
    la_node *in[10];
    for (int i = 0; i < 10; i++) in[i] = la_heads(t, x, 0, 2, 2);
    return la_concat(t, 10, in);
}
static la_node *pack_by_one_number(la_tape *t, la_node *x, la_node *ids) {
    return la_unpack(t, la_heads(t, x, 0, 2, 2), ids);
}
static la_node *empty_input(la_tape *t, la_node *x, la_node *ids) {
    (void)x, (void)ids;
    return la_input(t, "nothing", la_shape2(0, 3), 0);
}

static const struct {
    mistake    *make;
    la_status   status;
    const char *says;
} mistakes[] = {
    {add_other_shape, LA_SHAPE, "add: x is (2,3,8) and other is (6,8)"},
    {bias_too_short, LA_SHAPE, "linear: the bias b must be (4), and is (3)"},
    {reshape_other_length, LA_SHAPE, "reshape: x is (2,3,8) and cannot become (6,7)"},
    {heads_outside, LA_SHAPE,
     "heads: columns 4 to 10 (2 heads of 3) are not in x, which is (2,3,8)"},
    {heads_of_a_matrix, LA_SHAPE, "which is (6,8)"},
    {gelu_of_columns, LA_SHAPE, "gelu: x is a view of columns"},
    {reshape_of_columns, LA_SHAPE, "cannot become (24)"},
    {rows_outside, LA_SHAPE, "first_rows: 3 are not in x, which is (2,3,8)"},
    {no_rows, LA_SHAPE, "first_rows: 0 are not in x"},
    {gain_too_long, LA_SHAPE, "layernorm: gain must be (8), and is (9)"},
    {gain_of_one_head, LA_SHAPE,
     "rmsnorm: wants (B,T,H,E) and a gain (H E); x is (2,3,2,4) and gain"},
    {drop_all, LA_ARG, "[0,1), and is 1"},
    {embed_reals, LA_SHAPE, "embedding: wants integers"},
    {labels_too_few, LA_SHAPE, "cross_entropy: logits are (2,3,8)"},
    {rope_of_odd_heads, LA_SHAPE, "even D"},
    {rope_of_two_pasts_more, LA_SHAPE, "x is (2,3,2,4), and past is (4)"},
    {rope_with_a_short_mask, LA_SHAPE, "rope: the mask must be integers (B,T)"},
    {conv_of_width_1, LA_SHAPE, "short_conv: the width must be from 2 to 64, and is 1"},
    {conv_of_other_channels, LA_SHAPE, "they are (2,3,8) and (7,4)"},
    {conv_with_a_long_state, LA_SHAPE, "short_conv: the state must be (2,3,8), and is (2,4,8)"},
    {linear_of_itself, LA_ARG, "linear: inputs 1 and 2 are both x"},
    {head_linear_without_bias, LA_SHAPE, "weight (H,m,D+1); they are (2,3,2,3) and (2,5,3)"},
    {linear_of_other_sum, LA_ARG, "linear: inputs 1 and 3 are both x"},
    {concat_of_other_rows, LA_SHAPE,
     "concat: wants (B,T,H,D) of one B and T; x is (2,3,2,2) and b"},
    {concat_of_nothing, LA_ARG, "concat: wants tensors"},
    {concat_of_ten, LA_ARG, "concat: 10 inputs are too many"},
    {pack_by_one_number, LA_SHAPE,
     "unpack: wants (B,T,H,D) and integers (B,T); they are (2,3,2,2)"},
    {empty_input, LA_SHAPE, "nothing cannot have the shape (0,3)"},
};

START_TEST(each_mistake_has_its_sentence) {
    static const int32_t past[] = {0};
    la_tape             *t = training();
    la_node             *x = la_named(t, input(t, la_shape3(2, 3, 8)), "x"),
            *ids = la_integers(t, "ids", la_shape1(1), past);
    ck_assert_ptr_null(mistakes[_i].make(t, x, ids));
    FAILS(la_tape_seal(t, NULL), mistakes[_i].status, mistakes[_i].says);
    la_tape_destroy(t);
}
END_TEST

START_TEST(a_loss_that_is_a_part_of_a_tensor_is_refused) {
    la_tape *t = training();
    la_node *x = input(t, la_shape3(1, 1, 4)), *y = la_add(t, x, x);
    FAILS(la_tape_seal(t, la_heads(t, y, 1, 1, 1)), LA_SHAPE, "must not be a part of a larger");
    la_tape_destroy(t);
}
END_TEST

START_TEST(a_failure_of_a_layer_is_reported_at_seal) {
    la_tape *t = training();
    ck_assert_ptr_null(la_tape_fail(t, la_fail(LA_ARG, "the first")));
    ck_assert_ptr_null(la_tape_fail(t, la_fail(LA_SHAPE, "the second")));
    FAILS(la_tape_seal(t, NULL), LA_ARG, "the first");
    la_tape_destroy(t);
    la_tape_destroy(NULL);
}
END_TEST

/* --- calls out of order --- */

START_TEST(calls_out_of_order_are_refused) {
    la_tape *t = training();
    la_node *x = input(t, la_shape1(2));
    FAILS(la_tape_forward(t), LA_STATE, "not been sealed");
    FAILS(la_tape_backward(t, 1), LA_STATE, "not been sealed");
    FAILS(la_tape_find_nonfinite(t), LA_STATE, "not been sealed");
    seal_sum(t, x);
    FAILS(la_tape_backward(t, 1), LA_STATE, "backward needs a forward before it");
    step(t);
    FAILS(la_tape_backward(t, 1), LA_STATE, "backward needs a forward before it");
    FAILS(la_tape_seal(t, NULL), LA_STATE, "already sealed");
    ck_assert_ptr_null(la_gelu(t, x));
    la_tape_destroy(t);
}
END_TEST

START_TEST(the_loss_is_one_number) {
    la_tape *t = training();
    la_node *x = input(t, la_shape2(2, 3));
    FAILS(la_tape_seal(t, x), LA_SHAPE, "the loss must be one number, and x is (2,3)");
    la_tape_destroy(t);
}
END_TEST

START_TEST(a_loss_without_parameters_has_no_backward) {
    la_tape *t = training();
    la_node *x = la_input(t, "x", la_shape1(2), 0);
    seal_sum(t, x);
    OK(la_tape_forward(t));
    FAILS(la_tape_backward(t, 1), LA_STATE, "no parameter that the loss depends on has a gradient");
    la_tape_destroy(t);
}
END_TEST

START_TEST(more_threads_than_at_seal_are_refused_and_fewer_are_not) {
    la_threads_set(2);
    la_tape *t = training();
    seal_sum(t, input(t, la_shape1(2)));
    la_threads_set(3);
    FAILS(la_tape_forward(t), LA_STATE, "sealed for 2 threads and there are now 3");
    FAILS(la_tape_backward(t, 1), LA_STATE, "sealed for 2 threads and there are now 3");
    la_threads_set(1);
    step(t);
    la_threads_set(2);
    la_tape_destroy(t);
}
END_TEST

START_TEST(integers_out_of_range_are_refused_at_each_forward) {
    int32_t  id = 0, label = 0;
    la_tape *t = training();
    la_node *w = la_named(t, input(t, la_shape2(5, 3)), "table");
    la_node *x = la_embedding(t, la_integers(t, "id", la_shape1(1), &id), w);
    OK(la_tape_seal(t, la_cross_entropy(t, x, la_integers(t, "label", la_shape1(1), &label))));
    step(t);
    id = 5;
    FAILS(la_tape_forward(t), LA_ARG, "id 5 at 0 is not a row of table, which has 5");
    id = -1;
    FAILS(la_tape_forward(t), LA_ARG, "id -1 at 0");
    id = 4, label = 3;
    FAILS(la_tape_forward(t), LA_ARG, "label 3 at 0");
    FAILS(la_tape_backward(t, 1), LA_STATE, "backward needs a forward");
    label = -1; /* ignored */
    step(t);
    la_tape_destroy(t);
}
END_TEST

START_TEST(a_mask_is_0_and_1) {
    int32_t  mask[] = {1, 0, 1};
    la_tape *t = training();
    la_node *x = input(t, la_shape4(1, 3, 1, 2)), *m = la_integers(t, "m", la_shape2(1, 3), mask);
    seal_sum(t, la_pack(t, x, m));
    step(t);
    mask[2] = 2;
    FAILS(la_tape_forward(t), LA_ARG, "pack: the mask has 0 and 1, and 2 at 2");
    mask[2] = 1, mask[0] = -1;
    FAILS(la_tape_forward(t), LA_ARG, "and -1 at 0");
    la_tape_destroy(t);
}
END_TEST

/* --- derivatives by hand --- */

static void is(const char *what, const la_real *x, double want) {
    ck_assert_msg(fabs((double)*x - want) <= 8 * LA_REAL_EPSILON * fmax(1, fabs(want)),
                  "%s is %.17g, not %.17g", what, (double)*x, want);
}

START_TEST(simple_autograd_with_D_x_plus_x) {
    la_tape *t = training();
    la_node *x = input(t, la_shape1(3));
    seal_sum(t, la_add(t, x, x));
    step(t);
    for (int i = 0; i < 3; i++) is("D[x + x, x]", x->g + i, 2);
    la_tape_destroy(t);
}
END_TEST

START_TEST(simple_autograd_with_D_x_times_x_when_x_is_3) {
    la_tape *t = training();
    la_node *x = input(t, la_shape1(1)), *y = la_inner(t, x, x);
    OK(la_tape_seal(t, y));
    x->x[0] = 3;
    step(t);
    is("x * x", y->x, 9);
    is("D[x * x, x]", x->g, 6);
    la_tape_destroy(t);
}
END_TEST

START_TEST(simple_autograd_with_D_x_to_the_fourth_when_x_is_2) {
    la_tape *t = training();
    la_node *x = input(t, la_shape1(1)), *y = la_inner(t, x, x), *z = la_inner(t, y, y);
    OK(la_tape_seal(t, z));
    x->x[0] = 2;
    step(t);
    is("x^4", z->x, 16);
    is("D[x^4, x]", x->g, 32);
    OK(la_tape_forward(t));
    OK(la_tape_backward(t, -0.5)); /* scaled, and added */
    is("D[x^4, x] - D[x^4, x] / 2", x->g, 16);
    la_tape_destroy(t);
}
END_TEST

START_TEST(
    a_diamond_adds_both_sides) { /* y = gelu(x); (y + x) . y at x = 1: D = (y'+1) y + (y+x) y' */
    la_tape *t = training();
    la_node *x = input(t, la_shape1(1)), *y = la_gelu(t, x), *z = la_inner(t, la_add(t, y, x), y);
    OK(la_tape_seal(t, z));
    x->x[0] = 1;
    step(t);
    double Phi = 0.5 * erfc(-sqrt(0.5)), slope = Phi + exp(-0.5) / sqrt(2 * acos(-1));
    is("(gelu(x) + x) gelu(x)", z->x, (Phi + 1) * Phi);
    is("its derivative", x->g, (slope + 1) * Phi + (Phi + 1) * slope);
    la_tape_destroy(t);
}
END_TEST

START_TEST(a_leaf_that_is_the_loss_adds_up_too) { /* D[x] = 1, twice, on top of 5 */
    la_real  x = 3, g = 5;
    la_tape *t;
    OK(la_tape_create(&t, &(la_tape_cfg){.grad = 1}));
    OK(la_tape_seal(t, la_leaf(t, "x", la_shape1(1), &x, &g)));
    for (int i = 0; i < 2; i++) {
        OK(la_tape_forward(t));
        OK(la_tape_backward(t, 0.5));
    }
    ck_assert_double_eq((double)g, 6);
    la_tape_destroy(t);
}
END_TEST

START_TEST(an_input_that_is_the_loss_adds_up_too) {
    la_tape *t = training();
    la_node *x = input(t, la_shape1(1));
    la_gelu(t, x); /* its value must not lie where x's gradient is */
    OK(la_tape_seal(t, x));
    x->x[0] = 1;
    for (int i = 0; i < 2; i++) step(t);
    ck_assert_double_eq((double)x->g[0], 2);
    la_tape_destroy(t);
}
END_TEST

START_TEST(a_parameter_used_twice_gets_the_sum) { /* w x + w y: D = x + y */
    la_params *p;
    OK(la_params_create(&p));
    la_param i = la_params_add(p, "w", la_shape2(1, 2), LA_INIT_ONE, 0);
    OK(la_params_alloc(p, 1, 1));
    la_tape *t = training();
    la_node *w = la_param_node(t, p, i), *x = la_input(t, "x", la_shape2(1, 2), 0);
    la_node *y = la_input(t, "y", la_shape2(1, 2), 0);
    ck_assert_ptr_eq(la_param_node(t, p, i), w);
    ck_assert_ptr_eq(la_tape_find_leaf(t, la_params_x(p)), w);
    ck_assert_ptr_null(la_tape_find_leaf(t, la_params_x(p) + 1));
    seal_sum(t, la_add(t, la_linear(t, x, w, NULL), la_linear(t, y, la_param_node(t, p, i), NULL)));
    x->x[0] = 2, x->x[1] = 3, y->x[0] = 10, y->x[1] = 20;
    step(t);
    is("D[w x + w y, w_0]", la_params_g(p), 12);
    is("D[w x + w y, w_1]", la_params_g(p) + 1, 23);
    step(t);
    is("twice", la_params_g(p), 24);
    la_tape_destroy(t);
    la_params_destroy(p);
}
END_TEST

START_TEST(views_share_values_and_gradients) { /* x . reshape(x) and both heads of x */
    la_tape *t = training();
    la_node *x = input(t, la_shape3(1, 2, 2)), *flat = la_reshape(t, x, la_shape1(4));
    la_node *all = la_inner(t, flat, la_reshape(t, flat, la_shape1(4)));
    OK(la_tape_seal(t, all));
    ck_assert_ptr_eq(flat->x, x->x);
    ck_assert_ptr_eq(flat->g, x->g);
    for (int i = 0; i < 4; i++) x->x[i] = R(i + 1);
    step(t);
    is("x . x", all->x, 30);
    for (int i = 0; i < 4; i++) is("D[x . x, x]", x->g + i, 2 * (i + 1));
    la_tape_destroy(t);
}
END_TEST

/* Rows that are left over have no gradient, also where their owner's memory held garbage. */
START_TEST(the_first_rows_are_a_view_of_their_own) {
    for (int leaf = 0; leaf <= 1; leaf++) {
        la_tape *t = training();
        la_node *x = input(t, la_shape2(3, 2)), *y = leaf ? x : la_dropout(t, x, 0);
        la_node *rows = la_first_rows(t, y, 2), *by = la_input(t, "by", la_shape2(2, 2), 1);
        la_node *w = la_input(t, "w", la_shape2(2, 2), 1);
        la_node *loss = la_inner(t, la_linear(t, rows, w, NULL), by); /* x_0.w_0 + x_1.w_1 */
        OK(la_tape_seal(t, loss));
        ck_assert_ptr_eq(rows->x, y->x);
        for (int i = 0; i < 6; i++) x->x[i] = R(i + 1);
        for (int i = 0; i < 4; i++) w->x[i] = R(10 * (i + 1)), by->x[i] = i == 0 || i == 3;
        for (int again = 1; again <= 2; again++) {
            static const double D[] = {10, 20, 30, 40, 0, 0};
            for (int i = 0; !leaf && i < 6; i++) y->g[i] = R(NAN);
            step(t);
            is("x_0.w_0 + x_1.w_1", loss->x, 1 * 10 + 2 * 20 + 3 * 30 + 4 * 40);
            for (int i = 0; i < 6; i++) is("D", x->g + i, again * D[i]);
        }
        la_tape_destroy(t);
    }
}
END_TEST

START_TEST(a_node_that_the_loss_does_not_need_has_no_gradient) {
    la_tape *t = training();
    la_node *x = input(t, la_shape1(2)), *other = input(t, la_shape1(2)), *side = la_gelu(t, other);
    la_node *both = la_add(t, x, side),
            *y = la_gelu(t, x); /* `both` hangs on x, and on nothing below */
    la_node *norm = la_keep(la_layernorm(t, other, input(t, la_shape1(2)), NULL, 1e-5));
    la_keep(both);
    seal_sum(t, y);
    ck_assert_ptr_null(norm->saved);
    x->x[0] = x->x[1] = 0;
    step(t);
    is("D[gelu(x), x] at 0", x->g, 0.5);
    is("an input aside", other->g, 0);
    la_tape_destroy(t);
}
END_TEST

START_TEST(gradients_of_kept_values_and_of_inference_tapes) {
    la_tape *t;
    OK(la_tape_create(&t, NULL));
    ck_assert_int_eq(la_tape_training(t), 0);
    la_real  x[2] = {1, 2}, g[2] = {7, 7};
    la_node *leaf = la_leaf(t, "leaf", la_shape1(2), x, g), *in = input(t, la_shape1(2)),
            *y = la_keep(la_add(t, leaf, in));
    OK(la_tape_seal(t, NULL));
    in->x[0] = 10, in->x[1] = 20;
    OK(la_tape_forward(t));
    is("a + b", y->x, 11);
    ck_assert_ptr_null(leaf->g);
    ck_assert_ptr_null(in->g);
    x[0] = 5; /* leaves are read at each replay, inputs keep their values */
    OK(la_tape_forward(t));
    is("a + b again", y->x, 15);
    FAILS(la_tape_backward(t, 1), LA_STATE, "no parameter");
    ck_assert(g[0] == 7 && g[1] == 7);
    la_tape_destroy(t);
}
END_TEST

/* --- texts in pieces, texts with holes --- */

enum { ROW = 11, WIDE = 3, TAPS = 4 };

static const int32_t holes[2 * ROW] = {0, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1,
                                       1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0};

/* y of a whole text; then token by token on a tape without gradients, the state in place. */
START_TEST(short_conv_token_by_token_is_that_of_the_text) {
    la_real  x[2 * ROW * WIDE], w[WIDE * TAPS], one[2 * WIDE], state[2 * (TAPS - 1) * WIDE] = {0};
    int32_t  valid[2];
    la_tape *whole, *token;
    fill_uniform(2 * ROW * WIDE, 1, 1, x);
    fill_uniform(WIDE * TAPS, 1, 2, w);
    OK(la_tape_create(&whole, NULL));
    OK(la_tape_create(&token, NULL));
    la_node *y =
        la_keep(la_short_conv(whole, la_leaf(whole, "x", la_shape3(2, ROW, WIDE), x, NULL),
                              la_leaf(whole, "w", la_shape2(WIDE, TAPS), w, NULL),
                              la_integers(whole, "mask", la_shape2(2, ROW), holes), NULL, NULL));
    la_node *out;
    la_node *y1 = la_keep(
        la_short_conv(token, la_leaf(token, "x", la_shape3(2, 1, WIDE), one, NULL),
                      la_leaf(token, "w", la_shape2(WIDE, TAPS), w, NULL),
                      la_integers(token, "mask", la_shape2(2, 1), valid),
                      la_leaf(token, "state", la_shape3(2, TAPS - 1, WIDE), state, NULL), &out));
    OK(la_tape_seal(whole, NULL));
    OK(la_tape_seal(token, NULL));
    ck_assert_ptr_eq(out->x, state);
    OK(la_tape_forward(whole));
    for (int t = 0; t < ROW; t++) {
        for (int b = 0; b < 2; b++) {
            memcpy(one + b * WIDE, x + (b * ROW + t) * WIDE, WIDE * sizeof *x);
            valid[b] = holes[b * ROW + t];
        }
        OK(la_tape_forward(token));
        for (int b = 0; b < 2; b++)
            ck_assert_msg(differ(WIDE, y1->x + b * WIDE, y->x + (b * ROW + t) * WIDE) < 0,
                          "token %d of row %d differs", t, b);
    }
    la_tape_destroy(whole), la_tape_destroy(token);
}
END_TEST

/* y and D[sum y^2, x] of an op on a text with holes, which hold NaN (where the op must not look),
 * and of the same text without them, where the rest of a row does not count: equal where a token is
 * valid, else 0. */
typedef la_node *on_holes(la_tape *t, la_node *x, la_node *mask);

static la_node *short_conv_of(la_tape *t, la_node *x, la_node *mask) {
    la_node *flat = la_reshape(t, x, la_shape3(2, ROW, 4));
    return la_short_conv(t, flat, la_named(t, input(t, la_shape2(4, TAPS)), "w"), mask, NULL, NULL);
}
static la_node *rope_of(la_tape *t, la_node *x, la_node *mask) {
    static const int32_t past[] = {3, 40};
    return la_rope(t, x, la_integers(t, "past", la_shape1(2), past), mask);
}

START_TEST(a_text_with_holes_is_the_text_without_them) {
    static on_holes *const ops[] = {short_conv_of, rope_of};
    static int32_t         all[2 * ROW];
    enum { W = 4, LEN = 2 * ROW * W };
    la_real *y[2], *g[2];
    for (int k = 0; k < 2; k++) {
        la_tape *t = training();
        la_node *x = input(t, la_shape4(2, ROW, 2, 2));
        for (int i = 0; i < 2 * ROW; i++) all[i] = 1;
        la_node *is = ops[_i](t, x, la_integers(t, "mask", la_shape2(2, ROW), k ? all : holes));
        is = la_keep(is);
        la_node *cotangent = la_input(t, "c", is->shape, 0), *loss = la_inner(t, is, cotangent);
        OK(la_tape_seal(t, loss));
        for (int i = 0; i < la_tape_len(t); i++)
            if (!strcmp(la_tape_at(t, i)->name, "w"))
                fill_uniform(la_len(la_tape_at(t, i)->shape), 1, 3, la_tape_at(t, i)->x);
        for (int i = 0, r = 0; i < 2 * ROW; i++) {
            if (i % ROW == 0) r = i;
            int to = k ? r : i;
            if (holes[i]) fill_uniform(W, 1, (uint32_t)(100 + i), x->x + to * W);
            if (holes[i]) fill_uniform(W, 1, (uint32_t)(200 + i), cotangent->x + to * W);
            r += holes[i];
        }
        for (int i = 0; !k && i < LEN; i++)
            if (!holes[i / W] && ops[_i] == short_conv_of) x->x[i] = R(NAN);
        step(t);
        y[k] = copy_of(LEN, is->x), g[k] = copy_of(LEN, x->g);
        la_tape_destroy(t);
    }
    for (int i = 0, r = 0; i < 2 * ROW; i++) {
        if (i % ROW == 0) r = i;
        for (int j = 0; j < W; j++) {
            ck_assert_msg(g[0][i * W + j] == (holes[i] ? g[1][r * W + j] : 0), "gradient %d", i);
            if (holes[i] || ops[_i] == short_conv_of)
                ck_assert_msg(y[0][i * W + j] == (holes[i] ? y[1][r * W + j] : 0), "token %d", i);
        }
        r += holes[i];
    }
    for (int k = 0; k < 2; k++) free(y[k]), free(g[k]);
}
END_TEST

/* A unit vector of a row of zeros is 0 and has no gradient; the square has its own, which is 0. */
START_TEST(a_row_of_zeros_has_no_direction) {
    la_tape *t = training();
    la_node *x = input(t, la_shape4(1, 2, 1, 3)), *w = input(t, la_shape3(1, 2, 4));
    seal_sum(t, la_keep(la_head_linear(
                    t, x, w, &(la_head_linear_cfg){2, .square = 3, .unit = 1, .bias = 1})));
    for (int i = 0; i < 8; i++) w->x[i] = R(i + 1);
    x->x[4] = R(0.5); /* the second row: (0, 0.5, 0) */
    step(t);
    for (int i = 0; i < 3; i++) ck_assert(x->g[i] == 0);
    is("D[y, x_0], along w_00 + w_10", x->g + 3, 2 * (1 + 5) / sqrt(0.25 + 1e-12));
    is("D[y, x_1], by the square alone", x->g + 4,
       -2 * 3 * 2 * 0.5 + 2 * (2 + 6) * 1e-12 / pow(0.25 + 1e-12, 1.5));
    is("D[y, w_01], the unit vector", w->g + 1, 2 * 0.5 / sqrt(0.25 + 1e-12));
    is("D[y, bias_0]", w->g + 3, 2);
    la_tape_destroy(t);
}
END_TEST

/* --- who writes a gradient first --- */

/* y = a + b + c, which may be columns of one tensor; backward writes = where it may. */
static unsigned first_seen; /* of the last run of three_backward */
static long     three_forwards;

static la_status three_infer(const la_node *n, la_plan *p) {
    p->n_out = 1;
    p->out[0] = n->in[0]->shape;
    return LA_OK;
}
static void three_forward(const la_node *n, const la_run *r) {
    (void)r;
    three_forwards++;
    int64_t width = n->shape.d[2] * n->shape.d[3];
    for (int64_t i = 0; i < la_len(n->shape); i++) {
        n->x[i] = 0;
        for (int j = 0; j < n->n_in; j++)
            n->x[i] += n->in[j]->x[i / width * n->in[j]->ld + i % width];
    }
}
static void three_backward(const la_node *n, const la_run *r) {
    int64_t width = n->shape.d[2] * n->shape.d[3];
    first_seen = r->first;
    for (int j = 0; j < n->n_in; j++)
        for (int64_t i = 0; n->in[j]->g && i < la_len(n->shape); i++) {
            la_real *g = n->in[j]->g + i / width * n->in[j]->ld + i % width;
            *g = r->first >> j & 1 ? n->g[i] : *g + n->g[i];
        }
}
static const la_op three = {.name = "three",
                            .sets = LA_SETS_IN(0) | LA_SETS_IN(1) | LA_SETS_IN(2),
                            .strided = 1,
                            .infer = three_infer,
                            .forward = three_forward,
                            .backward = three_backward};

/* Which columns of x (2,3,6) a, b and c are, what may be written =, and the gradient then. */
static const struct {
    int64_t  at[3];
    int      n, leaf;
    unsigned first;
    double   g[6];
} covers[] = {
    {{0, 2, 4}, 3, 0, 7, {1, 1, 1, 1, 1, 1}}, /* each once, in any order */
    {{4, 0, 2}, 3, 0, 7, {1, 1, 1, 1, 1, 1}},
    {{0, 2, 4}, 3, 1, 0, {1, 1, 1, 1, 1, 1}}, /* a leaf adds up */
    {{0, 2}, 2, 0, 0, {1, 1, 1, 1, 0, 0}},    /* two columns are left over */
    {{0, 2, 2}, 3, 0, 0, {1, 1, 2, 2, 0, 0}},
    {{0, 1, 4}, 3, 0, 0, {1, 2, 1, 0, 1, 1}},
    {{0, 0, 0}, 3, 0, 0, {3, 3, 0, 0, 0, 0}},
};

START_TEST(columns_that_cover_a_gradient_once_are_written_and_others_added) {
    la_tape *t = training();
    la_node *x = input(t, la_shape3(2, 3, 6)), *in[3];
    la_node *y = covers[_i].leaf ? x : la_dropout(t, x, 0);
    for (int i = 0; i < covers[_i].n; i++)
        in[i] = la_heads(t, i == 1 ? la_reshape(t, y, y->shape) : y, covers[_i].at[i], 1, 2);
    seal_sum(t, la_apply(t, &three, covers[_i].n, in, NULL));
    for (int again = 1; again <= 2; again++) {
        for (int i = 0; y != x && i < 36; i++) y->g[i] = R(NAN);
        step(t);
        ck_assert_uint_eq(first_seen, covers[_i].first);
        for (int i = 0; i < 36; i++) is("D", x->g + i, again * covers[_i].g[i % 6]);
    }
    la_tape_destroy(t);
}
END_TEST

START_TEST(columns_of_two_shapes_of_a_tensor_are_added) { /* (1,4,4) and (1,2,8) */
    la_tape *t = training();
    la_node *x = input(t, la_shape3(1, 4, 4)), *y = la_dropout(t, x, 0);
    la_node *in[] = {la_heads(t, la_reshape(t, y, la_shape3(1, 2, 8)), 2, 1, 2),
                     la_heads(t, y, 0, 1, 2)};
    seal_sum(t, la_apply(t, &three, 2, in, NULL));
    step(t);
    ck_assert_uint_eq(first_seen, 0);
    la_tape_destroy(t);
}
END_TEST

/* y has three readers, one of them twice. */
START_TEST(only_the_first_writer_of_a_gradient_sets_it) {
    la_tape *t = training();
    la_node *x = input(t, la_shape4(1, 2, 2, 2)), *y = la_dropout(t, x, 0);
    la_node *a = la_apply(t, &three, 2, (la_node *[]){y, x}, NULL);
    la_node *b = la_apply(t, &three, 2, (la_node *[]){y, y}, NULL);
    seal_sum(t, la_add(t, la_add(t, a, b), y));
    for (int again = 1; again <= 2; again++) {
        for (int i = 0; i < 8; i++) y->g[i] = R(NAN);
        step(t);
        for (int i = 0; i < 8; i++) is("D[y + x + y + y + y]", x->g + i, again * 5);
    }
    ck_assert_uint_eq(first_seen, 0);
    la_tape_destroy(t);
}
END_TEST

/* --- memory --- */

enum { DEEP = 6, ROWS = 40, COLS = 24 };

typedef struct net {
    la_params *p;
    la_tape   *t;
    la_node   *loss;
    la_real    x[ROWS * COLS];
} net;

/* Blocks like those of a model: norm, linear, gelu, linear, dropout, and the way around them. */
static void build_parts(net *n, int keep_all, int parts, size_t max_bytes) {
    la_param w[DEEP][3];
    OK(la_params_create(&n->p));
    for (int i = 0; i < DEEP; i++) {
        la_params_push(n->p, "h.%d", i);
        w[i][0] = la_params_add(n->p, "gain", la_shape1(COLS), LA_INIT_ONE, 0);
        w[i][1] = la_params_add(n->p, "up", la_shape2(2 * COLS, COLS), LA_INIT_NORMAL, 0.3);
        w[i][2] = la_params_add(n->p, "down", la_shape2(COLS, 2 * COLS), LA_INIT_NORMAL, 0.3);
        la_params_pop(n->p);
    }
    OK(la_params_alloc(n->p, 8, 1));
    fill_uniform(ROWS * COLS, 1, 1, n->x);
    OK(la_tape_create(&n->t, &(la_tape_cfg){.grad = 1, .seed = 3, .max_bytes = max_bytes}));
    la_node *x = la_leaf(n->t, "x", la_shape2(ROWS, COLS), n->x, NULL);
    for (int i = 0; i < DEEP; i++) {
        if (parts) la_recompute_begin(n->t);
        la_node *y = la_layernorm(n->t, x, la_param_node(n->t, n->p, w[i][0]), NULL, 1e-5);
        y = la_gelu(n->t, la_linear(n->t, y, la_param_node(n->t, n->p, w[i][1]), NULL));
        y = la_dropout(n->t, la_linear(n->t, y, la_param_node(n->t, n->p, w[i][2]), NULL), 0.1);
        x = la_add(n->t, x, y);
        if (parts) la_recompute_end(n->t);
    }
    n->loss = la_inner(n->t, x, x);
    for (int i = 0; keep_all && i < la_tape_len(n->t); i++) la_keep((la_node *)la_tape_at(n->t, i));
}

static void build(net *n, int keep_all, size_t max_bytes) {
    build_parts(n, keep_all, 0, max_bytes);
}

static void tear(net *n) {
    la_tape_destroy(n->t);
    la_params_destroy(n->p);
}

START_TEST(shared_memory_changes_no_bit_and_saves_much) {
    net a, b;
    build(&a, 0, 0);
    build(&b, 1, 0);
    OK(la_tape_seal(a.t, a.loss));
    OK(la_tape_seal(b.t, b.loss));
    for (int i = 0; i < 3; i++) {
        step(a.t);
        step(b.t);
        ck_assert_msg(differ(1, a.loss->x, b.loss->x) < 0, "step %d: %.9g and %.9g", i,
                      (double)*a.loss->x, (double)*b.loss->x);
        int64_t at = differ((int64_t)la_params_len(a.p), la_params_g(a.p), la_params_g(b.p));
        ck_assert_msg(at < 0, "step %d: gradients differ at %lld", i, (long long)at);
    }
    ck_assert(largest((int64_t)la_params_len(a.p), la_params_g(a.p)) > 0);
    ck_assert_msg(la_tape_bytes(a.t) < la_tape_unshared(a.t) * 2 / 3, "%zu shared, %zu unshared",
                  la_tape_bytes(a.t), la_tape_unshared(a.t));
    ck_assert_uint_lt(la_tape_bytes(a.t), la_tape_bytes(b.t));
    ck_assert_uint_eq(la_tape_unshared(a.t), la_tape_unshared(b.t));
    tear(&a), tear(&b);
}
END_TEST

START_TEST(a_kept_value_survives_backward) {
    net      n;
    la_node *kept[64];
    build(&n, 1, 0);
    OK(la_tape_seal(n.t, n.loss));
    OK(la_tape_forward(n.t));
    int      len = la_tape_len(n.t);
    la_real *was[64];
    for (int i = 0; i < len; i++) {
        kept[i] = (la_node *)la_tape_at(n.t, i);
        was[i] = copy_of(la_len(kept[i]->shape), kept[i]->x);
    }
    OK(la_tape_backward(n.t, 1));
    for (int i = 0; i < len; i++) {
        ck_assert_msg(differ(la_len(kept[i]->shape), was[i], kept[i]->x) < 0,
                      "node %d was overwritten", i);
        free(was[i]);
    }
    tear(&n);
}
END_TEST

START_TEST(more_than_max_bytes_is_refused_with_both_numbers) {
    net n;
    build(&n, 0, 0);
    OK(la_tape_seal(n.t, n.loss));
    size_t bytes = la_tape_bytes(n.t);
    tear(&n);
    build(&n, 0, bytes);
    OK(la_tape_seal(n.t, n.loss));
    tear(&n);
    build(&n, 0, bytes - 1);
    FAILS(la_tape_seal(n.t, n.loss), LA_NOMEM, "the step needs");
    FAILS(la_tape_forward(n.t), LA_STATE, "not been sealed");
    tear(&n);
}
END_TEST

START_TEST(a_hundred_replays_allocate_nothing) {
    if (!COUNTING) {
        printf("not checked with a sanitizer: that replays allocate nothing (it has the malloc "
               "hooks)\n");
        return;
    }
    net n;
    build(&n, 0, 0);
    OK(la_tape_seal(n.t, n.loss));
    ck_assert_msg(allocations > 0, "allocations are not counted");
    for (int i = 0; i < 3; i++) step(n.t); /* threads and BLAS settle */
    long before = __atomic_load_n(&allocations, __ATOMIC_RELAXED);
    int  failed = 0;
    for (int i = 0; i < 100; i++) {
        la_tape_set_step(n.t, (uint64_t)i);
        failed |= la_tape_forward(n.t) != LA_OK || la_tape_backward(n.t, 1) != LA_OK;
    }
    long after = __atomic_load_n(&allocations, __ATOMIC_RELAXED);
    ck_assert(!failed);
    ck_assert_msg(after == before, "%ld allocations in 100 replays", after - before);
    free(la_alloc_aligned(1000));
    ck_assert_msg(__atomic_load_n(&allocations, __ATOMIC_RELAXED) > after,
                  "aligned allocations are not counted");
    tear(&n);
}
END_TEST

/* --- parts that are computed again --- */

static la_node *wide_input(la_tape *t) { return input(t, la_shape4(1, 2, 2, 2)); }

START_TEST(parts_are_begun_and_ended_in_turn) {
    static const char *const says[] = {"parts do not nest", "without a beginning",
                                       "la_recompute_begin has no la_recompute_end"};
    la_tape                 *t = training();
    if (_i != 1) la_recompute_begin(t);
    if (_i == 0) la_recompute_begin(t);
    la_node *y = la_gelu(t, input(t, la_shape1(1)));
    if (_i != 2) la_recompute_end(t);
    FAILS(la_tape_seal(t, y), LA_STATE, says[_i]);
    la_tape_destroy(t);
}
END_TEST

enum { NOBODY, GELU, DROPPED }; /* who reads y after: gelu reads it backward, too */

START_TEST(only_what_is_needed_is_computed_again) {
    static const struct {
        int  keep, outside, own, reader;
        long runs; /* of the forward of y = x + x in a step */
    } is[] = {
        {0, 0, 0, NOBODY, 1},  {0, 0, 0, GELU, 2},
        {0, 0, 0, DROPPED, 2}, /* gelu reads what dropout made of it */
        {0, 0, 1, NOBODY, 2},  /* its own backward reads it */
        {1, 0, 0, GELU, 1},    /* kept, so it is still there */
        {0, 1, 0, GELU, 1},
    };
    la_op    own = three;
    la_tape *t = training();
    la_node *x = wide_input(t), *w = wide_input(t);
    own.reads = is[_i].own ? LA_READS_OUT(0) : 0;
    la_recompute_begin(t);
    la_node *y = la_apply(t, &own, 2, (la_node *[]){x, x}, NULL), *z = y;
    if (is[_i].keep) la_keep(la_reshape(t, y, la_shape1(8)));
    if (is[_i].reader == DROPPED) z = la_dropout(t, z, 0.1);
    z = la_add(t, is[_i].reader != NOBODY ? la_gelu(t, z) : z, w);
    la_recompute_end(t);
    if (is[_i].outside) z = la_add(t, z, la_reshape(t, y, z->shape));
    seal_sum(t, z);
    three_forwards = 0;
    step(t);
    ck_assert_int_eq(three_forwards, is[_i].runs);
    la_tape_destroy(t);
}
END_TEST

static char *dump(la_tape *t, void (*write)(const la_tape *, FILE *));

START_TEST(saved_is_given_up_even_if_the_value_stays) {
    la_tape *t = training();
    la_node *x = input(t, la_shape2(2, 3)), *gain = input(t, la_shape1(3));
    la_recompute_begin(t);
    la_node *y = la_layernorm(t, x, gain, NULL, 1e-5);
    la_recompute_end(t);
    seal_sum(t, y);
    char *text = dump(t, la_tape_print);
    ck_assert_msg(strstr(text, "saved 2-2, 6-7") != NULL, "%s", text);
    free(text);
    la_tape_destroy(t);
}
END_TEST

START_TEST(recomputed_parts_change_no_bit_and_need_less_memory) {
    net a, b;
    build(&a, 0, 0);
    build_parts(&b, 0, 1, 0);
    OK(la_tape_seal(a.t, a.loss));
    OK(la_tape_seal(b.t, b.loss));
    for (int i = 0; i < 3; i++) {
        la_tape_set_step(a.t, (uint64_t)i), la_tape_set_step(b.t, (uint64_t)i);
        step(a.t);
        step(b.t);
        ck_assert_int_eq(differ(1, a.loss->x, b.loss->x), -1);
        int64_t at = differ((int64_t)la_params_len(a.p), la_params_g(a.p), la_params_g(b.p));
        ck_assert_msg(at < 0, "step %d: gradients differ at %lld", i, (long long)at);
    }
    ck_assert_msg(la_tape_bytes(b.t) < la_tape_bytes(a.t) * 2 / 3, "%zu bytes, and %zu without",
                  la_tape_bytes(b.t), la_tape_bytes(a.t));
    OK(la_tape_find_nonfinite(b.t));
    b.x[3] = R(NAN);
    FAILS(la_tape_find_nonfinite(b.t), LA_NUMERIC, "the value of x (leaf) is not a number");
    tear(&a), tear(&b);
}
END_TEST

/* A random graph of 8 numbers a node, whose nodes are in parts, kept and viewed at random. */
enum { GRAPH = 40, GRAPHS = 60 };

typedef struct graph {
    la_tape *t;
    la_node *x, *w, *state, *loss, *weight[2], *decay;
} graph;

static const int32_t graph_past[] = {1};

static la_node *random_node(graph *g, la_node *const *from, const la_attn_cfg *attn, uint64_t seed,
                            int i) {
#define DRAW(what, n) (int)la_rng_below(seed, (uint64_t)(what), (uint64_t)i, (uint64_t)(n))
    la_node *a = from[i - 1 - DRAW(1, i < 6 ? i : 6)], *b = from[DRAW(2, i)];
    la_shape s = a->shape, rows = la_shape2(2, 4);
    switch (DRAW(0, 8)) {
    case 0:
        return la_gelu(g->t, a);
    case 1:
        return la_add(g->t, a, b);
    case 2:
        return la_dropout(g->t, a, 0.2);
    case 3:
        return la_reshape(g->t, la_layernorm(g->t, la_reshape(g->t, a, rows), g->w, NULL, 1e-5), s);
    case 4:
        return la_rope(g->t, a, la_integers(g->t, "past", la_shape1(1), graph_past), NULL);
    case 5: {
        la_node *in[] = {la_heads(g->t, la_reshape(g->t, a, la_shape3(1, 2, 4)), 2, 1, 2),
                         la_heads(g->t, la_reshape(g->t, a, la_shape3(1, 2, 4)), 0, 1, 2)};
        la_node *sum = la_reshape(g->t, la_apply(g->t, &three, 2, in, NULL), la_shape2(2, 2));
        la_node *y = la_linear(g->t, sum, la_reshape(g->t, g->x, la_shape2(4, 2)), NULL);
        return la_reshape(g->t, y, s);
    }
    default: {
        la_attn_in in = {.q = a,
                         .k = b,
                         .v = a,
                         .weight = {g->weight[0], g->weight[1]},
                         .decay = g->decay,
                         .state = g->state,
                         .past = la_integers(g->t, "past", la_shape1(1), graph_past)};
        la_node   *state, *o = la_attention(g->t, attn, &in, &state);
        if (DRAW(3, 2)) g->state = state;
        return o;
    }
    }
}

static void build_graph(graph *g, const la_subject *a, uint64_t seed, int parts) {
    la_attn_cfg    attn = la_subject_cfg(a, 0.1, 1);
    la_attn_weight weight[2];
    la_node       *node[GRAPH];
    int64_t        len = la_attn_state_len(&attn, 2, 2, 4);
    int            open = 0, n_weights = la_attn_weights(&attn, 2, 2, weight);
    *g = (graph){0};
    OK(la_tape_create(&g->t, &(la_tape_cfg){.grad = 1, .seed = 4}));
    node[0] = g->x = wide_input(g->t);
    g->w = la_input(g->t, "w", la_shape1(4), 1);
    la_node *start = g->state = la_input(g->t, "state", la_shape3(1, 2, len), 1);
    for (int i = 0; i < n_weights; i++)
        g->weight[i] = la_input(g->t, weight[i].name, weight[i].shape, !weight[i].frozen);
    if (attn.decay) g->decay = la_input(g->t, "decay", la_shape1(2), 1);
    for (int i = 1; i < GRAPH; i++) {
        if (DRAW(4, 5) == 0) {
            if (open && parts) la_recompute_end(g->t);
            open = DRAW(5, 4) > 0;
            if (open && parts) la_recompute_begin(g->t);
        }
        node[i] = random_node(g, node, &attn, seed, i);
        if (!parts || DRAW(6, 12) == 0) la_keep(node[i]);
    }
    if (open && parts) la_recompute_end(g->t);
    la_node *last = la_add(g->t, node[GRAPH - 1], node[GRAPH - 2]);
    g->loss = la_inner(g->t, last, node[GRAPH - 3]);
    g->state = start;
    OK(la_tape_seal(g->t, g->loss));
    fill_uniform(8, 1, 1, g->x->x);
    fill_uniform(4, 1, 2, g->w->x);
    la_attn_state_start(&attn, 2, 2, 2, len, start->x);
    for (int i = 0; i < n_weights; i++)
        fill_uniform(la_len(weight[i].shape), 1, 3 + (uint32_t)i, g->weight[i]->x);
}
#undef DRAW

START_TEST(parts_of_random_graphs_change_no_bit) { /* _i is the variant */
    const la_subject a = la_subject_at(_i);
    for (uint64_t seed = 0; a.variant && !a.bidirectional && seed < GRAPHS; seed++) {
        graph g[2];
        for (int k = 0; k < 2; k++) {
            build_graph(g + k, &a, seed, k);
            for (int i = 0; i < 2; i++) {
                la_tape_set_step(g[k].t, (uint64_t)i);
                step(g[k].t);
            }
        }
        ck_assert_msg(isfinite((double)*g[0].loss->x), "graph %d is not finite", (int)seed);
        ck_assert_msg(differ(1, g[0].loss->x, g[1].loss->x) < 0 &&
                          differ(8, g[0].x->g, g[1].x->g) < 0 &&
                          differ(4, g[0].w->g, g[1].w->g) < 0 &&
                          differ(la_len(g[0].state->shape), g[0].state->g, g[1].state->g) < 0,
                      "%s: graph %d has other gradients", a.name, (int)seed);
        for (int k = 0; k < 2; k++) la_tape_destroy(g[k].t);
    }
}
END_TEST

/* --- finding what is not finite --- */

START_TEST(find_nonfinite_names_the_first_node) {
    la_tape *t = training();
    la_node *x = la_input(t, "x", la_shape2(2, 3), 1), *w = la_input(t, "w", la_shape2(4, 3), 1);
    la_node *a = la_named(t, la_linear(t, x, w, NULL), "first"),
            *b = la_named(t, la_gelu(t, a), "second");
    la_node *loss = la_inner(t, b, b);
    OK(la_tape_seal(t, loss));
    fill_uniform(6, 1, 1, x->x);
    fill_uniform(12, 1, 2, w->x);
    OK(la_tape_find_nonfinite(t));
    x->x[3 + 1] = R(NAN);
    FAILS(la_tape_find_nonfinite(t), LA_NUMERIC,
          "the value of first (linear) is not a number at row 1, column 0");
    x->x[4] = 0;
    la_real big = LA_REAL_BITS == 64 ? R(1e200) : R(1e30); /* finite; its square is not */
    for (int i = 0; i < 3; i++) w->x[9 + i] = big, x->x[i] = 1;
    FAILS(la_tape_find_nonfinite(t), LA_NUMERIC, "(inner) is infinite at row 0, column 0");
    OK(la_tape_forward(t)); /* usable afterwards */
    la_tape_destroy(t);
}
END_TEST

START_TEST(find_nonfinite_sees_leaves_and_gradients) {
    la_real  x[2] = {1, R(INFINITY)}, gx[2] = {0}, big[2];
    la_tape *t = training();
    la_node *a = la_leaf(t, "leaf", la_shape1(2), x, gx),
            *c = la_leaf(t, "factor", la_shape1(2), big, NULL);
    big[0] = big[1] = 0;
    la_node *s = la_inner(t, a, c), *loss = la_inner(t, s, s);
    OK(la_tape_seal(t, loss));
    FAILS(la_tape_find_nonfinite(t), LA_NUMERIC,
          "the value of leaf (leaf) is infinite at row 0, column 1");
    big[0] = LA_REAL_BITS == 64 ? R(1e154) : R(1e19);
    big[1] = 0;
    x[0] = R(0.5), x[1] = 0; /* loss = (c x)^2 is finite, and D = 2 c (c x) is c^2 */
    OK(la_tape_find_nonfinite(t));
    big[0] = LA_REAL_BITS == 64 ? R(3e155) : R(3e20);
    x[0] = R(
        1.0 /
        40); /* now c x = c / 40 has a finite square, and 2 c (c x) is beyond the largest number */
    la_status st = la_tape_find_nonfinite(t);
    ck_assert_msg(st == LA_NUMERIC && strstr(la_error(), "the gradient of leaf"), "%s", la_error());
    la_tape_destroy(t);
}
END_TEST

/* --- dumps --- */

static char *dump(la_tape *t, void (*write)(const la_tape *, FILE *)) {
    char  *text = NULL;
    size_t len;
    FILE  *f = open_memstream(&text, &len);
    ck_assert_ptr_nonnull(f);
    write(t, f);
    fclose(f);
    return text;
}

START_TEST(dumps_show_each_node) {
    net n;
    build_parts(&n, 0, 1, 0);
    la_node *loss = la_named(n.t, n.loss, "the loss");
    OK(la_tape_seal(n.t, loss));
    char *text = dump(n.t, la_tape_print), *dot = dump(n.t, la_tape_dot), line[64];
    for (int i = 0; i < la_tape_len(n.t); i++) {
        const la_node *d = la_tape_at(n.t, i);
        if (d->op) {
            ck_assert_msg(strstr(text, d->op->name) != NULL, "%s is not in the text", d->op->name);
            ck_assert_msg(strstr(dot, d->op->name) != NULL, "%s is not in the drawing",
                          d->op->name);
        }
        ck_assert_msg(strstr(text, d->name) != NULL, "%s is not in the text", d->name);
        snprintf(line, sizeof line, "  n%d [shape=", i);
        ck_assert_msg(strstr(dot, line) != NULL, "node %d is not in the drawing", i);
        for (int j = 0; j < d->n_in; j++) {
            snprintf(line, sizeof line, "n%d -> n%d", d->in[j]->id, i);
            ck_assert_msg(strstr(dot, line) != NULL, "%s is not in the drawing", line);
        }
    }
    snprintf(line, sizeof line, "%d nodes", la_tape_len(n.t));
    ck_assert(strstr(text, line) && strstr(text, "the loss") && strstr(text, "(40,24)") &&
              strstr(text, "MiB"));
    ck_assert(strstr(text, "part 1, computed again  value 2-4, ") && strstr(text, "saved 2-2, "));
    ck_assert(!strncmp(dot, "digraph", 7) && dot[strlen(dot) - 2] == '}');
    free(text), free(dot);
    tear(&n);
}
END_TEST

/* --- dropout --- */

START_TEST(dropout_masks_are_a_function_of_seed_step_and_node) {
    enum { N = 20000 };
    la_tape *t = training();
    la_node *x = la_input(t, "x", la_shape1(N), 1), *a = la_keep(la_dropout(t, x, 0.3)),
            *b = la_keep(la_dropout(t, x, 0.3));
    la_node *loss = la_inner(t, a, b);
    OK(la_tape_seal(t, loss));
    for (int i = 0; i < N; i++) x->x[i] = 1;
    la_tape_set_step(t, 5);
    step(t);
    la_real *first = copy_of(N, a->x), *g = copy_of(N, x->g);
    double   mean = 0, both = 0;
    for (int i = 0; i < N; i++) {
        mean += (double)a->x[i] / N;
        both += (a->x[i] != 0 && b->x[i] != 0) / (double)N;
        double want =
            a->x[i] != 0 && b->x[i] != 0 ? 2 / 0.49 : 0; /* backward draws the same masks */
        if (fabs((double)g[i] - want) > 1e-5)
            ck_abort_msg("gradient %d is %g, not %g", i, (double)g[i], want);
    }
    ck_assert_double_eq_tol(mean, 1, 5 * sqrt(0.3 / 0.7 / N));
    ck_assert_double_eq_tol(both, 0.49, 5 * sqrt(0.49 * 0.51 / N)); /* two nodes, two masks */
    la_tape_set_step(t, 6);
    OK(la_tape_forward(t));
    int same = 0;
    for (int i = 0; i < N; i++) same += first[i] == a->x[i];
    ck_assert_double_eq_tol(same / (double)N, 0.58, 5 * sqrt(0.58 * 0.42 / N)); /* .7^2 + .3^2 */
    la_tape_set_step(t, 5);
    la_threads_set(1);
    OK(la_tape_forward(t));
    la_threads_set(2);
    ck_assert_int_eq(differ(N, first, a->x), -1);
    free(first), free(g);
    la_tape_destroy(t);
}
END_TEST

/* --- parameters --- */

START_TEST(parameters_are_named_aligned_and_drawn_from_the_seed) {
    la_params *p, *q;
    for (int k = 0; k < 2; k++) {
        la_params **s = k ? &q : &p;
        OK(la_params_create(s));
        la_params_push(*s, "transformer");
        la_params_push(*s, "h.%d", 3);
        ck_assert_int_eq(la_params_add(*s, "weight", la_shape2(100, 70), LA_INIT_NORMAL, 0.5), 0);
        la_params_pop(*s);
        ck_assert_int_eq(la_params_add(*s, "bias", la_shape1(3), LA_INIT_ZERO, 0), 1);
        la_params_pop(*s);
        ck_assert_int_eq(la_params_add(*s, "gain", la_shape1(5), LA_INIT_ONE, 0), 2);
        OK(la_params_alloc(*s, k ? 2 : 1, !k));
    }
    ck_assert_str_eq(la_param_name(p, 0), "transformer.h.3.weight");
    ck_assert_str_eq(la_param_name(p, 1), "transformer.bias");
    ck_assert_str_eq(la_param_name(p, 2), "gain");
    ck_assert_int_eq(la_param_find(p, "gain"), 2);
    ck_assert_int_eq(la_param_find(p, "weight"), LA_NO_PARAM);
    ck_assert_int_eq(la_params_count(p), 3);
    ck_assert_int_eq(la_params_numbers(p), 7008);
    ck_assert(la_param_decays(p, 0) && !la_param_decays(p, 1));
    ck_assert(la_shape_eq(la_param_shape(p, 0), la_shape2(100, 70)));
    la_real *x = la_params_x(p);
    double   mean = 0, square = 0;
    for (int i = 0; i < 7000; i++)
        mean += (double)x[i] / 7000, square += (double)x[i] * (double)x[i] / 7000;
    ck_assert_double_eq_tol(mean, 0, 5 * 0.5 / sqrt(7000));
    ck_assert_double_eq_tol(square, 0.25, 5 * 0.25 * sqrt(2.0 / 7000));
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq((uintptr_t)(x + la_param_offset(p, i)) % LA_ALIGN, 0);
        for (int j = 0; i && j < (i == 1 ? 3 : 5); j++)
            ck_assert(x[la_param_offset(p, i) + (size_t)j] == (i == 2));
    }
    ck_assert(largest((int64_t)la_params_len(p), la_params_g(p)) == 0);
    ck_assert_ptr_null(la_params_g(q));
    ck_assert(gap(7000, x, la_params_x(q)) > 0.1); /* another seed */
    la_params_destroy(p), la_params_destroy(q);
    la_params_destroy(NULL);
}
END_TEST

START_TEST(initial_values_are_of_their_kind) {
    enum { ROWS_ = 30, COLS_ = 40, N = 2 * ROWS_ * COLS_ };
    la_params *p;
    OK(la_params_create(&p));
    la_params_add(p, "constant", la_shape2(2, 3), LA_INIT_CONSTANT, -0.75);
    la_params_add(p, "last", la_shape3(2, 3, 4), LA_INIT_LAST, 0);
    la_params_add(p, "exact", la_shape3(2, 3, 4), LA_INIT_IDENTITY, 0);
    la_params_add(p, "identity", la_shape3(2, ROWS_, COLS_), LA_INIT_IDENTITY, 0.1);
    OK(la_params_alloc(p, 1, 0));
    const la_real *x[4];
    for (int i = 0; i < 4; i++) x[i] = la_params_x(p) + la_param_offset(p, i);
    for (int i = 0; i < 6; i++) ck_assert(x[0][i] == R(-0.75));
    for (int i = 0; i < 24; i++) {
        ck_assert(x[1][i] == (i % 4 == 3));
        ck_assert(x[2][i] == (i / 4 % 3 == i % 4));
    }
    double mean = 0, square = 0;
    for (int i = 0; i < N; i++) {
        double e = (double)x[3][i] - (i / COLS_ % ROWS_ == i % COLS_);
        mean += e / N, square += e * e / N;
    }
    ck_assert_double_eq_tol(mean, 0, 5 * 0.1 / sqrt(N));
    ck_assert_double_eq_tol(square, 0.01, 5 * 0.01 * sqrt(2.0 / N));
    la_params_destroy(p);
}
END_TEST

/* Rows that the diagonal does not reach are as long as its own; a column beside it is no part. */
START_TEST(an_identity_with_more_rows_than_columns_goes_on_at_random) {
    enum { ROWS_ = 300, COLS_ = 40, BELOW = 2 * (ROWS_ - COLS_) * COLS_ };
    la_params *p;
    OK(la_params_create(&p));
    la_params_add(p, "plain", la_shape3(2, ROWS_, COLS_), LA_INIT_IDENTITY, 0.02);
    la_params_add(p, "bias", la_shape3(2, ROWS_, COLS_ + 1), LA_INIT_IDENTITY_BIAS, 0.02);
    OK(la_params_alloc(p, 1, 0));
    for (int bias = 0; bias < 2; bias++) {
        const la_real *x = la_params_x(p) + la_param_offset(p, bias);
        double         square = 0;
        for (int i = 0; i < 2 * ROWS_ * (COLS_ + bias); i++) {
            const int    row = i / (COLS_ + bias) % ROWS_, col = i % (COLS_ + bias);
            const double value = (double)x[i];
            if (row < COLS_ || col == COLS_)
                ck_assert_double_eq_tol(value, row == col && col < COLS_, 0.02 * 5.5);
            else
                square += value * value * COLS_ / BELOW;
        }
        ck_assert_double_eq_tol(square, 1, 5 * sqrt(2.0 / BELOW));
    }
    la_params_destroy(p);
}
END_TEST

/* Rows of a block at right angles, also of a last block that is short, and of length chi_D. */
START_TEST(orthogonal_features_are_orthogonal_in_blocks_and_as_long_as_normal_vectors) {
    enum { HEADS = 200, FEATURES = 40, DIM = 16, N = HEADS * FEATURES };
    la_params *p;
    OK(la_params_create(&p));
    la_params_add(p, "w", la_shape3(HEADS, FEATURES, DIM), LA_INIT_ORTHOGONAL, 0);
    OK(la_params_alloc(p, 3, 0));
    const la_real *w = la_params_x(p);
    double         mean = 0, square = 0, across = 0;
    for (int i = 0; i < N; i++) {
        double own = 0;
        for (int j = i / FEATURES * FEATURES; j <= i; j++) {
            double s = 0, other = 0;
            for (int d = 0; d < DIM; d++) {
                s += (double)w[i * DIM + d] * (double)w[j * DIM + d];
                other += (double)w[j * DIM + d] * (double)w[j * DIM + d];
                if (j == i) own += (double)w[i * DIM + d] * (double)w[i * DIM + d];
            }
            if (j == i)
                break;
            else if (i % FEATURES / DIM == j % FEATURES / DIM)
                ck_assert_msg(fabs(s) <= 8 * LA_REAL_EPSILON * DIM * fmax(1, other),
                              "rows %d and %d: %g", i, j, s);
            else
                across = fmax(across, fabs(s));
        }
        mean += own / N, square += own * own / N;
    }
    ck_assert(across > 1); /* one block and the next are independent */
    ck_assert_double_eq_tol(mean, DIM, 5 * sqrt(2.0 * DIM / N)); /* chi^2 of DIM */
    ck_assert_double_eq_tol(square - mean * mean, 2 * DIM, 5 * 2 * DIM * sqrt(3.0 / N));
    la_params_destroy(p);
}
END_TEST

static la_params *with_frozen(uint64_t seed) {
    la_params *p;
    OK(la_params_create(&p));
    la_params_add(p, "trained", la_shape3(2, 5, 3), LA_INIT_ORTHOGONAL, 0);
    la_params_add_frozen(p, "features", la_shape3(2, 5, 3), LA_INIT_ORTHOGONAL, 0);
    la_params_add_frozen(p, "ones", la_shape2(3, 3), LA_INIT_ONE, 0);
    la_params_add_frozen(p, "normal", la_shape1(7), LA_INIT_NORMAL, 2);
    OK(la_params_alloc(p, seed, 1));
    return p;
}

/* Parameter i, bit for bit. */
static int same(la_params *a, la_params *b, int i) {
    size_t at = la_param_offset(a, i);
    return differ(la_len(la_param_shape(a, i)), la_params_x(a) + at, la_params_x(b) + at) < 0;
}

static void redraw(la_params *p, uint64_t seed, uint64_t draw) {
    for (int i = 1; i < 4; i += 2) la_param_redraw(p, i, seed, draw);
}

START_TEST(frozen_features_are_drawn_again_by_seed_and_draw) {
    la_params *a = with_frozen(1), *b = with_frozen(1), *other = with_frozen(2);
    for (int i = 0; i < 4; i++) ck_assert_int_eq(same(a, other, i), i == 2);
    ck_assert(differ(30, la_params_x(a), la_params_x(a) + la_param_offset(a, 1)) >= 0);
    redraw(a, 1, 7);
    for (int i = 0; i < 4; i++) ck_assert_int_eq(same(a, b, i), i == 0 || i == 2);
    redraw(b, 1, 8);
    for (int i = 1; i < 4; i += 2) ck_assert(!same(a, b, i));
    redraw(b, 1, 7);
    for (int i = 0; i < 4; i++) ck_assert(same(a, b, i));
    redraw(b, 2, 0); /* the values of la_params_alloc */
    for (int i = 1; i < 4; i++) ck_assert(same(b, other, i));
    la_params_destroy(a), la_params_destroy(b), la_params_destroy(other);
}
END_TEST

START_TEST(a_frozen_parameter_has_no_gradient_and_is_not_counted) {
    la_params *p = with_frozen(1);
    ck_assert_int_eq(la_params_count(p), 4);
    ck_assert_int_eq(la_params_numbers(p), 30);
    ck_assert_int_eq(la_params_frozen_numbers(p), 30 + 9 + 7);
    for (int i = 0; i < 4; i++) ck_assert_int_eq(la_param_frozen(p, i), i > 0);
    ck_assert(la_param_decays(p, 0) && !la_param_decays(p, 1) && !la_param_decays(p, 2));
    la_tape *t = training();
    la_node *w = la_param_node(t, p, 0), *frozen = la_param_node(t, p, 1);
    ck_assert_ptr_eq(la_param_node(t, p, 1), frozen);
    OK(la_tape_seal(t, la_inner(t, w, frozen)));
    ck_assert_ptr_null(frozen->g);
    step(t);
    ck_assert(differ(30, la_params_g(p), frozen->x) < 0); /* D[w . f, w] = f */
    ck_assert(largest((int64_t)(la_params_len(p) - la_param_offset(p, 1)),
                      la_params_g(p) + la_param_offset(p, 1)) == 0);
    la_tape_destroy(t);
    la_params_destroy(p);
}
END_TEST

/* FAVOR+: phi(x) = m^-1/2 exp(W x D^-1/4 - |x|^2 D^-1/2 / 2) has E phi(q).phi(k) =
 * exp(q.k / sqrt D).  Each head is a draw of its own; for q = -k each single draw is exact. */
START_TEST(positive_random_features_estimate_exp_without_bias) {
    enum { HEADS = 2048, DRAWS = 3, N = HEADS * DRAWS, FEATURES = 64, DIM = 16, TOKENS = 4 };
    static const int pairs[][2] = {{0, 1}, {2, 2}, {3, 3}, {2, 3}};
    enum { PAIRS = sizeof pairs / sizeof *pairs };
    double             sum[PAIRS] = {0}, squares[PAIRS] = {0};
    la_head_linear_cfg cfg = {.scale = pow(DIM, -0.25), .square = pow(DIM, -0.5) / 2};
    la_real            vector[TOKENS][DIM] = {{0}};
    la_params         *p;
    la_tape           *t;
    for (int i = 0; i < 2; i++) {
        fill_normal(DIM, 1, (uint32_t)i, vector[i]);
        double norm = sqrt(la_norm2(DIM, vector[i]));
        for (int d = 0; d < DIM; d++) vector[i][d] /= R(norm);
        vector[2 + i][0] = i ? -1 : 1;
    }
    OK(la_params_create(&p));
    la_param w =
        la_params_add_frozen(p, "w", la_shape3(HEADS, FEATURES, DIM), LA_INIT_ORTHOGONAL, 0);
    OK(la_params_alloc(p, 5, 0));
    OK(la_tape_create(&t, NULL));
    la_node *x = la_input(t, "x", la_shape4(1, TOKENS, HEADS, DIM), 0);
    la_node *y = la_keep(la_head_linear(t, x, la_param_node(t, p, w), &cfg));
    OK(la_tape_seal(t, NULL));
    for (int i = 0; i < TOKENS * HEADS; i++)
        memcpy(x->x + i * DIM, vector[i / HEADS], sizeof vector[0]);
    for (int draw = 0; draw < DRAWS; draw++) {
        la_param_redraw(p, w, 5, (uint64_t)draw);
        OK(la_tape_forward(t));
        for (int i = 0; i < PAIRS * HEADS; i++) {
            const la_real *a = y->x + (pairs[i / HEADS][0] * HEADS + i % HEADS) * FEATURES;
            const la_real *b = y->x + (pairs[i / HEADS][1] * HEADS + i % HEADS) * FEATURES;
            double         s = 0;
            for (int j = 0; j < FEATURES; j++) s += exp((double)a[j] + (double)b[j]) / FEATURES;
            sum[i / HEADS] += s, squares[i / HEADS] += s * s;
        }
    }
    for (int i = 0; i < PAIRS; i++) {
        double inner = 0, mean = sum[i] / N, error = sqrt((squares[i] / N - mean * mean) / N);
        for (int d = 0; d < DIM; d++)
            inner += (double)vector[pairs[i][0]][d] * (double)vector[pairs[i][1]][d];
        double want = exp(inner / sqrt(DIM));
        if (i == 3)
            ck_assert_double_eq_tol(mean, want, BY_PRECISION(1e-6, 1e-12));
        else
            ck_assert_msg(error > 0 && error < 0.003 * want && fabs(mean - want) < 4 * error,
                          "pair %d: %g with an error of %g, not %g", i, mean, error, want);
    }
    la_tape_destroy(t);
    la_params_destroy(p);
}
END_TEST

START_TEST(bad_parameters_are_sentences_at_alloc) {
    for (int k = 0; k < 6; k++) {
        la_params *p;
        OK(la_params_create(&p));
        la_params_add(p, "w", la_shape1(3), LA_INIT_ONE, 0);
        if (k == 0)
            ck_assert_int_eq(la_params_add(p, "w", la_shape1(3), LA_INIT_ONE, 0), LA_NO_PARAM);
        if (k == 1)
            ck_assert_int_eq(la_params_add(p, "v", la_shape1(0), LA_INIT_ONE, 0), LA_NO_PARAM);
        for (int i = 0; k == 2 && i < 40; i++) la_params_push(p, "deeper");
        if (k == 3) la_params_push(p, "%0300d", 0);
        if (k == 4) la_params_add_frozen(p, "f", la_shape2(3, 4), LA_INIT_ORTHOGONAL, 0);
        if (k == 5) la_params_add(p, "i", la_shape1(4), LA_INIT_IDENTITY, 0);
        static const struct {
            la_status   status;
            const char *says;
        } expect[] = {
            {LA_NAME, "two parameters named w"},
            {LA_SHAPE, "v cannot have the shape (0)"},
            {LA_ARG, "more than 16 deep"},
            {LA_ARG, "longer than"},
            {LA_SHAPE, "f starts as orthogonal features and must be (H,m,D); it is (3,4)"},
            {LA_SHAPE, "i starts as an identity and must be (...,rows,cols); it is (4)"}};
        FAILS(la_params_alloc(p, 1, 1), expect[k].status, expect[k].says);
        la_params_destroy(p);
    }
    la_params *p;
    OK(la_params_create(&p));
    la_param i = la_params_add(p, "w", la_shape1(3), LA_INIT_ONE, 0);
    la_tape *t = training();
    ck_assert_ptr_null(la_param_node(t, p, i));
    FAILS(la_tape_seal(t, NULL), LA_STATE, "used before it was allocated");
    la_tape_destroy(t);
    la_params_destroy(p);
}
END_TEST

int main(void) {
    Suite *s = suite_create("tape");
    TCase *c = add_case(s, "recording errors");
    tcase_add_test(c, a_wrong_shape_is_a_sentence_at_seal);
    tcase_add_loop_test(c, each_mistake_has_its_sentence, 0, sizeof mistakes / sizeof *mistakes);
    tcase_add_test(c, a_loss_that_is_a_part_of_a_tensor_is_refused);
    tcase_add_test(c, a_failure_of_a_layer_is_reported_at_seal);
    c = add_case(s, "order of calls");
    tcase_add_test(c, calls_out_of_order_are_refused);
    tcase_add_test(c, the_loss_is_one_number);
    tcase_add_test(c, a_loss_without_parameters_has_no_backward);
    tcase_add_test(c, more_threads_than_at_seal_are_refused_and_fewer_are_not);
    tcase_add_test(c, integers_out_of_range_are_refused_at_each_forward);
    tcase_add_test(c, a_mask_is_0_and_1);
    c = add_case(s, "derivatives by hand");
    tcase_add_test(c, simple_autograd_with_D_x_plus_x);
    tcase_add_test(c, simple_autograd_with_D_x_times_x_when_x_is_3);
    tcase_add_test(c, simple_autograd_with_D_x_to_the_fourth_when_x_is_2);
    tcase_add_test(c, a_diamond_adds_both_sides);
    tcase_add_test(c, a_leaf_that_is_the_loss_adds_up_too);
    tcase_add_test(c, an_input_that_is_the_loss_adds_up_too);
    tcase_add_test(c, a_parameter_used_twice_gets_the_sum);
    tcase_add_test(c, views_share_values_and_gradients);
    tcase_add_test(c, the_first_rows_are_a_view_of_their_own);
    tcase_add_test(c, a_node_that_the_loss_does_not_need_has_no_gradient);
    tcase_add_test(c, gradients_of_kept_values_and_of_inference_tapes);
    tcase_add_test(c, a_row_of_zeros_has_no_direction);
    c = add_case(s, "first writers");
    tcase_add_loop_test(c, columns_that_cover_a_gradient_once_are_written_and_others_added, 0,
                        sizeof covers / sizeof *covers);
    tcase_add_test(c, columns_of_two_shapes_of_a_tensor_are_added);
    tcase_add_test(c, only_the_first_writer_of_a_gradient_sets_it);
    c = add_case(s, "pieces and holes");
    tcase_add_test(c, short_conv_token_by_token_is_that_of_the_text);
    tcase_add_loop_test(c, a_text_with_holes_is_the_text_without_them, 0, 2);
    c = add_case(s, "memory");
    tcase_add_test(c, shared_memory_changes_no_bit_and_saves_much);
    tcase_add_test(c, a_kept_value_survives_backward);
    tcase_add_test(c, more_than_max_bytes_is_refused_with_both_numbers);
    tcase_add_test(c, a_hundred_replays_allocate_nothing);
    c = add_case(s, "recomputation");
    tcase_add_loop_test(c, parts_are_begun_and_ended_in_turn, 0, 3);
    tcase_add_loop_test(c, only_what_is_needed_is_computed_again, 0, 6);
    tcase_add_test(c, saved_is_given_up_even_if_the_value_stays);
    tcase_add_test(c, recomputed_parts_change_no_bit_and_need_less_memory);
    tcase_add_loop_test(c, parts_of_random_graphs_change_no_bit, 0, la_subject_count());
    c = add_case(s, "looking");
    tcase_add_test(c, find_nonfinite_names_the_first_node);
    tcase_add_test(c, find_nonfinite_sees_leaves_and_gradients);
    tcase_add_test(c, dumps_show_each_node);
    tcase_add_test(c, dropout_masks_are_a_function_of_seed_step_and_node);
    c = add_case(s, "parameters");
    tcase_add_test(c, parameters_are_named_aligned_and_drawn_from_the_seed);
    tcase_add_test(c, initial_values_are_of_their_kind);
    tcase_add_test(c, an_identity_with_more_rows_than_columns_goes_on_at_random);
    tcase_add_test(c, orthogonal_features_are_orthogonal_in_blocks_and_as_long_as_normal_vectors);
    tcase_add_test(c, frozen_features_are_drawn_again_by_seed_and_draw);
    tcase_add_test(c, a_frozen_parameter_has_no_gradient_and_is_not_counted);
    tcase_add_test(c, positive_random_features_estimate_exp_without_bias);
    tcase_add_test(c, bad_parameters_are_sentences_at_alloc);
    return run_suite(s);
}
