/* parallel.c -- the only file that uses OpenMP.
 *
 * OpenBLAS's OpenMP build starts threads of its own unless it is called inside an active region or
 * omp_get_max_threads() is 1.  So that number is held at 1, and our regions say how many threads
 * they want: a product then runs on the thread that asks for it, wherever that is, and work of one
 * block needs no region at all. */
#include "tensor/parallel.h"

#include <omp.h>

static int threads; /* 0: not asked for yet */

void la_threads_set(int count) {
    threads = count < 1 ? 1 : count;
    omp_set_num_threads(1);
}

int la_threads(void) {
    if (!threads) la_threads_set(omp_get_max_threads()); /* OMP_NUM_THREADS, or all */
    return threads;
}

void la_parallel(int64_t blocks, la_block_fn *fn, void *ctx) {
    int wanted = blocks < la_threads() ? (int)blocks : threads;
    if (omp_get_max_threads() != 1)
        omp_set_num_threads(1); /* called from another thread of the user */
    if (wanted <= 1) {
        for (int64_t i = 0; i < blocks; i++) fn(ctx, i, 0);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(wanted)
    for (int64_t i = 0; i < blocks; i++) fn(ctx, i, omp_get_thread_num());
}

void la_threads_release(void) { omp_pause_resource_all(omp_pause_hard); }
