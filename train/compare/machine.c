/* machine.c -- what is measured on the machine: time, memory and gradients of each variant. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/hash.h"
#include "tensor/parallel.h"
#include "train/compare/compare.h"
#include "train/compare/measure.h"
#include "train/compare/measured.h"
#include "train/compare/numbers.h"
#include "train/compare/screen.h"
#include "train/setup.h"
#include "train/statistics.h"

enum { SHORTEST = 128 };

static la_status no_memory(void) { return la_fail(LA_NOMEM, "no memory for a measurement"); }

/* What bench reads of the options that the first problem's run of a variant has: of the model, and
 * of what else a training step's time and memory depend on.  Two variants with the same of all that
 * share their records. */
typedef struct setting {
    const char **model, **training; /* "--n-layer=2"; NULL at their ends                       */
    const char  *attn;
    int          bidirectional;
    int64_t      block;
    const char  *key, *gradients_key; /* hashes of attention, model and training; of what gradcheck
                                         is given: attention and direction                     */
} setting;

static bool is_of_model(int option) { /* the length is ours, and tokens are drawn: no tokenizer */
    return la_options[option].binding == LA_BIND_MODEL && option != LA_OPT_attn &&
           option != LA_OPT_block_size && option != LA_OPT_tokenizer;
}

static bool is_of_training(int option) { /* the batch is ours */
    return option == LA_OPT_dropout || option == LA_OPT_optim || option == LA_OPT_recompute;
}

/* Those of bench's options that were given and are `wanted`, with their values; to n more. */
static la_status take_options(la_comparison *k, const la_config *c, bool (*wanted)(int option),
                              const char **to, int n, uint64_t *hash) {
    char number[LA_NUMBER_TEXT];
    for (int i = 0; i < LA_N_OPTIONS; i++) {
        const la_option *o = la_options + i;
        if (!(o->tools & LA_TOOL_BENCH) || !(o->tools & LA_TOOL_TRAIN) || !wanted(i) ||
            !la_config_given(c, i))
            continue;
        to[n] = la_arena_printf(&k->arena, "--%s=%s", o->name, la_config_value(c, i, number));
        if (!to[n]) return no_memory();
        *hash = la_hash64(*hash, to[n], strlen(to[n]) + 1);
        n++;
    }
    return LA_OK;
}

/* NULL: stopped before there were any. */
static const la_config *config_of(const la_comparison *k, int variant) {
    for (int i = 0; i < k->n_runs; i++)
        if (k->run[i].problem == 0 && k->run[i].variant == variant) return &k->run[i].config;
    return NULL;
}

static la_status setting_of(la_comparison *k, const la_config *c, setting *m) {
    const size_t room = (LA_N_OPTIONS + 2) * sizeof *m->model; /* --vocab, NULL */
    m->model = la_arena_alloc(&k->arena, room);
    m->training = la_arena_alloc(&k->arena, room);
    if (!m->model || !m->training) return no_memory();
    memset(m->model, 0, room);
    memset(m->training, 0, room);
    m->attn = c->attn;
    m->bidirectional = strcmp(c->objective, "causal") != 0;
    m->block = c->block_size;
    uint64_t hash = la_hash64(LA_HASH64_START, c->attn, strlen(c->attn) + 1);
    m->gradients_key = la_arena_printf(&k->arena, "%s%016llx", m->bidirectional ? "both-" : "",
                                       (unsigned long long)hash);
    m->model[0] = la_arena_printf(&k->arena, "--vocab=%lld", (long long)k->problem[0].vocab);
    if (!m->model[0] || !m->gradients_key) return no_memory();
    hash = la_hash64(hash, m->model[0], strlen(m->model[0]) + 1);
    LA_TRY(take_options(k, c, is_of_model, m->model, 1, &hash));
    LA_TRY(take_options(k, c, is_of_training, m->training, 0, &hash));
    m->key = la_arena_printf(&k->arena, "%016llx", (unsigned long long)hash);
    return m->key ? LA_OK : no_memory();
}

/* Each appends to rows; a note is for the reader of the rows, or "". */
static la_status lengths(const la_comparison *k, const la_measure *m, json_t *rows,
                         char note[LA_MEASURE_NOTE]) {
    *note = 0;
    return la_measure_length(m, SHORTEST, k->c->longest, rows);
}

