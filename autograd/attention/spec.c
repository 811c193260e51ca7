/* spec.c -- NAME:key=value,key=value, as it is typed. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/attention/attention.h"
#include "tensor/names.h"
#include "tensor/words.h"

typedef enum type { INT, REAL, MAP, DECAY, NORM } type;

static const struct key {
    const char *name;
    type        type;
    double      min, max;
    size_t      at; /* its field in la_attn_cfg */
    const char *help;
} keys[] = {
#define X(key, type, min, max, help) {#key, type, min, max, offsetof(la_attn_cfg, key), help},
#include "autograd/attention/options.def"
    {0},
};

static const char *key_at(int i) { return keys[i].name; }

static const char *map_at(int i) { /* the name of the i-th variant that has a map */
    for (int j = 0; la_attns[j]; j++)
        if (la_attns[j]->map && !strcmp(la_attns[j]->map->name, la_attns[j]->name) && i-- == 0)
            return la_attns[j]->name;
    return NULL;
}

static la_status read_number(const struct key *k, const char *value, double *x) {
    char shown[LA_SHOWN];
    if (la_read_number(value, k->type == INT, x) && *x >= k->min && *x <= k->max) return LA_OK;
    return la_fail(LA_ARG, "%s in --attn must be a %snumber from %.0f to %.0f, and is \"%s\"",
                   k->name, k->type == INT ? "whole " : "", k->min, k->max, la_shown(value, shown));
}

static la_status read_map(const char *value, const la_map **out) {
    const la_attn *a;
    char           shown[LA_SHOWN];
    if (la_name_index(value, map_at) < 0)
        return la_name_unknown("feature map", la_shown(value, shown), map_at);
    LA_TRY(la_attn_find(value, &a));
    *out = a->map;
    return LA_OK;
}

static la_status read_decay(const struct key *k, const char *value, la_attn_cfg *out) {
    char shown[LA_SHOWN];
    out->decay = !strcmp(value, "none")        ? LA_DECAY_NONE
                 : !strcmp(value, "retention") ? LA_DECAY_RETENTION
                 : !strcmp(value, "learned")   ? LA_DECAY_LEARNED
                                               : LA_DECAY_FIXED;
    if (out->decay != LA_DECAY_FIXED) return LA_OK;
    if (!la_read_number(value, false, &out->gamma) || !(out->gamma > 0 && out->gamma < k->max))
        return la_fail(
            LA_ARG,
            "decay in --attn must be none, retention, learned, or a number between 0 and 1, and "
            "is \"%s\"",
            la_shown(value, shown));
    return LA_OK;
}

static la_status read_norm(const char *value, la_attn_cfg *out) {
    char shown[LA_SHOWN];
    if (strcmp(value, "rms") && strcmp(value, "none"))
        return la_fail(LA_ARG, "norm in --attn must be rms or none, and is \"%s\"",
                       la_shown(value, shown));
    out->norm = strcmp(value, "rms") ? LA_HEAD_NORM_NONE : LA_HEAD_NORM_RMS;
    return LA_OK;
}

static la_status set(const struct key *k, const char *value, la_attn_cfg *out) {
    void  *field = (char *)out + k->at;
    double x;
    switch (k->type) {
    case INT:
        LA_TRY(read_number(k, value, &x));
        *(int64_t *)field = (int64_t)x;
        return LA_OK;
    case REAL:
        LA_TRY(read_number(k, value, &x));
        *(double *)field = x;
        return LA_OK;
    case MAP:
        return read_map(value, field);
    case DECAY:
        return read_decay(k, value, out);
    case NORM:
        return read_norm(value, out);
    }
    return LA_OK;
}

/* d projects for maps that do not do so themselves. */
static int map_reads(const la_map *map, const char *key) {
    return la_has_word(map->options, key) || (!map->projection && !strcmp(key, "d"));
}

