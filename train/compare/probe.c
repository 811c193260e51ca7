/* probe.c -- measurements of one trained model, each a forward pass that is replayed. */
#include "train/compare/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/loader.h"
#include "data/masking.h"
#include "train/bench.h"
#include "train/compare/numbers.h"
#include "train/system.h"
#include "train/text_stream.h"
#include "train/trainer.h"
#include "train/weights.h"
#include "train/write.h"

/* --- loss by position --- */
enum { PASS_TOKENS = 4096, PASS_LOGITS = 1 << 23 }; /* of one replay; a single row may have more */

typedef struct pass { /* a tape of logits over (rows,length) tokens */
    la_tape *tape;
    la_node *logits;
    int64_t  rows, length;
    int32_t *tokens, *labels, *positions, past;
} pass;

static la_status pass_create(pass *p, const la_lm *lm) {
    const int64_t n = p->rows * p->length;
    p->tokens = malloc((size_t)n * sizeof *p->tokens);
    p->labels = malloc((size_t)n * sizeof *p->labels);
    p->positions = malloc((size_t)n * sizeof *p->positions);
    if (!p->tokens || !p->labels || !p->positions)
        return la_fail(LA_NOMEM, "no memory for %lld tokens", (long long)n);
    for (int64_t i = 0; i < n; i++) p->positions[i] = (int32_t)(i % p->length);
    LA_TRY(la_tape_create(&p->tape, &(la_tape_cfg){.max_bytes = la_memory_available()}));
    la_shape    s = la_shape2(p->rows, p->length);
    la_lm_input in = {.tokens = la_integers(p->tape, "tokens", s, p->tokens),
                      .positions = la_integers(p->tape, "positions", s, p->positions),
                      .past = la_integers(p->tape, "past", la_shape1(1), &p->past)};
    p->logits = la_keep(la_lm_logits(lm, p->tape, &in));
    return la_tape_seal(p->tape, NULL);
}

static void pass_destroy(pass *p) {
    la_tape_destroy(p->tape);
    free(p->tokens);
    free(p->labels);
    free(p->positions);
}

/* log sum_v exp(x_v) - x_label, in double */
static double token_loss(const la_real *x, int64_t V, int32_t label) {
    double top = (double)x[0], sum = 0;
    for (int64_t v = 1; v < V; v++) top = fmax(top, (double)x[v]);
    for (int64_t v = 0; v < V; v++) sum += exp((double)x[v] - top);
    return top + log(sum) - (double)x[label];
}

/* Adds each token's loss to sum[its position]. */
static la_status add_losses(pass *p, const la_ids *text, int64_t windows, int64_t V, double *sum) {
    for (int64_t first = 0; first < windows; first += p->rows) {
        la_eval_fill(text, p->length, first, p->rows, p->tokens, p->labels);
        LA_TRY(la_tape_forward(p->tape));
        for (int64_t i = 0; i < p->rows * p->length; i++) {
            if (p->labels[i] == LA_NO_TARGET) continue; /* a row past the last window */
            double loss = token_loss(p->logits->x + i * V, V, p->labels[i]);
            if (!isfinite(loss))
                return la_fail(LA_NUMERIC, "the loss at position %lld of a window is not finite",
                               (long long)(i % p->length));
            sum[i % p->length] += loss;
        }
    }
    return LA_OK;
}

/* Means over buckets 0, 1, 2-3, 4-7, ... of positions. */
static void fill_buckets(la_probe_positions *out, const double *sum) {
    double all = 0;
    for (int64_t from = 0, to = 1; from < out->length; from = to, to *= 2) {
        double bucket = 0;
        to = to < out->length ? to : out->length;
        for (int64_t t = from; t < to; t++) bucket += sum[t];
        out->from[out->n] = from;
        out->to[out->n] = to;
        out->loss[out->n++] = bucket / (double)((to - from) * out->windows);
        all += bucket;
    }
    out->mean = all / (double)(out->length * out->windows);
}

/* Whether there are such windows for this model; else out->refused says why not. */
static bool readable(const la_lm *lm, const la_ids *text, la_probe_positions *out) {
    const int64_t   most = la_lm_longest(lm), block = lm->cfg.block_size;
    const long long length = out->length;
    if (lm->cfg.mask_token)
        snprintf(out->refused, LA_PROBE_REFUSED,
                 "a model of --objective=mlm predicts the hidden tokens of a window and not the "
                 "next one, so there is no loss at each position");
    else if (most > 0 && out->length > most && lm->cfg.pos == LA_POS_LEARNED && most == block)
        snprintf(out->refused, LA_PROBE_REFUSED,
                 "windows of %lld tokens: the learned positions of the model end at --block-size "
                 "%lld; with --pos rope or none most variants go on",
                 length, (long long)block);
    else if (most > 0 && out->length > most)
        snprintf(out->refused, LA_PROBE_REFUSED,
                 "windows of %lld tokens: the attention of the model weighs places and ends at "
                 "%lld tokens; its option length=%lld, in training, would reach that far",
                 length, (long long)most, length);
    else if (!out->windows)
        snprintf(out->refused, LA_PROBE_REFUSED,
                 "windows of %lld tokens: the validation text has %lld, and a window with the "
                 "token after it needs %lld; a longer text would help",
                 length, (long long)text->n, length + 1);
    return !*out->refused;
}

