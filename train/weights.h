/* weights.h -- the weights of every head on a text, whatever its variant.
 *
 * They are what the variant's own forward makes of values that are unit vectors, so that
 * o_t = sum_j w_tj v_j holds for them: before the norm of the heads' outputs, and over values that
 * a short convolution has mixed already. */
#ifndef LA_WEIGHTS_H
#define LA_WEIGHTS_H
#include "layers/layers.h"

typedef struct la_weights {
    const la_lm *lm;
    int64_t      T, layers; /* tokens of the text; layers of the model that attend         */
    int32_t     *tokens;    /* (T), the caller's to fill before each la_weights_compute    */
    int32_t     *positions, past;
    la_tape     *tape;
    la_node    **node; /* la_lm_groups of them, (1,T,heads,T)                           */
} la_weights;

/* The weights of one head: row t, of token t, begins at w + t ld and has T numbers. */
typedef struct la_weights_head {
    const la_real     *w;
    int64_t            ld;
    int                group; /* of its layer */
    const la_attn_cfg *cfg;
} la_weights_head;

int64_t la_weights_layers(const la_lm *lm); /* layers that attend */
/* Bytes that T tokens take: the unit vectors and the weights of all groups. */
double  la_weights_bytes(const la_lm *lm, int64_t T);

/* max_bytes: LA_NOMEM above it; 0: no limit. */
la_status       la_weights_create(la_weights *w, const la_lm *lm, int64_t T, size_t max_bytes);
void            la_weights_destroy(la_weights *w);
/* Of w->tokens.  LA_NUMERIC: a weight is not finite. */
la_status       la_weights_compute(la_weights *w);
/* Of a layer that attends, counted among all layers.  Valid until the next la_weights_compute. */
la_weights_head la_weights_of(const la_weights *w, int64_t layer, int64_t head);

/* What --attn says of a group of a layer's heads, without the number of heads: its first letter,
 * and in *n how many there are.  patterns: the layers that the pattern has, la_attn_pattern.n. */
const char *la_weights_spec(const char *attn, int64_t patterns, int64_t layer, int group, int *n);
#endif
