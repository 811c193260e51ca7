/* results_csv.h -- results.json as one long table, for a spreadsheet or a data frame. */
#ifndef LA_RESULTS_CSV_H
#define LA_RESULTS_CSV_H
#include <jansson.h>
#include <stdio.h>

#include "tensor/status.h"

/* A line for each number of the results, and one of names at the top:
 *
 *     table,problem,variant,seed,lr,name,at,what,value
 *     runs,bible,elu1,1,0.003,main,250,curve.val_loss,2.0312
 *
 * table is the list that it comes from (runs, summary, speed.length, ...), name what tells entries
 * of one list apart in words (a run's purpose, a baseline), at the same in numbers (a step, a
 * length, a position, layer/head; of positions length/from), what the keys below the entry.  A
 * number that an entry is known by (its seed, its length) has a line of its own too; null has none.
 * Values read back as the same double.  RFC 4180, lines end with a line feed.  LA_IO. */
la_status la_results_csv(const json_t *results, FILE *out);
#endif
