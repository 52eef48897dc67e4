/* backup.c - a copy of a live database, while it is being written
 *
 * SQLite copies page by page from a reader's snapshot and starts over when the source changed
 * between two steps; all pages in one step therefore, which takes a second per gigabyte and blocks
 * no writer (WAL).  The copy is complete or it is not there: it is made under a temporary name,
 * synced and linked to its own name.
 */
#include "base/util.h"
#include "store/store_priv.h"
#include <fcntl.h>
#include <libgen.h>
#include <sys/stat.h>

static int copy_pages(struct db *from, const char *path, struct err *e)
{
    struct db to = {.path = xstrdup(path)};
    int rc = -1;

    if (sqlite3_open_v2(path, &to.h, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL)) {
        db_fail(&to, e);
    } else {
        sqlite3_backup *b = sqlite3_backup_init(to.h, "main", from->h, "main");
        if (b)
            sqlite3_backup_step(b, -1);
        rc = b && sqlite3_backup_finish(b) == SQLITE_OK ? 0 : db_fail(&to, e);
    }
    if (rc == 0) /* one file, readable without a log beside it */
        rc = db_exec(&to, "PRAGMA journal_mode=DELETE", e);
    db_done(&to);
    return rc;
}

/* Syncs a file, or with O_DIRECTORY the entries of a directory, without which a new name may be
 * lost. */
static int sync_path(const char *path, int flags, struct err *e)
{
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | flags);

    if (fd < 0 || fsync(fd) < 0)
        return err_sys(e, "cannot sync %s", path);
    return 0;
}

static int backup_put_in_place(const char *temp, const char *path, struct err *e)
{
    AUTO_FREE char *copy = xstrdup(path);

    if (sync_path(temp, 0, e) < 0)
        return -1;
    /* link fails when the file exists by now; rename would replace it. */
    if (link(temp, path) < 0)
        return err_sys(e, "cannot create the backup %s", path);
    unlink(temp);
    return sync_path(dirname(copy), O_DIRECTORY, e);
}

int store_backup(struct store *s, const char *path, struct err *e)
{
    AUTO_FREE char *temp = xasprintf("%s.part-%d", path, (int)getpid());
    struct stat st;

    if (lstat(path, &st) == 0)
        return err_set(e, ERR_CONFLICT,
                       "%s exists; choose another name for the backup, or remove it", path);
    int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, "cannot create the backup %s", temp);
    close(fd);
    struct db *from = pool_borrow(&s->pool, e);
    int rc = from ? copy_pages(from, temp, e) : -1;
    pool_return(&s->pool, from);
    if (rc == 0)
        rc = backup_put_in_place(temp, path, e);
    if (rc < 0) {
        unlink(temp);
        return err_wrap(e, "backup");
    }
    return 0;
}
