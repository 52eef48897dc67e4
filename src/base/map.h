/* map.h - hash maps: 64-bit key → pointer, and text → pointer (SipHash with a per-process key)
 *
 * Open addressing, power-of-two, deletion without tombstones.  Iteration order is unspecified:
 * code whose result must be deterministic sorts first.
 */
#pragma once
#include "base/str.h"

struct map_u64 {
    uint64_t *keys;
    void **vals; /* NULL = free slot, so NULL cannot be stored */
    size_t n, cap;
};
void *map_u64_get(const struct map_u64 *m, uint64_t key); /* NULL when absent */
/* Replaces the value of a key that exists.  The map never frees values: the caller owns them. */
void map_u64_put(struct map_u64 *m, uint64_t key, void *val);
void *map_u64_del(struct map_u64 *m, uint64_t key); /* the value that was there, or NULL */
void map_u64_done(struct map_u64 *m);
/* Calls `release` with every value, and frees the memory of the map. */
void map_u64_clear(struct map_u64 *m, void (*release)(void *val));
/* for (size_t it = 0; (val = map_u64_each(&m, &it));) visits all values; NULL at the end.  The map
 * must not change meanwhile. */
void *map_u64_each(const struct map_u64 *m, size_t *it);
/* The same with the keys: while (map_u64_next(&m, &it, &key, &val)). */
bool map_u64_next(const struct map_u64 *m, size_t *it, uint64_t *key, void **val);

struct map_str {
    struct map_str_slot *slots;
    size_t n, cap;
};
/* NULL when absent. */
void *map_str_get(const struct map_str *m, struct str key);
void map_str_put(struct map_str *m, struct str key, void *val); /* copies the key */
void *map_str_del(struct map_str *m, struct str key);
void map_str_done(struct map_str *m);
bool map_str_next(const struct map_str *m, size_t *it, struct str *key, void **val);
