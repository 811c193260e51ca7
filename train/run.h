/* run.h -- a training from its options to its last line. */
#ifndef LA_RUN_H
#define LA_RUN_H
#include "train/config.h"

/* The whole of `train`.  Prints to stdout and writes into --out-dir.  *signal: 0, or the signal
 * after which it saved and ended. */
la_status la_run_train(la_config *c, int argc, char **argv, int *signal);
#endif
