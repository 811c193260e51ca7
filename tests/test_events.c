/* test_events.c -- event files: published checksums, the bytes TensorBoard's own writer makes, and
 * what a small reader of records finds in them; the columns of the metrics. */
#include "testing.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/events.h"
#include "train/trackers.h"

static char dir[] = P_tmpdir "/lina-events.XXXXXX";

static void make_dir(void) {
    strcpy(dir + sizeof dir - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void) {
    struct dirent *e;
    DIR           *d = opendir(dir);
    char           path[512];
    while (d && (e = readdir(d))) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        unlink(path);
    }
    if (d) closedir(d);
    rmdir(dir);
}

static unsigned char *content(const char *path, size_t *n) {
    static unsigned char bytes[1 << 16];
    FILE                *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    *n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    return bytes;
}

/* RFC 3720, B.4; the last is the check value of the catalogues of checksums. */
START_TEST(checksums_are_the_published_ones) {
    unsigned char b[32];
    ck_assert_uint_eq(la_crc32c(memset(b, 0, 32), 32), 0x8a9136aa);
    ck_assert_uint_eq(la_crc32c(memset(b, 0xff, 32), 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++) b[i] = (unsigned char)i;
    ck_assert_uint_eq(la_crc32c(b, 32), 0x46dd794e);
    for (int i = 0; i < 32; i++) b[i] = (unsigned char)(31 - i);
    ck_assert_uint_eq(la_crc32c(b, 32), 0x113fdb5c);
    ck_assert_uint_eq(la_crc32c("123456789", 9), 0xe3069283);
    ck_assert_uint_eq(la_crc32c("", 0), 0);
}
END_TEST

/* The bytes are what TensorBoard 2's RecordWriter writes of the same four messages. */
START_TEST(a_file_has_the_bytes_of_tensorboards_writer) {
    static const char want[] = "\x18\x00\x00\x00\x00\x00\x00\x00\xa3\x7f\x4b\x22\x09\x00\x00\x00"
                               "\x00\x00\x00\xf8\x3f\x1a\x0d\x62"
                               "\x72\x61\x69\x6e\x2e\x45\x76\x65\x6e\x74\x3a\x32\x2a\x28\x64\x6c"
                               "\x10\x00\x00\x00\x00\x00\x00\x00"
                               "\x95\xfb\xfe\x18\x09\x00\x00\x00\x00\x00\x00\x04\x40\x10\xad\x02"
                               "\x3a\x02\x08\x01\x9d\xaf\x86\xaf"
                               "\x2b\x00\x00\x00\x00\x00\x00\x00\x86\x1b\xc3\x4b\x09\x00\x00\x00"
                               "\x00\x00\x00\x02\xc0\x10\x80\x89"
                               "\x7a\x2a\x1c\x0a\x09\x0a\x02\x6c\x72\x15\x00\x00\x00\x3f\x0a\x0f"
                               "\x0a\x08\x6c\x6f\x73\x73\x2f\x76"
                               "\x61\x6c\x15\x00\x00\x40\xc0\x22\x70\xd4\xf8\x16\x00\x00\x00\x00"
                               "\x00\x00\x00\x4f\x61\xbe\x28\x09"
                               "\x00\x00\x00\x00\x00\x00\xe0\x3f\x2a\x0b\x0a\x09\x0a\x02\x6c\x72"
                               "\x15\x00\x00\x80\x3f\x51\x0a\x3f"
                               "\xfb";
    la_events         e;
    size_t            n;
    const la_scalar   two[] = {{"lr", 0.5}, {"loss/val", -3}}, one[] = {{"lr", 1}};
    OK(la_events_open(&e, dir, 1.5));
    OK(la_events_restart(&e, 2.5, 301));
    OK(la_events_scalars(&e, -2.25, 2000000, 2, two));
    OK(la_events_scalars(&e, 0.5, 0, 1, one));
    const unsigned char *bytes = content(e.path, &n);
    ck_assert_uint_eq(n, sizeof want - 1);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(bytes[i] == (unsigned char)want[i], "byte %zu is %02x and not %02x", i,
                      bytes[i], (unsigned char)want[i]);
    ck_assert_int_eq(e.end, (int64_t)n);
    la_append_close(&e);
}
END_TEST

/* --- a reader that shares nothing with the writer --- */

static uint64_t little(const unsigned char *b, int n) {
    uint64_t x = 0;
    while (n-- > 0) x = x * 256 + b[n];
    return x;
}

/* The definition, a bit at a time. */
static uint32_t slow_crc(const unsigned char *b, size_t n) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < 8 * n; i++) {
        uint32_t out = (crc ^ b[i / 8] >> i % 8) & 1;
        crc = crc >> 1 ^ (out ? 0x82f63b78 : 0);
    }
    return crc ^ 0xffffffff;
}

