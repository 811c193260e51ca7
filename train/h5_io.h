/* h5_io.h -- HDF5 files in memory: attributes, put in and taken out, and a model's arrays, put in.
 *
 * Private to train/: checkpoint.c and show.c write with it, decode.c reads, in a process of its
 * own. Nothing here touches the disk. */
#ifndef LA_H5_IO_H
#define LA_H5_IO_H
#include "train/checkpoint.h"
#include <hdf5.h>

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

/* The type of la_real in memory. */
hid_t la_h5_real(void);

/* --- reading --- */

/* Is there a link of this name, and not one that leads elsewhere (soft, external)? */
int la_h5_has(hid_t group, const char *name);

/* The numbers of a record, as attributes of /; its config is apart from them.  Reading gives the
 * name of the first that is missing or cannot be read, NULL if there is none. */
int         la_h5_put_record(hid_t file, const la_record *r);
const char *la_h5_get_record(hid_t file, la_record *r);
#endif
