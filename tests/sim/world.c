/* world.c - the simulated host: messages take time, executions outlive the controller
 *
 * It keeps the promises of backend.h and no others: a key runs at most once, ends are journaled
 * before anybody hears of them, a message of a dead controller may still arrive much later.
 */
#include "sim/sim.h"
#include <string.h>
#include <sys/wait.h>

struct backend { /* the controller's side; nothing of it survives a crash */
    struct world *world;
};

void world_init(struct world *w, struct rng *rng, enum planted planted)
{
    *w = (struct world){.rng = rng, .planted = planted, .now = 1000000};
    w->node = (struct node){.name = "sim",
                            .slots = (int32_t)(1 + rng_below(rng, 5)),
                            .mcpu = 4000,
                            .mem_bytes = 8ll << 30,
                            .devices = w->devices,
                            .n_devices = 2 + rng_below(rng, SIM_DEVICES - 1)};
    for (int i = 0; i < SIM_DEVICES; i++)
        w->devices[i] = (struct device){.index = i, .mem_bytes = SIM_GPU_BYTES, .state = DEVICE_OK};
}

void world_done(struct world *w)
{
    vec_done(&w->execs);
    vec_done(&w->channel);
    vec_done(&w->stale);
    vec_done(&w->gated);
    vec_done(&w->journal);
    vec_done(&w->asked);
    vec_done(&w->journeys);
    vec_done(&w->saved);
}

struct exec *world_find(struct world *w, struct run_key key)
{
    for (size_t i = 0; i < w->execs.n; i++)
        if (run_key_eq(w->execs.p[i].key, key))
            return &w->execs.p[i];
    return NULL;
}

static size_t gate_of(struct world *w, struct run_key key)
{
    size_t i = 0;

    while (i < w->gated.n && !run_key_eq(w->gated.p[i].key, key))
        i++;
    return i;
}

/* ---- executions ---- */

