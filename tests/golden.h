/* golden.h -- values from PyTorch, in files of words separated by white space; the script in
 * golden/ that writes a file says what it holds.
 *
 *   variant NAME WORD 0|1     what follows is about it
 *   tensor NAME n             then n numbers
 *   end                       the file is whole */
#ifndef LA_TESTS_GOLDEN_H
#define LA_TESTS_GOLDEN_H
#include "testing.h"

enum { GOLDEN_TENSORS = 80, GOLDEN_MODELS = 80 };

typedef struct golden {
    char    name[80];
    int64_t n;
    double *x;
} golden;

typedef struct golden_model {
    char   variant[80], word[20];
    int    flag, n;
    golden tensors[GOLDEN_TENSORS];
} golden_model;

static const char  *golden_file; /* "tiny.txt" */
static golden_model models[GOLDEN_MODELS];
static int          n_models, whole_file;

static inline void read_golden(const char *file) {
    char path[300], word[80];
    snprintf(path, sizeof path, LA_SOURCE_DIR "/tests/golden/%s", golden_file = file);
    FILE *f = fopen(path, "r");
    while (f && fscanf(f, "%79s", word) == 1) {
        golden_model *m = models + n_models - 1;
        if (!strcmp(word, "variant") && n_models < GOLDEN_MODELS) {
            m = models + n_models++;
            if (fscanf(f, "%79s %19s %d", m->variant, m->word, &m->flag) != 3) break;
        } else if (!strcmp(word, "tensor") && n_models && m->n < GOLDEN_TENSORS) {
            golden *g = m->tensors + m->n++;
            if (fscanf(f, "%79s %lld", g->name, (long long *)&g->n) != 2 || g->n < 1 ||
                g->n > 100000)
                break;
            g->x = calloc((size_t)g->n, sizeof *g->x);
            for (int64_t i = 0; i < g->n; i++)
                if (fscanf(f, "%lf", g->x + i) != 1) return;
        } else {
            whole_file = !strcmp(word, "end");
            break;
        }
    }
    if (f) fclose(f);
}

static inline const golden *find(const golden_model *m, const char *name) {
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->tensors[i].name, name)) return m->tensors + i;
    return NULL;
}

static inline double golden_top(const golden *g) {
    double top = 0;
    for (int64_t i = 0; i < g->n; i++) top = fmax(top, fabs(g->x[i]));
    return top;
}

/* top 0: relative to the largest of the tensor itself */
static inline void compare(const golden_model *m, const char *name, int64_t n, const double *x,
                           double top, double tolerance) {
    const golden *g = find(m, name);
    ck_assert_msg(g && g->n == n, "%s %s %d: %s has %lld numbers of %s, and we have %lld",
                  m->variant, m->word, m->flag, golden_file, g ? (long long)g->n : 0, name,
                  (long long)n);
    if (top == 0) top = golden_top(g);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(x[i] - g->x[i]) <= tolerance * top))
            ck_abort_msg("%s %s %d, %s, number %lld: %.12g, PyTorch has %.12g (largest %g)",
                         m->variant, m->word, m->flag, name, (long long)i, x[i], g->x[i], top);
}

static inline void compare_reals(const golden_model *m, const char *name, int64_t n,
                                 const la_real *x, double top, double tolerance) {
    double *wide = calloc((size_t)n, sizeof *wide);
    for (int64_t i = 0; i < n; i++) wide[i] = (double)x[i];
    compare(m, name, n, wide, top, tolerance);
    free(wide);
}
#endif
