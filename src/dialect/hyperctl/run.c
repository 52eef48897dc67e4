/* run.c - hyperctl run: a batch from its file to its last marker
 *
 * Order: lock the directory, open the port, write config.json and server.pid, prepare what is to
 * run, submit it, follow it.  A batch that another process runs is refused before anything is
 * touched.  All that follows is driven by events; `scheduler.interval` only bounds how often the
 * signal file is looked for.
 */
#include "dialect/hyperctl/run.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "dialect/hyperctl/routes.h"
#include "io/http_server.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

enum { EXIT_SIGNAL = 128, JOBS_NAMED = 5 };

/* ---- ending early ---- */

/* Names the jobs that have not ended, a few of them. */
static void add_live_jobs(const struct hyper_run *r, struct buf *out)
{
    size_t n = 0;

    for (size_t i = 0; i < r->b->jobs.n; i++) {
        const struct hyper_job *j = &r->b->jobs.p[i];
        if (j->status != HYPER_RUNNING || !map_u64_get(&r->sched.jobs, j->number))
            continue;
        if (n++ < JOBS_NAMED)
            buf_addf(out, "%s%s", n > 1 ? ", " : "", j->name);
    }
    if (n > JOBS_NAMED)
        buf_addf(out, " and %zu more", n - JOBS_NAMED);
}

/* Their supervisors were told to stop them, and need nobody for that. */
void hyper_leave_now(struct hyper_run *r)
{
    AUTO(buf) struct buf names = {0};

    buf_init(&names, 1 << 16);
    add_live_jobs(r, &names);
    if (names.n)
        hyper_log(
            r->h, HYPER_WARN, "scheduler",
            "interrupted again, not waiting any longer: jobs that ignore TERM are killed after "
            "%d s (" STR_FMT ")",
            HYPER_GRACE_S, STR_ARG(buf_str(&names)));
    _exit(EXIT_SIGNAL + r->signo);
}

/* The second signal does not wait for the jobs, but for the order to stop them.  The third waits
 * for nothing. */
static void hyper_interrupted_again(struct hyper_run *r, int signo)
{
    AUTO(buf) struct buf names = {0};

    if (r->leaves) {
        buf_init(&names, 1 << 16);
        add_live_jobs(r, &names);
        if (names.n)
            hyper_log(
                r->h, HYPER_ERROR, "scheduler",
                "interrupted before the jobs could be stopped; these may go on until the batch "
                "is run again: " STR_FMT,
                STR_ARG(buf_str(&names)));
        _exit(EXIT_SIGNAL + signo);
    }
    r->leaves = true;
    if (!r->sched.cancelling)
        hyper_leave_now(r);
}

void hyper_interrupted(struct hyper_run *r, int signo)
{
    if (r->signo) {
        hyper_interrupted_again(r, signo);
        return;
    }
    r->signo = signo;
    if (!r->sched.active) {
        hyper_stop_loop(r);
        return;
    }
    hyper_log(r->h, HYPER_WARN, "scheduler",
              "interrupted, stopping the jobs; a re-run starts them again");
    hyper_cancel_all(r);
}

/* ---- starting ---- */

void hyper_space_missing(struct hyper_run *r, const struct err *e)
{
    if (!r->full)
        hyper_log(r->h, HYPER_WARN, "batch", "%s (the batch waits for space)", e->text);
    r->full = true;
}

void hyper_space_found(struct hyper_run *r)
{
    if (r->full)
        hyper_log(r->h, HYPER_INFO, "batch", "there is space again, the batch goes on");
    r->full = false;
}

/* Starts the jobs, as soon as the disk has space for them.  Any other error ends the run with its
 * message. */
static void run_go(void *arg)
{
    struct hyper_run *r = arg;
    struct err e = {0};

    if (r->leaves)
        hyper_leave_now(r);
    if (hyper_start_jobs(r, &e) == 0) {
        hyper_space_found(r);
    } else if (e.code == ERR_FULL && !r->sched.again) {
        hyper_space_missing(r, &e);
        timer_start(r->go, SPACE_MS, 0);
        return;
    } else {
        hyper_leave(r, &e);
    }
    hyper_settle(r);
}

/* ---- a watching program: "go" starts the batch, the end of its file ends it ---- */

static void on_control(void *arg, int events, int error)
{
    struct hyper_run *r = arg;
    char text[64];
    ssize_t n = read(r->watcher.control_fd, text, sizeof(text));

    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR) && !error)
        return;
    if (n > 0) {
        /* The first letter of "go" is enough. */
        if (memchr(text, 'g', (size_t)n))
            run_go(r);
        return;
    }
    watch_free(TAKE(r->watcher.control));
    close(r->watcher.control_fd);
    r->watcher.control_fd = -1;
    if (r->finished)
        hyper_stop_loop(r);
    else
        hyper_interrupted(r, SIGTERM);
}

