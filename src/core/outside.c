/* outside.c - a process that berth has not started becomes a job, and ends as one
 *
 * Owns: the beginning and the end of runs without a node (struct run, `outside`).  Between the two
 * such a run is like any other: recorded, listed, reported to, stopped, lost.  It holds nothing of
 * any node or queue, so planners and requests about nodes never meet it.
 * Does not own: watching the process, which the operations of core_track_outside do.
 *
 * The job and its run are staged in one turn, so such a job never waits for a place.  The run ends
 * when its process says so, by a request or by the last line of its spool.  That line is also found
 * when the process exited while no daemon was running.
 */
#include "base/clock.h"
#include "core/core_priv.h"
#include <stdio.h>

void outside_outcome(const struct core *c, int64_t code, struct run_outcome *out)
{
    *out = (struct run_outcome){
        .why = RUN_END_EXITED, .wait_status = (int)(code & 0xff) << 8, .ended_ms = core_wall(c)};
}

void core_track_outside(struct core *c, const struct outside_ops *ops, void *self)
{
    c->outside = ops;
    c->outside_self = self;
    if (c->recovered)
        outside_restored(c);
}

/* ---- the beginning ---- */

/* A submission of one job with all that its rows borrow. */
struct outside_submission {
    struct submission s; /* first: freed through it */
    struct spec_row spec;
    struct job_row job;
    struct spec *parsed;
    char *body, *params;
};

static void outside_submission_free(struct submission *s)
{
    struct outside_submission *x = (struct outside_submission *)s;

    spec_free(x->parsed);
    free(x->body);
    free(x->params);
    free(x);
}

/* The spec of the job is what a retry would run: the command, if the process named one. */
static struct json *outside_spec(const struct outside_start *o)
{
    struct json *j = json_new_object();

    if (o->command) {
        json_set_take(j, "command", json_copy(o->command));
    } else {
        json_set_str(j, "command",
                     "echo 'Berth did not start this job and cannot start it again' >&2; "
                     "exit 1");
    }
    json_set_str(j, "name", o->name && *o->name ? o->name : "outside");
    if (o->project && *o->project)
        json_set_str(j, "project", o->project);
    if (o->cwd && *o->cwd)
        json_set_str(j, "cwd", o->cwd);
    return j;
}

static struct outside_submission *outside_submission_new(const struct outside_start *o,
                                                         struct err *e)
{
    struct outside_submission *x = xcalloc(1, sizeof(*x));
    struct json *j = outside_spec(o);

    x->s.free_fn = outside_submission_free;
    x->body = json_text(j);
    int rc = spec_parse(j, "", &x->parsed, e);
    json_free(j);
    if (rc < 0) {
        outside_submission_free(&x->s);
        return NULL;
    }
    if (json_len(o->params))
        x->params = json_text(o->params);
    x->spec = (struct spec_row){.body = str_of(x->body),
                                .name = str_of(x->parsed->name),
                                .project = str_of(x->parsed->project),
                                .queue = str_of(x->parsed->queue)};
    x->job = (struct job_row){.id = o->id, .params = str_of(x->params)};
    x->s.specs = &x->spec;
    x->s.n_specs = 1;
    x->s.jobs = &x->job;
    x->s.n_jobs = 1;
    x->s.idempotency_key = o->idempotency_key;
    return x;
}

void core_outside_begin(struct core *c, const struct outside_start *o, const struct caller *who,
                        core_submit_fn done, void *arg)
{
    struct outside_submission *x = NULL;
    struct outside_process p = {.pid = o->pid, .silence_ms = o->silence_ms};
    struct err e = {0};

    if (!c->outside)
        err_set(&e, ERR_UNAVAILABLE,
                "this daemon does not track processes that it has not started");
    else
        x = outside_submission_new(o, &e);
    if (!x) {
        done(arg, &e, NULL);
        return;
    }
    if (p.pid)
        c->outside->pid_start(c->outside_self, p.pid, &p.pid_start);
    submit_outside(c, &x->s, who, &p, done, arg);
}

static void outside_watch(struct core *c, struct run *r)
{
    const struct outside_process *p = r->outside;

    /* First: a run whose job was cancelled is told to stop when it has started. */
    c->outside->begin(c->outside_self, r->key, p);
    /* A process without a pid is recorded with -1: it was seen, also after the next restart. */
    run_started(c, r, p->pid ? p->pid : -1, p->pid_start, core_wall(c));
}

void outside_begun(struct core *c, struct run *r)
{
    const struct run_outcome o = {.why = RUN_END_CANCELLED, .ended_ms = core_wall(c)};

    if (r->job->cancel_requested || !c->outside)
        run_end(c, r, &o, STR("stopped before it started"));
    else
        outside_watch(c, r);
}

void outside_restored(struct core *c)
{
    struct job *j;

    if (!c->outside)
        return; /* such runs stay unresolved until somebody watches */
    for (size_t it = 0; (j = map_u64_each(&c->jobs.by_number, &it));) {
        struct run *r = j->run;
        if (r && r->outside && r->phase == RUN_UNRESOLVED)
            outside_watch(c, r);
    }
}

/* ---- the end ---- */

/* NULL: no such run, or one that berth has started. */
static struct run *outside_run(const struct core *c, struct run_key key)
{
    struct job *j = core_job(c, key.job);
    struct run *r = j ? j->run : NULL;

    return r && r->outside && run_key_eq(r->key, key) && r->phase != RUN_OVER ? r : NULL;
}

void outside_stop(struct core *c, const struct run *r)
{
    if (c->outside)
        c->outside->stop(c->outside_self, r->key);
}

void outside_over(struct core *c, const struct run *r)
{
    if (c->outside)
        c->outside->end(c->outside_self, r->key);
}

void core_outside_gone(struct core *c, struct run_key key, struct str why)
{
    const struct run_outcome o = {.why = RUN_END_NODE_LOST, .ended_ms = core_wall(c)};
    struct run *r = outside_run(c, key);

    if (r)
        report_end(c, r, &o, why);
}

void core_outside_end(struct core *c, uint64_t job, int64_t exit_code, struct str why,
                      const struct caller *who, core_act_fn done, void *arg)
{
    struct job *j = core_job(c, job);
    struct acted a = {0};
    struct err e = {0};

    if (!j || !j->run || j->run->phase == RUN_OVER) {
        a.already = 1; /* told before, or by its spool */
        done(arg, NULL, &a);
        return;
    }
    if (!j->run->outside)
        err_set(&e, ERR_CONFLICT, "job %llu was started by berth, which sees by itself how it ends",
                (unsigned long long)job);
    else if (!caller_sees(who, j->uid))
        err_set(&e, ERR_DENIED, "job %llu is another user's; only its owner may end it",
                (unsigned long long)job);
    if (e.code) {
        done(arg, &e, NULL);
        return;
    }
    struct run_outcome o;
    outside_outcome(c, exit_code, &o);
    report_end(c, j->run, &o, why);
    track_answer(c, done, arg);
}

void core_heard(struct core *c, struct run_key key)
{
    if (c->outside && outside_run(c, key))
        c->outside->heard(c->outside_self, key);
}
