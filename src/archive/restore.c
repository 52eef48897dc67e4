/* restore.c - the files of a backup, back in a home
 *
 * Nothing is deleted: what is replaced is renamed into a directory of the home, under the name it
 * had.  A file that the home has as it was is left alone, so a restore into the home that the
 * backup was taken of moves little.  Files of runs that have gone on since are left alone too:
 * their supervisors write to them, or they are longer than those in the backup.
 *
 * The directory of a run belongs to its user, who may replace directories by links while this
 * runs, perhaps with the rights of root.  So each entry is touched through a descriptor of the
 * directory that holds it, which was opened below the home without following links.
 */
#include "archive/backup_priv.h"
#include "archive/cas_priv.h"
#include "archive/walk_priv.h"
#include "base/file.h"
#include "base/user_rights.h"
#include "base/util.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

struct restoring {
    const struct restore_conf *conf;
    struct watch watch;
    struct backup_list list;
    int home;
    int beside[BACKUP_PLACES_MAX]; /* the roots of the places of the list, in its order; -1 = none
                                    */
    int parent; /* the directory of the home that was asked for last, -1 = it is not there */
    char *parent_path;
    bool has_journals; /* the home's own know more than those of the backup */
    struct restore_tally tally;
};

int restore_set_aside(int dir, const char *name, const char *aside, const char *path,
                      int64_t *count, struct err *e)
{
    AUTO_FREE char *to = path_join(aside, path), *above = xstrdup(to);
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    *strrchr(above, '/') = '\0';
    if (dir_make_all(above, 0700, e) < 0)
        return -1;
    if (renameat2(dir, name, AT_FDCWD, to, RENAME_NOREPLACE) < 0)
        return err_sys(e, "cannot set %s aside to %s", path, to);
    ++*count;
    return 0;
}

/* The directory below which `path` of the backup belongs, and its path there; NULL = nowhere. */
static const char *base_of(const struct restoring *r, const char *path, int *base)
{
    size_t skip = strlen(BACKUP_BESIDE "/"), i = 0;

    *base = r->home;
    if (strncmp(path, BACKUP_BESIDE "/", skip) != 0)
        return path;
    for (struct json_it it = {0}; i < BACKUP_PLACES_MAX && json_next(r->list.beside, &it); i++) {
        size_t n = strlen(it.key);
        if (strncmp(path + skip, it.key, n) != 0 || path[skip + n] != '/')
            continue;
        *base = r->beside[i];
        return *base < 0 ? NULL : path + skip + n + 1;
    }
    return NULL;
}

/* The directory of the home that holds `path`, and the name there; -1 = there is none, or a link is
 * in the way. */
static int parent_of(struct restoring *r, const char *path, const char **name)
{
    int base;
    const char *below = base_of(r, path, &base), *slash = below ? strrchr(below, '/') : NULL;
    AUTO_FREE char *above = xstrndup(path, slash ? (size_t)(slash - path) : 0);
    struct err ignored;

    *name = slash ? slash + 1 : below ? below : path;
    if (!slash)
        return below ? base : -1;
    if (r->parent >= 0 && !strcmp(above, r->parent_path))
        return r->parent;
    if (r->parent >= 0)
        close(r->parent);
    free(r->parent_path);
    r->parent_path = TAKE(above);
    r->parent = base < 0 ? -1
                         : user_open_beneath(base, r->parent_path + (below - path),
                                             O_PATH | O_DIRECTORY, &ignored);
    return r->parent;
}

