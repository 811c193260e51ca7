/* test_measure.c -- child processes and what they say; bench and gradcheck as such; what is made of
 * their rows. */
#include "models.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/compare/child.h"
#include "train/compare/measure.h"
#include "train/compare/measured.h"
#include "train/memory_plan.h"
#include "train/system.h"

/* --- memory that is free --- */

static char machine[64]; /* a folder with files as those of /proc and /sys */

static void put(const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", machine, name);
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        mkdir(path, 0777);
        *p = '/';
    }
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

static void new_machine(const char *groups) {
    snprintf(machine, sizeof machine, P_tmpdir "/lina-machine-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(machine));
    put("proc/meminfo", "MemTotal:     9000 kB\nMemFree:      100 kB\nMemAvailable: 4000 kB\n");
    put("proc/self/cgroup", groups);
}

static void free_is(size_t want) { ck_assert_uint_eq(la_memory_available_in(machine), want); }

static void forget_machine(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", machine);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(what_is_free_with_cgroups_of_version_2) {
    new_machine("0::/user/job\n");
    free_is(4000 << 10);
    put("sys/fs/cgroup/user/job/memory.max", "max\n");
    put("sys/fs/cgroup/user/job/memory.current", "1000000\n");
    free_is(4000 << 10);
    put("sys/fs/cgroup/user/job/memory.max", "3000000\n");
    free_is(2000000);
    put("sys/fs/cgroup/user/job/memory.stat", "anon 7\ninactive_file 400000\nactive_file 9\n");
    free_is(2400000);
    put("sys/fs/cgroup/user/memory.max", "1500000\n"); /* a group above it */
    put("sys/fs/cgroup/user/memory.current", "1100000\n");
    free_is(400000);
    put("sys/fs/cgroup/memory.max", "600000\n"); /* as within a container */
    put("sys/fs/cgroup/memory.current", "500000\n");
    free_is(100000);
    put("sys/fs/cgroup/memory.current", "600001\n"); /* above the limit: next to nothing */
    free_is(1);
    put("sys/fs/cgroup/memory.max", "60000000000\n"); /* more than the machine has */
    put("sys/fs/cgroup/user/memory.max", "60000000000\n");
    put("sys/fs/cgroup/user/job/memory.max", "60000000000\n");
    free_is(4000 << 10);
    forget_machine();
}
END_TEST

START_TEST(what_is_free_with_cgroups_of_version_1) {
    new_machine("5:cpu,cpuacct:/other\n4:hugetlb,memory:/docker/abc\n1:name=systemd:/\n0::/none\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "123\n");
    free_is(4000 << 10);
    put("sys/fs/cgroup/memory/other/memory.limit_in_bytes", "5\n"); /* not ours */
    free_is(4000 << 10);
    put("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "2000000\n");
    put("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "700000\n");
    free_is(1300000);
    put("sys/fs/cgroup/memory/docker/abc/memory.stat",
        "inactive_file 3\ntotal_inactive_file 200000\n");
    free_is(1500000);
    put("proc/self/cgroup", "4:memory:/not/there\n"); /* a path outside of the container */
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "300000\n");
    free_is(700000);
    put("proc/meminfo", "MemTotal: 9000 kB\n"); /* of an old kernel */
    free_is(700000);
    put("proc/self/cgroup", "");
    free_is(0);
    forget_machine();
}
END_TEST

START_TEST(a_plan_is_compared_with_what_is_free) {
    const size_t   M = 1 << 20;
    la_config      c;
    la_memory_plan p = {.start = 10 * M,
                        .text = 5 * M,
                        .mapped = 700 * M,
                        .train = {.model = 40 * M, .step = 90 * M, .evaluation = 7 * M},
                        .reading = 2 * M,
                        .saving = 20 * M,
                        .sampling = 30 * M};
    la_config_init(&c);
    OK(la_memory_plan_check(&p, &c)); /* nothing is known of what is free */
    ck_assert_uint_eq(la_memory_plan_peak(&p), (10 + 5 + 700 + 40 + 90 + 7 + 30) * M);
    p.saving = 31 * M; /* the larger counts */
    ck_assert_uint_eq(la_memory_plan_peak(&p), (10 + 5 + 700 + 40 + 90 + 7 + 31) * M);
    p.available = (40 + 90 + 7 + 31) * M; /* what is there already is not asked for again */
    OK(la_memory_plan_check(&p, &c));
    p.available--;
    FAILS(la_memory_plan_check(&p, &c), LA_NOMEM,
          "the training needs 168.0 MiB and 168.0 MiB are free: weights, gradients and optimiser "
          "take 40.0, the step 90.0, the evaluation 7.0, reading a checkpoint 2.0, saving 31.0, "
          "samples 30.0; try --recompute, or a smaller --batch-size with a larger --grad-accum");
    c.recompute = 1;
    FAILS(la_memory_plan_check(&p, &c), LA_NOMEM, "try a smaller --batch-size with a larger");
    c.batch_size = 1;
    FAILS(la_memory_plan_check(&p, &c), LA_NOMEM, "try a smaller --block-size");
    c.batch_size = 12;
    p.train.evaluation = 100 * M;
    FAILS(la_memory_plan_check(&p, &c), LA_NOMEM, "try a smaller --block-size");
    p.available = 70 * M; /* not even weights and their checkpoints */
    FAILS(la_memory_plan_check(&p, &c), LA_NOMEM, "try a smaller --n-embd or --n-layer");
    la_config_free(&c);
}
END_TEST

/* --- child processes --- */

static void shell(const char *script, int threads, json_t **lines, char **message, int *code) {
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    OK(la_child_json(argv, threads, lines, message, code));
}

static void forget(json_t *lines, char *message) {
    json_decref(lines);
    free(message);
}

START_TEST(a_child_is_read_line_by_line) {
    json_t *lines;
    char   *message;
    int     code;
    shell(
        "echo '{\"a\": 1}'; echo nothing to read >&2; echo \"{\\\"b\\\": $OMP_NUM_THREADS}\"; cat",
        7, &lines, &message, &code);
    ck_assert_int_eq(code, 0);
    ck_assert_str_eq(message, "");
    ck_assert_int_eq(json_array_size(lines), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(lines, 1), "b")), 7);
    forget(lines, message);
}
END_TEST

START_TEST(more_than_a_pipe_holds) { /* on both */
    json_t *lines;
    char   *message;
    int     code;
    shell("i=0; while [ $i -lt 5000 ]; do echo '{\"text\": \"some forty letters in every line of "
          "it\"}'; echo and as much of it here, where nobody reads it >&2; i=$((i + 1)); done",
          0, &lines, &message, &code);
    ck_assert_int_eq(code, 0);
    ck_assert_int_eq(json_array_size(lines), 5000);
    forget(lines, message);
}
END_TEST

START_TEST(a_child_that_fails_says_why) {
    json_t *lines;
    char   *message;
    int     code;
    shell("echo '{\"a\": 1}'; printf '{\"cut'; echo 'sh: does not fit' >&2; echo help >&2; exit 6",
          0, &lines, &message, &code);
    ck_assert_int_eq(code, 6);
    ck_assert_str_eq(message, "does not fit");
    ck_assert_int_eq(json_array_size(lines), 1);
    forget(lines, message);
    shell("echo first >&2; echo last >&2; exit 3", 0, &lines, &message, &code);
    ck_assert_int_eq(code, 3);
    ck_assert_str_eq(message, "last");
    forget(lines, message);
    shell("exit 4", 0, &lines, &message, &code);
    ck_assert_str_eq(message, "sh ended with code 4");
    forget(lines, message);
    shell("kill -9 $$", 0, &lines, &message, &code);
    ck_assert_int_eq(code, 137);
    ck_assert_ptr_nonnull(strstr(message, "ended by signal 9"));
    forget(lines, message);
    const char *missing[] = {"no-such-program", NULL};
    OK(la_child_json(missing, 0, &lines, &message, &code));
    ck_assert_int_eq(code, 127);
    ck_assert_str_eq(message, "no-such-program cannot be started: it should stand beside this "
                              "program");
    forget(lines, message);
}
END_TEST

START_TEST(a_line_that_is_no_object_is_an_error) {
    const char *number[] = {"/bin/sh", "-c", "echo 12", NULL};
    const char *words[] = {"/bin/sh", "-c", "echo some words", NULL};
    json_t     *lines;
    char       *message;
    int         code;
    FAILS(la_child_json(number, 0, &lines, &message, &code), LA_FORMAT, "no JSON object: 12");
    FAILS(la_child_json(words, 0, &lines, &message, &code), LA_FORMAT, "some words");
    ck_assert(!lines && !message);
}
END_TEST

START_TEST(a_child_has_a_group_of_its_own) { /* Ctrl-C is for the group of the terminal */
    json_t *lines;
    char   *message;
    int     code;
    shell("read -r id name state parent group rest </proc/$$/stat; "
          "echo \"{\\\"id\\\": $id, \\\"group\\\": $group}\"",
          0, &lines, &message, &code);
    const json_t *line = json_array_get(lines, 0);
    ck_assert_int_eq(code, 0);
    ck_assert_int_gt(json_integer_value(json_object_get(line, "id")), 1);
    ck_assert_int_eq(json_integer_value(json_object_get(line, "group")),
                     json_integer_value(json_object_get(line, "id")));
    forget(lines, message);
}
END_TEST

static void note(int signal) { (void)signal; }

static int end_of_child(int raised) {
    int   status;
    pid_t pid = la_child_fork();
    if (pid == 0) {
        raise(raised);
        _exit(5);
    }
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

START_TEST(a_child_does_not_take_over_our_handlers) {
    static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) {
        void (*before)(int) = signal(handled[i], note);
        ck_assert_int_eq(end_of_child(handled[i]), 128 + handled[i]);
        signal(handled[i], SIG_IGN); /* as nohup does */
        ck_assert_int_eq(end_of_child(handled[i]), 5);
        signal(handled[i], before);
    }
}
END_TEST

/* --- bench and gradcheck, where they stand beside this program --- */

static const char *const tiny[] = {"--n-layer=1", "--n-head=2", "--n-embd=16", NULL};

static bool have_programs(void) {
    char    path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 16);
    if (n < 0) return false;
    path[n] = 0;
    strcpy(strrchr(path, '/') + 1, "bench");
    return access(path, X_OK) == 0;
}

