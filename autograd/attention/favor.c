/* favor: positive random features for the softmax kernel, FAVOR+.
 * Choromanski et al., "Rethinking attention with Performers", 2021.
 *
 *   phi(x) = m^(-1/2) exp(W x^ - |x^|^2 / 2)      x^ = x D^(-1/4)     W (m,D)
 *   E phi(q).phi(k) = exp(q.k / sqrt D)           over W of rows N(0, I)
 *
 * because for w ~ N(0, I)   E exp(w.(q^ + k^)) = exp(|q^ + k^|^2 / 2)
 *                                               = exp(q^.k^ + |q^|^2 / 2 + |k^|^2 / 2).
 * Rows of W are orthogonal in blocks of D, with the lengths of fresh Gaussian ones, which leaves
 * the mean and lowers the variance.  W is drawn and never trained, one for each head, the same for
 * q and k; the option redraw draws it anew every so many steps.
 *
 * The logarithms of the features, W x D^(-1/4) - |x|^2 D^(-1/2) / 2, are the projection that stands
 * before the map (ops/head_linear.c: scale and square), and the map leaves them as they are;
 * m^(-1/2) cancels between numerator and normaliser, and |q|^2 with it.
 *
 * No stabiliser.  The published one multiplies phi by exp(-c), c the largest exponent, for keys
 * over the whole text, and adds eps to each feature.  exp(-c) cancels but eps does not: how much it
 * is beside a feature depends on c, so that a large key later on changes what is read at t, and a
 * causal model sees the future.  Here exponents are met by the running z of
 * ops/causal_exp_linear.c, which is exact at any size and needs no eps. */
#include "autograd/attention/kernel_map.h"
#include "autograd/kernel.h"

static int64_t rows(const la_attn_cfg *c, int64_t D) { return c->m ? c->m : 2 * D; }

static void scales(int64_t D, la_head_linear_cfg *out) {
    const double root = sqrt((double)D);
    out->scale = 1 / sqrt(root);
    out->square = 0.5 / root;
}

static const la_projection projection = {.random = 1, .width = rows, .scales = scales};

static const la_map map = {.name = "favor",
                           .kind = LA_MAP_LOG,
                           .options = "m redraw",
                           .projection = &projection,
                           .width = la_map_width_same,
                           .forward = la_exp_forward,
                           .backward = la_exp_backward,
                           .definition = la_exp_definition};

const la_attn la_attn_favor = {
    .name = "favor",
    .formula =
        "phi(x) = exp(W x D^(-1/4) - |x|^2 D^(-1/2) / 2), W random; o_t = phi(q_t)'(sum_{j<=t} "
        "phi(k_j) v_j') / phi(q_t).sum_{j<=t} phi(k_j)",
    .paper = "Choromanski et al., Rethinking Attention with Performers, 2021",
    .cost = "O(T m (D+E)) time, state m(E+1)",
    .file = "autograd/attention/favor.c",
    .options = "chunk m redraw norm",
    .tiny = "m=4",
    .map = &map,
    .definition = la_kernel_definition,
};
