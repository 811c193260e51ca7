/* machine.c -- what is measured on the machine: time, memory and gradients of each variant. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/hash.h"
#include "train/compare/compare.h"
#include "train/compare/measure.h"
#include "train/compare/measured.h"
#include "train/config_impl.h"
#include "train/statistics.h"

enum { SHORTEST = 128 };

static la_status no_memory(void) { return la_fail(LA_NOMEM, "no memory for a measurement"); }

/* Options of the model that bench reads, as the first problem's run of the variant has them. */
typedef struct setting {
    const char **options;
    const char  *attn, *key; /* of the options and the build */
    int          bidirectional;
} setting;

static la_status setting_of(la_comparison *k, int variant, setting *m) {
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

static const struct part {
    const char *name, *what;
    la_status (*measure)(const la_comparison *k, const la_measure *m, json_t *rows);
} parts[] = {{"length", "time and memory by length", lengths},
             {"decode", "generation", decode},
             {"gradcheck", "gradients", gradients}};
_Static_assert(sizeof parts / sizeof *parts == LA_MACHINE_PARTS, "measured.h");

const char *la_part_name(int part) { return parts[part].what; }

static la_status record_name(la_comparison *k, int part, const setting *m, const char **name) {
    *name = part < 2 ? la_arena_printf(&k->arena, "%s-%lld-%s", parts[part].name, (long long)k->c->longest, m->key)
                     : la_arena_printf(&k->arena, "%s-%s", parts[part].name, m->key);
    return *name ? LA_OK : no_memory();
}

la_status la_measure_part(la_comparison *k, int part, int variant) {
    setting m;
    const char *name;
    json_t     *rows;
    LA_TRY(setting_of(k, variant, &m));
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

static double number(const json_t *row, const char *key) {
    const json_t *x = json_object_get(row, key);
    return json_is_number(x) ? json_number_value(x) : NAN;
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
        if (l.n == LENGTHS || strcmp(json_string_value(json_object_get(row, "variant")), variant)) continue;
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

la_status la_put_machine(la_comparison *k, int variant, json_t *results) {
    json_t *speed = json_object_get(results, "speed");
    json_t *into[LA_MACHINE_PARTS] = {json_object_get(speed, "length"), json_object_get(speed, "decode"),
                                      json_object_get(results, "gradcheck")};
    setting m;
    LA_TRY(setting_of(k, variant, &m));
    json_t *whose = json_pack("{s:s}", "variant", k->variant[variant].name), *nobody = json_object();
    for (int part = 0; part < LA_MACHINE_PARTS; part++) {
        const char *name;
        json_t     *rows = NULL;
        la_status   s = record_name(k, part, &m, &name);
        if (s == LA_OK) s = la_record_load(k, name, &rows);
        la_append_rows(into[part], rows, part < 2 ? whose : nobody);
        json_decref(rows);
        if (s != LA_OK) return s;
    }
    json_decref(whose);
    json_decref(nobody);
    return LA_OK;
}

void la_put_slopes(const la_comparison *k, json_t *speed) {
    const json_t *rows = json_object_get(speed, "length");
    json_t       *slopes = json_object_get(speed, "slopes"), *crossover = json_object_get(speed, "crossover");
    lengths_of    first = read_lengths(rows, k->variant[0].name);
    for (int v = 0; v < k->n_variants; v++) {
        const char *name = k->variant[v].name;
        lengths_of  l = read_lengths(rows, name);
        put_slope(slopes, name, "time", &l, l.ms);
        put_slope(slopes, name, "memory", &l, l.bytes);
        if (v && l.n && l.n == first.n)
            json_array_append_new(crossover,
                                  json_pack("{s:s,s:o}", "variant", name, "length",
                                            finite_number(la_crossing(l.n, l.length, l.ms, first.ms))));
    }
}
