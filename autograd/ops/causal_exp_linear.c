/* double-softmax: one softmax over the features of a query, one over the sequence for each
 * feature of the keys.  Shen, Zhang, Zhao, Yi, Li, "Efficient attention", 2018; here its exact
 * causal restriction, where each token sees the softmax over the sequence up to itself.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   o (B,T,H,E)   state (B,H,D(E+1)): C (D,E), then z (D)
 *
 * For one head and each feature f, q~_t = softmax_f(q_t):
 *
 *   z_tf = log sum_{s<=t} exp(k_sf)                  (the running normaliser)
 *   C_tf = sum_{s<=t} exp(k_sf - z_tf) v_s           (E) a moving average of v: weights add to 1
 *   o_t  = sum_f q~_tf C_tf                          no scale, no eps, and weights add to 1
 *
 * Against a pivot c_f, b_s = exp(k_s - c), all by feature:
 *
 *   Z_t = Z_{t-1} + b_t = exp(z_t - c)    S_t = S_{t-1} + b_t v_t' = Z_t o C_t    a_t = q~_t / Z_t
 *   o_t = S_t' a_t
 *
 * which is linear attention without a normaliser of its own: no logarithm and no division of a
 * state, as long as the pivot stays.  Chunks of C tokens go by matrix products as in
 * ops/causal_linear.c, rows A, B (C,D), V (C,E), S before the chunk:
 *
 *   P = (A B') o M     O = A S + P V     S += B' V
 *
 * The pivot starts at the first key.  Before a token t with k_tf - c_f above SPREAD for some f it
 * moves to max(c, k_t), in all features; S and Z are multiplied by decay = exp(c before - c after),
 * and the chunk falls into runs, between which there are moves and within which the formulas above
 * hold.  So b <= exp(SPREAD), and from its first token on 1 <= Z <= T exp(SPREAD): the token that a
 * pivot comes from counts 1, and Z grows until the next move.  Nothing overflows at any k, and a b
 * that underflows weighs nothing beside that 1.  The choice looks at the tokens so far only: a
 * pivot taken over the whole chunk would let a later key change an earlier output.
 *
 * Backward, g_t the gradient at o_t:
 *   1. da_t = S_t g_t;   R_s = sum_{t>=s} a_t g_t', the gradient at S_s;   dv_s = R_s' b_s
 *   2. a_t = q~_t / Z_t:   dq~_t = da_t / Z_t,   dZ_t = -a_t da_t / Z_t
 *   3. Z_t holds b_s for all s <= t:   db_s = R_s v_s + rho_s,   rho_s = sum_{t>=s} dZ_t
 *   4. b_s = exp(k_s - c), and c cancels:   dk_s = b_s o (R_s v_s + rho_s)
 *   5. q~ is a softmax:   dq_t = q~_t o (dq~_t - q~_t.dq~_t) = a_t o (da_t - Z_t (a_t.da_t))
 *   6. A move multiplies S and Z by decay, and so R and rho on the way back.
 *   7. Where a text ends, C = S / Z and z = c + log Z:   R = dC / Z,   rho = (dz - dC.C) / Z. Where
 *      it begins, S = Z C and Z = exp(z - c):   dC = Z R,   dz = Z (R.C + rho).
 *
 *   dP = (G V') o M     dA = G S' + dP B     dB = V R' + dP' A     dV = B R + P' G     R += A' G
 *
 * A chunk of several runs is walked up for the S of each, then down.
 *
 * Blocks.  A block walks some heads of a batch row side by side, because their rows are next to
 * each other; each head has runs of its own, or one head would change another's bits.  With few
 * heads the sequence is cut into segments, in three phases.  Forward: what each segment alone sums
 * up to; the states before each, where two pieces make z = logaddexp(z1, z2), C = exp(z1 - z) C1 +
 * exp(z2 - z) C2, or with c = max(c1, c2)
 *
 *   Z = exp(c1 - c) Z1 + exp(c2 - c) Z2        S = exp(c1 - c) S1 + exp(c2 - c) S2;
 *
 * the segments, now independent.  Backward: dq and dZ, which need no R, and what R and rho of each
 * segment's own tokens are at its beginning; those after each; dk and dv.  The pivots of neighbours
 * differ where they meet, and gradients pass from one to the other as those at C and z (7.): of
 * R after a segment there arrives keep o R before it, keep = Z at the beginning times all decays of
 * the segment, over Z at the end.
 *
 * Saved: S, Z, c before each chunk, Z at the end of each segment.
 *
 * Measured, one thread of a processor with AVX-512, n 4096, d 64, 8 heads, time of both passes over
 * that of elu1: 1.12; 1.24 with keys of 20 N(0,1), 2.0 with keys that rise by 40 every fourth
 * token, 4.3 every token.  Chunks of 64 tokens take 6 % more. */
