/* hyperctl_run.c - hyperctl run: a batch from its file to its last marker
 *
 * Order: lock the directory, open the port, write config.json and server.pid, prepare what is to
 * run, submit it, follow it.  A batch that another process runs is refused before anything is
 * touched.  All that follows is driven by events; `scheduler.interval` only bounds how often the
 * signal file is looked for.
 *
 * The scheduler's home is .hyperctl/home of the batch, used by this process alone, and gone after
 * a clean end.  When a daemon serves the user's own home, the batch goes there instead and is
 * visible there; not from inside one of its jobs, which would wait for itself.
 */
#include "cli/hyperctl_run.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/util.h"
#include "dialect/hyperctl/py_json.h"
#include "dialect/hyperctl/routes.h"
#include "io/http_server.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

enum { EXIT_SIGNAL = 128, SIGNAL_LOOK_MS = 1000, HOME_MAX = 8192, LINE_MAX_BYTES = 1 << 20 };
#define SUBMITTED "submitted"

struct run {
    struct hyperctl *h;
    const struct hyper_opts *o;
    struct hyper_batch *b;
    struct hyper_layout l;
    struct loop *loop;
    struct hyper_routes *routes;
    struct hyper_port port;
    /* the scheduler */
    struct run_session session;
    bool session_open, embedded, leftover;
    char *home, *target, queue[64];
    struct hyper_feed *feed;
    bool *pending, *changed;
    uint64_t *numbers;
    size_t calls; /* under way on worker threads */
    /* what may end it */
    struct watch *interrupts, *control;
    int signo; /* that ended it; 0 = none */
    bool finished, failed;
    bool running, stopped; /* the loop: it runs; it need not, or not any more */
    struct err err;
    /* scheduler.signal_file */
    struct timer *look;
    struct watch *dir_watch;
    int dir_fd;
    bool suspended;
    /* a program that watches us */
    int events_fd, control_fd;
    int64_t began_ms;
};

static void settle(struct run *r);

/* ---- what a watching program is told: one JSON object a line ---- */

static void tell(struct run *r, const char *event, const struct hyper_job *j, struct json *more)
{
    AUTO(buf) struct buf line = {0};
    struct err e;

    if (r->events_fd >= 0) {
        struct json *o = json_new_object();
        json_set_str(o, "event", event);
        if (j) {
            json_set_str(o, "job", j->name);
            json_set_str(o, "status", hyper_status_name(j->status));
            json_set_int(o, "started_ms", j->started_ms);
            json_set_int(o, "ended_ms", j->ended_ms);
        }
        for (struct json_it it = {0}; json_next(more, &it);)
            json_set_take(o, it.key, it.val ? json_copy(it.val) : NULL);
        buf_init(&line, LINE_MAX_BYTES);
        json_write(&line, o, false);
        buf_addc(&line, '\n');
        json_free(o);
        if (fd_write_all(r->events_fd, line.p, line.n, &e) < 0) {
            close(r->events_fd);
            r->events_fd = -1;
        }
    }
    json_free(more);
}

static struct json *one_text(const char *key, const char *value)
{
    struct json *o = json_new_object();

    json_set_str(o, key, value);
    return o;
}

/* ---- calls to the scheduler from the loop: on worker threads, answers not waited for ---- */

struct call {
    struct run *r;
    char *target, *path, *body;
    size_t job; /* SIZE_MAX = none */
    struct err err;
    int result;
};

static void call_work(void *arg)
{
    struct call *c = arg;
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    struct http_client *http = http_client_new(c->target, NULL, NULL);
    struct http_response res = {0};

    c->result = http_call(http, "POST", c->path, headers, str_of(c->body), &res, &c->err);
    if (c->result == 0 && res.status >= 400)
        c->result = http_response_err(&res, &c->err);
    http_response_done(&res);
    http_client_free(http);
}

static void call_done(void *arg)
{
    struct call *c = arg;
    struct run *r = c->r;

    r->calls--;
    if (c->result < 0) {
        hyper_log(r->h, HYPER_WARN, "scheduler", "%s: %s", c->path, c->err.text);
        if (c->job != SIZE_MAX)
            hyper_routes_refused(r->routes, c->job, c->err.text);
    }
    free(c->target);
    free(c->path);
    free(c->body);
    free(c);
    settle(r);
}