static const json_t *at(const json_t *rows, size_t i, const char *key) {
    return json_object_get(json_array_get(rows, i), key);
}

/* 200 TB of weights: refused before anything is allocated. */
static const char *const huge[] = {"--n-layer=1000", "--n-embd=65536", NULL};

START_TEST(steps_of_several_lengths) {
    la_measure m = {.attn = "elu1", .options = tiny, .threads = 1};
    json_t    *rows = json_array();
    if (have_programs()) {
        OK(la_measure_length(&m, 16, 32, rows));
        ck_assert_int_eq(json_array_size(rows), 2);
        for (size_t i = 0; i < 2; i++) {
            ck_assert_int_eq(json_integer_value(at(rows, i, "length")), 16 << i);
            ck_assert_str_eq(json_string_value(at(rows, i, "refused")), "");
            ck_assert_double_gt(json_number_value(at(rows, i, "ms_per_step")), 0);
            ck_assert_int_ge(json_integer_value(at(rows, i, "repeats")), 5);
            ck_assert_int_eq(json_object_size(json_array_get(rows, i)), 6);
        }
        m.attn = "cosformer:length=16"; /* a length that the variant does not have */
        json_array_clear(rows);
        OK(la_measure_length(&m, 16, 32, rows));
        ck_assert_str_eq(json_string_value(at(rows, 0, "refused")), "");
        ck_assert_str_ne(json_string_value(at(rows, 1, "refused")), "");
        ck_assert(json_is_null(at(rows, 1, "ms_per_step")));
        m = (la_measure){.attn = "softmax", .options = huge, .threads = 1};
        json_array_clear(rows);
        OK(la_measure_length(&m, 32, 32, rows));
        ck_assert_ptr_nonnull(strstr(json_string_value(at(rows, 0, "refused")), "are free"));
        ck_assert(!strncmp(json_string_value(at(rows, 0, "refused")), "did not fit: ", 13));
    }
    json_decref(rows);
}
END_TEST