static int64_t rows_of_pass(const la_probe_positions *out, int64_t V) {
    int64_t tokens = PASS_LOGITS / V < PASS_TOKENS ? PASS_LOGITS / V : PASS_TOKENS;
    int64_t rows = tokens / out->length;
    if (rows > out->windows) rows = out->windows;
    return rows > 0 ? rows : 1;
}

la_status la_probe_loss_by_position(const la_lm *lm, const la_ids *text, int64_t times,
                                    int64_t most, la_probe_positions *out) {
    const int64_t V = lm->cfg.vocab, length = times * lm->cfg.block_size;
    const la_ids  part = most > 0 && most + 1 < text->n ? la_ids_slice(text, 0, most + 1) : *text;
    *out = (la_probe_positions){
        .times = times, .length = length, .windows = la_eval_windows(part.n, length), .mean = NAN};
    if (!readable(lm, &part, out)) return LA_OK;
    pass      p = {.rows = rows_of_pass(out, V), .length = length};
    double   *sum = calloc((size_t)length, sizeof *sum);
    la_status s = sum ? pass_create(&p, lm)
                      : la_fail(LA_NOMEM, "no memory for %lld positions", (long long)length);
    if (s == LA_NOMEM) {
        snprintf(out->refused, LA_PROBE_REFUSED, "windows of %lld tokens: %.400s",
                 (long long)length, la_error());
        s = LA_OK;
    } else {
        if (s == LA_OK) s = add_losses(&p, &part, out->windows, V, sum);
        if (s == LA_OK) fill_buckets(out, sum);
    }
    pass_destroy(&p);
    free(sum);
    return s;
}

/* --- entropy --- */
/* Adds row t of a head: weights w of T tokens, of which `seen` could have one. */
static void add_row(la_probe_head *h, const la_real *w, int64_t T, int64_t seen) {
    double sum = 0, below = 0, entropy = 0;
    for (int64_t j = 0; j < T; j++) {
        sum += fabs((double)w[j]);
        below += w[j] < 0 ? fabs((double)w[j]) : 0;
    }
    if (sum == 0) return;
    for (int64_t j = 0; j < T; j++) {
        double p = fabs((double)w[j]) / sum;
        if (p > 0) entropy -= p * log(p);
    }
    h->mean += entropy;
    h->negative += below / sum;
    h->uniform += log((double)seen);
    h->rows++;
}

static la_status add_windows(la_weights *w, const la_ids *text, int64_t windows,
                             la_probe_heads *out) {
    const la_lm_cfg *c = &w->lm->cfg;
    const int64_t    T = w->T, all = text->n / T, used = windows < all ? windows : all;
    int32_t *labels = malloc((size_t)T * sizeof *labels); /* of masked tokens: not looked at */
    if (!labels) return la_fail(LA_NOMEM, "no memory for %lld labels", (long long)T);
    la_status s = LA_OK;
    for (int64_t i = 0; i < used && s == LA_OK; i++) {
        const int64_t window = i * all / used;
        la_ids_copy(text, window * T, T, w->tokens);
        if (c->mask_token)
            la_mask_rows(LA_EVAL_MASK_SEED, (uint64_t)window, 1, T, c->vocab, w->tokens, labels);
        s = la_weights_compute(w);
        for (int64_t k = 0; k < out->n && s == LA_OK; k++) {
            la_probe_head  *h = out->head + k;
            la_weights_head of = la_weights_of(w, h->layer, h->head);
            for (int64_t t = 1; t < T; t++)
                add_row(h, of.w + t * of.ld, T, c->bidirectional ? T : t + 1);
        }
    }
    free(labels);
    return s;
}

static la_status entropy(const la_lm *lm, const char *attn, const la_ids *text, int64_t windows,
                         la_probe_heads *out) {
    const int64_t T = lm->cfg.block_size, H = lm->cfg.heads, layers = la_weights_layers(lm);
    la_weights    w;
    if (text->n < T)
        return la_fail(LA_DATA,
                       "the validation text has %lld tokens, and the entropy of attention is of "
                       "windows of %lld",
                       (long long)text->n, (long long)T);
    out->head = calloc((size_t)(layers * H), sizeof *out->head);
    if (!out->head) return la_fail(LA_NOMEM, "no memory for %lld heads", (long long)(layers * H));
    LA_TRY(la_weights_create(&w, lm, T, la_memory_available()));
    for (int64_t i = 0; i < lm->cfg.layers; i++)
        for (int64_t h = 0; lm->blocks[i].attends && h < H; h++) {
            la_probe_head *to = out->head + out->n++;
            *to = (la_probe_head){.layer = i, .head = h};
            to->attn = la_weights_spec(attn, lm->cfg.attn.n, i, la_weights_of(&w, i, h).group,
                                       &to->attn_len);
        }
    la_status s = add_windows(&w, text, windows, out);
    for (int64_t k = 0; k < out->n; k++) {
        la_probe_head *h = out->head + k;
        h->mean /= (double)h->rows; /* NAN where there are none */
        h->uniform /= (double)h->rows;
        h->negative /= (double)h->rows;
    }
    la_weights_destroy(&w);
    return s;
}

