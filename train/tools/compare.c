/* compare -- trains attention variants alike, and writes a report of how they differ:
 *   compare --attn=softmax --attn=elu1 --data corpus.txt */
#include "train/compare.h"

#include <string.h>

#include "tensor/parallel.h"
#include "train/compare_screen.h"
#include "train/folder.h"
#include "train/system.h"
#include "train/tool.h"

static la_status train(la_comparison *k) {
    la_signals_install();
    LA_TRY(la_compare_train(k)); /* the sweeps, if there are any */
    if (la_signal_stop()) return LA_OK;
    LA_TRY(la_compare_add_main(k));
    la_screen_plan(k);
    return la_compare_train(k);
}

static la_status write_results(la_comparison *k) {
    json_t   *results = la_compare_results(k);
    char     *path = la_folder_path(k->dir, "results.json");
    la_status s = results && path ? LA_OK : la_fail(LA_NOMEM, "no memory for the results");
    if (s == LA_OK) s = la_folder_make(k->dir);
    if (s == LA_OK) s = la_json_save(path, results);
    if (s == LA_OK) {
        la_screen_summary(k, results);
        printf("%s\n", path);
    }
    json_decref(results);
    free(path);
    return s;
}

static la_status run(la_config *c, int argc, char **argv, int *signal) {
    la_comparison k;
    LA_TRY(la_compare_open(&k, c, argc, argv));
    la_status s = LA_OK;
    if (c->dry_run) {
        if (k.n_rates == 1) s = la_compare_add_main(&k);
        la_screen_plan(&k);
    } else {
        if (k.n_runs) la_screen_plan(&k);
        s = train(&k);
        *signal = la_signal_stop();
        if (s == LA_OK) s = write_results(&k);
        if (s == LA_OK && *signal) printf("stopped; the same command goes on\n");
    }
    la_compare_close(&k);
    return s;
}

int main(int argc, char **argv) {
    la_config c;
    int       code, signal = 0;
    if (!la_tool_start(&c, LA_TOOL_COMPARE, argc, argv, &code)) return code;
    code = la_tool_end(&c, run(&c, argc, argv, &signal));
    la_config_free(&c);
    return signal && !code ? 128 + signal : code;
}
