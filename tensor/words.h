/* words.h -- what a person typed: read as a number, and shown in a sentence. */
#ifndef LA_WORDS_H
#define LA_WORDS_H
#include <stdbool.h>

/* Plain decimal notation in any locale; whole: without point and exponent.  false: anything else.
 */
bool la_read_number(const char *s, bool whole, double *x);

enum { LA_NUMBER_TEXT = 32 };
/* The shortest text that reads back as x, with a decimal point in any locale.  Returns buf. */
const char *la_number_text(double x, char buf[LA_NUMBER_TEXT]);

/* Whether word is one of those in list, which stand between blanks; list NULL: none. */
bool la_has_word(const char *list, const char *word);

enum { LA_SHOWN = 64 };
/* Something typed or read, fit for a sentence: cut, and without control characters.  Returns buf.
 */
const char *la_shown(const char *s, char buf[LA_SHOWN]);
#endif
