/* prepare.c - what a job finds when it starts: its directory, script, parameters and assets
 *
 * A file goes to resources/<its name>, a directory with all below it to resources/<its name>/….
 * What is not there is warned about and left out; the job runs all the same.  For a job on another
 * machine nothing is copied here, as a rule: the scheduler is told what to send.
 */
#include "base/file.h"
#include "dialect/hyperctl/layout.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

enum { SCRIPT_MAX = 64 << 20, COPY_PIECE = 1 << 20, TREE_DEPTH_MAX = 64, UPLOADS_MAX = 48 };

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

/* Linux allows no target that is longer than the buffer. */
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

/* A link at the top is followed, links below it are copied as links. */
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

/* The absolute path of an asset without slashes at its end, and where its name begins in it.  NULL:
 * there is none, which was said. */
static char *find_asset(const struct hyper_prepare *p, struct str asset, const char **out_name)
{
    AUTO_FREE char *path = hyper_path(asset, p->cwd);
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        path[--n] = 0;
    const char *slash = strrchr(path, '/');
    *out_name = slash ? slash + 1 : path;
    if (access(path, F_OK) == 0 && **out_name && strcmp(*out_name, ".") != 0 &&
        strcmp(*out_name, "..") != 0)
        return TAKE(path);
    AUTO_FREE char *text =
        xasprintf("%s not exists, skip to %s", path, p->batch->remote ? "upload" : "copy");
    if (p->warn)
        p->warn(p->arg, text);
    return NULL;
}

static int copy_asset(const struct hyper_prepare *p, const struct hyper_job *j, struct str asset,
                      struct err *e)
{
    const char *name;
    AUTO_FREE char *from = find_asset(p, asset, &name), *dir = hyper_job_file(j, "resources");

    if (!from)
        return 0;
    AUTO_FREE char *to = path_join(dir, name);
    if (dir_make_all(dir, 0777, e) < 0)
        return -1;
    return copy_entry(from, to, 0, e);
}

static int copy_assets(const struct hyper_prepare *p, const struct hyper_job *j, struct err *e)
{
    for (size_t i = 0; i < json_len(j->assets); i++)
        if (copy_asset(p, j, json_str(json_at(j->assets, i)), e) < 0)
            return -1;
    return 0;
}

/* ---- what goes to another machine ---- */

static void upload(struct hyper_job *j, const char *from, const char *to)
{
    AUTO_FREE char *text = xasprintf("%s:%s", from, to);

    json_push_take(j->uploads, json_new_str(str_of(text)));
}

/* A file of the job directory goes to the same place on the other machine. */
static void upload_own(struct hyper_job *j, const char *file)
{
    AUTO_FREE char *path = hyper_job_file(j, file);

    upload(j, path, file);
}

/* "from:to" separates with a colon. */
static bool any_colon(const struct json *assets)
{
    for (size_t i = 0; i < json_len(assets); i++)
        if (memchr(json_str(json_at(assets, i)).p, ':', json_str(json_at(assets, i)).n))
            return true;
    return false;
}

/* Each asset from where it is; or, when there are many, or names that a list of "from:to" cannot
 * hold, all of them as one directory that is made here first. */
static int upload_assets(const struct hyper_prepare *p, struct hyper_job *j, struct err *e)
{
    if (json_len(j->assets) > UPLOADS_MAX || any_colon(j->assets)) {
        if (copy_assets(p, j, e) < 0)
            return -1;
        AUTO_FREE char *all = hyper_job_file(j, "resources");
        if (access(all, F_OK) == 0)
            upload_own(j, "resources");
        return 0;
    }
    for (size_t i = 0; i < json_len(j->assets); i++) {
        const char *name;
        AUTO_FREE char *from = find_asset(p, json_str(json_at(j->assets, i)), &name);
        AUTO_FREE char *to = from ? path_join("resources", name) : NULL;
        if (from)
            upload(j, from, to);
    }
    return 0;
}

/* The list is made anew each time: a batch that runs again may have other assets. */
static int list_uploads(const struct hyper_prepare *p, struct hyper_job *j, struct err *e)
{
    json_free(j->uploads);
    j->uploads = json_new_array();
    upload_own(j, "run.sh");
    upload_own(j, "params.json");
    return upload_assets(p, j, e);
}

/* ---- script and parameters ---- */

/* A file that cannot be read counts as different. */
static bool same_file(const char *path, struct str text)
{
    AUTO_FREE char *was = NULL;
    struct err e;
    size_t n;

    return file_read_all(path, SCRIPT_MAX, &was, &n, &e) == 0 && n == text.n &&
           !memcmp(was, text.p, n);
}

/* O_EXCL: the caller has removed the old file, and a link in its place must not be followed. */
static int write_new(const char *path, mode_t mode, struct str text, struct err *e)
{
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

    if (fd < 0)
        return err_sys(e, "cannot make %s", path);
    return fd_write_all(fd, text.p, text.n, e);
}

/* The script is written only when it differs: a running shell reads it as it goes. */
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
    /* The portal may hold the token of the batch, which no other user may learn. */
    return write_new(path, 0600, buf_str(&text), e);
}

/* Replaced, not rewritten: a running job may be reading the old file. */
static int write_params(const struct hyper_job *j, struct err *e)
{
    AUTO_FREE char *path = hyper_job_file(j, "params.json"),
                   *text = json_text_as(j->params, JSON_PYTHON);

    unlink(path);
    return write_new(path, 0644, str_of(text), e);
}

int hyper_job_prepare(const struct hyper_prepare *p, struct hyper_job *j, bool *out_changed,
                      struct err *e)
{
    AUTO_FREE char *tmp = hyper_job_file(j, "tmp");
    bool far = p->batch->remote;

    if (mkdir(j->data_dir, 0777) < 0 && errno != EEXIST && dir_make_all(j->data_dir, 0777, e) < 0)
        return err_wrap(e, "making the directory of job '%.60s'", j->name);
    if (!far && p->batch->independent_tmp && mkdir(tmp, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "cannot make %s", tmp);
    if (write_script(p, j, out_changed, e) < 0 || write_params(j, e) < 0)
        return -1;
    return far ? list_uploads(p, j, e) : copy_assets(p, j, e);
}
