/* probe.h -- what is measured on one trained model, besides its validation loss: the loss by
 * position, also in texts longer than it was trained on; how spread out its attention is; what it
 * writes; what it costs.
 *
 * The _json functions give the fields of results.schema.json that are the measurement's own; which
 * problem, variant and seed it was is the caller's to add.  They return a new reference, NULL
 * where there is no memory.  A number that is not finite becomes null. */
#ifndef LA_PROBE_H
#define LA_PROBE_H
#include <jansson.h>

#include "data/ids.h"
#include "data/tokenizer.h"
#include "layers/layers.h"

/* --- loss by position.  Position t of a window has seen t + 1 tokens.  Buckets of positions are
 * 0, 1, 2-3, 4-7, ... and the last one ends at the length --- */
enum { LA_PROBE_BUCKETS = 48, LA_PROBE_REFUSED = 512 };

typedef struct la_probe_positions {
    int64_t times, length, windows; /* length = times block_size                                */
    char    refused[LA_PROBE_REFUSED]; /* a sentence: the model or the text has no such windows,
                                          and nothing below counts; else ""                     */
    double  mean; /* nats a token, over all positions: what la_evaluate finds for times = 1    */
    int     n;    /* buckets */
    int64_t from[LA_PROBE_BUCKETS], to[LA_PROBE_BUCKETS]; /* from <= t < to */
    double  loss[LA_PROBE_BUCKETS];                       /* nats a token   */
} la_probe_positions;

/* Windows one after the other over the first `most` tokens of the text and the one after them;
 * 0: all.  Refused: a length beyond la_lm_longest, the masked objective, too short a text, a pass
 * that would not fit in memory.  LA_NUMERIC: logits that are not finite. */
la_status la_probe_loss_by_position(const la_lm *lm, const la_ids *text, int64_t times,
                                    int64_t most, la_probe_positions *out);
json_t   *la_probe_positions_json(const la_probe_positions *p);

/* --- entropy of the weights that a head implies (weights.h), mean over rows of windows of
 * block_size tokens, without the first row of each.  In a row p_j = |w_j| / sum |w|:
 *
 *   mean      - sum p ln p      negative   sum of p_j over w_j < 0
 *   uniform   ln of the number of tokens that the row could see at most: t + 1 at position t,
 *             with the masked objective all
 *
 * Rows whose weights are all 0 have no p and count in none of the three. --- */
typedef struct la_probe_head {
    int64_t     layer, head, rows; /* rows that counted; with none the means are NAN           */
    const char *attn;              /* of the group it is in: attn_len letters of --attn        */
    int         attn_len;
    double      mean, uniform, negative; /* nats, nats, part                                 */
} la_probe_head;

typedef struct la_probe_heads {
    int64_t        n; /* heads of all layers that attend: 0 without attention */
    la_probe_head *head;
} la_probe_heads;

/* `windows` of them at most, spread evenly over the text; a model of the masked objective sees
 * them masked, as in an evaluation.  attn: the model's --attn, which must outlive `out`.
 * LA_DATA: the text is shorter than a window.  LA_NUMERIC, LA_NOMEM.  After a failure there is
 * nothing to free. */
la_status la_probe_entropy(const la_lm *lm, const char *attn, const la_ids *text, int64_t windows,
                           la_probe_heads *out);
void      la_probe_heads_free(la_probe_heads *h);
json_t   *la_probe_heads_json(const la_probe_heads *h); /* an array */

/* --- a sample, as `generate --tokens 200` writes it: the prompt, and what follows.  *text is to be
 * freed, and is UTF-8 without zero bytes: what is none, of a model of bytes, is U+FFFD.  LA_ARG:
 * the masked objective.  LA_DATA: characters that the tokenizer does not know --- */
enum { LA_PROBE_TOKENS = 200 };
la_status la_probe_sample(const la_lm *lm, const la_tokenizer *k, const char *prompt, uint64_t seed,
                          char **text);

/* --- what a model costs; of any model, also of one that learned a task --- */
typedef struct la_probe_cost {
    int64_t parameters, frozen; /* numbers that are trained, and that are not                  */
    size_t  state_bytes;        /* of one text after block_size tokens; 0 for the masked objective,
                                   which reads whole texts                                      */
    int64_t tokens_per_step;    /* windows * block_size                                         */
    double  flops_per_step;     /* la_lm_step_flops                                             */
} la_probe_cost;

/* windows: of a training step, --batch-size times --grad-accum.  labels: of a window, for a task;
 * 0: every token is one. */
la_probe_cost la_probe_cost_of(const la_lm *lm, int64_t windows, int64_t labels);
#endif
