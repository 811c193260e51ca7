/* causal_linear: normalised causal linear attention under a feature map phi.
 * Katharopoulos, Vyas, Pappas, Fleuret, "Transformers are RNNs", 2020.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   o (B,T,H,E)   state (B,H,m(E+1))
 *
 * For one head, a_t = phi(q_t), b_t = phi(k_t) in R^m:
 *
 *   S_t = S_{t-1} + b_t v_t'    z_t = z_{t-1} + b_t    D_t = a_t.z_t + eps    o_t = S_t' a_t / D_t
 *
 * The ones column.  With v~ = [v, 1] the normaliser is one more column of the same sum:
 * S~ = [S, z] (m,E+1) and S~_t' a_t = [n_t, D_t - eps].
 *
 * Backward, g_t the gradient at o_t.  From o = n / D:
 *   1. dn_t = g_t / D_t = u_t        dD_t = -(g_t.o_t) / D_t = w_t        u~ = [u, w]
 *   2. a_t is used at time t only:                        da_t = S~_t u~_t
 *   3. S~_t is used by every later time.  R~_t = sum_{s>=t} a_s u~_s' is its gradient, and
 *                                                         db_t = R~_t v~_t    dv_t = R~_t' b_t
 *      without the last column of dv~, which belongs to the constant 1.
 *   4. The state that came in gets R~_0; the gradient of the state that goes out starts R~.
 *
 * Chunks of C tokens turn the sums into matrix products.  Rows A, B (C,m), V~, U~ (C,E+1); M
 * keeps the lower triangle with its diagonal; S before the chunk, R from later chunks:
 *
 *   P  = (A B') o M         N  = A S + P V~               S += B' V~
 *   dP = (U~ V~') o M       dA = U~ S' + dP B             dB = V~ R' + dP' A
 *                           dV~ = B R + P' U~             R += A' U~
 *
 * Every small product is NN or TN: the factor that would stand transposed on the right is
 * transposed in scratch first.  M sets to 0 and does not multiply: 0 * inf is not 0.
 *
 * Saved: S at the start of each chunk, and D.  Memory O(T (m E / C + 1)), time O(T m E + T C (m +
 * E)). */
#include "autograd/attention/attention.h"
#include "autograd/kernel.h"
#include "tensor/blas.h"

enum { CHUNK = 64 };

typedef struct dims {
    int64_t T, H, D, E, m, e, C, chunks; /* e = E + 1 */
    double  eps;
} dims;

static int64_t features(const la_node *n) {
    const la_attn *a = ((const la_attn_cfg *)n->attr)->variant;
    return a && a->map ? a->map->width(n->in[0]->shape.d[3]) : n->in[0]->shape.d[3];
}

static dims get(const la_node *n) {
    la_shape q = n->in[0]->shape;
    dims     s = {.T = q.d[1], .H = q.d[2], .D = q.d[3], .E = n->in[2]->shape.d[3]};
    s.m = features(n);
    s.e = s.E + 1;
    s.C = la_attn_chunk(n, CHUNK);
    s.chunks = la_ceil_div(s.T, s.C);
    s.eps = ((const la_attn_cfg *)n->attr)->eps;
    return s;
}

/* One thread's scratch: the matrices of a chunk.  T marks a transpose. */
typedef struct work {
    la_real *A, *B, *BT, *V, *VT, *P, *N; /* (C,m) (C,m) (m,C) (C,e) (e,C) (C,C) (C,e)       */
    la_real *S, *ST;                      /* (m,e) (e,m)                                     */
    la_real *U, *dP, *dA, *dB, *dV, *R;   /* (C,e) (C,C) (C,m) (C,m) (C,e) (m,e)             */
} work;

