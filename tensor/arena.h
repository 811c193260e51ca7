/* arena.h -- many small allocations that are freed together.
 *
 * Memory comes in blocks that never move, so pointers stay valid until the arena is
 * destroyed.  Everything handed out is zeroed and aligned to LA_ALIGN bytes. */
#ifndef LA_ARENA_H
#define LA_ARENA_H
#include <stddef.h>

enum { LA_ALIGN = 64 }; /* bytes: a cache line, and the widest vector we compute with */

typedef struct la_arena_block la_arena_block;
typedef struct la_arena {
    la_arena_block *last;
} la_arena; /* {0} is an empty arena */

void  *la_arena_alloc(la_arena *a, size_t bytes); /* NULL when out of memory         */
char  *la_arena_printf(la_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
size_t la_arena_bytes(const la_arena *a); /* in memory */
void   la_arena_free(la_arena *a);        /* everything; the arena is empty and usable again */

/* One large zeroed block, LA_ALIGN aligned; NULL when out of memory.  Free it with free(). */
void *la_alloc_aligned(size_t bytes);

/* Addresses without memory, for what is only planned: whoever reads or writes there crashes.  NULL:
 * there are not so many.  Give them back with la_unreserve(). */
void *la_reserve(size_t bytes);
void  la_unreserve(void *p, size_t bytes); /* NULL is fine */
#endif
