/* cmd_batch.c - hyperctl batch and hyperctl job: asking about batches, and ending a job
 *
 * A live batch is asked over the socket in its directory, so neither its port nor its token matter
 * here.  Who is alive is what the lock says.
 */
#include "base/file.h"
#include "base/util.h"
#include "dialect/hyperctl/grid.h"
#include "dialect/hyperctl/hyperctl.h"
#include "dialect/hyperctl/py_str.h"
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

/* Limits of what is read and printed, so that a broken file cannot exhaust the memory. */
enum { OUT_MAX = 512 << 20, CONFIG_MAX = 128 << 20 };
#define OLD_DIR "~/hyperctl-batches-working-dir"

/* ---- finding batches ---- */

/* The batch a directory's config.json describes; NULL when it has none that can be read. */
static struct hyper_batch *load_dir(const struct hyperctl *h, const char *dir)
{
    AUTO_FREE char *path = path_join(dir, "config.json");
    struct hyper_batch *b = NULL;
    struct hyper_layout l;
    struct err e;
    size_t left;

    if (access(path, R_OK) < 0 || hyper_batch_load(path, h->cwd, &b, &e) < 0)
        return NULL;
    hyper_layout_init(&l, dir);
    if (hyper_layout_restore(&l, b, &left, &e) < 0) {
        hyper_batch_free(b);
        b = NULL;
    }
    hyper_layout_done(&l);
    return b;
}

/* A batch and its directory; found_done frees both. */
struct found {
    struct hyper_batch *batch;
    char *dir;
};

static void found_done(struct found *f)
{
    hyper_batch_free(f->batch);
    free(f->dir);
}

/* Takes `dir`.  True: the directory holds the batch of this name. */
static bool try_dir(const struct hyperctl *h, struct found *f, const char *name, char *dir)
{
    f->batch = load_dir(h, dir);
    if (f->batch && !strcmp(f->batch->name, name)) {
        f->dir = dir;
        return true;
    }
    hyper_batch_free(f->batch);
    f->batch = NULL;
    free(dir);
    return false;
}

/* {B}/<name>, {B} itself, {B}/<name>/<name>: where the versions of the program put it. */
static int batch_find(struct hyperctl *h, const struct hyper_opts *o, struct found *f,
                      struct err *e)
{
    AUTO_FREE char *base = hyper_batches_dir(o->batches_data_dir, NULL, h->cwd);
    AUTO_FREE char *old = hyper_path(str_of(OLD_DIR), h->cwd);
    const char *name = o->batch_name;

    *f = (struct found){0};
    if (hyper_name_check(str_of(name), "batch", e) == 0 &&
        (try_dir(h, f, name, path_join(base, name)) || try_dir(h, f, name, xstrdup(base)) ||
         try_dir(h, f, name, xasprintf("%s/%s/%s", base, name, name)) ||
         (!o->batches_data_dir && try_dir(h, f, name, path_join(old, name)))))
        return 0;
    return err_set(e, ERR_NOT_FOUND, "batch %.180s not exists", name);
}

/* ---- asking a live one ---- */

/* One request over the socket in the batch directory. */
static int batch_ask(const struct found *f, const char *method, const char *path, struct buf *out,
                     struct err *e)
{
    AUTO_FREE char *target = xasprintf("unix:%s/" HYPER_OWN_DIR "/sock", f->dir);
    struct http_client *c = http_client_new(target, NULL, NULL);
    struct http_response r = {0};
    int rc = http_call(c, method, path, NULL, STR(""), &r, e);

    if (rc == 0)
        buf_add(out, r.body.p, r.body.n);
    http_response_done(&r);
    http_client_free(c);
    return rc < 0 ? err_wrap(e, "asking the batch in %s", f->dir) : 0;
}

/* The `data` of an answer; an answer that is an error becomes ours, as it came. */
static int batch_ask_data(struct hyperctl *h, const struct hyper_opts *o, const char *method,
                          const char *path, struct json **out, struct err *e)
{
    AUTO(buf) struct buf body = {0};
    __attribute__((cleanup(found_done))) struct found f;
    AUTO(json) struct json *j = NULL;

    buf_init(&body, OUT_MAX);
    if (batch_find(h, o, &f, e) < 0)
        return -1;
    /* A socket may be left over from a process that was killed; the lock is not. */
    if (!hyper_layout_owner(f.dir))
        return err_set(e, ERR_UNAVAILABLE, "batch is not running");
    if (batch_ask(&f, method, path, &body, e) < 0 ||
        json_parse(buf_str(&body), "answer", &j, e) < 0)
        return -1;
    if (json_int(json_get(j, "code")) != 0) {
        AUTO_FREE char *text = json_text_as(j, JSON_PYTHON);
        return err_set(e, ERR_INVALID, "%s", text);
    }
    *out = json_copy(json_get(j, "data"));
    return 0;
}

