/* linformer: softmax over r rows into which the text's keys and values are projected.
 * Wang, Li, Khabsa, Fang, Ma, "Linformer: Self-attention with linear complexity", 2020.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   W, U (r,length), T <= length   o (B,T,H,E)
 *
 * W and U are the paper's E and F, one pair for all heads of a layer ("headwise sharing"); of their
 * columns a text uses the first T.  For one head, with rows K (T,D) and V (T,E):
 *
 *   k~_i = sum_s W_is k_s    v~_i = sum_s U_is v_s    p_ti = softmax_i(q_t.k~_i / sqrt D)
 *   o_t = sum_i p_ti v~_i = sum_s w_ts v_s,           w_ts = sum_i p_ti U_is
 *
 * A row i holds every token, so there is no causal form; and the weights w_ts have either sign and
 * do not add to 1.  W and U start as N(0, 1/length): for a text of that length the numbers of k~_i
 * and v~_i then vary as those of a token do, and with them the scores and values.
 *
 * Backward, g_t the gradient at o_t, as in softmax.c with i in the place of j:
 *   1. dv~_i = sum_t p_ti g_t         dp_ti = g_t.v~_i      ds_ti = p_ti (dp_ti - g_t.o_t)
 *   2. dq_t = sum_i ds_ti k~_i / sqrt D                     dk~_i = sum_t ds_ti q_t / sqrt D
 *   3. dk_s = sum_i W_is dk~_i        dv_s = sum_i U_is dv~_i
 *   4. dW_is = dk~_i.k_s and dU_is = dv~_i.v_s, summed over heads and batch rows.
 *
 * A token's row in memory holds all its heads, so products along the text take all at once: X, the
 * projected rows of a batch row, is K~ (r,H D), then V~ (r,H E), and step 4 for tokens s of a batch
 * row is (K (C,H D)) (dK~' (H D,r)), the transpose of dW's columns, with the sum over heads inside.
 *
 * Blocks.  A batch row's text is cut into segments of whole tiles of C tokens.
 *   forward    0: X of each segment   1: their sum, in order, by slices   2: o, by segments
 *   backward   0: dq of each segment, and its dX   1: their sum
 *              2: dk, dv by segments; and beside them dW, dU by tiles, each over all batch rows
 *
 * With a mask a batch row has N <= T tokens, its first: they have columns 0 .. N-1 of W and U.
 *
 * Saved: X, and lse_t = log sum_i exp(s_ti).  Memory O(T + r H (D + E)), time O(T r (D + E)). */
#include <stdlib.h>

#include "autograd/attention/kernel_map.h"
#include "autograd/attention/linformer_tile.h"

static la_status infer(const la_node *n, la_plan *p) {
    LA_TRY(la_attn_infer(n, p));
    dims s = get(n);
    work w;
    char text[LA_SHAPE_TEXT];
    for (int i = LA_AT_WEIGHT; i <= LA_AT_WEIGHT_K; i++) {
        const la_node *x = la_attn_at(n, i);
        if (!x || x->ids || !la_shape_eq(x->shape, la_shape2(s.r, s.length)))
            return la_fail(LA_SHAPE, "linformer: a projection must be (%lld,%lld), and is %s",
                           (long long)s.r, (long long)s.length,
                           x ? la_shape_text(x->shape, text) : "missing");
    }
    if (s.T > s.length)
        return la_fail(LA_SHAPE,
                       "linformer: its projections are for %lld tokens at most, and a text has "
                       "%lld: give a shorter text, or train with a larger --block-size",
                       (long long)s.length, (long long)s.T);
    p->n_saved = (size_t)(s.B * (s.X + s.T * s.H));
    p->n_common = (size_t)(s.B * (s.segments + 1) * s.X);
    p->n_scratch = carve(s, NULL, &w);
    p->forward_blocks[0] = p->forward_blocks[2] = p->backward_blocks[0] = s.B * s.segments;
    p->forward_blocks[1] = p->backward_blocks[1] = s.B * s.slices;
    p->backward_blocks[2] = s.B * s.segments + s.tiles;
    return LA_OK;
}

/* total = sum of the parts (segments,X), in order: one slice of it. */
static void sum_slice(dims s, const la_real *parts, int64_t slice, la_real *total) {
    const la_range at = la_cut(s.X, SLICE, slice);
    memcpy(total + at.from, parts + at.from, (size_t)(at.to - at.from) * sizeof *total);
    for (int64_t i = 1; i < s.segments; i++)
        la_vec_table()->axpy(at.to - at.from, 1, parts + i * s.X + at.from, total + at.from);
}

