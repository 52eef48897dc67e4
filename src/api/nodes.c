/* nodes.c - GET /v1/nodes and /v1/nodes/{name}, POST /v1/nodes/{name}/drain and /undrain
 *
 * Capacity and what is in use; a drained node finishes what runs and starts nothing.  Every device
 * with its gauges as of the last look at it, and the jobs on it; of other people's jobs only the
 * number is told.
 */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "base/clock.h"
#include "base/vec.h"

/* A run that holds devices, as far as the caller may know of it. */
struct gpu_holder {
    uint64_t job;
    const struct gpu_set *devices;
    int64_t reserved_bytes, measured_bytes; /* on each; 0 = all of it, not measured */
};
/* Argument of add_holder: the runs on one node that `who` may know of. */
struct gpu_holders {
    struct core *core;
    const struct caller *who;
    size_t node;
    VEC(struct gpu_holder) list;
};

/* core_gpu_runs calls this for every run; other users' runs and other nodes are left out. */
static void add_holder(void *arg, struct run_key key, uint32_t uid, size_t node,
                       const struct gpu_set *devices)
{
    struct gpu_holders *h = arg;
    struct gpu_holder one = {.job = key.job, .devices = devices};
    struct gpu_view v;

    if (node != h->node || !caller_sees(h->who, uid))
        return;
    if (core_training(h->core, key.job, &v)) {
        one.reserved_bytes = v.reserved_bytes;
        one.measured_bytes = v.measured_bytes;
    }
    vec_push(&h->list, one);
}

/* The jobs on one device.  A member is null where nothing was reserved or measured. */
static void put_holders(struct buf *b, const struct gpu_holders *h, uint32_t device)
{
    jw_array(b, "jobs");
    for (size_t i = 0; i < h->list.n; i++) {
        const struct gpu_holder *one = &h->list.p[i];
        if (!gpu_set_has(one->devices, device))
            continue;
        jw_object(b, NULL);
        jw_int(b, "number", (int64_t)one->job);
        jw_int_or_null(b, "reserved_bytes", one->reserved_bytes, one->reserved_bytes > 0);
        jw_int_or_null(b, "measured_bytes", one->measured_bytes, one->measured_bytes > 0);
        jw_end_object(b);
    }
    jw_end_array(b);
}

/* Leaves the object open: the caller adds who uses the device. */
static void put_device(struct buf *b, const struct device *d)
{
    static const char *const states[] = {[DEVICE_UNSEEN] = "unseen",
                                         [DEVICE_OK] = "ok",
                                         [DEVICE_LOST] = "lost",
                                         [DEVICE_EXCLUDED] = "excluded"};

    jw_object(b, NULL);
    jw_int(b, "index", d->index);
    jw_text(b, "uuid", d->uuid);
    jw_str_or_null(b, "kind", str_of(d->kind));
    jw_text(b, "state", states[d->state]);
    jw_str_or_null(b, "reason", str_of(d->state == DEVICE_OK ? "" : d->trouble));
    jw_int(b, "mem_bytes", d->mem_bytes);
    jw_int_or_null(b, "used_bytes", d->used_bytes, d->seen_ms && d->used_bytes >= 0);
    jw_int(b, "foreign_bytes", d->foreign_bytes);
    jw_int_or_null(b, "busy_percent", d->busy_percent, d->seen_ms && d->busy_percent >= 0);
    jw_int_or_null(b, "power_w", d->power_mw / 1000, d->seen_ms && d->power_mw >= 0);
    jw_time(b, "seen", d->seen_ms);
}

