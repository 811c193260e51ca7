/* optim.c -- the table of optimisers, the step over all parameters, clipping, schedules. */
#include "optim/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/arena.h"
#include "tensor/names.h"
#include "tensor/parallel.h"

enum { BLOCK = 16384 }; /* reals */

#define X(name) extern const la_optim_def la_optim_##name;
#include "optim/optims.def"
#undef X

const la_optim_def *const la_optims[] = {
#define X(name) &la_optim_##name,
#include "optim/optims.def"
#undef X
    NULL,
};

static const char *name_at(int i) { return la_optims[i] ? la_optims[i]->name : NULL; }

la_status la_optim_find(const char *name, const la_optim_def **out) {
    int i = la_name_index(name, name_at);
    *out = i < 0 ? NULL : la_optims[i];
    return i < 0 ? la_name_unknown("optimiser", name, name_at) : LA_OK;
}

la_status la_optim_create(la_optim *o, const la_optim_def *def, const la_optim_cfg *c,
                          la_params *p) {
    *o = (la_optim){.def = def, .cfg = *c, .params = p};
    for (int i = 0; i < def->n_slots; i++) {
        o->slot[i] = la_alloc_aligned(la_params_len(p) * sizeof(la_real));
        if (o->slot[i]) continue;
        la_optim_destroy(o);
        return la_fail(LA_NOMEM, "no memory for the state of %s: %.1f MiB", def->name,
                       (double)la_params_len(p) * def->n_slots * sizeof(la_real) / 0x1p20);
    }
    return LA_OK;
}

void la_optim_destroy(la_optim *o) {
    for (int i = 0; i < LA_MAX_SLOT; i++) {
        free(o->slot[i]);
        o->slot[i] = NULL;
    }
}

typedef struct job {
    la_optim *o;
    double    lr, decay;
    size_t    from, len; /* of one parameter in the flat arrays */
} job;

static void step_block(void *ctx, int64_t block, int thread) {
    const job *j = ctx;
    (void)thread;
    size_t   from = j->from + (size_t)block * BLOCK, end = j->from + j->len;
    size_t   n = from + BLOCK < end ? BLOCK : end - from;
    la_real *slot[LA_MAX_SLOT] = {0}, *g = la_params_g(j->o->params) + from;
    for (int i = 0; i < j->o->def->n_slots; i++) slot[i] = j->o->slot[i] + from;
    j->o->def->step(&j->o->cfg, j->lr, j->decay, j->o->t, n, la_params_x(j->o->params) + from, g,
                    slot);
    memset(g, 0, n * sizeof *g);
}

void la_optim_step(la_optim *o, double lr) {
    o->t++;
    for (int i = 0; i < la_params_count(o->params); i++) {
        size_t len = (size_t)la_len(la_param_shape(o->params, i));
        job    j = {o, lr, la_param_decays(o->params, i) ? o->cfg.weight_decay : 0,
                    la_param_offset(o->params, i), len};
        la_parallel((int64_t)((len + BLOCK - 1) / BLOCK), step_block, &j);
    }
}

double la_clip_grad(la_params *p, double max_norm) {
    la_real *g = la_params_g(p);
    double   norm = sqrt(la_norm2(la_params_len(p), g));
    la_real  scale = R(max_norm / (norm + 1e-6));
    if (!(max_norm > 0) || !(scale < 1)) return norm;
    for (size_t i = 0; i < la_params_len(p); i++) g[i] *= scale;
    return norm;
}

const char *const la_schedule_names[] = {"cosine", "linear", "constant", NULL};

double la_schedule_lr(const la_schedule *s, int64_t step) {
    if (step < s->warmup) return s->lr * (double)(step + 1) / (double)(s->warmup + 1);
    if (!strcmp(s->name, "constant")) return s->lr;
    if (step >= s->decay) return s->min_lr;
    double at = (double)(step - s->warmup) / (double)(s->decay - s->warmup);
    double left =
        !strcmp(s->name, "linear") ? 1 - at : 0.5 * (1 + cos(3.14159265358979323846 * at));
    return s->min_lr + left * (s->lr - s->min_lr);
}
