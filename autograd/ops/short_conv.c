/* short_conv: causal convolution of each channel over a few tokens.
 *
 *   x (B,T,C)   w (C,W), W >= 2   mask (B,T), optional: integers, 0 for a token that is not there
 *   state (B,W-1,C), optional: the last tokens before the text   y (B,T,C)   state out (B,W-1,C)
 *
 * Of one row, let z be the W-1 rows of the state (0 without one), then the rows of x of the valid
 * tokens; the valid token number r is z_{r+W-1}.  In the layout of PyTorch's conv1d, whose last
 * column is the current token's,
 *
 *   y_r = sum_{p<W} w_p o z_{r+p},    w_p = w[:,p],       state out = the last W-1 rows of z
 *
 * and y = 0 for a masked token, which is not in z: it is as if it were not there.
 *
 * Backward:
 *   1. z_k is read by the tokens r = k - p, and by row k - n of the state out, n valid tokens:
 *        dz_k = sum_p w_p o dy_{k-p} + dstate_out_{k-n},    where these exist;
 *      walking down, the i-th token from z_k on has p = W-1-i.  dx of a masked token is 0.
 *   2. dw_p = sum over all rows and r of dy_r o z_{r+p}.
 *
 * Places: z is named by where its rows are, a token by its t, the state's rows by -(W-1) to -1.
 *
 * Blocks: forward, some tokens of a row, which look back for the W-1 places before them; then the
 * states out, which may lie where those that came in were.  Backward, dx by tokens likewise,
 * looking ahead (the first of a row has dstate too), and dw by strips of channels, all rows in
 * order. */
#include "autograd/kernel.h"
#include "autograd/ops.h"

enum { TOKENS = 64, STRIP = 64, MAX_WIDTH = 64 };

typedef struct dims {
    int64_t        B, T, C, W, blocks; /* of a row */
    const la_node *x, *w, *state;      /* state: NULL without */
    const int32_t *mask;               /* NULL: all are valid */
} dims;

static dims get(const la_node *n) {
    la_shape x = n->in[0]->shape;
    dims     s = {.B = x.d[0], .T = x.d[1], .C = x.d[2], .W = n->in[1]->shape.d[1]};
    s.blocks = la_ceil_div(s.T, TOKENS);
    s.x = n->in[0];
    s.w = n->in[1];
    for (int i = 2; i < n->n_in; i++)
        if (n->in[i]->ids)
            s.mask = n->in[i]->ids;
        else
            s.state = n->in[i];
    return s;
}

static la_status infer(const la_node *n, la_plan *p) {
    char     text[LA_SHAPE_TEXT], other[LA_SHAPE_TEXT];
    la_shape x = n->in[0]->shape, w = n->in[1]->shape;
    if (x.n != 3 || w.n != 2 || w.d[0] != x.d[2])
        return la_fail(LA_SHAPE, "short_conv: wants (B,T,C) and a weight (C,W); they are %s and %s",
                       la_shape_text(x, text), la_shape_text(w, other));
    if (w.d[1] < 2 || w.d[1] > MAX_WIDTH)
        return la_fail(LA_SHAPE, "short_conv: the width must be from 2 to %d, and is %lld",
                       MAX_WIDTH, (long long)w.d[1]);
    for (int i = 2; i < n->n_in; i++) {
        la_shape is = n->in[i]->shape, want = n->in[i]->ids ? la_shape2(x.d[0], x.d[1])
                                                            : la_shape3(x.d[0], w.d[1] - 1, x.d[2]);
        if (!la_shape_eq(is, want))
            return la_fail(LA_SHAPE, "short_conv: the %s must be %s, and is %s",
                           n->in[i]->ids ? "mask" : "state", la_shape_text(want, text),
                           la_shape_text(is, other));
        if (n->in[i]->ids) continue;
        p->out[1] = is;
        p->in_place[1] = 1 + i;
    }
    dims s = get(n);
    p->n_out = s.state ? 2 : 1;
    p->out[0] = x;
    p->n_scratch = (size_t)(s.W * la_max(s.C, STRIP));
    p->forward_blocks[0] = s.B * s.blocks;
    p->forward_blocks[1] = s.state ? s.B : 0;
    p->backward_blocks[0] = s.B * s.blocks + la_ceil_div(s.C, STRIP);
    return LA_OK;
}

static la_status check(const la_node *n) {
    for (int i = 2; i < n->n_in; i++)
        if (n->in[i]->ids) LA_TRY(la_check_mask("short_conv", n->in[i]));
    return LA_OK;
}

static int valid(dims s, int64_t b, int64_t t) { return !s.mask || s.mask[b * s.T + t]; }

/* The W-1 places before token t, the latest last. */
static void places_before(dims s, int64_t b, int64_t t, int64_t *place) {
    int64_t i = s.W - 2, row = -1;
    while (i >= 0 && --t >= 0)
        if (valid(s, b, t)) place[i--] = t;
    while (i >= 0) place[i--] = row--;
}

