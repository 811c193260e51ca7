/* softmax: scaled dot-product attention, causal, tiled.
 * Vaswani et al., "Attention is all you need", 2017; the running maximum and sum: Milakov and
 * Gimelshein, 2018; tiles and recomputation: Dao et al., "FlashAttention", 2022.
 *
 *   q, k (B,T,H,D)   v (B,T,H,E)   o (B,T,H,E)   state (B,H,L), L = capacity (D+E): the cache of
 *   keys (capacity,D), then values (capacity,E), of which the first `past` rows are filled
 *
 *   s_ij = q_i.k_j / sqrt D     p_ij = exp(s_ij - lse_i) for j <= i     o_i = sum_j p_ij v_j
 *   lse_i = log sum_{j<=i} exp(s_ij)
 *
 * Forward, for a tile of queries, over tiles of keys; tiles above the diagonal are skipped.  m is
 * the running maximum, l the running sum, O the unnormalised output:
 *   m' = max(m, max_j s_ij)    O = O exp(m - m') + exp(S - m') V    l = l exp(m - m') + sum_j
 * exp(s_ij - m') No T x T matrix is ever stored.  Saved: lse, (B,H,T).
 *
 * Backward, g_i the gradient at o_i:
 *   1. dv_j = sum_i p_ij g_i                         dp_ij = g_i.v_j
 *   2. p_i is a softmax: ds_ij = p_ij (dp_ij - sum_l p_il dp_il), and
 *      sum_l p_il dp_il = g_i.sum_l p_il v_l = g_i.o_i = d_i, known without the row.
 *   3. dq_i = sum_j ds_ij k_j / sqrt D               dk_j = sum_i ds_ij q_i / sqrt D
 * P is computed again from lse, tile by tile.
 *
 * With a state, queries stand at positions past + i and see the cache too; rows past .. past+T-1
 * of the state that goes out are the new keys and values. */
#include "autograd/attention/attention.h"
#include "autograd/kernel.h"
#include "tensor/blas.h"

enum { TILE = 64 };

typedef struct dims {
    int64_t T, H, D, E, C, capacity, past;
    la_real scale;
} dims;

static dims get(const la_node *n) {
    la_shape q = n->in[0]->shape;
    dims     s = {.T = q.d[1], .H = q.d[2], .D = q.d[3], .E = n->in[2]->shape.d[3]};
    s.scale = 1 / sqrt(R(s.D));
    if (n->n_in == 5) {
        s.capacity = n->in[3]->shape.d[2] / (s.D + s.E);
        s.past = n->in[4]->ids[0]; /* read anew at each replay */
    }
    s.C = ((const la_attn_cfg *)n->attr)->chunk;
    s.C = la_min(s.C > 0 ? s.C : TILE, s.T > s.capacity ? s.T : s.capacity);
    return s;
}

static int64_t state_len(const la_attn *a, int64_t D, int64_t E, int64_t capacity) {
    (void)a;
    return capacity * (D + E);
}

static la_status check(const la_node *n) {
    if (n->n_out < 2) return LA_OK;
    dims s = get(n);
    if (s.past >= 0 && s.past + s.T <= s.capacity) return LA_OK;
    return la_fail(LA_ARG, "softmax: %lld tokens and %lld before them do not fit a cache for %lld",
                   (long long)s.T, (long long)s.past, (long long)s.capacity);
}

typedef struct work {
    la_real *KT, *VT, *P, *dP; /* (D,C) (E,C) (C,C) (C,C)        */
    la_real *O, *m, *l;        /* (C,E) (C) (C)                  */
    la_real *dK, *dV;          /* (C,D) (C,E)                    */
} work;

static size_t carve(dims s, la_real *at, work *w) {
    const la_part parts[] = {
        {&w->KT, s.D * s.C}, {&w->VT, s.E * s.C}, {&w->P, s.C * s.C},
        {&w->dP, s.C * s.C}, {&w->O, s.C * s.E},  {&w->m, s.C},
        {&w->l, s.C},        {&w->dK, s.C * s.D}, {&w->dV, s.C * s.E},
    };
    return la_carve(parts, sizeof parts / sizeof *parts, at);
}

