/* utf8.h -- a text, and the characters in it.
 *
 * UTF-8 is read strictly (RFC 3629): an overlong form, a surrogate, a code point above
 * U+10FFFF, a stray continuation byte and a text that ends within a character are all
 * malformed, so that each text has exactly one sequence of code points and the reverse. */
#ifndef LA_UTF8_H
#define LA_UTF8_H
#include <stdbool.h>
#include <stdint.h>

enum { LA_CODE_POINTS = 0x110000 }; /* code points are 0 .. LA_CODE_POINTS - 1 */

/* Bytes, with the words that name them when something is wrong with them. */
typedef struct la_text {
    const char *what; /* subject of an error sentence: "the prompt"            */
    const char *bytes;
    int64_t     n;  /* bytes                                                  */
    int64_t     at; /* where bytes[0] stands in its file: 3 after a BOM, else 0 */
} la_text;

static inline la_text la_text_of(const char *what, const char *bytes, int64_t n) {
    return (la_text){what, bytes, n, 0};
}

bool la_utf8_is_point(uint32_t point); /* a code point that UTF-8 can hold: no surrogate */

/* Length 1..4 of the character at p, of which n > 0 bytes may be read; 0 when malformed. */
int la_utf8_decode(const char *p, int64_t n, uint32_t *point);

/* Writes the character, returns its length 1..4; 0 when !la_utf8_is_point(point). */
int la_utf8_encode(uint32_t point, char out[4]);

/* Characters in a well-formed text; at least the well-formed ones in any other. */
int64_t la_utf8_count(const char *p, int64_t n);
#endif
