/* show.c -- a text through a model whose weights are kept; then to HDF5, and to a picture. */
#include "train/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/h5_io.h"
#include "train/picture.h"
#include "train/save_file.h"
#include "train/system.h"

enum { WORD = 8, SPEC = 100 }; /* bytes of a token; letters of the options that a picture shows */

typedef struct text {
    const la_lm      *lm;
    const la_showing *what;
    int64_t           T, layers; /* tokens; layers that attend */
    int32_t          *ids, *positions, past;
    char (*word)[WORD];
    const char **words;
    la_tape     *tape;
    la_node    **weights; /* la_lm_groups of them, (1,T,heads,T) */
} text;

/* --- the text --- */
static la_status read_text(text *x, const la_tokenizer *k) {
    const char *prompt = x->what->prompt;
    size_t      n = strlen(prompt);
    if (n == 0)
        return la_fail(LA_ARG,
                       "--show-attention shows the attention of a text: give --prompt TEXT");
    x->ids = malloc(n * sizeof *x->ids);
    x->positions = malloc(n * sizeof *x->positions);
    x->word = malloc(n * sizeof *x->word);
    x->words = malloc(n * sizeof *x->words);
    if (!x->ids || !x->positions || !x->word || !x->words)
        return la_fail(LA_NOMEM, "no memory for a prompt of %zu bytes", n);
    LA_TRY(la_encode(k, la_text_of("the prompt", prompt, (int64_t)n), x->ids, &x->T));
    for (int64_t t = 0; t < x->T; t++) {
        char     bytes[4];
        uint32_t point;
        int      length = la_decode(k, x->ids[t], bytes);
        if (la_utf8_decode(bytes, length, &point) == length)
            snprintf(x->word[t], WORD, "%.*s", length, bytes);
        else
            snprintf(x->word[t], WORD, "\\x%02X", (unsigned char)bytes[0]);
        x->words[t] = x->word[t];
        x->positions[t] = (int32_t)t;
    }
    return LA_OK;
}

static la_status check_path(const char *path) {
    char   name[LA_FILE_NAME];
    size_t n = strlen(path);
    if (n >= 4 && !strcmp(path + n - 4, ".svg"))
        return la_fail(LA_ARG,
                       "--show-attention names an HDF5 file, and %s is the name of a picture: with "
                       "a name that ends in .h5 the picture is beside it",
                       la_file_name(path, name));
    if (la_file_is_ours(path))
        return la_fail(LA_ARG, "%s is a checkpoint, which --show-attention would replace",
                       la_file_name(path, name));
    return LA_OK;
}

/* The unit vectors and the weights of all groups, and while they are written a layer of them, the
 * file and its image: squares of T for each head. */
static la_status check_size(text *x) {
    const la_lm_cfg *c = &x->lm->cfg;
    for (int64_t i = 0; i < c->layers; i++) x->layers += x->lm->blocks[i].attends;
    if (!x->layers)
        return la_fail(LA_ARG, "the model has no attention to show: all %lld layers are none",
                       (long long)c->layers);
    const int64_t most = la_lm_longest(x->lm);
    if (most > 0 && x->T > most)
        return la_fail(LA_ARG,
                       "the prompt has %lld tokens, and the model reads %lld at a time: take a "
                       "shorter one (with --pos rope or none most variants have no limit)",
                       (long long)x->T, (long long)most);
    double squares = (double)c->heads * (double)x->T * (double)x->T, layers = (double)x->layers;
    double bytes = squares * ((1 + layers) * sizeof(la_real) + (1 + 2 * layers) * sizeof(float));
    double room = (double)la_memory_available();
    if (room == 0 || bytes <= room) return LA_OK;
    return la_fail(
        LA_NOMEM,
        "the weights of %lld tokens in %lld layers of %lld heads need %.1f MiB, with the "
        "file they go to, and %.1f MiB are free: take a shorter prompt",
        (long long)x->T, (long long)x->layers, (long long)c->heads, bytes / 0x1p20, room / 0x1p20);
}

