/* copies.c - output and reports of runs elsewhere, in their files here
 *
 * Owns: the local copies of a run's log, second log and spool.  What a copy holds is the beginning
 * of the original, byte for byte, so its size says where to go on, also after a crash of ours.
 * Files are opened for each piece: thousands of runs must not need thousands of descriptors.
 */
#include "backend/ssh/ssh_priv.h"
#include "base/file.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

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
    r->copies[WIRE_SPOOL].path = run_dir ? path_join(run_dir, "spool.jsonl") : NULL;
}

void copies_reset(struct ssh_run *r)
{
    r->fresh = true;
    for (size_t i = 0; i < WIRE_STREAMS; i++) {
        struct ssh_copy *c = &r->copies[i];
        if (c->path && truncate(c->path, 0) < 0 && errno != ENOENT)
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
    c->have = stat(c->path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    c->known = true;
}

void copies_sizes(struct ssh_run *r, uint64_t out[WIRE_STREAMS])
{
    for (size_t i = 0; i < WIRE_STREAMS; i++) {
        copy_look_up(&r->copies[i]);
        out[i] = r->copies[i].have;
    }
}

/* Makes the directories when they are missing.  O_NOFOLLOW: a link at that path must not
 * redirect the daemon's writes. */
static int open_copy(const char *path, mode_t mode, int flags, struct err *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, mode);

    if (fd < 0 && errno == ENOENT) {
        AUTO_FREE char *dir = xstrdup(path);
        *strrchr(dir, '/') = 0;
        if (dir_make_all(dir, 0755, e) < 0)
            return -1;
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, mode);
    }
    if (fd < 0)
        err_sys(e, "cannot write %s", path);
    return fd;
}

void copies_touch(struct ssh_run *r)
{
    if (r->touched)
        return;
    r->touched = true;
    for (size_t i = 0; i < WIRE_SPOOL; i++) {
        if (!r->copies[i].path || (i == WIRE_ERR && !r->fresh))
            continue; /* of an adopted run we do not know whether it has a second log */
        AUTO_FD fd = open_copy(r->copies[i].path, 0644, 0, NULL);
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
    AUTO_FD fd =
        open_copy(c->path, l->stream == WIRE_SPOOL ? 0600 : 0644, l->anew ? O_TRUNC : 0, e);
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

/* Beside the spool.  Names were checked (wire.c) and links are never made here, so it stays there.
 */
int copies_keep(struct ssh_run *r, const struct wire_asset *a, struct str name, struct str bytes,
                struct err *e)
{
    if (!r->copies[WIRE_SPOOL].path || a->kind != WIRE_FILE)
        return 0;
    AUTO_FREE char *dir = xstrdup(r->copies[WIRE_SPOOL].path);
    *strrchr(dir, '/') = 0;
    AUTO_FREE char *path = path_join(dir, name.p);
    AUTO_FD fd = open_copy(path, (a->mode & 0777) | 0600, a->first ? O_TRUNC : O_APPEND, e);
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
