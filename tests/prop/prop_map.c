/* prop_map.c - the maps against a list that is searched from end to end */
#include "base/map.h"
#include "base/util.h"
#include "prop.h"

enum { KEYS = 64, STEPS = 400 };

struct model {
    void *vals[KEYS]; /* NULL: absent */
    size_t n;
};

static void *next_value(uintptr_t *counter)
{
    return (void *)++*counter;
}

/* Keys that collide: few distinct ones, some of them far apart. */
static uint64_t key_u64(size_t k)
{
    return k % 2 ? (uint64_t)k << 40 : UINT64_MAX - k;
}

static bool same_u64(struct prop *p, const struct map_u64 *m, const struct model *model)
{
    size_t it = 0, seen = 0;
    uint64_t key;
    void *val;

    for (size_t k = 0; k < KEYS; k++) {
        if (!prop_check(p, map_u64_get(m, key_u64(k)) == model->vals[k], "key %zu differs", k))
            return false;
    }
    while (map_u64_next(m, &it, &key, &val))
        seen++;
    return prop_check(p, m->n == model->n && seen == model->n, "%zu in the map, %zu seen, not %zu",
                      m->n, seen, model->n);
}

static bool u64_is_a_map(struct prop *p, void *ctx UNUSED)
{
    struct map_u64 m = {0};
    struct model model = {0};
    uintptr_t counter = 0;
    size_t steps = prop_size(p, STEPS);
    bool ok = true;

    for (size_t i = 0; i < steps && ok; i++) {
        size_t k = (size_t)prop_choice(p, KEYS - 1);
        if (prop_bool(p)) {
            void *was = map_u64_del(&m, key_u64(k));
            ok = prop_check(p, was == model.vals[k], "deleting key %zu", k);
            model.n -= model.vals[k] != NULL;
            model.vals[k] = NULL;
            prop_note(p, "del %zu", k);
        } else {
            model.n += model.vals[k] == NULL;
            model.vals[k] = next_value(&counter);
            map_u64_put(&m, key_u64(k), model.vals[k]);
            prop_note(p, "put %zu", k);
        }
    }
    ok = ok && same_u64(p, &m, &model);
    map_u64_done(&m);
    return ok;
}

static bool same_str(struct prop *p, const struct map_str *m, const struct model *model,
                     const struct str *keys)
{
    size_t it = 0, seen = 0;
    struct str key;
    void *val;

    for (size_t k = 0; k < KEYS; k++) {
        if (!prop_check(p, map_str_get(m, keys[k]) == model->vals[k], "key %zu differs", k))
            return false;
    }
    while (map_str_next(m, &it, &key, &val))
        seen++;
    return prop_check(p, m->n == model->n && seen == model->n, "%zu in the map, %zu seen, not %zu",
                      m->n, seen, model->n);
}

static bool str_is_a_map(struct prop *p, void *ctx UNUSED)
{
    struct map_str m = {0};
    struct model model = {0};
    struct str keys[KEYS];
    uintptr_t counter = 0;
    size_t steps = prop_size(p, STEPS);
    bool ok = true;

    for (size_t k = 0; k < KEYS; k++) {
        char *text = arena_printf(prop_arena(p), "%zu", k / 2);
        /* "7" and "7\0" are different keys. */
        keys[k] = (struct str){text, strlen(text) + k % 2};
    }
    for (size_t i = 0; i < steps && ok; i++) {
        size_t k = (size_t)prop_choice(p, KEYS - 1);
        if (prop_bool(p)) {
            ok = prop_check(p, map_str_del(&m, keys[k]) == model.vals[k], "deleting key %zu", k);
            model.n -= model.vals[k] != NULL;
            model.vals[k] = NULL;
        } else {
            model.n += model.vals[k] == NULL;
            model.vals[k] = next_value(&counter);
            map_str_put(&m, keys[k], model.vals[k]);
        }
    }
    ok = ok && same_str(p, &m, &model, keys);
    map_str_done(&m);
    return ok;
}

int main(void)
{
    prop_run("map_u64 is a map", 1000, u64_is_a_map, NULL);
    prop_run("map_str is a map", 1000, str_is_a_map, NULL);
    return prop_end();
}
