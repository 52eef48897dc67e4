/* node_table.c - the nodes: who speaks to each, and whether something may start there
 *
 * Owns: struct core_host, the list of nodes the planners see, and its meaning: `away` there is
 * everything that keeps a node from taking a run now, except that it was drained by hand.
 *
 * A node keeps its place in the list for life; one that was removed leaves it to the next that
 * comes.  A node of which only runs are recorded gets a place too: they stay unresolved until
 * somebody speaks to it, or it is removed and they count as lost.
 */
#include "base/arena.h"
#include "core/core_priv.h"
#include <stdio.h>

enum { SUGGESTIONS = 256, ASIDE_MS = 2000, ASIDE_MAX_MS = 300 * 1000 };

/* ---- finding ---- */

struct core_host *host_find(const struct core *c, struct str name)
{
    for (size_t i = 0; i < c->cluster.hosts.n; i++)
        if (c->cluster.hosts.p[i] && str_eq_c(name, c->cluster.nodes.p[i].name))
            return c->cluster.hosts.p[i];
    return NULL;
}

struct core_host *host_by_serial(const struct core *c, uint64_t serial)
{
    for (size_t i = 0; i < c->cluster.hosts.n; i++)
        if (c->cluster.hosts.p[i] && c->cluster.hosts.p[i]->serial == serial)
            return c->cluster.hosts.p[i];
    return NULL;
}

int core_node_unknown(const struct core *c, struct str name, struct err *e)
{
    AUTO_FREE char *word = xstrndup(name.p, MIN(name.n, (size_t)60));
    const char *known[SUGGESTIONS];
    size_t n = 0;

    for (size_t i = 0; i < c->cluster.hosts.n && n < SUGGESTIONS; i++)
        if (c->cluster.hosts.p[i])
            known[n++] = c->cluster.nodes.p[i].name;
    const char *near = n == 1 ? known[0] : str_nearest(word, known, n);
    if (near)
        return err_set(e, ERR_NOT_FOUND, "there is no node '%s'; did you mean '%s'?", word, near);
    return err_set(e, ERR_NOT_FOUND, "there is no node '%s'; `berth nodes` lists them", word);
}

/* ---- made and forgotten ---- */

/* The place of a removed node, else a new one at the end of all three vectors. */
static uint32_t free_place(struct core *c)
{
    for (size_t i = 0; i < c->cluster.hosts.n; i++)
        if (!c->cluster.hosts.p[i])
            return (uint32_t)i;
    vec_push(&c->cluster.hosts, NULL);
    vec_push(&c->cluster.nodes, (struct node){0});
    vec_push(&c->cluster.usage, (struct usage){0});
    return (uint32_t)c->cluster.hosts.n - 1;
}

struct core_host *core_host_new(struct core *c, const char *name)
{
    struct core_host *h = name ? host_find(c, str_of(name)) : NULL;

    if (h) {
        ASSERT(!h->cls);
        return h;
    }
    h = xcalloc(1, sizeof(*h));
    h->core = c;
    h->ours = !name;
    h->serial = ++c->cluster.serial;
    h->at = free_place(c);
    jobs_take_in(c, h->at);
    c->cluster.hosts.p[h->at] = h;
    *host_usage(h) = (struct usage){0};
    *host_node(h) = (struct node){0};
    snprintf(host_node(h)->name, sizeof(host_node(h)->name), "%s", name ? name : "");
    host_refresh(h);
    return h;
}

static void host_free(struct core_host *h)
{
    free(h->conf);
    vec_done(&h->beliefs);
    vec_done(&h->devices);
    free(h);
}

/* Closes only a backend that the core owns; the owner of any other closes it. */
static void close_backend(struct core_host *h)
{
    if (h->opened && h->cls)
        h->cls->close(h->backend);
    h->cls = NULL;
    h->backend = NULL;
    h->opened = false;
}

void core_close_nodes(struct core *c)
{
    for (size_t i = 0; i < c->cluster.hosts.n; i++)
        if (c->cluster.hosts.p[i] && c->cluster.hosts.p[i]->opened)
            close_backend(c->cluster.hosts.p[i]);
}

