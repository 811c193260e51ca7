/* picture.h -- matrices of weights as a picture: SVG, complete in itself.
 *
 * A grid, one matrix of (T,T) in each place.  A weight w has the shade sqrt(|w| / top) in steps of
 * a LEVELth, where top is the largest |w| of its matrix, written above it; blue is above 0, orange
 * below.  (Of causal weights the first row is a 1 and the last ones are about 1/T: with shades in
 * proportion those would be white.)  Tokens stand at both axes of short texts. */
#ifndef LA_PICTURE_H
#define LA_PICTURE_H
#include "tensor/status.h"
#include "tensor/tensor.h"

enum { LA_PICTURE_TOKENS = 256, LA_PICTURE_LINES = 3 }; /* most tokens; lines above the grid */

typedef struct la_picture_matrix {
    char           title[48];
    const char    *variant;
    const la_real *w; /* finite; row t begins at t ld */
    int64_t        ld;
} la_picture_matrix;

typedef struct la_picture {
    int64_t                  T, rows, columns; /* tokens; of the grid                        */
    const la_picture_matrix *matrix;           /* (rows,columns)                             */
    const char *const       *tokens;           /* T of them, UTF-8                           */
    const char              *line[LA_PICTURE_LINES];
} la_picture;

/* *n bytes, to free(); NULL after a failure.  LA_ARG: too many tokens.  LA_NOMEM. */
la_status la_picture_svg(const la_picture *p, char **svg, size_t *n);
#endif
