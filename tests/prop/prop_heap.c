/* prop_heap.c - any sequence of calls leaves a heap, with every element in the place it knows */
#include "base/heap.h"
#include "base/util.h"
#include "prop.h"

enum { THINGS = 48, STEPS = 300, NOWHERE = 1000 };

struct thing {
    int64_t key;
    size_t pos; /* NOWHERE: not in the heap */
};

static bool thing_before(struct thing *const *a, struct thing *const *b)
{
    return (*a)->key < (*b)->key;
}

static void thing_placed(struct thing *const *t, size_t at)
{
    (*t)->pos = at;
}

HEAP_DEFINE(things, struct thing *, thing_before, thing_placed)

static bool heap_is_sound(struct prop *p, struct thing **heap, size_t n, const struct thing *all)
{
    size_t inside = 0;

    for (size_t i = 0; i < n; i++) {
        if (!prop_check(p, heap[i]->pos == i, "the element at %zu believes in %zu", i,
                        heap[i]->pos) ||
            !prop_check(p, i == 0 || heap[(i - 1) / 2]->key <= heap[i]->key,
                        "the element at %zu is before its parent", i))
            return false;
    }
    for (size_t i = 0; i < THINGS; i++)
        inside += all[i].pos != NOWHERE;
    return prop_check(p, inside == n, "%zu elements in the heap, not %zu", n, inside);
}

static bool any_calls_leave_a_heap(struct prop *p, void *ctx UNUSED)
{
    struct thing all[THINGS], *heap[THINGS];
    size_t n = 0, steps = prop_size(p, STEPS);

    for (size_t i = 0; i < THINGS; i++)
        all[i] = (struct thing){0, NOWHERE};
    for (size_t i = 0; i < steps; i++) {
        struct thing *t = &all[prop_choice(p, THINGS - 1)];
        int64_t key = (int64_t)prop_choice(p, 20); /* few, so that many are equal */
        if (t->pos == NOWHERE) {
            t->key = key;
            heap[n++] = t;
            things_fix(heap, n, n - 1);
        } else if (prop_bool(p)) {
            things_remove(heap, &n, t->pos);
            t->pos = NOWHERE;
        } else {
            t->key = key;
            things_fix(heap, n, t->pos);
        }
        prop_note(p, "element %zu, key %d", (size_t)(t - all), (int)key);
        if (!heap_is_sound(p, heap, n, all))
            return false;
    }
    for (size_t i = 0; i < n; i++)
        heap[i]->key = (int64_t)prop_choice(p, 20);
    things_make(heap, n);
    return heap_is_sound(p, heap, n, all);
}

int main(void)
{
    prop_run("any calls leave a heap", 1000, any_calls_leave_a_heap, NULL);
    return prop_end();
}