#include "autograd/attention/kernel_map.h"
#include "autograd/ops/causal_exp_linear_chunk.h"

static const la_real NOTHING =
    R(-1e30); /* z before the first token: exp(NOTHING - c) is 0, also in float */

void la_exp_state_start(int64_t m, int64_t E, la_real *state) {
    memset(state, 0, (size_t)(m * E) * sizeof *state);
    for (int64_t f = 0; f < m; f++) state[m * E + f] = NOTHING;
}

static la_status infer(const la_node *n, la_plan *p) {
    LA_TRY(la_attn_infer(n, p));
    dims s = get(n);
    work w;
    p->n_saved = (size_t)(s.B * s.H * (s.chunks * s.L + s.segments * s.D));
    p->n_scratch = carve(s, NULL, &w);
    p->forward_blocks[0] = p->backward_blocks[0] = s.B * s.groups * s.segments;
    if (s.segments == 1) return LA_OK;
    p->n_common = (size_t)(s.B * s.H * (s.segments * s.L + s.T * s.D));
    p->forward_blocks[1] = p->backward_blocks[1] = s.B * s.H * s.slices;
    p->forward_blocks[2] = p->backward_blocks[2] = p->forward_blocks[0];
    return LA_OK;
}

/* The state that comes in or goes out, C and z, and S, Z, c for features [f, f + F) of one head. */
static void load_state(dims s, int64_t f, int64_t F, const la_real *state, la_real *S, la_real *Z,
                       la_real *c) {
    memset(S, 0, (size_t)(F * s.E) * sizeof *S);
    if (state) memcpy(S, state + f * s.E, (size_t)(F * s.E) * sizeof *S);
    for (int64_t i = 0; i < F; i++) {
        Z[i] = 1;
        c[i] = state ? state[s.D * s.E + f + i] : NOTHING;
    }
}

static void store_state(dims s, int64_t f, int64_t F, const la_real *S, const la_real *Z,
                        const la_real *c, la_real *state) {
    for (int64_t i = 0; i < F; i++) {
        la_vec_table()->scale(s.E, 1 / Z[i], S + i * s.E, state + (f + i) * s.E);
        state[s.D * s.E + f + i] = c[i] + log(Z[i]);
    }
}

/* Step 7, without its Z: R and rho from the gradient at the state that goes out, and to the
 * gradient at the one that came in. */
static void load_dstate(dims s, int64_t f, int64_t F, const la_real *state, const la_real *g,
                        la_real *R, la_real *rho) {
    memset(R, 0, (size_t)(F * s.E) * sizeof *R);
    memset(rho, 0, (size_t)F * sizeof *rho);
    for (int64_t i = 0; g && i < F; i++) {
        const la_real *dC = g + (f + i) * s.E, *C = state + (f + i) * s.E;
        memcpy(R + i * s.E, dC, (size_t)s.E * sizeof *R);
        rho[i] = g[s.D * s.E + f + i] - la_vec_table()->dot(s.E, dC, C);
    }
}

static void store_dstate(dims s, int64_t f, int64_t F, const la_real *state, const la_real *R,
                         const la_real *rho, la_real *g) {
    la_vec_table()->axpy(F * s.E, 1, R, g + f * s.E);
    for (int64_t i = 0; i < F; i++)
        g[s.D * s.E + f + i] +=
            rho[i] + la_vec_table()->dot(s.E, R + i * s.E, state + (f + i) * s.E);
}

/* x gets the total before it, and the total is old * total + add * x. */
static void pass_on(int64_t n, la_real old, la_real add, la_real *x, la_real *total) {
    for (int64_t i = 0; i < n; i++) {
        la_real own = x[i];
        x[i] = total[i];
        total[i] = old * total[i] + add * own;
    }
}

/* Running sums over the segments for features [f, f + F) of one head: each gets what there is
 * before it, or after it. */
static void scan_states(dims s, const heads *a, const work *w, int64_t f, int64_t F) {
    load_state(s, f, F, a->state, w->S, w->Z0, w->c);
    for (int64_t i = 0; i < s.segments; i++) {
        la_real *S = a->sums + i * s.L + f * s.E, *Z = a->sums + i * s.L + s.D * s.E + f,
                *c = Z + s.D;
        for (int64_t j = 0; j < F; j++) {
            la_real top = fmax(w->c[j], c[j]), old = exp(w->c[j] - top), add = exp(c[j] - top);
            pass_on(1, old, add, Z + j, w->Z0 + j);
            pass_on(s.E, old, add, S + j * s.E, w->S + j * s.E);
            c[j] = w->c[j];
            w->c[j] = top;
        }
    }
    if (a->state_out) store_state(s, f, F, w->S, w->Z0, w->c, a->state_out);
}

