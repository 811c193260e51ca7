/* rng.h -- random numbers without hidden state: value = f(seed, stream, index).
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011).  Any element can be drawn in any order by any thread, a run that is
 * resumed draws what it would have drawn, and two streams never share a value. */
#ifndef LA_RNG_H
#define LA_RNG_H
#include <stdint.h>

/* Who draws: the high part of a stream.  The low 32 bits are the caller's own (a step, a
 * parameter's number), so no two uses of one seed meet. */
typedef enum la_rng_use {
    LA_RNG_INIT = 1, /* initial weights   */
    LA_RNG_BATCH,    /* where windows start */
    LA_RNG_DROPOUT,
    LA_RNG_SAMPLE, /* generated tokens  */
    LA_RNG_TEST,
    LA_RNG_MASK, /* tokens to be hidden */
    LA_RNG_TASK, /* rows of a task      */
} la_rng_use;

uint64_t la_rng_stream(la_rng_use use, uint32_t low);

void     la_rng_block(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]);
uint64_t la_rng_u64(uint64_t seed, uint64_t stream, uint64_t index);
double   la_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index); /* in [0, 1), 53 bits  */
double   la_rng_normal(uint64_t seed, uint64_t stream, uint64_t index);  /* N(0,1), Box-Muller  */
uint64_t la_rng_below(uint64_t seed, uint64_t stream, uint64_t index,
                      uint64_t n); /* [0, n), n > 0 */
#endif
