/* models.c -- what is measured on trained models: on those of the first seed, of texts. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/compare/compare.h"
#include "train/compare/measured.h"
#include "train/compare/probe.h"
#include "train/compare/screen.h"
#include "train/folder.h"
#include "train/save_file.h"
#include "train/setup.h"
#include "train/show.h"
#include "train/text_stream.h"

enum { POSITION_TOKENS = 65536, ENTROPY_WINDOWS = 8, PICTURE_TOKENS = 48 };

static la_status no_memory(void) { return la_fail(LA_NOMEM, "no memory for a measurement"); }

const la_run_plan *la_model_run(const la_comparison *k, int problem, int variant) {
    for (int i = 0; i < k->n_runs; i++) {
        const la_run_plan *r = k->run + i;
        const json_t      *loss = json_object_get(json_object_get(r->record, "final"), "val_loss");
        if (!r->sweep && r->problem == problem && r->variant == variant && r->seed == k->seed[0])
            return json_is_number(loss) ? r : NULL;
    }
    return NULL;
}

typedef struct model {
    la_config     stored;
    la_lm        *lm;
    la_tokenizer *tokenizer;
    la_texts      texts;
} model;

static void close_model(model *m) {
    la_lm_destroy(m->lm);
    la_tokenizer_destroy(m->tokenizer);
    la_texts_close(&m->texts);
    la_config_free(&m->stored);
}

static la_status open_model(const la_run_plan *r, const char *path, model *m) {
    *m = (model){0};
    LA_TRY(la_model_load(path, &m->stored, &m->lm, &m->tokenizer));
    la_status s = la_texts_open(&m->texts, &r->config, NULL);
    if (s != LA_OK) close_model(m);
    return s;
}

static la_status positions(const model *m, json_t *list) {
    static const int64_t times[] = {1, 4, 16};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        la_probe_positions p;
        LA_TRY(la_probe_loss_by_position(m->lm, &m->texts.valid, times[i], POSITION_TOKENS, &p));
        json_array_append_new(list, la_probe_positions_json(&p));
    }
    return LA_OK;
}

static la_status entropy(const model *m, const la_run_plan *r, json_t **list) {
    la_probe_heads heads;
    LA_TRY(la_probe_entropy(m->lm, r->config.attn, &m->texts.valid, ENTROPY_WINDOWS, &heads));
    *list = la_probe_heads_json(&heads);
    la_probe_heads_free(&heads);
    return *list ? LA_OK : no_memory();
}

/* Models of the masked objective write nothing: no sample. */
static la_status sample(const model *m, const la_run_plan *r, json_t *list) {
    char *text;
    if (m->lm->cfg.mask_token) return LA_OK;
    LA_TRY(la_probe_sample(m->lm, m->tokenizer, r->config.prompt, (uint64_t)r->seed, &text));
    json_array_append_new(list, json_pack("{s:s,s:s}", "prompt", r->config.prompt, "text", text));
    free(text);
    return LA_OK;
}

/* The beginning of the validation text as a prompt: at most a training window, and few enough
 * tokens that they can be told apart. */
static la_status picture_prompt(const model *m, char **prompt) {
    int64_t n = m->lm->cfg.block_size < PICTURE_TOKENS ? m->lm->cfg.block_size : PICTURE_TOKENS;
    size_t  size;
    int32_t id[PICTURE_TOKENS];
    FILE   *out = la_text_stream(prompt, &size);
    if (!out) return no_memory();
    la_ids_copy(&m->texts.valid, 0, n, id);
    for (int64_t i = 0; i < n; i++) {
        char bytes[4];
        int  length = la_decode(m->tokenizer, id[i], bytes);
        fwrite(bytes, 1, (size_t)length, out);
    }
    return fclose(out) ? no_memory() : LA_OK;
}

