/* map.c - open addressing with linear probing
 *
 * At most 3/4 full.  Deletion moves the followers of the gap back, so there are no tombstones
 * and a map that churns for weeks stays as fast as a new one.
 */
#include "base/map.h"
#include "base/hash.h"
#include "base/rand.h"
#include "base/util.h"
#include <pthread.h>

enum { CAP_MIN = 16 };

/* Job numbers are consecutive: spread them over all bits. */
static size_t slot_of(uint64_t key, size_t cap)
{
    key ^= key >> 33;
    key *= 0xFF51AFD7ED558CCDu;
    key ^= key >> 33;
    return (size_t)key & (cap - 1);
}

/* The least power of two in which n entries fill at most 3/4. */
static size_t cap_for(size_t n)
{
    size_t cap = CAP_MIN;

    while (cap / 4 * 3 < n)
        cap *= 2;
    return cap;
}

/* Must the entry whose home slot is `home`, now at i, move to the gap?  Yes unless its home lies
 * cyclically in (gap, i]. */
static bool fills_gap(size_t gap, size_t i, size_t home, size_t cap)
{
    return ((i - home) & (cap - 1)) >= ((i - gap) & (cap - 1));
}

/* The slot of the key, or the free slot where it belongs.  The table is never full, so the loop
 * ends. */
static size_t find_u64(const struct map_u64 *m, uint64_t key)
{
    size_t i = slot_of(key, m->cap);

    while (m->vals[i] && m->keys[i] != key)
        i = (i + 1) & (m->cap - 1);
    return i;
}

void *map_u64_get(const struct map_u64 *m, uint64_t key)
{
    return m->cap ? m->vals[find_u64(m, key)] : NULL;
}

/* Room for n entries in all. */
static void map_u64_reserve(struct map_u64 *m, size_t n)
{
    size_t cap = cap_for(n);
    struct map_u64 old = *m;

    if (cap <= m->cap)
        return;
    m->keys = xcalloc(cap, sizeof(*m->keys));
    m->vals = xcalloc(cap, sizeof(*m->vals));
    m->cap = cap;
    for (size_t i = 0; i < old.cap; i++) {
        if (!old.vals[i])
            continue;
        size_t to = find_u64(m, old.keys[i]);
        m->keys[to] = old.keys[i];
        m->vals[to] = old.vals[i];
    }
    free(old.keys);
    free(old.vals);
}

void map_u64_put(struct map_u64 *m, uint64_t key, void *val)
{
    ASSERT(val != NULL);
    map_u64_reserve(m, m->n + 1);
    size_t i = find_u64(m, key);
    m->n += !m->vals[i];
    m->keys[i] = key;
    m->vals[i] = val;
}

void *map_u64_del(struct map_u64 *m, uint64_t key)
{
    if (!m->cap)
        return NULL;
    size_t gap = find_u64(m, key);
    void *val = m->vals[gap];
    if (!val)
        return NULL;
    for (size_t i = (gap + 1) & (m->cap - 1); m->vals[i]; i = (i + 1) & (m->cap - 1)) {
        if (!fills_gap(gap, i, slot_of(m->keys[i], m->cap), m->cap))
            continue;
        m->keys[gap] = m->keys[i];
        m->vals[gap] = m->vals[i];
        gap = i;
    }
    m->vals[gap] = NULL;
    m->n--;
    return val;
}

void map_u64_done(struct map_u64 *m)
{
    free(m->keys);
    free(m->vals);
    *m = (struct map_u64){0};
}

void map_u64_clear(struct map_u64 *m, void (*release)(void *val))
{
    void *val;

    for (size_t it = 0; (val = map_u64_each(m, &it));)
        release(val);
    map_u64_done(m);
}

void *map_u64_each(const struct map_u64 *m, size_t *it)
{
    while (*it < m->cap)
        if (m->vals[(*it)++])
            return m->vals[*it - 1];
    return NULL;
}

bool map_u64_next(const struct map_u64 *m, size_t *it, uint64_t *key, void **val)
{
    *val = map_u64_each(m, it);
    if (*val)
        *key = m->keys[*it - 1];
    return *val;
}

struct map_str_slot {
    char *key; /* NULL = free slot */
    size_t n;
    uint64_t hash;
    void *val;
};

/* One random key for all maps of the process.  Keys come from outside, and a known key would
 * allow requests whose texts all collide. */
static uint8_t hash_key[16];
static pthread_once_t hash_key_once = PTHREAD_ONCE_INIT;

static void make_hash_key(void)
{
    random_bytes(hash_key, sizeof(hash_key));
}

static uint64_t hash_str(struct str s)
{
    pthread_once(&hash_key_once, make_hash_key);
    return siphash24(hash_key, s.p, s.n);
}

static size_t find_str(const struct map_str *m, struct str key, uint64_t hash)
{
    size_t i = (size_t)hash & (m->cap - 1);

    for (; m->slots[i].key; i = (i + 1) & (m->cap - 1)) {
        const struct map_str_slot *s = &m->slots[i];
        if (s->hash == hash && str_eq((struct str){s->key, s->n}, key))
            break;
    }
    return i;
}

void *map_str_get(const struct map_str *m, struct str key)
{
    return m->cap ? m->slots[find_str(m, key, hash_str(key))].val : NULL;
}

static void grow_str(struct map_str *m)
{
    struct map_str old = *m;
    size_t cap = cap_for(m->n + 1);

    if (cap <= m->cap)
        return;
    m->slots = xcalloc(cap, sizeof(*m->slots));
    m->cap = cap;
    for (size_t i = 0; i < old.cap; i++) {
        const struct map_str_slot *s = &old.slots[i];
        if (s->key)
            m->slots[find_str(m, (struct str){s->key, s->n}, s->hash)] = *s;
    }
    free(old.slots);
}

void map_str_put(struct map_str *m, struct str key, void *val)
{
    uint64_t hash = hash_str(key);

    ASSERT(val != NULL);
    grow_str(m);
    struct map_str_slot *s = &m->slots[find_str(m, key, hash)];
    if (!s->key) {
        char *copy = xmalloc(key.n + 1);
        if (key.n)
            memcpy(copy, key.p, key.n);
        copy[key.n] = '\0';
        *s = (struct map_str_slot){.key = copy, .n = key.n, .hash = hash};
        m->n++;
    }
    s->val = val;
}

void *map_str_del(struct map_str *m, struct str key)
{
    if (!m->cap)
        return NULL;
    size_t gap = find_str(m, key, hash_str(key));
    if (!m->slots[gap].key)
        return NULL;
    void *val = m->slots[gap].val;
    free(m->slots[gap].key);
    for (size_t i = (gap + 1) & (m->cap - 1); m->slots[i].key; i = (i + 1) & (m->cap - 1)) {
        if (!fills_gap(gap, i, (size_t)m->slots[i].hash & (m->cap - 1), m->cap))
            continue;
        m->slots[gap] = m->slots[i];
        gap = i;
    }
    m->slots[gap] = (struct map_str_slot){0};
    m->n--;
    return val;
}

void map_str_done(struct map_str *m)
{
    for (size_t i = 0; i < m->cap; i++)
        free(m->slots[i].key);
    free(m->slots);
    *m = (struct map_str){0};
}

bool map_str_next(const struct map_str *m, size_t *it, struct str *key, void **val)
{
    for (; *it < m->cap; (*it)++) {
        const struct map_str_slot *s = &m->slots[*it];
        if (!s->key)
            continue;
        *key = (struct str){s->key, s->n};
        *val = s->val;
        (*it)++;
        return true;
    }
    return false;
}
