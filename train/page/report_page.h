/* report_page.h -- results.json as a page to read: one file that needs no other, nor a network. */
#ifndef LA_REPORT_PAGE_H
#define LA_REPORT_PAGE_H
#include <jansson.h>

#include "tensor/status.h"

/* What the page had to do without, in words to warn with; "": nothing. */
enum { LA_REPORT_NOTE = 256 };

/* Writes the page at path (whole, or what was there stays).  `results` is as results.schema.json
 * says; a part without data, or with data of another kind, is left out.  The pictures are pictures_dir/NAME.svg, each below its
 * NAME; NULL: none.  Charts are drawn by gnuplot: without it there are all the
 * tables, LA_OK, and a sentence in `note`.  LA_DATA: `results` are of another schema.  LA_IO:
 * gnuplot failed, or the page cannot be saved.  LA_NOMEM. */
la_status la_report_write(const json_t *results, const char *pictures_dir, const char *path,
                          char note[LA_REPORT_NOTE]);
#endif
