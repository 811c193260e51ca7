/* double-softmax: one softmax over the features of a query, one over the sequence for each
 * feature of the keys.  Shen, Zhang, Zhao, Yi, Li, "Efficient attention", 2018; here its exact
 * causal restriction, where each token sees the softmax over the sequence up to itself.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   o (B,T,H,E)   state (B,H,D(E+1)): rows [z_f, C_f] of E+1
 *
 * For one head and each feature f, q~_t = softmax_f(q_t):
 *
 *   z_tf = log sum_{s<=t} exp(k_sf)                  (the running normaliser)
 *   C_tf = sum_{s<=t} exp(k_sf - z_tf) v_s           (E) a moving average of v: weights add to 1
 *   o_t  = sum_f q~_tf C_tf                          no scale, no eps, and weights add to 1
 *
 * Chunks.  With a pivot c_f for a run of tokens, b_s = exp(k_s - c) and Z_t = exp(z_t - c), which
 * is exp(z_in - c) + sum_{s<=t} b_s over the run (z_in, C_in: before the run):
 *
 *   a_t = q~_t / Z_t     S_t = S_{t-1} + b_s v_s',  S_in = exp(z_in - c) C_in     o_t = S_t' a_t
 *
 * which is linear attention without a normaliser, and goes by matrix products as in
 * ops/causal_linear.c:  P = (A B') o M,  O = A S_in + P V,  S += B' V.
 *
 * The pivot is z at the first token of the run, and a run ends before a token with k_f - c_f above
 * SPREAD for some f (or after a chunk).  So b <= exp(SPREAD), and nothing overflows at any k.
 * Both choices look at earlier tokens only: a pivot taken over the whole chunk would let a later
 * key change an earlier output.
 *
 * Backward, g_t the gradient at o_t, all in units of the run's pivot:
 *   1. da_t = S_t g_t;  R_s = sum_{t>=s} a_t g_t';  db_s = R_s v_s;  dv_s = R_s' b_s
 *   2. a_t = q~_t / Z_t:   dq~_t = da_t / Z_t,   dZ_t = -a_t da_t / Z_t
 *   3. Z_t holds b_s for all s <= t:   db_s gets -rho_s,   rho_s = sum_{t>=s} a_t da_t / Z_t
 *      (and exp(z_in - c) gets -rho at the start of the run)
 *   4. b_s = exp(k_s - c), and c cancels:   dk_s = b_s o (R_s v_s - rho_s)
 *   5. q~ is a softmax:   dq_t = q~_t o (dq~_t - q~_t.dq~_t)
 *   6. Between runs R and rho are kept in units of z at the boundary (times exp(c - z)), so they
 * stay bounded.  The state that goes out, C and z at the last token, starts them: R = dC,  rho =
 * sum_e dC_fe C_fe - dz_f.   The state that comes in gets dC_in = R,  dz_in = sum_e R_fe C_in,fe -
 * rho_f,   in units of z_in.
 *
 * Backward walks a chunk's runs up for step 1's da, then down for R and rho, so that no state
 * within a chunk is stored.  Saved: (z, C) at the start of each chunk. */
#include "autograd/attention/attention.h"
#include "autograd/kernel.h"
#include "tensor/blas.h"

enum { CHUNK = 64 };
static const la_real SPREAD = 30; /* exp(30) = 1e13: far from overflow, and from 0 when inverted */
static const la_real NOTHING =
    R(-1e30); /* z before the first token: exp(NOTHING - c) is 0, also in float */

typedef struct dims {
    int64_t T, H, D, E, e, C, chunks; /* e = E + 1: reals of state a feature */
} dims;

static dims get(const la_node *n) {
    la_shape q = n->in[0]->shape;
    dims     s = {.T = q.d[1], .H = q.d[2], .D = q.d[3], .E = n->in[2]->shape.d[3]};
    s.e = s.E + 1;
    s.C = la_attn_chunk(n, CHUNK);
    s.chunks = la_ceil_div(s.T, s.C);
    return s;
}

static int64_t state_len(const la_attn *a, int64_t D, int64_t E, int64_t capacity) {
    (void)a;
    (void)capacity;
    return D * (E + 1);
}

static void state_start(int64_t D, int64_t E, la_real *state) {
    for (int64_t f = 0; f < D; f++) state[f * (E + 1)] = NOTHING;
}

