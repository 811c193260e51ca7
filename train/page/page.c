/* page.c -- reading results.json; HTML and its tables. */
#include "train/page/page.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "train/compare/numbers.h"
#include "train/xml.h"

/* --- results.json --- */
double la_json_at(const json_t *array, size_t i) {
    return la_number_of(json_array_get(array, i));
}

double la_json_number(const json_t *object, const char *key) {
    return la_number_of(json_object_get(object, key));
}

double la_json_count(const json_t *object, const char *key) {
    const double x = la_json_number(object, key);
    return isfinite(x) ? x : 0;
}

const char *la_json_text(const json_t *object, const char *key) {
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

const json_t *la_page_list(const la_page *p, const char *name) {
    return json_object_get(p->results, name);
}

const char *la_page_variant_name(const la_page *p, size_t i) {
    return la_json_text(json_array_get(la_page_list(p, "variants"), i), "name");
}

int la_page_variant(const la_page *p, const char *name) {
    const size_t n = json_array_size(la_page_list(p, "variants"));
    for (size_t i = 0; i < n; i++)
        if (strcmp(la_page_variant_name(p, i), name) == 0) return (int)i;
    return -1;
}

int la_json_is_of(const json_t *entry, const char *problem, const char *variant) {
    return (!problem || strcmp(la_json_text(entry, "problem"), problem) == 0) &&
           (!variant || strcmp(la_json_text(entry, "variant"), variant) == 0);
}

int la_json_is_main(const json_t *run) { return strcmp(la_json_text(run, "purpose"), "main") == 0; }

int la_json_is_counted(const json_t *run) {
    const char *status = la_json_text(run, "status");
    return la_json_is_main(run) && strcmp(status, "diverged") != 0 && strcmp(status, "failed") != 0;
}

int la_baseline_counts(const json_t *baseline) {
    const char  *name = la_json_text(baseline, "name");
    const size_t n = strlen(name);
    return n >= 4 && strcmp(name + n - 4, "gram") == 0;
}

const char *la_baseline_words(const json_t *baseline, char buf[LA_NAME_TEXT]) {
    snprintf(buf, LA_NAME_TEXT, "%.48s%s", la_json_text(baseline, "name"),
             la_baseline_counts(baseline) ? " counts" : "");
    return buf;
}

/* --- HTML --- */
void la_page_put(la_page *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    for (const char *s = format; *s; s++) {
        if (*s != '%') {
            putc(*s, p->out);
            continue;
        }
        char         spec[16] = {0};
        const size_t length = 1 + strcspn(s + 1, "sdefgX%");
        if (length + 1 >= sizeof spec) break;
        memcpy(spec, s, length + 1);
        s += length;
        switch (*s) {
        case 's':
            la_xml_text(p->out, va_arg(args, const char *));
            break;
        case 'd':
        case 'X':
            fprintf(p->out, spec, va_arg(args, int));
            break;
        case '%':
            putc('%', p->out);
            break;
        default:
            fprintf(p->out, spec, va_arg(args, double));
        }
    }
    va_end(args);
}

void la_page_value(la_page *p, const json_t *value) {
    if (json_is_string(value))
        la_page_put(p, "%s", json_string_value(value));
    else if (json_is_boolean(value))
        la_page_put(p, json_is_true(value) ? "yes" : "no");
    else if (json_is_number(value))
        la_page_put(p, "%.10g", json_number_value(value));
    else
        la_page_put(p, "–");
}

void la_page_section(la_page *p, const char *id, const char *title) {
    la_page_put(p, "<h2 id=\"%s\">%s</h2>\n", id, title);
    fprintf(p->contents, "<a href=\"#%s\">%s</a>\n", id, title);
}

/* --- numbers --- */
const char *la_count_text(double x, char buf[LA_NUMBER_TEXT]) {
    char digits[LA_NUMBER_TEXT];
    if (!isfinite(x)) return "–";
    if (fabs(x) >= 1e15) {
        snprintf(buf, LA_NUMBER_TEXT, "%.3g", x);
        return buf;
    }
    snprintf(digits, sizeof digits, "%.0f", fabs(x));
    char        *to = buf;
    const size_t n = strlen(digits);
    if (x <= -.5) *to++ = '-';
    for (size_t i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = 0;
    return buf;
}

const char *la_bytes_text(double x, char buf[LA_NUMBER_TEXT]) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int                      i = 0;
    if (!isfinite(x)) return "–";
    for (; x >= 1024 && i < 4; i++) x /= 1024;
    snprintf(buf, LA_NUMBER_TEXT, i && x < 100 ? "%.1f %s" : "%.0f %s", x, unit[i]);
    return buf;
}

/* --- tables --- */
void la_table_begin(la_page *p, const char *caption) {
    la_page_put(p,
                "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">"
                "<table class=\"sort\"><caption>%s</caption>\n<thead><tr>",
                caption, caption);
}

void la_table_column(la_page *p, const char *head, const char *title) {
    if (*title)
        la_page_put(p, "<th class=\"n\" scope=\"col\" title=\"%s\">%s</th>", title, head);
    else
        la_page_put(p, "<th class=\"n\" scope=\"col\">%s</th>", head);
}

void la_table_words(la_page *p, const char *head) {
    la_page_put(p, "<th scope=\"col\">%s</th>", head);
}

void la_table_body(la_page *p) { la_page_put(p, "</tr></thead>\n<tbody>\n"); }

static void cell(la_page *p, double x, const char *text) {
    if (isfinite(x))
        la_page_put(p, "<td class=\"n\" data-v=\"%.9g\">%s</td>", x, text);
    else
        la_page_put(p, "<td class=\"n\">–</td>");
}

void la_table_cell(la_page *p, const char *format, double x) {
    char text[LA_NUMBER_TEXT];
    snprintf(text, sizeof text, format, x);
    cell(p, x, text);
}

void la_table_count(la_page *p, double x) {
    char text[LA_NUMBER_TEXT];
    cell(p, x, la_count_text(x, text));
}

void la_table_bytes(la_page *p, double x) {
    char text[LA_NUMBER_TEXT];
    cell(p, x, la_bytes_text(x, text));
}

void la_table_end(la_page *p) { la_page_put(p, "</tbody></table></div>\n"); }
