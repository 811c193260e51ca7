/* bench.c -- repeats, rows and random numbers of the program bench. */
#include "train/bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tensor/parallel.h"
#include "tensor/rng.h"
#include "train/report.h"

enum { TEXT_WIDTH = 15, NUMBER_WIDTH = 10 };

/* --- repeats --- */
bool la_samples_wanted(const la_samples *s, int64_t repeats, double seconds) {
    if (s->n == LA_BENCH_MOST) return false;
    if (repeats) return s->n < repeats;
    return s->n < LA_BENCH_LEAST || s->total < seconds;
}

void la_samples_add(la_samples *s, double seconds) {
    s->x[s->n++] = seconds;
    s->total += seconds;
}

double la_samples_median(la_samples *s) { return la_median(s->n, s->x); }

double la_samples_min(const la_samples *s) {
    double least = s->x[0];
    for (int64_t i = 1; i < s->n; i++) least = fmin(least, s->x[i]);
    return least;
}

/* --- output --- */
static bool on_terminal(const la_bench *b) {
    const char *term = getenv("TERM");
    return !b->c->quiet && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

void la_bench_progress(const la_bench *b, const char *fmt, ...) {
    if (!on_terminal(b)) return;
    va_list ap;
    va_start(ap, fmt);
    fputs("\r\033[K", stderr); /* to the beginning of the line, and clear it */
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fflush(stderr);
}

void la_bench_say(const la_bench *b, const char *fmt, ...) {
    if (b->c->json || b->c->quiet) return;
    la_bench_progress(b, "%s", "");
    va_list ap;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

void la_bench_say_peak(const la_bench *b) {
    la_bench_say(b, "%d thread%s; peak so far %.0f GFLOP/s (sgemm 768 x 512 x 512 a thread)",
                 la_threads(), la_threads() == 1 ? "" : "s", b->peak);
}

/* Six significant digits: what is behind them is noise. */
static void put_number(double x) {
    char text[LA_NUMBER_TEXT];
    if (x != floor(x)) {
        snprintf(text, sizeof text, "%.5e", x);
        x = strtod(text, NULL);
    }
    fputs(la_number_text(x, text), stdout);
}

static void put_json(const la_cell *cells, int n) {
    const char *before = "{";
    for (int i = 0; i < n; i++) {
        if (!cells[i].text && !isfinite(cells[i].number)) continue;
        printf("%s\"%s\": ", before, cells[i].key);
        before = ", ";
        if (cells[i].text)
            la_json_string(cells[i].text, stdout);
        else
            put_number(cells[i].number);
    }
    puts("}");
}

static int width_of(const la_cell *c) {
    int usual = c->text ? TEXT_WIDTH : NUMBER_WIDTH, heading = (int)strlen(c->heading);
    return heading > usual ? heading : usual;
}

static void put_headings(const la_cell *cells, int n) {
    for (int i = 0; i < n; i++)
        if (cells[i].heading)
            printf(cells[i].text ? "%-*s " : "%*s ", width_of(&cells[i]), cells[i].heading);
    putchar('\n');
}

static void put_line(const la_cell *cells, int n) {
    for (int i = 0; i < n; i++) {
        const la_cell *c = &cells[i];
        if (!c->heading) continue;
        if (c->text)
            printf("%-*s ", width_of(c), c->text);
        else if (isfinite(c->number))
            printf("%*.*f ", width_of(c), c->digits, c->number / c->unit);
        else
            printf("%*s ", width_of(c), "-");
    }
    putchar('\n');
}

void la_bench_row(la_bench *b, const la_cell *cells, int n) {
    la_bench_progress(b, "%s", "");
    if (b->c->json) {
        put_json(cells, n);
    } else {
        if (b->rows == 0) put_headings(cells, n);
        put_line(cells, n);
    }
    b->rows++;
    fflush(stdout);
}

/* --- random numbers --- */
void la_bench_fill(size_t n, la_real *x, uint64_t seed, uint32_t stream) {
    for (size_t i = 0; i < n; i += 4) { /* four numbers a block */
        uint32_t u[4];
        la_rng_block(seed, la_rng_stream(LA_RNG_TEST, stream), i / 4, u);
        for (size_t j = 0; j < 4 && i + j < n; j++) x[i + j] = R(u[j]) * R(0x1p-31) - 1;
    }
}
