/* corpus.h -- a training text: opened, encoded, split into training and validation part.
 *
 *     la_corpus     c;
 *     la_tokenizer *k;
 *     LA_TRY(la_corpus_open(&c, "input.txt"));
 *     LA_TRY(la_tokenizer_create(&k, "char", la_corpus_text(&c)));
 *     LA_TRY(la_corpus_split(&c, NULL, k, 0.1, 64));
 *     ... c.train, c.valid ...
 *     la_corpus_close(&c);
 */
#ifndef LA_CORPUS_H
#define LA_CORPUS_H
#include "data/ids.h"
#include "data/source.h"
#include "data/tokenizer.h"
#include "tensor/arena.h"

enum { LA_NOTES_MAX = 2 };

typedef struct la_corpus {
    la_source   source; /* all bytes, a byte order mark included                     */
    int64_t     start;  /* where the text starts in them: 3 after a byte order mark  */
    const char *what;   /* "the text input.txt"                                      */
    const char *notes[LA_NOTES_MAX];
    int         n_notes;
    la_arena    words; /* what and notes                                            */
    void       *owned; /* the ids, where they are not the bytes of the source       */
    la_ids      ids;   /* the whole text; set by la_corpus_encode() and _split()    */
    la_ids      train; /* set by la_corpus_split()                                  */
    la_ids      valid; /* n = 0: no validation                                      */
} la_corpus;           /* {0} is closed */

/* Opens a path; "-" is standard input.  Failures are those of la_source_open(), and LA_DATA
 * for UTF-16 and UTF-32, with the command that converts them.  Closed after a failure. */
la_status la_corpus_open(la_corpus *c, const char *path);
void      la_corpus_close(la_corpus *c);

/* Things the user should know about a text that was opened: sentence i, NULL past the last. */
const char *la_corpus_note(const la_corpus *c, int i);

la_text  la_corpus_text(const la_corpus *c); /* valid while c is open                        */
int64_t  la_corpus_size(const la_corpus *c); /* bytes, a byte order mark included            */
uint64_t la_corpus_hash(const la_corpus *c); /* of those bytes, data/hash.h; reads them all  */

/* Sets c->ids.  The byte tokenizer copies nothing.  LA_DATA as la_encode(); LA_NOMEM. */
la_status la_corpus_encode(la_corpus *c, const la_tokenizer *k);

/* Encodes c and sets c->train and c->valid: the first la_corpus_cut() tokens and the rest.
 * With another corpus `valid` (else NULL) all of c is training text, c->valid is a view into
 * the other, which must stay open, and val_frac is not looked at.
 * LA_ARG: val_frac outside [0, 1), block_size < 1.  LA_DATA: a part shorter than
 * block_size + 1 tokens (a validation part of val_frac = 0 may be empty), or not encodable.
 * The sentence names numbers and, for a validation part, the smallest --val-frac that works. */
la_status la_corpus_split(la_corpus *c, la_corpus *valid, const la_tokenizer *k, double val_frac,
                          int64_t block_size);

/* Number of training tokens among n: n * (1 - val_frac) without its fraction, in double
 * precision, which is what Python's int(n * 0.9) gives for 0.1. */
int64_t la_corpus_cut(int64_t n, double val_frac);
#endif