static void scan_gradients(dims s, const heads *a, const work *w, int64_t f, int64_t F) {
    load_dstate(s, f, F, a->state_out, a->dstate_out, w->R, w->rho);
    for (int64_t i = s.segments - 1; i >= 0; i--) {
        la_real       *R = a->sums + i * s.L + f * s.E, *rho = a->sums + i * s.L + s.D * s.E + f;
        const la_real *keep = rho + s.D;
        for (int64_t j = 0; j < F; j++) {
            pass_on(1, keep[j], 1, rho + j, w->rho + j);
            pass_on(s.E, keep[j], 1, R + j * s.E, w->R + j * s.E);
        }
    }
    if (a->dstate) store_dstate(s, f, F, a->state, w->R, w->rho, a->dstate);
}

/* Phase 1: some features of one head. */
static void scan_block(const la_node *n, dims s, const la_run *run,
                       void scan(dims, const heads *, const work *, int64_t, int64_t)) {
    int64_t  number = run->block / s.slices;
    la_range part = la_cut(s.D, SLICE, run->block % s.slices);
    heads    a = find(n, s, number / s.H, number % s.H, run->common);
    work     w;
    carve(s, run->scratch, &w);
    scan(s, &a, &w, part.from, part.to - part.from);
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

/* Three parts of a head's state side by side: S, Z, c or R, rho, keep. */
static void put(dims s, const la_real *X, const la_real *x, const la_real *y, la_real *to) {
    memcpy(to, X, (size_t)(s.D * s.E) * sizeof *to);
    memcpy(to + s.D * s.E, x, (size_t)s.D * sizeof *to);
    memcpy(to + s.D * (s.E + 1), y, (size_t)s.D * sizeof *to);
}

static void take(dims s, const la_real *from, la_real *X, la_real *x, la_real *y) {
    memcpy(X, from, (size_t)(s.D * s.E) * sizeof *X);
    memcpy(x, from + s.D * s.E, (size_t)s.D * sizeof *x);
    memcpy(y, from + s.D * (s.E + 1), (size_t)s.D * sizeof *y);
}

static la_real *sums_of(dims s, const piece *p, int64_t h) {
    return p->a.sums + (h * s.segments + p->segment) * s.L;
}

static la_real *saved_of(dims s, const heads *a, int64_t h, int64_t chunk) {
    return a->saved + (h * s.chunks + chunk) * s.L;
}

/* S, Z, c where a segment begins, with the pivot at its first token. */
static void first_state(dims s, const piece *p, work *w) {
    for (int64_t h = 0; h < s.group; h++) {
        la_real *S = w->S + h * s.D * s.E, *Z = w->Z0 + h * s.D, *c = w->c + h * s.D;
        if (s.segments > 1 && !p->only_sums)
            take(s, sums_of(s, p, h), S, Z, c);
        else
            load_state(s, 0, s.D, p->only_sums ? NULL : la_plus(p->a.state, h * s.D * (s.E + 1)), S,
                       Z, c);
        move_pivot(s, p->a.k + p->chunks.from * s.C * p->a.ldk + h * s.D, c, w->spare);
        la_vec_table()->mul(s.D, w->spare, Z);
        scale_rows(s, w->spare, S);
    }
}

static void last_state(dims s, const piece *p, const work *w) {
    for (int64_t h = 0; h < s.group; h++) {
        const la_real *S = w->S + h * s.D * s.E, *Z = w->Z0 + h * s.D, *c = w->c + h * s.D;
        if (p->only_sums)
            put(s, S, Z, c, sums_of(s, p, h));
        else if (s.segments == 1 && p->a.state_out)
            store_state(s, 0, s.D, S, Z, c, p->a.state_out + h * s.D * (s.E + 1));
        if (!p->only_sums && p->a.ends)
            memcpy(p->a.ends + (h * s.segments + p->segment) * s.D, Z, (size_t)s.D * sizeof *Z);
    }
}

static void forward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (run->phase == 1) {
        scan_block(n, s, run, scan_states);
        return;
    }
    piece p = find_piece(n, s, run);
    work  w;
    carve(s, run->scratch, &w);
    first_state(s, &p, &w);
    for (int64_t chunk = p.chunks.from; chunk < p.chunks.to; chunk++) {
        int64_t t = chunk * s.C, C = la_min(s.C, s.T - t);
        for (int64_t h = 0; h < s.group && !p.only_sums && p.a.saved; h++)
            put(s, w.S + h * s.D * s.E, w.Z0 + h * s.D, w.c + h * s.D, saved_of(s, &p.a, h, chunk));
        load_keys(s, &p.a, &w, t, C, s.C);
        if (!p.only_sums) load_queries(s, &p.a, &w, t, C, s.C);
        for (int64_t h = 0; h < s.group; h++) chunk_forward(s, &p.a, &w, h, t, C, p.only_sums);
        memcpy(w.Z0, w.Z + (C - 1) * s.W, (size_t)s.W * sizeof(la_real));
    }
    last_state(s, &p, &w);
}

