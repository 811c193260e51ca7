/* full_linear: bidirectional normalised linear attention under a feature map phi.
 * Shen et al., "Efficient attention", 2018; Katharopoulos et al., "Transformers are RNNs", 2020.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   o (B,T,H,E)
 *
 * For one head, a_t = phi(q_t), b_t = phi(k_t) in R^m; sums over all tokens of the text:
 *
 *   S = sum_s b_s v_s'  (m,E)        z = sum_s b_s
 *   D_t = max(a_t.z + eps, floor)    o_t = S' a_t / D_t, 0 where D_t is 0
 *
 * Backward, g_t the gradient at o_t.  From o = n / D:
 *   1. dn_t = g_t / D_t = u_t        dD_t = -(g_t.o_t) / D_t = w_t, or 0 where D_t is the floor
 *   2. a_t is used at time t only:                         da_t = S u_t + w_t z
 *   3. S and z are used by every token: their gradients are
 *      R = sum_t a_t u_t' and r = sum_t w_t a_t, and       db_s = R v_s + r     dv_s = R' b_s
 *
 * Chunks of C tokens make matrix products of it.  Rows A, B (C,m), V, U (C,E), w (C):
 *
 *   S = sum B' V     z = sum B' 1     N  = A S              D  = A z + eps
 *   R = sum A' U     r = sum A' w     dA = U S' + w z'      dB = V R' + 1 r'      dV = B R
 *
 * Phases: S, z of each segment of the text; their sums, in order; o.  Backward: dA, and R, r of
 * each segment; their sums; dB and dV.  A block walks some heads of a batch row side by side, as in
 * causal_linear.  With a mask a text is the first tokens of its row, and o is 0 beyond.
 *
 * Saved: S, z and D.  Memory O(m E + T), time O(T m E). */
#include "autograd/ops/kernel_linear_chunk.h"

static size_t carve(dims s, la_real *at, work *w) {
    const int64_t rows = s.C * s.group, logs = s.log_q ? s.group * s.m : 0;
    const la_part parts[] = {
        {&w->A, rows * s.m}, {&w->dA, rows * s.m},          {&w->B, rows * s.m},
        {&w->U, rows * s.E}, {&w->dB, rows * s.m},          {&w->w, rows},
        {&w->log, logs},     {&w->XT, s.group * s.E * s.m}, {&w->dlog, logs},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
}

/* In common: a state of each segment (B,H,segments,L).  The first of them becomes their sum. */
static la_real *sums_of(dims s, const la_run *run, int64_t number, int64_t segment) {
    return run->common + (number * s.segments + segment) * s.L;
}

/* Kept: S, z (B,H,L), then D (B,T,H). */
static la_real *saved_state(const la_node *n, dims s, int64_t number) {
    return n->saved + number * s.L;
}

static la_real *saved_normaliser(const la_node *n, dims s, const scan_rows *a) {
    const int64_t b = a->number / s.H, h = a->number % s.H;
    return la_plus(n->saved, s.B * s.H * s.L + b * s.T * s.H + h);
}

static la_status infer(const la_node *n, la_plan *p) {
    LA_TRY(la_attn_infer(n, p));
    dims s = get(n);
    work w;
    p->n_saved = (size_t)(s.B * s.H * (s.L + s.T));
    p->n_scratch = carve(s, NULL, &w);
    p->n_common = (size_t)(s.B * s.H * s.segments * s.L);
    for (int phase = 0; phase < 3; phase++)
        p->forward_blocks[phase] = p->backward_blocks[phase] =
            phase == 1 ? s.B * s.H * s.slices : s.B * s.groups * s.segments;
    return LA_OK;
}

/* Phase 1, of both passes: a slice of one head's states; kept, if keep is not NULL. */
static void sum_block(dims s, const la_run *run, la_real *keep) {
    const int64_t  number = run->block / s.slices;
    const la_range part = la_cut(s.L, SLICE, run->block % s.slices);
    const int64_t  len = part.to - part.from;
    la_real       *total = sums_of(s, run, number, 0) + part.from;
    for (int64_t c = 1; c < s.segments; c++)
        la_vec_table()->axpy(len, 1, sums_of(s, run, number, c) + part.from, total);
    if (keep) memcpy(keep + number * s.L + part.from, total, (size_t)len * sizeof *total);
}

static void clear_sums(dims s, const la_run *run, const piece *p) {
    for (int64_t h = 0; h < s.group; h++)
        memset(sums_of(s, run, p->a.x.number + h, p->segment), 0, (size_t)s.L * sizeof(la_real));
}

/* S, z of the keys of a block. */
static void sum_keys(const la_node *n, dims s, const la_run *run, const piece *p, work *w) {
    const scan_rows *x = &p->a.x;
    clear_sums(s, run, p);
    for (int64_t c = p->chunks.from; c < p->chunks.to; c++) {
        const int64_t t = c * s.C, C = tokens_of(s, p, c);
        load_keys(n, s, x, w, t, C, s.C);
        for (int64_t h = 0; h < s.group; h++)
            add_state(s, C, head_of(w->B, s.group, s.m, h), values_of(s, x, t, h), NULL, 0,
                      sums_of(s, run, x->number + h, p->segment));
    }
}

static void outputs(const la_node *n, dims s, const la_run *run, const piece *p, work *w) {
    const scan_rows *x = &p->a.x;
    la_real         *D = saved_normaliser(n, s, x);
    for (int64_t c = p->chunks.from; c < p->chunks.to; c++) {
        const int64_t t = c * s.C, C = tokens_of(s, p, c);
        load_queries(n, s, x, w, t, C, s.C);
        for (int64_t h = 0; h < s.group; h++) {
            const matrix   A = head_of(w->A, s.group, s.m, h);
            const la_real *S = sums_of(s, run, x->number + h, 0);
            la_real       *o = x->o + t * x->ldo + h * s.E;
            la_gemm_nn(LA_SET, C, s.E, s.m, A.x, A.ld, S, s.E, o, x->ldo);
            la_vec_table()->normalise(C, s.m, s.E, A.x, A.ld, S + s.m * s.E, NULL, 0, s.eps,
                                      s.floor, la_plus(D, t * s.H + h), s.H, o, x->ldo);
        }
    }
    scan_clear(p->tokens, x->tokens, s.group * s.E, x->o, x->ldo);
}

static void forward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (run->phase == 1) {
        sum_block(s, run, n->saved);
        return;
    }
    piece p = find_piece(n, s, run);
    work  w;
    carve(s, run->scratch, &w);
    (run->phase == 0 ? sum_keys : outputs)(n, s, run, &p, &w);
}

