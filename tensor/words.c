/* words.c -- numbers with a decimal point whatever the locale of the program. */
#include "tensor/words.h"

#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/utf8.h"

/* strtod alone would also take "inf", "nan" and "0x1p3". */
bool la_read_number(const char *s, bool whole, double *x) {
    if (!*s || s[strspn(s, whole ? "+-0123456789" : "+-.0123456789eE")]) return false;
    char    *end;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(plain);
    *x = strtod(s, &end); /* whole numbers too: the table has none above 2^53 */
    uselocale(before);
    if (plain) freelocale(plain);
    return !*end;
}

const char *la_number_text(double x, char buf[LA_NUMBER_TEXT]) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(plain);
    bool     whole = x >= -0x1p53 && x <= 0x1p53 && x == (double)(int64_t)x;
    if (whole) snprintf(buf, LA_NUMBER_TEXT, "%.0f", x); /* 1000000 and not 1e+06 */
    for (int digits = 1; !whole && digits <= 17; digits++) {
        snprintf(buf, LA_NUMBER_TEXT, "%.*g", digits, x);
        if (strtod(buf, NULL) == x) break;
    }
    uselocale(before);
    if (plain) freelocale(plain);
    return buf;
}

void la_make_printable(char *s) {
    char *to = s;
    for (int64_t left = (int64_t)strlen(s); left > 0;) {
        uint32_t point = 0;
        int      n = la_utf8_decode(s, left, &point);
        if (n && point >= 0x20 && !(point >= 0x7F && point < 0xA0)) {
            memmove(to, s, (size_t)n);
            to += n;
        } else
            *to++ = '?';
        s += n ? n : 1;
        left -= n ? n : 1;
    }
    *to = 0;
}

enum { WITHIN_MOST = 3 }; /* bytes of a character after its first */

static bool is_within(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

const char *la_shown(const char *s, char buf[LA_SHOWN]) {
    size_t n = strlen(s), most = LA_SHOWN - sizeof "...";
    size_t kept = n < most ? n : most;
    for (int i = 0; i < WITHIN_MOST && kept < n && is_within(s[kept]); i++) kept--;
    memcpy(buf, s, kept);
    buf[kept] = 0;
    la_make_printable(buf);
    if (kept < n) strcat(buf, "...");
    return buf;
}

const char *la_file_name(const char *path, char buf[LA_FILE_NAME]) {
    size_t n = strlen(path), room = LA_FILE_NAME - 1;
    bool   cut = n > room;
    if (n == 0) path = "\"\"";
    if (cut) path += n - (room - strlen("..."));
    for (int i = 0; i < WITHIN_MOST && cut && is_within(*path); i++) path++;
    snprintf(buf, LA_FILE_NAME, "%s%s", cut ? "..." : "", path);
    la_make_printable(buf);
    return buf;
}

bool la_has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; at && (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == 0 || at[n] == ' ')) return true;
    return false;
}
