/* route.c - tables of what can be asked, and the search in them */
#include "request/route.h"
#include "base/util.h"
#include <stdio.h>

static bool is_rest(struct str segment)
{
    return segment.n > 5 && !memcmp(segment.p + segment.n - 4, "...}", 4);
}

static bool route_fits(const char *pattern, struct str path, struct str args[ROUTE_ARGS_MAX])
{
    struct str pat = str_of(pattern);
    size_t n = 0;

    while (pat.n > 0 && path.n > 0) {
        struct str whole = path, want = str_cut(pat, '/', &pat), got = str_cut(path, '/', &path);

        if (want.n == 0 || want.p[0] != '{') {
            if (!str_eq(want, got))
                return false;
            continue;
        }
        if (got.n == 0)
            return false;
        ASSERT(n < ROUTE_ARGS_MAX);
        if (is_rest(want)) {
            got = whole;
            path.n = 0;
        }
        args[n++] = got;
    }
    return pat.n == 0 && path.n == 0;
}

enum route_result route_find(const struct route *table, size_t n, unsigned without,
                             struct str method, struct str path, struct route_match *out)
{
    const char *claimed = NULL; /* the first pattern that fits */
    size_t used = 0;

    *out = (struct route_match){0};
    if (str_eq_c(method, "HEAD"))
        method = STR("GET");
    while (path.n > 1 && path.p[path.n - 1] == '/')
        path.n--;
    for (const struct route *r = table; r < table + n; r++) {
        struct str args[ROUTE_ARGS_MAX] = {0};

        if ((r->flags & without) || !route_fits(r->path, path, args) ||
            (claimed && strcmp(claimed, r->path) != 0))
            continue;
        if (str_eq_c(method, r->method)) {
            out->route = r;
            memcpy(out->args, args, sizeof(args));
            return ROUTE_FOUND;
        }
        if (r->flags & ROUTE_PORT)
            continue;
        claimed = r->path;
        if (used < sizeof(out->allow))
            used += (size_t)snprintf(out->allow + used, sizeof(out->allow) - used, "%s%s%s",
                                     used ? ", " : "", r->method,
                                     !strcmp(r->method, "GET") ? ", HEAD" : "");
    }
    return claimed ? ROUTE_NO_METHOD : ROUTE_NO_PATH;
}

const char *route_nearest(const struct route *table, size_t n, struct str path)
{
    AUTO_FREE const char **paths = xcalloc(n + 1, sizeof(*paths));
    char word[128] = "";
    size_t used = 0;

    for (size_t i = 0; i < n; i++)
        paths[i] = table[i].path;
    /* Job numbers and ids would only count as typing errors. */
    for (struct str seg; path.n > 0 && used < sizeof(word) - 1;) {
        seg = str_cut(path, '/', &path);
        if (seg.n > 0 && seg.p[0] >= '0' && seg.p[0] <= '9')
            seg = STR("{job}");
        used += (size_t)snprintf(word + used, sizeof(word) - used, STR_FMT "%s",
                                 (int)MIN(seg.n, 100), seg.p, path.n > 0 ? "/" : "");
    }
    return str_nearest(word, paths, n);
}
