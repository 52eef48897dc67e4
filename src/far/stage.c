/* stage.c - files of a run, as they arrive from the daemon
 *
 * Names are relative and without ".." (wire.c).  A file comes in pieces, in order; the piece that
 * begins it replaces what was there.  The first thing that fails is kept in the run's `trouble` and
 * refuses its start: a run must not begin with half of its files.
 */
#include "base/file.h"
#include "base/util.h"
#include "far/far_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/* Uses errno.  Only the first failure is kept: later ones usually follow from it. */
static void stage_failed(struct far_run *r, const char *what, const char *path)
{
    if (r->trouble[0])
        return;
    r->trouble_sys = errno;
    snprintf(r->trouble, sizeof(r->trouble), "cannot %s %s there: %s", what, path,
             strerrordesc_np(errno));
}

void stage_trouble(struct far_run *r, const struct err *e, const char *behind)
{
    if (r->trouble[0])
        return;
    r->trouble_sys = e->sys;
    snprintf(r->trouble, sizeof(r->trouble), "%s%s", e->text, behind);
}

void stage_end(struct far_run *r)
{
    if (r->asset_fd >= 0 && close(TAKE_FD(r->asset_fd)) < 0)
        stage_failed(r, "write",
                     r->asset_path); /* a full disk behind a network is told only here */
    free(TAKE(r->asset_path));
}

void stage_begin(struct far *f UNUSED, struct far_run *r)
{
    struct err e = {0};

    if (dir_make_all(r->work, 0755, &e) < 0)
        stage_trouble(r, &e, " there");
}

static void make_parents(const char *path)
{
    AUTO_FREE char *dir = xstrdup(path);
    char *slash = strrchr(dir, '/');

    if (slash && slash != dir) {
        *slash = 0;
        dir_make_all(dir, 0755, NULL); /* what fails here fails at the file, with its name */
    }
}

static void begin_file(struct far_run *r, const char *path, mode_t mode)
{
    stage_end(r);
    make_parents(path);
    unlink(path);
    r->asset_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (r->asset_fd < 0 || fchmod(r->asset_fd, (mode & 0777) | 0600) < 0)
        stage_failed(r, "make", path);
    r->asset_path = xstrdup(path);
}

static void make_link(struct far_run *r, const char *path, struct str target)
{
    AUTO_FREE char *to = xstrndup(target.p, target.n);

    make_parents(path);
    unlink(path);
    if (symlink(to, path) < 0)
        stage_failed(r, "make the link", path);
}

static void stage_make_dir(struct far_run *r, const char *path, mode_t mode)
{
    struct err e = {0};

    if (dir_make_all(path, 0755, &e) < 0) {
        errno = e.sys;
        stage_failed(r, "make", path);
    } else {
        chmod(path, (mode & 0777) | 0700);
    }
}

void stage_take(struct far_run *r, const struct wire_asset *a, struct str name, struct str bytes)
{
    AUTO_FREE char *path = path_join(r->work, name.p);

    if (r->trouble[0])
        return;
    if (a->kind == WIRE_DIR) {
        stage_end(r);
        stage_make_dir(r, path, a->mode);
        return;
    }
    if (a->kind == WIRE_LINK) {
        stage_end(r);
        make_link(r, path, bytes);
        return;
    }
    if (a->first)
        begin_file(r, path, a->mode);
    struct err e = {0};
    if (r->asset_fd >= 0 && !r->trouble[0] && fd_write_all(r->asset_fd, bytes.p, bytes.n, &e) < 0) {
        errno = e.sys;
        stage_failed(r, "write", path);
    }
}
