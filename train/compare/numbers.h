/* numbers.h -- numbers of results.json: null stands for what is not known or not finite. */
#ifndef LA_NUMBERS_H
#define LA_NUMBERS_H
#include <jansson.h>
#include <math.h>

/* A new reference. */
static inline json_t *la_number_or_null(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

/* The number, NAN for null or what is none. */
static inline double la_number_of(const json_t *x) {
    return json_is_number(x) ? json_number_value(x) : NAN;
}
#endif
