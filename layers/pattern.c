/* pattern.c -- which attention each layer has: `elu1/elu1/window:w=64` over layers,
 * `elu1@2+window@2` over the heads of a layer. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "layers/layers.h"
#include "tensor/words.h"

/* Cuts `text` at the first `at` and returns what follows, or NULL. */
static char *cut(char *text, char at) {
    char *next = text ? strchr(text, at) : NULL;
    if (next) *next++ = 0;
    return next;
}

/* NAME:options@HEADS; the number of heads comes last, or there is none. */
static la_status read_part(char *text, double eps, la_attn_part *out) {
    char  *heads = cut(text, '@'), shown[LA_SHOWN];
    double n = 0;
    if (heads && !(la_read_number(heads, true, &n) && n >= 1 && n <= 1024))
        return la_fail(
            LA_ARG,
            "heads in --attn are a whole number from 1 to 1024, after an @, and \"%s\" is not",
            la_shown(heads, shown));
    out->heads = (int64_t)n;
    return la_attn_parse(text, eps, &out->cfg);
}

/* The same at a + before a letter: that of eps=1e+0 is part of a number. */
static char *cut_mix(char *text) {
    for (char *at = text; (at = strchr(at, '+')); at++)
        if (isalpha((unsigned char)at[1])) return *at = 0, at + 1;
    return NULL;
}

static la_status read_mix(char *text, double eps, la_attn_mix *out) {
    for (char *next; text; text = next) {
        next = cut_mix(text);
        if (out->n == LA_MAX_MIX)
            return la_fail(LA_ARG, "--attn mixes more than %d variants in one layer", LA_MAX_MIX);
        la_attn_part *part = &out->part[out->n++];
        LA_TRY(read_part(text, eps, part));
        if (!part->heads && (next || out->n > 1))
            return la_fail(LA_ARG, "in a mix over heads each variant says how many it has: %s@2",
                           part->cfg.variant->name);
    }
    return LA_OK;
}

static la_status parse(char *text, double eps, la_attn_pattern *out) {
    for (char *next; text; text = next) {
        next = cut(text, '/');
        if (out->n == LA_MAX_PATTERN)
            return la_fail(LA_ARG, "--attn has more than %d layers before it repeats",
                           LA_MAX_PATTERN);
        LA_TRY(read_mix(text, eps, &out->mix[out->n++]));
    }
    return LA_OK;
}

la_status la_attn_pattern_parse(const char *spec, double eps, la_attn_pattern *out) {
    char *copy = strdup(spec);
    *out = (la_attn_pattern){0};
    if (!copy) return la_fail(LA_NOMEM, "no memory for --attn");
    la_status s = parse(copy, eps, out);
    free(copy);
    return s;
}

la_attn_pattern la_attn_everywhere(const la_attn_cfg *c) {
    return (la_attn_pattern){.n = 1, .mix = {{.n = 1, .part = {{.cfg = *c}}}}};
}

const la_attn_mix *la_attn_of_layer(const la_attn_pattern *p, int64_t layer) {
    return &p->mix[layer % p->n];
}

int la_attn_mix_is_none(const la_attn_mix *m) { return la_attn_op(&m->part[0].cfg) == NULL; }

static la_status complete_mix(la_attn_mix *m, int64_t heads, int64_t dim, int64_t longest,
                              int bidirectional) {
    int64_t sum = 0;
    for (int i = 0; i < m->n; i++) {
        la_attn_part *p = &m->part[i];
        if (!p->heads) p->heads = heads;
        sum += p->heads;
        p->cfg.bidirectional = bidirectional;
        la_attn_complete(&p->cfg, longest);
        LA_TRY(la_attn_check(&p->cfg, p->heads, dim / heads));
        int64_t most = la_attn_longest(&p->cfg);
        if (most > 0 && most < longest)
            return la_fail(LA_ARG,
                           "%s with length=%lld reads texts of that many tokens, and --block-size "
                           "is %lld: take length=%lld or more",
                           p->cfg.variant->name, (long long)most, (long long)longest,
                           (long long)longest);
        if (m->n > 1 && !la_attn_op(&p->cfg))
            return la_fail(LA_ARG, "%s cannot be mixed with others over heads: it has no output",
                           p->cfg.variant->name);
    }
    if (sum != heads)
        return la_fail(LA_ARG, "--attn shares out %lld heads, and a layer has %lld", (long long)sum,
                       (long long)heads);
    return LA_OK;
}

la_status la_attn_pattern_complete(la_attn_pattern *p, int64_t layers, int64_t heads, int64_t dim,
                                   int64_t longest, int bidirectional) {
    if (p->n > layers)
        return la_fail(LA_ARG, "--attn names %d layers, and the model has %lld", p->n,
                       (long long)layers);
    for (int i = 0; i < p->n; i++)
        LA_TRY(complete_mix(&p->mix[i], heads, dim, longest, bidirectional));
    return LA_OK;
}
