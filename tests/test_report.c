/* test_report.c -- report.html and results.csv: what is small enough to be written here.  The whole
 * page of a made-up comparison is looked at by cli/report.sh. */
#include "testing.h"

#include <unistd.h>

#include "train/page/page.h"
#include "train/page/chart_impl.h"
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
        " #q { x: y }</style><path id='q' fill='rgb( 1, 2, 3)'/><use xlink:href='#q'/>"
        "<text\nx=\"1\" >&lt;&#233;&amp;</text></svg>\n";
    writing w;
    begin(&w);
    OK(la_page_svg(&w.page, svg, sizeof svg - 1, "a<b"));
    OK(la_page_svg(&w.page, svg, sizeof svg - 1, "c"));
    const char *text = written(&w);
    ck_assert_ptr_nonnull(strstr(text, "aria-label=\"a&lt;b\" viewBox=\"0 0 9 9\">"));
    ck_assert_ptr_nonnull(strstr(text, "#d1 text, #d1 .a { x: y } #d1 #d1-q { x: y }"));
    ck_assert_ptr_nonnull(
        strstr(text, "<path id=\"d1-q\" fill=\"rgb( 1, 2, 3)\"/><use xlink:href=\"#d1-q\"/>"
                     "<text x=\"1\">&lt;&#233;&amp;</text></svg>"));
    ck_assert_ptr_nonnull(strstr(text, "<path id=\"d2-q\""));
    ck_assert_ptr_null(strstr(text, "<title>"));
    free(w.text);
}
END_TEST