static int checksum_holds(const unsigned char *b, size_t n) { /* which follows the n bytes */
    uint32_t unmasked = (uint32_t)(little(b + n, 4) - 0xa282ead8);
    return (unmasked >> 17 | unmasked << 15) == slow_crc(b, n);
}

/* The number of records; the length of record i goes to length[i]. */
static int records(const char *path, int most, size_t *length) {
    size_t               n, at = 0;
    const unsigned char *b = content(path, &n);
    int                  count = 0;
    for (; at < n && count < most; count++) {
        ck_assert_uint_ge(n - at, 12);
        size_t size = length[count] = little(b + at, 8);
        ck_assert(checksum_holds(b + at, 8));
        ck_assert_uint_ge(n - at, size + 16);
        ck_assert(checksum_holds(b + at + 12, size));
        ck_assert_uint_eq(b[at + 12], 1 << 3 | 1); /* wall_time */
        at += size + 16;
    }
    ck_assert_uint_eq(at, n);
    return count;
}

START_TEST(records_of_any_length_are_framed) {
    enum { N = 40 };
    la_events e;
    size_t    length[N + 2];
    char      tag[N * 10 + 1];
    OK(la_events_open(&e, dir, 1e9));
    for (int i = 0; i < N; i++) { /* lengths of one byte and of two */
        memset(tag, 'a', sizeof tag);
        tag[i * 10] = 0;
        OK(la_events_scalars(&e, i, 1, 1, &(la_scalar){tag, i}));
    }
    ck_assert_int_eq(records(e.path, N + 2, length), N + 1);
    ck_assert_uint_eq(length[0], 24);
    for (int i = 0; i < N; i++) {
        size_t text = (size_t)i * 10, bytes = text > 127 ? 2 : 1, value = 1 + bytes + text + 5,
               summary = 1 + (value > 127 ? 2 : 1) + value;
        ck_assert_uint_eq(length[i + 1], 9 + 2 + 1 + (summary > 127 ? 2 : 1) + summary);
    }
    la_append_close(&e);
}
END_TEST

START_TEST(a_step_of_any_size_is_a_varint) {
    enum { N = 7, STEP = 8 + 4 + 9 }; /* behind the head and wall_time */
    static const int64_t steps[N] = {1, 127, 128, 16383, 16384, 1000000000000, INT64_MAX};
    la_events            e;
    size_t               n, at = 0;
    OK(la_events_open(&e, dir, 1));
    for (int i = 0; i < N; i++) OK(la_events_restart(&e, 1, steps[i]));
    const unsigned char *b = content(e.path, &n);
    for (int i = 0; i < N; i++) {
        at += little(b + at, 8) + 16;
        const unsigned char *x = b + at + STEP;
        uint64_t             step = 0;
        ck_assert_uint_eq(*x, 2 << 3);
        for (int shift = 0; shift == 0 || *x > 127; shift += 7) step |= (*++x & 127ULL) << shift;
        ck_assert_int_eq((int64_t)step, steps[i]);
        ck_assert_uint_eq(x[1], 7 << 3 | 2);
    }
    la_append_close(&e);
}
END_TEST

START_TEST(an_event_that_is_too_long_is_a_sentence) {
    static char tag[2 * LA_EVENT_BYTES];
    la_scalar   many[LA_EVENT_BYTES / 64];
    la_events   e;
    size_t      length[4];
    OK(la_events_open(&e, dir, 1));
    memset(tag, 'a', sizeof tag - 1);
    FAILS(la_events_scalars(&e, 1, 1, 1, &(la_scalar){tag, 1}), LA_ARG, "more than 4096 bytes");
    memset(tag, 0, sizeof tag);
    memset(tag, 'b', 64);
    for (int i = 0; i < LA_EVENT_BYTES / 64; i++) many[i] = (la_scalar){tag, 1};
    FAILS(la_events_scalars(&e, 1, 1, LA_EVENT_BYTES / 64, many), LA_ARG, "more than 4096 bytes");
    many[0].tag = "";
    FAILS(la_events_scalars(&e, 1, 1, LA_EVENT_BYTES / 64, many), LA_ARG, "more than 4096 bytes");
    OK(la_events_scalars(&e, 1, 1, LA_EVENT_BYTES / 128, many));
    ck_assert_int_eq(records(e.path, 4, length), 2);
    la_append_close(&e);
}
END_TEST

