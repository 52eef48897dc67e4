/* gpu_set.h - which devices of a node: a set of device indices */
#pragma once
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The most devices of one node.  Indices that are handed in must be below it. */
enum { GPU_SET_MAX = 1024, GPU_SET_WORDS = GPU_SET_MAX / 64 };
struct gpu_set {
    uint64_t w[GPU_SET_WORDS];
};

/* A zeroed struct is the empty set. */
static inline void gpu_set_add(struct gpu_set *s, uint32_t i)
{
    s->w[i / 64] |= UINT64_C(1) << (i % 64);
}
static inline void gpu_set_del(struct gpu_set *s, uint32_t i)
{
    s->w[i / 64] &= ~(UINT64_C(1) << (i % 64));
}
static inline bool gpu_set_has(const struct gpu_set *s, uint32_t i)
{
    return s->w[i / 64] >> (i % 64) & 1;
}
static inline int32_t gpu_set_count(const struct gpu_set *s)
{
    int32_t n = 0;

    for (int i = 0; i < GPU_SET_WORDS; i++)
        n += __builtin_popcountll(s->w[i]);
    return n;
}
static inline bool gpu_set_empty(const struct gpu_set *s)
{
    for (int i = 0; i < GPU_SET_WORDS; i++)
        if (s->w[i])
            return false;
    return true;
}
static inline bool gpu_set_equal(const struct gpu_set *a, const struct gpu_set *b)
{
    return !memcmp(a, b, sizeof(*a));
}
/* Do the two sets have a device in common? */
static inline bool gpu_set_overlap(const struct gpu_set *a, const struct gpu_set *b)
{
    for (int i = 0; i < GPU_SET_WORDS; i++)
        if (a->w[i] & b->w[i])
            return true;
    return false;
}
/* Adds all members of `more`; gpu_set_subtract takes all members of `less` out. */
static inline void gpu_set_join(struct gpu_set *s, const struct gpu_set *more)
{
    for (int i = 0; i < GPU_SET_WORDS; i++)
        s->w[i] |= more->w[i];
}
static inline void gpu_set_subtract(struct gpu_set *s, const struct gpu_set *less)
{
    for (int i = 0; i < GPU_SET_WORDS; i++)
        s->w[i] &= ~less->w[i];
}
/* The first member that is not below `from`, or -1. */
static inline int32_t gpu_set_next(const struct gpu_set *s, uint32_t from)
{
    for (uint32_t i = from / 64; i < GPU_SET_WORDS; i++) {
        uint64_t w = i == from / 64 ? s->w[i] & (~UINT64_C(0) << (from % 64)) : s->w[i];
        if (w)
            return (int32_t)(i * 64 + (uint32_t)__builtin_ctzll(w));
    }
    return -1;
}
/* The next member after i, or -1. */
static inline int32_t gpu_set_after(const struct gpu_set *s, int32_t i)
{
    return i + 1 < GPU_SET_MAX ? gpu_set_next(s, (uint32_t)i + 1) : -1;
}

/* "0-3,7"; "" is the empty set. */
struct buf;
void gpu_set_format(const struct gpu_set *s, struct buf *out);
/* Accepts any order and repeats.  False: the text is no such list, and *out is unchanged. */
bool gpu_set_parse(struct str text, struct gpu_set *out);
/* The lowest `count` members of it, or as many as there are. */
struct gpu_set gpu_set_lowest(const struct gpu_set *s, int32_t count);
/* What a bit mask of up to 64 devices says, as older stores have it. */
static inline struct gpu_set gpu_set_of_mask(uint64_t mask)
{
    return (struct gpu_set){{mask}};
}
