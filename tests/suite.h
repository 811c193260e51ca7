/* suite.h -- running a suite of Check: what every test program ends with. */
#ifndef LA_SUITE_H
#define LA_SUITE_H
#include <check.h>

/* How much is printed is CK_VERBOSITY's to say.  Returns what main() returns. */
static inline int run_suite(Suite *s) {
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}

static inline TCase *add_case(Suite *s, const char *name) {
    TCase *c = tcase_create(name);
    tcase_set_timeout(c, 120);
    suite_add_tcase(s, c);
    return c;
}
#endif
