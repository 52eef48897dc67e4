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

static int add_node(struct applier *a, const struct change *c, struct err *e)
{
    sqlite3_stmt *st =
        db_prepare(a->db,
                   "INSERT INTO node(name, drained, url, conf) VALUES(?1, ?2, ?3, ?4)"
                   " ON CONFLICT(name) DO UPDATE SET drained = ?2, url = ?3, conf = ?4",
                   e);
    struct json *conf = NULL;
    int rc = -1;

    if (st && json_parse(c->text, "node", &conf, e) == 0) {
        bind_str(st, 1, c->name);
        sqlite3_bind_int(st, 2, c->flag);
        bind_str_or_null(st, 3, url_of(conf));
        bind_str(st, 4, c->text);
        rc = db_run(a->db, st, e);
    }
    json_free(conf);
    return rc;
}

static int set_node(struct applier *a, const struct change *c, struct err *e)
{
    bool gone = c->kind == CHANGE_NODE_GONE;
    sqlite3_stmt *st = db_prepare(a->db,
                                  gone ? "DELETE FROM node WHERE name = ?1"
                                       : "INSERT INTO node(name, drained) VALUES(?1, ?2)"
                                         " ON CONFLICT(name) DO UPDATE SET drained = ?2",
                                  e);
    if (!st)
        return -1;
    bind_str(st, 1, c->name);
    if (!gone)
        sqlite3_bind_int(st, 2, c->flag);
    return db_run(a->db, st, e);
}

/* What nobody asked for, as that this machine has a name, is no event. */
int apply_node(struct applier *a, const struct change *c, struct err *e)
{
    enum event_kind kind = c->kind == CHANGE_NODE_GONE ? EVENT_NODE_REMOVED
                           : c->text.n                 ? EVENT_NODE_ADDED
                           : c->flag                   ? EVENT_NODE_DRAINED
                                                       : EVENT_NODE_RESUMED;

    if ((kind == EVENT_NODE_ADDED ? add_node(a, c, e) : set_node(a, c, e)) < 0)
        return -1;
    if (kind == EVENT_NODE_RESUMED && !c->user.n)
        return 0;
    data_begin(a, c->user);
    data_str(a, "node", c->name);
    return event_append(a, kind, c->at_ms, 0, 0, e);
}