static la_status decode(const la_comparison *k, const la_measure *m, json_t *rows,
                        char note[LA_MEASURE_NOTE]) {
    static const int64_t at[] = {16, 64, 256, 1024, 4096, 16384};
    int                  n = 0;
    *note = 0;
    while (n < (int)(sizeof at / sizeof *at) && at[n] <= k->c->longest) n++;
    return m->bidirectional || !n ? LA_OK : la_measure_decode(m, at, n, rows, note);
}

static la_status gradients(const la_comparison *k, const la_measure *m, json_t *rows,
                           char note[LA_MEASURE_NOTE]) {
    (void)k;
    *note = 0;
    return la_measure_gradcheck(m, rows);
}

static const struct part {
    const char *name, *what;
    la_status (*measure)(const la_comparison *k, const la_measure *m, json_t *rows, char *note);
} parts[] = {{"length", "time and memory by length", lengths},
             {"decode", "generation", decode},
             {"gradcheck", "gradients", gradients}};
enum { DECODE = 1, GRADIENTS = 2 };
_Static_assert(sizeof parts / sizeof *parts == LA_MACHINE_PARTS, "measured.h");

/* Times are of a length and a number of threads, gradients of none. */
static la_status record_name(la_comparison *k, int part, const setting *m, const char **name) {
    *name = part == GRADIENTS
                ? la_arena_printf(&k->arena, "%s-%s", parts[part].name, m->gradients_key)
                : la_arena_printf(&k->arena, "%s-%lld-t%d-%s", parts[part].name,
                                  (long long)k->c->longest, la_threads(), m->key);
    return *name ? LA_OK : no_memory();
}

/* bench counts as state the room that it made, for the tokens it times too; here stands what the
 * tokens before a position leave. */
static la_status set_states(const la_comparison *k, const la_config *c, const json_t *rows) {
    la_lm_cfg     cfg;
    la_lm        *lm;
    size_t        i;
    const json_t *row;
    LA_TRY(la_model_cfg(c, k->problem[0].vocab, &cfg));
    LA_TRY(la_lm_create(&lm, &cfg, 0, 0));
    json_array_foreach(rows, i, row) {
        int64_t position = json_integer_value(json_object_get(row, "position"));
        if (json_is_number(json_object_get(row, "state_bytes")))
            json_object_set_new(
                json_array_get(rows, i), "state_bytes",
                json_integer((json_int_t)(la_lm_state_len(lm, 1, position) * sizeof(la_real))));
    }
    la_lm_destroy(lm);
    return LA_OK;
}

/* The record of a part: {"rows": [...], "note": "..."}. */
la_status la_measure_part(la_comparison *k, int part, int variant) {
    const la_config *c = config_of(k, variant);
    setting          m;
    const char      *name;
    json_t          *record;
    char             note[LA_MEASURE_NOTE];
    if (!c) return LA_OK;
    LA_TRY(setting_of(k, c, &m));
    LA_TRY(record_name(k, part, &m, &name));
    LA_TRY(la_record_load(k, name, &record));
    if (record) {
        json_decref(record);
        return LA_OK;
    }
    la_measure what = {.attn = m.attn,
                       .options = m.model,
                       .training = m.training,
                       .block = m.block,
                       .threads = la_threads(),
                       .bidirectional = m.bidirectional};
    json_t    *rows = json_array();
    la_screen_step(k, parts[part].what, k->variant[variant].name);
    la_status s = rows ? parts[part].measure(k, &what, rows, note) : no_memory();
    if (s == LA_OK && part == DECODE) s = set_states(k, c, rows);
    if (s == LA_OK)
        return la_record_save(k, name, json_pack("{s:o,s:s}", "rows", rows, "note", note));
    json_decref(rows);
    return s == LA_STATE || s == LA_NOMEM
               ? s
               : la_fail(s, "%s: %s", k->variant[variant].name, la_error());
}

enum { LENGTHS = 32 };
typedef struct lengths_of {
    int    n;
    double length[LENGTHS], ms[LENGTHS], bytes[LENGTHS]; /* NAN: refused */
} lengths_of;

