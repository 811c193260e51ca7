/* fuzz_image.c -- a whole checkpoint with whatever bytes: sealed with the right hash, every one of
 * them reaches HDF5.
 *
 * It is decoded in this process, so that libFuzzer sees what is reached; HDF5 1.10 crashes on some
 * and loops on others, for which run.sh starts anew.  fuzz_contained.c has the same bytes as the
 * programs do. */
#include "tests/fuzz/decoded.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    uint8_t *image = malloc(n ? n : 1);
    HOLDS(image);
    if (n) memcpy(image, data, n);
    fuzz_decode(la_decode_checkpoint, image, n);
    fuzz_decode(la_decode_weights, image, n);
    free(image);
    return 0;
}
