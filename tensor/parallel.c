/* parallel.c -- the only file that uses OpenMP.
 *
 * OpenBLAS's OpenMP build starts threads of its own unless it is called inside an active region or
 * omp_get_max_threads() is 1.  So that number is held at 1, and our regions say how many threads
 * they want: a product then runs on the thread that asks for it, wherever that is, and work of one
 * block needs no region at all.
 *
 * Each thread begins with a run of neighbouring blocks, the same for every call with as many
 * blocks: the rows that it has just written are then still in its own cache when the next op reads
 * them.  Who is through helps the others from the end of theirs. */
#include "tensor/parallel.h"

#include <omp.h>
#include <stdatomic.h>

static int threads; /* 0: not asked for yet */

void la_threads_set(int count) {
    threads = count < 1 ? 1 : count;
    omp_set_num_threads(1);
}

int la_threads(void) {
    if (!threads) la_threads_set(omp_get_max_threads()); /* OMP_NUM_THREADS, or all */
    return threads;
}

enum { MOST_THREADS = 256, LINE = 64 };

/* Blocks [first, last) that a thread has before it, in one word; each word on a cache line of its
 * own.  The thread takes the first, others that have none left take the last. */
typedef struct share {
    _Alignas(LINE) _Atomic uint64_t range; /* first in the upper half */
} share;

static int64_t take(share *s, int from_end) {
    uint64_t range = atomic_load_explicit(&s->range, memory_order_relaxed), rest;
    do {
        uint32_t first = (uint32_t)(range >> 32), last = (uint32_t)range;
        if (first >= last) return -1;
        rest = from_end ? range - 1 : range + ((uint64_t)1 << 32);
    } while (!atomic_compare_exchange_weak_explicit(&s->range, &range, rest, memory_order_relaxed,
                                                    memory_order_relaxed));
    return from_end ? (int64_t)(uint32_t)range - 1 : (int64_t)(range >> 32);
}

static void work_off(share *shares, int n, int me, int64_t base, la_block_fn *fn, void *ctx) {
    int64_t block;
    while ((block = take(shares + me, 0)) >= 0) fn(ctx, base + block, me);
    for (int i = 1; i < n; i++)
        while ((block = take(shares + (me + i) % n, 1)) >= 0) fn(ctx, base + block, me);
}

void la_parallel(int64_t blocks, la_block_fn *fn, void *ctx) {
    int wanted = blocks < la_threads() ? (int)blocks : threads;
    if (omp_get_max_threads() != 1)
        omp_set_num_threads(1); /* called from another thread of the user */
    if (wanted <= 1) {
        for (int64_t i = 0; i < blocks; i++) fn(ctx, i, 0);
        return;
    }
    if (wanted > MOST_THREADS) wanted = MOST_THREADS;
    share shares[MOST_THREADS];
    for (int64_t base = 0; base < blocks; base += INT32_MAX) {
        int64_t n = blocks - base < INT32_MAX ? blocks - base : INT32_MAX;
        for (int i = 0; i < wanted; i++)
            atomic_init(&shares[i].range,
                        (uint64_t)(n * i / wanted) << 32 | (uint64_t)(n * (i + 1) / wanted));
#pragma omp parallel num_threads(wanted)
        work_off(shares, wanted, omp_get_thread_num(), base, fn, ctx); /* perhaps fewer threads */
    }
}

/* Soft: libgomp ends its workers either way, and libomp starts anew in a child by itself, but not
 * after a hard pause: LLVM 14 then fails an assertion of its own. */
void la_threads_release(void) { omp_pause_resource_all(omp_pause_soft); }
