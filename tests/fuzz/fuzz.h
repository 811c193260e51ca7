/* fuzz.h -- what the fuzz targets share.
 *
 * A target is one function on n bytes.  It may return or abort: a parser that crashes, or breaks a
 * promise of its header (HOLDS), is a finding.  libFuzzer calls it (run.sh), and replay.c calls it
 * on the committed seeds, in every build. */
#ifndef LA_FUZZ_H
#define LA_FUZZ_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tensor/status.h"
#include "tensor/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define HOLDS(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s; the last sentence: %s\n", __FILE__,         \
                    __LINE__, #condition, la_error());                                             \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Whether it worked; if not, there is a sentence, fit for a terminal. */
static inline int fuzz_worked(la_status s) {
    if (s == LA_OK) return 1;
    HOLDS(*la_error() && s != LA_STATE);
    for (const char *c = la_error(); *c;) {
        uint32_t point = 0;
        int      length = la_utf8_decode(c, (int64_t)strlen(c), &point);
        HOLDS(length && point >= 0x20 && !(point >= 0x7F && point < 0xA0));
        c += length;
    }
    return 0;
}

/* The bytes and a 0; free() it.  A 0 among them ends the text. */
static inline char *fuzz_text(const uint8_t *data, size_t n) {
    char *text = malloc(n + 1);
    HOLDS(text);
    if (n) memcpy(text, data, n);
    text[n] = 0;
    return text;
}

/* A regular file of these bytes, which has a path as long as it is open and touches no disk.
 * Returns the descriptor. */
enum { FUZZ_PATH = 40 };
static inline int fuzz_file(const uint8_t *data, size_t n, char path[FUZZ_PATH]) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    HOLDS(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    snprintf(path, FUZZ_PATH, "/proc/self/fd/%d", fd);
    return fd;
}
#endif
