/* snapshot.c - snapshots of working directories: their names, rights, use and end
 *
 * Owns: the layout below HOME/snapshots.
 *
 * Each user has a store of their own, because a store answers "is this content there?" and a run
 * reads the store with the rights of its user.  A daemon that is root works on a store with the
 * rights of the store's user (base/user_rights.h), so every file in it belongs to that user.
 */
#include "archive/snapshot.h"
#include "archive/cas.h"
#include "archive/cas_priv.h"
#include "base/file.h"
#include "base/user_rights.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

#define SNAPSHOT_FRESH "fresh-"

int snapshot_as(struct snapshot_owner o, struct err *e)
{
    if (geteuid() != 0)
        return 0;
    return user_rights_enter(&(struct user_rights){.uid = o.uid, .gid = o.gid}, e);
}

void snapshot_as_self(void)
{
    user_rights_leave();
}

char *snapshot_store_path(const char *home, uint32_t uid)
{
    return xasprintf("%s/snapshots/%u", home, uid);
}

/* The parent can be passed through by every user and listed by none: runs read their own store. */
int snapshot_store_open(const char *home, struct snapshot_owner o, struct cas **out, struct err *e)
{
    AUTO_FREE char *parent = path_join(home, "snapshots"), *dir = snapshot_store_path(home, o.uid);

    if (mkdir(parent, 0711) < 0 && errno != EEXIST)
        return err_sys(e, "cannot make %s", parent);
    if (mkdir(dir, 0700) == 0) {
        if (geteuid() == 0 && chown(dir, o.uid, o.gid) < 0)
            return err_sys(e, "cannot give %s to user %u", dir, o.uid);
    } else if (errno != EEXIST) {
        return err_sys(e, "cannot make %s", dir);
    }
    if (snapshot_as(o, e) < 0)
        return -1;
    int rc = cas_open(dir, out, e);
    snapshot_as_self();
    return rc;
}

bool snapshot_id_ok(const char *id)
{
    return strlen(id) == SNAPSHOT_ID_LEN && strspn(id, "0123456789abcdef") == SNAPSHOT_ID_LEN;
}

static void fresh_name(const char *id, char out[64])
{
    snprintf(out, 64, SNAPSHOT_FRESH "%s", id);
}

