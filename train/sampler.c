/* sampler.c -- the parallel form reads, the recurrent form writes. */
#include "train/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/arena.h"
#include "tensor/rng.h"
#include "train/system.h"

enum { PIECE = 512 }; /* tokens of a prompt read in one replay */

typedef struct reader { /* a tape that reads T tokens and leaves the logits after the last */
    la_tape *tape;
    la_node *logits;
    int64_t  T;
    int32_t *tokens, *positions;
} reader;

typedef struct choice {
    int32_t id;
    double  p;
} choice;

struct la_sampler {
    const la_lm   *lm;
    la_sampler_cfg cfg;
    la_real       *state;
    size_t         state_len;
    reader         one, piece, rest; /* T = 1, PIECE, and whatever a prompt leaves          */
    const la_real *logits;
    int32_t        past;   /* tokens that the state has seen                                */
    int32_t       *recent; /* with learned positions: the tokens of this block, in a row    */
    int64_t        block;  /* their number at most; 0: no limit                             */
    uint64_t       drawn;
    int64_t        rebuilt;
    choice        *choices; /* (vocab) */
    int            plan_only;
};

static void close_reader(reader *r) {
    la_tape_destroy(r->tape);
    free(r->tokens);
    free(r->positions);
    *r = (reader){0};
}

static la_status open_reader(reader *r, la_sampler *s, int64_t T) {
    close_reader(r);
    r->T = T;
    r->tokens = calloc((size_t)T, sizeof *r->tokens);
    r->positions = calloc((size_t)T, sizeof *r->positions);
    if (!r->tokens || !r->positions)
        return la_fail(LA_NOMEM, "no memory to read %lld tokens", (long long)T);
    LA_TRY(la_tape_create(&r->tape, &(la_tape_cfg){.plan_only = s->plan_only}));
    la_shape    shape = la_shape2(1, T);
    la_lm_input in = {.tokens = la_integers(r->tape, "tokens", shape, r->tokens),
                      .positions = la_integers(r->tape, "positions", shape, r->positions),
                      .past = la_integers(r->tape, "past", la_shape1(1), &s->past),
                      .state = s->state,
                      .capacity = s->cfg.capacity};
    r->logits = la_keep(la_lm_logits(s->lm, r->tape, &in));
    return la_tape_seal(r->tape, NULL);
}

static la_status read_tokens(la_sampler *s, reader *r, const int32_t *ids) {
    memcpy(r->tokens, ids, (size_t)r->T * sizeof *ids);
    for (int64_t i = 0; i < r->T; i++) r->positions[i] = s->past + (int32_t)i;
    LA_TRY(la_tape_forward(r->tape));
    if (s->block) memmove(s->recent + s->past, ids, (size_t)r->T * sizeof *ids);
    s->logits = r->logits->x + (r->T - 1) * s->lm->cfg.vocab;
    s->past += (int32_t)r->T;
    return LA_OK;
}

static void measure(la_sampler *s) {
    s->block = la_lm_longest(s->lm);
    if (s->block) s->cfg.capacity = s->block;
    s->state_len = la_lm_state_len(s->lm, 1, s->cfg.capacity);
}

static la_status create(la_sampler *s) {
    const la_lm_cfg *c = &s->lm->cfg;
    measure(s);
    size_t bytes = s->state_len * sizeof *s->state, room = la_memory_available();
    if (room && bytes > room)
        return la_fail(
            LA_NOMEM,
            "a state for %lld tokens needs %.1f MiB and %.1f MiB are free: ask for fewer tokens",
            (long long)s->cfg.capacity, (double)bytes / 0x1p20, (double)room / 0x1p20);
    s->state = la_alloc_aligned((s->state_len ? s->state_len : 1) * sizeof *s->state);
    s->recent = s->block ? malloc((size_t)s->block * sizeof *s->recent) : NULL;
    s->choices = malloc((size_t)c->vocab * sizeof *s->choices);
    if (!s->state || (s->block && !s->recent) || !s->choices)
        return la_fail(LA_NOMEM, "no memory for a state of %.1f MiB",
                       (double)s->state_len * sizeof(la_real) / 0x1p20);
    return open_reader(&s->one, s, 1);
}

la_status la_sampler_check(const la_lm_cfg *model) {
    if (!model->bidirectional && !model->mask_token) return LA_OK;
    return la_fail(LA_ARG,
                   "a model of the masked objective (--objective mlm) has no next token: it "
                   "fills in hidden tokens of a whole text and cannot go on with one");
}

la_status la_sampler_create(la_sampler **out, const la_lm *lm, const la_sampler_cfg *cfg) {
    *out = NULL;
    LA_TRY(la_sampler_check(&lm->cfg));
    la_sampler *s = *out = calloc(1, sizeof *s);
    if (!s) return la_fail(LA_NOMEM, "no memory for a sampler");
    s->lm = lm;
    s->cfg = *cfg;
    la_status status = create(s);
    if (status != LA_OK) {
        la_sampler_destroy(s);
        *out = NULL;
    }
    return status;
}

void la_sampler_destroy(la_sampler *s) {
    if (!s) return;
    close_reader(&s->one);
    close_reader(&s->piece);
    close_reader(&s->rest);
    free(s->state);
    free(s->recent);
    free(s->choices);
    free(s);
}

/* Half a block is free again afterwards; a block of one token is read anew each time. */
static int64_t half_block(const la_sampler *s) { return s->block > 1 ? s->block / 2 : 1; }

