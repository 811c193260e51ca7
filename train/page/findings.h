/* findings.h -- what is known of one problem, for findings.c and summary.c alone. */
#ifndef LA_PAGE_FINDINGS_H
#define LA_PAGE_FINDINGS_H
#include "train/page/chart.h"

/* A variant's summary, or a baseline. */
typedef struct la_finding {
    const json_t *summary; /* NULL: a baseline                                              */
    const char   *name;    /* of a variant, in the results                               */
    char          words[LA_NAME_TEXT]; /* of a baseline                                   */
    double        measure; /* loss or accuracy: what the order goes by                   */
    double        loss;
    int           variant; /* its place; -1: a baseline                                     */
} la_finding;

typedef struct la_findings {
    const json_t *problem;
    const char   *name;
    int           accuracy; /* is the measure: more is better                              */
    int           counts;   /* a baseline is of n-grams                                    */
    la_finding   *rows;     /* n, the best first                                           */
    size_t        n;
} la_findings;

const char       *la_findings_measure(const la_findings *f); /* "loss" or "accuracy"           */
const la_finding *la_findings_first(const la_findings *f);   /* the first variant's, or NULL   */
/* A number of its summary: ("loss", "mean"). */
double            la_finding_number(const la_finding *r, const char *of, const char *what);
const json_t     *la_finding_difference(const la_finding *r); /* to the first; NULL: none      */

/* --- summary.c --- */
void la_findings_table(la_page *p, const la_findings *f);
void la_findings_chart(la_page *p, const la_findings *f);
#endif
