/* backup.c - a complete copy of a home, while jobs run
 *
 * The database is copied first, the files after it, the journals among them: so every run that the
 * copy knows has its files at least as far as the copy knows, and every outcome that came after
 * the copy is in the journals.  Files of runs under way are copied as long as they were when they
 * were opened.
 *
 * The copy is made under a temporary name, synced, and renamed.  A lock on the backup directory
 * keeps two backups apart; what a crashed one left is removed by the next.
 */
#include "archive/backup_priv.h"
#include "archive/cas_priv.h"
#include "archive/walk_priv.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/util.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

#define PART_PREFIX ".part-"
enum { MANIFEST_FLUSH = 1 << 20, NAMES_TRIED = 100 };

/* What a home has and a copy needs not: sockets, locks, the log of the daemon, the database, which
 * is copied by its own means, what earlier restores replaced, and work under way in content
 * stores. */
static const char left_out[] =
    "/sock\n/door/\n/log\n/daemon.lock\n/berth.db\n/berth.db-*\n"
    "/" RESTORE_ASIDE "*\n/.restore-*\n/.export-*\n/.import-*\n/shepherd/*\n"
    "!/shepherd/journal-*\n/snapshots/*/tmp/\n/snapshots/*/known/\n";

struct taking {
    const struct backup_conf *conf;
    struct watch watch;
    int to, prev; /* the new copy; the one before, -1 = none */
    int manifest;
    struct backup_list known; /* what the one before has */
    struct buf lines;
    bool no_links; /* another file system */
    /* The place that is being taken, NULL = the home; and its path in the copy. */
    const struct backup_place *place;
    const char *above;
    /* The run asked about last. */
    uint64_t job;
    uint32_t run;
    bool ended;
    struct backup_tally tally;
};

static bool run_ended(struct taking *t, uint64_t job, uint32_t run)
{
    if (t->job != job || t->run != run) {
        t->ended = t->conf->ended(t->conf->arg, job, run);
        t->job = job;
        t->run = run;
    }
    return t->ended;
}

/* Will nobody write to this file any more?  Contents and trees of the content store are replaced,
 * never changed.  A supervisor closes the log of its run before it records the end.  Artifacts are
 * results that the run has reported.  Anything else in the directory of a run is the user's, who
 * may go on working there. */
static bool file_is_settled(struct taking *t, const char *path)
{
    uint64_t job;
    uint32_t run;
    const char *rest;

    if (t->place)
        return t->place->settled(path + strlen(BACKUP_BESIDE "/") + strlen(t->place->name) + 1);
    if (!strncmp(path, "snapshots/", 10))
        return strstr(path, "/blobs/") || strstr(path, "/trees/");
    if (!backup_run_of(path, &job, &run, &rest))
        return false;
    return (!*rest || !strncmp(rest, "artifacts/", 10)) && run_ended(t, job, run);
}

/* A hard link to the copy before, when the file is as it was.  With `copy`, not to one that is
 * itself a link to the home. */
static bool take_previous(struct taking *t, const char *path, const struct stat *st,
                          struct backup_entry *x)
{
    const struct backup_entry *old = t->prev >= 0 ? backup_list_get(&t->known, path) : NULL;
    struct stat copy;

