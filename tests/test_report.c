/* test_report.c -- report.html and results.csv: what is small enough to be written here.  The whole
 * page of a made-up comparison is looked at by cli/report.sh. */
#include "testing.h"

#include <unistd.h>

#include "train/page/page.h"
#include "train/page/chart.h"
#include "train/page/report_page.h"
#include "train/page/results_csv.h"

/* --- what a part of the page writes, as a string to free() --- */
typedef struct writing {
    la_page page;
    char   *text;
    size_t  n;
} writing;

static void begin(writing *w) {
    *w = (writing){0};
    w->page.out = open_memstream(&w->text, &w->n);
    ck_assert_ptr_nonnull(w->page.out);
}

static const char *written(writing *w) {
    ck_assert_int_eq(fclose(w->page.out), 0);
    return w->text;
}

START_TEST(markup_comes_from_formats_alone) {
    writing w;
    begin(&w);
    la_page_put(&w.page, "<b>%s</b> %d %.2f %%", "<i>&\"\001\xff\xc3\xa9", 3, 1.005);
    ck_assert_str_eq(written(&w),
                     "<b>&lt;i&gt;&amp;&quot;\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9</b> 3 1.00 %");
    free(w.text);
}
END_TEST

START_TEST(numbers_as_people_read_them) {
    char text[LA_NUMBER_TEXT];
    ck_assert_str_eq(la_count_text(0, text), "0");
    ck_assert_str_eq(la_count_text(999, text), "999");
    ck_assert_str_eq(la_count_text(1000, text), "1,000");
    ck_assert_str_eq(la_count_text(-1234567, text), "-1,234,567");
    ck_assert_str_eq(la_count_text(NAN, text), "–");
    ck_assert_str_eq(la_bytes_text(1023, text), "1023 B");
    ck_assert_str_eq(la_bytes_text(1536, text), "1.5 KiB");
    ck_assert_str_eq(la_bytes_text(3 * 1048576., text), "3.0 MiB");
    ck_assert_str_eq(la_bytes_text(NAN, text), "–");
}
END_TEST

START_TEST(a_number_that_is_none_is_a_dash) {
    writing w;
    begin(&w);
    la_table_cell(&w.page, "%.2f", 2.5);
    la_table_cell(&w.page, "%.2f", NAN);
    ck_assert_str_eq(written(&w), "<td class=\"n\" data-v=\"2.5\">2.50</td><td class=\"n\">–</td>");
    free(w.text);
}
END_TEST

START_TEST(looks_of_24_variants_differ) {
    for (int i = 0; i < 24; i++)
        for (int j = 0; j < i; j++) {
            const la_look a = la_look_of(i), b = la_look_of(j);
            ck_assert_msg(a.colour != b.colour || (a.dash != b.dash && a.point != b.point),
                          "variants %d and %d look alike", i, j);
        }
}
END_TEST

/* --- SVG --- */
START_TEST(a_drawing_keeps_to_itself) {
    static const char svg[] =
        "<?xml version='1.0'?>\n<svg width='9' viewBox=\"0 0 9 9\"><title>t</title><style>text, .a "
        "{ x: y }"
        " #q { x: y }</style><path id='q' fill='url(#r)'/><use xlink:href='#q'/></svg>\n";
    writing w;
    begin(&w);
    OK(la_page_svg(&w.page, svg, sizeof svg - 1, "a<b"));
    OK(la_page_svg(&w.page, svg, sizeof svg - 1, "c"));
    const char *text = written(&w);
    ck_assert_ptr_nonnull(strstr(text, "aria-label=\"a&lt;b\" viewBox=\"0 0 9 9\">"));
    ck_assert_ptr_nonnull(strstr(text, "#d1 text, #d1 .a { x: y } #d1 #d1-q { x: y }"));
    ck_assert_ptr_nonnull(
        strstr(text, "<path id='d1-q' fill='url(#d1-r)'/><use xlink:href='#d1-q'/>"));
    ck_assert_ptr_nonnull(strstr(text, "<path id='d2-q'"));
    ck_assert_ptr_null(strstr(text, "<title>"));
    free(w.text);
}
END_TEST

