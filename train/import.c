/* import.c -- weights from an HDF5 file that somebody else made.
 *
 * Such a file has no hash that would show that it is merely what a program wrote.  A confined
 * process reads it and hands back flat arrays. */
#include "train/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/confined.h"
#include "train/h5_io.h"
#include "train/save_file.h"

enum { SECONDS = 60 };

typedef struct source {
    void            *bytes;
    size_t           n;
    const char      *name;
    const la_params *p;
} source;

/* ---- in the child ----------------------------------------------------------------------- */

/* Our model computes its logits with the embedding, as GPT-2 does.  A file whose output layer has
 * weights of its own is another model. */
static la_status check_tied(hid_t group, const char *where, const la_params *p, const la_real *x) {
    la_param e = la_param_find(p, LA_EMBEDDING);
    if (e == LA_NO_PARAM || la_param_find(p, LA_HEAD) != LA_NO_PARAM || !la_h5_has(group, LA_HEAD))
        return LA_OK;
    la_shape s = la_param_shape(p, e);
    size_t   n = (size_t)la_len(s), i = 0;
    la_real *head = malloc(n * sizeof *head);
    if (!head) return la_fail(LA_NOMEM, "no memory for the %zu numbers of %s", n, LA_HEAD);
    la_status done = la_h5_array(group, where, LA_HEAD, s, head);
    for (x += la_param_offset(p, e); done == LA_OK && i < n; i++)
        if (head[i] != x[i])
            done = la_fail(
                LA_FORMAT,
                "%s/%s is not tied to %s: number %zu is %g there and %g here; the model has one "
                "table for both",
                where, LA_HEAD, LA_EMBEDDING, i, (double)x[i], (double)head[i]);
    free(head);
    return done;
}

/* The numbers of p, as its flat array is laid out, are what stands in the room. */
static la_status read_weights(void *ctx, void *room, size_t room_bytes) {
    source *s = ctx;
    char    where[LA_H5_WHERE];
    hid_t   file = la_h5_open(s->bytes, s->n), group = file;
    (void)room_bytes;
    if (file < 0)
        return la_fail(LA_FORMAT, "%s (%zu bytes) is no HDF5 file, or a damaged one", s->name,
                       s->n);
    snprintf(where, sizeof where, "%s: ", s->name);
    int at_root = la_params_count(s->p) > 0 && la_h5_has(file, la_param_name(s->p, 0));
    if (!at_root && la_h5_has(file, "params")) {
        snprintf(where, sizeof where, "%s: /params", s->name);
        group = H5Gopen2(file, "params", H5P_DEFAULT);
        if (group < 0) return la_fail(LA_FORMAT, "%s is not a group that can be read", where);
    }
    LA_TRY(la_h5_arrays(group, where, s->p, room));
    return check_tied(group, where, s->p, room);
}

/* ---- in the parent ---------------------------------------------------------------------- */

/* Nothing is changed before all is looked at. */
static la_status take_weights(const la_real *x, la_params *p) {
    for (int i = 0; i < la_params_count(p); i++)
        if (la_find_nonfinite((size_t)la_len(la_param_shape(p, i)), x + la_param_offset(p, i)) >= 0)
            return la_fail(LA_FORMAT, "the array %s holds a number that is not finite",
                           la_param_name(p, i));
    for (int i = 0; i < la_params_count(p); i++) /* one by one: the gaps between them stay 0 */
        memcpy(la_params_x(p) + la_param_offset(p, i), x + la_param_offset(p, i),
               (size_t)la_len(la_param_shape(p, i)) * sizeof *x);
    return LA_OK;
}

la_status la_weights_import(const char *path, la_params *p) {
    char           name[LA_FILE_NAME];
    unsigned char *bytes;
    size_t         n, arrays = la_params_len(p) * sizeof(la_real);
    if (!la_params_x(p))
        return la_fail(LA_STATE, "weights were imported before there was room for them");
    LA_TRY(la_file_read(&bytes, &n, path));
    la_confined c = {.name = la_file_name(path, name),
                     .bytes = arrays,
                     .memory = 4 * n + arrays + ((size_t)1 << 30),
                     .seconds = SECONDS};
    source      from = {bytes, n, name, p};
    la_status   done = la_confined_run(&c, read_weights, &from);
    free(bytes);
    if (done == LA_OK) done = take_weights(c.room, p);
    la_confined_free(&c);
    return done;
}