/* R and rho where a segment ends, and what keep begins with. */
static void first_gradient(dims s, const piece *p, work *w) {
    const int64_t each = s.D * (s.E + 1);
    for (int64_t h = 0; h < s.group; h++) {
        const la_real *Z = p->a.ends + (h * s.segments + p->segment) * s.D;
        la_real       *R = w->R + h * s.D * s.E, *rho = w->rho + h * s.D, *keep = w->keep + h * s.D;
        if (s.segments > 1 && !p->only_sums)
            take(s, sums_of(s, p, h), R, rho, keep);
        else
            load_dstate(s, 0, s.D, la_plus(p->a.state_out, h * each),
                        p->only_sums ? NULL : la_plus(p->a.dstate_out, h * each), R, rho);
        for (int64_t f = 0; f < s.D; f++) keep[f] = 1 / Z[f];
        la_vec_table()->mul(s.D, keep, rho);
        scale_rows(s, keep, R);
    }
}

static void last_gradient(dims s, const piece *p, work *w) {
    const int64_t each = s.D * (s.E + 1);
    for (int64_t h = 0; h < s.group; h++) {
        const la_real *Z = saved_of(s, &p->a, h, p->chunks.from) + s.D * s.E;
        la_real       *R = w->R + h * s.D * s.E, *rho = w->rho + h * s.D, *keep = w->keep + h * s.D;
        la_vec_table()->mul(s.D, Z, keep);
        la_vec_table()->mul(s.D, Z, rho);
        scale_rows(s, Z, R);
        if (p->only_sums)
            put(s, R, rho, keep, sums_of(s, p, h));
        else if (s.segments == 1 && p->a.dstate)
            store_dstate(s, 0, s.D, p->a.state + h * each, R, rho, p->a.dstate + h * each);
    }
}

static void backward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (run->phase == 1) {
        scan_block(n, s, run, scan_gradients);
        return;
    }
    piece         p = find_piece(n, s, run);
    const int     up = s.segments == 1 || p.only_sums; /* dq has its phase, dk and dv have theirs */
    const int64_t ld = s.segments > 1 ? s.H * s.D : s.W;
    work          w;
    carve(s, run->scratch, &w);
    first_gradient(s, &p, &w);
    for (int64_t chunk = p.chunks.to - 1; chunk >= p.chunks.from; chunk--) {
        int64_t  t = chunk * s.C, C = la_min(s.C, s.T - t);
        la_real *dZ = s.segments > 1 ? p.a.dZ + t * ld : w.dA;
        for (int64_t h = 0; h < s.group; h++) {
            const la_real *Z = saved_of(s, &p.a, h, chunk) + s.D * s.E;
            memcpy(w.Z0 + h * s.D, Z, (size_t)s.D * sizeof *Z);
            memcpy(w.c + h * s.D, Z + s.D, (size_t)s.D * sizeof *Z);
        }
        load_keys(s, &p.a, &w, t, C, -s.C);
        load_queries(s, &p.a, &w, t, C, -s.C);
        for (int64_t i = 0; i < C; i++) {
            la_prefetch(s.group * s.E, p.a.g, (t + i - s.C) * p.a.ldo);
            if (!p.only_sums && p.a.dk && run->first & LA_SETS_IN(1))
                memset(p.a.dk + (t + i) * p.a.ldk, 0, (size_t)s.W * sizeof(la_real));
        }
        for (int64_t h = 0; h < s.group; h++) {
            int64_t runs = count_runs(s, &w, h, C);
            walk_up(s, &p.a, &w, h, t, runs, saved_of(s, &p.a, h, chunk), up);
            walk_down(s, &p.a, &w, h, t, runs, p.only_sums, run->first);
        }
        if (up) store_dq(s, &p.a, &w, t, C, dZ, ld, run->first);
        for (int64_t h = 0; h < s.group; h++)
            store_dk(s, &p.a, &w, h, t, count_runs(s, &w, h, C), dZ, ld, p.only_sums);
    }
    last_gradient(s, &p, &w);
}

const la_op la_op_causal_exp_linear = {
    .name = "causal_exp_linear",
    .formula = "o_t = sum_f softmax_f(q_t) sum_{s<=t} exp(k_sf - z_tf) v_s, z_tf = log sum_{s<=t} "
               "exp(k_sf)",
    .file = "autograd/ops/causal_exp_linear.c",
    .attr_size = sizeof(la_attn_call),
    .reads = LA_READS_ATTENTION | LA_READS_OUT(1),
    .sets = LA_SETS_IN(0) | LA_SETS_IN(1) | LA_SETS_IN(2),
    .strided = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
