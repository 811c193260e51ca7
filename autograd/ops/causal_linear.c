/* causal_linear: normalised causal linear attention under a feature map phi.
 * Katharopoulos, Vyas, Pappas, Fleuret, "Transformers are RNNs", 2020; with decay: Sun et al.,
 * "Retentive network", 2023.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   o (B,T,H,E)   state (B,H,m(E+1)): S (m,E), then z (m)
 *   decay (H): logits of gamma = 1 / (1 + exp(-decay_h)); gamma = 1 without
 *
 * For one head, a_t = phi(q_t), b_t = phi(k_t) in R^m:
 *
 *   S_t = gamma S_{t-1} + b_t v_t'   z_t = gamma z_{t-1} + b_t
 *   D_t = max(a_t.z_t + eps, floor)  o_t = S_t' a_t / D_t, 0 where D_t is 0
 *
 * Backward, g_t the gradient at o_t.  From o = n / D:
 *   1. dn_t = g_t / D_t = u_t        dD_t = -(g_t.o_t) / D_t = w_t, or 0 where D_t is the floor
 *   2. a_t is used at time t only:                        da_t = S_t u_t + w_t z_t
 *   3. S_t and z_t are used by every later time.  R_t = sum_{s>=t} gamma^(s-t) a_s u_s' and
 *      r_t = sum_{s>=t} gamma^(s-t) w_s a_s are their gradients, and
 *                                                         db_t = R_t v_t + r_t    dv_t = R_t' b_t
 *   4. The state that came in gets gamma R_0, gamma r_0; the gradient of the state that goes out
 *      starts R, r.
 *
 * Chunks of C tokens turn the sums into matrix products.  Rows A, B (C,m), V, U (C,E), w (C); M
 * keeps the lower triangle with its diagonal, Gamma_ij = gamma^(i-j); A^ has rows gamma^(i+1) a_i,
 * B^ has rows gamma^(C-1-j) b_j; S, z before the chunk, R, r from later chunks:
 *
 *   P  = (A B') o Gamma o M         N  = A^ S + P V       D = A^ z + P 1 + eps
 *   dP = (U V' + w 1') o Gamma o M  dA = (U S' + w z')^ + dP B      (rows faded as those of A^)
 *                                   dB = (V R' + 1 r')^ + dP' A     (as those of B^)
 *                                   dV = B^ R + P' U
 *   after the chunk:  S = gamma^C S + B^' V   z = gamma^C z + B^' 1
 *                     R = gamma^C R + A^' U   r = gamma^C r + A^' w
 *
 * Every product is NN or TN: the factor that would stand transposed on the right is transposed in
 * scratch first.  M sets to 0 and does not multiply: 0 * inf is not 0.
 *
 *   5. Decay.  With l = log gamma, each way from a key, or the state before the chunk, to a query,
 *      or the state after it, has a factor exp(l n) for n steps, and d exp(l n) / dl = n exp(l n):
 *      dl gets n times (what goes that way) x (its gradient).
 *        query and key in the chunk   sum_ij (i-j) P_ij (u_i.v_j + w_i)
 *        query i, state before it     (i+1) a_i.x_i,    x_i row i of the first part of dA
 *        key j, state after it        (C-1-j) b_j.y_j,  y_j row j of the first part of dB
 *        state, state                 C gamma^C (<S,R> + z.r)
 *      Added up over chunks, and the batch; dlogit = dl (1 - gamma).  The shorter form sum_t t
 *      (a_t.da_t - b_t.db_t) over the whole text is a difference of numbers T times as large.
 *
 * Blocks.  A block walks some heads of a batch row side by side, chunk by chunk: the rows of a
 * token for all of them are next to each other in memory, and are read and written in one go.  With
 * few heads the sequence is cut into segments, in three phases: what each segment adds to the state
 * (B^' V, B^' 1); the running sums of these, faded, so that each segment has the state before it;
 * the segments, now independent.  Backward likewise with A^' U, A^' w and sums from the end.  If
 * decay is trained, each block leaves its dl of each head, and a last phase adds them up.  With a
 * mask a text is the first tokens of its row, and o is 0 beyond.
 *
 * Saved: S, z before each chunk, and D.  Memory O(T (m E / C + 1)), time O(T m E + T C (m + E)).
 * (Keeping every second state, and walking up again from it, was measured: 6 % slower.) */
#include "autograd/ops/causal_linear_chunk.h"

