/* world.c - the simulated hosts: messages take time, executions outlive the controller
 *
 * They keep the promises of backend.h and no others: a key runs at most once, ends are journaled
 * before anybody hears of them, a message of a dead controller may still arrive much later.  While
 * a host is cut off nothing passes either way; what was not sent yet can be given back (refused) or
 * is taken back by a stop.
 */
#include "sim/sim.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

struct backend { /* the controller's side; nothing of it survives a crash */
    struct sim_host *host;
};

static void host_init(struct world *w, int at)
{
    struct sim_host *h = &w->hosts[at];
    static const char *const names[SIM_HOSTS] = {"sim", "sim1", "sim2"};

    *h = (struct sim_host){.world = w, .at = at};
    h->node = (struct node){.slots = (int32_t)(1 + rng_below(w->rng, at ? 3 : 5)),
                            .mcpu = 4000,
                            .mem_bytes = 8ll << 30,
                            .devices = h->devices,
                            .n_devices = at == 2 ? 0 : 2 + rng_below(w->rng, SIM_DEVICES - 1)};
    snprintf(h->node.name, sizeof(h->node.name), "%s", names[at]);
    for (int i = 0; i < SIM_DEVICES; i++)
        h->devices[i] = (struct device){.index = i, .mem_bytes = SIM_GPU_BYTES, .state = DEVICE_OK};
}

void world_init(struct world *w, struct rng *rng, enum planted planted)
{
    *w = (struct world){.rng = rng, .planted = planted, .now = 1000000, .n_hosts = SIM_HOSTS};
    for (int i = 0; i < SIM_HOSTS; i++)
        host_init(w, i);
}

void world_done(struct world *w)
{
    for (int i = 0; i < SIM_HOSTS; i++) {
        struct sim_host *h = &w->hosts[i];
        vec_done(&h->channel);
        vec_done(&h->stale);
        vec_done(&h->gated);
        vec_done(&h->journal);
        vec_done(&h->asked);
        vec_done(&h->taken_back);
    }
    vec_done(&w->execs);
    vec_done(&w->journeys);
    vec_done(&w->steps);
    vec_done(&w->saved);
}

void world_attach(struct world *w, struct backend *backends[SIM_HOSTS])
{
    struct err e;

    for (int i = 0; i < w->n_hosts; i++) {
        struct sim_host *h = &w->hosts[i];
        h->host = core_host_new(w->core, i ? h->node.name : NULL);
        const struct backend_class *cls = world_far(i) ? &backend_sim_far : &backend_sim;
        cls->open(&backends[i], (const char *)h, NULL, NULL, NULL, NULL, &e);
        core_attach(h->host, cls, backends[i]);
    }
}

struct exec *world_find(struct world *w, struct run_key key)
{
    for (size_t i = 0; i < w->execs.n; i++)
        if (run_key_eq(w->execs.p[i].key, key))
            return &w->execs.p[i];
    return NULL;
}

/* Of this host: another has nothing to do with its keys. */
static struct exec *exec_of(struct sim_host *h, struct run_key key)
{
    for (size_t i = 0; i < h->world->execs.n; i++) {
        struct exec *x = &h->world->execs.p[i];
        if (x->host == h->at && run_key_eq(x->key, key))
            return x;
    }
    return NULL;
}

static size_t gate_of(struct sim_host *h, struct run_key key)
{
    size_t i = 0;

    while (i < h->gated.n && !run_key_eq(h->gated.p[i].key, key))
        i++;
    return i;
}

/* ---- executions ---- */

