/* pack_parts.c - the parts of a bundle as one sequence of entries
 *
 * When two parts bring one name, the later part wins.  So an entry of a tree is left out, with all
 * below it, when a later part is a file of that name or has something else than a directory there.
 * Directories are written once, before what is in them, also those that only stand in a name.
 */
#include "archive/contents_priv.h"
#include "archive/pack_priv.h"
#include "archive/walk_priv.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/map.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <time.h>

struct parts {
    struct pack_source source;
    struct bundle b;
    struct bundle_part *list;
    char *top;
    size_t at; /* the part under way */
    struct walk *walk;
    struct walk_entry held; /* waits until the directories above it are out */
    bool holding;
    struct map_str dirs; /* directories that are out; the value says nothing */
    struct buf path;     /* of the item given out */
    char *under;         /* path in the tar whose parents are still to come */
    char link[PATH_MAX];
};

/* A part may not leave the top directory of the bundle. */
static bool parts_name_ok(const char *name)
{
    struct str rest = str_of(name);

    while (rest.n > 0) {
        struct str part = str_cut(rest, '/', &rest);
        if (part.n == 0 || str_eq_c(part, ".") || str_eq_c(part, ".."))
            return false;
    }
    return name[0] != '/';
}

/* "job_source" + "a/b" → "job_source/a/b"; either may be empty */
static char *parts_join(const char *a, const char *b)
{
    return xasprintf("%s%s%s", a, *a && *b ? "/" : "", b);
}

/* What path is inside a tree that is placed at `name`, or NULL when it is not. */
static const char *parts_inside(const char *name, const char *path)
{
    size_t n = strlen(name);

    if (n == 0)
        return path;
    if (strncmp(path, name, n) != 0 || (path[n] != '/' && path[n] != '\0'))
        return NULL;
    return path[n] ? path + n + 1 : path + n;
}

/* Does a later tree bring this path?  Two directories of one name are merged, not replaced. */
static bool tree_replaces(const struct bundle_part *part, const char *path, bool is_dir)
{
    const char *rest = parts_inside(part->name, path);
    struct stat st;

    if (!rest || !*rest)
        return false;
    AUTO_FREE char *full = path_join(part->tree, rest);
    if (lstat(full, &st) < 0 || ignore_covers(part->ignore, rest, S_ISDIR(st.st_mode)))
        return false;
    return !(is_dir && S_ISDIR(st.st_mode));
}

static bool replaced_later(const struct parts *s, const char *path, bool is_dir)
{
    for (size_t i = s->at + 1; i < s->b.count; i++) {
        const struct bundle_part *later = &s->list[i];
        if (later->tree ? tree_replaces(later, path, is_dir) : strcmp(later->name, path) == 0)
            return true;
    }
    return false;
}

/* Gives out the path below the top; the buffer is the item's. */
static const char *in_tar(struct parts *s, const char *path, size_t n)
{
    buf_reset(&s->path);
    buf_adds(&s->path, s->top);
    if (n) {
        buf_addc(&s->path, '/');
        buf_add(&s->path, path, n);
    }
    return s->path.p;
}

static void dir_item(struct parts *s, struct str path, mode_t mode, int64_t mtime_s,
                     struct pack_item *out)
{
    map_str_put(&s->dirs, path, s);
    *out = (struct pack_item){.path = in_tar(s, path.p, path.n),
                              .mode = S_IFDIR | (mode & 0777),
                              .mtime_s = mtime_s,
                              .fd = -1};
}

/* The first directory above s->under that is not out yet. */
static bool next_parent(struct parts *s, struct pack_item *out)
{
    if (!map_str_get(&s->dirs, STR(""))) {
        dir_item(s, STR(""), 0755, s->b.wall_s, out);
        return true;
    }
    for (const char *slash = strchr(s->under, '/'); slash; slash = strchr(slash + 1, '/')) {
        struct str path = {s->under, (size_t)(slash - s->under)};
        if (map_str_get(&s->dirs, path))
            continue;
        dir_item(s, path, 0755, s->b.wall_s, out);
        return true;
    }
    return false;
}

/* 1 = the item is complete, 0 = the file is left out with a warning.  A content that the receiver
 * has is named by its hash, and its file is not read. */
static int open_file(struct parts *s, const struct walk_entry *at, struct pack_item *out,
                     struct watch *w)
{
    AUTO_FD fd = openat(at->dir, at->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        watch_warn(w, "%s is left out: %s", s->under,
                   errno == ENOENT ? "it vanished meanwhile" : strerror(errno));
        return 0;
    }
    if (!S_ISREG(st.st_mode)) {
        watch_warn(w, "%s is left out: it was replaced by something else meanwhile", s->under);
        return 0;
    }
    out->mtime_s = st.st_mtime;
    out->content = contents_find(s->b.contents, &st);
    if (!out->content) {
        out->size = st.st_size;
        out->fd = TAKE_FD(fd);
    }
    return 1;
}

