/* causal_exp_linear_chunk.h -- the products of one chunk of causal_exp_linear.c, with the letters
 * of its derivation.  Rows in and gradients out are in exp_linear.h. */
#ifndef LA_CAUSAL_EXP_LINEAR_CHUNK_H
#define LA_CAUSAL_EXP_LINEAR_CHUNK_H
#include "autograd/ops/exp_linear.h"

/* Run r of head h: where its rows are. */
typedef struct run_rows {
    int64_t        i, n;  /* first row in the chunk, number of rows                             */
    const la_real *A, *B; /* (n,m), ld W                                                        */
    const la_real *v, *g; /* (n,E), ldv and ldo; g NULL without a backward                      */
    const la_real *decay; /* (m), if r > 0                                                      */
} run_rows;

static run_rows find_run(dims s, const scan_rows *a, const work *w, int64_t h, int64_t t,
                         int64_t r) {
    const la_real *start = w->start + h * (s.C + 2) + r;
    int64_t        i = (int64_t)start[0], row = i * s.W + h * s.m;
    return (run_rows){.i = i,
                      .n = (int64_t)start[1] - i,
                      .A = w->A + row,
                      .B = w->B + row,
                      .v = a->v + (t + i) * a->ldv + h * s.E,
                      .g = a->g ? a->g + (t + i) * a->ldo + h * s.E : NULL,
                      .decay = w->decay + r * s.W + h * s.m};
}

/* P = (A B') o M */
static void load_weights(dims s, work *w, const run_rows *x) {
    la_transpose(x->n, s.m, x->B, s.W, w->BT);
    la_gemm_nn(LA_SET | LA_C_LOWER, x->n, x->n, s.m, x->A, s.W, w->BT, x->n, w->P, x->n);
    la_keep_lower(x->n, w->P);
}

/* o of head h for the chunk at token t, unless only the sums are wanted; and S after it. */
static void chunk_forward(dims s, const scan_rows *a, work *w, int64_t h, int64_t t, int64_t C,
                          int only_sums) {
    la_real *S = w->S + h * s.m * s.E;
    for (int64_t r = 0, runs = count_runs(s, w, h, C); r < runs; r++) {
        run_rows x = find_run(s, a, w, h, t, r);
        if (r) scale_rows(s, x.decay, S);
        if (!only_sums) {
            la_real *o = a->o + (t + x.i) * a->ldo + h * s.E;
            load_weights(s, w, &x);
            la_gemm_nn(LA_SET, x.n, s.E, s.m, x.A, s.W, S, s.E, o, a->ldo);
            la_gemm_nn(LA_ADD | LA_A_LOWER, x.n, s.E, x.n, w->P, x.n, x.v, a->ldv, o, a->ldo);
        }
        add_keys(s, w, x.n, x.B, x.v, a->ldv, S);
    }
}

/* dP of each run of head h and, if it is wanted, dA; S before the chunk. */
static void walk_up(dims s, const scan_rows *a, work *w, int64_t h, int64_t t, int64_t runs,
                    const la_real *S, int want_dA) {
    run_rows x = {0};
    for (int64_t r = 0; r < runs; r++) {
        if (r == 1) S = memcpy(w->X, S, (size_t)(s.m * s.E) * sizeof *S);
        if (r) add_keys(s, w, x.n, x.B, x.v, a->ldv, w->X);
        x = find_run(s, a, w, h, t, r);
        if (r) scale_rows(s, x.decay, w->X);
        la_real *dP = w->dP + x.i * s.C, *dA = w->dA + x.i * s.W + h * s.m;
        la_transpose(x.n, s.E, x.v, a->ldv, w->VT);
        la_gemm_nn(LA_SET | LA_C_LOWER, x.n, x.n, s.E, x.g, a->ldo, w->VT, x.n, dP, x.n);
        la_keep_lower(x.n, dP);
        if (!want_dA) continue;
        la_transpose(s.m, s.E, S, s.E, w->XT);
        la_gemm_nn(LA_SET, x.n, s.m, s.E, x.g, a->ldo, w->XT, s.m, dA, s.W);
        la_gemm_nn(LA_ADD | LA_A_LOWER, x.n, s.m, x.n, dP, x.n, x.B, s.W, dA, s.W);
    }
}

/* R before the chunk from R after it and, unless only that is wanted, dB and dv. */
static void walk_down(dims s, const scan_rows *a, work *w, int64_t h, int64_t t, int64_t runs,
                      int only_sums, int first) {
    la_real *R = w->R + h * s.m * s.E;
    for (int64_t r = runs - 1; r >= 0; r--) {
        run_rows       x = find_run(s, a, w, h, t, r);
        const la_real *dP = w->dP + x.i * s.C;
        if (a->dk && !only_sums) {
            la_real *dB = w->dB + x.i * s.W + h * s.m;
            la_transpose(s.m, s.E, R, s.E, w->XT);
            la_gemm_nn(LA_SET, x.n, s.m, s.E, x.v, a->ldv, w->XT, s.m, dB, s.W);
            la_gemm_tn(LA_ADD | LA_A_UPPER, x.n, s.m, x.n, dP, x.n, x.A, s.W, dB, s.W);
        }
        if (a->dv && !only_sums) {
            la_real *dv = a->dv + (t + x.i) * a->ldv + h * s.E;
            load_weights(s, w, &x);
            la_gemm_nn(first ? LA_SET : LA_ADD, x.n, s.E, s.m, x.B, s.W, R, s.E, dv, a->ldv);
            la_gemm_tn(LA_ADD | LA_A_UPPER, x.n, s.E, x.n, w->P, x.n, x.g, a->ldo, dv, a->ldv);
        }
        la_gemm_tn(LA_ADD, s.m, s.E, x.n, x.A, s.W, x.g, a->ldo, R, s.E);
        if (r) scale_rows(s, x.decay, R);
    }
}

/* rho and keep before the chunk of head h and, if it is wanted, the gradient at u: steps 3 and 4.
 * Whether that is computed or not, dZ adds up from the last row, to the same bits. */
static void store_du(dims s, const scan_rows *a, work *w, int64_t h, int64_t t, int64_t runs,
                     const la_real *dZ, int64_t ld, int want_du) {
    const la_vec *vec = la_vec_table();
    const int64_t at = h * s.m;
    for (int64_t r = runs - 1; r >= 0; r--) {
        run_rows x = find_run(s, a, w, h, t, r);
        if (want_du)
            vec->exp_scan_backward(x.n, s.m, x.B, w->dB + x.i * s.W + at, s.W, dZ + x.i * ld + at,
                                   ld, w->rho + at, w->du + x.i * w->lddu + at, w->lddu);
        else
            vec->add_rows(x.n, s.m, dZ + (x.i + x.n - 1) * ld + at, -ld, NULL, 0, w->rho + at);
        if (r) vec->mul(s.m, x.decay, w->rho + at);
        if (r) vec->mul(s.m, x.decay, w->keep + at);
    }
}
#endif