static int decay_trained(const la_node *n) {
    const la_node *decay = la_attn_at(n, LA_AT_DECAY);
    return decay && decay->flags & LA_NEEDS_GRAD;
}

/* In common: the sums of segments (B,H,segments,L), if there are several; then dl (B,H,segments).
 */
static int64_t sums_len(dims s) { return s.segments > 1 ? s.B * s.H * s.segments * s.L : 0; }

static la_status infer(const la_node *n, la_plan *p) {
    LA_TRY(la_attn_infer(n, p));
    const int cut = get(n).segments > 1, trained = decay_trained(n);
    dims      s = get(n);
    work      w;
    p->n_saved = (size_t)(s.B * s.H * (s.chunks * s.L + s.T));
    p->n_scratch = carve(s, NULL, &w);
    p->n_common = (size_t)(sums_len(s) + (trained ? s.B * s.H * s.segments : 0));
    p->forward_blocks[0] = p->backward_blocks[0] = s.B * s.groups * s.segments;
    if (cut) {
        p->forward_blocks[1] = p->backward_blocks[1] = s.B * s.H * s.slices;
        p->forward_blocks[2] = p->backward_blocks[2] = p->forward_blocks[0];
    }
    if (trained) p->backward_blocks[cut ? 3 : 1] = 1;
    return LA_OK;
}

/* gamma^(tokens of segment c) of head h. */
static la_real fade_of(const la_node *n, dims s, const heads *a, int64_t c) {
    if (!s.decay) return 1;
    la_range chunks = la_cut(s.chunks, s.scan.segment, c);
    int64_t  from = la_min(a->x.tokens, chunks.from * s.C),
            to = la_min(a->x.tokens, chunks.to * s.C);
    return R(exp((double)(to - from) * log_gamma(n, a->x.number % s.H)));
}

/* Running sums over the segments of some reals of a state: each gets the sum of those before it, in
 * the direction of `step`, and `from`.  total: all of them. */
static void scan(const la_node *n, dims s, const heads *a, la_real *sums, int64_t step, int64_t len,
                 const la_real *from, la_real *total) {
    copy_or_zero(len, from, total);
    for (int64_t i = 0, c = step > 0 ? 0 : s.segments - 1; i < s.segments; i++, c += step) {
        la_real *x = sums + c * s.L, fade = fade_of(n, s, a, c);
        for (int64_t j = 0; j < len; j++) {
            la_real own = x[j];
            x[j] = total[j];
            total[j] = fade * total[j] + own;
        }
    }
}

/* Phase 1, of both passes: a slice of one head's states. */
static void scan_block(const la_node *n, dims s, const la_run *run, int backward) {
    int64_t  number = run->block / s.slices;
    heads    a = find(n, number / s.H, number % s.H);
    la_range part = la_cut(s.L, SLICE, run->block % s.slices);
    la_real  total[SLICE], *sums = run->common + number * s.segments * s.L + part.from;
    int64_t  at = number * s.L + part.from, len = part.to - part.from;
    if (backward) {
        scan(n, s, &a, sums, -1, len, a.dstate_out ? a.dstate_out + at : NULL, total);
        if (a.dstate) la_vec_table()->axpy(len, 1, total, a.dstate + at);
    } else {
        scan(n, s, &a, sums, 1, len, a.state ? a.state + at : NULL, total);
        if (a.state_out) memcpy(a.state_out + at, total, (size_t)len * sizeof *total);
    }
}

/* The last phase where decay is trained. */
static void decay_backward(const la_node *n, dims s, const la_run *run) {
    const la_node *decay = la_attn_at(n, LA_AT_DECAY);
    for (int64_t h = 0; decay->g && h < s.H; h++) {
        double dl = 0;
        for (int64_t b = 0; b < s.B; b++)
            for (int64_t c = 0; c < s.segments; c++)
                dl += (double)run->common[sums_len(s) + (b * s.H + h) * s.segments + c];
        decay->g[h] += R(dl / (1 + exp((double)decay->x[h])));
    }
}

/* Where a segment's sums (and later the state at its edge) are, for head h of the block. */
static la_real *sums_of(dims s, const piece *p, const la_run *run, int64_t h) {
    return run->common + ((p->a.x.number + h) * s.segments + p->segment) * s.L;
}

/* The state at the edge where a segment begins: of S before it, or of R after it. */
static void first_state(dims s, const piece *p, const la_run *run, const la_real *whole,
                        la_real *X) {
    for (int64_t h = 0; h < s.group; h++, X += s.L)
        copy_or_zero(s.L,
                     p->only_sums     ? NULL
                     : s.segments > 1 ? sums_of(s, p, run, h)
                     : whole          ? whole + (p->a.x.number + h) * s.L
                                      : NULL,
                     X);
}

