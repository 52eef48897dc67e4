/* recover.c - after a restart: first restore what was recorded, exactly; then ask the world what
 * happened
 *
 * Until a backend has answered for every run recorded for its node nothing new is planned there, so
 * no slot is given away twice.
 */
#include "core/core_priv.h"

/* A waiting job and the one it waits for, which ended without success. */
struct doomed {
    uint64_t job, other;
    enum job_state state;
};
/* State of one recovery.  wall and mono are one moment on both clocks. */
struct restoring {
    struct core *c;
    VEC(struct doomed) doomed;
    VEC(struct job *) ready; /* waiting jobs, activated once their dependencies are known */
    VEC(char *) names;       /* this machine has or had */
    int64_t wall, mono;
};

static void restore_job(void *arg, const struct job_record *r)
{
    struct restoring *x = arg;
    struct core *c = x->c;
    struct job *j = job_new(c, r->seq);
    int64_t waited = MAX(x->wall - r->created_ms, (int64_t)0); /* the clock may have stepped back */

    j->attempt = r->attempt;
    j->tries = r->tries;
    j->cancel_requested = r->cancel_requested;
    j->wait.since_ms = x->mono - waited;
    job_describe(c, j, r);
    if (r->training.n)
        train_new(c, r->seq, r->spec, r->training);
    /* A delay is at most what was asked for, however the clock moved. */
    int64_t delay = r->next_try_ms ? r->next_try_ms - x->wall : 0;
    if (delay > 0)
        j->due_ms = x->mono + MIN(delay, (int64_t)3600 * 1000);
    j->state = (uint8_t)r->state;
    if (job_state_waits(r->state))
        vec_push(&x->ready, j);
    if (r->state == JOB_QUEUED)
        return;
    c->stats.queued--;
    if (r->state == JOB_HELD)
        c->stats.on_hold++;
    else if (r->state == JOB_STARTING)
        c->stats.starting++;
    else if (r->state == JOB_RUNNING)
        c->stats.running++;
    else
        c->stats.stopping++;
}

/* This machine; NULL = no host of this kind was made. */
static struct core_host *ours(const struct core *c)
{
    for (size_t i = 0; i < c->cluster.hosts.n; i++)
        if (c->cluster.hosts.p[i]->ours)
            return c->cluster.hosts.p[i];
    return NULL;
}

/* A node that is not here now gets a place all the same: what runs there goes on until it is back,
 * or is given up.  This machine may have been renamed. */
static struct core_host *host_of(struct restoring *x, struct str name)
{
    struct core_host *h = host_find(x->c, name);
    AUTO_FREE char *text = xstrndup(name.p, name.n);

    for (size_t i = 0; !h && i < x->names.n; i++)
        if (str_eq_c(name, x->names.p[i]))
            h = ours(x->c);
    return h ? h : core_host_new(x->c, text);
}

/* The run stays unresolved until its host has answered; host.beliefs has what is asked for. */
static void restore_run(void *arg, const struct run_record *r)
{
    struct restoring *x = arg;
    struct job *j = core_job(x->c, r->key.job);

    if (!j || (r->ahead ? j->state != JOB_QUEUED : !job_state_has_run(j->state)))
        return; /* berth doctor reports such rows; there is nothing to supervise */
    /* Every node has a journal, also one that happens to have the same name. */
    if (str_eq_c(r->node, OUTSIDE_NODE) && !r->journal) {
        run_restore(x->c, NULL, j, r);
        return;
    }
    struct core_host *h = host_of(x, r->node);
    const struct run *run = run_restore(x->c, h, j, r);
    vec_push(&h->beliefs,
             ((struct run_belief){run->key, r->journal, r->pid, r->pid_start, j->uid}));
}

/* Facts are of queues with rules (lane.c), or of the planner of GPUs. */
static void restore_fact(void *arg, struct str name, struct str text)
{
    struct restoring *x = arg;

    if (!lane_recall(x->c, name, text))
        gpus_recall(x->c->gpu.planner, name, text);
}

static void restore_study(void *arg, const struct study_row *r)
{
    study_restore(((struct restoring *)arg)->c, r);
}

static bool restore_study_sum(void *arg, const struct study_sum *x)
{
    return study_sum_restore(((struct restoring *)arg)->c, x);
}

static void restore_trial(void *arg, const struct trial_row *r)
{
    trial_restore(((struct restoring *)arg)->c, r);
}

static void restore_schedule(void *arg, const struct schedule_row *r)
{
    schedule_restore(((struct restoring *)arg)->c, r);
}

static void restore_dep(void *arg, const struct dep_record *r)
{
    struct restoring *x = arg;
    struct job *j = core_job(x->c, r->job);

    if (j && job_state_waits(j->state) && j->hold != HOLD_AHEAD && core_job(x->c, r->other))
        job_wait_for(x->c, j, r->other);
}