static void begin(struct sim_host *h, const struct msg *m)
{
    struct world *w = h->world;
    struct exec x = {.key = m->key,
                     .host = h->at,
                     .need = m->need,
                     .gpus = m->gpus,
                     .live = true,
                     .epochs = m->epochs,
                     .from = m->from,
                     .n_ranks = m->n_ranks,
                     .checkpoint = m->checkpoint};
    int64_t length =
        rng_below(w->rng, 4) ? (int64_t)rng_below(w->rng, 20) : (int64_t)rng_below(w->rng, 5000);

    x.outcome.started_ms = w->now;
    x.end_at = w->now + length;
    if (m->timeout_ms && length > m->timeout_ms) {
        x.end_at = w->now + m->timeout_ms;
        x.outcome.why = RUN_END_TIMEOUT;
    }
    x.outcome.wait_status = rng_below(w->rng, 4) ? 0 : W_EXITCODE(1 + (int)rng_below(w->rng, 3), 0);
    if (x.epochs)
        trainer_begin(w, &x);
    else if (w->full_disks && !x.checkpoint && !rng_below(w->rng, 16)) /* when it ends */
        x.outcome.sys = ENOSPC;
    vec_push(&w->execs, x);
    vec_push(&h->journal, ((struct happening){.key = m->key, .outcome = x.outcome}));
}

static void release_gates(struct sim_host *h, struct run_key ended)
{
    for (size_t i = 0; i < h->gated.n; i++)
        if (run_key_eq(h->gated.p[i].after, ended)) {
            struct msg m = h->gated.p[i];
            vec_remove(&h->gated, i);
            begin(h, &m);
            return;
        }
}

void world_finish(struct world *w, size_t i, enum run_end why, int status)
{
    struct exec *x = &w->execs.p[i];
    struct sim_host *h = &w->hosts[x->host];
    struct run_key key = x->key;

    x->live = false;
    x->ended = true;
    x->outcome.why = why;
    x->outcome.wait_status = status;
    x->outcome.ended_ms = w->now;
    if (why != RUN_END_EXITED)
        x->outcome.sys = 0;
    vec_push(&h->journal, ((struct happening){.key = key, .end = true, .outcome = x->outcome}));
    release_gates(h, key);
}

void world_advance(struct world *w, int64_t ms)
{
    w->now += ms;
    for (size_t i = 0; i < w->execs.n; i++)
        if (w->execs.p[i].live && w->execs.p[i].end_at <= w->now)
            world_finish(w, i, w->execs.p[i].outcome.why, w->execs.p[i].outcome.wait_status);
}

/* ---- end steps ---- */

const struct sim_step *world_step_of(const struct world *w, struct run_key key)
{
    for (size_t i = 0; i < w->steps.n; i++)
        if (run_key_eq(w->steps.p[i].key, key))
            return &w->steps.p[i];
    return NULL;
}

bool world_end_step(struct world *w, struct run_key key)
{
    struct sim_step *x = (struct sim_step *)world_step_of(w, key);

    if (!x) {
        vec_push(&w->steps, ((struct sim_step){.key = key}));
        x = &vec_last(&w->steps);
    }
    if (x->under_way)
        snprintf(w->failure, sizeof(w->failure), "an end step was begun twice by one controller");
    x->under_way = true;
    return true;
}

void world_end_step_cancel(struct world *w, struct run_key key)
{
    struct sim_step *x = (struct sim_step *)world_step_of(w, key);

    x->over = true; /* the report still comes, and is ignored */
}

void world_end_step_report(struct world *w)
{
    const struct err failed = {.code = ERR_FULL, .text = "the disk is full"};
    size_t first = w->steps.n ? rng_below(w->rng, w->steps.n) : 0;

    for (size_t i = 0; w->core && i < w->steps.n; i++) {
        struct sim_step *x = &w->steps.p[(first + i) % w->steps.n];
        if (!x->under_way)
            continue;
        x->under_way = false;
        x->over = true;
        core_end_step_done(w->core, x->key, rng_below(w->rng, 4) ? NULL : &failed);
        return;
    }
}

/* ---- messages ---- */

static void receive_start(struct sim_host *h, const struct msg *m)
{
    struct exec *before = m->after.job ? exec_of(h, m->after) : NULL;

    if (h->world->planted != PLANT_LATE_START &&
        (exec_of(h, m->key) || gate_of(h, m->key) < h->gated.n))
        return;
    if (m->after.job && ((before && before->live) || gate_of(h, m->after) < h->gated.n))
        vec_push(&h->gated, *m);
    else
        begin(h, m);
}

