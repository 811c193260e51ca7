/* rng.c -- Philox 4x32-10: ten rounds of two 32x32 multiplications and a key schedule. */
#include "tensor/rng.h"

#include <math.h>

uint64_t la_rng_stream(la_rng_use use, uint32_t low) { return (uint64_t)use << 32 | low; }

void la_rng_block(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = UINT64_C(0xD2511F53) * c0, p1 = UINT64_C(0xCD9E8D57) * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

static uint64_t join(uint32_t high, uint32_t low) { return (uint64_t)high << 32 | low; }
static double   unit(uint64_t u) { return (double)(u >> 11) * 0x1p-53; }

uint64_t la_rng_u64(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t b[4];
    la_rng_block(seed, stream, index, b);
    return join(b[0], b[1]);
}

double la_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index) {
    return unit(la_rng_u64(seed, stream, index));
}

double la_rng_normal(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t b[4];
    la_rng_block(seed, stream, index, b);
    double u = 1.0 - unit(join(b[0], b[1])), v = unit(join(b[2], b[3])); /* u in (0, 1] */
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

uint64_t la_rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t n) {
    return (uint64_t)(((unsigned __int128)la_rng_u64(seed, stream, index) * n) >> 64);
}
