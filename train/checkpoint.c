/* checkpoint.c -- checkpoints: what stands where in their HDF5 file as it is written, and what is
 * taken of one that was read.
 *
 * The file is built in memory: HDF5 never sees the disk, whose errors it does not survive.  It is
 * taken apart by a confined process (decode.c), of which flat.c believes what it can check: a hash
 * that is right shows that a file is whole, and not who made it.  The way to the disk and back is
 * save_file.c. */
#include "train/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/words.h"
#include "train/checkpoint_impl.h"
#include "train/config.h"
#include "train/decode.h"
#include "train/h5_io.h"
#include "train/save_file.h"

/* ---- writing: each returns whether it worked; all there is in memory to fail is memory ---------
 */

static int put_root(hid_t file, const la_record *r) {
    int32_t format = LA_FILE_FORMAT, precision = LA_REAL_BITS;
    return la_h5_put(file, "format", H5T_NATIVE_INT32, &format) &&
           la_h5_put_text(file, "program", "lina") &&
           la_h5_put(file, "precision", H5T_NATIVE_INT32, &precision) &&
           la_h5_put_text(file, "config", r->config ? r->config : "") && la_h5_put_record(file, r);
}

static int put_params(hid_t group, const la_params *p, const la_real *x) {
    int link =
        la_param_find(p, LA_EMBEDDING) != LA_NO_PARAM && la_param_find(p, LA_HEAD) == LA_NO_PARAM;
    return la_h5_put_arrays(group, p, x) &&
           (!link ||
            H5Lcreate_hard(group, LA_EMBEDDING, group, LA_HEAD, H5P_DEFAULT, H5P_DEFAULT) >= 0);
}

