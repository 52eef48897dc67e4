/* old_modes.c - files of runs that an earlier program left readable for everybody
 *
 * The first program gave logs of the owner's jobs the mode 0644 and run directories 0755, and a
 * home for several users can be entered by all.  A directory of runs/ that others may still list is
 * from that time: its files are made private, then the directory itself.  So its mode says that it
 * is done, each is done once, and an interruption loses nothing.  Afterwards a start looks at one
 * directory per 1 000 jobs.
 */
#include "base/file.h"
#include "base/log.h"
#include "host/host_priv.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE_FILES = 10000,    /* made private at a time; then the host may close */
    DIR_OPEN_TO_ALL = 0066, /* of a directory that was not looked at: 0711 is the mode since then */
    OTHERS = 0077,
};

/* One search; the worker thread has it until old_modes_done. */
struct old_modes {
    struct host *h;
    size_t files, piece; /* made private: in all, and by this piece */
    bool more;           /* the piece was full */
    struct err e;
};

/* Nobody but us makes or renames entries here, so a name means the same in both calls. */
static int old_mode_tighten(struct old_modes *o, int dir, const char *name)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_sys(&o->e, "cannot look at %s", name);
    if ((!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) || !(st.st_mode & OTHERS))
        return 0;
    if (fchmodat(dir, name, st.st_mode & 07777 & ~OTHERS, 0) < 0 && errno != ENOENT)
        return err_sys(&o->e, "cannot make %s private", name);
    o->piece++;
    return 0;
}

/* All entries of one directory of runs/, then the directory. */
static int old_modes_tighten_all(struct old_modes *o, int runs, const char *name)
{
    AUTO_FD fd = openat(runs, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(dup(fd));
    int rc = 0;

    if (!d)
        return errno == ENOENT ? 0 : err_sys(&o->e, "cannot open %s", name);
    for (const struct dirent *f; rc == 0 && !o->more && (f = readdir(d));) {
        if (f->d_name[0] == '.')
            continue;
        rc = old_mode_tighten(o, fd, f->d_name);
        o->more = o->piece >= PIECE_FILES;
    }
    closedir(d);
    if (rc == 0 && !o->more && fchmod(fd, 0711) < 0)
        rc = err_sys(&o->e, "cannot make %s private", name);
    return rc;
}

/* Worker thread. */
static void old_modes_work(void *arg)
{
    struct old_modes *o = arg;
    AUTO_FREE char *path = path_join(o->h->paths.home, "runs");
    DIR *d = opendir(path);
    struct stat st;
    int rc = 0;

    o->more = false;
    o->piece = 0;
    if (!d)
        return;
    for (const struct dirent *f; rc == 0 && !o->more && (f = readdir(d));) {
        if (f->d_name[0] == '.' || fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISDIR(st.st_mode) || !(st.st_mode & DIR_OPEN_TO_ALL))
            continue;
        rc = old_modes_tighten_all(o, dirfd(d), f->d_name);
    }
    closedir(d);
    if (rc < 0)
        err_wrap(&o->e, "%s", path);
}

/* Loop thread. */
static void old_modes_done(void *arg)
{
    struct old_modes *o = arg;
    struct host *h = o->h;

    h->works--;
    o->files += o->piece;
    if (o->more && o->e.code == ERR_NONE && !h->closing) {
        h->works++;
        work_submit(h->loop, old_modes_work, old_modes_done, o);
        return;
    }
    if (o->e.code != ERR_NONE)
        log_warn("host", "files of earlier runs may be readable for others: %s", o->e.text);
    else if (o->files)
        log_info("host", "made %zu files of earlier runs private", o->files);
    free(o);
}

void old_modes_look(struct host *h)
{
    struct old_modes *o = xcalloc(1, sizeof(*o));

    o->h = h;
    h->works++;
    work_submit(h->loop, old_modes_work, old_modes_done, o);
}
