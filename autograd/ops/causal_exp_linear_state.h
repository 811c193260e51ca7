/* causal_exp_linear_state.h -- the heads of a block, the states that come in and go out with their
 * gradients, and phase 1, with the letters of causal_exp_linear.c. */
#ifndef LA_CAUSAL_EXP_LINEAR_STATE_H
#define LA_CAUSAL_EXP_LINEAR_STATE_H
#include "autograd/ops/exp_linear_scan.h"

/* Some heads of a batch row: their rows, and what the first of them has for itself. */
typedef struct heads {
    scan_rows x;
    la_real  *state, *dstate_out; /* (m(E+1)); NULL without                                    */
    la_real  *state_out, *dstate; /* the same                                                  */
    la_real  *saved, *ends;       /* (chunks,L) (segments,m): Z, or NULL                       */
    la_real  *sums, *dZ;          /* (segments,L) (T,H,m), if there are several segments       */
} heads;

static heads find(const la_node *n, dims s, int64_t b, int64_t h, la_real *common) {
    heads         a = {.x = scan_find(n, b, h)};
    const int64_t number = a.x.number;
    if (n->n_out == 2) {
        const la_node *state = la_attn_at(n, LA_AT_STATE);
        int64_t        at = number * s.m * (s.E + 1);
        a.state = state->x + at, a.dstate = la_plus(state->g, at);
        a.state_out = n->out[1]->x + at, a.dstate_out = la_plus(n->out[1]->g, at);
    }
    a.saved = la_plus(n->saved, number * s.chunks * s.L);
    a.ends = la_plus(n->saved, s.B * s.H * s.chunks * s.L + number * s.segments * s.m);
    a.sums = la_plus(common, number * s.segments * s.L);
    a.dZ = la_plus(common, s.B * s.H * s.segments * s.L + (b * s.T * s.H + h) * s.m);
    return a;
}

static void store_state(dims s, int64_t f, int64_t F, const la_real *S, const la_real *Z,
                        const la_real *c, la_real *state) {
    for (int64_t i = 0; i < F; i++) {
        la_vec_table()->scale(s.E, 1 / Z[i], S + i * s.E, state + (f + i) * s.E);
        state[s.m * s.E + f + i] = c[i] + log(Z[i]);
    }
}

/* Step 7, without its Z: R and rho from the gradient at the state that goes out, and to the
 * gradient at the one that came in. */
static void load_dstate(dims s, int64_t f, int64_t F, const la_real *state, const la_real *g,
                        la_real *R, la_real *rho) {
    memset(R, 0, (size_t)(F * s.E) * sizeof *R);
    memset(rho, 0, (size_t)F * sizeof *rho);
    for (int64_t i = 0; g && i < F; i++) {
        const la_real *dC = g + (f + i) * s.E, *C = state + (f + i) * s.E;
        memcpy(R + i * s.E, dC, (size_t)s.E * sizeof *R);
        rho[i] = g[s.m * s.E + f + i] - la_vec_table()->dot(s.E, dC, C);
    }
}

static void store_dstate(dims s, int64_t f, int64_t F, const la_real *state, const la_real *R,
                         const la_real *rho, la_real *g) {
    la_vec_table()->axpy(F * s.E, 1, R, g + f * s.E);
    for (int64_t i = 0; i < F; i++)
        g[s.m * s.E + f + i] +=
            rho[i] + la_vec_table()->dot(s.E, R + i * s.E, state + (f + i) * s.E);
}

static void scan_gradients(dims s, const heads *a, const work *w, int64_t f, int64_t F) {
    load_dstate(s, f, F, a->state_out, a->dstate_out, w->R, w->rho);
    for (int64_t i = s.segments - 1; i >= 0; i--) {
        la_real       *R = a->sums + i * s.L + f * s.E, *rho = a->sums + i * s.L + s.m * s.E + f;
        const la_real *keep = rho + s.m;
        for (int64_t j = 0; j < F; j++) {
            pass_on(1, keep[j], 1, rho + j, w->rho + j);
            pass_on(s.E, keep[j], 1, R + j * s.E, w->R + j * s.E);
        }
    }
    if (a->dstate) store_dstate(s, f, F, a->state, w->R, w->rho, a->dstate);
}

/* Phase 1, of both passes: some features of one head. */
static void scan_block(const la_node *n, dims s, const la_run *run, int backward) {
    int64_t       number = run->block / s.slices;
    la_range      part = la_cut(s.m, SLICE, run->block % s.slices);
    const int64_t f = part.from, F = part.to - part.from;
    heads         a = find(n, s, number / s.H, number % s.H, run->common);
    work          w;
    carve(s, run->scratch, &w);
    if (backward) {
        scan_gradients(s, &a, &w, f, F);
    } else {
        scan_states(s, a.state, a.sums, &w, f, F);
        if (a.state_out) store_state(s, f, F, w.S, w.Z0, w.c, a.state_out);
    }
}
#endif
