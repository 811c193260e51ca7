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
#include "autograd/attention/attention.h"
#include "autograd/kernel.h"
#include "tensor/blas.h"

enum {
    CHUNK = 32,
    GROUP = 512,       /* reals of a token's row in a block, at most: scratch stays in the L2   */
    BLOCKS = 2,        /* of whole sequences, at least, when heads share a block                */
    LITTLE = 1 << 17,  /* work (T L of all heads) that is not worth a second block: decoding    */
    FEW_HEADS = 8,     /* with fewer the sequence is cut as well                                */
    SEGMENTS = 16,     /* of all sequences together, about, if they are cut                     */
    SEGMENT_LEAST = 8, /* chunks                                                                */
    SLICE = 1024,      /* reals of a state whose running sums a block takes                     */
};

typedef struct dims {
    int64_t B, T, H, D, E, m, L, C, chunks; /* L = m (E+1), one state                           */
    int64_t group, groups;                  /* heads of a block; blocks beside each other       */
    int64_t segment, segments;              /* chunks of a block; blocks after each other       */
    int64_t slices;                         /* blocks of a state in the scan                    */
    double  eps;
} dims;

static const la_map *map_of(const la_node *n) {
    const la_attn *a = ((const la_attn_cfg *)n->attr)->variant;
    return a ? a->map : NULL;
}

static int64_t heads_of_a_block(dims s) {
    int64_t group = s.H;
    int     one_will_do = s.segments > 1 || s.B * s.T * s.H * s.L < LITTLE;
    while (group > 1 && (s.H % group || group * la_max(s.m, s.E) > GROUP ||
                         (!one_will_do && s.B * (s.H / group) < BLOCKS)))
        group--;
    return group;
}

static dims get(const la_node *n) {
    la_shape q = n->in[0]->shape;
    dims     s = {.B = q.d[0], .T = q.d[1], .H = q.d[2], .D = q.d[3], .E = n->in[2]->shape.d[3]};
    s.m = map_of(n) ? map_of(n)->width(s.D) : s.D;
    s.L = s.m * (s.E + 1);
    s.C = la_attn_chunk(n, CHUNK);
    s.chunks = la_ceil_div(s.T, s.C);
    s.eps = ((const la_attn_cfg *)n->attr)->eps;
    s.segment = s.chunks;
    if (s.B * s.H < FEW_HEADS)
        s.segment = la_max(SEGMENT_LEAST, la_ceil_div(s.chunks * s.B, SEGMENTS));
    s.segments = la_ceil_div(s.chunks, s.segment);
    s.group = heads_of_a_block(s);
    s.groups = s.H / s.group;
    s.slices = la_ceil_div(s.L, SLICE);
    return s;
}

/* One thread's scratch: the rows of a chunk for all heads of the block, and the matrices of one
 * head at a time.  T marks a transpose. */
typedef struct work {
    la_real *A, *B, *dA, *dB;  /* (C,group,m)                          */
    la_real *U, *w;            /* (C,group,E) (C,group)                */
    la_real *BT, *P, *dP, *VT; /* (m,C) (C,C) (C,C) (E,C)              */
    la_real *XT;               /* (E,m): S' and then R'                */
    la_real *S, *R;            /* (group,L) (group,L)                  */
} work;

