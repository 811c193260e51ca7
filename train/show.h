/* show.h -- which tokens a model looks at: the weights of every head on a text (weights.h says what
 * they are), as a file and as a picture. */
#ifndef LA_SHOW_H
#define LA_SHOW_H
#include "data/tokenizer.h"
#include "layers/layers.h"

typedef struct la_showing {
    const char *prompt;                        /* at least one token                              */
    const char *path;                          /* of an HDF5 file; one that is there is replaced  */
    const char *checkpoint, *attn, *objective; /* of the model: its file and its options          */
} la_showing;

/* Writes a file of
 *
 *   /                  attributes checkpoint, attn, objective
 *   /tokens  /text     (T) the ids, and as UTF-8; a byte that is none as \xC3
 *   /layer_0 ...       (H,T,T) float, row t the weights of token t; none for a layer without
 * attention. Attributes for each group of heads, in their order: attn, heads
 *
 * and beside it, up to LA_PICTURE_TOKENS tokens, a picture of the same name that ends in .svg.
 * *picture: its path, to free(); NULL: there is none, or a failure.
 *
 * LA_ARG, with a sentence: no prompt, more tokens than learned positions, a model without
 * attention, a path that is a checkpoint's or ends in .svg.  LA_DATA: unknown characters. LA_NOMEM,
 * before anything large is allocated.  LA_NUMERIC.  LA_IO. */
la_status la_show_attention(const la_lm *lm, const la_tokenizer *k, const la_showing *what,
                            char **picture);

/* The picture alone: *n bytes, to free(); what->path is not read.  LA_ARG: more than
 * LA_PICTURE_TOKENS tokens, and as above but for the path. */
la_status la_show_svg(const la_lm *lm, const la_tokenizer *k, const la_showing *what, char **svg,
                      size_t *n);
#endif
