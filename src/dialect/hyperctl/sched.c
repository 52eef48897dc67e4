/* sched.c - the scheduler of a batch: its home, the link to it, and the steps of a start
 *
 * The home is .hyperctl/home of the batch, served by a host in this process, and gone after a clean
 * end.  When a daemon serves the user's own home, the batch goes there instead and is visible
 * there, with the machines it brings; not from inside one of its jobs, which would wait for itself.
 *
 * A daemon may vanish at any time.  Then the step at hand is repeated with the daemon that serves
 * the home next, or with a host in this process when there is none.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rand.h"
#include "base/util.h"
#include "cli/embed.h"
#include "dialect/hyperctl/routes.h"
#include "dialect/hyperctl/run.h"
#include <signal.h>
#include <stdio.h>

enum {
    HOME_MAX = 8192,
    AGAIN_MS = 20,        /* between two attempts to reach the scheduler */
    TAKE_OVER_MS = 10000, /* for a daemon that holds the home and does not answer */
};

/* ---- requests beside the steps ---- */

/* One job that somebody wants to be killed. */
struct hyper_kill {
    struct hyper_run *r;
    size_t job;
};

static void kill_answered(void *arg, const struct err *e, uint64_t number)
{
    AUTO_FREE struct hyper_kill *k = arg;
    struct hyper_run *r = k->r;

    (void)number;
    if (!e || r->sched.closing)
        return; /* the end of the job is an event */
    AUTO_FREE char *text = xasprintf("killing job %s: %s", r->b->jobs.p[k->job].name, e->text);
    hyper_log(r->h, HYPER_WARN, "scheduler", "%s", text);
    hyper_routes_refused(r->routes, k->job, text);
}

void hyper_on_kill(void *arg, size_t job)
{
    struct hyper_run *r = arg;
    struct hyper_kill *k = xmalloc(sizeof(*k));

    *k = (struct hyper_kill){r, job};
    hyper_log(r->h, HYPER_INFO, "server", "kill job %s", r->b->jobs.p[job].name);
    r->sched.link->ops->cancel(r->sched.link, &r->b->jobs.p[job].number, 1, kill_answered, k);
}

/* The jobs themselves are told of by events; a failure is worth a line. */
static void all_cancelled(void *arg, const struct err *e, uint64_t number)
{
    struct hyper_run *r = arg;

    (void)number;
    r->sched.cancelling = false;
    if (e && !r->sched.closing)
        hyper_log(r->h, HYPER_WARN, "scheduler", "stopping the jobs: %s", e->text);
    if (r->leaves && !r->sched.closing)
        timer_start(r->go, 0, 0); /* in the next turn: the orders leave in this one */
}

void hyper_cancel_all(struct hyper_run *r)
{
    VEC(uint64_t) numbers = {0};

    for (size_t i = 0; i < r->b->jobs.n; i++)
        if (map_u64_get(&r->sched.jobs, r->b->jobs.p[i].number))
            vec_push(&numbers, r->b->jobs.p[i].number);
    r->sched.cancelling = numbers.n && r->sched.link;
    if (r->sched.cancelling)
        r->sched.link->ops->cancel(r->sched.link, numbers.p, numbers.n, all_cancelled, r);
    vec_done(&numbers);
}

/* ---- events ---- */

static void sched_over(struct hyper_run *r, const struct err *e);
enum { STEP_LISTEN = 8 };

/* Nothing is left to hear of, and the files show it. */
static bool all_ended(const struct hyper_run *r)
{
    return r->sched.step == STEP_LISTEN && !r->sched.jobs.n && !hyper_life_busy(r);
}

void hyper_lives_written(struct hyper_run *r)
{
    if (r->sched.active && all_ended(r))
        sched_over(r, NULL);
}

/* An event about one job.  The job is forgotten before its end is told, because the end of the last
 * one ends the run. */
static void sched_event_of(struct hyper_run *r, uint64_t number, const struct hyper_event *ev)
{
    intptr_t at = (intptr_t)map_u64_get(&r->sched.jobs, number);

    if (!at)
        return;
    if (at == UNWANTED) {
        if (job_state_final(ev->state))
            hyper_unwanted_ended(r, number);
        return;
    }
    struct hyper_job *j = &r->b->jobs.p[at - 1];
    if (ev->state == JOB_STARTING)
        j->gap = false; /* another run: the port is served */
    if (j->gap && (ev->state == JOB_FAILED || ev->state == JOB_LOST) && !r->signo) {
        hyper_repeat(r, j, ev);
        return;
    }
    if (job_state_final(ev->state))
        map_u64_del(&r->sched.jobs, number);
    hyper_job_event(r, j, ev);
}

