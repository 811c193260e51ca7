/* fuzz_checkpoint.c -- a checkpoint, as it is and with the right hash.
 *
 * As it is, a file ends at the block or at the hash: bytes that do not match their hash never reach
 * HDF5.  So the block is then completed as saving does, and what is reached is all behind the hash:
 * HDF5's own reading of the image, and ours of what it finds (record, tokenizer, arrays). */
#include "tests/fuzz/fuzz.h"
#include "train/checkpoint.h"
#include "train/save_file.h"

static void load(const uint8_t *data, size_t n, la_params *p) {
    la_checkpoint *c;
    la_tokenizer  *k;
    char           path[FUZZ_PATH];
    int            fd = fuzz_file(data, n, path);
    if (fuzz_worked(la_checkpoint_open(&c, path))) {
        HOLDS(la_checkpoint_record(c)->step >= 0);
        fuzz_worked(la_checkpoint_tokenizer(c, &k));
        la_tokenizer_destroy(k);
        fuzz_worked(la_checkpoint_params(c, p));
        HOLDS(la_find_nonfinite(la_params_len(p), la_params_x(p)) < 0);
    }
    la_checkpoint_close(c);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static la_params *p; /* made once */
    if (!p) {
        HOLDS(la_params_create(&p) == LA_OK);
        la_params_add(p, "w", la_shape2(2, 3), LA_INIT_NORMAL, 1);
        HOLDS(la_params_alloc(p, 1, 0) == LA_OK);
    }
    load(data, n, p);
    if (n < LA_BLOCK) return 0;
    uint8_t *sealed = (uint8_t *)fuzz_text(data, n);
    la_file_seal(sealed, n);
    load(sealed, n, p);
    free(sealed);
    return 0;
}
