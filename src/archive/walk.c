/* walk.c - a directory tree, entry by entry
 *
 * Holds one descriptor for each level it is in, so that nothing outside can be reached by moving
 * directories about while it walks.  Levels beyond WALK_DEPTH are left out with a warning: jobs
 * can make trees deeper than there are descriptors.
 */
#include "archive/walk_priv.h"
#include "base/buf.h"
#include "base/util.h"
#include "base/vec.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

enum { WALK_DEPTH = 128 };

struct level {
    int fd;
    char **names;
    size_t count, at;
    size_t path_n; /* length of the path of this directory, with the `/` behind it */
};
struct walk {
    const struct ignore *ig;
    struct watch *watch;
    char *root;
    struct buf path;
    VEC(struct level) levels;
    bool started, enter; /* the next entry is in the directory just given */
    int64_t left_out;
    struct walk_entry last;
};

/* Names are sorted by bytes, so that equal directories give equal archives in every locale. */
static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void level_done(struct level *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->names[i]);
    free(l->names);
    if (l->fd >= 0)
        close(l->fd);
}

static int walk_read_names(int fd, struct level *out)
{
    VEC(char *) names = {0};
    DIR *d = fdopendir(fd);
    struct dirent *entry;

    if (!d) {
        close(fd);
        return -1;
    }
    while (errno = 0, (entry = readdir(d)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            vec_push(&names, xstrdup(entry->d_name));
    int why = errno;
    closedir(d);
    if (names.n)
        qsort(names.p, names.n, sizeof(char *), by_bytes);
    out->names = names.p;
    out->count = names.n;
    errno = why;
    return why ? -1 : 0;
}

/* The descriptor for openat stays apart from the one that lists: fdopendir takes its own. */
static int push_level(struct walk *k, int dir, const char *name)
{
    struct level l = {.fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};

    if (l.fd < 0)
        return -1;
    int list = openat(l.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (list < 0 || walk_read_names(list, &l) < 0) {
        int why = errno;
        level_done(&l);
        errno = why;
        return -1;
    }
    if (k->path.n)
        buf_addc(&k->path, '/');
    l.path_n = k->path.n;
    vec_push(&k->levels, l);
    return 0;
}

static void walk_warn_left_out(struct walk *k, const char *why)
{
    k->left_out++;
    watch_warn(k->watch, "%s/%s is left out: %s", k->root, k->path.p ? k->path.p : "", why);
}

int walk_open(const char *dir, const struct ignore *ig, struct watch *w, struct walk **out,
              struct err *e)
{
    AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_sys(e, "cannot read directory %s", dir);
    struct walk *k = xcalloc(1, sizeof(*k));
    k->ig = ig;
    k->watch = w;
    k->root = xstrdup(dir);
    buf_init(&k->path, 1 << 20);
    k->last = (struct walk_entry){.path = "", .dir = AT_FDCWD, .name = k->root};
    bool read = fstat(fd, &k->last.st) == 0 && push_level(k, fd, ".") == 0;
    return HAND_OUT(read ? 0 : err_sys(e, "cannot read directory %s", dir), out, k, walk_free);
}

void walk_free(struct walk *k)
{
    if (!k)
        return;
    vec_done_each(&k->levels, level_done);
    buf_done(&k->path);
    free(k->root);
    free(k);
}

/* The name of a file type that archives leave out; NULL for files, directories and links. */
static const char *odd_type(mode_t mode)
{
    if (S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode))
        return NULL;
    return S_ISSOCK(mode) ? "it is a socket" : S_ISFIFO(mode) ? "it is a pipe" : "it is a device";
}

/* Is the entry one to give out?  k->path names it. */
static bool walk_visit(struct walk *k, int dir, const char *name)
{
    struct stat *st = &k->last.st;

    if (fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) < 0) {
        walk_warn_left_out(k, errno == ENOENT ? "it vanished meanwhile" : strerror(errno));
        return false;
    }
    if (ignore_match(k->ig, k->path.p, S_ISDIR(st->st_mode)))
        return false;
    const char *odd = odd_type(st->st_mode);
    if (odd)
        walk_warn_left_out(k, odd);
    return !odd;
}

/* A directory that cannot be entered is reported and left out; the walk goes on. */
static void enter_last(struct walk *k)
{
    if (k->levels.n >= WALK_DEPTH)
        walk_warn_left_out(k, "what is in it is more than 128 directories deep");
    else if (push_level(k, k->last.dir, k->last.name) < 0)
        walk_warn_left_out(k, strerror(errno));
}

static void cut_path(struct walk *k, size_t n)
{
    k->path.n = n;
    if (k->path.p)
        k->path.p[n] = '\0';
}

int walk_next(struct walk *k, struct walk_entry *out, struct err *e)
{
    if (!k->started) {
        k->started = true;
        *out = k->last;
        return 1;
    }
    if (k->enter)
        enter_last(k);
    k->enter = false;
    while (k->levels.n > 0) {
        struct level *l = &vec_last(&k->levels);
        if (l->at == l->count) {
            level_done(l);
            k->levels.n--;
            continue;
        }
        const char *name = l->names[l->at++];
        cut_path(k, l->path_n);
        if (!buf_adds(&k->path, name))
            return err_set(e, ERR_LIMIT, "a path below %s is too long", k->root);
        if (!walk_visit(k, l->fd, name))
            continue;
        k->last.dir = l->fd;
        k->last.name = name;
        k->last.path = k->path.p;
        k->enter = S_ISDIR(k->last.st.st_mode);
        *out = k->last;
        return 1;
    }
    return 0;
}

void walk_skip(struct walk *k)
{
    k->enter = false;
    if (k->levels.n == 1 && !k->path.n) // the root itself
        k->levels.p[0].at = k->levels.p[0].count;
}

int64_t walk_left_out(const struct walk *k)
{
    return k->left_out;
}
