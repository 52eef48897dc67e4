/* containers.c - containers whose process was killed are ended and removed
 *
 * At the start of the daemon, and whenever a run was killed: the process of a container removes it
 * itself in every other case.  One look at a time; what happens meanwhile is looked at after it.
 * Where no engine is, nothing is done and nothing said: most homes never see a container.
 */
#include "host/containers.h"
#include "backend/container.h"
#include "base/file.h"
#include "base/log.h"
#include "base/vec.h"
#include "io/loop.h"

struct containers {
    struct loop *loop;
    char *engine, *shepherd_dir, *home_id;
    VEC(struct run_key) killed;
    /* busy: a search is on a worker thread.  again: another search was asked for meanwhile. */
    bool busy, again;
};
/* One search.  The worker thread owns it until look_done; `killed` is moved here from the list of
 * struct containers. */
struct look {
    struct containers *c;
    VEC(struct run_key) killed;
    size_t removed;
    struct err e;
};

struct containers *containers_new(struct loop *l, const char *engine, const char *home,
                                  const char *home_id)
{
    struct containers *c = xcalloc(1, sizeof(*c));

    c->loop = l;
    c->engine = xstrdup(engine);
    c->shepherd_dir = path_join(home, "shepherd");
    c->home_id = xstrdup(home_id);
    return c;
}

static void look_work(void *arg)
{
    struct look *k = arg;

    container_sweep(k->c->engine, k->c->home_id, k->c->shepherd_dir, k->killed.p, k->killed.n,
                    &k->removed, &k->e);
}

static void look_done(void *arg)
{
    struct look *k = arg;
    struct containers *c = k->c;

    if (k->removed)
        log_info("containers", "removed %zu container%s of ended runs", k->removed,
                 k->removed == 1 ? "" : "s");
    if (k->e.code && k->e.code != ERR_UNAVAILABLE)
        log_warn("containers", "cannot search for containers of ended runs: %s", k->e.text);
    vec_done(&k->killed);
    free(k);
    c->busy = false;
    if (c->again)
        containers_sweep(c);
}

/* Loop thread.  A search that is under way may have passed a container that was killed since, so
 * another one follows it. */
void containers_sweep(struct containers *c)
{
    struct look *k;

    c->again = c->busy;
    if (c->busy)
        return;
    c->busy = true;
    k = xcalloc(1, sizeof(*k));
    k->c = c;
    for (size_t i = 0; i < c->killed.n; i++)
        vec_push(&k->killed, c->killed.p[i]);
    vec_clear(&c->killed);
    work_submit(c->loop, look_work, look_done, k);
}

void containers_killed(struct containers *c, struct run_key key)
{
    vec_push(&c->killed, key);
    containers_sweep(c);
}

bool containers_busy(const struct containers *c)
{
    return c && c->busy;
}

void containers_free(struct containers *c)
{
    if (!c)
        return;
    vec_done(&c->killed);
    FREE_EACH(c->engine, c->shepherd_dir, c->home_id, c);
}
