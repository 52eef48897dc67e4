/* life.c - what happens to jobs while a batch runs: markers, log lines, the end
 *
 * The scheduler's events come in order.  A final status never changes; a job that was
 * interrupted, or whose run never began, counts as not started.  Markers are written on a worker
 * thread, those of events that come together at once: the loop is also the scheduler's.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/json_out.h"
#include "base/util.h"
#include "dialect/hyperctl/routes.h"
#include "dialect/hyperctl/run.h"

enum { LINE_MAX_BYTES = 1 << 20 };

/* ---- what a watching program is told: one JSON object a line ---- */

/* The write waits while the watching program does not read. */
void hyper_tell(struct hyper_run *r, const char *event, const struct hyper_job *j,
                struct json *more)
{
    AUTO(json) struct json *members = more;
    AUTO(buf) struct buf line = {0};
    struct err e;

    if (r->watcher.events_fd < 0)
        return;
    buf_init(&line, LINE_MAX_BYTES);
    jw_object(&line, NULL);
    jw_text(&line, "event", event);
    if (j) {
        AUTO(json) struct json *ext = hyper_job_ext(j);
        jw_text(&line, "job", j->name);
        jw_text(&line, "status", hyper_status_name(j->status));
        jw_int(&line, "started_ms", j->started_ms);
        jw_int(&line, "ended_ms", j->ended_ms);
        jw_json(&line, "ext", ext);
    }
    for (struct json_it it = {0}; json_next(members, &it);)
        jw_json(&line, it.key, it.val);
    jw_end_object(&line);
    buf_addc(&line, '\n');
    if (fd_write_all(r->watcher.events_fd, line.p, line.n, &e) <
        0) /* the watching program has ended */
        close(TAKE_FD(r->watcher.events_fd));
}

struct json *hyper_one_text(const char *key, const char *value)
{
    struct json *o = json_new_object();

    json_set_str(o, key, value);
    return o;
}

/* ---- what happens to jobs ---- */

/* One event of a job on its way: decided on the loop, written to disk on a worker thread, told on
 * the loop.  `next` is the job after the event, with a hostname of its own. */
struct life_note {
    struct hyper_job *j;
    struct hyper_job next;
    struct hyper_event ev; /* its texts are `node` and `reason` */
    char *node, *reason;
    enum { LIFE_PLACED, LIFE_STARTED, LIFE_RETURNED, LIFE_FINISHED } kind;
    struct err err; /* of the files; does not stop the batch */
};
struct hyper_life {
    struct hyper_run *r;
    VEC(struct life_note) waiting, at_work;
    bool busy;           /* life_start is posted, or a worker thread has at_work */
    size_t written;      /* of at_work */
    bool hurry;          /* the run ends: what cannot be written is left out */
    struct timer *again; /* the next attempt, when the disk was full */
};

/* Yours; NULL: the node is none of the machines of the batch, so it is this machine. */
static char *host_of_node(const struct hyper_run *r, const char *node)
{
    const struct hyper_machine *m = hyper_batch_machine(r->b, node);

    return m ? xstrdup(m->hostname) : NULL;
}

/* "killed by signal 9 (KILL)": the status alone could also be an exit of 137. */
static int signal_of(struct str reason, int exit_code)
{
    return str_starts(reason, STR("killed by signal")) && exit_code > 128 ? exit_code - 128 : 0;
}

/* What the event makes of the job.  False: nothing, or its status is final and never changes; a
 * late or repeated event is ignored. */
static bool life_decide(const struct hyper_run *r, struct life_note *n)
{
    const struct hyper_event *ev = &n->ev;
    struct hyper_job *j = &n->next;

    if (hyper_status_final(j->status) || (ev->state == JOB_RUNNING && j->status == HYPER_RUNNING))
        return false;
    if (ev->state == JOB_STARTING) {
        n->kind = LIFE_PLACED;
        free(j->hostname);
        j->hostname = host_of_node(r, n->node);
    } else if (ev->state == JOB_RUNNING) {
        n->kind = LIFE_STARTED;
        j->status = HYPER_RUNNING;
        j->started_ms = ev->at_ms;
        /* A job that runs again has no end any more. */
        j->ended_ms = 0;
    } else if (ev->state == JOB_QUEUED || (ev->state == JOB_CANCELLED && r->signo)) {
        n->kind = LIFE_RETURNED;
        j->status = HYPER_INIT;
        j->started_ms = 0;
    } else if (job_state_final(ev->state)) {
        n->kind = LIFE_FINISHED;
        j->status = ev->state == JOB_SUCCEEDED ? HYPER_SUCCEED : HYPER_FAILED;
        j->ended_ms = ev->at_ms;
        if (!j->started_ms)
            j->started_ms = ev->at_ms;
        j->exit_code = ev->exit_code;
        j->signo = signal_of(ev->reason, ev->exit_code);
    } else {
        return false;
    }
    return true;
}

