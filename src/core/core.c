/* core.c - the controller as a whole: made, asked, turned
 *
 * core_turn is the only place that plans.  There is no tick: whatever could let a job start (a
 * submission, an end, a resumed queue, a due back-off) marks the core dirty, and the end of that
 * loop turn plans.
 */
#include "core/core_priv.h"
#include <time.h>

enum { PATIENCE_MS = 5 * 60 * 1000, MAX_STARTS = 256 };

static const struct core_ops no_ops;

/* Names every string of the configuration once, for both its copy and its end. */
static void conf_each_string(struct core_conf *c, void (*fn)(const char **s))
{
    fn(&c->home.dir);
    fn(&c->home.socket);
    fn(&c->home.python_path);
    fn(&c->home.program);
    fn(&c->containers.engine);
    fn(&c->containers.socket_dir);
    fn(&c->containers.ports_addr);
}

static void conf_string_copy(const char **s)
{
    *s = xstrdup(*s);
}

static void conf_string_free(const char **s)
{
    free((char *)*s);
}

struct core *core_new(const struct core_conf *conf)
{
    struct core *c = xcalloc(1, sizeof(*c));

    c->conf = *conf;
    conf_each_string(&c->conf, conf_string_copy);
    if (!conf->ops)
        c->conf.ops = &no_ops;
    if (conf->home.secret)
        memcpy(c->secret, conf->home.secret, sizeof(c->secret));
    c->conf.home.secret = c->secret;
    if (!c->conf.patience_ms)
        c->conf.patience_ms = PATIENCE_MS;
    rng_seed(&c->rng, conf->seed);
    struct limit_conf limits = conf->limits;
    limits.users_apart = conf->home.multi_user; /* nodes may differ for users */
    c->queue = queue_new(&limits);
    c->jobs.next_job = c->jobs.next_spec = c->jobs.next_batch = 1;
    c->schedules.next_seq = c->studies.next_seq = 1;
    c->studies.look_ms = -1;
    core_queue_index(c, STR("default"));
    c->hooks.next_ms = -1;
    train_open(c);
    return c;
}

void core_free(struct core *c)
{
    void *val;

    if (!c)
        return;
    for (size_t it = 0; (val = map_u64_each(&c->jobs.by_number, &it));)
        run_discard(((struct job *)val)->run);
    ahead_free(c);
    hooks_free(c);
    train_done(c);
    for (size_t it = 0; (val = map_u64_each(&c->jobs.waiters, &it));) {
        vec_done(&((struct waiters *)val)->jobs);
        free(val);
    }
    while (c->jobs.slabs) {
        struct job_slab *next = c->jobs.slabs->next;
        free(c->jobs.slabs);
        c->jobs.slabs = next;
    }
    map_u64_done(&c->jobs.by_number);
    map_u64_done(&c->jobs.waiters);
    map_u64_done(&c->jobs.leaving);
    map_str_done(&c->queues);
    vec_done(&c->jobs.due);
    vec_done(&c->held);
    vec_done(&c->absent);
    vec_done(&c->steps);
    hosts_free(c);
    lanes_free(c);
    schedules_free(c);
    studies_free(c);
    queue_free(c->queue);
    conf_each_string(&c->conf, conf_string_free);
    free(c);
}

static int64_t cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

struct plan_input core_plan_input(struct core *c, size_t max_starts)
{
    return (struct plan_input){.now_ms = core_mono(c),
                               .nodes = c->cluster.nodes.p,
                               .usage = c->cluster.usage.p,
                               .n_nodes = c->cluster.nodes.n,
                               .runs = c->held.p,
                               .n_runs = c->held.n,
                               .queue = c->queue,
                               .max_starts = max_starts,
                               .gpus_elsewhere = true,
                               .wants_room = train_wants_room(c),
                               .wants_room_on = c->gpu.wants_room_on,
                               .patience_ms = c->conf.patience_ms};
}

/* MAX_STARTS bounds the work of one turn; the core stays dirty, so that the next turn goes on. */
static void plan_and_place(struct core *c)
{
    decisions d = {0};
    int64_t t = cpu_us();
    struct plan_input s = core_plan_input(c, MAX_STARTS);

    plan(&s, &d);
    t = cpu_us() - t;
    c->stats.plans++;
    c->stats.plan_us_total += t;
    c->stats.plan_us_max = MAX(c->stats.plan_us_max, t);
    for (size_t i = 0; i < d.n; i++)
        run_place(c, c->cluster.hosts.p[d.p[i].node], core_job(c, d.p[i].job), &d.p[i].gpus);
    if (d.n == MAX_STARTS)
        c->dirty = true;
    vec_done(&d);
}

void core_turn(struct core *c)
{
    struct ledger *led = &c->conf.ledger;

    core_release_due(c);
    hosts_due(c);
    schedules_fire_due(c);
    studies_turn(c);
    ahead_recall_late(c);
    train_kill_due(c);
    end_steps_due(c);
    hooks_turn(c);
    if (!c->dirty) {
        int64_t due = train_next_wake(c);
        c->dirty = due >= 0 && due <= core_mono(c);
    }
    if (trouble_turn(c) || !c->dirty || !c->recovered || !led->healthy(led->self))
        return; /* still dirty: the turn that lifts the obstacle plans */
    c->dirty = false;
    run_send_absent(c);
    train_turn(c);
    if (!queue_count(c->queue))
        return;
    plan_and_place(c);
    ahead_send(c);
}

/* ---- questions ---- */

bool core_job_active(const struct core *c, uint64_t job, struct run_key *out_run)
{
    const struct job *j = core_job(c, job);

    if (!j || job_state_final(j->state))
        return false;
    if (out_run)
        *out_run = j->run ? j->run->key : (struct run_key){job, 0, j->tag};
    return true;
}

bool core_job_owner(const struct core *c, uint64_t job, uint32_t *out)
{
    const struct job *j = core_job(c, job);

    if (j)
        *out = j->uid;
    return j != NULL;
}

bool core_job_ending(const struct core *c, uint64_t job)
{
    const struct job *j = core_job(c, job);

    return j && j->run && j->run->ending;
}

bool core_stop_requested(const struct core *c, uint64_t job)
{
    const struct job *j = core_job(c, job);

    return !j || j->cancel_requested || j->state == JOB_STOPPING || job_state_final(j->state) ||
           train_stop_requested(c, job);
}

struct core_stats core_stats(const struct core *c)
{
    return c->stats;
}

void core_gpu_runs(const struct core *c,
                   void (*fn)(void *arg, struct run_key key, uint32_t uid, size_t node,
                              const struct gpu_set *devices),
                   void *arg)
{
    for (size_t i = 0; i < c->held.n; i++) {
        const struct plan_run *r = &c->held.p[i];
        if (!gpu_set_empty(&r->gpus))
            fn(arg, r->key, core_job(c, r->key.job)->uid, r->node, &r->gpus);
    }
}
