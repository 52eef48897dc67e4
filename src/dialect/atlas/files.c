/* files.c - files of archives: /archive/JOB/… for browsers, /api/v2beta/jobs/JOB/files/… for
 * scripts
 *
 * A script that is tracked but was not started by a worker keeps its files here: PUT writes a file
 * below a section of its archive, GET reads a file, GET with a slash at the end lists a directory
 * with everything below it.
 *
 * Jobs write into their archives, so a path is opened component by component and no symbolic link
 * is followed: a link cannot lead a reader out of the archive.
 */
#include "base/file.h"
#include "base/json_out.h"
#include "base/util.h"
#include "dialect/atlas/atlas_priv.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>

enum { NAME_BYTES = 256, DEPTH_MAX = 64 };

/* The sections of an archive that a script may write to. */
static bool is_section(struct str s)
{
    return str_eq_c(s, "artifacts") || str_eq_c(s, "user_artifacts") ||
           str_eq_c(s, "synced_directories");
}

/* A component of a path: no empty name, none that leads upwards. */
static bool files_name_ok(struct str s)
{
    return s.n && s.n < NAME_BYTES && !str_eq_c(s, ".") && !str_eq_c(s, "..");
}

/* Opens the directory of the last component and copies that component to out_name.  Directories on
 * the way are created when `make`. */
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

/* Opens a file below the root of an archive for reading. */
static int files_open(const char *root, struct str path, int flags)
{
    char name[NAME_BYTES];
    AUTO_FD dir = files_walk(root, path, false, name);

    return dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | flags);
}

/* arg[0] is "JOB/files/SECTION/…".  The result is the root of the archive, yours; NULL: the path is
 * something else. */
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
    return err_set(&c->err, ERR_NOT_FOUND, "the archive has no such file");
}

/* ---- put ---- */

/* Written under a temporary name, so that a reader never sees half a file. */
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

/* The job must exist; its archive is made when it is missing. */
static int files_put_work(struct call *c)
{
    char id[ATLAS_ID_MAX], name[NAME_BYTES];
    AUTO(atlas_job) struct atlas_job j = {0};
    struct str path;
    AUTO_FREE char *root = files_split_path(c, &path, id);

    if (!root)
        return no_file(c);
    if (atlas_job_find(c, str_of(id), &j) < 0)
        return -1;
    if (dir_make_all(root, 0755, &c->err) < 0)
        return -1;
    AUTO_FD dir = files_walk(root, path, true, name);
    if (dir < 0)
        return err_set(&c->err, ERR_INVALID,
                       "this path cannot be in an archive: a component is empty, '.', '..', too "
                       "long or a link");
    c->status = 201;
    buf_adds(&c->out, "{}\n");
    return write_file(dir, name, c->body, &c->err);
}

/* PUT /api/v2beta/jobs/JOB/files/SECTION/PATH. */
void atlas_files_put(struct call *c)
{
    atlas_work(c, files_put_work, NULL);
}

/* ---- get ---- */

/* The open file of an answer; served_free closes it unless it was sent.  fd is -1 for a listing. */
struct served {
    int fd;
    bool all; /* the path ends in a slash: the caller asks for a directory */
};

static void served_free(void *data)
{
    struct served *s = data;

    if (s->fd >= 0)
        close(s->fd);
}

/* Takes fd.  Files that vanish meanwhile, links and special files are left out. */
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
            char mtime[40];
            snprintf(mtime, sizeof(mtime), "%lld.%09ld", (long long)st.st_mtim.tv_sec,
                     st.st_mtim.tv_nsec);
            jw_object(&c->out, NULL);
            jw_text(&c->out, "path", path);
            jw_int(&c->out, "size", st.st_size);
            jw_raw(&c->out, "mtime", str_of(mtime));
            jw_end_object(&c->out);
        }
    }
    closedir(d);
}

