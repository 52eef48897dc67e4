/* life.c - what happens to jobs while a batch runs: markers, log lines, the end
 *
 * The scheduler's events come in order.  A final status never changes; a job that was
 * interrupted, or whose run never began, counts as not started.
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

/* A marker that cannot be written does not stop the batch. */
static void life_warn(struct hyper_run *r, int rc, const struct err *e)
{
    if (rc < 0)
        hyper_log(r->h, HYPER_WARN, "batch", "%s", e->text);
}

void hyper_job_place(struct hyper_run *r, struct hyper_job *j, struct str node)
{
    AUTO_FREE char *name = xstrndup(node.p ? node.p : "", node.n);
    const struct hyper_machine *m = hyper_batch_machine(r->b, name);

    free(j->hostname);
    j->hostname = m ? xstrdup(m->hostname) : NULL;
}

/* The output of a job on another machine is shown from there. */
static void job_show_output(struct hyper_run *r, struct hyper_job *j, const struct hyper_event *ev,
                            bool ended)
{
    struct err e = {0};

    if (j->hostname && ev->run)
        life_warn(r, hyper_far_output(r->sched.home, j, ev->run, ended, &e), &e);
}

/* The marker first, then the log line and the event: who hears of it finds the marker. */
static void job_started(struct hyper_run *r, struct hyper_job *j, const struct hyper_event *ev)
{
    struct err e = {0};

    if (j->status == HYPER_RUNNING)
        return;
    j->status = HYPER_RUNNING;
    j->started_ms = ev->at_ms;
    /* A job that runs again has no end any more. */
    j->ended_ms = 0;
    job_show_output(r, j, ev, false);
    life_warn(r, hyper_mark_running(&r->l, j, &e), &e);
    hyper_log(r->h, HYPER_DEBUG, "scheduler", "job %s started", j->name);
    hyper_tell(r, "job_start", j, NULL);
}

static void tidy_tmp(const struct hyper_job *j)
{
    AUTO_FREE char *tmp = hyper_job_file(j, "tmp");

    rmdir(tmp); /* unless something is in it */
}

/* "killed by signal 9 (KILL)": the status alone could also be an exit of 137. */
static int signal_of(struct str reason, int exit_code)
{
    return str_starts(reason, STR("killed by signal")) && exit_code > 128 ? exit_code - 128 : 0;
}

/* The markers are written before anybody is told. */
static void job_finished(struct hyper_run *r, struct hyper_job *j, const struct hyper_event *ev)
{
    struct err e = {0};
    bool why = ev->reason.n > 0;

    j->status = ev->state == JOB_SUCCEEDED ? HYPER_SUCCEED : HYPER_FAILED;
    j->ended_ms = ev->at_ms;
    if (!j->started_ms)
        j->started_ms = ev->at_ms;
    j->exit_code = ev->exit_code;
    j->signo = signal_of(ev->reason, ev->exit_code);
    job_show_output(r, j, ev, true);
    life_warn(r, hyper_mark_final(&r->l, j, &e), &e);
    tidy_tmp(j);
    hyper_log(r->h, HYPER_INFO, "scheduler", "job %s finished with status %s%s" STR_FMT "%s",
              j->name, hyper_status_name(j->status), why ? " (" : "", STR_ARG(ev->reason),
              why ? ")" : "");
    hyper_tell(r, j->status == HYPER_SUCCEED ? "job_succeed" : "job_failed", j, NULL);
}

/* Interrupted, or never begun: as if it had not been started. */
static void job_returned(struct hyper_run *r, struct hyper_job *j, const struct hyper_event *ev)
{
    if (j->status == HYPER_RUNNING)
        hyper_log(r->h, HYPER_INFO, "scheduler", "job %s was interrupted and will run again",
                  j->name);
    else if (r->b->remote && ev->reason.n && ev->state == JOB_QUEUED)
        hyper_log(r->h, HYPER_WARN, "scheduler",
                  "job %s could not be started and waits again: " STR_FMT, j->name,
                  STR_ARG(ev->reason));
    j->status = HYPER_INIT;
    j->started_ms = 0;
    hyper_mark_none(&r->l, j);
}

/* A final status never changes; a late or repeated event is ignored. */
void hyper_job_event(struct hyper_run *r, struct hyper_job *j, const struct hyper_event *ev)
{
    if (hyper_status_final(j->status))
        return;
    if (ev->state == JOB_STARTING)
        hyper_job_place(r, j, ev->node);
    else if (ev->state == JOB_RUNNING)
        job_started(r, j, ev);
    else if (ev->state == JOB_QUEUED || (ev->state == JOB_CANCELLED && r->signo))
        job_returned(r, j, ev);
    else if (job_state_final(ev->state))
        job_finished(r, j, ev);
    if (job_state_final(ev->state))
        hyper_routes_killed(r->routes, (size_t)(j - r->b->jobs.p));
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
