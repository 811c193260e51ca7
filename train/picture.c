/* picture.c -- one path for each level of each matrix: its cells are strokes as thick as a cell. */
#include "train/picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/utf8.h"
#include "train/text_stream.h"
#include "train/xml.h"

enum {
    LEVELS = 32,
    LABELLED = 40, /* tokens of a text that has its tokens at the axes          */
    /* all in pixels: */
    SIDE = 192,   /* of a matrix, about, if its cells need no more             */
    COLUMN = 170, /* of the grid, at least: a title fits                       */
    LABEL_CELL = 10,
    LARGE_CELL = 24,
    MARGIN = 20,
    LINE = 17,
    TITLE = 34,      /* above a matrix                                             */
    LEFT = 34,       /* of a matrix, for its axis                                  */
    BELOW = 34,      /* the same, and a gap                                        */
    BESIDE = 14,     /* a gap                                                      */
    STEP = 6,        /* a level in the legend                                      */
    LEGEND = 60,     /* with one bar                                                */
    BAR = 36,        /* of the legend, each                                        */
    NARROWEST = 560, /* of the page: the legend fits                               */
    LETTER = 8,      /* a letter, at most                                          */
};

typedef struct sizes {
    int cell, side, column, row, width, height;
    int both; /* bars in the legend, less one */
} sizes;

/* --- text --- */
/* A token of one character that can be seen: a space is a dot, a new line an arrow. */
static uint32_t visible(uint32_t point) {
    if (point == ' ') return 0xB7;
    if (point == '\n') return 0x21B5;
    if (point == '\t') return 0x21E5;
    if (point < 0x20) return 0x2400 + point; /* pictures of controls */
    return point == 0x7F ? 0x2421 : point;
}

/* A byte that is no character comes as \xC3 and is shown as C3. */
static void put_token(FILE *out, const char *token, const char *where) {
    int64_t  length = (int64_t)strlen(token);
    uint32_t point;
    int      one = la_utf8_decode(token, length, &point) == length;
    fprintf(out, "<text class=\"%s\" %s>", one ? "token" : "byte", where);
    if (one)
        la_xml_point(out, visible(point));
    else
        la_xml_text(out, length > 2 ? token + 2 : token);
    fputs("</text>\n", out);
}

/* --- shades --- */
static const unsigned blue[3] = {0xffffff, 0x4292c6, 0x08306b};
static const unsigned orange[3] = {0xffffff, 0xf16913, 0x7f2704};

/* From white over a middle to the dark end. */
static unsigned colour(int level) {
    const unsigned *stop = level < 0 ? orange : blue;
    double          x = 2.0 * abs(level) / LEVELS;
    int             i = x < 1 ? 0 : 1;
    unsigned        c = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        double a = stop[i] >> shift & 255, b = stop[i + 1] >> shift & 255;
        c |= (unsigned)lround(a + (b - a) * (x - i)) << shift;
    }
    return c;
}

static double largest(const la_picture_matrix *m, int64_t T) {
    double top = 0;
    for (int64_t t = 0; t < T; t++)
        for (int64_t j = 0; j < T; j++) top = fmax(top, fabs((double)m->w[t * m->ld + j]));
    return top;
}

static int is_signed(const la_picture *p) {
    for (int64_t i = 0; i < p->rows * p->columns; i++)
        for (int64_t t = 0; t < p->T; t++)
            for (int64_t j = 0; j < p->T; j++)
                if (p->matrix[i].w[t * p->matrix[i].ld + j] < 0) return 1;
    return 0;
}

/* --- a matrix --- */
static void put_level(FILE *out, int64_t T, const int8_t *levels, int level) {
    int begun = 0;
    for (int64_t t = 0; t < T; t++)
        for (int64_t j = 0, from; j < T; j++) {
            if (levels[t * T + j] != level) continue;
            for (from = j; j + 1 < T && levels[t * T + j + 1] == level;) j++;
            if (!begun) fprintf(out, "<path stroke=\"#%06x\" d=\"", colour(level));
            begun = 1;
            fprintf(out, "M%d %dh%d", (int)from, (int)t, (int)(j + 1 - from));
        }
    if (begun) fputs("\"/>\n", out);
}