static void call_scheduler(struct run *r, size_t job, char *path_take, char *body_take)
{
    struct call *c = xcalloc(1, sizeof(*c));

    *c = (struct call){r, xstrdup(r->target), path_take, body_take, job, {0}, 0};
    r->calls++;
    work_submit(r->loop, call_work, call_done, c);
}

static void cancel_queue(struct run *r)
{
    struct json *o = one_text("queue", r->queue);

    call_scheduler(r, SIZE_MAX, xstrdup("/v1/jobs/cancel"), json_text(o));
    json_free(o);
}

static void on_kill(void *arg, size_t job)
{
    struct run *r = arg;

    hyper_log(r->h, HYPER_INFO, "server", "kill job %s", r->b->jobs.p[job].name);
    call_scheduler(r, job, xasprintf("/v1/jobs/%llu/cancel", (unsigned long long)r->numbers[job]),
                   xstrdup("{}"));
}

/* ---- what happens to jobs ---- */

static void remember(struct run *r, int rc, const struct err *e)
{
    if (rc < 0)
        hyper_log(r->h, HYPER_WARN, "batch", "%s", e->text);
}

static void started(struct run *r, struct hyper_job *j, const struct hyper_note *n)
{
    struct err e = {0};

    if (j->status == HYPER_RUNNING)
        return;
    j->status = HYPER_RUNNING;
    j->started_ms = n->at_ms;
    j->ended_ms = 0;
    free(j->node);
    j->node = n->node[0] ? xstrdup(n->node) : NULL;
    remember(r, hyper_mark_running(&r->l, j, &e), &e);
    hyper_log(r->h, HYPER_DEBUG, "scheduler", "job %s started", j->name);
    tell(r, "job_start", j, NULL);
}

static void tidy_tmp(const struct hyper_job *j)
{
    AUTO_FREE char *tmp = hyper_job_file(j, "tmp");

    rmdir(tmp); /* unless something is in it */
}

static void finished(struct run *r, struct hyper_job *j, const struct hyper_note *n)
{
    struct err e = {0};

    j->status = n->kind == NOTE_SUCCEEDED ? HYPER_SUCCEED : HYPER_FAILED;
    j->ended_ms = n->at_ms;
    if (n->started_ms || !j->started_ms)
        j->started_ms = n->started_ms ? n->started_ms : n->at_ms;
    j->exit_code = n->exit_code;
    j->signo = n->signo;
    remember(r, hyper_mark_final(&r->l, j, &e), &e);
    tidy_tmp(j);
    hyper_log(r->h, HYPER_INFO, "scheduler", "job %s finished with status %s%s%s%s", j->name,
              hyper_status_name(j->status), n->why[0] ? " (" : "", n->why, n->why[0] ? ")" : "");
    tell(r, j->status == HYPER_SUCCEED ? "job_succeed" : "job_failed", j, NULL);
}

/* Interrupted, or never begun: as if it had not been started. */
static void returned(struct run *r, struct hyper_job *j)
{
    if (j->status == HYPER_RUNNING)
        hyper_log(r->h, HYPER_INFO, "scheduler", "job %s was interrupted and will run again",
                  j->name);
    j->status = HYPER_INIT;
    j->started_ms = 0;
    hyper_mark_none(&r->l, j);
}

static void on_note(void *arg, struct hyper_note *n)
{
    struct run *r = arg;
    struct hyper_job *j = &r->b->jobs.p[n->job];

    r->numbers[n->job] = n->number;
    if (hyper_status_final(j->status))
        return;
    if (n->kind == NOTE_RUNNING)
        started(r, j, n);
    else if (n->kind == NOTE_QUEUED || (n->kind == NOTE_CANCELLED && r->signo))
        returned(r, j);
    else
        finished(r, j, n);
    if (n->kind >= NOTE_SUCCEEDED)
        hyper_routes_killed(r->routes, n->job);
}

/* ---- the end ---- */

