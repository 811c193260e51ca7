/* causal_exp_linear_chunk.h -- one chunk of causal_exp_linear.c, with the letters of its
 * derivation: rows in, runs, products, gradients out.  Chunks, segments and states follow each
 * other there. */
#ifndef LA_CAUSAL_EXP_LINEAR_CHUNK_H
#define LA_CAUSAL_EXP_LINEAR_CHUNK_H
#include "autograd/attention/attention.h"
#include "autograd/kernel.h"
#include "tensor/blas.h"

enum {
    CHUNK = 32,
    SLICE = 16, /* features of a state that a block of the scan takes */
};
static const la_real SPREAD = 30; /* exp(30) = 1e13: far from overflow, and from 0 when inverted */

typedef struct dims {
    int64_t B, T, H, D, E, C, chunks;
    int64_t L;                 /* D (E + 2): S, Z, c or R, rho, keep of a head           */
    int64_t group, groups, W;  /* heads of a block; blocks beside each other; group D    */
    int64_t segment, segments; /* chunks of a block; blocks after each other             */
    int64_t slices;            /* blocks of a state in the scan                          */
} dims;

static dims get(const la_node *n) {
    la_shape q = n->in[0]->shape;
    dims     s = {.B = q.d[0], .T = q.d[1], .H = q.d[2], .D = q.d[3], .E = n->in[2]->shape.d[3]};
    s.L = s.D * (s.E + 2);
    la_scan c = la_attn_scan(n, CHUNK, la_max(s.D, s.E), s.L);
    s.C = c.chunk, s.chunks = c.chunks, s.group = c.group, s.groups = c.groups;
    s.segment = c.segment, s.segments = c.segments;
    s.W = s.group * s.D;
    s.slices = la_ceil_div(s.D, SLICE);
    return s;
}

/* One thread's scratch: the rows of a chunk for all heads of the block, and the matrices of one
 * head at a time.  T marks a transpose. */
typedef struct work {
    la_real *A, *B, *Z, *dA, *dB; /* (C,W); dA becomes the gradient at Z                        */
    la_real *BT, *P, *dP, *VT;    /* (D,C) (C,C) (C,C) (E,C)                                    */
    la_real *XT, *X, *BV;         /* (E,D): S' and then R'; (D,E): S at a later run; (D,E)      */
    la_real *S, *R;               /* (group,D,E) each                                           */
    la_real *c, *Z0, *rho, *keep; /* (W) each                                                   */
    la_real *start;               /* (group,C+2): first row of each run, and at the end C       */
    la_real *decay;               /* (C+1,W): row r, what run r > 0 does to the state           */
    la_real *spare;               /* (W)                                                        */
} work;

static size_t carve(dims s, la_real *at, work *w) {
    const int64_t rows = s.C * s.W, states = s.W * s.E;
    const la_part parts[] = {
        {&w->A, rows},
        {&w->B, rows},
        {&w->Z, rows},
        {&w->dA, rows},
        {&w->dB, rows},
        {&w->BT, s.D * s.C},
        {&w->P, s.C * s.C},
        {&w->dP, s.C * s.C},
        {&w->VT, s.E * s.C},
        {&w->XT, s.E * s.D},
        {&w->X, s.D * s.E},
        {&w->BV, s.D * s.E},
        {&w->S, states},
        {&w->R, states},
        {&w->c, s.W},
        {&w->Z0, s.W},
        {&w->rho, s.W},
        {&w->keep, s.W},
        {&w->spare, s.W},
        {&w->start, s.group * (s.C + 2)},
        {&w->decay, rows + s.W},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
}

/* The heads of a block: where their first rows begin, how far apart a token's rows are, and what
 * the first of them has for itself. */
typedef struct heads {
    const la_real *q, *k, *v, *g;
    la_real       *o, *dq, *dk, *dv; /* gradients: NULL if nobody needs them                    */
    int64_t        ldq, ldk, ldv, ldo;
    la_real       *state, *dstate_out; /* (D(E+1)) of the first head; NULL without              */
    la_real       *state_out, *dstate; /* the same                                              */
    la_real       *saved, *ends;       /* (chunks,L) (segments,D): Z, of the first head, or NULL */
    la_real       *sums, *dZ;          /* (segments,L) (T,H,D), if there are several segments   */
} heads;

static heads find(const la_node *n, dims s, int64_t b, int64_t h, la_real *common) {
    const la_node *q = n->in[0], *k = n->in[1], *v = n->in[2];
    heads          a = {.ldq = q->ld, .ldk = k->ld, .ldv = v->ld, .ldo = n->ld};
    const int64_t  number = b * s.H + h;
    a.q = q->x + la_token(q, b, 0, h), a.dq = la_plus(q->g, la_token(q, b, 0, h));
    a.k = k->x + la_token(k, b, 0, h), a.dk = la_plus(k->g, la_token(k, b, 0, h));
    a.v = v->x + la_token(v, b, 0, h), a.dv = la_plus(v->g, la_token(v, b, 0, h));
    a.o = n->x + la_token(n, b, 0, h), a.g = la_plus(n->g, la_token(n, b, 0, h));
    if (n->n_out == 2) {
        const la_node *state = la_attn_at(n, LA_AT_STATE);
        int64_t        at = number * s.D * (s.E + 1);
        a.state = state->x + at, a.dstate = la_plus(state->g, at);
        a.state_out = n->out[1]->x + at, a.dstate_out = la_plus(n->out[1]->g, at);
    }
    a.saved = la_plus(n->saved, number * s.chunks * s.L);
    a.ends = la_plus(n->saved, s.B * s.H * s.chunks * s.L + number * s.segments * s.D);
    a.sums = la_plus(common, number * s.segments * s.L);
    a.dZ = la_plus(common, s.B * s.H * s.segments * s.L + (b * s.T * s.H + h) * s.D);
    return a;
}

/* X (D,E), a row for each feature, times `by`. */
static void scale_rows(dims s, const la_real *by, la_real *X) {
    for (int64_t f = 0; f < s.D; f++, X += s.E)
        if (by[f] != 1) la_vec_table()->scale(s.E, by[f], X, X);
}

/* The pivot to max(c, k), and the factors that this puts on S and Z. */
static void move_pivot(dims s, const la_real *k, la_real *c, la_real *decay) {
    for (int64_t f = 0; f < s.D; f++) {
        la_real top = k[f] > c[f] ? k[f] : c[f];
        decay[f] = c[f] - top;
        c[f] = top;
    }
    la_vec_table()->exp_minus(s.D, 0, decay, decay);
}

/* The same differences, to the bit, as in exp_scan(): a chunk that this would cut is always found
 * to need it, whatever is in its other rows. */
static int far_above(dims s, const la_real *k, const la_real *c) {
    int far = 0;
    for (int64_t f = 0; f < s.D; f++) far |= k[f] - c[f] > SPREAD;
    return far;
}

/* The runs of head h in the chunk at token t: B, Z and the moves of the pivot.  The first is empty
 * if the pivot moves before the first token. */
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
        la_prefetch(s.W, a->k, (t + i + next) * a->ldk);
        la_prefetch(s.group * s.E, a->v, (t + i + next) * a->ldv);
    }
    la_real most =
        la_vec_table()->exp_scan(C, s.W, a->k + t * a->ldk, a->ldk, w->c, w->Z0, w->B, w->Z, s.W);
    for (int64_t h = 0; h < s.group; h++) {
        la_real *start = w->start + h * (s.C + 2);
        start[0] = 0;
        start[1] = R(C);
        if (most > SPREAD) cut(s, a, w, h, t, C);
    }
}