START_TEST(what_is_no_drawing_is_refused) {
    static const char *const refused[][2] = {
        {"", "no whole SVG document"},
        {"<svg viewBox=\"0 0 9 9\"><g/>", "no whole SVG document"},
        {"<svg><g viewBox=\"0 0 9 9\"/></svg>", "the attribute viewBox"},
        {"<svg><g/></svg>", "no whole SVG document"},
        {"<svg viewBox=\"0 0 9 9\"><script>x()</script></svg>",
         "the element script"},
        {"<svg viewBox=\"0 0 9 9\"><SCRIPT>x()</SCRIPT></svg>",
         "the element SCRIPT"},
        {"<svg viewBox=\"0 0 9 9\"><image href=\"a.png\"/></svg>",
         "the element image"},
        {"<svg viewBox=\"0 0 9 9\"><foreignObject/></svg>",
         "the element foreignObject"},
        {"<svg viewBox=\"0 0 9 9\"><a href=\"#x\"/></svg>",
         "the element a"},
        {"<svg viewBox=\"0 0 9 9\"><animate/></svg>",
         "the element animate"},
        {"<svg viewBox=\"0 0 9 9\"><svg/></svg>",
         "the element svg"},
        {"<svg viewBox=\"0 0 9 9\"><!-- a --></svg>",
         "a comment or declaration"},
        {"<svg viewBox=\"0 0 9 9\"><g onload=\"x()\"/></svg>",
         "the attribute onload"},
        {"<svg viewBox=\"0 0 9 9\"><g\nONLOAD=x/></svg>",
         "the attribute ONLOAD"},
        {"<svg viewBox=\"0 0 9 9\"><g/onclick=\"x\"/></svg>",
         "a tag that is not whole"},
        {"<svg viewBox=\"0 0 9 9\"><g style=\"x\"/></svg>",
         "the attribute style"},
        {"<svg viewBox=\"0 0 9 9\"><g fill=red/></svg>",
         "the attribute fill without quotes"},
        {"<svg viewBox=\"0 0 9 9\"><g fill=\"red/></svg>",
         "the attribute fill without quotes"},
        {"<svg viewBox=\"0 0 9 9\"><use href=\"javascript:x\"/></svg>",
         "href=\"javascript:x\""},
        {"<svg viewBox=\"0 0 9 9\"><use href=\"b\"/></svg>",
         "href=\"b\""},
        {"<svg viewBox=\"0 0 9 9\"><use xlink:href=\"a.svg#b\"/></svg>",
         "xlink:href=\"a.svg#b\""},
        {"<svg viewBox=\"0 0 9 9\"><use href=\" #b\"/></svg>",
         "href=\" #b\""},
        {"<svg viewBox=\"0 0 9 9\"><g fill=\"url(http://a.b)\"/></svg>",
         "fill=\"url(http://a.b)\""},
        {"<svg viewBox=\"0 0 9 9\"><g fill=\"URL(#a)\"/></svg>",
         "fill=\"URL(#a)\""},
        {"<svg viewBox=\"0 0 9 9\"><g fill=\"u\\72l(#a)\"/></svg>",
         "fill="},
        {"<svg viewBox=\"0 0 9 9\"><g fill=\"&#117;rl(#a)\"/></svg>",
         "fill="},
        {"<svg viewBox=\"0 0 9 9\"><g id=\"a b\"/></svg>",
         "id=\"a b\""},
        {"<svg viewBox=\"0 0 9 9\"><style>@import 'a';</style></svg>",
         "a style with @"},
        {"<svg viewBox=\"0 0 9 9\"><style>a { b: url(c) }</style></svg>",
         "a style with ("},
        {"<svg viewBox=\"0 0 9 9\"><style>/*{*/ a { }</style></svg>",
         "a style with /"},
        {"<svg viewBox=\"0 0 9 9\"><style>a { }<b></style></svg>",
         "a style with <"},
        {"<svg viewBox=\"0 0 9 9\"><text>&nbsp;</text></svg>",
         "&nbsp;"},
        {"<svg viewBox=\"0 0 9 9\"><text>a &lt b</text></svg>",
         "with &lt is"},
        {"<svg viewBox=\"0 0 9 9\"><g></text></svg>",
         "closes nothing: </text"},
        {"<svg viewBox=\"0 0 9 9\"><title><g/></title></svg>",
         "an element within a title: g"},
        {"<svg viewBox=\"0 0 9 9\" onload=\"x()\"></svg>", "the attribute onload"},
        {"<svg viewBox=\"0 0 9 9;\"></svg>", "viewBox="},
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

/* The page of these results without gnuplot, to free(); both are given up by the caller. */
static char *page_of(json_t *root) {
    char   note[LA_REPORT_NOTE], path[] = P_tmpdir "/lina-report.XXXXXX", *text = NULL;
    int    file = mkstemp(path);
    size_t n = 0;
    ck_assert_ptr_nonnull(root);
    ck_assert_int_ge(file, 0);
    close(file);
    setenv("PATH", "/nowhere", 1);
    OK(la_report_write(root, NULL, path, note));
    ck_assert_ptr_nonnull(strstr(note, "gnuplot-nox"));
    FILE *in = fopen(path, "r");
    ck_assert_int_gt(getdelim(&text, &n, 0, in), 0);
    fclose(in);
    unlink(path);
    json_decref(root);
    return text;
}

static json_t *sample(void) {
    return json_load_file(LA_SOURCE_DIR "/tests/report/sample.json", 0, NULL);
}

/* Puts a value where "runs/0/seed" says. */
static void put_at(json_t *root, const char *place, const char *value) {
    json_t *new = json_loads(value, JSON_DECODE_ANY, NULL), *at = root;
    char key[32];
    ck_assert_ptr_nonnull(new);
    for (;;) {
        const size_t n = strcspn(place, "/");
        snprintf(key, sizeof key, "%.*s", (int)n, place);
        place += n;
        if (!*place) break;
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key)) : json_object_get(at, key);
        ck_assert_ptr_nonnull(at);
        place++;
    }
    ck_assert_int_eq(json_is_array(at) ? json_array_set_new(at, (size_t)atoi(key), new)
                                       : json_object_set_new(at, key, new),
                     0);
}

START_TEST(a_page_of_the_sample) {
    free(page_of(sample()));
}
END_TEST