/* The descriptor must be open, and no job may inherit it. */
static int take_fd(const char *text, int *out, struct err *e)
{
    int64_t n;

    *out = -1;
    if (!text)
        return 0;
    if (!str_to_i64(str_of(text), &n) || n < 0 || n > 1 << 20 || fcntl((int)n, F_GETFD) < 0)
        return err_set(e, ERR_INVALID, "'%.40s' is not an open file descriptor", text);
    *out = (int)n;
    fcntl(*out, F_SETFD, FD_CLOEXEC);
    return 0;
}

/* ---- from the file to the loop ---- */

/* Locks the directory and reads what an earlier run left there. */
static int lay_out(struct hyper_run *r, struct err *e)
{
    AUTO_FREE char *base =
        hyper_batches_dir(r->o->batches_data_dir, r->b->batches_data_dir, r->h->cwd);
    AUTO_FREE char *dir = r->o->batch_dir ? hyper_path(str_of(r->o->batch_dir), r->h->cwd)
                                          : path_join(base, r->b->name);
    size_t left = 0;

    hyper_layout_init(&r->l, dir);
    hyper_log(r->h, HYPER_INFO, "batch", "batch name: %s", r->b->name);
    hyper_log(r->h, HYPER_INFO, "batch", "batch data dir: %s", dir);
    /* Asked before the lock makes the directory. */
    bool there = access(dir, F_OK) == 0;
    if (hyper_layout_lock(&r->l, r->b->name, e) < 0 ||
        hyper_layout_restore(&r->l, r->b, &left, e) < 0)
        return -1;
    if (left)
        hyper_log(r->h, HYPER_WARN, "batch",
                  "%zu job%s running when the scheduler died; Berth resumes %s", left,
                  left == 1 ? " was" : "s were", left == 1 ? "it" : "them");
    if (there) {
        AUTO(json) struct json *s = hyper_summary_json(r->b, "RUNNING");
        AUTO_FREE char *text = json_text_as(s, JSON_PYTHON);
        hyper_log(r->h, HYPER_INFO, "batch", "restored: %s", text);
    }
    return 0;
}

static int open_port(struct hyper_run *r, struct err *e)
{
    if (hyper_port_prepare(&r->port, r->b, &r->l, e) < 0)
        return -1;
    r->routes = hyper_routes_new(&(struct hyper_routes_conf){.loop = r->loop,
                                                             .batch = r->b,
                                                             .token = r->port.token,
                                                             .token_needed = !r->port.loopback,
                                                             .kill = hyper_on_kill,
                                                             .arg = r});
    r->port.http = http_server_new(r->loop, &http_limits_default, hyper_routes_handler(r->routes));
    if (hyper_port_listen(&r->port, r->b, &r->l, e) < 0)
        return -1;
    hyper_routes_set_portal(r->routes, r->port.portal);
    /* Port 0 in the file lets the kernel choose; config.json names the port that was chosen. */
    r->b->port = r->port.port;
    return 0;
}

/* Jobs with a final marker are not run again, unless --retry-failed asks for it. */
static void choose_jobs(struct hyper_run *r)
{
    for (size_t i = 0; i < r->b->jobs.n; i++) {
        struct hyper_job *j = &r->b->jobs.p[i];
        if (j->status == HYPER_FAILED && r->o->retry_failed) {
            j->status = HYPER_INIT;
            hyper_mark_none(&r->l, j);
        }
        j->pending = !hyper_status_final(j->status);
        if (!j->pending)
            hyper_log(r->h, HYPER_INFO, "scheduler",
                      "job '%s' status is %s means it's finished, skip to run", j->name,
                      hyper_status_name(j->status));
    }
}

/* No job has to run, so nobody would ask the port. */
static bool port_needed(const struct hyper_run *r)
{
    bool needed = !r->b->exit_on_finish;

    for (size_t i = 0; i < r->b->jobs.n; i++) {
        enum hyper_status s = r->b->jobs.p[i].status;
        needed |= !hyper_status_final(s) || (s == HYPER_FAILED && r->o->retry_failed);
    }
    return needed;
}

/* Everything before the first job.  On failure tear_down still works. */
static int set_up(struct hyper_run *r, struct err *e)
{
    if (lay_out(r, e) < 0)
        return -1;
    if (open_port(r, e) < 0 && (e->code != ERR_CONFLICT || port_needed(r)))
        return -1;
    if (hyper_config_write(&r->l, r->b, r->h->c->program->version, e) < 0 ||
        hyper_pid_write(&r->l, e) < 0)
        return -1;
    if (r->port.portal)
        hyper_log(r->h, HYPER_INFO, "server", "api server is ready to run at: %s", r->port.portal);
    else
        hyper_log(r->h, HYPER_INFO, "server", "%s (no job has to run, so nobody needs it)",
                  e->text);
    if (r->b->remote && !strcmp(r->b->host, "localhost"))
        hyper_log(r->h, HYPER_WARN, "server",
                  "server.host is localhost: jobs on remote machines may be unable to reach it");
    choose_jobs(r);
    return 0;
}

