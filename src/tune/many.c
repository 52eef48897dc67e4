/* many.c - several objectives: levels of trials, their order, the Pareto front
 *
 * One trial dominates another when it is nowhere worse and somewhere better.  Level 1, the front,
 * are the trials that nobody dominates; level n + 1 those that only trials up to level n dominate.
 * Engines see trials ordered by level and, within a level, those first that have most room around
 * them (K. Deb et al., 2002), so that the whole front is followed and not one end of it.
 *
 * Levels depend on the set of results alone, not on their order, so a replay makes the same ones.
 */
#include "base/util.h"
#include "tune/study_priv.h"
#include <math.h>

struct study_many {
    size_t m;
    bool maximize[TUNE_OBJECTIVES_MAX];
    VEC(double) values;   /* m of each trial, as they were told; NaN = none */
    VEC(double) losses;   /* the same, to be minimised */
    VEC(uint32_t) levels; /* of each trial; 0 = no result */
    bool stale;           /* the order has to be made again */
};

struct study_many *study_many_new(size_t m, const bool *maximize)
{
    struct study_many *y = xcalloc(1, sizeof(*y));

    y->m = m;
    for (size_t k = 0; k < m; k++)
        y->maximize[k] = maximize && maximize[k];
    return y;
}

void study_many_free(struct study_many *y)
{
    if (y)
        FREE_EACH(y->values.p, y->losses.p, y->levels.p, y);
}

static bool dominates(const struct study_many *y, size_t a, size_t b)
{
    const double *p = y->losses.p + a * y->m, *q = y->losses.p + b * y->m;
    bool better = false;

    for (size_t k = 0; k < y->m; k++) {
        if (p[k] > q[k])
            return false;
        better |= p[k] < q[k];
    }
    return better;
}

/* A new trial stands one level behind the last one that dominates it.  Those of its level that it
 * dominates move back by one, and push others in turn: few levels and few trials change. */
static void levels_add(struct tune_study *s, size_t trial)
{
    struct study_many *y = s->many;
    uint32_t level = 1;
    uint32_t *moved = arena_alloc(&s->scratch, (s->done.n + 1) * sizeof(uint32_t));
    uint32_t *next = arena_alloc(&s->scratch, (s->done.n + 1) * sizeof(uint32_t));
    size_t n = 1;

    for (size_t i = 0; i < s->done.n; i++) {
        size_t other = s->done.p[i];
        if (other != trial && y->levels.p[other] >= level && dominates(y, other, trial))
            level = y->levels.p[other] + 1;
    }
    moved[0] = (uint32_t)trial;
    for (; n > 0; level++) {
        size_t pushed = 0;
        for (size_t i = 0; i < s->done.n; i++) {
            uint32_t other = s->done.p[i];
            bool hit = false;
            for (size_t k = 0; k < n && !hit && y->levels.p[other] == level; k++)
                hit = dominates(y, moved[k], other);
            if (hit)
                next[pushed++] = other;
        }
        for (size_t k = 0; k < n; k++)
            y->levels.p[moved[k]] = level;
        uint32_t *swap = moved;
        moved = next;
        next = swap;
        n = pushed;
    }
}

void study_many_add(struct tune_study *s, size_t trial, const double *values)
{
    struct study_many *y = s->many;

    while (y->levels.n <= trial) {
        vec_push(&y->levels, 0);
        for (size_t k = 0; k < y->m; k++) {
            vec_push(&y->values, NAN);
            vec_push(&y->losses, NAN);
        }
    }
    for (size_t k = 0; k < y->m; k++) {
        y->values.p[trial * y->m + k] = values[k];
        y->losses.p[trial * y->m + k] = y->maximize[k] ? -values[k] : values[k];
    }
    vec_push(&s->done, (uint32_t)trial);
    levels_add(s, trial);
    y->stale = true;
}

/* ---- the order ---- */
struct many_key {
    uint32_t trial, level;
    double room; /* around the trial, among those of its level */
    double by;   /* one objective, for sorting by it */
};

static int by_level(const void *a, const void *b)
{
    const struct many_key *x = a, *y = b;

    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    if (x->room != y->room)
        return x->room > y->room ? -1 : 1;
    return (x->trial > y->trial) - (x->trial < y->trial);
}

static int by_objective(const void *a, const void *b)
{
    const struct many_key *x = a, *y = b;

    if (x->by != y->by)
        return x->by < y->by ? -1 : 1;
    return (x->trial > y->trial) - (x->trial < y->trial);
}

/* The sum over objectives of the gap between the neighbours; the ends have all the room. */
static void room_of_level(const struct study_many *y, struct many_key *keys, size_t n)
{
    for (size_t k = 0; k < y->m; k++) {
        for (size_t i = 0; i < n; i++)
            keys[i].by = y->losses.p[keys[i].trial * y->m + k];
        qsort(keys, n, sizeof(*keys), by_objective);
        double range = keys[n - 1].by - keys[0].by;
        keys[0].room = keys[n - 1].room = INFINITY;
        for (size_t i = 1; i + 1 < n && range > 0; i++)
            keys[i].room += (keys[i + 1].by - keys[i - 1].by) / range;
    }
}

void study_many_order(struct tune_study *s)
{
    struct study_many *y = s->many;
    size_t n = s->done.n, from = 0;

    if (!y || !y->stale)
        return;
    y->stale = false;
    struct many_key *keys = arena_alloc(&s->scratch, n * sizeof(*keys));
    for (size_t i = 0; i < n; i++)
        keys[i] = (struct many_key){s->done.p[i], y->levels.p[s->done.p[i]], 0, 0};
    qsort(keys, n, sizeof(*keys), by_level);
    while (from < n) {
        size_t to = from + 1;
        while (to < n && keys[to].level == keys[from].level)
            to++;
        room_of_level(y, keys + from, to - from);
        from = to;
    }
    qsort(keys, n, sizeof(*keys), by_level);
    vec_reserve(&s->ranked, n);
    s->ranked.n = n;
    for (size_t i = 0; i < n; i++) {
        s->ranked.p[i] = keys[i].trial;
        /* What compares branches: the level, and the place within it. */
        s->loss.p[keys[i].trial] = keys[i].level + (double)i / (double)n;
    }
}

/* ---- the doors ---- */
size_t tune_study_objectives(const struct tune_study *s)
{
    return s->many ? s->many->m : 1;
}

const double *tune_study_values(const struct tune_study *s, int64_t id)
{
    const struct tune_trial *t = tune_study_get(s, id, NULL);

    if (!t || t->outcome != TUNE_DONE)
        return NULL;
    return s->many ? s->many->values.p + (size_t)(id - 1) * s->many->m : &t->value;
}

size_t tune_study_front(const struct tune_study *s, int64_t *out_ids, size_t room)
{
    size_t n = 0;

    if (!s->many && s->ranked.n) {
        if (room)
            out_ids[0] = tune_study_best(s);
        return 1;
    }
    for (size_t i = 0; s->many && i < s->many->levels.n; i++)
        if (s->many->levels.p[i] == 1) {
            if (n < room)
                out_ids[n] = (int64_t)i + 1;
            n++;
        }
    return n;
}