static size_t carve(dims s, la_real *at, work *w) {
    const la_part parts[] = {
        {&w->A, s.C * s.m},  {&w->B, s.C * s.m},  {&w->BT, s.m * s.C}, {&w->V, s.C * s.e},
        {&w->VT, s.e * s.C}, {&w->P, s.C * s.C},  {&w->N, s.C * s.e},  {&w->S, s.m * s.e},
        {&w->ST, s.e * s.m}, {&w->U, s.C * s.e},  {&w->dP, s.C * s.C}, {&w->dA, s.C * s.m},
        {&w->dB, s.C * s.m}, {&w->dV, s.C * s.e}, {&w->R, s.m * s.e},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
}

static la_status infer(const la_node *n, la_plan *p) {
    LA_TRY(la_attn_infer(n, p));
    dims s = get(n);
    work w;
    p->n_saved = (size_t)(n->in[0]->shape.d[0] * s.H * (s.chunks * s.m * s.e + s.T));
    p->n_scratch = carve(s, NULL, &w);
    return LA_OK;
}

/* Head h of batch row b: where its rows begin, and how far apart they are. */
typedef struct head {
    int64_t  q, k, v, o, ldq, ldk, ldv, ldo, state;
    la_real *S, *D; /* saved: states (chunks,m,e), normalisers (T) */
} head;

static head find(const la_node *n, dims s, int64_t block) {
    int64_t b = block / s.H, h = block % s.H, each = s.chunks * s.m * s.e + s.T;
    head    a = {la_token(n->in[0], b, 0, h),
                 la_token(n->in[1], b, 0, h),
                 la_token(n->in[2], b, 0, h),
                 la_token(n, b, 0, h),
                 n->in[0]->ld,
                 n->in[1]->ld,
                 n->in[2]->ld,
                 n->ld,
                 block * s.m * s.e,
              n->saved ? n->saved + block * each : NULL,
                 NULL};
    if (a.S) a.D = a.S + s.chunks * s.m * s.e;
    return a;
}

static void map_rows(const la_node *n, dims s, int64_t rows, const la_real *x, int64_t ld,
                     la_real *y) {
    const la_attn *a = ((const la_attn_cfg *)n->attr)->variant;
    if (a && a->map)
        a->map->forward(rows, s.D, s.eps, x, ld, y);
    else
        for (int64_t i = 0; i < rows; i++) memcpy(y + i * s.D, x + i * ld, (size_t)s.D * sizeof *y);
}

static void map_rows_backward(const la_node *n, dims s, int64_t rows, const la_real *x, int64_t ld,
                              const la_real *y, const la_real *dy, la_real *dx) {
    const la_attn *a = ((const la_attn_cfg *)n->attr)->variant;
    if (a && a->map)
        a->map->backward(rows, s.D, s.eps, x, ld, y, dy, dx, ld);
    else
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < s.D; j++) dx[i * ld + j] += dy[i * s.D + j];
}

/* A, B, V~ and P of the chunk that starts at token t, C tokens long. */
static void load_chunk(const la_node *n, dims s, head a, work *w, int64_t t, int64_t C) {
    map_rows(n, s, C, n->in[0]->x + a.q + t * a.ldq, a.ldq, w->A);
    map_rows(n, s, C, n->in[1]->x + a.k + t * a.ldk, a.ldk, w->B);
    for (int64_t i = 0; i < C; i++) {
        memcpy(w->V + i * s.e, n->in[2]->x + a.v + (t + i) * a.ldv, (size_t)s.E * sizeof(la_real));
        w->V[i * s.e + s.E] = 1;
    }
    la_transpose(C, s.m, w->B, s.m, w->BT);
    la_gemm_nn(LA_SET, C, C, s.m, w->A, s.m, w->BT, C, w->P, C);
    la_keep_lower(C, w->P);
}

/* With eps = 0 and no feature that is not 0, D is 0: the output is 0, as it is with any eps. */
static la_real inverse(la_real D) { return D != 0 ? 1 / D : 0; }

static void forward(const la_node *n, const la_run *run) {
    dims s = get(n);
    head a = find(n, s, run->block);
    work w;
    carve(s, run->scratch, &w);
    const size_t state = (size_t)(s.m * s.e) * sizeof(la_real);
    if (n->n_out == 2)
        memcpy(w.S, n->in[3]->x + a.state, state);
    else
        memset(w.S, 0, state);
    for (int64_t c = 0, t = 0; t < s.T; c++, t += s.C) {
        int64_t C = la_min(s.C, s.T - t);
        load_chunk(n, s, a, &w, t, C);
        if (a.S) memcpy(a.S + c * s.m * s.e, w.S, state);
        la_gemm_nn(LA_SET, C, s.e, s.m, w.A, s.m, w.S, s.e, w.N, s.e);
        la_gemm_nn(LA_ADD, C, s.e, C, w.P, C, w.V, s.e, w.N, s.e);
        for (int64_t i = 0; i < C; i++) {
            la_real *N = w.N + i * s.e, *o = n->x + a.o + (t + i) * a.ldo;
            la_real  D = N[s.E] + R(s.eps), r = inverse(D);
            if (a.D) a.D[t + i] = D;
            for (int64_t j = 0; j < s.E; j++) o[j] = N[j] * r;
        }
        la_gemm_tn(LA_ADD, s.m, s.e, C, w.B, s.m, w.V, s.e, w.S, s.e);
    }
    if (n->n_out == 2) memcpy(n->out[1]->x + a.state, w.S, state);
}

