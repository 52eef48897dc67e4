/* end_steps.c - the end steps of runs, on worker threads
 *
 * Owns: steps under way (core_ops.end_step).  A step is the operation `ended` of the part through
 * which the job came; after that, the working directory of a run with a snapshot is pruned.
 *
 * Outcomes from before a restart arrive before the parts are open; their steps wait for the parts.
 *
 * A step that finds no space on the disk is repeated until there is space: a job must not be shown
 * as ended without its archive.  It holds no thread meanwhile.
 *
 * A host that closes cancels its steps and waits only until their threads have noticed.  Their
 * reports are dropped: the next daemon gets the outcomes again and repeats the steps.
 *
 * All functions but end_step_work and prune_work_dir run on the loop thread.  Between work_submit
 * and end_step_done the worker thread owns a step, except for `cancel`, which the loop thread sets.
 */
#include "archive/cas.h"
#include "archive/snapshot.h"
#include "base/fault.h"
#include "base/log.h"
#include "host/host_priv.h"
#include <string.h>

enum { SPACE_LOOK_MS = 1000 };

/* One step, from end_steps_begin to its report.  `part`, `job` and the texts are written before the
 * thread starts; `err` and `rc` are the thread's result. */
struct end_step {
    struct host *h;
    const struct open_part *part; /* NULL = none */
    bool started; /* a thread has it; before, the parts are not open yet, or it waits for space */
    bool waits;   /* for space */
    struct host_ended job;
    char *name, *dialect;
    char *snapshot; /* NULL = none */
    struct snapshot_owner owner;
    atomic_bool cancel;
    struct err err;
    int rc;
    struct end_step *next; /* in host.ends */
};

/* Works with the rights of the job's user: the run may have replaced its directories by links to
 * places that only the daemon may change. */
static int prune_work_dir(struct end_step *s)
{
    AUTO_FREE char *dir = core_work_dir(s->h->core, s->job.key);
    struct cas *cas;

    if (snapshot_store_open(s->h->paths.home, s->owner, &cas, &s->err) < 0)
        return -1;
    int rc = snapshot_as(s->owner, &s->err);
    if (rc == 0)
        rc = snapshot_prune(cas, s->snapshot, dir, &s->err);
    snapshot_as_self();
    cas_close(cas);
    return rc < 0 ? err_wrap(&s->err, "clearing the working directory") : 0;
}

/* Worker thread.  The part comes first, because it may still read files that the pruning removes;
 * for the same reason nothing is pruned after the part has failed. */
static void end_step_work(void *arg)
{
    struct end_step *s = arg;

    fault_sleep("BERTH_FAULT_END_STEP_MS");
    if (s->part && s->part->part->ended)
        s->rc = s->part->part->ended(s->part->self, &s->job, &s->err);
    if (s->rc == 0 && s->snapshot && !s->cancel)
        s->rc = prune_work_dir(s);
}

/* Takes the step out of the list of the host.  Never while a thread works on the step. */
static void end_step_free(struct end_step *s)
{
    struct end_step **at = &s->h->ends.first;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    free(s->name);
    free(s->dialect);
    free(s->snapshot);
    free(s);
}

static bool end_step_start(struct end_step *s);

/* Loop thread.  All steps that wait are tried: what one of them needs may be there already. */
static void end_steps_again(void *arg)
{
    struct host *h = arg;

    for (struct end_step *s = h->ends.first; s; s = s->next)
        if (s->waits && !s->started) {
            core_end_step_waits(h->core, s->job.key, false);
            end_step_start(s);
        }
}

/* The step is over for now; it begins again when the disk may have space.  One line in the log. */
static void end_step_wait(struct end_step *s)
{
    struct host *h = s->h;

    if (!s->waits)
        log_warn("host", "end of job %llu waits for space on the disk; free some: %s",
                 (unsigned long long)s->job.key.job, s->err.text);
    s->waits = true;
    s->started = false;
    s->rc = 0;
    s->err = (struct err){0};
    core_end_step_waits(h->core, s->job.key, true);
    if (!h->ends.again)
        h->ends.again = timer_new(h->loop, end_steps_again, h);
    timer_start(h->ends.again, SPACE_LOOK_MS, 0);
}

/* Loop thread.  The error of a step that was cancelled is not logged: it only says that the step
 * was cut short. */
static void end_step_done(void *arg)
{
    struct end_step *s = arg;
    struct host *h = s->h;

    h->works--;
    if (s->rc < 0 && s->err.code == ERR_FULL && !s->cancel && !h->ends.shut) {
        end_step_wait(s);
        return;
    }
    if (s->rc < 0 && !s->cancel)
        log_warn("host", "end of job %llu: %s", (unsigned long long)s->job.key.job, s->err.text);
    else if (s->waits && !s->cancel)
        log_info("host", "end of job %llu: there was space again",
                 (unsigned long long)s->job.key.job);
    if (!h->ends.shut)
        core_end_step_done(h->core, s->job.key, s->rc < 0 ? &s->err : NULL);
    end_step_free(s);
}

/* False: the dialect is not in this build or has nothing to do, and there is no snapshot. */
static bool end_step_start(struct end_step *s)
{
    const struct open_part *part = parts_find(s->h, s->dialect);

    if ((!part || !part->part->ended) && !s->snapshot)
        return false;
    s->part = part;
    s->started = true;
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
    if (l.spec->origin.dialect || l.spec->command.snapshot) {
        struct end_step *s = xcalloc(1, sizeof(*s));
        *s = (struct end_step){.h = h,
                               .dialect = xstrdup(l.spec->origin.dialect),
                               .snapshot = xstrdup(l.spec->command.snapshot),
                               .owner = {l.uid, l.gid},
                               .name = xstrdup(l.name ? l.name : l.spec->name),
                               .next = h->ends.first};
        s->job = (struct host_ended){.key = key, .id = l.id, .name = s->name, .cancel = &s->cancel};
        h->ends.first = s;
        begun = !h->ends.ready || end_step_start(s);
        if (!begun)
            end_step_free(s);
    }
    launch_done(&l);
    return begun;
}

void end_steps_open(struct host *h)
{
    h->ends.ready = true;
    for (struct end_step *s = h->ends.first, *next; s; s = next) {
        next = s->next;
        if (s->started || end_step_start(s))
            continue;
        /* The core was told that a step was begun, so it waits for a report. */
        core_end_step_done(h->core, s->job.key, NULL);
        end_step_free(s);
    }
}

void end_steps_cancel(void *arg, struct run_key key)
{
    for (struct end_step *s = ((struct host *)arg)->ends.first, *next; s; s = next) {
        next = s->next;
        if (!run_key_eq(s->job.key, key))
            continue;
        s->cancel = true;
        if (s->waits && !s->started)
            end_step_free(s); /* nobody expects its report any more */
    }
}

void end_steps_shut(struct host *h)
{
    h->ends.shut = true;
    timer_free(TAKE(h->ends.again));
    for (struct end_step *s = h->ends.first, *next; s; s = next) {
        next = s->next;
        s->cancel = true;
        if (!s->started)
            end_step_free(s); /* no thread has it */
    }
}
