/* save_file.h -- bytes on a disk that a kill, a crash or a full disk cannot leave half written.
 *
 * A file is a block of LA_BLOCK bytes and then an image (here an HDF5 file, which may begin at byte
 * 512: HDF5 calls what stands before a user block).  All numbers are little-endian:
 *
 *      0   8 bytes   magic, made like PNG's: a high bit, a name, line ends that copying changes
 *
 *      8   uint64    format
 *
 *     16   uint64    bytes of the image
 *
 *     24   uint64    data/hash.h over the block (with 0 in this place) and the image
 *
 *     32             zeros
 *
 * The hash guards against damage, not against a person: whoever edits a file can compute it again.
 * What comes of that is confined.h's.
 */
#ifndef LA_SAVE_FILE_H
#define LA_SAVE_FILE_H
#include "tensor/status.h"
#include <stddef.h>
#include <stdint.h>

enum { LA_BLOCK = 512, LA_FILE_FORMAT = 1 };

/* Completes the block in bytes[0..LA_BLOCK), of n >= LA_BLOCK in all. */
void la_file_seal(unsigned char *bytes, size_t n);

/* Does so and puts all n bytes in the place of the file at path.
 * LA_IO: that failed; what was at path before is still there, and no temporary file is. */
la_status la_file_save(const char *path, unsigned char *bytes, size_t n);

/* The same for bytes of any kind, as they are: no block, no hash. */
la_status la_file_put(const char *path, const unsigned char *bytes, size_t n);

/* Reads a file of la_file_save() and verifies its hash; *n counts the block and not what somebody
 * appended.  free() the bytes.  LA_FORMAT: not such a file, damaged, of another format.  LA_IO:
 * cannot be read.  LA_NOMEM.  *bytes is NULL after a failure. */
la_status la_file_load(unsigned char **bytes, size_t *n, const char *path);

/* Reads any regular file, unchecked.  LA_FORMAT: empty or too large. */
la_status la_file_read(unsigned char **bytes, size_t *n, const char *path);

/* open() again after a signal; new files get 0666.  -1 with errno. */
int la_open(const char *path, int flags);

/* All n bytes at `at` of a regular file.  0, or the error number. */
int la_write_at(int fd, const void *bytes, size_t n, int64_t at);

int la_file_is_ours(const char *path); /* begins with our magic */
/* Of this format, and cut or altered; an unknown or later format, or no file, is not damaged. */
int la_file_is_damaged(const char *path);
#endif
