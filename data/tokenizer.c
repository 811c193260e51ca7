/* tokenizer.c -- the two kinds of tokenizer and the table that lists them. */
#include "data/tokenizer.h"
#include "data/ids.h"
#include "tensor/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct la_tokenizer {
    const la_tokenizer_kind *kind;
    int                      vocab;
    uint32_t                *points; /* char: [vocab], the code point of an id          */
    int32_t                 *number; /* char: [LA_CODE_POINTS], id + 1; 0 has no id      */
};

static void put(void *ids, int width, int64_t i, int32_t id) {
    if (width == 1)
        ((uint8_t *)ids)[i] = (uint8_t)id;
    else if (width == 2)
        ((uint16_t *)ids)[i] = (uint16_t)id;
    else
        ((int32_t *)ids)[i] = id;
}

/* ---- byte ------------------------------------------------------------------------------- */

static la_status byte_learn(la_tokenizer *k, la_text text) {
    (void)text;
    k->vocab = 256;
    return LA_OK;
}

static la_status byte_load(la_tokenizer *k, const uint32_t *points, int64_t n) {
    (void)points;
    if (n != 0)
        return la_fail(LA_FORMAT,
                       "the byte tokenizer has no table, but one of %" PRId64 " entries is stored",
                       n);
    k->vocab = 256;
    return LA_OK;
}

static la_status byte_encode(const la_tokenizer *k, la_text text, int width, void *ids,
                             int64_t *n) {
    (void)k;
    for (int64_t i = 0; i < text.n; i++) put(ids, width, i, (unsigned char)text.bytes[i]);
    *n = text.n;
    return LA_OK;
}

static int byte_decode(const la_tokenizer *k, int32_t id, char out[4]) {
    (void)k;
    out[0] = (char)(unsigned char)id;
    return 1;
}

/* ---- char ------------------------------------------------------------------------------- */

static la_status not_utf8(la_text text, int64_t i) {
    return la_fail(LA_DATA,
                   "%s is not valid UTF-8: no character can start with the bytes at offset "
                   "%" PRId64
                   " (first of them 0x%02X); use --tokenizer=byte, which takes any bytes",
                   text.what, text.at + i, (unsigned)(unsigned char)text.bytes[i]);
}

static la_status no_id(la_text text, uint32_t point, int64_t position) {
    char quoted[8] = "";
    bool control = point < 0x20 || (point >= 0x7F && point < 0xA0); /* not fit for a terminal */
    if (!control) {
        char bytes[4];
        snprintf(quoted, sizeof quoted, "\"%.*s\" ", la_utf8_encode(point, bytes), bytes);
    }
    return la_fail(LA_DATA,
                   "%s has the character %s%sU+%04" PRIX32 "%s at position %" PRId64 ", which the "
                   "model's text did not contain; remove it, or train a new model on a text that has it",
                   text.what, quoted, control ? "" : "(", point, control ? "" : ")", position);
}

static la_status char_tables(la_tokenizer *k, int vocab) {
    k->vocab = vocab;
    k->points = malloc((size_t)vocab * sizeof *k->points);
    if (!k->number) k->number = calloc(LA_CODE_POINTS, sizeof *k->number);
    if (!k->points || !k->number)
        return la_fail(LA_NOMEM, "no memory for a table of %d characters", vocab);
    return LA_OK;
}

static la_status char_learn(la_tokenizer *k, la_text text) {
    if (text.n <= 0) return la_fail(LA_DATA, "%s is empty: no characters to learn", text.what);
    k->number = calloc(LA_CODE_POINTS, sizeof *k->number);
    if (!k->number) return la_fail(LA_NOMEM, "no memory for the table of characters");
    for (int64_t i = 0; i < text.n;) {
        uint32_t point;
        int      length = la_utf8_decode(text.bytes + i, text.n - i, &point);
        if (length == 0) return not_utf8(text, i);
        k->number[point] = 1; /* seen; numbered below, once all are known */
        i += length;
    }
    int vocab = 0;
    for (int c = 0; c < LA_CODE_POINTS; c++)
        if (k->number[c]) k->number[c] = ++vocab;
    if (vocab > LA_VOCAB_MAX)
        return la_fail(LA_DATA,
                       "%s has %d different characters, more than the %d that --tokenizer=char "
                       "can number; use --tokenizer=byte",
                       text.what, vocab, LA_VOCAB_MAX);
    LA_TRY(char_tables(k, vocab));
    for (int c = 0; c < LA_CODE_POINTS; c++)
        if (k->number[c]) k->points[k->number[c] - 1] = (uint32_t)c;
    return LA_OK;
}

static la_status char_load(la_tokenizer *k, const uint32_t *points, int64_t n) {
    if (n < 1 || n > LA_VOCAB_MAX || !points)
        return la_fail(LA_FORMAT,
                       "the stored char tokenizer has %" PRId64 " characters; 1 to %d are possible",
                       n, LA_VOCAB_MAX);
    for (int64_t i = 0; i < n; i++) {
        if (!la_utf8_is_point(points[i]))
            return la_fail(LA_FORMAT,
                           "entry %" PRId64 " of the stored char tokenizer is 0x%" PRIX32
                           ", which is no character",
                           i, points[i]);
        if (i > 0 && points[i] <= points[i - 1])
            return la_fail(LA_FORMAT,
                           "entries of the stored char tokenizer must increase, but entry %" PRId64
                           " is U+%04" PRIX32 " after U+%04" PRIX32,
                           i, points[i], points[i - 1]);
    }
    LA_TRY(char_tables(k, (int)n));
    for (int i = 0; i < (int)n; i++) {
        k->points[i] = points[i];
        k->number[points[i]] = i + 1;
    }
    return LA_OK;
}

