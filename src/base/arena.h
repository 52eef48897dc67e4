/* arena.h - memory of one request, parse or pass, freed at once */
#pragma once
#include "base/str.h"
#include <stddef.h>

/* A zeroed struct is an empty arena.  An arena has no lock: one thread uses it at a time.
 * Pointers from an arena stay valid until arena_reset or arena_done; nothing is freed one by
 * one. */
struct arena {
    struct arena_block *head;
    /* The capacity of all blocks, without their headers. */
    size_t total_bytes;
};

/* Zeroed memory, aligned to 16 bytes.  The result is never NULL, also for n = 0: exhausted
 * memory ends the process. */
void *arena_alloc(struct arena *a, size_t n);
/* NULL in, NULL out. */
char *arena_strdup(struct arena *a, const char *s);
/* Copies at most n bytes and stops at the first NUL.  s may be NULL: the copy is then "". */
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Frees every block but the newest, which the next allocations use.  All pointers become
 * invalid. */
void arena_reset(struct arena *a);
/* Frees all blocks.  The arena is empty and can be used again. */
void arena_done(struct arena *a);
