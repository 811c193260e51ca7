/* report.c -- rates, lines, bars, and JSON that does not depend on the locale. */
#include "train/report.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/utf8.h"
#include "train/config.h"

void la_rate_init(la_rate *r, double (*now)(void)) { *r = (la_rate){.now = now}; }
void la_rate_begin(la_rate *r) { r->began = r->now(); }

void la_rate_end(la_rate *r) {
    r->last = r->now() - r->began;
    if (r->steps++ > 0) r->window[(r->steps - 2) % LA_RATE_STEPS] = r->last;
}

static int ascending(const void *a, const void *b) {
    double p = *(const double *)a, q = *(const double *)b;
    return p < q ? -1 : p > q;
}

double la_median(int64_t n, double *x) {
    qsort(x, (size_t)n, sizeof *x, ascending);
    return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

double la_rate_median(const la_rate *r) {
    int64_t n = r->steps - 1 < LA_RATE_STEPS ? r->steps - 1 : LA_RATE_STEPS;
    double  sorted[LA_RATE_STEPS];
    if (n < 1) return 0;
    memcpy(sorted, r->window, (size_t)n * sizeof *sorted);
    return la_median(n, sorted);
}

double la_rate_eta(const la_rate *r, int64_t steps_left, int64_t evals_left) {
    return (double)steps_left * la_rate_median(r) + (double)evals_left * r->eval_seconds;
}

const char *la_time_text(double seconds, char buf[LA_TIME_TEXT]) {
    long long s = (long long)(seconds + 0.5), h = s / 3600;
    if (h)
        snprintf(buf, LA_TIME_TEXT, "%lld:%02lld:%02lld", h, s / 60 % 60, s % 60);
    else
        snprintf(buf, LA_TIME_TEXT, "%lld:%02lld", s / 60, s % 60);
    return buf;
}

static double percent(const la_metrics *m) {
    return m->max_iters ? 100.0 * (double)m->step / (double)m->max_iters : 100;
}

void la_metrics_line(const la_metrics *m, FILE *out) {
    char eta[LA_TIME_TEXT];
    fprintf(out, "step %lld/%lld %.0f%%", (long long)m->step, (long long)m->max_iters,
            floor(percent(m)));
    if (isfinite(m->loss)) fprintf(out, " | loss %.4f", m->loss);
    if (isfinite(m->accuracy)) fprintf(out, " | acc %.4f", m->accuracy);
    if (isfinite(m->val_loss)) fprintf(out, " | val %.4f", m->val_loss);
    if (isfinite(m->val_accuracy)) fprintf(out, " | val acc %.4f", m->val_accuracy);
    if (isfinite(m->norm)) fprintf(out, " | norm %.2f", m->norm);
    if (isfinite(m->lr)) fprintf(out, " | lr %.1e", m->lr);
    if (m->tokens_per_s > 0) fprintf(out, " | %.1f ms | %.1fk tok/s", m->ms, m->tokens_per_s / 1e3);
    fprintf(out, " | rss %.0fM", (double)m->rss_bytes / 0x1p20);
    if (m->tokens_per_s > 0) fprintf(out, " | eta %s", la_time_text(m->eta_s, eta));
}

void la_progress_bar(const la_metrics *m, int columns, FILE *out) {
    char line[256], eta[LA_TIME_TEXT];
    int  done = (int)(percent(m) / 5);
    snprintf(line, sizeof line, "%3.0f%% [%.*s%.*s] %lld/%lld loss %.4f %.1fk tok/s eta %s",
             floor(percent(m)), done, "####################", 20 - done, "....................",
             (long long)m->step, (long long)m->max_iters, m->loss, m->tokens_per_s / 1e3,
             la_time_text(m->eta_s, eta));
    fprintf(out, "\r%-*.*s", columns - 1, columns - 1, line);
    fflush(out);
}

/* --- files of metrics --- */

#define IN(field) offsetof(la_metrics, field)
const la_column la_columns[LA_COLUMNS] = {
    {"step", NULL, LA_STEPS, IN(step)},
    {"loss", "loss/train", LA_NUMBER, IN(loss)},
    {"accuracy", "accuracy/train", LA_NUMBER, IN(accuracy)},
    {"val_loss", LA_TAG_VAL_LOSS, LA_NUMBER, IN(val_loss)},
    {"val_accuracy", LA_TAG_VAL_ACCURACY, LA_NUMBER, IN(val_accuracy)},
    {"lr", "lr", LA_NUMBER, IN(lr)},
    {"grad_norm", "grad_norm", LA_NUMBER, IN(norm)},
    {"skipped", NULL, LA_POSITIVE, IN(skipped)},
    {"ms", NULL, LA_NUMBER, IN(ms)},
    {"tokens_per_s", "tokens_per_s", LA_POSITIVE, IN(tokens_per_s)},
    {"elapsed_s", NULL, LA_NUMBER, IN(elapsed_s)},
    {"rss_bytes", NULL, LA_BYTES, IN(rss_bytes)},
    {0},
};

double la_metrics_value(const la_metrics *m, const la_column *c) {
    const void *at = (const char *)m + c->offset;
    if (c->kind == LA_STEPS) return (double)*(const int64_t *)at;
    if (c->kind == LA_BYTES) return (double)*(const size_t *)at;
    double x = *(const double *)at;
    return !isfinite(x) || (c->kind == LA_POSITIVE && !(x > 0)) ? NAN : x;
}

/* Adds to the n characters of a line; more than fit are left out. */
static size_t add(char *buf, size_t n, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    int more = vsnprintf(buf + n, LA_METRICS_TEXT - n, format, ap);
    va_end(ap);
    if (more < 0) return n;
    return n + (size_t)more < LA_METRICS_TEXT ? n + (size_t)more : LA_METRICS_TEXT - 1;
}

size_t la_metrics_json(const la_metrics *m, char buf[LA_METRICS_TEXT]) {
    char   text[LA_NUMBER_TEXT];
    size_t n = 0;
    for (const la_column *c = la_columns; c->name; c++) {
        double x = la_metrics_value(m, c);
        if (isfinite(x))
            n = add(buf, n, "%s\"%s\": %s", c == la_columns ? "{" : ", ", c->name,
                    la_number_text(x, text));
    }
    return add(buf, n, "}\n");
}

size_t la_csv_header(char buf[LA_METRICS_TEXT]) {
    size_t n = 0;
    for (const la_column *c = la_columns; c->name; c++)
        n = add(buf, n, "%s%s", c == la_columns ? "" : ",", c->name);
    return add(buf, n, "\n");
}

size_t la_csv_line(const char *json, char buf[LA_METRICS_TEXT]) {
    char   key[48];
    size_t n = 0;
    for (const la_column *c = la_columns; c->name; c++) {
        snprintf(key, sizeof key, "\"%s\": ", c->name);
        const char *at = strstr(json, key);
        if (c != la_columns) n = add(buf, n, ",");
        if (at) n = add(buf, n, "%.*s", (int)strcspn(at + strlen(key), ",}"), at + strlen(key));
    }
    return add(buf, n, "\n");
}

int la_print_text(const char *s) {
    char *text = strdup(s);
    if (!text) return printf("?");
    la_make_printable(text);
    int columns = printf("%s", text);
    free(text);
    return columns;
}

void la_json_string(const char *s, FILE *out) {
    fputc('"', out);
    for (int64_t left = (int64_t)strlen(s); left > 0;) {
        uint32_t point = 0;
        int      n = la_utf8_decode(s, left, &point);
        if (!n) /* a reader of JSON takes no other bytes */
            fputs("\\ufffd", out);
        else if (point == '"' || point == '\\')
            fprintf(out, "\\%c", (char)point);
        else if (point < 0x20)
            fprintf(out, "\\u%04x", (unsigned)point);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n ? n : 1;
        left -= n ? n : 1;
    }
    fputc('"', out);
}