static void begin(struct world *w, const struct msg *m)
{
    struct exec x = {.key = m->key,
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
    vec_push(&w->execs, x);
    vec_push(&w->journal, ((struct happening){.key = m->key, .outcome = x.outcome}));
}

static void release_gates(struct world *w, struct run_key ended)
{
    for (size_t i = 0; i < w->gated.n; i++)
        if (run_key_eq(w->gated.p[i].after, ended)) {
            struct msg m = w->gated.p[i];
            vec_remove(&w->gated, i);
            begin(w, &m);
            return;
        }
}

void world_finish(struct world *w, size_t i, enum run_end why, int status)
{
    struct exec *x = &w->execs.p[i];
    struct run_key key = x->key;

    x->live = false;
    x->ended = true;
    x->outcome.why = why;
    x->outcome.wait_status = status;
    x->outcome.ended_ms = w->now;
    vec_push(&w->journal, ((struct happening){.key = key, .end = true, .outcome = x->outcome}));
    release_gates(w, key);
}

void world_advance(struct world *w, int64_t ms)
{
    w->now += ms;
    for (size_t i = 0; i < w->execs.n; i++)
        if (w->execs.p[i].live && w->execs.p[i].end_at <= w->now)
            world_finish(w, i, w->execs.p[i].outcome.why, w->execs.p[i].outcome.wait_status);
}

/* ---- messages ---- */

static void receive_start(struct world *w, const struct msg *m)
{
    struct exec *before = m->after.job ? world_find(w, m->after) : NULL;

    if (w->planted != PLANT_LATE_START &&
        (world_find(w, m->key) || gate_of(w, m->key) < w->gated.n))
        return;
    if (m->after.job && ((before && before->live) || gate_of(w, m->after) < w->gated.n))
        vec_push(&w->gated, *m);
    else
        begin(w, m);
}

/* It waited for `after` and is not wanted any more: whoever waits for it moves up. */
static void end_unstarted(struct world *w, struct run_key key, struct run_key after)
{
    struct run_outcome o = {.why = RUN_END_CANCELLED, .ended_ms = w->now};

    vec_push(&w->execs, ((struct exec){.key = key, .ended = true, .outcome = o}));
    vec_push(&w->journal, ((struct happening){.key = key, .end = true, .outcome = o}));
    for (size_t i = 0; i < w->gated.n; i++)
        if (run_key_eq(w->gated.p[i].after, key))
            w->gated.p[i].after = after;
}

static void receive_stop(struct world *w, struct run_key key)
{
    struct exec *x = world_find(w, key);
    size_t gate = gate_of(w, key);

    if (gate < w->gated.n) {
        struct run_key after = w->gated.p[gate].after;
        vec_remove(&w->gated, gate);
        end_unstarted(w, key, after);
    } else if (x && x->live) {
        x->end_at = w->now + (int64_t)rng_below(w->rng, 50);
        x->outcome.why = rng_below(w->rng, 3) ? RUN_END_CANCELLED : RUN_END_EXITED;
    }
}

static void receive(struct world *w, struct msg m)
{
    struct exec *x = m.signal ? world_find(w, m.key) : NULL;

    if (m.signal && x)
        trainer_signal(w, x);
    else if (m.signal)
        return;
    else if (m.stop)
        receive_stop(w, m.key);
    else
        receive_start(w, &m);
}

void world_deliver_msg(struct world *w)
{
    struct msg m;

    if (w->stale.n && (!w->channel.n || rng_below(w->rng, 2))) {
        m = w->stale.p[0];
        vec_remove(&w->stale, 0);
        receive(w, m);
    } else if (w->channel.n) {
        m = w->channel.p[0];
        vec_remove(&w->channel, 0);
        receive(w, m);
    }
}

/* ---- what the controller hears ---- */

static void tell(struct world *w, const struct happening *h)
{
    if (h->end)
        core_backend_events.ended(w->host, h->key, &h->outcome, STR(""));
    else
        core_backend_events.started(w->host, h->key, 4711, 1, h->outcome.started_ms);
}

void world_deliver_happening(struct world *w)
{
    if (w->core && w->read < w->journal.n) {
        struct happening h = w->journal.p[w->read++];
        tell(w, &h);
    }
}

void world_answer(struct world *w)
{
    if (!w->core || !w->asked.n)
        return;
    struct run_key key = w->asked.p[0].key;
    vec_remove(&w->asked, 0);
    while (w->read < w->journal.n) /* answers come from the journal too, in its order */
        world_deliver_happening(w);
    struct exec *x = world_find(w, key);
    size_t gate = gate_of(w, key);
    if (gate < w->gated.n) { /* waits for another's place: given up, it will be sent again */
        struct run_key after = w->gated.p[gate].after;
        vec_remove(&w->gated, gate);
        for (size_t i = 0; i < w->gated.n; i++)
            if (run_key_eq(w->gated.p[i].after, key))
                w->gated.p[i].after = after;
        x = NULL;
    }
    if (!x || (w->planted == PLANT_FORGETFUL && x->live)) {
        core_backend_events.absent(w->host, key);
        return;
    }
    struct run_outcome o = x->outcome;
    bool ended = x->ended;
    core_backend_events.started(w->host, key, 4711, 1, o.started_ms);
    if (ended)
        core_backend_events.ended(w->host, key, &o, STR(""));
}

/* A prefix of what was on the wire may still arrive, some time. */
void world_crash_controller(struct world *w)
{
    size_t keep = rng_below(w->rng, w->channel.n + 1);

    for (size_t i = 0; i < keep; i++)
        vec_push(&w->stale, w->channel.p[i]);
    vec_clear(&w->channel);
    vec_clear(&w->asked);
    w->read = w->journal.n; /* a new controller learns of the past by asking */
    w->core = NULL;
}

/* ---- the backend table ---- */

static const struct node *sim_node(struct backend *b)
{
    return &b->world->node;
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

    ASSERT(str_to_i64(str_of(r->argv[1]), &epochs) && str_to_i64(str_of(r->argv[2]), &ranks) &&
           str_to_i64(str_of(r->argv[3]), &m->checkpoint));
    for (char *const *v = r->envp; *v; v++)
        if (!strncmp(*v, done, strlen(done)))
            str_to_i64(str_of(*v + strlen(done)), &from);
    m->epochs = (int32_t)epochs;
    m->n_ranks = (int)ranks;
    m->from = (int32_t)from;
}

static int sim_start(struct backend *b, const struct run_start *r, struct err *e)
{
    struct world *w = b->world;

    if (w->dead_calls)
        return 0;
    if (rng_below(w->rng, 100) == 0)
        return err_set(e, ERR_UNAVAILABLE, "the host does not answer");
    struct msg m = {.key = r->key, .after = r->after, .need = r->need, .timeout_ms = r->timeout_ms};
    if (r->argv[1]) /* "train" EPOCHS RANKS CHECKPOINT */
        read_trainer(r, &m);
    vec_push(&w->channel, m);
    return 0;
}

static void sim_stop(struct backend *b, struct run_key key, int64_t grace_ms)
{
    (void)grace_ms;
    if (!b->world->dead_calls)
        vec_push(&b->world->channel, ((struct msg){.key = key, .stop = true}));
}

static void sim_signal(struct backend *b, struct run_key key, int signo)
{
    (void)signo;
    if (!b->world->dead_calls)
        vec_push(&b->world->channel, ((struct msg){.key = key, .signal = true}));
}

/* The host ends the connections of earlier controllers first, after what they sent has been carried
 * out: nothing of it happens later. */
static void sim_adopt(struct backend *b, const struct run_belief *runs, size_t n)
{
    while (b->world->planted != PLANT_LATE_START && b->world->stale.n) {
        struct msg m = b->world->stale.p[0];
        vec_remove(&b->world->stale, 0);
        receive(b->world, m);
    }
    for (size_t i = 0; i < n; i++)
        vec_push(&b->world->asked, runs[i]);
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
    (*out)->world = (struct world *)(uintptr_t)home; /* the only argument a caller can vary */
    return 0;
}

static void sim_close(struct backend *b)
{
    free(b);
}

const struct backend_class backend_sim = {.name = "sim",
                                          .open = sim_open,
                                          .close = sim_close,
                                          .node = sim_node,
                                          .journal = sim_journal,
                                          .start = sim_start,
                                          .stop = sim_stop,
                                          .signal = sim_signal,
                                          .adopt = sim_adopt,
                                          .settled = sim_settled};