/* The row of z at a place; NULL: zeros. */
static const la_real *row_of(dims s, int64_t b, int64_t place) {
    if (place >= 0) return s.x->x + (b * s.T + place) * s.C;
    return s.state ? s.state->x + ((b + 1) * (s.W - 1) + place) * s.C : NULL;
}

/* y += a o x */
static void add_product(int64_t n, const la_real *a, const la_real *x, la_real *y) {
    la_vec_table()->mul_add_rows(1, n, a, n, x, n, y);
}

static void state_forward(const la_node *n, dims s, int64_t b) {
    int64_t place[MAX_WIDTH];
    places_before(s, b, s.T, place);
    for (int64_t i = 0; i < s.W - 1; i++) /* upwards: a row moves to a lower one, if it moves */
        memmove(n->out[1]->x + (b * (s.W - 1) + i) * s.C, row_of(s, b, place[i]),
                (size_t)s.C * sizeof(la_real));
}

static void forward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (run->phase == 1) {
        state_forward(n, s, run->block);
        return;
    }
    int64_t  b = run->block / s.blocks, place[MAX_WIDTH];
    la_range tokens = la_cut(s.T, TOKENS, run->block % s.blocks);
    la_transpose(s.C, s.W, s.w->x, s.W, run->scratch);
    places_before(s, b, tokens.from, place);
    for (int64_t t = tokens.from; t < tokens.to; t++) {
        la_real *y = n->x + (b * s.T + t) * s.C;
        memset(y, 0, (size_t)s.C * sizeof *y);
        if (!valid(s, b, t)) continue;
        place[s.W - 1] = t;
        for (int64_t p = 0; p < s.W; p++) {
            const la_real *z = row_of(s, b, place[p]);
            if (z) add_product(s.C, run->scratch + p * s.C, z, y);
        }
        memmove(place, place + 1, (size_t)(s.W - 1) * sizeof *place);
    }
}

/* What comes after a place, while step 1 walks down. */
typedef struct ahead {
    const la_real *dy[MAX_WIDTH]; /* of the i-th place from this one on; NULL: no token      */
    int64_t        places;        /* after this one, as far as they are known: up to W-1      */
    const la_real *dstate_out;    /* of the row of the batch; NULL without                    */
} ahead;

static ahead look_ahead(const la_node *n, dims s, int64_t b, int64_t t) {
    ahead a = {.dstate_out = s.state && n->out[1]->g ? n->out[1]->g + b * (s.W - 1) * s.C : NULL};
    for (; t < s.T && a.places < s.W - 1; t++)
        if (valid(s, b, t)) a.dy[++a.places] = n->g + (b * s.T + t) * s.C;
    return a;
}

/* Step 1: dz += ... at one place, dy NULL for a row of the state; then one place down. */
static void step_down(dims s, const la_real *w, ahead *a, const la_real *dy, la_real *dz) {
    a->dy[0] = dy;
    for (int64_t i = 0; dz && i < s.W; i++)
        if (a->dy[i]) add_product(s.C, w + (s.W - 1 - i) * s.C, a->dy[i], dz);
    if (dz && a->dstate_out && a->places < s.W - 1)
        la_vec_table()->axpy(s.C, 1, a->dstate_out + (s.W - 2 - a->places) * s.C, dz);
    memmove(a->dy + 1, a->dy, (size_t)(s.W - 1) * sizeof *a->dy);
    a->places = la_min(a->places + 1, s.W - 1);
}

static void tokens_backward(const la_node *n, dims s, int64_t block, la_real *w, int set) {
    int64_t  b = block / s.blocks;
    la_range tokens = la_cut(s.T, TOKENS, block % s.blocks);
    ahead    a = look_ahead(n, s, b, tokens.to);
    la_transpose(s.C, s.W, s.w->x, s.W, w);
    for (int64_t t = tokens.to - 1; t >= tokens.from; t--) {
        int64_t  at = (b * s.T + t) * s.C;
        la_real *dx = la_plus(s.x->g, at);
        if (dx && set) memset(dx, 0, (size_t)s.C * sizeof *dx);
        if (valid(s, b, t)) step_down(s, w, &a, n->g + at, dx);
    }
    for (int64_t i = s.W - 2; i >= 0 && tokens.from == 0 && s.state && s.state->g; i--)
        step_down(s, w, &a, NULL, s.state->g + (b * (s.W - 1) + i) * s.C);
}

/* Step 2, for some channels.  Where the W places are tokens without a gap, so are those of the
 * tokens that follow without one, and they are added in one go. */
