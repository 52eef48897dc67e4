/* copies.c - output and reports of runs elsewhere, in their files here
 *
 * Owns: the local copies of a run's log, second log and spool.  What a copy holds is the beginning
 * of the original, byte for byte, so its size says where to go on, also after a crash of ours.
 * Files are opened for each piece: thousands of runs must not need thousands of descriptors.
 *
 * Copies belong to the user of the run.  The logs are in a directory of the daemon, where nobody
 * else can put a link.  The directory of the run is the user's, so the daemon writes below it with
 * the rights of that user and follows no link.
 */
#include "backend/ssh/ssh_priv.h"
#include "base/file.h"
#include "base/user_rights.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define SPOOL_NAME "spool.jsonl"

void copies_done(struct ssh_run *r)
{
    for (size_t i = 0; i < WIRE_STREAMS; i++) {
        free(r->copies[i].path);
        r->copies[i] = (struct ssh_copy){0};
    }
}

void copies_set(struct ssh_run *r, const char *log, const char *err, const char *run_dir)
{
    copies_done(r);
    r->copies[WIRE_OUT].path = xstrdup(log);
    r->copies[WIRE_ERR].path = xstrdup(err);
    r->copies[WIRE_SPOOL].path = run_dir ? path_join(run_dir, SPOOL_NAME) : NULL;
}

/* ---- opening ---- */

static bool copies_foreign(const struct ssh_run *r)
{
    return r->uid != geteuid();
}

/* A log.  Makes the directories when they are missing.  O_NOFOLLOW: a link at that path must not
 * redirect the daemon's writes. */
static int open_log(const struct ssh_run *r, const char *path, int flags, struct err *e)
{
    int how = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, fd = open(path, how, 0600);
    struct stat st;

    if (fd < 0 && errno == ENOENT && flags & O_CREAT) {
        AUTO_FREE char *dir = xstrdup(path);
        *strrchr(dir, '/') = 0;
        if (dir_make_all(dir, 0711, e) < 0)
            return -1;
        fd = open(path, how, 0600);
    }
    if (fd < 0)
        return err_sys(e, "cannot write %s", path);
    if (copies_foreign(r) && fstat(fd, &st) == 0 && st.st_uid != r->uid &&
        fchown(fd, r->uid, r->gid) < 0) {
        err_sys(e, "cannot give %s to its user", path);
        close(fd);
        return -1;
    }
    return fd;
}

/* The directory of the run, which is the user's.  Made by the daemon, since its parent is the
 * daemon's. */
static int open_run_dir(const struct ssh_run *r, const char *dir, struct err *e)
{
    int how = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, fd = open(dir, how);

    if (fd < 0 && errno == ENOENT) {
        AUTO_FREE char *parent = xstrdup(dir);
        *strrchr(parent, '/') = 0;
        if (dir_make_all(parent, 0711, e) < 0)
            return -1;
        if (mkdir(dir, 0700) == 0 && copies_foreign(r) && lchown(dir, r->uid, r->gid) < 0)
            return err_sys(e, "cannot give %s to its user", dir);
        fd = open(dir, how);
    }
    return fd < 0 ? err_sys(e, "cannot open %s", dir) : fd;
}

/* A file below the directory of the run: the spool, or one that the run wants kept. */
static int open_below(const struct ssh_run *r, const char *name, mode_t mode, int flags,
                      struct err *e)
{
    AUTO_FREE char *dir = xstrdup(r->copies[WIRE_SPOOL].path);

    *strrchr(dir, '/') = 0;
    AUTO_FD top = open_run_dir(r, dir, e);
    if (top < 0 || user_rights_enter_owner(top, e) < 0)
        return -1;
    int fd = flags & O_CREAT ? user_make_beneath(top, name, O_WRONLY | flags, mode, e)
                             : user_open_beneath(top, name, O_WRONLY | flags, e);
    user_rights_leave();
    return fd;
}

