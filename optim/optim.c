/* optim.c -- the table of optimisers, the step over all parameters, clipping, schedules. */
#include "optim/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/arena.h"
#include "tensor/names.h"
#include "tensor/parallel.h"

enum { BLOCK = 16384, /* reals */ NORM_BLOCKS = 64 };

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

typedef struct la_optim_piece { /* of one parameter that is trained, in the flat arrays */
    size_t from, len;
    int    decays;
} la_optim_piece;

static la_status cut(la_optim *o) {
    const la_params *p = o->params;
    int64_t          n = 0;
    for (int i = 0; i < la_params_count(p); i++)
        if (!la_param_frozen(p, i)) n += (la_len(la_param_shape(p, i)) + BLOCK - 1) / BLOCK;
    o->pieces = malloc(((size_t)n + 1) * sizeof *o->pieces);
    if (!o->pieces) return la_fail(LA_NOMEM, "no memory for %lld pieces of work", (long long)n);
    for (int i = 0; i < la_params_count(p); i++) {
        if (la_param_frozen(p, i)) continue;
        size_t len = (size_t)la_len(la_param_shape(p, i)), offset = la_param_offset(p, i);
        for (size_t at = 0; at < len; at += BLOCK)
            o->pieces[o->n_pieces++] = (la_optim_piece){
                offset + at, len - at < BLOCK ? len - at : BLOCK, la_param_decays(p, i)};
    }
    return LA_OK;
}

la_status la_optim_create(la_optim *o, const la_optim_def *def, const la_optim_cfg *c,
                          la_params *p) {
    *o = (la_optim){.def = def, .cfg = *c, .params = p};
    la_status s = cut(o);
    for (int i = 0; s == LA_OK && i < def->n_slots; i++)
        if (!(o->slot[i] = la_alloc_aligned(la_params_len(p) * sizeof(la_real))))
            s = la_fail(LA_NOMEM, "no memory for the state of %s: %.1f MiB", def->name,
                        (double)la_params_len(p) * def->n_slots * sizeof(la_real) / 0x1p20);
    if (s != LA_OK) la_optim_destroy(o);
    return s;
}

void la_optim_destroy(la_optim *o) {
    for (int i = 0; i < LA_MAX_SLOT; i++) {
        free(o->slot[i]);
        o->slot[i] = NULL;
    }
    free(o->pieces);
    o->pieces = NULL;
}

typedef struct job {
    la_optim *o;
    double    lr, scale;
} job;

static void step_piece(void *ctx, int64_t block, int thread) {
    const job            *j = ctx;
    const la_optim_piece *p = j->o->pieces + block;
    (void)thread;
    la_real *slot[LA_MAX_SLOT] = {0}, *g = la_params_g(j->o->params) + p->from;
    for (int i = 0; i < j->o->def->n_slots; i++) slot[i] = j->o->slot[i] + p->from;
    j->o->def->step(&j->o->cfg, j->lr, p->decays ? j->o->cfg.weight_decay : 0, j->o->t, j->scale,
                    p->len, la_params_x(j->o->params) + p->from, g, slot);
    memset(g, 0, p->len * sizeof *g);
}

void la_optim_step(la_optim *o, double lr, double scale) {
    o->t++;
    la_parallel(o->n_pieces, step_piece, &(job){o, lr, scale});
}

typedef struct norms {
    const la_real *g;
    size_t         len;
    double         of[NORM_BLOCKS];
} norms;

static void norm_block(void *ctx, int64_t block, int thread) {
    norms *n = ctx;
    size_t each = (n->len + NORM_BLOCKS - 1) / NORM_BLOCKS, from = (size_t)block * each;
    (void)thread;
    if (from > n->len) from = n->len;
    n->of[block] = la_norm2(n->len - from < each ? n->len - from : each, n->g + from);
}

double la_grad_norm(la_params *p) {
    norms  n = {.g = la_params_g(p), .len = la_params_len(p)};
    double sum = 0;
    la_parallel(NORM_BLOCKS, norm_block, &n);
    for (int i = 0; i < NORM_BLOCKS; i++) sum += n.of[i];
    return sqrt(sum);
}

double la_clip_scale(double norm, double max_norm) {
    double scale = max_norm / (norm + 1e-6);
    return max_norm > 0 && scale < 1 ? scale : 1;
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
