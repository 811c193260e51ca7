/* status.c -- the message of the last failure, one for each thread. */
#include "tensor/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "tensor/words.h"

static _Thread_local char message[1024];

const char *la_status_text(la_status s) {
    static const char *const text[] = {
#define X(id, t) [LA_##id] = t,
        LA_STATUS_MAP(X)
#undef X
    };
    return s >= 0 && s < sizeof text / sizeof *text ? text[s] : "unknown status";
}

const char *la_error(void) { return message; }

la_status la_fail(la_status s, const char *fmt, ...) {
    char    fresh[sizeof message]; /* the arguments may point into the old message */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(fresh, sizeof fresh, fmt, ap);
    va_end(ap);
    la_make_printable(fresh); /* names and values in it may be anybody's */
    snprintf(message, sizeof message, "%s", fresh);
    return s;
}
