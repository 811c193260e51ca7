/* page.h -- what the parts of report.html share: reading results.json, writing HTML, its tables.
 *
 * Only the page's own sources include this. */
#ifndef LA_PAGE_H
#define LA_PAGE_H
#include <jansson.h>
#include <stdio.h>

#include "tensor/status.h"

typedef struct la_page {
    FILE         *out;
    FILE         *contents; /* the list of sections                                  */
    const json_t *results;
    const char   *pictures_dir; /* NULL: no pictures                                       */
    int           drawings;     /* charts and pictures so far: each id begins with its number */
    int           no_gnuplot;   /* it is not there: the page does without charts           */
    FILE         *around;       /* out, while the charts of a grid are gathered           */
    char         *grid;         /* these, of grid_n bytes                                 */
    size_t        grid_n;
    int           figures; /* in it                                                  */
    la_status     status;  /* of the first chart that failed; its sentence is la_error() */
} la_page;

/* --- results.json: a number that is null or not there is NAN, a string "" --- */
double        la_json_number(const json_t *object, const char *key);
double        la_json_count(const json_t *object, const char *key); /* 0 instead of NAN       */
const char   *la_json_text(const json_t *object, const char *key);
double        la_json_at(const json_t *array, size_t i);
const json_t *la_page_list(const la_page *p, const char *name);    /* an array of the results   */
int           la_page_variant(const la_page *p, const char *name); /* its place; -1: unknown    */
const char   *la_page_variant_name(const la_page *p, size_t i);

/* Whether an entry is about this problem and this variant; NULL: about any. */
int la_json_is_of(const json_t *entry, const char *problem, const char *variant);
int la_json_is_main(const json_t *run);    /* not of a sweep                                */
int la_json_is_counted(const json_t *run); /* of those: neither diverged nor failed         */

/* A baseline's name in words: "5-gram counts". */
enum { LA_NAME_TEXT = 64 };
const char *la_baseline_words(const json_t *baseline, char buf[LA_NAME_TEXT]);
int         la_baseline_counts(const json_t *baseline); /* it is of n-grams                 */

/* --- HTML --- */
/* printf for %s, %d and %e %f %g, where each %s is escaped: only the format holds markup. */
void la_page_put(la_page *p, const char *format, ...) LA_PRINTF(2, 3);
void la_page_value(la_page *p, const json_t *value); /* of an option: words, a number, yes or no */

/* A heading with an anchor, in the page's contents too. */
void la_page_section(la_page *p, const char *id, const char *title);

/* --- tables that a click sorts --- */
void la_table_begin(la_page *p, const char *caption);
void la_table_column(la_page *p, const char *head, const char *title); /* of numbers           */
void la_table_words(la_page *p, const char *head);                     /* of words             */
void la_table_body(la_page *p);                                        /* after the columns    */
void la_table_cell(la_page *p, const char *format, double x); /* one %f or so; NAN: a dash      */
void la_table_count(la_page *p, double x);                    /* 12,345                         */
void la_table_bytes(la_page *p, double x);                    /* 1.2 MiB, sorted by bytes       */
void la_table_end(la_page *p);

enum { LA_NUMBER_TEXT = 40 };
const char *la_count_text(double x, char buf[LA_NUMBER_TEXT]); /* 12,345                        */
const char *la_bytes_text(double x, char buf[LA_NUMBER_TEXT]); /* 1.2 MiB                       */

/* --- the looks of variants: the same in all charts --- */
typedef struct la_look {
    int colour; /* 0xRRGGBB                                                                   */
    int point;  /* gnuplot's number                                                           */
    int dash;   /* 0: a whole line                                                            */
} la_look;
la_look     la_look_of(int variant);
const char *la_look_dashes(int dash, char separator, char buf[LA_NUMBER_TEXT]);
/* Names and samples of lines; of the variants that have an entry in `list` about the problem. */
void        la_page_legend(la_page *p, const json_t *list, const char *problem);

/* --- SVG --- */
/* Puts an SVG document of n bytes into the page: ids and styles get a prefix of their own, the
 * root element the label.  LA_DATA: it is none, or holds what a page must not take in. */
la_status la_page_svg(la_page *p, const char *svg, size_t n, const char *label);

/* --- the parts, in the page's order; each leaves itself out without data --- */
void la_page_header(la_page *p);
void la_page_findings(la_page *p);
void la_page_learning(la_page *p);
void la_page_speed(la_page *p);
void la_page_retrieval(la_page *p);
void la_page_positions(la_page *p);
void la_page_entropy(la_page *p);
void la_page_pictures(la_page *p);
void la_page_gradcheck(la_page *p);
void la_page_samples(la_page *p);
void la_page_sweeps(la_page *p);
void la_page_settings(la_page *p);
void la_page_runs(la_page *p);
#endif
