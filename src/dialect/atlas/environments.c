/* environments.c - locks, marks and removal of virtual environments
 *
 * Owns: the life of an environment between its first and its last job.
 *
 * A lock file is removed only by who holds it exclusively, together with its environment.  Who
 * waited for it meanwhile holds a lock on a file without a name, sees that, and opens it again.
 */
#include "dialect/atlas/environments.h"
#include "base/file.h"
#include "base/util.h"
#include "base/vec.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

static const char lock_end[] = ".lock";

static char *lock_path(const char *dir)
{
    return xasprintf("%s%s", dir, lock_end);
}

/* -1 without a lock; `how` as for flock. */
static int take_lock(const char *dir, int how)
{
    AUTO_FREE char *path = lock_path(dir);

    for (;;) {
        AUTO_FD fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        struct stat mine, named;
        if (fd < 0)
            return -1;
        while (flock(fd, how) < 0)
            if (errno != EINTR)
                return -1;
        if (fstat(fd, &mine) == 0 && stat(path, &named) == 0 && mine.st_ino == named.st_ino &&
            mine.st_dev == named.st_dev)
            return TAKE_FD(fd);
    }
}

static bool is_complete(const char *dir)
{
    AUTO_FREE char *mark = path_join(dir, ".complete");

    return access(mark, F_OK) == 0;
}

static void note_use(const char *dir)
{
    AUTO_FREE char *mark = path_join(dir, ".complete");

    utimensat(AT_FDCWD, mark, NULL, 0);
}

void environment_done(struct environment *v)
{
    free(v->dir);
    if (v->lock >= 0)
        close(v->lock);
    *v = (struct environment){.lock = -1};
}

bool environment_use(const char *root, const char *name, struct environment *out)
{
    AUTO_FREE char *dir = path_join(root, name);
    AUTO_FD fd = is_complete(dir) ? take_lock(dir, LOCK_SH) : -1;

    if (fd < 0 || !is_complete(dir))
        return false;
    note_use(dir);
    *out = (struct environment){TAKE(dir), TAKE_FD(fd), true};
    return true;
}

int environment_get(const char *root, const char *name, struct environment *out)
{
    AUTO_FREE char *dir = path_join(root, name);

    for (;;) {
        if (environment_use(root, name, out))
            return 0;
        AUTO_FD fd = take_lock(dir, LOCK_EX | LOCK_NB);
        if (fd < 0 && errno == EWOULDBLOCK) {
            printf("Waiting for another job that installs the same requirements.\n");
            fflush(stdout);
            fd = take_lock(dir, LOCK_EX);
        }
        if (fd < 0)
            return -1;
        if (is_complete(dir)) /* made while we waited */
            continue;
        dir_remove_tree(dir, NULL);
        *out = (struct environment){TAKE(dir), TAKE_FD(fd), false};
        return 0;
    }
}

void environment_keep(struct environment *v)
{
    AUTO_FREE char *mark = path_join(v->dir, ".complete");
    struct err e;

    v->ready = file_write_atomic(mark, "", 0, 0644, &e) == 0;
    flock(v->lock, LOCK_SH);
}

static void remove_locked(const char *dir)
{
    AUTO_FREE char *lock = lock_path(dir), *mark = path_join(dir, ".complete");

    unlink(mark); /* first: a removal that is cut short leaves nothing that looks whole */
    dir_remove_tree(dir, NULL);
    unlink(lock);
}

void environment_drop(struct environment *v)
{
    remove_locked(v->dir);
    environment_done(v);
}

void environment_inherit(const struct environment *v)
{
    fcntl(v->lock, F_SETFD, 0);
}

/* ---- removal ---- */

struct found {
    char *name;
    int64_t used_s; /* 0 = not complete */
};

static int by_use(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    return x->used_s < y->used_s ? 1 : x->used_s > y->used_s ? -1 : strcmp(x->name, y->name);
}

static bool is_shared(const char *name)
{
    return !strncmp(name, ENVIRONMENT_SHARED, strlen(ENVIRONMENT_SHARED));
}

static bool is_of_job(const char *name)
{
    return !strncmp(name, ENVIRONMENT_OF_JOB, strlen(ENVIRONMENT_OF_JOB));
}

/* Environments of an earlier version have other names, and their jobs held no locks: their days
 * begin when this version first sees them. */
static int64_t last_use(const char *root, const char *name)
{
    bool older = !is_shared(name) && !is_of_job(name);
    AUTO_FREE char *mark = xasprintf("%s/%s/%s", root, name, older ? ".seen" : ".complete");
    struct stat st;
    struct err e;

    if (older && access(mark, F_OK) < 0)
        file_write_atomic(mark, "", 0, 0644, &e);
    return stat(mark, &st) == 0 ? st.st_mtim.tv_sec : 0;
}

/* Half-made environments and lone locks are as old as nothing: removed as soon as nobody holds
 * them. */
static bool is_due(const struct found *f, size_t rank, int64_t now)
{
    bool old = f->used_s < now - (int64_t)ENVIRONMENT_DAYS * 24 * 3600;

    return old || is_of_job(f->name) || (is_shared(f->name) && rank >= ENVIRONMENT_SPARE);
}

/* The name of the environment that an entry of the directory is or belongs to; NULL = none. */
static char *environment_name(const char *entry)
{
    size_t n = strlen(entry), end = sizeof(lock_end) - 1;

    if (entry[0] == '.')
        return NULL;
    return n > end && !strcmp(entry + n - end, lock_end) ? xstrndup(entry, n - end)
                                                         : xstrdup(entry);
}

void environments_prune(const char *root)
{
    VEC(struct found) all = {0};
    DIR *d = opendir(root);
    int64_t now = time(NULL);

    for (struct dirent *entry; d && (entry = readdir(d));) {
        char *name = environment_name(entry->d_name);
        bool known = !name;
        for (size_t i = 0; i < all.n && !known; i++)
            known = !strcmp(all.p[i].name, name);
        if (known)
            free(name);
        else
            vec_push(&all, ((struct found){name, last_use(root, name)}));
    }
    if (d)
        closedir(d);
    if (all.n > 0)
        qsort(all.p, all.n, sizeof(*all.p), by_use);
    for (size_t i = 0, rank = 0; i < all.n; i++) {
        AUTO_FREE char *dir = path_join(root, all.p[i].name);
        bool due = is_due(&all.p[i], rank, now);
        rank += is_shared(all.p[i].name);
        AUTO_FD fd = due ? take_lock(dir, LOCK_EX | LOCK_NB) : -1;
        if (fd >= 0)
            remove_locked(dir);
        free(all.p[i].name);
    }
    vec_done(&all);
}