static la_status char_encode(const la_tokenizer *k, la_text text, int width, void *ids,
                             int64_t *n) {
    int64_t count = 0;
    for (int64_t i = 0; i < text.n; count++) {
        uint32_t point;
        int      length = la_utf8_decode(text.bytes + i, text.n - i, &point);
        if (length == 0) return not_utf8(text, i);
        if (!k->number[point]) return no_id(text, point, count);
        put(ids, width, count, k->number[point] - 1);
        i += length;
    }
    *n = count;
    return LA_OK;
}

static int char_decode(const la_tokenizer *k, int32_t id, char out[4]) {
    return la_utf8_encode(k->points[id], out);
}

/* ---- the table, and what all kinds share ------------------------------------------------ */

const la_tokenizer_kind la_tokenizer_kinds[] = {
    {"char", "one id for each character of the text (UTF-8)", false, char_learn, char_load,
     char_encode, char_decode},
    {"byte", "256 ids, one for each byte; takes any text", true, byte_learn, byte_load, byte_encode,
     byte_decode},
    {0},
};

/* ---- ids: those of a task, which are no text ------------------------------------------- */

static la_status ids_learn(la_tokenizer *k, la_text text) {
    (void)k;
    return la_fail(LA_ARG, "%s has characters or bytes; ids are of a task", text.what);
}

static la_status ids_load(la_tokenizer *k, const uint32_t *points, int64_t n) {
    (void)k, (void)points;
    return n == 0 ? LA_OK
                  : la_fail(LA_FORMAT,
                            "ids have no table, but one of %" PRId64 " entries is stored", n);
}

static la_status ids_encode(const la_tokenizer *k, la_text text, int width, void *ids, int64_t *n) {
    (void)k, (void)width, (void)ids, (void)n;
    return la_fail(LA_DATA, "%s cannot be read: the ids of this model are no text", text.what);
}

static int ids_decode(const la_tokenizer *k, int32_t id, char out[4]) {
    (void)k, (void)id, (void)out;
    return 0;
}

const la_tokenizer_kind la_tokenizer_ids = {
    "ids",     "the ids of a task, which are no text", false, ids_learn, ids_load, ids_encode,
    ids_decode};

static const la_tokenizer_kind *find(const char *name) {
    for (const la_tokenizer_kind *t = la_tokenizer_kinds; name && t->name; t++)
        if (strcmp(t->name, name) == 0) return t;
    return name && strcmp(name, la_tokenizer_ids.name) == 0 ? &la_tokenizer_ids : NULL;
}

static la_status unknown(la_status status, const char *name) {
    char   known[128] = "", shown[LA_SHOWN];
    size_t used = 0;
    for (const la_tokenizer_kind *t = la_tokenizer_kinds; t->name && used < sizeof known; t++)
        used +=
            (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", t->name);
    return la_fail(status, "there is no tokenizer \"%s\"; known: %s",
                   la_shown(name ? name : "", shown), known);
}

/* Hands *out over when made is LA_OK, frees it otherwise. */
static la_status hand_over(la_tokenizer **out, la_tokenizer *k, la_status made) {
    if (made != LA_OK) la_tokenizer_destroy(k);
    *out = made == LA_OK ? k : NULL;
    return made;
}

static la_status begin(la_tokenizer **k, const la_tokenizer_kind *kind) {
    *k = calloc(1, sizeof **k);
    if (!*k) return la_fail(LA_NOMEM, "no memory for a tokenizer");
    (*k)->kind = kind;
    return LA_OK;
}

la_status la_tokenizer_create(la_tokenizer **out, const char *kind, la_text text) {
    la_tokenizer *k;
    *out = NULL;
    if (!find(kind)) return unknown(LA_NAME, kind);
    LA_TRY(begin(&k, find(kind)));
    return hand_over(out, k, k->kind->learn(k, text));
}

la_status la_tokenizer_load(la_tokenizer **out, const char *kind, const uint32_t *points,
                            int64_t n) {
    la_tokenizer *k;
    *out = NULL;
    if (!find(kind)) return unknown(LA_FORMAT, kind);
    LA_TRY(begin(&k, find(kind)));
    return hand_over(out, k, k->kind->load(k, points, n));
}

void la_tokenizer_destroy(la_tokenizer *k) {
    if (!k) return;
    free(k->points);
    free(k->number);
    free(k);
}

const uint32_t *la_tokenizer_points(const la_tokenizer *k, int64_t *n) {
    *n = k->points ? k->vocab : 0;
    return k->points;
}

const la_tokenizer_kind *la_tokenizer_kind_of(const la_tokenizer *k) { return k->kind; }
int                      la_tokenizer_vocab(const la_tokenizer *k) { return k->vocab; }

la_status la_encode_as(const la_tokenizer *k, la_text text, int width, void *ids, int64_t *n) {
    *n = 0;
    if (width != 4 && !(width == 2 && k->vocab <= 65536) && !(width == 1 && k->vocab <= 256))
        return la_fail(LA_ARG, "ids of %d bytes cannot hold a vocabulary of %d", width, k->vocab);
    return k->kind->encode(k, text, width, ids, n);
}

la_status la_encode(const la_tokenizer *k, la_text text, int32_t *ids, int64_t *n) {
    return la_encode_as(k, text, 4, ids, n);
}

int la_decode(const la_tokenizer *k, int32_t id, char out[4]) {
    return id >= 0 && id < k->vocab ? k->kind->decode(k, id, out) : 0;
}
