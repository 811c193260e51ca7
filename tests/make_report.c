/* make_report.c -- results.json to report.html and results.csv, for tests/cli/report.sh.
 *
 *     make_report RESULTS.json PICTURES_DIR|- REPORT.html RESULTS.csv */
#include <stdio.h>
#include <string.h>

#include "train/page/report_page.h"
#include "train/page/results_csv.h"

int main(int argc, char **argv) {
    json_error_t error;
    char         note[LA_REPORT_NOTE];
    if (argc != 5) return 2;
    json_t *results = json_load_file(argv[1], 0, &error);
    FILE   *csv = results ? fopen(argv[4], "w") : NULL;
    if (!csv) {
        fprintf(stderr, "%s: %s\n", argv[1], results ? "no results.csv" : error.text);
        return 1;
    }
    la_status s = la_results_csv(results, csv);
    if (fclose(csv) != 0) s = LA_IO;
    if (s == LA_OK)
        s = la_report_write(results, strcmp(argv[2], "-") ? argv[2] : NULL, argv[3], note);
    if (s != LA_OK)
        fprintf(stderr, "make_report: %s\n", la_error());
    else if (*note)
        fprintf(stderr, "make_report: %s\n", note);
    json_decref(results);
    return s != LA_OK;
}