static la_status picture(const model *m, const la_run_plan *r, json_t *found) {
    char      *prompt = NULL, *svg = NULL;
    size_t     n;
    la_showing what = {
        .checkpoint = r->id, .attn = r->config.attn, .objective = r->config.objective};
    la_status s = picture_prompt(m, &prompt);
    what.prompt = prompt;
    if (s == LA_OK) s = la_show_svg(m->lm, m->tokenizer, &what, &svg, &n);
    if (s == LA_OK) json_object_set_new(found, "picture", json_stringn(svg, n));
    free(prompt);
    free(svg);
    return s;
}

/* A picture as OUT/pictures/VARIANT.svg, where / of the name is _: what the page looks for. */
static la_status put_picture(const la_comparison *k, const la_run_plan *r, const char *svg) {
    char     *folder = la_folder_path(k->dir, "pictures"), name[256];
    la_status s = folder ? la_folder_make(folder) : no_memory();
    snprintf(name, sizeof name, "%.240s.svg", k->variant[r->variant].name);
    for (char *p = name; *p; p++)
        if (*p == '/') *p = '_';
    char *path = folder ? la_folder_path(folder, name) : NULL;
    if (s == LA_OK)
        s = path ? la_file_put(path, (const unsigned char *)svg, strlen(svg)) : no_memory();
    free(path);
    free(folder);
    return s;
}

static la_status look_at(const la_run_plan *r, const char *path, json_t *found) {
    model   m;
    json_t *heads = NULL;
    LA_TRY(open_model(r, path, &m));
    la_status s = positions(&m, json_object_get(found, "positions"));
    if (s == LA_OK) s = entropy(&m, r, &heads);
    if (s == LA_OK) json_object_set(found, "entropy", heads);
    if (s == LA_OK) s = sample(&m, r, json_object_get(found, "samples"));
    if (s == LA_OK && json_array_size(heads)) s = picture(&m, r, found);
    json_decref(heads);
    close_model(&m);
    return s;
}

static const char *model_name(la_comparison *k, const la_run_plan *r) {
    return la_arena_printf(&k->arena, "model-%s", r->id);
}

la_status la_measure_model(la_comparison *k, const la_run_plan *r) {
    const char *name = model_name(k, r);
    char       *path = la_folder_path(la_run_folder(k, r->id), "last.h5");
    json_t     *found = NULL;
    la_status   s = name && path ? la_record_load(k, name, &found) : no_memory();
    if (found && !la_record_has(found, "positions entropy samples"))
        json_decref(found), found = NULL;
    if (s == LA_OK && !found && access(path, R_OK))
        s = la_fail(
            LA_IO,
            "%s is gone, so nothing is measured on this model: without %s/records/%s.json it is "
            "trained anew",
            path, k->dir, r->id);
    else if (s == LA_OK && !found) {
        la_screen_step(k, "the model", k->variant[r->variant].name);
        found = json_pack("{s:[],s:[],s:[]}", "positions", "entropy", "samples");
        s = found ? look_at(r, path, found) : no_memory();
        if (s == LA_OK) s = la_record_save(k, name, json_incref(found));
        if (s != LA_OK && s != LA_NOMEM) s = la_fail(s, "%s: %s", r->id, la_error());
    }
    json_decref(found);
    free(path);
    return s;
}

la_status la_put_model(la_comparison *k, const la_run_plan *r, json_t *results) {
    static const char *const lists[] = {"positions", "entropy", "samples"};
    const char              *name = model_name(k, r);
    json_t                  *found;
    if (!name) return no_memory();
    LA_TRY(la_record_load(k, name, &found));
    json_t *whose = json_pack("{s:s,s:s,s:I}", "problem", k->problem[r->problem].name, "variant",
                              k->variant[r->variant].name, "seed", (json_int_t)r->seed);
    for (int i = 0; found && i < 3; i++)
        la_append_rows(json_object_get(results, lists[i]), json_object_get(found, lists[i]), whose);
    const char *svg = json_string_value(json_object_get(found, "picture"));
    la_status   s = r->problem == 0 && svg ? put_picture(k, r, svg) : LA_OK;
    json_decref(found);
    json_decref(whose);
    return s;
}