/* The start leaves; a run that waits behind it moves up.  False: it does not wait. */
static bool drop_gate(struct sim_host *h, struct run_key key)
{
    size_t gate = gate_of(h, key);

    if (gate >= h->gated.n)
        return false;
    struct run_key after = h->gated.p[gate].after;
    vec_remove(&h->gated, gate);
    for (size_t i = 0; i < h->gated.n; i++)
        if (run_key_eq(h->gated.p[i].after, key))
            h->gated.p[i].after = after;
    return true;
}

static void receive_stop(struct sim_host *h, struct run_key key)
{
    struct world *w = h->world;
    struct exec *x = exec_of(h, key);
    const struct run_outcome o = {.why = RUN_END_CANCELLED, .ended_ms = w->now};

    if (drop_gate(h, key)) {
        vec_push(&w->execs,
                 ((struct exec){.key = key, .host = h->at, .ended = true, .outcome = o}));
        vec_push(&h->journal, ((struct happening){.key = key, .end = true, .outcome = o}));
    } else if (x && x->live) {
        x->end_at = w->now + (int64_t)rng_below(w->rng, 50);
        /* A command that fails at the same moment keeps its status.  No supervisor says "exited 0"
         * of a run that a stop reached while its command ran. */
        if (x->outcome.wait_status != 0 && !rng_below(w->rng, 3))
            x->outcome.why = RUN_END_EXITED;
        else
            x->outcome.why = RUN_END_CANCELLED;
    }
}

static void receive(struct sim_host *h, struct msg m)
{
    struct exec *x = m.signal ? exec_of(h, m.key) : NULL;

    if (m.signal && x)
        trainer_signal(h->world, x);
    else if (m.signal)
        return;
    else if (m.withdraw && drop_gate(h, m.key))
        vec_push(&h->journal, ((struct happening){.key = m.key, .absent = true}));
    else if (m.withdraw)
        return;
    else if (m.stop)
        receive_stop(h, m.key);
    else
        receive_start(h, &m);
}

/* Some host for which `fn` finds something to do; NULL when there is none. */
static struct sim_host *some_host(struct world *w, bool (*fn)(const struct sim_host *h))
{
    int first = (int)rng_below(w->rng, (uint64_t)w->n_hosts);

    for (int i = 0; i < w->n_hosts; i++) {
        struct sim_host *h = &w->hosts[(first + i) % w->n_hosts];
        if (fn(h))
            return h;
    }
    return NULL;
}

static bool has_msg(const struct sim_host *h)
{
    return h->stale.n || (h->channel.n && !h->cut);
}

void world_deliver_msg(struct world *w)
{
    struct sim_host *h = some_host(w, has_msg);
    struct msg m;

    if (!h)
        return;
    if (h->stale.n && (!h->channel.n || h->cut || rng_below(w->rng, 2))) {
        m = h->stale.p[0];
        vec_remove(&h->stale, 0);
    } else {
        m = h->channel.p[0];
        vec_remove(&h->channel, 0);
    }
    receive(h, m);
}

/* ---- away, refused ---- */

void world_cut(struct world *w, int at, bool cut)
{
    struct sim_host *h = &w->hosts[at];

    h->cut = h->node.away = cut;
    snprintf(h->node.trouble, sizeof(h->node.trouble), "%s", cut ? "cut off" : "");
    if (w->core)
        core_backend_events.node(h->host, &h->node);
}

static bool may_refuse(const struct sim_host *h)
{
    return h->cut && h->channel.n;
}

static void forget_msgs(struct sim_host *h, struct run_key key)
{
    for (size_t i = h->channel.n; i-- > 0;)
        if (run_key_eq(h->channel.p[i].key, key))
            vec_remove(&h->channel, i);
}

