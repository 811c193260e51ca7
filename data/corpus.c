/* corpus.c -- what stands at the start of a text, and where it is cut in two. */
#include "data/corpus.h"
#include "data/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Line ends are looked for in this many bytes: a file has one kind or the other from its
 * start, and reading 4 GiB only for a warning would take seconds. */
enum { CRLF_SCAN = 1 << 20 };

static bool starts(const la_source *s, const char *mark, int64_t n) {
    return s->n >= n && memcmp(s->bytes, mark, (size_t)n) == 0;
}

/* Byte order marks of what is not UTF-8; the longer ones first, as one begins with another. */
static const struct {
    const char *mark;
    int64_t     n;
    const char *name;
} foreign[] = {
    {"\xFF\xFE\0\0", 4, "UTF-32"},
    {"\0\0\xFE\xFF", 4, "UTF-32"},
    {"\xFF\xFE", 2, "UTF-16"},
    {"\xFE\xFF", 2, "UTF-16"},
};

static la_status add_note(la_corpus *c, const char *note) {
    if (!note) return la_fail(LA_NOMEM, "no memory for a note about a text");
    c->notes[c->n_notes++] = note;
    return LA_OK;
}

/* Offset of the first CR LF among the first CRLF_SCAN bytes, or -1. */
static int64_t find_crlf(const la_source *s) {
    int64_t scan = s->n < CRLF_SCAN ? s->n : CRLF_SCAN;
    for (int64_t i = 0; i + 1 < scan; i++)
        if (s->bytes[i] == '\r' && s->bytes[i + 1] == '\n') return i;
    return -1;
}

static la_status inspect(la_corpus *c) {
    const la_source *s = &c->source;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (starts(s, foreign[i].mark, foreign[i].n))
            return la_fail(LA_DATA,
                           "%s is %s, not UTF-8; convert it first: "
                           "iconv -f %s -t UTF-8 %s > utf8.txt",
                           s->name, foreign[i].name, foreign[i].name,
                           strcmp(s->name, "standard input") == 0 ? "FILE" : s->name);
    if (starts(s, "\xEF\xBB\xBF", 3)) {
        c->start = 3;
        if (s->n == 3)
            return la_fail(LA_DATA, "%s is empty: it has a byte order mark and 0 tokens", s->name);
        LA_TRY(add_note(c, la_arena_printf(&c->words,
                                           "%s starts with a UTF-8 byte order mark, which is "
                                           "left out",
                                           s->name)));
    }
    int64_t at = find_crlf(s);
    if (at < 0) return LA_OK;
    return add_note(c, la_arena_printf(&c->words,
                                       "%s has Windows line ends (CR LF, the first at byte %" PRId64
                                       "), which are kept: the model will learn to write them",
                                       s->name, at));
}

static la_status open_text(la_corpus *c, const char *path) {
    LA_TRY(la_source_open(&c->source, path, LA_STREAM_MAX));
    c->what = la_arena_printf(&c->words, "the text %s", c->source.name);
    if (!c->what) return la_fail(LA_NOMEM, "no memory for the name of a text");
    return inspect(c);
}

la_status la_corpus_open(la_corpus *c, const char *path) {
    *c = (la_corpus){0};
    la_status done = open_text(c, path);
    if (done != LA_OK) la_corpus_close(c);
    return done;
}

void la_corpus_close(la_corpus *c) {
    la_source_close(&c->source);
    la_arena_free(&c->words);
    free(c->owned);
    *c = (la_corpus){0};
}

const char *la_corpus_note(const la_corpus *c, int i) {
    return i >= 0 && i < c->n_notes ? c->notes[i] : NULL;
}

la_text la_corpus_text(const la_corpus *c) {
    return (la_text){c->what, c->source.bytes + c->start, c->source.n - c->start, c->start};
}

int64_t la_corpus_size(const la_corpus *c) { return c->source.n; }

uint64_t la_corpus_hash(const la_corpus *c) {
    return la_hash64(LA_HASH64_START, c->source.bytes, (size_t)c->source.n);
}

la_status la_corpus_encode(la_corpus *c, const la_tokenizer *k) {
    if (!c->source.bytes) return la_fail(LA_STATE, "a corpus must be opened before it is encoded");
    la_text text = la_corpus_text(c);
    int     width = la_ids_width(la_tokenizer_vocab(k));
    free(c->owned);
    c->owned = NULL;
    c->ids = c->train = c->valid = (la_ids){0};
    if (la_tokenizer_kind_of(k)->raw) {
        c->ids = (la_ids){text.bytes, 1, text.n};
        return LA_OK;
    }
    int64_t n = la_utf8_count(text.bytes, text.n);
    c->owned = malloc((size_t)(n > 0 ? n : 1) * (size_t)width);
    if (!c->owned)
        return la_fail(LA_NOMEM,
                       "no memory for %" PRId64 " ids of %d bytes; --tokenizer=byte "
                       "needs none",
                       n, width);
    LA_TRY(la_encode_as(k, text, width, c->owned, &n));
    c->ids = (la_ids){c->owned, width, n};
    return LA_OK;
}

