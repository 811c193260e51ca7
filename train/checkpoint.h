/* checkpoint.h -- HDF5 files that resume a run exactly, and open elsewhere (h5py, h5dump).
 *
 *   /
 *       attributes: format = 1, program, precision (32 or 64), config (the option text), step,
 *       updates, best_val, best_step, corpus_hash, corpus_size
 *
 *   /params/<name>
 *       one dataset a parameter, GPT-2's name and shape; /params/lm_head.weight is a hard link to
 *       /params/transformer.wte.weight
 *
 *   /optim/<slot>/<name>
 *       the optimiser's arrays, if there are any
 *
 *   /tokenizer
 *       attribute kind; dataset codepoints (uint32) for "char"
 *
 * A 512-byte user block in front holds magic, format and the hash of the image.  The image is built
 * in memory; a temporary in the same folder is written, synced and renamed, so neither a kill nor a
 * full disk leaves half a file.  HDF5 converts between float and double on reading. */
#ifndef LA_CHECKPOINT_H
#define LA_CHECKPOINT_H
#include "data/tokenizer.h"
#include "layers/layers.h"
#include "optim/optim.h"

typedef struct la_checkpoint la_checkpoint; /* an open one */

typedef struct la_record { /* what a run is, besides its arrays                              */
    const char *config;    /* lines `key = value`, as of options.def                         */
    int64_t     step;      /* training steps done; with the seed this is also the data position */
    int64_t     updates;   /* of the optimiser: la_optim.t                                   */
    double      best_val;  /* lowest validation loss so far; HUGE_VAL: none                  */
    int64_t     best_step;
    uint64_t    corpus_hash;
    int64_t     corpus_size; /* bytes */
} la_record;

/* Bytes of memory that saving takes for a while, with so many arrays of the optimiser. */
size_t    la_checkpoint_saving_bytes(const la_params *p, int slots);
/* optim NULL: weights only.  LA_IO, and the previous file at path intact, if anything fails. */
la_status la_checkpoint_save(const char *path, const la_record *r, const la_params *p,
                             const la_optim *o, const la_tokenizer *k);

/* Reads the whole file and verifies its hash.  That shows that the file is whole, and not who made
 * it: HDF5 sees it in a process of its own, with limits on memory and time (confined.h).  That is
 * over when this returns, and what the process says is checked before anything is made of it.
 * LA_FORMAT: not a checkpoint, damaged, of a later format, or the process did not survive it;
 * LA_IO: cannot be read; LA_NOMEM. */
la_status        la_checkpoint_open(la_checkpoint **c, const char *path);
void             la_checkpoint_close(la_checkpoint *c); /* NULL is fine */
/* What it holds of memory until it is closed, at least; 0 of NULL. */
size_t           la_checkpoint_bytes(const la_checkpoint *c);
const la_record *la_checkpoint_record(const la_checkpoint *c);
la_status        la_checkpoint_tokenizer(const la_checkpoint *c, la_tokenizer **k);
/* Each parameter must be there in its shape, finite, and no other parameter; LA_FORMAT names the
 * first that is not.  Nothing is changed on failure. */
la_status        la_checkpoint_params(const la_checkpoint *c, la_params *p);
la_status        la_checkpoint_optim(const la_checkpoint *c,
                                     la_optim *o); /* LA_FORMAT: none there, or another optimiser */

/* Weights from an HDF5 file made elsewhere, without a hash: datasets by the parameters' names at
 * the root or in /params, float or double; further datasets are ignored.  Such a file is read as a
 * checkpoint is, in a confined process.  Fails as above. */
la_status la_weights_import(const char *path, la_params *p);
/* 1: the file has our user block; 0: it has not (or cannot be read). */
int       la_checkpoint_is_ours(const char *path);
#endif