START_TEST(tokens_at_several_positions) {
    static const char *const rope[] = {"--n-layer=1", "--n-head=2", "--n-embd=16",
                                       "--pos",       "rope",       NULL};
    const int64_t            positions[] = {10, 100, 999999999};
    char                     note[LA_MEASURE_NOTE];
    la_measure               m = {.attn = "softmax", .options = tiny, .threads = 1};
    json_t                  *rows = json_array();
    if (have_programs()) {
        OK(la_measure_decode(&m, positions, 3, rows, note));
        ck_assert_int_eq(json_array_size(rows), 3);
        ck_assert_int_eq(json_integer_value(at(rows, 1, "position")), 100);
        ck_assert_double_gt(json_number_value(at(rows, 1, "tokens_per_s")), 0);
        ck_assert_int_gt(json_integer_value(at(rows, 1, "state_bytes")),
                         json_integer_value(at(rows, 0, "state_bytes")));
        ck_assert_ptr_nonnull(strstr(json_string_value(at(rows, 2, "refused")), "are free"));
        ck_assert(json_is_null(at(rows, 2, "state_bytes")));
        ck_assert_ptr_nonnull(strstr(note, "--pos none: learned positions end"));
        m.options = rope;
        m.attn = "cosformer:length=200";
        json_array_clear(rows);
        OK(la_measure_decode(&m, positions, 2, rows, note));
        ck_assert_str_eq(json_string_value(at(rows, 0, "refused")), "");
        ck_assert_ptr_nonnull(strstr(json_string_value(at(rows, 1, "refused")), "200 tokens"));
        ck_assert_ptr_nonnull(strstr(note, "--pos rope, and with a --block-size"));
    }
    json_decref(rows);
}
END_TEST

