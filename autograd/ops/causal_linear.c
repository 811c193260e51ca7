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
 * Blocks.  A block walks some heads of a batch row side by side, chunk by chunk: their rows are
 * next to each other in memory.  With few heads the sequence is cut into segments, in three phases:
 * what each segment adds to the state (B' V, B' 1); the running sums of these, so that each segment
 * has the state before it; the segments, now independent.  Backward likewise with A' U, A' w and
 * sums from the end.
 *
 * Saved: S, z before each chunk, and D.  Memory O(T (m E / C + 1)), time O(T m E + T C (m + E)). */
#include "autograd/attention/attention.h"
#include "autograd/kernel.h"
#include "tensor/blas.h"

enum {
    CHUNK = 32,
    FEW_HEADS = 8,     /* with fewer the sequence is cut as well                                */
    BLOCKS = 4,        /* of whole heads, at least, when some of them share a block             */
    SEGMENTS = 16,     /* of all sequences together, about, if they are cut                     */
    SEGMENT_LEAST = 8, /* chunks */
    SLICE = 1024,      /* reals of a state whose running sums a block takes                     */
};

typedef struct dims {
    int64_t B, T, H, D, E, m, L, C, chunks; /* L = m (E+1), one state                           */
    int64_t group, groups;                  /* heads of a block; blocks beside each other       */
    int64_t segment, segments;              /* chunks of a block; blocks after each other       */
    int64_t slices;
    double  eps;
} dims;

static const la_map *map_of(const la_node *n) {
    const la_attn *a = ((const la_attn_cfg *)n->attr)->variant;
    return a ? a->map : NULL;
}

static dims get(const la_node *n) {
    la_shape q = n->in[0]->shape;
    dims     s = {.B = q.d[0], .T = q.d[1], .H = q.d[2], .D = q.d[3], .E = n->in[2]->shape.d[3]};
    s.m = map_of(n) ? map_of(n)->width(s.D) : s.D;
    s.L = s.m * (s.E + 1);
    s.C = la_attn_chunk(n, CHUNK);
    s.chunks = la_ceil_div(s.T, s.C);
    s.slices = la_ceil_div(s.L, SLICE);
    s.eps = ((const la_attn_cfg *)n->attr)->eps;
    s.segment = s.chunks;
    if (s.B * s.H < FEW_HEADS)
        s.segment = la_max(SEGMENT_LEAST, la_ceil_div(s.chunks * s.B, SEGMENTS));
    s.segments = la_ceil_div(s.chunks, s.segment);
    s.group = s.H;
    while (s.segments == 1 && s.group > 1 && (s.H % s.group || s.B * (s.H / s.group) < BLOCKS))
        s.group--;
    s.groups = s.H / s.group;
    return s;
}

/* One thread's scratch: the matrices of a chunk.  T marks a transpose. */
typedef struct work {
    la_real *A, *B, *BT, *P;   /* (C,m) (C,m) (m,C) (C,C)                  */
    la_real *N, *S;            /* (C,E) (L)                                */
    la_real *U, *w, *VT, *XT;  /* (C,E) (C) (E,C) (E,m): S' and then R'    */
    la_real *dP, *dA, *dB, *R; /* (C,C) (C,m) (C,m) (L)                    */
} work;