static la_status add_reader(la_sampler *s, int64_t T, size_t *bytes) {
    reader r = {0};
    if (T == 0) return LA_OK;
    la_status status = open_reader(&r, s, T);
    if (status == LA_OK)
        *bytes +=
            la_tape_bytes(r.tape) + la_tape_recorded(r.tape) + 2 * (size_t)T * sizeof *r.tokens;
    close_reader(&r);
    return status;
}

/* The readers of read_text, first for the prompt and then for half blocks; `rest` is the larger. */
la_status la_sampler_plan(const la_lm *lm, const la_sampler_cfg *cfg, int64_t n, size_t *bytes) {
    la_sampler s = {.lm = lm, .cfg = *cfg, .plan_only = 1};
    measure(&s); /* which sets the capacity to the block, if there is one */
    size_t  state = s.state_len * sizeof *s.state;
    int64_t half = s.block && cfg->capacity > s.block ? half_block(&s) : 0;
    if (s.block && n > s.block) n = half_block(&s);
    int64_t longest = n > half ? n : half, rest = n % PIECE;
    if (rest < half % PIECE) rest = half % PIECE;
    s.state = la_reserve(state); /* a text that goes on has an address */
    if (!s.state) return la_fail(LA_NOMEM, "no addresses for a state of %zu bytes", state);
    *bytes = state + (size_t)s.block * sizeof *s.recent + (size_t)lm->cfg.vocab * sizeof *s.choices;
    la_status status = add_reader(&s, 1, bytes);
    if (status == LA_OK && longest >= PIECE) status = add_reader(&s, PIECE, bytes);
    if (status == LA_OK && rest > 1) status = add_reader(&s, rest, bytes);
    la_unreserve(s.state, state);
    return status;
}

static la_status read_text(la_sampler *s, const int32_t *ids, int64_t n) {
    la_lm_state_start(s->lm, 1, s->cfg.capacity, s->state);
    s->past = 0;
    for (; n >= PIECE; ids += PIECE, n -= PIECE) {
        if (!s->piece.tape) LA_TRY(open_reader(&s->piece, s, PIECE));
        LA_TRY(read_tokens(s, &s->piece, ids));
    }
    if (n == 0) return LA_OK;
    if (n == 1) return read_tokens(s, &s->one, ids);
    if (!s->rest.tape || s->rest.T != n) LA_TRY(open_reader(&s->rest, s, n));
    return read_tokens(s, &s->rest, ids);
}

la_status la_sampler_prompt(la_sampler *s, const int32_t *ids, int64_t n) {
    if (n < 1) return la_fail(LA_ARG, "a prompt needs at least one token");
    if (!s->block && n > s->cfg.capacity)
        return la_fail(LA_ARG, "the prompt has %lld tokens and there is room for %lld",
                       (long long)n, (long long)s->cfg.capacity);
    s->drawn = 0;
    s->rebuilt = 0;
    if (s->block && n > s->block) {
        ids += n - half_block(s);
        n = half_block(s);
        s->rebuilt = 1;
    }
    return read_text(s, ids, n);
}

static int likelier(const void *a, const void *b) {
    const choice *p = a, *q = b;
    if (p->p != q->p) return p->p < q->p ? 1 : -1;
    return p->id - q->id;
}

static int32_t draw(la_sampler *s) {
    int64_t V = s->lm->cfg.vocab, n = V;
    for (int64_t v = 0; v < V; v++) s->choices[v] = (choice){(int32_t)v, (double)s->logits[v]};
    qsort(s->choices, (size_t)V, sizeof *s->choices, likelier);
    if (s->cfg.temperature <= 0) return s->choices[0].id;
    if (s->cfg.top_k > 0 && s->cfg.top_k < n) n = s->cfg.top_k;
    double top = s->choices[0].p, total = 0, kept = 0;
    for (int64_t i = 0; i < n; i++)
        total += s->choices[i].p = exp((s->choices[i].p - top) / s->cfg.temperature);
    int64_t m = 0; /* the fewest tokens that have top_p of the probability */
    while (m < n && (m == 0 || kept < s->cfg.top_p * total)) kept += s->choices[m++].p;
    double u = la_rng_uniform(s->cfg.seed, la_rng_stream(LA_RNG_SAMPLE, 0), s->drawn++) * kept;
    for (int64_t i = 0; i < m - 1; i++)
        if ((u -= s->choices[i].p) < 0) return s->choices[i].id;
    return s->choices[m - 1].id;
}

la_status la_sampler_next(la_sampler *s, int32_t *id) {
    *id = draw(s);
    if (!s->block || s->past < s->block) {
        if (s->past >= s->cfg.capacity)
            return la_fail(LA_STATE, "the text has reached the %lld tokens that were asked for",
                           (long long)s->cfg.capacity);
        return read_tokens(s, &s->one, id);
    }
    int64_t  n = half_block(s); /* the last n tokens, the new one among them */
    int32_t *tail = s->recent;
    memmove(tail, s->recent + s->block - (n - 1), (size_t)(n - 1) * sizeof *tail);
    tail[n - 1] = *id;
    s->rebuilt++;
    return read_text(s, tail, n);
}

const la_real *la_sampler_logits(const la_sampler *s) { return s->logits; }
int64_t        la_sampler_rebuilt(const la_sampler *s) { return s->rebuilt; }