/* --- the weights --- */
static la_status run(text *x) {
    const int64_t T = x->T, H = x->lm->cfg.heads;
    x->weights = calloc((size_t)la_lm_groups(x->lm), sizeof(la_node *));
    if (!x->weights) return la_fail(LA_NOMEM, "no memory for a list of weights");
    LA_TRY(la_tape_create(&x->tape, &(la_tape_cfg){.max_bytes = la_memory_available()}));
    la_lm_input in = {.tokens = la_integers(x->tape, "tokens", la_shape2(1, T), x->ids),
                      .positions = la_integers(x->tape, "positions", la_shape2(1, T), x->positions),
                      .past = la_integers(x->tape, "past", la_shape1(1), &x->past),
                      .unit = la_input(x->tape, "unit", la_shape3(1, T, H * T), 0),
                      .weights = x->weights};
    la_lm_logits(x->lm, x->tape, &in);
    LA_TRY(la_tape_seal(x->tape, NULL));
    memset(in.unit->x, 0, (size_t)(T * H * T) * sizeof(la_real));
    for (int64_t t = 0; t < T; t++)
        for (int64_t h = 0; h < H; h++) in.unit->x[(t * H + h) * T + t] = 1;
    LA_TRY(la_tape_forward(x->tape));
    for (int g = 0; g < la_lm_groups(x->lm); g++)
        if (la_find_nonfinite((size_t)la_len(x->weights[g]->shape), x->weights[g]->x) >= 0)
            return la_fail(LA_NUMERIC, "a weight of %s on the prompt is not finite",
                           x->weights[g]->op->name);
    return LA_OK;
}

/* --- HDF5 --- */
/* Part number i of a text that is cut at each `at`, without what follows an @.  Returns its length.
 */
static int part_of(const char *spec, char at, int64_t i, const char **from) {
    for (; i > 0 && strchr(spec, at); i--) spec = strchr(spec, at) + 1;
    *from = spec;
    return (int)strcspn(spec, at == '/' ? "/" : "/+@");
}

/* Whether it worked, here and below. */
static int put_groups(hid_t set, const text *x, int64_t layer) {
    const la_attn_layer *l = &x->lm->blocks[layer].attn;
    char                *name[LA_MAX_MIX] = {0};
    const char          *mix, *from;
    int64_t              heads[LA_MAX_MIX];
    hid_t                type = la_h5_text_type();
    int                  ok = type >= 0;
    part_of(x->what->attn, '/', layer % x->lm->cfg.attn.n, &mix);
    for (int i = 0; i < l->n_groups; i++) {
        int n = part_of(mix, '+', i, &from);
        heads[i] = l->group[i].heads;
        ok = ok && (name[i] = strndup(from, (size_t)n));
    }
    ok = ok && la_h5_put_list(set, "attn", type, (hsize_t)l->n_groups, name) &&
         la_h5_put_list(set, "heads", H5T_NATIVE_INT64, (hsize_t)l->n_groups, heads);
    for (int i = 0; i < l->n_groups; i++) free(name[i]);
    if (type >= 0) H5Tclose(type);
    return ok;
}

/* w (T,heads,T) of each group -> (H,T,T) */
static void gather(const text *x, la_node *const *group, int64_t H, float *to) {
    const int64_t T = x->T;
    for (int64_t h = 0, first = 0; h < H; h++) {
        if (h == first + (*group)->shape.d[2]) first = h, group++;
        const la_node *n = *group;
        for (int64_t t = 0; t < T; t++) {
            const la_real *row = n->x + (t * n->shape.d[2] + h - first) * T;
            for (int64_t j = 0; j < T; j++) *to++ = (float)row[j];
        }
    }
}

static int put_layers(hid_t file, const text *x, float *weights) {
    const int64_t H = x->lm->cfg.heads;
    const hsize_t d[3] = {(hsize_t)H, (hsize_t)x->T, (hsize_t)x->T};
    int           ok = 1, group = 0;
    for (int64_t i = 0; ok && i < x->lm->cfg.layers; i++) {
        const la_block_layer *b = x->lm->blocks + i;
        char                  name[32];
        if (!b->attends) continue;
        snprintf(name, sizeof name, "layer_%lld", (long long)i);
        gather(x, x->weights + group, H, weights);
        group += b->attn.n_groups;
        ok = la_h5_put_array(file, name, H5T_NATIVE_FLOAT, 3, d, weights);
        hid_t set = ok ? H5Dopen2(file, name, H5P_DEFAULT) : -1;
        ok = set >= 0 && put_groups(set, x, i);
        if (set >= 0) H5Dclose(set);
    }
    return ok;
}