static const char *const odd[][2] = {
    {"variants/1/options", "{\"a\": 3, \"b\": null, \"c\": [1], \"d\": true}"},
    {"variants/1/options", "[\"a\"]"},
    {"variants/0", "null"},
    {"variants/0/name", "7"},
    {"variants", "{}"},
    {"settings", "{\"a\": null, \"b\": [], \"c\": 1e300}"},
    {"settings", "\"a\""},
    {"machine", "[]"},
    {"missing", "[1, null, {}]"},
    {"missing", "\"all\""},
    {"problems/0", "[]"},
    {"problems/0/baselines", "{\"name\": \"a\"}"},
    {"runs", "3"},
    {"runs/5/curve", "[0]"},
    {"runs/5/status", "null"},
    {"summary/0/n", "1e300"},
    {"summary/0/difference", "5"},
    {"summary/3/diverged", "-1e300"},
    {"positions/1/length", "null"},
    {"positions/1/times", "1e300"},
    {"positions/2/refused", "{}"},
    {"entropy/0/layer", "1e9"},
    {"entropy/0/head", "1e300"},
    {"samples/0/seed", "null"},
    {"sweeps/0/tried", "[null, [], 1]"},
    {"speed", "[]"},
    {"speed/notes", "[null, 3, {\"what\": \"decode\", \"text\": 3}]"},
    {"speed/length/0/length", "1e300"},
    {"gradcheck/0", "\"a\""},
};

START_TEST(odd_results_make_a_page) {
    json_t *root = sample();
    put_at(root, odd[_i][0], odd[_i][1]);
    free(page_of(root));
}
END_TEST

START_TEST(results_that_are_no_object_are_refused) {
    static const char *const texts[] = {"[]", "[{\"schema\": \"lina-results-1\"}]",
                                        "{\"schema\": 1}"};
    char                     note[LA_REPORT_NOTE];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_t *root = json_loads(texts[i], 0, NULL);
        FAILS(la_report_write(root, NULL, "test_report.html", note), LA_DATA, "lina-results-1");
        json_decref(root);
    }
}
END_TEST

/* Ticks are counted by adding, and an axis divides: neither may go on for ever. */
START_TEST(charts_of_any_numbers_end) {
    static const double pair[][2] = {{1e17, 1e17 + 16}, {1e-300, 1e300}, {-1e308, 1e308},
                                     {5e-324, 1},       {0, 0},          {1, 1 + 1e-15}};
    setenv("PATH", "/nowhere", 1);
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
        for (int log = 0; log < 2; log++) {
            la_page   p = {0};
            la_chart *c = la_chart_begin("x", "y");
            la_chart_log(c, log, log);
            la_chart_series(c, LA_CHART_LINE, 0);
            for (int k = 0; k < 2; k++) la_chart_point(c, pair[i][k], pair[i][k]);
            la_chart_end(&p, c, "c");
            ck_assert(p.status == LA_NAME || p.status == LA_OK);
        }
}
END_TEST

static void says(const char *text, const char *words) {
    ck_assert_msg(strstr(text, words) != NULL, "the page does not say: %s", words);
}

static void says_not(const char *text, const char *words) {
    ck_assert_msg(strstr(text, words) == NULL, "the page says: %s", words);
}

/* The page of the sample with a value elsewhere; place NULL: of the sample as it is. */
static char *page_with(const char *place, const char *value) {
    json_t *root = sample();
    if (place) put_at(root, place, value);
    return page_of(root);
}

START_TEST(what_numbers_mean_is_said) {
    char *text = page_with(NULL, NULL);
    says(text, "Differences are to the first variant, paired by seed. Intervals are Student's t at "
               "95 %; p is of a two-sided paired t test, not corrected for the number of "
               "comparisons.");
    says(text, "steps to target: until the loss is at most 2.1<");
    says(text, "steps to target: until the accuracy is at least 0.9<");
    says(text, "<td class=\"n\">2 of 3</td>");
    says(text, "interpolated Witten-Bell counts of the training part");
    says(text, "<th scope=\"row\">5-gram counts</th>");
    says(text, "<th scope=\"row\">uniform</th>");
    says(text, "0.136 <small>n. d.</small>");
    says(text, "n. d.: not distinguishable from the first variant");
    says(text, "results of <span class=\"whole\">2026-01-31T12:00Z</span>.");
    says(text, "Measured with the options of the first problem, <b>shakespeare</b>.");
    says(text, "Times of runs were taken with 1 and 2 jobs side by side: compare them with care.");
    says_not(text, "has no interval");
    free(text);
    json_t *root = sample();
    for (int i = 0; i < 12; i++) {
        char place[32];
        for (int k = 0; k < 3; k++) {
            static const char *const of[] = {"n", "diverged", "failed"};
            snprintf(place, sizeof place, "summary/%d/%s", i, of[k]);
            put_at(root, place, k ? "0" : "1");
        }
    }
    text = page_of(root);
    says(text, "One seed has no interval and no p");
    says_not(text, "paired by seed");
    free(text);
}
END_TEST

