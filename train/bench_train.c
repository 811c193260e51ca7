/* bench_train.c -- training steps, as train takes them, on random tokens or a text. */
#include <math.h>
#include <stdlib.h>

#include "tensor/parallel.h"
#include "tensor/rng.h"
#include "train/bench.h"
#include "train/setup.h"
#include "train/system.h"

enum { RANDOM_TOKENS = 65536, WARM = 2 }; /* more than a window; steps before the timed ones */

typedef struct run {
    la_texts   texts;  /* with --data                                               */
    int32_t   *random; /* without                                                   */
    la_ids     ids;
    int64_t    vocab;
    la_trainer trainer;
    size_t     start, peak; /* bytes in memory before the model; the most, 0: unknown   */
    int64_t    steps;
} run;

static la_status random_text(run *r, const la_config *c) {
    int64_t n = RANDOM_TOKENS + c->block_size;
    r->random = malloc((size_t)n * sizeof *r->random);
    if (!r->random) return la_fail(LA_NOMEM, "no memory for %lld random tokens", (long long)n);
    for (int64_t i = 0; i < n; i++)
        r->random[i] = (int32_t)la_rng_below((uint64_t)c->seed, la_rng_stream(LA_RNG_TEST, 0),
                                             (uint64_t)i, (uint64_t)c->vocab);
    r->ids = (la_ids){r->random, sizeof *r->random, n};
    r->vocab = c->vocab;
    return LA_OK;
}

static la_status open_text(run *r, const la_config *c) {
    if (!*c->data) return random_text(r, c);
    if (la_config_given(c, LA_OPT_vocab))
        return la_fail(LA_ARG, "--vocab is for random tokens, and --data has its own: only one can "
                               "be given");
    la_config whole = *c;
    whole.val_frac = 0;
    LA_TRY(la_texts_open(&r->texts, &whole, NULL));
    r->ids = r->texts.train;
    r->vocab = la_tokenizer_vocab(r->texts.tokenizer);
    return LA_OK;
}

static la_status step(run *r) {
    la_step ignored;
    return la_trainer_step(&r->trainer, r->steps++, &ignored);
}

static la_status prepare(run *r, const la_bench *b) {
    la_trainer_cfg cfg;
    LA_TRY(open_text(r, b->c));
    la_bench_progress(b, "building the model");
    LA_TRY(la_trainer_cfg_of(b->c, r->vocab, &cfg));
    size_t measurable = la_memory_peak_begin();
    r->start = la_memory_resident();
    LA_TRY(la_trainer_create(&r->trainer, &cfg, &r->ids));
    for (int i = 0; i < WARM; i++) LA_TRY(step(r));
    r->peak = measurable ? la_memory_peak() : 0; /* later steps allocate nothing */
    return LA_OK;
}

double la_lm_weights(const la_lm *lm) {
    double sum = 0;
    for (la_param i = 0; i < la_params_count(lm->params); i++) {
        la_shape s = la_param_shape(lm->params, i);
        if (s.n == 2 && i != lm->wpe) sum += (double)la_len(s);
    }
    return lm->cfg.mask_token ? sum - (double)lm->cfg.dim : sum;
}

/* 6 ((W - V dim) T + V dim labels) a row, and attention's. */
double la_lm_step_flops(const la_lm *lm, int64_t rows, int64_t T, int64_t labels) {
    la_attn_flops f = la_lm_attention_flops(lm, T);
    double        head = (double)(lm->cfg.vocab * lm->cfg.dim), body = la_lm_weights(lm) - head;
    double        products = body * (double)T + head * (double)(labels ? labels : T);
    return (6 * products + f.forward + f.backward) * (double)rows;
}

static double flops_of(const la_trainer *t) {
    const la_trainer_cfg *c = &t->cfg;
    return la_lm_step_flops(t->lm, c->batch * c->grad_accum, c->lm.block_size, 0);
}

static la_status time_steps(run *r, la_bench *b) {
    const la_config *c = b->c;
    la_samples       s = {0};
    LA_TRY(la_bench_peak(b));
    la_bench_say(
        b,
        "training steps: %s, %lld layers, %lld heads, %lld wide, %lld windows of %lld tokens, "
        "%lld numbers; tokens are %s; objective %s",
        c->attn, (long long)c->n_layer, (long long)c->n_head, (long long)c->n_embd,
        (long long)(c->batch_size * c->grad_accum), (long long)c->block_size,
        (long long)la_params_numbers(r->trainer.lm->params), *c->data ? c->data : "random",
        c->objective);
    la_bench_say(b,
                 "flops: 6 for each token and weight of a matrix product (Kaplan et al. 2020), and "
                 "attention's");
    la_bench_say(b, "%s", la_attn_flops_text);
    la_bench_progress(b, "training steps");
    while (la_samples_wanted(&s, c->repeats, 1)) {
        double begin = la_seconds();
        LA_TRY(step(r));
        la_samples_add(&s, la_seconds() - begin);
    }
    LA_TRY(la_bench_peak(b));
    la_bench_say_peak(b);
    double  seconds = la_samples_median(&s), gflops = 1e-9 * flops_of(&r->trainer) / seconds;
    double  tokens = (double)(c->batch_size * c->grad_accum * c->block_size);
    la_cell cells[] = {
        {"attn", "attn", c->attn, 0, 1, 0},
        {"objective", NULL, c->objective, 0, 1, 0},
        {"n_layer", NULL, NULL, (double)c->n_layer, 1, 0},
        {"n_head", NULL, NULL, (double)c->n_head, 1, 0},
        {"n_embd", NULL, NULL, (double)c->n_embd, 1, 0},
        {"block_size", NULL, NULL, (double)c->block_size, 1, 0},
        {"batch_size", NULL, NULL, (double)c->batch_size, 1, 0},
        {"threads", NULL, NULL, la_threads(), 1, 0},
        {"repeats", NULL, NULL, (double)s.n, 1, 0},
        {"ms_per_step", "ms/step", NULL, 1e3 * seconds, 1, 2},
        {"min_ms_per_step", "min", NULL, 1e3 * la_samples_min(&s), 1, 2},
        {"tokens_per_s", "tokens/s", NULL, tokens / seconds, 1, 0},
        {"gflops", "GFLOP/s", NULL, gflops, 1, 1},
        {"percent_of_peak", "% of peak", NULL, 100 * gflops / b->peak, 1, 1},
        {"peak_gflops", NULL, NULL, b->peak, 1, 0},
        {"planned_bytes", "planned MiB", NULL, (double)la_trainer_bytes(&r->trainer), 0x1p20, 1},
        {"start_bytes", "at start MiB", NULL, (double)r->start, 0x1p20, 1},
        {"peak_bytes", "peak MiB", NULL, r->peak ? (double)r->peak : NAN, 0x1p20, 1},
    };
    la_bench_row(b, cells, sizeof cells / sizeof *cells);
    return LA_OK;
}

la_status la_bench_train(la_bench *b) {
    run       r = {0};
    la_status s = prepare(&r, b);
    if (s == LA_OK) s = time_steps(&r, b);
    la_trainer_destroy(&r.trainer);
    la_texts_close(&r.texts);
    free(r.random);
    return s;
}