void hosts_free(struct core *c)
{
    core_close_nodes(c);
    for (size_t i = 0; i < c->cluster.hosts.n; i++)
        if (c->cluster.hosts.p[i])
            host_free(c->cluster.hosts.p[i]);
    free(c->cluster.our_name);
    vec_done(&c->cluster.hosts);
    vec_done(&c->cluster.nodes);
    vec_done(&c->cluster.usage);
}

/* Runs of a node that is gone end as lost.  Their end steps are not waited for, because a run must
 * not outlive its host. */
static void give_up_runs(struct core_host *h)
{
    const struct run_outcome lost = {.why = RUN_END_NODE_LOST, .ended_ms = core_wall(h->core)};
    VEC(struct run *) runs = {0};
    struct job *j;

    for (size_t it = 0; (j = map_u64_each(&h->core->jobs.by_number, &it));) {
        if (j->run && j->run->host == h)
            vec_push(&runs, j->run);
    }
    for (size_t i = 0; i < runs.n; i++) {
        runs.p[i]->end_step = false;
        if (runs.p[i]->ending)
            run_end_step_abandon(h->core, runs.p[i], "its node was removed", false);
        else
            run_end(h->core, runs.p[i], &lost, STR("its node was removed"));
    }
    vec_done(&runs);
}

void core_host_remove(struct core_host *h)
{
    struct core *c = h->core;

    close_backend(h);
    h->drained = true; /* those in a chain must not take the places of others now */
    host_refresh(h);
    give_up_runs(h);
    vec_clear(&h->devices);
    train_node(h);
    *host_node(h) = (struct node){.drained = true};
    c->cluster.hosts.p[h->at] = NULL;
    c->dirty = true;
    host_free(h);
}

/* ---- what is known of it ---- */

/* Away with a reason: nothing starts there, and people are told why. */
static void say_trouble(struct node *n, const char *why)
{
    n->away = true;
    snprintf(n->trouble, sizeof(n->trouble), "%s", why);
}

struct str host_our_name(struct core *c)
{
    for (size_t i = 0; !c->cluster.our_name && i < c->cluster.hosts.n; i++)
        if (c->cluster.hosts.p[i] && c->cluster.hosts.p[i]->ours)
            c->cluster.our_name = xstrdup(c->cluster.nodes.p[i].name);
    return str_of(c->cluster.our_name);
}

bool host_being_asked(const struct core_host *h)
{
    return h->unresolved && h->cls && !h->drained && !h->aside_until_ms &&
           !h->cls->node(h->backend)->away;
}

void host_refresh(struct core_host *h)
{
    struct node *n = host_node(h), was = *n;
    char text[sizeof(n->trouble)];

    if (h->cls) {
        *n = *h->cls->node(h->backend); /* devices stay the backend's */
        n->users = h->cls->users ? h->cls->users(h->backend) : NULL;
    } else {
        n->devices = NULL;
        n->n_devices = 0;
        n->users = NULL;
        say_trouble(n, h->aside_why[0] ? h->aside_why : "no connection to it is open");
    }
    /* The name under which the node was recorded stays, whatever the backend calls it. */
    if (was.name[0])
        memcpy(n->name, was.name, sizeof(n->name));
    n->drained = h->drained;
    n->reserved = h->reserved;
    if (!n->away && h->aside_until_ms) {
        snprintf(text, sizeof(text), "not used for now: %.140s", h->aside_why);
        say_trouble(n, text);
        n->again_ms = h->aside_until_ms;
    } else if (!n->away && h->unresolved) {
        snprintf(text, sizeof(text), "%zu run%s from before the restart not accounted for yet",
                 h->unresolved, h->unresolved == 1 ? " is" : "s are");
        say_trouble(n, text);
    }
    h->core->dirty = true;
    if (was.away != n->away || was.drained != n->drained || was.reserved != n->reserved)
        train_node(h);
}

void core_attach(struct core_host *h, const struct backend_class *cls, struct backend *b)
{
    h->cls = cls;
    h->backend = b;
    host_refresh(h);
    train_attached(h);
    if (h->core->recovered)
        host_adopt(h);
}

