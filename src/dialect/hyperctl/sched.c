/* sched.c - the scheduler of a batch: its home, its queue, and what is asked of it
 *
 * The home is .hyperctl/home of the batch, used by this process alone, and gone after a clean end.
 * When a daemon serves the user's own home, the batch goes there instead and is visible there, with
 * the machines it brings; not from inside one of its jobs, which would wait for itself.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/util.h"
#include "dialect/hyperctl/routes.h"
#include "dialect/hyperctl/run_state.h"
#include <stdio.h>
#include <sys/inotify.h>

enum { SIGNAL_LOOK_MS = 1000, HOME_MAX = 8192 };

/* ---- calls to the scheduler from the loop: on worker threads, answers not waited for ---- */

/* One request.  The worker thread uses target, path and body, and fills err and result. */
struct sched_call {
    struct hyper_run *r;
    char *target, *path, *body;
    size_t job; /* SIZE_MAX = none */
    struct err err;
    int result;
};

/* Worker thread, with a client of its own: the session's client belongs to the feed. */
static void sched_call_work(void *arg)
{
    struct sched_call *c = arg;
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    struct http_client *http = http_client_new(c->target, NULL, NULL);
    struct http_response res = {0};

    c->result = http_call(http, "POST", c->path, headers, str_of(c->body), &res, &c->err);
    if (c->result == 0 && res.status >= 400)
        c->result = http_response_err(&res, &c->err);
    http_response_done(&res);
    http_client_free(http);
}

/* Loop thread. */
static void sched_call_done(void *arg)
{
    struct sched_call *c = arg;
    struct hyper_run *r = c->r;

    r->sched.calls--;
    if (c->result < 0 && !(r->signo && c->job == SIZE_MAX)) { /* then the feed cancels as well */
        hyper_log(r->h, HYPER_WARN, "scheduler", "%s: %s", c->path, c->err.text);
        if (c->job != SIZE_MAX)
            hyper_routes_refused(r->routes, c->job, c->err.text);
    }
    free(c->target);
    free(c->path);
    free(c->body);
    free(c);
    hyper_settle(r);
}

/* Takes the path and the body.  `job` is the one whose kill is answered; SIZE_MAX = none. */
static void sched_call_post(struct hyper_run *r, size_t job, char *path_take, char *body_take)
{
    struct sched_call *c = xcalloc(1, sizeof(*c));

    *c = (struct sched_call){r, xstrdup(r->sched.target), path_take, body_take, job, {0}, 0};
    r->sched.calls++;
    work_submit(r->loop, sched_call_work, sched_call_done, c);
}

void hyper_cancel_all(struct hyper_run *r)
{
    AUTO(json) struct json *o = hyper_one_text("queue", r->sched.queue);

    sched_call_post(r, SIZE_MAX, xstrdup("/v1/jobs/cancel"), json_text(o));
}

void hyper_on_kill(void *arg, size_t job)
{
    struct hyper_run *r = arg;

    hyper_log(r->h, HYPER_INFO, "server", "kill job %s", r->b->jobs.p[job].name);
    sched_call_post(r, job, xasprintf("/v1/jobs/%llu/cancel", (unsigned long long)r->numbers[job]),
                    xstrdup("{}"));
}

/* ---- scheduler.signal_file ---- */

/* Compares the file with what the scheduler was told last. */
static void look_for_signal(void *arg)
{
    struct hyper_run *r = arg;
    bool there = access(r->b->signal_file, F_OK) == 0;

    if (there == r->signal.suspended || !r->sched.feed)
        return;
    r->signal.suspended = there;
    if (there)
        hyper_log(r->h, HYPER_INFO, "scheduler", "suspend scheduling: %s", r->b->signal_file);
    else
        hyper_log(r->h, HYPER_INFO, "scheduler", "resume scheduling: %s is gone",
                  r->b->signal_file);
    sched_call_post(r, SIZE_MAX,
                    xasprintf("/v1/queues/%s/%s", r->sched.queue, there ? "pause" : "resume"),
                    xstrdup(""));
}

