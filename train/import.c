/* import.c -- weights from an HDF5 file that somebody else made. */
#include <stdio.h>

#include "tensor/arena.h"
#include "tensor/words.h"
#include "train/checkpoint_impl.h"
#include "train/decode.h"
#include "train/save_file.h"

/* Our model computes its logits with the embedding, as GPT-2 does.  A file whose output layer has
 * weights of its own is another model. */
static la_status check_tied(const la_flat *f, int group, const char *where, const la_params *p) {
    const la_real *x, *head;
    la_param       e = la_param_find(p, LA_EMBEDDING);
    if (e == LA_NO_PARAM || la_param_find(p, LA_HEAD) != LA_NO_PARAM ||
        !la_flat_has(f, group, LA_HEAD))
        return LA_OK;
    la_shape s = la_param_shape(p, e);
    LA_TRY(la_flat_numbers(f, group, where, LA_EMBEDDING, s, &x));
    LA_TRY(la_flat_numbers(f, group, where, LA_HEAD, s, &head));
    for (int64_t i = 0; i < la_len(s); i++)
        if (head[i] != x[i])
            return la_fail(
                LA_FORMAT,
                "%s/%s is not tied to %s: number %lld is %g there and %g here; the model has one "
                "table for both",
                where, LA_HEAD, LA_EMBEDDING, (long long)i, (double)x[i], (double)head[i]);
    return LA_OK;
}

la_status la_weights_take(const la_flat *f, la_params *p) {
    char where[LA_FLAT_WHERE];
    int  group = f->head.groups >> LA_FLAT_ROOT & 1 ? LA_FLAT_ROOT : LA_FLAT_PARAMS;
    snprintf(where, sizeof where, "%s: %s", f->name, group == LA_FLAT_ROOT ? "" : "/params");
    LA_TRY(la_flat_check(f, group, where, p));
    LA_TRY(check_tied(f, group, where, p));
    la_flat_copy(f, group, p, la_params_x(p));
    return LA_OK;
}

/* Room for the model's arrays, for the output layer's, which may not be more, and for their lines.
 */
static size_t room_for(const la_params *p) {
    size_t lines = (size_t)la_params_count(p) + 1;
    return sizeof(la_flat_head) + 2 * la_params_len(p) * sizeof(la_real) +
           lines * (sizeof(la_flat_array) + LA_ALIGN);
}

la_status la_weights_import(const char *path, la_params *p) {
    la_flat f = {0};
    if (!la_params_x(p))
        return la_fail(LA_STATE, "weights were imported before there was room for them");
    la_file_name(path, f.name);
    LA_TRY(la_file_read(&f.image, &f.n, path));
    la_status done = la_flat_read(&f, la_decode_weights, p, room_for(p));
    if (done == LA_OK) done = la_weights_take(&f, p);
    la_flat_free(&f);
    return done;
}
