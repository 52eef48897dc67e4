/* outside.c - a process that is not ours becomes a job, and ends as one
 *
 * Owns: the beginning and the end of runs on the node `outside`.  Between them they are runs like
 * any other: recorded, listed, reported to, stopped, lost.
 *
 * The job and its run are staged in one turn, so there is never one that waits for a place.  It
 * ends when its process says so: by a request, or by the last line of its spool, which is also
 * found when the process went while nobody listened.
 */
#include "core/core_priv.h"
#include "core/track.h"
#include <stdio.h>

void outside_outcome(const struct core *c, int64_t code, struct run_outcome *out)
{
    *out = (struct run_outcome){
        .why = RUN_END_EXITED, .wait_status = (int)(code & 0xff) << 8, .ended_ms = core_wall(c)};
}

bool run_is_outside(const struct run *r)
{
    return r->host->cls && r->host->cls->outside;
}

static struct core_host *outside_host(struct core *c, struct err *e)
{
    for (size_t i = 0; i < c->cluster.hosts.n; i++)
        if (c->cluster.hosts.p[i] && c->cluster.hosts.p[i]->cls &&
            c->cluster.hosts.p[i]->cls->outside)
            return c->cluster.hosts.p[i];
    err_set(e, ERR_UNAVAILABLE, "this daemon does not track processes that it has not started");
    return NULL;
}

/* ---- the beginning ---- */

struct outside_submission {
    struct submission s; /* first: freed through it */
    struct spec_row spec;
    struct job_row job;
    struct spec *parsed;
    char *body, *params;
};

static void free_submission(struct submission *s)
{
    struct outside_submission *x = (struct outside_submission *)s;

    spec_free(x->parsed);
    free(x->body);
    free(x->params);
    free(x);
}

static void set_number(struct json *env, const char *key, int64_t v)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", (long long)v);
    json_set_str(env, key, text);
}

/* What it does is not for us to know; what it was, if told, is what a retry would run. */
static struct json *describe(const struct outside_start *o)
{
    struct json *j = json_new_object(), *env = json_new_object();

    if (o->command) {
        json_set_take(j, "command", json_copy(o->command));
    } else {
        json_set_str(j, "command",
                     "echo 'this job was started outside of berth, which does not know how' >&2; "
                     "exit 1");
    }
    json_set_str(j, "name", o->name && *o->name ? o->name : "outside");
    if (o->project && *o->project)
        json_set_str(j, "project", o->project);
    if (o->cwd && *o->cwd)
        json_set_str(j, "cwd", o->cwd);
    if (o->pid > 0)
        set_number(env, OUTSIDE_PID, o->pid);
    if (o->silence_ms > 0)
        set_number(env, OUTSIDE_SILENCE, o->silence_ms);
    json_set_take(j, "env", env);
    return j;
}

static struct outside_submission *make_submission(const struct outside_start *o, struct err *e)
{
    struct outside_submission *x = xcalloc(1, sizeof(*x));
    struct json *j = describe(o);

    x->s.free_fn = free_submission;
    x->body = json_text(j);
    int rc = spec_parse(j, "", &x->parsed, e);
    json_free(j);
    if (rc < 0) {
        free_submission(&x->s);
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
    struct err e = {0};
    struct core_host *h = outside_host(c, &e);
    struct outside_submission *x = h ? make_submission(o, &e) : NULL;

    if (!x) {
        done(arg, &e, NULL);
        return;
    }
    submit_to_host(c, &x->s, who, h, done, arg);
}

/* ---- the end ---- */

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
    if (!run_is_outside(j->run))
        err_set(&e, ERR_CONFLICT, "job %llu was started by berth, which sees by itself how it ends",
                (unsigned long long)job);
    else if (!who->admin && who->uid != j->uid)
        err_set(&e, ERR_DENIED, "job %llu belongs to somebody else; only they may end it",
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
    struct job *j = core_job(c, key.job);
    struct run *r = j ? j->run : NULL;

    if (r && run_key_eq(r->key, key) && run_is_outside(r))
        r->host->cls->signal(r->host->backend, key, 0);
}
