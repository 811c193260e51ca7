/* fuzz_contained.c -- a whole checkpoint with whatever bytes, sealed with the right hash, and
 * opened as the programs do it: this process must live, and have a sentence. */
#include "tests/fuzz/decoded.h"
#include "train/save_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    la_checkpoint *c;
    char           path[FUZZ_PATH];
    if (n < LA_BLOCK) return 0;
    uint8_t *image = malloc(n);
    HOLDS(image);
    memcpy(image, data, n);
    la_file_seal(image, n);
    int       fd = fuzz_file(image, n, path);
    la_status s = la_checkpoint_open(&c, path);
    HOLDS(s == LA_OK || s == LA_FORMAT || s == LA_NOMEM);
    if (fuzz_worked(s)) fuzz_take_all(c);
    puts(s == LA_OK ? "opened" : la_error());
    la_checkpoint_close(c);
    close(fd);
    free(image);
    return 0;
}