static la_status infer(const la_node *n, la_plan *p) {
    LA_TRY(la_attn_infer(n, p));
    dims s = get(n);
    work w;
    p->n_saved = (size_t)(n->in[0]->shape.d[0] * s.H * s.T);
    p->n_scratch = carve(s, NULL, &w);
    return LA_OK;
}

/* One head: queries, and the keys and values they see, wherever those are. */
typedef struct head {
    const la_real *q, *k, *v;
    int64_t        ldq, ldk, ldv, keys, o, ldo;
    la_real       *lse;
} head;

static head find(const la_node *n, dims s, int64_t block) {
    int64_t b = block / s.H, h = block % s.H;
    head    a = {.q = n->in[0]->x + la_token(n->in[0], b, 0, h),
                 .k = n->in[1]->x + la_token(n->in[1], b, 0, h),
                 .v = n->in[2]->x + la_token(n->in[2], b, 0, h),
                 .ldq = n->in[0]->ld,
                 .ldk = n->in[1]->ld,
                 .ldv = n->in[2]->ld,
                 .keys = s.past + s.T,
                 .o = la_token(n, b, 0, h),
                 .ldo = n->ld,
                 .lse = n->saved ? n->saved + block * s.T : NULL};
    if (n->n_out == 2) { /* all keys are in the cache by then */
        a.k = n->out[1]->x + block * s.capacity * (s.D + s.E);
        a.v = a.k + s.capacity * s.D;
        a.ldk = s.D;
        a.ldv = s.E;
    }
    return a;
}

/* Copies the old cache, unless it is updated in place, and writes the new rows. */
static void extend_cache(const la_node *n, dims s, int64_t block) {
    int64_t        b = block / s.H, h = block % s.H, len = s.capacity * (s.D + s.E);
    const la_real *old = n->in[3]->x + block * len;
    la_real       *K = n->out[1]->x + block * len, *V = K + s.capacity * s.D;
    if (K != old) memcpy(K, old, (size_t)len * sizeof *K);
    for (int64_t t = 0; t < s.T; t++) {
        memcpy(K + (s.past + t) * s.D, n->in[1]->x + la_token(n->in[1], b, t, h),
               (size_t)s.D * sizeof *K);
        memcpy(V + (s.past + t) * s.E, n->in[2]->x + la_token(n->in[2], b, t, h),
               (size_t)s.E * sizeof *V);
    }
}

/* Keys of the tile [j, j + cj) that query i sees. */
static int64_t visible(dims s, int64_t i, int64_t j, int64_t cj) {
    int64_t count = s.past + i - j + 1;
    return count < 0 ? 0 : la_min(count, cj);
}

static void forward_row(dims s, la_real *S, int64_t seen, int64_t cj, la_real *m, la_real *l,
                        la_real *O) {
    const la_vec *vec = la_vec_table();
    for (int64_t j = 0; j < seen; j++) S[j] *= s.scale;
    la_real top = seen ? vec->max(seen, S) : *m;
    if (top > *m) {
        la_real shrink = exp(*m - top);
        for (int64_t e = 0; e < s.E; e++) O[e] *= shrink;
        *l *= shrink;
        *m = top;
    }
    if (seen) *l += vec->exp_minus_sum(seen, *m, S, S);
    for (int64_t j = seen; j < cj; j++) S[j] = 0;
}