void world_refuse(struct world *w)
{
    struct sim_host *h = w->core ? some_host(w, may_refuse) : NULL;

    for (size_t i = 0; h && i < h->channel.n; i++) {
        struct msg m = h->channel.p[i];
        if (m.stop || m.signal || m.withdraw)
            continue;
        forget_msgs(h, m.key);
        if (w->planted == PLANT_REFUSED)
            vec_push(&h->stale, m);
        core_backend_events.refused(h->host, m.key, 0, STR("it cannot be reached"));
        return;
    }
}

/* ---- what the controller hears ---- */

static void tell(struct sim_host *h, const struct happening *x)
{
    if (x->absent)
        core_backend_events.absent(h->host, x->key);
    else if (x->end)
        core_backend_events.ended(h->host, x->key, &x->outcome, STR(""));
    else
        core_backend_events.started(h->host, x->key, 4711, 1, x->outcome.started_ms);
}

static bool has_news(const struct sim_host *h)
{
    return h->taken_back.n || (h->read < h->journal.n && !h->cut);
}

void world_deliver_happening(struct world *w)
{
    struct sim_host *h = w->core ? some_host(w, has_news) : NULL;

    if (!h)
        return;
    if (h->taken_back.n) {
        const struct run_outcome o = {.why = RUN_END_CANCELLED, .ended_ms = w->now};
        struct run_key key = h->taken_back.p[0];
        vec_remove(&h->taken_back, 0);
        core_backend_events.ended(h->host, key, &o, STR(""));
        return;
    }
    struct happening x = h->journal.p[h->read++];
    tell(h, &x);
}

static bool is_asked(const struct sim_host *h)
{
    return h->asked.n && !h->cut;
}

/* The host ends the connections of earlier controllers first, after what they sent has been carried
 * out: nothing of it happens later. */
static void carry_out_stale(struct sim_host *h)
{
    while (h->world->planted != PLANT_LATE_START && h->stale.n) {
        struct msg m = h->stale.p[0];
        vec_remove(&h->stale, 0);
        receive(h, m);
    }
}

void world_answer(struct world *w)
{
    struct sim_host *h = w->core ? some_host(w, is_asked) : NULL;

    if (!h)
        return;
    carry_out_stale(h);
    struct run_key key = h->asked.p[0].key;
    vec_remove(&h->asked, 0);
    while (h->read < h->journal.n) { /* answers come from the journal too, in its order */
        struct happening x = h->journal.p[h->read++];
        tell(h, &x);
    }
    struct exec *x = exec_of(h, key);
    if (drop_gate(h, key)) /* waits for another's place: given up, it will be sent again */
        x = NULL;
    if (!x || (w->planted == PLANT_FORGETFUL && x->live)) {
        core_backend_events.absent(h->host, key);
        return;
    }
    struct run_outcome o = x->outcome;
    bool ended = x->ended;
    core_backend_events.started(h->host, key, 4711, 1, o.started_ms);
    if (ended)
        core_backend_events.ended(h->host, key, &o, STR(""));
}

/* A prefix of what was on the wire may still arrive, some time; what was not on it is gone. */
void world_crash_controller(struct world *w)
{
    for (int i = 0; i < w->n_hosts; i++) {
        struct sim_host *h = &w->hosts[i];
        size_t keep = h->cut ? 0 : rng_below(w->rng, h->channel.n + 1);
        for (size_t k = 0; k < keep; k++)
            vec_push(&h->stale, h->channel.p[k]);
        vec_clear(&h->channel);
        vec_clear(&h->asked);
        vec_clear(&h->taken_back);
        h->read = h->journal.n; /* a new controller learns of the past by asking */
        h->host = NULL;
    }
    for (size_t i = 0; i < w->steps.n; i++)
        w->steps.p[i].under_way = false;
    w->core = NULL;
}

/* ---- the backend table ---- */

static const struct node *sim_node(struct backend *b)
{
    return &b->host->node;
}

static uint32_t sim_journal(struct backend *b)
{
    (void)b;
    return 1;
}

