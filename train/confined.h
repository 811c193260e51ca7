/* confined.h -- a function that reads what somebody else made, in a process of its own.
 *
 * The HDF5 library has known faults with files made to exploit them, and loops for ever on some. So
 * a child process reads such a file: it may use only so much memory and time, has no file of the
 * program and can open none, and hands back bytes through memory that both see.  If it crashes, it
 * crashes alone.  It is a fence against damage and known faults; it does not take from the child
 * what the user may do.
 *
 * Memory is limited where /proc is mounted, which tells what the child has to begin with.  The
 * superuser's child may start processes, and these outlive it and see the room: what must not
 * change between looking at it and using it has to be copied first. */
#ifndef LA_CONFINED_H
#define LA_CONFINED_H
#include "tensor/status.h"
#include <stddef.h>

typedef struct la_confined {
    const char *name;    /* of what is read, for sentences                               */
    size_t      bytes;   /* of the room that both see; only what is written costs memory */
    size_t      memory;  /* bytes that the child may take besides                        */
    int         seconds; /* that it may compute; the process's own limit, if it is lower; it
                          * ends after twenty times as long whatever it does                */
    void       *room;    /* out: all 0 before the child, as it was left after it         */
} la_confined;

typedef la_status la_confined_fn(void *ctx, void *room, size_t bytes);

/* Runs fn(ctx, room, bytes) in a child and waits for it.  Its failure is ours, with its sentence;
 * any but LA_NOMEM becomes LA_FORMAT, as does a child that did not end by itself.  LA_NOMEM: no
 * child, no room, or it was killed before its time, as where the system runs out of memory.  The
 * file may have had the child in its hands, so whatever stands in the room is to be taken for the
 * file's.  room is NULL after a failure; la_confined_free() it. */
la_status la_confined_run(la_confined *c, la_confined_fn *fn, void *ctx);
void      la_confined_free(la_confined *c); /* without a room: nothing */
#endif
