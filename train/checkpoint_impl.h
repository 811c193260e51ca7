/* checkpoint_impl.h -- an open checkpoint from the inside: for checkpoint.c and the fuzz target. */
#ifndef LA_CHECKPOINT_IMPL_H
#define LA_CHECKPOINT_IMPL_H
#include "train/flat.h"

struct la_checkpoint {
    la_flat   flat;
    la_record record; /* its config stands in the room */
};

/* Takes the record of what was decoded; LA_FORMAT: it cannot be. */
la_status la_checkpoint_take(la_checkpoint *c);
#endif
