/* report_page.c -- the frame of the page, its order, and what stands at its top. */
#include "train/page/report_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/page/files.h"
#include "train/page/page.h"
#include "train/save_file.h"
#include "train/text_stream.h"

/* --- the top --- */
static void put_pair(la_page *p, const char *name, const char *value) {
    la_page_put(p, "<dt>%s</dt><dd>%s</dd>\n", name, value);
}

enum { VALUES_TEXT = 128 };

/* How many values the timing of runs has of this, and which: "1 and 2"; the least first. */
static int values_of(la_page *p, const char *key, char text[VALUES_TEXT]) {
    const json_t *list = la_page_list(p, "runs"), *r;
    double        last = -INFINITY, next;
    int           n = 0;
    size_t        at = 0;
    do {
        next = INFINITY;
        for (size_t i = 0; (r = json_array_get(list, i)); i++) {
            const double x = la_json_number(json_object_get(r, "timing"), key);
            if (x > last && x < next) next = x;
        }
        if (!isfinite(next)) break;
        if (text && at < VALUES_TEXT - 40)
            at += (size_t)snprintf(text + at, VALUES_TEXT - at, n ? " and %.6g" : "%.6g", next);
        last = next;
        n++;
    } while (1);
    return n;
}

static void put_machine(la_page *p) {
    const json_t *m = json_object_get(p->results, "machine");
    char          text[LA_NUMBER_TEXT];
    la_page_put(p, "<dl>\n");
    put_pair(p, "program", la_json_text(p->results, "program"));
    put_pair(p, "processor", la_json_text(m, "processor"));
    put_pair(p, "cores", la_count_text(la_json_number(m, "cores"), text));
    put_pair(p, "threads of a run", la_count_text(la_json_number(m, "threads"), text));
    put_pair(p, "runs side by side", la_count_text(la_json_number(m, "jobs"), text));
    put_pair(p, "system", la_json_text(m, "system"));
    put_pair(p, "vector instructions", la_json_text(m, "vectors"));
    put_pair(p, "BLAS", la_json_text(m, "blas"));
    la_page_put(p, "</dl>\n");
    if (values_of(p, "jobs", NULL) > 1 || values_of(p, "threads", NULL) > 1) {
        char      jobs[VALUES_TEXT], threads[VALUES_TEXT];
        const int more = values_of(p, "jobs", jobs) > 1;
        if (values_of(p, "threads", threads) > 1 && more)
            la_page_put(p,
                        "<p>Times of runs were taken with %s jobs side by side and %s threads "
                        "each: compare them with care.</p>\n",
                        jobs, threads);
        else
            la_page_put(p, "<p>Times of runs were taken with %s %s: compare them with care.</p>\n",
                        more ? jobs : threads, more ? "jobs side by side" : "threads");
    }
}

static void put_variants(la_page *p) {
    const json_t *list = la_page_list(p, "variants"), *v;
    la_table_begin(p, "Variants; the others are compared with the first");
    la_table_words(p, "variant");
    la_table_words(p, "options of its own");
    la_table_words(p, "formula");
    la_table_words(p, "paper");
    la_table_body(p);
    for (size_t i = 0; (v = json_array_get(list, i)); i++) {
        const char *key;
        json_t     *value, *options = json_object_get(v, "options");
        la_page_put(p, "<tr><th scope=\"row\">%s</th><td>", la_json_text(v, "name"));
        json_object_foreach(options, key, value) {
            la_page_put(p, "--%s=", key);
            la_page_value(p, value);
            la_page_put(p, " ");
        }
        la_page_put(p, "</td><td class=\"words\">%s</td><td class=\"words\">%s</td></tr>\n",
                    la_json_text(v, "formula"), la_json_text(v, "paper"));
    }
    la_table_end(p);
}