/* The caller frees it. */
static char *job_url(const char *name, const char *end)
{
    struct buf b;

    buf_init(&b, OUT_MAX);
    buf_adds(&b, "/hyperctl/api/job/");
    url_encode(&b, str_of(name));
    buf_adds(&b, end);
    return buf_take(&b, NULL);
}

static void json_print(const struct json *j, enum json_form form)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, OUT_MAX);
    json_write(&b, j, form);
    buf_addc(&b, '\n');
    cli_print(&b);
}

/* ---- job … ---- */

static void jobs_print(const struct json *jobs)
{
    static const char *const titles[] = {"name", "status"};
    AUTO(buf) struct buf b = {0};
    struct grid *g = grid_new(titles, ARRAY_SIZE(titles));

    for (size_t i = 0; i < json_len(jobs); i++)
        for (size_t c = 0; c < ARRAY_SIZE(titles); c++)
            grid_cell(g, json_str(json_get(json_at(jobs, i), titles[c])));
    buf_init(&b, OUT_MAX);
    grid_render(g, &b);
    grid_free(g);
    cli_print(&b);
}

/* The status files tell what the last run left behind. */
static int list_offline(struct hyperctl *h, const struct hyper_opts *o)
{
    __attribute__((cleanup(found_done))) struct found f;
    struct err e = {0};

    if (batch_find(h, o, &f, &e) < 0)
        return hyper_fail(&e);
    AUTO(json) struct json *jobs = json_new_array();
    for (size_t i = 0; i < f.batch->jobs.n; i++)
        json_push_take(jobs, hyper_job_json(&f.batch->jobs.p[i]));
    jobs_print(jobs);
    return 0;
}

int hyperctl_job_list(struct hyperctl *h, const struct hyper_opts *o)
{
    AUTO(json) struct json *data = NULL;
    struct err e = {0};

    if (batch_ask_data(h, o, "GET", "/hyperctl/api/job", &data, &e) < 0) {
        if (o->offline && e.code == ERR_UNAVAILABLE)
            return list_offline(h, o);
        return hyper_fail(&e);
    }
    jobs_print(json_get(data, "jobs"));
    return 0;
}

/* The exit status of a command about one job. */
static int one_job(struct hyperctl *h, const struct hyper_opts *o, const char *method,
                   const char *end, enum json_form form)
{
    AUTO_FREE char *path = job_url(o->job_name, end);
    AUTO(json) struct json *data = NULL;
    struct err e = {0};

    if (batch_ask_data(h, o, method, path, &data, &e) < 0)
        return hyper_fail(&e);
    json_print(data, form);
    return 0;
}

int hyperctl_job_describe(struct hyperctl *h, const struct hyper_opts *o)
{
    return one_job(h, o, "GET", "", JSON_PYTHON_INDENTED);
}

int hyperctl_job_kill(struct hyperctl *h, const struct hyper_opts *o)
{
    return one_job(h, o, "POST", "/kill", JSON_PYTHON);
}

/* Reads the file, so that it works also when the batch does not run. */
int hyperctl_job_logs(struct hyperctl *h, const struct hyper_opts *o)
{
    __attribute__((cleanup(found_done))) struct found f;
    struct err e = {0};

    if (batch_find(h, o, &f, &e) < 0)
        return hyper_fail(&e);
    const struct hyper_job *j = hyper_batch_find(f.batch, str_of(o->job_name));
    if (!j) {
        err_set(&e, ERR_NOT_FOUND, "job %.180s does not exists ", o->job_name);
        return hyper_fail(&e);
    }
    AUTO_FREE char *path = hyper_job_file(j, o->stderr_too ? "stderr" : "stdout");
    FILE *in = fopen(path, "re");
    char piece[64 << 10];
    size_t n;
    if (!in) {
        err_sys(&e, "cannot read %s", path);
        return hyper_fail(&e);
    }
    while ((n = fread(piece, 1, sizeof(piece), in)) > 0)
        if (fd_write_all(STDOUT_FILENO, piece, n, &e) < 0)
            break;
    fclose(in);
    return 0;
}