static void stop_loop(struct run *r)
{
    r->stopped = true;
    if (r->running)
        loop_stop(r->loop);
}

static void leave(struct run *r, const struct err *e)
{
    r->err = *e;
    r->failed = true;
    stop_loop(r);
}

static void forget_submission(struct run *r)
{
    AUTO_FREE char *path = hyper_layout_own(&r->l, SUBMITTED);

    unlink(path);
}

static void finish(struct run *r)
{
    double elapsed = (double)(clock_mono(&clock_system) - r->began_ms) / 1000;
    struct json *summary = hyper_summary_json(r->b, "FINISHED"), *more = json_new_object();
    AUTO_FREE char *text = py_json_text(summary, 0);

    r->finished = true;
    json_set_take(more, "elapsed", json_new_real(elapsed));
    json_set_take(more, "summary", summary);
    hyper_log(r->h, HYPER_INFO, "scheduler", "all jobs finished, stop scheduler:\n%s", text);
    forget_submission(r);
    tell(r, "finish", NULL, more);
}

/* After anything that could be the last thing. */
static void settle(struct run *r)
{
    if (r->feed || r->calls)
        return;
    if (!r->finished && hyper_batch_finished(r->b))
        finish(r);
    if (r->signo || r->failed || (r->finished && r->b->exit_on_finish && r->control_fd < 0))
        stop_loop(r);
}

static void on_feed_over(void *arg, const struct err *e)
{
    struct run *r = arg;

    if (e && !r->signo) {
        r->err = *e;
        r->failed = true;
    }
    hyper_feed_join(TAKE(r->feed));
    if (r->signo)
        forget_submission(r);
    settle(r);
}

static void stop_for(struct run *r, int signo)
{
    if (r->signo)
        _exit(EXIT_SIGNAL + signo); /* again: the jobs end by themselves, nobody waits for them */
    r->signo = signo;
    if (!r->feed) {
        stop_loop(r);
        return;
    }
    hyper_log(r->h, HYPER_WARN, "scheduler",
              "interrupted, stopping the jobs; a re-run repeats them");
    hyper_feed_stop(r->feed);
    cancel_queue(r);
}

static void on_interrupt(void *arg, int events, int error)
{
    struct run *r = arg;
    char signo;

    (void)events;
    (void)error;
    if (read(r->session.interrupts[0], &signo, 1) == 1)
        stop_for(r, signo);
}

/* ---- scheduler.signal_file ---- */

static void look_for_signal(void *arg)
{
    struct run *r = arg;
    bool there = access(r->b->signal_file, F_OK) == 0;
    struct buf path;

    if (there == r->suspended || !r->feed)
        return;
    r->suspended = there;
    if (there)
        hyper_log(r->h, HYPER_INFO, "scheduler", "suspend scheduling: %s", r->b->signal_file);
    else
        hyper_log(r->h, HYPER_INFO, "scheduler", "resume scheduling: %s is gone",
                  r->b->signal_file);
    buf_init(&path, LINE_MAX_BYTES);
    buf_addf(&path, "/v1/queues/%s/%s", r->queue, there ? "pause" : "resume");
    call_scheduler(r, SIZE_MAX, buf_take(&path, NULL), xstrdup(""));
}

static void on_dir_change(void *arg, int events, int error)
{
    struct run *r = arg;
    char junk[4096];

    (void)events;
    (void)error;
    while (read(r->dir_fd, junk, sizeof(junk)) > 0)
        ;
    look_for_signal(r);
}

static void watch_signal_file(struct run *r)
{
    AUTO_FREE char *dir = r->b->signal_file ? xstrdup(r->b->signal_file) : NULL;
    int64_t every = (int64_t)MAX(1.0, MIN(r->b->interval_ms, SIGNAL_LOOK_MS));

    if (!dir)
        return;
    char *slash = strrchr(dir, '/');
    slash[slash == dir] = 0;
    r->look = timer_new(r->loop, look_for_signal, r);
    timer_start(r->look, every, every);
    r->dir_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (r->dir_fd >= 0 &&
        inotify_add_watch(r->dir_fd, dir, IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO) >=
            0 &&
        (r->dir_watch = watch_new(r->loop, r->dir_fd, on_dir_change, r)))
        watch_start(r->dir_watch, WATCH_READ);
}