/* --- forward --- */
/* X = W K, U V of a segment. */
static void project(dims s, const row *a, int64_t segment) {
    const la_range t = valid(a, s.segment, segment);
    const int64_t  N = t.to - t.from, HD = s.H * s.D, HE = s.H * s.E;
    la_real       *X = a->parts + segment * s.X;
    if (N == 0) {
        memset(X, 0, (size_t)s.X * sizeof *X);
        return;
    }
    la_gemm_nn(LA_SET, s.r, HD, N, a->W + t.from, s.length, a->k + t.from * a->ldk, a->ldk, X, HD);
    la_gemm_nn(LA_SET, s.r, HE, N, a->U + t.from, s.length, a->v + t.from * a->ldv, a->ldv,
               X + s.keys, HE);
}

static void forward(const la_node *n, const la_run *run) {
    const dims    s = get(n);
    const int64_t each = run->phase == 1 ? s.slices : s.segments, i = run->block % each;
    const row     a = find(n, s, run->block / each, run->common);
    work          w;
    carve(s, run->scratch, &w);
    if (run->phase == 0) project(s, &a, i);
    if (run->phase == 1) sum_slice(s, a.parts, i, a.X);
    if (run->phase != 2) return;
    load_rows(s, &a, &w);
    const la_range tiles = tiles_of(s, &a, i);
    for (int64_t c = tiles.from; c < tiles.to; c++)
        for (int64_t h = 0; h < s.H; h++) forward_tile(s, &a, &w, h, valid(&a, s.C, c));
    clear_padding(s, &a, s.segment, i, s.H * s.E, a.o, a.ldo);
}

/* --- backward --- */
/* Phase 0: a segment. */
static void backward_segment(dims s, const row *a, const work *w, int64_t segment, int set) {
    const la_range tiles = tiles_of(s, a, segment);
    la_real       *dX = a->parts + segment * s.X;
    memset(dX, 0, (size_t)s.X * sizeof *dX);
    load_rows(s, a, w);
    la_vec_table()->scale(s.keys, s.scale, a->X, w->K);
    la_transpose(s.r, s.H * s.E, a->X + s.keys, s.H * s.E, w->VT);
    for (int64_t c = tiles.from; c < tiles.to; c++)
        for (int64_t h = 0; h < s.H; h++) backward_tile(s, a, w, h, valid(a, s.C, c), set, dX);
    la_vec_table()->scale(s.keys, s.scale, dX, dX);
    if (a->dq && set) clear_padding(s, a, s.segment, segment, s.H * s.D, a->dq, a->ldq);
}

/* Step 3 for one of dk, dv: dx (N,len) = W' dX for the tokens of a segment. */
static void unproject(dims s, const row *a, int64_t segment, const la_real *W, const la_real *dX,
                      int64_t len, la_real *dx, int64_t ld, int set) {
    const la_range t = valid(a, s.segment, segment);
    if (!dx) return;
    if (t.to > t.from)
        la_gemm_tn(set ? LA_SET : LA_ADD, t.to - t.from, len, s.r, W + t.from, s.length, dX, len,
                   dx + t.from * ld, ld);
    if (set) clear_padding(s, a, s.segment, segment, len, dx, ld);
}

/* Step 4: the columns of dW, or of dU, for the tokens of tile c. */
static void weight_tile(const la_node *n, dims s, const la_run *run, const work *w, int64_t c,
                        int values) {
    const int64_t  len = s.H * (values ? s.E : s.D);
    const la_range all = la_cut(s.T, s.C, c);
    la_real       *dW = la_attn_at(n, values ? LA_AT_WEIGHT_K : LA_AT_WEIGHT)->g;
    if (!dW) return;
    memset(w->dWT, 0, (size_t)(s.C * s.r) * sizeof *dW);
    for (int64_t b = 0; b < s.B; b++) {
        const row      a = find(n, s, b, run->common);
        const la_range t = valid(&a, s.C, c);
        const la_real *x = values ? a.v : a.k;
        const int64_t  ld = values ? a.ldv : a.ldk;
        la_real       *dXT = values ? w->VT : w->KT;
        if (t.to == t.from) continue;
        la_transpose(s.r, len, a.dX + (values ? s.keys : 0), len, dXT);
        la_gemm_nn(LA_ADD, t.to - t.from, s.r, len, x + t.from * ld, ld, dXT, s.r, w->dWT, s.r);
    }
    la_transpose(all.to - all.from, s.r, w->dWT, s.r, w->dW);
    for (int64_t i = 0; i < s.r; i++)
        la_vec_table()->axpy(all.to - all.from, 1, w->dW + i * (all.to - all.from),
                             dW + i * s.length + all.from);
}