static int put_all(hid_t file, const text *x, float *weights) {
    const hsize_t T = (hsize_t)x->T;
    hid_t         type = la_h5_text_type();
    int           ok = type >= 0 && la_h5_put_text(file, "checkpoint", x->what->checkpoint) &&
             la_h5_put_text(file, "attn", x->what->attn) &&
             la_h5_put_text(file, "objective", x->what->objective) &&
             la_h5_put_array(file, "tokens", H5T_NATIVE_INT32, 1, &T, x->ids) &&
             la_h5_put_array(file, "text", type, 1, &T, x->words) && put_layers(file, x, weights);
    if (type >= 0) H5Tclose(type);
    return ok;
}

static la_status save_weights(const text *x) {
    size_t         layer = (size_t)(x->lm->cfg.heads * x->T * x->T) * sizeof(float), n = 0;
    float         *weights = malloc(layer);
    unsigned char *bytes = NULL;
    hid_t          file = weights ? la_h5_create(0, layer + (1 << 16)) : -1;
    if (file >= 0 && put_all(file, x, weights)) bytes = la_h5_image(file, 0, &n);
    if (file >= 0) H5Fclose(file);
    free(weights);
    if (!bytes)
        return la_fail(LA_NOMEM, "no memory to build a file of %lld layers of %zu bytes",
                       (long long)x->layers, layer);
    la_status s = la_file_put(x->what->path, bytes, n);
    free(bytes);
    return s;
}

/* --- the picture --- */
static void fill_picture(const text *x, la_picture_matrix *m) {
    int group = 0;
    for (int64_t i = 0; i < x->lm->cfg.layers; i++) {
        const la_attn_layer *l = &x->lm->blocks[i].attn;
        int                  head = 0;
        for (int g = 0; x->lm->blocks[i].attends && g < l->n_groups; g++, group++)
            for (int64_t h = 0; h < l->group[g].heads; h++, m++) {
                const la_node *n = x->weights[group];
                *m = (la_picture_matrix){.variant = l->group[g].cfg.variant->name,
                                         .w = n->x + h * x->T,
                                         .ld = l->group[g].heads * x->T};
                snprintf(m->title, sizeof m->title, "layer %lld head %d", (long long)i, head++);
            }
    }
}

static la_status draw(const text *x, const la_picture_matrix *m, const char *path) {
    char      *svg, name[LA_FILE_NAME], options[SPEC + 64];
    const int  cut = strlen(x->what->attn) > SPEC;
    size_t     n;
    la_picture p = {.T = x->T,
                    .rows = x->layers,
                    .columns = x->lm->cfg.heads,
                    .matrix = m,
                    .tokens = x->words,
                    .line = {"Attention weights: a row is a token that looks, a column one that "
                             "is looked at",
                             la_file_name(x->what->checkpoint, name), options}};
    snprintf(options, sizeof options, "attention %.*s%s, objective %s", SPEC, x->what->attn,
             cut ? "..." : "", x->what->objective);
    LA_TRY(la_picture_svg(&p, &svg, &n));
    la_status s = la_file_put(path, (const unsigned char *)svg, n);
    free(svg);
    return s;
}

static la_status save_picture(const text *x, char **path) {
    const char *to = x->what->path;
    size_t      n = strlen(to), stem = n > 3 && !strcmp(to + n - 3, ".h5") ? n - 3 : n;
    if (x->T > LA_PICTURE_TOKENS) return LA_OK;
    la_picture_matrix *m = calloc((size_t)(x->layers * x->lm->cfg.heads), sizeof *m);
    char              *name = malloc(stem + sizeof ".svg");
    la_status          s = LA_NOMEM;
    if (m && name) {
        snprintf(name, stem + sizeof ".svg", "%.*s.svg", (int)stem, to);
        fill_picture(x, m);
        s = draw(x, m, name);
    } else
        la_fail(s, "no memory for a picture of %lld tokens", (long long)x->T);
    free(m);
    if (s == LA_OK)
        *path = name;
    else
        free(name);
    return s;
}

static la_status show(text *x, const la_tokenizer *k, char **picture) {
    LA_TRY(check_path(x->what->path));
    LA_TRY(read_text(x, k));
    LA_TRY(check_size(x));
    LA_TRY(run(x));
    LA_TRY(save_weights(x));
    return save_picture(x, picture);
}

la_status la_show_attention(const la_lm *lm, const la_tokenizer *k, const la_showing *what,
                            char **picture) {
    text x = {.lm = lm, .what = what};
    *picture = NULL;
    la_status s = show(&x, k, picture);
    la_tape_destroy(x.tape);
    free(x.weights);
    free(x.ids);
    free(x.positions);
    free(x.word);
    free(x.words);
    return s;
}
