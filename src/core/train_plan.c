/* train_plan.c - the planner of GPUs and the world: its clock, its hands, its plans
 *
 * Owns: what the planner may do to jobs (struct gpu_hands) and when it is asked.
 *
 * Its clock is the wall clock of our start, moved on by the monotonic one: it never goes back, and
 * times it keeps mean the same after a restart.  A long plan is made on another thread; meanwhile
 * everything goes on with the plan in force.
 */
#include "base/fault.h"
#include "core/train_priv.h"
#include <stdio.h>

/* Device memory of strangers: less is no reason to plan again. */
#define FOREIGN_STEP (INT64_C(64) << 20)

static int32_t scale_of(const struct core *c)
{
    return c->conf.gpu.time_scale > 0 ? c->conf.gpu.time_scale : 1;
}

int64_t train_now(const struct core *c)
{
    return c->gpu.epoch_ms + (core_mono(c) - c->gpu.mono_ms) * scale_of(c);
}

int64_t train_wall(const struct core *c, int64_t planner_ms)
{
    return planner_ms ? core_wall(c) + (planner_ms - train_now(c)) / scale_of(c) : 0;
}

/* A wall clock time on the planner's clock; 0 = none, as in train_wall. */
static int64_t of_wall(const struct core *c, int64_t wall_ms)
{
    return wall_ms ? train_now(c) + (wall_ms - core_wall(c)) * scale_of(c) : 0;
}

/* ---- the hands ---- */

static bool room_on_host(const struct core_host *h, const struct shape *s)
{
    struct resources need = s->need;

    need.gpus = 0;
    return resources_fit(host_node(h), host_usage(h), &need);
}

/* Everything but devices and room. */
static bool is_free_to_start(const struct core *c, const struct job *j)
{
    const struct ledger *led = &c->conf.ledger;

    if (!j || j->state != JOB_QUEUED || j->hold != HOLD_NONE || j->cancel_requested)
        return false;
    return queue_may_start(c->queue, &j->wait) && c->recovered && led->healthy(led->self);
}

static bool node_is_for(const struct node *n, struct str names, uint32_t uid)
{
    return (names.n ? nodes_match(names, n->name) : !n->reserved) && node_admits(n, uid);
}

/* Also notes the first job that lacks nothing but room on its host, so that the other planner keeps
 * that room (train_wants_room). */
static bool plan_may_start(void *self, uint64_t job, uint32_t node)
{
    struct core *c = self;
    struct job *j = core_job(c, job);
    const struct core_host *h = c->cluster.hosts.p[node];

    bool ready =
        is_free_to_start(c, j) && h && host_open(h) &&
        node_is_for(host_node(h), queue_shape_at(c->queue, j->wait.shape)->nodes, j->uid) &&
        !(queue_shape_at(c->queue, j->wait.shape)->unfit & unfit_bit(node));
    if (ready && room_on_host(h, queue_shape_at(c->queue, j->wait.shape)))
        return true;
    struct job *first = core_job(c, c->gpu.wants_room);
    if (ready && (!first || wait_item_before(&j->wait, &first->wait))) {
        c->gpu.wants_room = job;
        c->gpu.wants_room_on = node;
    }
    c->gpu.refused = true;
    return false;
}

/* Free to start as far as the job itself is concerned; a refusal is asked about again in the next
 * turn. */
static bool plan_job_ready(void *self, uint64_t job)
{
    struct core *c = self;
    bool yes = is_free_to_start(c, core_job(c, job));

    c->gpu.refused |= !yes;
    return yes;
}

static bool plan_start_job(void *self, uint64_t job, uint32_t node, const struct gpu_set *devices,
                           int64_t mem_bytes)
{
    struct core *c = self;
    struct job *j = core_job(c, job);

    if (!plan_may_start(c, job, node))
        return false;
    if (c->gpu.wants_room == job)
        c->gpu.wants_room = 0;
    train_of(c, job)->past.reserved_bytes = mem_bytes;
    queue_remove(c->queue, &j->wait);
    run_place(c, c->cluster.hosts.p[node], j, devices);
    return true;
}

/* now: the run is stopped at once, or not started at all.  Otherwise the job gets its signal, or is
 * told with its next epoch. */
static void plan_stop_job(void *self, uint64_t job, bool now)
{
    struct core *c = self;
    struct job *j = core_job(c, job);
    struct train *t = train_of(c, job);

    if (!t || !j || !j->run)
        return;
    if (now) {
        t->stop_now = true;
        j->run->recall = true;
        run_stop(c, j->run);
    } else if (t->spec->signal) {
        train_send_signal(c, t, j->run);
    } else {
        t->raised = true;
    }
}

