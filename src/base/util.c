/* util.c - what to do when the program itself is wrong or the machine has no memory left
 *
 * Both end the process at once: every acknowledged fact is already in the store, so a restart
 * is safer than going on with a broken invariant.
 */
#include "base/util.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Thread_local const char *assert_context;

_Noreturn void assert_fail(const char *expr, const char *file, int line)
{
    const char *context = assert_context ? assert_context : "-";

    fprintf(stderr, "berth: internal error at %s:%d: %s does not hold (context: %s)\n", file, line,
            expr, context);
    fflush(stderr);
    abort();
}

static _Noreturn void out_of_memory(size_t n)
{
    fprintf(stderr, "berth: out of memory (%zu bytes requested)\n", n);
    fflush(stderr);
    abort();
}

void *xmalloc(size_t n)
{
    void *p = malloc(n ? n : 1);

    if (!p)
        out_of_memory(n);
    return p;
}

void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);

    if (!p)
        out_of_memory(size);
    return p;
}

void *xrealloc(void *p, size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes))
        out_of_memory(SIZE_MAX);
    void *q = realloc(p, bytes ? bytes : 1);
    if (!q)
        out_of_memory(bytes);
    return q;
}

char *xstrdup(const char *s)
{
    return s ? xstrndup(s, strlen(s)) : NULL;
}

char *xstrndup(const char *s, size_t n)
{
    size_t len = s ? strnlen(s, n) : 0;
    char *copy = xmalloc(len + 1);

    if (len)
        memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

char *xasprintf(const char *fmt, ...)
{
    char *out = NULL;
    va_list ap;

    va_start(ap, fmt);
    int n = vasprintf(&out, fmt, ap);
    va_end(ap);
    if (n < 0)
        out_of_memory(0);
    return out;
}

void free_each(void **p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(p[i]);
}

void texts_free(char **list)
{
    for (char **t = list; t && *t; t++)
        free(*t);
    free(list);
}
