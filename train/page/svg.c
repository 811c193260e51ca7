/* svg.c -- a complete SVG document becomes a part of the page.
 *
 * In a page all documents share one space of ids, and a style sheet within one of them is about the
 * whole page.  So id="a" becomes id="d3-a"; href="#a" and the #a of a <style> follow, and each
 * selector there is put behind the drawing's own id: text { } becomes #d3 text { }.
 *
 * A page that is opened runs what is in it.  So a document is read tag by tag, and taken in only
 * if it has no elements, attributes and kinds of values but those that train/picture.c and gnuplot
 * write; whatever else there is refuses it. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "train/page/page.h"
#include "train/text_stream.h"

enum { DEEPEST = 32, SHOWN = 60 }; /* elements within each other; bytes of a refusal       */

static const char *const elements[] = {"svg",    "title",   "desc",        "style",  "g",   "defs",
                                       "path",   "rect",    "text",        "circle", "use", "tspan",
                                       "filter", "feFlood", "feComposite", NULL};
/* of all but the root */
static const char *const attributes[] = {"class",
                                         "color",
                                         "cx",
                                         "cy",
                                         "d",
                                         "dx",
                                         "dy",
                                         "fill",
                                         "fill-opacity",
                                         "filterUnits",
                                         "flood-color",
                                         "flood-opacity",
                                         "font-family",
                                         "font-size",
                                         "font-style",
                                         "font-weight",
                                         "height",
                                         "href",
                                         "id",
                                         "in",
                                         "in2",
                                         "opacity",
                                         "operator",
                                         "r",
                                         "result",
                                         "stroke",
                                         "stroke-width",
                                         "text-anchor",
                                         "transform",
                                         "width",
                                         "x",
                                         "xlink:href",
                                         "xml:space",
                                         "y",
                                         "stroke-linecap",
                                         "visibility",
                                         "stroke-opacity",
                                         "stroke-linejoin",
                                         "stroke-dasharray",
                                         "shape-rendering",
                                         NULL};
static const char *const of_root[] = {"viewBox",     "width", "height", "xmlns",
                                      "xmlns:xlink", "role",  NULL};
static const char *const functions[] = {"translate", "scale", "rotate", "rgb", NULL};

typedef struct span {
    const char *at;
    size_t      n;
} span;

typedef struct reader {
    const char *at, *end, *label;
    FILE       *out;
    int         drawing; /* the number of its prefix                                       */
    span        open[DEEPEST];
    int         depth;
} reader;

/* --- words --- */
static int is(span s, const char *word) {
    return s.n == strlen(word) && memcmp(s.at, word, s.n) == 0;
}

static int is_among(span s, const char *const *words) {
    while (*words && !is(s, *words)) words++;
    return *words != NULL;
}

static int begins(const reader *r, const char *word) {
    const size_t n = strlen(word);
    return (size_t)(r->end - r->at) >= n && memcmp(r->at, word, n) == 0;
}

static int is_name(char c) { return isalnum((unsigned char)c) || (c && strchr("_-.:", c)); }

static span read_name(reader *r) {
    span s = {r->at, 0};
    while (r->at < r->end && is_name(*r->at)) r->at++;
    s.n = (size_t)(r->at - s.at);
    return s;
}

static void skip_space(reader *r) {
    while (r->at < r->end && isspace((unsigned char)*r->at)) r->at++;
}

static void put(reader *r, span s) { fwrite(s.at, 1, s.n, r->out); }

static la_status refuse(const reader *r, const char *what, span s) {
    return la_fail(LA_DATA, "%s: a picture with %s%.*s is not taken into a page", r->label, what,
                   (int)(s.n < SHOWN ? s.n : SHOWN), s.at);
}

static la_status not_whole(const reader *r) {
    return la_fail(LA_DATA, "%s: no whole SVG document with a viewBox", r->label);
}

/* --- values --- */
/* Letters, numbers and what stands between them; a ( only after the name of a function above. */
static int is_plain(span s) {
    for (size_t i = 0; i < s.n; i++) {
        size_t from = i;
        if (isalnum((unsigned char)s.at[i]) || isspace((unsigned char)s.at[i])) continue;
        if (!s.at[i] || !strchr("#%()+,-./_", s.at[i])) return 0;
        while (from > 0 && isalpha((unsigned char)s.at[from - 1])) from--;
        if (s.at[i] == '(' && !is_among((span){s.at + from, i - from}, functions)) return 0;
    }
    return 1;
}

