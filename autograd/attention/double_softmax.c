/* double-softmax: DERIVATION */
#include "autograd/attention/attention.h"
#include "autograd/kernel.h"
#include "tensor/blas.h"

enum {
    CHUNK = 32,
    GROUP = 512,       /* features of a block, at most: scratch stays in the L2                 */
    BLOCKS = 2,        /* of whole sequences, at least, when heads share a block                */
    FEW_HEADS = 8,     /* with fewer the sequence is cut as well                                */
    SEGMENTS = 16,     /* of all sequences together, about, if they are cut                     */
    SEGMENT_LEAST = 8, /* chunks                                                                */
    SLICE = 16,        /* features of a state that a block of the scan takes                    */
};
static const la_real SPREAD = 30; /* exp(30) = 1e13: far from overflow, and from 0 when inverted */
static const la_real NOTHING =
    R(-1e30); /* z before the first token: exp(NOTHING - c) is 0, also in float */

typedef struct dims {
    int64_t B, T, H, D, E, C, chunks;
    int64_t L;                        /* D (E + 2): S, Z, c or R, rho, keep of a head           */
    int64_t group, groups, W;         /* heads of a block; blocks beside each other; group D    */
    int64_t segment, segments;        /* chunks of a block; blocks after each other             */
    int64_t slices;                   /* blocks of a state in the scan                          */
} dims;

static int64_t heads_of_a_block(dims s) {
    int64_t group = s.H;
    while (group > 1 && (s.H % group || group * la_max(s.D, s.E) > GROUP ||
                         (s.segments == 1 && s.B * (s.H / group) < BLOCKS)))
        group--;
    return group;
}

static dims get(const la_node *n) {
    la_shape q = n->in[0]->shape;
    dims     s = {.B = q.d[0], .T = q.d[1], .H = q.d[2], .D = q.d[3], .E = n->in[2]->shape.d[3]};
    s.L = s.D * (s.E + 2);
    s.C = la_attn_chunk(n, CHUNK);
    s.chunks = la_ceil_div(s.T, s.C);
    s.segment = s.chunks;
    if (s.B * s.H < FEW_HEADS)
        s.segment = la_max(SEGMENT_LEAST, la_ceil_div(s.chunks * s.B, SEGMENTS));
    s.segments = la_ceil_div(s.chunks, s.segment);
    s.group = heads_of_a_block(s);
    s.groups = s.H / s.group;
    s.W = s.group * s.D;
    s.slices = la_ceil_div(s.D, SLICE);
    return s;
}

static int64_t state_len(const la_attn *a, int64_t D, int64_t E, int64_t capacity) {
    (void)a;
    (void)capacity;
    return D * (E + 1);
}

static void state_start(int64_t D, int64_t E, la_real *state) {
    for (int64_t f = 0; f < D; f++) state[D * E + f] = NOTHING;
}

/* One thread's scratch: the rows of a chunk for all heads of the block, and the matrices of one
 * head at a time.  T marks a transpose. */
typedef struct work {
    la_real *A, *B, *Z, *dA, *dB;  /* (C,W); dA becomes the gradient at Z                        */
    la_real *BT, *P, *dP, *VT;     /* (D,C) (C,C) (C,C) (E,C)                                    */
    la_real *XT, *X;               /* (E,D): S' and then R'; (D,E): S at a later run             */
    la_real *S, *R;                /* (group,D,E) each                                           */
    la_real *c, *Z0, *rho, *keep;  /* (W) each                                                   */
    la_real *start;                /* (group,C+2): first row of each run, and at the end C       */
    la_real *decay;                /* (C+1,W): row r, what run r > 0 does to the state           */
    la_real *spare;                /* (W)                                                        */
} work;