static void unstop(void *self, uint64_t job)
{
    struct train *t = train_of(self, job);

    if (t)
        t->raised = false;
}

static void plan_save_memory(void *self, struct str name, struct str text)
{
    struct core *c = self;

    core_stage(c, &(struct change){.kind = CHANGE_FACT,
                                   .at_ms = core_wall(c),
                                   .fact = {.name = name, .value = text}});
}

/* ---- what it is told ---- */

void train_open(struct core *c)
{
    struct gpu_conf conf = c->conf.gpu.plan;
    const struct gpu_hands hands = {.self = c,
                                    .may_start = plan_may_start,
                                    .ready = plan_job_ready,
                                    .start = plan_start_job,
                                    .stop = plan_stop_job,
                                    .unstop = unstop,
                                    .remember = plan_save_memory};

    conf.seed = conf.seed ? conf.seed : c->conf.seed;
    c->gpu.planner = gpus_new(&conf, &hands);
    c->gpu.epoch_ms = core_wall(c);
    c->gpu.mono_ms = core_mono(c);
}

static bool any_device(const struct core *c)
{
    for (size_t i = 0; i < c->cluster.hosts.n; i++)
        if (c->cluster.hosts.p[i] && c->cluster.hosts.p[i]->devices.n)
            return true;
    return false;
}

/* Those it may run on, for the planner: the nodes it names, else those for everybody; *none: there
 * is no such node now. */
static uint64_t nodes_of(const struct core *c, const struct job *j, bool *none)
{
    struct str names = queue_shape_at(c->queue, j->wait.shape)->nodes;
    uint64_t nodes = 0;
    bool all = !names.n;

    for (size_t i = 0; i < c->cluster.hosts.n; i++) {
        if (c->cluster.hosts.p[i] && node_is_for(&c->cluster.nodes.p[i], names, j->uid))
            nodes |= gpu_node_bit(i);
        else
            all = all && !c->cluster.hosts.p[i];
    }
    *none = !nodes && !all;
    return all ? 0 : nodes;
}

void train_add(struct core *c, struct train *t, const struct job *j)
{
    struct gpu_job say = t->spec->say;
    struct err e = {0};
    int64_t now = train_now(c);

    say.job = t->job;
    say.family = str_of(t->spec->family);
    say.priority = j->wait.priority;
    say.submitted_ms = now - (core_mono(c) - j->wait.since_ms) * scale_of(c);
    say.deadline_ms = of_wall(c, say.deadline_ms);
    free(t->refused);
    t->refused = NULL;
    bool none;
    say.nodes = nodes_of(c, j, &none);
    if (none || !any_device(c))
        return; /* the ordinary explanation says so */
    if (gpus_add(c->gpu.planner, now, &say, &e) < 0) {
        t->refused = xstrdup(e.text);
        return;
    }
    t->known = true;
    gpus_resumes_at(c->gpu.planner, t->job, t->past.done);
}

/* What did not fit may fit now; what runs there, on devices that were not known, is counted. */
static void add_unknown(struct core_host *h)
{
    struct core *c = h->core;
    uint64_t key;
    void *val;

    for (size_t it = 0; map_u64_next(&c->gpu.trains, &it, &key, &val);) {
        struct train *t = val;
        const struct job *j = core_job(c, key);
        bool none = false;
        uint64_t nodes = t->known && j ? nodes_of(c, j, &none) : 0;
        if (t->known && !none)
            gpus_set_nodes(c->gpu.planner, key, nodes);
        if (t->known || !t->spec->gpus || !j || job_state_final(j->state))
            continue;
        if (j->run && j->run->host == h)
            train_adopt(c, t, j);
        else if (j->state == JOB_QUEUED && j->hold == HOLD_NONE)
            train_add(c, t, j);
    }
}

void train_node(struct core_host *h)
{
    struct core *c = h->core;

    gpus_node(c->gpu.planner, train_now(c), h->at, h->devices.p, h->devices.n, host_open(h));
    if (c->recovered)
        add_unknown(h);
    c->dirty = true;
}

static struct gpu_device_state plan_device_state(const struct device *d)
{
    int64_t foreign = MAX(d->foreign_bytes, (int64_t)0);

    return (struct gpu_device_state){.mem_bytes = d->mem_bytes,
                                     .foreign_bytes =
                                         (foreign + FOREIGN_STEP - 1) / FOREIGN_STEP * FOREIGN_STEP,
                                     .usable = d->state == DEVICE_OK || d->state == DEVICE_UNSEEN};
}

