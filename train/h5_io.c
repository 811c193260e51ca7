/* h5_io.c -- files in memory; attributes put into them and taken out, arrays put into them. */
#include "train/h5_io.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the image: HDF5 asks these for memory and for copies, and gets the bytes themselves ---- */

static void *same_malloc(size_t n, H5FD_file_image_op_t op, void *bytes) {
    (void)n, (void)op;
    return bytes;
}

static void *same_memcpy(void *to, const void *from, size_t n, H5FD_file_image_op_t op,
                         void *bytes) {
    (void)n, (void)op, (void)bytes;
    return to == from ? to : NULL;
}

static void *no_realloc(void *p, size_t n, H5FD_file_image_op_t op, void *bytes) {
    (void)p, (void)n, (void)op, (void)bytes;
    return NULL; /* only a file that is written to grows */
}

static herr_t no_free(void *p, H5FD_file_image_op_t op, void *bytes) {
    (void)p, (void)op, (void)bytes;
    return 0;
}

static void  *same_udata(void *bytes) { return bytes; }
static herr_t no_udata_free(void *bytes) {
    (void)bytes;
    return 0;
}

la_status la_h5_memory(size_t bytes) {
    enum { OWN = 4 << 20 };
    void *volatile room = malloc(bytes + OWN); /* volatile: or the compiler leaves both calls out */
    if (!room)
        return la_fail(LA_NOMEM, "no memory for an HDF5 file: %zu bytes are needed", bytes + OWN);
    free(room);
    return LA_OK;
}

hid_t la_h5_open(void *bytes, size_t n) {
    H5FD_file_image_callbacks_t calls = {.image_malloc = same_malloc,
                                         .image_memcpy = same_memcpy,
                                         .image_realloc = no_realloc,
                                         .image_free = no_free,
                                         .udata_copy = same_udata,
                                         .udata_free = no_udata_free,
                                         .udata = bytes};
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    H5PLset_loading_state(0); /* no filters from other files */
    hid_t list = H5Pcreate(H5P_FILE_ACCESS), file = -1;
    char  name[64]; /* must be no other open file's, nor on the disk: nothing is below /dev/null */
    snprintf(name, sizeof name, "/dev/null/image-%p", bytes);
    if (list >= 0 && H5Pset_fapl_core(list, 1 << 20, 0) >= 0 &&
        H5Pset_file_image_callbacks(list, &calls) >= 0 && H5Pset_file_image(list, bytes, n) >= 0)
        file = H5Fopen(name, H5F_ACC_RDONLY, list);
    if (list >= 0) H5Pclose(list);
    return file;
}

/* Default versions of all structures: with newer ones the image's checksum is wrong (HDF5 1.10). */
hid_t la_h5_create(size_t block, size_t step) {
    if (la_h5_memory(2 * step) != LA_OK) return -1; /* the file and its image */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), create = H5Pcreate(H5P_FILE_CREATE), file = -1;
    char  name[64];
    snprintf(name, sizeof name, "/dev/null/new-%p", (void *)name);
    if (access >= 0 && create >= 0 && H5Pset_fapl_core(access, step, 0) >= 0 &&
        H5Pset_userblock(create, block) >= 0)
        file = H5Fcreate(name, H5F_ACC_TRUNC, create, access);
    if (access >= 0) H5Pclose(access);
    if (create >= 0) H5Pclose(create);
    return file;
}

unsigned char *la_h5_image(hid_t file, size_t block, size_t *n) {
    ssize_t size = H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0 ? H5Fget_file_image(file, NULL, 0) : -1;
    unsigned char *bytes = size > 0 ? malloc(block + (size_t)size) : NULL;
    if (!bytes) return NULL;
    *n = block + (size_t)size;
    if (H5Fget_file_image(file, bytes + block, (size_t)size) == size) return bytes;
    free(bytes);
    return NULL;
}

/* ---- attributes and arrays, as they are written -------------------------------------------- */

hid_t la_h5_real(void) {
    return sizeof(la_real) == sizeof(double) ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
}

/* Strings of variable length: an attribute of fixed length must be shorter than 64 KiB. */
hid_t la_h5_text_type(void) {
    hid_t t = H5Tcopy(H5T_C_S1);
    if (t < 0 || (H5Tset_size(t, H5T_VARIABLE) >= 0 && H5Tset_cset(t, H5T_CSET_UTF8) >= 0))
        return t;
    H5Tclose(t);
    return -1;
}