static void sched_on_event(void *arg, const struct hyper_event *ev)
{
    struct hyper_run *r = arg;

    r->sched.last_event = ev->seq;
    if (!r->sched.active)
        return;
    for (uint64_t n = ev->first; n <= ev->last; n++)
        sched_event_of(r, n, ev);
}

void hyper_track(struct hyper_run *r, struct hyper_job *j, uint64_t number, struct id id)
{
    j->number = number;
    j->id = id;
    map_u64_put(&r->sched.jobs, number, (void *)(j - r->b->jobs.p + 1));
}

/* ---- the steps from a link to running jobs ---- */

/* Before the queue is kept, which opens it. */
static void step_pause(struct hyper_run *r)
{
    if (r->signal.suspended)
        r->sched.link->ops->pause(r->sched.link, true, hyper_step_done, r);
    else
        hyper_step_done(r, NULL, 0);
}

/* The queue may have been left paused by an earlier owner. */
static void step_resume(struct hyper_run *r)
{
    if (r->sched.leftover && !r->signal.suspended)
        r->sched.link->ops->pause(r->sched.link, false, hyper_step_done, r);
    else
        hyper_step_done(r, NULL, 0);
}

/* The scheduler numbers the jobs of one submission in a row. */
static void jobs_submitted(void *arg, const struct err *e, uint64_t first)
{
    struct hyper_run *r = arg;
    uint64_t n = 0;

    for (size_t i = 0; !e && i < r->b->jobs.n; i++)
        if (hyper_job_waits(&r->b->jobs.p[i])) {
            hyper_track(r, &r->b->jobs.p[i], first + n, id_add(r->sched.link->submitted, n));
            n++;
        }
    hyper_step_done(r, e, 0);
}

/* Nothing is submitted before it is sure that nothing starts without this process. */
static void step_keep(struct hyper_run *r)
{
    r->sched.link->ops->keep(r->sched.link, hyper_step_done, r);
}

/* After a signal nothing new is submitted. */
static void step_submit(struct hyper_run *r)
{
    struct json *body = r->signo ? NULL : hyper_submission(r);

    if (!body) {
        hyper_step_done(r, NULL, 0);
        return;
    }
    r->sched.submitted = true;
    r->sched.link->ops->submit(r->sched.link, body, r->b->name, r->sched.key, jobs_submitted, r);
}

/* A signal may have come before the numbers of the jobs were known. */
static void kept_now_listen(void *arg, const struct err *e, uint64_t number)
{
    struct hyper_run *r = arg;

    if (r->sched.closing || !r->sched.active)
        return;
    if (e) {
        hyper_step_done(r, e, number);
        return;
    }
    r->sched.link->ops->listen(r->sched.link, r->sched.last_event);
    if (r->signo)
        hyper_cancel_all(r);
    hyper_repeat_again(r);
}

/* Another daemon may serve the home by now, and it does not know who keeps the queue. */
static void step_listen(struct hyper_run *r)
{
    if (!r->sched.jobs.n) {
        hyper_lives_written(r);
        return;
    }
    r->sched.link->ops->keep(r->sched.link, kept_now_listen, r);
}

static void (*const steps[])(struct hyper_run *r) = {
    hyper_step_lend, hyper_step_test, step_pause,  hyper_step_forget,           hyper_step_adopt,
    step_keep,       step_resume,     step_submit, [STEP_LISTEN] = step_listen, /* the last: it does
                                                                                   not end */
};

static void sched_connect(void *arg);

/* A daemon that does not answer is tried again, or replaced. */
static void sched_retry(struct hyper_run *r)
{
    if (!r->sched.give_up_ms)
        r->sched.give_up_ms = clock_mono(&clock_system) + TAKE_OVER_MS;
    timer_start(r->sched.again, AGAIN_MS, 0);
}

/* Only a daemon can be missing: a host in this process always answers. */
static bool sched_may_retry(const struct hyper_run *r, const struct err *e)
{
    return e->code == ERR_UNAVAILABLE && r->sched.link->ops->stays;
}

void hyper_step_done(void *run, const struct err *e, uint64_t number)
{
    struct hyper_run *r = run;

    (void)number;
    if (r->sched.closing || !r->sched.active)
        return;
    if (e && sched_may_retry(r, e)) {
        sched_retry(r);
    } else if (e && e->code == ERR_FULL) {
        hyper_space_missing(r, e);
        timer_start(r->sched.again, SPACE_MS, 0);
    } else if (e) {
        sched_over(r, e);
    } else {
        hyper_space_found(r);
        r->sched.step = r->sched.resume ? r->sched.resume : r->sched.step + 1;
        r->sched.resume = 0;
        steps[r->sched.step](r);
    }
}