static int is_id(span s) {
    for (size_t i = 0; i < s.n; i++)
        if (!is_name(s.at[i]) || s.at[i] == ':') return 0;
    return s.n > 0;
}

/* A name, = and a value in quotes. */
static la_status read_attribute(reader *r, span *name, span *value) {
    *name = read_name(r);
    if (!name->n) return refuse(r, "a tag that is not whole: ", r->open[r->depth - 1]);
    if (!is_among(*name, r->depth == 1 ? of_root : attributes))
        return refuse(r, "the attribute ", *name);
    skip_space(r);
    const char *equals = r->at;
    if (begins(r, "=")) r->at++;
    skip_space(r);
    const char *quote = r->at;
    const char *to = quote < r->end && quote > equals && (*quote == '"' || *quote == '\'')
                         ? memchr(quote + 1, *quote, (size_t)(r->end - quote - 1))
                         : NULL;
    if (to) *value = (span){quote + 1, (size_t)(to - quote - 1)};
    if (!to || memchr(value->at, '<', value->n) || memchr(value->at, '>', value->n)) {
        char text[SHOWN];
        snprintf(text, sizeof text, "the attribute %.*s without quotes", (int)name->n, name->at);
        return refuse(r, text, (span){"", 0});
    }
    r->at = to + 1;
    return LA_OK;
}

static la_status copy_attribute(reader *r) {
    span name = {0}, value = {0}, whole = {r->at, 0};
    LA_TRY(read_attribute(r, &name, &value));
    whole.n = (size_t)(r->at - whole.at);
    const int link = is(name, "href") || is(name, "xlink:href"), id = is(name, "id");
    if (r->depth == 1) { /* of the root element only the size is kept */
        const int box = is(name, "viewBox");
        if (box && !(value.n && is_plain(value))) return refuse(r, "", whole);
        if (box) fputs(" viewBox=\"", r->out), put(r, value), fputs("\"", r->out);
        return LA_OK;
    }
    if (link && value.n && *value.at == '#')
        value.at++, value.n--;
    else if (link)
        return refuse(r, "", whole);
    const int named = link || id;
    if (named ? !is_id(value) : !is_plain(value)) return refuse(r, "", whole);
    putc(' ', r->out);
    put(r, name);
    fputs(link ? "=\"#" : "=\"", r->out);
    if (named) fprintf(r->out, "d%d-", r->drawing);
    put(r, value);
    putc('"', r->out);
    return LA_OK;
}

/* --- what stands between tags --- */
/* The rules of a style sheet: a selector begins at the top level, after { } or , */
static la_status copy_style(reader *r) {
    int depth = 0, begun = 0;
    for (; r->at < r->end && !begins(r, "</style>"); r->at++) {
        const char c = *r->at;
        const int  space = isspace((unsigned char)c);
        if (!space && !isalnum((unsigned char)c) && !(c && strchr("{}:;,.#-_%", c)))
            return refuse(r, "a style with ", (span){r->at, 1});
        if (depth == 0 && !begun && !space && c != '}') {
            fprintf(r->out, "#d%d ", r->drawing);
            begun = 1;
        }
        if (depth == 0 && c == ',') begun = 0;
        if (c == '{') depth++;
        if (c == '}' && depth > 0) depth--, begun = 0;
        putc(c, r->out);
        if (depth == 0 && c == '#') fprintf(r->out, "d%d-", r->drawing);
    }
    return LA_OK;
}

/* &lt; and its like, or a number. */
static la_status copy_entity(reader *r) {
    static const char *const known[] = {"lt", "gt", "amp", "quot", "apos", NULL};
    span                     s = {r->at + 1, 0};
    while (s.at + s.n < r->end && s.n < 8 &&
           (isalnum((unsigned char)s.at[s.n]) || s.at[s.n] == '#'))
        s.n++;
    int number = s.n > 1 && s.at[0] == '#';
    for (size_t i = 1; i < s.n; i++) number &= isdigit((unsigned char)s.at[i]) != 0;
    const int  ends = s.at + s.n < r->end && s.at[s.n] == ';';
    const span whole = {r->at, s.n + 1 + (size_t)ends};
    if (!ends || !(number || is_among(s, known))) return refuse(r, "", whole);
    put(r, whole);
    r->at += whole.n;
    return LA_OK;
}