/* ---- preparing ---- */

static void warn_text(void *arg, const char *text)
{
    struct run *r = arg;

    hyper_log(r->h, HYPER_WARN, "backend", "%s", text);
}

/* A job that cannot even be prepared has failed, and says why where its errors are looked for. */
static void broken(struct run *r, struct hyper_job *j, const struct err *e)
{
    AUTO_FREE char *path = hyper_job_file(j, "stderr");
    int64_t now = clock_wall(&clock_system);
    struct err ignored;
    FILE *f = fopen(path, "we");

    if (f) {
        fprintf(f, "hyperctl: %s\n", e->text);
        fclose(f);
    }
    j->status = HYPER_FAILED;
    j->started_ms = j->ended_ms = now;
    hyper_mark_final(&r->l, j, &ignored);
    hyper_log(r->h, HYPER_WARN, "scheduler", "job %s could not be started: %s", j->name, e->text);
    tell(r, "job_break", j, one_text("error", e->text));
}

static size_t prepare_jobs(struct run *r)
{
    const struct hyper_prepare p = {&r->l, r->b, r->port.job_portal, r->h->cwd, warn_text, r};
    size_t n = 0;

    for (size_t i = 0; i < r->b->jobs.n; i++) {
        struct hyper_job *j = &r->b->jobs.p[i];
        struct err e = {0};
        if (!r->pending[i])
            continue;
        if (hyper_job_prepare(&p, j, &r->changed[i], &e) < 0) {
            r->pending[i] = false;
            broken(r, j, &e);
        } else {
            n++;
        }
    }
    return n;
}

/* ---- the scheduler ---- */

static void name_queue(struct run *r)
{
    uint8_t digest[32];
    struct sha256 h;
    int n = snprintf(r->queue, sizeof(r->queue), "hyperctl-");

    sha256_init(&h);
    sha256_add(&h, r->l.dir, strlen(r->l.dir));
    sha256_end(&h, digest);
    for (size_t i = 0; i < 8; i++)
        n += snprintf(r->queue + n, sizeof(r->queue) - (size_t)n, "%02x", digest[i]);
}

/* The user's own daemon, when one runs.  Yours; NULL when there is none to be used. */
static char *daemon_home(struct run *r)
{
    if (r->o->no_daemon || getenv("BERTH_JOB_ID"))
        return NULL;
    AUTO_FREE char *home = host_home(false), *abs = path_absolute(home, r->h->cwd);
    AUTO_FREE char *target = xasprintf("unix:%s/sock", abs);
    return daemon_answers(target) ? TAKE(abs) : NULL;
}

/* Which home the jobs go to: the one an earlier owner used and did not leave in order, the
 * daemon's, or our own. */
static int choose_home(struct run *r, struct err *e)
{
    AUTO_FREE char *note = hyper_layout_own(&r->l, SUBMITTED), *was = NULL;
    char *own = hyper_layout_own(&r->l, "home");
    size_t n;

    r->leftover = file_read_all(note, HOME_MAX, &was, &n, e) == 0 && was[0] == '/';
    r->home = r->leftover ? TAKE(was) : daemon_home(r);
    if (!r->home)
        r->home = xstrdup(own);
    r->embedded = !strcmp(r->home, own);
    if (r->embedded && !r->leftover)
        dir_remove_tree(own, NULL);
    free(own);
    r->target = xasprintf("unix:%s/sock", r->home);
    return file_write_atomic(note, r->home, strlen(r->home), 0600, e);
}

static int open_scheduler(struct run *r, struct err *e)
{
    struct cli *c = r->h->c;

    name_queue(r);
    if (choose_home(r, e) < 0)
        return -1;
    c->opt.home = r->home;
    c->target = xstrdup(r->target);
    if (run_session_open(&r->session, c, r->embedded ? r->b->slots : 0, e) < 0)
        return err_wrap(e, "opening the scheduler");
    r->session_open = true;
    r->session.conf.transient = r->embedded;
    r->interrupts = watch_new(r->loop, r->session.interrupts[0], on_interrupt, r);
    watch_start(r->interrupts, WATCH_READ);
    if (!r->embedded)
        hyper_log(r->h, HYPER_INFO, "scheduler",
                  "the daemon that serves %s runs the jobs (berth ls --queue %s)", r->home,
                  r->queue);
    return 0;
}

