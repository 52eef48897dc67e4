/* files.c - /api/v2beta/jobs/JOB/files/…: the archive of a job, for scripts on other machines
 *
 * A script that is tracked but not started by us keeps its files here: PUT writes one below a
 * section of its archive, GET reads one, GET with a slash at the end lists a directory with all
 * below it. Paths are walked component by component and through no link, since jobs write into
 * archives too.
 */
#include "base/file.h"
#include "base/json_out.h"
#include "base/util.h"
#include "dialect/atlas/atlas_priv.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

enum { NAME_BYTES = 256, DEPTH_MAX = 64 };

static bool is_section(struct str s)
{
    return str_eq_c(s, "artifacts") || str_eq_c(s, "user_artifacts") ||
           str_eq_c(s, "synced_directories");
}

static bool files_name_ok(struct str s)
{
    return s.n && s.n < NAME_BYTES && !str_eq_c(s, ".") && !str_eq_c(s, "..");
}

/* The directory of the last component, made on the way when `make`; *out_name is that component. */
static int files_walk(const char *root, struct str path, bool make, char out_name[NAME_BYTES])
{
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (size_t depth = 0; fd >= 0; depth++) {
        struct str part = str_cut(path, '/', &path);
        if (!files_name_ok(part) || depth == DEPTH_MAX) {
            close(fd);
            errno = EINVAL;
            return -1;
        }
        snprintf(out_name, NAME_BYTES, STR_FMT, STR_ARG(part));
        if (!path.n)
            return fd;
        if (make)
            mkdirat(fd, out_name, 0755);
        int next = openat(fd, out_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    return -1;
}

/* arg[0] is "JOB/files/SECTION/…"; the root of the archive is yours. */
static char *files_split_path(struct call *c, struct str *out_path, char id[ATLAS_ID_MAX])
{
    struct str rest = c->arg[0], job = str_cut(rest, '/', &rest), files = str_cut(rest, '/', &rest);

    if (job.n >= ATLAS_ID_MAX || !str_eq_c(files, "files"))
        return NULL;
    snprintf(id, ATLAS_ID_MAX, STR_FMT, STR_ARG(job));
    struct str after, section = str_cut(rest, '/', &after);
    if (!atlas_id_ok(id) || !is_section(section) || !after.n)
        return NULL;
    *out_path = rest;
    return xasprintf("%s/%s", call_atlas(c)->archive_dir, id);
}

static int no_file(struct call *c)
{
    return err_set(&c->err, ERR_NOT_FOUND, "there is no such file in an archive");
}

/* ---- put ---- */

static int write_file(int dir, const char *name, struct str bytes, struct err *e)
{
    char part[NAME_BYTES + 16];

    snprintf(part, sizeof(part), ".%.200s.part", name);
    AUTO_FD fd = openat(dir, part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_sys(e, "cannot write %s", name);
    if (fd_write_all(fd, bytes.p, bytes.n, e) < 0 || renameat(dir, part, dir, name) < 0) {
        unlinkat(dir, part, 0);
        return e->code ? -1 : err_sys(e, "cannot write %s", name);
    }
    return 0;
}

static int files_put_work(struct call *c)
{
    char id[ATLAS_ID_MAX], name[NAME_BYTES];
    struct atlas_job j;
    struct str path;
    AUTO_FREE char *root = files_split_path(c, &path, id);

    if (!root)
        return no_file(c);
    if (atlas_job_find(c, str_of(id), &j) < 0)
        return -1;
    atlas_job_done(&j);
    if (dir_make_all(root, 0755, &c->err) < 0)
        return -1;
    AUTO_FD dir = files_walk(root, path, true, name);
    if (dir < 0)
        return err_set(&c->err, ERR_INVALID, "this path cannot be part of an archive");
    c->status = 201;
    buf_adds(&c->out, "{}\n");
    return write_file(dir, name, c->body, &c->err);
}

void atlas_files_put(struct call *c)
{
    atlas_work(c, files_put_work, NULL);
}

/* ---- get ---- */

struct served {
    int fd;
    bool all; /* a slash stood at the end of the path: a directory is asked for */
};

static void served_free(void *data)
{
    struct served *s = data;

    if (s->fd >= 0)
        close(s->fd);
}

static void list_dir(struct call *c, int fd, const char *above, int depth)
{
    DIR *d = fdopendir(fd);

    if (!d) {
        close(fd);
        return;
    }
    for (struct dirent *n; (n = readdir(d));) {
        struct stat st;
        if (!strcmp(n->d_name, ".") || !strcmp(n->d_name, "..") ||
            fstatat(fd, n->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        AUTO_FREE char *path = xasprintf("%s%s", above, n->d_name);
        if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
            AUTO_FREE char *below = xasprintf("%s/", path);
            int sub = openat(fd, n->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (sub >= 0)
                list_dir(c, sub, below, depth + 1);
        } else if (S_ISREG(st.st_mode)) {
            buf_adds(&c->out, c->out.n > 1 ? ",{\"path\":" : "{\"path\":");
            jw_str(&c->out, NULL, str_of(path));
            buf_addf(&c->out, ",\"size\":%lld,\"mtime\":%lld.%09ld}", (long long)st.st_size,
                     (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
        }
    }
    closedir(d);
}

static int files_get_work(struct call *c)
{
    struct served *s = c->data;
    char id[ATLAS_ID_MAX], name[NAME_BYTES];
    struct str path = {0};
    AUTO_FREE char *root = files_split_path(c, &path, id);
    bool all = path.n && s->all;
    struct stat st;

    AUTO_FD dir = root ? files_walk(root, path, false, name) : -1;
    int fd = dir < 0
                 ? -1
                 : openat(dir, name,
                          O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (all ? O_DIRECTORY : 0));
    if (fd < 0 || fstat(fd, &st) < 0 || (!all && !S_ISREG(st.st_mode))) {
        if (fd >= 0)
            close(fd);
        return no_file(c);
    }
    if (!all) {
        s->fd = fd;
        return 0;
    }
    buf_addc(&c->out, '[');
    list_dir(c, fd, "", 0);
    buf_adds(&c->out, "]\n");
    return 0;
}

static void get_then(struct call *c)
{
    struct served *s = c->data;

    if (s->fd < 0) {
        call_reply(c);
        return;
    }
    struct http_req *r = call_take_req(c);
    if (r) {
        http_reply_header(r, "X-Content-Type-Options", "nosniff");
        http_reply_fd_take(r, TAKE_FD(s->fd), "application/octet-stream");
    }
    call_free(c);
}

void atlas_files_get(struct call *c)
{
    struct served *s = arena_alloc(&c->mem, sizeof(*s));
    struct str path = http_path(c->req);

    s->fd = -1;
    c->data = s;
    c->free_data = served_free;
    s->all = path.p[path.n - 1] == '/';
    atlas_work(c, files_get_work, get_then);
}
