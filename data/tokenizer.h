/* tokenizer.h -- text to token ids and back.
 *
 *     byte   256 ids: the bytes themselves.  Takes anything.
 *     char   the Unicode code points that occur in the training text, in increasing order:
 *            id 0 is the smallest.  Takes UTF-8, and only characters it has seen.
 *
 * To add a kind: write its four functions in tokenizer.c and add one line to the table. */
#ifndef LA_TOKENIZER_H
#define LA_TOKENIZER_H
#include "tensor/status.h"
#include "tensor/utf8.h"

enum { LA_VOCAB_MAX = 65536 }; /* ids fit two bytes */

/* Bytes, with the words that name them when something is wrong with them. */
typedef struct la_text {
    const char *what; /* subject of an error sentence: "the prompt"            */
    const char *bytes;
    int64_t     n;  /* bytes                                                  */
    int64_t     at; /* where bytes[0] stands in its file: 3 after a BOM, else 0 */
} la_text;

static inline la_text la_text_of(const char *what, const char *bytes, int64_t n) {
    return (la_text){what, bytes, n, 0};
}

typedef struct la_tokenizer la_tokenizer; /* constant once made: threads may share one */

typedef struct la_tokenizer_kind {
    const char *name;  /* what follows --tokenizer= */
    const char *about; /* one line for help texts   */
    bool        raw;   /* ids are the text's bytes: encoding copies, and may be left out */
    la_status (*learn)(la_tokenizer *k, la_text text);
    la_status (*load)(la_tokenizer *k, const uint32_t *points, int64_t n);
    la_status (*encode)(const la_tokenizer *k, la_text text, int width, void *ids, int64_t *n);
    int (*decode)(const la_tokenizer *k, int32_t id, char out[4]);
} la_tokenizer_kind;

extern const la_tokenizer_kind la_tokenizer_kinds[]; /* ends with a name of NULL */

/* "ids": what is stored for a model of a task without a text.  It is in no table of choices, has a
 * vocabulary of 0, encodes nothing (LA_DATA) and decodes nothing. */
extern const la_tokenizer_kind la_tokenizer_ids;

/* Learns a tokenizer from the training text, which must not be empty (byte: not looked at).
 * LA_NAME: no such kind.  LA_DATA: not UTF-8 (names the file offset, counted from 0, at which
 * the first malformed character starts), or more than LA_VOCAB_MAX different characters.
 * *out is NULL after a failure. */
la_status la_tokenizer_create(la_tokenizer **out, const char *kind, la_text text);
void      la_tokenizer_destroy(la_tokenizer *k); /* NULL is fine */

/* What a checkpoint keeps is the kind's name and n code points (none for byte and ids; the pointer
 * belongs to the tokenizer).  Loading trusts nothing: an unknown kind, a wrong n, points that
 * do not increase or are no characters give LA_FORMAT. */
const uint32_t *la_tokenizer_points(const la_tokenizer *k, int64_t *n);
la_status       la_tokenizer_load(la_tokenizer **out, const char *kind, const uint32_t *points,
                                  int64_t n);

const la_tokenizer_kind *la_tokenizer_kind_of(const la_tokenizer *k);
int                      la_tokenizer_vocab(const la_tokenizer *k); /* number of ids */

/* Encodes text into ids, which has room for text.n ids (la_utf8_count() are enough), and
 * sets *n to their number.  LA_DATA: malformed UTF-8, or a character without an id; the
 * sentence names it, its code point and its position in characters, counted from 0. */
la_status la_encode(const la_tokenizer *k, la_text text, int32_t *ids, int64_t *n);

/* The same into ids of width 1, 2 or 4 bytes: at least la_ids_width(vocab). */
la_status la_encode_as(const la_tokenizer *k, la_text text, int width, void *ids, int64_t *n);

/* Writes the bytes of one id and returns how many, 1..4; 0 for an id outside 0 .. vocab - 1. */
int la_decode(const la_tokenizer *k, int32_t id, char out[4]);
#endif
