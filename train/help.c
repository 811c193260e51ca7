/* help.c -- the table of options as help, manual page and completion. */
#include <stdarg.h>
#include <string.h>

#include "data/task.h"
#include "train/config_impl.h"

enum { COLUMN = 30, WIDTH = 98, LINE = 1024 }; /* where help texts begin and lines end */

static const char *const examples[5][6] = {
    {"train --data corpus.txt", "train --data corpus.txt --attn=elu1 --out-dir runs/elu1",
     "train --data corpus.txt --out-dir runs/elu1 --resume --max-iters 4000", NULL},
    {"generate --checkpoint runs/elu1/best.h5 --prompt \"ROMEO:\"",
     "generate --checkpoint runs/elu1/best.h5 --tokens 2000 --temperature 0 --quiet > text",
     "generate --checkpoint runs/elu1/best.h5 --prompt \"To be\" --show-attention to-be.h5", NULL},
    {"gradcheck", "gradcheck elu1 linear", "gradcheck --explain elu1", NULL},
    {"bench attention --n 4096 --d 64 --heads 8", "bench train --attn=elu1 --n-layer 6",
     "bench decode --attn=elu1 --positions 10,100000", "bench crossover --d 64 --json",
     "bench gemm", NULL},
    {"compare --attn=softmax --attn=elu1 --data corpus.txt",
     "compare --attn=softmax --attn='elu1 short-conv=4' --task=mqar --n-layer 2 --lr 1e-3,3e-3",
     "compare --attn=elu1 --attn=window:w=16 --data corpus.txt --seeds 5 --jobs 2 --out-dir "
     "windows",
     "compare --report results/results.json", NULL},
};
static const char *const about[5] = {
    "trains a small language model", "writes text with a trained model",
    "compares derivatives with finite differences", "measures speed and memory",
    "trains attention variants alike, and writes a report of how they differ"};
static const char *const usage[5] = {"[OPTION...]", "[OPTION...]", "[OPTION...] [NAME...]",
                                     "attention|crossover|decode|gemm|train [OPTION...]",
                                     "[OPTION...]"};
#define RUN_CODES                                                                                  \
    "0 ok, 1 runtime or I/O, 2 usage, 3 data, 4 checkpoint, 5 not finite, 6 would not fit in "     \
    "memory"
static const char *const exit_codes[5] = {RUN_CODES ", 130, 143 or 129 saved after a signal", RUN_CODES,
                                          "0 all pass, 1 some do not, 2 usage", RUN_CODES,
                                          "0 ok, 1 runtime or I/O, or a run failed, 2 usage, 3 "
                                          "data, 130 or 143 stopped by a signal: the same "
                                          "command goes on"};

static int index_of(la_tool t) { /* of the single bit t */
    int i = 0;
    while (t >> (i + 1)) i++;
    return i;
}

LA_PRINTF(2, 3) static void append(char text[LINE], const char *fmt, ...) {
    size_t  n = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + n, LINE - n, fmt, ap);
    va_end(ap);
}

/* "--n-head N" and "--resume[=auto/last/best/PATH]" */
static void write_name(const la_option *o, char text[LINE]) {
    *text = 0;
    append(text, "--%s", o->name);
    if (o->type == LA_OPTIONAL)
        append(text, "[=%s]", o->place);
    else if (o->place)
        append(text, " %s", o->place);
}

/* "heads of each attention (4; 1 to 1024)" */
static void write_about(const la_option *o, bool ranges, char text[LINE]) {
    la_config defaults;
    char      value[LA_NUMBER_TEXT], least[LA_NUMBER_TEXT], most[LA_NUMBER_TEXT];
    la_config_init(&defaults);
    const char *v = la_config_value(&defaults, (int)(o - la_options), value);
    *text = 0;
    append(text, "%s", o->help);
    if (o->type == LA_FLAG || o->type == LA_OPTIONAL || (!*v && !(ranges && o->choices))) return;
    append(text, " (%s", v);
    if (ranges && !o->choices && !la_type_is_text(o->type)) {
        la_number_text(o->min, least);
        if (o->max < 1e12)
            append(text, "; %s to %s", least, la_number_text(o->max, most));
        else
            append(text, "; at least %s", least); /* the limit is there to catch nonsense only */
    }
    for (int i = 0; ranges && o->choices && o->choices(i); i++)
        append(text, "%s%s", i ? ", " : *v ? ": " : "", o->choices(i));
    append(text, ")");
}

