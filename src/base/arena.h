/* arena.h - memory of one request, parse or pass, freed at once */
#pragma once
#include "base/str.h"
#include <stddef.h>

struct arena {
    struct arena_block *head;
    size_t total_bytes;
};

void *arena_alloc(struct arena *a, size_t n); /* zeroed, 16-aligned, never NULL */
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void arena_reset(struct arena *a); /* keeps one block */
void arena_done(struct arena *a);
