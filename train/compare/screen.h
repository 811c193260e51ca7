/* screen.h -- what compare shows while it works. */
#ifndef LA_COMPARE_SCREEN_H
#define LA_COMPARE_SCREEN_H
#include "train/compare/compare.h"

/* The list of runs, before they start: what there is to do, and what has been done. */
void la_screen_plan(const la_comparison *k);
/* Which learning rates the sweeps have chosen. */
void la_screen_rates(const la_comparison *k);
/* A bar over all runs with the time that is left, redrawn now and then on a terminal; elsewhere a
 * line for each run that has ended. */
void la_screen_progress(la_comparison *k);
void la_screen_end(la_comparison *k);
/* A measurement begins: what, and of which variant or problem. */
void la_screen_step(const la_comparison *k, const char *what, const char *whose);
/* The table of the summary. */
void la_screen_summary(const la_comparison *k, const json_t *results);
#endif
