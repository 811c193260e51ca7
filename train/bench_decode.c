/* bench_decode.c -- what a token costs after a text of some length, and what the model carries.
 *
 * The text before the position is read by the parallel form, as `generate` reads a prompt, and then
 * tokens are drawn one by one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/parallel.h"
#include "tensor/rng.h"
#include "train/bench.h"
#include "train/sampler.h"
#include "train/setup.h"
#include "train/system.h"

enum { TOKENS = 128, WARM = 4, MOST_POSITIONS = 32, MOST_TOKENS = 1000000000 };

/* Positions that were not named are left out if reading the text would take longer, in seconds. */
static const double PATIENCE = 60;

typedef struct run {
    la_bench *b;
    la_lm    *lm;
    int64_t   positions[MOST_POSITIONS];
    int       n;
    int64_t   tokens; /* that are timed at each */
    bool      said;   /* the head of the table  */
} run;

typedef struct timing {
    double     prompt; /* seconds to read the text */
    la_samples token;
    size_t     state; /* bytes */
} timing;

static la_status parse_positions(run *r, const char *list) {
    for (const char *p = list; *p; r->n++) {
        size_t digits = strspn(p, "0123456789");
        double x = digits > 0 && digits < 12 ? strtod(p, NULL) : 0;
        if (r->n == MOST_POSITIONS || x < 1 || x > MOST_TOKENS || (p[digits] && p[digits] != ',') ||
            (p[digits] == ',' && !p[digits + 1]))
            return la_fail(LA_ARG,
                           "--positions must be at most %d whole numbers from 1 to %d with "
                           "commas between, and is \"%.64s\"",
                           MOST_POSITIONS, MOST_TOKENS, list);
        r->positions[r->n] = (int64_t)x;
        p += digits + (p[digits] == ',');
    }
    return LA_OK;
}

static int64_t farthest(const run *r) {
    int64_t most = 0;
    for (int i = 0; i < r->n; i++) most = r->positions[i] > most ? r->positions[i] : most;
    return most;
}

static la_status prepare(run *r) {
    const la_config *c = r->b->c;
    la_config        model = *c;
    la_lm_cfg        cfg;
    LA_TRY(parse_positions(r, c->positions));
    int64_t most = farthest(r);
    r->tokens = c->repeats ? c->repeats : TOKENS;
    if (!la_config_given(c, LA_OPT_pos)) model.pos = "none";
    LA_TRY(la_model_cfg(&model, c->vocab, &cfg));
    if (cfg.pos == LA_POS_LEARNED && most + WARM + r->tokens > c->block_size)
        return la_fail(LA_ARG,
                       "--pos learned has --block-size %lld positions, and position %lld with "
                       "%lld tokens after it needs %lld",
                       (long long)c->block_size, (long long)most, (long long)(WARM + r->tokens),
                       (long long)(most + WARM + r->tokens));
    cfg.max_bytes = la_memory_available();
    return la_lm_create(&r->lm, &cfg, (uint64_t)c->seed, 0);
}

static int32_t *random_text(const la_config *c, int64_t n) {
    int32_t *text = malloc((size_t)n * sizeof *text);
    for (int64_t i = 0; text && i < n; i++)
        text[i] = (int32_t)la_rng_below((uint64_t)c->seed, la_rng_stream(LA_RNG_TEST, 0),
                                        (uint64_t)i, (uint64_t)c->vocab);
    return text;
}

/* The first reading makes the tapes; if it was quick it is done again, and not counted. */
static la_status read_text(la_sampler *s, const int32_t *text, int64_t n, double *seconds) {
    la_samples reading = {0};
    double     first = la_seconds();
    LA_TRY(la_sampler_prompt(s, text, n));
    *seconds = first = la_seconds() - first;
    while (first < 0.1 && la_samples_wanted(&reading, LA_BENCH_LEAST, 0)) {
        double begin = la_seconds();
        LA_TRY(la_sampler_prompt(s, text, n));
        la_samples_add(&reading, la_seconds() - begin);
    }
    if (reading.n) *seconds = la_samples_median(&reading);
    return LA_OK;
}

static la_status decode(const run *r, la_sampler *s, const int32_t *text, int64_t position,
                        timing *out) {
    if (!text) return la_fail(LA_NOMEM, "no memory for a text of %lld tokens", (long long)position);
    LA_TRY(read_text(s, text, position, &out->prompt));
    for (int64_t i = 0; i < WARM + r->tokens; i++) {
        int32_t id;
        double  begin = la_seconds();
        LA_TRY(la_sampler_next(s, &id));
        if (i >= WARM) la_samples_add(&out->token, la_seconds() - begin);
    }
    return LA_OK;
}

