/* node_act.c - what people ask of nodes: add, remove, drain
 *
 * A node that is added is opened before anybody is told, so that a mistake in its address is the
 * answer; whether it can be reached shows later and is no reason to forget it.  One that is removed
 * with runs on it was given up by somebody: they are told to stop, if that still reaches them, and
 * count as lost.
 */
#include "core/core_priv.h"
#include <stdio.h>

enum { CONF_MAX = 16 << 10 };

/* ---- add ---- */

/* Names of nodes appear in lists, patterns and commands, so commas, spaces, wildcards and a leading
 * dash are refused. */
static bool node_name_ok(struct str name)
{
    if (!name.n || name.n >= sizeof(((struct node *)0)->name) || name.p[0] == '-')
        return false;
    for (size_t i = 0; i < name.n; i++) {
        char ch = name.p[i];
        if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
              (ch && strchr("._-@:", ch))))
            return false;
    }
    return true;
}

static int check_add(const struct core *c, struct str name, const char *conf, struct err *e)
{
    const struct core_host *h = host_find(c, name);

    if (!c->conf.ops->open_node)
        return err_set(e, ERR_UNAVAILABLE, "nodes cannot be added here");
    if (!node_name_ok(name))
        return err_set(e, ERR_INVALID,
                       "'%.*s' cannot be the name of a node; use up to 63 letters, digits and ._-",
                       (int)MIN(name.n, (size_t)60), name.p);
    if (str_eq_c(name, OUTSIDE_NODE))
        return err_set(e, ERR_INVALID,
                       "'%s' stands for processes that berth has not started and cannot be the "
                       "name of a node; choose another",
                       OUTSIDE_NODE);
    if (strlen(conf) > CONF_MAX)
        return err_set(e, ERR_LIMIT, "the settings of the node are larger than %d KiB",
                       CONF_MAX >> 10);
    if (h && (h->cls || h->conf))
        return err_set(e, ERR_CONFLICT,
                       "there is a node '%s' already; remove it first, or choose another name",
                       host_node(h)->name);
    return 0;
}

/* A node that is known from its runs only is taken over with them. */
static int open_new(struct core *c, struct str name, const char *conf, struct core_host **out,
                    struct err *e)
{
    AUTO_FREE char *text = xstrndup(name.p, name.n);
    bool known = host_find(c, name) != NULL;
    struct core_host *h = core_host_new(c, text);

    h->conf = xstrdup(conf);
    host_open_backend(h);
    if (h->cls) {
        *out = h;
        return 0;
    }
    err_set(e, ERR_INVALID, "%s", h->aside_why);
    free(h->conf);
    h->conf = NULL;
    if (!known)
        core_host_remove(h);
    return -1;
}

/* One that is not is known as long as this process lives, or until it is removed. */
static bool recorded(const struct json *conf)
{
    const struct json *v = json_get(conf, "recorded");

    return !v || json_bool(v);
}

void core_node_add(struct core *c, struct str name, const struct json *conf,
                   const struct caller *who, core_act_fn done, void *arg)
{
    AUTO(json) struct json *said = json_copy(conf);
    struct core_host *h;
    struct err e = {0};

    json_set_take(said, "name", json_new_str(name));
    AUTO_FREE char *text = json_text(said);
    if (admin_only(who, "add a node", &e) < 0 || check_add(c, name, text, &e) < 0 ||
        open_new(c, name, text, &h, &e) < 0) {
        done(arg, &e, NULL);
        return;
    }
    if (!recorded(conf)) {
        done(arg, NULL, NULL);
        return;
    }
    set_and_answer(
        c,
        &(struct change){CHANGE_BY(c, who, CHANGE_NODE_NEW),
                         .node_new = {.name = name, .conf = str_of(text), .drained = h->drained}},
        done, arg);
}

/* ---- remove ---- */

/* Counts the runs on the host; with `really` they are told to stop as well. */
static size_t stop_runs(struct core_host *h, bool really)
{
    struct job *j;
    size_t n = 0;

    for (size_t it = 0; (j = map_u64_each(&h->core->jobs.by_number, &it));) {
        struct run *r = j->run;
        if (!r || r->host != h)
            continue;
        n++;
        if (really)
            run_stop(h->core, r);
    }
    return n;
}

static int check_remove(const struct core *c, struct core_host *h, struct str name, bool force,
                        struct err *e)
{
    size_t runs;

    if (!h)
        return core_node_unknown(c, name, e);
    if (h->ours)
        return err_set(e, ERR_CONFLICT,
                       "%s is this machine and cannot be removed; drain it to keep jobs away",
                       host_node(h)->name);
    runs = stop_runs(h, false);
    if (runs && !force)
        return err_set(
            e, ERR_CONFLICT,
            "%s has %zu run%s; drain it and wait for them, or remove it with force: they "
            "are told to stop and count as lost",
            host_node(h)->name, runs, runs == 1 ? "" : "s");
    return 0;
}

void core_node_remove(struct core *c, struct str name, bool force, const struct caller *who,
                      core_act_fn done, void *arg)
{
    struct core_host *h = host_find(c, name);
    struct err e = {0};

    if (admin_only(who, "remove a node", &e) < 0 || check_remove(c, h, name, force, &e) < 0) {
        done(arg, &e, NULL);
        return;
    }
    stop_runs(h, true);
    core_host_remove(h);
    set_and_answer(
        c, &(struct change){CHANGE_BY(c, who, CHANGE_NODE_GONE), .node_gone = {.name = name}}, done,
        arg);
}

/* ---- drain ---- */

void core_drain(struct core *c, struct str node, bool drained, const struct caller *who,
                core_act_fn done, void *arg)
{
    struct core_host *h = host_find(c, node);
    struct err e = {0};

    if (admin_only(who, drained ? "drain a node" : "put a node back to work", &e) < 0 ||
        (!h && core_node_unknown(c, node, &e) < 0)) {
        done(arg, &e, NULL);
        return;
    }
    h->drained = drained;
    host_refresh(h);
    set_and_answer(c,
                   &(struct change){CHANGE_BY(c, who, CHANGE_NODE_DRAIN),
                                    .node_drain = {.name = node, .drained = drained}},
                   done, arg);
}

const char *core_node_conf(const struct core *c, size_t at)
{
    return at < c->cluster.hosts.n && c->cluster.hosts.p[at] ? c->cluster.hosts.p[at]->conf : NULL;
}