/* The events themselves do not matter: the file is looked for again. */
static void on_dir_change(void *arg, int events, int error)
{
    struct hyper_run *r = arg;
    char junk[4096];

    (void)events;
    (void)error;
    while (read(r->signal.dir_fd, junk, sizeof(junk)) > 0)
        ;
    look_for_signal(r);
}

/* The timer alone would do; inotify makes the answer prompt where it works. */
static void watch_signal_file(struct hyper_run *r)
{
    AUTO_FREE char *dir = r->b->signal_file ? xstrdup(r->b->signal_file) : NULL;
    int64_t every = (int64_t)MAX(1.0, MIN(r->b->interval_ms, SIGNAL_LOOK_MS));

    if (!dir)
        return;
    char *slash = strrchr(dir, '/');
    /* For a file in the root directory the slash itself stays. */
    slash[slash == dir] = 0;
    r->signal.timer = timer_new(r->loop, look_for_signal, r);
    timer_start(r->signal.timer, every, every);
    r->signal.dir_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (r->signal.dir_fd >= 0 &&
        inotify_add_watch(r->signal.dir_fd, dir,
                          IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO) >= 0 &&
        (r->signal.watch = watch_new(r->loop, r->signal.dir_fd, on_dir_change, r)))
        watch_start(r->signal.watch, WATCH_READ);
}

/* ---- preparing ---- */

static void warn_text(void *arg, const char *text)
{
    struct hyper_run *r = arg;

    hyper_log(r->h, HYPER_WARN, "backend", "%s", text);
}

/* How many jobs can run.  One that cannot be prepared has failed; the others run. */
static size_t prepare_jobs(struct hyper_run *r)
{
    const struct hyper_prepare p = {.layout = &r->l,
                                    .batch = r->b,
                                    .portal = r->port.job_portal,
                                    .cwd = r->h->cwd,
                                    .warn = warn_text,
                                    .arg = r};
    size_t n = 0;

    for (size_t i = 0; i < r->b->jobs.n; i++) {
        struct hyper_job *j = &r->b->jobs.p[i];
        struct err e = {0};
        if (!r->pending[i])
            continue;
        if (hyper_job_prepare(&p, j, &r->changed[i], &e) < 0) {
            r->pending[i] = false;
            hyper_broken(r, j, &e);
        } else {
            n++;
        }
    }
    return n;
}

/* ---- the scheduler ---- */

/* The same directory gives the same queue, so that a re-run finds its jobs. */
static void name_queue(struct hyper_run *r)
{
    uint8_t digest[32];
    struct sha256 h;
    int n = snprintf(r->sched.queue, sizeof(r->sched.queue), "hyperctl-");

    sha256_init(&h);
    sha256_add(&h, r->l.dir, strlen(r->l.dir));
    sha256_end(&h, digest);
    for (size_t i = 0; i < 8; i++)
        n += snprintf(r->sched.queue + n, sizeof(r->sched.queue) - (size_t)n, "%02x", digest[i]);
    hyper_batch_tag(r->b, r->sched.queue + n - 8);
}

/* The user's own daemon, when one runs.  Yours; NULL when there is none to be used. */
static char *daemon_home(struct hyper_run *r)
{
    /* BERTH_JOB_ID: inside a job of the daemon the batch would wait for that job, and the job
     * for it. */
    if (r->o->no_daemon || getenv("BERTH_JOB_ID"))
        return NULL;
    AUTO_FREE char *home = host_home(false), *abs = path_absolute(home, r->h->cwd);
    AUTO_FREE char *target = xasprintf("unix:%s/sock", abs);
    return daemon_answers(target) ? TAKE(abs) : NULL;
}

/* Which home the jobs go to: the one an earlier owner used and did not leave in order, the
 * daemon's, or our own. */
