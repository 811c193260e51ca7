/* causal_linear_chunk.h -- one chunk of causal_linear, in the letters of its derivation.  Included
 * by causal_linear.c alone. */
#ifndef LA_CAUSAL_LINEAR_CHUNK_H
#define LA_CAUSAL_LINEAR_CHUNK_H
#include "autograd/ops/kernel_linear_chunk.h"

static inline size_t carve(dims s, la_real *at, work *w) {
    const int64_t faded = s.decay ? s.C * s.m : 0, table = s.decay ? s.group * (s.C + 1) : 0;
    const int64_t logs = s.log_q ? s.group * s.m : 0;
    const la_part parts[] = {
        {&w->A, s.C * s.group * s.m},
        {&w->B, s.C * s.group * s.m},
        {&w->dA, s.C * s.group * s.m},
        {&w->dB, s.C * s.group * s.m},
        {&w->U, s.C * s.group * s.E},
        {&w->w, s.C * s.group},
        {&w->BT, s.m * s.C},
        {&w->P, s.C * s.C},
        {&w->dP, s.C * s.C},
        {&w->VT, s.E * s.C},
        {&w->XT, s.E * s.m},
        {&w->S, s.group * s.L},
        {&w->R, s.group * s.L},
        {&w->Af, faded},
        {&w->Bf, faded},
        {&w->up, table},
        {&w->down, table},
        {&w->log, logs},
        {&w->dlog, logs},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
}

/* What is kept: S, z of head h of the block before chunk c; and D (T,H) from its first head on. */
static inline la_real *saved_state(const la_node *n, dims s, const scan_rows *a, int64_t h,
                                   int64_t c) {
    return n->saved + ((a->number + h) * s.chunks + c) * s.L;
}

static inline la_real *saved_normaliser(const la_node *n, dims s, const scan_rows *a) {
    const int64_t b = a->number / s.H, h = a->number % s.H;
    return la_plus(n->saved, s.B * s.H * s.chunks * s.L + b * s.T * s.H + h);
}

/* --- decay --- */
/* log gamma of head h: gamma = 1 / (1 + exp(-logit)) */
static inline double log_gamma(const la_node *n, int64_t h) {
    const double logit = (double)la_attn_at(n, LA_AT_DECAY)->x[h];
    return logit > 0 ? -log1p(exp(-logit)) : logit - log1p(exp(logit));
}

/* The powers of gamma for the heads of a block. */
static inline void load_powers(const la_node *n, dims s, const scan_rows *a, work *w) {
    for (int64_t h = 0; s.decay && h < s.group; h++) {
        const double l = log_gamma(n, a->number % s.H + h);
        la_real     *up = w->up + h * (s.C + 1), *down = w->down + h * (s.C + 1);
        for (int64_t i = 0; i <= s.C; i++) up[i] = down[s.C - i] = R(exp((double)i * l));
    }
}

static inline la_real power(dims s, const work *w, int64_t h, int64_t i) {
    return w->up[h * (s.C + 1) + i];
}

/* gamma^(i+1) for the rows i of a chunk, and gamma^(C-1-j) for its rows j. */
static inline const la_real *since_before(dims s, const work *w, int64_t h) {
    return w->up + h * (s.C + 1) + 1;
}

static inline const la_real *until_end(dims s, const work *w, int64_t h, int64_t C) {
    return w->down + h * (s.C + 1) + s.C - C + 1;
}

/* y_i = by_i x_i, rows of m; y may be x. */
static inline void fade_rows(int64_t C, int64_t m, const la_real *by, matrix x, la_real *y,
                             int64_t ldy) {
    for (int64_t i = 0; i < C; i++) la_vec_table()->scale(m, by[i], x.x + i * x.ld, y + i * ldy);
}

/* A and B of head h as the state meets them: rows times gamma^(i+1), gamma^(C-1-j). */
static inline matrix faded_queries(dims s, work *w, int64_t h, int64_t C) {
    matrix A = head_of(w->A, s.group, s.m, h);
    if (!s.decay) return A;
    fade_rows(C, s.m, since_before(s, w, h), A, w->Af, s.m);
    return (matrix){w->Af, s.m};
}

static inline matrix faded_keys(dims s, work *w, int64_t h, int64_t C) {
    matrix B = head_of(w->B, s.group, s.m, h);
    if (!s.decay) return B;
    fade_rows(C, s.m, until_end(s, w, h, C), B, w->Bf, s.m);
    return (matrix){w->Bf, s.m};
}

/* P o Gamma */
static inline void fade_weights(dims s, const work *w, int64_t h, int64_t C, la_real *P) {
    const la_real *down = w->down + h * (s.C + 1) + s.C;
    for (int64_t i = 0; s.decay && i < C; i++) la_vec_table()->mul(i + 1, down - i, P + i * C);
}

static inline void fade_state(dims s, const work *w, int64_t h, int64_t C, la_real *S) {
    if (s.decay) la_vec_table()->scale(s.L, power(s, w, h, C), S, S);
}

/* Step 5, the three sums; the weights of one for rows i are first + i or first - i. */
static inline double fade_pairs(int64_t C, const la_real *P, const la_real *Q) {
    double sum = 0;
    for (int64_t i = 0; i < C; i++)
        for (int64_t j = 0; j < i; j++)
            sum += (double)(i - j) * (double)(P[i * C + j] * Q[i * C + j]);
    return sum;
}

static inline double fade_sum(dims s, int64_t C, int64_t first, int64_t step, matrix x, matrix dx) {
    double sum = 0;
    for (int64_t i = 0; i < C; i++)
        sum += (double)(first + i * step) *
               (double)la_vec_table()->dot(s.m, x.x + i * x.ld, dx.x + i * dx.ld);
    return sum;
}

/* --- a chunk --- */
/* P of head h from A and B. */
static inline void load_weights(dims s, work *w, int64_t h, int64_t C) {
    const int64_t ld = s.group * s.m;
    la_transpose(C, s.m, w->B + h * s.m, ld, w->BT);
    la_gemm_nn(LA_SET | LA_C_LOWER, C, C, s.m, w->A + h * s.m, ld, w->BT, C, w->P, C);
    la_keep_lower(C, w->P);
    fade_weights(s, w, h, C, w->P);
}

/* S = gamma^C S + B^' V, z likewise. */
static inline void add_keys(dims s, const scan_rows *a, work *w, int64_t h, int64_t t, int64_t C,
                            la_real *S) {
    fade_state(s, w, h, C, S);
    add_state(s, C, faded_keys(s, w, h, C), values_of(s, a, t, h), NULL, 0, S);
}

/* R = gamma^C R + A^' U, r likewise. */
static inline void add_queries(dims s, work *w, int64_t h, int64_t C, la_real *R) {
    fade_state(s, w, h, C, R);
    add_state(s, C, faded_queries(s, w, h, C), head_of(w->U, s.group, s.E, h), w->w + h, s.group,
              R);
}

/* o of head h for the chunk at token t, from A, P and the state S, z before it; D if not NULL. */
static inline void chunk_forward(dims s, const scan_rows *a, work *w, int64_t h, int64_t t,
                                 int64_t C, const la_real *S, la_real *D) {
    const matrix   A = faded_queries(s, w, h, C), V = values_of(s, a, t, h);
    const la_real *z = S + s.m * s.E;
    la_real       *o = a->o + t * a->ldo + h * s.E;
    la_gemm_nn(LA_SET, C, s.E, s.m, A.x, A.ld, S, s.E, o, a->ldo);
    la_gemm_nn(LA_ADD | LA_A_LOWER, C, s.E, C, w->P, C, V.x, V.ld, o, a->ldo);
    la_vec_table()->normalise(C, s.m, s.E, A.x, A.ld, z, w->P, C, s.eps, s.floor,
                              la_plus(D, t * s.H + h), s.H, o, a->ldo);
}

/* dA of head h, with R, and dB: what the state gives them, and what the other rows do. */
static inline void queries_backward(dims s, work *w, int64_t h, int64_t C, const la_real *S,
                                    double *dl) {
    const matrix A = head_of(w->A, s.group, s.m, h), B = head_of(w->B, s.group, s.m, h);
    la_real     *dA = w->dA + h * s.m;
    la_vec_table()->outer(C, s.m, w->w + h, s.group, S + s.m * s.E, dA, A.ld);
    la_transpose(s.m, s.E, S, s.E, w->XT);
    la_gemm_nn(LA_ADD, C, s.m, s.E, w->U + h * s.E, s.group * s.E, w->XT, s.m, dA, A.ld);
    if (s.decay) fade_rows(C, s.m, since_before(s, w, h), (matrix){dA, A.ld}, dA, A.ld);
    if (dl) *dl += fade_sum(s, C, 1, 1, A, (matrix){dA, A.ld});
    la_gemm_nn(LA_ADD | LA_A_LOWER, C, s.m, C, w->dP, C, B.x, B.ld, dA, A.ld);
}

static inline void keys_backward(dims s, work *w, int64_t h, int64_t C, matrix V, const la_real *R,
                                 double *dl) {
    const matrix A = head_of(w->A, s.group, s.m, h), B = head_of(w->B, s.group, s.m, h);
    la_real     *dB = w->dB + h * s.m;
    la_vec_table()->outer(C, s.m, NULL, 0, R + s.m * s.E, dB, B.ld);
    la_transpose(s.m, s.E, R, s.E, w->XT);
    la_gemm_nn(LA_ADD, C, s.m, s.E, V.x, V.ld, w->XT, s.m, dB, B.ld);
    if (s.decay) fade_rows(C, s.m, until_end(s, w, h, C), (matrix){dB, B.ld}, dB, B.ld);
    if (dl) *dl += fade_sum(s, C, C - 1, -1, B, (matrix){dB, B.ld});
    la_gemm_tn(LA_ADD | LA_A_UPPER, C, s.m, C, w->dP, C, A.x, A.ld, dB, B.ld);
}

/* dA, dB and dv of head h for the chunk at token t, from A, B, P, U, w, the state S, z before it
 * and R, r from after it; dl NULL if nobody needs it. */
static inline void chunk_backward(dims s, const scan_rows *a, work *w, int64_t h, int64_t t,
                                  int64_t C, const la_real *S, const la_real *R, int first_dv,
                                  double *dl) {
    const matrix V = values_of(s, a, t, h), U = head_of(w->U, s.group, s.E, h);
    la_transpose(C, s.E, V.x, V.ld, w->VT);
    for (int64_t i = 0; i < C; i++)
        for (int64_t j = 0; j < C; j++) w->dP[i * C + j] = w->w[i * s.group + h];
    la_gemm_nn(LA_ADD | LA_C_LOWER, C, C, s.E, U.x, U.ld, w->VT, C, w->dP, C);
    la_keep_lower(C, w->dP);
    if (dl) *dl += fade_pairs(C, w->P, w->dP);
    fade_weights(s, w, h, C, w->dP);
    if (a->dq || dl) queries_backward(s, w, h, C, S, dl);
    if (a->dk || dl) keys_backward(s, w, h, C, V, R, dl);
    if (dl) *dl += (double)C * (double)power(s, w, h, C) * (double)la_vec_table()->dot(s.L, S, R);
    if (a->dv) {
        const matrix B = faded_keys(s, w, h, C);
        la_real     *dv = a->dv + t * a->ldv + h * s.E;
        la_gemm_nn(first_dv ? LA_SET : LA_ADD, C, s.E, s.m, B.x, B.ld, R, s.E, dv, a->ldv);
        la_gemm_tn(LA_ADD | LA_A_UPPER, C, s.E, C, w->P, C, U.x, U.ld, dv, a->ldv);
    }
}
#endif