    if (!old || old->inode != st->st_ino || old->size != st->st_size ||
        old->mtime_ns != x->mtime_ns || (t->conf->copy && old->how == BACKUP_LINK))
        return false;
    if (fstatat(t->prev, path, &copy, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(copy.st_mode) ||
        copy.st_size != st->st_size || stat_mtime_ns(&copy) != x->mtime_ns)
        return false; /* somebody changed the copy */
    if (linkat(t->prev, path, t->to, path, 0) < 0)
        return false;
    x->how = old->how;
    t->tally.previous++;
    return true;
}

static bool take_link(struct taking *t, const struct walk_entry *w, struct backup_entry *x)
{
    struct stat got;

    if (t->conf->copy || t->no_links || !file_is_settled(t, w->path))
        return false;
    if (linkat(w->dir, w->name, t->to, w->path, 0) < 0) {
        if (errno == EXDEV)
            t->no_links = true;
        return false;
    }
    /* The name may have come to mean something else since it was looked at. */
    if (fstatat(t->to, w->path, &got, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(got.st_mode) ||
        got.st_ino != w->st.st_ino) {
        unlinkat(t->to, w->path, 0);
        return false;
    }
    x->how = BACKUP_LINK;
    t->tally.linked++;
    return true;
}

static int take_copy(struct taking *t, const struct walk_entry *w, struct backup_entry *x,
                     struct err *e)
{
    if (backup_copy_in(w->dir, w->name, t->to, w->path, &x->how, &x->size, e) < 0)
        return -1;
    if (x->how == BACKUP_CLONE)
        t->tally.cloned++;
    else
        t->tally.copied++;
    t->tally.copied_bytes += x->how == BACKUP_COPY ? x->size : 0;
    return 0;
}

static int flush_lines(struct taking *t, struct err *e)
{
    int rc = fd_write_all(t->manifest, t->lines.p ? t->lines.p : "", t->lines.n, e);

    buf_reset(&t->lines);
    return rc;
}

static int take_file(struct taking *t, const struct walk_entry *w, struct err *e)
{
    struct backup_entry x = {
        .inode = w->st.st_ino, .size = w->st.st_size, .mtime_ns = stat_mtime_ns(&w->st)};

    fault_sleep("BERTH_FAULT_BACKUP_FILE_MS");
    if (!take_previous(t, w->path, &w->st, &x) && !take_link(t, w, &x) &&
        take_copy(t, w, &x, e) < 0)
        return -1;
    t->tally.files++;
    t->tally.bytes += x.size;
    backup_line_file(&t->lines, w->path, &x);
    if (watch_add(&t->watch, x.size, 1, e) < 0)
        return -1;
    return t->lines.n < MANIFEST_FLUSH ? 0 : flush_lines(t, e);
}

static int take_entry(struct taking *t, const struct walk_entry *w, struct err *e)
{
    struct err why = {0};
    int rc;

    if (!*w->path)
        return 0;
    if (S_ISDIR(w->st.st_mode))
        rc = backup_make_dir(t->to, w->path, &w->st, &why);
    else if (S_ISLNK(w->st.st_mode))
        rc = backup_copy_link(w->dir, w->name, t->to, w->path, &why);
    else
        rc = take_file(t, w, &why);
    if (rc < 0 && (why.code == ERR_NOT_FOUND || why.sys == EACCES)) {
        watch_warn(&t->watch, "%s is left out: %s", w->path, why.text);
        t->tally.left_out++;
        return 0;
    }
    if (rc < 0)
        *e = why;
    return rc;
}

/* An entry of a place has the path that the copy gives it. */
static int take_below(struct taking *t, const struct walk_entry *w, struct err *e)
{
    struct walk_entry x = *w;

    if (!t->above || !*w->path)
        return take_entry(t, w, e);
    AUTO_FREE char *path = path_join(t->above, w->path);
    x.path = path;
    return take_entry(t, &x, e);
}

static int take_tree(struct taking *t, const char *dir, struct str ignored, struct err *e)
{
    struct ignore *ig = ignore_parse(ignored);
    struct walk *k = NULL;
    struct walk_entry w;
    int rc = walk_open(dir, ig, &t->watch, &k, e);

    while (rc == 0) {
        int got = walk_next(k, &w, e);
        if (got <= 0) {
            rc = got;
            break;
        }
        rc = take_below(t, &w, e);
    }
    if (k)
        t->tally.left_out += walk_left_out(k);
    walk_free(k);
    ignore_free(ig);
    return rc;
}

/* ---- what lies beside the home ---- */

void backup_places_done(struct backup_places *b)
{
    for (size_t i = 0; i < b->n; i++)
        free(b->p[i].root);
    b->n = 0;
}

/* The path of the home below the root of the place, yours; NULL = it is elsewhere. */
static char *home_below(const struct backup_conf *c, const struct backup_place *p)
{
    AUTO_FREE char *home = realpath(c->home, NULL), *root = realpath(p->root, NULL);
    size_t n = root ? strlen(root) : 0;

    if (!home || !root || strncmp(home, root, n) != 0 || home[n] != '/')
        return NULL;
    return xstrdup(home + n + 1);
}

/* The directories above `to` in the copy, each with the rights it has below the root. */
static int make_above(struct taking *t, const char *to, struct err *e)
{
    size_t skip = strlen(BACKUP_BESIDE "/") + strlen(t->place->name);

    for (size_t n = 1; n <= strlen(to); n++) {
        if (to[n] && to[n] != '/')
            continue;
        AUTO_FREE char *part = xstrndup(to, n);
        AUTO_FREE char *from = xasprintf("%s%s", t->place->root, n > skip ? part + skip : "");
        struct stat st = {0};
        if (stat(from, &st) < 0)
            return err_sys(e, "cannot read %s", from);
        if (backup_make_dir(t->to, part, &st, e) < 0)
            return -1;
    }
    return 0;
}

static int take_place(struct taking *t, const struct backup_place *p, struct err *e)
{
    int rc = 0;

    t->place = p;
    for (const struct backup_dir *d = p->dirs; d->path && rc == 0; d++) {
        AUTO_FREE char *from = path_join(p->root, d->path),
                       *to = xasprintf(BACKUP_BESIDE "/%s/%s", p->name, d->path);
        if (access(from, F_OK) < 0)
            continue;
        t->above = to;
        rc = make_above(t, to, e);
        if (rc == 0)
            rc = take_tree(t, from, str_of(d->left_out ? d->left_out : ""), e);
        t->above = NULL;
    }
    t->place = NULL;
    return rc;
}

/* The places that are taken; one that does not hold the home is left out with a warning, because a
 * restore could not tell where it belongs.  Yours. */
static struct json *places_of(struct taking *t)
{
    const struct backup_places *all = t->conf->beside;
    struct json *found = json_new_object();

    for (size_t i = 0; all && i < all->n; i++) {
        AUTO_FREE char *tail = home_below(t->conf, &all->p[i]);
        if (tail)
            json_set_str(found, all->p[i].name, tail);
        else
            watch_warn(&t->watch, "%s is left out, because the home is not inside of it",
                       all->p[i].root);
    }
    return found;
}

static int take_files(struct taking *t, const struct json *places, struct err *e)
{
    int rc = take_tree(t, t->conf->home, STR(left_out), e);

    for (size_t i = 0; rc == 0 && i < (t->conf->beside ? t->conf->beside->n : 0); i++)
        if (json_has(places, t->conf->beside->p[i].name))
            rc = take_place(t, &t->conf->beside->p[i], e);
    return rc;
}

/* ---- names in the backup directory ---- */

/* The newest copy in `dir` that is complete; NULL = none.  Names are times, so the last one by
 * bytes is the newest. */
static char *newest_copy(int dir)
{
    int list = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = list < 0 ? NULL : fdopendir(list);
    struct dirent *x;
    char *best = NULL;

    while (d && (x = readdir(d))) {
        AUTO_FREE char *file = xasprintf("%s/" BACKUP_MANIFEST, x->d_name);
        if (x->d_name[0] == '.' || faccessat(dir, file, F_OK, 0) < 0 ||
            (best && strcmp(x->d_name, best) <= 0))
            continue;
        free(best);
        best = xstrdup(x->d_name);
    }
    if (d)
        closedir(d);
    return best;
}

int backup_find(const char *path, char **out, struct err *e)
{
    AUTO_FREE char *file = path_join(path, BACKUP_MANIFEST), *name = NULL;
    AUTO_FD dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0)
        return err_sys(e, "cannot read the backup %s", path);
    if (access(file, F_OK) == 0) {
        *out = xstrdup(path);
        return 0;
    }
    name = newest_copy(dir);
    if (!name)
        return err_set(e, ERR_NOT_FOUND,
                       "%s has no backup in it; name the directory that was given to berth backup",
                       path);
    *out = path_join(path, name);
    return 0;
}

static void remove_leftovers(int dir, const char *path)
{
    int list = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = list < 0 ? NULL : fdopendir(list);
    struct dirent *x;

    while (d && (x = readdir(d))) {
        if (strncmp(x->d_name, PART_PREFIX, strlen(PART_PREFIX)) != 0)
            continue;
        AUTO_FREE char *old = path_join(path, x->d_name);
        struct err ignored;
        dir_remove_tree(old, &ignored);
    }
    if (d)
        closedir(d);
}

/* "2026-11-17T22-58-00Z"; a second copy within one second gets "-2". */
static int name_copy(int dir, const char *part, int64_t wall_ms, char out[64], struct err *e)
{
    char text[TIME_TEXT_MAX];

    time_format_utc(wall_ms, text);
    for (char *p = text; *p; p++)
        if (*p == ':')
            *p = '-';
    for (int i = 1; i < NAMES_TRIED; i++) {
        if (i == 1)
            snprintf(out, 64, "%.19sZ", text);
        else
            snprintf(out, 64, "%.19sZ-%d", text, i);
        if (renameat2(dir, part, dir, out, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            break;
    }
    return err_sys(e, "cannot name the backup %s", out);
}

/* A copy inside of what is copied would contain itself. */
static int check_outside(const struct backup_conf *c, const char *taken, const char *what,
                         struct err *e)
{
    AUTO_FREE char *tree = realpath(taken, NULL), *dir = realpath(c->dir, NULL);
    size_t n = tree ? strlen(tree) : 0;

    if (!tree || !dir)
        return err_sys(e, "cannot read %s", tree ? c->dir : taken);
    if (!strncmp(dir, tree, n) && (dir[n] == '/' || dir[n] == '\0'))
        return err_set(e, ERR_INVALID, "%s is inside of %s %s; choose a directory outside of it",
                       c->dir, what, taken);
    return 0;
}

static int check_places(const struct backup_conf *c, struct err *e)
{
    if (check_outside(c, c->home, "the home", e) < 0)
        return -1;
    for (size_t i = 0; i < (c->beside ? c->beside->n : 0); i++)
        for (const struct backup_dir *d = c->beside->p[i].dirs; d->path; d++) {
            AUTO_FREE char *path = path_join(c->beside->p[i].root, d->path);
            if (access(path, F_OK) == 0 && check_outside(c, path, "the directory", e) < 0)
                return -1;
        }
    return 0;
}

static int take_all(struct taking *t, const char *part_path, int64_t wall_ms, struct err *e)
{
    AUTO_FREE char *db = path_join(part_path, BACKUP_DATABASE);
    AUTO(json) struct json *places = places_of(t);
    struct stat st;

    t->to = open(part_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->to < 0)
        return err_sys(e, "cannot open %s", part_path);
    t->manifest = openat(t->to, BACKUP_MANIFEST, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (t->manifest < 0)
        return err_sys(e, "cannot create %s/" BACKUP_MANIFEST, part_path);
    if (t->conf->database(t->conf->arg, db, e) < 0)
        return -1;
    if (stat(db, &st) == 0)
        t->tally.database_bytes = st.st_size;
    backup_line_head(&t->lines, t->conf->home, wall_ms, places);
    if (take_files(t, places, e) < 0 || flush_lines(t, e) < 0)
        return -1;
    /* One call for a hundred thousand links and copies. */
    if (syncfs(t->to) < 0)
        return err_sys(e, "cannot sync %s", part_path);
    return 0;
}

static void taking_done(struct taking *t)
{
    int fds[] = {t->to, t->prev, t->manifest};

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    backup_list_done(&t->known);
    buf_done(&t->lines);
}

/* What cannot be read of the copy before makes this one a full one, and is no failure. */
static void open_previous(struct taking *t, int dir, const char *path)
{
    AUTO_FREE char *name = newest_copy(dir), *copy = name ? path_join(path, name) : NULL;
    struct err ignored;

    if (!name)
        return;
    if (backup_list_read(&t->known, copy, &ignored) < 0)
        watch_warn(&t->watch, "%s is not used to save time and space: %s", copy, ignored.text);
    else
        t->prev = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int backup_take(const struct backup_conf *conf, struct backup_tally *out, char **out_path,
                struct err *e)
{
    struct taking t = {.conf = conf, .to = -1, .prev = -1, .manifest = -1};
    AUTO_FREE char *part = xasprintf(PART_PREFIX "%d", (int)getpid()),
                   *part_path = path_join(conf->dir, part);
    int64_t wall = clock_wall(&clock_system);
    char name[64];

    if (dir_make_all(conf->dir, 0700, e) < 0)
        return -1;
    if (check_places(conf, e) < 0) {
        rmdir(conf->dir); /* only one that was made just now is empty */
        return -1;
    }
    AUTO_FD dir = open(conf->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_sys(e, "cannot open %s", conf->dir);
    if (flock(dir, LOCK_EX | LOCK_NB) < 0)
        return err_set(e, ERR_CONFLICT, "another backup into %s is under way; wait for its end",
                       conf->dir);
    watch_init(&t.watch, conf->watch);
    buf_init(&t.lines, 0);
    remove_leftovers(dir, conf->dir);
    open_previous(&t, dir, conf->dir);
    int rc = mkdirat(dir, part, 0700) < 0 ? err_sys(e, "cannot create %s", part_path)
                                          : take_all(&t, part_path, wall, e);
    if (rc == 0)
        rc = name_copy(dir, part, wall, name, e);
    if (rc == 0 && fsync(dir) < 0)
        rc = err_sys(e, "cannot sync %s", conf->dir);
    taking_done(&t);
    if (rc < 0) {
        struct err ignored;
        dir_remove_tree(part_path, &ignored);
        return err_wrap(e, "backup");
    }
    *out = t.tally;
    *out_path = path_join(conf->dir, name);
    return 0;
}
