/* ignore.c - the lines of an ignore file, and which of them decides */
#include "archive/ignore.h"
#include "archive/ignore_priv.h"
#include "base/file.h"
#include "base/util.h"
#include "base/vec.h"
#include <errno.h>

enum { FILE_MAX_BYTES = 1 << 20 };

struct rule {
    struct str pattern; /* without `!`, leading and trailing `/` */
    size_t literal;     /* so many first characters have no wildcard */
    bool take_back;     /* `!` */
    bool dirs_only;     /* a trailing `/` */
    bool name_only;     /* no other `/`: matches the last component, wherever it is */
};
struct ignore {
    char *text; /* the patterns are in here */
    VEC(struct rule) rules;
};

static size_t literal_length(struct str s)
{
    size_t n = 0;

    while (n < s.n && !memchr("*?[\\", s.p[n], 4))
        n++;
    return n;
}

/* Blanks at the end do not count unless the last is escaped. */
static struct str trim_end(struct str s)
{
    size_t end = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\\') {
            if (++i >= s.n)
                return s;
            end = i + 1;
        } else if (s.p[i] != ' ') {
            end = i + 1;
        }
    }
    return (struct str){s.p, end};
}

/* One line of the file becomes one rule; blank lines and comments become none. */
static void ignore_add_line(struct ignore *ig, struct str s)
{
    struct rule r = {0};

    if (s.n && s.p[s.n - 1] == '\r')
        s.n--;
    if (!s.n || s.p[0] == '#')
        return;
    s = trim_end(s);
    if (s.n && s.p[0] == '!') {
        r.take_back = true;
        s = (struct str){s.p + 1, s.n - 1};
    }
    if (s.n && s.p[s.n - 1] == '/') {
        r.dirs_only = true;
        s.n--;
    }
    if (!s.n)
        return;
    r.name_only = !memchr(s.p, '/', s.n);
    if (s.p[0] == '/')
        s = (struct str){s.p + 1, s.n - 1};
    r.pattern = s;
    r.literal = literal_length(s);
    vec_push(&ig->rules, r);
}

struct ignore *ignore_parse(struct str text)
{
    struct ignore *ig = xcalloc(1, sizeof(*ig));

    if (str_starts(text, STR("\xef\xbb\xbf")))
        text = (struct str){text.p + 3, text.n - 3};
    ig->text = xstrndup(text.n ? text.p : "", text.n);
    struct str rest = {ig->text, strlen(ig->text)}; // a NUL byte ends it
    while (rest.n > 0)
        ignore_add_line(ig, str_cut(rest, '\n', &rest));
    return ig;
}

int ignore_load(const char *path, struct ignore **out, struct err *e)
{
    AUTO_FREE char *text = NULL;
    struct err why = {0};
    size_t n;

    if (file_read_all(path, FILE_MAX_BYTES, &text, &n, &why) < 0) {
        if (why.sys != ENOENT) {
            if (e)
                *e = why;
            return -1;
        }
        *out = NULL;
        return 0;
    }
    *out = ignore_parse((struct str){text, n});
    return 0;
}

void ignore_free(struct ignore *ig)
{
    if (!ig)
        return;
    vec_done(&ig->rules);
    free(ig->text);
    free(ig);
}

/* A pattern with a slash is matched from the top of the directory; one without matches the last
 * component anywhere. */
static bool rule_matches(const struct rule *r, struct str path, struct str name)
{
    if (r->name_only)
        return glob_match(r->pattern, name, false);
    if (path.n < r->literal || memcmp(path.p, r->pattern.p, r->literal) != 0)
        return false;
    /* What follows the literal part is matched on its own, as git does: a `**` right behind it
     * counts as one at the start. */
    return glob_match((struct str){r->pattern.p + r->literal, r->pattern.n - r->literal},
                      (struct str){path.p + r->literal, path.n - r->literal}, true);
}

static bool match_n(const struct ignore *ig, struct str path, bool is_dir)
{
    const char *slash = memrchr(path.p, '/', path.n);
    struct str name = path;

    if (slash)
        name = (struct str){slash + 1, (size_t)(path.p + path.n - slash - 1)};
    for (size_t i = ig->rules.n; i-- > 0;) {
        const struct rule *r = &ig->rules.p[i];
        if ((is_dir || !r->dirs_only) && rule_matches(r, path, name))
            return !r->take_back;
    }
    return false;
}

/* The last rule that matches decides, as in .gitignore. */
bool ignore_match(const struct ignore *ig, const char *path, bool is_dir)
{
    return ig && match_n(ig, str_of(path), is_dir);
}

/* A path is covered when it, or any directory above it, is ignored. */
bool ignore_covers(const struct ignore *ig, const char *path, bool is_dir)
{
    if (!ig)
        return false;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/'))
        if (match_n(ig, (struct str){path, (size_t)(slash - path)}, true))
            return true;
    return match_n(ig, str_of(path), is_dir);
}
