/* nonfinite.c -- the value of --on-nonfinite, and loss spikes. */
#include "train/nonfinite.h"

#include <math.h>
#include <string.h>

#include "tensor/words.h"
#include "train/report.h"

la_status la_nonfinite_parse(const char *text, la_nonfinite *out) {
    static const char skip[] = "skip:", rollback[] = "rollback:";
    char              shown[LA_SHOWN];
    double            n = LA_MAX_ROLLBACKS;
    *out = (la_nonfinite){.kind = LA_NONFINITE_STOP};
    if (!strcmp(text, "stop")) return LA_OK;
    if (!strncmp(text, skip, sizeof skip - 1)) {
        if (la_read_number(text + sizeof skip - 1, 1, &n) && n >= 1 && n <= 1e12) {
            *out = (la_nonfinite){LA_NONFINITE_SKIP, (int64_t)n};
            return LA_OK;
        }
    } else if (!strcmp(text, "rollback") || (!strncmp(text, rollback, sizeof rollback - 1) &&
                                             la_read_number(text + sizeof rollback - 1, 1, &n) &&
                                             n >= 0 && n <= LA_MAX_ROLLBACKS)) {
        *out = (la_nonfinite){LA_NONFINITE_ROLLBACK, (int64_t)n};
        return LA_OK;
    }
    return la_fail(LA_ARG,
                   "--on-nonfinite must be stop, skip:K with K from 1 on, or rollback, also "
                   "rollback:N with N up to %d, and is \"%s\"",
                   LA_MAX_ROLLBACKS, la_shown(text, shown));
}

/* Quartiles of n = LA_SPIKE_LOSSES sorted numbers: number (n+1)/4, (n+1)/2 and 3(n+1)/4 of them. */
int la_spike(la_spikes *s, int64_t step, double loss, double *median) {
    enum { QUARTER = (LA_SPIKE_LOSSES + 1) / 4 };
    int spike = 0;
    if (s->n >= LA_SPIKE_LOSSES && (!s->told || step - s->told >= LA_SPIKE_PAUSE)) {
        double sorted[LA_SPIKE_LOSSES];
        memcpy(sorted, s->losses, sizeof sorted);
        *median = la_median(LA_SPIKE_LOSSES, sorted);
        spike = loss - *median > fmax(1, 5 * (sorted[3 * QUARTER - 1] - sorted[QUARTER - 1]));
    }
    s->losses[s->n++ % LA_SPIKE_LOSSES] = loss;
    if (spike) s->told = step;
    return spike;
}
