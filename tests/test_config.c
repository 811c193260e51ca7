/* test_config.c -- options: defaults, values, precedence, texts, resuming, help. */
#include <locale.h>
#include <unistd.h>

#include "optim/optim.h"
#include "tests/testing.h"
#include "train/config.h"

enum { MOST_ARGS = 24 };

static la_config c; /* of the test that runs */

static void set_up(void) { la_config_init(&c); }
static void tear_down(void) { la_config_free(&c); }

/* Parses the words of a line, which are separated by single spaces: no value here has one. */
static la_status parse_into(la_config *into, la_tool tool, const char *line) {
    static char words[1024];
    static char program[] = "program";
    char       *argv[MOST_ARGS + 1] = {program};
    int         argc = 1;
    ck_assert_uint_lt(strlen(line), sizeof words);
    strcpy(words, line);
    for (char *w = words, *next; w && *line; w = next) {
        next = strchr(w, ' ');
        if (next) *next++ = 0;
        ck_assert_int_lt(argc, MOST_ARGS);
        argv[argc++] = w;
    }
    return la_config_parse(into, tool, argc, argv);
}

static la_status parse(la_tool tool, const char *line) {
    la_config_free(&c);
    return parse_into(&c, tool, line);
}
static la_status train(const char *line) { return parse(LA_TOOL_TRAIN, line); }

static char *text_of(const la_config *of) {
    char *text;
    OK(la_config_text(of, LA_TOOL_TRAIN, &text));
    return text;
}

static int  differences;
static void count(void *ctx, const char *name, const char *was, const char *now) {
    (void)ctx, (void)name, (void)was, (void)now;
    differences++;
}

/* The whole of a help page; free() it. */
static char *page(la_tool tool, la_help_kind kind) {
    char  *text;
    size_t n;
    FILE  *f = open_memstream(&text, &n);
    ck_assert_ptr_nonnull(f);
    la_config_help(f, tool, kind);
    ck_assert_int_eq(fclose(f), 0);
    return text;
}

/* Whether --name stands there, and not only as the beginning of another option. */
static bool lists(const char *text, const char *name) {
    char option[64];
    snprintf(option, sizeof option, "--%s", name);
    for (const char *p = text; (p = strstr(p, option)); p += strlen(option)) {
        char next = p[strlen(option)];
        if (!((next >= 'a' && next <= 'z') || next == '-')) return true;
    }
    return false;
}

static const la_tool tools[] = {LA_TOOL_TRAIN, LA_TOOL_GENERATE, LA_TOOL_GRADCHECK, LA_TOOL_BENCH,
                                LA_TOOL_COMPARE};
enum { TOOLS = sizeof tools / sizeof *tools };

/* A tool's option of that name; NULL: it has none. */
static const la_option *option_of(la_tool tool, const char *name) {
    for (int i = 0; i < LA_N_OPTIONS; i++)
        if ((la_options[i].tools & tool) && !strcmp(la_options[i].name, name))
            return &la_options[i];
    return NULL;
}

/* ---- the table --------------------------------------------------------------------------- */

START_TEST(defaults_are_those_of_the_specification) {
    static const struct {
        const char *name, *value;
    } want[] =
        {
            {"attn", "softmax"},
            {"data", ""},
            {"task", ""},
            {"val-data", ""},
            {"val-frac", "0.1"},
            {"tokenizer", "char"},
            {"objective", "causal"},
            {"n-layer", "4"},
            {"n-head", "4"},
            {"n-embd", "128"},
            {"block-size", "64"},
            {"dropout", "0"},
            {"pos", "learned"},
            {"bias", "off"},
            {"short-conv", "0"},
            {"eps", "1e-06"},
            {"batch-size", "12"},
            {"grad-accum", "1"},
            {"max-iters", "2000"},
            {"lr", "0.001"},
            {"min-lr", "0.0001"},
            {"warmup-iters", "100"},
            {"lr-decay-iters", "0"},
            {"schedule", "cosine"},
            {"optim", "adamw"},
            {"weight-decay", "0.1"},
            {"beta1", "0.9"},
            {"beta2", "0.99"},
            {"grad-clip", "1"},
            {"recompute", "off"},
            {"eval-interval", "250"},
            {"eval-iters", "0"},
            {"patience", "0"},
            {"stop-at", "0"},
            {"eval-only", "off"},
            {"sample-every", "0"},
            {"prompt", ""},
            {"out-dir", ""},
            {"overwrite", "off"},
            {"resume", ""},
            {"init-from", ""},
            {"trust-file", "off"},
            {"keep", "2"},
            {"csv", "off"},
            {"tensorboard", "off"},
            {"save-interval", "0"},
            {"seed", "1337"},
            {"threads", "0"},
            {"preset", ""},
            {"config", ""},
            {"dry-run", "off"},
            {"dump-graph", ""},
            {"overfit-batch", "off"},
            {"log-interval", "0"},
            {"quiet", "off"},
            {"checkpoint", ""},
            {"tokens", "500"},
            {"temperature", "0.8"},
            {"top-k", "200"},
            {"top-p", "1"},
            {"show-attention", ""},
            {"explain", ""},
            {"n", "4096"},
            {"d", "64"},
            {"heads", "8"},
            {"batch", "1"},
            {"vocab", "65"},
            {"positions", "10,100,1000,10000,100000"},
            {"repeats", "0"},
            {"json", "off"},
            {"n-mlp", "0"},
            {"on-nonfinite", "stop"},
            {"seeds", "3"},
            {"sweep-seeds", "1"},
            {"budget", ""},
            {"match-params", "off"},
            {"jobs", "1"},
            {"target", "0"},
            {"longest", "32768"},
            {"report", ""},
        },
      of_compare[] = {
          {"attn", ""}, {"data", ""}, {"task", ""}, {"lr", "0.001"}}; /* names of train's too */
    char      buf[LA_NUMBER_TEXT];
    const int n = sizeof want / sizeof *want, n_compare = sizeof of_compare / sizeof *of_compare;
    ck_assert_int_eq(LA_N_OPTIONS, n + n_compare);
    for (int k = 0; k < n_compare; k++) {
        const la_option *o = option_of(LA_TOOL_COMPARE, of_compare[k].name);
        ck_assert_ptr_nonnull(o);
        ck_assert_str_eq(la_config_value(&c, (int)(o - la_options), buf), of_compare[k].value);
    }
    for (int i = 0; i < LA_N_OPTIONS; i++) {
        int k = 0;
        if (la_options[i].tools & LA_TOOL_COMPARE && !(la_options[i].tools & LA_TOOL_TRAIN) &&
            option_of(LA_TOOL_TRAIN, la_options[i].name))
            continue; /* of_compare */
        while (k < n && strcmp(want[k].name, la_options[i].name) != 0) k++;
        ck_assert_msg(k < n, "--%s is not specified", la_options[i].name);
        ck_assert_str_eq(la_config_value(&c, i, buf), want[k].value);
    }
}
END_TEST