static int choose_home(struct hyper_run *r, struct err *e)
{
    AUTO_FREE char *note = hyper_layout_own(&r->l, SUBMITTED), *was = NULL;
    char *own = hyper_layout_own(&r->l, "home");
    size_t n;

    r->sched.leftover = file_read_all(note, HOME_MAX, &was, &n, e) == 0 && was[0] == '/';
    /* Jobs that an earlier owner left can be found only in the home to which it submitted them. */
    r->sched.home = r->sched.leftover ? TAKE(was) : daemon_home(r);
    if (!r->sched.home)
        r->sched.home = xstrdup(own);
    r->sched.embedded = !strcmp(r->sched.home, own);
    if (r->sched.embedded && !r->sched.leftover)
        dir_remove_tree(own, NULL);
    free(own);
    r->sched.target = xasprintf("unix:%s/sock", r->sched.home);
    return file_write_atomic(note, r->sched.home, strlen(r->sched.home), 0600, e);
}

/* A session as `berth run` has it: with a host in this process, or with the daemon. */
static int open_scheduler(struct hyper_run *r, struct err *e)
{
    struct cli *c = r->h->c;

    /* The home is written down before anything is submitted, so that a crash leaves a trace. */
    if (choose_home(r, e) < 0)
        return -1;
    c->opt.home = r->sched.home;
    c->target = xstrdup(r->sched.target);
    if (run_session_open(&r->sched.session, c, r->sched.embedded ? r->b->slots : 0, e) < 0)
        return err_wrap(e, "opening the scheduler");
    r->sched.open = true;
    r->sched.session.conf.transient = r->sched.embedded;
    r->sched.session.conf.nodes = r->sched.nodes = r->b->remote ? hyper_far_nodes(r->b) : NULL;
    r->interrupts = watch_new(r->loop, r->sched.session.interrupts[0], hyper_on_interrupt, r);
    watch_start(r->interrupts, WATCH_READ);
    if (!r->sched.embedded)
        hyper_log(r->h, HYPER_INFO, "scheduler",
                  "the daemon that serves %s runs the jobs (berth ls --queue %s)", r->sched.home,
                  r->sched.queue);
    return 0;
}

int hyper_start_jobs(struct hyper_run *r, struct err *e)
{
    name_queue(r); /* scripts speak of their machines */
    if (!prepare_jobs(r))
        return 0;
    r->signal.suspended = r->b->signal_file && access(r->b->signal_file, F_OK) == 0;
    if (r->signal.suspended)
        hyper_log(r->h, HYPER_INFO, "scheduler", "suspend scheduling: %s", r->b->signal_file);
    if (open_scheduler(r, e) < 0)
        return -1;
    const struct hyper_feed_conf c = {.c = r->h->c,
                                      .loop = r->loop,
                                      .batch = r->b,
                                      .layout = &r->l,
                                      .queue = r->sched.queue,
                                      .changed = r->changed,
                                      .pending = r->pending,
                                      .tell_params = !r->sched.embedded,
                                      .lent = r->sched.embedded ? NULL : r->sched.nodes,
                                      .leftover = r->sched.leftover,
                                      .suspended = r->signal.suspended,
                                      .say = hyper_on_say,
                                      .note = hyper_on_note,
                                      .over = hyper_on_feed_over,
                                      .arg = r};
    r->sched.feed = hyper_feed_start(&c, e);
    watch_signal_file(r);
    return r->sched.feed ? 0 : -1;
}

void hyper_close_scheduler(struct hyper_run *r)
{
    if (!r->sched.open)
        return;
    watch_free(r->interrupts);
    r->h->c->unreachable = NULL;
    embed_close(r->sched.session.host);
    for (int i = 0; i < 2; i++)
        close(r->sched.session.interrupts[i]);
    json_free(r->sched.nodes);
    if (r->sched.embedded && (!r->failed || r->sched.clean))
        dir_remove_tree(r->sched.home, NULL);
}