static void put_problems(la_page *p) {
    const json_t *list = la_page_list(p, "problems"), *q;
    la_table_begin(p, "Problems");
    la_table_words(p, "problem");
    la_table_words(p, "what");
    la_table_words(p, "file or task");
    la_table_words(p, "hash of the text");
    la_table_column(p, "size", "bytes of the text");
    la_table_column(p, "vocabulary", "different tokens");
    la_table_column(p, "train", "tokens to learn from");
    la_table_column(p, "valid", "tokens of validation");
    la_table_body(p);
    for (size_t i = 0; (q = json_array_get(list, i)); i++) {
        const char *hash = la_json_text(q, "hash");
        la_page_put(
            p, "<tr><th scope=\"row\">%s</th><td class=\"words\">%s</td><td><code>%s</code></td>",
            la_json_text(q, "name"), la_json_text(q, "what"), la_json_text(q, "spec"));
        la_page_put(p, "<td><code>%s</code></td>", *hash ? hash : "–");
        la_table_bytes(p, la_json_number(q, "bytes"));
        la_table_count(p, la_json_number(q, "vocab"));
        la_table_count(p, la_json_number(q, "train_tokens"));
        la_table_count(p, la_json_number(q, "valid_tokens"));
        la_page_put(p, "</tr>\n");
    }
    la_table_end(p);
}

/* The length of the first word of a shell's command: up to a space outside of quotes. */
static size_t word_of(const char *s) {
    char   quote = 0;
    size_t n = 0;
    for (; s[n] && (quote || s[n] != ' '); n++) {
        if (s[n] == '\\' && quote != '\'' && s[n + 1])
            n++;
        else if (quote ? s[n] == quote : s[n] == '\'' || s[n] == '"')
            quote = quote ? 0 : s[n];
    }
    return n;
}

/* Each word is a box of its own, so that no line ends within one that fits into a line. */
static void put_words(la_page *p, const char *s) {
    while (*s) {
        const size_t n = word_of(s);
        char        *word = strndup(s, n);
        if (!word) {
            if (p->status == LA_OK) p->status = la_fail(LA_NOMEM, "no memory for a command");
            return;
        }
        if (n) la_page_put(p, "<span>%s</span>", word);
        free(word);
        s += n;
        if (*s) la_page_put(p, " ");
        s += *s == ' ';
    }
}

void la_page_header(la_page *p) {
    la_page_section(p, "what", "What was compared");
    put_variants(p);
    put_problems(p);
    la_page_put(p, "<h3>Program and machine</h3>\n");
    put_machine(p);
    la_page_put(p, "<h3>The same again</h3>\n<div class=\"command\"><pre><code>");
    put_words(p, la_json_text(p->results, "command"));
    la_page_put(p, "</code></pre></div>\n");
}

/* --- the frame --- */
static void put_incomplete(la_page *p) {
    const json_t *missing = la_page_list(p, "missing"), *why;
    const int     complete = json_is_true(json_object_get(p->results, "complete"));
    const size_t  n = json_array_size(missing);
    if (complete && !n) return;
    la_page_put(p, "<div class=\"warning\" role=\"note\"><strong>Not complete.</strong> ");
    if (n)
        la_page_put(p, "What could not be measured is left out:\n<ul class=\"plain\">\n");
    else
        la_page_put(p,
                    "The comparison was stopped before its end: what is missing is left out, and "
                    "what is here may rest on fewer runs than were asked for.");
    for (size_t i = 0; (why = json_array_get(missing, i)); i++) {
        la_page_put(p, "<li>");
        la_page_value(p, why);
        la_page_put(p, "</li>\n");
    }
    la_page_put(p, n ? "</ul></div>\n" : "</div>\n");
}