/* Worker thread: the output of a job on another machine is shown from there, then the markers. */
static void life_write(const struct hyper_run *r, struct life_note *n)
{
    const struct hyper_job *j = &n->next;
    bool ended = n->kind == LIFE_FINISHED;

    if ((ended || n->kind == LIFE_STARTED) && j->hostname && n->ev.run)
        hyper_far_output(r->sched.home, j, n->ev.run, ended, &n->err);
    if (n->kind == LIFE_STARTED)
        hyper_mark_running(&r->l, j, &n->err);
    if (n->kind == LIFE_RETURNED)
        hyper_mark_none(&r->l, j);
    if (ended) {
        AUTO_FREE char *tmp = hyper_job_file(j, "tmp");
        hyper_mark_final(&r->l, j, &n->err);
        rmdir(tmp); /* unless something is in it */
    }
}

/* Worker thread.  The loop thread does not touch at_work while `busy` is true.  Without space the
 * rest waits: a job that has ended without a marker would run again. */
static void life_work(void *arg)
{
    struct hyper_life *l = arg;

    for (; l->written < l->at_work.n; l->written++) {
        struct life_note *n = &l->at_work.p[l->written];
        n->err = (struct err){0};
        life_write(l->r, n);
        if (n->err.code == ERR_FULL && !l->hurry)
            return;
    }
}

/* Log line and event: who hears of a change finds the markers. */
static void life_tell(struct hyper_run *r, const struct life_note *n, enum hyper_status was)
{
    const struct hyper_job *j = n->j;
    const char *why = n->reason;

    if (n->err.code != ERR_NONE)
        hyper_log(r->h, HYPER_WARN, "batch", "%s", n->err.text);
    if (n->kind == LIFE_STARTED) {
        hyper_log(r->h, HYPER_DEBUG, "scheduler", "job %s started", j->name);
        hyper_tell(r, "job_start", j, NULL);
    } else if (n->kind == LIFE_FINISHED) {
        hyper_log(r->h, HYPER_INFO, "scheduler", "job %s finished with status %s%s%s%s", j->name,
                  hyper_status_name(j->status), *why ? " (" : "", why, *why ? ")" : "");
        hyper_tell(r, j->status == HYPER_SUCCEED ? "job_succeed" : "job_failed", j, NULL);
    } else if (n->kind == LIFE_RETURNED && was == HYPER_RUNNING) {
        hyper_log(r->h, HYPER_INFO, "scheduler", "job %s was interrupted and will run again%s%s",
                  j->name, *why ? ": " : "", why);
    } else if (n->kind == LIFE_RETURNED && r->b->remote && *why && n->ev.state == JOB_QUEUED) {
        hyper_log(r->h, HYPER_WARN, "scheduler", "job %s could not be started and waits again: %s",
                  j->name, why);
    }
    if (job_state_final(n->ev.state))
        hyper_routes_killed(r->routes, (size_t)(j - r->b->jobs.p));
}

static void life_note_done(struct life_note *n)
{
    free(n->next.hostname);
    free(n->node);
    free(n->reason);
}

/* The API shows what the files show. */
static void life_apply(struct life_note *n)
{
    struct hyper_job *j = n->j;

    free(j->hostname);
    j->hostname = TAKE(n->next.hostname);
    j->status = n->next.status;
    j->started_ms = n->next.started_ms;
    j->ended_ms = n->next.ended_ms;
    j->exit_code = n->next.exit_code;
    j->signo = n->next.signo;
    j->note = 0;
}

static void life_start(void *arg);
static void life_done(void *arg);

static void life_again(void *arg)
{
    struct hyper_life *l = arg;

    l->hurry = l->r->signo || l->r->sched.closing;
    work_submit(l->r->loop, life_work, life_done, l);
}

/* Loop thread: the job is now as its files are. */
static void life_done(void *arg)
{
    struct hyper_life *l = arg;
    struct hyper_run *r = l->r;

    if (l->written < l->at_work.n) {
        hyper_space_missing(r, &l->at_work.p[l->written].err);
        timer_start(l->again, SPACE_MS, 0);
        return;
    }
    hyper_space_found(r);
    l->written = 0;
    l->busy = false;
    for (size_t i = 0; i < l->at_work.n; i++) {
        struct life_note *n = &l->at_work.p[i];
        enum hyper_status was = n->j->status;
        life_apply(n);
        life_tell(r, n, was);
        life_note_done(n);
    }
    vec_clear(&l->at_work);
    if (l->waiting.n)
        life_start(l);
    else
        hyper_lives_written(r);
}