static int files_get_work(struct call *c)
{
    struct served *s = c->data;
    char id[ATLAS_ID_MAX];
    struct str path = {0};
    AUTO_FREE char *root = files_split_path(c, &path, id);
    AUTO_FD fd = root ? files_open(root, path, s->all ? O_DIRECTORY : 0) : -1;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || (!s->all && !S_ISREG(st.st_mode)))
        return no_file(c);
    if (!s->all) {
        s->fd = TAKE_FD(fd);
        return 0;
    }
    jw_array(&c->out, NULL);
    list_dir(c, TAKE_FD(fd), "", 0);
    jw_end_array(&c->out);
    buf_addc(&c->out, '\n');
    return 0;
}

/* Loop thread. */
static void served_send(struct call *c, const char *type, const char *policy)
{
    struct served *s = c->data;
    struct http_req *r = call_take_req(c);

    if (r) {
        if (policy)
            http_reply_header(r, "Content-Security-Policy", policy);
        http_reply_fd_take(r, TAKE_FD(s->fd), type);
    }
    call_free(c);
}

static void files_get_then(struct call *c)
{
    if (((struct served *)c->data)->fd < 0)
        call_reply(c);
    else
        served_send(c, "application/octet-stream", NULL);
}

/* The descriptor belongs to the call until it is sent, also when the client leaves. */
static void served_start(struct call *c, call_work_fn work, call_fn then)
{
    struct served *s = call_alloc(c, sizeof(*s));
    struct str path = http_path(c->req);

    s->fd = -1;
    s->all = path.p[path.n - 1] == '/';
    c->data = s;
    c->free_data = served_free;
    atlas_work(c, work, then);
}

/* GET /api/v2beta/jobs/JOB/files/SECTION/PATH. */
void atlas_files_get(struct call *c)
{
    served_start(c, files_get_work, files_get_then);
}

/* ---- for browsers ---- */

/* The types that a browser shows.  Such a file is sent as a sandbox: a page that a job left behind
 * must not act in the name of the user who opens it. */
static const char *files_content_type(const char *path)
{
    static const struct {
        const char *end, *type;
    } types[] = {
        {".png", "image/png"},
        {".jpg", "image/jpeg"},
        {".jpeg", "image/jpeg"},
        {".gif", "image/gif"},
        {".svg", "image/svg+xml"},
        {".wav", "audio/wav"},
        {".mp3", "audio/mpeg"},
        {".mp4", "video/mp4"},
        {".webm", "video/webm"},
        {".pdf", "application/pdf"},
        {".json", "application/json"},
        {".csv", "text/csv; charset=utf-8"},
        {".txt", "text/plain; charset=utf-8"},
        {".log", "text/plain; charset=utf-8"},
        {".html", "text/html; charset=utf-8"},
    };
    size_t n = strlen(path);

    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        size_t m = strlen(types[i].end);
        if (n > m && !strcasecmp(path + n - m, types[i].end))
            return types[i].type;
    }
    return "application/octet-stream";
}

/* arg[0] is "JOB/path".  Names that begin with a dot are not shown. */
static int archive_file_work(struct call *c)
{
    struct served *s = c->data;
    struct str path = c->arg[0], id = str_cut(path, '/', &path);
    char name[ATLAS_ID_MAX];
    struct stat st;

    if (id.n >= sizeof(name) || !path.n)
        return err_set(&c->err, ERR_NOT_FOUND, "there is no such file");
    snprintf(name, sizeof(name), STR_FMT, STR_ARG(id));
    AUTO_FREE char *root = xasprintf("%s/%s", call_atlas(c)->archive_dir, name);
    bool hidden = path.p[0] == '.' || memmem(path.p, path.n, "/.", 2);
    s->fd = atlas_id_ok(name) && !hidden ? files_open(root, path, 0) : -1;
    if (s->fd < 0 || fstat(s->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(&c->err, ERR_NOT_FOUND, "the archive of job %.40s has no such file", name);
    return 0;
}

static void archive_file_then(struct call *c)
{
    served_send(c, files_content_type(c->arg[0].p), "sandbox");
}

/* GET /archive/JOB/PATH, and GET /JOB/PATH on the port of the archive server. */
void atlas_archive_file(struct call *c)
{
    served_start(c, archive_file_work, archive_file_then);
}