/* Phase 2: blocks of two kinds. */
static void backward_rest(const la_node *n, dims s, const la_run *run, const work *w) {
    int64_t i;
    if (la_first_kind(run->block, s.B * s.segments, s.tiles, &i)) {
        const row     a = find(n, s, i / s.segments, run->common);
        const int64_t segment = i % s.segments;
        unproject(s, &a, segment, a.W, a.dX, s.H * s.D, a.dk, a.ldk, la_sets(run, 1));
        unproject(s, &a, segment, a.U, a.dX + s.keys, s.H * s.E, a.dv, a.ldv, la_sets(run, 2));
        return;
    }
    weight_tile(n, s, run, w, i, 0);
    weight_tile(n, s, run, w, i, 1);
}

static void backward(const la_node *n, const la_run *run) {
    const dims s = get(n);
    work       w;
    carve(s, run->scratch, &w);
    if (run->phase == 2) {
        backward_rest(n, s, run, &w);
        return;
    }
    const int64_t each = run->phase == 1 ? s.slices : s.segments, i = run->block % each;
    const row     a = find(n, s, run->block / each, run->common);
    if (run->phase == 0)
        backward_segment(s, &a, &w, i, la_sets(run, 0));
    else
        sum_slice(s, a.parts, i, a.dX);
}

/* --- the variant --- */
static int weights(const la_attn_cfg *c, int64_t H, int64_t D, la_attn_weight out[2]) {
    (void)H, (void)D;
    for (int i = 0; i < 2; i++)
        out[i] = (la_attn_weight){.name = i ? "project_v" : "project_k",
                                  .shape = la_shape2(c->r, c->length),
                                  .how = LA_INIT_NORMAL,
                                  .scale = 1 / sqrt((double)c->length)};
    return 2;
}

/* A token meets r rows twice: it is projected to them, and its query compares itself with them. */
static double pairs(const la_attn_cfg *c, int64_t T) { return 2 * (double)T * (double)c->r; }

static la_status definition(const la_attn_head *x, double *w) {
    const int64_t r = x->cfg->r, length = x->cfg->length;
    double       *p = malloc((size_t)r * sizeof *p);
    if (!p) return la_fail(LA_NOMEM, "no memory for %lld weights", (long long)r);
    for (int64_t t = 0; t < x->T; t++) {
        for (int64_t i = 0; i < r; i++) {
            p[i] = 0;
            for (int64_t s = 0; s < x->T; s++)
                for (int64_t d = 0; d < x->D; d++)
                    p[i] += x->q[t * x->D + d] * x->weight[0][i * length + s] * x->k[s * x->D + d];
            p[i] /= sqrt((double)x->D);
        }
        la_softmax_definition(r, p);
        for (int64_t i = 0; i < r; i++)
            for (int64_t s = 0; s < x->T; s++)
                w[t * x->T + s] += p[i] * x->weight[1][i * length + s];
    }
    free(p);
    return LA_OK;
}

static const la_op op = {
    .name = "linformer_attention",
    .formula = "o_t = sum_i softmax_i(q_t.(W K)_i / sqrt D) (U V)_i",
    .file = "autograd/attention/linformer.c",
    .attr_size = sizeof(la_attn_call),
    .reads = LA_READS_ATTENTION | LA_READS_OUT(0),
    .sets = LA_SETS_IN(0) | LA_SETS_IN(1) | LA_SETS_IN(2),
    .strided = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};

const la_attn la_attn_linformer = {
    .name = "linformer",
    .formula = "o_t = sum_i softmax_i(q_t.(W K)_i / sqrt D) (U V)_i, W and U (r, length) learned",
    .paper = "Wang et al., Linformer: Self-attention with linear complexity, 2020",
    .cost = "O(T r (D+E)) time, no state",
    .file = "autograd/attention/linformer.c",
    .options = "chunk r norm",
    .usual = {.r = 16},
    .tiny = "r=3",
    .not_causal = "it projects keys and values along the text, so that each of its r rows contains "
                  "the tokens after a position: no causal mask can take them out again "
                  "(--objective=mlm is for it)",
    .traits = LA_ATTN_SIGNED | LA_ATTN_NOT_MEAN | LA_ATTN_POSITIONAL,
    .full = &op,
    .weights = weights,
    .pairs = pairs,
    .definition = definition,
};
