/* full_exp_linear: causal_exp_linear where every token sees the whole text.  Double softmax is here
 * as it was published (Shen et al., "Efficient attention", 2018): softmax_D(Q) (softmax_T(K)' V);
 * the kernel form is the exact kernel of features exp(u).
 *
 *   q (B,T,H,D)   k (B,T,H,Dk)   v (B,T,H,E)   o (B,T,H,E)   u has m features
 *
 * In the letters of causal_exp_linear.c, for one head, sums over all valid tokens s of the row:
 *
 *   c_f = max_s u_sf, or a little less   b_s = exp(u_s - c)   Z = sum_s b_s   S = sum_s b_s v_s'
 *   a_t = softmax(q_t) / Z, or exp(uq_t + c) / (exp(uq_t + c).Z)              o_t = S' a_t
 *
 * so that z = c + log Z is the normaliser of a softmax over the whole sequence and S / Z the
 * average C; neither is taken.  The pivot moves as in the causal op, before a key that is SPREAD
 * above it: b stays below exp(SPREAD), 1 <= Z, and one walk over the keys is enough.
 *
 * Backward:
 *   da_t = S g_t    R = sum_t a_t g_t'    rho = sum_t dZ_t    (dq_t, dZ_t as in the causal op)
 *   dv_s = R' b_s   du_s = b_s o (R v_s + rho)
 *
 * Three phases each way: the sums of each segment (S, Z, c of its keys; or dq, and R and rho of its
 * queries); their total in the order of segments, some features a block; o, or dk and dv, of each
 * segment.  Segments, and the heads of a block, are those of the causal op.
 *
 * Saved: S, Z, c of each head.  Time O(T m E). */
#include "autograd/ops/exp_linear_scan.h"

static la_status infer(const la_node *n, la_plan *p) {
    LA_TRY(la_attn_infer(n, p));
    dims s = get(n);
    work w;
    p->n_saved = (size_t)(s.B * s.H * s.L);
    p->n_scratch = carve(s, NULL, &w);
    p->n_common = (size_t)(s.B * s.H * s.segments * s.L);
    p->forward_blocks[0] = p->backward_blocks[0] = s.B * s.groups * s.segments;
    p->forward_blocks[1] = p->backward_blocks[1] = s.B * s.H * s.slices;
    p->forward_blocks[2] = p->backward_blocks[2] = p->forward_blocks[0];
    return LA_OK;
}

/* What a block of the phases 0 and 2 is about.  total: what phase 1 leaves where the first
 * segment's sums were. */
typedef struct piece {
    scan_rows x;
    la_range  chunks, tokens; /* chunks: those with valid tokens                               */
    la_real  *sums;           /* (L), of the first head; the next is `apart` on                */
    la_real  *total, *saved;  /* the same; `apart` and L on                                    */
    int64_t   apart;
} piece;

static piece find_piece(const la_node *n, dims s, const la_run *run) {
    scan_piece at = scan_cut(n, s.scan, run->block);
    piece      p = {.x = scan_find(n, at.b, at.h), .tokens = at.tokens, .apart = s.segments * s.L};
    p.chunks = scan_chunks(s.scan, at.tokens, p.x.tokens);
    p.total = run->common + p.x.number * p.apart;
    p.sums = p.total + at.segment * s.L;
    p.saved = la_plus(n->saved, p.x.number * s.L);
    return p;
}

static int64_t tokens_of(dims s, const piece *p, int64_t chunk) {
    return la_min(s.C, p->x.tokens - chunk * s.C);
}

/* --- phase 0 forward, and phase 1 --- */
static void sum_keys(const la_node *n, dims s, const piece *p, work *w) {
    for (int64_t h = 0; h < s.group; h++)
        load_state(s, 0, s.m, NULL, w->S + h * s.m * s.E, w->Z0 + h * s.m, w->c + h * s.m);
    if (p->chunks.from < p->chunks.to) first_pivot(n, s, &p->x, w, p->tokens.from);
    for (int64_t chunk = p->chunks.from; chunk < p->chunks.to; chunk++) {
        const int64_t t = chunk * s.C, C = tokens_of(s, p, chunk);
        load_keys(n, s, &p->x, w, t, C, s.C);
        for (int64_t h = 0; h < s.group; h++) {
            const la_real *start = w->start + h * (s.C + 2);
            la_real       *S = w->S + h * s.m * s.E;
            for (int64_t r = 0, runs = count_runs(s, w, h, C); r < runs; r++) {
                const int64_t i = (int64_t)start[r], rows = (int64_t)start[r + 1] - i;
                if (r) scale_rows(s, w->decay + r * s.W + h * s.m, S);
                add_keys(s, w, rows, w->B + i * s.W + h * s.m,
                         p->x.v + (t + i) * p->x.ldv + h * s.E, p->x.ldv, S);
            }
        }
        memcpy(w->Z0, w->Z + (C - 1) * s.W, (size_t)s.W * sizeof *w->Z0);
    }
    for (int64_t h = 0; h < s.group; h++)
        put(s, w->S + h * s.m * s.E, w->Z0 + h * s.m, w->c + h * s.m, p->sums + h * p->apart);
}

