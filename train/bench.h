/* bench.h -- what the program bench measures, a function for each mode, and what they share.
 *
 * Times are of whole passes by the monotonic clock, after a pass that is not counted; medians and
 * minima are over the repeats.  A figure in GFLOP/s is nominal arithmetic by the median time, so
 * that two ways of computing one thing can be compared; what an algorithm computes twice does not
 * count. */
#ifndef LA_BENCH_H
#define LA_BENCH_H
#include "layers/layers.h"
#include "train/config.h"

typedef struct la_bench {
    const la_config *c;
    double           peak; /* GFLOP/s: the most la_bench_peak has seen          */
    int              rows; /* printed so far                                    */
} la_bench;

/* --- modes: each measures the peak before and after, and prints to standard output.  LA_ARG: an
 * option does not fit; LA_NOMEM: more than the machine has free --- */
la_status la_bench_attention(la_bench *b); /* one variant or all, forward and backward     */
la_status la_bench_crossover(la_bench *b); /* from which length they are faster than softmax */
la_status la_bench_decode(la_bench *b);    /* time and state of a token, at several positions */
la_status la_bench_gemm(la_bench *b);      /* matrix products, small to large                  */
la_status la_bench_train(la_bench *b);     /* training steps                                  */

/* --- repeats --- */
enum { LA_BENCH_LEAST = 5, LA_BENCH_MOST = 1000 };
typedef struct la_samples {
    int64_t n;
    double  total, x[LA_BENCH_MOST]; /* seconds */
} la_samples;

/* Whether another one is due: `repeats`, or if that is 0 LA_BENCH_LEAST and until they took
 * `seconds`. */
bool   la_samples_wanted(const la_samples *s, int64_t repeats, double seconds);
void   la_samples_add(la_samples *s, double seconds);
double la_samples_median(la_samples *s); /* seconds */
double la_samples_min(const la_samples *s);

/* --- the machine's peak: (768,512) = (768,512) (512,512), as many products as threads, each on its
 * own.  A quarter of a second, or --repeats; keeps the larger of this and earlier measurements
 * in b->peak --- */
la_status la_bench_peak(la_bench *b);

/* --- nominal arithmetic of a head, in flops; 0 for none --- */
typedef struct la_attn_flops {
    double forward, backward; /* of a text of T tokens                   */
    double token;             /* forward, of the token after T others    */
} la_attn_flops;
la_attn_flops     la_attn_flops_of(const la_attn_cfg *c, int64_t T, int64_t D);
la_attn_flops     la_lm_attention_flops(const la_lm *lm, int64_t T); /* of all layers and heads  */
extern const char la_attn_flops_text[]; /* the rule, for the head of a table */
/* Numbers in the matrix products of a token: all matrices but the table of positions, which is
 * only looked up.  That of tokens counts once, for the logits, without [MASK]. */
double            la_lm_weights(const la_lm *lm);
/* A training step of `rows` windows of T tokens: 6 for each weight and token, 2 forward and 4
 * backward, and attention's.  The logits are of `labels` tokens of a window, as of a task, whose
 * head is computed there only; 0: of every token. */
double            la_lm_step_flops(const la_lm *lm, int64_t rows, int64_t T, int64_t labels);

/* --- one variant on random q, k, v (batch, n, heads, d): the node's own time --- */
typedef struct la_attn_timing {
    la_samples forward, backward;
    size_t     planned, peak; /* bytes: of the tape; growth of what is in memory, 0: unknown */
} la_attn_timing;
/* The one variant that --attn names, and what another is by default; options that depend on the
 * length of the text are left open. */
la_status   la_bench_variant(const la_config *c, la_attn_cfg *out);
la_attn_cfg la_bench_usual(const la_config *c, const la_attn *a);
la_status   la_attn_time(const la_bench *b, const la_attn_cfg *attn, int64_t n, double seconds,
                         la_attn_timing *out);

/* --- output --- */
typedef struct la_cell {
    const char *key;     /* in JSON                                                          */
    const char *heading; /* in the table; NULL: in JSON only                                 */
    const char *text;    /* or, if NULL,                                                     */
    double      number;  /* NAN: not known; left out of JSON, - in the table                 */
    double      unit;    /* the table shows number / unit, with this many digits              */
    int         digits;
} la_cell;

/* One JSON object, or a line of the table, under its headings if it is the first. */
void la_bench_row(la_bench *b, const la_cell *cells, int n);
/* A line of text; nothing with --json or --quiet. */
void la_bench_say(const la_bench *b, const char *fmt, ...) LA_PRINTF(2, 3);
/* Threads and the peak: the end of each head of a table. */
void la_bench_say_peak(const la_bench *b);
/* What is being measured: on a terminal only, gone with the next row. */
void la_bench_progress(const la_bench *b, const char *fmt, ...) LA_PRINTF(2, 3);
/* Uniform in [-1,1), the same for the same seed and stream. */
void la_bench_fill(size_t n, la_real *x, uint64_t seed, uint32_t stream);
#endif
