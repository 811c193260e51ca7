/* measured.h -- what the files of measurements share: measured.c, models.c, machine.c. */
#ifndef LA_MEASURED_H
#define LA_MEASURED_H
#include "train/compare/compare.h"

/* Appends copies of rows, with the keys of `whose` added to each. */
void la_append_rows(json_t *list, const json_t *rows, const json_t *whose);

/* --- models.c --- */
/* The first seed's main run of a problem and variant, if it has ended well; or NULL. */
const la_run_plan *la_model_run(const la_comparison *k, int problem, int variant);
/* Makes the record of its positions, entropy, sample and picture.  LA_IO: its checkpoint
 * is gone. */
la_status          la_measure_model(la_comparison *k, const la_run_plan *r);
/* Into results.json; of the first problem also as OUT/pictures/VARIANT.svg. */
la_status          la_put_model(la_comparison *k, const la_run_plan *r, json_t *results);

/* --- machine.c: a record for each part and variant, with the options of its first problem --- */
enum {
    LA_MACHINE_PARTS = 3
}; /* by length, in generation, gradients; only the first two need a clock */
la_status la_measure_part(la_comparison *k, int part, int variant);
la_status la_put_machine(la_comparison *k, int variant, json_t *results);
/* What follows from speed.length, once it is there: speed.slopes and speed.crossover. */
void      la_put_slopes(const la_comparison *k, json_t *speed);
#endif
