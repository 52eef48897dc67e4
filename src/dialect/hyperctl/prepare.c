/* prepare.c - what a job finds when it starts: its directory, script, parameters and assets
 *
 * A file goes to resources/<its name>, a directory with all below it to resources/<its name>/….
 * What is not there is warned about and left out; the job runs all the same.
 */
#include "base/file.h"
#include "dialect/hyperctl/layout.h"
#include "dialect/hyperctl/py_json.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

enum { SCRIPT_MAX = 64 << 20, COPY_PIECE = 1 << 20, TREE_DEPTH_MAX = 64 };

/* ---- assets ---- */

static int copy_file(const char *from, const char *to, mode_t mode, struct err *e)
{
    AUTO_FD in = open(from, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (in < 0)
        return err_sys(e, "cannot read the asset %s", from);
    unlink(to); /* a fresh file, whatever the one from the last time was */
    AUTO_FD out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777);
    if (out < 0)
        return err_sys(e, "cannot make %s", to);
    while ((n = sendfile(out, in, NULL, COPY_PIECE)) > 0)
        ;
    return n < 0 ? err_sys(e, "cannot copy the asset %s", from) : 0;
}

static int copy_link(const char *from, const char *to, struct err *e)
{
    char target[4096];
    ssize_t n = readlink(from, target, sizeof(target) - 1);

    if (n < 0)
        return err_sys(e, "cannot read the link %s", from);
    target[n] = 0;
    unlink(to);
    return symlink(target, to) < 0 ? err_sys(e, "cannot make the link %s", to) : 0;
}

static int copy_tree(const char *from, const char *to, int depth, struct err *e);

static int copy_entry(const char *from, const char *to, int depth, struct err *e)
{
    struct stat st;

    if ((depth ? lstat(from, &st) : stat(from, &st)) < 0)
        return err_sys(e, "cannot look at the asset %s", from);
    if (S_ISLNK(st.st_mode))
        return copy_link(from, to, e);
    if (S_ISDIR(st.st_mode))
        return copy_tree(from, to, depth + 1, e);
    if (!S_ISREG(st.st_mode))
        return 0; /* sockets, devices and pipes cannot be copied */
    return copy_file(from, to, st.st_mode, e);
}

static int copy_tree(const char *from, const char *to, int depth, struct err *e)
{
    struct dirent *d;
    int rc = 0;

    if (depth > TREE_DEPTH_MAX)
        return err_set(e, ERR_LIMIT, "the asset %.150s is nested more than %d directories deep",
                       from, TREE_DEPTH_MAX);
    if (mkdir(to, 0777) < 0 && errno != EEXIST)
        return err_sys(e, "cannot make %s", to);
    DIR *dir = opendir(from);
    if (!dir)
        return err_sys(e, "cannot read the asset %s", from);
    while (rc == 0 && (d = readdir(dir))) {
        if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
            continue;
        AUTO_FREE char *a = path_join(from, d->d_name), *b = path_join(to, d->d_name);
        rc = copy_entry(a, b, depth, e);
    }
    closedir(dir);
    return rc;
}

static int copy_asset(const struct hyper_prepare *p, const struct hyper_job *j, struct str asset,
                      struct err *e)
{
    AUTO_FREE char *from = hyper_path(asset, p->cwd), *dir = hyper_job_file(j, "resources");
    size_t n = strlen(from);

    while (n > 1 && from[n - 1] == '/')
        from[--n] = 0;
    const char *slash = strrchr(from, '/');
    const char *base = slash ? slash + 1 : from;
    if (access(from, F_OK) < 0 || !*base || !strcmp(base, ".") || !strcmp(base, "..")) {
        AUTO_FREE char *text = xasprintf("%s not exists, skip to copy", from);
        if (p->warn)
            p->warn(p->arg, text);
        return 0;
    }
    AUTO_FREE char *to = path_join(dir, base);
    if (dir_make_all(dir, 0777, e) < 0)
        return -1;
    return copy_entry(from, to, 0, e);
}

/* ---- script and parameters ---- */

static bool same_file(const char *path, struct str text)
{
    AUTO_FREE char *was = NULL;
    struct err e;
    size_t n;

    return file_read_all(path, SCRIPT_MAX, &was, &n, &e) == 0 && n == text.n &&
           !memcmp(was, text.p, n);
}

static int write_new(const char *path, struct str text, struct err *e)
{
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (fd < 0)
        return err_sys(e, "cannot make %s", path);
    return fd_write_all(fd, text.p, text.n, e);
}

static int write_script(const struct hyper_prepare *p, const struct hyper_job *j, bool *out_changed,
                        struct err *e)
{
    AUTO_FREE char *path = hyper_job_file(j, "run.sh");
    AUTO(buf) struct buf text = {0};

    buf_init(&text, SCRIPT_MAX);
    hyper_script(&text, p->batch, j, p->portal);
    if (text.overflow)
        return err_set(e, ERR_LIMIT, "the command of job '%.100s' is too long", j->name);
    *out_changed = !same_file(path, buf_str(&text));
    if (!*out_changed)
        return 0;
    unlink(path); /* a shell that is still reading the old one keeps it */
    return write_new(path, buf_str(&text), e);
}

static int write_params(const struct hyper_job *j, struct err *e)
{
    AUTO_FREE char *path = hyper_job_file(j, "params.json"), *text = py_json_text(j->params, 0);

    unlink(path);
    return write_new(path, str_of(text), e);
}

int hyper_job_prepare(const struct hyper_prepare *p, const struct hyper_job *j, bool *out_changed,
                      struct err *e)
{
    AUTO_FREE char *tmp = hyper_job_file(j, "tmp");

    if (mkdir(j->data_dir, 0777) < 0 && errno != EEXIST && dir_make_all(j->data_dir, 0777, e) < 0)
        return err_wrap(e, "making the directory of job '%.60s'", j->name);
    if (p->batch->independent_tmp && mkdir(tmp, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "cannot make %s", tmp);
    if (write_script(p, j, out_changed, e) < 0 || write_params(j, e) < 0)
        return -1;
    for (size_t i = 0; i < json_len(j->assets); i++)
        if (copy_asset(p, j, json_str(json_at(j->assets, i)), e) < 0)
            return -1;
    return 0;
}
