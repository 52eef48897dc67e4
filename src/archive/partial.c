/* partial.c - directories that appear whole or not at all */
#include "archive/partial_priv.h"
#include "base/file.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char *partial_parent(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return xstrdup(".");
    return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

/* A leftover of an interrupted call has the same temporary name, and is removed first. */
int partial_open(struct partial *p, const char *dest, struct err *e)
{
    AUTO_FREE char *parent = partial_parent(dest);
    const char *slash = strrchr(dest, '/');
    struct stat st;

    *p = (struct partial){.fd = -1};
    if (lstat(dest, &st) == 0)
        return err_set(e, ERR_CONFLICT, "%s exists already", dest);
    AUTO_FREE char *path = xasprintf("%s/.%s.partial", parent, slash ? slash + 1 : dest);
    if (dir_remove_tree(path, e) < 0)
        return -1;
    if (mkdir(path, 0700) < 0)
        return err_sys(e, "cannot create directory %s", path);
    p->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (p->fd < 0) {
        err_sys(e, "cannot open directory %s", path);
        rmdir(path);
        return -1;
    }
    p->path = TAKE(path);
    p->dest = xstrdup(dest);
    return 0;
}

static int sync_dir(const char *path, struct err *e)
{
    AUTO_FD fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fsync(fd) < 0)
        return err_sys(e, "cannot sync directory %s", path);
    return 0;
}

/* RENAME_NOREPLACE: a destination that appeared meanwhile is an error, never overwritten. */
int partial_commit(struct partial *p, bool sync, struct err *e)
{
    AUTO_FREE char *parent = partial_parent(p->dest);

    if (renameat2(AT_FDCWD, p->path, AT_FDCWD, p->dest, RENAME_NOREPLACE) < 0) {
        if (errno == EEXIST)
            return err_set(e, ERR_CONFLICT, "%s exists already", p->dest);
        return err_sys(e, "cannot rename %s to %s", p->path, p->dest);
    }
    free(TAKE(p->path));
    return sync ? sync_dir(parent, e) : 0;
}

void partial_done(struct partial *p)
{
    if (p->fd >= 0)
        close(TAKE_FD(p->fd));
    if (p->path)
        dir_remove_tree(p->path, NULL);
    free(TAKE(p->path));
    free(TAKE(p->dest));
}
