/* nodes.c - GET /v1/nodes, POST /v1/nodes/{name}/drain and /undrain
 *
 * Capacity and what is in use; a drained node finishes what runs and starts nothing.
 */
#include "api/api_priv.h"
#include "api/job_json.h"

static void put_devices(struct buf *b, const struct node *n, const struct usage *u)
{
    buf_adds(b, ",\"devices\":[");
    for (size_t i = 0; i < n->n_devices; i++) {
        const struct device *d = &n->devices[i];

        put_int(b, i ? ",{\"index\":" : "{\"index\":", d->index);
        put_str(b, ",\"uuid\":", str_of(d->uuid));
        put_str_or_null(b, ",\"kind\":", str_of(d->kind));
        put_int(b, ",\"mem_bytes\":", d->mem_bytes);
        put_bool(b, ",\"used\":", gpu_set_has(&u->gpus, (uint32_t)i));
        put_int(b, ",\"runs\":", u->on_gpu[i]);
        buf_addc(b, '}');
    }
    buf_addc(b, ']');
}

void node_json(struct buf *b, const struct node *n, const struct usage *u)
{
    put_str(b, "{\"name\":", str_of(n->name));
    put_int(b, ",\"slots\":", n->slots);
    put_mcpu(b, ",\"cpus\":", n->mcpu);
    put_int(b, ",\"mem_bytes\":", n->mem_bytes);
    put_int(b, ",\"gpus\":", (int64_t)n->n_devices);
    put_devices(b, n, u);
    put_int(b, ",\"used_slots\":", u->slots);
    put_mcpu(b, ",\"used_cpus\":", u->mcpu);
    put_int(b, ",\"used_mem_bytes\":", u->mem_bytes);
    put_int(b, ",\"used_gpus\":", gpu_set_count(&u->gpus));
    put_int(b, ",\"running\":", u->runs);
    put_bool(b, ",\"drained\":", n->drained);
    buf_addc(b, '}');
}

void nodes_list(struct call *c)
{
    const struct core *core = c->api->conf.core;
    struct usage u = core_usage(core);

    buf_adds(&c->out, "{\"items\":[");
    node_json(&c->out, core_node(core), &u);
    buf_adds(&c->out, "]}");
    call_reply(c);
}

static void on_set(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;
    struct usage u = core_usage(c->api->conf.core);

    (void)r;
    if (e) {
        call_fail(c, e);
        return;
    }
    node_json(&c->out, core_node(c->api->conf.core), &u);
    call_reply(c);
}

static void set_drained(struct call *c, bool drained)
{
    const struct node *n = core_node(c->api->conf.core);

    if (!str_eq_c(c->arg, n->name)) {
        err_set(&c->err, ERR_NOT_FOUND, "there is no node '" STR_FMT "'; did you mean '%s'?",
                (int)MIN(c->arg.n, 60), c->arg.p, n->name);
        call_fail(c, &c->err);
        return;
    }
    core_drain(c->api->conf.core, drained, &c->who.caller, on_set, c);
}

void nodes_drain(struct call *c)
{
    set_drained(c, true);
}

void nodes_undrain(struct call *c)
{
    set_drained(c, false);
}