static void put_cells(FILE *out, int64_t T, const la_picture_matrix *m, double top, int cell,
                      int8_t *levels) {
    for (int64_t t = 0; t < T; t++)
        for (int64_t j = 0; j < T; j++) {
            double w = (double)m->w[t * m->ld + j];
            int    level = top > 0 ? (int)lround(LEVELS * sqrt(fabs(w) / top)) : 0;
            levels[t * T + j] = (int8_t)(w < 0 ? -level : level);
        }
    fprintf(out, "<g class=\"cells\" transform=\"scale(%d) translate(0 .5)\">\n", cell);
    for (int level = -LEVELS; level <= LEVELS; level++)
        if (level) put_level(out, T, levels, level);
    fputs("</g>\n", out);
}

/* Token or number t of each axis. */
static void put_axes(FILE *out, const la_picture *p, const sizes *s, int64_t t) {
    char at[2][64], number[24];
    int  middle = s->cell * (int)t + s->cell / 2;
    snprintf(at[0], sizeof at[0], "x=\"-5\" y=\"%d\" text-anchor=\"end\"", middle + 3);
    snprintf(at[1], sizeof at[1], "x=\"%d\" y=\"%d\" text-anchor=\"middle\"", middle, s->side + 12);
    snprintf(number, sizeof number, "%d", (int)t);
    for (int i = 0; i < 2; i++)
        if (p->T <= LABELLED)
            put_token(out, p->tokens[t], at[i]);
        else
            fprintf(out, "<text class=\"token\" %s>%s</text>\n", at[i], number);
}

static void put_matrix(FILE *out, const la_picture *p, const sizes *s, const la_picture_matrix *m,
                       int8_t *levels) {
    double  top = largest(m, p->T);
    int64_t step = p->T <= LABELLED ? 1 : p->T - 1;
    fprintf(out, "<text y=\"-20\">%s</text>\n<text class=\"note\" y=\"-6\">", m->title);
    la_xml_text(out, m->variant);
    fprintf(out, ", largest %.2g</text>\n", top);
    put_cells(out, p->T, m, top, s->cell, levels);
    fprintf(out, "<rect class=\"frame\" x=\"-.5\" y=\"-.5\" width=\"%d\" height=\"%d\"/>\n",
            s->side + 1, s->side + 1);
    for (int64_t t = 0; t < p->T; t += step) put_axes(out, p, s, t);
}

/* --- the page --- */
static void put_bar(FILE *out, int sign, const char *name) {
    static const char *const part[] = {"0", "1/16", "1/4", "9/16", "1"};
    for (int i = 0; i < LEVELS; i++)
        fprintf(out, "<rect x=\"%d\" width=\"%d\" height=\"12\" fill=\"#%06x\"/>\n", i * STEP, STEP,
                colour(sign * (i + 1)));
    fprintf(out, "<rect class=\"frame\" x=\"-.5\" y=\"-.5\" width=\"%d\" height=\"13\"/>\n",
            LEVELS * STEP + 1);
    for (int i = 0; i < 5; i++)
        fprintf(out, "<text class=\"token\" x=\"%d\" y=\"24\" text-anchor=\"middle\">%s%s</text>\n",
                i * LEVELS * STEP / 4, i && sign < 0 ? "-" : "", part[i]);
    fprintf(out, "<text class=\"note\" x=\"%d\" y=\"11\">%s</text>\n", LEVELS * STEP + 8, name);
}