void host_open_backend(struct core_host *h)
{
    const struct core_conf *conf = &h->core->conf;
    const struct backend_class *cls = NULL;
    struct backend *b = NULL;
    AUTO(json) struct json *j = NULL;
    struct err e = {0};

    if (h->cls || !h->conf)
        return;
    if (!conf->ops->open_node)
        err_set(&e, ERR_UNAVAILABLE, "nodes cannot be reached from here");
    else if (json_parse(str_of(h->conf), "node", &j, &e) == 0 &&
             conf->ops->open_node(conf->self, h, j, &cls, &b, &e) < 0)
        b = NULL;
    h->reserved = json_bool(json_get(j, "reserved"));
    if (b) {
        core_attach_owned(h, cls, b);
        return;
    }
    snprintf(h->aside_why, sizeof(h->aside_why), "%.159s", e.text);
    host_refresh(h);
}

void host_put_aside(struct core_host *h, struct str why)
{
    h->aside_ms = h->aside_ms ? MIN(2 * h->aside_ms, (int64_t)ASIDE_MAX_MS) : ASIDE_MS;
    h->aside_until_ms = core_mono(h->core) + h->aside_ms;
    snprintf(h->aside_why, sizeof(h->aside_why), STR_FMT, STR_ARG(why));
    host_refresh(h);
}

void host_went_well(struct core_host *h)
{
    h->aside_ms = 0;
    if (!h->aside_until_ms)
        return;
    h->aside_until_ms = 0;
    host_refresh(h);
}

/* aside_ms stays: the next refusal puts the host aside for twice as long. */
void hosts_due(struct core *c)
{
    int64_t now = core_mono(c);

    for (size_t i = 0; i < c->cluster.hosts.n; i++) {
        struct core_host *h = c->cluster.hosts.p[i];
        if (!h || !h->aside_until_ms || h->aside_until_ms > now)
            continue;
        h->aside_until_ms = 0;
        host_refresh(h);
    }
}

int64_t hosts_next_wake(const struct core *c)
{
    int64_t at = -1;

    for (size_t i = 0; i < c->cluster.hosts.n; i++) {
        const struct core_host *h = c->cluster.hosts.p[i];
        if (h && h->aside_until_ms && (at < 0 || h->aside_until_ms < at))
            at = h->aside_until_ms;
    }
    return at;
}

void core_attach_owned(struct core_host *h, const struct backend_class *cls, struct backend *b)
{
    h->opened = true;
    core_attach(h, cls, b);
}

void host_resolved_one(struct core_host *h)
{
    ASSERT(h->unresolved);
    if (!--h->unresolved)
        host_refresh(h);
}

/* Where a node without our files goes on with its copies. */
static void name_files(const struct core *c, struct run_belief *r, struct arena *a)
{
    AUTO_FREE char *log = core_log_path(c, r->key), *errs = core_err_path(c, r->key),
                   *dir = core_run_dir(c, r->key);

    r->log_path = arena_strdup(a, log);
    r->err_path = arena_strdup(a, errs);
    r->run_dir = arena_strdup(a, dir);
}

void host_adopt(struct core_host *h)
{
    if (!h->cls)
        return;
    struct arena names = {0};
    for (size_t i = 0; i < h->beliefs.n; i++)
        name_files(h->core, &h->beliefs.p[i], &names);
    h->cls->adopt(h->backend, h->beliefs.p, h->beliefs.n);
    /* Starts sent ahead before the restart: behind which run they wait is not known any more. */
    for (size_t i = 0; i < h->beliefs.n; i++) {
        const struct job *j = core_job(h->core, h->beliefs.p[i].key.job);
        if (j && j->hold == HOLD_AHEAD)
            ahead_withdraw(j->run);
    }
    vec_clear(&h->beliefs);
    arena_done(&names);
}

/* ---- questions ---- */

size_t core_node_count(const struct core *c)
{
    return c->cluster.nodes.n;
}

const struct node *core_node(const struct core *c, size_t at)
{
    return at < c->cluster.hosts.n && c->cluster.hosts.p[at] ? &c->cluster.nodes.p[at] : NULL;
}

const struct node *core_node_find(const struct core *c, struct str name, size_t *out_at)
{
    const struct core_host *h = host_find(c, name);

    if (h && out_at)
        *out_at = h->at;
    return h ? host_node(h) : NULL;
}

const struct usage *core_usage(const struct core *c, size_t at)
{
    ASSERT(at < c->cluster.usage.n);
    return &c->cluster.usage.p[at];
}
