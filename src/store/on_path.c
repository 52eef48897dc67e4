/* on_path.c - is the database still the file at its path?
 *
 * SQLite goes on writing to files that were removed or replaced, and all that was acknowledged
 * would end with the process.  So the writer compares before and after each commit: two calls of
 * stat(2), a microsecond.
 */
#include "base/util.h"
#include "store/store_priv.h"
#include <errno.h>
#include <sys/stat.h>

static bool same_file(const char *path, const struct file_place *f)
{
    struct stat st;

    return !f->inode || (stat(path, &st) == 0 && (uint64_t)st.st_ino == f->inode &&
                         (uint64_t)st.st_dev == f->device && st.st_nlink > 0);
}

static struct file_place place_of(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return (struct file_place){0};
    return (struct file_place){(uint64_t)st.st_dev, (uint64_t)st.st_ino};
}

void on_path_init(struct db_place *p, const char *path)
{
    *p = (struct db_place){.path = xstrdup(path), .log_path = xasprintf("%s-wal", path)};
    p->file = place_of(path);
    p->log = place_of(p->log_path);
}

void on_path_done(struct db_place *p)
{
    FREE_EACH(p->path, p->log_path);
}

int on_path_check(const struct db_place *p, struct err *e)
{
    bool file = same_file(p->path, &p->file);

    if (file && same_file(p->log_path, &p->log))
        return 0;
    err_set(e, ERR_UNAVAILABLE,
            "%s was removed or replaced while the daemon runs, so nothing can be recorded: "
            "move it back, or stop the daemon and run `berth restore DIR`",
            file ? p->log_path : p->path);
    e->sys = ENOENT;
    return -1;
}
