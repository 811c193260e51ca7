/* plan.c -- from what was asked for to a list of trainings.
 *
 * The options of a training are those given to compare, then what compare decides (rate, seed),
 * then those of the problem, of the variant, and last the budget and the width of --match-params.
 * They are read by train's own parser, so that whatever train would refuse is refused here, before
 * the first run starts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/hash.h"
#include "tensor/words.h"
#include "train/compare/compare.h"
#include "train/compare/numbers.h"
#include "train/compare/probe.h"
#include "train/config_impl.h"
#include "train/setup.h"

enum { MOST_ARGUMENTS = LA_N_OPTIONS + 2 * LA_MAX_OWN + 16 };

static la_status no_memory(void) { return la_fail(LA_NOMEM, "no memory for the list of runs"); }

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
        if (!(o->tools & LA_TOOL_COMPARE) || !(o->tools & LA_TOOL_TRAIN) ||
            !la_config_given(k->c, i))
            continue;
        if (i == LA_OPT_block_size && k->problem[r->problem].task)
            continue; /* it is the task's length */
        if (i == LA_OPT_out_dir || i == LA_OPT_threads || i == LA_OPT_quiet || i == LA_OPT_dry_run)
            continue;
        LA_TRY(argument(
            r, la_arena_printf(&k->arena, "--%s=%s", o->name, la_config_value(k->c, i, number))));
    }
    return LA_OK;
}

static la_status add_own(la_run_plan *r, const la_own *own) {
    for (int i = 0; i < own->n; i++) LA_TRY(argument(r, own->option[i]));
    return LA_OK;
}

/* The value of --name among options of a problem or variant; NULL: it is not there. */
static const char *own_value(const la_own *own, const char *name) {
    size_t n = strlen(name);
    for (int i = own->n; i-- > 0;)
        if (!strncmp(own->option[i] + 2, name, n) && own->option[i][2 + n] == '=')
            return own->option[i] + 3 + n;
    return NULL;
}

static const char *own_rate(const la_comparison *k, int problem, int variant) {
    const char *rate = own_value(&k->variant[variant].own, "lr");
    return rate ? rate : own_value(&k->problem[problem].own, "lr");
}

/* --lr and, where nobody gave --min-lr, its usual tenth.  Neither was given: train's own, or those
 * of
 * --config and --preset. */
static la_status add_rate(la_comparison *k, la_run_plan *r) {
    char        number[LA_NUMBER_TEXT];
    const char *own = own_rate(k, r->problem, r->variant);
    double      rate = r->lr;
    if (!own && !la_config_given(k->c, LA_OPT_rates)) return LA_OK;
    if (own) LA_TRY(la_compare_number(own, false, 0, 100, "--lr", &rate));
    LA_TRY(argument(r, la_arena_printf(&k->arena, "--lr=%s", la_number_text(rate, number))));
    if (la_config_given(k->c, LA_OPT_min_lr)) return LA_OK;
    return argument(r,
                    la_arena_printf(&k->arena, "--min-lr=%s", la_number_text(rate / 10, number)));
}

/* n_mlp: of --match-params; 0: as it is. */
static la_status arguments(la_comparison *k, la_run_plan *r, int64_t n_mlp) {
    const la_problem *p = k->problem + r->problem;
    const la_variant *v = k->variant + r->variant;
    if (!r->argv) r->argv = la_arena_alloc(&k->arena, (MOST_ARGUMENTS + 1) * sizeof *r->argv);
    if (!r->argv) return no_memory();
    r->argc = 0;
    r->argv[r->argc++] = "train";
    LA_TRY(hand_on(k, r));
    LA_TRY(add_rate(k, r));
    LA_TRY(argument(r, la_arena_printf(&k->arena, "--%s=%s", p->task ? "task" : "data", p->spec)));
    LA_TRY(argument(r, la_arena_printf(&k->arena, "--attn=%s", v->attn)));
    LA_TRY(argument(r, la_arena_printf(&k->arena, "--seed=%lld", (long long)r->seed)));
    LA_TRY(argument(r, "--keep=1"));
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
    la_probe_cost cost =
        la_probe_cost_of(lm, cfg.batch * cfg.grad_accum, k->problem[r->problem].labels);
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
    if (!strcmp(name, "data"))
        return; /* where the text lies; what it says is in the hash already */
    *(uint64_t *)hash =
        la_hash64(la_hash64(*(uint64_t *)hash, name, strlen(name) + 1), now, strlen(now) + 1);
}

/* The hash is over what differs from train's defaults, so that an option that is added to train one
 * day makes no record another run's. */
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
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *s))
            *s = '-';
    r->id = id;
    r->hash = hash;
    return LA_OK;
}

/* The width within the MLPs with which r has about as many parameters as the first variant: each
 * layer has dim numbers into and out of each. */
static la_status matching_mlp(const la_comparison *k, const la_run_plan *r, int64_t *n_mlp) {
    const la_config *c = &r->config;
    int64_t          width = c->n_mlp ? c->n_mlp : LA_GPT_MLP * c->n_embd;
    double           one = (double)(c->n_layer * (2 * c->n_embd + c->bias));
    double           more = (double)(k->problem[r->problem].parameters - r->parameters) / one;
    *n_mlp = width + (int64_t)floor(more + 0.5);
    if (*n_mlp > 0) return LA_OK;
    return la_fail(
        LA_ARG,
        "--match-params: it has %lld parameters more than the first variant, and MLPs of width "
        "%lld cannot make up for that",
        (long long)(r->parameters - k->problem[r->problem].parameters), (long long)width);
}