/* A name and a text in two columns, the second wrapped. */
static void print_entry(FILE *out, const char *name, const char *text) {
    int  at = fprintf(out, "  %-*s", COLUMN - 3, name);
    bool first = true;
    for (int n; *text; text += n + (text[n] == ' '), first = false) {
        n = (int)strcspn(text, " ");
        if (first ? at >= COLUMN : at + 1 + n > WIDTH) {
            fprintf(out, "\n%*s", COLUMN - 1, "");
            at = COLUMN - 1;
        }
        at += fprintf(out, " %.*s", n, text);
    }
    fputc('\n', out);
}

static void print_short(FILE *out, la_tool tool) {
    int  t = index_of(tool);
    char name[LINE], text[LINE];
    fprintf(out, "%s %s: %s\n\n", la_tool_name(tool), usage[t], about[t]);
    for (int i = 0; examples[t][i]; i++) fprintf(out, "  %s\n", examples[t][i]);
    fputc('\n', out);
    for (int i = 0; i < LA_N_OPTIONS; i++) {
        if (!(la_options[i].tools & tool) || !(la_options[i].tools & LA_SHORT_HELP)) continue;
        write_name(&la_options[i], name);
        write_about(&la_options[i], false, text);
        print_entry(out, name, text);
    }
    print_entry(out, "--help-all", "all options, with ranges");
}

/* How a kind of page prints a group's heading and an option. */
typedef struct page {
    FILE *out;
    void (*group)(FILE *out, const char *name);
    void (*entry)(FILE *out, const char *name, const char *text);
} page;

static void print_groups(const page *p, la_tool tool) {
    for (int g = 0; la_groups[g]; g++) {
        bool begun = false;
        char name[LINE], text[LINE];
        for (int i = 0; i < LA_N_OPTIONS; i++) {
            const la_option *o = &la_options[i];
            if (strcmp(o->group, la_groups[g]) != 0 || !(o->tools & tool)) continue;
            if (!begun) p->group(p->out, la_groups[g]);
            begun = true;
            write_name(o, name);
            write_about(o, true, text);
            p->entry(p->out, name, text);
        }
        for (const la_action *a = la_actions; a->name; a++) {
            if (strcmp(a->group, la_groups[g]) != 0 || !(a->tools & tool)) continue;
            if (!begun) p->group(p->out, la_groups[g]);
            begun = true;
            *name = 0;
            append(name, "--%s", a->name);
            p->entry(p->out, name, a->help);
        }
    }
}

/* --- --help-all --- */
static void plain_group(FILE *out, const char *name) { fprintf(out, "\n%s\n", name); }

static void print_all(FILE *out, la_tool tool) {
    int t = index_of(tool);
    fprintf(out, "%s %s: %s\n\n", la_tool_name(tool), usage[t], about[t]);
    for (int i = 0; examples[t][i]; i++) fprintf(out, "  %s\n", examples[t][i]);
    fprintf(out, "\nIn parentheses: the default, and what is possible.  --name VALUE or "
                 "--name=VALUE; options\n"
                 "without a value may have =on or =off, and are off.  Of repeated options the last "
                 "counts,\nbut where compare takes several.\n");
    print_groups(&(page){out, plain_group, print_entry}, tool);
    fputc('\n', out);
    print_entry(out, "Exit codes", exit_codes[t]);
}

/* --- --help-man --- */
/* Text for roff: a plain - is a hyphen there, and a dot or ' at the beginning of a line a command.
 */
static void put_roff(FILE *out, const char *s) {
    if (*s == '.' || *s == '\'') fputs("\\&", out);
    for (; *s; s++) {
        if (*s == '-')
            fputs("\\-", out);
        else if (*s == '\\')
            fputs("\\e", out);
        else
            fputc(*s, out);
    }
}

static void roff_group(FILE *out, const char *name) { fprintf(out, ".SS %s\n", name); }

static void roff_entry(FILE *out, const char *name, const char *text) {
    fputs(".TP\n\\fB", out);
    put_roff(out, name);
    fputs("\\fR\n", out);
    put_roff(out, text);
    fputc('\n', out);
}

static void print_man(FILE *out, la_tool tool) {
    int t = index_of(tool);
    fprintf(
        out,
        ".TH %s 1 \"\" Lina\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n\\fB%s\\fR %s\n.SH EXAMPLES\n.nf\n",
        la_tool_name(tool), la_tool_name(tool), about[t], la_tool_name(tool), usage[t]);
    for (int i = 0; examples[t][i]; i++) {
        put_roff(out, examples[t][i]);
        fputc('\n', out);
    }
    fputs(".fi\n.SH OPTIONS\nIn parentheses: the default, and what is possible.\n", out);
    print_groups(&(page){out, roff_group, roff_entry}, tool);
    fputs(".SH EXIT STATUS\n", out);
    put_roff(out, exit_codes[t]);
    fputc('\n', out);
}

