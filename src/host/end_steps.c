/* end_steps.c - the end steps of runs, on worker threads
 *
 * Owns: steps under way (core_ops.end_step).  A step is the operation `ended` of the part through
 * which the job came.
 *
 * Outcomes from before a restart arrive before the parts are open; their steps wait for the parts.
 *
 * A host that closes cancels its steps and waits only until their threads have noticed.  Their
 * reports are dropped: the next daemon gets the outcomes again and repeats the steps.
 */
#include "base/fault.h"
#include "base/log.h"
#include "host/host_priv.h"
#include <string.h>

struct end_step {
    struct host *h;
    const struct open_part *part; /* NULL = the parts are not open yet */
    struct host_ended job;
    char *name, *dialect;
    atomic_bool cancel;
    struct err err;
    int rc;
    struct end_step *next; /* in host.steps */
};

static void end_step_work(void *arg)
{
    struct end_step *s = arg;

    fault_sleep("BERTH_FAULT_END_STEP_MS");
    s->rc = s->part->part->ended(s->part->self, &s->job, &s->err);
}

static void end_step_free(struct end_step *s)
{
    struct end_step **at = &s->h->steps;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    free(s->name);
    free(s->dialect);
    free(s);
}

static void end_step_done(void *arg)
{
    struct end_step *s = arg;
    struct host *h = s->h;

    h->works--;
    if (s->rc < 0 && !s->cancel)
        log_warn("host", "end of job %llu: %s", (unsigned long long)s->job.key.job, s->err.text);
    if (!h->shutting)
        core_end_step_done(h->core, s->job.key, s->rc < 0 ? &s->err : NULL);
    end_step_free(s);
}

/* False: the dialect is not in this build, or has nothing to do. */
static bool end_step_start(struct end_step *s)
{
    const struct open_part *part = parts_find(s->h, s->dialect);

    if (!part || !part->part->ended)
        return false;
    s->part = part;
    s->h->works++;
    work_submit(s->h->loop, end_step_work, end_step_done, s);
    return true;
}

/* Copies what the worker thread needs: a launch belongs to the loop thread. */
bool end_steps_begin(void *arg, struct run_key key)
{
    struct host *h = arg;
    struct ledger led = store_ledger(h->store);
    struct launch l = {0};
    struct err e;
    bool begun = false;

    if (led.read_launch(led.self, key.job, &l, &e) < 0) {
        log_warn("host", "end of job %llu: %s", (unsigned long long)key.job, e.text);
        return false;
    }
    if (l.spec->origin.dialect) {
        struct end_step *s = xcalloc(1, sizeof(*s));
        *s = (struct end_step){.h = h,
                               .dialect = xstrdup(l.spec->origin.dialect),
                               .name = xstrdup(l.name ? l.name : l.spec->name),
                               .next = h->steps};
        s->job = (struct host_ended){.key = key, .id = l.id, .name = s->name, .cancel = &s->cancel};
        h->steps = s;
        begun = !h->parts_ready || end_step_start(s);
        if (!begun)
            end_step_free(s);
    }
    launch_done(&l);
    return begun;
}

void end_steps_open(struct host *h)
{
    h->parts_ready = true;
    for (struct end_step *s = h->steps, *next; s; s = next) {
        next = s->next;
        if (s->part || end_step_start(s))
            continue;
        core_end_step_done(h->core, s->job.key, NULL);
        end_step_free(s);
    }
}

void end_steps_cancel(void *arg, struct run_key key)
{
    for (struct end_step *s = ((struct host *)arg)->steps; s; s = s->next)
        if (run_key_eq(s->job.key, key))
            s->cancel = true;
}

void end_steps_shut(struct host *h)
{
    h->shutting = true;
    for (struct end_step *s = h->steps, *next; s; s = next) {
        next = s->next;
        s->cancel = true;
        if (!s->part)
            end_step_free(s); /* no thread has it */
    }
}
