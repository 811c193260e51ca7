/* fuzz_tokenizer.c -- what a checkpoint keeps of a tokenizer, and a text for it.
 *
 * Byte 0 chooses the kind, byte 1 is the number of code points, which follow with four bytes each;
 * the rest is the text.  With 255 in byte 0 it is learned from, and must then come
 * back whole; that goes through all code points, and is slow. */
#include "data/tokenizer.h"
#include "tests/fuzz/fuzz.h"

/* Ids decode to the text that they were made of. */
static int comes_back(const la_tokenizer *k, la_text text) {
    int32_t *ids = malloc(((size_t)text.n + 1) * sizeof *ids);
    int64_t  n, at = 0;
    HOLDS(ids);
    int known = fuzz_worked(la_encode(k, text, ids, &n));
    for (int64_t i = 0; known && i < n; i++) {
        char bytes[4];
        int  length = la_decode(k, ids[i], bytes);
        HOLDS(length > 0 && at + length <= text.n &&
              !memcmp(bytes, text.bytes + at, (size_t)length));
        at += length;
    }
    HOLDS(!known || at == text.n);
    free(ids);
    return known;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char *const kinds[] = {"char", "byte", "ids", "bpe"};
    la_tokenizer            *k;
    uint32_t                 points[255];
    char                     bytes[4];
    if (n < 2) return 0;
    size_t count = data[1] < (n - 2) / 4 ? data[1] : (n - 2) / 4;
    memcpy(points, data + 2, 4 * count);
    la_text text =
        la_text_of("the text", (const char *)data + 2 + 4 * count, (int64_t)(n - 2 - 4 * count));

    if (data[0] == 255) {
        if (fuzz_worked(la_tokenizer_create(&k, "char", text))) HOLDS(comes_back(k, text));
    } else if (fuzz_worked(la_tokenizer_load(&k, kinds[data[0] % 4], points, (int64_t)count))) {
        for (int id = -1; id <= la_tokenizer_vocab(k); id++)
            HOLDS((la_decode(k, id, bytes) > 0) == (id >= 0 && id < la_tokenizer_vocab(k)));
        comes_back(k, text);
    }
    la_tokenizer_destroy(k);
    return 0;
}