static void forward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (run->phase == 1) {
        scan_block(n, s, run, 0);
        return;
    }
    piece            p = find_piece(n, s, run);
    const size_t     state = (size_t)s.L * sizeof(la_real);
    const scan_rows *x = &p.a.x;
    work             w;
    carve(s, run->scratch, &w);
    load_powers(n, s, x, &w);
    first_state(s, &p, run, p.a.state, w.S);
    for (int64_t c = p.chunks.from; c < p.chunks.to; c++) {
        int64_t t = c * s.C, C = tokens_of(s, &p, c);
        load_keys(n, s, x, &w, t, C, s.C);
        if (!p.only_sums) load_queries(n, s, x, &w, t, C, s.C);
        for (int64_t h = 0; h < s.group; h++) {
            la_real *S = w.S + h * s.L;
            if (!p.only_sums) {
                load_weights(s, &w, h, C);
                chunk_forward(s, x, &w, h, t, C, S, saved_normaliser(n, s, x));
                if (n->saved) la_vec_table()->store(s.L, S, saved_state(n, s, x, h, c));
            }
            add_keys(s, x, &w, h, t, C, S);
        }
    }
    if (!p.only_sums) scan_clear(p.tokens, x->tokens, s.group * s.E, x->o, x->ldo);
    for (int64_t h = 0; h < s.group; h++)
        if (p.only_sums)
            memcpy(sums_of(s, &p, run, h), w.S + h * s.L, state);
        else if (s.segments == 1 && p.a.state_out)
            memcpy(p.a.state_out + (x->number + h) * s.L, w.S + h * s.L, state);
}

/* One chunk of a block, backward; dl (group), NULL if nobody needs it. */
static void piece_backward(const la_node *n, dims s, const la_run *run, const piece *p, work *w,
                           int64_t c, double *dl) {
    const scan_rows *a = &p->a.x;
    int64_t          t = c * s.C, C = tokens_of(s, p, c);
    load_queries(n, s, a, w, t, C, -s.C);
    load_gradient(s, a, saved_normaliser(n, s, a), w, t, C, -s.C);
    if (!p->only_sums) load_keys(n, s, a, w, t, C, -s.C);
    for (int64_t h = 0; h < s.group; h++) {
        la_real *R = w->R + h * s.L;
        if (!p->only_sums) {
            load_weights(s, w, h, C);
            chunk_backward(s, a, w, h, t, C, saved_state(n, s, a, h, c), R, la_sets(run, 2),
                           dl ? dl + h : NULL);
        }
        add_queries(s, w, h, C, R);
    }
    if (p->only_sums) return;
    if (a->dq) store_gradient(n, s, a, w, 0, t, C, -s.C, la_sets(run, 0));
    if (a->dk) store_gradient(n, s, a, w, 1, t, C, -s.C, la_sets(run, 1));
}

static void backward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (run->phase == (s.segments > 1 ? 3 : 1)) {
        decay_backward(n, s, run);
        return;
    }
    if (run->phase == 1) {
        scan_block(n, s, run, 1);
        return;
    }
    piece            p = find_piece(n, s, run);
    const scan_rows *x = &p.a.x;
    double           dl[s.group];
    int              trained = decay_trained(n) && !p.only_sums;
    work             w;
    carve(s, run->scratch, &w);
    load_powers(n, s, x, &w);
    first_state(s, &p, run, p.a.dstate_out, w.R);
    memset(dl, 0, sizeof dl);
    for (int64_t c = p.chunks.to - 1; c >= p.chunks.from; c--)
        piece_backward(n, s, run, &p, &w, c, trained ? dl : NULL);
    if (!p.only_sums) clear_gradients(s, &p, run);
    for (int64_t h = 0; h < s.group; h++) {
        const la_real *R = w.R + h * s.L;
        const int64_t  number = x->number + h;
        if (p.only_sums)
            memcpy(sums_of(s, &p, run, h), R, (size_t)s.L * sizeof *R);
        else if (s.segments == 1 && p.a.dstate)
            la_vec_table()->axpy(s.L, 1, R, p.a.dstate + number * s.L);
        if (trained) run->common[sums_len(s) + number * s.segments + p.segment] = R(dl[h]);
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
    .check = la_kernel_check,
    .forward = forward,
    .backward = backward,
};
