/* hash.h -- a 64-bit fingerprint of a text: does a resumed run see the corpus it began with?
 *
 * FNV-1a (Fowler, Noll, Vo): h <- (h xor byte) * 1099511628211, modulo 2^64, from a fixed
 * start.  It takes the bytes in any portions and reads each once, so a mapped file streams
 * through it at some 0.8 GB/s.  It tells texts apart; it is no defence against somebody who
 * makes two texts collide on purpose. */
#ifndef LA_HASH_H
#define LA_HASH_H
#include <stddef.h>
#include <stdint.h>

#define LA_HASH64_START UINT64_C(14695981039346656037) /* the hash of no bytes at all */

/* The hash of what h already covers followed by n more bytes:
 *     h = la_hash64(LA_HASH64_START, a, na);
 *     h = la_hash64(h, b, nb);                 the hash of a then b */
static inline uint64_t la_hash64(uint64_t h, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * UINT64_C(1099511628211);
    return h;
}
#endif