/* Closes the space. */
static int put(hid_t object, const char *name, hid_t type, hid_t space, const void *value) {
    hid_t a = -1;
    if (space >= 0 && type >= 0)
        a = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    int ok = a >= 0 && H5Awrite(a, type, value) >= 0;
    if (a >= 0) ok &= H5Aclose(a) >= 0;
    if (space >= 0) H5Sclose(space);
    return ok;
}

int la_h5_put(hid_t object, const char *name, hid_t type, const void *value) {
    return put(object, name, type, H5Screate(H5S_SCALAR), value);
}

int la_h5_put_list(hid_t object, const char *name, hid_t type, hsize_t n, const void *values) {
    return put(object, name, type, H5Screate_simple(1, &n, NULL), values);
}

int la_h5_put_text(hid_t object, const char *name, const char *text) {
    hid_t type = la_h5_text_type();
    int   ok = la_h5_put(object, name, type, &text);
    if (type >= 0) H5Tclose(type);
    return ok;
}

/* Without times, so that the same state makes the same bytes. */
int la_h5_put_array(hid_t group, const char *name, hid_t type, int n, const hsize_t *d,
                    const void *x) {
    hid_t space = n ? H5Screate_simple(n, d, NULL) : H5Screate(H5S_SCALAR), set = -1;
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    if (space >= 0 && list >= 0 && H5Pset_obj_track_times(list, 0) >= 0)
        set = H5Dcreate2(group, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    int ok = set >= 0 && H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0;
    if (set >= 0) ok &= H5Dclose(set) >= 0;
    if (list >= 0) H5Pclose(list);
    if (space >= 0) H5Sclose(space);
    return ok;
}

int la_h5_put_arrays(hid_t group, const la_params *p, const la_real *x) {
    for (int i = 0; i < la_params_count(p); i++) {
        la_shape s = la_param_shape(p, i);
        hsize_t  d[LA_MAX_DIM];
        for (int j = 0; j < s.n; j++) d[j] = (hsize_t)s.d[j];
        if (!la_h5_put_array(group, la_param_name(p, i), la_h5_real(), s.n, d,
                             x + la_param_offset(p, i)))
            return 0;
    }
    return 1;
}

/* ---- attributes, as they are read ----------------------------------------------------------- */

int la_h5_get(hid_t object, const char *name, hid_t type, void *value) {
    hid_t a = H5Aopen(object, name, H5P_DEFAULT), space = a < 0 ? -1 : H5Aget_space(a);
    int ok = space >= 0 && H5Sget_simple_extent_npoints(space) == 1 && H5Aread(a, type, value) >= 0;
    if (space >= 0) H5Sclose(space);
    if (a >= 0) H5Aclose(a);
    return ok;
}

char *la_h5_get_text(hid_t object, const char *name) {
    hid_t a = H5Aopen(object, name, H5P_DEFAULT), has = a < 0 ? -1 : H5Aget_type(a);
    hid_t space = a < 0 ? -1 : H5Aget_space(a), type = la_h5_text_type();
    char *text = NULL, *copy = NULL;
    if (has >= 0 && space >= 0 && type >= 0 && H5Tis_variable_str(has) > 0 &&
        H5Sget_simple_extent_npoints(space) == 1 && H5Aread(a, type, &text) >= 0) {
        copy = strdup(text ? text : ""); /* HDF5 may hand back an empty text as NULL */
        H5free_memory(text);
    }
    if (type >= 0) H5Tclose(type);
    if (space >= 0) H5Sclose(space);
    if (has >= 0) H5Tclose(has);
    if (a >= 0) H5Aclose(a);
    return copy;
}

int la_h5_has(hid_t group, const char *name) {
    H5L_info_t info;
    return H5Lget_info(group, name, &info, H5P_DEFAULT) >= 0 && info.type == H5L_TYPE_HARD;
}

/* ---- a record: the attributes of / besides format, program, precision and config ------------ */

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

int la_h5_put_record(hid_t file, const la_record *r) {
    for (int i = 0; i < N_FIELDS; i++)
        if (!la_h5_put(file, fields[i].name, number_type(fields[i].type),
                       (const char *)r + fields[i].at))
            return 0;
    return 1;
}

const char *la_h5_get_record(hid_t file, la_record *r) {
    for (int i = 0; i < N_FIELDS; i++)
        if (!la_h5_get(file, fields[i].name, number_type(fields[i].type), (char *)r + fields[i].at))
            return fields[i].name;
    return NULL;
}
