/* fuzz_checkpoint.c -- a checkpoint, as it is, and a well-formed one with contents made of the
 * bytes.
 *
 * As it is, a file ends at the block or at the hash: bytes that do not match their hash never reach
 * HDF5 (fuzz_image.c: with the right hash).  Then HDF5 writes an image, with the bytes as what
 * stands in it, so that all of our reading is reached: record, tokenizer and arrays of any value,
 * type, number and shape, or left out. */
#include "tests/fuzz/decoded.h"
#include "train/h5_io.h"
#include "train/save_file.h"

typedef struct input {
    const uint8_t *at;
    size_t         n;
} input;

/* The next n bytes, with zeros past the end. */
static void take(input *in, void *to, size_t n) {
    size_t have = n < in->n ? n : in->n;
    memset(to, 0, n);
    if (have) memcpy(to, in->at, have);
    in->at += have, in->n -= have;
}

static unsigned take_below(input *in, unsigned most) {
    uint8_t byte;
    take(in, &byte, 1);
    return byte % most;
}

static hid_t take_type(input *in) {
    const hid_t types[] = {H5T_NATIVE_INT64,  H5T_NATIVE_UINT64, H5T_NATIVE_DOUBLE,
                           H5T_NATIVE_UINT32, H5T_NATIVE_INT32,  H5T_NATIVE_FLOAT,
                           H5T_IEEE_F32BE,    H5T_NATIVE_INT8};
    return types[take_below(in, 8)];
}

static void put_text(input *in, hid_t object, const char *name) {
    char     text[256];
    unsigned length = take_below(in, sizeof text - 1);
    take(in, text, length);
    text[length] = 0;
    la_h5_put_text(object, name, text);
}

static void put_number(input *in, hid_t object, const char *name) {
    hid_t   type = take_type(in);
    uint8_t value[8];
    take(in, value, sizeof value);
    la_h5_put(object, name, type, value);
}

static void put_array(input *in, hid_t group, const char *name) {
    hid_t   type = take_type(in);
    int     rank = (int)take_below(in, 4);
    size_t  n = 8; /* bytes that the widest type needs */
    hsize_t d[3];
    uint8_t x[8 * 7 * 7 * 7];
    for (int i = 0; i < rank; i++) n *= d[i] = take_below(in, 8);
    take(in, x, n);
    la_h5_put_array(group, name, type, rank, d, x);
}

/* An odd byte before a name leaves it out. */
static void put_contents(input *in, hid_t file) {
    static const char *const numbers[] = {"format",    "step",        "updates",    "best_val",
                                          "best_step", "corpus_hash", "corpus_size"};
    static const char *const arrays[] = {"w", "surplus\x1b", LA_HEAD};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!take_below(in, 2)) put_number(in, file, numbers[i]);
    if (!take_below(in, 2)) put_text(in, file, "config");
    hid_t words = H5Gcreate2(file, "tokenizer", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t params = H5Gcreate2(file, "params", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    HOLDS(words >= 0 && params >= 0);
    if (!take_below(in, 2)) put_text(in, words, "kind");
    if (!take_below(in, 2)) put_array(in, words, "codepoints");
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (!take_below(in, 2)) put_array(in, params, arrays[i]);
    H5Gclose(words);
    H5Gclose(params);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    la_checkpoint *c;
    char           path[FUZZ_PATH];
    int            fd = fuzz_file(data, n, path);
    fuzz_worked(la_checkpoint_open(&c, path));
    la_checkpoint_close(c);
    close(fd);

    input in = {data, n};
    hid_t file = la_h5_create(LA_BLOCK, 1 << 16);
    HOLDS(file >= 0);
    put_contents(&in, file);
    size_t         bytes;
    unsigned char *image = la_h5_image(file, LA_BLOCK, &bytes);
    H5Fclose(file);
    HOLDS(image);
    memset(image, 0, LA_BLOCK);
    fuzz_decode(la_decode_checkpoint, image, bytes);
    fuzz_decode(la_decode_weights, image, bytes);
    free(image);
    return 0;
}
