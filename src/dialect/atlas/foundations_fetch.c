/* foundations_fetch.c - foundations get job: the archive of a job comes home
 *
 * Without options <id>.tgz is kept and unpacked into <id>/, both in the current directory.  It is
 * unpacked as it arrives, below a temporary name, and only a whole archive is moved to where it
 * belongs; files that are there already are replaced.
 */
#include "archive/unpack.h"
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/foundations.h"
#include "dialect/atlas/home.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define ARCHIVE_MAX ((int64_t)1 << 50) /* of bytes and of files: more than anybody has */

/* One download.  tgz_fd is -1 when the tgz itself is not kept. */
struct fetch {
    struct unpack *unpack;
    int tgz_fd;
    int status; /* of the call */
    int rc;
    struct err e;
};

/* Keeps the tgz and unpacks it at the same time. */
static bool fetch_on_bytes(void *arg, struct str piece)
{
    struct fetch *k = arg;

    if (k->status != 200)
        return false;
    if (k->tgz_fd >= 0)
        k->rc = fd_write_all(k->tgz_fd, piece.p, piece.n, &k->e);
    if (k->rc == 0)
        k->rc = unpack_feed(k->unpack, piece.p, piece.n, &k->e);
    return k->rc == 0;
}

/* ---- from the temporary place to the one that was asked for ---- */

/* Only what is below one path of the job. */
static int move_part(const char *from, const char *part, const char *to, struct err *e)
{
    AUTO_FREE char *a = path_join(from, part), *b = path_join(to, part);
    char *slash = strrchr(b, '/');
    struct stat st;

    if (part[0] == '/' || strstr(part, ".."))
        return err_set(e, ERR_INVALID, "--source_dir '%s' must be a path inside the job", part);
    if (lstat(a, &st) < 0)
        return err_set(e, ERR_NOT_FOUND, "the job has nothing at '%s'", part);
    *slash = '\0';
    int rc = dir_make_all(b, 0777, e);
    *slash = '/';
    if (rc < 0 || (S_ISDIR(st.st_mode) && dir_make_all(b, 0777, e) < 0))
        return -1;
    if (S_ISDIR(st.st_mode))
        return atlas_move_entries(a, b, e);
    return rename(a, b) < 0 ? err_sys(e, "cannot create %s", b) : 0;
}

/* ---- fetching ---- */

/* An error of the disk ends the call from inside fetch_on_bytes, so it is looked at before the
 * status. */
static int download(struct foundations *f, const char *id, struct fetch *k, struct err *e)
{
    AUTO(buf) struct buf path = {0};

    found_job_path(&path, "/job_bundle/", id, "");
    found_step(f, "GET %s", path.p);
    int rc =
        http_call_stream(f->http, "GET", path.p, NULL, STR(""), &k->status, fetch_on_bytes, k, e);
    if (rc < 0)
        return found_unreachable(e);
    if (k->rc < 0) {
        *e = k->e;
        return -1;
    }
    if (k->status != 200)
        return err_set(e, k->status == 404 ? ERR_NOT_FOUND : ERR_INTERNAL,
                       "the scheduler answered with status %d", k->status);
    return unpack_finish(k->unpack, e);
}

static int fetch_into(struct foundations *f, const struct found_opts *o, const char *temp,
                      const char *tgz, struct err *e)
{
    const char *id = o->ops.p[1];
    struct fetch k = {.tgz_fd = -1};
    /* A scheduler the user chose may send what a job left behind, however large or empty it is. */
    struct unpack_conf conf = {
        .top = id,
        .outside_links = true, /* a virtual environment in the directory has such */
        .limits = {.total_bytes = ARCHIVE_MAX, .members = ARCHIVE_MAX, .ratio = 2000}};

    if (unpack_open_dir(temp, &conf, &k.unpack, e) < 0)
        return -1;
    if (tgz)
        k.tgz_fd = open(tgz, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int rc = tgz && k.tgz_fd < 0 ? err_sys(e, "cannot create %s", tgz) : download(f, id, &k, e);
    if (k.tgz_fd >= 0 && close(k.tgz_fd) < 0 && rc == 0)
        rc = err_sys(e, "cannot write %s", tgz);
    unpack_free(k.unpack);
    return rc;
}

static int fetch_put_in_place(const struct found_opts *o, const char *temp, const char *dest,
                              struct err *e)
{
    if (dir_make_all(dest, 0777, e) < 0)
        return -1;
    return o->source_dir ? move_part(temp, o->source_dir, dest, e)
                         : atlas_move_entries(temp, dest, e);
}

/* A failure leaves nothing behind: the temporary names and an empty destination are removed. */
static int fetch(struct foundations *f, const struct found_opts *o, struct err *e)
{
    const char *id = o->ops.p[1], *dest = o->save_dir ? o->save_dir : id;
    bool keep_tgz = !o->save_dir && !o->source_dir;
    AUTO_FREE char *temp = NULL, *part = xasprintf("%s.tgz.part", id),
                   *tgz = xasprintf("%s.tgz", id);
    struct err ignored;

    if (dir_make_all(dest, 0777, e) < 0)
        return -1;
    temp = xasprintf("%s/.%s.part", dest, id);
    (void)dir_remove_tree(temp, &ignored); /* of one that was interrupted */
    int rc = fetch_into(f, o, temp, keep_tgz ? part : NULL, e);
    if (rc == 0)
        rc = fetch_put_in_place(o, temp, dest, e);
    if (rc == 0 && keep_tgz && rename(part, tgz) < 0)
        rc = err_sys(e, "cannot rename %s", part);
    (void)dir_remove_tree(temp, &ignored);
    if (rc < 0) {
        unlink(part);
        rmdir(dest); /* when it is empty */
    }
    return rc;
}

int found_get_job(struct foundations *f, const struct found_opts *o)
{
    AUTO(json) struct json *job = NULL;
    struct err e = {0};

    if (found_known_job(f, o, &job))
        return 1;
    if (fetch(f, o, &e) < 0) {
        found_step(f, "%s", e.text);
        found_say(f, "Error: Could not download Job %s", o->ops.p[1]);
        return 1;
    }
    return found_say(f, "Successfully retrieved Job %s from archive store", o->ops.p[1]);
}
