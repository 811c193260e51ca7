/* exp_linear_scan.h -- states and their sums over the segments of a text, with the letters of
 * causal_exp_linear.c; for it and full_exp_linear.c. */
#ifndef LA_EXP_LINEAR_SCAN_H
#define LA_EXP_LINEAR_SCAN_H
#include "autograd/ops/exp_linear.h"

/* S, Z, c for features [f, f + F) of one head from a state, C and z, or from none. */
static inline void load_state(dims s, int64_t f, int64_t F, const la_real *state, la_real *S,
                              la_real *Z, la_real *c) {
    memset(S, 0, (size_t)(F * s.E) * sizeof *S);
    if (state) memcpy(S, state + f * s.E, (size_t)(F * s.E) * sizeof *S);
    for (int64_t i = 0; i < F; i++) {
        Z[i] = 1;
        c[i] = state ? state[s.m * s.E + f + i] : NOTHING;
    }
}

/* The pivots of a block's heads to where token t, the first of a segment, takes them. */
static inline void first_pivot(const la_node *n, dims s, const scan_rows *a, work *w, int64_t t) {
    const la_real *u = load_key(n, s, a, w, t, 0);
    for (int64_t h = 0; h < s.group; h++) {
        move_pivot(s, u + h * s.m, w->c + h * s.m, w->spare);
        la_vec_table()->mul(s.m, w->spare, w->Z0 + h * s.m);
        scale_rows(s, w->spare, w->S + h * s.m * s.E);
    }
}

/* x gets the total before it, and the total is old * total + add * x. */
static inline void pass_on(int64_t n, la_real old, la_real add, la_real *x, la_real *total) {
    for (int64_t i = 0; i < n; i++) {
        la_real own = x[i];
        x[i] = total[i];
        total[i] = old * total[i] + add * own;
    }
}

/* Running sums over the segments (segments,L) of one head, from `state` on, for features
 * [f, f + F): each gets what there is before it, and S, Z0, c of w get all. */
static inline void scan_states(dims s, const la_real *state, la_real *sums, const work *w,
                               int64_t f, int64_t F) {
    load_state(s, f, F, state, w->S, w->Z0, w->c);
    for (int64_t i = 0; i < s.segments; i++) {
        la_real *S = sums + i * s.L + f * s.E, *Z = sums + i * s.L + s.m * s.E + f, *c = Z + s.m;
        for (int64_t j = 0; j < F; j++) {
            la_real top = fmax(w->c[j], c[j]), old = exp(w->c[j] - top), add = exp(c[j] - top);
            pass_on(1, old, add, Z + j, w->Z0 + j);
            pass_on(s.E, old, add, S + j * s.E, w->S + j * s.E);
            c[j] = w->c[j];
            w->c[j] = top;
        }
    }
}
#endif
