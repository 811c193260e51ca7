/* params.h -- all trainable numbers, in one flat array, by name.
 *
 * Flat, because then zeroing, clipping, the optimiser step and a sum over processes are
 * each one loop.  Declare everything, then allocate once.  Each parameter starts at a
 * multiple of LA_ALIGN bytes; the reals between two parameters are 0 and stay 0. */
#ifndef LA_PARAMS_H
#define LA_PARAMS_H
#include "autograd/tape.h"

typedef struct la_params la_params;
typedef int              la_param; /* index into the store; LA_NO_PARAM: none */
enum { LA_NO_PARAM = -1 };

typedef enum la_init { LA_INIT_ZERO, LA_INIT_ONE, LA_INIT_NORMAL, LA_INIT_IDENTITY, LA_INIT_LAST, LA_INIT_ORTHOGONAL, LA_INIT_CONSTANT, LA_INIT_RETENTION } la_init;
la_param la_params_add_frozen(la_params *p, const char *name, la_shape s, la_init how, double scale);

la_status la_params_create(la_params **p);
void      la_params_destroy(la_params *p);

/* Names are joined by dots: push "transformer", push "h.0", add "weight". */
void     la_params_push(la_params *p, const char *fmt, ...) LA_PRINTF(2, 3);
void     la_params_pop(la_params *p);
la_param la_params_add(la_params *p, const char *name, la_shape s, la_init how, double scale);

/* Values and, if asked, gradients; draws the initial values.  Reports any failed add. */
la_status la_params_alloc(la_params *p, uint64_t seed, int with_grad);

int      la_params_count(const la_params *p);   /* tensors                                 */
int64_t  la_params_numbers(const la_params *p); /* trainable numbers, without the gaps      */
size_t   la_params_len(const la_params *p);     /* reals in the flat array, gaps included   */
la_real *la_params_x(la_params *p);             /* la_params_len() values                   */
la_real *la_params_g(la_params *p);             /* and gradients; NULL without              */

const char *la_param_name(const la_params *p, la_param i);
la_shape    la_param_shape(const la_params *p, la_param i);
size_t      la_param_offset(const la_params *p, la_param i);     /* in the flat arrays          */
la_param    la_param_find(const la_params *p, const char *name); /* LA_NO_PARAM if absent   */
int         la_param_decays(const la_params *p, la_param i);     /* two or more dimensions      */
la_node    *la_param_node(la_tape *t, la_params *p, la_param i); /* the same node if asked twice */
#endif
