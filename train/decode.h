/* decode.h -- HDF5 images taken apart: what runs in the confined process (flat.h).
 *
 * Nothing else reads HDF5.  The fuzz target calls it without the process, so that it sees what is
 * reached. */
#ifndef LA_DECODE_H
#define LA_DECODE_H
#include "autograd/params.h"
#include <stddef.h>

typedef struct la_image {
    const char      *name; /* for sentences */
    void            *bytes;
    size_t           n;
    const la_params *wanted; /* la_decode_weights: the arrays to look for */
} la_image;

/* Each of la_confined_fn: fills a room of zeros, at least as large as an la_flat_head, as flat.h
 * says, from an la_image.  LA_FORMAT: it is no HDF5 file, or lacks an attribute that every
 * checkpoint has. Whatever else is wrong stands in the room. */
la_status la_decode_checkpoint(void *image, void *room, size_t bytes);
la_status la_decode_weights(void *image, void *room, size_t bytes); /* of a file from elsewhere */
#endif
