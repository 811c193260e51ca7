/* params.h -- all numbers of a model, in one flat array, by name.
 *
 * Flat, because then zeroing, clipping, the optimiser step and a sum over processes are
 * each one loop.  Declare everything, then allocate once.  Each parameter starts at a
 * multiple of LA_ALIGN bytes; the reals between two parameters are 0 and stay 0.
 *
 * A frozen parameter is stored and named like the others, but it is not trained: its gradient is 0,
 * and an optimiser leaves it, and its own numbers about it, as they are. */
#ifndef LA_PARAMS_H
#define LA_PARAMS_H
#include "autograd/init.h"
#include "autograd/tape.h"

typedef struct la_params la_params;
typedef int              la_param; /* index into the store; LA_NO_PARAM: none */
enum { LA_NO_PARAM = -1 };

la_status la_params_create(la_params **p);
void      la_params_destroy(la_params *p);

/* Names are joined by dots: push "transformer", push "h.0", add "weight". */
void     la_params_push(la_params *p, const char *fmt, ...) LA_PRINTF(2, 3);
void     la_params_pop(la_params *p);
la_param la_params_add(la_params *p, const char *name, la_shape s, la_init how, double scale);
la_param la_params_add_frozen(la_params *p, const char *name, la_shape s, la_init how,
                              double scale);

/* Values and, if asked, gradients; draws the initial values.  Reports any failed add. */
la_status la_params_alloc(la_params *p, uint64_t seed, int with_grad);
/* Instead of that: addresses of values and gradients, and no memory, for tapes that only plan. */
la_status la_params_reserve(la_params *p);
/* Other values for a parameter that starts with random ones: a function of the seed, the draw and
 * the parameter's index.  Draw 0 has the values of la_params_alloc with that seed. */
void      la_param_redraw(la_params *p, la_param i, uint64_t seed, uint64_t draw);

int      la_params_count(const la_params *p);   /* tensors                                 */
int64_t  la_params_numbers(const la_params *p); /* trainable numbers, without the gaps      */
int64_t  la_params_frozen_numbers(const la_params *p); /* and the others                        */
size_t   la_params_len(const la_params *p); /* reals in the flat array, gaps included   */
la_real *la_params_x(la_params *p);         /* la_params_len() values                   */
la_real *la_params_g(la_params *p);         /* and gradients; NULL without              */

const char *la_param_name(const la_params *p, la_param i);
la_shape    la_param_shape(const la_params *p, la_param i);
size_t      la_param_offset(const la_params *p, la_param i);     /* in the flat arrays          */
la_param    la_param_find(const la_params *p, const char *name); /* LA_NO_PARAM if absent   */
int         la_param_frozen(const la_params *p, la_param i);
int         la_param_decays(const la_params *p, la_param i); /* two or more dimensions, trained */
la_node    *la_param_node(la_tape *t, la_params *p, la_param i); /* the same node if asked twice */
#endif
