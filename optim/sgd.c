/* sgd: stochastic gradient descent with momentum, as in PyTorch (Sutskever et al., 2013).
 *
 *   m = b1 m + g + decay x            x = x - lr m */
#include "optim/optim.h"

static void step(const la_optim_cfg *c, double lr, double decay, int64_t t, double scale, size_t n,
                 la_real *x, const la_real *g, la_real *const slot[]) {
    la_real      *m = slot[0];
    const la_real b1 = R(c->beta1), wd = R(decay), rate = R(lr), by = R(scale);
    (void)t;
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        m[i] = b1 * m[i] + by * g[i] + wd * x[i];
        x[i] -= rate * m[i];
    }
}

const la_optim_def la_optim_sgd = {
    .name = "sgd",
    .formula = "m = b1 m + g + decay x;  x -= lr m",
    .paper = "Sutskever et al., 2013",
    .n_slots = 1,
    .slot_name = {"m"},
    .step = step,
};
