/* test_checkpoint.c -- what is saved comes back bit for bit, what is damaged is refused, and
 * neither a kill nor a full disk takes the file that was there. */
#include "train/checkpoint.h"
#include "train/flat.h"
#include "train/save_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tensor/rng.h"
#include "tests/hostile.h"
#include "tests/suite.h"

#define WTE "transformer.wte.weight"
#define NORM "transformer.ln_f.weight"
#define CUBE "transformer.h.0.cube"

static char dir[256], path[320], other[320]; /* made before each test, removed after it */

static void set_up(void) {
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.200s/test_checkpoint_XXXXXX", tmp ? tmp : P_tmpdir);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/last.h5", dir);
    snprintf(other, sizeof other, "%s/other.h5", dir);
}

/* The number of files in the folder; removes them if asked. */
static int files(int and_remove) {
    int            n = 0;
    DIR           *d = opendir(dir);
    struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        char name[600];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(name, sizeof name, "%s/%s", dir, e->d_name);
        if (and_remove && unlink(name) != 0) rmdir(name);
        n++;
    }
    closedir(d);
    return n;
}

static void tear_down(void) {
    files(1);
    rmdir(dir);
}

static void says(const char *words) {
    ck_assert_msg(strstr(la_error(), words) != NULL, "\"%s\" lacks \"%s\"", la_error(), words);
}

static void works(la_status s) { ck_assert_msg(s == LA_OK, "%s", la_error()); }

static void fails(la_status got, la_status want, const char *words) {
    ck_assert_msg(got == want, "status %d, not %d: %s", (int)got, (int)want, got ? la_error() : "");
    says(words);
}

