/* text_stream.h -- a stream into memory, as open_memstream(), whose losses are told.
 *
 * glibc's own goes on where there is no memory for more: a piece is missing, and neither ferror()
 * nor fclose() says so; or fclose() succeeds and the text is NULL.  Needs fopencookie(), which
 * Linux has with glibc and with musl. */
#ifndef LA_TEXT_STREAM_H
#define LA_TEXT_STREAM_H
#include <stdio.h>

/* *text is what was written, with a 0 behind its *n bytes; both are up to date after fflush() and
 * fclose().  NULL: no memory.  If anything is missing, fclose() fails and *text is NULL; else it is
 * the caller's to free(). */
FILE *la_text_stream(char **text, size_t *n);
#endif