la_status la_probe_entropy(const la_lm *lm, const char *attn, const la_ids *text, int64_t windows,
                           la_probe_heads *out) {
    *out = (la_probe_heads){0};
    if (!la_weights_layers(lm)) return LA_OK;
    la_status s = entropy(lm, attn, text, windows, out);
    if (s != LA_OK) la_probe_heads_free(out);
    return s;
}

void la_probe_heads_free(la_probe_heads *h) {
    free(h->head);
    *h = (la_probe_heads){0};
}

/* --- a sample --- */
/* s as UTF-8 that a C string and JSON can hold. */
static char *clean(const char *s, size_t n) {
    static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */
    char             *out = malloc(3 * n + 1), *to = out;
    for (size_t i = 0; out && i < n;) {
        uint32_t    point;
        int         length = la_utf8_decode(s + i, (int64_t)(n - i), &point);
        const bool  bad = length == 0 || point == 0;
        const int   put = bad ? 3 : length;
        const char *from = bad ? replacement : s + i;
        memcpy(to, from, (size_t)put);
        to += put;
        i += bad ? 1 : (size_t)length;
    }
    if (out) *to = 0;
    return out;
}

la_status la_probe_sample(const la_lm *lm, const la_tokenizer *k, const char *prompt, uint64_t seed,
                          char **text) {
    char      *raw = NULL;
    size_t     n = 0;
    la_writing w = {.prompt = prompt, .tokens = LA_PROBE_TOKENS, .sampler = {0.8, 200, 1, seed, 0}};
    *text = NULL;
    LA_TRY(la_sampler_check(&lm->cfg));
    FILE *out = la_text_stream(&raw, &n);
    if (!out) return la_fail(LA_NOMEM, "no memory for a sample");
    la_status s = la_write_text(lm, k, &w, out, NULL);
    bool      whole = !ferror(out);
    whole = fclose(out) == 0 && whole;
    if (s == LA_OK && whole) *text = clean(raw, n);
    free(raw);
    if (s == LA_OK && !*text) return la_fail(LA_NOMEM, "no memory for a sample of %zu bytes", n);
    return s;
}

/* --- cost --- */
la_probe_cost la_probe_cost_of(const la_lm *lm, int64_t windows, int64_t labels) {
    const int64_t T = lm->cfg.block_size;
    return (la_probe_cost){
        .parameters = la_params_numbers(lm->params),
        .frozen = la_params_frozen_numbers(lm->params),
        .state_bytes = lm->cfg.bidirectional ? 0 : la_lm_state_len(lm, 1, T) * sizeof(la_real),
        .tokens_per_step = windows * T,
        .flops_per_step = la_lm_step_flops(lm, windows, T, labels)};
}

/* --- JSON --- */
json_t *la_probe_positions_json(const la_probe_positions *p) {
    json_t *from = json_array(), *to = json_array(), *loss = json_array();
    int     bad = !from || !to || !loss;
    for (int i = 0; i < p->n && !bad; i++)
        bad = json_array_append_new(from, json_integer(p->from[i])) ||
              json_array_append_new(to, json_integer(p->to[i])) ||
              json_array_append_new(loss, la_number_or_null(p->loss[i]));
    json_t *all = json_pack("{s:I, s:I, s:s, s:o, s:o, s:o}", "times", (json_int_t)p->times,
                            "length", (json_int_t)p->length, "refused", p->refused, "from", from,
                            "to", to, "loss", loss);
    if (!bad) return all;
    json_decref(all);
    return NULL;
}

json_t *la_probe_heads_json(const la_probe_heads *h) {
    json_t *all = json_array();
    int     bad = !all;
    for (int64_t i = 0; i < h->n && !bad; i++) {
        const la_probe_head *x = h->head + i;
        bad = json_array_append_new(
            all, json_pack("{s:I, s:I, s:s%, s:o, s:o, s:o}", "layer", (json_int_t)x->layer, "head",
                           (json_int_t)x->head, "attn", x->attn, (size_t)x->attn_len, "mean",
                           la_number_or_null(x->mean), "uniform", la_number_or_null(x->uniform),
                           "negative", la_number_or_null(x->negative)));
    }
    if (!bad) return all;
    json_decref(all);
    return NULL;
}
