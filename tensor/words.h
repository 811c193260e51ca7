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

/* In place: control characters (also those of two bytes, U+0080 to U+009F, which a terminal obeys
 * as well) and bytes that are no UTF-8 become '?'. */
void la_make_printable(char *s);

enum { LA_SHOWN = 64, LA_FILE_NAME = 256 };
/* Something typed or read, fit for a sentence: printable, and cut at its end.  Returns buf. */
const char *la_shown(const char *s, char buf[LA_SHOWN]);
/* A path, the same but cut at its beginning. */
const char *la_file_name(const char *path, char buf[LA_FILE_NAME]);
#endif