static void backward(const la_node *n, const la_run *run) {
    dims s = get(n);
    head a = find(n, s, run->block);
    work w;
    carve(s, run->scratch, &w);
    const size_t state = (size_t)(s.m * s.e) * sizeof(la_real);
    la_real     *dq = n->in[0]->g, *dk = n->in[1]->g, *dv = n->in[2]->g;
    if (n->n_out == 2)
        memcpy(w.R, n->out[1]->g + a.state, state);
    else
        memset(w.R, 0, state);
    for (int64_t c = s.chunks - 1; c >= 0; c--) {
        int64_t        t = c * s.C, C = la_min(s.C, s.T - t);
        const la_real *S = a.S + c * s.m * s.e;
        load_chunk(n, s, a, &w, t, C);
        for (int64_t i = 0; i < C; i++) { /* step 1 */
            const la_real *o = n->x + a.o + (t + i) * a.ldo, *g = n->g + a.o + (t + i) * a.ldo;
            la_real       *U = w.U + i * s.e, r = inverse(a.D[t + i]);
            for (int64_t j = 0; j < s.E; j++) U[j] = g[j] * r;
            U[s.E] = -la_vec_table()->dot(s.E, g, o) * r;
        }
        la_transpose(C, s.e, w.V, s.e, w.VT);
        la_gemm_nn(LA_SET, C, C, s.e, w.U, s.e, w.VT, C, w.dP, C);
        la_keep_lower(C, w.dP);
        if (dq) {
            la_transpose(s.m, s.e, S, s.e, w.ST);
            la_gemm_nn(LA_SET, C, s.m, s.e, w.U, s.e, w.ST, s.m, w.dA, s.m);
            la_gemm_nn(LA_ADD, C, s.m, C, w.dP, C, w.B, s.m, w.dA, s.m);
            map_rows_backward(n, s, C, n->in[0]->x + a.q + t * a.ldq, a.ldq, w.A, w.dA,
                              dq + a.q + t * a.ldq);
        }
        if (dk) {
            la_transpose(s.m, s.e, w.R, s.e, w.ST); /* here R' */
            la_gemm_nn(LA_SET, C, s.m, s.e, w.V, s.e, w.ST, s.m, w.dB, s.m);
            la_gemm_tn(LA_ADD, C, s.m, C, w.dP, C, w.A, s.m, w.dB, s.m);
            map_rows_backward(n, s, C, n->in[1]->x + a.k + t * a.ldk, a.ldk, w.B, w.dB,
                              dk + a.k + t * a.ldk);
        }
        if (dv) {
            la_gemm_nn(LA_SET, C, s.e, s.m, w.B, s.m, w.R, s.e, w.dV, s.e);
            la_gemm_tn(LA_ADD, C, s.e, C, w.P, C, w.U, s.e, w.dV, s.e);
            for (int64_t i = 0; i < C; i++)
                for (int64_t j = 0; j < s.E; j++)
                    dv[a.v + (t + i) * a.ldv + j] += w.dV[i * s.e + j];
        }
        la_gemm_tn(LA_ADD, s.m, s.e, C, w.A, s.m, w.U, s.e, w.R, s.e);
    }
    if (n->n_out == 2 && n->in[3]->g)
        for (int64_t i = 0; i < s.m * s.e; i++) n->in[3]->g[a.state + i] += w.R[i];
}

/* The recurrence, token by token, as in the first formula. */
static void reference(const la_node *n) {
    dims s = get(n);
    work w;
    carve(s, NULL, &w);
    for (int64_t block = 0; block < n->shape.d[0] * s.H; block++) {
        head    a = find(n, s, block);
        la_real q[s.m], k[s.m], S[s.m * s.e];
        for (int64_t i = 0; i < s.m * s.e; i++) S[i] = n->n_out == 2 ? n->in[3]->x[a.state + i] : 0;
        for (int64_t t = 0; t < s.T; t++) {
            map_rows(n, s, 1, n->in[0]->x + a.q + t * a.ldq, a.ldq, q);
            map_rows(n, s, 1, n->in[1]->x + a.k + t * a.ldk, a.ldk, k);
            la_real *o = n->x + a.o + t * a.ldo, D = R(s.eps);
            for (int64_t j = 0; j < s.E; j++) o[j] = 0;
            for (int64_t i = 0; i < s.m; i++) {
                la_real *row = S + i * s.e;
                for (int64_t j = 0; j < s.E; j++) {
                    row[j] += k[i] * n->in[2]->x[a.v + t * a.ldv + j];
                    o[j] += q[i] * row[j];
                }
                row[s.E] += k[i];
                D += q[i] * row[s.E];
            }
            for (int64_t j = 0; j < s.E; j++) o[j] *= inverse(D);
        }
        for (int64_t i = 0; n->n_out == 2 && i < s.m * s.e; i++) n->out[1]->x[a.state + i] = S[i];
    }
}

static const la_attn_cfg small = {.eps = 1e-6, .chunk = 4}, large = {.eps = 0.1, .chunk = 4};
static const la_case     cases[] = {
        {.name = "B2 T5 H2 D3 E4",
         .in = {{4, {2, 5, 2, 3}}, {4, {2, 5, 2, 3}}, {4, {2, 5, 2, 4}}},
         .attr = &small,
         .lo = 0.1,
         .hi = 1},
        {.name = "T9, eps .1",
         .in = {{4, {1, 9, 1, 3}}, {4, {1, 9, 1, 3}}, {4, {1, 9, 1, 3}}},
         .attr = &large,
         .lo = 0.1,
         .hi = 1},
        {0},
};

const la_op la_op_causal_linear = {
    .name = "causal_linear",
    .formula = "o_t = phi(q_t)'(sum_{j<=t} phi(k_j) v_j') / (phi(q_t).sum_{j<=t} phi(k_j) + eps)",
    .file = "autograd/ops/causal_linear.c",
    .attr_size = sizeof(la_attn_cfg),
    .reads = LA_READS_IN(0) | LA_READS_IN(1) | LA_READS_IN(2) | LA_READS_OUT(0),
    .strided = 1,
    .cases = cases,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};