static void add_segments(const la_node *n, dims s, const la_run *run, int backward) {
    const int64_t  number = run->block / s.slices, end = s.m * s.E;
    const la_range part = la_cut(s.m, SLICE, run->block % s.slices);
    const int64_t  f = part.from, F = part.to - part.from;
    la_real       *sums = run->common + number * s.segments * s.L;
    work           w;
    carve(s, run->scratch, &w);
    for (int64_t i = 1; backward && i < s.segments; i++) {
        la_vec_table()->axpy(F * s.E, 1, sums + i * s.L + f * s.E, sums + f * s.E);
        la_vec_table()->axpy(F, 1, sums + i * s.L + end + f, sums + end + f);
    }
    if (backward) return;
    scan_states(s, NULL, sums, &w, f, F);
    for (int copy = 0; copy < 2; copy++) {
        la_real *to = copy ? la_plus(n->saved, number * s.L) : sums;
        if (!to) continue;
        memcpy(to + f * s.E, w.S, (size_t)(F * s.E) * sizeof *to);
        memcpy(to + end + f, w.Z0, (size_t)F * sizeof *to);
        memcpy(to + end + s.m + f, w.c, (size_t)F * sizeof *to);
    }
}

/* --- phase 2 forward --- */
/* S, Z, c of the whole text, as they are for every row of a chunk. */
static void load_total(dims s, const la_real *from, int64_t apart, work *w) {
    for (int64_t h = 0; h < s.group; h++)
        take(s, from + h * apart, w->S + h * s.m * s.E, w->Z0 + h * s.m, w->c + h * s.m);
    for (int64_t i = 0; i < s.C; i++) memcpy(w->Z + i * s.W, w->Z0, (size_t)s.W * sizeof *w->Z);
    if (s.kernel) memcpy(w->pivot, w->c, (size_t)s.W * sizeof *w->c);
    w->moves = 0;
}

static void outputs(const la_node *n, dims s, const piece *p, work *w) {
    const scan_rows *x = &p->x;
    load_total(s, p->total, p->apart, w);
    for (int64_t chunk = p->chunks.from; chunk < p->chunks.to; chunk++) {
        const int64_t t = chunk * s.C, C = tokens_of(s, p, chunk);
        load_queries(n, s, x, w, t, C, s.C);
        for (int64_t h = 0; h < s.group; h++)
            la_gemm_nn(LA_SET, C, s.E, s.m, w->A + h * s.m, s.W, w->S + h * s.m * s.E, s.E,
                       x->o + t * x->ldo + h * s.E, x->ldo);
    }
    scan_clear(p->tokens, x->tokens, s.group * s.E, x->o, x->ldo);
}

static void forward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (run->phase == 1) {
        add_segments(n, s, run, 0);
        return;
    }
    piece p = find_piece(n, s, run);
    work  w;
    carve(s, run->scratch, &w);
    (run->phase == 0 ? sum_keys : outputs)(n, s, &p, &w);
}