/* By members: the padding between them has no value. */
static bool devices_equal(const struct gpu_device_state *a, const struct gpu_device_state *b,
                          size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i].mem_bytes != b[i].mem_bytes || a[i].foreign_bytes != b[i].foreign_bytes ||
            a[i].usable != b[i].usable)
            return false;
    return true;
}

/* Devices that have not changed are not told again. */
static void set_devices(struct core_host *h, const struct gpu_device_state *d, size_t n)
{
    if (n == h->devices.n && devices_equal(d, h->devices.p, n))
        return;
    vec_clear(&h->devices);
    for (size_t i = 0; i < n; i++)
        vec_push(&h->devices, d[i]);
    train_node(h);
}

/* Measured: what it uses on the fullest of its devices. */
static void run_memory(struct core *c, struct run_key key, int64_t bytes)
{
    struct job *j = core_job(c, key.job);
    struct train *t = train_of(c, key.job);

    if (!t || !j || !j->run || !run_key_eq(j->run->key, key) || bytes <= 0)
        return;
    t->past.measured_bytes = MAX(t->past.measured_bytes, bytes);
    if (!t->known)
        return;
    gpus_measured(c->gpu.planner, train_now(c), t->job, bytes);
    c->dirty = true;
}

void train_attached(struct core_host *h)
{
    const struct node *n = host_node(h);
    VEC(struct gpu_device_state) now = {0};

    for (size_t i = 0; i < n->n_devices && i < NODE_MAX_GPUS; i++)
        vec_push(&now, plan_device_state(&n->devices[i]));
    set_devices(h, now.p, now.n);
    vec_done(&now);
}

/* The backend looked at its devices. */
void train_devices(void *owner, const struct node *n, const struct run_memory *runs, size_t n_runs)
{
    struct core_host *h = owner;

    (void)n; /* it is the one the backend shows */
    host_refresh(h);
    train_attached(h);
    for (size_t i = 0; i < n_runs; i++)
        run_memory(h->core, runs[i].key, runs[i].bytes);
}

/* ---- planning ---- */

struct planning {
    struct core *c;
    struct gpu_problem *problem;
};

/* On another thread: only the problem may be used. */
static void solve(void *arg)
{
    fault_sleep("BERTH_FAULT_PLAN_MS");
    gpu_problem_solve(((struct planning *)arg)->problem);
}

/* On the loop thread again. */
static void on_solved(void *arg)
{
    struct planning *p = arg;
    struct core *c = p->c;

    c->gpu.planning = false;
    gpus_plan_end(c->gpu.planner, train_now(c), p->problem);
    gpus_apply(c->gpu.planner, train_now(c));
    c->dirty = true;
    free(p);
}

static void plan_gpus(struct core *c)
{
    struct gpu_problem *problem =
        c->gpu.planning ? NULL : gpus_plan_begin(c->gpu.planner, train_now(c));

    if (!problem)
        return;
    if (c->conf.ops->offload) {
        struct planning *p = xmalloc(sizeof(*p));
        *p = (struct planning){c, problem};
        c->gpu.planning = true;
        if (c->conf.ops->offload(c->conf.self, solve, on_solved, p))
            return;
        c->gpu.planning = false;
        free(p);
    }
    gpu_problem_solve(problem);
    gpus_plan_end(c->gpu.planner, train_now(c), problem);
    gpus_apply(c->gpu.planner, train_now(c));
}

void train_turn(struct core *c)
{
    if (!c->gpu.trains.n)
        return;
    if (c->gpu.refused) { /* something changed, or there would be no turn */
        c->gpu.refused = false;
        gpus_ask_again(c->gpu.planner);
    }
    gpus_apply(c->gpu.planner, train_now(c));
    plan_gpus(c);
}

int64_t train_next_wake(const struct core *c)
{
    int64_t at = c->gpu.kill_due_ms ? c->gpu.kill_due_ms : -1;
    int64_t due =
        c->gpu.trains.n && c->recovered && !c->gpu.planning ? gpus_next_wake(c->gpu.planner) : -1;

    if (due < 0)
        return at;
    int64_t ahead = (due - train_now(c) + scale_of(c) - 1) / scale_of(c);
    int64_t mono = core_mono(c) + MAX(ahead, (int64_t)0);
    return at < 0 ? mono : MIN(at, mono);
}

struct wait_item *train_wants_room(struct core *c)
{
    struct job *j = core_job(c, c->gpu.wants_room);

    if (j && is_free_to_start(c, j) && queue_contains(c->queue, &j->wait))
        return &j->wait;
    c->gpu.wants_room = 0;
    return NULL;
}