START_TEST(what_is_no_drawing_is_refused) {
    static const char *const refused[][2] = {
        {"", "no whole SVG document"},
        {"<svg viewBox=\"0 0 9 9\"><g/>", "no whole SVG document"},
        {"<svg><g viewBox=\"0 0 9 9\"/></svg>", "no whole SVG document"},
        {"<svg viewBox=\"0 0 9 9\"><script>x()</script></svg>", "<script"},
        {"<svg viewBox=\"0 0 9 9\"><image href=\"a.png\"/></svg>", "<image"},
    };
    writing w;
    begin(&w);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        FAILS(la_page_svg(&w.page, refused[i][0], strlen(refused[i][0]), "x"), LA_DATA,
              refused[i][1]);
    ck_assert_str_eq(written(&w), "");
    free(w.text);
}
END_TEST

/* --- results.csv --- */
START_TEST(a_line_for_each_number) {
    static const char results[] =
        "{\"machine\": {\"cores\": 2, \"system\": \"x\"}, \"complete\": true, \"runs\": "
        "[{\"problem\": \"a,b\","
        " \"variant\": \"say \\\"x\\\"\", \"seed\": 3, \"lr\": 0.1, \"purpose\": \"main\", "
        "\"final\": {\"val_loss\": null},"
        " \"curve\": {\"step\": [0, 50], \"val_loss\": [null, 0.30000000000000004]}}],"
        " \"positions\": [{\"length\": 64, \"from\": [0, 8], \"loss\": [3.5, 1e-300]}]}";
    static const char lines[] =
        "table,problem,variant,seed,lr,name,at,what,value\n"
        "machine,,,,,,,cores,2\n"
        "runs,\"a,b\",\"say \"\"x\"\"\",3,0.1,main,,seed,3\n"
        "runs,\"a,b\",\"say \"\"x\"\"\",3,0.1,main,,lr,0.1\n"
        "runs,\"a,b\",\"say \"\"x\"\"\",3,0.1,main,0,curve.step,0\n"
        "runs,\"a,b\",\"say \"\"x\"\"\",3,0.1,main,50,curve.step,50\n"
        "runs,\"a,b\",\"say \"\"x\"\"\",3,0.1,main,50,curve.val_loss,0.30000000000000004\n"
        "positions,,,,,,64,length,64\n"
        "positions,,,,,,64/0,from,0\n"
        "positions,,,,,,64/8,from,8\n"
        "positions,,,,,,64/0,loss,3.5\n"
        "positions,,,,,,64/8,loss,1e-300\n";
    json_t *root = json_loads(results, 0, NULL);
    char   *text = NULL;
    size_t  n = 0;
    FILE   *out = open_memstream(&text, &n);
    ck_assert_ptr_nonnull(root);
    ck_assert_ptr_nonnull(out);
    OK(la_results_csv(root, out));
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_str_eq(text, lines);
    free(text);
    json_decref(root);
}
END_TEST

/* --- the page --- */
START_TEST(another_schema_is_refused) {
    json_t *root = json_loads("{\"schema\": \"lina-results-9\"}", 0, NULL);
    char    note[LA_REPORT_NOTE];
    FAILS(la_report_write(root, NULL, "test_report.html", note), LA_DATA, "\"lina-results-9\"");
    ck_assert_int_ne(access("test_report.html", F_OK), 0);
    json_decref(root);
}
END_TEST

START_TEST(without_gnuplot_there_is_a_note) {
    json_t *root = json_load_file(LA_SOURCE_DIR "/tests/report/sample.json", 0, NULL);
    char    note[LA_REPORT_NOTE], path[] = "/tmp/lina-report.XXXXXX";
    int     file = mkstemp(path);
    ck_assert_ptr_nonnull(root);
    ck_assert_int_ge(file, 0);
    close(file);
    setenv("PATH", "/nowhere", 1);
    OK(la_report_write(root, NULL, path, note));
    ck_assert_ptr_nonnull(strstr(note, "gnuplot-nox"));
    unlink(path);
    json_decref(root);
}
END_TEST

int main(void) {
    Suite *s = suite_create("report");
    TCase *c = add_case(s, "page");
    tcase_add_test(c, markup_comes_from_formats_alone);
    tcase_add_test(c, numbers_as_people_read_them);
    tcase_add_test(c, a_number_that_is_none_is_a_dash);
    tcase_add_test(c, looks_of_24_variants_differ);
    tcase_add_test(c, a_drawing_keeps_to_itself);
    tcase_add_test(c, what_is_no_drawing_is_refused);
    tcase_add_test(c, a_line_for_each_number);
    tcase_add_test(c, another_schema_is_refused);
    c = add_case(s, "alone"); /* changes the environment: the last */
    tcase_add_test(c, without_gnuplot_there_is_a_note);
    return run_suite(s);
}