/* --- --help-bash --- */
static void print_bash(FILE *out, la_tool tool) {
    const char *name = la_tool_name(tool);
    /* bash takes the = of --attn=elu1 for a word of its own */
    fprintf(out,
            "# completion of %s for bash\n_lina_%s() {\n"
            "    local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]}\n"
            "    if [[ $word == = ]]; then word=; "
            "elif [[ $option == = ]]; then option=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
            "    case $option in\n",
            name, name);
    for (int i = 0; i < LA_N_OPTIONS; i++) {
        const la_option *o = &la_options[i];
        if (!(o->tools & tool) || o->type == LA_FLAG) continue;
        fprintf(out, "    --%s) ", o->name);
        if (o->choices) {
            fputs("COMPREPLY=($(compgen -W \"", out);
            for (int k = 0; o->choices(k); k++) fprintf(out, "%s%s", k ? " " : "", o->choices(k));
            fputs("\" -- \"$word\"));;\n", out);
        } else if (o->type == LA_FILE) {
            fputs("compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$word\");;\n",
                  out);
        } else {
            fputs("COMPREPLY=();;\n", out);
        }
    }
    fputs("    *) COMPREPLY=($(compgen -W \"", out);
    for (int i = 0; i < LA_N_OPTIONS; i++)
        if (la_options[i].tools & tool) fprintf(out, "--%s ", la_options[i].name);
    for (const la_action *a = la_actions; a->name; a++)
        if (a->tools & tool) fprintf(out, "--%s ", a->name);
    fprintf(out, "-h\" -- \"$word\"));;\n    esac\n}\ncomplete -F _lina_%s %s\n", name, name);
}

/* --- --list-attn --- */
static void print_default(void *out, const char *option, const char *help) {
    (void)help;
    fprintf(out, " %s", option);
}

static void print_key(void *out, const char *key, const char *help) {
    fprintf(out, "    %-9s %s\n", key, help);
}

static const char *directions(const la_attn *a) {
    return !a->map && !a->causal && !a->full ? "neither causal nor bidirectional"
           : a->not_causal                   ? "bidirectional only"
                                             : "causal and bidirectional";
}

static void print_attn(FILE *out) {
    for (int i = 0; la_attns[i]; i++) {
        const la_attn *a = la_attns[i];
        const char    *lines[] = {a->formula, a->cost, a->paper, a->file};
        fprintf(out, "%s%s, %s\n", i ? "\n" : "", a->name, directions(a));
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
            if (lines[k] && *lines[k]) fprintf(out, "    %s\n", lines[k]);
        if (*a->options) fputs("    options:", out);
        la_attn_options(a, print_default, out);
        if (*a->options) putc('\n', out);
    }
    fputs("\nOptions stand after the name, NAME:key=value,key=value; their defaults are above.\n",
          out);
    la_attn_options(NULL, print_key, out);
    fputs("\nLayers can differ, elu1/elu1/window:w=32 (the pattern repeats), and heads within a "
          "layer,\n"
          "elu1@2+window:w=32@2.  Formulas are causal; both ways, sums are over all tokens.\n",
          out);
}

/* --- --list-tasks --- */
static void print_tasks(FILE *out) {
    char        text[LA_TASK_TEXT];
    const char *help;
    for (int i = 0; la_tasks[i]; i++) {
        const la_task_def *d = la_tasks[i];
        fprintf(out, "%s%s: %s\n    %s\n", i ? "\n" : "", d->name, d->about, d->paper);
        for (int k = 0; la_task_key(d, k, text, &help); k++)
            fprintf(out, "    %-13s %s\n", text, help);
    }
    fputs("\nKeys stand after the name, NAME:key=value,key=value; their usual values are above.\n",
          out);
}

void la_config_help(FILE *out, la_tool tool, la_help_kind kind) {
    switch (kind) {
    case LA_HELP_SHORT:
        print_short(out, tool);
        break;
    case LA_HELP_ALL:
        print_all(out, tool);
        break;
    case LA_HELP_MAN:
        print_man(out, tool);
        break;
    case LA_HELP_BASH:
        print_bash(out, tool);
        break;
    case LA_HELP_LIST_ATTN:
        print_attn(out);
        break;
    case LA_HELP_LIST_TASKS:
        print_tasks(out);
        break;
    case LA_HELP_NONE:
    case LA_HELP_VERSION:
        break;
    }
}