/* The table's own promises: names are the fields with -, defaults are in range, no name twice. */
START_TEST(the_table_agrees_with_itself) {
    static const char *const fields[] = {
#define X(group, field, ...) #field,
#include "train/options.def"
    };
    for (int i = 0; i < LA_N_OPTIONS; i++) {
        const la_option *o = &la_options[i];
        char             name[64], buf[LA_NUMBER_TEXT];
        snprintf(name, sizeof name, "%s", fields[i]);
        for (char *s = name; *s; s++) *s = *s == '_' ? '-' : *s;
        if (i != LA_OPT_variants && i != LA_OPT_texts && i != LA_OPT_tasks && i != LA_OPT_rates)
            ck_assert_str_eq(o->name, name); /* those are called as train's of one */
        ck_assert_uint_ne(o->tools & 31, 0);
        ck_assert_uint_eq(o->tools & ~63u, 0);
        ck_assert_msg((o->type == LA_FLAG) == !o->place, "--%s: only flags have no placeholder",
                      o->name);
        if (o->type == LA_INT || o->type == LA_REAL) {
            double x = strtod(la_config_value(&c, i, buf), NULL);
            ck_assert_msg(o->min <= x && x <= o->max, "the default of --%s is out of range",
                          o->name);
        }
        for (int k = 0; k < i; k++) /* one name, one option of a tool */
            ck_assert(strcmp(o->name, la_options[k].name) ||
                      !(o->tools & la_options[k].tools & ~(unsigned)LA_SHORT_HELP));
    }
}
END_TEST

START_TEST(each_tool_takes_its_own_options_and_no_others) {
    for (size_t t = 0; t < TOOLS; t++)
        for (int i = 0; i < LA_N_OPTIONS; i++) {
            char      line[128];
            la_config other;
            la_config_init(&other);
            snprintf(line, sizeof line,
                     "--%s=", la_options[i].name); /* an empty value is an error of its own */
            la_status s = parse_into(&other, tools[t], line);
            bool      unknown = strstr(la_error(), "unknown option") != NULL;
            ck_assert_int_ne(s, LA_OK);
            if (i == LA_OPT_prompt && (la_options[i].tools & tools[t]))
                unknown = false; /* may be empty */
            ck_assert_msg(unknown == !option_of(tools[t], la_options[i].name), "--%s: %s",
                          la_options[i].name, la_error());
            la_config_free(&other);
        }
}
END_TEST

/* ---- command lines ------------------------------------------------------------------------ */

START_TEST(values_follow_a_space_or_an_equals_sign_and_the_last_one_counts) {
    OK(train(
        "--data x --n-head=2 --n_layer 3 --lr=5e-2 --bias --quiet=on --overwrite=off --n-layer 7"));
    ck_assert_int_eq(c.n_head, 2);
    ck_assert_int_eq(c.n_layer, 7);
    ck_assert_double_eq(c.lr, 0.05);
    ck_assert(c.bias && c.quiet && !c.overwrite);
    OK(train("--data - --prompt=a=b --pos rope --optim=sgd --attn double_softmax:chunk=32"));
    ck_assert_str_eq(c.data, "-");
    ck_assert_str_eq(c.prompt, "a=b");
    ck_assert_str_eq(c.attn, "double-softmax:chunk=32");
    ck_assert(la_config_given(&c, LA_OPT_pos) && !la_config_given(&c, LA_OPT_n_head));
    OK(train("--bias --data x --bias=off --prompt=--data"));
    ck_assert(!c.bias);
    ck_assert_str_eq(c.prompt, "--data");
    OK(train("--data x --seed 9007199254740991 --max-iters 1000000000000"));
    ck_assert_int_eq(c.seed, 9007199254740991);
}
END_TEST

START_TEST(lists_take_every_value_and_others_the_last) {
    OK(parse(LA_TOOL_COMPARE,
             "--attn elu1 --data a --lr 1 --attn=softmax --lr=2 --attn window:w=4"));
    ck_assert_str_eq(c.variants, "elu1\nsoftmax\nwindow:w=4");
    ck_assert_str_eq(c.texts, "a");
    ck_assert_str_eq(c.rates, "2");
    ck_assert_int_eq(parse(LA_TOOL_COMPARE, "--attn elu1 --attn= --data a"), LA_ARG);
}
END_TEST

START_TEST(resume_may_have_a_value) {
    OK(train("--resume"));
    ck_assert_str_eq(c.resume, "auto");
    OK(train("--resume=runs/a/last.h5"));
    ck_assert_str_eq(c.resume, "runs/a/last.h5");
    FAILS(train("--resume best"), LA_ARG, "--resume=best");
}
END_TEST

