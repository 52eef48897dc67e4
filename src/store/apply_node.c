/* apply_node.c - nodes: added, drained, removed
 *
 * Owns: the table of nodes.  A row without conf is this machine, under the name it has or had; the
 * others say how they are reached.
 */
#include "base/json.h"
#include "store/apply_priv.h"

/* Its url stands in what is said of it. */
static struct str url_of(const struct json *conf)
{
    const struct json *url = json_get(conf, "url");

    return json_type(url) == JSON_STR ? json_str(url) : STR("");
}

static int node_event(struct applier *a, const struct change *c, enum event_kind kind,
                      struct str name, struct err *e)
{
    data_begin(a, c->user);
    data_str(a, "node", name);
    return event_append(a, kind, c->at_ms, 0, 0, e);
}

int apply_node_new(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_node_new *n = &c->node_new;
    struct json *conf = NULL;
    int rc = -1;

    if (json_parse(n->conf, "node", &conf, e) == 0)
        rc = db_run(a->db, e,
                    "INSERT INTO node(name, drained, url, conf) VALUES(?1, ?2, ?3, ?4)"
                    " ON CONFLICT(name) DO UPDATE SET drained = ?2, url = ?3, conf = ?4",
                    TEXT(n->name), INT(n->drained), TEXT_OR_NULL(url_of(conf)), TEXT(n->conf));
    json_free(conf);
    return rc < 0 ? -1 : node_event(a, c, EVENT_NODE_ADDED, n->name, e);
}

int apply_node_drain(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_node_drain *n = &c->node_drain;

    if (db_run(a->db, e,
               "INSERT INTO node(name, drained) VALUES(?1, ?2)"
               " ON CONFLICT(name) DO UPDATE SET drained = ?2",
               TEXT(n->name), INT(n->drained)) < 0)
        return -1;
    /* That this machine has a name was asked by nobody: no event. */
    if (!n->drained && !c->user.n)
        return 0;
    return node_event(a, c, n->drained ? EVENT_NODE_DRAINED : EVENT_NODE_RESUMED, n->name, e);
}

int apply_node_gone(struct applier *a, const struct change *c, struct err *e)
{
    if (db_run(a->db, e, "DELETE FROM node WHERE name = ?1", TEXT(c->node_gone.name)) < 0)
        return -1;
    return node_event(a, c, EVENT_NODE_REMOVED, c->node_gone.name, e);
}