START_TEST(references_are_named_and_counted) {
    char *text = page_with(NULL, NULL);
    says(text, "No variant is below 1.7900, the loss of <b>5-gram counts</b>. ");
    says(text, "Every variant is above 0.2500, the accuracy of <b>a guess among the answers in the "
               "row</b>. ");
    free(text);
    text = page_with("problems/0/baselines",
                           "[{\"name\": \"bigram\", \"loss\": 1.95}]");
    says(text, "Below 1.9500, the loss of <b>bigram counts</b>: <b>softmax</b>, "
               "<b>a_b^{c}@2+window@2</b>. ");
    free(text);
    text = page_with("problems/0/baselines", "[{\"name\": \"bigram\", \"loss\": 2.5}]");
    says(text, "Every variant is below 2.5000, the loss of <b>bigram counts</b>. ");
    free(text);
}
END_TEST

START_TEST(columns_stand_where_they_say_something) {
    char *text = page_with(NULL, NULL), *of[3], *end;
    for (int i = 0; i < 3; i++) {
        static const char *const name[] = {"shakespeare", "mqar-4", "mqar-16"};
        char                     caption[64];
        snprintf(caption, sizeof caption, "<caption>%s: final validation", name[i]);
        of[i] = strstr(text, caption);
        ck_assert_ptr_nonnull(of[i]);
        end = strstr(of[i], "</table>");
        of[i] = strndup(of[i], (size_t)(end - of[i]));
    }
    says(of[0], ">bits</th>"); /* 1.9161 / ln 2, exp(1.9161) */
    says(of[0], "title=\"perplexity 6.794\">2.764</td>");
    says_not(of[1], ">bits</th>");
    says(of[0], ">diverged</th>");
    says_not(of[2], ">diverged</th>");
    says_not(of[0], ">failed</th>");
    says_not(of[0], ">rate</th>");
    says(of[2], ">rate</th>");
    for (int i = 0; i < 3; i++) { /* rows are as long as the head */
        int heads = 0, cells = 0;
        for (char *s = of[i]; (s = strstr(s, "scope=\"col\"")); s++) heads++;
        char *row = strstr(of[i], "class=\"base\"");
        end = strstr(row, "</tr>");
        for (char *s = row; (s = strstr(s, "<t")) && s < end; s++) cells++;
        ck_assert_int_eq(cells, heads);
        free(of[i]);
    }
    free(text);
    text = page_with("settings/tokenizer", "\"bpe\"");
    says_not(text, ">bits</th>");
    free(text);
}
END_TEST

START_TEST(lengths_that_were_not_measured) {
    json_t *root = sample();
    char   *text = page_with(NULL, NULL), place[32];
    says(text, "<b>softmax</b>: windows of 256 tokens: the learned positions of the model end at "
               "--block-size 64.</li>");
    says(text, "All losses by position");
    free(text);
    for (int i = 0; i < 12; i++) {
        snprintf(place, sizeof place, "positions/%d/loss", i);
        put_at(root, place, "[]");
        snprintf(place, sizeof place, "positions/%d/from", i);
        put_at(root, place, "[]");
        snprintf(place, sizeof place, "positions/%d/refused", i);
        put_at(root, place, "\"it is <masked>\"");
    }
    text = page_of(root);
    says(text, "<li><b>softmax</b>, <b>a_b^{c}@2+window@2</b>, <b>x&lt;script&gt;alert(1)"
               "&lt;/script&gt;&amp;&quot;q&quot;</b>, <b>diverges</b>: it is &lt;masked&gt;.</li>\n"
               "</ul>");
    says_not(text, "All losses by position");
    free(text);
}
END_TEST

START_TEST(rates_at_the_edge_are_told) {
    char *text = page_with(NULL, NULL);
    says(text, "Chosen by the validation loss, from 1 seed for each rate. </p>");
    says(text, "Chosen by the validation loss, from 1 seed for each rate; the findings are of "
               "accuracy. The rate chosen for <b>a_b^{c}@2+window@2</b> is the highest that was "
               "tried: a higher one may be better. </p>");
    says_not(text, "is the lowest");
    free(text);
    text = page_with("sweeps/0/chosen", "0.0003");
    says(text, "The rate chosen for <b>softmax</b> is the lowest that was tried: a lower one may");
    free(text);
    text = page_with("sweeps/0/tried/1/n", "2");
    says(text, "from 1 to 2 seeds for each rate. ");
    free(text);
}
END_TEST

