/* seal.c -- from a recording to a tape that runs: the schedule, the life of each buffer, the one
 * allocation, and the pointers of views. */
#include "autograd/tape_impl.h"
#include "tensor/parallel.h"

la_status la_tape_seal(la_tape *t, la_node *loss) {
    char text[LA_SHAPE_TEXT];
    if (t->failed) return la_fail(t->failed, "%s", t->error ? t->error : "out of memory");
    if (t->part) return la_fail(LA_STATE, "la_recompute_begin has no la_recompute_end");
    if (t->sealed) return la_fail(LA_STATE, "the tape is already sealed");
    if (t->loss) return la_fail(LA_STATE, "sealing has failed before: record a new tape");
    if (loss && la_len(loss->shape) != 1)
        return la_fail(LA_SHAPE, "the loss must be one number, and %s is %s", loss->name,
                       la_shape_text(loss->shape, text));
    if (loss && la_len(la_owner(t, loss)->shape) != 1)
        return la_fail(LA_SHAPE, "the loss must not be a part of a larger tensor, and is one of %s",
                       la_shape_text(la_owner(t, loss)->shape, text));
    t->loss = la_keep(loss);
    t->threads = la_threads();
    LA_TRY(la_tape_plan_schedule(t));
    LA_TRY(la_tape_plan_lives(t));
    LA_TRY(la_tape_allocate(t));
    if (t->cfg.plan_only) return LA_OK; /* and not sealed */
    for (int i = 0; i < t->n; i++) {
        la_node *n = t->nodes[i], *from = n->from;
        if (t->info[i].in_place) n->x = (from ? from : n)->in[t->info[i].in_place - 1]->x;
        if (t->info[i].kind != LA_KIND_VIEW) continue;
        n->x = from->x ? from->x + n->offset : NULL;
        n->g = from->g ? from->g + n->offset : NULL;
    }
    t->sealed = 1;
    return LA_OK;
}