/* --- backward --- */
/* dq, and R and rho of the segment's queries. */
static void back_queries(const la_node *n, dims s, const piece *p, work *w, const la_run *run) {
    const scan_rows *x = &p->x;
    load_total(s, p->saved, s.L, w);
    memset(w->R, 0, (size_t)(s.W * s.E) * sizeof *w->R);
    memset(w->rho, 0, (size_t)s.W * sizeof *w->rho);
    for (int64_t chunk = p->chunks.to - 1; chunk >= p->chunks.from; chunk--) {
        const int64_t t = chunk * s.C, C = tokens_of(s, p, chunk);
        load_queries(n, s, x, w, t, C, -s.C);
        for (int64_t i = 0; i < C; i++) la_prefetch(s.group * s.E, x->g, (t + i - s.C) * x->ldo);
        for (int64_t h = 0; h < s.group; h++) {
            const la_real *A = w->A + h * s.m, *g = x->g + t * x->ldo + h * s.E;
            la_transpose(s.m, s.E, w->S + h * s.m * s.E, s.E, w->XT);
            la_gemm_nn(LA_SET, C, s.m, s.E, g, x->ldo, w->XT, s.m, w->dA + h * s.m, s.W);
            la_gemm_tn(LA_ADD, s.m, s.E, C, A, s.W, g, x->ldo, w->R + h * s.m * s.E, s.E);
        }
        store_dq(n, s, x, w, t, C, w->dA, s.W, la_sets(run, 0));
        la_vec_table()->add_rows(C, s.W, w->dA, s.W, NULL, 0, w->rho);
    }
    for (int64_t h = 0; h < s.group; h++)
        put(s, w->R + h * s.m * s.E, w->rho + h * s.m, w->rho + h * s.m, p->sums + h * p->apart);
    if (la_sets(run, 0)) scan_clear(p->tokens, x->tokens, s.group * s.D, x->dq, x->ldq);
}

/* dk and dv from R and rho of the whole text.  No key is far above its pivot. */
static void back_keys(const la_node *n, dims s, const piece *p, work *w, const la_run *run) {
    const scan_rows *x = &p->x;
    load_total(s, p->saved, s.L, w);
    for (int64_t h = 0; h < s.group; h++)
        take(s, p->total + h * p->apart, w->R + h * s.m * s.E, w->rho + h * s.m, w->keep);
    memset(w->spare, 0, (size_t)s.W * sizeof *w->spare);
    for (int64_t chunk = p->chunks.to - 1; chunk >= p->chunks.from; chunk--) {
        const int64_t t = chunk * s.C, C = tokens_of(s, p, chunk);
        load_keys(n, s, x, w, t, C, -s.C);
        if (x->dk) begin_dk(s, x, w, t, C, la_sets(run, 1));
        for (int64_t h = 0; h < s.group; h++) {
            const la_real *B = w->B + h * s.m, *R = w->R + h * s.m * s.E;
            if (x->dv)
                la_gemm_nn(la_sets(run, 2) ? LA_SET : LA_ADD, C, s.E, s.m, B, s.W, R, s.E,
                           x->dv + t * x->ldv + h * s.E, x->ldv);
            if (!x->dk) continue;
            la_transpose(s.m, s.E, R, s.E, w->XT);
            la_gemm_nn(LA_SET, C, s.m, s.E, x->v + t * x->ldv + h * s.E, x->ldv, w->XT, s.m,
                       w->dB + h * s.m, s.W);
        }
        if (!x->dk) continue;
        la_vec_table()->exp_scan_backward(C, s.W, w->B, w->dB, s.W, w->spare, 0, w->rho, w->du,
                                          w->lddu);
        end_dk(n, s, x, w, t, C, la_sets(run, 1));
    }
    if (la_sets(run, 1)) scan_clear(p->tokens, x->tokens, s.group * s.Dk, x->dk, x->ldk);
    if (la_sets(run, 2)) scan_clear(p->tokens, x->tokens, s.group * s.E, x->dv, x->ldv);
}

static void backward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (run->phase == 1) {
        add_segments(n, s, run, 1);
        return;
    }
    piece p = find_piece(n, s, run);
    work  w;
    carve(s, run->scratch, &w);
    (run->phase == 0 ? back_queries : back_keys)(n, s, &p, &w, run);
}

const la_op la_op_full_exp_linear = {
    .name = "full_exp_linear",
    .formula = "o_t = sum_f a_tf sum_s exp(u_sf - z_f) v_s, z_f = log sum_s exp(u_sf); a_t = "
               "softmax(q_t), or for logs of features softmax(q_t + z)",
    .file = "autograd/ops/full_exp_linear.c",
    .attr_size = sizeof(la_attn_call),
    .reads = LA_READS_ATTENTION,
    .sets = LA_SETS_IN(0) | LA_SETS_IN(1) | LA_SETS_IN(2),
    .strided = 1,
    .infer = infer,
    .check = la_kernel_check,
    .forward = forward,
    .backward = backward,
};
