/* memory_plan.c -- the memory of a training, part by part, and what to do if it is too much.
 *
 *   peak = start + text + mapped + model + step + evaluation + max(reading, saving, sampling)
 *
 * A file that is mapped counts as memory of the process, and is no reason to refuse: the system
 * takes its pages back.  The checkpoint that is resumed from is open while the plan is made, and no
 * longer when there is an evaluation: what it holds is available. */
#include "train/memory_plan.h"

#include <string.h>

#include "train/system.h"

static void add_text(la_memory_plan *p, const la_corpus *c) {
    size_t bytes = (size_t)c->source.n;
    *(c->source.mapped ? &p->mapped : &p->text) += bytes;
    if (c->owned) p->text += (size_t)(c->ids.n * c->ids.width);
}

la_status la_memory_plan_make(la_memory_plan *p, const la_trainer_cfg *cfg, const la_texts *texts,
                              const la_memory_needs *needs, size_t start) {
    *p = (la_memory_plan){.start = start, .reading = la_checkpoint_bytes(needs->saved)};
    if (cfg->max_bytes) p->available = cfg->max_bytes + p->reading;
    add_text(p, &texts->corpus);
    add_text(p, &texts->valid_corpus);
    la_trainer_cfg all = *cfg;
    all.max_bytes = 0; /* la_memory_plan_check() refuses, with all the parts */
    la_status planned = la_trainer_plan_of(&all, &p->train);
    if (planned == LA_NOMEM) /* not even addresses for it: then by its weights alone */
        planned = la_trainer_plan_of(cfg, &p->train);
    LA_TRY(planned);
    la_lm *lm;
    LA_TRY(la_lm_plan(&lm, &cfg->lm));
    if (needs->saves) p->saving = la_checkpoint_saving_bytes(lm->params, cfg->optim->n_slots);
    la_status s = LA_OK;
    if (needs->sample) s = la_write_plan(lm, texts->tokenizer, needs->sample, &p->sampling);
    la_lm_destroy(lm);
    return s;
}

/* What is allocated after the text. */
static size_t to_come(const la_memory_plan *p) {
    size_t for_a_while = p->saving > p->sampling ? p->saving : p->sampling;
    if (p->reading > for_a_while) for_a_while = p->reading;
    return p->train.model + p->train.step + p->train.evaluation + for_a_while;
}

size_t la_memory_plan_peak(const la_memory_plan *p) {
    return p->start + p->text + p->mapped + to_come(p);
}

/* What makes the largest part smaller. */
static const char *advice(const la_memory_plan *p, const la_config *c) {
    const la_trainer_plan *t = &p->train;
    if (t->model + p->saving > p->available || t->model + p->saving > t->step + t->evaluation)
        return "a smaller --n-embd or --n-layer";
    if (t->evaluation > t->step) return "a smaller --block-size";
    if (!c->recompute) return "--recompute, or a smaller --batch-size with a larger --grad-accum";
    if (c->batch_size > 1) return "a smaller --batch-size with a larger --grad-accum";
    return "a smaller --block-size";
}

static double mib(size_t bytes) { return (double)bytes / 0x1p20; }

la_status la_memory_plan_check(const la_memory_plan *p, const la_config *c) {
    if (!p->available || to_come(p) <= p->available) return LA_OK;
    return la_fail(LA_NOMEM,
                   "the training needs %.1f MiB and %.1f MiB are free: weights, gradients and "
                   "optimiser take %.1f, the step %.1f, the evaluation %.1f, reading a checkpoint "
                   "%.1f, saving %.1f, samples %.1f; try %s",
                   mib(to_come(p)), mib(p->available), mib(p->train.model), mib(p->train.step),
                   mib(p->train.evaluation), mib(p->reading), mib(p->saving), mib(p->sampling),
                   advice(p, c));
}