/* What it waits for ended badly, and this job was not told: a gap that one transaction should not
 * leave. */
static void restore_dep_final(void *arg, uint64_t job, uint64_t other, enum job_state state)
{
    struct restoring *x = arg;

    vec_push(&x->doomed, ((struct doomed){job, other, state}));
}

static void restore_queue(void *arg, struct str name, enum queue_mode mode)
{
    struct restoring *x = arg;
    uint32_t at = core_queue_index(x->c, name);

    queue_set_paused(x->c->queue, at, mode == QUEUE_PAUSED);
    queue_set_kept(x->c->queue, at, mode == QUEUE_KEPT);
}

static void restore_node(void *arg, const struct node_record *r)
{
    struct restoring *x = arg;
    struct core_host *h = host_find(x->c, r->name);

    if (!r->conf.n) {
        vec_push(&x->names, xstrndup(r->name.p, r->name.n));
    } else if (!h || !h->ours) { /* else this machine took its name */
        h = host_of(x, r->name);
        free(h->conf);
        h->conf = xstrndup(r->conf.p, r->conf.n);
    }
    if (h)
        h->drained = r->drained;
}

/* So that its runs are known as ours after it was renamed. */
static void remember_our_name(struct restoring *x)
{
    const struct core_host *h = ours(x->c);

    for (size_t i = 0; h && i < x->names.n; i++)
        if (!strcmp(x->names.p[i], host_node(h)->name))
            return;
    if (h)
        core_stage(x->c, &(struct change){.kind = CHANGE_NODE_DRAIN,
                                          .at_ms = x->wall,
                                          .node_drain = {.name = str_of(host_node(h)->name)}});
}

static void restore_counters(void *arg, uint64_t next_job, uint64_t next_spec, uint64_t next_batch,
                             uint64_t last_event)
{
    struct restoring *x = arg;

    (void)last_event;
    x->c->jobs.next_job = MAX(next_job, (uint64_t)1);
    x->c->jobs.next_spec = MAX(next_spec, (uint64_t)1);
    x->c->jobs.next_batch = MAX(next_batch, (uint64_t)1);
}

static void restore_tagged(void *arg, uint64_t first)
{
    ((struct restoring *)arg)->c->jobs.first_tagged = first;
}

/* A job in a running state without any run row cannot be: it would wait for ever.  Give it back. */
static void requeue_runless(struct core *c)
{
    VEC(struct job *) stray = {0};
    struct job *j;

    for (size_t it = 0; (j = map_u64_each(&c->jobs.by_number, &it));) {
        if (job_state_has_run(j->state) && !j->run)
            vec_push(&stray, j);
    }
    for (size_t i = 0; i < stray.n; i++) {
        j = stray.p[i];
        job_move_recorded(c, j, JOB_EV_REQUEUE, STR("no run was recorded for it"));
        job_activate(c, j);
    }
    vec_done(&stray);
}

int core_recover(struct core *c, struct err *e)
{
    struct restoring x = {.c = c, .wall = core_wall(c), .mono = core_mono(c)};
    const struct load_sink sink = {.job = restore_job,
                                   .run = restore_run,
                                   .dep = restore_dep,
                                   .dep_final = restore_dep_final,
                                   .queue = restore_queue,
                                   .node = restore_node,
                                   .counters = restore_counters,
                                   .tagged = restore_tagged,
                                   .fact = restore_fact,
                                   .schedule = restore_schedule,
                                   .study = restore_study,
                                   .study_sum = restore_study_sum,
                                   .trial = restore_trial,
                                   .arg = &x};
    struct ledger *led = &c->conf.ledger;

    if (led->load(led->self, &sink, e) < 0)
        return err_wrap(e, "restoring the jobs");
    lane_restored(c);
    for (size_t i = 0; i < x.ready.n; i++)
        if (x.ready.p[i]->hold != HOLD_AHEAD)
            job_activate(c, x.ready.p[i]);
    for (size_t i = 0; i < x.doomed.n; i++)
        job_cancel_dependent(c, x.doomed.p[i].job, x.doomed.p[i].other, x.doomed.p[i].state);
    requeue_runless(c);
    for (size_t i = 0; i < c->cluster.hosts.n; i++)
        host_refresh(c->cluster.hosts.p[i]);
    train_restored(c);
    remember_our_name(&x);
    c->recovered = true;
    for (size_t i = 0; i < c->cluster.hosts.n; i++) {
        host_open_backend(c->cluster.hosts.p[i]);
        host_adopt(c->cluster.hosts.p[i]);
    }
    outside_restored(c);
    studies_restored(c);
    for (size_t i = 0; i < x.names.n; i++)
        free(x.names.p[i]);
    vec_done(&x.names);
    vec_done(&x.ready);
    vec_done(&x.doomed);
    c->dirty = true;
    return 0;
}
