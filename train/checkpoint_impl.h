/* checkpoint_impl.h -- what is made of a decoded file: for checkpoint.c, import.c and fuzz targets.
 */
#ifndef LA_CHECKPOINT_IMPL_H
#define LA_CHECKPOINT_IMPL_H
#include "train/flat.h"

struct la_checkpoint {
    la_flat   flat;
    la_record record; /* its config is that of flat */
};

/* Takes the record of what was decoded; LA_FORMAT: it cannot be. */
la_status la_checkpoint_take(la_checkpoint *c);

/* Takes the weights of a file from elsewhere; nothing is changed on failure. */
la_status la_weights_take(const la_flat *f, la_params *p);
#endif
