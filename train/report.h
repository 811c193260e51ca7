/* report.h -- what a training shows: rates, a line or a progress bar, the lines of metrics files.
 */
#ifndef LA_REPORT_H
#define LA_REPORT_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* --- rates: medians over the last steps, without the first step and without evaluations --- */
enum { LA_RATE_STEPS = 63 };

typedef struct la_rate {
    double (*now)(void); /* seconds; a test brings its own clock                          */
    double  began, last; /* start of this step; duration of the last one, seconds          */
    double  window[LA_RATE_STEPS];
    int64_t steps;        /* measured so far, the first included                                 */
    double  eval_seconds; /* of the last evaluation */
} la_rate;

void   la_rate_init(la_rate *r, double (*now)(void));
void   la_rate_begin(la_rate *r);        /* a step starts */
void   la_rate_end(la_rate *r);          /* and ends      */
double la_rate_median(const la_rate *r); /* seconds a step; 0 before the second step        */
/* Seconds for steps_left steps and evals_left evaluations at these rates. */
double la_rate_eta(const la_rate *r, int64_t steps_left, int64_t evals_left);

/* --- one step's numbers --- */
typedef struct la_metrics {
    int64_t step, max_iters;        /* steps done, of how many                                    */
    double  loss, norm, lr;         /* NAN: none, at step 0                                       */
    double  val_loss;               /* NAN: not evaluated at this step                            */
    double  accuracy, val_accuracy; /* of a task, at its labels; NAN: none                 */
    double  skipped; /* steps in a row up to this one that were left out as not finite; 0: none */
    double  ms, elapsed_s;
    double  tokens_per_s; /* 0: not known yet                                           */
    double  eta_s;
    size_t  rss_bytes;
} la_metrics;

/* "step 1250/2000 62% | loss 1.8756 | val 2.0089 | norm 0.62 | lr 5.1e-04 | ..."; no newline */
void la_metrics_line(const la_metrics *m, FILE *out);
/* Lines with their newline; each returns its length.  They need no memory of their own, so that a
 * line is not lost where there is none. */
enum { LA_METRICS_TEXT = 4096 };
/* One JSON object; a number that is not finite is left out. */
size_t la_metrics_json(const la_metrics *m, char buf[LA_METRICS_TEXT]);
/* The names of the columns, and the numbers of a line of la_metrics_json in the same text; the cell
 * of one that is left out is empty. */
size_t la_csv_header(char buf[LA_METRICS_TEXT]);
size_t la_csv_line(const char *json, char buf[LA_METRICS_TEXT]);

/* The table behind these: to show a number, add it to la_metrics and a line to la_columns. */
typedef struct la_column {
    const char *name; /* in JSON and CSV                        */
    const char *tag;  /* in TensorBoard; NULL: not drawn there  */
    enum { LA_STEPS, LA_BYTES, LA_NUMBER, LA_POSITIVE } kind; /* int64_t, size_t, double, double */
    size_t offset;                                            /* in la_metrics                   */
} la_column;

enum { LA_COLUMNS = 34 }; /* at most */
#define LA_TAG_VAL_LOSS "loss/val"
#define LA_TAG_VAL_ACCURACY "accuracy/val"
extern const la_column la_columns[LA_COLUMNS]; /* in order; after the last, names are NULL */
/* NAN: there is none; also for what is 0 of LA_POSITIVE. */
double                 la_metrics_value(const la_metrics *m, const la_column *c);

/* Of n > 0 numbers, which are sorted by it. */
double la_median(int64_t n, double *x);

/* "0:13", "12:05", "1:02:03" */
enum { LA_TIME_TEXT = 32 };
const char *la_time_text(double seconds, char buf[LA_TIME_TEXT]);

/* A bar that overwrites itself; `columns` wide at most. */
void la_progress_bar(const la_metrics *m, int columns, FILE *out);

/* Prints what somebody typed or a file says, fit for a terminal and whole; returns its columns. */
int la_print_text(const char *s);

/* s as a JSON string, quotes included. */
void la_json_string(const char *s, FILE *out);
#endif
