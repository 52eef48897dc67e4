/* heap.h - a binary heap in an array: the first element is before all others
 *
 * HEAP_DEFINE makes functions for one type of element; the array is a VEC, which the caller owns:
 *
 *   static bool due_before(const struct due *a, const struct due *b) { return a->at < b->at; }
 *   HEAP_DEFINE(due_heap, struct due, due_before, HEAP_NO_PLACE)
 *
 *   vec_push(&v, x);                         due_heap_fix(v.p, v.n, v.n - 1);
 *   struct due first = v.p[0];               due_heap_remove(v.p, &v.n, 0);
 *   v.p[at].at = 7;                          due_heap_fix(v.p, v.n, at);
 *
 * Elements that compare equal come out in any order, but always in the same one for the same calls.
 * `placed(element, index)` is called whenever an element has got a place, so that the element may
 * remember where it is; HEAP_NO_PLACE when no element wants to know.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define HEAP_NO_PLACE(element, index) ((void)(element), (void)(index))

#define HEAP_DEFINE(name, type, before, placed)                                                    \
    static inline void name##_sink(type *p, size_t n, size_t at)                                   \
    {                                                                                              \
        type moved = p[at];                                                                        \
                                                                                                   \
        for (size_t child; (child = 2 * at + 1) < n; at = child) {                                 \
            child += child + 1 < n && before(&p[child + 1], &p[child]);                            \
            if (!before(&p[child], &moved))                                                        \
                break;                                                                             \
            p[at] = p[child];                                                                      \
            placed(&p[at], at);                                                                    \
        }                                                                                          \
        p[at] = moved;                                                                             \
        placed(&p[at], at);                                                                        \
    }                                                                                              \
    /* Element `at` is new or has changed: moves it to its place.  The others must be in order. */ \
    static inline void name##_fix(type *p, size_t n, size_t at)                                    \
    {                                                                                              \
        type moved = p[at];                                                                        \
                                                                                                   \
        if (at == 0 || !before(&moved, &p[(at - 1) / 2])) {                                        \
            name##_sink(p, n, at);                                                                 \
            return;                                                                                \
        }                                                                                          \
        for (; at > 0 && before(&moved, &p[(at - 1) / 2]); at = (at - 1) / 2) {                    \
            p[at] = p[(at - 1) / 2];                                                               \
            placed(&p[at], at);                                                                    \
        }                                                                                          \
        p[at] = moved;                                                                             \
        placed(&p[at], at);                                                                        \
    }                                                                                              \
    /* Takes element `at` out; the caller has copied it. */                                        \
    static inline void name##_remove(type *p, size_t *n, size_t at)                                \
    {                                                                                              \
        if (at == --*n)                                                                            \
            return;                                                                                \
        p[at] = p[*n];                                                                             \
        name##_fix(p, *n, at);                                                                     \
    }                                                                                              \
    /* Orders an array that is in any order, in linear time. */                                    \
    static inline void name##_make(type *p, size_t n)                                              \
    {                                                                                              \
        for (size_t at = n / 2; at-- > 0;)                                                         \
            name##_sink(p, n, at);                                                                 \
    }
