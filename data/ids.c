/* ids.c -- copies and slices of token ids: one loop for each width. */
#include "data/ids.h"

#include <string.h>

void la_ids_copy(const la_ids *ids, int64_t from, int64_t n, int32_t *out) {
    if (n <= 0) return;
    if (ids->width == 1) {
        const uint8_t *p = (const uint8_t *)ids->data + from;
        for (int64_t j = 0; j < n; j++) out[j] = p[j];
    } else if (ids->width == 2) {
        const uint16_t *p = (const uint16_t *)ids->data + from;
        for (int64_t j = 0; j < n; j++) out[j] = p[j];
    } else {
        memcpy(out, (const int32_t *)ids->data + from, (size_t)n * sizeof *out);
    }
}

la_ids la_ids_slice(const la_ids *ids, int64_t from, int64_t n) {
    if (n <= 0) return (la_ids){NULL, ids->width, 0};
    return (la_ids){(const char *)ids->data + from * ids->width, ids->width, n};
}
