/* h5_io.h -- HDF5 files in memory: attributes and a model's arrays, put in and taken out.
 *
 * Private to train/: shared by checkpoint.c, whose files a hash vouches for, and import.c, whose
 * files nobody vouches for.  Nothing here touches the disk. */
#ifndef LA_H5_IO_H
#define LA_H5_IO_H
#include "autograd/params.h"
#include <hdf5.h>

enum { LA_H5_WHERE = 400 };

#define LA_EMBEDDING                                                                               \
    "transformer.wte.weight"     /* the table of both ends of the model: GPT-2 ties them */
#define LA_HEAD "lm_head.weight" /* its other name */

/* --- files: H5Fclose() ends them; negative on failure --- */

/* Whether there is memory for so many bytes and for what HDF5 itself needs.  To be asked first: it
 * does not survive a want of memory (its stack of errors calls itself without end, or what it could
 * not make is freed).  LA_NOMEM. */
la_status la_h5_memory(size_t bytes);

/* Opens n bytes, read-only and without copying them; they must outlive the file. */
hid_t la_h5_open(void *bytes, size_t n);
/* An empty file that begins at byte `block`, 0 or at least 512; its memory grows by `step` bytes at
 * a time. */
hid_t la_h5_create(size_t block, size_t step);

/* `block` bytes of room and what is written in the file, to free(), and how many bytes that is;
 * NULL: no memory. */
unsigned char *la_h5_image(hid_t file, size_t block, size_t *n);

/* --- attributes of one value: 1, or 0 on failure; writing can fail for want of memory only --- */
int   la_h5_put(hid_t object, const char *name, hid_t type, const void *value);
int   la_h5_put_text(hid_t object, const char *name, const char *text);
int   la_h5_get(hid_t object, const char *name, hid_t type, void *value);
char *la_h5_get_text(hid_t object, const char *name); /* to free(); NULL: it is not there */
/* An attribute of n values. */
int   la_h5_put_list(hid_t object, const char *name, hid_t type, hsize_t n, const void *values);
/* Of an array of char *, UTF-8; H5Tclose() it, negative on failure. */
hid_t la_h5_text_type(void);

/* --- arrays --- */

/* Writes a contiguous dataset of n dimensions d; one for each parameter, from a flat array like
 * p's. */
int la_h5_put_array(hid_t group, const char *name, hid_t type, int n, const hsize_t *d,
                    const void *x);
int la_h5_put_arrays(hid_t group, const la_params *p, const la_real *x);

/* Is there a link of this name, and not one that leads elsewhere (soft, external)? */
int la_h5_has(hid_t group, const char *name);

/* Dataset `name` of the group in shape s, into x: any floating-point type becomes la_real, all must
 * be finite.  where: the subject of the sentences, as in "run/last.h5: /params". */
la_status la_h5_array(hid_t group, const char *where, const char *name, la_shape s, la_real *x);
/* All parameters by their names, into x as the flat array of p is laid out. */
la_status la_h5_arrays(hid_t group, const char *where, const la_params *p, la_real *x);
#endif
