/* parallel.c -- the only file that uses OpenMP.
 *
 * Always a parallel region, also for one block: outside of one, OpenBLAS's OpenMP build
 * would start threads of its own.  The number of threads is set by omp_set_num_threads
 * alone; with a num_threads(1) clause the region would not count as parallel there. */
#include "tensor/parallel.h"

#include <omp.h>

void        la_parallel(int64_t blocks, la_block_fn *fn, void *ctx) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < blocks; i++) fn(ctx, i, omp_get_thread_num());
}

int  la_threads(void) { return omp_get_max_threads(); }
void la_threads_set(int threads) { omp_set_num_threads(threads < 1 ? 1 : threads); }
void la_threads_release(void) { omp_pause_resource_all(omp_pause_hard); }
int  la_processors(void) { return omp_get_num_procs(); }