static void read_trainer(const struct run_start *r, struct msg *m)
{
    int64_t epochs = 0, ranks = 0, from = 0;
    static const char done[] = "BERTH_EPOCHS_DONE=";

    /* A launcher of one process per GPU stands before the words of the trainer. */
    char *const *argv = strcmp(r->argv[1], "__ranks") == 0 ? r->argv + 3 : r->argv;

    ASSERT(str_to_i64(str_of(argv[1]), &epochs) && str_to_i64(str_of(argv[2]), &ranks) &&
           str_to_i64(str_of(argv[3]), &m->checkpoint));
    for (char *const *v = r->envp; *v; v++)
        if (!strncmp(*v, done, strlen(done)))
            str_to_i64(str_of(*v + strlen(done)), &from);
    m->epochs = (int32_t)epochs;
    m->n_ranks = (int)ranks;
    m->from = (int32_t)from;
}

static int sim_start(struct backend *b, const struct run_start *r, struct err *e)
{
    struct world *w = b->host->world;

    if (w->dead_calls)
        return 0;
    if (rng_below(w->rng, 100) == 0)
        return err_set(e, ERR_UNAVAILABLE, "the host does not answer");
    struct msg m = {
        .key = r->key, .after = r->after, .need = r->need, .timeout_ms = r->limits.timeout_ms};
    if (r->argv[1]) /* "train" EPOCHS RANKS CHECKPOINT */
        read_trainer(r, &m);
    vec_push(&b->host->channel, m);
    return 0;
}

/* What was not sent yet never will be. */
static bool take_back(struct sim_host *h, struct run_key key)
{
    for (size_t i = 0; h->cut && i < h->channel.n; i++)
        if (run_key_eq(h->channel.p[i].key, key) && !h->channel.p[i].stop &&
            !h->channel.p[i].signal && !h->channel.p[i].withdraw) {
            forget_msgs(h, key);
            vec_push(&h->taken_back, key);
            return true;
        }
    return false;
}

static void sim_stop(struct backend *b, struct run_key key, int64_t grace_ms)
{
    (void)grace_ms;
    if (!b->host->world->dead_calls && !take_back(b->host, key))
        vec_push(&b->host->channel, ((struct msg){.key = key, .stop = true}));
}

static void sim_withdraw(struct backend *b, struct run_key key)
{
    if (!b->host->world->dead_calls)
        vec_push(&b->host->channel, ((struct msg){.key = key, .withdraw = true}));
}

static void sim_signal(struct backend *b, struct run_key key, int signo)
{
    (void)signo;
    if (!b->host->world->dead_calls)
        vec_push(&b->host->channel, ((struct msg){.key = key, .signal = true}));
}

static void sim_adopt(struct backend *b, const struct run_belief *runs, size_t n)
{
    if (!b->host->cut)
        carry_out_stale(b->host);
    for (size_t i = 0; i < n; i++)
        vec_push(&b->host->asked, runs[i]);
}

static void sim_settled(struct backend *b, struct run_key key)
{
    (void)b;
    (void)key;
}

static int sim_open(struct backend **out, const char *home, const struct json *conf, struct loop *l,
                    const struct backend_events *ev, void *owner, struct err *e)
{
    (void)conf;
    (void)l;
    (void)ev;
    (void)owner;
    (void)e;
    *out = xcalloc(1, sizeof(**out));
    (*out)->host = (struct sim_host *)(uintptr_t)home; /* the only argument a caller can vary */
    return 0;
}

static void sim_close(struct backend *b)
{
    free(b);
}

#define SIM_CALLS                                                                                  \
    .open = sim_open, .close = sim_close, .node = sim_node, .journal = sim_journal,                \
    .start = sim_start, .stop = sim_stop, .signal = sim_signal, .adopt = sim_adopt,                \
    .settled = sim_settled
const struct backend_class backend_sim = {.name = "sim", SIM_CALLS, .withdraw = sim_withdraw};
const struct backend_class backend_sim_far = {.name = "sim-far", SIM_CALLS};
