/* svg.c -- a complete SVG document becomes a part of the page.
 *
 * In a page all documents share one space of ids, and a style sheet within one of them is about the
 * whole page.  So id="a" becomes id="d3-a"; href="#a", url(#a) and the #a of a <style> follow, and
 * each selector there is put behind the drawing's own id: text { } becomes #d3 text { }. */
#include <ctype.h>
#include <string.h>

#include "train/page/page.h"

typedef struct reader {
    const char *at, *end;
} reader;

static int begins(const reader *r, const char *word) {
    const size_t n = strlen(word);
    return (size_t)(r->end - r->at) >= n && memcmp(r->at, word, n) == 0;
}

static const char *find(const char *from, const char *end, const char *word) {
    reader r = {from, end};
    for (; r.at < end; r.at++)
        if (begins(&r, word)) return r.at;
    return NULL;
}

/* The rules of a style sheet up to its end: a selector begins at the top level, after { } or , */
static void put_style(la_page *p, reader *r) {
    int depth = 0, begun = 0;
    for (; r->at < r->end && !begins(r, "</style"); r->at++) {
        if (depth == 0 && !begun && !isspace((unsigned char)*r->at) && *r->at != '}') {
            la_page_put(p, "#d%d ", p->drawings);
            begun = 1;
        }
        if (depth == 0 && *r->at == ',') begun = 0;
        if (*r->at == '{') depth++;
        if (*r->at == '}' && depth > 0) depth--, begun = 0;
        putc(*r->at, p->out);
        if (depth == 0 && *r->at == '#') la_page_put(p, "d%d-", p->drawings);
    }
}

/* Copies `word`, and puts the prefix after it. */
static int put_prefixed(la_page *p, reader *r, const char *word) {
    if (!begins(r, word)) return 0;
    fwrite(r->at, 1, strlen(word), p->out);
    la_page_put(p, "d%d-", p->drawings);
    r->at += strlen(word);
    return 1;
}

/* All between the root element's tags. */
static void put_inside(la_page *p, reader r) {
    static const char *const before[] = {" id=\"",  " id='", "\tid='", "href=\"#",
                                         "href='#", "url(#", "url('#"};
    while (r.at < r.end) {
        int done = 0;
        for (size_t i = 0; i < sizeof before / sizeof *before && !done; i++)
            done = put_prefixed(p, &r, before[i]);
        if (done) continue;
        if (begins(&r, "<style")) {
            const char *to = find(r.at, r.end, ">");
            if (!to) return;
            fwrite(r.at, 1, (size_t)(to + 1 - r.at), p->out);
            r.at = to + 1;
            put_style(p, &r);
        } else if (begins(&r, "<title>") || begins(&r, "<desc>")) { /* the label says it */
            const char *to = find(r.at, r.end, r.at[1] == 't' ? "</title>" : "</desc>");
            if (!to) return;
            r.at = find(to, r.end, ">") + 1;
        } else {
            putc(*r.at++, p->out);
        }
    }
}

la_status la_page_svg(la_page *p, const char *svg, size_t n, const char *label) {
    static const char *const refused[] = {"<script", "<foreignObject", "<image", "<!ENTITY",
                                          "@import"};
    const char              *end = svg + n, *root = find(svg, end, "<svg");
    const char              *inside = root ? find(root, end, ">") : NULL;
    const char              *box = root ? find(root, end, "viewBox=\"") : NULL;
    const char              *box_end = box ? find(box + 9, end, "\"") : NULL;
    const char              *last = NULL;
    for (const char *at = root; at && (at = find(at, end, "</svg>")); at++) last = at;
    if (!inside || !last || !box_end || box > inside)
        return la_fail(LA_DATA, "%s: no whole SVG document with a viewBox", label);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (find(svg, end, refused[i]))
            return la_fail(LA_DATA, "%s: a picture with %s is not taken into a page", label,
                           refused[i]);
    p->drawings++;
    la_page_put(p, "<svg id=\"d%d\" xmlns=\"http://www.w3.org/2000/svg\" ", p->drawings);
    la_page_put(p, "xmlns:xlink=\"http://www.w3.org/1999/xlink\" role=\"img\" aria-label=\"%s\" ",
                label);
    fwrite(box, 1, (size_t)(box_end + 1 - box), p->out);
    la_page_put(p, ">");
    put_inside(p, (reader){inside + 1, last});
    la_page_put(p, "</svg>");
    return ferror(p->out) ? la_fail(LA_NOMEM, "no memory for the page") : LA_OK;
}
