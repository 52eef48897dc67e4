/* spec_place.c - where a job may run, and what goes there with it
 *
 * `nodes` are names or patterns (gpu*, h[12]), as one text "a,b" in the planner and as a list for
 * people.  `assets` are "from[:to]": files or directories here, put below the directory of the run
 * on a node that does not share our files.  `from` is absolute after reading, or stands below cwd;
 * `to` is the same relative name, else the last part of `from`, so that a command finds under one
 * name what it works with here and there.
 */
#include "base/file.h"
#include "base/util.h"
#include "model/spec_priv.h"
#include <fnmatch.h>

enum { PATTERN_MAX = 63, ASSET_MAX = 8191 };

/* ---- nodes ---- */

/* A comma separates patterns in the stored text, and a slash would be part of a path. */
static bool pattern_ok(struct str s)
{
    if (!s.n || s.n > PATTERN_MAX)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] <= ' ' || s.p[i] == 0x7f || s.p[i] == ',' || s.p[i] == '/')
            return false;
    return true;
}

static int add_pattern(const struct reader *r, const struct spec_key *k, struct buf *out,
                       struct str s)
{
    if (!pattern_ok(s))
        return spec_bad(r, k->name,
                        "\"%.*s\" is not the name of a node or a pattern for names, as gpu*",
                        (int)MIN(s.n, 60), s.p);
    if (out->n)
        buf_addc(out, ',');
    buf_add(out, s.p, s.n);
    return 0;
}

static int read_nodes(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    AUTO(buf) struct buf all = {0};
    size_t n = json_type(v) == JSON_ARRAY ? json_len(v) : 1;

    buf_init(&all, SPEC_LIST_MAX * (PATTERN_MAX + 1));
    if (n > (size_t)k->max)
        return spec_bad(r, k->name, "has %zu entries; at most %lld are allowed", n,
                        (long long)k->max);
    for (size_t i = 0; i < n; i++) {
        const struct json *one = json_type(v) == JSON_ARRAY ? json_at(v, i) : v;
        if (json_type(one) != JSON_STR)
            return spec_bad_type(r, k->name, one, "the name of a node, or a list of them");
        for (struct str rest = json_str(one), word = str_cut(rest, ',', &rest);;
             word = str_cut(rest, ',', &rest)) {
            if (add_pattern(r, k, &all, str_trim(word)) < 0)
                return -1;
            if (!rest.n)
                break;
        }
    }
    free(r->s->place.nodes);
    r->s->place.nodes = all.n ? xstrndup(all.p, all.n) : NULL;
    return 0;
}

bool nodes_match(struct str patterns, const char *name)
{
    char one[PATTERN_MAX + 1];

    if (!patterns.n)
        return true;
    while (patterns.n) {
        struct str word = str_cut(patterns, ',', &patterns);
        /* pattern_ok refuses such a pattern when it is read; here it matches nothing. */
        if (word.n > PATTERN_MAX)
            continue;
        memcpy(one, word.p, word.n);
        one[word.n] = 0;
        if (!fnmatch(one, name, 0))
            return true;
    }
    return false;
}

/* ---- assets ---- */

/* An asset must not leave the staging directory: neither absolute nor with "..". */
static bool stays_below(const char *to)
{
    struct str rest = str_of(to);

    if (!rest.n || to[0] == '/')
        return false;
    while (rest.n)
        if (str_eq_c(str_cut(rest, '/', &rest), ".."))
            return false;
    return true;
}

static void assets_free(struct spec_place *p)
{
    texts_free(TAKE(p->assets));
}

static int read_assets(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    size_t n = json_len(v);

    if (json_type(v) != JSON_ARRAY)
        return spec_bad_type(r, k->name, v, "a list of texts, each from or from:to");
    if (n > (size_t)k->max)
        return spec_bad(r, k->name, "has %zu entries; at most %lld are allowed", n,
                        (long long)k->max);
    assets_free(&r->s->place);
    r->s->place.assets = n ? xcalloc(n + 1, sizeof(char *)) : NULL;
    for (size_t i = 0; i < n; i++) {
        struct str s = json_type(json_at(v, i)) == JSON_STR ? json_str(json_at(v, i)) : STR("");
        if (!s.n || s.n > ASSET_MAX || memchr(s.p, '\0', s.n))
            return spec_bad_type(r, k->name, json_at(v, i), "the name of a file, or from:to");
        r->s->place.assets[i] = xstrndup(s.p, s.n);
    }
    return 0;
}

/* "./data/" is "data"; "/x/data" is "data" too. */
static char *default_to(const char *from)
{
    size_t n = strlen(from);

    while (n > 1 && from[n - 1] == '/')
        n--;
    while (n > 1 && from[0] == '.' && from[1] == '/') {
        from += 2;
        n -= MIN(n, (size_t)2);
    }
    if (!n)
        return xstrdup(".");
    char *to = xstrndup(from, n);
    const char *slash = strrchr(to, '/');
    if (slash && !stays_below(to))
        memmove(to, slash + 1, strlen(slash + 1) + 1);
    return to;
}

/* After all keys were read, since cwd may come last. */
static int make_absolute(const struct reader *r, char **asset)
{
    char *colon = strrchr(*asset, ':');
    AUTO_FREE char *from = colon ? xstrndup(*asset, (size_t)(colon - *asset)) : xstrdup(*asset);
    AUTO_FREE char *to = colon ? xstrdup(colon + 1) : default_to(from);

    if (!from[0] || !stays_below(to))
        return spec_bad(r, "assets",
                        "\"%.80s\" is not of the form from:to with a relative place to go to",
                        *asset);
    if (from[0] != '/' && !r->s->command.cwd)
        return spec_bad(r, "assets",
                        "\"%.80s\" is not absolute; give cwd too, or a path that starts with /",
                        from);
    AUTO_FREE char *abs = path_absolute(from, r->s->command.cwd ? r->s->command.cwd : "/");
    free(*asset);
    *asset = xasprintf("%s:%s", abs, to);
    return 0;
}

/* ---- of both ---- */

int place_read(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    return k->kind == KEY_NODES ? read_nodes(r, k, v) : read_assets(r, k, v);
}

int place_check(const struct reader *r)
{
    for (char **a = r->s->place.assets; a && *a; a++)
        if (make_absolute(r, a) < 0)
            return -1;
    return 0;
}

void place_write(struct json *j, const struct spec *s, const struct spec_key *k)
{
    struct json *list = json_new_array();
    struct str rest = k->kind == KEY_NODES && s->place.nodes ? str_of(s->place.nodes) : STR("");

    while (rest.n)
        json_push_take(list, json_new_str(str_cut(rest, ',', &rest)));
    for (char **a = k->kind == KEY_ASSETS ? s->place.assets : NULL; a && *a; a++)
        json_push_take(list, json_new_str(str_of(*a)));
    if (json_len(list))
        json_set_take(j, k->name, list);
    else
        json_free(list);
}

void place_done(struct spec_place *p)
{
    assets_free(p);
    free(p->nodes);
    free(p->stage_dir);
}
