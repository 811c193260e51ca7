/* vec.c -- the choice of instruction set. */
#include "tensor/vec.h"

#include <stdatomic.h>
#include <stddef.h>

extern const la_vec la_vec_baseline;
#ifdef LA_VEC_X86
extern const la_vec la_vec_avx2, la_vec_avx512;
#endif

static const la_vec *const *choose(void) {
    static const la_vec *const baseline[] = {&la_vec_baseline, NULL};
#ifdef LA_VEC_X86
    static const la_vec *const avx2[] = {&la_vec_baseline, &la_vec_avx2, NULL};
    static const la_vec *const avx512[] = {&la_vec_baseline, &la_vec_avx2, &la_vec_avx512, NULL};
    int has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return avx512;
    if (has_avx2) return avx2;
#endif
    return baseline;
}

const la_vec *const *la_vec_tables(void) { return choose(); }

static _Atomic(const la_vec *) chosen;

void la_vec_use(const la_vec *table) {
    atomic_store_explicit(&chosen, table, memory_order_relaxed);
}

const la_vec *la_vec_table(void) {
    const la_vec *table = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (table) return table;
    const la_vec *const *t = choose();
    while (t[1]) t++;
    la_vec_use(*t);
    return *t;
}
