/* nonfinite.h -- what a training does about a step whose loss or gradient norm is not finite, and
 * when a loss that is finite is worth a note.  It knows nothing of runs; recover.c acts on it. */
#ifndef LA_NONFINITE_H
#define LA_NONFINITE_H
#include <stdint.h>

#include "tensor/status.h"

enum { LA_MAX_ROLLBACKS = 3 };

typedef struct la_nonfinite {
    enum { LA_NONFINITE_STOP, LA_NONFINITE_SKIP, LA_NONFINITE_ROLLBACK } kind;
    int64_t times; /* SKIP: steps in a row that may be left out; ROLLBACK: how many are left */
} la_nonfinite;

/* Of --on-nonfinite: "stop", "skip:K" with K from 1 on, "rollback" or "rollback:N" with N from 0 to
 * LA_MAX_ROLLBACKS, which is the default.  LA_ARG. */
la_status la_nonfinite_parse(const char *text, la_nonfinite *out);

/* --- loss spikes --- */
enum { LA_SPIKE_LOSSES = 63, LA_SPIKE_PAUSE = 100 };

typedef struct la_spikes {
    double  losses[LA_SPIKE_LOSSES]; /* the last ones */
    int64_t n;                       /* seen */
    int64_t told;                    /* step of the last spike that was told; 0: none */
} la_spikes;

/* Takes the loss of `step`, from 1 on.  1: it is a spike and to be told: the LA_SPIKE_LOSSES losses
 * before it are known, it is above their median by more than max(1, 5 x their interquartile range),
 * and none was told in the LA_SPIKE_PAUSE - 1 steps before.  *median is then set. */
int la_spike(la_spikes *s, int64_t step, double loss, double *median);
#endif