static void put_legend(FILE *out, const sizes *s) {
    const int y = s->height - MARGIN - LEGEND - BAR * s->both;
    fprintf(out,
            "<text class=\"note\" x=\"%d\" y=\"%d\">Shade: square root of |w| / the largest |w| of "
            "the matrix, written above it</text>\n",
            MARGIN, y + 12);
    for (int i = 0; i <= s->both; i++) {
        fprintf(out, "<g transform=\"translate(%d %d)\">\n", MARGIN + 8, y + 24 + BAR * i);
        put_bar(out, i ? -1 : 1, i ? "of the largest, below 0" : "of the largest |w|");
        fputs("</g>\n", out);
    }
}

static int most(int a, int b) { return a > b ? a : b; }

static sizes sizes_of(const la_picture *p) {
    sizes s;
    int   T = (int)p->T;
    s.cell = (SIDE + T - 1) / T;
    if (T <= LABELLED) s.cell = s.cell < LABEL_CELL ? LABEL_CELL : s.cell;
    if (s.cell > LARGE_CELL) s.cell = LARGE_CELL;
    s.side = s.cell * T;
    s.both = is_signed(p);
    s.column = LEFT + most(s.side, COLUMN) + BESIDE;
    s.row = TITLE + s.side + BELOW;
    s.width = most(NARROWEST, 2 * MARGIN + (int)p->columns * s.column);
    for (int i = 0; i < LA_PICTURE_LINES; i++)
        s.width = most(s.width, 2 * MARGIN + LETTER * (int)strlen(p->line[i]));
    s.height = 2 * MARGIN + LA_PICTURE_LINES * LINE + (int)p->rows * s.row + LEGEND + BAR * s.both;
    return s;
}

static void put_page(FILE *out, const la_picture *p, int8_t *levels) {
    const sizes s = sizes_of(p);
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
            s.width, s.height, s.width, s.height);
    la_xml_text(out, p->line[0]);
    fputs("</title>\n<style>\ntext { font: 12px sans-serif; fill: #222 }\n"
          "text.note { fill: #555 }\ntext.token { font: 10px monospace; fill: #555 }\n"
          "text.byte { font: 7px monospace; fill: #555 }\n"
          ".frame { fill: none; stroke: #999 }\n"
          ".cells { fill: none; stroke-width: 1; shape-rendering: crispEdges }\n</style>\n",
          out);
    fprintf(out, "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", s.width, s.height);
    for (int i = 0; i < LA_PICTURE_LINES; i++) {
        fprintf(out, "<text x=\"%d\" y=\"%d\">", MARGIN, MARGIN + 10 + LINE * i);
        la_xml_text(out, p->line[i]);
        fputs("</text>\n", out);
    }
    for (int i = 0; i < p->rows * p->columns; i++) {
        int c = i % (int)p->columns, r = i / (int)p->columns;
        fprintf(out, "<g transform=\"translate(%d %d)\">\n", MARGIN + LEFT + c * s.column,
                MARGIN + LA_PICTURE_LINES * LINE + TITLE + r * s.row);
        put_matrix(out, p, &s, p->matrix + i, levels);
        fputs("</g>\n", out);
    }
    put_legend(out, &s);
    fputs("</svg>\n", out);
}

la_status la_picture_svg(const la_picture *p, char **svg, size_t *n) {
    *svg = NULL;
    if (p->T < 1 || p->T > LA_PICTURE_TOKENS)
        return la_fail(LA_ARG, "a picture has 1 to %d tokens, and not %lld", LA_PICTURE_TOKENS,
                       (long long)p->T);
    int8_t *levels = malloc((size_t)(p->T * p->T));
    FILE   *out = levels ? la_text_stream(svg, n) : NULL;
    int     ok = out != NULL;
    if (out) {
        put_page(out, p, levels);
        ok = !ferror(out);
        if (fclose(out) != 0) ok = 0;
    }
    free(levels);
    if (ok) return LA_OK;
    free(*svg);
    *svg = NULL;
    return la_fail(LA_NOMEM, "no memory for a picture of %lld tokens", (long long)p->T);
}