/* A hyper_done_fn: the machines were taken back, as far as that was possible. */
static void sched_over_now(void *arg, const struct err *e, uint64_t number)
{
    struct hyper_run *r = arg;

    (void)e;
    (void)number;
    if (!r->sched.closing)
        hyper_over(r, r->failed ? &r->err : NULL);
}

/* Nothing more is expected of the scheduler; e NULL = all jobs have ended. */
static void sched_over(struct hyper_run *r, const struct err *e)
{
    if (e) {
        r->err = *e;
        r->failed = true;
    }
    timer_stop(r->sched.again);
    if (r->sched.link)
        r->sched.link->ops->mute(r->sched.link);
    if (r->sched.link && r->sched.link->ops->stays)
        hyper_far_take_back(r, sched_over_now);
    else
        sched_over_now(r, NULL, 0);
}

/* ---- the link ---- */

/* The connection broke: the step at hand is repeated on another one. */
static void sched_on_gone(void *arg, const struct err *e)
{
    struct hyper_run *r = arg;

    (void)e;
    if (r->sched.active && !r->sched.closing)
        sched_retry(r);
}

/* The same for both links: the daemon's home may get a host in this process later. */
static void sched_on_trouble(void *arg, struct str text)
{
    struct hyper_run *r = arg;

    hyper_log(r->h, HYPER_WARN, "scheduler", STR_FMT, STR_ARG(text));
}

static struct hyper_link_conf link_conf(struct hyper_run *r)
{
    return (struct hyper_link_conf){.loop = r->loop,
                                    .home = r->sched.home,
                                    .queue = r->sched.queue,
                                    .version = r->h->c->program->version,
                                    .parts = r->h->c->program->parts,
                                    .slots = r->sched.own ? r->b->slots : 0,
                                    .transient = r->sched.own,
                                    .event = sched_on_event,
                                    .gone = sched_on_gone,
                                    .troubled = sched_on_trouble,
                                    .arg = r};
}

/* Nobody answers: this process serves the home, unless another one that does not answer yet, or not
 * any more, has locked it. */
static void sched_take_over(struct hyper_run *r)
{
    struct hyper_link_conf c = link_conf(r);
    struct hyper_link *here;
    struct err e = {0};

    if (hyper_link_here(&here, &c, &e) == 0) {
        r->sched.link->ops->close(r->sched.link);
        r->sched.link = here;
        sched_connect(r);
    } else if (e.code == ERR_CONFLICT && clock_mono(&clock_system) < r->sched.give_up_ms) {
        sched_retry(r);
    } else {
        sched_over(r, &e);
    }
}

static void sched_on_hello(void *arg, const struct err *e, uint64_t last_event)
{
    struct hyper_run *r = arg;

    if (r->sched.closing || !r->sched.active)
        return;
    if (e && sched_may_retry(r, e)) {
        sched_take_over(r);
        return;
    }
    if (e) {
        sched_over(r, e);
        return;
    }
    /* Asked before anything is submitted, so that no event of our jobs is missed. */
    if (!r->sched.greeted)
        r->sched.last_event = last_event;
    r->sched.greeted = true;
    r->sched.give_up_ms = 0;
    /* Another daemon knows nothing of the machines. */
    if (r->sched.step)
        r->sched.resume = r->sched.step;
    r->sched.step = 0;
    steps[0](r);
}

/* First of all, and again whenever the connection broke. */
static void sched_connect(void *arg)
{
    struct hyper_run *r = arg;

    if (!r->sched.give_up_ms)
        r->sched.give_up_ms = clock_mono(&clock_system) + TAKE_OVER_MS;
    r->sched.link->ops->hello(r->sched.link, sched_on_hello, r);
}

/* ---- preparing ---- */

static void warn_text(void *arg, const char *text)
{
    struct hyper_run *r = arg;

    hyper_log(r->h, HYPER_WARN, "backend", "%s", text);
}

/* *out: how many jobs can run.  One that cannot be prepared has failed; the others run.  Without
 * space, the next call goes on where this one stopped. */
static int prepare_jobs(struct hyper_run *r, size_t *out, struct err *e)
{
    const struct hyper_prepare p = {.layout = &r->l,
                                    .batch = r->b,
                                    .portal = r->port.job_portal,
                                    .cwd = r->h->cwd,
                                    .warn = warn_text,
                                    .arg = r};

    for (; r->sched.prepared < r->b->jobs.n; r->sched.prepared++) {
        struct hyper_job *j = &r->b->jobs.p[r->sched.prepared];
        if (!j->pending || hyper_job_prepare(&p, j, &j->changed, e) == 0)
            continue;
        if (e->code == ERR_FULL)
            return -1;
        j->pending = false;
        hyper_broken(r, j, e);
    }
    *out = 0;
    for (size_t i = 0; i < r->b->jobs.n; i++)
        *out += r->b->jobs.p[i].pending;
    return 0;
}

