/* reports.c - what a job says about itself, coming in; series.c and jobs_one.c tell it again
 *
 * POST /v1/jobs/{job}/reports takes a piece of a run's spool file: whole JSON lines from byte
 * `offset` on.  The answer is where the next piece must begin, so a piece sent twice counts once.
 */
#include "api/api_priv.h"
#include "api/job_json.h"

/* ---- POST /v1/jobs/{job}/reports ---- */

struct reports_call {
    struct job_facts f;
    int64_t run, offset;
};

/* Worker thread.  A run may not report for another run of its job. */
static int post_run(struct call *c)
{
    struct reports_call *d = c->data;

    if (job_ref_arg(c, &d->f) < 0)
        return -1;
    if (c->who.token.job != 0 && d->run != c->who.token.run)
        return err_set(&c->err, ERR_DENIED, "this token belongs to run %u, not to run %lld",
                       c->who.token.run, (long long)d->run);
    return 0;
}

static void reports_on_done(void *arg, const struct err *e, int64_t offset)
{
    struct call *c = arg;

    if (e) {
        call_fail(c, e);
        return;
    }
    jw_object(&c->out, NULL);
    jw_int(&c->out, "offset", offset);
    jw_end_object(&c->out);
    call_reply(c);
}

/* Loop thread.  The core answers after the commit, so an acknowledged piece survives a crash. */
static void post_then(struct call *c)
{
    struct reports_call *d = c->data;
    struct core *core = call_api(c)->conf.core;
    struct run_key key = core_run_key(core, d->f.seq, d->f.id, (uint32_t)d->run);

    if (c->who.token.job == key.job) /* its job was not looked up */
        key = (struct run_key){key.job, key.run, c->who.token.tag};
    core_report(core, key, d->offset, c->body, reports_on_done, c);
}

void reports_post(struct call *c)
{
    struct reports_call *d = call_alloc(c, sizeof(*d));
    int64_t number;

    c->data = d;
    call_keep_body(c);
    if (call_param_int(c, "run", c->who.token.run, 1, UINT32_MAX, &d->run, &c->err) < 0 ||
        call_param_int(c, "offset", 0, 0, INT64_MAX / 2, &d->offset, &c->err) < 0) {
        call_fail(c, &c->err);
        return;
    }
    if (d->run == 0) {
        err_set(&c->err, ERR_INVALID, "run: name the run that reports, as in ?run=1&offset=0");
        call_fail(c, &c->err);
        return;
    }
    /* A token proves which job it is: named by number, the store need not be asked. */
    if (c->who.token.job != 0 && str_to_i64(c->arg[0], &number) &&
        (uint64_t)number == c->who.token.job && d->run == c->who.token.run) {
        d->f.seq = c->who.token.job;
        post_then(c);
        return;
    }
    call_work(c, post_run, post_then);
}
