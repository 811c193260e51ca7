/* names.c -- names in tables, and the nearest one by edit distance. */
#include "tensor/names.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 40 };

static char canonical(char c) { return c == '_' ? '-' : c; }

int la_name_same(const char *a, const char *b) {
    while (*a && canonical(*a) == canonical(*b)) a++, b++;
    return *a == *b;
}

int la_name_index(const char *name, la_name_fn *at) {
    for (int i = 0; at(i); i++)
        if (la_name_same(name, at(i))) return i;
    return -1;
}

/* Insertions, deletions and changes of one letter that turn a into b (Levenshtein). */
static int edits(const char *a, const char *b) {
    int row[MAX_NAME + 1], n = (int)strlen(b);
    if (n > MAX_NAME) n = MAX_NAME;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int change = diagonal + (canonical(a[i - 1]) != canonical(b[j - 1]));
            int other = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = change < other ? change : other;
        }
    }
    return row[n];
}

static int begins(const char *whole, const char *part) {
    if (!part[0] || !part[1]) return 0;
    while (*part && canonical(*whole) == canonical(*part)) whole++, part++;
    return !*part;
}

const char *la_name_nearest(const char *name, la_name_fn *at) {
    const char *best = NULL;
    for (int i = 0, least = 0; at(i); i++) {
        int d = begins(at(i), name) ? 0 : edits(name, at(i)); /* what is not finished comes first */
        if (!best || d < least) best = at(i), least = d;
    }
    return best;
}

la_status la_name_unknown(const char *what, const char *name, la_name_fn *at) {
    char        all[512] = "";
    size_t      n = 0;
    const char *nearest = la_name_nearest(name, at);
    for (int i = 0; at(i); i++) {
        if (n + strlen(at(i)) + sizeof ", , ..." > sizeof all) { /* whole names only */
            memcpy(all + n, ", ...", sizeof ", ...");
            break;
        }
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", at(i));
    }
    return la_fail(LA_NAME, "unknown %s \"%.60s\": did you mean %s? (known: %s)", what, name,
                   nearest ? nearest : "none", all);
}
