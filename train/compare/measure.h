/* measure.h -- what the programs bench and gradcheck say of a variant, as rows of
 * results.schema.json.  Each measurement is a process of its own: its memory is its own, and what
 * does not fit ends it alone.
 *
 * A length or position that the machine or the variant cannot do is a row whose `refused` says why,
 * with null for its numbers: the program ended with 6 (would not fit in memory) or was killed
 * (signal 9, as the system does where memory ends), or it ended with 2 and does not so at a length
 * that the options go with.  Options that it refuses there too are LA_ARG with its sentence, any
 * other end is LA_IO.  LA_STATE: stopped by a signal. */
#ifndef LA_MEASURE_H
#define LA_MEASURE_H
#include <jansson.h>
#include <stdint.h>

#include "tensor/status.h"

typedef struct la_measure {
    const char        *attn;     /* as after --attn=                                          */
    const char *const *options;  /* of the model, as bench reads them: "--n-layer=2"; NULL at its
                                    end. Ours come after them and win                         */
    const char *const *training; /* more, for training steps alone: "--recompute"; or NULL    */
    int64_t            block;    /* tokens of a window that all go with; 0: the shortest      */
    int                threads;  /* 0: as this process                                        */
    int bidirectional;           /* of --objective=mlm, for the gradient; the speed is as options
                                    say                                                       */
} la_measure;

/* A training step of one window of n = shortest, 2 shortest, ... up to `longest` tokens; appends a
 * row for each: length, refused, ms_per_step, tokens_per_s, peak_bytes, repeats.  From 4,096 tokens
 * on it is repeated 3 times, from 16,384 on 2, from 32,768 on once: a step of softmax takes a
 * minute there. */
la_status la_measure_length(const la_measure *m, int64_t shortest, int64_t longest, json_t *rows);

/* A token of generation after each of `positions` (increasing, n of them); appends rows: position,
 * refused, ms_per_token, tokens_per_s, state_bytes.
 *
 * Learned positions end at --block-size, so --pos none is used where the options do not say
 * --pos=rope; and --block-size is raised where the attention itself ends there.  note says so: a
 * sentence for the reader of the table. */
enum { LA_MEASURE_NOTE = 320 };
la_status la_measure_decode(const la_measure *m, const int64_t *positions, int n, json_t *rows,
                            char note[LA_MEASURE_NOTE]);

/* The gradients of each variant in the pattern, once each; appends rows: name, cases, worst, pass.
 * A gradient that is wrong is a row, and no failure. */
la_status la_measure_gradcheck(const la_measure *m, json_t *rows);
#endif
