/* hostile.h -- checkpoints on which HDF5 1.10 does not come back, though their hash is right.
 *
 * The texts of a file stand in its global heap ("GCOL"): after 16 bytes objects, each with its
 * number (2 bytes), at 8 its size (8 bytes), and then its bytes up to a multiple of 8; number 0 is
 * what is free.  HDF5 1.10 believes the sizes. */
#ifndef LA_HOSTILE_H
#define LA_HOSTILE_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* 1 if b, of n bytes, has such a heap; the caller seals it again.  loop: the free object gets a
 * size of 0, and whoever looks for the object after it stays there.  Otherwise the last text gets
 * an endless one, and whoever copies it leaves all memory. */
static inline int make_hostile(unsigned char *b, size_t n, int loop) {
    size_t at = 0, last = 0;
    while (at + 32 < n && memcmp(b + at, "GCOL", 4) != 0) at++;
    for (at += 16; at + 16 < n && (b[at] || b[at + 1]);) {
        uint64_t size;
        memcpy(&size, b + at + 8, sizeof size);
        if (size > n) return 0;
        last = at;
        at += 16 + (size + 7) / 8 * 8;
    }
    if (at + 16 >= n || !last) return 0;
    if (loop)
        memset(b + at + 8, 0, 8);
    else
        b[last + 15] = 0x67;
    return 1;
}
#endif