/* An entry of a tree as an item; 0 = it is not there any more. */
static int tree_item(struct parts *s, const struct walk_entry *at, struct pack_item *out,
                     struct watch *w)
{
    if (S_ISDIR(at->st.st_mode)) {
        if (map_str_get(&s->dirs, str_of(s->under)))
            return 0;
        dir_item(s, str_of(s->under), at->st.st_mode, at->st.st_mtime, out);
        return 1;
    }
    *out = (struct pack_item){.path = in_tar(s, s->under, strlen(s->under)),
                              .mode = at->st.st_mode & (S_IFMT | 0777),
                              .mtime_s = at->st.st_mtime,
                              .fd = -1};
    if (S_ISREG(at->st.st_mode))
        return open_file(s, at, out, w);
    ssize_t n = readlinkat(at->dir, at->name, s->link, sizeof(s->link) - 1);
    if (n < 0) {
        watch_warn(w, "%s is left out: %s", s->under, strerror(errno));
        return 0;
    }
    s->link[n] = '\0';
    out->link = s->link;
    return 1;
}

/* Advances the walk to the next entry that is to be in the bundle; 0 = the tree is done. */
static int hold_next(struct parts *s, struct err *e)
{
    const char *name = s->list[s->at].name;

    for (;;) {
        int rc = walk_next(s->walk, &s->held, e);
        if (rc <= 0)
            return rc;
        bool is_dir = S_ISDIR(s->held.st.st_mode);
        free(s->under);
        s->under = parts_join(name, s->held.path);
        if (!*s->under || !replaced_later(s, s->under, is_dir)) {
            s->holding = true;
            return 1;
        }
        if (is_dir)
            walk_skip(s->walk);
    }
}

/* 1 = an item, 0 = nothing came of it, go on, -1 */
static int next_of_tree(struct parts *s, struct pack_item *out, struct watch *w, struct err *e)
{
    const struct bundle_part *part = &s->list[s->at];

    if (!s->walk && walk_open(part->tree, part->ignore, w, &s->walk, e) < 0)
        return -1;
    if (!s->holding) {
        int rc = hold_next(s, e);
        if (rc < 0)
            return -1;
        if (rc == 0) {
            walk_free(TAKE(s->walk));
            s->at++;
            return 0;
        }
    }
    bool root = !*s->under && S_ISDIR(s->held.st.st_mode);
    if (!root && next_parent(s, out))
        return 1;
    s->holding = false;
    return tree_item(s, &s->held, out, w);
}

/* A part that is bytes.  The directories above it come first, one for each call. */
static int next_of_bytes(struct parts *s, struct pack_item *out)
{
    const struct bundle_part *part = &s->list[s->at];

    free(s->under);
    s->under = xstrdup(part->name);
    if (next_parent(s, out))
        return 1;
    bool replaced = replaced_later(s, part->name, false);
    s->at++;
    if (replaced)
        return 0;
    *out = (struct pack_item){.path = in_tar(s, part->name, strlen(part->name)),
                              .mode = S_IFREG | ((part->mode ? part->mode : 0644) & 0777),
                              .mtime_s = s->b.wall_s,
                              .size = (int64_t)part->bytes.n,
                              .fd = -1,
                              .bytes = part->bytes.p};
    return 1;
}

static int parts_next(struct pack_source *source, struct pack_item *out, struct watch *w,
                      struct err *e)
{
    struct parts *s = (struct parts *)source;

    while (s->at < s->b.count) {
        int rc = s->list[s->at].tree ? next_of_tree(s, out, w, e) : next_of_bytes(s, out);
        if (rc != 0)
            return rc;
        if (watch_add(w, 0, 0, e) < 0)
            return -1;
    }
    return 0;
}

static void pack_parts_free(struct pack_source *source)
{
    struct parts *s = (struct parts *)source;

    walk_free(s->walk);
    map_str_done(&s->dirs);
    buf_done(&s->path);
    for (size_t i = 0; i < s->b.count; i++) {
        free((char *)(uintptr_t)s->list[i].name);
        free((char *)(uintptr_t)s->list[i].tree);
    }
    free(s->list);
    free(s->under);
    free(s->top);
    free(s);
}

struct pack_source *pack_parts_new(const struct bundle *b, struct err *e)
{
    if (!*b->top || !parts_name_ok(b->top)) {
        err_set(e, ERR_INVALID, "'%s' cannot be the top directory of a bundle", b->top);
        return NULL;
    }
    for (size_t i = 0; i < b->count; i++) {
        if (!parts_name_ok(b->parts[i].name) || (!b->parts[i].tree && !*b->parts[i].name)) {
            err_set(e, ERR_INVALID, "'%s' cannot be a name in a bundle", b->parts[i].name);
            return NULL;
        }
    }
    struct parts *s = xcalloc(1, sizeof(*s));
    s->source = (struct pack_source){parts_next, pack_parts_free};
    s->b = *b;
    s->top = xstrdup(b->top);
    s->list = xcalloc(b->count + 1, sizeof(*s->list));
    for (size_t i = 0; i < b->count; i++) {
        s->list[i] = b->parts[i];
        s->list[i].name = xstrdup(b->parts[i].name);
        s->list[i].tree = xstrdup(b->parts[i].tree);
    }
    if (!s->b.wall_s)
        s->b.wall_s = time(NULL);
    buf_init(&s->path, 1 << 20);
    return &s->source;
}
