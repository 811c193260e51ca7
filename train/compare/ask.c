/* ask.c -- what was asked for: the lists of seeds, rates, variants and problems. */
#include <stdlib.h>
#include <string.h>

#include "data/task.h"
#include "tensor/words.h"
#include "train/compare/compare.h"
#include "train/config_impl.h"

enum { MOST_LIST = 1000 };

static la_status no_memory(void) { return la_fail(LA_NOMEM, "no memory for the list of runs"); }

/* Words of text between `separators`, in the arena.  LA_ARG: an empty one, or too many. */
static la_status split(la_comparison *k, const char *text, const char *separators, const char *what,
                       int most, const char **word, int *n) {
    char *copy = la_arena_printf(&k->arena, "%s", text), *rest = copy;
    if (!copy) return no_memory();
    *n = 0;
    while (rest) {
        char *w = strsep(&rest, separators);
        if (!*w && *separators == ' ') continue; /* several blanks */
        if (!*w) return la_fail(LA_ARG, "%s has nothing between two commas: %s", what, text);
        if (*n == most) return la_fail(LA_ARG, "%s has more than %d entries", what, most);
        word[(*n)++] = w;
    }
    return LA_OK;
}

/* "5": seeds 1 to 5; "3,7": these; "7,": that one. */
static la_status read_seeds(la_comparison *k) {
    const char *word[MOST_LIST], *comma = strrchr(k->c->seeds, ',');
    char       *text = la_arena_printf(&k->arena, "%s", k->c->seeds);
    double      x;
    if (!text) return no_memory();
    if (comma && !comma[1]) text[comma - k->c->seeds] = 0;
    LA_TRY(split(k, text, ",", "--seeds", MOST_LIST, word, &k->n_seeds));
    if (!comma) {
        LA_TRY(la_compare_number(word[0], true, 1, MOST_LIST, "--seeds", &x));
        k->n_seeds = (int)x;
    }
    k->seed = la_arena_alloc(&k->arena, (size_t)k->n_seeds * sizeof *k->seed);
    if (!k->seed) return no_memory();
    for (int i = 0; i < k->n_seeds; i++) {
        x = i + 1;
        if (comma) LA_TRY(la_compare_number(word[i], true, 0, 0x1p53 - 1, "each of --seeds", &x));
        for (int j = 0; j < i; j++)
            if (k->seed[j] == (int64_t)x)
                return la_fail(LA_ARG, "--seeds has %.0f twice: the same run twice says nothing",
                               x);
        k->seed[i] = (int64_t)x;
    }
    return LA_OK;
}

static la_status read_rates(la_comparison *k) {
    const char *word[MOST_LIST];
    LA_TRY(split(k, k->c->rates, ",", "--lr", MOST_LIST, word, &k->n_rates));
    k->rate = la_arena_alloc(&k->arena, (size_t)k->n_rates * sizeof *k->rate);
    if (!k->rate) return no_memory();
    for (int i = 0; i < k->n_rates; i++) {
        LA_TRY(la_compare_number(word[i], false, 0, 100, "each of --lr", &k->rate[i]));
        for (int j = 0; j < i; j++)
            if (k->rate[j] == k->rate[i]) return la_fail(LA_ARG, "--lr has %s twice", word[i]);
    }
    return LA_OK;
}

static int is_one_of(int option, const int *list) { /* of those before the first below 0 */
    while (*list >= 0 && *list != option) list++;
    return *list >= 0;
}

/* What a variant may have of its own: its model and its optimiser, but not what makes its losses
 * others' than those of the variants beside it, nor another budget. */
static int varies(int option) {
    static const int not [] = {
        LA_OPT_attn,       LA_OPT_objective, LA_OPT_block_size, LA_OPT_batch_size,
        LA_OPT_grad_accum, LA_OPT_max_iters, LA_OPT_tokenizer,  -1};
    const char *group = la_options[option].group;
    return (!strcmp(group, la_options[LA_OPT_n_layer].group) ||
            !strcmp(group, la_options[LA_OPT_lr].group)) &&
           !is_one_of(option, not );
}

/* What a task may have of its own: whatever makes a run, but what compare decides. */
static int belongs(int option) {
    static const int not [] = {LA_OPT_attn,         LA_OPT_task,          LA_OPT_seed,
                               LA_OPT_block_size,   LA_OPT_keep,          LA_OPT_save_interval,
                               LA_OPT_sample_every, LA_OPT_overfit_batch, -1};
    return la_options[option].binding != LA_BIND_LOCAL && !is_one_of(option, not );
}

/* "elu1 short-conv=4" into the name and options of its own. */
static la_status read_own(la_comparison *k, const char *text, int (*may)(int option),
                          const char **name, la_own *own) {
    const char *word[LA_MAX_OWN + 1];
    int         n;
    LA_TRY(split(k, text, " ", "the list of options", LA_MAX_OWN + 1, word, &n));
    if (!n) return la_fail(LA_ARG, "a name is missing: there are blanks only");
    *name = word[0];
    own->n = n - 1;
    for (int i = 1; i < n; i++) {
        if (!strncmp(word[i], "--", 2)) word[i] += 2;
        size_t length = strcspn(word[i], "=");
        char   key[40], shown[LA_SHOWN];
        snprintf(key, sizeof key, "%.*s", (int)(length < sizeof key ? length : sizeof key - 1),
                 word[i]);
        int option = la_config_find(key, LA_TOOL_TRAIN);
        if (option < 0 || !word[i][length])
            return la_fail(
                LA_ARG,
                "\"%s\" behind %s is no option: after a blank follow options of train, as in "
                "'%s short-conv=4'",
                la_shown(word[i], shown), word[0], word[0]);
        if (!may(option))
            return la_fail(
                LA_ARG, "--%s cannot be an option of %s alone: %s", la_options[option].name,
                word[0],
                may == varies
                    ? "variants are compared on the same text and budget, and may differ in "
                      "model and optimiser"
                    : "compare itself decides it");
        own->option[i - 1] = la_arena_printf(&k->arena, "--%s", word[i]);
        if (!own->option[i - 1]) return no_memory();
    }
    return LA_OK;
}