/* Is there anything of this name in the home? */
static bool home_stat(struct restoring *r, const char *path, struct stat *st)
{
    const char *name;
    int dir = parent_of(r, path, &name);

    return dir >= 0 && fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int make_room(struct restoring *r, int dir, const char *name, const char *path,
                     struct err *e)
{
    if (r->conf->dry_run) {
        struct stat st;
        r->tally.set_aside += dir >= 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        return 0;
    }
    return restore_set_aside(dir, name, r->conf->aside, path, &r->tally.set_aside, e);
}

static void compare_with_list(struct restoring *r, const struct walk_entry *w)
{
    struct backup_entry *x = backup_list_get(&r->list, w->path);

    if (!x)
        return;
    x->seen = true;
    if (x->size == w->st.st_size && x->mtime_ns == stat_mtime_ns(&w->st))
        return;
    r->tally.altered++;
    watch_warn(&r->watch, "%s was written to after the backup was made", w->path);
}

/* A file that was linked out of the home is linked back; any other gets its own copy, so that the
 * backup stays as it is when the home goes on. */
static int put_file(struct restoring *r, const struct walk_entry *w, int dir, const char *name,
                    struct err *e)
{
    const struct backup_entry *x = backup_list_get(&r->list, w->path);
    enum backup_how how;
    int64_t bytes = w->st.st_size;

    if (!r->conf->dry_run &&
        !(x && x->how == BACKUP_LINK && linkat(w->dir, w->name, dir, name, 0) == 0) &&
        backup_copy_in(w->dir, w->name, dir, name, &how, &bytes, e) < 0)
        return -1;
    r->tally.restored++;
    r->tally.restored_bytes += bytes;
    return watch_add(&r->watch, bytes, 1, e);
}

static bool link_is_same(struct restoring *r, const struct walk_entry *w)
{
    char a[4096], b[4096];
    const char *name;
    ssize_t n = readlinkat(w->dir, w->name, a, sizeof(a));
    int dir = parent_of(r, w->path, &name);

    return n >= 0 && readlinkat(dir, name, b, sizeof(b)) == n && !memcmp(a, b, (size_t)n);
}

static bool home_has_it(struct restoring *r, const struct walk_entry *w)
{
    struct stat st;

    if (!home_stat(r, w->path, &st))
        return false;
    if (S_ISLNK(w->st.st_mode))
        return S_ISLNK(st.st_mode) && link_is_same(r, w);
    return S_ISREG(st.st_mode) && st.st_size == w->st.st_size &&
           stat_mtime_ns(&st) == stat_mtime_ns(&w->st);
}

/* Beside the home nothing tells which job writes a file, so one that was written to since the
 * backup is kept. */
static bool is_kept_beside(struct restoring *r, const struct walk_entry *w)
{
    struct stat st;
    int base;

    if (!base_of(r, w->path, &base))
        return true; /* beside/ and beside/NAME/, or a place that this home has not */
    if (S_ISDIR(w->st.st_mode) || !home_stat(r, w->path, &st) ||
        stat_mtime_ns(&st) <= stat_mtime_ns(&w->st))
        return false;
    r->tally.kept++;
    return true;
}

/* May the entry stay as the home has it, or stay away? */
static bool is_not_ours(struct restoring *r, const struct walk_entry *w)
{
    uint64_t job;
    uint32_t run;
    const char *rest;
    struct stat st;

    if (!strcmp(w->path, BACKUP_BESIDE) || !strncmp(w->path, BACKUP_BESIDE "/", 7))
        return is_kept_beside(r, w);
    if (r->has_journals && !strncmp(w->path, "shepherd/", 9))
        return true;
    if (!backup_run_of(w->path, &job, &run, &rest))
        return false;
    switch (r->conf->run(r->conf->arg, job, run)) {
    case RESTORE_RUN_UNKNOWN: /* it was submitted between the copy of the database and this one */
        return true;
    case RESTORE_RUN_KEEP:
        if (!home_stat(r, w->path, &st))
            return false;
        r->tally.kept += !S_ISDIR(w->st.st_mode);
        return true;
    case RESTORE_RUN:
        break;
    }
    return false;
}

static int put_dir(struct restoring *r, const struct walk_entry *w, int dir, const char *name,
                   struct err *e)
{
    struct stat st;

    if (home_stat(r, w->path, &st) && !S_ISDIR(st.st_mode) &&
        make_room(r, dir, name, w->path, e) < 0)
        return -1;
    return r->conf->dry_run ? 0 : backup_make_dir(dir, name, &w->st, e);
}

static int put_entry(struct restoring *r, const struct walk_entry *w, struct err *e)
{
    const char *name;

    if (!strcmp(w->path, BACKUP_MANIFEST) || !strcmp(w->path, BACKUP_DATABASE) || !*w->path)
        return 0;
    if (S_ISREG(w->st.st_mode))
        compare_with_list(r, w);
    if (is_not_ours(r, w))
        return 0;
    int dir = parent_of(r, w->path, &name);
    if (dir < 0 && !r->conf->dry_run)
        return err_set(e, ERR_CONFLICT, "the directory of %s in %s is none any more; repeat",
                       w->path, r->conf->home);
    if (S_ISDIR(w->st.st_mode))
        return put_dir(r, w, dir, name, e);
    if (home_has_it(r, w)) {
        r->tally.unchanged++;
        return 0;
    }
    if (!strcmp(w->path, "secret"))
        r->tally.secret_changed = dir >= 0 && faccessat(dir, name, F_OK, 0) == 0;
    if (make_room(r, dir, name, w->path, e) < 0)
        return -1;
    if (S_ISREG(w->st.st_mode))
        return put_file(r, w, dir, name, e);
    r->tally.restored++;
    return r->conf->dry_run ? 0 : backup_copy_link(w->dir, w->name, dir, name, e);
}

/* Files of jobs that the restored database does not know: newer jobs, whose numbers are not used
 * again. */
static int set_newer_aside(struct restoring *r, const struct walk_entry *w, struct walk *k,
                           struct err *e)
{
    AUTO_FREE char *path = xasprintf("runs/%s", w->path);
    uint64_t job;
    uint32_t run;
    const char *rest;

    if (!backup_run_of(path, &job, &run, &rest))
        return 0;
    if (S_ISDIR(w->st.st_mode))
        walk_skip(k);
    if (r->conf->run(r->conf->arg, job, run) != RESTORE_RUN_UNKNOWN)
        return 0;
    return make_room(r, w->dir, w->name, path, e);
}

typedef int visit_fn(struct restoring *r, const struct walk_entry *w, struct walk *k,
                     struct err *e);

static int visit_backup(struct restoring *r, const struct walk_entry *w, struct walk *k,
                        struct err *e)
{
    (void)k;
    return put_entry(r, w, e);
}

static int visit_all(struct restoring *r, const char *dir, visit_fn *fn, struct err *e)
{
    struct walk *k = NULL;
    struct walk_entry w;
    int got = 1, rc = walk_open(dir, NULL, &r->watch, &k, e);

    while (rc == 0 && got > 0) {
        got = walk_next(k, &w, e);
        rc = got > 0 ? fn(r, &w, k, e) : got;
    }
    walk_free(k);
    return rc;
}

static bool home_has_journals(int home)
{
    int list = openat(home, "shepherd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = list < 0 ? NULL : fdopendir(list);
    struct dirent *x;
    bool found = false;

    while (d && !found && (x = readdir(d)))
        found = !strncmp(x->d_name, "journal-", 8);
    if (d)
        closedir(d);
    return found;
}

static void count_missing(struct restoring *r)
{
    struct str path;
    void *val;

    for (size_t it = 0; map_str_next(&r->list.by_path, &it, &path, &val);) {
        const struct backup_entry *x = val;
        if (x->seen)
            continue;
        r->tally.missing++;
        watch_warn(&r->watch, STR_FMT " is missing in the backup", STR_ARG(path));
    }
}

/* A place is found by the way from its root to the home: the home must be there in it. */
static void open_beside(struct restoring *r)
{
    AUTO_FREE char *home = realpath(r->conf->home, NULL);
    const char *path = home ? home : r->conf->home;
    size_t i = 0;

    for (struct json_it it = {0}; i < BACKUP_PLACES_MAX && json_next(r->list.beside, &it); i++) {
        struct str tail = json_str(it.val);
        size_t n = strlen(path);
        bool fits = n > tail.n + 1 && path[n - tail.n - 1] == '/' &&
                    !memcmp(path + n - tail.n, tail.p, tail.n);
        AUTO_FREE char *root = xstrndup(path, fits ? n - tail.n - 1 : 0);
        r->beside[i] = fits ? open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        if (!fits)
            watch_warn(&r->watch,
                       "%s/" BACKUP_BESIDE "/%s is not restored: it belongs to a home DIR/" STR_FMT
                       "; restore with --to DIR/" STR_FMT,
                       r->conf->backup, it.key, STR_ARG(tail), STR_ARG(tail));
    }
}

static int sync_restored(const struct restoring *r, struct err *e)
{
    if (syncfs(r->home) < 0)
        return err_sys(e, "cannot sync %s", r->conf->home);
    for (size_t i = 0; i < BACKUP_PLACES_MAX; i++)
        if (r->beside[i] >= 0 && syncfs(r->beside[i]) < 0)
            return err_sys(e, "cannot sync what lies beside %s", r->conf->home);
    return 0;
}

static void restoring_done(struct restoring *r)
{
    backup_list_done(&r->list);
    if (r->parent >= 0)
        close(r->parent);
    for (size_t i = 0; i < BACKUP_PLACES_MAX; i++)
        if (r->beside[i] >= 0)
            close(r->beside[i]);
    free(r->parent_path);
}

int restore_files(const struct restore_conf *conf, struct restore_tally *out, struct err *e)
{
    struct restoring r = {.conf = conf, .parent = -1};
    AUTO_FREE char *runs = path_join(conf->home, "runs");
    AUTO_FD home = open(conf->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (home < 0 && !(conf->dry_run && errno == ENOENT))
        return err_sys(e, "cannot open the home %s", conf->home);
    r.home = home;
    memset(r.beside, -1, sizeof(r.beside));
    watch_init(&r.watch, conf->watch);
    r.has_journals = home >= 0 && home_has_journals(home);
    int rc = backup_list_read(&r.list, conf->backup, e);
    if (rc == 0)
        open_beside(&r);
    if (rc == 0 && access(runs, F_OK) == 0)
        rc = visit_all(&r, runs, set_newer_aside, e);
    if (rc == 0)
        rc = visit_all(&r, conf->backup, visit_backup, e);
    if (rc == 0 && !conf->dry_run)
        rc = sync_restored(&r, e);
    if (rc == 0)
        count_missing(&r);
    restoring_done(&r);
    *out = r.tally;
    return rc;
}