static size_t carve(dims s, la_real *at, work *w) {
    const la_part parts[] = {
        {&w->A, s.C * s.m},  {&w->B, s.C * s.m},     {&w->BT, s.m * s.C}, {&w->P, s.C * s.C},
        {&w->N, s.C * s.E},  {&w->S, s.group * s.L}, {&w->U, s.C * s.E},  {&w->w, s.C},
        {&w->VT, s.E * s.C}, {&w->XT, s.E * s.m},    {&w->dP, s.C * s.C}, {&w->dA, s.C * s.m},
        {&w->dB, s.C * s.m}, {&w->R, s.group * s.L},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
}

static la_status infer(const la_node *n, la_plan *p) {
    LA_TRY(la_attn_infer(n, p));
    dims s = get(n);
    work w;
    p->n_saved = (size_t)(s.B * s.H * (s.chunks * s.L + s.T));
    p->n_scratch = carve(s, NULL, &w);
    p->forward_blocks[0] = p->backward_blocks[0] = s.B * s.groups * s.segments;
    if (s.segments == 1) return LA_OK;
    p->n_shared = (size_t)(s.B * s.H * s.segments * s.L);
    p->forward_blocks[1] = p->backward_blocks[1] = s.B * s.H * s.slices;
    p->forward_blocks[2] = p->backward_blocks[2] = p->forward_blocks[0];
    return LA_OK;
}

/* One head: where its rows begin, how far apart they are, and its states. */
typedef struct head {
    const la_real *q, *k, *v, *g;
    la_real       *o, *dq, *dk, *dv; /* gradients: NULL if nobody needs them                    */
    int64_t        ldq, ldk, ldv, ldo;
    const la_real *state, *dstate_out;
    la_real       *state_out, *dstate; /* NULL without                                          */
    la_real       *S, *D;              /* (chunks,L) before each chunk, (T); NULL: not kept     */
    la_real       *sums;               /* (segments,L), if there are several                    */
} head;

static la_real *plus(la_real *x, int64_t at) { return x ? x + at : NULL; }

static head find(const la_node *n, dims s, int64_t b, int64_t h, la_real *shared) {
    const la_node *q = n->in[0], *k = n->in[1], *v = n->in[2];
    int64_t        number = b * s.H + h, kept = s.chunks * s.L;
    head           a = {.ldq = q->ld, .ldk = k->ld, .ldv = v->ld, .ldo = n->ld};
    a.q = q->x + la_token(q, b, 0, h), a.dq = plus(q->g, la_token(q, b, 0, h));
    a.k = k->x + la_token(k, b, 0, h), a.dk = plus(k->g, la_token(k, b, 0, h));
    a.v = v->x + la_token(v, b, 0, h), a.dv = plus(v->g, la_token(v, b, 0, h));
    a.o = n->x + la_token(n, b, 0, h), a.g = plus(n->g, la_token(n, b, 0, h));
    if (n->n_out == 2) {
        a.state = n->in[3]->x + number * s.L, a.dstate = plus(n->in[3]->g, number * s.L);
        a.state_out = n->out[1]->x + number * s.L;
        a.dstate_out = plus(n->out[1]->g, number * s.L);
    }
    a.S = plus(n->saved, number * kept);
    a.D = plus(n->saved, s.B * s.H * kept + number * s.T);
    a.sums = plus(shared, number * s.segments * s.L);
    return a;
}

static void map_rows(const la_node *n, dims s, int64_t rows, const la_real *x, int64_t ld,
                     la_real *y) {
    const la_map *map = map_of(n);
    if (map)
        map->forward(rows, s.D, s.eps, x, ld, y);
    else
        for (int64_t i = 0; i < rows; i++) memcpy(y + i * s.D, x + i * ld, (size_t)s.D * sizeof *y);
}

static void map_rows_backward(const la_node *n, dims s, int64_t rows, const la_real *x, int64_t ld,
                              const la_real *y, const la_real *dy, la_real *dx) {
    const la_map *map = map_of(n);
    if (map)
        map->backward(rows, s.D, s.eps, x, ld, y, dy, dx, ld);
    else
        for (int64_t i = 0; i < rows; i++) la_vec_table()->axpy(s.D, 1, dy + i * s.D, dx + i * ld);
}

static void load_keys(const la_node *n, dims s, const head *a, work *w, int64_t t, int64_t C) {
    map_rows(n, s, C, a->k + t * a->ldk, a->ldk, w->B);
}

static void load_queries(const la_node *n, dims s, const head *a, work *w, int64_t t, int64_t C) {
    map_rows(n, s, C, a->q + t * a->ldq, a->ldq, w->A);
}

/* P from A and B. */
static void load_weights(dims s, work *w, int64_t C) {
    la_transpose(C, s.m, w->B, s.m, w->BT);
    la_gemm_nn(LA_SET | LA_C_LOWER, C, C, s.m, w->A, s.m, w->BT, C, w->P, C);
    la_keep_lower(C, w->P);
}

/* S += B' V, z += B' 1 */
static void add_keys(dims s, const head *a, const work *w, int64_t t, int64_t C, la_real *S) {
    la_gemm_tn(LA_ADD, s.m, s.E, C, w->B, s.m, a->v + t * a->ldv, a->ldv, S, s.E);
    for (int64_t i = 0; i < C; i++) la_vec_table()->axpy(s.m, 1, w->B + i * s.m, S + s.m * s.E);
}

/* R += A' U, r += A' w */
static void add_queries(dims s, const work *w, int64_t C, la_real *R) {
    la_gemm_tn(LA_ADD, s.m, s.E, C, w->A, s.m, w->U, s.E, R, s.E);
    for (int64_t i = 0; i < C; i++)
        la_vec_table()->axpy(s.m, w->w[i], w->A + i * s.m, R + s.m * s.E);
}

/* With eps = 0 and no feature that is not 0, D is 0: the output is 0, as it is with any eps. */
static la_real inverse(la_real D) { return D != 0 ? 1 / D : 0; }

/* o of the chunk at token t, from A, P and the state S, z before it. */
static void chunk_forward(dims s, const head *a, work *w, int64_t t, int64_t C, const la_real *S) {
    const la_vec *vec = la_vec_table();
    la_gemm_nn(LA_SET, C, s.E, s.m, w->A, s.m, S, s.E, w->N, s.E);
    la_gemm_nn(LA_ADD | LA_A_LOWER, C, s.E, C, w->P, C, a->v + t * a->ldv, a->ldv, w->N, s.E);
    for (int64_t i = 0; i < C; i++) {
        la_real D = vec->dot(s.m, w->A + i * s.m, S + s.m * s.E) + vec->sum(i + 1, w->P + i * C);
        D += R(s.eps);
        if (a->D) a->D[t + i] = D;
        vec->scale(s.E, inverse(D), w->N + i * s.E, a->o + (t + i) * a->ldo);
    }
}

/* U and w: step 1. */
static void load_gradient(dims s, const head *a, work *w, int64_t t, int64_t C) {
    const la_vec *vec = la_vec_table();
    for (int64_t i = 0; i < C; i++) {
        const la_real *o = a->o + (t + i) * a->ldo, *g = a->g + (t + i) * a->ldo;
        la_real        r = inverse(a->D[t + i]);
        vec->scale(s.E, r, g, w->U + i * s.E);
        w->w[i] = -vec->dot(s.E, g, o) * r;
    }
}

/* dq, dk, dv of the chunk at token t, from A, B, P, U, w, the state S, z before it and R, r from
 * after it. */
static void chunk_backward(const la_node *n, dims s, const head *a, work *w, int64_t t, int64_t C,
                           const la_real *S, const la_real *R) {
    const la_vec  *vec = la_vec_table();
    const la_real *z = S + s.m * s.E, *r = R + s.m * s.E, *v = a->v + t * a->ldv;
    la_transpose(C, s.E, v, a->ldv, w->VT);
    for (int64_t i = 0; i < C; i++)
        for (int64_t j = 0; j < C; j++) w->dP[i * C + j] = w->w[i];
    la_gemm_nn(LA_ADD | LA_C_LOWER, C, C, s.E, w->U, s.E, w->VT, C, w->dP, C);
    la_keep_lower(C, w->dP);
    if (a->dq) {
        for (int64_t i = 0; i < C; i++) vec->scale(s.m, w->w[i], z, w->dA + i * s.m);
        la_transpose(s.m, s.E, S, s.E, w->XT);
        la_gemm_nn(LA_ADD, C, s.m, s.E, w->U, s.E, w->XT, s.m, w->dA, s.m);
        la_gemm_nn(LA_ADD | LA_A_LOWER, C, s.m, C, w->dP, C, w->B, s.m, w->dA, s.m);
        map_rows_backward(n, s, C, a->q + t * a->ldq, a->ldq, w->A, w->dA, a->dq + t * a->ldq);
    }
    if (a->dk) {
        for (int64_t i = 0; i < C; i++) memcpy(w->dB + i * s.m, r, (size_t)s.m * sizeof *r);
        la_transpose(s.m, s.E, R, s.E, w->XT);
        la_gemm_nn(LA_ADD, C, s.m, s.E, v, a->ldv, w->XT, s.m, w->dB, s.m);
        la_gemm_tn(LA_ADD | LA_A_UPPER, C, s.m, C, w->dP, C, w->A, s.m, w->dB, s.m);
        map_rows_backward(n, s, C, a->k + t * a->ldk, a->ldk, w->B, w->dB, a->dk + t * a->ldk);
    }
    if (a->dv) {
        la_gemm_nn(LA_ADD, C, s.E, s.m, w->B, s.m, R, s.E, a->dv + t * a->ldv, a->ldv);
        la_gemm_tn(LA_ADD | LA_A_UPPER, C, s.E, C, w->P, C, w->U, s.E, a->dv + t * a->ldv, a->ldv);
    }
}

static void copy_or_zero(int64_t n, const la_real *x, la_real *y) {
    if (x)
        memcpy(y, x, (size_t)n * sizeof *y);
    else
        memset(y, 0, (size_t)n * sizeof *y);
}

/* Running sums over the segments of some reals of a state: each gets the sum of those before it, in
 * the direction of `step`, and `from`.  total: all of them. */
static void scan(dims s, la_real *sums, int64_t step, la_range part, const la_real *from,
                 la_real *total) {
    int64_t len = part.to - part.from;
    copy_or_zero(len, plus((la_real *)from, part.from), total);
    for (int64_t i = 0, c = step > 0 ? 0 : s.segments - 1; i < s.segments; i++, c += step) {
        la_real *x = sums + c * s.L + part.from;
        for (int64_t j = 0; j < len; j++) {
            la_real own = x[j];
            x[j] = total[j];
            total[j] += own;
        }
    }
}

static void forward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (run->phase == 1) {
        int64_t  number = run->block / s.slices;
        head     a = find(n, s, number / s.H, number % s.H, run->shared);
        la_real  total[SLICE];
        la_range part = la_cut(s.L, SLICE, run->block % s.slices);
        scan(s, a.sums, 1, part, a.state, total);
        if (a.state_out)
            memcpy(a.state_out + part.from, total, (size_t)(part.to - part.from) * sizeof *total);
        return;
    }
    const int      only_sums = s.segments > 1 && run->phase == 0;
    const int64_t  number = run->block / s.segments, seg = run->block % s.segments;
    const int64_t  b = number / s.groups, first = number % s.groups * s.group;
    const la_range chunks = la_cut(s.chunks, s.segment, seg);
    const size_t   state = (size_t)s.L * sizeof(la_real);
    work           w;
    carve(s, run->scratch, &w);
    for (int64_t c = chunks.from; c < chunks.to; c++)
        for (int64_t h = 0; h < s.group; h++) {
            head     a = find(n, s, b, first + h, run->shared);
            int64_t  t = c * s.C, C = la_min(s.C, s.T - t);
            la_real *S = w.S + h * s.L, *sum = plus(a.sums, seg * s.L);
            if (c == chunks.from)
                copy_or_zero(s.L, only_sums ? NULL : s.segments > 1 ? sum : a.state, S);
            load_keys(n, s, &a, &w, t, C);
            if (!only_sums) {
                load_queries(n, s, &a, &w, t, C);
                load_weights(s, &w, C);
                chunk_forward(s, &a, &w, t, C, S);
                if (a.S) memcpy(a.S + c * s.L, S, state);
            }
            add_keys(s, &a, &w, t, C, S);
            if (c + 1 < chunks.to) continue;
            if (only_sums) memcpy(sum, S, state);
            if (s.segments == 1 && a.state_out) memcpy(a.state_out, S, state);
        }
}