static void load_queries(dims s, const heads *a, work *w, int64_t t, int64_t C, int64_t next) {
    for (int64_t i = 0; i < C; i++) {
        la_prefetch(s.W, a->q, (t + i + next) * a->ldq);
        if (next > 0) la_prefetch(s.group * s.E, a->o, (t + i + next) * a->ldo); /* forward */
        la_vec_table()->softmax_over(s.group, s.D, a->q + (t + i) * a->ldq, w->Z + i * s.W,
                                     w->A + i * s.W);
    }
}

/* Run r of head h: where its rows are. */
typedef struct run_rows {
    int64_t        i, n;  /* first row in the chunk, number of rows                             */
    const la_real *A, *B; /* (n,D), ld W                                                        */
    const la_real *v, *g; /* (n,E), ldv and ldo; g NULL without a backward                      */
    const la_real *decay; /* (D), if r > 0                                                      */
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

/* S += B' V, the sum first, as in Z: see vec_exp_scan(). */
static void add_keys(dims s, const heads *a, work *w, const run_rows *x, la_real *S) {
    la_gemm_tn(LA_SET, s.D, s.E, x->n, x->B, s.W, x->v, a->ldv, w->BV, s.E);
    la_vec_table()->axpy(s.D * s.E, 1, w->BV, S);
}

/* o of head h for the chunk at token t, unless only the sums are wanted; and S after it. */
static void chunk_forward(dims s, const heads *a, work *w, int64_t h, int64_t t, int64_t C,
                          int only_sums) {
    la_real *S = w->S + h * s.D * s.E;
    for (int64_t r = 0, runs = count_runs(s, w, h, C); r < runs; r++) {
        run_rows x = find_run(s, a, w, h, t, r);
        if (r) scale_rows(s, x.decay, S);
        if (!only_sums) {
            la_real *o = a->o + (t + x.i) * a->ldo + h * s.E;
            load_weights(s, w, &x);
            la_gemm_nn(LA_SET, x.n, s.E, s.D, x.A, s.W, S, s.E, o, a->ldo);
            la_gemm_nn(LA_ADD | LA_A_LOWER, x.n, s.E, x.n, w->P, x.n, x.v, a->ldv, o, a->ldo);
        }
        add_keys(s, a, w, &x, S);
    }
}

/* dP of each run of head h and, if it is wanted, dA; S before the chunk. */
static void walk_up(dims s, const heads *a, work *w, int64_t h, int64_t t, int64_t runs,
                    const la_real *S, int want_dA) {
    run_rows x = {0};
    for (int64_t r = 0; r < runs; r++) {
        if (r == 1) S = memcpy(w->X, S, (size_t)(s.D * s.E) * sizeof *S);
        if (r) add_keys(s, a, w, &x, w->X);
        x = find_run(s, a, w, h, t, r);
        if (r) scale_rows(s, x.decay, w->X);
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
        if (r) scale_rows(s, x.decay, R);
    }
}

/* dq and dZ, which may be where dA is: steps 2 and 5. */
static void store_dq(dims s, const heads *a, work *w, int64_t t, int64_t C, la_real *dZ, int64_t ld,
                     unsigned first) {
    for (int64_t i = 0; i < C; i++) {
        la_real *dq = a->dq ? a->dq + (t + i) * a->ldq : w->spare;
        if (a->dq) la_prefetch(s.W, dq, -s.C * a->ldq);
        if (!a->dq || first & LA_SETS_IN(0)) memset(dq, 0, (size_t)s.W * sizeof *dq);
        la_vec_table()->softmax_over_backward(s.group, s.D, w->A + i * s.W, w->Z + i * s.W,
                                              w->dA + i * s.W, dZ + i * ld, dq);
    }
}

/* rho and keep before the chunk of head h and, unless only they are wanted, dk: steps 3 and 4.
 * Whether dk is computed or not, dZ adds up from the last row, to the same bits. */
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
#endif
