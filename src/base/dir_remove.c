/* dir_remove.c - a directory with all that is in it, whatever its owner did to it */
#include "base/file.h"
#include "base/util.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A job may leave a tree deeper than there are descriptors: below this many levels a directory is
 * first moved up beside the top and emptied there. */
enum { REMOVE_DEPTH = 32 };

/* One call of dir_remove_tree.  `top` is the directory that is removed; `moved` numbers the
 * directories that were moved up into it. */
struct removal {
    int top;
    unsigned moved;
    struct err *e;
};

static int remove_children(struct removal *r, int dir_take, unsigned depth);

/* Makes a directory of ours readable again; through its descriptor, so that a link put in its
 * place meanwhile is not followed. */
static int unlock_dir_at(int dir, const char *name)
{
    AUTO_FD fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char proc[64];

    if (fd < 0)
        return -1;
    snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
    return chmod(proc, 0700);
}

/* A job may have removed its own read permission from a directory.  We may give it back as the
 * owner. */
static int open_dir_at(int dir, const char *name)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dir, name, flags);

    if (fd >= 0 || errno != EACCES)
        return fd;
    if (unlock_dir_at(dir, name) < 0)
        return -1;
    return openat(dir, name, flags);
}

/* Moves a directory that lies too deep into `top`, under a name that is not taken.
 * dir_remove_tree removes it in its next round. */
static int removal_move_up(struct removal *r, int dir, const char *name)
{
    char to[64];

    for (;;) {
        snprintf(to, sizeof(to), ".removing-%u", r->moved++);
        if (renameat2(dir, name, r->top, to, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            return err_sys(r->e, "cannot move directory %s away", name);
    }
}

static int remove_dir_at(struct removal *r, int dir, const char *name, unsigned depth)
{
    if (depth >= REMOVE_DEPTH)
        return removal_move_up(r, dir, name);
    int fd = open_dir_at(dir, name);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(r->e, "cannot open directory %s", name);
    if (remove_children(r, fd, depth + 1) < 0)
        return -1;
    if (unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return err_sys(r->e, "cannot remove directory %s", name);
    return 0;
}

static int remove_entry(struct removal *r, int dir, const char *name, unsigned depth)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    /* EACCES means that the directory itself is not writable, not the entry. */
    if (errno == EACCES && fchmod(dir, 0700) == 0 && unlinkat(dir, name, 0) == 0)
        return 0;
    /* unlink of a directory fails with EISDIR on Linux and with EPERM by POSIX. */
    if (errno != EISDIR && errno != EPERM)
        return err_sys(r->e, "cannot remove %s", name);
    return remove_dir_at(r, dir, name, depth);
}

static int remove_children(struct removal *r, int dir_take, unsigned depth)
{
    /* Takes the descriptor: closedir closes it.  `depth` is the level of this directory below
     * `top`. */
    DIR *d = fdopendir(dir_take);
    int rc = 0;

    if (!d) {
        err_sys(r->e, "cannot list a directory");
        close(dir_take);
        return -1;
    }
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(d);
        if (!entry) {
            if (errno)
                rc = err_sys(r->e, "cannot list a directory");
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        rc = remove_entry(r, dirfd(d), entry->d_name, depth);
        if (rc < 0)
            break;
    }
    closedir(d);
    return rc;
}

int dir_remove_tree(const char *path, struct err *e)
{
    AUTO_FD top = open_dir_at(AT_FDCWD, path);

    if (top < 0) {
        if (errno == ENOENT || ((errno == ENOTDIR || errno == ELOOP) && unlink(path) == 0))
            return 0;
        return err_sys(e, "cannot remove %s", path);
    }
    struct removal r = {.top = top, .e = e};
    for (;;) {
        /* A round may move deep directories up into `top`.  Rounds repeat until one moves
         * nothing. */
        unsigned moved = r.moved;
        int again = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (again < 0)
            return err_sys(e, "cannot open directory %s", path);
        if (remove_children(&r, again, 1) < 0)
            return err_wrap(e, "removing %s", path);
        if (r.moved == moved)
            break;
    }
    if (rmdir(path) < 0 && errno != ENOENT)
        return err_sys(e, "cannot remove directory %s", path);
    return 0;
}