static int open_stream(const struct ssh_run *r, size_t stream, int flags, struct err *e)
{
    return stream == WIRE_SPOOL ? open_below(r, SPOOL_NAME, 0600, flags, e)
                                : open_log(r, r->copies[stream].path, flags, e);
}

/* ---- copies ---- */

static bool copy_empty(const struct ssh_run *r, size_t stream)
{
    struct stat st;

    if (lstat(r->copies[stream].path, &st) < 0)
        return errno == ENOENT;
    AUTO_FD fd = open_stream(r, stream, O_TRUNC, NULL);
    return fd >= 0;
}

void copies_reset(struct ssh_run *r)
{
    r->fresh = true;
    for (size_t i = 0; i < WIRE_STREAMS; i++) {
        struct ssh_copy *c = &r->copies[i];
        if (c->path && !copy_empty(r, i))
            continue; /* looked up below: at worst the copy begins with something else */
        c->have = 0;
        c->known = true;
    }
}

/* Once per run and stream: from then on `have` is counted, not asked from the file system. */
static void copy_look_up(struct ssh_copy *c)
{
    struct stat st;

    if (c->known || !c->path)
        return;
    c->have = lstat(c->path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    c->known = true;
}

void copies_sizes(struct ssh_run *r, uint64_t out[WIRE_STREAMS])
{
    for (size_t i = 0; i < WIRE_STREAMS; i++) {
        copy_look_up(&r->copies[i]);
        out[i] = r->copies[i].have;
    }
}

void copies_touch(struct ssh_run *r)
{
    if (r->touched)
        return;
    r->touched = true;
    for (size_t i = 0; i < WIRE_SPOOL; i++) {
        if (!r->copies[i].path || (i == WIRE_ERR && !r->fresh))
            continue; /* of an adopted run we do not know whether it has a second log */
        AUTO_FD fd = open_log(r, r->copies[i].path, O_CREAT, NULL);
        (void)fd;
    }
}

/* Pieces may overlap what is here after a rewind; they are written at their own offset. */
bool copies_write(struct ssh_run *r, const struct wire_log *l, struct str bytes, struct err *e)
{
    struct ssh_copy *c = &r->copies[l->stream];

    copy_look_up(c);
    if (!c->path) { /* nobody wants it: counted, so that the end is not waited for in vain */
        c->have = l->offset + bytes.n;
        c->known = true;
        return true;
    }
    if (!l->anew && l->offset > c->have)
        return false; /* a hole: it is asked for again */
    AUTO_FD fd = open_stream(r, l->stream, O_CREAT | (l->anew ? O_TRUNC : 0), e);
    if (fd < 0)
        return false;
    if (l->anew)
        c->have = 0;
    uint64_t at = l->offset;
    while (bytes.n > 0) {
        ssize_t n = pwrite(fd, bytes.p, bytes.n, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            err_sys(e, "cannot write %s", c->path);
            return false;
        }
        at += (uint64_t)n;
        bytes.p += n;
        bytes.n -= (size_t)n;
        c->have = MAX(c->have, at);
    }
    return true;
}

/* Beside the spool.  Names were checked (wire.c). */
int copies_keep(struct ssh_run *r, const struct wire_asset *a, struct str name, struct str bytes,
                struct err *e)
{
    if (!r->copies[WIRE_SPOOL].path || a->kind != WIRE_FILE)
        return 0;
    AUTO_FD fd = open_below(r, name.p, (a->mode & 0700) | 0600,
                            O_CREAT | (a->first ? O_TRUNC : O_APPEND), e);
    return fd < 0 ? -1 : fd_write_all(fd, bytes.p, bytes.n, e);
}

bool copies_complete(struct ssh_run *r, const uint64_t size[WIRE_STREAMS])
{
    for (size_t i = 0; i < WIRE_STREAMS; i++) {
        copy_look_up(&r->copies[i]);
        if (r->copies[i].have < size[i])
            return false;
    }
    return true;
}
