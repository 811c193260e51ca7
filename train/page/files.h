/* files.h -- page.css and page.js, which the build makes strings of. */
#ifndef LA_PAGE_FILES_H
#define LA_PAGE_FILES_H
extern const char la_page_css[], la_page_js[];
#endif
