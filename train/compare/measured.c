/* measured.c -- all measurements in turn, each a record, and their way into results.json. */
#include "train/compare/measured.h"

#include <stdio.h>

#include "train/compare/screen.h"
#include "train/system.h"

static int first_run(const la_comparison *k, int problem) {
    int i = 0;
    while (k->run[i].problem != problem) i++;
    return i;
}

/* A measurement that fails is missing, and the others go on; not so for want of memory. */
static la_status carry_on(la_comparison *k, la_status s) {
    if (s == LA_OK || s == LA_NOMEM || la_signal_stop()) return s == LA_NOMEM ? s : LA_OK;
    fprintf(stderr, "note: %s\n", la_error());
    json_array_append_new(k->missing, json_string(la_error()));
    return LA_OK;
}

la_status la_compare_measure(la_comparison *k) {
    int *done = &k->screen.measured;
    k->screen.measures = k->n_problems + k->n_variants * (k->n_problems + LA_MACHINE_PARTS);
    for (int p = 0; p < k->n_problems; p++, ++*done)
        LA_TRY(carry_on(k, la_problem_count(k, k->problem + p, &k->run[first_run(k, p)].config)));
    for (int v = 0; v < k->n_variants; v++) {
        for (int p = 0; p < k->n_problems && !la_signal_stop(); p++, ++*done) {
            const la_run_plan *r = la_model_run(k, p, v);
            if (r && !k->problem[p].task) LA_TRY(carry_on(k, la_measure_model(k, r)));
        }
        for (int part = 0; part < LA_MACHINE_PARTS && !la_signal_stop(); part++, ++*done)
            if (k->c->longest || part == LA_MACHINE_PARTS - 1)
                LA_TRY(carry_on(k, la_measure_part(k, part, v)));
    }
    la_screen_end(k);
    return LA_OK;
}

void la_append_rows(json_t *list, const json_t *rows, const json_t *whose) {
    size_t        i;
    const json_t *row;
    json_array_foreach(rows, i, row) {
        json_t *copy = json_copy(json_array_get(rows, i));
        json_object_update(copy, (json_t *)(uintptr_t)whose);
        json_array_append_new(list, copy);
    }
}

la_status la_compare_put_measures(la_comparison *k, json_t *results) {
    for (int v = 0; v < k->n_variants; v++) {
        for (int p = 0; p < k->n_problems; p++) {
            const la_run_plan *r = la_model_run(k, p, v);
            if (r && !k->problem[p].task) LA_TRY(la_put_model(k, r, results));
        }
        LA_TRY(la_put_machine(k, v, results));
    }
    la_put_slopes(k, json_object_get(results, "speed"));
    return LA_OK;
}