/* ---- batch … ---- */

/* The lock says RUNNING; server.pid says that the batch ran before. */
static const char *batch_status(const char *dir)
{
    AUTO_FREE char *pid = path_join(dir, "server.pid");

    if (hyper_layout_owner(dir))
        return "RUNNING";
    return access(pid, F_OK) < 0 ? "NOT_START" : "FINISHED";
}

/* From the files of the batch, whether it runs or not. */
static struct json *batch_summary(const struct hyper_batch *b, const char *dir)
{
    struct json *o = hyper_summary_json(b, batch_status(dir));
    AUTO_FREE char *portal = hyper_portal(b->host, b->port, NULL);

    json_set_str(o, "portal", portal);
    return o;
}

static int dir_name_cmp(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Paths; whoever made the list frees them. */
typedef VEC(char *) name_list;

/* A directory that cannot be listed has no batches. */
static void add_dirs(const char *base, name_list *out)
{
    DIR *d = opendir(base);

    for (struct dirent *e; d && (e = readdir(d));) {
        AUTO_FREE char *path = path_join(base, e->d_name);
        struct stat st;
        if (e->d_name[0] != '.' && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            vec_push(out, TAKE(path));
    }
    if (d)
        closedir(d);
}

static void add_row(struct grid *g, const struct json *summary, const char *const *titles, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        AUTO(buf) struct buf cell = {0};
        buf_init(&cell, OUT_MAX);
        py_str_write(&cell, json_get(summary, titles[i]));
        grid_cell(g, buf_str(&cell));
    }
}

/* Directories that hold no readable batch are left out. */
static size_t add_rows(struct hyperctl *h, struct grid *g, const name_list *dirs,
                       const char *const *titles, size_t n)
{
    size_t rows = 0;

    for (size_t i = 0; i < dirs->n; i++) {
        struct hyper_batch *b = load_dir(h, dirs->p[i]);
        if (!b)
            continue;
        AUTO(json) struct json *summary = batch_summary(b, dirs->p[i]);
        add_row(g, summary, titles, n);
        hyper_batch_free(b);
        rows++;
    }
    return rows;
}

int hyperctl_batch_list(struct hyperctl *h, const struct hyper_opts *o)
{
    static const char *const titles[] = {"name", "status",  "total",   "failed",
                                         "init", "succeed", "running", "portal"};
    AUTO_FREE char *base = hyper_batches_dir(o->batches_data_dir, NULL, h->cwd);
    AUTO_FREE char *old = hyper_path(str_of(OLD_DIR), h->cwd);
    AUTO(buf) struct buf out = {0};
    name_list dirs = {0};
    bool there = access(base, F_OK) == 0;

    buf_init(&out, OUT_MAX);
    if (!there && !o->batches_data_dir && !getenv("HYPERCTL_BATCHES_DATA_DIR") &&
        access(old, F_OK) == 0) { /* the name the first manuals gave it */
        there = true;
        add_dirs(old, &dirs);
    }
    add_dirs(base, &dirs);
    if (dirs.n)
        qsort(dirs.p, dirs.n, sizeof(*dirs.p), dir_name_cmp);
    struct grid *g = grid_new(titles, ARRAY_SIZE(titles));
    if (!there)
        buf_adds(&out, "null\n");
    else if (!add_rows(h, g, &dirs, titles, ARRAY_SIZE(titles)))
        buf_adds(&out, "empty\n");
    else
        grid_render(g, &out);
    grid_free(g);
    for (size_t i = 0; i < dirs.n; i++)
        free(dirs.p[i]);
    vec_done(&dirs);
    cli_print(&out);
    return 0;
}

int hyperctl_batch_describe(struct hyperctl *h, const struct hyper_opts *o)
{
    __attribute__((cleanup(found_done))) struct found f;
    struct err e = {0};

    if (batch_find(h, o, &f, &e) < 0)
        return hyper_fail(&e);
    AUTO(json) struct json *summary = batch_summary(f.batch, f.dir);
    json_print(summary, JSON_PYTHON_INDENTED);
    return 0;
}
