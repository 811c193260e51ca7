/* plan.c -- from the options of compare to a list of trainings.
 *
 * The options of a training are those given to compare, then those of the problem, then those of the
 * variant, then what compare decides: seed, rate, budget.  They are read by train's own parser, so that
 * whatever train would refuse is refused here, before the first run starts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/hash.h"
#include "tensor/words.h"
#include "train/compare/compare.h"
#include "train/config_impl.h"
#include "train/compare/probe.h"
#include "train/setup.h"

enum { FIRST_SWEEP_SEED = 1001, MOST_LIST = 1000, MOST_ARGUMENTS = LA_N_OPTIONS + 2 * LA_MAX_OWN + 16 };

static la_status no_memory(void) { return la_fail(LA_NOMEM, "no memory for the list of runs"); }

/* --- lists --- */

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
        if (*n == most)
            return la_fail(LA_ARG, "%s has more than %d entries", what, most);
        word[(*n)++] = w;
    }
    return LA_OK;
}

static la_status read_seeds(la_comparison *k) {
    const char *word[MOST_LIST];
    double      x;
    LA_TRY(split(k, k->c->seeds, ",", "--seeds", MOST_LIST, word, &k->n_seeds));
    int counted = k->n_seeds == 1 && !strchr(k->c->seeds, ',');
    if (counted) {
        LA_TRY(la_compare_number(word[0], true, 1, MOST_LIST, "--seeds", &x));
        k->n_seeds = (int)x;
    }
    k->seed = la_arena_alloc(&k->arena, (size_t)k->n_seeds * sizeof *k->seed);
    if (!k->seed) return no_memory();
    for (int i = 0; i < k->n_seeds; i++) {
        x = i + 1;
        if (!counted) LA_TRY(la_compare_number(word[i], true, 0, 0x1p53 - 1, "each of --seeds", &x));
        for (int j = 0; j < i; j++)
            if (k->seed[j] == (int64_t)x)
                return la_fail(LA_ARG, "--seeds has %.0f twice: the same run twice says nothing", x);
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

/* "elu1 short-conv=4" into the name and options of its own. */
static la_status read_own(la_comparison *k, const char *text, const char **name, la_own *own) {
    const char *word[LA_MAX_OWN + 1];
    int         n;
    LA_TRY(split(k, text, " ", "the list of options", LA_MAX_OWN + 1, word, &n));
    if (!n) return la_fail(LA_ARG, "a name is missing: there are blanks only");
    *name = word[0];
    own->n = n - 1;
    for (int i = 1; i < n; i++) {
        size_t length = strcspn(word[i], "=");
        char   key[40], shown[LA_SHOWN];
        snprintf(key, sizeof key, "%.*s", (int)(length < sizeof key ? length : sizeof key - 1), word[i]);
        int option = la_config_find(key, LA_TOOL_TRAIN);
        if (option < 0 || !word[i][length])
            return la_fail(LA_ARG,
                           "\"%s\" behind %s is no option: after a blank follow options of train, as in "
                           "'%s short-conv=4'",
                           la_shown(word[i], shown), word[0], word[0]);
        own->option[i - 1] = la_arena_printf(&k->arena, "--%s", word[i]);
        if (!own->option[i - 1]) return no_memory();
    }
    return LA_OK;
}

static int lines(const char *list) {
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
        LA_TRY(read_own(k, word[i], &v->attn, &v->own));
        LA_TRY(la_attn_pattern_parse(v->attn, 0, &ignored));
        for (int j = 0; j < v->own.n; j++) v->own_rate |= !strncmp(v->own.option[j], "--lr=", 5);
        for (int j = 0; j < i; j++)
            if (!strcmp(k->variant[j].name, v->name))
                return la_fail(LA_ARG, "--attn '%s' is given twice", v->name);
    }
    return LA_OK;
}

/* The name of a problem: a task as it is, of a file what stands between the last / and the last dot. */
static const char *short_name(la_comparison *k, const la_problem *p, int i) {
    const char *slash = strrchr(p->spec, '/'), *base = !p->task && slash ? slash + 1 : p->spec;
    const char *dot = p->task ? NULL : strrchr(base, '.');
    int         n = (int)(dot && dot > base ? (size_t)(dot - base) : strlen(base));
    char       *name = la_arena_printf(&k->arena, "%.*s", n, base);
    for (int j = 0; name && j < i; j++)
        if (!strcmp(k->problem[j].name, name)) return la_arena_printf(&k->arena, "%s-%d", name, i + 1);
    return name;
}

static la_status read_problems(la_comparison *k) {
    const char *word[MOST_LIST];
    int         texts = 0, tasks = 0;
    if (*k->c->texts) LA_TRY(split(k, k->c->texts, "\n", "--data", MOST_LIST, word, &texts));
    if (*k->c->tasks && texts + lines(k->c->tasks) <= MOST_LIST)
        LA_TRY(split(k, k->c->tasks, "\n", "--task", MOST_LIST - texts, word + texts, &tasks));
    k->n_problems = texts + tasks;
    k->problem = la_arena_alloc(&k->arena, (size_t)k->n_problems * sizeof *k->problem);
    if (!k->problem) return no_memory();
    for (int i = 0; i < k->n_problems; i++) {
        la_problem *p = k->problem + i;
        p->task = i >= texts;
        p->spec = word[i];
        if (p->task) LA_TRY(read_own(k, word[i], &p->spec, &p->own));
        p->name = short_name(k, p, i);
        if (!p->name) return no_memory();
        if (!p->task && !strcmp(p->spec, "-"))
            return la_fail(LA_ARG, "--data - cannot be read by each run anew: name a file");
    }
    return LA_OK;
}

/* --- the options of a training --- */

static la_status argument(la_run_plan *r, const char *text) {
    if (!text) return no_memory();
    r->argv[r->argc++] = text;
    return LA_OK;
}

/* What was given to compare and train knows too. */
static la_status hand_on(la_comparison *k, la_run_plan *r) {
    for (int i = 0; i < LA_N_OPTIONS; i++) {
        const la_option *o = la_options + i;
        char             number[LA_NUMBER_TEXT];
        if (!(o->tools & LA_TOOL_COMPARE) || !(o->tools & LA_TOOL_TRAIN) || !la_config_given(k->c, i)) continue;
        if (i == LA_OPT_out_dir || i == LA_OPT_threads || i == LA_OPT_quiet || i == LA_OPT_dry_run) continue;
        LA_TRY(argument(r, la_arena_printf(&k->arena, "--%s=%s", o->name, la_config_value(k->c, i, number))));
    }
    return LA_OK;
}

static la_status add_own(la_run_plan *r, const la_own *own) {
    for (int i = 0; i < own->n; i++) LA_TRY(argument(r, own->option[i]));
    return LA_OK;
}

/* n_mlp: of --match-params; 0: as it is. */
static la_status arguments(la_comparison *k, la_run_plan *r, int64_t n_mlp) {
    const la_problem *p = k->problem + r->problem;
    const la_variant *v = k->variant + r->variant;
    char              number[LA_NUMBER_TEXT];
    if (!r->argv) r->argv = la_arena_alloc(&k->arena, (MOST_ARGUMENTS + 1) * sizeof *r->argv);
    if (!r->argv) return no_memory();
    r->argc = 0;
    r->argv[r->argc++] = "train";
    LA_TRY(hand_on(k, r));
    LA_TRY(argument(r, la_arena_printf(&k->arena, "--lr=%s", la_number_text(r->lr, number))));
    if (!la_config_given(k->c, LA_OPT_min_lr)) /* the usual tenth, whatever the rate */
        LA_TRY(argument(r, la_arena_printf(&k->arena, "--min-lr=%s", la_number_text(r->lr / 10, number))));
    LA_TRY(argument(r, la_arena_printf(&k->arena, "--%s=%s", p->task ? "task" : "data", p->spec)));
    LA_TRY(argument(r, la_arena_printf(&k->arena, "--attn=%s", v->attn)));
    LA_TRY(argument(r, la_arena_printf(&k->arena, "--seed=%lld", (long long)r->seed)));
    LA_TRY(argument(r, la_arena_printf(&k->arena, "--keep=1")));
    LA_TRY(add_own(r, &p->own));
    LA_TRY(add_own(r, &v->own));
    if (r->steps)
        LA_TRY(argument(r, la_arena_printf(&k->arena, "--max-iters=%lld", (long long)r->steps)));
    if (n_mlp) LA_TRY(argument(r, la_arena_printf(&k->arena, "--n-mlp=%lld", (long long)n_mlp)));
    r->argv[r->argc] = NULL;
    la_config_free(&r->config);
    return la_config_parse(&r->config, LA_TOOL_TRAIN, r->argc, (char **)(uintptr_t)r->argv);
}

/* --- what is known before a run --- */

static la_status facts(const la_comparison *k, la_run_plan *r) {
    la_trainer_cfg cfg;
    la_lm         *lm;
    LA_TRY(la_trainer_cfg_of(&r->config, k->problem[r->problem].vocab, &cfg));
    LA_TRY(la_lm_create(&lm, &cfg.lm, 0, 0));
    la_probe_cost cost = la_probe_cost_of(lm, cfg.batch * cfg.grad_accum, 0);
    r->parameters = cost.parameters;
    r->frozen = cost.frozen;
    r->state_bytes = (int64_t)cost.state_bytes;
    r->tokens = cost.tokens_per_step;
    r->flops = cost.flops_per_step;
    la_lm_destroy(lm);
    return LA_OK;
}

static void add_option(void *hash, const char *name, const char *was, const char *now) {
    (void)was;
    *(uint64_t *)hash = la_hash64(la_hash64(*(uint64_t *)hash, name, strlen(name) + 1), now, strlen(now) + 1);
}

/* The hash is over what differs from train's defaults, so that an option that is added to train one day
 * makes no record another run's. */
static la_status identity(la_comparison *k, la_run_plan *r) {
    uint64_t  hash = la_hash64(LA_HASH64_START, &k->problem[r->problem].hash, sizeof(uint64_t));
    la_config usual;
    la_config_init(&usual);
    la_config_diff(&usual, &r->config, add_option, &hash);
    char *id = la_arena_printf(&k->arena, "%.40s-%.40s-s%lld-%08llx", k->problem[r->problem].name,
                               k->variant[r->variant].name, (long long)r->seed,
                               (unsigned long long)(hash >> 32 ^ (hash & 0xffffffff)));
    if (!id) return no_memory();
    for (char *s = id; *s; s++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *s)) *s = '-';
    r->id = id;
    return LA_OK;
}

