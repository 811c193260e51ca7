/* show.c -- the weights of a text, to HDF5 and to a picture. */
#include "train/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/words.h"
#include "train/h5_io.h"
#include "train/picture.h"
#include "train/save_file.h"
#include "train/system.h"
#include "train/weights.h"

enum { WORD = 8, SPEC = 100 }; /* bytes of a token; letters of the options that a picture shows */

typedef struct text {
    const la_lm      *lm;
    const la_showing *what;
    int64_t           T; /* tokens */
    int32_t          *ids;
    char (*word)[WORD];
    const char **words;
    la_weights   weights;
} text;

/* --- the text --- */
static la_status read_text(text *x, const la_tokenizer *k) {
    const char *prompt = x->what->prompt;
    size_t      n = strlen(prompt);
    x->ids = malloc(n * sizeof *x->ids);
    x->word = malloc(n * sizeof *x->word);
    x->words = malloc(n * sizeof *x->words);
    if (!x->ids || !x->word || !x->words)
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
    }
    return LA_OK;
}

static la_status check_request(const la_showing *what) {
    const char *path = what->path;
    char        name[LA_FILE_NAME];
    size_t      n = strlen(path);
    if (!*what->prompt)
        return la_fail(LA_ARG,
                       "--show-attention shows the attention of a text: give --prompt TEXT");
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

/* Besides the weights there are, while they are written, a layer of them, the file and its image:
 * squares of T for each head. */
static la_status check_size(const text *x) {
    const la_lm_cfg *c = &x->lm->cfg;
    const int64_t    layers = la_weights_layers(x->lm), most = la_lm_longest(x->lm);
    if (!layers)
        return la_fail(LA_ARG, "the model has no attention to show: all %lld layers are none",
                       (long long)c->layers);
    if (most > 0 && x->T > most)
        return la_fail(LA_ARG,
                       "the prompt has %lld tokens, and the model reads %lld at a time: take a "
                       "shorter one (with --pos rope or none most variants have no limit)",
                       (long long)x->T, (long long)most);
    double squares = (double)c->heads * (double)x->T * (double)x->T;
    double file = squares * (double)(1 + 2 * layers) * sizeof(float);
    double bytes = la_weights_bytes(x->lm, x->T) + file, room = (double)la_memory_available();
    if (room == 0 || bytes <= room) return LA_OK;
    return la_fail(
        LA_NOMEM,
        "the weights of %lld tokens in %lld layers of %lld heads need %.1f MiB, with the "
        "file they go to, and %.1f MiB are free: take a shorter prompt",
        (long long)x->T, (long long)layers, (long long)c->heads, bytes / 0x1p20, room / 0x1p20);
}

static la_status compute(text *x) {
    LA_TRY(la_weights_create(&x->weights, x->lm, x->T, la_memory_available()));
    memcpy(x->weights.tokens, x->ids, (size_t)x->T * sizeof *x->ids);
    la_status s = la_weights_compute(&x->weights);
    return s == LA_NUMERIC ? la_fail(s, "on the prompt %s", la_error()) : s;
}

/* --- HDF5 --- */
/* Whether it worked, here and below. */
static int put_groups(hid_t set, const text *x, int64_t layer) {
    const la_attn_layer *l = &x->lm->blocks[layer].attn;
    char                *name[LA_MAX_MIX] = {0};
    int64_t              heads[LA_MAX_MIX];
    hid_t                type = la_h5_text_type();
    int                  ok = type >= 0;
    for (int i = 0; i < l->n_groups; i++) {
        int         n;
        const char *from = la_weights_spec(x->what->attn, x->lm->cfg.attn.n, layer, i, &n);
        heads[i] = l->group[i].heads;
        ok = ok && (name[i] = strndup(from, (size_t)n));
    }
    ok = ok && la_h5_put_list(set, "attn", type, (hsize_t)l->n_groups, name) &&
         la_h5_put_list(set, "heads", H5T_NATIVE_INT64, (hsize_t)l->n_groups, heads);
    for (int i = 0; i < l->n_groups; i++) free(name[i]);
    if (type >= 0) H5Tclose(type);
    return ok;
}

/* -> (H,T,T) */
static void gather(const text *x, int64_t layer, float *to) {
    for (int64_t h = 0; h < x->lm->cfg.heads; h++) {
        la_weights_head head = la_weights_of(&x->weights, layer, h);
        for (int64_t t = 0; t < x->T; t++)
            for (int64_t j = 0; j < x->T; j++) *to++ = (float)head.w[t * head.ld + j];
    }
}

static int put_layers(hid_t file, const text *x, float *weights) {
    const int64_t H = x->lm->cfg.heads;
    const hsize_t d[3] = {(hsize_t)H, (hsize_t)x->T, (hsize_t)x->T};
    int           ok = 1;
    for (int64_t i = 0; ok && i < x->lm->cfg.layers; i++) {
        char name[32];
        if (!x->lm->blocks[i].attends) continue;
        snprintf(name, sizeof name, "layer_%lld", (long long)i);
        gather(x, i, weights);
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
                       (long long)x->weights.layers, layer);
    la_status s = la_file_put(x->what->path, bytes, n);
    free(bytes);
    return s;
}

/* --- the picture --- */
static void fill_picture(const text *x, la_picture_matrix *m) {
    for (int64_t i = 0; i < x->lm->cfg.layers; i++)
        for (int64_t h = 0; x->lm->blocks[i].attends && h < x->lm->cfg.heads; h++, m++) {
            la_weights_head head = la_weights_of(&x->weights, i, h);
            *m =
                (la_picture_matrix){.variant = head.cfg->variant->name, .w = head.w, .ld = head.ld};
            snprintf(m->title, sizeof m->title, "layer %d head %d", (int)i, (int)h);
        }
}

static la_status draw(const text *x, char **svg, size_t *n) {
    char               name[LA_FILE_NAME], options[SPEC + 64];
    const int          cut = strlen(x->what->attn) > SPEC;
    const int64_t      rows = x->weights.layers, columns = x->lm->cfg.heads;
    la_picture_matrix *m = calloc((size_t)(rows * columns), sizeof *m);
    if (!m) return la_fail(LA_NOMEM, "no memory for a picture of %lld tokens", (long long)x->T);
    la_picture p = {.T = x->T,
                    .rows = rows,
                    .columns = columns,
                    .matrix = m,
                    .tokens = x->words,
                    .line = {"Attention weights: a row is a token that looks, a column one that "
                             "is looked at",
                             la_file_name(x->what->checkpoint, name), options}};
    snprintf(options, sizeof options, "attention %.*s%s, objective %s", SPEC, x->what->attn,
             cut ? "..." : "", x->what->objective);
    fill_picture(x, m);
    la_status s = la_picture_svg(&p, svg, n);
    free(m);
    return s;
}

static la_status save_picture(const text *x, char **path) {
    const char *to = x->what->path;
    size_t      n = strlen(to), stem = n > 3 && !strcmp(to + n - 3, ".h5") ? n - 3 : n, bytes;
    if (x->T > LA_PICTURE_TOKENS) return LA_OK;
    char     *svg = NULL, *name = malloc(stem + sizeof ".svg");
    la_status s = name ? draw(x, &svg, &bytes) : la_fail(LA_NOMEM, "no memory for a name");
    if (s == LA_OK) {
        snprintf(name, stem + sizeof ".svg", "%.*s.svg", (int)stem, to);
        s = la_file_put(name, (const unsigned char *)svg, bytes);
    }
    free(svg);
    if (s == LA_OK)
        *path = name;
    else
        free(name);
    return s;
}

/* --- both --- */
static la_status compute_prompt(text *x, const la_tokenizer *k) {
    LA_TRY(read_text(x, k));
    LA_TRY(check_size(x));
    return compute(x);
}

static la_status show(text *x, const la_tokenizer *k, char **picture) {
    LA_TRY(check_request(x->what));
    LA_TRY(compute_prompt(x, k));
    LA_TRY(save_weights(x));
    return save_picture(x, picture);
}

static void forget(text *x) {
    la_weights_destroy(&x->weights);
    free(x->ids);
    free(x->word);
    free(x->words);
}

la_status la_show_attention(const la_lm *lm, const la_tokenizer *k, const la_showing *what,
                            char **picture) {
    text x = {.lm = lm, .what = what};
    *picture = NULL;
    la_status s = show(&x, k, picture);
    forget(&x);
    return s;
}

la_status la_show_svg(const la_lm *lm, const la_tokenizer *k, const la_showing *what, char **svg,
                      size_t *n) {
    text x = {.lm = lm, .what = what};
    *svg = NULL;
    la_status s = *what->prompt
                      ? compute_prompt(&x, k)
                      : la_fail(LA_ARG, "a picture of attention is of a text, and there is none");
    if (s == LA_OK) s = draw(&x, svg, n);
    forget(&x);
    return s;
}
