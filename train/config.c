/* config.c -- the table of options, their values, and command lines. */
#include "train/config.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "data/task.h"
#include "data/tokenizer.h"
#include "optim/optim.h"
#include "train/config_impl.h"

#define DATA "Data"
#define MODEL "Model"
#define OPTIM "Optimisation"
#define EVAL "Evaluation"
#define TEXT "Text"
#define FILES "Files"
#define CHECK "Checking"
#define BENCH "Measuring"
#define COMPARE "Comparing"
#define RUNNING "Running"

const char *const la_groups[] = {COMPARE, DATA,  MODEL, OPTIM,   EVAL, TEXT,
                                 FILES,   CHECK, BENCH, RUNNING, NULL};

const la_preset la_presets[] = {
#define P(name, text) {name, text},
#include "train/options.def"
    {NULL, NULL},
};

const la_action la_actions[] = {
#define A(group, field, name, tools, help) {name, group, help, LA_HELP_##field, tools},
#include "train/options.def"
    {NULL, NULL, NULL, LA_HELP_NONE, 0},
};

/* --- the tables of choices --- */
static const char *la_names_attn(int i) { return la_attns[i] ? la_attns[i]->name : NULL; }
static const char *la_names_optim(int i) { return la_optims[i] ? la_optims[i]->name : NULL; }
static const char *la_names_schedule(int i) { return la_schedule_names[i]; }
static const char *la_names_tokenizer(int i) { return la_tokenizer_kinds[i].name; }
static const char *la_names_task(int i) { return la_tasks[i] ? la_tasks[i]->name : NULL; }
static const char *la_names_preset(int i) { return la_presets[i].name; }
static const char *la_names_pos(int i) {
    static const char *const names[] = {"learned", "rope", "none", NULL}; /* la_pos */
    return names[i];
}
static const char *la_names_objective(int i) {
    static const char *const names[] = {"causal", "mlm", NULL};
    return names[i];
}
static const char *la_names_resume(int i) {
    static const char *const names[] = {"auto", "last", "best", NULL};
    return names[i];
}

const la_option la_options[LA_N_OPTIONS] = {
#define X(group, field, name, type, value, min, max, tools, binding, place, choices, help)         \
    {name,      group,                                                                             \
     place,     help,                                                                              \
     LA_##type, LA_BIND_##binding,                                                                 \
     tools,     min,                                                                               \
     max,       offsetof(la_config, field),                                                        \
     choices},
#include "train/options.def"
};

/* --- names of options --- */
/* Name number i of those of a tool; with_actions 0: those that config files may use. */
static const char *name_at(unsigned tools, bool with_actions, int i) {
    for (int o = 0; o < LA_N_OPTIONS; o++) {
        if (!(la_options[o].tools & tools) || (!with_actions && o == LA_OPT_config)) continue;
        if (i-- == 0) return la_options[o].name;
    }
    for (const la_action *a = la_actions; with_actions && a->name; a++)
        if ((a->tools & tools) && i-- == 0) return a->name;
    return NULL;
}
/* The programs, in the order of their bits. */
#define OF(tool)                                                                                   \
    static const char *of_##tool(int i) { return name_at(LA_TOOL_##tool, true, i); }
OF(TRAIN)
OF(GENERATE) OF(GRADCHECK) OF(BENCH) OF(COMPARE)
#undef OF
    static const struct program {
    la_tool     tool;
    const char *name;
    la_name_fn *options;
} programs[] = {{LA_TOOL_TRAIN, "train", of_TRAIN},
                {LA_TOOL_GENERATE, "generate", of_GENERATE},
                {LA_TOOL_GRADCHECK, "gradcheck", of_GRADCHECK},
                {LA_TOOL_BENCH, "bench", of_BENCH},
                {LA_TOOL_COMPARE, "compare", of_COMPARE}};

static const struct program *program_of(la_tool t) {
    const struct program *p = programs;
    while (p->tool != t) p++;
    return p;
}

const char *la_config_key(int i) { return name_at(LA_TOOL_TRAIN, false, i); }
const char *la_tool_name(la_tool t) { return program_of(t)->name; }

static const char *any_action(int i) { return la_actions[i].name; }

int la_config_find(const char *name, unsigned tools) {
    for (int i = 0; i < LA_N_OPTIONS; i++)
        if ((la_options[i].tools & tools) && la_name_same(name, la_options[i].name)) return i;
    return -1;
}

/* --- memory --- */
struct la_owned {
    struct la_owned *next;
    max_align_t      bytes[];
};

void la_config_init(la_config *c) {
    *c = (la_config){
        .tool = LA_TOOL_TRAIN,
#define X(group, field, name, type, value, ...) .field = value,
#include "train/options.def"
    };
}