static size_t carve(dims s, la_real *at, work *w) {
    const la_part parts[] = {
        {&w->A, s.C * s.group * s.m},  {&w->B, s.C * s.group * s.m}, {&w->dA, s.C * s.group * s.m},
        {&w->dB, s.C * s.group * s.m}, {&w->U, s.C * s.group * s.E}, {&w->w, s.C * s.group},
        {&w->BT, s.m * s.C},           {&w->P, s.C * s.C},           {&w->dP, s.C * s.C},
        {&w->VT, s.E * s.C},           {&w->XT, s.E * s.m},          {&w->S, s.group * s.L},
        {&w->R, s.group * s.L},
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
    p->n_common = (size_t)(s.B * s.H * s.segments * s.L);
    p->forward_blocks[1] = p->backward_blocks[1] = s.B * s.H * s.slices;
    p->forward_blocks[2] = p->backward_blocks[2] = p->forward_blocks[0];
    return LA_OK;
}

/* The heads of a block: where their first rows begin, how far apart a token's rows are, and what
 * one of them has for itself, `number` being its place in (B,H). */
typedef struct heads {
    const la_real *q, *k, *v, *g;
    la_real       *o, *dq, *dk, *dv; /* gradients: NULL if nobody needs them                    */
    int64_t        ldq, ldk, ldv, ldo, number;
    const la_real *state, *dstate_out; /* (B,H,L); NULL without                         */
    la_real       *state_out, *dstate; /* (B,H,L); NULL without                         */
    la_real       *S, *D;              /* (B,H,chunks,L) (B,T,H); NULL: not kept          */
    la_real       *sums;               /* (B,H,segments,L), if there are several        */
} heads;

static la_real *plus(la_real *x, int64_t at) { return x ? x + at : NULL; }

static heads find(const la_node *n, dims s, int64_t b, int64_t h, la_real *common) {
    const la_node *q = n->in[0], *k = n->in[1], *v = n->in[2];
    heads          a = {.ldq = q->ld, .ldk = k->ld, .ldv = v->ld, .ldo = n->ld};
    a.number = b * s.H + h;
    a.q = q->x + la_token(q, b, 0, h), a.dq = plus(q->g, la_token(q, b, 0, h));
    a.k = k->x + la_token(k, b, 0, h), a.dk = plus(k->g, la_token(k, b, 0, h));
    a.v = v->x + la_token(v, b, 0, h), a.dv = plus(v->g, la_token(v, b, 0, h));
    a.o = n->x + la_token(n, b, 0, h), a.g = plus(n->g, la_token(n, b, 0, h));
    if (n->n_out == 2) {
        a.state = n->in[3]->x, a.dstate = n->in[3]->g;
        a.state_out = n->out[1]->x, a.dstate_out = n->out[1]->g;
    }
    a.S = n->saved;
    a.D = plus(n->saved, s.B * s.H * s.chunks * s.L + b * s.T * s.H + h);
    a.sums = common;
    return a;
}

/* S, z of head h of the block before chunk c. */
static la_real *saved_state(dims s, const heads *a, int64_t h, int64_t c) {
    return a->S + ((a->number + h) * s.chunks + c) * s.L;
}

/* y = phi(x) for the rows of a token's heads, one after the other. */
static void map_rows(const la_node *n, dims s, int64_t rows, const la_real *x, la_real *y) {
    const la_map *map = map_of(n);
    if (map)
        map->forward(rows, s.D, s.eps, x, s.D, y);
    else
        memcpy(y, x, (size_t)(rows * s.D) * sizeof *y);
}

static void map_rows_backward(const la_node *n, dims s, int64_t rows, const la_real *x,
                              const la_real *y, const la_real *dy, la_real *dx) {
    const la_map *map = map_of(n);
    if (map)
        map->backward(rows, s.D, s.eps, x, s.D, y, dy, dx, s.D);
    else
        la_vec_table()->axpy(rows * s.D, 1, dy, dx);
}

/* The rows of the chunk at token t, and `next` tokens on (or back, below 0) those that are needed
 * soon: a token's heads are a part of its row only, and the processor does not see the pattern. */
static void load_keys(const la_node *n, dims s, const heads *a, work *w, int64_t t, int64_t C,
                      int64_t next) {
    for (int64_t i = 0; i < C; i++) {
        la_prefetch(s.group * s.D, a->k + (t + i + next) * a->ldk);
        la_prefetch(s.group * s.E, a->v + (t + i + next) * a->ldv);
        map_rows(n, s, s.group, a->k + (t + i) * a->ldk, w->B + i * s.group * s.m);
    }
}

static void load_queries(const la_node *n, dims s, const heads *a, work *w, int64_t t, int64_t C,
                         int64_t next) {
    for (int64_t i = 0; i < C; i++) {
        la_prefetch(s.group * s.D, a->q + (t + i + next) * a->ldq);
        la_prefetch(s.group * s.E, a->o + (t + i + next) * a->ldo);
        map_rows(n, s, s.group, a->q + (t + i) * a->ldq, w->A + i * s.group * s.m);
    }
}

/* P of head h from A and B. */
static void load_weights(dims s, work *w, int64_t h, int64_t C) {
    const int64_t ld = s.group * s.m;
    la_transpose(C, s.m, w->B + h * s.m, ld, w->BT);
    la_gemm_nn(LA_SET | LA_C_LOWER, C, C, s.m, w->A + h * s.m, ld, w->BT, C, w->P, C);
    la_keep_lower(C, w->P);
}

/* S += B' V, z += B' 1 */
static void add_keys(dims s, const heads *a, const work *w, int64_t h, int64_t t, int64_t C,
                     la_real *S) {
    const int64_t  ld = s.group * s.m;
    const la_real *B = w->B + h * s.m, *v = a->v + t * a->ldv + h * s.E;
    la_gemm_tn(LA_ADD, s.m, s.E, C, B, ld, v, a->ldv, S, s.E);
    la_vec_table()->add_rows(C, s.m, B, ld, NULL, 0, S + s.m * s.E);
}

/* R += A' U, r += A' w */
static void add_queries(dims s, const work *w, int64_t h, int64_t C, la_real *R) {
    const int64_t  ld = s.group * s.m;
    const la_real *A = w->A + h * s.m;
    la_gemm_tn(LA_ADD, s.m, s.E, C, A, ld, w->U + h * s.E, s.group * s.E, R, s.E);
    la_vec_table()->add_rows(C, s.m, A, ld, w->w + h, s.group, R + s.m * s.E);
}

/* With eps = 0 and no feature that is not 0, D is 0: the output is 0, as it is with any eps. */
static la_real inverse(la_real D) { return D != 0 ? 1 / D : 0; }

/* o of head h for the chunk at token t, from A, P and the state S, z before it. */
static void chunk_forward(dims s, const heads *a, work *w, int64_t h, int64_t t, int64_t C,
                          const la_real *S) {
    const la_vec  *vec = la_vec_table();
    const int64_t  ld = s.group * s.m;
    const la_real *A = w->A + h * s.m, *z = S + s.m * s.E;
    la_real       *o = a->o + t * a->ldo + h * s.E;
    la_gemm_nn(LA_SET, C, s.E, s.m, A, ld, S, s.E, o, a->ldo);
    la_gemm_nn(LA_ADD | LA_A_LOWER, C, s.E, C, w->P, C, a->v + t * a->ldv + h * s.E, a->ldv, o,
               a->ldo);
    for (int64_t i = 0; i < C; i++) {
        la_real D = vec->dot(s.m, A + i * ld, z) + vec->sum(i + 1, w->P + i * C) + R(s.eps);
        if (a->D) a->D[(t + i) * s.H + h] = D;
        vec->scale(s.E, inverse(D), o + i * a->ldo, o + i * a->ldo);
    }
}

/* U and w of a chunk: step 1. */
static void load_gradient(dims s, const heads *a, work *w, int64_t t, int64_t C) {
    const la_vec *vec = la_vec_table();
    for (int64_t i = 0; i < C; i++) {
        la_prefetch(s.group * s.E, a->g + (t + i - s.C) * a->ldo);
        for (int64_t h = 0; h < s.group; h++) {
            int64_t at = (t + i) * a->ldo + h * s.E;
            la_real r = inverse(a->D[(t + i) * s.H + h]);
            vec->scale(s.E, r, a->g + at, w->U + (i * s.group + h) * s.E);
            w->w[i * s.group + h] = -vec->dot(s.E, a->g + at, a->o + at) * r;
        }
    }
}

/* dA, dB and dv of head h for the chunk at token t, from A, B, P, U, w, the state S, z before it
 * and R, r from after it. */
static void chunk_backward(dims s, const heads *a, work *w, int64_t h, int64_t t, int64_t C,
                           const la_real *S, const la_real *R, int first_dv) {
    const la_vec  *vec = la_vec_table();
    const int64_t  ld = s.group * s.m, ldu = s.group * s.E;
    const la_real *z = S + s.m * s.E, *r = R + s.m * s.E, *v = a->v + t * a->ldv + h * s.E;
    const la_real *A = w->A + h * s.m, *B = w->B + h * s.m, *U = w->U + h * s.E;
    la_real       *dA = w->dA + h * s.m, *dB = w->dB + h * s.m;
    la_transpose(C, s.E, v, a->ldv, w->VT);
    for (int64_t i = 0; i < C; i++)
        for (int64_t j = 0; j < C; j++) w->dP[i * C + j] = w->w[i * s.group + h];
    la_gemm_nn(LA_ADD | LA_C_LOWER, C, C, s.E, U, ldu, w->VT, C, w->dP, C);
    la_keep_lower(C, w->dP);
    if (a->dq) {
        for (int64_t i = 0; i < C; i++) vec->scale(s.m, w->w[i * s.group + h], z, dA + i * ld);
        la_transpose(s.m, s.E, S, s.E, w->XT);
        la_gemm_nn(LA_ADD, C, s.m, s.E, U, ldu, w->XT, s.m, dA, ld);
        la_gemm_nn(LA_ADD | LA_A_LOWER, C, s.m, C, w->dP, C, B, ld, dA, ld);
    }
    if (a->dk) {
        for (int64_t i = 0; i < C; i++) memcpy(dB + i * ld, r, (size_t)s.m * sizeof *r);
        la_transpose(s.m, s.E, R, s.E, w->XT);
        la_gemm_nn(LA_ADD, C, s.m, s.E, v, a->ldv, w->XT, s.m, dB, ld);
        la_gemm_tn(LA_ADD | LA_A_UPPER, C, s.m, C, w->dP, C, A, ld, dB, ld);
    }
    if (a->dv) {
        la_real *dv = a->dv + t * a->ldv + h * s.E;
        la_gemm_nn(first_dv ? LA_SET : LA_ADD, C, s.E, s.m, B, ld, R, s.E, dv, a->ldv);
        la_gemm_tn(LA_ADD | LA_A_UPPER, C, s.E, C, w->P, C, U, ldu, dv, a->ldv);
    }
}

/* dx, the rows of a chunk, from dy; = instead of += if it is the first writer. */
static void store_gradient(const la_node *n, dims s, int64_t C, const la_real *x, int64_t ld,
                           const la_real *y, const la_real *dy, la_real *dx, int first) {
    for (int64_t i = 0; i < C; i++, x += ld, dx += ld, y += s.group * s.m, dy += s.group * s.m) {
        la_prefetch(s.group * s.D, dx - s.C * ld);
        if (first) memset(dx, 0, (size_t)(s.group * s.D) * sizeof *dx);
        map_rows_backward(n, s, s.group, x, y, dy, dx);
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
                if (p.a.S) memcpy(saved_state(s, &p.a, h, c), S, state);
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
            store_gradient(n, s, C, p.a.q + t * p.a.ldq, p.a.ldq, w.A, w.dA, p.a.dq + t * p.a.ldq,
                           la_sets(run, 0));
        if (!p.only_sums && p.a.dk)
            store_gradient(n, s, C, p.a.k + t * p.a.ldk, p.a.ldk, w.B, w.dB, p.a.dk + t * p.a.ldk,
                           la_sets(run, 1));
    }
    for (int64_t h = 0; h < s.group; h++) {
        const la_real *R = w.R + h * s.L;
        if (p.only_sums)
            memcpy(sums_of(s, &p, h), R, (size_t)s.L * sizeof *R);
        else if (s.segments == 1 && p.a.dstate)
            la_vec_table()->axpy(s.L, 1, R, p.a.dstate + (p.a.number + h) * s.L);
    }
}

/* The recurrence, token by token, as in the first formula. */
static void reference(const la_node *n) {
    dims s = get(n);
    for (int64_t number = 0; number < s.B * s.H; number++) {
        heads   a = find(n, s, number / s.H, number % s.H, NULL);
        la_real q[s.m], k[s.m], S[s.L], *z = S + s.m * s.E;
        copy_or_zero(s.L, a.state ? a.state + number * s.L : NULL, S);
        for (int64_t t = 0; t < s.T; t++) {
            map_rows(n, s, 1, a.q + t * a.ldq, q);
            map_rows(n, s, 1, a.k + t * a.ldk, k);
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
        if (a.state_out) copy_or_zero(s.L, S, a.state_out + number * s.L);
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
    .sets = LA_SETS_IN(0) | LA_SETS_IN(1) | LA_SETS_IN(2),
    .strided = 1,
    .cases = cases,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};
