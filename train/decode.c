/* decode.c -- record, tokenizer and arrays of an HDF5 image, laid out flat.
 *
 * Arrays are listed as they are: whether they are those of a model is not asked here. */
#include "train/decode.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/arena.h"
#include "train/flat.h"
#include "train/h5_io.h"
#include "train/save_file.h"

typedef struct reader {
    const la_image *image;
    hid_t           file;
    la_flat_head   *head;
    size_t          room, used; /* bytes of it, and those that texts and numbers have taken */
    int             group;      /* the one whose arrays are listed                          */
} reader;

static size_t left(const reader *r) {
    return r->room - r->used - r->head->arrays * sizeof(la_flat_array);
}

/* Where in the room `bytes` bytes are now ours; 0: there are not so many. */
static uint64_t take(reader *r, size_t bytes) {
    size_t gap = (LA_ALIGN - r->used % LA_ALIGN) % LA_ALIGN;
    if (gap > left(r) || bytes > left(r) - gap) return 0;
    uint64_t at = r->used + gap;
    r->used = at + bytes;
    return at;
}

static void *at(const reader *r, uint64_t place) { return (char *)r->head + place; }

static uint64_t take_text(reader *r, hid_t object, const char *name) {
    char    *text = la_h5_get_text(object, name);
    uint64_t place = text ? take(r, strlen(text) + 1) : 0;
    if (place) strcpy(at(r, place), text);
    free(text);
    return place;
}

/* Negative: there is none, or it stands in another file. */
static hid_t open_group(hid_t place, const char *name) {
    return la_h5_has(place, name) ? H5Gopen2(place, name, H5P_DEFAULT) : -1;
}

/* ---- arrays ----------------------------------------------------------------------------- */

/* Numbers that stand in this file: an external or virtual dataset would read other files. */
static int stands_here(hid_t list) {
    return H5Pget_external_count(list) == 0 && H5Pget_layout(list) != H5D_VIRTUAL;
}

static int is_float(hid_t type) { return type >= 0 && H5Tget_class(type) == H5T_FLOAT; }

static int take_shape(hid_t space, la_flat_array *a) {
    hsize_t d[H5S_MAX_RANK] = {0};
    int     simple = space >= 0 && (H5Sget_simple_extent_type(space) == H5S_SIMPLE ||
                                H5Sget_simple_extent_type(space) == H5S_SCALAR);
    int     n = simple ? H5Sget_simple_extent_dims(space, d, NULL) : -1;
    if (n < 0 || n > LA_FLAT_RANK) return 0;
    a->rank = n;
    for (int i = 0; i < n; i++) a->d[i] = d[i];
    return 1;
}

/* Where the image has these numbers as we keep them; HADDR_UNDEF: it has not. */
static haddr_t as_they_are(hid_t set, hid_t type, hid_t list) {
    if (H5Pget_layout(list) != H5D_CONTIGUOUS || H5Tequal(type, la_h5_real()) <= 0)
        return HADDR_UNDEF;
    haddr_t place = H5Dget_offset(set);
    return place != HADDR_UNDEF && place % sizeof(la_real) == 0 ? place : HADDR_UNDEF;
}

static la_flat_problem take_numbers(reader *r, hid_t set, hid_t type, hid_t list, hid_t space,
                                    la_flat_array *a) {
    haddr_t place = as_they_are(set, type, list);
    if (place != HADDR_UNDEF) {
        a->at = place;
        return LA_FLAT_NONE;
    }
    hssize_t n = H5Sget_simple_extent_npoints(space);
    if (n < 0 || (uint64_t)n > r->room / sizeof(la_real)) return LA_FLAT_TOO_LARGE;
    a->in_room = 1;
    a->at = take(r, (size_t)n * sizeof(la_real));
    if (!a->at) return LA_FLAT_TOO_LARGE;
    return H5Dread(set, la_h5_real(), H5S_ALL, H5S_ALL, H5P_DEFAULT, at(r, a->at)) >= 0
               ? LA_FLAT_NONE
               : LA_FLAT_UNREADABLE;
}

static la_flat_problem take_set(reader *r, hid_t set, la_flat_array *a) {
    hid_t type = H5Dget_type(set), list = H5Dget_create_plist(set), space = H5Dget_space(set);
    la_flat_problem problem = LA_FLAT_NO_FLOAT;
    if (is_float(type)) problem = LA_FLAT_ELSEWHERE;
    if (problem == LA_FLAT_ELSEWHERE && list >= 0 && stands_here(list)) problem = LA_FLAT_NO_SHAPE;
    if (problem == LA_FLAT_NO_SHAPE && take_shape(space, a))
        problem = take_numbers(r, set, type, list, space, a);
    if (type >= 0) H5Tclose(type);
    if (list >= 0) H5Pclose(list);
    if (space >= 0) H5Sclose(space);
    return problem;
}

/* Lists one array, whatever it is; negative: there is no room for its line. */
static herr_t list_array(hid_t group, const char *name, const H5L_info_t *info, void *ctx) {
    reader *r = ctx;
    if (left(r) < sizeof(la_flat_array)) return -1;
    la_flat_array *a = (la_flat_array *)at(r, r->room) - 1 - r->head->arrays++;
    la_file_name(name, a->name);
    a->group = r->group;
    a->problem = LA_FLAT_LINK;
    if (info->type != H5L_TYPE_HARD) return 0;
    hid_t set = H5Dopen2(group, name, H5P_DEFAULT);
    a->problem = set < 0 ? LA_FLAT_NO_ARRAY : take_set(r, set, a);
    if (set >= 0) H5Dclose(set);
    return 0;
}

