/* memory_plan.h -- the memory that a training is going to take, before it is taken. */
#ifndef LA_MEMORY_PLAN_H
#define LA_MEMORY_PLAN_H
#include "train/setup.h"
#include "train/write.h"

typedef struct la_memory_plan { /* bytes */
    size_t          start;      /* in memory before the text: program and libraries              */
    size_t          text;       /* ids and, from a stream, the text                              */
    size_t          mapped;     /* of files: in memory too, and given up when others want it     */
    la_trainer_plan train;
    size_t          reading;   /* for a while: the checkpoint that is open                    */
    size_t          saving;    /* for a while: a checkpoint's image and its copy              */
    size_t          sampling;  /* for a while: --sample-every; 0: off                         */
    size_t          available; /* with the text there and no checkpoint; 0: unknown           */
} la_memory_plan;

/* What a run asks for, besides its model. */
typedef struct la_memory_needs {
    const la_writing    *sample; /* NULL: off                                         */
    const la_checkpoint *saved;  /* that is open now and closed before the first step; NULL */
    int                  saves;  /* checkpoints; 0: --eval-only                       */
} la_memory_needs;

/* start: la_memory_resident() before checkpoint and text were opened.  Allocates nothing large. */
la_status la_memory_plan_make(la_memory_plan *p, const la_trainer_cfg *cfg, const la_texts *texts,
                              const la_memory_needs *needs, size_t start);
/* The most that is in memory at any time. */
size_t    la_memory_plan_peak(const la_memory_plan *p);
/* LA_NOMEM, with all numbers and what to try, if what is still to come is more than is available.
 */
la_status la_memory_plan_check(const la_memory_plan *p, const la_config *c);
#endif
