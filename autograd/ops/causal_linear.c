/* causal_linear: normalised causal linear attention under a feature map phi.
 * Katharopoulos, Vyas, Pappas, Fleuret, "Transformers are RNNs", 2020.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   o (B,T,H,E)   state (B,H,m(E+1)): S (m,E), then z (m)
 *
 * For one head, a_t = phi(q_t), b_t = phi(k_t) in R^m:
 *
 *   S_t = S_{t-1} + b_t v_t'    z_t = z_{t-1} + b_t    D_t = a_t.z_t + eps    o_t = S_t' a_t / D_t
 *
 * Backward, g_t the gradient at o_t.  From o = n / D:
 *   1. dn_t = g_t / D_t = u_t        dD_t = -(g_t.o_t) / D_t = w_t
 *   2. a_t is used at time t only:                        da_t = S_t u_t + w_t z_t
 *   3. S_t and z_t are used by every later time.  R_t = sum_{s>=t} a_s u_s' and
 *      r_t = sum_{s>=t} w_s a_s are their gradients, and
 *                                                         db_t = R_t v_t + r_t    dv_t = R_t' b_t
 *   4. The state that came in gets R_0, r_0; the gradient of the state that goes out starts R, r.
 *
 * Chunks of C tokens turn the sums into matrix products.  Rows A, B (C,m), V, U (C,E), w (C); M
 * keeps the lower triangle with its diagonal; S, z before the chunk, R, r from later chunks:
 *
 *   P  = (A B') o M         N  = A S + P V               D = A z + P 1 + eps
 *   dP = (U V' + w 1') o M  dA = U S' + w z' + dP B      dB = V R' + 1 r' + dP' A
 *                           dV = B R + P' U
 *   after the chunk:        S += B' V    z += B' 1       R += A' U    r += A' w
 *
 * Every product is NN or TN: the factor that would stand transposed on the right is transposed in
 * scratch first.  M sets to 0 and does not multiply: 0 * inf is not 0.
 *
 * Blocks.  A block walks some heads of a batch row side by side, chunk by chunk: the rows of a
 * token for all of them are next to each other in memory, and are read and written in one go.  With
 * few heads the sequence is cut into segments, in three phases: what each segment adds to the state
 * (B' V, B' 1); the running sums of these, so that each segment has the state before it; the
 * segments, now independent.  Backward likewise with A' U, A' w and sums from the end.
 *
 * Saved: S, z before each chunk, and D.  Memory O(T (m E / C + 1)), time O(T m E + T C (m + E)).
 * (Keeping every second state, and walking up again from it, was measured: 6 % slower.) */
#include "autograd/ops/causal_linear_chunk.h"

static la_status infer(const la_node *n, la_plan *p) {
    LA_TRY(la_attn_infer(n, p));
    dims s = get(n);
    work w;
    p->n_saved = (size_t)(s.B * s.H * (s.chunks * s.L + s.T));
    p->n_scratch = carve(s, NULL, &w);
    p->forward_blocks[0] = p->backward_blocks[0] = s.B * s.groups * s.segments;
    if (s.segments == 1) return LA_OK;
    p->n_common = (size_t)(s.B * s.H * s.segments * s.L);
    p->forward_blocks[1] = p->backward_blocks[1] = s.B * s.H * s.slices;
    p->forward_blocks[2] = p->backward_blocks[2] = p->forward_blocks[0];
    return LA_OK;
}

/* Running sums over the segments of some reals of a state: each gets the sum of those before it, in
 * the direction of `step`, and `from`.  total: all of them. */
static void scan(dims s, la_real *sums, int64_t step, int64_t len, const la_real *from,
                 la_real *total) {
    copy_or_zero(len, from, total);
    for (int64_t i = 0, c = step > 0 ? 0 : s.segments - 1; i < s.segments; i++, c += step) {
        la_real *x = sums + c * s.L;
        for (int64_t j = 0; j < len; j++) {
            la_real own = x[j];
            x[j] = total[j];
            total[j] += own;
        }
    }
}

/* Phase 1, of both passes: a slice of one head's states. */
static void scan_block(const la_node *n, dims s, const la_run *run, int backward) {
    int64_t  number = run->block / s.slices;
    heads    a = find(n, s, number / s.H, number % s.H, run->common);
    la_range part = la_cut(s.L, SLICE, run->block % s.slices);
    la_real  total[SLICE], *sums = a.sums + number * s.segments * s.L + part.from;
    int64_t  at = number * s.L + part.from, len = part.to - part.from;
    if (backward) {
        scan(s, sums, -1, len, a.dstate_out ? a.dstate_out + at : NULL, total);
        if (a.dstate) la_vec_table()->axpy(len, 1, total, a.dstate + at);
    } else {
        scan(s, sums, 1, len, a.state ? a.state + at : NULL, total);
        if (a.state_out) memcpy(a.state_out + at, total, (size_t)len * sizeof *total);
    }
}

/* What a block of the phases 0 and 2 is about. */
typedef struct piece {
    heads    a;
    la_range chunks;
    int64_t  segment;
    int      only_sums; /* phase 0 of several */
} piece;

