/* utf8.c -- one character to and from its one to four bytes. */
#include "tensor/utf8.h"

static bool follows(unsigned char b) { return (b & 0xC0) == 0x80; }

bool la_utf8_is_point(uint32_t point) {
    return point < LA_CODE_POINTS && !(point >= 0xD800 && point <= 0xDFFF);
}

int la_utf8_decode(const char *p, int64_t n, uint32_t *point) {
    /* the least code point of each length: anything below it is an overlong form */
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char  *b = (const unsigned char *)p;
    if (b[0] < 0x80) {
        *point = b[0];
        return 1;
    }
    int length = b[0] >= 0xF8 ? 0 : b[0] >= 0xF0 ? 4 : b[0] >= 0xE0 ? 3 : b[0] >= 0xC0 ? 2 : 0;
    if (length == 0 || length > n) return 0;
    uint32_t value = b[0] & (0x7Fu >> length);
    for (int i = 1; i < length; i++) {
        if (!follows(b[i])) return 0;
        value = value << 6 | (b[i] & 0x3Fu);
    }
    if (value < least[length] || !la_utf8_is_point(value)) return 0;
    *point = value;
    return length;
}

int la_utf8_encode(uint32_t point, char out[4]) {
    if (!la_utf8_is_point(point)) return 0;
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    int length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, point >>= 6) out[i] = (char)(0x80 | (point & 0x3F));
    out[0] = (char)((0xF00u >> length & 0xFF) | point); /* 110..., 1110..., 11110... */
    return length;
}

int64_t la_utf8_count(const char *p, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += !follows((unsigned char)p[i]);
    return count;
}
