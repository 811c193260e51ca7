/* bench_gemm.c -- how fast the machine multiplies matrices: the ceiling for everything else.
 *
 * Products go through tensor/blas.h, as in the ops: each thread has its own, on one core.  Threads
 * share A and B, which nobody writes, and have a C each. */
#include <math.h>
#include <stdlib.h>

#include "tensor/arena.h"
#include "tensor/blas.h"
#include "tensor/parallel.h"
#include "train/bench.h"
#include "train/system.h"

typedef void gemm_fn(unsigned, int64_t, int64_t, int64_t, const la_real *, int64_t, const la_real *,
                     int64_t, la_real *, int64_t);
typedef struct form {
    const char *name;
    gemm_fn    *fn;
    bool        a_transposed, b_transposed;
} form;

static const form forms[] = {{"nn", la_gemm_nn, false, false},
                             {"tn", la_gemm_tn, true, false},
                             {"nt", la_gemm_nt, false, true}};

typedef struct dims {
    int64_t m, n, k;
} dims;

/* What the peak is measured with: the middle of what fits into a core's cache.  Then a product that
 * does not; products of the small character model; those of a chunk or a tile. */
static const dims shapes[] = {{768, 512, 512}, {1024, 1024, 1024}, {768, 384, 128}, {768, 512, 128},
                              {128, 128, 128}, {64, 64, 64},       {32, 32, 32},    {16, 64, 64}};
enum { PEAK = 0, FORMS = sizeof forms / sizeof *forms, SHAPES = sizeof shapes / sizeof *shapes };

static const double FLOPS = 1e9; /* of a sample at least: some milliseconds of one core */

typedef struct work {
    const form *form;
    dims        d;
    la_real    *A, *B, *C; /* (m,k) or (k,m), (k,n) or (n,k), a (m,n) for each thread */
    int64_t     products;  /* of each thread, one after the other */
} work;

static void multiply(void *ctx, int64_t block, int thread) {
    const work *w = ctx;
    const form *f = w->form;
    la_real    *C = w->C + block * w->d.m * w->d.n;
    (void)thread;
    for (int64_t i = 0; i < w->products; i++)
        f->fn(LA_SET, w->d.m, w->d.n, w->d.k, w->A, f->a_transposed ? w->d.m : w->d.k, w->B,
              f->b_transposed ? w->d.k : w->d.n, C, w->d.n);
}

static la_status work_open(work *w, const la_bench *b, const form *f, dims d, int threads) {
    size_t a = (size_t)(d.m * d.k), bn = (size_t)(d.k * d.n), c = (size_t)(d.m * d.n);
    double products = FLOPS / (2.0 * (double)d.m * (double)d.n * (double)d.k);
    size_t bytes = (a + bn + c * (size_t)threads) * sizeof(la_real), room = la_memory_available();
    *w = (work){.form = f, .d = d, .products = products < 1 ? 1 : (int64_t)products};
    if (room && bytes > room)
        return la_fail(LA_NOMEM, "products on %d threads need %.1f MiB and %.1f MiB are free",
                       threads, (double)bytes / 0x1p20, (double)room / 0x1p20);
    w->A = la_alloc_aligned(a * sizeof(la_real));
    w->B = la_alloc_aligned(bn * sizeof(la_real));
    w->C = la_alloc_aligned(c * (size_t)threads * sizeof(la_real));
    if (!w->A || !w->B || !w->C)
        return la_fail(LA_NOMEM, "no memory for products of %.1f MiB", (double)bytes / 0x1p20);
    la_bench_fill(a, w->A, (uint64_t)b->c->seed, 0);
    la_bench_fill(bn, w->B, (uint64_t)b->c->seed, 1);
    return LA_OK;
}

static void work_close(work *w) {
    free(w->A);
    free(w->B);
    free(w->C);
}

/* The seconds that so many threads together need for one GFLOP. */
static la_status measure(const la_bench *b, const form *f, dims d, int threads, int64_t repeats,
                         la_samples *s) {
    work      w;
    la_status status = work_open(&w, b, f, d, threads);
    *s = (la_samples){0};
    if (status == LA_OK) {
        double gflop =
            2e-9 * (double)d.m * (double)d.n * (double)d.k * (double)w.products * (double)threads;
        la_parallel(threads, multiply, &w); /* threads wake up, caches and buffers fill */
        while (la_samples_wanted(s, repeats, 0.2)) {
            double begin = la_seconds();
            la_parallel(threads, multiply, &w);
            la_samples_add(s, la_seconds() - begin);
        }
        for (int64_t i = 0; i < s->n; i++) s->x[i] /= gflop;
    }
    work_close(&w);
    return status;
}

la_status la_bench_peak(la_bench *b) {
    la_samples s;
    la_bench_progress(b, "measuring the peak");
    LA_TRY(measure(b, &forms[0], shapes[PEAK], la_threads(), b->c->repeats, &s));
    b->peak = fmax(b->peak, 1 / la_samples_min(&s));
    return LA_OK;
}

static la_status row(la_bench *b, const form *f, dims d, int threads) {
    la_samples s;
    la_bench_progress(b, "%s %lld x %lld x %lld on %d", f->name, (long long)d.m, (long long)d.n,
                      (long long)d.k, threads);
    LA_TRY(measure(b, f, d, threads, b->c->repeats, &s));
    double  median = 1 / la_samples_median(&s), best = 1 / la_samples_min(&s);
    la_cell cells[] = {
        {"form", "form", f->name, 0, 1, 0},
        {"m", "m", NULL, (double)d.m, 1, 0},
        {"n", "n", NULL, (double)d.n, 1, 0},
        {"k", "k", NULL, (double)d.k, 1, 0},
        {"threads", "threads", NULL, threads, 1, 0},
        {"gflops", "GFLOP/s", NULL, median, 1, 1},
        {"best_gflops", "best", NULL, best, 1, 1},
        {"percent_of_peak", "% of peak", NULL, 100 * median / b->peak, 1, 1},
        {"peak_gflops", NULL, NULL, b->peak, 1, 0},
    };
    la_bench_row(b, cells, sizeof cells / sizeof *cells);
    return LA_OK;
}

la_status la_bench_gemm(la_bench *b) {
    LA_TRY(la_bench_peak(b));
    la_bench_say(b,
                 "C (m,n) = A B, each thread its own product: nn A (m,k) B (k,n), tn A (k,m), nt B "
                 "(n,k); flops are 2 m n k");
    la_bench_say_peak(b);
    for (int i = 0; i < SHAPES; i++)
        for (int f = 0; f < FORMS; f++) {
            LA_TRY(row(b, &forms[f], shapes[i], 1));
            if (la_threads() > 1) LA_TRY(row(b, &forms[f], shapes[i], la_threads()));
        }
    LA_TRY(la_bench_peak(b));
    la_bench_say(b, "peak: %.1f GFLOP/s on %d threads, the best before and after", b->peak,
                 la_threads());
    return LA_OK;
}
