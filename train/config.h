/* config.h -- what was asked for: the options of all programs.
 *
 * The table is options.def.  Precedence, whatever the order they are given in:
 * default < checkpoint < preset < config file < command line. */
#ifndef LA_CONFIG_H
#define LA_CONFIG_H
#include <stdbool.h>
#include <stdio.h>

#include "layers/layers.h"
#include "tensor/names.h"
#include "tensor/words.h"

/* Also the bits of la_option.tools. */
typedef enum la_tool {
    LA_TOOL_TRAIN = 1,
    LA_TOOL_GENERATE = 2,
    LA_TOOL_GRADCHECK = 4,
    LA_TOOL_BENCH = 8,
    LA_TOOL_COMPARE = 16,
    LA_SHORT_HELP = 32, /* no tool: shown by -h */
} la_tool;

typedef enum la_help_kind {
    LA_HELP_NONE,
    LA_HELP_SHORT,     /* -h */
    LA_HELP_ALL,       /* --help-all */
    LA_HELP_MAN,       /* --help-man: roff */
    LA_HELP_BASH,      /* --help-bash: completion */
    LA_HELP_VERSION,   /* --version: left to the program, which knows its libraries */
    LA_HELP_LIST_ATTN, /* --list-attn */
    LA_HELP_LIST_TASKS,
} la_help_kind;

typedef enum la_type {
    LA_INT,
    LA_REAL,
    LA_FLAG,
    LA_TEXT,
    LA_FILE,
    LA_SPEC,
    LA_TASK,
    LA_CHOICE,
    LA_OPTIONAL,
    LA_LIST
} la_type;
typedef enum la_binding { LA_BIND_LOCAL, LA_BIND_FREE, LA_BIND_RUN, LA_BIND_MODEL } la_binding;
typedef enum la_origin {
    LA_FROM_DEFAULT,
    LA_FROM_CHECKPOINT,
    LA_FROM_PRESET, /* from here on: given by the user */
    LA_FROM_FILE,
    LA_FROM_COMMAND,
} la_origin;

/* The number of an option: LA_OPT_n_layer. */
enum {
#define X(group, field, ...) LA_OPT_##field,
#include "train/options.def"
    LA_N_OPTIONS
};

typedef struct la_config {
#define LA_C_INT int64_t
#define LA_C_REAL double
#define LA_C_FLAG bool
#define LA_C_TEXT const char * /* never NULL: "" if not given; belongs to the config */
#define LA_C_FILE const char *
#define LA_C_SPEC const char *
#define LA_C_TASK const char *   /* with all keys */
#define LA_C_CHOICE const char * /* as spelled in the table of choices */
#define LA_C_OPTIONAL const char *
#define LA_C_LIST const char * /* a line each */
#define X(group, field, name, type, ...) LA_C_##type field;
#include "train/options.def"
    la_tool       tool;
    la_help_kind  help;    /* not NONE: print that and end; nothing else was looked at      */
    int           n_names; /* arguments that are no options: gradcheck NAME, bench MODE         */
    char        **names;
    unsigned char origin[LA_N_OPTIONS]; /* la_origin                                        */
    struct la_owned *owned;             /* the texts                                        */
} la_config;

/* All defaults, for train.  Needs no free yet. */
void la_config_init(la_config *c);
void la_config_free(la_config *c);

/* Reads a command line (argv[0] is skipped), then --config and --preset, then la_config_check.
 * With --resume or --init-from the model is not known yet: la_config_take, or else la_config_check,
 * must follow.  LA_NAME, LA_ARG: usage errors; LA_IO: the config file cannot be read.
 * argv must outlive c. */
la_status la_config_parse(la_config *c, la_tool tool, int argc, char **argv);

/* Whether values fit each other, as far as that is known without the data. */
la_status la_config_check(const la_config *c);

bool la_config_given(const la_config *c, int option); /* la_config_given(&c, LA_OPT_n_layer) */

/* --- text: lines `key = value` --- */
/* The stored options; free() it.  Reading it back gives each value exactly, in any locale. */
la_status la_config_text(const la_config *c, la_tool tool, char **text);
/* Reads the text of a checkpoint.  where: its name, for messages "where:3: ...". */
la_status la_config_from_text(la_config *c, const char *text, const char *where);

/* --- resuming --- */
/* Called for each option that is given with another value than the checkpoint's. */
typedef void la_config_change_fn(void *ctx, const char *name, const char *was, const char *now);

/* Completes c, read from a command line with --resume (least = LA_BIND_FREE) or --init-from
 * (LA_BIND_MODEL), by what the checkpoint has stored: options of at least that la_binding which
 * were not given.  LA_ARG: one was given that must not change, or la_config_check refuses the
 * whole. changed may be NULL. */
la_status la_config_take(la_config *c, const la_config *stored, la_binding least,
                         la_config_change_fn *changed, void *ctx);
/* Stored options that differ, whoever gave them. */
void      la_config_diff(const la_config *was, const la_config *now, la_config_change_fn *differs,
                         void *ctx);

/* --- what follows from several options --- */
/* --out-dir, or runs/<attn>-s<seed>, with mlm runs/<attn>-mlm-s<seed>, with a task
 * runs/<attn>[-<pos>][-conv<W>]-<task>-s<seed>, of pos, convolution and the task's keys what is not
 * as usual.  Other characters than letters, digits, . _ - are -.  free() it. */
la_status la_config_out_dir(const la_config *c, char **path);

/* --- the table, for printing --- */
typedef struct la_option {
    const char *name, *group, *place, *help;
    la_type     type;
    la_binding  binding;
    unsigned    tools;
    double      min, max;
    size_t      offset; /* in la_config                                                          */
    la_name_fn *choices;
} la_option;

extern const la_option la_options[LA_N_OPTIONS]; /* la_options[LA_OPT_n_layer] */

/* A value as text: numbers, on/off, or the text as it is.  buf is used for numbers only. */
const char *la_config_value(const la_config *c, int option, char buf[LA_NUMBER_TEXT]);

/* SHORT, ALL, MAN, BASH, LIST_ATTN, LIST_TASKS; prints nothing for the others. */
void        la_config_help(FILE *out, la_tool tool, la_help_kind kind);
const char *la_tool_name(la_tool tool); /* "train" */
#endif
