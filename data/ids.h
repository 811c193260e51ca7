/* ids.h -- a sequence of token ids, kept in as few bytes as the vocabulary allows.
 *
 * A view: it owns nothing.  With the byte tokenizer the ids are the bytes of the mapped
 * file, so a text larger than the memory costs no memory.  Positions are 64 bits wide. */
#ifndef LA_IDS_H
#define LA_IDS_H
#include <stdint.h>

typedef struct la_ids {
    const void *data;
    int         width; /* bytes an id: 1 (vocabulary <= 256), 2 (<= 65,536) or 4 */
    int64_t     n;     /* ids */
} la_ids;              /* {0} is an empty sequence */

static inline int la_ids_width(int vocab) { return vocab <= 256 ? 1 : vocab <= 65536 ? 2 : 4; }

/* Id i, 0 <= i < n. */
static inline int32_t la_ids_get(const la_ids *ids, int64_t i) {
    if (ids->width == 1) return ((const uint8_t *)ids->data)[i];
    if (ids->width == 2) return ((const uint16_t *)ids->data)[i];
    return ((const int32_t *)ids->data)[i];
}

/* out[j] = id from + j, j < n.  The range must lie within the sequence. */
void la_ids_copy(const la_ids *ids, int64_t from, int64_t n, int32_t *out);

/* The n ids that start at from, without copying. */
la_ids la_ids_slice(const la_ids *ids, int64_t from, int64_t n);
#endif