/* Also after a failed set_up: members that were never made are NULL, 0 or -1. */
static void tear_down(struct hyper_run *r)
{
    timer_free(r->go);
    hyper_signal_close(r);
    hyper_routes_shut(r->routes);
    watch_free(r->watcher.control);
    hyper_close_scheduler(r);
    hyper_life_free(r);
    hyper_port_close(&r->port, r->loop, &r->l);
    while (hyper_routes_busy(r->routes))
        loop_run_once(r->loop, true);
    hyper_routes_free(r->routes);
    loop_free(r->loop);
    hyper_layout_done(&r->l);
    free(r->sched.home);
}

/* The program that the word `hyperctl` starts; yours, NULL = none. */
static char *first_on_path(void)
{
    const char *path = getenv("PATH");

    for (struct str rest = str_of(path ? path : ""); rest.n;) {
        struct str dir = str_cut(rest, ':', &rest);
        AUTO_FREE char *file = xasprintf(STR_FMT "/hyperctl", STR_ARG(dir));
        if (dir.n && access(file, X_OK) == 0)
            return TAKE(file);
    }
    return NULL;
}

/* A virtual environment with Hypernets brings a program of the same name. */
static void hint_of_path(const struct hyper_run *r)
{
    AUTO_FREE char *file = first_on_path(), *real = file ? realpath(file, NULL) : NULL;
    const char *slash = real ? strrchr(real, '/') : NULL;

    if (slash && strcmp(slash + 1, "berth") != 0)
        hyper_log(r->h, HYPER_INFO, "batch",
                  "%s is another program of this name; `berth hyperctl` is always this one", file);
}

static void warn_of_file(struct hyper_run *r)
{
    struct stat st;

    for (size_t i = 0; i < r->b->warnings.n; i++)
        hyper_log(r->h, HYPER_WARN, "batch", "%s", r->b->warnings.p[i]);
    if (r->b->has_password && stat(r->o->config, &st) == 0 && (st.st_mode & 077))
        hyper_log(r->h, HYPER_WARN, "batch",
                  "%s holds a password and can be read by others: chmod 600 it, or use a key",
                  r->o->config);
    if (r->b->name_was_made)
        hyper_log(r->h, HYPER_WARN, "batch",
                  "the batch has no name and is called %s; name it, so that a re-run finds it",
                  r->b->name);
}

/* An error of hyperctl itself, the signal that ended it, or --fail-exit. */
static int exit_status(struct hyper_run *r)
{
    size_t n[HYPER_STATUS_MAX];

    if (r->failed)
        return hyper_fail(&r->err);
    if (r->signo)
        return EXIT_SIGNAL + r->signo;
    hyper_batch_count(r->b, n);
    return r->o->fail_exit && n[HYPER_FAILED] ? 1 : 0;
}

int hyperctl_run(struct hyperctl *h, const struct hyper_opts *o)
{
    struct hyper_run r = {.h = h, .o = o, .signal.dir_fd = -1, .l = {.lock_fd = -1}};
    struct err e = {0};

    r.began_ms = clock_mono(&clock_system);
    if (take_fd(o->events_fd, &r.watcher.events_fd, &e) < 0 ||
        take_fd(o->control_fd, &r.watcher.control_fd, &e) < 0 ||
        hyper_batch_load(o->config, h->cwd, &r.b, &e) < 0)
        return hyper_fail(&e);
    warn_of_file(&r);
    hint_of_path(&r);
    r.loop = loop_new();
    r.go = timer_new(r.loop, run_go, &r);
    if (set_up(&r, &e) < 0) {
        hyper_leave(&r, &e);
    } else {
        struct json *where = hyper_one_text("portal", r.port.job_portal);
        json_set_int(where, "port", r.port.port);
        hyper_tell(&r, "start", NULL, where);
        if (r.watcher.control_fd >= 0) {
            r.watcher.control = watch_new(r.loop, r.watcher.control_fd, on_control, &r);
            watch_start(r.watcher.control, WATCH_READ);
        } else {
            run_go(&r);
        }
        r.running = true;
        if (!r.stopped)
            loop_run(r.loop);
        if (!r.stopped) { /* by POST /v1/shutdown on the socket of the batch's own host */
            err_set(&e, ERR_UNAVAILABLE,
                    "the scheduler of the batch was told to stop; run the batch again to continue");
            hyper_leave(&r, &e);
        }
    }
    int rc = exit_status(&r);
    tear_down(&r);
    hyper_batch_free(r.b);
    return rc;
}
