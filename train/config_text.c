/* config_text.c -- options as lines `key = value`: config files, and the text in checkpoints.
 *
 * A line is empty, or `# comment`, or `key = value`, which a comment may follow after a space.  A
 * value that would be misread otherwise stands in quotes, with \n \t \r \" \\ and \xHH for any
 * byte. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/utf8.h"
#include "train/config_impl.h"
#include "train/save_file.h"
#include "train/text_stream.h"

enum { LONGEST_FILE = 1 << 20 }; /* bytes; a config file has some hundred */

/* --- values as text --- */
const char *la_config_value(const la_config *c, int option, char buf[LA_NUMBER_TEXT]) {
    const void *field = la_config_field(c, option);
    switch (la_options[option].type) {
    case LA_INT:
        snprintf(buf, LA_NUMBER_TEXT, "%lld", (long long)*(const int64_t *)field);
        return buf;
    case LA_REAL:
        return la_number_text(*(const double *)field, buf);
    case LA_FLAG:
        return *(const bool *)field ? "on" : "off";
    default:
        return la_config_string(c, option);
    }
}

static bool needs_quotes(const char *s) {
    size_t   n = strlen(s);
    uint32_t point;
    for (size_t i = 0, len; i < n; i += len) {
        len = (size_t)la_utf8_decode(s + i, (int64_t)(n - i), &point);
        if (!len || point < ' ' || point == 127 || strchr("#\"\\", s[i])) return true;
    }
    return n == 0 || s[0] == ' ' || s[n - 1] == ' ';
}

static void write_quoted(FILE *out, const char *s) {
    size_t   n = strlen(s);
    uint32_t point;
    fputc('"', out);
    for (size_t i = 0, len; i < n; i += len) {
        len = (size_t)la_utf8_decode(s + i, (int64_t)(n - i), &point);
        if (s[i] == '\n')
            fputs("\\n", out);
        else if (s[i] == '"' || s[i] == '\\')
            fprintf(out, "\\%c", s[i]);
        else if (!len || point < ' ' || point == 127)
            fprintf(out, "\\x%02x", (unsigned char)s[i]);
        else
            fwrite(s + i, 1, len, out);
        if (!len) len = 1; /* not UTF-8: a byte like any other */
    }
    fputc('"', out);
}

la_status la_config_text(const la_config *c, la_tool tool, char **text) {
    size_t n;
    FILE  *out = la_text_stream(text, &n);
    if (!out) return la_fail(LA_NOMEM, "no memory for the text of the options");
    for (int i = 0; i < LA_N_OPTIONS; i++) {
        const la_option *o = &la_options[i];
        char             buf[LA_NUMBER_TEXT];
        const char      *value = la_config_value(c, i, buf);
        if (!(o->tools & tool) || o->binding == LA_BIND_LOCAL) continue;
        if (!*value && o->min > 0) continue; /* not given */
        fprintf(out, "%s = ", o->name);
        if (la_type_is_text(o->type) && needs_quotes(value))
            write_quoted(out, value);
        else
            fputs(value, out);
        fputc('\n', out);
    }
    bool failed = ferror(out) != 0;
    if (!fclose(out) && !failed) return LA_OK;
    free(*text);
    *text = NULL;
    return la_fail(LA_NOMEM, "no memory for the text of the options");
}

/* --- text to values --- */
static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static char *trim(char *s) {
    while (is_space(*s)) s++;
    size_t n = strlen(s);
    while (n && is_space(s[n - 1])) n--;
    s[n] = 0;
    return s;
}

static int hex(char c) {
    const char *digits = "0123456789abcdef",
               *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Turns a value into what it stands for, in place; NULL if it is malformed. */
static char *read_value(char *s) {
    if (*s != '"') {
        char *end = s; /* of the value: a comment, or the end of the line */
        while (*end && !(*end == '#' && (end == s || is_space(end[-1])))) end++;
        *end = 0;
        return trim(s);
    }
    char *to = s, *p = s + 1;
    for (; *p && *p != '"'; p++) {
        if (*p != '\\') {
            *to++ = *p;
            continue;
        }
        const char *names = "ntr\"\\", *at = *++p ? strchr(names, *p) : NULL;
        if (at)
            *to++ = "\n\t\r\"\\"[at - names];
        else if (*p == 'x' && hex(p[1]) >= 0 && hex(p[2]) >= 0 && (hex(p[1]) || hex(p[2]))) {
            *to++ = (char)(hex(p[1]) * 16 + hex(p[2]));
            p += 2;
        } else
            return NULL;
    }
    if (!*p) return NULL;
    for (p++; is_space(*p);) p++;
    *to = 0;
    return *p && *p != '#' ? NULL : s;
}

static la_status read_line(la_config *c, la_origin from, char *line) {
    char  shown[LA_SHOWN];
    char *key = trim(line), *equals = strchr(key, '='), *value;
    if (!*key || *key == '#') return LA_OK;
    if (!equals) return la_fail(LA_ARG, "\"%s\" is no line key = value", la_shown(key, shown));
    *equals = 0;
    key = trim(key);
    if (la_name_index(key, la_config_key) < 0) {
        la_shown(key, shown);
        return la_fail(LA_NAME, "unknown key \"%s\": did you mean %s?", shown,
                       la_name_nearest(shown, la_config_key));
    }
    value = read_value(trim(equals + 1));
    if (!value)
        return la_fail(LA_ARG,
                       "the value of %s needs a closing \" and nothing after it; \\ stands before "
                       "n t r \" \\ or xHH",
                       key);
    return la_config_set(c, la_config_find(key, LA_TOOL_TRAIN), from, value);
}

la_status la_config_lines(la_config *c, la_origin from, const char *text, const char *where) {
    char     *all = strdup(text), *line = all, *end;
    la_status s = all ? LA_OK : la_fail(LA_NOMEM, "no memory for %s", where);
    if (all && strncmp(all, "\xef\xbb\xbf", 3) == 0) line += 3;
    for (int n = 1; line && s == LA_OK; n++, line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        s = read_line(c, from, line);
        if (s) la_fail(s, "%s:%d: %s", where, n, la_error());
    }
    free(all);
    return s;
}

la_status la_config_from_text(la_config *c, const char *text, const char *where) {
    return la_config_lines(c, LA_FROM_CHECKPOINT, text, where);
}

la_status la_config_file(la_config *c, const char *path) {
    char  name[LA_FILE_NAME];
    char *text = malloc(LONGEST_FILE + 1);
    la_file_name(path, name);
    if (!text) return la_fail(LA_NOMEM, "no memory for %s", name);
    errno = 0;
    FILE  *f = fopen(path, "rb");
    size_t n = f ? fread(text, 1, LONGEST_FILE + 1, f) : 0;
    int    error = f ? (ferror(f) ? errno : 0) : errno;
    if (f) fclose(f);
    la_status s;
    if (!f || error) {
        s = la_fail(LA_IO, "cannot read the config file %s: %s", name, strerror(error));
    } else if (n > LONGEST_FILE || memchr(text, 0, n)) {
        s = la_fail(LA_ARG, "%s is no config file: it has %s", name,
                    n > LONGEST_FILE ? "more than a mebibyte" : "a byte 0");
    } else {
        text[n] = 0;
        s = la_config_lines(c, LA_FROM_FILE, text, name);
    }
    free(text);
    return s;
}
