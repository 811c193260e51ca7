/* compare -- trains attention variants alike, and writes a report of how they differ:
 *   compare --attn=softmax --attn=elu1 --data corpus.txt */
#include "train/compare/compare.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tensor/parallel.h"
#include "train/compare/screen.h"
#include "train/folder.h"
#include "train/page/report_page.h"
#include "train/page/results_csv.h"
#include "train/save_file.h"
#include "train/system.h"
#include "train/text_stream.h"
#include "train/tool.h"

static la_status train(la_comparison *k) {
    la_signals_install();
    LA_TRY(la_compare_train(k)); /* the sweeps, if there are any */
    if (la_signal_stop()) return LA_OK;
    la_screen_rates(k);
    LA_TRY(la_compare_add_main(k));
    la_screen_plan(k);
    return la_compare_train(k);
}

static void print_line(const char *path) {
    la_print_text(path);
    putchar('\n');
}

/* report.html beside results.json. */
static la_status write_report(const json_t *results, const char *dir) {
    char  note[LA_REPORT_NOTE] = "";
    char *path = la_folder_path(dir, "report.html"), *pictures = la_folder_path(dir, "pictures");
    la_status s = path && pictures ? la_report_write(results, pictures, path, note)
                                   : la_fail(LA_NOMEM, "no memory for a name");
    if (*note) fprintf(stderr, "warning: %s\n", note);
    if (s == LA_OK) print_line(path);
    free(path);
    free(pictures);
    return s;
}

static la_status write_csv(const json_t *results, const char *dir) {
    char     *path = la_folder_path(dir, "results.csv"), *text = NULL;
    size_t    n = 0;
    FILE     *out = la_text_stream(&text, &n);
    la_status s =
        path && out ? la_results_csv(results, out) : la_fail(LA_NOMEM, "no memory for results.csv");
    if (out && fclose(out) && s == LA_OK) s = la_fail(LA_NOMEM, "no memory for results.csv");
    if (s == LA_OK) s = la_file_put(path, (unsigned char *)text, n);
    if (s == LA_OK) print_line(path);
    free(text);
    free(path);
    return s;
}

static la_status write_files(const la_comparison *k, const json_t *results) {
    char     *path = la_folder_path(k->dir, "results.json");
    la_status s = path ? la_folder_make(k->dir) : la_fail(LA_NOMEM, "no memory for a name");
    if (s == LA_OK) s = la_json_save(path, results);
    if (s == LA_OK) print_line(path);
    free(path);
    LA_TRY(s);
    LA_TRY(write_csv(results, k->dir));
    return write_report(results, k->dir);
}

static la_status write_results(la_comparison *k) {
    json_t   *results = la_compare_results(k);
    la_status s = results ? la_compare_put_measures(k, results)
                          : la_fail(LA_NOMEM, "no memory for the results");
    if (s == LA_OK) {
        la_screen_summary(k, results);
        s = write_files(k, results);
    }
    json_decref(results);
    return s;
}

/* Results are written however it ends: what there is is not lost. */
static la_status compare(la_comparison *k, int *signal) {
    char why[512] = "";
    int  lock;
    LA_TRY(la_folder_make(k->dir));
    LA_TRY(la_folder_lock(k->dir, &lock)); /* until this process ends */
    if (k->n_rates > 1) la_screen_plan(k); /* of the sweeps */
    la_status s = train(k);
    if (s == LA_OK && !la_signal_stop()) s = la_compare_measure(k);
    *signal = la_signal_stop();
    k->all_done = s == LA_OK && !*signal;
    if (s != LA_OK) snprintf(why, sizeof why, "%s", la_error());
    la_status written = write_results(k);
    if (s != LA_OK) return la_fail(s, "%s", why);
    if (written == LA_OK && *signal) printf("stopped; the same command goes on\n");
    return written;
}

static la_status dry_run(la_comparison *k) {
    if (k->n_rates == 1) LA_TRY(la_compare_add_main(k));
    la_screen_plan(k);
    return LA_OK;
}

/* --report: page and table of results that are there. */
static la_status report(const char *name) {
    json_error_t error;
    struct stat  st;
    char         path[4096];
    int          folder = !stat(name, &st) && S_ISDIR(st.st_mode);
    if (snprintf(path, sizeof path, "%s%s", name, folder ? "/results.json" : "") >=
        (int)sizeof path)
        return la_fail(LA_ARG, "the name of %.60s... is too long", name);
    json_t *results = json_load_file(path, 0, &error);
    if (!results)
        return la_fail(LA_DATA, "%s cannot be read as results.json: %s", path, error.text);
    const char *slash = strrchr(path, '/');
    char       *dir = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
    la_status   s = dir ? write_report(results, dir) : la_fail(LA_NOMEM, "no memory for a name");
    if (s == LA_OK) s = write_csv(results, dir);
    json_decref(results);
    free(dir);
    return s;
}

static la_status run(la_config *c, int argc, char **argv, int *signal) {
    la_comparison k;
    if (*c->report) return report(c->report);
    LA_TRY(la_compare_open(&k, c, argc, argv));
    la_status s = c->dry_run ? dry_run(&k) : compare(&k, signal);
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