/* The width within the MLPs with which r has about as many parameters as the first variant: each layer
 * has dim numbers into and out of each. */
static la_status matching_mlp(const la_comparison *k, const la_run_plan *r, int64_t *n_mlp) {
    const la_config *c = &r->config;
    int64_t          width = c->n_mlp ? c->n_mlp : LA_GPT_MLP * c->n_embd;
    double           one = (double)(c->n_layer * (2 * c->n_embd + c->bias));
    double           more = (double)(k->problem[r->problem].parameters - r->parameters) / one;
    *n_mlp = width + (int64_t)floor(more + 0.5);
    if (*n_mlp > 0) return LA_OK;
    return la_fail(LA_ARG, "--match-params: it has %lld parameters more than the first variant, and MLPs of width "
                           "%lld cannot make up for that",
                   (long long)(r->parameters - k->problem[r->problem].parameters), (long long)width);
}

static la_status complete(la_comparison *k, la_run_plan *r) {
    int64_t n_mlp = 0;
    LA_TRY(arguments(k, r, 0));
    LA_TRY(la_compare_budget(k, r, &r->steps));
    if (r->steps) LA_TRY(arguments(k, r, 0));
    LA_TRY(facts(k, r));
    if (!r->variant) k->problem[r->problem].parameters = r->parameters;
    if (r->variant && k->c->match_params) {
        LA_TRY(matching_mlp(k, r, &n_mlp));
        LA_TRY(arguments(k, r, n_mlp));
        LA_TRY(facts(k, r));
    }
    r->steps = r->config.max_iters;
    r->lr = r->config.lr;
    LA_TRY(identity(k, r));
    LA_TRY(la_record_load(k, r->id, &r->record));
    if (r->record) r->state = LA_RUN_RECORDED;
    return LA_OK;
}

