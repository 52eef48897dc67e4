/* vec.h - typed growable arrays
 *
 *   VEC(int) v = {0};  vec_push(&v, 3);  v.p[0];  v.n;  vec_done(&v);
 */
#pragma once
#include "base/util.h"
#include <string.h>

#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *p;                                                                                   \
        size_t n, cap;                                                                             \
    }
/* A zeroed struct is an empty vector.  Growing moves the elements: pointers into p become
 * invalid. The macros evaluate their arguments several times. */
#define vec_reserve(v, want)                                                                       \
    do {                                                                                           \
        if ((v)->cap < (size_t)(want)) {                                                           \
            size_t cap_ = MAX((size_t)(want), (v)->cap ? (v)->cap * 2 : 8);                        \
            (v)->p = xrealloc((v)->p, cap_, sizeof(__typeof__(*(v)->p)));                          \
            (v)->cap = cap_;                                                                       \
        }                                                                                          \
    } while (0)
#define vec_push(v, x)                                                                             \
    do {                                                                                           \
        vec_reserve(v, (v)->n + 1);                                                                \
        (v)->p[(v)->n++] = (x);                                                                    \
    } while (0)
/* The vector must not be empty for vec_pop and vec_last. */
#define vec_pop(v) ((v)->p[--(v)->n])
#define vec_last(v) ((v)->p[(v)->n - 1])
/* Keeps the order of the others, which costs time proportional to their number. */
#define vec_remove(v, i)                                                                           \
    do {                                                                                           \
        memmove((v)->p + (i), (v)->p + (i) + 1, ((v)->n - (i)-1) * sizeof(__typeof__(*(v)->p)));   \
        (v)->n--;                                                                                  \
    } while (0)
#define vec_clear(v) ((v)->n = 0)
#define vec_done(v)                                                                                \
    do {                                                                                           \
        free((v)->p);                                                                              \
        (v)->p = NULL;                                                                             \
        (v)->n = (v)->cap = 0;                                                                     \
    } while (0)
/* vec_done, after every element was freed: release(element), or release(&element) with
 * vec_done_each. */
#define vec_free_each(v, release)                                                                  \
    do {                                                                                           \
        for (size_t each_ = 0; each_ < (v)->n; each_++)                                            \
            release((v)->p[each_]);                                                                \
        vec_done(v);                                                                               \
    } while (0)
#define vec_done_each(v, release)                                                                  \
    do {                                                                                           \
        for (size_t each_ = 0; each_ < (v)->n; each_++)                                            \
            release(&(v)->p[each_]);                                                               \
        vec_done(v);                                                                               \
    } while (0)