static void add_to_state_gradient(const head *a, la_range part, const la_real *R) {
    if (a->dstate) la_vec_table()->axpy(part.to - part.from, 1, R, a->dstate + part.from);
}

static void backward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (run->phase == 1) {
        int64_t  number = run->block / s.slices;
        head     a = find(n, s, number / s.H, number % s.H, run->shared);
        la_real  total[SLICE];
        la_range part = la_cut(s.L, SLICE, run->block % s.slices);
        scan(s, a.sums, -1, part, a.dstate_out, total);
        add_to_state_gradient(&a, part, total);
        return;
    }
    const int      only_sums = s.segments > 1 && run->phase == 0;
    const int64_t  number = run->block / s.segments, seg = run->block % s.segments;
    const int64_t  b = number / s.groups, first = number % s.groups * s.group;
    const la_range chunks = la_cut(s.chunks, s.segment, seg);
    work           w;
    carve(s, run->scratch, &w);
    for (int64_t c = chunks.to - 1; c >= chunks.from; c--)
        for (int64_t h = 0; h < s.group; h++) {
            head     a = find(n, s, b, first + h, run->shared);
            int64_t  t = c * s.C, C = la_min(s.C, s.T - t);
            la_real *R = w.R + h * s.L, *sum = plus(a.sums, seg * s.L);
            if (c == chunks.to - 1)
                copy_or_zero(s.L, only_sums ? NULL : s.segments > 1 ? sum : a.dstate_out, R);
            load_queries(n, s, &a, &w, t, C);
            load_gradient(s, &a, &w, t, C);
            if (!only_sums) {
                load_keys(n, s, &a, &w, t, C);
                load_weights(s, &w, C);
                chunk_backward(n, s, &a, &w, t, C, a.S + c * s.L, R);
            }
            add_queries(s, &w, C, R);
            if (c > chunks.from) continue;
            if (only_sums) memcpy(sum, R, (size_t)s.L * sizeof *R);
            if (s.segments == 1) add_to_state_gradient(&a, (la_range){0, s.L}, R);
        }
}

/* The recurrence, token by token, as in the first formula. */
static void reference(const la_node *n) {
    dims s = get(n);
    for (int64_t number = 0; number < s.B * s.H; number++) {
        head    a = find(n, s, number / s.H, number % s.H, NULL);
        la_real q[s.m], k[s.m], S[s.L], *z = S + s.m * s.E;
        copy_or_zero(s.L, a.state, S);
        for (int64_t t = 0; t < s.T; t++) {
            map_rows(n, s, 1, a.q + t * a.ldq, a.ldq, q);
            map_rows(n, s, 1, a.k + t * a.ldk, a.ldk, k);
            la_real *o = a.o + t * a.ldo, D = R(s.eps);
            for (int64_t j = 0; j < s.E; j++) o[j] = 0;
            for (int64_t i = 0; i < s.m; i++) {
                for (int64_t j = 0; j < s.E; j++) {
                    S[i * s.E + j] += k[i] * a.v[t * a.ldv + j];
                    o[j] += q[i] * S[i * s.E + j];
                }
                z[i] += k[i];
                D += q[i] * z[i];
            }
            for (int64_t j = 0; j < s.E; j++) o[j] *= inverse(D);
        }
        if (a.state_out) copy_or_zero(s.L, S, a.state_out);
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