typedef struct work {
    la_real *Q, *A, *B, *BT, *Z, *P; /* q~ (C,D)  a (C,D)  b (C,D)  (D,C)  Z (C,D)  (C,C)         */
    la_real *V, *VT, *G, *O;         /* (C,E) (E,C) (C,E) (C,E)                                   */
    la_real *S, *ST, *R, *RT;        /* (D,E) (E,D) (D,E) (E,D)                                   */
    la_real *dP, *dA, *dB, *Y;       /* (C,C) (C,D) (C,D); Y = q~ o dq~, (C,D)                    */
    la_real *z, *c, *decay, *rho;    /* (D) each; decay = exp(z_in - c)                           */
    la_real *state;                  /* (D,e)                                                     */
    la_real *edge;                   /* z after each run, (C,D)                                   */
    la_real *start;                  /* first token of each run, counted in the chunk, (C + 1)    */
} work;

static size_t carve(dims s, la_real *at, work *w) {
    const la_part parts[] = {
        {&w->Q, s.C * s.D},   {&w->A, s.C * s.D},     {&w->B, s.C * s.D},
        {&w->BT, s.D * s.C},  {&w->Z, s.C * s.D},     {&w->P, s.C * s.C},
        {&w->V, s.C * s.E},   {&w->VT, s.E * s.C},    {&w->G, s.C * s.E},
        {&w->O, s.C * s.E},   {&w->S, s.D * s.E},     {&w->ST, s.E * s.D},
        {&w->R, s.D * s.E},   {&w->RT, s.E * s.D},    {&w->dP, s.C * s.C},
        {&w->dA, s.C * s.D},  {&w->dB, s.C * s.D},    {&w->Y, s.C * s.D},
        {&w->z, s.D},         {&w->c, s.D},           {&w->decay, s.D},
        {&w->rho, s.D},       {&w->state, s.D * s.e}, {&w->edge, (s.C + 1) * s.D},
        {&w->start, s.C + 1},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
}

static la_status infer(const la_node *n, la_plan *p) {
    LA_TRY(la_attn_infer(n, p));
    dims s = get(n);
    work w;
    p->n_saved = (size_t)(n->in[0]->shape.d[0] * s.H * s.chunks * s.D * s.e);
    p->n_scratch = carve(s, NULL, &w);
    return LA_OK;
}

typedef struct head {
    const la_real *q, *k, *v;
    int64_t        ldq, ldk, ldv, o, ldo, state;
    la_real       *saved; /* (chunks,D,e) */
} head;

static head find(const la_node *n, dims s, int64_t block) {
    int64_t b = block / s.H, h = block % s.H, each = s.D * s.e;
    return (head){.q = n->in[0]->x + la_token(n->in[0], b, 0, h),
                  .k = n->in[1]->x + la_token(n->in[1], b, 0, h),
                  .v = n->in[2]->x + la_token(n->in[2], b, 0, h),
                  .ldq = n->in[0]->ld,
                  .ldk = n->in[1]->ld,
                  .ldv = n->in[2]->ld,
                  .o = la_token(n, b, 0, h),
                  .ldo = n->ld,
                  .state = block * each,
                  .saved = n->saved ? n->saved + block * s.chunks * each : NULL};
}

static la_real logaddexp(la_real a, la_real b) {
    la_real top = a > b ? a : b, gap = a > b ? b - a : a - b;
    return top + log1p(exp(gap));
}

static void softmax_row(int64_t D, const la_real *q, la_real *y) {
    la_real total = la_vec_table()->exp_minus_sum(D, la_vec_table()->max(D, q), q, y);
    for (int64_t f = 0; f < D; f++) y[f] /= total;
}

/* Tokens of the run that starts at t: up to `end`, or the first that is too far above the pivot. */
static int64_t run_length(dims s, head a, const la_real *c, int64_t t, int64_t end) {
    for (int64_t i = t + 1; i < end; i++)
        for (int64_t f = 0; f < s.D; f++)
            if (!(a.k[i * a.ldk + f] - c[f] <= SPREAD)) return i - t;
    return end - t;
}

/* All of the run that starts at token t, with z before it in w->z: pivot, decay, Q, A, B, Z, V and
 * P = (A B') o M.  Returns its length. */
static int64_t load_run(dims s, head a, work *w, int64_t t, int64_t end) {
    for (int64_t f = 0; f < s.D; f++) w->c[f] = logaddexp(w->z[f], a.k[t * a.ldk + f]);
    int64_t C = run_length(s, a, w->c, t, end);
    for (int64_t f = 0; f < s.D; f++) w->decay[f] = exp(w->z[f] - w->c[f]);
    for (int64_t i = 0; i < C; i++) {
        la_real *B = w->B + i * s.D, *Z = w->Z + i * s.D, *Q = w->Q + i * s.D, *A = w->A + i * s.D;
        const la_real *before = i ? Z - s.D : w->decay, *k = a.k + (t + i) * a.ldk;
        for (int64_t f = 0; f < s.D; f++) B[f] = k[f] - w->c[f];
        la_vec_table()->exp_minus(s.D, 0, B, B);
        softmax_row(s.D, a.q + (t + i) * a.ldq, Q);
        for (int64_t f = 0; f < s.D; f++) {
            Z[f] = before[f] + B[f];
            A[f] = Q[f] / Z[f];
        }
        memcpy(w->V + i * s.E, a.v + (t + i) * a.ldv, (size_t)s.E * sizeof(la_real));
    }
    la_transpose(C, s.D, w->B, s.D, w->BT);
    la_gemm_nn(LA_SET, C, C, s.D, w->A, s.D, w->BT, C, w->P, C);
    la_keep_lower(C, w->P);
    return C;
}

/* S (D,E) from moving averages at z_in to the pivot, S_f *= decay_f; and back after the run. */
static void scale_rows(dims s, la_real *S, const la_real *by) {
    for (int64_t f = 0; f < s.D; f++)
        for (int64_t j = 0; j < s.E; j++) S[f * s.E + j] *= by[f];
}

static void advance(dims s, work *w, int64_t C) { /* S to moving averages, z to the last token */
    const la_real *Z = w->Z + (C - 1) * s.D;
    for (int64_t f = 0; f < s.D; f++) {
        for (int64_t j = 0; j < s.E; j++) w->S[f * s.E + j] /= Z[f];
        w->z[f] = w->c[f] + log(Z[f]);
    }
}

static void load_state(dims s, const la_real *state, work *w) {
    for (int64_t f = 0; f < s.D; f++) {
        w->z[f] = state[f * s.e];
        memcpy(w->S + f * s.E, state + f * s.e + 1, (size_t)s.E * sizeof(la_real));
    }
}

static void store_state(dims s, const work *w, la_real *state) {
    for (int64_t f = 0; f < s.D; f++) {
        state[f * s.e] = w->z[f];
        memcpy(state + f * s.e + 1, w->S + f * s.E, (size_t)s.E * sizeof(la_real));
    }
}

static void first_state(const la_node *n, dims s, head a, work *w) {
    if (n->n_out == 2)
        memcpy(w->state, n->in[3]->x + a.state, (size_t)(s.D * s.e) * sizeof(la_real));
    else {
        memset(w->state, 0, (size_t)(s.D * s.e) * sizeof(la_real));
        state_start(s.D, s.E, w->state);
    }
    load_state(s, w->state, w);
}

static void forward(const la_node *n, const la_run *run) {
    dims s = get(n);
    head a = find(n, s, run->block);
    work w;
    carve(s, run->scratch, &w);
    first_state(n, s, a, &w);
    for (int64_t chunk = 0; chunk < s.chunks; chunk++) {
        int64_t t = chunk * s.C, end = la_min(s.T, t + s.C);
        if (a.saved) store_state(s, &w, a.saved + chunk * s.D * s.e);
        while (t < end) {
            int64_t C = load_run(s, a, &w, t, end);
            scale_rows(s, w.S, w.decay);
            la_gemm_nn(LA_SET, C, s.E, s.D, w.A, s.D, w.S, s.E, w.O, s.E);
            la_gemm_nn(LA_ADD, C, s.E, C, w.P, C, w.V, s.E, w.O, s.E);
            for (int64_t i = 0; i < C; i++)
                memcpy(n->x + a.o + (t + i) * a.ldo, w.O + i * s.E, (size_t)s.E * sizeof(la_real));
            la_gemm_tn(LA_ADD, s.D, s.E, C, w.B, s.D, w.V, s.E, w.S, s.E);
            advance(s, &w, C);
            t += C;
        }
    }
    if (n->n_out == 2) store_state(s, &w, n->out[1]->x + a.state);
}

/* G and dP = (G V') o M of the run. */
static void load_gradient(const la_node *n, dims s, head a, work *w, int64_t t, int64_t C) {
    for (int64_t i = 0; i < C; i++)
        memcpy(w->G + i * s.E, n->g + a.o + (t + i) * a.ldo, (size_t)s.E * sizeof(la_real));
    la_transpose(C, s.E, w->V, s.E, w->VT);
    la_gemm_nn(LA_SET, C, C, s.E, w->G, s.E, w->VT, C, w->dP, C);
    la_keep_lower(C, w->dP);
}

/* The walk up through a chunk: dq, Y, the edges between runs.  Returns the number of runs. */
static int64_t walk_up(const la_node *n, dims s, head a, work *w, int64_t t, int64_t end,
                       const la_real *saved) {
    int64_t  runs = 0, from = t;
    la_real *dq = n->in[0]->g ? n->in[0]->g + (a.q - n->in[0]->x) : NULL;
    load_state(s, saved, w);
    memcpy(w->edge, w->z, (size_t)s.D * sizeof(la_real));
    while (t < end) {
        int64_t C = load_run(s, a, w, t, end);
        load_gradient(n, s, a, w, t, C);
        scale_rows(s, w->S, w->decay);
        la_transpose(s.D, s.E, w->S, s.E, w->ST);
        la_gemm_nn(LA_SET, C, s.D, s.E, w->G, s.E, w->ST, s.D, w->dA, s.D);
        la_gemm_nn(LA_ADD, C, s.D, C, w->dP, C, w->B, s.D, w->dA, s.D);
        for (int64_t i = 0; i < C; i++) { /* steps 2 and 5 */
            const la_real *Q = w->Q + i * s.D, *Z = w->Z + i * s.D, *dA = w->dA + i * s.D;
            la_real       *Y = w->Y + (t - from + i) * s.D, along = 0;
            for (int64_t f = 0; f < s.D; f++) along += Y[f] = Q[f] * (dA[f] / Z[f]);
            for (int64_t f = 0; dq && f < s.D; f++) dq[(t + i) * a.ldq + f] += Y[f] - Q[f] * along;
        }
        la_gemm_tn(LA_ADD, s.D, s.E, C, w->B, s.D, w->V, s.E, w->S, s.E);
        advance(s, w, C);
        w->start[runs++] = R(t - from);
        memcpy(w->edge + runs * s.D, w->z, (size_t)s.D * sizeof(la_real));
        t += C;
    }
    w->start[runs] = R(end - from);
    return runs;
}

/* One run of the walk down: dk and dv from R and rho, which come in units of z after the run and
 * leave in units of z before it. */
static void run_down(const la_node *n, dims s, head a, work *w, int64_t t, int64_t end,
                     int64_t from, const la_real *before, const la_real *after) {
    la_real *dk = n->in[1]->g ? n->in[1]->g + (a.k - n->in[1]->x) : NULL;
    la_real *dv = n->in[2]->g ? n->in[2]->g + (a.v - n->in[2]->x) : NULL;
    memcpy(w->z, before, (size_t)s.D * sizeof(la_real));
    int64_t C = load_run(s, a, w, t, end);
    load_gradient(n, s, a, w, t, C);
    for (int64_t f = 0; f < s.D; f++) {
        la_real to_pivot = exp(w->c[f] - after[f]);
        w->rho[f] *= to_pivot;
        for (int64_t j = 0; j < s.E; j++) w->R[f * s.E + j] *= to_pivot;
    }
    la_transpose(s.D, s.E, w->R, s.E, w->RT);
    la_gemm_nn(LA_SET, C, s.D, s.E, w->V, s.E, w->RT, s.D, w->dB, s.D);
    la_gemm_tn(LA_ADD, C, s.D, C, w->dP, C, w->A, s.D, w->dB, s.D);
    la_gemm_nn(LA_SET, C, s.E, s.D, w->B, s.D, w->R, s.E, w->O, s.E);
    la_gemm_tn(LA_ADD, C, s.E, C, w->P, C, w->G, s.E, w->O, s.E);
    for (int64_t i = C - 1; i >= 0; i--) { /* steps 3 and 4 */
        const la_real *Y = w->Y + (t - from + i) * s.D, *Z = w->Z + i * s.D;
        for (int64_t f = 0; f < s.D; f++) {
            w->rho[f] += Y[f] / Z[f];
            if (dk) dk[(t + i) * a.ldk + f] += w->B[i * s.D + f] * (w->dB[i * s.D + f] - w->rho[f]);
        }
        for (int64_t j = 0; dv && j < s.E; j++) dv[(t + i) * a.ldv + j] += w->O[i * s.E + j];
    }
    la_gemm_tn(LA_ADD, s.D, s.E, C, w->A, s.D, w->G, s.E, w->R, s.E);
    scale_rows(s, w->R, w->decay);
    for (int64_t f = 0; f < s.D; f++) w->rho[f] *= w->decay[f];
}

static void backward(const la_node *n, const la_run *run) {
    dims s = get(n);
    head a = find(n, s, run->block);
    work w;
    carve(s, run->scratch, &w);
    memset(w.R, 0, (size_t)(s.D * s.E) * sizeof(la_real));
    memset(w.rho, 0, (size_t)s.D * sizeof(la_real));
    for (int64_t f = 0; n->n_out == 2 && f < s.D; f++) { /* step 6, the end */
        const la_real *g = n->out[1]->g + a.state + f * s.e, *x = n->out[1]->x + a.state + f * s.e;
        memcpy(w.R + f * s.E, g + 1, (size_t)s.E * sizeof(la_real));
        w.rho[f] = la_vec_table()->dot(s.E, g + 1, x + 1) - g[0];
    }
    for (int64_t chunk = s.chunks - 1; chunk >= 0; chunk--) {
        int64_t t = chunk * s.C, end = la_min(s.T, t + s.C);
        int64_t runs = walk_up(n, s, a, &w, t, end, a.saved + chunk * s.D * s.e);
        for (int64_t r = runs - 1; r >= 0; r--)
            run_down(n, s, a, &w, t + (int64_t)w.start[r], t + (int64_t)w.start[r + 1], t,
                     w.edge + r * s.D, w.edge + (r + 1) * s.D);
    }
    for (int64_t f = 0; n->n_out == 2 && n->in[3]->g && f < s.D; f++) { /* step 6, the start */
        const la_real *x = n->in[3]->x + a.state + f * s.e;
        la_real       *g = n->in[3]->g + a.state + f * s.e;
        g[0] += la_vec_table()->dot(s.E, w.R + f * s.E, x + 1) - w.rho[f];
        for (int64_t j = 0; j < s.E; j++) g[1 + j] += w.R[f * s.E + j];
    }
}

/* The recurrence: C_t = exp(z_{t-1} - z_t) C_{t-1} + exp(k_t - z_t) v_t'. */
static void reference(const la_node *n) {
    dims s = get(n);
    for (int64_t block = 0; block < n->shape.d[0] * s.H; block++) {
        head    a = find(n, s, block);
        la_real q[s.D], state[s.D * s.e];
        for (int64_t i = 0; i < s.D * s.e; i++)
            state[i] = n->n_out == 2 ? n->in[3]->x[a.state + i] : 0;
        if (n->n_out == 1) state_start(s.D, s.E, state);
        for (int64_t t = 0; t < s.T; t++) {
            la_real *o = n->x + a.o + t * a.ldo;
            softmax_row(s.D, a.q + t * a.ldq, q);
            for (int64_t j = 0; j < s.E; j++) o[j] = 0;
            for (int64_t f = 0; f < s.D; f++) {
                la_real *z = state + f * s.e, *C = z + 1, k = a.k[t * a.ldk + f], old = *z;
                *z = logaddexp(old, k);
                for (int64_t j = 0; j < s.E; j++) {
                    C[j] = exp(old - *z) * C[j] + exp(k - *z) * a.v[t * a.ldv + j];
                    o[j] += q[f] * C[j];
                }
            }
        }
        for (int64_t i = 0; n->n_out == 2 && i < s.D * s.e; i++)
            n->out[1]->x[a.state + i] = state[i];
    }
}

static const la_op op = {
    .name = "double_softmax",
    .formula = "o_t = sum_f softmax_f(q_t) sum_{s<=t} exp(k_sf - z_tf) v_s, z_tf = log sum_{s<=t} "
               "exp(k_sf)",
    .file = "autograd/attention/double_softmax.c",
    .attr_size = sizeof(la_attn_cfg),
    .reads = LA_READS_IN(0) | LA_READS_IN(1) | LA_READS_IN(2) | LA_READS_IN(3) | LA_READS_OUT(1),
    .strided = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

const la_attn la_attn_double_softmax = {
    .name = "double-softmax",
    .formula = "o_t = softmax_D(q_t)' (softmax over j<=t of k_j, per feature)' v",
    .paper = "Shen et al., Efficient Attention, 2018; causal restriction",
    .cost = "O(T D E) time, state D(E+1)",
    .file = "autograd/attention/double_softmax.c",
    .op = &op,
    .state_len = state_len,
    .state_start = state_start,
    .positive = 1,
};