/* TensorBoard reads them in the order of their names: also within a second, and if the clock is put
 * back. */
START_TEST(later_files_have_later_names) {
    static const double clock[] = {1700000000.9, 1700000000.9, 1600000000, 1700000005};
    static const char  *seconds[] = {"1700000000.", "1700000001.", "1700000002.", "1700000005."};
    const char         *name;
    la_events           e;
    for (int i = 0; i < 4; i++) {
        OK(la_events_open(&e, dir, clock[i]));
        name = strrchr(e.path, '/') + 1;
        ck_assert(la_events_name(name));
        ck_assert_msg(!strncmp(name + strlen("events.out.tfevents."), seconds[i], 11), "%s", name);
        la_append_close(&e);
    }
    ck_assert(!la_events_name("metrics.jsonl"));
    ck_assert(!la_events_name("events.out"));
    FAILS(la_events_open(&e, "no/such/folder", 1), LA_IO, "No such file");
    la_append_close(&e);
}
END_TEST

/* No file may grow beyond so many bytes, as if the disk were full; nor may Check's own, so that
 * nothing is asserted before the limit is lifted. */
static struct rlimit unlimited;

static void limit_files(int64_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    struct rlimit l = unlimited;
    l.rlim_cur = (rlim_t)bytes;
    setrlimit(RLIMIT_FSIZE, &l);
}

static void lift_limit(void) {
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    signal(SIGXFSZ, SIG_DFL);
}

/* A full disk takes a part of a record: that is cut off, and all come when there is room. */
START_TEST(a_failed_write_leaves_no_torn_record) {
    la_events e;
    size_t    length[8];
    OK(la_events_open(&e, dir, 1));
    OK(la_events_scalars(&e, 1, 1, 1, &(la_scalar){"x", 1}));
    limit_files(e.end + 20);
    la_status part = la_events_scalars(&e, 2, 2, 1, &(la_scalar){"x", 2}),
              none = la_events_scalars(&e, 2, 3, 1, &(la_scalar){"x", 2});
    lift_limit();
    ck_assert_int_eq(part, LA_IO);
    ck_assert_int_eq(none, LA_IO);
    ck_assert_ptr_nonnull(strstr(la_error(), e.path));
    ck_assert_int_eq(records(e.path, 8, length), 2);
    OK(la_events_scalars(&e, 3, 4, 1, &(la_scalar){"a longer tag, over what was left", 3}));
    ck_assert_int_eq(records(e.path, 8, length), 5);
    la_append_close(&e);
}
END_TEST

START_TEST(a_failed_write_leaves_no_torn_line) {
    static const char head[] =
        "step,loss,accuracy,val_loss,val_accuracy,lr,grad_norm,skipped,ms,tokens_per_s,elapsed_s,rss_bytes\n"
        "1,0.5,,0.5,,0.5,0.5,,0.5,0.5,0.5,7\n";
    la_metrics  m = {.step = 1,
                     .loss = .5,
                     .accuracy = NAN,
                     .val_loss = .5,
                     .val_accuracy = NAN,
                     .norm = .5,
                     .lr = .5,
                     .ms = .5,
                     .tokens_per_s = .5,
                     .elapsed_s = .5,
                     .rss_bytes = 7};
    la_trackers t;
    char        path[64], want[512];
    size_t      n;
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    fclose(fopen(path, "w"));
    OK(la_trackers_open(&t, dir, 1, 0, -1));
    la_trackers_line(&t, &m);
    int tty = dup(2), null = open("/dev/null", O_WRONLY);
    dup2(null, 2); /* where the warning goes */
    limit_files((int64_t)sizeof head - 1 + 20);
    for (m.step = 2; m.step < 4; m.step++) la_trackers_line(&t, &m);
    lift_limit();
    dup2(tty, 2);
    close(tty);
    close(null);
    ck_assert(t.csv.told);
    const unsigned char *csv = content(t.csv_path, &n);
    ck_assert_msg(n == strlen(head) && !memcmp(csv, head, n), "%.*s", (int)n, (const char *)csv);
    m.loss = m.val_loss = m.norm = m.lr = m.tokens_per_s = NAN;
    la_trackers_line(&t, &m);
    snprintf(want, sizeof want,
             "%s2,0.5,,0.5,,0.5,0.5,,0.5,0.5,0.5,7\n3,0.5,,0.5,,0.5,0.5,,0.5,0.5,0.5,7\n"
             "4,,,,,,,,0.5,,0.5,7\n",
             head);
    csv = content(t.csv_path, &n);
    ck_assert_msg(n == strlen(want) && !memcmp(csv, want, n), "%.*s", (int)n, (const char *)csv);
    la_trackers_close(&t);
}
END_TEST

