/* unpack_check.c - which names and links a tree from outside may have
 *
 * The tree is known here in full, so every question (was this name there, is its parent a
 * directory, where does this link lead) is answered without looking at the disk, where the answer
 * could be arranged by the archive itself.
 */
#include "archive/unpack_priv.h"
#include "base/units.h"
#include <limits.h>

enum { SHOWN = 120 }; /* bytes of a name in a message */

/* The message names the member and the reason. */
static int members_refuse(struct err *e, const char *name, const char *why)
{
    return err_set(e, ERR_INVALID, "member '%.*s' is refused: %s", SHOWN, name, why);
}

void members_init(struct members *m, const struct unpack_conf *conf)
{
    struct unpack_limits l = conf ? conf->limits : (struct unpack_limits){0};

    l.total_bytes = l.total_bytes ? l.total_bytes : (int64_t)64 << 30;
    l.file_bytes = l.file_bytes ? l.file_bytes : l.total_bytes;
    l.members = l.members ? l.members : 1000000;
    l.depth = l.depth ? l.depth : 160;
    l.ratio = l.ratio ? l.ratio : 200;
    *m = (struct members){.limits = l,
                          .outside_links = conf && conf->outside_links,
                          .contents = conf && conf->contents,
                          .top = conf ? xstrdup(conf->top) : NULL};
}

void members_done(struct members *m)
{
    for (size_t i = 0; i < m->list.n; i++) {
        free(m->list.p[i]->path);
        free(m->list.p[i]->link);
        free(m->list.p[i]);
    }
    vec_done(&m->list);
    map_str_done(&m->by_path);
    free((char *)(uintptr_t)m->top);
}

static int add_part(struct buf *out, struct str part, const char *name, struct err *e)
{
    if (str_eq_c(part, ".."))
        return members_refuse(e, name, "'..' may not be in a name");
    if (part.n > NAME_MAX)
        return members_refuse(e, name, "a part of its name is longer than 255 bytes");
    if (out->n)
        buf_addc(out, '/');
    if (!buf_add(out, part.p, part.n))
        return members_refuse(e, name, "its name is too long");
    return 0;
}

int members_path(struct members *m, const char *name, char **out, struct err *e)
{
    AUTO(buf) struct buf path = {0};
    struct str rest = str_of(name);
    const char *top = m->top;
    unsigned depth = 0;

    buf_init(&path, PATH_MAX - 1);
    if (!rest.n)
        return err_set(e, ERR_INVALID, "a member without a name is refused");
    if (name[0] == '/')
        return members_refuse(e, name, "its name is absolute");
    while (rest.n > 0) {
        struct str part = str_cut(rest, '/', &rest);
        if (part.n == 0 || str_eq_c(part, "."))
            continue;
        if (++depth > m->limits.depth)
            return members_refuse(e, name, "it is in too many directories");
        if (top && !str_eq_c(part, top) && !str_eq_c(part, ".."))
            return err_set(e, ERR_INVALID,
                           "member '%.*s' is refused: everything must be in the directory '%.60s'",
                           SHOWN, name, top);
        if (top && str_eq_c(part, top)) {
            top = NULL;
            continue;
        }
        if (add_part(&path, part, name, e) < 0)
            return -1;
    }
    *out = buf_take(&path, NULL);
    return 0;
}

/* Every member counts against the limit, also directories that only stand in a name. */
static struct member *members_enter(struct members *m, struct str path, char type, struct err *e)
{
    if (++m->entries > m->limits.members) {
        err_set(e, ERR_LIMIT, "the archive has more than %lld members",
                (long long)m->limits.members);
        return NULL;
    }
    struct member *new = xcalloc(1, sizeof(*new));
    *new = (struct member){.type = type, .mode = 0755, .path = xstrndup(path.p, path.n)};
    vec_push(&m->list, new);
    map_str_put(&m->by_path, path, new);
    return new;
}

/* The directories above `path`; one that is a file or a link is a trick. */
static int enter_parents(struct members *m, struct unpack_target *t, const char *path,
                         struct err *e)
{
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        struct str above = {path, (size_t)(slash - path)};
        struct member *there = map_str_get(&m->by_path, above);
        if (there && there->type == 'd')
            continue;
        if (there)
            return members_refuse(e, path,
                                  there->type == 'l' ? "its name leads through a link"
                                                     : "its name leads through a file");
        if (!(there = members_enter(m, above, 'd', e)) || t->dir(t, there->path, e) < 0)
            return -1;
    }
    return 0;
}

/* A directory may be named twice; any other name may appear only once. */
struct member *members_add(struct members *m, struct unpack_target *t, const char *path, char type,
                           struct err *e)
{
    struct member *there = map_str_get(&m->by_path, str_of(path));

    if (there && there->type == 'd' && type == 'd') {
        if (++m->entries <= m->limits.members)
            return there;
        err_set(e, ERR_LIMIT, "the archive has more than %lld members",
                (long long)m->limits.members);
        return NULL;
    }
    if (there || !*path) {
        members_refuse(e, *path ? path : ".", "there are two of this name");
        return NULL;
    }
    if (enter_parents(m, t, path, e) < 0)
        return NULL;
    return members_enter(m, str_of(path), type, e);
}

/* `..` may stand at the start only: the directory of the link is a real one, so there it means what
 * it says.  After a name it would not, if that name were a link: "a/b/up" → "../..", then
 * "out" → "a/b/up/..". */
int members_check_link(const struct members *m, const char *path, const char *to, struct err *e)
{
    struct str rest = str_of(to);
    int above = 0;
    bool named = false;

    if (!rest.n)
        return members_refuse(e, path, "it is a link to nothing");
    if (rest.n >= PATH_MAX)
        return members_refuse(e, path, "the target of this link is too long");
    if (m->outside_links)
        return 0;
    for (const char *c = path; *c; c++)
        above += *c == '/';
    while (rest.n > 0) {
        struct str part = str_cut(rest, '/', &rest);
        bool up = str_eq_c(part, "..");
        if (to[0] == '/' || (up && (named || --above < 0)))
            return members_refuse(e, path, "it is a link out of the tree");
        named |= !up && part.n > 0 && !str_eq_c(part, ".");
    }
    return 0;
}

/* The limits are compared by subtraction, because a sum could overflow. */
int members_count_bytes(struct members *m, const char *path, int64_t size, struct err *e)
{
    char limit[UNIT_TEXT_MAX];

    if (size < 0)
        return members_refuse(e, path, "its size is negative");
    if (size > m->limits.file_bytes) {
        size_format(m->limits.file_bytes, limit);
        return err_set(e, ERR_LIMIT, "member '%.*s' is larger than the limit of %s", SHOWN, path,
                       limit);
    }
    if (size > m->limits.total_bytes - m->bytes) {
        size_format(m->limits.total_bytes, limit);
        return err_set(e, ERR_LIMIT, "the unpacked archive is larger than the limit of %s", limit);
    }
    m->bytes += size;
    return 0;
}
