/* fuzz_flat.c -- what a confined process that is in the hands of its file might say: the bytes are
 * its room, and the first of them, once more, the file. */
#include "tests/fuzz/decoded.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const size_t least = sizeof(la_flat_head) + sizeof(la_flat_array), most = 1 << 16;
    size_t       bytes = (n < least ? least : n < most ? n : most) / 8 * 8;
    uint8_t     *room = calloc(1, bytes);
    HOLDS(room);
    memcpy(room, data, n < bytes ? n : bytes);
    fuzz_take_room(data, n < 256 ? n : 256, room, bytes);
    free(room);
    return 0;
}
