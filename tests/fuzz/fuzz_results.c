/* fuzz_results.c -- results.json: the table, and the page without charts (no gnuplot is found).
 * The page is made whole and then not saved: there is no folder for it. */
#include <jansson.h>

#include "tests/fuzz/fuzz.h"
#include "train/page/report_page.h"
#include "train/page/results_csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    json_t *results = json_loadb((const char *)data, n, 0, NULL);
    char   *table, note[LA_REPORT_NOTE];
    size_t  length;
    if (!results) return 0;
    setenv("PATH", "/dev/null", 1);
    FILE *out = open_memstream(&table, &length);
    HOLDS(out && la_results_csv(results, out) == LA_OK);
    fclose(out);
    free(table);
    HOLDS(!fuzz_worked(la_report_write(results, NULL, "/dev/null/report.html", note)));
    json_decref(results);
    return 0;
}