/* A record says of itself what its run was; here it stands for the run that was asked for now. */
static la_status take_record(la_comparison *k, la_run_plan *r) {
    LA_TRY(la_record_load(k, r->id, &r->record));
    if (r->record && !la_record_has(r->record, "status final curve timing steps")) {
        fprintf(stderr,
                "note: %s/records/%s.json is no record of a run, and the run is made anew\n",
                k->dir, r->id);
        json_decref(r->record);
        r->record = NULL;
    }
    if (!r->record) return LA_OK;
    json_object_set_new(r->record, "problem", json_string(k->problem[r->problem].name));
    json_object_set_new(r->record, "variant", json_string(k->variant[r->variant].name));
    json_object_set_new(r->record, "purpose", json_string(r->sweep ? "sweep" : "main"));
    r->state = LA_RUN_RECORDED;
    return LA_OK;
}

static la_status complete(la_comparison *k, la_run_plan *r) {
    int64_t n_mlp = 0;
    LA_TRY(arguments(k, r, 0));
    LA_TRY(facts(k, r));
    if (!r->variant) k->problem[r->problem].parameters = r->parameters;
    if (r->variant && k->c->match_params) {
        LA_TRY(matching_mlp(k, r, &n_mlp));
        LA_TRY(arguments(k, r, n_mlp));
        LA_TRY(facts(k, r));
    }
    LA_TRY(la_compare_budget(k, r, &r->steps));
    if (r->steps) LA_TRY(arguments(k, r, n_mlp));
    r->steps = r->config.max_iters;
    if (!la_config_given(k->c, LA_OPT_rates) || own_rate(k, r->problem, r->variant))
        r->lr = r->config.lr;
    LA_TRY(identity(k, r));
    for (int i = 0; i < k->n_runs - 1; i++)
        if (k->run[i].hash == r->hash)
            return la_fail(LA_ARG, "it is the same run as %s, %s",
                           k->problem[k->run[i].problem].name, k->variant[k->run[i].variant].name);
    return take_record(k, r);
}

la_status la_compare_add(la_comparison *k, int problem, int variant, int64_t seed, double lr,
                         int sweep) {
    if (k->n_runs == k->room) {
        int          room = k->room ? 2 * k->room : 64;
        la_run_plan *more = realloc(k->run, (size_t)room * sizeof *more);
        if (!more) return no_memory();
        k->run = more;
        k->room = room;
    }
    la_run_plan *r = k->run + k->n_runs++;
    *r = (la_run_plan){
        .problem = problem, .variant = variant, .seed = seed, .lr = lr, .sweep = sweep};
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
                for (int i = 0; i < k->n_rates && !own_rate(k, p, v); i++)
                    LA_TRY(la_compare_add(k, p, v, LA_FIRST_SWEEP_SEED + s, k->rate[i], 1));
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
double la_compare_sweep_loss(const la_comparison *k, int problem, int variant, double rate,
                             int *n) {
    double sum = 0;
    *n = 0;
    for (int i = 0; i < k->n_runs; i++) {
        const la_run_plan *r = k->run + i;
        if (!r->sweep || r->problem != problem || r->variant != variant || r->lr != rate) continue;
        json_t *loss = json_object_get(json_object_get(r->record, "final"), "val_loss");
        sum += la_number_of(loss);
        ++*n;
    }
    return *n ? sum / *n : NAN;
}

int la_compare_chooses(const la_comparison *k, int problem, int variant) {
    return k->n_rates > 1 && !own_rate(k, problem, variant);
}

double la_compare_rate(const la_comparison *k, int problem, int variant) {
    double best = NAN, least = INFINITY;
    if (!la_compare_chooses(k, problem, variant)) return k->rate[0];
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

static void forget(la_comparison *k) {
    for (int i = 0; i < k->n_runs; i++) {
        la_config_free(&k->run[i].config);
        json_decref(k->run[i].record);
    }
    k->n_runs = 0;
}

static la_status plan(la_comparison *k) {
    LA_TRY(la_compare_ask(k));
    for (int i = 0; i < k->n_problems; i++) LA_TRY(open_problem(k, i));
    for (int p = 0; p < k->n_problems; p++) /* whatever a main run would refuse */
        for (int v = 0; v < k->n_variants; v++)
            LA_TRY(la_compare_add(k, p, v, k->seed[0], k->rate[0], 0));
    forget(k);
    return la_compare_add_sweeps(k);
}

la_status la_compare_open(la_comparison *k, const la_config *c, int argc, char **argv) {
    *k = (la_comparison){.c = c,
                         .argc = argc,
                         .argv = argv,
                         .dir = *c->out_dir ? c->out_dir : "results",
                         .step_seconds = json_object(),
                         .missing = json_array()};
    la_status s = k->step_seconds && k->missing ? plan(k) : no_memory();
    if (s != LA_OK) la_compare_close(k);
    return s;
}

void la_compare_close(la_comparison *k) {
    forget(k);
    for (int i = 0; i < k->n_problems; i++) json_decref(k->problem[i].about);
    json_decref(k->step_seconds);
    json_decref(k->missing);
    free(k->run);
    la_arena_free(&k->arena);
    *k = (la_comparison){0};
}