static la_status list_group(reader *r, hid_t place, const char *name, int group) {
    hid_t  g = open_group(place, name);
    herr_t done = 0;
    if (g < 0) return LA_OK; /* who needs it will say so */
    r->group = group;
    r->head->groups |= 1U << group;
    done = H5Literate(g, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, list_array, r);
    H5Gclose(g);
    return done < 0 ? la_fail(LA_FORMAT, "%s: the arrays of the group %s cannot be listed",
                              r->image->name, name)
                    : LA_OK;
}

/* ---- a checkpoint ----------------------------------------------------------------------- */

static la_status take_record(reader *r) {
    const char *name = r->image->name, *missing;
    int32_t     format;
    if (!la_h5_get(r->file, "format", H5T_NATIVE_INT32, &format))
        return la_fail(LA_FORMAT, "%s has no attribute format", name);
    if (format != LA_FILE_FORMAT)
        return la_fail(LA_FORMAT, "%s has format %d; this program reads format %d", name,
                       (int)format, LA_FILE_FORMAT);
    r->head->config = take_text(r, r->file, "config");
    missing = r->head->config ? la_h5_get_record(r->file, &r->head->record) : "config";
    return missing ? la_fail(LA_FORMAT, "%s has no attribute %s", name, missing) : LA_OK;
}

/* Without code points, points is 0. */
static void take_points(reader *r, hid_t group) {
    if (!la_h5_has(group, "codepoints")) return;
    hid_t set = H5Dopen2(group, "codepoints", H5P_DEFAULT),
          list = set < 0 ? -1 : H5Dget_create_plist(set), space = set < 0 ? -1 : H5Dget_space(set);
    int64_t  n = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    uint64_t place = n > 0 && n <= LA_VOCAB_MAX ? take(r, (size_t)n * sizeof(uint32_t)) : 0;
    r->head->points = n;
    if (place && list >= 0 && stands_here(list) &&
        H5Dread(set, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, at(r, place)) >= 0)
        r->head->points_at = place;
    if (space >= 0) H5Sclose(space);
    if (list >= 0) H5Pclose(list);
    if (set >= 0) H5Dclose(set);
}

static void take_tokenizer(reader *r) {
    hid_t group = open_group(r->file, "tokenizer");
    if (group < 0) return;
    r->head->kind = take_text(r, group, "kind");
    take_points(r, group);
    H5Gclose(group);
}

static la_status take_optim(reader *r) {
    const la_optim_def *def;
    la_status           done = LA_OK;
    hid_t               group = open_group(r->file, "optim");
    if (group < 0) return LA_OK;
    r->head->optim = take_text(r, group, "name");
    if (r->head->optim && la_optim_find(at(r, r->head->optim), &def) == LA_OK)
        for (int i = 0; done == LA_OK && i < def->n_slots; i++)
            done = list_group(r, group, def->slot_name[i], LA_FLAT_SLOT + i);
    H5Gclose(group);
    return done;
}

static la_status take_checkpoint(reader *r) {
    LA_TRY(take_record(r));
    take_tokenizer(r);
    LA_TRY(list_group(r, r->file, "params", LA_FLAT_PARAMS));
    return take_optim(r);
}

static reader begin(const la_image *image, void *room, size_t bytes) {
    return (reader){.image = image,
                    .file = la_h5_open(image->bytes, image->n),
                    .head = room,
                    .room = bytes,
                    .used = sizeof(la_flat_head)};
}

la_status la_decode_checkpoint(void *ctx, void *room, size_t bytes) {
    const la_image *image = ctx;
    LA_TRY(la_h5_memory(image->n));
    reader r = begin(image, room, bytes);
    if (r.file < 0)
        return la_fail(LA_FORMAT, "%s (%zu bytes) has the right hash and HDF5 cannot read it",
                       image->name, image->n);
    la_status done = take_checkpoint(&r);
    H5Fclose(r.file);
    return done;
}

/* ---- a file from elsewhere -------------------------------------------------------------- */

static void list_wanted(reader *r, hid_t group, const char *name) {
    H5L_info_t info;
    if (H5Lget_info(group, name, &info, H5P_DEFAULT) >= 0) list_array(group, name, &info, r);
}

static la_status take_weights(reader *r) {
    const la_params *p = r->image->wanted;
    int              at_root = la_params_count(p) > 0 && la_h5_has(r->file, la_param_name(p, 0));
    int              below = !at_root && la_h5_has(r->file, "params");
    r->group = below ? LA_FLAT_PARAMS : LA_FLAT_ROOT;
    r->head->groups = 1U << r->group;
    hid_t group = below ? open_group(r->file, "params") : r->file;
    if (group < 0)
        return la_fail(LA_FORMAT, "%s: /params is not a group that can be read", r->image->name);
    for (int i = 0; i < la_params_count(p); i++) list_wanted(r, group, la_param_name(p, i));
    if (la_param_find(p, LA_HEAD) == LA_NO_PARAM) list_wanted(r, group, LA_HEAD);
    if (below) H5Gclose(group);
    return LA_OK;
}

la_status la_decode_weights(void *ctx, void *room, size_t bytes) {
    const la_image *image = ctx;
    LA_TRY(la_h5_memory(image->n));
    reader r = begin(image, room, bytes);
    if (r.file < 0)
        return la_fail(LA_FORMAT, "%s (%zu bytes) is no HDF5 file, or a damaged one", image->name,
                       image->n);
    la_status done = take_weights(&r);
    H5Fclose(r.file);
    return done;
}