la_status la_compare_add(la_comparison *k, int problem, int variant, int64_t seed, double lr, int sweep) {
    if (k->n_runs == k->room) {
        int          room = k->room ? 2 * k->room : 64;
        la_run_plan *more = realloc(k->run, (size_t)room * sizeof *more);
        if (!more) return no_memory();
        k->run = more;
        k->room = room;
    }
    la_run_plan *r = k->run + k->n_runs++;
    *r = (la_run_plan){.problem = problem, .variant = variant, .seed = seed, .lr = lr, .sweep = sweep};
    la_config_init(&r->config);
    la_status s = complete(k, r);
    if (s == LA_OK || s == LA_NOMEM) return s;
    return la_fail(s, "%s, %s: %s", k->problem[problem].name, k->variant[variant].name, la_error());
}

la_status la_compare_add_sweeps(la_comparison *k) {
    if (k->n_rates == 1) return LA_OK;
    for (int64_t s = 0; s < k->c->sweep_seeds; s++)
        for (int p = 0; p < k->n_problems; p++)
            for (int v = 0; v < k->n_variants; v++)
                for (int i = 0; i < k->n_rates && !k->variant[v].own_rate; i++)
                    LA_TRY(la_compare_add(k, p, v, FIRST_SWEEP_SEED + s, k->rate[i], 1));
    return LA_OK;
}

