/* xml.h -- text within HTML and SVG, escaped. */
#ifndef LA_XML_H
#define LA_XML_H
#include <stdint.h>
#include <stdio.h>

/* Writes the character so that it is no markup, also in an attribute.  U+FFFD for what XML may not
 * hold: controls but new line and tab, noncharacters. */
void la_xml_point(FILE *out, uint32_t point);
/* The same for a text; a byte that is no UTF-8 is U+FFFD. */
void la_xml_text(FILE *out, const char *s);
#endif
