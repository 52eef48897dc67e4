/* transfer.c - files of jobs on their way from one home to another */
#include "archive/transfer.h"
#include "archive/backup_priv.h"
#include "archive/tgz.h"
#include "archive/unpack.h"
#include "archive/walk_priv.h"
#include "base/file.h"
#include "base/util.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>

enum { CHUNK_BYTES = 256 << 10, RATIO_OF_GZIP = 1100 };

/* "runs/ID/1.log" for "0/42.1-1f3a.log"; NULL for entries of other jobs. */
static char *gathered_name(const struct walk_entry *w, transfer_id_fn id_of, void *arg)
{
    AUTO_FREE char *path = xasprintf("runs/%s", w->path);
    uint64_t job;
    uint32_t run;
    const char *rest, *id, *dot = strrchr(w->name, '.');

    if (!backup_run_of(path, &job, &run, &rest) ||
        !(id = id_of(arg, job, strchr(w->path, '/') + 1)))
        return NULL;
    if (*rest)
        return xasprintf("runs/%s/%u/%s", id, run, rest);
    if (S_ISDIR(w->st.st_mode))
        return xasprintf("runs/%s/%u", id, run);
    return dot && (!strcmp(dot, ".log") || !strcmp(dot, ".err"))
               ? xasprintf("runs/%s/%u%s", id, run, dot)
               : NULL;
}

static int gather_entry(const struct walk_entry *w, int to, const char *name, struct err *e)
{
    enum backup_how how;
    int64_t bytes;

    if (S_ISDIR(w->st.st_mode))
        return backup_make_dir(to, name, &w->st, e);
    if (S_ISLNK(w->st.st_mode))
        return backup_copy_link(w->dir, w->name, to, name, e);
    if (linkat(w->dir, w->name, to, name, 0) == 0)
        return 0;
    return backup_copy_in(w->dir, w->name, to, name, &how, &bytes, e);
}

/* The directory of the job is made with the first of its files. */
static int gather_dirs(int to, char *name, struct err *e)
{
    char *slash = strchr(name + strlen("runs/"), '/');

    *slash = '\0';
    int rc =
        mkdirat(to, name, 0700) < 0 && errno != EEXIST ? err_sys(e, "cannot create %s", name) : 0;
    *slash = '/';
    return rc;
}

int transfer_gather(const char *home, const char *stage, transfer_id_fn id_of, void *arg,
                    const struct archive_watch *w, struct err *e)
{
    AUTO_FREE char *runs = path_join(home, "runs");
    AUTO_FD to = open(stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct watch watch;
    struct walk *k = NULL;
    struct walk_entry x;

    watch_init(&watch, w);
    if (to < 0 || (mkdirat(to, "runs", 0700) < 0 && errno != EEXIST))
        return err_sys(e, "cannot create %s/runs", stage);
    int got = 1, rc = walk_open(runs, NULL, &watch, &k, e);
    while (rc == 0 && (got = walk_next(k, &x, e)) > 0) {
        AUTO_FREE char *name = *x.path ? gathered_name(&x, id_of, arg) : NULL;
        if (name && (gather_dirs(to, name, e) < 0 || gather_entry(&x, to, name, e) < 0))
            rc = e->code == ERR_NOT_FOUND ? 0 : -1;
        if (rc == 0)
            rc = watch_add(&watch, 0, 1, e);
    }
    walk_free(k);
    return rc < 0 ? -1 : got;
}

static int pack_to(int fd, struct tgz *t, struct err *e)
{
    AUTO_FREE char *chunk = xmalloc(CHUNK_BYTES);
    size_t n = 1;

    while (n > 0)
        if (tgz_fill(t, chunk, CHUNK_BYTES, &n, e) < 0 || fd_write_all(fd, chunk, n, e) < 0)
            return -1;
    return fsync(fd) < 0 ? err_sys(e, "cannot sync the file") : 0;
}

int transfer_pack(const char *stage, const char *file, const struct archive_watch *w, struct err *e)
{
    AUTO_FREE char *part = xasprintf("%s.part-%d", file, (int)getpid());
    struct tgz *t = NULL;

    if (access(file, F_OK) == 0)
        return err_set(e, ERR_CONFLICT, "%s exists; choose another name, or remove it", file);
    AUTO_FD fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, "cannot create %s", part);
    int rc = tgz_open_dir(stage, TRANSFER_TOP, w, &t, e);
    if (rc == 0)
        rc = pack_to(fd, t, e);
    tgz_close(t);
    if (rc == 0 && renameat2(AT_FDCWD, part, AT_FDCWD, file, RENAME_NOREPLACE) < 0)
        rc = err_sys(e, "cannot create %s", file);
    if (rc < 0)
        unlink(part);
    return rc < 0 ? err_wrap(e, "writing %s", file) : 0;
}

