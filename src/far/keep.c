/* keep.c - files a run wants kept (BERTH_RUN_DIR/artifacts), on their way to the daemon
 *
 * Listed when the run has ended and sent behind its output, before the end is told.  Regular files
 * only: a link could name anything.  After a lost connection they are sent from the beginning.
 */
#include "base/file.h"
#include "base/util.h"
#include "far/far_priv.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

/* Bounds for what a run leaves behind.  Files beyond them are left out silently. */
enum { FILES_MAX = 100 * 1000, DEPTH_MAX = 32 };

/* Appends the regular files below `dir` to r->kept, as paths relative to the run directory that
 * begin with `name`.  A directory that cannot be read counts as empty. */
static void keep_list_dir(struct far_run *r, const char *dir, const char *name, int depth)
{
    DIR *d = opendir(dir);
    const struct dirent *ent;
    struct stat st;

    while (d && (ent = readdir(d)) && r->kept.n < FILES_MAX) {
        if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, "..") ||
            fstatat(dirfd(d), ent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        AUTO_FREE char *path = path_join(dir, ent->d_name);
        char *rel = xasprintf("%s/%s", name, ent->d_name);
        if (S_ISREG(st.st_mode))
            vec_push(&r->kept, TAKE(rel));
        else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
            keep_list_dir(r, path, rel, depth + 1);
        free(rel);
    }
    if (d)
        closedir(d);
}

void keep_list(struct far_run *r)
{
    AUTO_FREE char *dir = path_join(r->run_dir, "artifacts");

    keep_done(r);
    keep_list_dir(r, dir, "artifacts", 0);
}

void keep_done(struct far_run *r)
{
    for (size_t i = 0; i < r->kept.n; i++)
        free(r->kept.p[i]);
    vec_done(&r->kept);
    r->kept_at = 0;
    if (r->kept_fd >= 0)
        close(TAKE_FD(r->kept_fd));
}

static void next_file(struct far_run *r)
{
    r->kept_at++;
    if (r->kept_fd >= 0)
        close(TAKE_FD(r->kept_fd));
}

/* Reads one piece per call, so that large files do not delay orders and other streams.  A file
 * that vanished or cannot be opened is skipped: it must not keep the end of the run from the
 * daemon. */
bool keep_send(struct far *f, struct far_run *r)
{
    struct wire_asset a = {.key = r->key, .kind = WIRE_FILE};
    static char piece[WIRE_PIECE];
    struct stat st;

    if (r->kept_at >= r->kept.n)
        return false;
    const char *name = r->kept.p[r->kept_at];
    if (r->kept_fd < 0) {
        AUTO_FREE char *path = path_join(r->run_dir, name);
        r->kept_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        a.first = 1;
    }
    if (r->kept_fd < 0 || fstat(r->kept_fd, &st) < 0) {
        next_file(r);
        return r->kept_at < r->kept.n;
    }
    a.mode = st.st_mode & 0777;
    ssize_t n = read(r->kept_fd, piece, sizeof(piece));
    if ((n > 0 || a.first) &&
        !wire_put_asset(&f->out, &a, str_of(name), (struct str){piece, (size_t)MAX(n, 0)}))
        n = 0; /* a name that is too long for a frame: left out */
    /* A short piece is the last one.  A read error (n < 0) also ends the file. */
    if (n < (ssize_t)sizeof(piece))
        next_file(r);
    return r->kept_at < r->kept.n;
}