/* who NULL: the devices without the jobs on them. */
static void node_put_devices(struct buf *b, struct core *core, size_t at, const struct caller *who)
{
    const struct node *n = core_node(core, at);
    const struct usage *u = core_usage(core, at);
    struct gpu_holders h = {.core = core, .who = who, .node = at};

    if (who)
        core_gpu_runs(core, add_holder, &h);
    jw_array(b, "devices");
    for (size_t i = 0; i < n->n_devices; i++) {
        put_device(b, &n->devices[i]);
        jw_bool(b, "used", gpu_set_has(&u->gpus, (uint32_t)i));
        jw_int(b, "runs", u->on_gpu[i]);
        if (who)
            put_holders(b, &h, (uint32_t)i);
        jw_end_object(b);
    }
    jw_end_array(b);
    vec_done(&h.list);
}

/* How it is reached, and whether it is now. */
static void put_reach(struct buf *b, const struct core *core, size_t at)
{
    const struct node *n = core_node(core, at);
    const char *conf = core_node_conf(core, at);
    AUTO(json) struct json *j = NULL;
    struct err e;

    if (conf && json_parse(str_of(conf), "node", &j, &e) < 0)
        j = NULL;
    const struct json *url = json_get(j, "url");
    jw_str_or_null(b, "url", json_type(url) == JSON_STR ? json_str(url) : STR(""));
    jw_text(b, "state", n->away ? "away" : n->drained ? "drained" : "up");
    jw_str_or_null(b, "trouble", str_of(n->away ? n->trouble : ""));
    jw_int_or_null(b, "retry_in_ms", MAX(n->again_ms - clock_mono(&clock_system), (int64_t)0),
                   n->away && n->again_ms);
}

void node_json(struct buf *b, struct core *core, size_t at, const struct caller *who)
{
    const struct node *n = core_node(core, at);
    const struct usage *u = core_usage(core, at);

    jw_object(b, NULL);
    jw_text(b, "name", n->name);
    jw_int(b, "slots", n->slots);
    jw_mcpu(b, "cpus", n->mcpu);
    jw_int(b, "mem_bytes", n->mem_bytes);
    jw_int(b, "gpus", (int64_t)n->n_devices);
    node_put_devices(b, core, at, who);
    jw_int(b, "used_slots", u->slots);
    jw_mcpu(b, "used_cpus", u->mcpu);
    jw_int(b, "used_mem_bytes", u->mem_bytes);
    jw_int(b, "used_gpus", gpu_set_count(&u->gpus));
    jw_int(b, "running", u->runs);
    jw_bool(b, "drained", n->drained);
    jw_bool(b, "reserved", n->reserved);
    put_reach(b, core, at);
    jw_end_object(b);
}

void nodes_get(struct call *c)
{
    size_t at;

    if (!core_node_find(call_api(c)->conf.core, c->arg[0], &at)) {
        core_node_unknown(call_api(c)->conf.core, c->arg[0], &c->err);
        call_fail(c, &c->err);
        return;
    }
    node_json(&c->out, call_api(c)->conf.core, at, &c->who.caller);
    call_reply(c);
}

void nodes_list(struct call *c)
{
    struct core *core = call_api(c)->conf.core;

    jw_object(&c->out, NULL);
    jw_array(&c->out, "items");
    for (size_t i = 0; i < core_node_count(core); i++) {
        if (!core_node(core, i))
            continue;
        node_json(&c->out, core, i, &c->who.caller);
    }
    jw_end_array(&c->out);
    jw_end_object(&c->out);
    call_reply(c);
}

void nodes_answer(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;
    size_t at;

    (void)r;
    if (e)
        call_fail(c, e);
    else if (!core_node_find(call_api(c)->conf.core, c->arg[0], &at)) /* removed meanwhile */
        call_reply(c);
    else {
        node_json(&c->out, call_api(c)->conf.core, at, &c->who.caller);
        call_reply(c);
    }
}

/* Two rows of the table share this handler; route.arg says whether to drain or to undrain. */
void nodes_set_drained(struct call *c)
{
    core_drain(call_api(c)->conf.core, c->arg[0], *(const bool *)c->route->arg, &c->who.caller,
               nodes_answer, c);
}
