/* words.c -- numbers with a decimal point whatever the locale of the program. */
#include "tensor/words.h"

#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

const char *la_shown(const char *s, char buf[LA_SHOWN]) {
    size_t n = strlen(s), most = LA_SHOWN - 4;
    size_t kept = n < most ? n : most;
    while (kept < n && kept > 0 && ((unsigned char)s[kept] & 0xc0) == 0x80)
        kept--; /* a whole character */
    for (size_t i = 0; i < kept; i++) buf[i] = (unsigned char)s[i] < 32 || s[i] == 127 ? '?' : s[i];
    memcpy(buf + kept, kept < n ? "..." : "", kept < n ? 4 : 1);
    return buf;
}

bool la_has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; at && (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == 0 || at[n] == ' ')) return true;
    return false;
}
