/* test_data.c -- properties of data/: tokenizers, texts good and bad, splits, batches. */
#include "data/corpus.h"
#include "data/hash.h"
#include "data/loader.h"
#include "data/masking.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/suite.h"

static char dir[256], path[320], other[320]; /* made before each test, removed after it */

static void set_up(void) {
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.200s/test_data_XXXXXX", tmp ? tmp : P_tmpdir);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/text", dir);
    snprintf(other, sizeof other, "%s/other", dir);
}

static void tear_down(void) {
    unlink(path);
    unlink(other);
    rmdir(dir);
}

static void write_file(const char *name, const void *bytes, size_t n) {
    FILE *f = fopen(name, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

static void write_run(const char *name, size_t n) { /* "abcabc..." */
    char *s = malloc(n + 1);
    for (size_t i = 0; i < n; i++) s[i] = (char)('a' + i % 3);
    write_file(name, s, n);
    free(s);
}

static la_text text(const char *s) { return la_text_of("the prompt", s, (int64_t)strlen(s)); }

static la_tokenizer *make(const char *kind, const char *s) {
    la_tokenizer *k;
    ck_assert_msg(la_tokenizer_create(&k, kind, text(s)) == LA_OK, "%s", la_error());
    return k;
}

static void says(const char *words) {
    ck_assert_msg(strstr(la_error(), words) != NULL, "\"%s\" lacks \"%s\"", la_error(), words);
}

/* ---- UTF-8 and tokenizers --------------------------------------------------------------- */

START_TEST(every_code_point_survives_utf8_and_surrogates_do_not) {
    int wrong = 0; /* counted, since a million assertions take their time */
    for (uint32_t c = 0; c < LA_CODE_POINTS + 10; c++) {
        char     b[4];
        uint32_t back = ~c;
        bool     none = c >= LA_CODE_POINTS || (c >= 0xD800 && c < 0xE000);
        int      n = la_utf8_encode(c, b);
        wrong += n != (none ? 0 : c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
        if (n == 0) continue;
        wrong += la_utf8_decode(b, n, &back) != n || back != c;
        wrong += n > 1 && la_utf8_decode(b, n - 1, &back) != 0;
    }
    ck_assert_int_eq(wrong, 0);
}
END_TEST

static const char *const malformed[] = {
    "\x80",
    "\xBF",
    "\xC0\x80",
    "\xC1\xBF",
    "\xC3",
    "\xC3(",
    "\xE0\x80\x80",
    "\xE0\x9F\xBF",
    "\xE2\x82",
    "\xE2\x82z",
    "\xED\xA0\x80",
    "\xED\xBF\xBF",
    "\xF0\x8F\xBF\xBF",
    "\xF4\x90\x80\x80",
    "\xF5\x80\x80\x80",
    "\xF0\x9F\x98",
    "\xF8\x88\x80",
    "\xFE",
    "\xFF",
};

START_TEST(malformed_utf8_is_refused_at_its_first_byte) {
    char s[16];
    snprintf(s, sizeof s, "a\u00E9b%s", malformed[_i]);
    la_tokenizer *k;
    ck_assert_int_eq(la_tokenizer_create(&k, "char", text(s)), LA_DATA);
    ck_assert_ptr_null(k);
    says("offset 4 ");
    says("--tokenizer=byte");
    int32_t ids[16];
    int64_t n;
    k = make("char", "ab\u00E9");
    ck_assert_int_eq(la_encode(k, text(s), ids, &n), LA_DATA);
    says("the prompt is not valid UTF-8");
    la_tokenizer_destroy(k);
}
END_TEST

START_TEST(decode_inverts_encode_and_ids_follow_code_points) {
    const char   *s = "zebra \u00E9t\u00E9 \xE2\x82\xAC \U0001F600\n\xF0\x9F\x98\x81";
    const char   *kind = la_tokenizer_kinds[_i].name;
    la_tokenizer *k = make(kind, s);
    int32_t       ids[64];
    int64_t       n, at = 0;
    char          back[64];
    ck_assert_int_eq(la_encode(k, text(s), ids, &n), LA_OK);
    ck_assert_int_eq(n, strcmp(kind, "byte") == 0 ? (int64_t)strlen(s) : 15);
    for (int64_t i = 0; i < n; i++) at += la_decode(k, ids[i], back + at);
    ck_assert_mem_eq(back, s, strlen(s));
    uint32_t last = 0;
    for (int i = 0; i < la_tokenizer_vocab(k); i++) {
        char     b[4];
        uint32_t c = 0;
        int      length = la_decode(k, i, b);
        if (strcmp(kind, "byte") == 0)
            c = (unsigned char)b[0];
        else
            ck_assert_int_eq(la_utf8_decode(b, length, &c), length);
        ck_assert(i == 0 || c > last);
        last = c;
    }
    char b[4];
    ck_assert_int_eq(la_decode(k, -1, b), 0);
    ck_assert_int_eq(la_decode(k, la_tokenizer_vocab(k), b), 0);
    la_tokenizer_destroy(k);
}
END_TEST

START_TEST(an_unknown_character_is_named_with_code_point_and_position) {
    la_tokenizer *k = make("char", "hello");
    int32_t       ids[16];
    int64_t       n;
    ck_assert_int_eq(la_encode(k, text("hel\u00E9"), ids, &n), LA_DATA);
    says("the prompt has the character \"\u00E9\" (U+00E9) at position 3, which the model's");
    ck_assert_int_eq(la_encode(k, text("o\xF0\x9F\x98\x80"), ids, &n), LA_DATA);
    says("\"\xF0\x9F\x98\x80\" (U+1F600) at position 1");
    ck_assert_int_eq(la_encode(k, text("\x1B"), ids, &n), LA_DATA); /* not sent to a terminal */
    says("character U+001B at position 0");
    ck_assert_int_eq(la_encode(k, text(""), ids, &n), LA_OK);
    ck_assert_int_eq(n, 0);
    la_tokenizer_destroy(k);
}
END_TEST

START_TEST(a_stored_tokenizer_is_loaded_or_refused) {
    la_tokenizer *k = make("char", "c\u00E9ba"), *l;
    int64_t       n;
    uint32_t      p[4];
    memcpy(p, la_tokenizer_points(k, &n), sizeof p);
    ck_assert_int_eq(n, 4);
    ck_assert_int_eq(la_tokenizer_load(&l, la_tokenizer_kind_of(k)->name, p, n), LA_OK);
    int32_t ids[4];
    ck_assert_int_eq(la_encode(l, text("\u00E9cab"), ids, &n), LA_OK);
    ck_assert_mem_eq(ids, ((int32_t[]){3, 2, 0, 1}), sizeof ids);
    la_tokenizer_destroy(k);
    la_tokenizer_destroy(l);
    const struct {
        const char *kind;
        uint32_t    points[3];
        int64_t     n;
    } bad[] = {{"char", {1, 3, 2}, 3}, {"char", {1, 1}, 2},
               {"char", {0xD800}, 1},  {"char", {0x110000}, 1},
               {"char", {1}, 0},       {"char", {1}, -1},
               {"char", {1}, 65537},   {"char", {1}, INT64_MAX},
               {"byte", {1}, 1},       {"word", {1}, 1},
               {"", {1}, 1},           {NULL, {1}, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(la_tokenizer_load(&l, bad[i].kind, bad[i].points, bad[i].n), LA_FORMAT);
        ck_assert_ptr_null(l);
    }
    ck_assert_int_eq(la_tokenizer_load(&l, "char", NULL, 3), LA_FORMAT);
    ck_assert_int_eq(la_tokenizer_load(&l, "byte", NULL, 0), LA_OK);
    ck_assert_int_eq(la_tokenizer_vocab(l), 256);
    ck_assert_ptr_null(la_tokenizer_points(l, &n));
    ck_assert_int_eq(n, 0);
    la_tokenizer_destroy(l);
    char none[4];
    ck_assert_int_eq(la_tokenizer_load(&l, "ids", NULL, 0), LA_OK); /* of a task: no text */
    ck_assert_int_eq(la_tokenizer_vocab(l), 0);
    ck_assert_ptr_null(la_tokenizer_points(l, &n));
    ck_assert_int_eq(la_encode(l, text("a"), ids, &n), LA_DATA);
    says("no text");
    ck_assert_int_eq(la_decode(l, 0, none), 0);
    la_tokenizer_destroy(l);
    ck_assert_int_eq(la_tokenizer_load(&l, "ids", p, 1), LA_FORMAT);
    ck_assert_int_eq(la_tokenizer_create(&l, "ids", text("a")), LA_ARG);
    ck_assert_int_eq(la_tokenizer_create(&l, "wrod", text("a")), LA_NAME);
    says("known: char, byte");
}
END_TEST

/* A text of the first `vocab` code points from U+0100 on, each once. */
static size_t alphabet(char *s, int vocab) {
    size_t n = 0;
    for (uint32_t c = 0x100; vocab > 0; c++) {
        int length = la_utf8_encode(c, s + n);
        n += (size_t)length;
        vocab -= length > 0;
    }
    return n;
}

START_TEST(ids_take_as_many_bytes_as_the_vocabulary_needs) {
    static const int vocab[] = {256, 257, 65536, 65537}, width[] = {1, 2, 2, 0};
    char            *s = malloc(4 * 65537);
    size_t           n = alphabet(s, vocab[_i]);
    la_corpus        c;
    la_tokenizer    *k;
    write_file(path, s, n);
    ck_assert_int_eq(la_corpus_open(&c, path), LA_OK);
    la_status made = la_tokenizer_create(&k, "char", la_corpus_text(&c));
    if (width[_i] == 0) {
        ck_assert_int_eq(made, LA_DATA);
        says("65537 different characters");
    } else {
        ck_assert_int_eq(la_corpus_encode(&c, k), LA_OK);
        ck_assert_int_eq(c.ids.width, width[_i]);
        ck_assert_int_eq(c.ids.n, vocab[_i]);
        int32_t *ids = malloc((size_t)c.ids.n * sizeof *ids), narrow[1];
        int64_t  m;
        la_ids_copy(&c.ids, 0, c.ids.n, ids);
        int wrong = 0;
        for (int i = 0; i < vocab[_i]; i++) wrong += ids[i] != i || la_ids_get(&c.ids, i) != i;
        ck_assert_int_eq(wrong, 0);
        la_ids tail = la_ids_slice(&c.ids, c.ids.n - 2, 2);
        ck_assert_int_eq(la_ids_get(&tail, 1), vocab[_i] - 1);
        if (width[_i] == 2) ck_assert_int_eq(la_encode_as(k, text(""), 1, narrow, &m), LA_ARG);
        free(ids);
    }
    la_tokenizer_destroy(k);
    la_corpus_close(&c);
    free(s);
}
END_TEST

/* ---- texts ------------------------------------------------------------------------------ */

static la_status opens(const char *name) {
    la_corpus c;
    la_status s = la_corpus_open(&c, name);
    la_corpus_close(&c);
    return s;
}

START_TEST(what_is_no_text_is_refused_with_its_name) {
    ck_assert_int_eq(opens(path), LA_DATA);
    says(path);
    says("No such file");
    ck_assert_int_eq(opens(dir), LA_DATA);
    says("Is a directory");
    ck_assert_int_eq(opens("/dev/zero"), LA_DATA);
    says("/dev/zero: it is a character device");
    ck_assert_int_eq(opens(""), LA_DATA);
    ck_assert_int_eq(opens(NULL), LA_ARG);
    write_file(path, "", 0);
    ck_assert_int_eq(opens(path), LA_DATA);
    says("is empty");
    write_file(path, "\xEF\xBB\xBF", 3);
    ck_assert_int_eq(opens(path), LA_DATA);
    says("is empty");
    write_file(path, "\377\376a\0b\0", 6);
    ck_assert_int_eq(opens(path), LA_DATA);
    says("iconv -f UTF-16 -t UTF-8 ");
    write_file(path, "\xFE\xFF\0a", 4);
    ck_assert_int_eq(opens(path), LA_DATA);
    says("iconv -f UTF-16 -t UTF-8 ");
    ck_assert_int_eq(chmod(path, 0), 0);
    bool root = geteuid() == 0;
    if (root) ck_assert_int_eq(seteuid(65534), 0);
    la_status s = opens(path);
    if (root) ck_assert_int_eq(seteuid(0), 0);
    ck_assert_int_eq(s, LA_DATA);
    says("Permission denied");
}
END_TEST

START_TEST(a_byte_order_mark_is_skipped_and_line_ends_are_kept_and_both_are_noted) {
    la_corpus     c;
    la_tokenizer *k;
    write_file(path, "\357\273\277a\r\n\xFF", 7);
    ck_assert_int_eq(la_corpus_open(&c, path), LA_OK);
    ck_assert_int_eq(la_corpus_size(&c), 7);
    ck_assert_int_eq(la_corpus_text(&c).n, 4);
    ck_assert_mem_eq(la_corpus_text(&c).bytes, "a\r\n", 3);
    ck_assert_ptr_nonnull(strstr(la_corpus_note(&c, 0), "byte order mark"));
    ck_assert_ptr_nonnull(strstr(la_corpus_note(&c, 1), "CR LF, the first at byte 4"));
    ck_assert_ptr_null(la_corpus_note(&c, 2));
    ck_assert_int_eq(la_tokenizer_create(&k, "char", la_corpus_text(&c)), LA_DATA);
    says("offset 6 "); /* in the file, not in the text */
    la_corpus_close(&c);
    write_file(path, "a\nb\r", 4);
    ck_assert_int_eq(la_corpus_open(&c, path), LA_OK);
    ck_assert_ptr_null(la_corpus_note(&c, 0));
    la_corpus_close(&c);
}
END_TEST

START_TEST(the_hash_is_fnv1a_of_all_bytes_in_any_portions) {
    ck_assert_uint_eq(la_hash64(LA_HASH64_START, "a", 1), UINT64_C(0xAF63DC4C8601EC8C));
    uint64_t whole = la_hash64(LA_HASH64_START, "foobar", 6);
    ck_assert_uint_eq(whole, UINT64_C(0x85944171F73967E8));
    ck_assert_uint_eq(la_hash64(la_hash64(LA_HASH64_START, "foo", 3), "bar", 3), whole);
    la_corpus c;
    write_file(path, "foobar", 6);
    ck_assert_int_eq(la_corpus_open(&c, path), LA_OK);
    ck_assert_uint_eq(la_corpus_hash(&c), whole);
    la_corpus_close(&c);
}
END_TEST

/* A process that writes n bytes of 'x' to a file or descriptor, and ends. */
static pid_t writer(const char *name, int fd, size_t n) {
    fflush(NULL);
    pid_t child = fork();
    if (child != 0) return child;
    signal(SIGPIPE, SIG_IGN);
    if (name) fd = open(name, O_WRONLY);
    char block[1000];
    memset(block, 'x', sizeof block);
    for (size_t put = 0; put < n; put += sizeof block)
        if (write(fd, block, n - put < sizeof block ? n - put : sizeof block) < 0) _exit(1);
    _exit(0);
}

START_TEST(a_fifo_is_read_to_its_end_and_up_to_its_limit) {
    la_source s;
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    pid_t child = writer(path, -1, 200001);
    ck_assert_int_eq(la_source_open(&s, path, 200001), LA_OK);
    ck_assert_int_eq(s.n, 200001);
    ck_assert(s.bytes[0] == 'x' && s.bytes[200000] == 'x');
    la_source_close(&s);
    waitpid(child, NULL, 0);
    child = writer(path, -1, 200002);
    ck_assert_int_eq(la_source_open(&s, path, 200001), LA_DATA);
    says("more than 200001 bytes");
    waitpid(child, NULL, 0);
    child = writer(path, -1, 0);
    ck_assert_int_eq(opens(path), LA_DATA);
    says("is empty");
    waitpid(child, NULL, 0);
}
END_TEST

/* Opens "-" with fd as the standard input. */
static la_status open_standard(la_corpus *c, int fd) {
    int saved = dup(STDIN_FILENO);
    dup2(fd, STDIN_FILENO);
    close(fd);
    la_status s = la_corpus_open(c, "-");
    if (saved >= 0)
        dup2(saved, STDIN_FILENO), close(saved);
    else
        close(STDIN_FILENO);
    return s;
}

START_TEST(standard_input_may_be_a_pipe_or_a_file_and_no_device) {
    la_corpus c;
    int       ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = writer(NULL, ends[1], 5000);
    close(ends[1]);
    ck_assert_int_eq(open_standard(&c, ends[0]), LA_OK);
    ck_assert_int_eq(la_corpus_size(&c), 5000);
    ck_assert_str_eq(la_corpus_text(&c).what, "the text standard input");
    la_corpus_close(&c);
    waitpid(child, NULL, 0);
    write_run(path, 100);
    ck_assert_int_eq(open_standard(&c, open(path, O_RDONLY)), LA_OK);
    ck_assert_int_eq(la_corpus_size(&c), 100);
    la_corpus_close(&c);
    int fd = open(path, O_RDONLY); /* of which somebody has read 10 bytes */
    ck_assert_int_eq(lseek(fd, 10, SEEK_SET), 10);
    ck_assert_int_eq(open_standard(&c, fd), LA_OK);
    ck_assert_int_eq(la_corpus_size(&c), 90);
    la_corpus_close(&c);
    ck_assert_int_eq(open_standard(&c, open("/dev/zero", O_RDONLY)), LA_DATA);
    says("standard input: it is a character device");
    ck_assert_int_eq(open_standard(&c, open(dir, O_RDONLY)), LA_DATA);
    says("Is a directory");
}
END_TEST

START_TEST(ids_past_2_to_the_32_are_read_from_a_file_without_copying) {
    const int64_t n = (INT64_C(1) << 32) + 100;
    int           fd = open(path, O_RDWR | O_CREAT, 0600);
    ck_assert_int_eq(ftruncate(fd, n), 0);
    ck_assert_int_eq(pwrite(fd, "AB", 2, n - 2), 2);
    ck_assert_int_eq(pwrite(fd, "C", 1, INT64_C(1) << 32), 1);
    close(fd);
    la_corpus     c;
    la_tokenizer *k = make("byte", "");
    int32_t       two[2];
    ck_assert_int_eq(la_corpus_open(&c, path), LA_OK);
    ck_assert_int_eq(la_corpus_split(&c, NULL, k, 0.25, 64), LA_OK);
    ck_assert_ptr_eq(c.ids.data, c.source.bytes);
    ck_assert_int_eq(c.train.n + c.valid.n, n);
    ck_assert_int_eq(la_ids_get(&c.ids, INT64_C(1) << 32), 'C');
    la_ids_copy(&c.valid, c.valid.n - 2, 2, two);
    ck_assert(two[0] == 'A' && two[1] == 'B');
    ck_assert_int_eq(la_eval_windows(n, 64), (n - 1) / 64);
    la_loader l;
    int64_t   furthest = 0, tokens = 0;
    ck_assert_int_eq(la_loader_init(&l, &c.ids, 1, 1, 7), LA_OK);
    for (int i = 0; i < 100; i++) {
        tokens = la_loader_start(&l, (uint64_t)i, 0);
        if (tokens > furthest) furthest = tokens;
    }
    ck_assert_int_gt(furthest, INT64_C(1) << 31);
    la_tokenizer_destroy(k);
    la_corpus_close(&c);
}
END_TEST

/* ---- splits ----------------------------------------------------------------------------- */

/* Splits a text of n tokens; c is closed again, its views must not be followed. */
static la_status split(la_corpus *c, size_t n, const char *kind, double frac, int64_t block) {
    la_tokenizer *k;
    write_run(path, n);
    ck_assert_int_eq(la_corpus_open(c, path), LA_OK);
    ck_assert_int_eq(la_tokenizer_create(&k, kind, la_corpus_text(c)), LA_OK);
    la_status s = la_corpus_split(c, NULL, k, frac, block);
    la_tokenizer_destroy(k);
    la_corpus kept = *c;
    la_corpus_close(c);
    *c = kept;
    return s;
}

START_TEST(the_cut_is_where_python_cuts) {
    ck_assert_int_eq(la_corpus_cut(1115394, 0.1), 1003854);
    ck_assert_int_eq(la_corpus_cut(1115394, 0), 1115394);
    ck_assert_int_eq(la_corpus_cut(10, 0.1), 9);
    ck_assert_int_eq(la_corpus_cut(19, 0.1), 17);
    ck_assert_int_eq(la_corpus_cut(INT64_C(1) << 40, 0.5), INT64_C(1) << 39);
    la_corpus c;
    for (int i = 0; la_tokenizer_kinds[i].name; i++) {
        ck_assert_int_eq(split(&c, 1115394, la_tokenizer_kinds[i].name, 0.1, 64), LA_OK);
        ck_assert_int_eq(c.train.n, 1003854);
        ck_assert_int_eq(c.valid.n, 111540);
    }
}
END_TEST

START_TEST(block_size_plus_one_tokens_are_just_enough) {
    la_corpus c;
    ck_assert_int_eq(split(&c, 65, "char", 0, 64), LA_OK);
    ck_assert_int_eq(c.train.n, 65);
    ck_assert_int_eq(c.valid.n, 0);
    ck_assert_int_eq(split(&c, 64, "char", 0, 64), LA_DATA);
    says("64 training tokens");
    says("at least 65");
    ck_assert_int_eq(split(&c, 130, "byte", 0.5, 64), LA_OK);
    ck_assert_int_eq(split(&c, 130, "byte", 0.6, 64), LA_DATA);
    says("52 training tokens");
    says("smaller --val-frac");
    ck_assert_int_eq(split(&c, 130, "byte", 0.1, 64), LA_DATA);
    says("13 validation tokens");
    says("that works is 0.5;");
    says("--val-frac 0 trains without");
    ck_assert_int_eq(split(&c, 129, "byte", 0.1, 64), LA_DATA);
    says("no --val-frac works");
    const double bad[] = {-0.1, 1, 1.5, strtod("nan", NULL)};
    for (int i = 0; i < 4; i++) ck_assert_int_eq(split(&c, 999, "byte", bad[i], 64), LA_ARG);
    ck_assert_int_eq(split(&c, 999, "byte", 0, 0), LA_ARG);
    ck_assert_int_eq(split(&c, 999, "byte", 0, INT64_MAX), LA_ARG);
}
END_TEST

START_TEST(the_val_frac_that_is_offered_works_when_typed_and_less_does_not) {
    la_corpus c;
    for (size_t n = 130; n < 60000; n += n / 7) {
        ck_assert_int_eq(split(&c, n, "byte", 1e-9, 64), LA_DATA);
        const char *at = strstr(la_error(), "that works is ");
        ck_assert_ptr_nonnull(at);
        double frac = strtod(at + strlen("that works is "), NULL);
        ck_assert_int_eq(split(&c, n, "byte", frac, 64), LA_OK);
        ck_assert_int_eq(c.valid.n, 65);
        ck_assert_int_eq(split(&c, n, "byte", frac - 1.0 / (double)n, 64), LA_DATA);
    }
}
END_TEST

START_TEST(a_validation_file_leaves_all_of_the_text_for_training) {
    la_corpus     c, v;
    la_tokenizer *k;
    write_run(path, 100);
    write_run(other, 65);
    ck_assert_int_eq(la_corpus_open(&c, path), LA_OK);
    ck_assert_int_eq(la_corpus_open(&v, other), LA_OK);
    ck_assert_int_eq(la_tokenizer_create(&k, "char", la_corpus_text(&c)), LA_OK);
    ck_assert_int_eq(la_corpus_split(&c, &v, k, 0.1, 64), LA_OK);
    ck_assert_int_eq(c.train.n, 100);
    ck_assert_int_eq(c.valid.n, 65);
    ck_assert_int_eq(la_corpus_split(&c, &v, k, 0.1, 65), LA_DATA);
    says("the validation text");
    says("65 tokens");
    says("at least 66");
    la_corpus_close(&v);
    write_file(other, "abcabd", 6);
    ck_assert_int_eq(la_corpus_open(&v, other), LA_OK);
    ck_assert_int_eq(la_corpus_split(&c, &v, k, 0.1, 5), LA_DATA);
    says("the validation text");
    says("\"d\" (U+0064) at position 5");
    la_corpus_close(&v);
    la_corpus_close(&c);
    ck_assert_int_eq(la_corpus_encode(&c, k), LA_STATE);
    la_tokenizer_destroy(k);
}
END_TEST

/* ---- batches ---------------------------------------------------------------------------- */

START_TEST(a_batch_depends_on_seed_step_and_row_alone) {
    uint16_t data[1000];
    for (int i = 0; i < 1000; i++) data[i] = (uint16_t)(i * 7);
    la_ids    ids = {data, 2, 1000};
    la_loader l, twin, single, seed2;
    int32_t   x[4][8], y[4][8], x2[4][8], y2[4][8];
    ck_assert_int_eq(la_loader_init(&l, &ids, 4, 8, 1), LA_OK);
    ck_assert_int_eq(la_loader_init(&twin, &ids, 4, 8, 1), LA_OK);
    ck_assert_int_eq(la_loader_init(&single, &ids, 1, 8, 1), LA_OK);
    ck_assert_int_eq(la_loader_init(&seed2, &ids, 4, 8, 2), LA_OK);
    la_loader_fill(&l, 5, x2[0], y2[0]);
    la_loader_fill(&l, 3, x[0], y[0]);
    la_loader_fill(&twin, 3, x2[0], y2[0]);
    ck_assert_mem_eq(x, x2, sizeof x);
    ck_assert_mem_eq(y, y2, sizeof y);
    for (int r = 0; r < 4; r++) {
        int64_t s = la_loader_start(&l, 3, r);
        ck_assert_int_eq(la_loader_start(&single, (uint64_t)(3 * 4 + r), 0), s);
        for (int t = 0; t < 8; t++) ck_assert(x[r][t] == (s + t) * 7 && y[r][t] == x[r][t] + 7);
    }
    la_loader_fill(&l, 4, x2[0], y2[0]);
    ck_assert_mem_ne(x, x2, sizeof x);
    la_loader_fill(&seed2, 3, x2[0], y2[0]);
    ck_assert_mem_ne(x, x2, sizeof x);
    ck_assert_int_eq(la_loader_init(&l, &ids, 0, 8, 1), LA_ARG);
    ck_assert_int_eq(la_loader_init(&l, &ids, 4, 0, 1), LA_ARG);
    ck_assert_int_eq(la_loader_init(&l, &ids, 4, 1000, 1), LA_DATA);
    ck_assert_int_eq(la_loader_init(&l, &ids, 4, 999, 1), LA_OK);
    ck_assert_int_eq(la_loader_start(&l, 9, 3), 0); /* the only place there is */
}
END_TEST

START_TEST(each_window_is_drawn_equally_often_from_the_first_to_the_last) {
    enum { N = 20, SEQ = 4, PLACES = N - SEQ, DRAWS = 1000 * PLACES };
    uint8_t   data[N] = {0};
    la_ids    ids = {data, 1, N};
    int       count[PLACES] = {0};
    double    chi2 = 0;
    la_loader l;
    ck_assert_int_eq(la_loader_init(&l, &ids, 10, SEQ, 1337), LA_OK);
    for (int i = 0; i < DRAWS; i++) {
        int64_t s = la_loader_start(&l, (uint64_t)i / 10, i % 10);
        if (s < 0 || s >= PLACES) ck_abort_msg("start %d", (int)s);
        count[s]++;
    }
    for (int i = 0; i < PLACES; i++) chi2 += (count[i] - 1000) * (count[i] - 1000) / 1000.0;
    ck_assert_double_lt(chi2, 37.7); /* 15 degrees of freedom: exceeded by 1 in 1000 */
}
END_TEST

START_TEST(evaluation_covers_each_target_once_and_leaves_a_tail_out) {
    static const int64_t n[] = {0, 1, 3, 4, 6, 7, 9, 10}, windows[] = {0, 0, 0, 1, 1, 2, 2, 3};
    uint8_t              data[10];
    for (int i = 0; i < 10; i++) data[i] = (uint8_t)(i + 100);
    la_ids  ids = {data, 1, n[_i]};
    int32_t x[4][3], y[4][3];
    ck_assert_int_eq(la_eval_windows(n[_i], 3), windows[_i]);
    for (int64_t first = 0; first < 2; first++) {
        la_eval_fill(&ids, 3, first, 4, x[0], y[0]);
        for (int64_t r = 0; r < 4; r++)
            for (int64_t t = 0; t < 3; t++) {
                bool real = first + r < windows[_i];
                ck_assert_int_eq(x[r][t], real ? 100 + (first + r) * 3 + t : 0);
                ck_assert_int_eq(y[r][t], real ? x[r][t] + 1 : LA_NO_TARGET);
            }
    }
}
END_TEST

/* ---- the masked objective --------------------------------------------------------------- */

enum { VOCAB = 9, MASK = VOCAB };

/* Rows of a text that is known at each place. */
static void mask(uint64_t seed, uint64_t first, int64_t rows, int64_t seq, int32_t *tokens,
                 int32_t *labels) {
    for (int64_t i = 0; i < rows * seq; i++)
        tokens[i] = (int32_t)((first * (uint64_t)seq + (uint64_t)i) * 5 % VOCAB);
    la_mask_rows(seed, first, rows, seq, VOCAB, tokens, labels);
}

START_TEST(each_row_has_as_many_labels_and_the_rest_is_as_it_was) {
    enum { ROWS = 20, MOST = 70 };
    int32_t x[ROWS * MOST], was[ROWS * MOST], y[ROWS * MOST];
    for (int64_t seq = 1; seq <= MOST; seq++) {
        int64_t want = (int64_t)fmax(1, floor(0.15 * (double)seq + 0.5 + 1e-9));
        ck_assert_int_eq(la_masked_count(seq), want);
        mask(1, 0, ROWS, seq, x, y);
        for (int64_t i = 0; i < ROWS * seq; i++) was[i] = (int32_t)(i * 5 % VOCAB);
        for (int64_t r = 0; r < ROWS; r++) {
            int64_t labels = 0;
            for (int64_t i = r * seq; i < (r + 1) * seq; i++) {
                labels += y[i] != LA_NO_TARGET;
                ck_assert_int_eq(y[i], y[i] == LA_NO_TARGET ? LA_NO_TARGET : was[i]);
                if (y[i] == LA_NO_TARGET) ck_assert_int_eq(x[i], was[i]);
                ck_assert(x[i] >= 0 && x[i] <= MASK);
            }
            ck_assert_int_eq(labels, want);
        }
    }
    ck_assert_int_eq(la_masked_count(64), 10);
    ck_assert_int_eq(la_masked_count(INT64_C(1) << 40), 164926744166);
}
END_TEST

static void is_part(const char *what, int64_t count, int64_t of, double p) {
    double part = (double)count / (double)of, error = sqrt(p * (1 - p) / (double)of);
    ck_assert_msg(fabs(part - p) < 4 * error, "%s: %g of %lld, and not %g +- %g", what, part,
                  (long long)of, p, error);
}

START_TEST(eight_tenths_are_masked_one_is_random_and_one_stays) {
    enum { ROWS = 4000, SEQ = 64, N = ROWS * SEQ };
    int32_t *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    int64_t  hidden = 0, same = 0, labels = 0, others = 0, instead[VOCAB] = {0};
    mask(7, 0, ROWS, SEQ, x, y);
    for (int i = 0; i < N; i++) {
        if (y[i] == LA_NO_TARGET) continue;
        labels++;
        hidden += x[i] == MASK;
        same += x[i] == y[i];
        if (x[i] != MASK && x[i] != y[i]) others++, instead[x[i]]++;
    }
    ck_assert_int_eq(labels, 10 * ROWS);
    is_part("[MASK]", hidden, labels, 0.8);
    is_part("as it was", same, labels, 0.1 + 0.1 / VOCAB); /* a random token may be the same */
    for (int v = 0; v < VOCAB; v++) is_part("another token", instead[v], others, 1.0 / VOCAB);
    free(x);
    free(y);
}
END_TEST

START_TEST(each_set_of_places_is_drawn_equally_often) {
    enum { SEQ = 10, PAIRS = 45, ROWS = 1000 * PAIRS };
    int     count[SEQ * SEQ] = {0};
    double  chi2 = 0;
    int32_t x[SEQ], y[SEQ];
    for (uint64_t row = 0; row < ROWS; row++) {
        int pair = 0;
        mask(1337, row, 1, SEQ, x, y);
        for (int t = 0; t < SEQ; t++)
            if (y[t] != LA_NO_TARGET) pair = pair * SEQ + t;
        count[pair]++;
    }
    for (int a = 0; a < SEQ; a++)
        for (int b = a + 1; b < SEQ; b++)
            chi2 += (count[a * SEQ + b] - 1000) * (count[a * SEQ + b] - 1000) / 1000.0;
    ck_assert_double_lt(chi2, 78.8); /* 44 degrees of freedom: exceeded by 1 in 1000 */
}
END_TEST

START_TEST(masks_depend_on_seed_and_number_of_the_row_alone) {
    enum { SEQ = 40 };
    int32_t x[6][SEQ], y[6][SEQ], x2[6][SEQ], y2[6][SEQ];
    mask(3, 6, 6, SEQ, x[0], y[0]);
    for (uint64_t r = 0; r < 6; r++) mask(3, 6 + r, 1, SEQ, x2[r], y2[r]);
    ck_assert_mem_eq(x, x2, sizeof x);
    ck_assert_mem_eq(y, y2, sizeof y);
    for (int r = 0; r < 6; r++) /* where the labels are, not which */
        for (int t = 0; t < SEQ; t++) y[r][t] = y[r][t] != LA_NO_TARGET;
    for (int r = 1; r < 6; r++) ck_assert_mem_ne(y[r], y[0], sizeof y[0]);
    const struct {
        uint64_t seed, first;
    } others[] = {{4, 6}, {3, 12}, {LA_EVAL_MASK_SEED, 6}, {LA_EVAL_MASK_SEED + 3, 6}};
    for (int i = 0; i < 4; i++) {
        mask(others[i].seed, others[i].first, 6, SEQ, x2[0], y2[0]);
        for (int r = 0; r < 6; r++) {
            for (int t = 0; t < SEQ; t++) y2[r][t] = y2[r][t] != LA_NO_TARGET;
            ck_assert_mem_ne(y[r], y2[r], sizeof y[r]);
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("data");
    TCase *t = add_case(suite, "data");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_code_point_survives_utf8_and_surrogates_do_not);
    tcase_add_loop_test(t, malformed_utf8_is_refused_at_its_first_byte, 0,
                        sizeof malformed / sizeof *malformed);
    tcase_add_loop_test(t, decode_inverts_encode_and_ids_follow_code_points, 0, 2);
    tcase_add_test(t, an_unknown_character_is_named_with_code_point_and_position);
    tcase_add_test(t, a_stored_tokenizer_is_loaded_or_refused);
    tcase_add_loop_test(t, ids_take_as_many_bytes_as_the_vocabulary_needs, 0, 4);
    tcase_add_test(t, what_is_no_text_is_refused_with_its_name);
    tcase_add_test(t, a_byte_order_mark_is_skipped_and_line_ends_are_kept_and_both_are_noted);
    tcase_add_test(t, the_hash_is_fnv1a_of_all_bytes_in_any_portions);
    tcase_add_test(t, a_fifo_is_read_to_its_end_and_up_to_its_limit);
    tcase_add_test(t, standard_input_may_be_a_pipe_or_a_file_and_no_device);
    tcase_add_test(t, ids_past_2_to_the_32_are_read_from_a_file_without_copying);
    tcase_add_test(t, the_cut_is_where_python_cuts);
    tcase_add_test(t, block_size_plus_one_tokens_are_just_enough);
    tcase_add_test(t, the_val_frac_that_is_offered_works_when_typed_and_less_does_not);
    tcase_add_test(t, a_validation_file_leaves_all_of_the_text_for_training);
    tcase_add_test(t, a_batch_depends_on_seed_step_and_row_alone);
    tcase_add_test(t, each_window_is_drawn_equally_often_from_the_first_to_the_last);
    tcase_add_loop_test(t, evaluation_covers_each_target_once_and_leaves_a_tail_out, 0, 8);
    tcase_add_test(t, each_row_has_as_many_labels_and_the_rest_is_as_it_was);
    tcase_add_test(t, eight_tenths_are_masked_one_is_random_and_one_stays);
    tcase_add_test(t, each_set_of_places_is_drawn_equally_often);
    tcase_add_test(t, masks_depend_on_seed_and_number_of_the_row_alone);
    return run_suite(suite);
}