START_TEST(options_that_go_with_no_length_are_an_error) {
    static const char *const uneven[] = {"--n-layer=1", "--n-head=3", "--n-embd=16", NULL};
    static const char *const unknown[] = {"--optim=nonsense", NULL};
    const int64_t            positions[] = {10, 20};
    char                     note[LA_MEASURE_NOTE];
    la_measure               m = {.attn = "elu1", .options = uneven, .threads = 1};
    json_t                  *rows = json_array();
    if (have_programs()) {
        FAILS(la_measure_length(&m, 16, 32, rows), LA_ARG, "bench train: ");
        FAILS(la_measure_length(&m, 16, 32, rows), LA_ARG, "--n-head");
        FAILS(la_measure_decode(&m, positions, 2, rows, note), LA_ARG, "--n-head");
        ck_assert_int_eq(json_array_size(rows), 0);
        m = (la_measure){.attn = "cosformer:length=16", .options = tiny, .block = 16, .threads = 1};
        OK(la_measure_length(&m, 32, 64, rows)); /* refused, but not in its training */
        ck_assert_int_eq(json_array_size(rows), 2);
        for (size_t i = 0; i < 2; i++)
            ck_assert_str_ne(json_string_value(at(rows, i, "refused")), "");
        m.block = 0;
        FAILS(la_measure_length(&m, 32, 64, rows), LA_ARG, "length");
        json_array_clear(rows);
        m = (la_measure){.attn = "elu1", .options = tiny, .training = unknown, .threads = 1};
        FAILS(la_measure_length(&m, 16, 16, rows), LA_ARG, "nonsense");
        OK(la_measure_decode(&m, positions, 1, rows, note)); /* does not train */
        ck_assert_int_eq(json_array_size(rows), 1);
    }
    json_decref(rows);
}
END_TEST

START_TEST(gradients_of_each_part_once) {
    la_measure m = {.attn = "cosine@1+relu:chunk=8@1/none/relu"};
    json_t    *rows = json_array();
    if (have_programs()) {
        OK(la_measure_gradcheck(&m, rows));
        ck_assert_int_eq(json_array_size(rows), 2);
        ck_assert_str_eq(json_string_value(at(rows, 0, "name")), "cosine");
        ck_assert_str_eq(json_string_value(at(rows, 1, "name")), "relu");
        ck_assert(json_is_true(at(rows, 1, "pass")));
        ck_assert_double_lt(json_number_value(at(rows, 1, "worst")), 1e-7);
        json_array_clear(rows);
        m = (la_measure){.attn = "linformer:r=2", .bidirectional = 1};
        OK(la_measure_gradcheck(&m, rows));
        ck_assert_str_eq(json_string_value(at(rows, 0, "name")), "linformer both ways");
    }
    m = (la_measure){.attn = "none"};
    json_array_clear(rows);
    OK(la_measure_gradcheck(&m, rows));
    ck_assert_int_eq(json_array_size(rows), 0);
    m.attn = "sofmax";
    FAILS(la_measure_gradcheck(&m, rows), LA_NAME, "softmax");
    json_decref(rows);
}
END_TEST

