/* adamw: Adam with decoupled weight decay.
 * Kingma, Ba, "Adam", 2015; Loshchilov, Hutter, "Decoupled weight decay regularization", 2019.
 *
 *   m = b1 m + (1 - b1) g            v = b2 v + (1 - b2) g^2
 *   x = x - lr decay x - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) */
#include <math.h>

#include "optim/optim.h"

static void step(const la_optim_cfg *c, double lr, double decay, int64_t t, double scale, size_t n,
                 la_real *x, const la_real *g, la_real *const slot[]) {
    la_real      *m = slot[0], *v = slot[1];
    const la_real b1 = R(c->beta1), b2 = R(c->beta2), a1 = R(1 - c->beta1), a2 = R(1 - c->beta2);
    const la_real by = R(scale), eps = R(c->eps), keep = R(1 - lr * decay);
    const la_real rate = R(lr / (1 - pow(c->beta1, (double)t)));
    const la_real root = R(1 / (1 - pow(c->beta2, (double)t)));
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        const la_real gi = by * g[i];
        m[i] = b1 * m[i] + a1 * gi;
        v[i] = b2 * v[i] + a2 * gi * gi;
#if LA_REAL_BITS == 32
        x[i] = keep * x[i] - rate * m[i] / (sqrtf(v[i] * root) + eps);
#else
        x[i] = keep * x[i] - rate * m[i] / (sqrt(v[i] * root) + eps);
#endif
    }
}

const la_optim_def la_optim_adamw = {
    .name = "adamw",
    .formula = "x -= lr (m^ / (sqrt v^ + eps) + decay x)",
    .paper = "Loshchilov and Hutter, 2019",
    .n_slots = 2,
    .slot_name = {"m", "v"},
    .step = step,
};
