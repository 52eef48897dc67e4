/* nodes.c - nodes of this host besides its own machine: from their conf to a backend */
#include "backend/node_conf.h"
#include "host/host_priv.h"

int node_backend_open(void *arg, struct core_host *node, const struct json *conf,
                      const struct backend_class **cls, struct backend **b, struct err *e)
{
    struct host *h = arg;
    const struct json *v = json_get(conf, "url");
    struct str url = json_type(v) == JSON_STR ? json_str(v) : STR("");

    *cls = node_conf_class(url);
    if (!*cls)
        return err_set(e, ERR_INVALID, "'%.*s' is not the address of a node; write ssh://user@host",
                       (int)MIN(url.n, (size_t)100), url.p);
    AUTO(json) struct json *all = json_copy(conf);
    if (h->paths.python_path)
        json_set_str(all, "python_path", h->paths.python_path);
    json_set_take(all, "several_users", json_new_bool(h->conf.multi_user));
    json_set_int(all, "owner_uid", h->env.uid);
    return (*cls)->open(b, h->paths.home, all, h->loop, &core_backend_events, node, e);
}