/* Seeds outermost: a comparison that is stopped has some seeds of everything. */
la_status la_compare_add_main(la_comparison *k) {
    for (int s = 0; s < k->n_seeds; s++)
        for (int p = 0; p < k->n_problems; p++)
            for (int v = 0; v < k->n_variants; v++) {
                double rate = la_compare_rate(k, p, v);
                if (isnan(rate)) continue; /* every rate diverged: the sweep says so */
                LA_TRY(la_compare_add(k, p, v, k->seed[s], rate, 0));
            }
    return LA_OK;
}

/* Mean validation loss of a sweep's runs; NAN: one has no record, or none of its own. */
double la_compare_sweep_loss(const la_comparison *k, int problem, int variant, double rate, int *n) {
    double sum = 0;
    *n = 0;
    for (int i = 0; i < k->n_runs; i++) {
        const la_run_plan *r = k->run + i;
        if (!r->sweep || r->problem != problem || r->variant != variant || r->lr != rate) continue;
        json_t *loss = json_object_get(json_object_get(r->record, "final"), "val_loss");
        sum += json_is_number(loss) ? json_number_value(loss) : NAN;
        ++*n;
    }
    return *n ? sum / *n : NAN;
}

double la_compare_rate(const la_comparison *k, int problem, int variant) {
    double best = NAN, least = INFINITY;
    if (k->n_rates == 1 || k->variant[variant].own_rate) return k->rate[0];
    for (int i = 0; i < k->n_rates; i++) {
        int    n;
        double loss = la_compare_sweep_loss(k, problem, variant, k->rate[i], &n);
        if (loss < least || (loss == least && k->rate[i] < best)) least = loss, best = k->rate[i];
    }
    return best;
}

/* --- the whole --- */

static la_status open_problem(la_comparison *k, int i) {
    la_run_plan probe = {.problem = i, .seed = k->seed[0], .lr = k->rate[0]};
    la_config_init(&probe.config);
    la_status s = arguments(k, &probe, 0);
    if (s == LA_OK) s = la_problem_open(k->problem + i, &probe.config);
    la_config_free(&probe.config);
    return s == LA_OK || s == LA_NOMEM ? s : la_fail(s, "%s: %s", k->problem[i].name, la_error());
}

static la_status plan(la_comparison *k) {
    LA_TRY(read_seeds(k));
    LA_TRY(read_rates(k));
    LA_TRY(read_variants(k));
    LA_TRY(read_problems(k));
    for (int i = 0; i < k->n_problems; i++) LA_TRY(open_problem(k, i));
    for (int p = 0; p < k->n_problems; p++) /* whatever a main run would refuse */
        for (int v = 0; v < k->n_variants; v++) {
            LA_TRY(la_compare_add(k, p, v, k->seed[0], k->rate[0], 0));
            la_config_free(&k->run[0].config);
            json_decref(k->run[0].record);
            k->n_runs = 0;
        }
    return la_compare_add_sweeps(k);
}

la_status la_compare_open(la_comparison *k, const la_config *c, int argc, char **argv) {
    *k = (la_comparison){.c = c, .argc = argc, .argv = argv, .dir = *c->out_dir ? c->out_dir : "results"};
    la_status s = plan(k);
    if (s != LA_OK) la_compare_close(k);
    return s;
}

void la_compare_close(la_comparison *k) {
    for (int i = 0; i < k->n_runs; i++) {
        la_config_free(&k->run[i].config);
        json_decref(k->run[i].record);
    }
    for (int i = 0; i < k->n_problems; i++) json_decref(k->problem[i].about);
    free(k->run);
    la_arena_free(&k->arena);
    *k = (la_comparison){0};
}