/* --- pieces at the end of a file --- */

static void is_file(const char *path, const char *want) {
    size_t      n;
    const char *got = (const char *)content(path, &n);
    ck_assert_msg(n == strlen(want) && !memcmp(got, want, n), "%s: %.*s", path, (int)n, got);
}

/* What la_append_close() says on standard error, in a static buffer. */
static const char *close_and_listen(la_append *a) {
    static char said[1024];
    char        path[64];
    size_t      n;
    snprintf(path, sizeof path, "%s/said", dir);
    int was = dup(2), to = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(to, 2);
    la_append_close(a);
    dup2(was, 2);
    close(was);
    close(to);
    const unsigned char *bytes = content(path, &n);
    snprintf(said, sizeof said, "%.*s", (int)n, (const char *)bytes);
    return said;
}

START_TEST(lost_pieces_leave_one_gap_and_are_counted) {
    static char large[LA_APPEND_LATE / 2 + 100];
    la_append   a;
    la_status   s[3];
    char        path[64];
    snprintf(path, sizeof path, "%s/lines\x1b[31m", dir);
    memset(large, 'x', sizeof large);
    OK(la_append_open(&a, path, O_CREAT, 0));
    OK(la_append_put(&a, "a\n", 2));
    limit_files(2);
    s[0] = la_append_put(&a, large, sizeof large); /* is kept */
    s[1] = la_append_put(&a, large, sizeof large); /* the second is one too many */
    s[2] = la_append_put(&a, "c\n", 2);            /* would have room, and would hide the gap */
    la_status flushed = la_append_flush(&a);
    lift_limit();
    for (int i = 0; i < 3; i++) ck_assert_int_eq(s[i], LA_IO);
    ck_assert_int_eq(flushed, LA_IO);
    ck_assert_int_eq(a.lost, 2);
    OK(la_append_flush(&a));
    ck_assert_int_eq(a.end, 2 + (int64_t)sizeof large);
    OK(la_append_put(&a, "d\n", 2));
    ck_assert_int_eq(a.end, 4 + (int64_t)sizeof large);
    const char *said = close_and_listen(&a);
    ck_assert_msg(strstr(said, "/lines?[31m 2 lines or records are missing: ") != NULL, "%s", said);
    ck_assert_msg(strstr(said, "the end of") == NULL, "%s", said);
    OK(la_append_flush(&a)); /* of one that is not open */
}
END_TEST

START_TEST(what_waits_is_written_before_its_end_is_replaced) {
    la_append a;
    char      path[64];
    snprintf(path, sizeof path, "%s/lines", dir);
    OK(la_append_open(&a, path, O_CREAT, 0));
    OK(la_append_put(&a, "{a}\n", 4));
    limit_files(4);
    la_status put = la_append_put(&a, "{b}\n", 4), replaced = la_append_replace(&a, 2, "!}\n", 3);
    lift_limit();
    ck_assert_int_eq(put, LA_IO);
    ck_assert_int_eq(replaced, LA_IO);
    is_file(path, "{a}\n");
    OK(la_append_replace(&a, 2, "!}\n", 3));
    is_file(path, "{a}\n{b!}\n");
    FAILS(la_append_replace(&a, 9, "!", 1), LA_ARG, "9 bytes of");
    is_file(path, "{a}\n{b!}\n");
    ck_assert_str_eq(close_and_listen(&a), "");
    OK(la_append_open(&a, path, O_CREAT, 1));
    FAILS(la_append_replace(&a, 2, "!", 1), LA_ARG, "there are 1");
    is_file(path, "{");
    ck_assert_str_eq(close_and_listen(&a), "");
}
END_TEST

