/* node_add.c - POST /v1/nodes and DELETE /v1/nodes/{name}
 *
 * The body of an added node is checked by backend/node_conf.c: {"url":"ssh://user@host:22"} with
 * the settings that every node has and those of its backend.  Berth records it, so that secrets
 * have no place in it unless it says "recorded": false; such a node is known until the daemon
 * stops.  The answer comes before the node is connected: `state`, `trouble` and `retry_in_ms` of
 * the node tell what became of it.
 */
#include "api/api_priv.h"
#include "backend/node_conf.h"
#include "base/json.h"

static void on_added(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;

    c->status = 201;
    nodes_answer(c, e, r);
}

/* The whole request runs on the loop thread: the body is small, and nothing waits for the network.
 */
void nodes_add(struct call *c)
{
    AUTO(json) struct json *conf = NULL;

    call_keep_body(c);
    AUTO(json) struct json *body = call_json_body(c);
    if (!body || node_conf_read(body, &conf, &c->err) < 0) {
        call_fail(c, &c->err);
        return;
    }
    c->arg[0] = call_copy(c, json_str(json_get(conf, "name")));
    core_node_add(call_api(c)->conf.core, c->arg[0], conf, &c->who.caller, on_added, c);
}

static void node_removed(struct call *c)
{
    c->status = 204;
    call_reply(c);
}

static void node_on_removed(void *arg, const struct err *e, const struct acted *r UNUSED)
{
    call_then(arg, e, node_removed);
}

void nodes_remove(struct call *c)
{
    int64_t force;

    if (call_param_int(c, "force", 0, 0, 1, &force, &c->err) < 0) {
        call_fail(c, &c->err);
        return;
    }
    core_node_remove(call_api(c)->conf.core, c->arg[0], force, &c->who.caller, node_on_removed, c);
}