/* ---- the home ---- */

static void hex_format(char *out, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* The same directory gives the same queue, so that a re-run finds its jobs.  The key is another one
 * each time. */
static void name_queue(struct hyper_run *r)
{
    uint8_t digest[32], random[16];
    char hex[2 * sizeof(random) + 1];
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, r->l.dir, strlen(r->l.dir));
    sha256_end(&h, digest);
    hex_format(hex, digest, 8);
    snprintf(r->sched.queue, sizeof(r->sched.queue), "hyperctl-%s", hex);
    hyper_batch_tag(r->b, hex + 8);
    random_bytes(random, sizeof(random));
    hex_format(hex, random, sizeof(random));
    snprintf(r->sched.key, sizeof(r->sched.key), "hyperctl-%s", hex);
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
    AUTO_FREE char *own = hyper_layout_own(&r->l, "home");
    size_t n;

    r->sched.leftover = file_read_all(note, HOME_MAX, &was, &n, e) == 0 && was[0] == '/';
    /* What an earlier owner submitted counts as ours. */
    r->sched.submitted = r->sched.leftover;
    free(r->sched.home); /* of an attempt without space */
    /* Jobs that an earlier owner left can be found only in the home to which it submitted them. */
    r->sched.home = r->sched.leftover ? TAKE(was) : daemon_home(r);
    if (!r->sched.home)
        r->sched.home = xstrdup(own);
    r->sched.own = !strcmp(r->sched.home, own);
    if (r->sched.own && !r->sched.leftover)
        dir_remove_tree(own, NULL);
    return file_write_atomic(note, r->sched.home, strlen(r->sched.home), 0600, e);
}

static void sched_on_signal(void *arg)
{
    struct hyper_interrupt *i = arg;

    hyper_interrupted(i->r, i->signo);
}

/* From here on a signal stops the jobs; before, there are none, and it ends the process. */
static void catch_signals(struct hyper_run *r)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP};

    for (size_t i = 0; i < ARRAY_SIZE(caught); i++) {
        struct hyper_interrupt *x = &r->sched.interrupts[i];
        x->r = r;
        x->signo = caught[i];
        x->watch = signal_watch_new(r->loop, caught[i], sched_on_signal, x);
    }
}

/* The home is written down before anything is submitted, so that a crash leaves a trace. */
static int open_scheduler(struct hyper_run *r, struct err *e)
{
    if (choose_home(r, e) < 0 || embed_log(r->sched.home, e) < 0)
        return -1;
    struct hyper_link_conf c = link_conf(r);
    catch_signals(r);
    hyper_far_init(r);
    r->sched.again = timer_new(r->loop, sched_connect, r);
    if (!r->sched.own) {
        r->sched.link = hyper_link_daemon(&c);
        hyper_log(r->h, HYPER_INFO, "scheduler",
                  "the daemon that serves %s runs the jobs (berth ls --queue %s)", r->sched.home,
                  r->sched.queue);
    } else if (hyper_link_here(&r->sched.link, &c, e) < 0) {
        return err_wrap(e, "opening the scheduler");
    }
    return 0;
}

int hyper_start_jobs(struct hyper_run *r, struct err *e)
{
    size_t n;

    if (!r->sched.key[0])
        name_queue(r); /* scripts speak of their machines */
    if (prepare_jobs(r, &n, e) < 0)
        return -1;
    if (!n)
        return 0;
    r->signal.suspended = hyper_signal_there(r);
    if (r->signal.suspended)
        hyper_log(r->h, HYPER_INFO, "scheduler", "suspend scheduling: %s", r->b->signal_file);
    if (open_scheduler(r, e) < 0)
        return -1;
    r->sched.active = true;
    hyper_signal_watch(r);
    sched_connect(r);
    return 0;
}

void hyper_close_scheduler(struct hyper_run *r)
{
    r->sched.closing = true;
    r->sched.active = false;
    if (r->sched.link)
        r->sched.link->ops->close(r->sched.link);
    for (size_t i = 0; i < ARRAY_SIZE(r->sched.interrupts); i++)
        signal_watch_free(r->sched.interrupts[i].watch);
    timer_free(r->sched.again);
    hyper_far_done(r);
    hyper_repeats_free(r);
    map_u64_done(&r->sched.jobs);
    if (r->sched.own && (!r->failed || !r->sched.submitted))
        dir_remove_tree(r->sched.home, NULL);
}