static la_status measure(const run *r, int64_t position, timing *out) {
    la_sampler    *s;
    la_sampler_cfg cfg = {.seed = (uint64_t)r->b->c->seed, .top_p = 1};
    *out = (timing){0};
    cfg.capacity = position + WARM + r->tokens;
    out->state = la_lm_state_len(r->lm, 1, cfg.capacity) * sizeof(la_real);
    LA_TRY(la_sampler_create(&s, r->lm, &cfg));
    int32_t  *text = random_text(r->b->c, position);
    la_status status = decode(r, s, text, position, out);
    free(text);
    la_sampler_destroy(s);
    return status;
}

/* 2 for each weight of a matrix product, and attention's, of one token. */
static double flops_of(const la_lm *lm, int64_t position) {
    const la_lm_cfg *c = &lm->cfg;
    la_attn_flops    f = la_attn_flops_of(c->attn.variant, position, c->dim / c->heads);
    return 2 * la_lm_weights(lm) + f.token * (double)(c->layers * c->heads);
}

static void say_head(run *r) { /* not before it is known that the first position fits in memory */
    const la_bench  *b = r->b;
    const la_config *c = b->c;
    if (r->said) return;
    r->said = true;
    la_bench_say(
        b,
        "decoding: %s, %lld layers, %lld heads, %lld wide, positions %s; %lld tokens after "
        "each position",
        c->attn, (long long)c->n_layer, (long long)c->n_head, (long long)c->n_embd,
        la_config_given(c, LA_OPT_pos) ? c->pos : "none", (long long)r->tokens);
    la_bench_say_peak(b);
}

static void put(run *r, int64_t position, timing *t) {
    la_bench *b = r->b;
    double    seconds = la_samples_median(&t->token);
    double    gflops = 1e-9 * flops_of(r->lm, position) / seconds;
    say_head(r);
    la_cell cells[] = {
        {"attn", "attn", b->c->attn, 0, 1, 0},
        {"position", "position", NULL, (double)position, 1, 0},
        {"threads", NULL, NULL, la_threads(), 1, 0},
        {"tokens", NULL, NULL, (double)r->tokens, 1, 0},
        {"ms_per_token", "ms/token", NULL, 1e3 * seconds, 1, 4},
        {"min_ms_per_token", "min", NULL, 1e3 * la_samples_min(&t->token), 1, 4},
        {"state_bytes", "state KiB", NULL, (double)t->state, 0x1p10, 1},
        {"prompt_ms", "prompt ms", NULL, 1e3 * t->prompt, 1, 2},
        {"prompt_ms_per_token", "a token", NULL, 1e3 * t->prompt / (double)position, 1, 4},
        {"gflops", "GFLOP/s", NULL, gflops, 1, 1},
        {"percent_of_peak", "% of peak", NULL, 100 * gflops / b->peak, 1, 1},
        {"peak_gflops", NULL, NULL, b->peak, 1, 0},
    };
    la_bench_row(b, cells, sizeof cells / sizeof *cells);
}

static void put_skipped(run *r, int64_t position, const char *why) {
    la_cell cells[] = {
        {"attn", NULL, r->b->c->attn, 0, 1, 0},
        {"position", NULL, NULL, (double)position, 1, 0},
        {"skipped", NULL, why, 0, 1, 0},
    };
    say_head(r);
    if (r->b->c->json)
        la_bench_row(r->b, cells, sizeof cells / sizeof *cells);
    else
        la_bench_say(r->b, "position %lld left out: %s", (long long)position, why);
}

/* Whether a position that nobody named would take too long: reading grows with the square of the
 * length where every token looks at all before it. */
static bool too_long(const run *r, int64_t position, int64_t before, double seconds,
                     char why[128]) {
    double a = flops_of(r->lm, position), b = flops_of(r->lm, before);
    double expected = seconds * (double)position / (double)before * a / b;
    snprintf(why, 128, "reading the text would take about %.0f s, and --positions does not name it",
             expected);
    return !la_config_given(r->b->c, LA_OPT_positions) && expected > PATIENCE;
}

static la_status positions(run *r) {
    double  seconds = 0;
    int64_t before = 1;
    for (int i = 0; i < r->n; i++) {
        char    why[128];
        timing  t;
        int64_t position = r->positions[i];
        if (too_long(r, position, before, seconds, why)) {
            put_skipped(r, position, why);
            continue;
        }
        la_bench_progress(r->b, "position %lld", (long long)position);
        la_status s = measure(r, position, &t);
        if (s == LA_NOMEM && !la_config_given(r->b->c, LA_OPT_positions)) {
            put_skipped(r, position, la_error());
            continue;
        }
        LA_TRY(s);
        LA_TRY(la_bench_peak(r->b));
        put(r, position, &t);
        seconds = t.prompt;
        before = position;
    }
    return LA_OK;
}

la_status la_bench_decode(la_bench *b) {
    run       r = {.b = b};
    la_status s = prepare(&r);
    if (s == LA_OK) s = la_bench_peak(b);
    if (s == LA_OK) s = positions(&r);
    la_lm_destroy(r.lm);
    return s;
}
