/* decoded.h -- a checkpoint decoded in this process, and everything then taken of it: for targets
 * that must see what is reached.  The programs decode in a process of its own. */
#ifndef LA_FUZZ_DECODED_H
#define LA_FUZZ_DECODED_H
#include "tests/fuzz/fuzz.h"
#include "train/checkpoint_impl.h"
#include "train/decode.h"

/* Seeds and targets have a model of one parameter, and adamw. */
static inline la_optim *fuzz_optim(void) {
    static la_params *p; /* made once */
    static la_optim   o;
    if (!p) {
        la_optim_cfg        cfg = {.beta1 = .9, .beta2 = .99, .eps = 1e-8};
        const la_optim_def *adamw;
        HOLDS(la_params_create(&p) == LA_OK);
        la_params_add(p, "w", la_shape2(2, 3), LA_INIT_NORMAL, 1);
        HOLDS(la_params_alloc(p, 1, 0) == LA_OK);
        HOLDS(la_optim_find("adamw", &adamw) == LA_OK);
        HOLDS(la_optim_create(&o, adamw, &cfg, p) == LA_OK);
    }
    return &o;
}

static inline void fuzz_take_all(const la_checkpoint *c) {
    la_optim     *o = fuzz_optim();
    la_tokenizer *k;
    size_t        n = la_params_len(o->params);
    HOLDS(la_checkpoint_record(c)->step >= 0 && la_checkpoint_record(c)->config);
    fuzz_worked(la_checkpoint_tokenizer(c, &k));
    la_tokenizer_destroy(k);
    fuzz_worked(la_checkpoint_params(c, o->params));
    fuzz_worked(la_checkpoint_optim(c, o));
    HOLDS(la_find_nonfinite(n, la_params_x(o->params)) < 0);
    for (int i = 0; i < o->def->n_slots; i++) HOLDS(la_find_nonfinite(n, o->slot[i]) < 0);
}

/* All that is made of what a confined process left in the room: of a checkpoint, and of a file from
 * elsewhere.  Room and image have the size that is asked for, so that a byte past their end is not
 * read unseen. */
static inline void fuzz_take_room(const uint8_t *image, size_t n, const void *room, size_t bytes) {
    la_checkpoint c = {.flat = {.name = "the file", .n = n}};
    c.flat.image = malloc(n ? n : 1);
    HOLDS(c.flat.image);
    if (n) memcpy(c.flat.image, image, n);
    if (fuzz_worked(la_flat_take(&c.flat, room, bytes))) {
        if (fuzz_worked(la_checkpoint_take(&c))) fuzz_take_all(&c);
        fuzz_worked(la_weights_take(&c.flat, fuzz_optim()->params));
    }
    la_flat_free(&c.flat);
}

static inline void fuzz_decode(la_confined_fn *decode, uint8_t *image, size_t n) {
    size_t   bytes = (n / 64 + 1024) * 64;
    void    *room = calloc(1, bytes);
    la_image from = {.name = "the file", .bytes = image, .n = n, .wanted = fuzz_optim()->params};
    HOLDS(room);
    if (fuzz_worked(decode(&from, room, bytes))) fuzz_take_room(image, n, room, bytes);
    free(room);
}
#endif