static size_t carve(dims s, la_real *at, work *w) {
    const int64_t rows = s.C * s.W, states = s.W * s.E;
    const la_part parts[] = {
        {&w->A, rows},        {&w->B, rows},       {&w->Z, rows},         {&w->dA, rows},
        {&w->dB, rows},       {&w->BT, s.D * s.C}, {&w->P, s.C * s.C},    {&w->dP, s.C * s.C},
        {&w->VT, s.E * s.C},  {&w->XT, s.E * s.D}, {&w->X, s.D * s.E},    {&w->S, states},
        {&w->R, states},      {&w->c, s.W},        {&w->Z0, s.W},         {&w->rho, s.W},
        {&w->keep, s.W},      {&w->spare, s.W},    {&w->start, s.group * (s.C + 2)},
        {&w->decay, rows + s.W},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
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

/* The heads of a block: where their first rows begin, how far apart a token's rows are, and what
 * one of them has for itself, `number` being its place in (B,H). */
typedef struct heads {
    const la_real *q, *k, *v, *g;
    la_real       *o, *dq, *dk, *dv; /* gradients: NULL if nobody needs them                    */
    int64_t        ldq, ldk, ldv, ldo, number;
    const la_real *state, *dstate_out; /* (B,H,D(E+1)); NULL without                            */
    la_real       *state_out, *dstate; /* (B,H,D(E+1)); NULL without                            */
    la_real       *saved, *ends;       /* (B,H,chunks,L) (B,H,segments,D): Z; NULL: not kept    */
    la_real       *sums, *dZ;          /* (B,H,segments,L) (B,T,H,D), if there are several      */
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
        int64_t at = a.number * s.D * (s.E + 1);
        a.state = n->in[3]->x + at, a.dstate = plus(n->in[3]->g, at);
        a.state_out = n->out[1]->x + at, a.dstate_out = plus(n->out[1]->g, at);
    }
    a.saved = plus(n->saved, a.number * s.chunks * s.L);
    a.ends = plus(n->saved, s.B * s.H * s.chunks * s.L + a.number * s.segments * s.D);
    a.sums = plus(common, a.number * s.segments * s.L);
    a.dZ = plus(common, s.B * s.H * s.segments * s.L + (b * s.T * s.H + h) * s.D);
    return a;
}

/* X (F,E), a row for each feature, times `by`. */
static void scale_rows(dims s, int64_t F, const la_real *by, la_real *X) {
    for (int64_t f = 0; f < F; f++, X += s.E)
        if (by[f] != 1) la_vec_table()->scale(s.E, by[f], X, X);
}

/* The pivot to where a key is above it, and the factors that this puts on S and Z. */
static void move_pivot(dims s, const la_real *k, la_real *c, la_real *decay) {
    for (int64_t f = 0; f < s.D; f++) {
        la_real top = k[f] > c[f] ? k[f] : c[f];
        decay[f] = c[f] - top;
        c[f] = top;
    }
    la_vec_table()->exp_minus(s.D, 0, decay, decay);
}

static int far_above(dims s, const la_real *k, const la_real *c) {
    la_real most = k[0] - c[0];
    for (int64_t f = 0; f < s.D; f++) most = k[f] - c[f] > most ? k[f] - c[f] : most;
    return most > SPREAD;
}

/* The runs of a head in the chunk at token t: B, Z, the moves of the pivot. */
static void cut(dims s, const heads *a, work *w, int64_t h, int64_t t, int64_t C) {
    const la_vec  *vec = la_vec_table();
    const int64_t  at = h * s.D;
    const la_real *k = a->k + t * a->ldk + at, *before = w->Z0 + at;
    la_real       *start = w->start + h * (s.C + 2), *c = w->c + at;
    for (int64_t i = 0, j = 0, r = 0; i < C; i = j) {
        while (j < C && !far_above(s, k + j * a->ldk, c)) j++;
        vec->exp_scan(j - i, s.D, k + i * a->ldk, a->ldk, c, before, w->B + i * s.W + at,
                      w->Z + i * s.W + at, s.W);
        start[++r] = R(j);
        if (j == C) break;
        la_real *decay = w->decay + r * s.W + at;
        move_pivot(s, k + j * a->ldk, c, decay);
        memcpy(w->spare, j ? w->Z + (j - 1) * s.W + at : before, (size_t)s.D * sizeof *c);
        vec->mul(s.D, decay, w->spare);
        before = w->spare;
    }
}

/* B, Z and runs of the chunk at token t.  `next` tokens on (or back, below 0) are rows that are
 * needed soon: a token's heads are a part of its row only, and the processor does not see the
 * pattern. */
static void load_keys(dims s, const heads *a, work *w, int64_t t, int64_t C, int64_t next) {
    for (int64_t i = 0; i < C; i++) {
        la_prefetch(s.W, a->k + (t + i + next) * a->ldk);
        la_prefetch(s.group * s.E, a->v + (t + i + next) * a->ldv);
    }
    la_real most = la_vec_table()->exp_scan(C, s.W, a->k + t * a->ldk, a->ldk, w->c, w->Z0, w->B,
                                            w->Z, s.W);
    for (int64_t h = 0; h < s.group; h++) {
        la_real *start = w->start + h * (s.C + 2);
        start[0] = 0;
        start[1] = R(C);
        if (most > SPREAD) cut(s, a, w, h, t, C);
    }
}

static void load_queries(dims s, const heads *a, work *w, int64_t t, int64_t C, int64_t next) {
    for (int64_t i = 0; i < C; i++) {
        la_prefetch(s.W, a->q + (t + i + next) * a->ldq);
        la_prefetch(s.group * s.E, a->o + (t + i + next) * a->ldo);
        la_vec_table()->softmax_over(s.group, s.D, a->q + (t + i) * a->ldq, w->Z + i * s.W,
                                     w->A + i * s.W);
    }
}

/* Run r of head h: where its rows are. */
typedef struct run_rows {
    int64_t        i, n;       /* first row in the chunk, number of rows                        */
    const la_real *A, *B;      /* (n,D), ld W                                                   */
    const la_real *v, *g;      /* (n,E), ldv and ldo                                            */
    const la_real *decay;      /* (D)                                                           */
} run_rows;

static run_rows find_run(dims s, const heads *a, const work *w, int64_t h, int64_t t, int64_t r) {
    const la_real *start = w->start + h * (s.C + 2) + r;
    int64_t        i = (int64_t)start[0], row = i * s.W + h * s.D;
    return (run_rows){.i = i,
                      .n = (int64_t)start[1] - i,
                      .A = w->A + row,
                      .B = w->B + row,
                      .v = a->v + (t + i) * a->ldv + h * s.E,
                      .g = a->g ? a->g + (t + i) * a->ldo + h * s.E : NULL,
                      .decay = w->decay + r * s.W + h * s.D};
}

static int64_t count_runs(dims s, const work *w, int64_t h, int64_t C) {
    const la_real *start = w->start + h * (s.C + 2);
    int64_t        r = 1;
    while (start[r] < R(C)) r++;
    return r;
}

/* P = (A B') o M */
static void load_weights(dims s, work *w, const run_rows *x) {
    la_transpose(x->n, s.D, x->B, s.W, w->BT);
    la_gemm_nn(LA_SET | LA_C_LOWER, x->n, x->n, s.D, x->A, s.W, w->BT, x->n, w->P, x->n);
    la_keep_lower(x->n, w->P);
}

/* S += B' V */
static void add_keys(dims s, const heads *a, const run_rows *x, la_real *S) {
    la_gemm_tn(LA_ADD, s.D, s.E, x->n, x->B, s.W, x->v, a->ldv, S, s.E);
}

/* o of head h for the chunk at token t, unless only the sums are wanted; and S after it. */
static void chunk_forward(dims s, const heads *a, work *w, int64_t h, int64_t t, int64_t C,
                          int only_sums) {
    la_real *S = w->S + h * s.D * s.E;
    for (int64_t r = 0, runs = count_runs(s, w, h, C); r < runs; r++) {
        run_rows x = find_run(s, a, w, h, t, r);
        if (r) scale_rows(s, s.D, x.decay, S);
        if (!only_sums) {
            la_real *o = a->o + (t + x.i) * a->ldo + h * s.E;
            load_weights(s, w, &x);
            la_gemm_nn(LA_SET, x.n, s.E, s.D, x.A, s.W, S, s.E, o, a->ldo);
            la_gemm_nn(LA_ADD | LA_A_LOWER, x.n, s.E, x.n, w->P, x.n, x.v, a->ldv, o, a->ldo);
        }
        add_keys(s, a, &x, S);
    }
}

/* dP of each run of head h and, if it is wanted, dA; S before the chunk. */
static void walk_up(dims s, const heads *a, work *w, int64_t h, int64_t t, int64_t runs,
                    const la_real *S, int want_dA) {
    run_rows x = {0};
    for (int64_t r = 0; r < runs; r++) {
        if (r == 1) S = memcpy(w->X, S, (size_t)(s.D * s.E) * sizeof *S);
        if (r) add_keys(s, a, &x, w->X);
        x = find_run(s, a, w, h, t, r);
        if (r) scale_rows(s, s.D, x.decay, w->X);
        la_real *dP = w->dP + x.i * s.C, *dA = w->dA + x.i * s.W + h * s.D;
        la_transpose(x.n, s.E, x.v, a->ldv, w->VT);
        la_gemm_nn(LA_SET | LA_C_LOWER, x.n, x.n, s.E, x.g, a->ldo, w->VT, x.n, dP, x.n);
        la_keep_lower(x.n, dP);
        if (!want_dA) continue;
        la_transpose(s.D, s.E, S, s.E, w->XT);
        la_gemm_nn(LA_SET, x.n, s.D, s.E, x.g, a->ldo, w->XT, s.D, dA, s.W);
        la_gemm_nn(LA_ADD | LA_A_LOWER, x.n, s.D, x.n, dP, x.n, x.B, s.W, dA, s.W);
    }
}

/* R before the chunk from R after it and, unless only that is wanted, dB and dv. */
static void walk_down(dims s, const heads *a, work *w, int64_t h, int64_t t, int64_t runs,
                      int only_sums, unsigned first) {
    la_real *R = w->R + h * s.D * s.E;
    for (int64_t r = runs - 1; r >= 0; r--) {
        run_rows       x = find_run(s, a, w, h, t, r);
        const la_real *dP = w->dP + x.i * s.C;
        if (a->dk && !only_sums) {
            la_real *dB = w->dB + x.i * s.W + h * s.D;
            la_transpose(s.D, s.E, R, s.E, w->XT);
            la_gemm_nn(LA_SET, x.n, s.D, s.E, x.v, a->ldv, w->XT, s.D, dB, s.W);
            la_gemm_tn(LA_ADD | LA_A_UPPER, x.n, s.D, x.n, dP, x.n, x.A, s.W, dB, s.W);
        }
        if (a->dv && !only_sums) {
            la_real *dv = a->dv + (t + x.i) * a->ldv + h * s.E;
            load_weights(s, w, &x);
            la_gemm_nn(first & LA_SETS_IN(2) ? LA_SET : LA_ADD, x.n, s.E, s.D, x.B, s.W, R, s.E, dv,
                       a->ldv);
            la_gemm_tn(LA_ADD | LA_A_UPPER, x.n, s.E, x.n, w->P, x.n, x.g, a->ldo, dv, a->ldv);
        }
        la_gemm_tn(LA_ADD, s.D, s.E, x.n, x.A, s.W, x.g, a->ldo, R, s.E);
        if (r) scale_rows(s, s.D, x.decay, R);
    }
}

/* dq, and dA becomes the gradient at Z: steps 2 and 5. */
static void store_dq(dims s, const heads *a, work *w, int64_t t, int64_t C, la_real *dZ, int64_t ld,
                     unsigned first) {
    for (int64_t i = 0; i < C; i++) {
        la_real *dq = a->dq ? a->dq + (t + i) * a->ldq : w->spare;
        if (a->dq) la_prefetch(s.W, dq - s.C * a->ldq);
        if (!a->dq || first & LA_SETS_IN(0)) memset(dq, 0, (size_t)s.W * sizeof *dq);
        la_vec_table()->softmax_over_backward(s.group, s.D, w->A + i * s.W, w->Z + i * s.W,
                                              w->dA + i * s.W, dZ + i * ld, dq);
    }
}

/* rho before the chunk of head h and, if it is wanted, dk: steps 3 and 4. */
static void store_dk(dims s, const heads *a, work *w, int64_t h, int64_t t, int64_t runs,
                     const la_real *dZ, int64_t ld, int only_sums) {
    const la_vec *vec = la_vec_table();
    const int64_t at = h * s.D;
    for (int64_t r = runs - 1; r >= 0; r--) {
        run_rows x = find_run(s, a, w, h, t, r);
        if (a->dk && !only_sums)
            vec->exp_scan_backward(x.n, s.D, x.B, w->dB + x.i * s.W + at, s.W, dZ + x.i * ld + at,
                                   ld, w->rho + at, a->dk + (t + x.i) * a->ldk + at, a->ldk);
        else
            vec->add_rows(x.n, s.D, dZ + (x.i + x.n - 1) * ld + at, -ld, NULL, 0, w->rho + at);
        if (r) vec->mul(s.D, x.decay, w->rho + at);
        if (r) vec->mul(s.D, x.decay, w->keep + at);
    }
}

/* States at the edge of a text, features [f, f + F) of one head: what goes out is C and z. */
static void load_state(dims s, int64_t f, int64_t F, const la_real *state, la_real *S, la_real *Z,
                       la_real *c) {
    for (int64_t i = 0; i < F; i++) {
        Z[i] = 1;
        c[i] = state ? state[s.D * s.E + f + i] : NOTHING;
        for (int64_t j = 0; j < s.E; j++) S[i * s.E + j] = state ? state[(f + i) * s.E + j] : 0;
    }
}

static void store_state(dims s, int64_t f, int64_t F, const la_real *S, const la_real *Z,
                        const la_real *c, la_real *state) {
    for (int64_t i = 0; i < F; i++) {
        la_vec_table()->scale(s.E, 1 / Z[i], S + i * s.E, state + (f + i) * s.E);
        state[s.D * s.E + f + i] = c[i] + log(Z[i]);
    }
}

/* Step 6, the end: R and rho from the gradient at the state that goes out; and the start. */
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

/* Phase 1, of both passes: some features of one head's states, from segment to segment. */
static void scan_block(const la_node *n, dims s, const la_run *run, int backward) {
    int64_t  number = run->block / s.slices;
    heads    a = find(n, s, number / s.H, number % s.H, run->common);
    la_range part = la_cut(s.D, SLICE, run->block % s.slices);
    int64_t  f = part.from, F = part.to - part.from;
    work     w;
    carve(s, run->scratch, &w);
    if (backward)
        load_dstate(s, f, F, a.state_out, a.dstate_out, w.S, w.Z0);
    else
        load_state(s, f, F, a.state, w.S, w.Z0, w.c);
    for (int64_t i = 0; i < s.segments; i++) {
        la_real *S = a.sums + (backward ? s.segments - 1 - i : i) * s.L, *Z = S + s.D * s.E + f,
                *c = Z + s.D;
        S += f * s.E;
        for (int64_t j = 0; j < F; j++) {
            la_real own_Z = Z[j], old = c[j], add = 1;
            if (!backward) {
                la_real top = c[j] > w.c[j] ? c[j] : w.c[j];
                old = exp(w.c[j] - top), add = exp(c[j] - top);
                c[j] = w.c[j];
                w.c[j] = top;
            }
            Z[j] = w.Z0[j];
            w.Z0[j] = old * w.Z0[j] + add * own_Z;
            for (int64_t e = j * s.E; e < (j + 1) * s.E; e++) {
                la_real own = S[e];
                S[e] = w.S[e];
                w.S[e] = old * w.S[e] + add * own;
            }
        }
    }
    if (backward && a.dstate)
        store_dstate(s, f, F, a.state, w.S, w.Z0, a.dstate);
    else if (!backward && a.state_out)
        store_state(s, f, F, w.S, w.Z0, w.c, a.state_out);
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
    piece   p = {.segment = run->block % s.segments, .only_sums = s.segments > 1 && run->phase == 0};
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
            load_state(s, 0, s.D, p->only_sums ? NULL : plus(p->a.state, h * s.D * (s.E + 1)), S, Z, c);
        move_pivot(s, p->a.k + p->chunks.from * s.C * p->a.ldk + h * s.D, c, w->spare);
        la_vec_table()->mul(s.D, w->spare, Z);
        scale_rows(s, s.D, w->spare, S);
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
        scan_block(n, s, run, 0);
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

/* R and rho where a segment ends, and keep, which then holds what comes of them at its beginning. */
static void first_gradient(dims s, const piece *p, work *w) {
    const int64_t each = s.D * (s.E + 1);
    for (int64_t h = 0; h < s.group; h++) {
        const la_real *Z = p->a.ends + (h * s.segments + p->segment) * s.D;
        la_real *R = w->R + h * s.D * s.E, *rho = w->rho + h * s.D, *keep = w->keep + h * s.D;
        if (s.segments > 1 && !p->only_sums)
            take(s, sums_of(s, p, h), R, rho, keep);
        else
            load_dstate(s, 0, s.D, plus(p->a.state_out, h * each),
                        p->only_sums ? NULL : plus(p->a.dstate_out, h * each), R, rho);
        for (int64_t f = 0; f < s.D; f++) keep[f] = 1 / Z[f];
        la_vec_table()->mul(s.D, keep, rho);
        scale_rows(s, s.D, keep, R);
    }
}

static void last_gradient(dims s, const piece *p, work *w) {
    const int64_t each = s.D * (s.E + 1);
    for (int64_t h = 0; h < s.group; h++) {
        const la_real *Z = saved_of(s, &p->a, h, p->chunks.from) + s.D * s.E;
        la_real *R = w->R + h * s.D * s.E, *rho = w->rho + h * s.D, *keep = w->keep + h * s.D;
        la_vec_table()->mul(s.D, Z, keep);
        la_vec_table()->mul(s.D, Z, rho);
        scale_rows(s, s.D, Z, R);
        if (p->only_sums)
            put(s, R, rho, keep, sums_of(s, p, h));
        else if (s.segments == 1 && p->a.dstate)
            store_dstate(s, 0, s.D, p->a.state + h * each, R, rho, p->a.dstate + h * each);
    }
}

static void backward(const la_node *n, const la_run *run) {
    dims s = get(n);
    if (run->phase == 1) {
        scan_block(n, s, run, 1);
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
            la_prefetch(s.group * s.E, p.a.g + (t + i - s.C) * p.a.ldo);
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

/* The recurrence: C_t = exp(z_{t-1} - z_t) C_{t-1} + exp(k_t - z_t) v_t'. */
static void reference(const la_node *n) {
    dims s = get(n);
    for (int64_t number = 0; number < s.B * s.H; number++) {
        heads   a = find(n, s, number / s.H, number % s.H, NULL);
        la_real q[s.D], C[s.D * s.E], z[s.D], one[s.D];
        load_state(s, 0, s.D, a.state, C, one, z);
        for (int64_t t = 0; t < s.T; t++) {
            la_real *o = a.o + t * a.ldo, total = 0;
            const la_real *k = a.k + t * a.ldk, *v = a.v + t * a.ldv, top = la_vec_table()->max(s.D, a.q + t * a.ldq);
            for (int64_t f = 0; f < s.D; f++) total += q[f] = exp(a.q[t * a.ldq + f] - top);
            for (int64_t j = 0; j < s.E; j++) o[j] = 0;
            for (int64_t f = 0; f < s.D; f++) {
                la_real old = z[f], above = fmax(old, k[f]);
                z[f] = above + log1p(exp(fmin(old, k[f]) - above));
                for (int64_t j = 0; j < s.E; j++) {
                    la_real *x = C + f * s.E + j;
                    *x = exp(old - z[f]) * *x + exp(k[f] - z[f]) * v[j];
                    o[j] += q[f] / total * *x;
                }
            }
        }
        if (a.state_out) store_state(s, 0, s.D, C, one, z, a.state_out);
    }
}

static const la_op op = {
    .name = "double_softmax",
    .formula = "o_t = sum_f softmax_f(q_t) sum_{s<=t} exp(k_sf - z_tf) v_s, z_tf = log sum_{s<=t} "
               "exp(k_sf)",
    .file = "autograd/attention/double_softmax.c",
    .attr_size = sizeof(la_attn_cfg),
    .reads = LA_READS_IN(0) | LA_READS_IN(1) | LA_READS_IN(2) | LA_READS_IN(3) | LA_READS_OUT(1),
    .sets = LA_SETS_IN(0) | LA_SETS_IN(1) | LA_SETS_IN(2),
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
