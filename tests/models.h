/* models.h -- the attention that the tests of whole models go through: none, every variant of
 * attn.def with the options that trial.h tries it with, its examples, and patterns of several. */
#ifndef LA_TESTS_MODELS_H
#define LA_TESTS_MODELS_H
#include "testing.h"

#include "autograd/trial.h"
#include "layers/layers.h"

static const char *const model_patterns[] = {"none", "elu1/softmax", "softmax@1+elu1:norm=rms@1",
                                             "elu1:norm=rms,decay=learned/none", NULL};

/* Spec number i, or NULL after the last. */
static inline const char *model_spec(int i) {
    int n = 0;
    for (; model_patterns[n]; n++)
        if (n == i) return model_patterns[n];
    for (int j = 0; j < la_subject_count(); j++) {
        la_subject s = la_subject_at(j);
        int        again = j > 0 && s.spec == la_subject_at(j - 1).spec; /* its other direction */
        if (s.variant && !again && n++ == i) return s.spec;
    }
    return NULL;
}

static inline int model_specs(void) {
    int n = 0;
    while (model_spec(n)) n++;
    return n;
}

/* Whether there is such a model, of two heads, for the causal or for the masked objective. */
static inline int goes(const char *spec, int bidirectional) {
    la_attn_pattern p;
    return la_attn_pattern_parse(spec, 0, &p) == LA_OK &&
           la_attn_pattern_complete(&p, 2, 2, 12, 16, bidirectional) == LA_OK;
}

/* The i-th of those for the causal objective, or NULL after the last. */
static inline const char *causal_spec(int i) {
    const char *spec;
    for (int j = 0; (spec = model_spec(j)); j++)
        if (goes(spec, 0) && i-- == 0) return spec;
    return NULL;
}

static inline int causal_specs(void) {
    int n = 0;
    while (causal_spec(n)) n++;
    return n;
}

static inline la_attn_pattern pattern_of(const char *spec, double eps) {
    la_attn_pattern p;
    OK(la_attn_pattern_parse(spec, eps, &p));
    return p;
}
#endif
