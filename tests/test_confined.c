/* test_confined.c -- a function in a confined process can fill its room, answer or end, and no
 * more. */
#include "train/confined.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/suite.h"

static la_status run(la_confined *c, la_confined_fn *fn, void *ctx) {
    *c = (la_confined){
        .name = "the file", .bytes = 1 << 16, .memory = (size_t)1 << 26, .seconds = 1};
    la_status s = la_confined_run(c, fn, ctx);
    ck_assert((s == LA_OK) == (c->room != NULL));
    return s;
}

static void fails(la_confined_fn *fn, void *ctx, la_status want, const char *words) {
    la_confined c;
    la_status   got = run(&c, fn, ctx);
    ck_assert_msg(got == want, "status %d, not %d: %s", (int)got, (int)want, la_error());
    ck_assert_msg(strstr(la_error(), words) != NULL, "\"%s\" lacks \"%s\"", la_error(), words);
}

static int outside; /* of the parent: what a child writes here is lost */

static la_status fill(void *ctx, void *room, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (((char *)room)[i]) return la_fail(LA_FORMAT, "byte %zu of the room is not 0", i);
    memset(room, *(int *)ctx, bytes);
    outside = 1;
    return LA_OK;
}

START_TEST(what_it_writes_into_the_room_and_nothing_else_stays) {
    la_confined c;
    int         with = 'x';
    ck_assert_msg(run(&c, fill, &with) == LA_OK, "%s", la_error());
    for (size_t i = 0; i < c.bytes; i++) ck_assert(((char *)c.room)[i] == 'x');
    ck_assert_int_eq(outside, 0);
    la_confined_free(&c);
    ck_assert_ptr_null(c.room);
    la_confined_free(&c);
}
END_TEST

static la_status refuse(void *ctx, void *room, size_t bytes) {
    (void)room, (void)bytes;
    return la_fail(*(la_status *)ctx, "no \x1b[31m such\nthing");
}

START_TEST(its_failure_is_ours_fit_for_a_terminal) {
    la_status given[] = {LA_FORMAT, LA_NOMEM, LA_ARG, (la_status)77};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        fails(refuse, given + i, given[i] == LA_NOMEM ? LA_NOMEM : LA_FORMAT,
              "no ?[31m such?thing");
}
END_TEST

static la_status loop(void *ctx, void *room, size_t bytes) {
    volatile char *at = room;
    (void)ctx, (void)bytes;
    while (!*at) {
    }
    return LA_OK;
}

static la_status stray(void *ctx, void *room, size_t bytes) {
    (void)ctx, (void)room, (void)bytes;
    raise(SIGSEGV);
    return LA_OK;
}

static la_status leave(void *ctx, void *room, size_t bytes) {
    (void)room, (void)bytes;
    _exit(*(int *)ctx);
}

static la_status block(void *ctx, void *room, size_t bytes) {
    (void)ctx, (void)room, (void)bytes;
    pause();
    return LA_OK;
}

/* As the system does where memory runs out. */
static la_status be_killed(void *ctx, void *room, size_t bytes) {
    (void)ctx, (void)room, (void)bytes;
    raise(SIGKILL);
    return LA_OK;
}

/* Only SIGKILL, at the hard limit, ends it. */
static la_status hold_on(void *ctx, void *room, size_t bytes) {
    signal(SIGXCPU, SIG_IGN);
    return loop(ctx, room, bytes);
}

START_TEST(a_file_is_not_blamed_for_a_kill_before_its_time) {
    sigset_t alarm;
    fails(be_killed, NULL, LA_NOMEM, "where memory runs out");
    fails(hold_on, NULL, LA_FORMAT, "was ended by signal 9 (Killed), as it is after 1 second");
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, NULL); /* ours is not the child's */
    fails(block, NULL, LA_FORMAT, "did not end within 20 seconds");
}
END_TEST

START_TEST(however_it_ends_there_is_a_sentence) {
    int codes[] = {0, 3};
    fails(loop, NULL, LA_FORMAT, "reading the file was ended by signal 24");
    fails(loop, NULL, LA_FORMAT, "after 1 second");
    fails(stray, NULL, LA_FORMAT, "reading the file ended the reader by signal 11");
    fails(leave, codes, LA_FORMAT, "exit code 0"); /* without an answer */
    fails(leave, codes + 1, LA_FORMAT, "exit code 3");
}
END_TEST

static la_status open_one(void *ctx, void *room, size_t bytes) {
    (void)room, (void)bytes;
    return open(ctx, O_RDONLY) < 0 ? la_fail(LA_FORMAT, "no file is opened") : LA_OK;
}

static la_status write_one(void *ctx, void *room, size_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    return write(*(int *)ctx, room, bytes) < 0 ? la_fail(LA_FORMAT, "no file is written") : LA_OK;
}

static la_status read_one(void *ctx, void *room, size_t bytes) {
    return pread(*(int *)ctx, room, bytes, 0) < 0 ? la_fail(LA_FORMAT, "no file is read") : LA_OK;
}

static la_status start_one(void *ctx, void *room, size_t bytes) {
    (void)ctx, (void)room, (void)bytes;
    pid_t child = fork();
    if (child == 0) _exit(0);
    return child < 0 ? la_fail(LA_FORMAT, "no process is started") : LA_OK;
}

static la_status allocate(void *ctx, void *room, size_t bytes) {
    volatile char *p = malloc(*(size_t *)ctx);
    (void)room, (void)bytes;
    if (p) *p = 1;
    return p ? LA_OK : la_fail(LA_NOMEM, "no memory for that");
}

START_TEST(files_and_memory_are_out_of_its_reach) {
    char   path[] = P_tmpdir "/test_confined_XXXXXX", self[] = "/proc/self/exe";
    int    fd = mkstemp(path);
    size_t much = (size_t)1 << 27;
    ck_assert_int_ge(fd, 0);
    fails(open_one, self, LA_FORMAT, "no file is opened");
    fails(write_one, &fd, LA_FORMAT, "no file is written");
    fails(read_one, &fd, LA_FORMAT, "no file is read");
    if (geteuid() != 0) fails(start_one, NULL, LA_FORMAT, "no process is started");
    ck_assert_int_eq(lseek(fd, 0, SEEK_END), 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* no limit there */
    fails(allocate, &much, LA_NOMEM, "no memory for that");
#else
    (void)much, (void)allocate;
#endif
    close(fd);
    unlink(path);
}
END_TEST

int main(void) {
    Suite *s = suite_create("confined");
    TCase *c = add_case(s, "confined");
    tcase_set_timeout(c, 180);
    tcase_add_test(c, what_it_writes_into_the_room_and_nothing_else_stays);
    tcase_add_test(c, its_failure_is_ours_fit_for_a_terminal);
    tcase_add_test(c, a_file_is_not_blamed_for_a_kill_before_its_time);
    tcase_add_test(c, however_it_ends_there_is_a_sentence);
    tcase_add_test(c, files_and_memory_are_out_of_its_reach);
    return run_suite(s);
}
