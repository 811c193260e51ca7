/* bench -- speed and memory:  bench attention --attn=elu1, bench train, bench decode, bench gemm */
#include "train/bench.h"

#include <string.h>

#include "train/tool.h"

enum { MOST_OWN = 7 };

/* Besides its own options a mode reads those of the groups it names. */
typedef struct mode {
    const char *name;
    la_status (*run)(la_bench *b);
    const char *groups[4];
    int         n_own, own[MOST_OWN];
} mode;

#define OF_ATTENTION                                                                               \
    {"Running"}, 7, {                                                                              \
        LA_OPT_attn, LA_OPT_objective, LA_OPT_eps, LA_OPT_n, LA_OPT_d, LA_OPT_heads, LA_OPT_batch  \
    }

static const mode modes[] = {
    {"attention", la_bench_attention, OF_ATTENTION},
    {"crossover", la_bench_crossover, OF_ATTENTION},
    {"decode", la_bench_decode, {"Running", "Model"}, 2, {LA_OPT_vocab, LA_OPT_positions}},
    {"gemm", la_bench_gemm, {"Running"}, 0, {0}},
    {"train", la_bench_train, {"Running", "Data", "Model", "Optimisation"}, 1, {LA_OPT_vocab}},
};
enum { MODES = sizeof modes / sizeof *modes };

static const char *mode_name(int i) { return i < MODES ? modes[i].name : NULL; }

static bool reads(const mode *m, int option) {
    if (option == LA_OPT_repeats || option == LA_OPT_json) return true; /* every mode */
    if (option == LA_OPT_dropout && m->run == la_bench_decode) return false;
    for (int i = 0; i < 4 && m->groups[i]; i++)
        if (!strcmp(m->groups[i], la_options[option].group)) return true;
    for (int i = 0; i < m->n_own; i++)
        if (m->own[i] == option) return true;
    return false;
}

static la_status run(const la_config *c) {
    la_bench b = {.c = c};
    if (c->n_names < 1)
        return la_fail(LA_ARG,
                       "which measurement? bench attention, crossover, decode, gemm or train");
    if (c->n_names > 1)
        return la_fail(LA_ARG, "one measurement at a time, and there are %d: %.32s, %.32s",
                       c->n_names, c->names[0], c->names[1]);
    int i = la_name_index(c->names[0], mode_name);
    if (i < 0) return la_name_unknown("measurement", c->names[0], mode_name);
    for (int o = 0; o < LA_N_OPTIONS; o++)
        if (la_config_given(c, o) && !reads(&modes[i], o))
            return la_fail(LA_ARG, "bench %s does not read --%s", modes[i].name,
                           la_options[o].name);
    return modes[i].run(&b);
}

int main(int argc, char **argv) {
    la_config c;
    int       code;
    if (!la_tool_start(&c, LA_TOOL_BENCH, argc, argv, &code)) return code;
    code = la_tool_end(&c, run(&c));
    la_config_free(&c);
    return code;
}