static int start_jobs(struct run *r, struct err *e)
{
    size_t n = prepare_jobs(r);

    if (!n)
        return 0;
    r->suspended = r->b->signal_file && access(r->b->signal_file, F_OK) == 0;
    if (r->suspended)
        hyper_log(r->h, HYPER_INFO, "scheduler", "suspend scheduling: %s", r->b->signal_file);
    if (open_scheduler(r, e) < 0)
        return -1;
    const struct hyper_feed_conf c = {.c = r->h->c,
                                      .loop = r->loop,
                                      .batch = r->b,
                                      .layout = &r->l,
                                      .queue = r->queue,
                                      .changed = r->changed,
                                      .pending = r->pending,
                                      .tell_params = !r->embedded,
                                      .leftover = r->leftover,
                                      .suspended = r->suspended,
                                      .note = on_note,
                                      .over = on_feed_over,
                                      .arg = r};
    r->feed = hyper_feed_start(&c, e);
    watch_signal_file(r);
    return r->feed ? 0 : -1;
}

/* What the remote backend will do before anything is submitted. */
static int connect_machines(const struct run *r, struct err *e)
{
    if (!r->b->remote)
        return 0;
    return err_set(e, ERR_UNAVAILABLE,
                   "cannot connect to %.80s: this build runs batches on this machine only; set "
                   "backend.type to local",
                   r->b->machines.p[0].hostname);
}

static void go(struct run *r)
{
    struct err e = {0};

    if (connect_machines(r, &e) < 0 || start_jobs(r, &e) < 0)
        leave(r, &e);
    settle(r);
}

/* ---- a watching program: "go" starts the batch, the end of its file ends it ---- */

static void on_control(void *arg, int events, int error)
{
    struct run *r = arg;
    char text[64];
    ssize_t n = read(r->control_fd, text, sizeof(text));

    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR) && !error)
        return;
    if (n > 0) {
        if (memchr(text, 'g', (size_t)n))
            go(r);
        return;
    }
    watch_free(TAKE(r->control));
    close(r->control_fd);
    r->control_fd = -1;
    if (r->finished)
        stop_loop(r);
    else
        stop_for(r, SIGTERM);
}

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

static int lay_out(struct run *r, struct err *e)
{
    AUTO_FREE char *base =
        hyper_batches_dir(r->o->batches_data_dir, r->b->batches_data_dir, r->h->cwd);
    AUTO_FREE char *dir = r->o->batch_dir ? hyper_path(str_of(r->o->batch_dir), r->h->cwd)
                                          : path_join(base, r->b->name);
    size_t left = 0;

    hyper_layout_init(&r->l, dir);
    hyper_log(r->h, HYPER_INFO, "batch", "batch name: %s", r->b->name);
    hyper_log(r->h, HYPER_INFO, "batch", "batch data dir: %s", dir);
    bool there = access(dir, F_OK) == 0;
    if (hyper_layout_lock(&r->l, r->b->name, e) < 0 ||
        hyper_layout_restore(&r->l, r->b, &left, e) < 0)
        return -1;
    if (left)
        hyper_log(r->h, HYPER_WARN, "batch",
                  "%zu jobs were running when their scheduler died; they are taken up again", left);
    if (there) {
        struct json *s = hyper_summary_json(r->b, "RUNNING");
        AUTO_FREE char *text = py_json_text(s, 0);
        json_free(s);
        hyper_log(r->h, HYPER_INFO, "batch", "restored: %s", text);
    }
    return 0;
}

