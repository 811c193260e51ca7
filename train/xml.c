/* xml.c -- text within HTML and SVG, escaped. */
#include "train/xml.h"

#include <string.h>

#include "tensor/utf8.h"

static int belongs_in_xml(uint32_t point) { /* no controls, no noncharacters */
    if (point == '\n' || point == '\t') return 1;
    return point >= 0x20 && !(point >= 0x7F && point < 0xA0) && (point & 0xFFFE) != 0xFFFE;
}

void la_xml_point(FILE *out, uint32_t point) {
    char bytes[4];
    switch (point) {
    case '<':
        fputs("&lt;", out);
        break;
    case '>':
        fputs("&gt;", out);
        break;
    case '&':
        fputs("&amp;", out);
        break;
    case '"':
        fputs("&quot;", out);
        break;
    default:
        if (!belongs_in_xml(point)) point = 0xFFFD;
        fwrite(bytes, 1, (size_t)la_utf8_encode(point, bytes), out);
    }
}

void la_xml_text(FILE *out, const char *s) {
    int64_t left = (int64_t)strlen(s);
    while (left > 0) {
        uint32_t point = 0xFFFD;
        int      n = la_utf8_decode(s, left, &point);
        la_xml_point(out, n ? point : 0xFFFD);
        s += n ? n : 1;
        left -= n ? n : 1;
    }
}