START_TEST(options_that_print_end_the_parsing) {
    static const struct {
        const char  *line;
        la_help_kind kind;
    } cases[] = {{"-h", LA_HELP_SHORT},
                 {"--n-head 2 --help --nonsense", LA_HELP_SHORT},
                 {"--help-all", LA_HELP_ALL},
                 {"--help_man", LA_HELP_MAN},
                 {"--help-bash", LA_HELP_BASH},
                 {"--version", LA_HELP_VERSION},
                 {"--list-attn", LA_HELP_LIST_ATTN},
                 {"--list-tasks", LA_HELP_LIST_TASKS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(train(cases[i].line));
        ck_assert_int_eq(c.help, cases[i].kind);
    }
    FAILS(parse(LA_TOOL_GENERATE, "--list-attn"), LA_NAME, "unknown option");
    FAILS(train("--version=2"), LA_ARG, "takes no value");
}
END_TEST

START_TEST(gradcheck_and_bench_collect_names) {
    OK(parse(LA_TOOL_GRADCHECK, "elu1 --explain=linear -- --odd"));
    ck_assert_int_eq(c.n_names, 2);
    ck_assert_str_eq(c.names[0], "elu1");
    ck_assert_str_eq(c.names[1], "--odd");
    ck_assert_str_eq(c.explain, "linear");
    OK(parse(LA_TOOL_GRADCHECK, ""));
    ck_assert_int_eq(c.n_names, 0);
    OK(parse(LA_TOOL_BENCH, "attention --n 64"));
    ck_assert_int_eq(c.n_names, 1);
    ck_assert_int_eq(c.n, 64);
    FAILS(parse(LA_TOOL_GENERATE, "--checkpoint x y"), LA_ARG, "unexpected argument \"y\"");
}
END_TEST

static const struct refusal {
    const char *line;
    la_status   status;
    const char *says;
} refusals[] = {
    {"--n-head 0", LA_ARG, "--n-head must be from 1 to 1024, and is 0"},
    {"--n-head 1025", LA_ARG, "--n-head must be from 1 to 1024, and is 1025"},
    {"--n-head -3", LA_ARG, "and is -3"},
    {"--n-head 4x", LA_ARG, "--n-head must be a whole number from 1 to 1024, and is \"4x\""},
    {"--n-head 4.0", LA_ARG, "whole number"},
    {"--n-head=", LA_ARG, "and is \"\""},
    {"--n-head 0x4", LA_ARG, "whole number"},
    {"--n-head 99999999999999999999999999", LA_ARG, "must be from 1 to 1024"},
    {"--seed 9007199254740992", LA_ARG, "from 0 to 9007199254740991"},
    {"--seed 9007199254740993", LA_ARG, "from 0 to 9007199254740991"},
    {"--max-iters 1000000000001", LA_ARG, "from 0 to 1000000000000"},
    {"--lr nan", LA_ARG, "--lr must be a number from 0 to 100, and is \"nan\""},
    {"--lr inf", LA_ARG, "must be a number"},
    {"--lr 1e999", LA_ARG, "--lr must be from 0 to 100, and is 1e999"},
    {"--lr 1,5", LA_ARG, "and is \"1,5\""},
    {"--lr 1e", LA_ARG, "must be a number"},
    {"--lr -1e-9", LA_ARG, "from 0 to 100, and is -1e-9"},
    {"--dropout 1", LA_ARG, "--dropout must be from 0 to 0.999, and is 1"},
    {"--n-hed 4", LA_NAME, "unknown option \"--n-hed\": did you mean --n-head?"},
    {"-attn elu1", LA_NAME, "did you mean --attn?"},
    {"--tasks=3", LA_NAME, "unknown option \"--tasks\""},
    {"--bias=yes", LA_ARG, "--bias must be on or off, and is \"yes\""},
    {"--bias on", LA_ARG, "--bias=on"},
    {"corpus.txt", LA_ARG, "unexpected argument \"corpus.txt\""},
    {"--n-head", LA_ARG, "--n-head needs a value: --n-head N"},
    {"--lr --n-head 4", LA_ARG, "--lr needs a value and is followed by --n-head"},
    {"--data=", LA_ARG, "--data must not be empty"},
    {"--resume=", LA_ARG, "--resume must not be empty"},
    {"--pos rop", LA_NAME, "unknown value of --pos \"rop\": did you mean rope?"},
    {"--objective mml", LA_NAME, "unknown value of --objective \"mml\": did you mean mlm?"},
    {"--objective mlm --sample-every 9", LA_ARG, "--objective mlm has none"},
    {"--optim adam", LA_NAME, "did you mean adamw?"},
    {"--schedule=linea", LA_NAME, "did you mean linear?"},
    {"--tokenizer bpe", LA_NAME, "(known: char, byte)"},
    {"--preset shakespeare", LA_NAME, "did you mean shakespeare-"},
    {"--attn elu", LA_NAME, "unknown attention variant \"elu\": did you mean elu1?"},
    {"--attn elu1:chnk=3", LA_NAME, "unknown key of --attn \"chnk\": did you mean chunk?"},
    {"--attn elu1:chunk=x", LA_ARG,
     "chunk in --attn must be a whole number from 0 to 16777216, and is \"x\""},
    {"--attn elu1:chunk", LA_ARG, "and is \"\""},
    {"--attn elu1:eps=2", LA_ARG, "eps in --attn must be a number from 0 to 1, and is \"2\""},
    {"--attn elu1:", LA_ARG, "nothing stands after the colon or a comma of --attn elu1"},
    {"--n-embd 130", LA_ARG, "must be a multiple of --n-head 4, and is 130: 128 or 132 would do"},
    {"--n-embd 3", LA_ARG, "and is 3: 4 would do"},
    {"--pos rope --n-embd 12", LA_ARG, "--n-embd 12 by --n-head 4 is 3"},
    {"--lr 1e-5", LA_ARG,
     "--min-lr must not be above --lr 1e-05, and is 0.0001 by default: give both"},
    {"--lr .1 --min-lr .2", LA_ARG, "--lr 0.1, and is 0.2"},
    {"--keep 0", LA_ARG, "--keep must be from 1"},
    {"--batch-size 1048577", LA_ARG, "from 1 to 1048576"},
    {"--resume --init-from x", LA_ARG, "only one can be given"},
    {"--resume --overwrite", LA_ARG, "only one can be given"},
    {"--eval-only", LA_ARG, "--eval-only needs a model"},
    {"--val-data y --val-frac .1", LA_ARG, "only one can be given"},
    {"--data - --val-data -", LA_ARG, "standard input"},
    {"--config none/such.conf", LA_IO, "cannot read the config file none/such.conf"},
    {"--config /", LA_IO, "cannot read the config file /"},
};

START_TEST(what_is_wrong_is_refused_with_a_sentence) {
    char line[256];
    snprintf(line, sizeof line, "--data x %s", refusals[_i].line);
    FAILS(train(line), refusals[_i].status, refusals[_i].says);
}
END_TEST

START_TEST(what_is_needed_is_asked_for) {
    FAILS(train(""), LA_ARG, "--data is missing");
    FAILS(train("--eval-only --init-from x"), LA_ARG, "--data is missing");
    OK(train("--eval-only --init-from x --val-data y"));
    OK(train("--resume"));
    FAILS(parse(LA_TOOL_GENERATE, "--tokens 3"), LA_ARG, "--checkpoint is missing");
    OK(parse(LA_TOOL_GENERATE, "--checkpoint x --temperature 0 --top-k 0 --top-p 0.5 --prompt="));
    OK(train("--data x --schedule constant --lr 1e-5"));
}
END_TEST

START_TEST(control_characters_do_not_reach_the_screen) {
    FAILS(train("--data x --n-head \x1b[31m"), LA_ARG, "and is \"?[31m\"");
    FAILS(
        train("--data x --n-head "
              "1234567890123456789012345678901234567890123456789012345678\xc3\xa9\xc3\xa9\xc3\xa9"),
        LA_ARG, "5678\xc3\xa9...");
    FAILS(train("--data x --n-head \xff\xc3\xa9\xe2\x82\x7f"), LA_ARG, "and is \"?\xc3\xa9???\"");
    FAILS(train("--data x --n-head \xc2\x9b" /* CSI of terminals */ "2J"), LA_ARG,
          "and is \"?2J\"");
    FAILS(train("--data x --config none/\x1b\x80.conf"), LA_IO, "none/??.conf");
    FAILS(la_fail(LA_IO, "cannot write %s",
                  "a\x1b[2J\xfe"
                  "b\xc2\x85"),
          LA_IO, "cannot write a?[2J?b?");
}
END_TEST

START_TEST(a_text_that_is_no_utf8_is_cut_near_its_limit) {
    char bytes[2 * LA_SHOWN], buf[LA_SHOWN], expected[LA_SHOWN];
    memset(bytes, 0x80, sizeof bytes - 1);
    bytes[sizeof bytes - 1] = 0;
    memset(expected, '?', LA_SHOWN - 7); /* three may have been the rest of a character */
    strcpy(expected + LA_SHOWN - 7, "...");
    ck_assert_str_eq(la_shown(bytes, buf), expected);
    char path[2 * LA_FILE_NAME], name[LA_FILE_NAME];
    memset(path, 0x80, sizeof path - 1);
    path[sizeof path - 1] = 0;
    ck_assert_uint_eq(strlen(la_file_name(path, name)), LA_FILE_NAME - 4);
    ck_assert_uint_eq(strspn(name + 3, "?"), LA_FILE_NAME - 7);
}
END_TEST

START_TEST(a_spec_of_attention_has_a_name_and_keys) {
    la_attn_cfg a;
    OK(la_attn_parse("elu1", 0.25, &a));
    ck_assert_str_eq(a.variant->name, "elu1");
    ck_assert_double_eq(a.eps, 0.25);
    ck_assert_int_eq(a.chunk, 0);
    OK(la_attn_parse("cosine:eps=1e-3,chunk=16", 0.25, &a));
    ck_assert_str_eq(a.variant->name, "cosine");
    ck_assert_double_eq(a.eps, 1e-3);
    ck_assert_int_eq(a.chunk, 16);
    FAILS(la_attn_parse("elu", 0, &a), LA_NAME, "did you mean elu1?");
    FAILS(la_attn_parse("", 0, &a), LA_NAME, "unknown attention variant");
    FAILS(la_attn_parse("softmax:eps=1e-3", 0, &a), LA_ARG, "softmax does not read eps");
    FAILS(la_attn_parse("elu1:chunk=4,", 0, &a), LA_ARG, "nothing stands after the colon");
    FAILS(la_attn_parse("elu1:decay=2", 0, &a), LA_ARG, "a number between 0 and 1");
    FAILS(la_attn_parse("elu1:norm=l2", 0, &a), LA_ARG, "rms or none");
    FAILS(la_attn_parse("elu1:chunk=1.5", 0, &a), LA_ARG, "whole number");
    FAILS(la_attn_parse("none:chunk=1", 0, &a), LA_ARG, "nor anything else");
    FAILS(la_attn_parse("kernel:m=7", 0, &a), LA_ARG,
          "kernel with q=softplus and k=exp does not read m");
    FAILS(la_attn_parse("kernel:nu=3,q=dpfp,k=dpfp,length=9", 0, &a), LA_ARG, "not read length");
    FAILS(la_attn_parse("kernel:q=favor,k=t2r,d=2", 0, &a), LA_ARG, "does not read d (");
    OK(la_attn_parse("kernel:nu=3,redraw=5,m=4,q=dpfp,k=rff,d=2,eps=0.5,norm=rms", 0, &a));
    ck_assert(a.nu == 3 && a.redraw == 5 && a.m == 4 && a.d == 2);
}
END_TEST

START_TEST(a_task_is_written_out_and_gives_the_size_of_a_window) {
    OK(train("--task mqar:pairs=8"));
    ck_assert_str_eq(c.task, "mqar:vocab=256,length=64,pairs=8,fill=zero,power=0.01");
    OK(train("--task copy"));
    ck_assert_int_eq(c.block_size, 65);
    OK(train("--block-size 30 --task induction --stop-at .9"));
    ck_assert_int_eq(c.block_size, 30);
    OK(train("--task copy --task induction"));
    ck_assert_int_eq(c.block_size, 30);
    OK(train("--task needle --data x --val-frac .2 --tokenizer byte"));
    ck_assert_int_eq(c.block_size, 256);
    ck_assert(!la_config_given(&c, LA_OPT_block_size));
}
END_TEST

START_TEST(a_task_refuses_what_is_for_texts) {
    static const struct {
        const char *line, *says;
    } bad[] = {
        {"--task copy --data x", "--task copy makes its own rows instead of --data: only one"},
        {"--task copy --val-data x", "has no text for --val-data"},
        {"--task copy --val-frac .2", "has no text for --val-frac"},
        {"--task copy --tokenizer byte", "has no text for --tokenizer"},
        {"--task needle", "--data FILE, which names it, is missing"},
        {"--task copy --objective mlm", "--objective mlm hides others"},
        {"--task needle --data x --objective mlm", "--objective mlm hides others"},
        {"--task copy --sample-every 5", "--sample-every writes text"},
        {"--task copy --block-size 64", "rows of --task copy have 65 tokens: leave it out"},
        {"--task copy --preset shakespeare-gpu", "--block-size is 256"},
        {"--data x --stop-at .5", "which only --task has"},
        {"--task copy --stop-at 2", "--stop-at must be from 0 to 1"},
        {"--eval-only --task copy", "--eval-only needs a model"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(train(bad[i].line), LA_ARG, bad[i].says);
    FAILS(train("--task copi"), LA_NAME, "did you mean copy?");
}
END_TEST

START_TEST(the_folder_is_named_after_variant_and_seed) {
    char *path;
    OK(train("--task copy --seed 7"));
    OK(la_config_out_dir(&c, &path));
    ck_assert_str_eq(path, "runs/softmax-copy-s7");
    free(path);
    OK(train("--task mqar:pairs=2,power=.5 --attn elu1 --pos none --short-conv 4 --seed 7"));
    OK(la_config_out_dir(&c, &path));
    ck_assert_str_eq(path, "runs/elu1-none-conv4-mqar-pairs-2-power-0.5-s7");
    free(path);
    OK(train("--data x --attn elu1:chunk=8 --seed 7"));
    OK(la_config_out_dir(&c, &path));
    ck_assert_str_eq(path, "runs/elu1-chunk-8-s7");
    free(path);
    OK(train("--data x --attn elu1 --objective mlm --seed 7"));
    OK(la_config_out_dir(&c, &path));
    ck_assert_str_eq(path, "runs/elu1-mlm-s7");
    free(path);
    OK(train("--data x --out-dir a/b:c"));
    OK(la_config_out_dir(&c, &path));
    ck_assert_str_eq(path, "a/b:c");
    free(path);
}
END_TEST

/* ---- texts -------------------------------------------------------------------------------- */

static const char *const awkward[] = {
    "plain.txt",
    "with space",
    " spaces around ",
    " before",
    "after ",
    "# no comment",
    "a #b",
    "a#b",
    "\"quoted\"",
    "back\\slash",
    "\\n is no new line",
    "two\nlines\n",
    "\t tab",
    "\r",
    "caf\xc3\xa9 \xe2\x88\x9e \xf0\x9f\x98\x80",
    "not UTF-8: \xff\xc3",
    "\x01\x7f",
    "key = value",
    "=",
    "'",
    "on",
    "-",
    "1e5",
    "\"",
    "\\",
    "\\\"",
    "\xef\xbb\xbf",
};

START_TEST(a_text_gives_every_value_back_exactly) {
    for (uint32_t round = 0; round < 300; round++) {
        la_config back;
        for (int i = 0; i < LA_N_OPTIONS; i++) {
            const la_option *o = &la_options[i];
            void            *field = (char *)&c + o->offset;
            double      u = (test_uniform(round, i) + 1) / 2, x = o->min + u * (o->max - o->min);
            const char *word = awkward[(int)(u * (double)(sizeof awkward / sizeof *awkward))];
            int         n = 0;
            while (o->choices && o->choices(n)) n++;
            if (round % 2) x *= exp(-40 * u); /* small ones too */
            if (x < o->min) x = o->min;
            if (o->type == LA_INT)
                *(int64_t *)field = (int64_t)ceil(x);
            else if (o->type == LA_REAL)
                *(double *)field = x;
            else if (o->type == LA_FLAG)
                *(bool *)field = u < 0.5;
            else if (o->type == LA_SPEC)
                *(const char **)field = u < 0.5 ? "elu1:chunk=3,eps=1e-3" : "none";
            else if (o->type == LA_TASK)
                *(const char **)field = u < 0.5 ? "induction:vocab=20,length=30" : "";
            else if (o->type == LA_CHOICE)
                *(const char **)field = o->choices((int)(u * n));
            else
                *(const char **)field = u < 0.1 ? "" : word;
        }
        char *text = text_of(&c);
        la_config_init(&back);
        OK(la_config_from_text(&back, text, "text"));
        differences = 0;
        la_config_diff(&c, &back, count, NULL);
        ck_assert_msg(differences == 0, "%d values differ after reading\n%s", differences, text);
        char *again = text_of(&back);
        ck_assert_str_eq(text, again);
        ck_assert(!la_config_given(&back, LA_OPT_n_head)); /* a checkpoint is not the user */
        free(text);
        free(again);
        la_config_free(&back);
    }
}
END_TEST

START_TEST(numbers_are_short_and_exact) {
    static const struct {
        double      x;
        const char *text;
    } cases[] = {{0, "0"},
                 {1e-3, "0.001"},
                 {0.1, "0.1"},
                 {1e-6, "1e-06"},
                 {20000, "20000"},
                 {1e6, "1000000"},
                 {9007199254740991, "9007199254740991"},
                 {-2.5, "-2.5"},
                 {1.0 / 3, "0.3333333333333333"}};
    char buf[LA_NUMBER_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_str_eq(la_number_text(cases[i].x, buf), cases[i].text);
    for (int64_t i = 0; i < 20000; i++) {
        double x = ldexp(test_uniform(1, i), (int)(1000 * test_uniform(2, i)));
        ck_assert_double_eq(strtod(la_number_text(x, buf), NULL), x);
    }
    ck_assert_double_eq(strtod(la_number_text(5e-324, buf), NULL), 5e-324);
    ck_assert_double_eq(strtod(la_number_text(1.7976931348623157e308, buf), NULL),
                        1.7976931348623157e308);
}
END_TEST

START_TEST(only_stored_options_are_in_the_text) {
    OK(train("--data x --threads 3 --out-dir o --quiet --dry-run --trust-file --preset "
             "shakespeare-gpu"));
    char *text = text_of(&c);
    for (int i = 0; i < LA_N_OPTIONS; i++) {
        char line[64];
        snprintf(line, sizeof line, "\n%s = ", la_options[i].name);
        bool stored = la_options[i].binding != LA_BIND_LOCAL && i != LA_OPT_data &&
                      i != LA_OPT_val_data && i != LA_OPT_task;
        if (!(la_options[i].tools & LA_TOOL_TRAIN))
            continue; /* may have the name of one of train's */
        ck_assert_msg((strstr(text, line) != NULL) == stored, "%s in\n%s", la_options[i].name,
                      text);
    }
    ck_assert_int_eq(strncmp(text, "data = x\n", 9), 0);
    ck_assert_ptr_nonnull(strstr(text, "n-layer = 6\n"));
    free(text);
}
END_TEST

START_TEST(a_text_may_have_comments_and_space) {
    OK(la_config_from_text(
        &c,
        "\xef\xbb\xbf# comment\r\n\n  n_head =  2  \r\nlr=.5 # half\n\tprompt = say \"hi\" \\n #x\n"
        "data = \"a #b\\x41\" # c\nbias = on\nprompt= # nothing",
        "t"));
    ck_assert_int_eq(c.n_head, 2);
    ck_assert_double_eq(c.lr, 0.5);
    ck_assert_str_eq(c.prompt, "");
    ck_assert_str_eq(c.data, "a #bA");
    ck_assert(c.bias);
    OK(la_config_from_text(&c, "prompt = say \"hi\" \\n #x", "t"));
    ck_assert_str_eq(c.prompt, "say \"hi\" \\n");
}
END_TEST

START_TEST(a_text_is_refused_with_its_line) {
    static const struct refusal texts[] = {
        {"lr = 1\n\nn-hed = 3\n", LA_NAME, "t:3: unknown key \"n-hed\": did you mean n-head?"},
        {"n-head = 3x", LA_ARG,
         "t:1: --n-head must be a whole number from 1 to 1024, and is \"3x\""},
        {"#\nlr", LA_ARG, "t:2: \"lr\" is no line key = value"},
        {"= 3", LA_NAME, "t:1: unknown key \"\""},
        {"prompt = \"abc", LA_ARG, "t:1: the value of prompt needs a closing"},
        {"prompt = \"abc\" d", LA_ARG, "t:1:"},
        {"prompt = \"\\q\"", LA_ARG, "t:1:"},
        {"prompt = \"\\x00\"", LA_ARG, "t:1:"},
        {"prompt = \"\\x4", LA_ARG, "t:1:"},
        {"prompt = \"\\", LA_ARG, "t:1:"},
        {"data =", LA_ARG, "t:1: --data must not be empty"},
        {"help = on", LA_NAME, "unknown key"},
        {"config = other", LA_NAME, "unknown key"},
        {"tokens = 3", LA_NAME, "unknown key"},
        {"bias", LA_ARG, "no line key = value"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        FAILS(la_config_from_text(&c, texts[i].line, "t"), texts[i].status, texts[i].says);
}
END_TEST

/* ---- precedence --------------------------------------------------------------------------- */

static char conf[64];

static void write_conf(const void *bytes, size_t n) {
    strcpy(conf, P_tmpdir "/test_config_XXXXXX");
    int fd = mkstemp(conf);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, n), (ssize_t)n);
    close(fd);
}

START_TEST(default_preset_file_and_command_line_in_any_order) {
    static const char *const orders[] = {"%1$s %2$s %3$s", "%3$s %2$s %1$s", "%2$s %3$s %1$s"};
    const char              *text = "n-head = 8\nn-embd = 512\npatience = 3\n";
    write_conf(text, strlen(text));
    for (size_t i = 0; i < 3; i++) {
        char line[256], file[80];
        snprintf(file, sizeof file, "--config=%s", conf);
        snprintf(line, sizeof line, orders[i], "--data x --n-embd 256", file,
                 "--preset shakespeare-gpu");
        OK(train(line));
        ck_assert_int_eq(c.n_embd, 256);       /* command line */
        ck_assert_int_eq(c.n_head, 8);         /* file         */
        ck_assert_int_eq(c.n_layer, 6);        /* preset       */
        ck_assert_int_eq(c.batch_size, 64);    /* preset       */
        ck_assert_int_eq(c.warmup_iters, 100); /* default    */
        ck_assert_int_eq(c.patience, 3);
        ck_assert_int_eq(c.origin[LA_OPT_n_embd], LA_FROM_COMMAND);
        ck_assert_int_eq(c.origin[LA_OPT_n_head], LA_FROM_FILE);
        ck_assert_int_eq(c.origin[LA_OPT_n_layer], LA_FROM_PRESET);
        ck_assert_int_eq(c.origin[LA_OPT_warmup_iters], LA_FROM_DEFAULT);
    }
    unlink(conf);
}
END_TEST

START_TEST(a_file_may_name_a_preset_and_its_errors_have_lines) {
    char        line[128];
    const char *text = "preset = shakespeare-gpu\n", *bad = "\nn-head = 0\n";
    write_conf(text, strlen(text));
    snprintf(line, sizeof line, "--data x --config %s", conf);
    OK(train(line));
    ck_assert_int_eq(c.n_layer, 6);
    strcat(line, " --preset=shakespeare-cpu");
    OK(train(line));
    ck_assert_int_eq(c.n_layer, 4);
    unlink(conf);

    write_conf(bad, strlen(bad)); /* wrong although the command line replaces it */
    snprintf(line, sizeof line, "--data x --n-head 2 --config %s", conf);
    FAILS(train(line), LA_ARG, ":2: --n-head must be from 1 to 1024, and is 0");
    unlink(conf);

    write_conf("lr = 1\0\n", 8);
    snprintf(line, sizeof line, "--data x --config %s", conf);
    FAILS(train(line), LA_ARG, "a byte 0");
    unlink(conf);
}
END_TEST

START_TEST(presets_are_the_published_ones) {
    OK(train("--data x --preset shakespeare-cpu"));
    la_config plain;
    la_config_init(&plain);
    OK(parse_into(&plain, LA_TOOL_TRAIN, "--data x"));
    differences = 0;
    la_config_diff(&plain, &c, count, NULL);
    ck_assert_int_eq(differences, 0);
    la_config_free(&plain);
    OK(train("--data x --preset shakespeare-gpu"));
    ck_assert(c.n_layer == 6 && c.n_head == 6 && c.n_embd == 384 && c.block_size == 256);
    ck_assert(c.batch_size == 64 && c.max_iters == 5000 && c.dropout == 0.2);
}
END_TEST

/* A program may call setlocale; a comma in numbers must not change a file or refuse one. */
START_TEST(a_decimal_comma_changes_nothing) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8",
                                        "nl_NL.UTF-8"};
    bool                     found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        found = setlocale(LC_ALL, names[i]) && *localeconv()->decimal_point == ',';
    if (!found) {
        setlocale(LC_ALL, "C");
        fprintf(stderr,
                "SKIPPED: a_decimal_comma_changes_nothing: no locale with a decimal comma here\n");
        return;
    }
    char buf[LA_NUMBER_TEXT];
    OK(train("--data x --lr 0.25 --min-lr 2.5e-2"));
    ck_assert_double_eq(c.lr, 1.0 / 4);
    ck_assert_str_eq(la_number_text(0.5, buf), "0.5");
    char *text = text_of(&c);
    ck_assert_ptr_nonnull(strstr(text, "lr = 0.25\n"));
    la_config back;
    la_config_init(&back);
    OK(la_config_from_text(&back, text, "t"));
    ck_assert_double_eq(back.lr, c.lr);
    FAILS(train("--data x --lr 0,25"), LA_ARG, "and is \"0,25\"");
    FAILS(train("--data x --dropout 1"), LA_ARG, "from 0 to 0.999");
    la_config_free(&back);
    free(text);
    setlocale(LC_ALL, "C");
}
END_TEST

/* ---- resuming ------------------------------------------------------------------------------ */

static char changes[256];
static void note(void *ctx, const char *name, const char *was, const char *now) {
    (void)ctx;
    size_t n = strlen(changes);
    snprintf(changes + n, sizeof changes - n, "%s %s %s;", name, was, now);
}

static la_status resume(const char *stored_line, const char *line, la_binding least) {
    la_config stored, read;
    la_config_init(&stored);
    la_config_init(&read);
    OK(parse_into(&read, LA_TOOL_TRAIN, stored_line));
    char *text = text_of(&read); /* as a checkpoint has it */
    OK(la_config_from_text(&stored, text, "last.h5"));
    OK(train(line));
    *changes = 0;
    la_status s = la_config_take(&c, &stored, least, note, NULL);
    free(text);
    la_config_free(&stored); /* c must not depend on it */
    la_config_free(&read);
    return s;
}

START_TEST(resuming_takes_what_was_not_given) {
    OK(resume(
        "--data x --n-head 2 --n-embd 30 --attn elu1 --seed 5 --lr .5 --out-dir o --threads 2",
        "--resume --max-iters 3000 --n-head 2", LA_BIND_FREE));
    ck_assert_str_eq(c.data, "x");
    ck_assert_str_eq(c.attn, "elu1");
    ck_assert(c.n_head == 2 && c.n_embd == 30 && c.seed == 5 && c.lr == 0.5 && c.max_iters == 3000);
    ck_assert_str_eq(c.out_dir, "");
    ck_assert_int_eq(c.threads, 0);
    ck_assert_str_eq(changes, "max-iters 2000 3000;");
    OK(resume("--data x", "--resume --lr .25 --schedule linear --eval-interval 9 --keep 5",
              LA_BIND_FREE));
    ck_assert_str_eq(changes, "lr 0.001 0.25;schedule cosine linear;eval-interval 250 9;keep 2 5;");
}
END_TEST

START_TEST(resuming_refuses_another_model_or_another_order) {
    static const char *const never[] = {
        "attn elu1",     "objective mlm", "n-layer 5", "n-head 8",         "n-embd 256",
        "block-size 32", "pos rope",      "bias on",   "tokenizer byte",   "eps 0.1",
        "n-mlp 100",     "short-conv 4",  "seed 1",    "batch-size 3",     "grad-accum 2",
        "dropout .5",    "val-frac .2",   "optim sgd", "overfit-batch on", "task copy"};
    static const char *const may[] = {
        "data y",          "max-iters 9",      "lr .5",           "min-lr 0",
        "warmup-iters 1",  "lr-decay-iters 5", "schedule linear", "weight-decay 0",
        "beta1 .5",        "beta2 .5",         "grad-clip 0",     "eval-interval 2",
        "eval-iters 1",    "patience 2",       "sample-every 10", "keep 7",
        "save-interval 3", "log-interval 4",   "val-data y",      "prompt abc",
        "recompute on",    "csv on",           "tensorboard on",  "on-nonfinite skip:3"};
    int  stored = 0;
    char line[128];
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        snprintf(line, sizeof line, "--resume --%s", never[i]);
        *strrchr(line, ' ') = '=';
        FAILS(resume("--data x", line, LA_BIND_FREE), LA_ARG,
              "in the checkpoint and cannot become");
        ck_assert_str_eq(changes, "");
    }
    for (size_t i = 0; i < sizeof may / sizeof *may; i++) {
        snprintf(line, sizeof line, "--resume --%s", may[i]);
        *strrchr(line, ' ') = '=';
        OK(resume("--data x", line, LA_BIND_FREE));
        ck_assert_str_ne(changes, "");
    }
    OK(resume("--task copy", "--resume --stop-at=.5", LA_BIND_FREE)); /* not without a task */
    ck_assert_str_ne(changes, "");
    for (int i = 0; i < LA_N_OPTIONS; i++) stored += la_options[i].binding != LA_BIND_LOCAL;
    ck_assert_int_eq(stored, sizeof never / sizeof *never + sizeof may / sizeof *may +
                                 1); /* none forgotten */
    FAILS(resume("--data x", "--resume --n-head 8", LA_BIND_FREE), LA_ARG,
          "--n-head is 4 in the checkpoint and cannot become 8: its weights depend on it");
}
END_TEST

START_TEST(a_task_is_kept_with_its_window) {
    OK(resume("--task copy:length=9", "--resume --lr .5", LA_BIND_FREE));
    ck_assert_int_eq(c.block_size, 9);
    ck_assert_str_eq(c.task, "copy:vocab=32,length=9");
    OK(resume("--task copy:length=9", "--resume --task=copy:length=9,vocab=32", LA_BIND_FREE));
    FAILS(resume("--task copy:length=9", "--resume --task=copy", LA_BIND_FREE), LA_ARG,
          "cannot become copy:vocab=32,length=65");
    FAILS(resume("--task copy", "--init-from x --data y", LA_BIND_MODEL), LA_ARG,
          "only one can be given");
}
END_TEST

START_TEST(a_new_run_from_old_weights_takes_the_model_only) {
    OK(resume("--data x --n-head 2 --n-embd 30 --seed 5 --lr .5 --batch-size 3",
              "--data y --init-from w --seed 9", LA_BIND_MODEL));
    ck_assert_str_eq(c.data, "y");
    ck_assert(c.n_head == 2 && c.n_embd == 30 && c.seed == 9 && c.lr == 1e-3 && c.batch_size == 12);
    ck_assert_str_eq(changes, "");
    FAILS(resume("--data x", "--data y --init-from w --n-layer 2", LA_BIND_MODEL), LA_ARG,
          "--n-layer is 4");
    FAILS(resume("--data x --objective mlm", "--data y --init-from w --objective=causal",
                 LA_BIND_MODEL),
          LA_ARG, "--objective is mlm in the checkpoint and cannot become causal");
    OK(resume("--data x --objective mlm", "--data y --init-from w", LA_BIND_MODEL));
    ck_assert_str_eq(c.objective, "mlm");
    FAILS(resume("--data x --objective mlm", "--resume --sample-every 9", LA_BIND_FREE), LA_ARG,
          "--objective mlm has none");
    /* a preset is given by the user, too */
    FAILS(resume("--data x", "--resume --preset shakespeare-gpu", LA_BIND_FREE), LA_ARG,
          "cannot become 6");
    /* what fits neither alone nor together is found in the end */
    FAILS(resume("--data x", "--resume --lr 1e-5", LA_BIND_FREE), LA_ARG,
          "--min-lr must not be above");
    /* sizes that only fit those of the checkpoint */
    OK(resume("--data x --n-head 3 --n-embd 33", "--data y --init-from w --n-embd 33",
              LA_BIND_MODEL));
    OK(resume("--data x --val-data v", "--resume --val-frac .1", LA_BIND_FREE));
}
END_TEST

/* ---- help ---------------------------------------------------------------------------------- */

START_TEST(help_has_every_option_of_the_tool_and_none_of_another) {
    static const la_help_kind kinds[] = {LA_HELP_ALL, LA_HELP_BASH, LA_HELP_SHORT};
    for (size_t t = 0; t < TOOLS; t++)
        for (size_t k = 0; k < 3; k++) {
            char *text = page(tools[t], kinds[k]);
            for (int i = 0; i < LA_N_OPTIONS; i++) {
                const char      *name = la_options[i].name;
                const la_option *o = option_of(tools[t], name);
                if (kinds[k] == LA_HELP_SHORT && o && !(o->tools & LA_SHORT_HELP)) continue;
                ck_assert_msg(lists(text, name) == (o != NULL), "%s: --%s in\n%s",
                              la_tool_name(tools[t]), name, text);
            }
            ck_assert(lists(text, "help-all"));
            free(text);
        }
}
END_TEST

START_TEST(a_short_help_is_short_and_lines_fit) {
    for (size_t t = 0; t < TOOLS; t++) {
        int   lines = 0;
        char *text = page(tools[t], LA_HELP_SHORT), *all = page(tools[t], LA_HELP_ALL);
        for (const char *s = text; *s; s++) lines += *s == '\n';
        ck_assert_int_le(lines, 25);
        for (const char *s = all; *s; s += strcspn(s, "\n") + 1)
            ck_assert_uint_le(strcspn(s, "\n"), 100);
        const char *first = strstr(text, la_tool_name(tools[t]));
        ck_assert_ptr_eq(first, text);
        free(text);
        free(all);
    }
}
END_TEST

START_TEST(help_has_defaults_and_ranges) {
    char *text = page(LA_TOOL_TRAIN, LA_HELP_ALL);
    ck_assert_ptr_nonnull(strstr(text, "(4; 1 to 1024)"));
    ck_assert_ptr_nonnull(strstr(text, "(cosine: cosine, linear, constant)"));
    ck_assert_ptr_nonnull(strstr(text, "(0.001; 0 to 100)"));
    ck_assert_ptr_nonnull(strstr(text, "[=auto/last/best/PATH]"));
    for (int i = 0; la_attns[i]; i++) ck_assert_ptr_nonnull(strstr(text, la_attns[i]->name));
    free(text);
    text = page(LA_TOOL_TRAIN, LA_HELP_LIST_ATTN);
    for (int i = 0; la_attns[i]; i++) ck_assert_ptr_nonnull(strstr(text, la_attns[i]->formula));
    free(text);
    text = page(LA_TOOL_TRAIN, LA_HELP_VERSION);
    ck_assert_str_eq(text, "");
    free(text);
}
END_TEST

START_TEST(a_manual_page_has_every_option) {
    for (size_t t = 0; t < TOOLS; t++) {
        char *text = page(tools[t], LA_HELP_MAN);
        ck_assert_int_eq(strncmp(text, ".TH ", 4), 0);
        for (int i = 0; i < LA_N_OPTIONS; i++) {
            char name[128] = "\\fB\\-\\-", *to = name + strlen(name);
            for (const char *s = la_options[i].name; *s; s++)
                to += sprintf(to, *s == '-' ? "\\-" : "%c", *s);
            bool of_tool = option_of(tools[t], la_options[i].name), found = false;
            for (const char *p = text; (p = strstr(p, name)); p += strlen(name))
                found |=
                    strchr(" [\\\n", p[strlen(name)]) && strncmp(p + strlen(name), "\\-", 2) != 0;
            ck_assert_msg(found == of_tool, "%s: %s", la_tool_name(tools[t]), la_options[i].name);
        }
        free(text);
    }
}
END_TEST

/* What bash itself makes of the script: --attn=do<TAB>, --op<TAB>. */
START_TEST(bash_completes_options_and_values) {
    char  command[256], got[256] = "";
    char *text = page(LA_TOOL_TRAIN, LA_HELP_BASH);
    if (system("bash -c : >/dev/null 2>&1") != 0) {
        fprintf(stderr, "SKIPPED: bash_completes_options_and_values: no bash here\n");
        free(text);
        return;
    }
    write_conf(text, strlen(text));
    snprintf(command, sizeof command,
             "bash -c 'set -e; . %s; t() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($#-1)); _lina_train; "
             "echo ${COMPREPLY[*]}; }; t train --attn = do; t train --pos r; t train --op; t train "
             "--lr 1'",
             conf);
    FILE *f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    got[fread(got, 1, sizeof got - 1, f)] = 0;
    ck_assert_int_eq(pclose(f), 0);
    ck_assert_str_eq(got, "double-softmax\nrope\n--optim\n\n");
    unlink(conf);
    free(text);
}
END_TEST

static TCase *area(Suite *s, const char *name) {
    TCase *t = tcase_create(name);
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    return t;
}

int main(void) {
    Suite *s = suite_create("config");
    TCase *t = area(s, "table");
    tcase_add_test(t, defaults_are_those_of_the_specification);
    tcase_add_test(t, the_table_agrees_with_itself);
    tcase_add_test(t, each_tool_takes_its_own_options_and_no_others);

    t = area(s, "command line");
    tcase_add_test(t, values_follow_a_space_or_an_equals_sign_and_the_last_one_counts);
    tcase_add_test(t, lists_take_every_value_and_others_the_last);
    tcase_add_test(t, resume_may_have_a_value);
    tcase_add_test(t, options_that_print_end_the_parsing);
    tcase_add_test(t, gradcheck_and_bench_collect_names);
    tcase_add_loop_test(t, what_is_wrong_is_refused_with_a_sentence, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_test(t, what_is_needed_is_asked_for);
    tcase_add_test(t, control_characters_do_not_reach_the_screen);
    tcase_add_test(t, a_text_that_is_no_utf8_is_cut_near_its_limit);
    tcase_add_test(t, a_spec_of_attention_has_a_name_and_keys);
    tcase_add_test(t, a_task_is_written_out_and_gives_the_size_of_a_window);
    tcase_add_test(t, a_task_refuses_what_is_for_texts);
    tcase_add_test(t, the_folder_is_named_after_variant_and_seed);

    t = area(s, "text");
    tcase_add_test(t, a_text_gives_every_value_back_exactly);
    tcase_add_test(t, numbers_are_short_and_exact);
    tcase_add_test(t, only_stored_options_are_in_the_text);
    tcase_add_test(t, a_text_may_have_comments_and_space);
    tcase_add_test(t, a_text_is_refused_with_its_line);

    t = area(s, "precedence");
    tcase_add_test(t, default_preset_file_and_command_line_in_any_order);
    tcase_add_test(t, a_file_may_name_a_preset_and_its_errors_have_lines);
    tcase_add_test(t, presets_are_the_published_ones);
    tcase_add_test(t, a_decimal_comma_changes_nothing);

    t = area(s, "resuming");
    tcase_add_test(t, resuming_takes_what_was_not_given);
    tcase_add_test(t, resuming_refuses_another_model_or_another_order);
    tcase_add_test(t, a_task_is_kept_with_its_window);
    tcase_add_test(t, a_new_run_from_old_weights_takes_the_model_only);

    t = area(s, "help");
    tcase_add_test(t, help_has_every_option_of_the_tool_and_none_of_another);
    tcase_add_test(t, a_short_help_is_short_and_lines_fit);
    tcase_add_test(t, help_has_defaults_and_ranges);
    tcase_add_test(t, a_manual_page_has_every_option);
    tcase_add_test(t, bash_completes_options_and_values);

    return run_suite(s);
}