void la_config_free(la_config *c) {
    for (struct la_owned *o = c->owned, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    la_config_init(c);
}

void *la_config_own(la_config *c, size_t bytes) {
    struct la_owned *o = malloc(sizeof *o + bytes);
    if (!o) return NULL;
    o->next = c->owned;
    c->owned = o;
    return o->bytes;
}

/* --- values --- */
bool la_config_given(const la_config *c, int option) { return c->origin[option] >= LA_FROM_PRESET; }

static la_status set_number(la_config *c, int option, bool keep, const char *text) {
    const la_option *o = &la_options[option];
    char             least[LA_NUMBER_TEXT], most[LA_NUMBER_TEXT], shown[LA_SHOWN];
    double           x;
    la_number_text(o->min, least);
    la_number_text(o->max, most);
    if (!la_read_number(text, o->type == LA_INT, &x))
        return la_fail(LA_ARG, "--%s must be a %s from %s to %s, and is \"%s\"", o->name,
                       o->type == LA_INT ? "whole number" : "number", least, most,
                       la_shown(text, shown));
    if (!(x >= o->min && x <= o->max))
        return la_fail(LA_ARG, "--%s must be from %s to %s, and is %s", o->name, least, most,
                       la_shown(text, shown));
    void *field = (char *)c + o->offset;
    if (keep && o->type == LA_INT) *(int64_t *)field = (int64_t)x;
    if (keep && o->type == LA_REAL) *(double *)field = x;
    return LA_OK;
}

static la_status set_flag(la_config *c, int option, bool keep, const char *text) {
    const la_option *o = &la_options[option];
    char             shown[LA_SHOWN];
    bool             on = !text || strcmp(text, "on") == 0;
    if (!on && strcmp(text, "off") != 0)
        return la_fail(LA_ARG, "--%s must be on or off, and is \"%s\"", o->name,
                       la_shown(text, shown));
    if (keep) *(bool *)((char *)c + o->offset) = on;
    return LA_OK;
}

/* One spelling, and the size of a window, which is the task's. */
static la_status set_task(la_config *c, int option, bool keep, const char *text) {
    la_task task;
    char   *spec = la_config_own(c, LA_TASK_TEXT);
    if (!spec) return la_fail(LA_NOMEM, "no memory for the value of --task");
    LA_TRY(la_task_parse(text, &task));
    la_task_spec(&task, 1, spec);
    if (keep) *(const char **)((char *)c + la_options[option].offset) = spec;
    if (keep && !la_config_given(c, LA_OPT_block_size)) c->block_size = task.length;
    la_task_free(&task);
    return LA_OK;
}

static la_status set_text(la_config *c, int option, bool keep, const char *text) {
    const la_option *o = &la_options[option];
    char             what[64], shown[LA_SHOWN];
    if (o->min > 0 && !*text) return la_fail(LA_ARG, "--%s must not be empty", o->name);
    if (o->type == LA_CHOICE) {
        int i = la_name_index(text, o->choices);
        snprintf(what, sizeof what, "value of --%s", o->name);
        if (i < 0) return la_name_unknown(what, la_shown(text, shown), o->choices);
        if (keep) *(const char **)((char *)c + o->offset) = o->choices(i);
        return LA_OK;
    }
    char *copy = la_config_own(c, strlen(text) + 1);
    if (!copy) return la_fail(LA_NOMEM, "no memory for the value of --%s", o->name);
    strcpy(copy, text);
    if (o->type == LA_SPEC) { /* one spelling, so that two specs can be compared */
        la_attn_pattern ignored;
        for (char *s = copy; *s; s++) *s = *s == '_' ? '-' : *s;
        LA_TRY(la_attn_pattern_parse(copy, 0, &ignored));
    }
    if (o->type == LA_TASK && *copy) return set_task(c, option, keep, copy);
    if (keep) *(const char **)((char *)c + o->offset) = copy;
    return LA_OK;
}

/* What stands in the list already, and the new one on a line of its own. */
static la_status add_text(la_config *c, int option, const char *text) {
    const char *before = la_config_string(c, option);
    size_t      room = strlen(before) + strlen(text) + 2;
    char       *both = malloc(room);
    if (!both) return la_fail(LA_NOMEM, "no memory for the value of --%s", la_options[option].name);
    snprintf(both, room, "%s\n%s", before, text);
    la_status s = set_text(c, option, true, both);
    free(both);
    return s;
}

la_status la_config_set(la_config *c, int option, la_origin from, const char *text) {
    const la_option *o = &la_options[option];
    bool             keep = from >= c->origin[option];
    bool             adds = o->type == LA_LIST && *text && from == c->origin[option];
    la_status        s = adds                       ? add_text(c, option, text)
                         : o->type == LA_FLAG       ? set_flag(c, option, keep, text)
                         : la_type_is_text(o->type) ? set_text(c, option, keep, text)
                                                    : set_number(c, option, keep, text);
    if (s == LA_OK && keep) c->origin[option] = (unsigned char)from;
    return s;
}

la_status la_config_copy(la_config *c, const la_config *from, int option) {
    char        buf[LA_NUMBER_TEXT];
    const char *value = la_config_value(from, option, buf);
    if (!*value && la_options[option].min > 0) return LA_OK; /* not given there either */
    return la_config_set(c, option, LA_FROM_CHECKPOINT, value);
}

/* --- command lines --- */
/* An argument that is no option.  before: the option in front of it, or -1. */
static la_status take_name(la_config *c, char *arg, int argc, int before) {
    char shown[LA_SHOWN];
    bool takes_names = c->tool == LA_TOOL_GRADCHECK || c->tool == LA_TOOL_BENCH;
    la_shown(arg, shown);
    if (!takes_names && before >= 0 &&
        (la_options[before].type == LA_OPTIONAL || la_options[before].type == LA_FLAG))
        return la_fail(LA_ARG, "unexpected argument \"%s\": a value of --%s follows a =, --%s=%s",
                       shown, la_options[before].name, la_options[before].name, shown);
    if (!takes_names)
        return la_fail(
            LA_ARG,
            "unexpected argument \"%s\": options begin with --, and only they may have values",
            shown);
    if (!c->names) c->names = la_config_own(c, (size_t)argc * sizeof *c->names);
    if (!c->names) return la_fail(LA_NOMEM, "no memory for %d arguments", argc);
    c->names[c->n_names++] = arg;
    return LA_OK;
}

static la_status unknown_option(const la_config *c, const char *arg) {
    char        shown[LA_SHOWN];
    const char *name = arg + strspn(arg, "-");
    return la_fail(LA_NAME,
                   "unknown option \"%s\": did you mean --%s? (%s --help-all has all of them)",
                   la_shown(arg, shown), la_name_nearest(name, program_of(c->tool)->options),
                   la_tool_name(c->tool));
}

/* Reads the option in argv[*i] and its value; *option: which, -1 for those that print and end. */
static la_status take_option(la_config *c, int argc, char **argv, int *i, int *option) {
    enum { LONGEST = 40 };
    const char *arg = argv[*i], *value = strchr(arg, '=');
    char        name[LONGEST];
    size_t      n = value ? (size_t)(value - arg) : strlen(arg);
    *option = -1;
    if (strcmp(arg, "-h") == 0) {
        c->help = LA_HELP_SHORT;
        return LA_OK;
    }
    snprintf(name, sizeof name, "%.*s", (int)(n < LONGEST ? n : LONGEST - 1), arg);
    if (n >= sizeof name || strncmp(name, "--", 2) != 0) return unknown_option(c, name);
    if (value) value++;

    int action = la_name_index(name + 2, any_action);
    if (action >= 0 && (la_actions[action].tools & c->tool)) {
        if (value) return la_fail(LA_ARG, "%s takes no value", name);
        c->help = la_actions[action].kind;
        return LA_OK;
    }
    *option = la_config_find(name + 2, c->tool);
    if (*option < 0) return unknown_option(c, name);
    const la_option *o = &la_options[*option];
    if (!value && o->type == LA_OPTIONAL) value = o->choices(0);
    if (!value && o->type != LA_FLAG) {
        const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
        if (!next)
            return la_fail(LA_ARG, "--%s needs a value: --%s %s", o->name, o->name, o->place);
        if (strncmp(next, "--", 2) == 0 && la_config_find(next + 2, c->tool) >= 0)
            return la_fail(
                LA_ARG, "--%s needs a value and is followed by %s; if that is the value: --%s=%s",
                o->name, next, o->name, next);
        value = next;
        ++*i;
    }
    return la_config_set(c, *option, LA_FROM_COMMAND, value);
}

la_status la_config_parse(la_config *c, la_tool tool, int argc, char **argv) {
    bool only_names = false; /* after -- */
    c->tool = tool;
    for (int i = 1, before = -1; i < argc; i++) {
        char *a = argv[i];
        if (!only_names && strcmp(a, "--") == 0) {
            only_names = true;
        } else if (only_names || a[0] != '-' || !a[1]) {
            LA_TRY(take_name(c, a, argc, before));
        } else {
            LA_TRY(take_option(c, argc, argv, &i, &before));
            if (c->help) return LA_OK;
        }
    }
    if (tool == LA_TOOL_COMPARE) return la_config_check_request(c); /* the rest is its trainings' */
    if (*c->config) LA_TRY(la_config_file(c, c->config));
    for (const la_preset *p = la_presets; p->name; p++)
        if (strcmp(p->name, c->preset) == 0)
            LA_TRY(la_config_lines(c, LA_FROM_PRESET, p->text, p->name));
    LA_TRY(la_config_check_request(c));
    return *c->resume || *c->init_from ? LA_OK : la_config_check(c);
}
