/* compare_measure.c -- what is measured once trainings are done: on the models of the first seed, and on
 * the machine.  Each measurement is a record too, so that one that was stopped goes on. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/hash.h"
#include "train/compare.h"
#include "train/compare_screen.h"
#include "train/config_impl.h"
#include "train/folder.h"
#include "train/measure.h"
#include "train/probe.h"
#include "train/save_file.h"
#include "train/setup.h"
#include "train/show.h"
#include "train/statistics.h"
#include "train/system.h"

enum { SHORTEST = 128, POSITION_TOKENS = 65536, ENTROPY_WINDOWS = 8, PICTURE_TOKENS = 48 };

static la_status no_memory(void) { return la_fail(LA_NOMEM, "no memory for a measurement"); }

/* --- of a trained model --- */

/* The first seed's main run of a problem and variant, if it has ended well; or NULL. */
static const la_run_plan *model_run(const la_comparison *k, int problem, int variant) {
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

/* The beginning of the validation text as a prompt: at most a training window, and few enough tokens
 * that they can be told apart. */
static la_status picture_prompt(const model *m, char **prompt) {
    int64_t n = m->lm->cfg.block_size < PICTURE_TOKENS ? m->lm->cfg.block_size : PICTURE_TOKENS;
    size_t  size;
    int32_t id[PICTURE_TOKENS];
    FILE   *out = open_memstream(prompt, &size);
    if (!out) return no_memory();
    la_ids_copy(&m->texts.valid, 0, n, id);
    for (int64_t i = 0; i < n; i++) {
        char bytes[4];
        int  length = la_decode(m->tokenizer, id[i], bytes);
        fwrite(bytes, 1, (size_t)length, out);
    }
    return fclose(out) ? no_memory() : LA_OK;
}

/* OUT/pictures/VARIANT.svg, where / of a name is _. */
static la_status picture(const la_comparison *k, const model *m, const la_run_plan *r) {
    char      *prompt = NULL, *svg = NULL, *folder = la_folder_path(k->dir, "pictures"), name[256];
    size_t     n;
    la_status  s = folder ? la_folder_make(folder) : no_memory();
    la_showing what = {.checkpoint = r->id, .attn = r->config.attn, .objective = r->config.objective};
    snprintf(name, sizeof name, "%.240s.svg", k->variant[r->variant].name);
    for (char *p = name; *p; p++)
        if (*p == '/') *p = '_';
    char *path = folder ? la_folder_path(folder, name) : NULL;
    if (s == LA_OK && !path) s = no_memory();
    if (s == LA_OK) s = picture_prompt(m, &prompt);
    what.prompt = prompt;
    if (s == LA_OK) s = la_show_svg(m->lm, m->tokenizer, &what, &svg, &n);
    if (s == LA_OK) s = la_file_put(path, (unsigned char *)svg, n);
    free(prompt);
    free(svg);
    free(path);
    free(folder);
    return s;
}

static la_status look_at(la_comparison *k, const la_run_plan *r, const char *path, json_t *found) {
    model   m;
    json_t *heads = NULL;
    LA_TRY(open_model(r, path, &m));
    la_status s = positions(&m, json_object_get(found, "positions"));
    if (s == LA_OK) s = entropy(&m, r, &heads);
    if (s == LA_OK) json_object_set(found, "entropy", heads);
    if (s == LA_OK) s = sample(&m, r, json_object_get(found, "samples"));
    if (s == LA_OK && r->problem == 0 && json_array_size(heads)) s = picture(k, &m, r);
    json_decref(heads);
    close_model(&m);
    return s;
}

static const char *model_name(la_comparison *k, const la_run_plan *r) {
    return la_arena_printf(&k->arena, "model-%s", r->id);
}

/* A record of positions, entropy and samples for each text and variant. */
static la_status measure_model(la_comparison *k, const la_run_plan *r) {
    const char *name = model_name(k, r);
    char       *path = la_folder_path(la_run_folder(k, r->id), "last.h5");
    json_t     *found = NULL;
    la_status   s = name && path ? la_record_load(k, name, &found) : no_memory();
    if (s == LA_OK && !found && access(path, R_OK))
        fprintf(stderr, "note: %s is gone, so nothing is measured on this model; without %s/records/%s.json it is "
                        "trained anew\n", path, k->dir, r->id);
    else if (s == LA_OK && !found) {
        found = json_pack("{s:[],s:[],s:[]}", "positions", "entropy", "samples");
        s = found ? look_at(k, r, path, found) : no_memory();
        if (s == LA_OK) s = la_record_save(k, name, json_incref(found));
        if (s != LA_OK && s != LA_NOMEM) s = la_fail(s, "%s: %s", r->id, la_error());
    }
    json_decref(found);
    free(path);
    return s;
}

/* --- of the machine --- */

/* Options of the model that bench reads, as the first problem's run of the variant has them. */
typedef struct machine_run {
    const char **options;
    const char  *attn, *key; /* of the options and the build */
    int          bidirectional;
} machine_run;

static la_status machine_of(la_comparison *k, int variant, machine_run *m) {
    la_run_plan probe = {0};
    for (int i = 0; i < k->n_runs && !probe.argv; i++)
        if (k->run[i].problem == 0 && k->run[i].variant == variant) probe = k->run[i];
    m->options = la_arena_alloc(&k->arena, (size_t)(probe.argc + 2) * sizeof *m->options);
    if (!m->options || !probe.argv) return no_memory();
    uint64_t hash = la_hash64(LA_HASH64_START, probe.config.attn, strlen(probe.config.attn));
    int      n = 0;
    m->options[n++] = la_arena_printf(&k->arena, "--vocab=%lld", (long long)k->problem[0].vocab);
    for (int i = 1; i < probe.argc; i++) {
        char   name[40];
        size_t length = strcspn(probe.argv[i] + 2, "=");
        snprintf(name, sizeof name, "%.*s", (int)(length < 39 ? length : 39), probe.argv[i] + 2);
        int option = la_config_find(name, LA_TOOL_BENCH);
        if (option < 0 || option == LA_OPT_attn || option == LA_OPT_block_size ||
            la_options[option].binding != LA_BIND_MODEL || option == LA_OPT_tokenizer)
            continue;
        m->options[n++] = probe.argv[i];
    }
    for (int i = 0; i < n; i++) {
        if (!m->options[i]) return no_memory();
        hash = la_hash64(hash, m->options[i], strlen(m->options[i]) + 1);
    }
    m->attn = probe.config.attn;
    m->bidirectional = strcmp(probe.config.objective, "causal") != 0;
    m->key = la_arena_printf(&k->arena, "%016llx", (unsigned long long)hash);
    return m->key ? LA_OK : no_memory();
}

static la_status lengths(const la_comparison *k, const la_measure *m, json_t *rows) {
    return la_measure_length(m, SHORTEST, k->c->longest, rows);
}

static la_status decode(const la_comparison *k, const la_measure *m, json_t *rows) {
    static const int64_t at[] = {16, 64, 256, 1024, 4096, 16384};
    char                 note[LA_MEASURE_NOTE];
    int                  n = 0;
    while (n < (int)(sizeof at / sizeof *at) && at[n] <= k->c->longest) n++;
    return m->bidirectional || !n ? LA_OK : la_measure_decode(m, at, n, rows, note);
}

static la_status gradients(const la_comparison *k, const la_measure *m, json_t *rows) {
    (void)k;
    return la_measure_gradcheck(m, rows);
}

static const struct machine_part {
    const char *name, *what;
    la_status (*measure)(const la_comparison *k, const la_measure *m, json_t *rows);
} parts[] = {{"length", "time and memory by length", lengths},
             {"decode", "generation", decode},
             {"gradcheck", "gradients", gradients}};
enum { PARTS = sizeof parts / sizeof *parts };

static la_status record_name(la_comparison *k, int part, const machine_run *m, const char **name) {
    *name = part < 2 ? la_arena_printf(&k->arena, "%s-%lld-%s", parts[part].name, (long long)k->c->longest, m->key)
                     : la_arena_printf(&k->arena, "%s-%s", parts[part].name, m->key);
    return *name ? LA_OK : no_memory();
}

static la_status measure_part(la_comparison *k, int part, int variant) {
    machine_run m;
    const char *name;
    json_t     *rows;
    LA_TRY(machine_of(k, variant, &m));
    LA_TRY(record_name(k, part, &m, &name));
    LA_TRY(la_record_load(k, name, &rows));
    if (rows) {
        json_decref(rows);
        return LA_OK;
    }
    la_measure what = {.attn = m.attn, .options = m.options, .bidirectional = m.bidirectional};
    rows = json_array();
    la_status s = rows ? parts[part].measure(k, &what, rows) : no_memory();
    if (s == LA_OK) return la_record_save(k, name, rows);
    json_decref(rows);
    return s == LA_STATE || s == LA_NOMEM ? s : la_fail(s, "%s: %s", k->variant[variant].name, la_error());
}

/* --- all --- */

la_status la_compare_measure(la_comparison *k) {
    int n = k->n_variants * (k->n_problems + PARTS), done = 0;
    for (int v = 0; v < k->n_variants; v++) {
        for (int p = 0; p < k->n_problems; p++, done++) {
            const la_run_plan *r = model_run(k, p, v);
            if (!r || k->problem[p].task) continue;
            la_screen_step(k, "models", k->variant[v].name, done, n);
            LA_TRY(measure_model(k, r));
            if (la_signal_stop()) return LA_OK;
        }
        for (int part = 0; part < PARTS; part++, done++) {
            if (!k->c->longest && part < 2) continue;
            la_screen_step(k, parts[part].what, k->variant[v].name, done, n);
            la_status s = measure_part(k, part, v);
            if (la_signal_stop()) return LA_OK;
            LA_TRY(s);
        }
    }
    la_screen_step(k, "", "", n, n);
    return LA_OK;
}

/* --- into results.json --- */

static double number(const json_t *row, const char *key) {
    const json_t *x = json_object_get(row, key);
    return json_is_number(x) ? json_number_value(x) : NAN;
}

/* Appends copies of rows with what says whose they are. */
static void append(json_t *list, const json_t *rows, const json_t *whose) {
    size_t        i;
    const json_t *row;
    json_array_foreach(rows, i, row) {
        json_t *copy = json_copy(json_array_get(rows, i));
        json_object_update(copy, (json_t *)(uintptr_t)whose);
        json_array_append_new(list, copy);
    }
}

static la_status put_model(la_comparison *k, const la_run_plan *r, json_t *results) {
    static const char *const lists[] = {"positions", "entropy", "samples"};
    const char              *name = model_name(k, r);
    json_t                  *found;
    if (!name) return no_memory();
    LA_TRY(la_record_load(k, name, &found));
    json_t *whose = json_pack("{s:s,s:s,s:I}", "problem", k->problem[r->problem].name, "variant",
                              k->variant[r->variant].name, "seed", (json_int_t)r->seed);
    for (int i = 0; found && i < 3; i++)
        append(json_object_get(results, lists[i]), json_object_get(found, lists[i]), whose);
    json_decref(found);
    json_decref(whose);
    return LA_OK;
}

enum { LENGTHS = 32 };
typedef struct lengths_of {
    int    n;
    double length[LENGTHS], ms[LENGTHS], bytes[LENGTHS]; /* NAN: refused */
} lengths_of;

static lengths_of read_lengths(const json_t *rows) {
    lengths_of    l = {0};
    size_t        i;
    const json_t *row;
    json_array_foreach(rows, i, row) if (l.n < LENGTHS) {
        l.length[l.n] = number(row, "length");
        l.ms[l.n] = number(row, "ms_per_step");
        l.bytes[l.n++] = number(row, "peak_bytes");
    }
    return l;
}

static json_t *finite_number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

/* Slopes are fitted where the text is what costs: from 1,024 tokens on, if there are three lengths. */
static void put_slope(json_t *list, const char *variant, const char *what, const lengths_of *l, const double *y) {
    int from = 0;
    while (from < l->n - 3 && l->length[from] < 1024) from++;
    if (l->n < 2) return;
    la_slope s = la_slope_of(l->n - from, l->length + from, y + from);
    json_array_append_new(list, json_pack("{s:s,s:s,s:I,s:I,s:I,s:o,s:o}", "variant", variant, "what", what, "from",
                                          (json_int_t)l->length[from], "to", (json_int_t)l->length[l->n - 1], "n",
                                          (json_int_t)s.n, "slope", finite_number(s.slope), "error", finite_number(s.error)));
}

static la_status put_machine(la_comparison *k, int variant, lengths_of *first, json_t *results) {
    json_t *speed = json_object_get(results, "speed");
    json_t *into[PARTS] = {json_object_get(speed, "length"), json_object_get(speed, "decode"),
                           json_object_get(results, "gradcheck")};
    json_t *whose = json_pack("{s:s}", "variant", k->variant[variant].name), *nobody = json_object();
    machine_run m;
    LA_TRY(machine_of(k, variant, &m));
    for (int part = 0; part < PARTS; part++) {
        const char *name;
        json_t     *rows;
        LA_TRY(record_name(k, part, &m, &name));
        LA_TRY(la_record_load(k, name, &rows));
        append(into[part], rows, part < 2 ? whose : nobody);
        if (part == 0 && rows) {
            lengths_of l = read_lengths(rows);
            put_slope(json_object_get(speed, "slopes"), k->variant[variant].name, "time", &l, l.ms);
            put_slope(json_object_get(speed, "slopes"), k->variant[variant].name, "memory", &l, l.bytes);
            if (variant == 0)
                *first = l;
            else if (first->n == l.n && l.n)
                json_array_append_new(
                    json_object_get(speed, "crossover"),
                    json_pack("{s:s,s:o}", "variant", k->variant[variant].name, "length",
                              finite_number(la_crossing(l.n, l.length, l.ms, first->ms))));
        }
        json_decref(rows);
    }
    json_decref(whose);
    json_decref(nobody);
    return LA_OK;
}

la_status la_compare_put_measures(la_comparison *k, json_t *results) {
    lengths_of first = {0};
    for (int v = 0; v < k->n_variants; v++) {
        for (int p = 0; p < k->n_problems; p++) {
            const la_run_plan *r = model_run(k, p, v);
            if (r && !k->problem[p].task) LA_TRY(put_model(k, r, results));
        }
        LA_TRY(put_machine(k, v, &first, results));
    }
    return LA_OK;
}
