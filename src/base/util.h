/* util.h - ownership macros, assertions, allocation that cannot fail */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
/* These evaluate an argument twice: no calls in them. */
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define UNUSED __attribute__((unused))

/* Always on.  Bad input is never an ASSERT; this is for broken invariants of the program. */
#define ASSERT(x) ((x) ? (void)0 : assert_fail(#x, __FILE__, __LINE__))
_Noreturn void assert_fail(const char *expr, const char *file, int line);
/* What assert_fail prints besides the expression, e.g. the job at hand; borrowed, may be NULL. */
extern _Thread_local const char *assert_context;

/* Abort on exhaustion: the store survives that by design. */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n, size_t size); /* n * size, overflow checked */
char *xstrdup(const char *s);                   /* NULL in, NULL out */
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Is x one of the n numbers? */
static inline bool ints_have(const int32_t *p, size_t n, int32_t x)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] == x)
            return true;
    return false;
}

/* FREE_EACH(a, b, …) frees every one of them.  Of a vector that goes away with its owner, `p` is
 * all that has to be freed. */
#define FREE_EACH(...)                                                                             \
    free_each((void *[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))
void free_each(void **p, size_t n);
/* Frees a list that ends with NULL, and its texts.  NULL is accepted. */
void texts_free(char **list);

/* In a function with arguments like printf's: formats them into the array `text`. */
#define FORMAT_ARGS(text, fmt)                                                                     \
    do {                                                                                           \
        va_list ap_;                                                                               \
        va_start(ap_, fmt);                                                                        \
        vsnprintf(text, sizeof(text), fmt, ap_);                                                   \
        va_end(ap_);                                                                               \
    } while (0)

/* The last line of a constructor: when `made` is 0, *out gets the object, else `release` frees it.
 * Evaluates `made` once, which is also its value. */
#define HAND_OUT(made, out, object, release)                                                       \
    ({                                                                                             \
        int made_ = (made);                                                                        \
        if (made_ < 0)                                                                             \
            release(object);                                                                       \
        else                                                                                       \
            *(out) = (object);                                                                     \
        made_;                                                                                     \
    })

static inline void auto_free_(void *p)
{
    free(*(void **)p);
}
static inline void auto_fd_(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
/* Memory and descriptors that are released at the end of the scope, on every return.  Variables
 * must be initialised: NULL, or -1 for descriptors. */
#define AUTO_FREE __attribute__((cleanup(auto_free_)))
#define AUTO_FD __attribute__((cleanup(auto_fd_))) int
/* AUTO(buf) struct buf b = {0};  calls buf_done(&b) at the end of the scope. */
#define AUTO(noun) __attribute__((cleanup(noun##_done)))
/* Hand-over: yields the value and leaves NULL (or -1 for descriptors with TAKE_FD) behind. */
#define TAKE(p)                                                                                    \
    ({                                                                                             \
        __typeof__(p) take_ = (p);                                                                 \
        (p) = NULL;                                                                                \
        take_;                                                                                     \
    })
#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int take_ = (fd);                                                                          \
        (fd) = -1;                                                                                 \
        take_;                                                                                     \
    })