static int count_lines(const char *list) {
    int n = *list != 0;
    for (; *list; list++) n += *list == '\n';
    return n;
}

static la_status read_variants(la_comparison *k) {
    const char *word[MOST_LIST];
    LA_TRY(split(k, k->c->variants, "\n", "--attn", MOST_LIST, word, &k->n_variants));
    k->variant = la_arena_alloc(&k->arena, (size_t)k->n_variants * sizeof *k->variant);
    if (!k->variant) return no_memory();
    for (int i = 0; i < k->n_variants; i++) {
        la_variant *v = k->variant + i;
        v->name = word[i];
        la_attn_pattern ignored;
        LA_TRY(read_own(k, word[i], varies, &v->attn, &v->own));
        LA_TRY(la_attn_pattern_parse(v->attn, 0, &ignored));
        for (int j = 0; j < i; j++)
            if (!strcmp(k->variant[j].name, v->name))
                return la_fail(LA_ARG, "--attn '%s' is given twice", v->name);
    }
    return LA_OK;
}

/* The name of a problem: a task as it is, of a file what stands between the last / and the last
 * dot, fit for a terminal. */
static const char *short_name(la_comparison *k, const la_problem *p, int i) {
    const char *slash = strrchr(p->spec, '/'), *base = !p->task && slash ? slash + 1 : p->spec;
    const char *dot = p->task ? NULL : strrchr(base, '.');
    int         n = (int)(dot && dot > base ? (size_t)(dot - base) : strlen(base));
    char       *stem = la_arena_printf(&k->arena, "%.*s", n, base), *name = stem;
    if (stem) la_make_printable(stem); /* it goes to the terminal, again and again */
    for (int j = 0, again = 1; name && j < i; j++) {
        if (strcmp(k->problem[j].name, name)) continue;
        name = la_arena_printf(&k->arena, "%s-%d", stem, ++again);
        j = -1; /* from the first on */
    }
    return name;
}

/* A task on a text needs one of its own: of several --data it could not be said which. */
static la_status check_task(const la_problem *p) {
    la_task task;
    LA_TRY(la_task_parse(p->spec, &task));
    int on_text = task.def->on_text, named = 0;
    la_task_free(&task);
    for (int i = 0; i < p->own.n; i++) named |= !strncmp(p->own.option[i], "--data=", 7);
    if (!on_text || named) return LA_OK;
    return la_fail(LA_ARG, "%s is hidden in a text: --task '%s data=FILE' says in which", p->spec,
                   p->spec);
}

static la_status read_problems(la_comparison *k) {
    const char *word[MOST_LIST];
    int         texts = 0, tasks = 0;
    if (*k->c->texts) LA_TRY(split(k, k->c->texts, "\n", "--data", MOST_LIST, word, &texts));
    if (*k->c->tasks && texts + count_lines(k->c->tasks) <= MOST_LIST)
        LA_TRY(split(k, k->c->tasks, "\n", "--task", MOST_LIST - texts, word + texts, &tasks));
    k->n_problems = texts + tasks;
    k->problem = la_arena_alloc(&k->arena, (size_t)k->n_problems * sizeof *k->problem);
    if (!k->problem) return no_memory();
    for (int i = 0; i < k->n_problems; i++) {
        la_problem *p = k->problem + i;
        p->task = i >= texts;
        p->spec = word[i];
        if (p->task) LA_TRY(read_own(k, word[i], belongs, &p->spec, &p->own));
        if (p->task) LA_TRY(check_task(p));
        p->name = short_name(k, p, i);
        if (!p->name) return no_memory();
        if (!p->task && !strcmp(p->spec, "-"))
            return la_fail(LA_ARG, "--data - cannot be read by each run anew: name a file");
    }
    return LA_OK;
}

static int is_utf8(const char *s) {
    json_t *string = json_string(s);
    json_decref(string);
    return string != NULL;
}

/* Names and words go into results.json, which is UTF-8. */
static la_status check_words(const la_comparison *k) {
    for (int i = 1; i < k->argc; i++)
        if (!is_utf8(k->argv[i]))
            return la_fail(LA_ARG,
                           "argument %d is not UTF-8, as results.json must be: rename the file or "
                           "type it anew",
                           i);
    return LA_OK;
}

la_status la_compare_ask(la_comparison *k) {
    LA_TRY(check_words(k));
    LA_TRY(read_seeds(k));
    LA_TRY(read_rates(k));
    LA_TRY(read_variants(k));
    LA_TRY(read_problems(k));
    for (int i = 0; k->n_rates > 1 && i < k->n_seeds; i++)
        if (k->seed[i] >= LA_FIRST_SWEEP_SEED &&
            k->seed[i] < LA_FIRST_SWEEP_SEED + k->c->sweep_seeds)
            return la_fail(LA_ARG,
                           "the seed %lld is one of those that choose the learning rate (%d to "
                           "%lld): take others",
                           (long long)k->seed[i], LA_FIRST_SWEEP_SEED,
                           (long long)(LA_FIRST_SWEEP_SEED + k->c->sweep_seeds - 1));
    return LA_OK;
}
