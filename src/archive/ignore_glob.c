/* ignore_glob.c - wildcards as git understands them
 *
 * `?` is any character, `[...]` one of a set (ranges, `!` or `^` for the opposite, [:classes:]),
 * `*` any number of characters, and `\` makes the next character stand for itself.  In paths none
 * of them matches a slash; only `**` does, where it fills a whole component: it then stands for
 * any number of directories, none included.  A pattern that ends inside a set or after a lone
 * backslash matches nothing.
 */
#include "archive/ignore_priv.h"
#include <ctype.h>

/* A pattern of many stars could try for ever; nobody means such a one. */
enum { STEPS_MAX = 200000 };

enum verdict {
    YES,
    NO,
    NO_TEXT, /* the text ended: longer matches of the stars before cannot help */
    NO_HERE, /* a slash is in the way of a single star: only a `**` before it can help */
};

struct glob {
    const char *first, *end; /* of the pattern */
    const char *text_end;
    bool path;
    int steps;
};

/* The byte of the pattern at p; 0 behind its end. */
static int glob_byte(const struct glob *g, const char *p)
{
    return p < g->end ? (unsigned char)*p : 0;
}

/* The named classes of POSIX; only ASCII is in any of them, whatever the locale. */
static bool in_class(struct str name, int c)
{
    static const struct {
        const char *name;
        int (*test)(int);
    } classes[] = {{"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank},
                   {"cntrl", iscntrl}, {"digit", isdigit}, {"graph", isgraph},
                   {"lower", islower}, {"print", isprint}, {"punct", ispunct},
                   {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit}};

    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (str_eq_c(name, classes[i].name))
            return c < 128 && classes[i].test(c);
    return false;
}

static bool known_class(struct str name)
{
    for (int c = 0; c < 128; c++)
        if (in_class(name, c))
            return true;
    return false;
}

/* A [:class:] whose `[` is at p.  Returns its `]`, or NULL: it is not one after all (*broken says
 * whether that spoils the whole pattern). */
static const char *match_class(const struct glob *g, const char *p, int c, bool *hit, bool *broken)
{
    const char *close = p + 2;

    while (glob_byte(g, close) && glob_byte(g, close) != ']')
        close++;
    *broken = !glob_byte(g, close);
    if (*broken || close - p < 3 || close[-1] != ':')
        return NULL;
    struct str name = {p + 2, (size_t)(close - p - 3)};
    *broken = !known_class(name);
    *hit |= in_class(name, c);
    return *broken ? NULL : close;
}

/* A set whose first member is at p.  Returns its `]`, or NULL when there is none. */
static const char *match_set(const struct glob *g, const char *p, int c, bool *hit)
{
    int before = 0; // what a range may start from
    bool first = true;

    for (;; p++, first = false) {
        int m = glob_byte(g, p);
        if (!m)
            return NULL;
        if (m == ']' && !first)
            return p;
        if (m == '-' && before && glob_byte(g, p + 1) && glob_byte(g, p + 1) != ']') {
            m = glob_byte(g, ++p);
            if (m == '\\' && !(m = glob_byte(g, ++p)))
                return NULL;
            *hit |= c >= before && c <= m;
            before = 0;
            continue;
        }
        if (m == '[' && glob_byte(g, p + 1) == ':') {
            bool broken;
            const char *close = match_class(g, p, c, hit, &broken);
            if (broken)
                return NULL;
            if (close) {
                p = close;
                before = 0;
                continue;
            }
        } else if (m == '\\' && !(m = glob_byte(g, ++p))) {
            return NULL;
        }
        *hit |= m == c;
        before = m;
    }
}

static enum verdict match_here(struct glob *g, const char *p, const char *t);

/* The rest p after a star, at every place from t on. */
static enum verdict match_rest(struct glob *g, const char *p, const char *t, bool over_slash)
{
    for (; t < g->text_end; t++) {
        enum verdict v = match_here(g, p, t);
        if (v != NO && (!over_slash || v != NO_HERE))
            return v;
        if (v == NO && !over_slash && *t == '/')
            return NO_HERE;
    }
    return NO_TEXT;
}

/* p is at a star. */
static enum verdict match_star(struct glob *g, const char *p, const char *t)
{
    const char *star = p++;
    bool over_slash = !g->path, two = glob_byte(g, p) == '*';

    while (glob_byte(g, p) == '*')
        p++;
    if (two && g->path && (star == g->first || star[-1] == '/')) {
        bool slash = glob_byte(g, p) == '/';
        if (slash && match_here(g, p + 1, t) == YES)
            return YES; // `**/` for no directory at all
        over_slash =
            slash || !glob_byte(g, p) || (glob_byte(g, p) == '\\' && glob_byte(g, p + 1) == '/');
    }
    const char *slash = memchr(t, '/', (size_t)(g->text_end - t));
    if (p == g->end)
        return !over_slash && slash ? NO_HERE : YES;
    if (!over_slash && *p == '/')
        return slash ? match_here(g, p, slash) : NO_HERE;
    return match_rest(g, p, t, over_slash);
}

static enum verdict match_here(struct glob *g, const char *p, const char *t)
{
    for (; p < g->end; p++, t++) {
        if (++g->steps > STEPS_MAX)
            return NO_TEXT;
        if (*p == '*')
            return match_star(g, p, t);
        if (t == g->text_end)
            return NO_TEXT;
        int c = (unsigned char)*t;
        bool hit = false;
        if (*p == '[') {
            bool other = glob_byte(g, p + 1) == '!' || glob_byte(g, p + 1) == '^';
            p = match_set(g, p + (other ? 2 : 1), c, &hit);
            if (!p)
                return NO_TEXT;
            hit = hit != other && !(g->path && c == '/');
        } else if (*p == '?') {
            hit = !g->path || c != '/';
        } else {
            p += *p == '\\';
            hit = glob_byte(g, p) == c;
        }
        if (!hit)
            return NO;
    }
    return t == g->text_end ? YES : NO;
}

bool glob_match(struct str pattern, struct str text, bool path)
{
    struct glob g = {pattern.p, pattern.p + pattern.n, text.p + text.n, path, 0};

    return match_here(&g, pattern.p, text.p) == YES;
}