static void forward(const la_node *n, const la_run *run) {
    dims s = get(n);
    work w;
    carve(s, run->scratch, &w);
    if (n->n_out == 2) extend_cache(n, s, run->block);
    head a = find(n, s, run->block);
    for (int64_t i = 0; i < s.T; i += s.C) {
        int64_t ci = la_min(s.C, s.T - i), end = s.past + i + ci;
        memset(w.O, 0, (size_t)(ci * s.E) * sizeof(la_real));
        for (int64_t r = 0; r < ci; r++) w.m[r] = R(-INFINITY), w.l[r] = 0;
        for (int64_t j = 0; j < end; j += s.C) {
            int64_t cj = la_min(s.C, a.keys - j);
            la_transpose(cj, s.D, a.k + j * a.ldk, a.ldk, w.KT);
            la_gemm_nn(LA_SET, ci, cj, s.D, a.q + i * a.ldq, a.ldq, w.KT, cj, w.P, cj);
            for (int64_t r = 0; r < ci; r++)
                forward_row(s, w.P + r * cj, visible(s, i + r, j, cj), cj, w.m + r, w.l + r,
                            w.O + r * s.E);
            la_gemm_nn(LA_ADD, ci, s.E, cj, w.P, cj, a.v + j * a.ldv, a.ldv, w.O, s.E);
        }
        for (int64_t r = 0; r < ci; r++) {
            la_real *o = n->x + a.o + (i + r) * a.ldo;
            for (int64_t e = 0; e < s.E; e++) o[e] = w.O[r * s.E + e] / w.l[r];
            if (a.lse) a.lse[i + r] = w.m[r] + log(w.l[r]);
        }
    }
}

/* Adds the gradients of keys and values [j, j + cj) to where those came from. */
static void scatter(const la_node *n, dims s, int64_t block, int64_t j, int64_t cj, const work *w) {
    int64_t  b = block / s.H, h = block % s.H;
    la_real *cache =
        n->n_out == 2 && n->in[3]->g ? n->in[3]->g + block * s.capacity * (s.D + s.E) : NULL;
    for (int64_t r = 0; r < cj; r++) {
        int64_t  t = j + r - s.past;
        la_real *dk, *dv;
        if (t >= 0) {
            dk = n->in[1]->g ? n->in[1]->g + la_token(n->in[1], b, t, h) : NULL;
            dv = n->in[2]->g ? n->in[2]->g + la_token(n->in[2], b, t, h) : NULL;
        } else {
            dk = cache ? cache + (j + r) * s.D : NULL;
            dv = cache ? cache + s.capacity * s.D + (j + r) * s.E : NULL;
        }
        for (int64_t d = 0; dk && d < s.D; d++) dk[d] += w->dK[r * s.D + d];
        for (int64_t e = 0; dv && e < s.E; e++) dv[e] += w->dV[r * s.E + e];
    }
}

/* What the state that went out was used for later: new rows belong to k and v, others to the
 * state that came in. */
static void scatter_state(const la_node *n, dims s, int64_t block) {
    int64_t        b = block / s.H, h = block % s.H, len = s.capacity * (s.D + s.E);
    const la_real *g = n->out[1]->g + block * len;
    for (int part = 0; part < 2; part++) { /* keys, values */
        const la_node *new = n->in[1 + part];
        int64_t width = part ? s.E : s.D, from = part ? s.capacity * s.D : 0;
        for (int64_t r = 0; r < s.capacity; r++) {
            int64_t  t = r - s.past;
            la_real *to = t >= 0 && t < s.T
                              ? (new->g ? new->g + la_token(new, b, t, h) : NULL)
                              : (n->in[3]->g ? n->in[3]->g + block * len + from + r * width : NULL);
            for (int64_t d = 0; to && d < width; d++) to[d] += g[from + r * width + d];
        }
    }
}