/* --- slopes --- */

/* Times n^2 and memory 3 n of lengths from `shortest`, doubled; from `refused` on null. */
static json_t *speed_of(int shortest, int n, int refused) {
    json_t *rows = json_array();
    for (int i = 0, length = shortest; i < n; i++, length *= 2) {
        double  x = length;
        json_t *ms = length < refused ? json_real(x * x) : json_null();
        json_t *bytes = length < refused ? json_real(3 * x) : json_null();
        json_array_append_new(rows, json_pack("{s:s,s:i,s:o,s:o}", "variant", "elu1", "length",
                                              length, "ms_per_step", ms, "peak_bytes", bytes));
    }
    return json_pack("{s:o,s:[],s:[]}", "length", rows, "slopes", "crossover");
}

static void slopes_are(json_t *speed, int from, int to, int n) {
    la_variant    v = {.name = "elu1"};
    la_comparison k = {.n_variants = 1, .variant = &v};
    la_put_slopes(&k, speed);
    const json_t *slopes = json_object_get(speed, "slopes");
    ck_assert_int_eq(json_array_size(slopes), n ? 2 : 0);
    for (size_t i = 0; i < json_array_size(slopes); i++) {
        ck_assert_str_eq(json_string_value(at(slopes, i, "what")), i ? "memory" : "time");
        ck_assert_int_eq(json_integer_value(at(slopes, i, "from")), from);
        ck_assert_int_eq(json_integer_value(at(slopes, i, "to")), to);
        ck_assert_int_eq(json_integer_value(at(slopes, i, "n")), n);
        ck_assert_double_eq_tol(json_number_value(at(slopes, i, "slope")), i ? 1 : 2, 1e-12);
    }
    json_decref(speed);
}

START_TEST(a_slope_is_of_the_longest_lengths_that_were_measured) {
    slopes_are(speed_of(128, 9, 1 << 20), 1024, 32768, 6);
    slopes_are(speed_of(128, 9, 8192), 1024, 4096, 3);
    slopes_are(speed_of(128, 9, 4096), 512, 2048, 3); /* three there are, if shorter ones */
    slopes_are(speed_of(128, 9, 512), 128, 256, 2);
    slopes_are(speed_of(128, 9, 256), 0, 0, 0);
}
END_TEST

/* The last test: in one process, the signal stays. */
START_TEST(a_signal_to_stop_is_passed_on) {
    const char *argv[] = {"/bin/sh", "-c", "kill -TERM $PPID; exec sleep 1000", NULL};
    json_t     *lines;
    char       *message;
    int         code;
    la_signals_install();
    FAILS(la_child_json(argv, 0, &lines, &message, &code), LA_STATE, "stopped by a signal");
    ck_assert_int_eq(code, 128 + SIGTERM);
}
END_TEST

int main(void) {
    Suite *s = suite_create("measure");
    TCase *c = add_case(s, "children");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, what_is_free_with_cgroups_of_version_2);
    tcase_add_test(c, what_is_free_with_cgroups_of_version_1);
    tcase_add_test(c, a_plan_is_compared_with_what_is_free);
    tcase_add_test(c, a_child_is_read_line_by_line);
    tcase_add_test(c, more_than_a_pipe_holds);
    tcase_add_test(c, a_child_that_fails_says_why);
    tcase_add_test(c, a_line_that_is_no_object_is_an_error);
    tcase_add_test(c, a_child_has_a_group_of_its_own);
    tcase_add_test(c, a_child_does_not_take_over_our_handlers);
    tcase_add_test(c, steps_of_several_lengths);
    tcase_add_test(c, tokens_at_several_positions);
    tcase_add_test(c, options_that_go_with_no_length_are_an_error);
    tcase_add_test(c, gradients_of_each_part_once);
    tcase_add_test(c, a_slope_is_of_the_longest_lengths_that_were_measured);
    tcase_add_test(c, a_signal_to_stop_is_passed_on);
    return run_suite(s);
}