static void put_top(la_page *p, FILE *out) {
    const json_t *variants = la_page_list(p, "variants");
    const int     n = (int)json_array_size(variants);
    const int     problems = (int)json_array_size(la_page_list(p, "problems"));
    const char   *date = la_json_text(json_object_get(p->results, "machine"), "date");
    FILE         *body = p->out;
    p->out = out;
    la_page_put(p, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                   "<meta name=\"color-scheme\" content=\"light\">\n"
                   "<title>Attention compared: ");
    for (size_t i = 0; i < (size_t)n; i++)
        la_page_put(p, i ? ", %s" : "%s", la_page_variant_name(p, i));
    la_page_put(p, "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n");
    fputs(la_page_css, out);
    la_page_put(p,
                "</style>\n</head>\n<body>\n<header>\n<h1>Attention compared</h1>\n"
                "<p class=\"lead\">%d variant%s on %d problem%s",
                n, n == 1 ? "" : "s", problems, problems == 1 ? "" : "s");
    la_page_put(p, *date ? "; results of <span class=\"whole\">%s</span>.</p>\n" : ".</p>\n", date);
    put_incomplete(p);
    if (p->no_gnuplot)
        la_page_put(p, "<p class=\"warning\" role=\"note\"><strong>No charts.</strong> They are "
                       "drawn by gnuplot, which is not installed here (Debian: gnuplot-nox). All "
                       "numbers are in the tables and in results.csv.</p>\n");
    p->out = body;
}

static void put_parts(la_page *p) {
    la_page_header(p);
    la_page_findings(p);
    la_page_learning(p);
    la_page_speed(p);
    la_page_retrieval(p);
    la_page_positions(p);
    la_page_entropy(p);
    la_page_pictures(p);
    la_page_gradcheck(p);
    la_page_samples(p);
    la_page_sweeps(p);
    la_page_settings(p);
    la_page_runs(p);
}

static void put_whole(la_page *p, FILE *out, const char *contents, const char *body) {
    put_top(p, out);
    fprintf(out,
            "<nav aria-label=\"Contents\">\n%s</nav>\n</header>\n<main>\n%s</main>\n<script>\n",
            contents, body);
    fputs(la_page_js, out);
    fputs("</script>\n</body>\n</html>\n", out);
}

/* Closes a stream of memory; 0: something did not fit. */
static int whole(FILE *f) {
    const int bad = ferror(f);
    return fclose(f) == 0 && !bad;
}

/* --- all of it in memory, then at once to the disk --- */
static la_status make(la_page *p, char **page, size_t *n) {
    char     *body = NULL, *contents = NULL;
    size_t    body_n, contents_n;
    la_status status = LA_OK;
    p->out = la_text_stream(&body, &body_n);
    p->contents = la_text_stream(&contents, &contents_n);
    int fits = p->out && p->contents;
    if (fits) put_parts(p);
    if (p->out && !whole(p->out)) fits = 0;
    if (p->contents && !whole(p->contents)) fits = 0;
    if (!fits) status = la_fail(LA_NOMEM, "no memory for a page");
    if (fits) status = p->status;
    FILE *out = status == LA_OK ? la_text_stream(page, n) : NULL;
    if (out) {
        put_whole(p, out, contents, body);
        fits = whole(out);
    }
    if (status == LA_OK && !(out && fits)) status = la_fail(LA_NOMEM, "no memory for a page");
    free(body);
    free(contents);
    return status;
}

la_status la_report_write(const json_t *results, const char *pictures_dir, const char *path,
                          char note[LA_REPORT_NOTE]) {
    la_page p = {.results = results, .pictures_dir = pictures_dir};
    char   *page = NULL;
    size_t  n = 0;
    *note = 0;
    if (strcmp(la_json_text(results, "schema"), "lina-results-1") != 0)
        return la_fail(LA_DATA, "the results are of the schema \"%.40s\", and not lina-results-1",
                       la_json_text(results, "schema"));
    la_status status = make(&p, &page, &n);
    if (status == LA_NAME) { /* what is left out is known now: once more, without charts */
        p = (la_page){.results = results, .pictures_dir = pictures_dir, .no_gnuplot = 1};
        free(page);
        page = NULL;
        status = make(&p, &page, &n);
        snprintf(note, LA_REPORT_NOTE,
                 "the report has no charts, since gnuplot is not installed (Debian: gnuplot-nox)");
    }
    if (status == LA_OK) status = la_file_put(path, (const unsigned char *)page, n);
    free(page);
    return status;
}
