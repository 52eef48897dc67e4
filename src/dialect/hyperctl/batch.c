/* batch.c - a batch file read and checked, in whichever of its three forms it is written
 *
 * Owns: which keys there are, where each form puts the command, names, defaults, messages.
 *
 * Unknown keys of the batch are warned about; of a job they are errors, since a misspelled
 * parameter of a job would silently change an experiment.
 */
#include "base/file.h"
#include "base/map.h"
#include "dialect/hyperctl/batch_priv.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>

enum { PORT_MAX = 65535 };

const char *hyper_status_name(enum hyper_status s)
{
    static const char *const names[] = {
#define X(up, text) text,
        HYPER_STATUS_LIST(X)
#undef X
    };

    return names[s];
}

/* ---- warnings ---- */

/* Unknown keys outside of jobs are ignored with a warning. */
static void batch_warn_unknown(struct hyper_batch *b, const struct json *obj, const char *where,
                               const char *const *known)
{
    for (struct json_it it = {0}; json_next(obj, &it);) {
        size_t i = 0, n = 0;
        while (known[i] && strcmp(known[i], it.key) != 0)
            i++;
        while (known[n])
            n++;
        if (known[i])
            continue;
        const char *near = str_nearest(it.key, known, n);
        hyper_warn(b, "%s%.60s is not a known key and is ignored%s%s%s", where, it.key,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
}

/* ---- names ---- */

int hyper_name_check(struct str name, const char *what, struct err *e)
{
    if (!name.n)
        return err_set(e, ERR_INVALID, "%s name is empty; give it one or leave it out", what);
    if (name.n > HYPER_NAME_MAX)
        return err_set(e, ERR_INVALID,
                       "%s name '%.40s...' is %zu bytes long; at most %d are allowed", what, name.p,
                       name.n, HYPER_NAME_MAX);
    for (size_t i = 0; i < name.n; i++)
        if ((unsigned char)name.p[i] < ' ' || name.p[i] == 0x7f || name.p[i] == '/')
            return err_set(
                e, ERR_INVALID, "%s name '" STR_FMT "' contains %s; it names a directory", what,
                (int)MIN(i, 100), name.p, name.p[i] == '/' ? "a slash" : "a control character");
    if (str_eq_c(name, ".") || str_eq_c(name, ".."))
        return err_set(e, ERR_INVALID,
                       "%s name '" STR_FMT "' names a directory that is always there", what,
                       STR_ARG(name));
    return 0;
}

/* The directory of a job lies beside the files of the batch. */
static int check_reserved(struct str name, struct err *e)
{
    /* "config" too: its state file would be config.json. */
    static const char *const own[] = {"config", "config.json", "server.pid", HYPER_OWN_DIR};

    for (size_t i = 0; i < ARRAY_SIZE(own); i++)
        if (str_eq_c(name, own[i]))
            return err_set(e, ERR_INVALID,
                           "job name '%s' is the name of a file of every batch; choose another",
                           own[i]);
    return 0;
}

/* "a.succeed" beside a job "a" would be its marker. */
static int check_against_markers(const struct hyper_batch *b, struct str name, struct err *e)
{
    static const char *const ends[] = {".running", ".succeed", ".failed", ".json"};

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        size_t n = strlen(ends[i]);
        if (name.n <= n || memcmp(name.p + name.n - n, ends[i], n) != 0)
            continue;
        struct str other = {name.p, name.n - n};
        if (map_str_get(b->by_name, other))
            return err_set(e, ERR_INVALID,
                           "job name '" STR_FMT "' is the name of a status file of job '" STR_FMT
                           "'; choose another",
                           STR_ARG(name), STR_ARG(other));
    }
    return 0;
}

/* A name as written, or as the digits of a number; *out stays NULL when there is none. */
static int take_name(const struct json *obj, const char *what, char **out, struct err *e)
{
    const struct json *v = json_get(obj, "name");
    AUTO_FREE char *name = NULL;

    if (!v)
        return 0;
    if (json_type(v) == JSON_INT)
        name = xasprintf("%lld", (long long)json_int(v));
    else if (json_type(v) == JSON_STR && !memchr(json_str(v).p, 0, json_str(v).n))
        name = xstrndup(json_str(v).p, json_str(v).n);
    else
        return err_set(e, ERR_INVALID, "%s name must be a text without NUL characters", what);
    if (hyper_name_check(str_of(name), what, e) < 0)
        return -1;
    *out = TAKE(name);
    return 0;
}

/* ---- jobs ---- */

static void job_done(struct hyper_job *j)
{
    free(j->name);
    free(j->command);
    free(j->working_dir);
    free(j->data_dir);
    free(j->hostname);
    json_free(j->uploads);
    json_free(j->params);
    json_free(j->resource);
    json_free(j->assets);
}

/* A path of the machine that runs the job: its shell knows where "~" is. */
static char *far_path(const char *text)
{
    if (text[0] == '~' && (!text[1] || text[1] == '/'))
        return xasprintf("$HOME%s", text + 1);
    return xstrdup(text);
}

/* `variables`: a path that begins with one is left to the shell of the job. */
static int take_path(struct hyper_loader *l, const struct json *obj, const char *key,
                     const char *where, bool variables, char **out)
{
    AUTO_FREE char *text = NULL;

    if (hyper_take_text(obj, key, where, &text, l->e) < 0)
        return -1;
    if (!text)
        return 0;
    if (!*text)
        return err_set(l->e, ERR_INVALID, "%s%s is empty; write a path or leave it out", where,
                       key);
    free(*out);
    /* The path is one of the other machine, so nothing here can resolve it. */
    if (variables && l->b->remote)
        *out = far_path(text);
    else
        *out = variables && text[0] == '$' ? TAKE(text) : hyper_path(str_of(text), l->cwd);
    return 0;
}

/* A job without params runs with an empty object. */
static int take_params(struct hyper_loader *l, const struct json *j, const char *where,
                       struct hyper_job *job)
{
    const struct json *params;

    if (hyper_take_object(j, "params", where, &params, l->e) < 0)
        return -1;
    if (!params)
        hyper_warn(l->b, "job '%s' has no params; it gets an empty object", job->name);
    job->params = params ? json_copy(params) : json_new_object();
    return 0;
}

static int take_assets(struct hyper_loader *l, const struct json *j, const char *where,
                       struct hyper_job *job)
{
    const struct json *assets = json_get(j, "assets");

    if (assets && json_type(assets) != JSON_ARRAY)
        return err_set(l->e, ERR_INVALID, "%sassets is %s; write a list of paths", where,
                       json_type_name(json_type(assets)));
    for (size_t i = 0; i < json_len(assets); i++)
        if (json_type(json_at(assets, i)) != JSON_STR || !json_str(json_at(assets, i)).n ||
            memchr(json_str(json_at(assets, i)).p, 0, json_str(json_at(assets, i)).n))
            return err_set(l->e, ERR_INVALID, "%sassets[%zu] must be a path", where, i);
    job->assets = assets ? json_copy(assets) : json_new_array();
    return 0;
}

/* The three forms of the file differ in where the command is. */
static int job_find_command(struct hyper_loader *l, const struct json *j,
                            const struct json *execution, const char *where, struct hyper_job *job)
{
    if (hyper_take_text(execution, "command", where, &job->command, l->e) < 0 ||
        hyper_take_text(j, "command", where, &job->command, l->e) < 0)
        return -1;
    if (!job->command && l->b->job_command)
        job->command = xstrdup(l->b->job_command);
    if (!job->command)
        return err_set(l->e, ERR_INVALID,
                       "job '%s' has no command; give it one, or the batch a job_command",
                       job->name);
    return 0;
}

/* The message is that of the original, which passes the keys to a Python function. */
static int check_job_keys(const struct json *j, const struct json *execution, const char *name,
                          struct err *e)
{
    static const char *const known[] = {"name",      "params",     "command", "working_dir",
                                        "data_dir",  "output_dir", "assets",  "resource",
                                        "execution", NULL};
    static const char *const in_execution[] = {"command", "data_dir", "working_dir", NULL};
    const char *key = hyper_unknown_key(j, known);

    if (!key)
        key = hyper_unknown_key(execution, in_execution);
    if (key)
        return err_set(e, ERR_INVALID, "job '%.60s': unexpected keyword argument '%.60s'", name,
                       key);
    return 0;
}

static int read_job(struct hyper_loader *l, const struct json *j, size_t i, struct hyper_job *job)
{
    const struct json *execution = NULL, *resource = NULL;
    char where[32];

    snprintf(where, sizeof(where), "jobs[%zu].", i);
    job->exit_code = -1;
    if (json_type(j) != JSON_OBJECT)
        return err_set(l->e, ERR_INVALID, "jobs[%zu] is %s; write an object", i,
                       json_type_name(json_type(j)));
    if (take_name(j, "job", &job->name, l->e) < 0)
        return err_wrap(l->e, "jobs[%zu]", i);
    if (!job->name) {
        job->name = xcalloc(1, HYPER_ID_LEN + 1);
        hyper_id_make(job->name);
    }
    if (check_reserved(str_of(job->name), l->e) < 0 ||
        hyper_take_object(j, "execution", where, &execution, l->e) < 0 ||
        hyper_take_object(j, "resource", where, &resource, l->e) < 0 ||
        check_job_keys(j, execution, job->name, l->e) < 0 ||
        job_find_command(l, j, execution, where, job) < 0 || take_params(l, j, where, job) < 0 ||
        take_assets(l, j, where, job) < 0 ||
        take_path(l, execution, "data_dir", where, false, &job->data_dir) < 0 ||
        take_path(l, j, "output_dir", where, false, &job->data_dir) < 0 ||
        take_path(l, j, "data_dir", where, false, &job->data_dir) < 0 ||
        take_path(l, execution, "working_dir", where, true, &job->working_dir) < 0 ||
        take_path(l, j, "working_dir", where, true, &job->working_dir) < 0)
        return -1;
    job->resource = resource ? json_copy(resource) : NULL;
    return 0;
}

/* The job belongs to the batch before its name is checked, so that it is freed. */
static int batch_add_job(struct hyper_loader *l, const struct json *j, size_t i)
{
    struct hyper_batch *b = l->b;
    struct hyper_job job = {0};

    if (read_job(l, j, i, &job) < 0) {
        job_done(&job);
        return -1;
    }
    vec_push(&b->jobs, job);
    if (map_str_get(b->by_name, str_of(job.name)))
        return err_set(l->e, ERR_INVALID, "job %s is already exists", job.name);
    map_str_put(b->by_name, str_of(job.name), (void *)(uintptr_t)b->jobs.n);
    return 0;
}

/* Older files write `job` instead of `jobs`. */
static int batch_load_jobs(struct hyper_loader *l, const struct json *j)
{
    const struct json *jobs = json_get(j, "jobs");

    if (jobs && json_get(j, "job"))
        return err_set(l->e, ERR_INVALID, "the batch has both jobs and job; keep one of them");
    if (!jobs)
        jobs = json_get(j, "job");
    if (json_type(jobs) != JSON_ARRAY)
        return err_set(l->e, ERR_INVALID, "jobs is %s; write a list of jobs",
                       jobs ? json_type_name(json_type(jobs)) : "missing");
    for (size_t i = 0; i < json_len(jobs); i++)
        if (batch_add_job(l, json_at(jobs, i), i) < 0)
            return -1;
    for (size_t i = 0; i < l->b->jobs.n; i++)
        if (check_against_markers(l->b, str_of(l->b->jobs.p[i].name), l->e) < 0)
            return -1;
    return 0;
}

/* ---- server and scheduler ---- */

static int load_server(struct hyper_loader *l, const struct json *j, const char *where)
{
    static const char *const known[] = {"host", "port", "bind", "exit_on_finish", NULL};
    struct hyper_batch *b = l->b;

    if (!j)
        return 0;
    batch_warn_unknown(b, j, where, known);
    if (hyper_take_text(j, "host", where, &b->host, l->e) < 0 ||
        hyper_take_text(j, "bind", where, &b->bind, l->e) < 0)
        return -1;
    if (!*b->host)
        return err_set(l->e, ERR_INVALID, "%shost is empty; write a name or an address", where);
    return hyper_take_int(j, "port", where, 0, PORT_MAX, &b->port, l->e);
}

static int load_interval(struct hyper_loader *l, const struct json *v)
{
    if (!v)
        return 0;
    if (json_type(v) != JSON_INT && json_type(v) != JSON_REAL)
        return err_set(l->e, ERR_INVALID,
                       "scheduler.interval is %s; write milliseconds as a number",
                       json_type_name(json_type(v)));
    l->b->interval_ms = json_real(v);
    if (!(l->b->interval_ms > 0) || !isfinite(l->b->interval_ms))
        return err_set(l->e, ERR_INVALID,
                       "scheduler.interval must have a positive callback_time (milliseconds)");
    json_free(l->b->interval);
    l->b->interval = json_copy(v);
    return 0;
}

static int load_scheduler(struct hyper_loader *l, const struct json *j)
{
    static const char *const known[] = {"interval", "exit_on_finish", "signal_file", NULL};
    AUTO_FREE char *file = NULL;

    if (!j)
        return 0;
    batch_warn_unknown(l->b, j, "scheduler.", known);
    if (load_interval(l, json_get(j, "interval")) < 0 ||
        hyper_take_bool(j, "exit_on_finish", "scheduler.", &l->b->exit_on_finish, l->e) < 0 ||
        hyper_take_text(j, "signal_file", "scheduler.", &file, l->e) < 0)
        return -1;
    if (file && *file)
        l->b->signal_file = hyper_path(str_of(file), l->cwd);
    return 0;
}

/* ---- the whole ---- */

/* The order decides: `server` wins over `daemon`, and `job_command` over `command`.  The backend
 * comes before the jobs, whose paths depend on it. */
static int load_parts(struct hyper_loader *l, const struct json *j)
{
    const struct json *server, *scheduler, *backend, *daemon;
    AUTO_FREE char *dir = NULL;

    if (hyper_take_object(j, "server", "", &server, l->e) < 0 ||
        hyper_take_object(j, "scheduler", "", &scheduler, l->e) < 0 ||
        hyper_take_object(j, "backend", "", &backend, l->e) < 0 ||
        hyper_take_object(j, "daemon", "", &daemon, l->e) < 0 ||
        load_server(l, daemon, "daemon.") < 0 ||
        hyper_take_bool(daemon, "exit_on_finish", "daemon.", &l->b->exit_on_finish, l->e) < 0 ||
        load_server(l, server, "server.") < 0 || load_scheduler(l, scheduler) < 0 ||
        hyper_load_backend(l, backend) < 0 ||
        hyper_take_bool(j, "independent_tmp", "", &l->b->independent_tmp, l->e) < 0 ||
        hyper_take_text(j, "batches_data_dir", "", &dir, l->e) < 0 ||
        hyper_take_text(j, "command", "", &l->b->job_command, l->e) < 0 ||
        hyper_take_text(j, "job_command", "", &l->b->job_command, l->e) < 0)
        return -1;
    if (dir && *dir)
        l->b->batches_data_dir = hyper_path(str_of(dir), l->cwd);
    return batch_load_jobs(l, j);
}

int hyper_batch_parse(const struct json *j, const char *cwd, struct hyper_batch **out,
                      struct err *e)
{
    static const char *const known[] = {
        "name",   "jobs",      "job",    "job_command",      "command",         "backend",
        "server", "scheduler", "daemon", "batches_data_dir", "independent_tmp", "version",
        NULL};
    struct hyper_batch *b = xcalloc(1, sizeof(*b));
    struct hyper_loader l = {b, cwd, e};
    int rc = 0;

    b->by_name = xcalloc(1, sizeof(*b->by_name));
    b->host = xstrdup("localhost");
    b->port = HYPER_PORT;
    b->slots = 1;
    b->interval = json_new_int(HYPER_INTERVAL_MS);
    b->interval_ms = HYPER_INTERVAL_MS;
    b->exit_on_finish = b->independent_tmp = true;
    if (json_type(j) != JSON_OBJECT)
        rc = err_set(e, ERR_INVALID, "a batch is an object with jobs, not %s",
                     json_type_name(json_type(j)));
    if (rc == 0)
        rc = take_name(j, "batch", &b->name, e);
    if (rc == 0 && !b->name) {
        b->name = xcalloc(1, HYPER_ID_LEN + 1);
        hyper_id_make(b->name);
        b->name_was_made = true;
    }
    if (rc == 0) {
        batch_warn_unknown(b, j, "", known);
        rc = load_parts(&l, j);
    }
    if (rc < 0) {
        hyper_batch_free(b);
        return -1;
    }
    *out = b;
    return 0;
}

int hyper_batch_load(const char *path, const char *cwd, struct hyper_batch **out, struct err *e)
{
    AUTO_FREE char *text = NULL;
    AUTO(json) struct json *j = NULL;
    size_t n;

    if (file_read_all(path, HYPER_FILE_MAX, &text, &n, e) < 0) {
        if (e->code == ERR_NOT_FOUND)
            err_set(e, ERR_NOT_FOUND, "No such file or directory: '%.180s'", path);
        return -1;
    }
    if (json_parse((struct str){text, n}, path, &j, e) < 0)
        return -1;
    return hyper_batch_parse(j, cwd, out, e);
}

void hyper_batch_free(struct hyper_batch *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->jobs.n; i++)
        job_done(&b->jobs.p[i]);
    for (size_t i = 0; i < b->machines.n; i++)
        hyper_machine_done(&b->machines.p[i]);
    for (size_t i = 0; i < b->warnings.n; i++)
        free(b->warnings.p[i]);
    vec_done(&b->jobs);
    vec_done(&b->machines);
    vec_done(&b->warnings);
    map_str_done(b->by_name);
    free(b->by_name);
    json_free(b->environments);
    json_free(b->interval);
    free(b->name);
    free(b->job_command);
    free(b->host);
    free(b->bind);
    free(b->signal_file);
    free(b->batches_data_dir);
    free(b);
}

struct hyper_job *hyper_batch_find(const struct hyper_batch *b, struct str name)
{
    uintptr_t at = (uintptr_t)map_str_get(b->by_name, name);

    return at ? &b->jobs.p[at - 1] : NULL;
}

void hyper_batch_count(const struct hyper_batch *b, size_t out[HYPER_STATUS_MAX])
{
    memset(out, 0, HYPER_STATUS_MAX * sizeof(*out));
    for (size_t i = 0; i < b->jobs.n; i++)
        out[b->jobs.p[i].status]++;
}

bool hyper_batch_finished(const struct hyper_batch *b)
{
    size_t n[HYPER_STATUS_MAX];

    hyper_batch_count(b, n);
    return n[HYPER_SUCCEED] + n[HYPER_FAILED] == b->jobs.n;
}