static void weight_backward(const la_node *n, dims s, la_range c, la_real *dw) {
    int64_t place[MAX_WIDTH], width = c.to - c.from, run;
    memset(dw, 0, (size_t)(s.W * width) * sizeof *dw);
    for (int64_t b = 0; b < s.B; b++) {
        places_before(s, b, 0, place);
        for (int64_t t = 0; t < s.T; t += run) {
            run = 1;
            if (!valid(s, b, t)) continue;
            place[s.W - 1] = t;
            while (place[0] >= 0 && place[0] == t - (s.W - 1) && t + run < s.T &&
                   valid(s, b, t + run))
                run++;
            for (int64_t p = 0; p < s.W; p++) {
                const la_real *z = row_of(s, b, place[p]);
                if (z)
                    la_vec_table()->mul_add_rows(run, width, n->g + (b * s.T + t) * s.C + c.from,
                                                 s.C, z + c.from, s.C, dw + p * width);
            }
            for (int64_t p = 0; p < s.W - 1; p++) place[p] = place[p + 1] + run - 1;
        }
    }
    for (int64_t j = 0; j < width; j++)
        for (int64_t p = 0; p < s.W; p++) s.w->g[(c.from + j) * s.W + p] += dw[p * width + j];
}

static void backward(const la_node *n, const la_run *run) {
    dims    s = get(n);
    int64_t block;
    if (la_first_kind(run->block, s.B * s.blocks, la_ceil_div(s.C, STRIP), &block)) {
        if (s.x->g || (s.state && s.state->g))
            tokens_backward(n, s, block, run->scratch, la_sets(run, 0));
    } else if (s.w->g)
        weight_backward(n, s, la_cut(s.C, STRIP, block), run->scratch);
}

/* z as it is defined. */
static void reference(const la_node *n) {
    dims s = get(n);
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t c = 0; c < s.C; c++) {
            la_real z[s.W - 1 + s.T], *out;
            int64_t k = 0;
            for (; k < s.W - 1; k++) z[k] = s.state ? s.state->x[(b * (s.W - 1) + k) * s.C + c] : 0;
            for (int64_t t = 0; t < s.T; t++) {
                double y = 0;
                if (valid(s, b, t)) {
                    z[k++] = s.x->x[(b * s.T + t) * s.C + c];
                    for (int64_t p = 0; p < s.W; p++)
                        y += (double)s.w->x[c * s.W + p] * (double)z[k - s.W + p];
                }
                n->x[(b * s.T + t) * s.C + c] = R(y);
            }
            out = s.state ? n->out[1]->x + b * (s.W - 1) * s.C + c : NULL;
            for (int64_t i = 0; out && i < s.W - 1; i++) out[i * s.C] = z[k - (s.W - 1) + i];
        }
}

/* The inputs after w: a mask, a state, or both. */
static const la_case cases[] = {
    {.name = "B2 T5 C3 W3", .in = {{3, {2, 5, 3}}, {2, {3, 3}}}},
    {.name = "T shorter than W", .in = {{3, {1, 2, 3}}, {2, {3, 4}}}},
    {.name = "a mask",
     .in = {{3, {3, 9, 2}}, {2, {2, 3}}, {2, {3, 9}}},
     .ids = {{0, 0}, {0, 0}, {0, 2}}},
    {.name = "a state", .in = {{3, {2, 6, 3}}, {2, {3, 4}}, {3, {2, 3, 3}}}},
    {.name = "a state, T1", .in = {{3, {2, 1, 3}}, {2, {3, 4}}, {3, {2, 3, 3}}}},
    {.name = "a mask and a state",
     .in = {{3, {4, 7, 2}}, {2, {2, 4}}, {2, {4, 7}}, {3, {4, 3, 2}}},
     .ids = {{0, 0}, {0, 0}, {0, 2}}},
    {.name = "none valid, a state",
     .in = {{3, {2, 3, 2}}, {2, {2, 2}}, {2, {2, 3}}, {3, {2, 1, 2}}},
     .ids = {{0, 0}, {0, 0}, {0, 1}}},
    {.name = "blocks and strips", .in = {{3, {2, 131, 67}}, {2, {67, 4}}}},
    {.name = "blocks, a mask and a state",
     .in = {{3, {2, 131, 2}}, {2, {2, 5}}, {2, {2, 131}}, {3, {2, 4, 2}}},
     .ids = {{0, 0}, {0, 0}, {0, 2}}},
    {0},
};

const la_op la_op_short_conv = {
    .name = "short_conv",
    .formula = "y_t = sum_{i<W} w_{W-1-i} o x_{t-i}, over valid tokens",
    .file = "autograd/ops/short_conv.c",
    .reads = LA_READS_IN(0) | LA_READS_IN(1) | LA_READS_IN(2) | LA_READS_IN(3),
    .sets = LA_SETS_IN(0),
    .distinct = 1,
    .cases = cases,
    .infer = infer,
    .check = check,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

la_node *la_short_conv(la_tape *t, la_node *x, la_node *w, la_node *mask, la_node *state,
                       la_node **state_out) {
    la_node *in[] = {x, w, mask ? mask : state, state};
    la_node *y = la_apply(t, &la_op_short_conv, 2 + (mask != NULL) + (state != NULL), in, NULL);
    if (state_out) *state_out = y && state ? y->out[1] : NULL;
    return y;
}