static void backward(const la_node *n, const la_run *run) {
    dims s = get(n);
    work w;
    carve(s, run->scratch, &w);
    head           a = find(n, s, run->block);
    const la_real *g = n->g + a.o;
    la_real       *dq = n->in[0]->g ? n->in[0]->g + (a.q - n->in[0]->x) : NULL;
    for (int64_t j = 0; j < a.keys; j += s.C) {
        int64_t cj = la_min(s.C, a.keys - j);
        la_transpose(cj, s.D, a.k + j * a.ldk, a.ldk, w.KT);
        la_transpose(cj, s.E, a.v + j * a.ldv, a.ldv, w.VT);
        memset(w.dK, 0, (size_t)(cj * s.D) * sizeof(la_real));
        memset(w.dV, 0, (size_t)(cj * s.E) * sizeof(la_real));
        int64_t first =
            j > s.past ? (j - s.past) / s.C * s.C : 0; /* earlier queries see none of it */
        for (int64_t i = first; i < s.T; i += s.C) {
            int64_t ci = la_min(s.C, s.T - i);
            la_gemm_nn(LA_SET, ci, cj, s.D, a.q + i * a.ldq, a.ldq, w.KT, cj, w.P, cj);
            la_gemm_nn(LA_SET, ci, cj, s.E, g + i * a.ldo, a.ldo, w.VT, cj, w.dP, cj);
            for (int64_t r = 0; r < ci; r++) { /* steps 1 and 2 */
                la_real *P = w.P + r * cj, *dS = w.dP + r * cj;
                int64_t  seen = visible(s, i + r, j, cj), row = (i + r) * a.ldo;
                la_real  d = la_vec_table()->dot(s.E, g + row, n->x + a.o + row);
                for (int64_t c = 0; c < seen; c++) P[c] *= s.scale;
                if (seen) la_vec_table()->exp_minus(seen, a.lse[i + r], P, P);
                for (int64_t c = 0; c < seen; c++) dS[c] = P[c] * (dS[c] - d) * s.scale;
                for (int64_t c = seen; c < cj; c++) P[c] = dS[c] = 0;
            }
            la_gemm_tn(LA_ADD, cj, s.E, ci, w.P, cj, g + i * a.ldo, a.ldo, w.dV, s.E);
            la_gemm_tn(LA_ADD, cj, s.D, ci, w.dP, cj, a.q + i * a.ldq, a.ldq, w.dK, s.D);
            if (dq)
                la_gemm_nn(LA_ADD, ci, s.D, cj, w.dP, cj, a.k + j * a.ldk, a.ldk, dq + i * a.ldq,
                           a.ldq);
        }
        scatter(n, s, run->block, j, cj, &w);
    }
    if (n->n_out == 2) scatter_state(n, s, run->block);
}

static void reference(const la_node *n) { /* the definition, in double */
    dims s = get(n);
    for (int64_t block = 0; block < n->shape.d[0] * s.H; block++) {
        if (n->n_out == 2) extend_cache(n, s, block);
        head a = find(n, s, block);
        for (int64_t i = 0; i < s.T; i++) {
            double sum = 0, o[s.E];
            for (int64_t e = 0; e < s.E; e++) o[e] = 0;
            for (int64_t j = 0; j <= s.past + i; j++) {
                double dot = 0;
                for (int64_t d = 0; d < s.D; d++)
                    dot += (double)a.q[i * a.ldq + d] * (double)a.k[j * a.ldk + d];
                double p = exp(dot / sqrt((double)s.D));
                for (int64_t e = 0; e < s.E; e++) o[e] += p * (double)a.v[j * a.ldv + e];
                sum += p;
            }
            for (int64_t e = 0; e < s.E; e++) n->x[a.o + i * a.ldo + e] = R(o[e] / sum);
        }
    }
}

static const la_op op = {
    .name = "softmax_attention",
    .formula = "o_t = sum_{j<=t} softmax_j(q_t.k_j / sqrt D) v_j",
    .file = "autograd/attention/softmax.c",
    .attr_size = sizeof(la_attn_cfg),
    .reads = LA_READS_IN(0) | LA_READS_IN(1) | LA_READS_IN(2) | LA_READS_OUT(0) | LA_READS_OUT(1),
    .strided = 1,
    .infer = infer,
    .check = check,
    .forward = forward,
    .backward = backward,
    .reference = reference,
};

const la_attn la_attn_softmax = {
    .name = "softmax",
    .formula = "o_t = sum_{j<=t} softmax_j(q_t.k_j / sqrt D) v_j",
    .paper = "Vaswani et al., Attention is all you need, 2017",
    .cost = "O(T^2 (D+E)) time, state t(D+E): a cache that grows with the text",
    .file = "autograd/attention/softmax.c",
    .op = &op,
    .state_len = state_len,
    .positive = 1,
};
