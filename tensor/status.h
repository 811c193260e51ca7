/* status.h -- how every fallible function in the library reports failure.
 *
 * The library never aborts, exits or prints.  A function that can fail returns a
 * la_status; the sentence that goes with it is kept per thread and read by la_error(). */
#ifndef LA_STATUS_H
#define LA_STATUS_H

#define LA_STATUS_MAP(X)                                                                           \
    X(OK, "ok")                                                                                    \
    X(NOMEM, "out of memory")                                                                      \
    X(SHAPE, "shapes do not agree")                                                                \
    X(ARG, "invalid argument")                                                                     \
    X(NAME, "unknown name")                                                                        \
    X(STATE, "call out of order")                                                                  \
    X(NUMERIC, "value is not finite")                                                              \
    X(IO, "file error")                                                                            \
    X(DATA, "unusable data")                                                                       \
    X(FORMAT, "malformed checkpoint")

typedef enum la_status {
#define X(id, text) LA_##id,
    LA_STATUS_MAP(X)
#undef X
} la_status;

#if defined(__GNUC__)
#define LA_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define LA_PRINTF(f, a)
#endif

const char *la_status_text(la_status s); /* static text, never NULL                       */
const char *la_error(void);              /* message of this thread's last failure; never NULL */

/* Keeps the formatted sentence for la_error(), fit for a terminal (tensor/words.h), and returns s:
 *     return la_fail(LA_SHAPE, "linear: x has %d columns, w expects %d", a, b); */
la_status la_fail(la_status s, const char *fmt, ...) LA_PRINTF(2, 3);

/* LA_TRY(la_tape_seal(t, loss));  hands any failure to our own caller. */
#define LA_TRY(e)                                                                                  \
    do {                                                                                           \
        la_status la_s_ = (e);                                                                     \
        if (la_s_ != LA_OK) return la_s_;                                                          \
    } while (0)
#endif