int transfer_unpack(const char *file, const char *dest, struct err *e)
{
    AUTO_FREE char *chunk = xmalloc(CHUNK_BYTES), *above = xstrdup(dest);
    AUTO_FD fd = open(file, O_RDONLY | O_CLOEXEC);
    /* Logs may compress as well as gzip can; what fits on the disk is the limit. */
    struct unpack_conf conf = {
        .limits = {.ratio = RATIO_OF_GZIP}, .outside_links = true, .top = TRANSFER_TOP};
    struct statvfs fs;
    struct unpack *u = NULL;
    ssize_t n = 1;

    if (fd < 0)
        return err_sys(e, "cannot read %s", file);
    *strrchr(above, '/') = '\0';
    if (statvfs(above, &fs) == 0)
        conf.limits.total_bytes = (int64_t)(fs.f_bavail * fs.f_frsize) / 20 * 19 + 1;
    int rc = unpack_open_dir(dest, &conf, &u, e);
    while (rc == 0 && n > 0) {
        n = read(fd, chunk, CHUNK_BYTES);
        rc = n < 0 ? err_sys(e, "cannot read %s", file) : 0;
        if (n > 0)
            rc = unpack_feed(u, chunk, (size_t)n, e);
    }
    if (rc == 0)
        rc = unpack_finish(u, e);
    unpack_free(u);
    return rc < 0 ? err_wrap(e, "reading %s", file) : 0;
}

/* Logs become private files, whatever the archive says. */
static int place_one(const char *from, const char *name, const char *to, struct err *e)
{
    AUTO_FREE char *source = path_join(from, name), *above = xstrdup(to);
    struct stat st;

    *strrchr(above, '/') = '\0';
    if (dir_make_all(above, 0711, e) < 0)
        return -1;
    if (lstat(source, &st) < 0 || !(S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)))
        return 0;
    if (chmod(source, S_ISDIR(st.st_mode) ? 0700 : 0600) < 0 ||
        renameat2(AT_FDCWD, source, AT_FDCWD, to, RENAME_NOREPLACE) < 0)
        return err_sys(e, "cannot move %s to %s", source, to);
    return 0;
}

int transfer_place(const char *from, const char *id,
                   char *(*path_of)(void *arg, uint32_t run, const char *suffix), void *arg,
                   struct err *e)
{
    AUTO_FREE char *dir = xasprintf("%s/runs/%s", from, id);
    DIR *d = opendir(dir);
    struct dirent *x;
    int rc = 0;

    while (rc == 0 && d && (x = readdir(d))) {
        char *end;
        unsigned long run = strtoul(x->d_name, &end, 10);
        bool is_file = !strcmp(end, ".log") || !strcmp(end, ".err");
        if (end == x->d_name || !run || run > UINT16_MAX || (*end && !is_file))
            continue;
        AUTO_FREE char *to = path_of(arg, (uint32_t)run, end);
        rc = place_one(dir, x->d_name, to, e);
    }
    if (d)
        closedir(d);
    return rc;
}