static int put_optim(hid_t group, const la_optim *o) {
    int ok = la_h5_put_text(group, "name", o->def->name);
    for (int i = 0; ok && i < o->def->n_slots; i++) {
        hid_t slot = H5Gcreate2(group, o->def->slot_name[i], H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        ok = slot >= 0 && la_h5_put_arrays(slot, o->params, o->slot[i]);
        if (slot >= 0) H5Gclose(slot);
    }
    return ok;
}

static int put_tokenizer(hid_t group, const la_tokenizer *k) {
    int64_t         n;
    const uint32_t *points = la_tokenizer_points(k, &n);
    hsize_t         d = (hsize_t)n;
    return la_h5_put_text(group, "kind", la_tokenizer_kind_of(k)->name) &&
           (n == 0 || la_h5_put_array(group, "codepoints", H5T_NATIVE_UINT32, 1, &d, points));
}

static int put_all(hid_t file, const la_record *r, la_params *p, const la_optim *o,
                   const la_tokenizer *k) {
    hid_t params = H5Gcreate2(file, "params", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t words = H5Gcreate2(file, "tokenizer", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t optim = o ? H5Gcreate2(file, "optim", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) : -1;
    int   ok = put_root(file, r) && params >= 0 && put_params(params, p, la_params_x(p)) &&
             words >= 0 && put_tokenizer(words, k) && (!o || (optim >= 0 && put_optim(optim, o)));
    if (params >= 0) H5Gclose(params);
    if (words >= 0) H5Gclose(words);
    if (optim >= 0) H5Gclose(optim);
    return ok;
}

/* Bytes of the file at most: a name and a header take some 500. */
static size_t file_bytes(const la_params *p, int slots) {
    size_t array = la_params_len(p) * sizeof(la_real);
    return (array + 1024 * (size_t)la_params_count(p)) * (size_t)(1 + slots) + (64 << 10);
}

/* The image, a copy of it, and what the HDF5 library has of each array until the file is closed:
 * measured. */
size_t la_checkpoint_saving_bytes(const la_params *p, int slots) {
    size_t library = 6144 * (size_t)la_params_count(p) * (size_t)(1 + slots);
    return 2 * file_bytes(p, slots) + library;
}

la_status la_checkpoint_save(const char *path, const la_record *r, const la_params *p,
                             const la_optim *o, const la_tokenizer *k) {
    char       name[LA_FILE_NAME];
    la_params *q =
        (la_params *)(uintptr_t)p; /* la_params_x() has no const twin; nothing is changed */
    size_t n = 0, size = file_bytes(p, o ? o->def->n_slots : 0);
    if (!la_params_x(q)) return la_fail(LA_STATE, "a model was saved before it had weights");
    unsigned char *bytes = NULL;
    hid_t          file = la_h5_create(LA_BLOCK, size);
    if (file >= 0 && put_all(file, r, q, o, k)) bytes = la_h5_image(file, LA_BLOCK, &n);
    if (file >= 0) H5Fclose(file);
    if (!bytes)
        return la_fail(
            LA_IO,
            "saving %s failed: no memory to build the file of about %zu bytes; the previous "
            "checkpoint there, if there was one, is intact",
            la_file_name(path, name), size);
    la_status done = la_file_save(path, bytes, n);
    free(bytes);
    return done;
}

/* ---- reading ---------------------------------------------------------------------------- */

la_status la_checkpoint_take(la_checkpoint *c) {
    la_record *r = &c->record;
    *r = c->flat.head.record;
    r->config = c->flat.config;
    if (!r->config) return la_fail(LA_FORMAT, "%s has no attribute config", c->flat.name);
    int64_t most = (int64_t)la_options[LA_OPT_max_iters].max;
    if (r->step < 0 || r->step > most || r->updates < 0 || r->updates > most ||
        r->corpus_size < 0 || isnan(r->best_val) || r->best_step < 0 || r->best_step > r->step)
        return la_fail(LA_FORMAT,
                       "%s cannot be: step %" PRId64 " and %" PRId64 " updates (at most %" PRId64
                       "), a corpus of %" PRId64 " bytes, best validation loss %g at step %" PRId64,
                       c->flat.name, r->step, r->updates, most, r->corpus_size, r->best_val,
                       r->best_step);
    return LA_OK;
}

/* Room for every number that the file can have, if all must be converted: our reals may be twice as
 * large as its, and lm_head's are wte's once more. */
static la_status read_file(la_checkpoint *c, const char *path) {
    LA_TRY(la_file_load(&c->flat.image, &c->flat.n, path));
    size_t reals = c->flat.n / sizeof(float) * sizeof(la_real);
    LA_TRY(la_flat_read(&c->flat, la_decode_checkpoint, NULL, 2 * reals + (1 << 20)));
    return la_checkpoint_take(c);
}

la_status la_checkpoint_open(la_checkpoint **out, const char *path) {
    la_checkpoint *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return la_fail(LA_NOMEM, "no memory for a checkpoint");
    la_file_name(path, c->flat.name);
    la_status done = read_file(c, path);
    if (done == LA_OK)
        *out = c;
    else
        la_checkpoint_close(c);
    return done;
}

void la_checkpoint_close(la_checkpoint *c) {
    if (!c) return;
    la_flat_free(&c->flat);
    free(c);
}

size_t la_checkpoint_bytes(const la_checkpoint *c) { return c ? c->flat.n : 0; }

const la_record *la_checkpoint_record(const la_checkpoint *c) { return &c->record; }

int la_checkpoint_is_ours(const char *path) { return la_file_is_ours(path); }

la_status la_checkpoint_tokenizer(const la_checkpoint *c, la_tokenizer **k) {
    const char     *kind = c->flat.kind;
    const uint32_t *points;
    int64_t         n;
    *k = NULL;
    if (!kind) return la_fail(LA_FORMAT, "%s has no tokenizer", c->flat.name);
    LA_TRY(la_flat_points(&c->flat, &points, &n));
    return la_tokenizer_load(k, kind, points, n);
}

/* Every array of the group is that of a parameter, and no others are there. */
static la_status check_group(const la_checkpoint *c, int group, const char *name,
                             const la_params *p) {
    char where[LA_FLAT_WHERE];
    snprintf(where, sizeof where, "%s: /%s", c->flat.name, name);
    if (!(c->flat.head.groups >> group & 1)) return la_fail(LA_FORMAT, "%s is missing", where);
    LA_TRY(la_flat_check(&c->flat, group, where, p));
    return la_flat_no_more(&c->flat, group, where, p);
}

la_status la_checkpoint_params(const la_checkpoint *c, la_params *p) {
    if (!la_params_x(p))
        return la_fail(LA_STATE, "weights were read before there was room for them");
    LA_TRY(check_group(c, LA_FLAT_PARAMS, "params", p));
    la_flat_copy(&c->flat, LA_FLAT_PARAMS, p, la_params_x(p));
    return LA_OK;
}

static la_status check_optim(const la_checkpoint *c, const la_optim *o) {
    const char *has = c->flat.optim;
    char        name[LA_FILE_NAME];
    if (!has)
        return la_fail(LA_FORMAT, "%s has weights only, no state of an optimiser", c->flat.name);
    if (strcmp(has, o->def->name) != 0)
        return la_fail(LA_FORMAT, "%s has the state of the optimiser %s, not of %s", c->flat.name,
                       la_file_name(has, name), o->def->name);
    return LA_OK;
}

la_status la_checkpoint_optim(const la_checkpoint *c, la_optim *o) {
    char name[64];
    LA_TRY(check_optim(c, o));
    for (int i = 0; i < o->def->n_slots; i++) {
        snprintf(name, sizeof name, "optim/%s", o->def->slot_name[i]);
        LA_TRY(check_group(c, LA_FLAT_SLOT + i, name, o->params));
    }
    for (int i = 0; i < o->def->n_slots; i++)
        la_flat_copy(&c->flat, LA_FLAT_SLOT + i, o->params, o->slot[i]);
    o->t = c->record.updates;
    return LA_OK;
}