static piece find_piece(const la_node *n, dims s, const la_run *run) {
    int64_t number = run->block / s.segments;
    piece p = {.segment = run->block % s.segments, .only_sums = s.segments > 1 && run->phase == 0};
    p.chunks = la_cut(s.chunks, s.segment, p.segment);
    p.a = find(n, s, number / s.groups, number % s.groups * s.group, run->common);
    return p;
}

/* Where a segment's sums (and later the state at its edge) are, for head h of the block. */
static la_real *sums_of(dims s, const piece *p, int64_t h) {
    return p->a.sums + ((p->a.number + h) * s.segments + p->segment) * s.L;
}

/* The state at the edge where a segment begins: of S before it, or of R after it. */
static void first_state(dims s, const piece *p, const la_real *whole, la_real *X) {
    for (int64_t h = 0; h < s.group; h++, X += s.L)
        copy_or_zero(s.L,
                     p->only_sums     ? NULL
                     : s.segments > 1 ? sums_of(s, p, h)
                     : whole          ? whole + (p->a.number + h) * s.L
                                      : NULL,
                     X);
}

static void forward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (run->phase == 1) {
        scan_block(n, s, run, 0);
        return;
    }
    piece        p = find_piece(n, s, run);
    const size_t state = (size_t)s.L * sizeof(la_real);
    work         w;
    carve(s, run->scratch, &w);
    first_state(s, &p, p.a.state, w.S);
    for (int64_t c = p.chunks.from; c < p.chunks.to; c++) {
        int64_t t = c * s.C, C = la_min(s.C, s.T - t);
        load_keys(n, s, &p.a, &w, t, C, s.C);
        if (!p.only_sums) load_queries(n, s, &p.a, &w, t, C, s.C);
        for (int64_t h = 0; h < s.group; h++) {
            la_real *S = w.S + h * s.L;
            if (!p.only_sums) {
                load_weights(s, &w, h, C);
                chunk_forward(s, &p.a, &w, h, t, C, S);
                if (p.a.S) la_vec_table()->store(s.L, S, saved_state(s, &p.a, h, c));
            }
            add_keys(s, &p.a, &w, h, t, C, S);
        }
    }
    for (int64_t h = 0; h < s.group; h++)
        if (p.only_sums)
            memcpy(sums_of(s, &p, h), w.S + h * s.L, state);
        else if (s.segments == 1 && p.a.state_out)
            memcpy(p.a.state_out + (p.a.number + h) * s.L, w.S + h * s.L, state);
}

static void backward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (run->phase == 1) {
        scan_block(n, s, run, 1);
        return;
    }
    piece p = find_piece(n, s, run);
    work  w;
    carve(s, run->scratch, &w);
    first_state(s, &p, p.a.dstate_out, w.R);
    for (int64_t c = p.chunks.to - 1; c >= p.chunks.from; c--) {
        int64_t t = c * s.C, C = la_min(s.C, s.T - t);
        load_queries(n, s, &p.a, &w, t, C, -s.C);
        load_gradient(s, &p.a, &w, t, C);
        if (!p.only_sums) load_keys(n, s, &p.a, &w, t, C, -s.C);
        for (int64_t h = 0; h < s.group; h++) {
            la_real *R = w.R + h * s.L;
            if (!p.only_sums) {
                load_weights(s, &w, h, C);
                chunk_backward(s, &p.a, &w, h, t, C, saved_state(s, &p.a, h, c), R,
                               la_sets(run, 2));
            }
            add_queries(s, &w, h, C, R);
        }
        if (!p.only_sums && p.a.dq)
            store_gradient(n, s, 0, p.a.past + t, C, p.a.q + t * p.a.ldq, p.a.ldq, w.A, w.dA,
                           p.a.dq + t * p.a.ldq, la_sets(run, 0));
        if (!p.only_sums && p.a.dk)
            store_gradient(n, s, 1, p.a.past + t, C, p.a.k + t * p.a.ldk, p.a.ldk, w.B, w.dB,
                           p.a.dk + t * p.a.ldk, la_sets(run, 1));
    }
    for (int64_t h = 0; h < s.group; h++) {
        const la_real *R = w.R + h * s.L;
        if (p.only_sums)
            memcpy(sums_of(s, &p, h), R, (size_t)s.L * sizeof *R);
        else if (s.segments == 1 && p.a.dstate)
            la_vec_table()->axpy(s.L, 1, R, p.a.dstate + (p.a.number + h) * s.L);
    }
}

const la_op la_op_causal_linear = {
    .name = "causal_linear",
    .formula = "o_t = phi(q_t)'(sum_{j<=t} phi(k_j) v_j') / (phi(q_t).sum_{j<=t} phi(k_j) + eps)",
    .file = "autograd/ops/causal_linear.c",
    .attr_size = sizeof(la_attn_call),
    .reads = LA_READS_ATTENTION | LA_READS_OUT(0),
    .sets = LA_SETS_IN(0) | LA_SETS_IN(1) | LA_SETS_IN(2),
    .strided = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