/* Loop thread.  The events of one job follow each other: the next one begins with what the last one
 * made. */
static void life_start(void *arg)
{
    struct hyper_life *l = arg;
    bool writes = false;

    for (size_t i = 0; i < l->waiting.n; i++) {
        struct life_note n = l->waiting.p[i];
        n.next = n.j->note ? l->at_work.p[n.j->note - 1].next : *n.j;
        n.next.hostname = n.next.hostname ? xstrdup(n.next.hostname) : NULL;
        if (!life_decide(l->r, &n)) {
            life_note_done(&n);
            continue;
        }
        vec_push(&l->at_work, n);
        n.j->note = l->at_work.n;
        writes = writes || n.kind != LIFE_PLACED;
    }
    vec_clear(&l->waiting);
    l->busy = true;
    /* A job that was only placed has no marker yet, which spares the worker thread. */
    if (writes) {
        life_again(l);
    } else {
        l->written = l->at_work.n;
        life_done(l);
    }
}

/* The texts of the event are copied: they are borrowed for the call only.  life_start is posted and
 * not called, so that the events that are delivered together are written together. */
void hyper_job_event(struct hyper_run *r, struct hyper_job *j, const struct hyper_event *ev)
{
    struct life_note n = {.j = j,
                          .ev = *ev,
                          .node = xstrndup(ev->node.p ? ev->node.p : "", ev->node.n),
                          .reason = xstrndup(ev->reason.p ? ev->reason.p : "", ev->reason.n)};

    if (!r->life) {
        r->life = xcalloc(1, sizeof(*r->life));
        r->life->r = r;
        r->life->again = timer_new(r->loop, life_again, r->life);
    }
    n.ev.node = str_of(n.node);
    n.ev.reason = str_of(n.reason);
    vec_push(&r->life->waiting, n);
    if (!r->life->busy) {
        r->life->busy = true;
        loop_post(r->loop, life_start, r->life);
    }
}

bool hyper_life_busy(const struct hyper_run *r)
{
    return r->life && r->life->busy;
}

void hyper_life_free(struct hyper_run *r)
{
    while (hyper_life_busy(r))
        loop_run_once(r->loop, true);
    if (r->life) {
        timer_free(r->life->again);
        vec_done(&r->life->waiting);
        vec_done(&r->life->at_work);
    }
    free(r->life);
}

/* The other jobs of the batch run all the same. */
void hyper_broken(struct hyper_run *r, struct hyper_job *j, const struct err *e)
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
    hyper_tell(r, "job_break", j, hyper_one_text("error", e->text));
}

/* ---- the end ---- */

void hyper_stop_loop(struct hyper_run *r)
{
    r->stopped = true;
    if (r->running)
        loop_stop(r->loop);
}

void hyper_leave(struct hyper_run *r, const struct err *e)
{
    r->err = *e;
    r->failed = true;
    hyper_stop_loop(r);
}

/* The note says that jobs may be left in a scheduler; now none are. */
static void forget_submission(struct hyper_run *r)
{
    AUTO_FREE char *path = hyper_layout_own(&r->l, SUBMITTED);

    unlink(path);
}

/* Once in the life of a batch, when the last job has a final status. */
static void batch_finish(struct hyper_run *r)
{
    double elapsed = (double)(clock_mono(&clock_system) - r->began_ms) / 1000;
    struct json *summary = hyper_summary_json(r->b, "FINISHED"), *more = json_new_object();
    AUTO_FREE char *text = json_text_as(summary, JSON_PYTHON);

    r->finished = true;
    json_set_take(more, "elapsed", json_new_real(elapsed));
    json_set_take(more, "summary", summary);
    hyper_log(r->h, HYPER_INFO, "scheduler", "all jobs finished, stop scheduler:\n%s", text);
    forget_submission(r);
    hyper_tell(r, "finish", NULL, more);
}

/* After anything that could be the last thing. */
void hyper_settle(struct hyper_run *r)
{
    if (r->sched.active)
        return;
    if (!r->finished && hyper_batch_finished(r->b))
        batch_finish(r);
    if (r->signo || r->failed || (r->finished && r->b->exit_on_finish && r->watcher.control_fd < 0))
        hyper_stop_loop(r);
}

/* The note of the submission stays after a failure, so that the next run of the batch looks for its
 * jobs in the same home. */
void hyper_over(struct hyper_run *r, const struct err *e)
{
    r->sched.active = false;
    if (e) { /* jobs may still be there: the next run looks */
        r->err = *e;
        r->failed = true;
    }
    if ((r->signo && !r->failed) || !r->sched.submitted)
        forget_submission(r);
    hyper_settle(r);
}
