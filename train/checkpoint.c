/* checkpoint.c -- what stands where in a checkpoint's HDF5 file, written and read.
 *
 * The file is built and taken apart in memory: HDF5 never sees the disk, whose errors it does not
 * survive, and never bytes that do not match their hash.  The way to the disk and back is
 * save_file.c, arrays are read in h5_io.c, files from elsewhere in import.c. */
#include "train/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/arena.h"
#include "train/h5_io.h"
#include "train/save_file.h"

struct la_checkpoint {
    char           name[LA_FILE_NAME]; /* for sentences                                     */
    unsigned char *bytes;              /* the whole file, in which HDF5 reads                */
    hid_t          file;
    la_record      record; /* its config is ours                                            */
};

/* The attributes of / besides format, program, precision and config. */
typedef struct field {
    const char *name;
    char        type; /* i: int64, u: uint64, d: double */
    size_t      at;
} field;

static const field fields[] = {
    {"step", 'i', offsetof(la_record, step)},
    {"updates", 'i', offsetof(la_record, updates)},
    {"best_val", 'd', offsetof(la_record, best_val)},
    {"best_step", 'i', offsetof(la_record, best_step)},
    {"corpus_hash", 'u', offsetof(la_record, corpus_hash)},
    {"corpus_size", 'i', offsetof(la_record, corpus_size)},
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

static hid_t number_type(char type) {
    return type == 'i' ? H5T_NATIVE_INT64 : type == 'u' ? H5T_NATIVE_UINT64 : H5T_NATIVE_DOUBLE;
}

/* ---- writing: each returns whether it worked; all there is in memory to fail is memory ---------
 */

static int put_root(hid_t file, const la_record *r) {
    int32_t format = LA_FILE_FORMAT, precision = LA_REAL_BITS;
    int     ok = la_h5_put(file, "format", H5T_NATIVE_INT32, &format) &&
             la_h5_put_text(file, "program", "lina") &&
             la_h5_put(file, "precision", H5T_NATIVE_INT32, &precision) &&
             la_h5_put_text(file, "config", r->config ? r->config : "");
    for (int i = 0; ok && i < N_FIELDS; i++)
        ok = la_h5_put(file, fields[i].name, number_type(fields[i].type),
                       (const char *)r + fields[i].at);
    return ok;
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

la_status la_checkpoint_save(const char *path, const la_record *r, const la_params *p,
                             const la_optim *o, const la_tokenizer *k) {
    char       name[LA_FILE_NAME];
    la_params *q =
        (la_params *)(uintptr_t)p; /* la_params_x() has no const twin; nothing is changed */
    size_t n = 0,
           arrays = la_params_len(p) * sizeof(la_real) * (size_t)(1 + (o ? o->def->n_slots : 0));
    if (!la_params_x(q)) return la_fail(LA_STATE, "a model was saved before it had weights");
    unsigned char *bytes = NULL;
    hid_t          file = la_h5_create(LA_BLOCK, arrays + (1 << 20));
    if (file >= 0 && put_all(file, r, q, o, k)) bytes = la_h5_image(file, LA_BLOCK, &n);
    if (file >= 0) H5Fclose(file);
    if (!bytes)
        return la_fail(
            LA_IO,
            "saving %s failed: no memory to build the file of about %zu bytes; the previous "
            "checkpoint there, if there was one, is intact",
            la_file_name(path, name), arrays);
    la_status done = la_file_save(path, bytes, n);
    free(bytes);
    return done;
}

/* ---- reading ---------------------------------------------------------------------------- */

static la_status read_record(la_checkpoint *c) {
    la_record *r = &c->record;
    int32_t    format;
    if (!la_h5_get(c->file, "format", H5T_NATIVE_INT32, &format))
        return la_fail(LA_FORMAT, "%s has no attribute format", c->name);
    if (format != LA_FILE_FORMAT)
        return la_fail(LA_FORMAT, "%s has format %d; this program reads format %d", c->name,
                       (int)format, LA_FILE_FORMAT);
    r->config = la_h5_get_text(c->file, "config");
    if (!r->config) return la_fail(LA_FORMAT, "%s has no attribute config", c->name);
    for (int i = 0; i < N_FIELDS; i++)
        if (!la_h5_get(c->file, fields[i].name, number_type(fields[i].type),
                       (char *)r + fields[i].at))
            return la_fail(LA_FORMAT, "%s has no attribute %s", c->name, fields[i].name);
    if (r->step < 0 || r->updates < 0 || r->corpus_size < 0 || isnan(r->best_val))
        return la_fail(LA_FORMAT,
                       "%s cannot be: step %" PRId64 ", %" PRId64 " updates, a corpus of %" PRId64
                       " bytes, best validation loss %g",
                       c->name, r->step, r->updates, r->corpus_size, r->best_val);
    return LA_OK;
}

static la_status open_image(la_checkpoint *c, const char *path) {
    size_t n;
    LA_TRY(la_file_load(&c->bytes, &n, path));
    LA_TRY(la_h5_memory(0));
    c->file = la_h5_open(c->bytes, n);
    if (c->file < 0)
        return la_fail(LA_FORMAT, "%s (%zu bytes) has the right hash and HDF5 cannot read it",
                       c->name, n);
    return read_record(c);
}

la_status la_checkpoint_open(la_checkpoint **out, const char *path) {
    la_checkpoint *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return la_fail(LA_NOMEM, "no memory for a checkpoint");
    c->file = -1;
    la_file_name(path, c->name);
    la_status done = open_image(c, path);
    if (done == LA_OK)
        *out = c;
    else
        la_checkpoint_close(c);
    return done;
}

void la_checkpoint_close(la_checkpoint *c) {
    if (!c) return;
    if (c->file >= 0) H5Fclose(c->file);
    free((char *)(uintptr_t)c->record.config);
    free(c->bytes);
    free(c);
}

const la_record *la_checkpoint_record(const la_checkpoint *c) { return &c->record; }

int la_checkpoint_is_ours(const char *path) { return la_file_is_ours(path); }

/* The code points of the group, *n of them, to free(); NULL with *n = 0 if it has none. */
static la_status read_points(const la_checkpoint *c, hid_t group, uint32_t **points, int64_t *n) {
    *points = NULL, *n = 0;
    if (!la_h5_has(group, "codepoints")) return LA_OK;
    hid_t set = H5Dopen2(group, "codepoints", H5P_DEFAULT),
          space = set < 0 ? -1 : H5Dget_space(set);
    *n = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    if (space >= 0) H5Sclose(space);
    if (*n > 0 && *n <= LA_VOCAB_MAX) *points = malloc((size_t)*n * sizeof **points);
    int ok =
        *points && H5Dread(set, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, *points) >= 0;
    if (set >= 0) H5Dclose(set);
    if (ok) return LA_OK;
    free(*points);
    *points = NULL;
    return la_fail(LA_FORMAT, "%s: the %" PRId64 " code points of its tokenizer cannot be read",
                   c->name, *n);
}

la_status la_checkpoint_tokenizer(const la_checkpoint *c, la_tokenizer **k) {
    hid_t     group = H5Gopen2(c->file, "tokenizer", H5P_DEFAULT);
    char     *kind = group < 0 ? NULL : la_h5_get_text(group, "kind");
    uint32_t *points = NULL;
    int64_t   n = 0;
    *k = NULL;
    la_status done = kind ? read_points(c, group, &points, &n)
                          : la_fail(LA_FORMAT, "%s has no tokenizer", c->name);
    if (done == LA_OK) done = la_tokenizer_load(k, kind, points, n);
    if (group >= 0) H5Gclose(group);
    free(points);
    free(kind);
    return done;
}

typedef struct visit {
    const la_params *p;
    char             extra[LA_FILE_NAME];
} visit;

static herr_t find_extra(hid_t group, const char *name, const H5L_info_t *info, void *ctx) {
    visit *v = ctx;
    (void)group, (void)info;
    if (la_param_find(v->p, name) != LA_NO_PARAM) return 0;
    if (!strcmp(name, LA_HEAD) && la_param_find(v->p, LA_EMBEDDING) != LA_NO_PARAM) return 0;
    la_file_name(name, v->extra);
    return 1;
}

/* Every array of the group /where, into x as that of p; and no others are there. */
static la_status read_group(const la_checkpoint *c, const char *group, const la_params *p,
                            la_real *x) {
    char  where[LA_H5_WHERE];
    visit v = {.p = p};
    hid_t g = H5Gopen2(c->file, group, H5P_DEFAULT);
    snprintf(where, sizeof where, "%s: /%s", c->name, group);
    if (g < 0) return la_fail(LA_FORMAT, "%s is missing", where);
    la_status done = la_h5_arrays(g, where, p, x);
    if (done == LA_OK && H5Literate(g, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, find_extra, &v) != 0)
        done = la_fail(LA_FORMAT, "%s/%s belongs to no parameter of the model", where, v.extra);
    H5Gclose(g);
    return done;
}

la_status la_checkpoint_params(const la_checkpoint *c, la_params *p) {
    size_t bytes = la_params_len(p) * sizeof(la_real);
    if (!la_params_x(p))
        return la_fail(LA_STATE, "weights were read before there was room for them");
    la_real *x = la_alloc_aligned(bytes);
    if (!x)
        return la_fail(LA_NOMEM, "no memory for the %zu bytes of weights in %s", bytes, c->name);
    la_status done = read_group(c, "params", p, x);
    if (done == LA_OK) memcpy(la_params_x(p), x, bytes);
    free(x);
    return done;
}

static la_status check_optim(const la_checkpoint *c, const la_optim *o) {
    hid_t group = la_h5_has(c->file, "optim") ? H5Gopen2(c->file, "optim", H5P_DEFAULT) : -1;
    char *has = group < 0 ? NULL : la_h5_get_text(group, "name"), name[LA_FILE_NAME];
    int   same = has && !strcmp(has, o->def->name);
    if (group >= 0) H5Gclose(group);
    la_status done =
        same  ? LA_OK
        : has ? la_fail(LA_FORMAT, "%s has the state of the optimiser %s, not of %s", c->name,
                        la_file_name(has, name), o->def->name)
              : la_fail(LA_FORMAT, "%s has weights only, no state of an optimiser", c->name);
    free(has);
    return done;
}

la_status la_checkpoint_optim(const la_checkpoint *c, la_optim *o) {
    size_t    bytes = la_params_len(o->params) * sizeof(la_real);
    la_real  *x[LA_MAX_SLOT] = {0};
    char      group[64];
    la_status done = check_optim(c, o);
    for (int i = 0; done == LA_OK && i < o->def->n_slots; i++) {
        x[i] = la_alloc_aligned(bytes);
        snprintf(group, sizeof group, "optim/%s", o->def->slot_name[i]);
        done = x[i] ? read_group(c, group, o->params, x[i])
                    : la_fail(LA_NOMEM, "no memory for the %zu bytes of /%s in %s", bytes, group,
                              c->name);
    }
    for (int i = 0; done == LA_OK && i < o->def->n_slots; i++) memcpy(o->slot[i], x[i], bytes);
    if (done == LA_OK) o->t = c->record.updates;
    for (int i = 0; i < LA_MAX_SLOT; i++) free(x[i]);
    return done;
}