/* dx = X Y' + x y' of head h for rows X (C,E), x (C), `step` apart, or 1 if NULL; Y' (E,m) is in
 * scratch, and y (m). */
static void rows_backward(dims s, const work *w, int64_t h, int64_t C, matrix X, const la_real *x,
                          int64_t step, const la_real *y, la_real *dx) {
    la_vec_table()->outer(C, s.m, x, step, y, dx, s.group * s.m);
    la_gemm_nn(LA_ADD, C, s.m, s.E, X.x, X.ld, w->XT + h * s.E * s.m, s.m, dx, s.group * s.m);
}

/* dq, and R, r of the queries of a block. */
static void queries_backward(const la_node *n, dims s, const la_run *run, const piece *p, work *w) {
    const scan_rows *x = &p->a.x;
    clear_sums(s, run, p);
    for (int64_t h = 0; h < s.group; h++)
        la_transpose(s.m, s.E, saved_state(n, s, x->number + h), s.E, w->XT + h * s.E * s.m);
    for (int64_t c = p->chunks.from; c < p->chunks.to; c++) {
        const int64_t t = c * s.C, C = tokens_of(s, p, c);
        load_queries(n, s, x, w, t, C, s.C);
        load_gradient(s, x, saved_normaliser(n, s, x), w, t, C, s.C);
        for (int64_t h = 0; h < s.group; h++) {
            const matrix U = head_of(w->U, s.group, s.E, h);
            add_state(s, C, head_of(w->A, s.group, s.m, h), U, w->w + h, s.group,
                      sums_of(s, run, x->number + h, p->segment));
            if (x->dq)
                rows_backward(s, w, h, C, U, w->w + h, s.group,
                              saved_state(n, s, x->number + h) + s.m * s.E, w->dA + h * s.m);
        }
        if (x->dq) store_gradient(n, s, x, w, 0, t, C, s.C, la_sets(run, 0));
    }
}

/* dk and dv of a block. */
static void keys_backward(const la_node *n, dims s, const la_run *run, const piece *p, work *w) {
    const scan_rows *x = &p->a.x;
    for (int64_t h = 0; h < s.group; h++)
        la_transpose(s.m, s.E, sums_of(s, run, x->number + h, 0), s.E, w->XT + h * s.E * s.m);
    for (int64_t c = p->chunks.from; c < p->chunks.to; c++) {
        const int64_t t = c * s.C, C = tokens_of(s, p, c);
        load_keys(n, s, x, w, t, C, s.C);
        for (int64_t h = 0; h < s.group; h++) {
            const la_real *R = sums_of(s, run, x->number + h, 0);
            if (x->dk)
                rows_backward(s, w, h, C, values_of(s, x, t, h), NULL, 0, R + s.m * s.E,
                              w->dB + h * s.m);
            if (x->dv)
                la_gemm_nn(la_sets(run, 2) ? LA_SET : LA_ADD, C, s.E, s.m, w->B + h * s.m,
                           s.group * s.m, R, s.E, x->dv + t * x->ldv + h * s.E, x->ldv);
        }
        if (x->dk) store_gradient(n, s, x, w, 1, t, C, s.C, la_sets(run, 1));
    }
    clear_gradients(s, p, run);
}

static void backward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (run->phase == 1) {
        sum_block(s, run, NULL);
        return;
    }
    piece p = find_piece(n, s, run);
    work  w;
    carve(s, run->scratch, &w);
    (run->phase == 0 ? queries_backward : keys_backward)(n, s, run, &p, &w);
}

const la_op la_op_full_linear = {
    .name = "full_linear",
    .formula = "o_t = phi(q_t)'(sum_j phi(k_j) v_j') / (phi(q_t).sum_j phi(k_j) + eps)",
    .file = "autograd/ops/full_linear.c",
    .attr_size = sizeof(la_attn_call),
    .reads = LA_READS_ATTENTION | LA_READS_OUT(0),
    .sets = LA_SETS_IN(0) | LA_SETS_IN(1) | LA_SETS_IN(2),
    .strided = 1,
    .infer = infer,
    .check = la_kernel_check,
    .forward = forward,
    .backward = backward,
};