static lengths_of read_lengths(const json_t *rows, const char *variant) {
    lengths_of    l = {0};
    size_t        i;
    const json_t *row;
    json_array_foreach(rows, i, row) {
        if (l.n == LENGTHS || strcmp(json_string_value(json_object_get(row, "variant")), variant))
            continue;
        l.length[l.n] = la_number_of(json_object_get(row, "length"));
        l.ms[l.n] = la_number_of(json_object_get(row, "ms_per_step"));
        l.bytes[l.n++] = la_number_of(json_object_get(row, "peak_bytes"));
    }
    return l;
}

/* Slopes are fitted where the text is what costs: from 1,024 tokens on, or from where three lengths
 * are left, of those that were not refused. */
static void put_slope(json_t *list, const char *variant, const char *what, const lengths_of *l,
                      const double *y) {
    double length[LENGTHS], value[LENGTHS];
    int    n = 0, from = 0;
    for (int i = 0; i < l->n; i++) {
        if (!(isfinite(y[i]) && y[i] > 0)) continue;
        length[n] = l->length[i];
        value[n++] = y[i];
    }
    if (n < 2) return;
    while (from < n - 3 && length[from] < 1024) from++;
    la_slope s = la_slope_of(n - from, length + from, value + from);
    json_array_append_new(list, json_pack("{s:s,s:s,s:I,s:I,s:I,s:o,s:o}", "variant", variant,
                                          "what", what, "from", (json_int_t)length[from], "to",
                                          (json_int_t)length[n - 1], "n", (json_int_t)s.n, "slope",
                                          la_number_or_null(s.slope), "error",
                                          la_number_or_null(s.error)));
}

static bool has_name(const json_t *list, const json_t *row) {
    size_t        i;
    const json_t *other;
    json_array_foreach(list, i, other) {
        if (json_equal(json_object_get(other, "name"), json_object_get(row, "name"))) return true;
    }
    return false;
}

static void put_rows(const la_comparison *k, int part, int variant, const json_t *record,
                     json_t *results) {
    json_t     *speed = json_object_get(results, "speed"), *rows = json_object_get(record, "rows");
    const char *note = json_string_value(json_object_get(record, "note"));
    json_t     *whose = json_pack("{s:s}", "variant", k->variant[variant].name);
    size_t      i;
    const json_t *row;
    if (part != GRADIENTS)
        la_append_rows(json_object_get(speed, parts[part].name), rows, whose);
    else { /* of an attention, however many variants have it */
        json_t *list = json_object_get(results, "gradcheck");
        json_array_foreach(rows, i, row) {
            if (!has_name(list, row)) json_array_append(list, json_array_get(rows, i));
        }
    }
    if (note && *note)
        json_array_append_new(json_object_get(speed, "notes"),
                              json_pack("{s:s,s:s,s:s}", "variant", k->variant[variant].name,
                                        "what", parts[part].name, "text", note));
    json_decref(whose);
}

la_status la_put_machine(la_comparison *k, int variant, json_t *results) {
    const la_config *c = config_of(k, variant);
    setting          m;
    if (!c) return LA_OK;
    LA_TRY(setting_of(k, c, &m));
    for (int part = 0; part < LA_MACHINE_PARTS; part++) {
        const char *name;
        json_t     *record;
        LA_TRY(record_name(k, part, &m, &name));
        LA_TRY(la_record_load(k, name, &record));
        put_rows(k, part, variant, record, results);
        json_decref(record);
    }
    return LA_OK;
}

void la_put_slopes(const la_comparison *k, json_t *speed) {
    const json_t *rows = json_object_get(speed, "length");
    json_t       *slopes = json_object_get(speed, "slopes"),
           *crossover = json_object_get(speed, "crossover");
    lengths_of first = read_lengths(rows, k->variant[0].name);
    for (int v = 0; v < k->n_variants; v++) {
        const char *name = k->variant[v].name;
        lengths_of  l = read_lengths(rows, name);
        put_slope(slopes, name, "time", &l, l.ms);
        put_slope(slopes, name, "memory", &l, l.bytes);
        if (v && l.n && l.n == first.n)
            json_array_append_new(
                crossover,
                json_pack("{s:s,s:o}", "variant", name, "length",
                          la_number_or_null(la_crossing(l.n, l.length, l.ms, first.ms))));
    }
}
