/* subjects.c -- what trials are about: the ops with cases of their own, and the variants. */
#include <stdio.h>

#include "autograd/trial.h"
#include "tensor/names.h"

#define X(name) extern const la_op la_op_##name;
#include "autograd/ops.def"
#undef X

const la_op *const la_ops[] = {
#define X(name) &la_op_##name,
#include "autograd/ops.def"
#undef X
    NULL,
};

/* --- subjects: a table that is made when it is first asked for --- */
enum { MOST = 160, NAME = 64 };
static la_subject  subjects[MOST];
static char        titles[MOST][NAME];
static int         n_subjects, too_many;
static const char *failed; /* the first spec that is none */

static void add_subject(const char *name, const char *how, la_subject s) {
    if (n_subjects == MOST) {
        too_many = 1;
        return;
    }
    snprintf(titles[n_subjects], NAME, "%s%s", name, how);
    s.name = titles[n_subjects];
    subjects[n_subjects++] = s;
}

static void add_spec(const char *spec, const char *name) {
    la_attn_cfg c;
    for (int both = 0; both < 2; both++) {
        if (la_attn_parse(spec, 0, &c) != LA_OK) {
            if (!failed) failed = spec;
            return;
        }
        const la_attn *a = c.variant;
        c.bidirectional = both;
        if (!la_attn_op(&c) || (!both && a->not_causal) || (both && c.decay)) continue;
        add_subject(name, both ? " both ways" : "",
                    (la_subject){.formula = a->formula,
                                 .paper = a->paper,
                                 .file = a->file,
                                 .op = la_attn_op(&c),
                                 .variant = a,
                                 .cases = la_attn_cases,
                                 .spec = spec,
                                 .bidirectional = both});
    }
}

static void list_subjects(void) {
    static char specs[MOST][NAME];
    for (int i = 0; la_ops[i]; i++)
        if (la_ops[i]->cases)
            add_subject(la_ops[i]->name, "",
                        (la_subject){.formula = la_ops[i]->formula,
                                     .file = la_ops[i]->file,
                                     .op = la_ops[i],
                                     .cases = la_ops[i]->cases});
    for (int i = 0; la_attns[i] && i < MOST; i++) {
        const la_attn *a = la_attns[i];
        snprintf(specs[i], NAME, "%s%s%s", a->name, a->tiny ? ":" : "", a->tiny ? a->tiny : "");
        add_spec(specs[i], a->name);
    }
    for (int i = 0; la_attn_examples[i]; i++) add_spec(la_attn_examples[i], la_attn_examples[i]);
}

int la_subject_count(void) {
    if (!n_subjects) list_subjects();
    return n_subjects;
}

la_status la_subject_check(void) {
    la_attn_cfg c;
    la_subject_count();
    if (failed) return la_attn_parse(failed, 0, &c);
    return too_many ? la_fail(LA_ARG, "there are more than %d subjects", MOST) : LA_OK;
}

la_subject la_subject_at(int i) { return la_subject_count() > i ? subjects[i] : (la_subject){0}; }

la_attn_cfg la_subject_cfg(const la_subject *s, double eps, int64_t chunk) {
    la_attn_cfg c = {0};
    if (la_attn_parse(s->spec, eps, &c) != LA_OK) return c;
    c.variant = s->variant; /* which a test may have changed */
    c.chunk = chunk;
    c.bidirectional = s->bidirectional;
    la_attn_complete(&c, LA_TRIAL_TEXT);
    return c;
}

static const char *name_at(int i) { return i < la_subject_count() ? la_subject_at(i).name : NULL; }

la_status la_subject_find(const char *name, la_subject *out) {
    char both[NAME];
    int  i = la_name_index(name, name_at);
    snprintf(both, sizeof both, "%s both ways", name); /* what has no causal form */
    if (i < 0) i = la_name_index(both, name_at);
    if (i < 0) return la_name_unknown("op or variant", name, name_at);
    *out = la_subject_at(i);
    return LA_OK;
}
