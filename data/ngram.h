/* ngram.h -- what counting alone predicts: interpolated Witten-Bell models of 1 to 5 tokens.
 *
 * The loss that a language model has to beat.  Order 0 guesses evenly, order n looks at the n - 1
 * tokens before.  With c(h w) the number of times w follows h in the text that was counted,
 * c(h .) = sum_w c(h w), N1+(h .) the number of different w that follow h, and h' = h without its
 * first token,
 *
 *   p(w | h) = (c(h w) + N1+(h .) p(w | h')) / (c(h .) + N1+(h .)),    below the empty h: p = 1/V,
 *
 * and p(w | h) = p(w | h') where nothing follows h.  Witten, Bell, "The zero-frequency problem",
 * IEEE Transactions on Information Theory 37, 1991; as interpolated by Chen, Goodman, "An empirical
 * study of smoothing techniques for language modeling", TR-10-98, Harvard 1998, section 2.5. */
#ifndef LA_NGRAM_H
#define LA_NGRAM_H
#include "data/ids.h"
#include "tensor/status.h"

enum { LA_NGRAM_MOST = 5 };

typedef struct la_ngram la_ngram; /* constant once made: threads may share one */

/* Counts all sequences of up to `order` tokens of a text, in one pass; the text is not needed
 * after.  An empty text leaves every order even.  LA_ARG: order not in 1..LA_NGRAM_MOST, vocab (V)
 * not in 1..2^31.  LA_DATA: an id outside the vocabulary (names its position), or 2^32 tokens or
 * more.  LA_NOMEM: each different sequence takes 20 bytes, up to 30 while they become more, and 8
 * to 24 for finding it.  At order 5 there are at most 5 of them for a token: 5 million tokens stay
 * below 1.2 GB.  *out is NULL after a failure. */
la_status la_ngram_create(la_ngram **out, const la_ids *ids, int64_t vocab, int order);
void      la_ngram_destroy(la_ngram *g); /* NULL is fine */

/* The mean of -ln p(token i | the tokens before it) in nats, i = first .. first + count - 1.  What
 * stands before a token in `ids` is its context, also before `first`; at the beginning of ids it is
 * shorter.  A language model is evaluated on tokens 1 .. windows * seq (loader.h): first = 1,
 * count = la_eval_windows(n, seq) * seq.  LA_ARG: order not in 0 .. the order of g, first < 0,
 * count < 1, or past the end.  LA_DATA: an id outside the vocabulary. */
la_status la_ngram_loss(const la_ngram *g, int order, const la_ids *ids, int64_t first,
                        int64_t count, double *loss);
#endif