START_TEST(growth_needs_three_lengths) {
    char *text = page_with(NULL, NULL);
    says(text, ">1,024 or less</td>");
    says(text, ">2,560</td>");
    says(text, "diverges</th><td class=\"n\">–</td><td></td><td class=\"n\" data-v=\"1.9\">");
    free(text);
}
END_TEST

START_TEST(options_that_differ_stand_with_the_runs) {
    char *text = page_with(NULL, NULL);
    says(text, "<td class=\"words\">short-conv=4</td>");
    says_not(text, "n-layer=4");
    free(text);
    text = page_with("runs/3/options/n-layer", "\"5\"");
    says(text, "<td class=\"words\">n-layer=5</td>");
    says(text, "n-layer=4 short-conv=4</td>");
    free(text);
}
END_TEST

START_TEST(words_of_the_command_are_whole) {
    char *text = page_with("command", "\"a --b='c  d' \\\"e \\\\\\\" f\\\" g\\\\ h  i\"");
    says(text, "<code><span>a</span> <span>--b='c  d'</span> <span>&quot;e \\&quot; f&quot;</span> "
               "<span>g\\ h</span>  <span>i</span></code>");
    free(text);
}
END_TEST

/* gnuplot's commands for two points with intervals, on an axis of that range. */
static char *script_of(la_chart *c, double from, double to) {
    char  *text = NULL;
    size_t n = 0;
    FILE  *out = open_memstream(&text, &n);
    la_chart_series(c, LA_CHART_POINT, 0);
    la_chart_interval(c, from, .95, .2);
    la_chart_interval(c, to, .5, .1);
    c->x.from = from, c->x.to = to;
    la_chart_script(c, out);
    ck_assert_int_eq(fclose(out), 0);
    for (size_t i = 0; i < c->n_series; i++) free(c->series[i].points);
    free(c->series);
    free(c);
    return text;
}

START_TEST(ticks_reach_over_the_axis) {
    la_chart *c = la_chart_begin("x", "y");
    la_chart_log(c, 1, 0);
    char *text = script_of(c, 11, 9000); /* of powers of ten only two */
    says(text, "set xtics ('20' 20, '50' 50, '100' 100, '200' 200, '500' 500, '1000' 1000, "
               "'2000' 2000, '5000' 5000)");
    free(text);
    c = la_chart_begin("x", "y");
    la_chart_log(c, 1, 0);
    text = script_of(c, 3.8, 17);
    says(text, "set xtics ('5' 5, '7' 7, '10' 10, '15' 15)");
    free(text);
    c = la_chart_begin("x", "y");
    la_chart_whole(c);
    text = script_of(c, -.5, 1.5);
    says(text, "set xtics ('0' 0, '1' 1)");
    free(text);
}
END_TEST

START_TEST(intervals_of_shares_end_at_0_and_1) {
    la_chart *c = la_chart_begin("x", "y");
    la_chart_share(c);
    char *text = script_of(c, 1, 2);
    says(text, "1 0.95 0.75 1\n2 0.5 0.4 0.6\n");
    free(text);
    text = script_of(la_chart_begin("x", "y"), 1, 2);
    says(text, "1 0.95 0.75 1.15\n");
    free(text);
}
END_TEST

START_TEST(a_seed_is_shown_whole) {
    json_t *root = sample();
    for (int i = 0; i < 4; i++) {
        char place[32];
        snprintf(place, sizeof place, "samples/%d/seed", i);
        put_at(root, place, "9007199254740991");
    }
    char *text = page_of(root);
    ck_assert_ptr_nonnull(strstr(text, "seed 9007199254740991</h3>"));
    free(text);
}
END_TEST