/* The words of a title or desc are left out: the label says it. */
static la_status skip_words(reader *r) {
    while (r->at < r->end && *r->at != '<') r->at++;
    if (begins(r, "</")) return LA_OK;
    r->at += r->at < r->end;
    return refuse(r, "an element within a title: ", read_name(r));
}

/* --- tags --- */
static int is_silent(span element) { return is(element, "title") || is(element, "desc"); }

static la_status close_element(reader *r) {
    const char *from = r->at;
    r->at += 2;
    const span name = read_name(r), last = r->open[r->depth - 1];
    skip_space(r);
    if (!begins(r, ">") || name.n != last.n || memcmp(name.at, last.at, name.n) != 0)
        return refuse(r, "a tag that closes nothing: ", (span){from, (size_t)(r->at - from)});
    r->at++;
    r->depth--;
    if (!is_silent(last)) fputs("</", r->out), put(r, last), fputs(">", r->out);
    return LA_OK;
}

static la_status open_element(reader *r) {
    r->at++;
    const span name = read_name(r);
    if (!name.n) return refuse(r, "a comment or declaration: ", (span){r->at, r->at < r->end});
    if (!is_among(name, elements) || (is(name, "svg") && r->depth > 0))
        return refuse(r, "the element ", name);
    if (r->depth == DEEPEST) return refuse(r, "too many elements within each other, ", name);
    r->open[r->depth++] = name;
    if (!is_silent(name) && r->depth > 1) putc('<', r->out), put(r, name);
    for (;;) {
        const char *before = r->at;
        skip_space(r);
        if (begins(r, ">") || begins(r, "/>")) break;
        if (r->at == r->end) return not_whole(r);
        if (r->at == before || is_silent(name)) return refuse(r, "a tag that is not whole: ", name);
        LA_TRY(copy_attribute(r));
    }
    const int empty = *r->at == '/';
    r->at += 1 + empty;
    if (!is_silent(name)) fputs(empty ? "/>" : ">", r->out);
    if (empty)
        r->depth--;
    else if (is(name, "style"))
        return copy_style(r);
    else if (is_silent(name))
        return skip_words(r);
    return LA_OK;
}

/* From the root element's attributes to its end. */
static la_status copy(reader *r) {
    LA_TRY(open_element(r));
    while (r->depth > 0) {
        if (r->at == r->end) return not_whole(r);
        if (begins(r, "</"))
            LA_TRY(close_element(r));
        else if (*r->at == '<')
            LA_TRY(open_element(r));
        else if (*r->at == '&')
            LA_TRY(copy_entity(r));
        else
            putc(*r->at++, r->out);
    }
    return LA_OK;
}

la_status la_page_svg(la_page *p, const char *svg, size_t n, const char *label) {
    reader    r = {.at = svg, .end = svg + n, .label = label, .drawing = p->drawings + 1};
    char     *text = NULL;
    size_t    text_n;
    la_status status;
    while (r.at < r.end && !begins(&r, "<svg")) r.at++;
    if (r.at == r.end) return not_whole(&r);
    r.out = la_text_stream(&text, &text_n);
    if (!r.out) return la_fail(LA_NOMEM, "no memory for a picture");
    status = copy(&r);
    const int bad = ferror(r.out);
    if ((fclose(r.out) != 0 || bad) && status == LA_OK)
        status = la_fail(LA_NOMEM, "no memory for a picture");
    if (status == LA_OK && strncmp(text, " viewBox=", 9) != 0) status = not_whole(&r);
    if (status == LA_OK) {
        p->drawings++;
        la_page_put(p, "<svg id=\"d%d\" xmlns=\"http://www.w3.org/2000/svg\" ", p->drawings);
        la_page_put(p,
                    "xmlns:xlink=\"http://www.w3.org/1999/xlink\" role=\"img\" aria-label=\"%s\"",
                    label);
        fwrite(text, 1, text_n, p->out);
        if (ferror(p->out)) status = la_fail(LA_NOMEM, "no memory for the page");
    }
    free(text);
    return status;
}