/* Whether a key is for maps alone, and neither that of q nor that of k reads it. */
static int idle(const la_attn_cfg *c, const char *key) {
    int for_maps = 0;
    for (int i = 0; la_attns[i]; i++)
        for_maps |= la_attns[i]->map && map_reads(la_attns[i]->map, key);
    return for_maps && !map_reads(la_attn_map(c, 0), key) && !map_reads(la_attn_map(c, 1), key);
}

/* given: bit i for keys[i].  Only when all have been read it is known what the maps are. */
static la_status check_maps(const la_attn_cfg *c, unsigned given) {
    for (int i = 0; keys[i].name && la_attn_map(c, 0); i++)
        if (given >> i & 1 && idle(c, keys[i].name))
            return la_fail(LA_ARG, "%s with q=%s and k=%s does not read %s (%s)", c->variant->name,
                           la_attn_map(c, 0)->name, la_attn_map(c, 1)->name, keys[i].name,
                           keys[i].help);
    return LA_OK;
}

static la_status pair(char *text, la_attn_cfg *out, unsigned *given) {
    const la_attn *a = out->variant;
    char           shown[LA_SHOWN], *value = strchr(text, '=');
    if (!*text)
        return la_fail(
            LA_ARG,
            "nothing stands after the colon or a comma of --attn %s: write key=value, or "
            "leave it out",
            a->name);
    if (value) *value++ = 0;
    int i = la_name_index(text, key_at);
    if (i < 0) return la_name_unknown("key of --attn", la_shown(text, shown), key_at);
    if (!strcmp(keys[i].name, "decay") && !la_has_word(a->options, "decay"))
        return la_fail(
            LA_ARG,
            "decay fades a plain sum over the tokens before, as elu1 has one, and %s does "
            "not read it",
            a->name);
    if (!la_has_word(a->options, keys[i].name))
        return la_fail(LA_ARG, "%s does not read %s (%s)%s%s", a->name, keys[i].name, keys[i].help,
                       *a->options ? ": it reads " : ", nor anything else", a->options);
    *given |= 1u << i;
    return set(keys + i, value ? value : "", out);
}

la_status la_attn_parse(const char *spec, double eps, la_attn_cfg *out) {
    const la_attn *a;
    unsigned       given = 0;
    char shown[LA_SHOWN], *copy = strdup(spec), *text = copy ? strchr(copy, ':') : NULL, *next;
    if (!copy) return la_fail(LA_NOMEM, "no memory for --attn");
    if (text) *text++ = 0;
    la_status s = la_attn_find(la_shown(copy, shown), &a);
    if (s == LA_OK) {
        *out = a->usual;
        out->variant = a;
        out->eps = eps;
    }
    for (; text && s == LA_OK; text = next) {
        next = strchr(text, ',');
        if (next) *next++ = 0;
        s = pair(text, out, &given);
    }
    if (s == LA_OK) s = check_maps(out, given);
    free(copy);
    return s;
}

static void default_of(const la_attn *a, const struct key *k, char *text, size_t room) {
    const void *field = (const char *)&a->usual + k->at;
    switch (k->type) {
    case INT:
        snprintf(text, room, "%s=%lld", k->name, (long long)*(const int64_t *)field);
        break;
    case MAP:
        snprintf(text, room, "%s=%s", k->name, (*(const la_map *const *)field)->name);
        break;
    case REAL:
        snprintf(text, room, "%s=1e-6", k->name); /* that of --eps, unless it is given */
        break;
    case DECAY:
    case NORM:
        snprintf(text, room, "%s=none", k->name);
        break;
    }
}

void la_attn_options(const la_attn *a, void each(void *ctx, const char *option, const char *help),
                     void *ctx) {
    char text[64];
    for (const struct key *k = keys; k->name; k++) {
        if (a && !la_has_word(a->options, k->name)) continue;
        if (a) default_of(a, k, text, sizeof text);
        each(ctx, a ? text : k->name, k->help);
    }
}
