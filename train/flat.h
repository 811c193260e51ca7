/* flat.h -- what a confined process says about an HDF5 file, and as much of it as holds.
 *
 * The process (decode.c) leaves in its room a head, then texts and numbers, and from the end
 * downwards a line for each array: name, shape and where its numbers stand.  That is in the file
 * itself wherever they stand there as we keep them, so that a large model is not copied; else,
 * after a conversion, in the room.  The file may have written all of it, so every place, count and
 * name is checked here against the memory there is and against the model. */
#ifndef LA_FLAT_H
#define LA_FLAT_H
#include "tensor/words.h"
#include "train/checkpoint.h"
#include "train/confined.h"

#define LA_EMBEDDING                                                                               \
    "transformer.wte.weight"     /* the table of both ends of the model: GPT-2 ties them */
#define LA_HEAD "lm_head.weight" /* its other name */

enum { LA_FLAT_RANK = 32, LA_FLAT_WHERE = 400 };
/* Groups of arrays: /params, /optim/<slot>, and the root of a file from elsewhere. */
enum { LA_FLAT_PARAMS, LA_FLAT_SLOT, LA_FLAT_ROOT = LA_FLAT_SLOT + LA_MAX_SLOT };

/* Why an array is not there to take; the later ones leave its shape known. */
#define LA_FLAT_PROBLEM_MAP(X)                                                                     \
    X(LINK, "is a link to another place, which is not followed")                                   \
    X(NO_ARRAY, "is not an array that can be read")                                                \
    X(NO_FLOAT, "does not hold floating-point numbers")                                            \
    X(ELSEWHERE, "keeps its numbers in other files")                                               \
    X(NO_SHAPE, "has no shape")                                                                    \
    X(TOO_LARGE, "claims more numbers than such a file can hold")                                  \
    X(UNREADABLE, "cannot be read: its numbers are damaged or missing")

typedef enum la_flat_problem {
    LA_FLAT_NONE,
#define X(id, text) LA_FLAT_##id,
    LA_FLAT_PROBLEM_MAP(X)
#undef X
} la_flat_problem;

typedef struct la_flat_array {
    char     name[LA_FILE_NAME]; /* as la_file_name() leaves it                           */
    int32_t  group, problem, rank;
    int32_t  in_room; /* its numbers stand in the room, not in the image       */
    uint64_t at;      /* the byte there at which they begin                    */
    uint64_t d[LA_FLAT_RANK];
} la_flat_array;

typedef struct la_flat_head {      /* at byte 0 of the room; places are bytes of it      */
    la_record record;              /* without its config                                 */
    uint64_t  config, kind, optim; /* texts: where they begin, 0: there is none          */
    int64_t   points;              /* code points of the tokenizer in the file           */
    uint64_t  points_at;           /* 0: they cannot be read                             */
    uint64_t  arrays;              /* lines at the end of the room                       */
    uint32_t  groups;              /* bit i: group i is there                            */
} la_flat_head;

/* All but the numbers is copied out of the room before it is looked at: a process that the child
 * started may still see it and change it.  Numbers that are changed then are other weights, and
 * lead nowhere. */
typedef struct la_flat {
    char                 name[LA_FILE_NAME]; /* for sentences                              */
    unsigned char       *image;              /* the whole file                             */
    size_t               n;
    la_flat_head         head;
    char                *config, *kind, *optim; /* NULL: none, or it has no end            */
    uint32_t            *points;
    la_flat_array       *line; /* by group and name, no two alike                          */
    size_t               lines;
    const unsigned char *room;
    size_t               bytes; /* of the room */
    la_confined          confined;
} la_flat;

/* decode, one of decode.h, reads f->image in a confined process; `wanted` is handed on to it. Fails
 * as la_confined_run() and la_flat_take(). */
la_status la_flat_read(la_flat *f, la_confined_fn *decode, const la_params *wanted, size_t room);
/* What a room of so many bytes says, which must outlive *f.  LA_FORMAT: two arrays have one name.
 * LA_NOMEM.  *f needs la_flat_free() in any case. */
la_status la_flat_take(la_flat *f, const void *room, size_t bytes);
void      la_flat_free(la_flat *f); /* the image too */

/* *points is NULL with *n = 0 where none are stored. */
la_status la_flat_points(const la_flat *f, const uint32_t **points, int64_t *n);

/* The numbers of an array, which must be there in shape s, and finite.  where: the subject of the
 * sentences, as in "run/last.h5: /params". */
la_status la_flat_numbers(const la_flat *f, int group, const char *where, const char *name,
                          la_shape s, const la_real **x);
/* All parameters, looked at so; that there are no other arrays; and, after that, copied into x as
 * the flat array of p is laid out. */
la_status la_flat_check(const la_flat *f, int group, const char *where, const la_params *p);
la_status la_flat_no_more(const la_flat *f, int group, const char *where, const la_params *p);
void      la_flat_copy(const la_flat *f, int group, const la_params *p, la_real *x);

int la_flat_has(const la_flat *f, int group, const char *name); /* and it is no link elsewhere */
#endif
