/* init.h -- initial values of a parameter: a function of the seed, the stream and the draw, number
 * by number, so that any of them can be drawn again. */
#ifndef LA_INIT_H
#define LA_INIT_H
#include "tensor/tensor.h"

typedef enum la_init {
    LA_INIT_ZERO,
    LA_INIT_ONE,
    LA_INIT_CONSTANT, /* scale                                                              */
    LA_INIT_NORMAL,   /* N(0, scale^2)                                                      */
    LA_INIT_IDENTITY, /* (...,rows,cols): 1 on the diagonal of each matrix, + N(0, scale^2); rows
                         beyond the diagonal are N(0, 1/cols), of length 1 about            */
    LA_INIT_IDENTITY_BIAS, /* the same, and a last column beside each matrix of N(0, scale^2) */
    LA_INIT_LAST,          /* (...,cols): 0, but 1 in the last column                            */
    LA_INIT_RETENTION,     /* (H): the logit of 1 - 2^-(5+h), retention's decay of head h         */
    LA_INIT_ORTHOGONAL,    /* (H,m,D): random orthogonal features, see init.c; no scale          */
} la_init;

/* LA_SHAPE, with a sentence, where the kind does not go with the shape. */
la_status la_init_check(la_init how, la_shape s, const char *name);
int       la_init_random(la_init how);           /* another draw has other values              */
size_t    la_init_work(la_init how, la_shape s); /* doubles that la_init_fill needs beside them */
/* x: la_len(s) reals.  Draw 0 is the first. */
void      la_init_fill(la_init how, double scale, la_shape s, uint64_t seed, uint64_t stream,
                       uint64_t draw, double *work, la_real *x);
#endif
