/* bench_crossover.c -- from which text length a variant is faster than softmax. */
#include <math.h>
#include <stdlib.h>

#include "tensor/parallel.h"
#include "train/bench.h"
#include "train/statistics.h"

enum { SHORTEST = 32, USUAL_LONGEST = 16384, LENGTHS = 24 };

typedef enum part { FORWARD, BOTH, PARTS } part;

/* Seconds of one variant at each length. */
typedef struct curve {
    la_attn_cfg attn;
    double      seconds[LENGTHS][PARTS];
} curve;

typedef struct lengths {
    int     count;
    int64_t n[LENGTHS];
} lengths;

/* 32, 64, ... and the longest that was asked for. */
static lengths choose(int64_t longest) {
    lengths l = {0};
    for (int64_t n = SHORTEST; n < longest; n *= 2) l.n[l.count++] = n;
    l.n[l.count++] = longest;
    return l;
}

static la_status measure(la_bench *b, la_attn_cfg attn, const lengths *l, curve *out) {
    out->attn = attn;
    for (int i = 0; i < l->count; i++) {
        la_attn_timing time;
        LA_TRY(la_attn_time(b, &attn, l->n[i], 0.3, &time));
        out->seconds[i][FORWARD] = la_samples_median(&time.forward);
        out->seconds[i][BOTH] = out->seconds[i][FORWARD] + la_samples_median(&time.backward);
    }
    return LA_OK;
}

static void put_points(la_bench *b, const lengths *l, const curve *v) {
    for (int i = 0; i < l->count; i++) {
        la_attn_flops f = la_attn_flops_of(&v->attn, l->n[i], b->c->d);
        double        s = v->seconds[i][BOTH], forward = v->seconds[i][FORWARD];
        double  gflops = 1e-9 * (f.forward + f.backward) * (double)(b->c->heads * b->c->batch) / s;
        la_cell cells[] = {
            {"attn", NULL, v->attn.variant->name, 0, 1, 0},
            {"n", NULL, NULL, (double)l->n[i], 1, 0},
            {"d", NULL, NULL, (double)b->c->d, 1, 0},
            {"heads", NULL, NULL, (double)b->c->heads, 1, 0},
            {"batch", NULL, NULL, (double)b->c->batch, 1, 0},
            {"threads", NULL, NULL, la_threads(), 1, 0},
            {"forward_ms", NULL, NULL, 1e3 * forward, 1, 0},
            {"backward_ms", NULL, NULL, 1e3 * (s - forward), 1, 0},
            {"gflops", NULL, NULL, gflops, 1, 0},
            {"percent_of_peak", NULL, NULL, 100 * gflops / b->peak, 1, 0},
            {"peak_gflops", NULL, NULL, b->peak, 1, 0},
        };
        la_bench_row(b, cells, sizeof cells / sizeof *cells);
    }
}

/* The length from which v is never slower at a longer one that was measured; INFINITY: at the
 * longest it is slower. */
static double crossing(const lengths *l, const curve *v, const curve *softmax, part p) {
    double n[LENGTHS], a[LENGTHS], b[LENGTHS];
    for (int i = 0; i < l->count; i++) {
        n[i] = (double)l->n[i];
        a[i] = v->seconds[i][p];
        b[i] = softmax->seconds[i][p];
    }
    return la_crossing(l->count, n, a, b);
}

static const char *from_text(const lengths *l, double n, char text[48]) {
    if (isinf(n))
        snprintf(text, 48, "never up to %lld", (long long)l->n[l->count - 1]);
    else if (n <= (double)l->n[0])
        snprintf(text, 48, "%lld or less", (long long)l->n[0]);
    else
        snprintf(text, 48, "%.0f", n);
    return text;
}

static void put_crossing(la_bench *b, const lengths *l, const curve *v, const curve *softmax) {
    char   forward_text[48], both_text[48];
    double forward = crossing(l, v, softmax, FORWARD), both = crossing(l, v, softmax, BOTH);
    from_text(l, forward, forward_text);
    from_text(l, both, both_text);
    if (b->c->json) {
        la_cell cells[] = {
            {"attn", NULL, v->attn.variant->name, 0, 1, 0},
            {"longest_n", NULL, NULL, (double)l->n[l->count - 1], 1, 0},
            {"forward_from_n", NULL, NULL, forward, 1, 0},
            {"forward_from", NULL, forward_text, 0, 1, 0},
            {"both_from_n", NULL, NULL, both, 1, 0},
            {"both_from", NULL, both_text, 0, 1, 0},
        };
        la_bench_row(b, cells, sizeof cells / sizeof *cells);
        return;
    }
    la_cell cells[] = {
        {"attn", "attn", v->attn.variant->name, 0, 1, 0},
        {"forward_from", "forward from n", forward_text, 0, 1, 0},
        {"both_from", "forward + backward from n", both_text, 0, 1, 0},
    };
    la_bench_row(b, cells, sizeof cells / sizeof *cells);
}

static la_status run(la_bench *b, la_attn_cfg wanted, const la_attn *softmax, const lengths *l,
                     curve *curves) {
    bool all = !la_config_given(b->c, LA_OPT_attn);
    int  count = 1; /* curves[0] is softmax */
    LA_TRY(measure(b, la_bench_usual(b->c, softmax), l, &curves[0]));
    for (int i = 0; la_attns[i]; i++) {
        la_attn_cfg attn =
            la_attns[i] == wanted.variant && !all ? wanted : la_bench_usual(b->c, la_attns[i]);
        if (!la_attn_op(&attn) || attn.variant == softmax) continue;
        if (!attn.bidirectional && attn.variant->not_causal) continue;
        if (all || attn.variant == wanted.variant) LA_TRY(measure(b, attn, l, &curves[count++]));
    }
    LA_TRY(la_bench_peak(b));
    for (int i = 0; b->c->json && i < count; i++) put_points(b, l, &curves[i]);
    for (int i = 1; i < count; i++) put_crossing(b, l, &curves[i], &curves[0]);
    return LA_OK;
}

la_status la_bench_crossover(la_bench *b) {
    const la_config *c = b->c;
    la_attn_cfg      attn;
    const la_attn   *softmax;
    int64_t          longest = la_config_given(c, LA_OPT_n) ? c->n : USUAL_LONGEST;
    LA_TRY(la_bench_variant(c, &attn));
    LA_TRY(la_attn_find("softmax", &softmax));
    if (la_config_given(c, LA_OPT_attn) && attn.variant == softmax)
        return la_fail(LA_ARG, "--attn %s: what is compared with softmax is another attention",
                       c->attn);
    if (longest <= SHORTEST)
        return la_fail(LA_ARG, "--n must be above the shortest length, %d, and is %lld", SHORTEST,
                       (long long)longest);
    lengths l = choose(longest);
    LA_TRY(la_bench_peak(b));
    la_bench_say(
        b,
        "the length from which a variant is faster than softmax: batch %lld, %lld heads of "
        "%lld, %d to %lld tokens",
        (long long)c->batch, (long long)c->heads, (long long)c->d, SHORTEST, (long long)longest);
    la_bench_say_peak(b);
    int variants = 0;
    while (la_attns[variants]) variants++;
    curve *curves = calloc((size_t)variants, sizeof *curves);
    if (!curves) return la_fail(LA_NOMEM, "no memory for the times of %d variants", variants);
    la_status s = run(b, attn, softmax, &l, curves);
    free(curves);
    return s;
}