START_TEST(a_csv_that_cannot_be_made_anew_goes_on_as_it_was) {
    la_trackers t;
    la_metrics  m = {.step = 1, .ms = 1};
    char        jsonl[64], next[64], path[64], head[LA_METRICS_TEXT];
    size_t      n;
    snprintf(jsonl, sizeof jsonl, "%s/metrics.jsonl", dir);
    snprintf(next, sizeof next, "%s/metrics.csv.tmp", dir);
    snprintf(path, sizeof path, "%s/metrics.csv", dir);
    FILE *f = fopen(jsonl, "w");
    fputs("{\"step\": 7}\n", f);
    fclose(f);
    OK(la_trackers_open(&t, dir, 1, 0, -1));
    la_csv_header(head);
    strcat(head, "7,,,,,,,,,,,\n");
    is_file(path, head);
    ck_assert_int_eq(mkdir(next, 0777), 0); /* in the way */
    int tty = dup(2), null = open("/dev/null", O_WRONLY);
    dup2(null, 2); /* where the warning goes */
    la_trackers_val_loss(&t, 7, 1, NAN);
    dup2(tty, 2);
    close(tty);
    close(null);
    ck_assert(t.csv.told);
    is_file(path, head);
    la_trackers_line(&t, &m);
    content(path, &n);
    ck_assert_uint_gt(n, strlen(head)); /* there, and not in a file that has no name */
    ck_assert_int_eq(rmdir(next), 0);
    la_trackers_val_loss(&t, 7, 1, NAN);
    is_file(path, head);
    ck_assert_msg(t.csv.told, "it would be told again");
    ck_assert_str_eq(t.csv.path, path);
    la_trackers_close(&t);
}
END_TEST

/* --- columns --- */

START_TEST(a_line_of_csv_has_the_text_of_the_json) {
    la_metrics m = {.step = 1250,
                    .loss = 1.8756,
                    .accuracy = 0.75,
                    .val_loss = 2.0089,
                    .val_accuracy = 0.5,
                    .norm = 0.62,
                    .skipped = 3,
                    .lr = 5.1e-4,
                    .ms = 18.2,
                    .tokens_per_s = 42100,
                    .elapsed_s = 30,
                    .rss_bytes = 118 << 20};
    char json[LA_METRICS_TEXT], csv[3 * LA_METRICS_TEXT];
    la_metrics_json(&m, json);
    size_t n = la_csv_header(csv);
    n += la_csv_line(json, csv + n);
    m.loss = m.accuracy = m.norm = m.lr = NAN;
    m.step = 0;
    m.tokens_per_s = m.skipped = 0;
    la_metrics_json(&m, json);
    n += la_csv_line(json, csv + n);
    la_csv_line("{\"step\": 7, \"val_loss\": 1e-05}\n", csv + n);
    ck_assert_str_eq(csv, "step,loss,accuracy,val_loss,val_accuracy,lr,grad_norm,skipped,ms,tokens_per_s,elapsed_s,rss_bytes\n"
                          "1250,1.8756,0.75,2.0089,0.5,0.00051,0.62,3,18.2,42100,30,123731968\n"
                          "0,,,2.0089,0.5,,,,18.2,,30,123731968\n"
                          "7,,,1e-05,,,,,,,,\n");
}
END_TEST

START_TEST(columns_have_names_and_tags_of_their_own) {
    int any = 0;
    for (const la_column *c = la_columns; c->name; c++)
        for (const la_column *d = la_columns; d < c; d++) {
            any = 1;
            ck_assert_str_ne(c->name, d->name);
            if (c->tag && d->tag) ck_assert_str_ne(c->tag, d->tag);
        }
    ck_assert(any);
    ck_assert_str_eq(la_columns[0].name, "step");
    ck_assert_ptr_null(la_columns[LA_COLUMNS - 1].name);
}
END_TEST

int main(void) {
    Suite *s = suite_create("events");
    TCase *files = add_case(s, "files"), *columns = add_case(s, "columns");
    tcase_add_checked_fixture(files, make_dir, remove_dir);
    tcase_add_test(files, checksums_are_the_published_ones);
    tcase_add_test(files, a_file_has_the_bytes_of_tensorboards_writer);
    tcase_add_test(files, records_of_any_length_are_framed);
    tcase_add_test(files, a_step_of_any_size_is_a_varint);
    tcase_add_test(files, an_event_that_is_too_long_is_a_sentence);
    tcase_add_test(files, later_files_have_later_names);
    tcase_add_test(files, a_failed_write_leaves_no_torn_record);
    tcase_add_test(files, a_failed_write_leaves_no_torn_line);
    tcase_add_test(files, lost_pieces_leave_one_gap_and_are_counted);
    tcase_add_test(files, what_waits_is_written_before_its_end_is_replaced);
    tcase_add_test(files, a_csv_that_cannot_be_made_anew_goes_on_as_it_was);
    tcase_add_test(columns, a_line_of_csv_has_the_text_of_the_json);
    tcase_add_test(columns, columns_have_names_and_tags_of_their_own);
    return run_suite(s);
}