/* Names of 250 letters that differ in the last ones; each variant's run takes 1000 + i ms a step. */
START_TEST(seventy_variants_with_long_names) {
    enum { N = 70 };
    json_t *root = json_pack("{s:s,s:[{s:s,s:s,s:[{s:s,s:f}]}],s:[],s:[],s:[]}", "schema",
                             "lina-results-1", "problems", "name", "p", "measure", "val_loss",
                             "baselines", "name", "two letters", "loss", 2.5, "variants", "runs",
                             "summary");
    char    name[256], cell[96];
    ck_assert_ptr_nonnull(root);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "%0250d", i);
        json_array_append_new(json_object_get(root, "variants"), json_pack("{s:s}", "name", name));
        json_array_append_new(json_object_get(root, "runs"),
                              json_pack("{s:s,s:s,s:s,s:{s:i}}", "problem", "p", "variant", name,
                                        "purpose", "main", "timing", "ms_per_step", 1000 + i));
        json_array_append_new(json_object_get(root, "summary"),
                              json_pack("{s:s,s:s,s:i,s:f,s:{s:f}}", "problem", "p", "variant",
                                        name, "n", 1, "lr", .1, "loss", "mean", 2 + .01 * i));
    }
    char       *text = page_of(root);
    const char *table = strstr(text, "final validation loss");
    ck_assert_ptr_nonnull(table);
    ck_assert_ptr_nonnull(strstr(table, "<tr class=\"base\"><th scope=\"row\">two letters</th>"));
    for (int i = 0; i < N; i++) {
        snprintf(cell, sizeof cell, "data-v=\"%d\">%d.00</td>", 1000 + i, 1000 + i);
        ck_assert_msg(strstr(table, cell) != NULL, "%s is not in the table", cell);
    }
    free(text);
}
END_TEST

START_TEST(what_could_not_be_done_is_said) {
    json_t *root = sample();
    put_at(root, "missing", "[\"one & two\", \"three\"]");
    put_at(root, "speed/notes",
           "[{\"variant\": \"softmax\", \"what\": \"decode\", \"text\": \"Without p.\"},"
           " {\"variant\": \"diverges\", \"what\": \"decode\", \"text\": \"Without q.\"},"
           " {\"variant\": \"diverges\", \"what\": \"decode\", \"text\": \"Without p.\"}]");
    char *text = page_of(root), *at = strstr(text, "Without p.");
    ck_assert_ptr_nonnull(strstr(text, "<li>one &amp; two</li>\n<li>three</li>"));
    ck_assert_ptr_null(strstr(text, "was stopped before its end"));
    ck_assert_ptr_nonnull(at);
    ck_assert_ptr_null(strstr(at + 1, "Without p."));
    ck_assert_ptr_nonnull(strstr(text, "<b>softmax</b>, <b>diverges</b>: Without p.</li>"));
    ck_assert_ptr_nonnull(strstr(text, "<b>diverges</b>: Without q.</li>"));
    ck_assert_ptr_nonnull(strstr(text, "Every learning rate that was tried (0.0003, 0.001, 0.003) "
                                       "diverged for <b>diverges</b>."));
    free(text);
    root = sample();
    put_at(root, "missing", "[]");
    text = page_of(root);
    ck_assert_ptr_nonnull(strstr(text, "was stopped before its end"));
    free(text);
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
    tcase_add_test(c, a_page_of_the_sample);
    tcase_add_test(c, results_that_are_no_object_are_refused);
    tcase_add_loop_test(c, odd_results_make_a_page, 0, sizeof odd / sizeof *odd);
    tcase_add_test(c, charts_of_any_numbers_end);
    tcase_add_test(c, a_seed_is_shown_whole);
    tcase_add_test(c, seventy_variants_with_long_names);
    tcase_add_test(c, what_could_not_be_done_is_said);
    tcase_add_test(c, what_numbers_mean_is_said);
    tcase_add_test(c, references_are_named_and_counted);
    tcase_add_test(c, columns_stand_where_they_say_something);
    tcase_add_test(c, lengths_that_were_not_measured);
    tcase_add_test(c, rates_at_the_edge_are_told);
    tcase_add_test(c, growth_needs_three_lengths);
    tcase_add_test(c, options_that_differ_stand_with_the_runs);
    tcase_add_test(c, words_of_the_command_are_whole);
    tcase_add_test(c, ticks_reach_over_the_axis);
    tcase_add_test(c, intervals_of_shares_end_at_0_and_1);
    return run_suite(s);
}