int64_t la_corpus_cut(int64_t n, double val_frac) { return (int64_t)((double)n * (1 - val_frac)); }

/* The shortest decimal --val-frac that leaves exactly `need` of n tokens for validation, as
 * few as will do, and as text that reads back as the same number.  It is tried out with the
 * very cut that is used, so rounding cannot make it fail.  Written from integers, because
 * printf would write a decimal comma in some languages. */
static bool smallest_frac(int64_t n, int64_t need, char out[32]) {
    if (n - need < need) return false; /* the training part would be too short */
    double scale = 1;
    for (int digits = 1; digits <= 15; digits++) {
        scale *= 10;
        int64_t k = (int64_t)((double)(need - 1) / (double)n * scale);
        for (int64_t last = k + 2; k <= last; k++) {
            int64_t valid = n - la_corpus_cut(n, (double)k / scale);
            if (valid < need) continue;
            if (valid > need) break;
            snprintf(out, 32, "0.%0*" PRId64, digits, k);
            return true;
        }
    }
    return false;
}

static la_status train_too_short(const la_corpus *c, int64_t need, bool split) {
    return la_fail(LA_DATA,
                   "%s gives %" PRId64 " training tokens of its %" PRId64
                   ", but --block-size %" PRId64 " needs at least %" PRId64
                   ": use a longer text%s or a smaller "
                   "--block-size",
                   c->what, c->train.n, c->ids.n, need - 1, need,
                   split && c->ids.n >= need ? ", a smaller --val-frac" : "");
}

static la_status valid_too_short(const la_corpus *c, int64_t need) {
    char frac[32];
    if (smallest_frac(c->ids.n, need, frac))
        return la_fail(LA_DATA,
                       "%s gives %" PRId64 " validation tokens of its %" PRId64
                       ", but --block-size %" PRId64 " needs at least %" PRId64
                       ": the smallest --val-frac that works is %s; --val-frac 0 trains without "
                       "validation",
                       c->what, c->valid.n, c->ids.n, need - 1, need, frac);
    return la_fail(LA_DATA,
                   "%s gives %" PRId64 " validation tokens of its %" PRId64
                   ", but --block-size %" PRId64 " needs at least %" PRId64
                   ", and as many for training: no --val-frac "
                   "works; use a longer text or a smaller --block-size; --val-frac 0 trains "
                   "without validation",
                   c->what, c->valid.n, c->ids.n, need - 1, need);
}

static la_status use_other(la_corpus *c, la_corpus *valid, const la_tokenizer *k, int64_t need) {
    valid->what = la_arena_printf(&valid->words, "the validation text %s", valid->source.name);
    if (!valid->what) return la_fail(LA_NOMEM, "no memory for the name of a text");
    LA_TRY(la_corpus_encode(valid, k));
    if (valid->ids.n < need)
        return la_fail(LA_DATA,
                       "%s has %" PRId64 " tokens, but --block-size %" PRId64
                       " needs at least %" PRId64
                       ": use a longer one, or --val-frac 0 and no --val-data to train "
                       "without validation",
                       valid->what, valid->ids.n, need - 1, need);
    c->valid = valid->ids;
    return LA_OK;
}

la_status la_corpus_split(la_corpus *c, la_corpus *valid, const la_tokenizer *k, double val_frac,
                          int64_t block_size) {
    if (block_size < 1 || block_size == INT64_MAX)
        return la_fail(LA_ARG, "--block-size is %" PRId64 ", but must be at least 1", block_size);
    if (!valid && !(val_frac >= 0 && val_frac < 1))
        return la_fail(LA_ARG, "--val-frac is %g, but must be at least 0 and below 1", val_frac);
    int64_t need = block_size + 1; /* a window and the target of its last token */
    LA_TRY(la_corpus_encode(c, k));
    int64_t cut = valid ? c->ids.n : la_corpus_cut(c->ids.n, val_frac);
    c->train = la_ids_slice(&c->ids, 0, cut);
    c->valid = la_ids_slice(&c->ids, cut, c->ids.n - cut);
    if (c->train.n < need) return train_too_short(c, need, !valid && val_frac > 0);
    if (valid) return use_other(c, valid, k, need);
    if (val_frac > 0 && c->valid.n < need) return valid_too_short(c, need);
    return LA_OK;
}
