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
    return (*cls)->open(b, h->paths.home, all, h->loop, &core_backend_events, node, e);
}

/* A node that the core knew before this call stays known when its backend cannot be opened: runs of
 * an earlier daemon may still be on that node. */
int host_open_node(struct host *h, const char *name, const struct json *conf, struct err *e)
{
    bool known = core_node_find(h->core, str_of(name), NULL) != NULL;
    struct core_host *node = core_host_new(h->core, name);
    const struct backend_class *cls = NULL;
    struct backend *b = NULL;

    if (node_backend_open(h, node, conf, &cls, &b, e) < 0) {
        if (!known)
            core_host_remove(node);
        return -1;
    }
    core_attach_owned(node, cls, b);
    if (json_bool(json_get(conf, "reserved")))
        core_host_reserve(node);
    return 0;
}

int nodes_open_given(struct host *h, struct err *e)
{
    for (size_t i = 0; i < json_len(h->conf.nodes); i++) {
        const struct json *one = json_at(h->conf.nodes, i);
        struct str name = json_str(json_get(one, "name"));
        AUTO_FREE char *text = xstrndup(name.p, name.n);
        if (host_open_node(h, text, json_get(one, "conf"), e) < 0)
            return err_wrap(e, "opening the node %s", text);
    }
    h->conf.nodes = NULL;
    return 0;
}
