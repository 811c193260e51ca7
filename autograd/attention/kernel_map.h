/* kernel_map.h -- what every variant of the form o = phi(q)'(sum phi(k) v') / ... shares: the
 * op, and a state of m(E+1) reals that starts at 0. */
#ifndef LA_KERNEL_MAP_H
#define LA_KERNEL_MAP_H
#include "autograd/attention/attention.h"

extern const la_op la_op_causal_linear;

static inline int64_t la_map_state_len(const la_attn *a, int64_t D, int64_t E, int64_t capacity) {
    (void)capacity;
    return a->map->width(D) * (E + 1);
}
#endif
