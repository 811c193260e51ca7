/* optim.h -- optimisers, by name.  An optimiser is one file and one line in optims.def.
 *
 * It sees flat arrays only, so it knows nothing of layers, tapes or attention.  Work is cut into
 * blocks of fixed size, and each number is updated on its own: results do not depend on threads. */
#ifndef LA_OPTIM_H
#define LA_OPTIM_H
#include "autograd/params.h"

enum { LA_MAX_SLOT = 2 };

typedef struct la_optim_cfg {
    double beta1, beta2; /* adamw: of the two moments; sgd: beta1 is the momentum        */
    double eps;          /* adamw                                                       */
    double weight_decay; /* on parameters of two or more dimensions                     */
} la_optim_cfg;

typedef struct la_optim_def {
    const char *name; /* "adamw" */
    const char *formula, *paper;
    int         n_slots;                /* arrays of state, one number for each parameter */
    const char *slot_name[LA_MAX_SLOT]; /* their names in a checkpoint                    */
    /* Updates x[0..n) by the gradient scale * g: decay is 0 or cfg->weight_decay; t counts steps
     * from 1. */
    void (*step)(const la_optim_cfg *c, double lr, double decay, int64_t t, double scale, size_t n,
                 la_real *x, const la_real *g, la_real *const slot[]);
} la_optim_def;

typedef struct la_optim {
    const la_optim_def    *def;
    la_optim_cfg           cfg;
    la_params             *params;
    int64_t                t;                 /* steps taken */
    la_real               *slot[LA_MAX_SLOT]; /* la_params_len() reals each */
    struct la_optim_piece *pieces;            /* blocks of parallel work    */
    int64_t                n_pieces;
} la_optim;

extern const la_optim_def *const la_optims[]; /* NULL-terminated, from optims.def */

la_status la_optim_find(const char *name, const la_optim_def **out);
la_status la_optim_create(la_optim *o, const la_optim_def *def, const la_optim_cfg *c,
                          la_params *p);
void      la_optim_destroy(la_optim *o);
/* One pass over all parameters but frozen ones: the gradients are multiplied by scale, used, and
 * set to 0. */
void      la_optim_step(la_optim *o, double lr, double scale);

/* Global norm of all gradients, in double. */
double la_grad_norm(la_params *p);
/* The scale that clips gradients of that norm to max_norm, as PyTorch does: at most 1,
 * max_norm / (norm + 1e-6); 1 if max_norm is not above 0. */
double la_clip_scale(double norm, double max_norm);

/* --- learning-rate schedules: pure functions of the step --- */
typedef struct la_schedule {
    const char *name; /* "cosine", "linear", "constant"                               */
    double      lr, min_lr;
    int64_t     warmup; /* lr (step+1)/(warmup+1) for step < warmup                   */
    int64_t     decay;  /* step at which min_lr is reached                            */
} la_schedule;

extern const char *const la_schedule_names[]; /* NULL-terminated */
double                   la_schedule_lr(const la_schedule *s, int64_t step);
#endif