static int open_port(struct run *r, struct err *e)
{
    if (hyper_port_prepare(&r->port, r->b, &r->l, e) < 0)
        return -1;
    r->routes = hyper_routes_new(&(struct hyper_routes_conf){.batch = r->b,
                                                             .token = r->port.token,
                                                             .token_needed = !r->port.loopback,
                                                             .kill = on_kill,
                                                             .arg = r});
    r->port.http = http_server_new(r->loop, &http_limits_default, hyper_routes_handler(r->routes));
    if (hyper_port_listen(&r->port, r->b, &r->l, e) < 0)
        return -1;
    hyper_routes_set_portal(r->routes, r->port.portal);
    r->b->port = r->port.port;
    return 0;
}

static void choose_jobs(struct run *r)
{
    for (size_t i = 0; i < r->b->jobs.n; i++) {
        struct hyper_job *j = &r->b->jobs.p[i];
        if (j->status == HYPER_FAILED && r->o->retry_failed) {
            j->status = HYPER_INIT;
            hyper_mark_none(&r->l, j);
        }
        r->pending[i] = !hyper_status_final(j->status);
        if (!r->pending[i])
            hyper_log(r->h, HYPER_INFO, "scheduler",
                      "job '%s' status is %s means it's finished, skip to run", j->name,
                      hyper_status_name(j->status));
    }
}

static int set_up(struct run *r, struct err *e)
{
    if (lay_out(r, e) < 0 || open_port(r, e) < 0 ||
        hyper_config_write(&r->l, r->b, r->h->c->seams->version, e) < 0 ||
        hyper_pid_write(&r->l, e) < 0)
        return -1;
    hyper_log(r->h, HYPER_INFO, "server", "api server is ready to run at: %s", r->port.portal);
    if (r->b->remote && !strcmp(r->b->host, "localhost"))
        hyper_log(r->h, HYPER_WARN, "server",
                  "server.host is localhost: jobs on remote machines may be unable to reach it");
    r->pending = xcalloc(r->b->jobs.n + 1, sizeof(bool));
    r->changed = xcalloc(r->b->jobs.n + 1, sizeof(bool));
    r->numbers = xcalloc(r->b->jobs.n + 1, sizeof(*r->numbers));
    choose_jobs(r);
    return 0;
}

static void close_scheduler(struct run *r)
{
    if (!r->session_open)
        return;
    watch_free(r->interrupts);
    r->h->c->unreachable = NULL;
    embed_close(r->session.host);
    for (int i = 0; i < 2; i++)
        close(r->session.interrupts[i]);
    if (r->embedded && !r->failed)
        dir_remove_tree(r->home, NULL);
}

static void tear_down(struct run *r)
{
    while (r->calls)
        loop_run_once(r->loop, true);
    timer_free(r->look);
    watch_free(r->dir_watch);
    watch_free(r->control);
    if (r->dir_fd >= 0)
        close(r->dir_fd);
    close_scheduler(r);
    hyper_port_close(&r->port, r->loop, &r->l);
    hyper_routes_free(r->routes);
    loop_free(r->loop);
    hyper_layout_done(&r->l);
    free(r->home);
    free(r->target);
    free(r->pending);
    free(r->changed);
    free(r->numbers);
}

static void warn_of_file(struct run *r)
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

static int exit_status(struct run *r)
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
    struct run r = {.h = h, .o = o, .dir_fd = -1, .l = {.lock_fd = -1}};
    struct err e = {0};

    r.began_ms = clock_mono(&clock_system);
    if (take_fd(o->events_fd, &r.events_fd, &e) < 0 ||
        take_fd(o->control_fd, &r.control_fd, &e) < 0 ||
        hyper_batch_load(o->config, h->cwd, &r.b, &e) < 0)
        return hyper_fail(&e);
    warn_of_file(&r);
    r.loop = loop_new();
    if (set_up(&r, &e) < 0) {
        leave(&r, &e);
    } else {
        struct json *where = one_text("portal", r.port.job_portal);
        json_set_int(where, "port", r.port.port);
        tell(&r, "start", NULL, where);
        if (r.control_fd >= 0) {
            r.control = watch_new(r.loop, r.control_fd, on_control, &r);
            watch_start(r.control, WATCH_READ);
        } else {
            go(&r);
        }
        r.running = true;
        if (!r.stopped)
            loop_run(r.loop);
    }
    int rc = exit_status(&r);
    tear_down(&r);
    hyper_batch_free(r.b);
    return rc;
}