static unsigned char *read_file(const char *name, size_t *n) {
    FILE *f = fopen(name, "rb");
    ck_assert_ptr_nonnull(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    unsigned char *b = malloc(*n + 1);
    ck_assert_uint_eq(fread(b, 1, *n, f), *n);
    fclose(f);
    return b;
}

static void write_file(const char *name, const void *bytes, size_t n) {
    FILE *f = fopen(name, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

static int same_file(const char *name, const unsigned char *bytes, size_t n) {
    size_t         m;
    unsigned char *b = read_file(name, &m);
    int            same = n == m && !memcmp(b, bytes, n);
    free(b);
    return same;
}

/* ---- a model of three parameters, and what goes with it ------------------------------------ */

/* width: of the embedding; skip: a parameter to leave out; extra: one more, of shape (3). */
static la_params *make(int64_t width, const char *skip, const char *extra) {
    la_params *p;
    works(la_params_create(&p));
    if (!skip || strcmp(skip, WTE) != 0)
        la_params_add(p, WTE, la_shape2(7, width), LA_INIT_NORMAL, 1);
    if (!skip || strcmp(skip, NORM) != 0) la_params_add(p, NORM, la_shape1(5), LA_INIT_NORMAL, 1);
    if (!skip || strcmp(skip, CUBE) != 0)
        la_params_add(p, CUBE, la_shape3(2, 3, 4), LA_INIT_NORMAL, 1);
    if (extra) la_params_add(p, extra, la_shape1(3), LA_INIT_ONE, 0);
    works(la_params_alloc(p, 1, 0));
    return p;
}

static la_params *usual(void) { return make(5, NULL, NULL); }

static void fill(const la_params *p, la_real *x, la_real value) {
    for (int i = 0; i < la_params_count(p); i++)
        for (int64_t j = 0; j < la_len(la_param_shape(p, i)); j++)
            x[la_param_offset(p, i) + (size_t)j] = value;
}

static la_tokenizer *byte_tokenizer(void) {
    la_tokenizer *k;
    works(la_tokenizer_create(&k, "byte", la_text_of("the text", "", 0)));
    return k;
}

static const la_record usual_record = {.config = "attn = elu1\nn-embd = 5\n",
                                       .step = INT64_C(1) << 39,
                                       .updates = 123,
                                       .best_val = 1.23456789012345678,
                                       .best_step = 77,
                                       .corpus_hash = UINT64_C(0xFEDCBA9876543210),
                                       .corpus_size = INT64_C(1) << 33};

static la_status save_to(const char *to, const la_params *p) {
    la_tokenizer *k = byte_tokenizer();
    la_status     s = la_checkpoint_save(to, &usual_record, p, NULL, k);
    la_tokenizer_destroy(k);
    return s;
}

static void save_usual(const char *to) {
    la_params *p = usual();
    works(save_to(to, p));
    la_params_destroy(p);
}

static la_status open_only(const char *from) {
    la_checkpoint *c;
    la_status      s = la_checkpoint_open(&c, from);
    ck_assert_int_eq(s == LA_OK, c != NULL);
    la_checkpoint_close(c);
    return s;
}

static la_status load_into(const char *from, la_params *p) {
    la_checkpoint *c;
    la_status      s = la_checkpoint_open(&c, from);
    if (s == LA_OK) s = la_checkpoint_params(c, p);
    la_checkpoint_close(c);
    return s;
}

/* ---- round trips -------------------------------------------------------------------------- */

START_TEST(weights_moments_and_record_come_back_bit_for_bit) {
    la_params    *p = usual(), *q = usual();
    la_optim      o, b;
    la_optim_cfg  cfg = {.beta1 = .9, .beta2 = .99, .eps = 1e-8};
    la_tokenizer *k = byte_tokenizer(), *l;
    size_t        bytes = la_params_len(p) * sizeof(la_real);
    works(la_optim_create(&o, la_optims[_i], &cfg, p));
    works(la_optim_create(&b, la_optims[_i], &cfg, q));
    for (int s = 0; s < o.def->n_slots; s++) {
        fill(p, o.slot[s], R(s + .1));
        o.slot[s][1] = R(-0.0);
        o.slot[s][2] = R(1e-41); /* denormal as float */
    }
    la_params_x(p)[0] = R(-0.0);
    la_params_x(p)[3] = R(3e38);
    fill(q, la_params_x(q), 9);
    works(la_checkpoint_save(path, &usual_record, p, &o, k));
    ck_assert_int_eq(files(0), 1);
    ck_assert(la_checkpoint_is_ours(path));

    la_checkpoint *c;
    works(la_checkpoint_open(&c, path));
    const la_record *r = la_checkpoint_record(c), *u = &usual_record;
    ck_assert_str_eq(r->config, u->config);
    ck_assert(r->step == u->step && r->updates == u->updates && r->best_val == u->best_val &&
              r->best_step == u->best_step && r->corpus_hash == u->corpus_hash &&
              r->corpus_size == u->corpus_size);
    works(la_checkpoint_params(c, q));
    ck_assert_int_eq(memcmp(la_params_x(p), la_params_x(q), bytes), 0);
    works(la_checkpoint_optim(c, &b));
    ck_assert_int_eq(b.t, 123);
    for (int s = 0; s < o.def->n_slots; s++)
        ck_assert_int_eq(memcmp(o.slot[s], b.slot[s], bytes), 0);
    works(la_checkpoint_tokenizer(c, &l));
    ck_assert_str_eq(la_tokenizer_kind_of(l)->name, "byte");
    la_checkpoint_close(c);
    la_checkpoint_close(NULL);

    /* the same state again: the same bytes */
    size_t         n;
    unsigned char *first = read_file(path, &n);
    works(la_checkpoint_save(other, &usual_record, p, &o, k));
    ck_assert(same_file(other, first, n));
    free(first);
    la_tokenizer_destroy(k);
    la_tokenizer_destroy(l);
    la_optim_destroy(&o);
    la_optim_destroy(&b);
    la_params_destroy(p);
    la_params_destroy(q);
}
END_TEST

START_TEST(characters_come_back) {
    la_params     *p = usual();
    la_tokenizer  *k, *l;
    const char    *text = "z\xC3\xA4 \xF0\x9F\x98\x80";
    la_checkpoint *c;
    int64_t        n, m;
    works(la_tokenizer_create(&k, "char", la_text_of("t", text, (int64_t)strlen(text))));
    works(la_checkpoint_save(path, &usual_record, p, NULL, k));
    works(la_checkpoint_open(&c, path));
    works(la_checkpoint_tokenizer(c, &l));
    const uint32_t *a = la_tokenizer_points(k, &n), *b = la_tokenizer_points(l, &m);
    ck_assert_int_eq(n, 4);
    ck_assert_int_eq(m, 4);
    ck_assert_int_eq(memcmp(a, b, 4 * sizeof *a), 0);
    la_checkpoint_close(c);
    la_tokenizer_destroy(k);
    la_tokenizer_destroy(l);
    la_params_destroy(p);
}
END_TEST

START_TEST(records_at_their_limits_come_back) {
    la_params    *p = usual();
    la_tokenizer *k = byte_tokenizer();
    size_t        sizes[] = {0, 1, 65000, 65536, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char          *config = malloc(sizes[i] + 1);
        la_checkpoint *c;
        memset(config, 'x', sizes[i]);
        config[sizes[i]] = 0;
        la_record r = {.config = config, .best_val = HUGE_VAL, .corpus_hash = UINT64_MAX};
        works(la_checkpoint_save(path, &r, p, NULL, k));
        works(la_checkpoint_open(&c, path));
        ck_assert_str_eq(la_checkpoint_record(c)->config, config);
        ck_assert(la_checkpoint_record(c)->best_val == HUGE_VAL);
        ck_assert(la_checkpoint_record(c)->corpus_hash == UINT64_MAX);
        la_checkpoint_close(c);
        free(config);
    }
    la_tokenizer_destroy(k);
    la_params_destroy(p);
}
END_TEST

START_TEST(records_that_cannot_be_are_refused) {
    static const int64_t most = INT64_C(1000000000000); /* of --max-iters */
    static const struct {
        int64_t step, updates, best_step;
    } cases[] = {{most + 1, 0, 0}, {INT64_MAX, 0, 0}, {-1, 0, -1},      {9, most + 1, 0},
                 {9, -1, 0},       {9, 9, 10},        {9, 9, INT64_MIN}};
    la_params    *p = usual();
    la_tokenizer *k = byte_tokenizer();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        la_record r = {.config = "",
                       .step = cases[i].step,
                       .updates = cases[i].updates,
                       .best_step = cases[i].best_step};
        works(la_checkpoint_save(path, &r, p, NULL, k));
        fails(open_only(path), LA_FORMAT, "last.h5 cannot be: step ");
    }
    la_record r = {.config = "", .step = most, .updates = most, .best_step = most};
    works(la_checkpoint_save(path, &r, p, NULL, k));
    works(open_only(path));
    la_tokenizer_destroy(k);
    la_params_destroy(p);
}
END_TEST

/* ---- what a confined process says ----------------------------------------------------------- */

static la_flat_array line_of(const char *name, int group) {
    la_flat_array a = {.group = group, .rank = 1, .d = {2}, .at = 8};
    snprintf(a.name, sizeof a.name, "%s", name);
    return a;
}

START_TEST(what_is_said_is_copied_before_it_is_believed) {
    enum { LINES = 3 };
    struct {
        la_flat_head  head;
        char          text[64];
        uint32_t      points[2];
        la_flat_array line[LINES];
    } room = {.text = "a = b", .points = {65, 66}};
    la_real         image[4] = {0, 1, 2, 3};
    la_flat         f = {.name = "the file", .n = sizeof image};
    const la_real  *x;
    const uint32_t *points;
    int64_t         n;
    room.head.config = offsetof(typeof(room), text);
    room.head.points = 2;
    room.head.points_at = offsetof(typeof(room), points);
    room.head.arrays = LINES;
    room.line[0] = line_of("w", LA_FLAT_SLOT);
    room.line[1] = line_of("v", LA_FLAT_PARAMS);
    room.line[2] = line_of("w", LA_FLAT_PARAMS);
    works(la_flat_take(&f, &room, sizeof room));
    memset(&room, 0xff, sizeof room); /* by a process that the child left behind */
    ck_assert_str_eq(f.config, "a = b");
    ck_assert_ptr_null(f.kind);
    works(la_flat_points(&f, &points, &n));
    ck_assert(n == 2 && points[0] == 65 && points[1] == 66);
    f.image = (unsigned char *)image;
    for (int group = LA_FLAT_PARAMS; group <= LA_FLAT_SLOT; group++) {
        works(la_flat_numbers(&f, group, "the file", "w", la_shape1(2), &x));
        ck_assert_ptr_eq(x, image + 8 / sizeof *image);
    }
    ck_assert(la_flat_has(&f, LA_FLAT_PARAMS, "v") && !la_flat_has(&f, LA_FLAT_SLOT, "v"));
    f.image = NULL;
    la_flat_free(&f);

    f = (la_flat){.name = "the file", .n = sizeof image};
    memset(&room, 0, sizeof room);
    room.head.arrays = LINES;
    for (int i = 0; i < LINES; i++) room.line[i] = line_of(i == 1 ? "v" : "w", LA_FLAT_PARAMS);
    fails(la_flat_take(&f, &room, sizeof room), LA_FORMAT, "two arrays of the name w");
    la_flat_free(&f);
}
END_TEST

START_TEST(an_open_checkpoint_keeps_what_it_read_while_the_file_is_replaced) {
    la_params     *p = usual(), *q = usual();
    la_checkpoint *c, *d;
    fill(p, la_params_x(p), 1);
    works(save_to(path, p));
    works(la_checkpoint_open(&c, path));
    fill(p, la_params_x(p), 2);
    works(save_to(path, p));
    works(la_checkpoint_open(&d, path));
    works(la_checkpoint_params(c, q));
    ck_assert(la_params_x(q)[0] == 1);
    works(la_checkpoint_params(d, q));
    ck_assert(la_params_x(q)[0] == 2);
    la_checkpoint_close(c);
    la_checkpoint_close(d);
    la_params_destroy(p);
    la_params_destroy(q);
}
END_TEST

START_TEST(hdf5_opens_the_file_from_disk_and_lm_head_is_a_hard_link) {
    la_params *p = usual();
    works(save_to(path, p));
    hid_t      f = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    H5L_info_t link;
    H5O_info_t a, b;
    la_real    x[35];
    int        precision = 0, format = 0;
    char      *config = NULL;
    ck_assert(f >= 0);
    ck_assert(H5Lget_info(f, "/params/lm_head.weight", &link, H5P_DEFAULT) >= 0);
    ck_assert_int_eq(link.type, H5L_TYPE_HARD);
    ck_assert(H5Oget_info_by_name(f, "/params/lm_head.weight", &a, H5P_DEFAULT) >= 0);
    ck_assert(H5Oget_info_by_name(f, "/params/" WTE, &b, H5P_DEFAULT) >= 0);
    ck_assert(a.addr == b.addr);
    ck_assert_uint_eq(a.rc, 2);
    hid_t set = H5Dopen2(f, "/params/lm_head.weight", H5P_DEFAULT), type = H5Dget_type(set);
    ck_assert_uint_eq(H5Tget_size(type), sizeof(la_real));
    hid_t real = sizeof(la_real) == 8 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
    ck_assert(H5Dread(set, real, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0);
    ck_assert_int_eq(memcmp(x, la_params_x(p), sizeof x), 0);
    H5Tclose(type);
    H5Dclose(set);
    hid_t at = H5Aopen(f, "precision", H5P_DEFAULT);
    ck_assert(H5Aread(at, H5T_NATIVE_INT, &precision) >= 0);
    ck_assert_int_eq(precision, LA_REAL_BITS);
    H5Aclose(at);
    at = H5Aopen(f, "format", H5P_DEFAULT);
    ck_assert(H5Aread(at, H5T_NATIVE_INT, &format) >= 0);
    ck_assert_int_eq(format, 1);
    H5Aclose(at);
    at = H5Aopen(f, "config", H5P_DEFAULT);
    type = H5Aget_type(at);
    ck_assert(H5Aread(at, type, &config) >= 0);
    ck_assert_str_eq(config, usual_record.config);
    H5free_memory(config);
    H5Tclose(type);
    H5Aclose(at);
    H5Fclose(f);
    la_params_destroy(p);
}
END_TEST

/* ---- damage ------------------------------------------------------------------------------- */

START_TEST(truncated_files_are_refused_and_appended_bytes_are_not) {
    size_t n;
    save_usual(path);
    unsigned char *b = read_file(path, &n), *more = calloc(1, n + 1000);
    size_t         cuts[] = {1, 7, 8, 100, 511, 512, 513, 600, 1024, n / 2, n - 512, n - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        char count[40];
        write_file(other, b, cuts[i]);
        fails(open_only(other), LA_FORMAT, "truncated");
        snprintf(count, sizeof count, "it has %zu bytes", cuts[i] < 512 ? cuts[i] : cuts[i] - 512);
        says(count);
    }
    memcpy(more, b, n);
    write_file(other, more, n + 1000);
    works(open_only(other));
    free(more);
    free(b);
}
END_TEST

START_TEST(any_flipped_bit_is_detected) {
    size_t n;
    save_usual(path);
    unsigned char *b = read_file(path, &n);
    for (uint64_t i = 0; i < 512 * 8 / 3 + 200;
         i++) { /* each third bit of the block, others at random */
        size_t bit = i < 512 * 8 / 3 ? i * 3 : (size_t)(la_rng_uniform(7, 0, i) * (double)n * 8);
        b[bit / 8] ^= (unsigned char)(1 << bit % 8);
        write_file(other, b, n);
        ck_assert_msg(open_only(other) == LA_FORMAT, "bit %zu of %zu", bit, 8 * n);
        b[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    write_file(other, b, n);
    works(open_only(other));
    free(b);
}
END_TEST

START_TEST(what_is_no_checkpoint_is_refused_with_its_reason) {
    size_t n;
    save_usual(path);
    unsigned char *b = read_file(path, &n);
    b[1] = 'X';
    write_file(other, b, n);
    fails(open_only(other), LA_FORMAT, "not a checkpoint");
    ck_assert(!la_checkpoint_is_ours(other));
    b[1] = 'L';
    b[8] = 2;
    write_file(other, b, n);
    fails(open_only(other), LA_FORMAT, "has format 2; this program reads format 1");
    ck_assert(la_checkpoint_is_ours(other));
    free(b);
    write_file(other, "", 0);
    fails(open_only(other), LA_FORMAT, "0 bytes");
    fails(open_only(dir), LA_IO, "directory");
    unlink(other);
    fails(open_only(other), LA_IO, strerror(ENOENT));
    ck_assert_int_eq(mkfifo(other, 0600), 0);
    fails(open_only(other), LA_IO, "FIFO"); /* and does not wait for a writer */
    fails(open_only("/dev/zero"), LA_IO, "not a regular file");
    ck_assert(!la_checkpoint_is_ours(other) && !la_checkpoint_is_ours(dir));
    unlink(other);
    hid_t f = H5Fcreate(other, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(f);
    fails(open_only(other), LA_FORMAT, "--init-from FILE --trust-file");
    ck_assert(!la_checkpoint_is_ours(other));
}
END_TEST

START_TEST(a_right_hash_over_no_hdf5_is_refused) {
    unsigned char b[2048] = {0};
    works(la_file_save(path, b, sizeof b));
    fails(open_only(path), LA_FORMAT, "HDF5 cannot read it");
    works(la_file_save(path, b, LA_BLOCK));
    fails(open_only(path), LA_FORMAT, "HDF5 cannot read it");
}
END_TEST

START_TEST(parameters_must_be_those_of_the_model_and_nothing_changes_if_not) {
    static const struct {
        int64_t     width; /* of the file's embedding */
        const char *skip, *extra, *says;
    } cases[] = {
        {6, NULL, NULL, "/params/" WTE " has the shape (7,6); the model's is (7,5)"},
        {5, CUBE, NULL, "/params/" CUBE " is missing"},
        {5, NULL, "surplus", "/params/surplus belongs to no parameter"},
    };
    la_params *mine = usual(), *same = usual();
    size_t     bytes = la_params_len(mine) * sizeof(la_real);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        la_params *p = make(cases[i].width, cases[i].skip, cases[i].extra);
        works(save_to(path, p));
        fails(load_into(path, mine), LA_FORMAT, cases[i].says);
        ck_assert_int_eq(memcmp(la_params_x(mine), la_params_x(same), bytes), 0);
        la_params_destroy(p);
    }
    la_params *p = usual();
    la_params_x(p)[la_param_offset(p, 2) + 17] = R(NAN);
    works(save_to(path, p));
    fails(load_into(path, mine), LA_FORMAT, CUBE " holds a number that is not finite");
    says("number 17 of 24");
    ck_assert_int_eq(memcmp(la_params_x(mine), la_params_x(same), bytes), 0);
    la_params_destroy(p);
    la_params_destroy(mine);
    la_params_destroy(same);
}
END_TEST

/* Replaces one array of /params in the file at path; it is sealed again. */
static void replace_array(const char *name, hid_t type, hid_t list, const hsize_t *d, int n,
                          const double *x) {
    char  where[100];
    hid_t f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), space = H5Screate_simple(n, d, NULL);
    snprintf(where, sizeof where, "/params/%s", name);
    ck_assert(H5Ldelete(f, where, H5P_DEFAULT) >= 0);
    hid_t set = H5Dcreate2(f, where, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    ck_assert(set >= 0);
    if (x) ck_assert(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Fclose(f);
    size_t         bytes;
    unsigned char *b = read_file(path, &bytes);
    works(la_file_save(path, b, bytes));
    free(b);
}

/* A link would have another file's arrays, or none, taken for this one's. */
START_TEST(groups_are_not_looked_for_elsewhere) {
    static const struct {
        const char *name, *says;
    } cases[] = {{"params", "/params is missing"}, {"tokenizer", "has no tokenizer"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        la_params *p = usual();
        works(save_to(path, p));
        hid_t f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
        H5Lmove(f, cases[i].name, f, "elsewhere", H5P_DEFAULT, H5P_DEFAULT);
        H5Lcreate_soft("/elsewhere", f, cases[i].name, H5P_DEFAULT, H5P_DEFAULT);
        H5Fclose(f);
        size_t         bytes;
        unsigned char *b = read_file(path, &bytes);
        works(la_file_save(path, b, bytes));
        free(b);
        la_checkpoint *c;
        la_tokenizer  *k;
        works(la_checkpoint_open(&c, path));
        fails(i ? la_checkpoint_tokenizer(c, &k) : la_checkpoint_params(c, p), LA_FORMAT,
              cases[i].says);
        la_checkpoint_close(c);
        la_params_destroy(p);
    }
}
END_TEST

START_TEST(numbers_of_other_types_and_layouts_are_converted) {
    const hid_t   types[] = {H5T_IEEE_F32BE, H5T_IEEE_F64BE, H5T_IEEE_F64LE, H5T_IEEE_F32LE};
    const hsize_t d[] = {2, 3, 4}, chunk[] = {1, 2, 4};
    double        x[24];
    for (int i = 0; i < 24; i++) x[i] = i / 8. - 1;
    for (int layout = 0; layout < 3; layout++)
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            hid_t      list = H5Pcreate(H5P_DATASET_CREATE);
            la_params *p = usual(), *q = usual();
            if (layout == 1) H5Pset_layout(list, H5D_COMPACT);
            if (layout == 2) H5Pset_chunk(list, 3, chunk);
            fill(p, la_params_x(p), R(.5));
            works(save_to(path, p));
            replace_array(CUBE, types[i], list, d, 3, x);
            works(load_into(path, q));
            for (size_t j = 0; j < 24; j++)
                ck_assert(la_params_x(q)[la_param_offset(q, 2) + j] == R(x[j]));
            ck_assert(la_params_x(q)[0] == R(.5));
            H5Pclose(list);
            la_params_destroy(p);
            la_params_destroy(q);
        }
}
END_TEST

/* Zeros that nobody wrote: many numbers in a small file.  One array is more than the room, or two
 * are together. */
START_TEST(numbers_that_no_such_file_can_hold_are_refused) {
    const int64_t rows = _i ? (1 << 17) / (int64_t)sizeof(la_real) : 1 << 19;
    const hsize_t d[] = {(hsize_t)rows, 5}, chunk[] = {1 << 10, 5};
    const char   *names[] = {CUBE, WTE};
    hid_t         list = H5Pcreate(H5P_DATASET_CREATE);
    la_params    *p;
    H5Pset_chunk(list, 2, chunk);
    works(la_params_create(&p));
    la_params_add(p, NORM, la_shape1(5), LA_INIT_NORMAL, 1);
    for (int i = 0; i < 2; i++) la_params_add(p, names[i], la_shape2(rows, 5), LA_INIT_NORMAL, 1);
    works(la_params_alloc(p, 1, 0));
    save_usual(path);
    for (int i = 0; i < 2; i++) replace_array(names[i], H5T_NATIVE_FLOAT, list, d, 2, NULL);
    fails(load_into(path, p), LA_FORMAT, _i ? WTE " claims more numbers" : CUBE " claims more");
    la_params_destroy(p);
    H5Pclose(list);
}
END_TEST

START_TEST(another_or_no_optimiser_is_refused) {
    la_params     *p = usual();
    la_tokenizer  *k = byte_tokenizer();
    la_optim       o, b;
    la_optim_cfg   cfg = {.beta1 = .9};
    la_checkpoint *c;
    works(la_optim_create(&o, la_optims[0], &cfg, p));
    works(la_optim_create(&b, la_optims[1], &cfg, p));
    o.t = b.t = 5;
    works(la_checkpoint_save(path, &usual_record, p, &b, k));
    works(la_checkpoint_open(&c, path));
    fails(la_checkpoint_optim(c, &o), LA_FORMAT, b.def->name);
    says(o.def->name);
    la_checkpoint_close(c);
    works(la_checkpoint_save(path, &usual_record, p, NULL, k));
    works(la_checkpoint_open(&c, path));
    fails(la_checkpoint_optim(c, &o), LA_FORMAT, "weights only");
    ck_assert_int_eq(o.t, 5);
    la_checkpoint_close(c);
    la_optim_destroy(&o);
    la_optim_destroy(&b);
    la_tokenizer_destroy(k);
    la_params_destroy(p);
}
END_TEST

/* ---- saving that fails -------------------------------------------------------------------- */

START_TEST(impossible_places_are_named_and_nothing_is_left) {
    la_params *p = usual();
    char       missing[400];
    snprintf(missing, sizeof missing, "%s/no/such/last.h5", dir);
    fails(save_to(missing, p), LA_IO, strerror(ENOENT));
    says("no/such/last.h5");
    fails(save_to(dir, p), LA_IO, "no regular file");
    fails(save_to("/dev/null", p), LA_IO, "no regular file");
    fails(save_to("", p), LA_IO, "");
    ck_assert_int_eq(files(0), 0);
    if (geteuid() != 0) { /* nothing is forbidden to root */
        chmod(dir, 0500);
        fails(save_to(path, p), LA_IO, strerror(EACCES));
        chmod(dir, 0700);
        ck_assert_int_eq(files(0), 0);
    }
    la_params_destroy(p);
}
END_TEST

START_TEST(a_stale_temporary_is_no_obstacle_and_links_stay_links) {
    la_params  *p = usual();
    char        stale[400];
    struct stat st;
    snprintf(stale, sizeof stale, "%s.tmp.%ld", path, (long)getpid());
    write_file(stale, "half", 4);
    works(save_to(path, p));
    ck_assert_int_eq(files(0), 1);
    ck_assert_int_eq(symlink("last.h5", other), 0);
    fill(p, la_params_x(p), 4);
    works(save_to(other, p));
    ck_assert(lstat(other, &st) == 0 && S_ISLNK(st.st_mode));
    la_params *q = usual();
    works(load_into(path, q));
    ck_assert(la_params_x(q)[0] == 4);
    la_params_destroy(p);
    la_params_destroy(q);
}
END_TEST

/* RLIMIT_FSIZE stands for the full disk; in a child, since the limit would stay. */
START_TEST(a_full_disk_leaves_the_previous_file) {
    size_t n;
    save_usual(path);
    unsigned char *b = read_file(path, &n);
    la_params     *p = usual();
    for (rlim_t most = 0; most < n; most += n / 3) {
        pid_t child = fork();
        if (child == 0) {
            struct rlimit r = {most, most};
            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &r);
            la_status s = save_to(path, p);
            _exit(s == LA_IO && strstr(la_error(), strerror(EFBIG)) &&
                          strstr(la_error(), "intact") && strstr(la_error(), "last.h5")
                      ? 0
                      : 1);
        }
        int how;
        ck_assert_int_eq(waitpid(child, &how, 0), child);
        ck_assert(WIFEXITED(how) && WEXITSTATUS(how) == 0);
        ck_assert(same_file(path, b, n));
        ck_assert_int_eq(files(0), 1);
    }
    la_params_destroy(p);
    free(b);
}
END_TEST

/* Of the system's calls that stand before libc's here (below), number k fails, for each k. */
static int fail_at = -1, calls; /* -1: none does                            */
static int slow_writes;         /* each is short, and half are interrupted  */

static int fails_now(void) {
    if (fail_at < 0 || calls++ != fail_at) return 0;
    errno = EIO;
    return 1;
}

int posix_fallocate(int fd, off_t at, off_t n) {
    if (fails_now()) return ENOSPC;
    return syscall(SYS_fallocate, fd, 0, at, n) == 0 ? 0 : errno;
}

ssize_t pwrite(int fd, const void *b, size_t n, off_t at) {
    static int turn;
    if (fails_now()) return -1;
    if (slow_writes && turn++ % 2) {
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, b, slow_writes && n > 1000 ? 1000 : n, at);
}

int fsync(int fd) { return fails_now() ? -1 : (int)syscall(SYS_fsync, fd); }

int close(int fd) {
    int bad = fails_now();
    syscall(SYS_close, fd);
    return bad ? (errno = EIO, -1) : 0;
}

int rename(const char *from, const char *to) {
    return fails_now() ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

START_TEST(whichever_system_call_fails_there_is_a_whole_file) {
    la_params *p = usual(), *q = usual();
    size_t     n;
    int        k, intact = 0;
    save_usual(path);
    unsigned char *b = read_file(path, &n);
    fill(p, la_params_x(p), 8);
    for (k = 0;; k++) {
        fail_at = k, calls = 0;
        la_status s = save_to(path, p);
        int       done = calls <= k;
        fail_at = -1;
        if (done || (s == LA_OK && k > 4)) { /* closing the folder may fail */
            works(s);
            if (done) break;
            continue;
        }
        ck_assert_int_eq(s, LA_IO);
        ck_assert_int_eq(files(0), 1);
        says("last.h5");
        if (strstr(la_error(), "intact")) {
            ck_assert(same_file(path, b, n));
            intact++;
        } else {
            works(load_into(path, q));
            ck_assert(la_params_x(q)[0] == 8);
        }
    }
    ck_assert_int_eq(intact, 5); /* reserve, write, sync, close, rename */
    ck_assert_int_ge(k, 6);
    free(b);
    la_params_destroy(p);
    la_params_destroy(q);
}
END_TEST

START_TEST(short_and_interrupted_writes_make_the_same_file) {
    size_t n;
    save_usual(path);
    unsigned char *b = read_file(path, &n);
    slow_writes = 1;
    save_usual(other);
    slow_writes = 0;
    ck_assert_uint_gt(n, 2000);
    ck_assert(same_file(other, b, n));
    free(b);
}
END_TEST

static void save_for_ever(la_params *p) {
    la_tokenizer *k = byte_tokenizer();
    for (int i = 1;; i++) {
        fill(p, la_params_x(p), R(i));
        la_record r = {.config = "", .step = i};
        if (la_checkpoint_save(path, &r, p, NULL, k) != LA_OK) _exit(1);
    }
}

START_TEST(after_kill_9_there_is_a_whole_file) {
    la_params *p = usual();
    save_usual(path);
    for (uint64_t i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) save_for_ever(p);
        struct timespec t = {0, (long)(1e6 + la_rng_uniform(3, 0, i) * 3e7)};
        nanosleep(&t, NULL);
        kill(child, SIGKILL);
        int how;
        ck_assert_int_eq(waitpid(child, &how, 0), child);
        ck_assert(WIFSIGNALED(how));
        la_checkpoint *c;
        works(la_checkpoint_open(&c, path));
        works(la_checkpoint_params(c, p));
        int64_t step = la_checkpoint_record(c)->step; /* and all of it belongs together */
        if (step < INT64_C(1) << 39)
            for (int j = 0; j < la_params_count(p); j++)
                ck_assert(la_params_x(p)[la_param_offset(p, j)] == R(step));
        la_checkpoint_close(c);
    }
    la_params_destroy(p);
}
END_TEST

/* ---- files from elsewhere ----------------------------------------------------------------- */

static hid_t foreign_begin(const char *group) { /* at the root, or in a group */
    hid_t f = H5Fcreate(other, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert(f >= 0);
    if (group) H5Gclose(H5Gcreate2(f, group, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    return f;
}

static void foreign_add(hid_t f, const char *group, const char *name, hid_t type, int n,
                        const hsize_t *d, double start, double step) {
    char   where[200];
    hid_t  space = H5Screate_simple(n, d, NULL);
    double x[64];
    snprintf(where, sizeof where, "%s/%s", group ? group : "", name);
    hid_t set = H5Dcreate2(f, where, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert(set >= 0);
    for (int i = 0; i < 64; i++) x[i] = start + step * i;
    ck_assert(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0);
    H5Dclose(set);
    H5Sclose(space);
}

static const hsize_t wte_dims[] = {7, 5}, norm_dims[] = {5}, cube_dims[] = {2, 3, 4};

static hid_t foreign_usual(const char *group, hid_t type) {
    hid_t f = foreign_begin(group);
    foreign_add(f, group, WTE, type, 2, wte_dims, .1, .01);
    foreign_add(f, group, NORM, type, 1, norm_dims, .2, .01);
    foreign_add(f, group, CUBE, type, 3, cube_dims, .3, .01);
    return f;
}

START_TEST(float_and_double_are_imported_from_root_and_params) {
    for (int i = 0; i < 4; i++) {
        const char *group = i & 1 ? "params" : NULL;
        hid_t       type = i & 2 ? H5T_IEEE_F32BE : H5T_NATIVE_DOUBLE;
        hid_t       f = foreign_usual(group, type);
        hsize_t     d = 2;
        foreign_add(f, group, "attn.bias_that_is_a_buffer", type, 1, &d, 0, 1);
        H5Lcreate_hard(f, i & 1 ? "/params/" WTE : "/" WTE, f,
                       i & 1 ? "/params/lm_head.weight" : "/lm_head.weight", H5P_DEFAULT,
                       H5P_DEFAULT);
        H5Fclose(f);
        la_params *p = usual();
        works(la_weights_import(other, p));
        for (int j = 0; j < 24; j++) {
            double want = .3 + .01 * j,
                   got = (double)la_params_x(p)[la_param_offset(p, 2) + (size_t)j];
            ck_assert_msg(i & 2 || LA_REAL_BITS == 32 ? (float)got == (float)want : got == want,
                          "%.17g %.17g", got, want);
        }
        for (size_t j = 35; j < la_param_offset(p, 1); j++) ck_assert(la_params_x(p)[j] == 0);
        la_params_destroy(p);
    }
}
END_TEST

START_TEST(our_own_checkpoint_can_be_imported_too) {
    la_params *p = usual(), *q = usual();
    fill(p, la_params_x(p), R(.7));
    works(save_to(path, p));
    works(la_weights_import(path, q));
    ck_assert_int_eq(memcmp(la_params_x(p), la_params_x(q), la_params_len(p) * sizeof(la_real)), 0);
    la_params_destroy(p);
    la_params_destroy(q);
}
END_TEST

static void import_fails_with(la_status status, const char *words) {
    la_params *p = usual(), *same = usual();
    fails(la_weights_import(other, p), status, words);
    says("other.h5");
    ck_assert_int_eq(memcmp(la_params_x(p), la_params_x(same), la_params_len(p) * sizeof(la_real)),
                     0);
    la_params_destroy(p);
    la_params_destroy(same);
}

static void import_fails(const char *words) { import_fails_with(LA_FORMAT, words); }

START_TEST(imports_that_do_not_fit_are_refused) {
    hsize_t wrong[] = {5, 7}, many[32];
    for (int i = 0; i < 32; i++) many[i] = 1;
    hid_t f = foreign_usual(NULL, H5T_NATIVE_FLOAT);
    H5Ldelete(f, NORM, H5P_DEFAULT);
    H5Fclose(f);
    import_fails("/" NORM " is missing");

    f = foreign_usual(NULL, H5T_NATIVE_FLOAT);
    H5Ldelete(f, WTE, H5P_DEFAULT);
    foreign_add(f, NULL, WTE, H5T_NATIVE_FLOAT, 2, wrong, 0, 0);
    H5Fclose(f);
    import_fails("(5,7); the model's is (7,5)");

    f = foreign_usual(NULL, H5T_NATIVE_FLOAT);
    H5Ldelete(f, NORM, H5P_DEFAULT);
    foreign_add(f, NULL, NORM, H5T_NATIVE_FLOAT, 32, many, 0, 0);
    H5Fclose(f);
    import_fails("(1,1,1,");

    f = foreign_usual(NULL, H5T_NATIVE_FLOAT);
    H5Ldelete(f, NORM, H5P_DEFAULT);
    foreign_add(f, NULL, NORM, H5T_NATIVE_INT, 1, norm_dims, 0, 1);
    H5Fclose(f);
    import_fails("floating-point");

    f = foreign_usual(NULL, H5T_NATIVE_DOUBLE);
    H5Ldelete(f, NORM, H5P_DEFAULT);
    foreign_add(f, NULL, NORM, H5T_NATIVE_DOUBLE, 1, norm_dims, 0, INFINITY);
    H5Fclose(f);
    import_fails("not finite");

    f = foreign_usual(NULL, H5T_NATIVE_DOUBLE);
    H5Ldelete(f, NORM, H5P_DEFAULT);
    foreign_add(f, NULL, NORM, H5T_NATIVE_DOUBLE, 1, norm_dims, 0,
                1e300); /* a number as a double */
    H5Fclose(f);
    if (LA_REAL_BITS == 32) import_fails("not finite");

    f = foreign_usual(NULL, H5T_NATIVE_FLOAT);
    foreign_add(f, NULL, "lm_head.weight", H5T_NATIVE_FLOAT, 2, wte_dims, .1, .02);
    H5Fclose(f);
    import_fails("not tied");

    f = foreign_usual(NULL, H5T_NATIVE_FLOAT);
    foreign_add(f, NULL, "lm_head.weight", H5T_NATIVE_FLOAT, 2, wte_dims, .1,
                .01); /* an equal copy */
    H5Fclose(f);
    la_params *p = usual();
    works(la_weights_import(other, p));
    la_params_destroy(p);
}
END_TEST

START_TEST(links_and_arrays_that_lead_elsewhere_are_refused) {
    hid_t f = foreign_usual(NULL, H5T_NATIVE_FLOAT);
    H5Lmove(f, NORM, f, "elsewhere", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/elsewhere", f, NORM, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(f);
    import_fails("is a link to another place");

    f = foreign_usual(NULL, H5T_NATIVE_FLOAT);
    H5Ldelete(f, NORM, H5P_DEFAULT);
    H5Lcreate_external("/etc/passwd", "/x", f, NORM, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(f);
    import_fails("is a link to another place");

    f = foreign_usual(NULL,
                      H5T_NATIVE_FLOAT); /* would read its numbers from any file on the disk */
    H5Ldelete(f, NORM, H5P_DEFAULT);
    hid_t list = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, norm_dims, NULL);
    H5Pset_external(list, "/etc/passwd", 0, 20);
    hid_t set = H5Dcreate2(f, NORM, H5T_NATIVE_FLOAT, space, H5P_DEFAULT, list, H5P_DEFAULT);
    ck_assert(set >= 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(list);
    H5Fclose(f);
    import_fails("in other files");

    f = foreign_usual(NULL, H5T_NATIVE_FLOAT);
    H5Ldelete(f, NORM, H5P_DEFAULT);
    H5Gclose(H5Gcreate2(f, NORM, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Fclose(f);
    import_fails("not an array");
}
END_TEST

/* ---- readers that come to harm -------------------------------------------------------------- */

/* Stands before HDF5's own, which only the reader's child calls: a crash at will. */
static int crash_by; /* signal; -1: exit; 0: none */

herr_t H5PLset_loading_state(unsigned int mask) {
    (void)mask;
    if (crash_by < 0) _exit(3);
    if (crash_by) raise(crash_by);
    return 0;
}

START_TEST(a_reader_that_crashes_crashes_alone) {
    static const struct {
        int         by;
        la_status   status;
        const char *says;
    } cases[] = {{SIGSEGV, LA_FORMAT, "ended the reader by signal 11"},
                 {SIGABRT, LA_FORMAT, "ended the reader by signal 6"},
                 {SIGXCPU, LA_FORMAT, "after 60 seconds"},
                 {SIGALRM, LA_FORMAT, "within 1200 seconds"},
                 {SIGKILL, LA_NOMEM, "where memory runs out"}, /* that is no reason to skip it */
                 {-1, LA_FORMAT, "exit code 3"}};
    H5Fclose(foreign_usual(NULL, H5T_NATIVE_FLOAT));
    save_usual(path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        crash_by = cases[i].by;
        import_fails_with(cases[i].status, cases[i].says);
        fails(open_only(path), cases[i].status, cases[i].says);
        says("last.h5");
    }
    crash_by = 0;
    works(open_only(path));
    la_params *p = usual();
    works(la_weights_import(other, p));
    la_params_destroy(p);
}
END_TEST

/* What a program is told does not end its reader: after these the file is read all the same. */
START_TEST(signals_for_the_program_do_not_end_its_reader) {
    int by[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    save_usual(path);
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        crash_by = by[i];
        works(open_only(path));
    }
    crash_by = 0;
}
END_TEST

/* Images that HDF5 1.10 does not survive; a later one may refuse them by itself.  In a child of
 * ours, whose limit on time is the reader's as well. */
START_TEST(what_hdf5_does_not_survive_behind_a_right_hash_is_refused) {
    const char *words = _i ? "after 3 seconds of computing" : "ended the reader";
    size_t      n;
    int         how;
    save_usual(path);
    unsigned char *b = read_file(path, &n);
    ck_assert(make_hostile(b, n, _i));
    works(la_file_save(path, b, n));
    free(b);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit r = {3, RLIM_INFINITY};
        setrlimit(RLIMIT_CPU, &r);
        la_status s = open_only(path);
        int       said = strstr(la_error(), words) || H5_VERS_MINOR > 10;
        if (!said) fprintf(stderr, "%s\n", la_error());
        _exit(s == LA_FORMAT && said && strstr(la_error(), "last.h5") ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &how, 0), child);
    ck_assert(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}
END_TEST

/* From now on this process may compute `seconds` more, and a reader that it starts not much longer:
 * one that loops costs no minute.  0: as before. */
static void limit_computing(rlim_t seconds) {
    struct rlimit r;
    struct rusage u;
    ck_assert_int_eq(getrlimit(RLIMIT_CPU, &r), 0);
    ck_assert_int_eq(getrusage(RUSAGE_SELF, &u), 0);
    r.rlim_cur = r.rlim_max;
    if (seconds) r.rlim_cur = (rlim_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1 + seconds;
    ck_assert_int_eq(setrlimit(RLIMIT_CPU, &r), 0);
}

START_TEST(garbage_is_refused_and_mutants_do_not_harm_the_parent) {
    unsigned char junk[4096];
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (unsigned char)(la_rng_uniform(5, 0, i) * 256);
    write_file(other, junk, sizeof junk);
    import_fails("no HDF5 file");
    write_file(other, "", 0);
    import_fails("0 bytes");
    unlink(other);
    la_params *p = usual();
    fails(la_weights_import(other, p), LA_IO, strerror(ENOENT));
    fails(la_weights_import(dir, p), LA_IO, "directory");

    size_t n;
    hid_t  f = foreign_usual(NULL, H5T_NATIVE_FLOAT);
    H5Fclose(f);
    unsigned char *b = read_file(other, &n), *m = malloc(n);
    for (uint64_t i = 0; i < 200; i++) {
        memcpy(m, b, n);
        for (uint64_t j = 0; j < 20; j++)
            m[(size_t)(la_rng_uniform(6, i, 2 * j) * (double)n)] =
                (unsigned char)(la_rng_uniform(6, i, 2 * j + 1) * 256);
        write_file(other, m, n);
        limit_computing(3);
        la_status s = la_weights_import(other, p);
        ck_assert_msg(s == LA_OK || s == LA_FORMAT || s == LA_NOMEM, "%s", la_error());
        ck_assert_int_eq(la_find_nonfinite(la_params_len(p), la_params_x(p)), -1);
    }
    limit_computing(0);
    free(b);
    free(m);
    la_params_destroy(p);
}
END_TEST

/* The same of a checkpoint, sealed again with the right hash. */
START_TEST(mutants_behind_a_right_hash_do_not_harm_the_parent) {
    la_params    *p = usual();
    la_optim      o;
    la_optim_cfg  cfg = {.beta1 = .9};
    la_tokenizer *k = byte_tokenizer(), *l;
    size_t        n, opened = 0;
    works(la_optim_create(&o, la_optims[0], &cfg, p));
    works(la_checkpoint_save(path, &usual_record, p, &o, k));
    unsigned char *b = read_file(path, &n), *m = malloc(n);
    for (uint64_t i = 0; i < 200; i++) {
        la_checkpoint *c;
        memcpy(m, b, n);
        for (uint64_t j = 0; j < 1 + i % 8; j++)
            m[LA_BLOCK + (size_t)(la_rng_uniform(8, i, 2 * j) * (double)(n - LA_BLOCK))] =
                (unsigned char)(la_rng_uniform(8, i, 2 * j + 1) * 256);
        works(la_file_save(other, m, n));
        limit_computing(3);
        la_status s = la_checkpoint_open(&c, other);
        ck_assert_msg(s == LA_OK || s == LA_FORMAT || s == LA_NOMEM, "%s", la_error());
        if (s != LA_OK) continue;
        opened++;
        s = la_checkpoint_params(c, p);
        ck_assert_msg(s == LA_OK || s == LA_FORMAT, "%s", la_error());
        s = la_checkpoint_optim(c, &o);
        ck_assert_msg(s == LA_OK || s == LA_FORMAT, "%s", la_error());
        s = la_checkpoint_tokenizer(c, &l);
        ck_assert_msg(s == LA_OK || s == LA_FORMAT, "%s", la_error());
        la_tokenizer_destroy(l);
        la_checkpoint_close(c);
        ck_assert_int_eq(la_find_nonfinite(la_params_len(p), la_params_x(p)), -1);
    }
    limit_computing(0);
    ck_assert_uint_gt(opened, 20); /* or nothing but the opening was tried */
    free(b);
    free(m);
    la_optim_destroy(&o);
    la_tokenizer_destroy(k);
    la_params_destroy(p);
}
END_TEST

int main(void) {
    Suite *s = suite_create("checkpoint");
    TCase *c = add_case(s, "checkpoint");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, weights_moments_and_record_come_back_bit_for_bit, 0, 2);
    tcase_add_test(c, characters_come_back);
    tcase_add_test(c, records_at_their_limits_come_back);
    tcase_add_test(c, records_that_cannot_be_are_refused);
    tcase_add_test(c, what_is_said_is_copied_before_it_is_believed);
    tcase_add_test(c, an_open_checkpoint_keeps_what_it_read_while_the_file_is_replaced);
    tcase_add_test(c, hdf5_opens_the_file_from_disk_and_lm_head_is_a_hard_link);
    tcase_add_test(c, truncated_files_are_refused_and_appended_bytes_are_not);
    tcase_add_test(c, any_flipped_bit_is_detected);
    tcase_add_test(c, what_is_no_checkpoint_is_refused_with_its_reason);
    tcase_add_test(c, a_right_hash_over_no_hdf5_is_refused);
    tcase_add_test(c, parameters_must_be_those_of_the_model_and_nothing_changes_if_not);
    tcase_add_test(c, groups_are_not_looked_for_elsewhere);
    tcase_add_test(c, numbers_of_other_types_and_layouts_are_converted);
    tcase_add_loop_test(c, numbers_that_no_such_file_can_hold_are_refused, 0, 2);
    tcase_add_test(c, another_or_no_optimiser_is_refused);
    tcase_add_test(c, impossible_places_are_named_and_nothing_is_left);
    tcase_add_test(c, a_stale_temporary_is_no_obstacle_and_links_stay_links);
    tcase_add_test(c, a_full_disk_leaves_the_previous_file);
    tcase_add_test(c, whichever_system_call_fails_there_is_a_whole_file);
    tcase_add_test(c, short_and_interrupted_writes_make_the_same_file);
    tcase_add_test(c, after_kill_9_there_is_a_whole_file);
    tcase_add_test(c, float_and_double_are_imported_from_root_and_params);
    tcase_add_test(c, our_own_checkpoint_can_be_imported_too);
    tcase_add_test(c, imports_that_do_not_fit_are_refused);
    tcase_add_test(c, links_and_arrays_that_lead_elsewhere_are_refused);
    tcase_add_test(c, a_reader_that_crashes_crashes_alone);
    tcase_add_test(c, signals_for_the_program_do_not_end_its_reader);
    tcase_add_loop_test(c, what_hdf5_does_not_survive_behind_a_right_hash_is_refused, 0, 2);
    tcase_add_test(c, garbage_is_refused_and_mutants_do_not_harm_the_parent);
    tcase_add_test(c, mutants_behind_a_right_hash_do_not_harm_the_parent);
    return run_suite(s);
}