/* The hash of the manifest, which names every entry with mode, time and content. */
static int tree_id(struct cas *c, const char *name, char id[SNAPSHOT_ID_MAX], struct err *e)
{
    AUTO_FD fd = openat(c->trees, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char hash[CAS_HEX];
    int64_t size;

    if (fd < 0)
        return err_sys(e, "cannot open %s/trees/%s", c->dir, name);
    if (copy_hashed(fd, -1, NULL, hash, &size, e) < 0)
        return -1;
    snprintf(id, SNAPSHOT_ID_MAX, "%.24s", hash);
    return 0;
}

int snapshot_adopt(struct cas *c, const char *name, char id[SNAPSHOT_ID_MAX], struct err *e)
{
    char fresh[64];

    if (tree_id(c, name, id, e) < 0)
        return -1;
    fresh_name(id, fresh);
    /* The mark comes first: a snapshot without a job and without a mark is removed. */
    if (cas_copy_tree(c, name, fresh, e) < 0 || cas_copy_tree(c, name, id, e) < 0)
        return -1;
    return cas_drop_tree(c, name, e);
}

/* The id comes from a client and becomes the name of a file, so its form is checked first. */
int snapshot_claim(struct cas *c, const char *id, struct err *e)
{
    char fresh[64];

    if (!snapshot_id_ok(id) || !cas_has_tree(c, id))
        return err_set(e, ERR_INVALID,
                       "snapshot: there is no snapshot '%.40s'; take it again with --snapshot", id);
    fresh_name(id, fresh);
    return cas_drop_tree(c, fresh, e);
}

/* Is there a mark that is not too old?  A mark is a hard link, so its time is that of the last
 * change of the links. */
static bool is_fresh(struct cas *c, const char *id)
{
    char fresh[64];
    struct stat st;

    fresh_name(id, fresh);
    return fstatat(c->trees, fresh, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           time(NULL) - st.st_ctim.tv_sec < SNAPSHOT_FRESH_S;
}

/* What an upload left behind when the daemon was killed is a tree with another name. */
static bool is_left_over(struct cas *c, const char *name)
{
    struct stat st;

    return name[0] != '.' && !snapshot_id_ok(name) &&
           strncmp(name, SNAPSHOT_FRESH, strlen(SNAPSHOT_FRESH)) != 0 &&
           fstatat(c->trees, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           time(NULL) - st.st_ctim.tv_sec >= SNAPSHOT_FRESH_S;
}

/* Trees first, then contents: cas_collect removes what no tree needs any more.  It answers ERR_BUSY
 * while a snapshot is being uploaded; the trees are gone by then, and the contents wait. */
int snapshot_collect(struct cas *c, snapshot_used_fn *used, void *arg, struct err *e)
{
    int fd = openat(c->trees, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    int rc = 0;

    if (!d)
        return err_sys(e, "cannot read %s/trees", c->dir);
    for (struct dirent *n; rc == 0 && (n = readdir(d));) {
        char fresh[64];
        if (snapshot_id_ok(n->d_name) && !is_fresh(c, n->d_name) && used(arg, n->d_name) == 0) {
            fresh_name(n->d_name, fresh);
            rc = cas_drop_tree(c, n->d_name, e);
            if (rc == 0)
                rc = cas_drop_tree(c, fresh, e);
        } else if (is_left_over(c, n->d_name)) {
            rc = cas_drop_tree(c, n->d_name, e);
        }
    }
    closedir(d);
    return rc < 0 ? -1 : cas_collect(c, NULL, e);
}

/* ---- runs ---- */

/* Runs in the process of the run, which has the rights of its user already.  What an interrupted
 * start left in `dir` is removed first, because cas_check_out wants a directory that does not
 * exist. */
int snapshot_enter(const char *store, const char *id, const char *dir, const char *sub,
                   struct err *e)
{
    AUTO_FREE char *start = *sub ? path_join(dir, sub) : xstrdup(dir);
    struct cas *c;

    if (cas_open(store, &c, e) < 0)
        return -1;
    int rc = dir_remove_tree(dir, e);
    if (rc == 0)
        rc = cas_check_out(c, id, dir, NULL, e);
    cas_close(c);
    if (rc < 0)
        return err_wrap(e, "checking out snapshot %s", id);
    return chdir(start) < 0 ? err_sys(e, "cannot enter %s", start) : 0;
}

/* The directory of an entry, without following a link anywhere on the way: the run may have
 * replaced a directory by a link to somewhere else. */
static int open_parent(int root, const char *path, const char **out_name)
{
    const char *slash = strrchr(path, '/');
    AUTO_FREE char *parent = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};

    *out_name = slash ? slash + 1 : path;
    return (int)syscall(SYS_openat2, root, parent, &how, sizeof(how));
}

/* Errors mean that the run changed the entry, so it stays.  A file goes only while the record of
 * the check-out knows it as untouched: size and modification time alone can be set by hand.  A
 * directory goes when it is empty. */
static void prune_entry(int root, const struct manifest_entry *m, const struct known *known)
{
    const char *name;
    AUTO_FD dir = open_parent(root, m->path, &name);
    struct stat st;

    if (dir < 0)
        return;
    if (m->type == 'd') {
        unlinkat(dir, name, AT_REMOVEDIR);
        return;
    }
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (m->type == 'f' ? S_ISREG(st.st_mode) && known_hash(known, &st)
                       : S_ISLNK(st.st_mode) && stat_mtime_ns(&st) == m->mtime_ns)
        unlinkat(dir, name, 0);
}

int snapshot_prune(struct cas *c, const char *id, const char *dir, struct err *e)
{
    AUTO_FD root = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct known known = {0};
    struct manifest m;

    if (root < 0)
        return errno == ENOENT ? 0 : err_sys(e, "cannot open %s", dir);
    if (cas_read_manifest(c, id, &m, e) < 0)
        return -1;
    known_load(&known, c, dir); /* what cas_check_out made, unless the machine was booted since */
    for (size_t i = m.entries.n; i-- > 0;) /* what is in a directory comes before it */
        if (*m.entries.p[i].path)
            prune_entry(root, &m.entries.p[i], &known);
    manifest_done(&m);
    known_forget(c, &known);
    known_done(&known);
    rmdir(dir); /* stays when the run left something in it */
    return 0;
}
