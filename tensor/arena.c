/* arena.c -- blocks in a list, the newest first; a request goes into the newest block or
 * into a new one that is at least as large as the request. */
#include "tensor/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCK = 64 * 1024, HUGE_PAGE = 2 << 20 };

struct la_arena_block {
    la_arena_block *before;
    size_t          used, size;
};

static size_t round_up(size_t bytes) { return (bytes + LA_ALIGN - 1) / LA_ALIGN * LA_ALIGN; }

void *la_alloc_aligned(size_t bytes) {
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = round_up(bytes ? bytes : 1);
    const size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : LA_ALIGN;
    void        *p = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (!p) return NULL;
#ifdef MADV_HUGEPAGE
    /* Rows of a head are far apart: with small pages each costs a walk through the page table. */
    if (align == HUGE_PAGE) madvise(p, bytes / align * align, MADV_HUGEPAGE);
#endif
    memset(p, 0, bytes);
    return p;
}

void *la_reserve(size_t bytes) {
    void *p = mmap(NULL, bytes ? bytes : 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void la_unreserve(void *p, size_t bytes) {
    if (p) munmap(p, bytes ? bytes : 1);
}

void *la_arena_alloc(la_arena *a, size_t bytes) {
    const size_t head = round_up(sizeof(la_arena_block));
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = round_up(bytes ? bytes : 1);
    if (!a->last || a->last->size - a->last->used < bytes) {
        size_t          size = bytes > BLOCK ? bytes : BLOCK;
        la_arena_block *b = la_alloc_aligned(head + size);
        if (!b) return NULL;
        *b = (la_arena_block){.before = a->last, .size = size};
        a->last = b;
    }
    char *p = (char *)a->last + head + a->last->used;
    a->last->used += bytes;
    return p;
}

char *la_arena_printf(la_arena *a, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *s = n < 0 ? NULL : la_arena_alloc(a, (size_t)n + 1);
    if (!s) return NULL;
    va_start(ap, fmt);
    vsnprintf(s, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return s;
}

size_t la_arena_bytes(const la_arena *a) {
    size_t bytes = 0;
    for (const la_arena_block *b = a->last; b; b = b->before)
        bytes += round_up(sizeof *b) + b->size;
    return bytes;
}

void la_arena_free(la_arena *a) {
    while (a->last) {
        la_arena_block *before = a->last->before;
        free(a->last);
        a->last = before;
    }
}
