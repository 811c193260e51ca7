/* utf8.h -- the characters in a text.
 *
 * UTF-8 is read strictly (RFC 3629): an overlong form, a surrogate, a code point above
 * U+10FFFF, a stray continuation byte and a text that ends within a character are all
 * malformed, so that each text has exactly one sequence of code points and the reverse. */
#ifndef LA_UTF8_H
#define LA_UTF8_H
#include <stdbool.h>
#include <stdint.h>

enum { LA_CODE_POINTS = 0x110000 }; /* code points are 0 .. LA_CODE_POINTS - 1 */

bool la_utf8_is_point(uint32_t point); /* a code point that UTF-8 can hold: no surrogate */

/* Length 1..4 of the character at p, of which n > 0 bytes may be read; 0 when malformed. */
int la_utf8_decode(const char *p, int64_t n, uint32_t *point);

/* Writes the character, returns its length 1..4; 0 when !la_utf8_is_point(point). */
int la_utf8_encode(uint32_t point, char out[4]);

/* Characters in a well-formed text; at least the well-formed ones in any other. */
int64_t la_utf8_count(const char *p, int64_t n);
#endif
