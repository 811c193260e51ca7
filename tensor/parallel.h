/* parallel.h -- work cut into blocks, each done by one thread.
 *
 * The number of blocks comes from shapes alone and a block writes what no other block
 * writes, so results are bitwise equal at any number of threads.  Inside a block a BLAS
 * call runs on that one thread. */
#ifndef LA_PARALLEL_H
#define LA_PARALLEL_H
#include <stdint.h>

typedef void la_block_fn(void *ctx, int64_t block, int thread);

/* Calls fn(ctx, block, thread) for each block in [0, blocks); 0 <= thread < la_threads(). */
void la_parallel(int64_t blocks, la_block_fn *fn, void *ctx);

int  la_threads(void);            /* threads that la_parallel may use                */
void la_threads_set(int threads); /* for the whole process, from the main thread     */
void la_threads_release(void);    /* ends idle workers, so that fork() is safe again */
#endif
