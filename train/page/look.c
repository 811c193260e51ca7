/* look.c -- colour, point and dashes of a variant, and the legend that shows them.
 *
 * The colours are those of Okabe and Ito (https://jfly.uni-koeln.de/color, 2008), which people with
 * any kind of colour vision tell apart, with a grey in the place of the yellow, which is hard to
 * see on white. */
#include <math.h>

#include "train/page/page.h"

enum { COLOURS = 8, DASHES = 3 };

static const int colours[COLOURS] = {0x0072B2, 0xD55E00, 0x009E73, 0xCC79A7,
                                     0xE69F00, 0x56B4E9, 0x000000, 0x8C8C8C};
/* gnuplot's numbers: disc, square, triangles up and down, diamond; the same, empty */
static const int points[COLOURS] = {7, 5, 9, 11, 13, 6, 4, 8};
static const int dashes[DASHES][2] = {{0, 0}, {7, 4}, {2, 4}};

la_look la_look_of(int variant) {
    if (variant < 0) return (la_look){0x555555, 7, 0};
    return (la_look){colours[variant % COLOURS],
                     points[(variant + 3 * (variant / COLOURS)) % COLOURS],
                     variant / COLOURS % DASHES};
}

const char *la_look_dashes(int dash, char separator, char buf[LA_NUMBER_TEXT]) {
    snprintf(buf, LA_NUMBER_TEXT, "%d%c%d", dashes[dash][0], separator, dashes[dash][1]);
    return buf;
}

/* The shape about (20,8), as gnuplot draws it. */
static void put_shape(la_page *p, int point) {
    const char *class = point % 2 && point > 4 ? "full" : "empty";
    if (point == 7 || point == 6)
        la_page_put(p, "<circle class=\"%s\" cx=\"20\" cy=\"8\" r=\"4\"/>", class);
    else if (point == 5 || point == 4)
        la_page_put(p, "<path class=\"%s\" d=\"M16 4h8v8h-8z\"/>", class);
    else if (point == 9 || point == 8)
        la_page_put(p, "<path class=\"%s\" d=\"M20 3l5 8h-10z\"/>", class);
    else if (point == 11)
        la_page_put(p, "<path class=\"%s\" d=\"M20 13l5 -8h-10z\"/>", class);
    else
        la_page_put(p, "<path class=\"%s\" d=\"M20 3l5 5l-5 5l-5 -5z\"/>", class);
}

static int is_in(const json_t *list, const char *problem, const char *variant) {
    size_t  i;
    json_t *entry;
    json_array_foreach(list, i, entry) if (la_json_is_of(entry, problem, variant)) return 1;
    return 0;
}

void la_page_legend(la_page *p, const json_t *list, const char *problem) {
    const size_t n = json_array_size(la_page_list(p, "variants"));
    if (p->no_gnuplot) return;
    la_page_put(p, "<ul class=\"legend\">\n");
    for (size_t i = 0; i < n; i++) {
        const la_look look = la_look_of((int)i);
        char          dash[LA_NUMBER_TEXT];
        const char   *name = la_page_variant_name(p, i);
        if (!is_in(list, problem, name)) continue;
        la_page_put(
            p,
            "<li><svg viewBox=\"0 0 40 16\" width=\"40\" height=\"16\" aria-hidden=\"true\" "
            "style=\"color:#%06X\"><path class=\"line\" d=\"M0 8h40\"",
            look.colour);
        if (look.dash)
            la_page_put(p, " stroke-dasharray=\"%s\"", la_look_dashes(look.dash, ',', dash));
        la_page_put(p, "/>");
        put_shape(p, look.point);
        la_page_put(p, "</svg>%s</li>\n", name);
    }
    la_page_put(p, "</ul>\n");
}
