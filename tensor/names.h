/* names.h -- finding a name in a table, and the sentence for one that is not there.
 *
 * A table is given as a function: name number i, NULL after the last.  `_` in what the user
 * typed stands for `-`. */
#ifndef LA_NAMES_H
#define LA_NAMES_H
#include "tensor/status.h"

typedef const char *la_name_fn(int i);

int         la_name_same(const char *a, const char *b); /* 1: the same name                       */
int         la_name_index(const char *name, la_name_fn *at); /* -1: not in the table              */
const char *la_name_nearest(
    const char *name,
    la_name_fn *at); /* one that begins with it, else fewest edits; NULL for an empty table */
/* Always LA_NAME; the message offers the nearest name and lists all:
 *     unknown attention variant "elu": did you mean elu1? (known: softmax, elu1, ...) */
la_status la_name_unknown(const char *what, const char *name, la_name_fn *at);
#endif
