/* job_ports.c - ports of the host that lead to jobs
 *
 * Owns: which port belongs to which job.
 *
 * A job without a container listens on this very host.  A pair of twice the same port needs no
 * forwarding, and the daemon must not listen there: such a pair is only kept in the list, so that
 * no second job gets the port.
 */
#include "base/log.h"
#include "base/util.h"
#include "base/vec.h"
#include "core/core.h"
#include "host/job_ports_priv.h"
#include "io/forward.h"
#include "io/loop.h"
#include <stdio.h>

enum { AGAIN_MS = 1000 };         /* a port that was lost is tried again after this */
#define CLAIM (UINT64_C(1) << 63) /* set in the number of a claim, never in that of a job */

static void job_ports_again(void *arg)
{
    job_ports_look(arg);
}

struct job_ports *job_ports_new(struct loop *l, struct core *c, struct store *st, const char *addr)
{
    struct job_ports *d = xcalloc(1, sizeof(*d));

    d->loop = l;
    d->core = c;
    d->store = st;
    snprintf(d->addr, sizeof(d->addr), "%s", addr);
    d->again = timer_new(l, job_ports_again, d);
    return d;
}

void job_ports_free(struct job_ports *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->all.n; i++)
        forward_free(d->all.p[i].way);
    vec_done(&d->all);
    timer_free(d->again);
    free(d);
}

static struct job_port *job_port_find(struct job_ports *d, int node_port)
{
    for (size_t i = 0; i < d->all.n; i++)
        if (d->all.p[i].port.node == node_port)
            return &d->all.p[i];
    return NULL;
}

/* Holds the port at once, so that no other program can take the port while the job waits. */
static int job_port_claim(struct job_ports *d, struct port_pair p, uint64_t claim, struct err *e)
{
    struct job_port x = {.job = claim, .port = p};

    if (job_port_find(d, p.node))
        return err_set(e, ERR_CONFLICT,
                       "nodePort %d: another job uses this port until that job ends", p.node);
    if (p.node != p.container && forward_hold(&x.way, d->loop, d->addr, p.node, e) < 0)
        return err_wrap(e, "nodePort %d", p.node);
    vec_push(&d->all, x);
    return 0;
}

/* All ports or none.  A claim has a number of its own until the job has one (job_ports_assign). */
int job_ports_claim(struct job_ports *d, const struct port_pair *p, size_t n, uint64_t *out_claim,
                    struct err *e)
{
    uint64_t claim = CLAIM | ++d->claims;

    for (size_t i = 0; i < n; i++)
        if (job_port_claim(d, p[i], claim, e) < 0) {
            job_ports_drop(d, claim);
            return -1;
        }
    *out_claim = claim;
    return 0;
}

void job_ports_assign(struct job_ports *d, uint64_t claim, uint64_t job)
{
    for (size_t i = 0; i < d->all.n; i++)
        if (d->all.p[i].job == claim)
            d->all.p[i].job = job;
}

void job_ports_drop(struct job_ports *d, uint64_t job)
{
    for (size_t i = 0; i < d->all.n;)
        if (d->all.p[i].job == job) {
            forward_free(d->all.p[i].way);
            vec_remove(&d->all, i);
        } else {
            i++;
        }
}

/* Tells of a loss once, not every second. */
static void job_port_lost(struct job_port *x, const struct err *e)
{
    if (!x->lost)
        log_warn("ports", "job %llu: %s; Berth keeps retrying while the job runs",
                 (unsigned long long)x->job, e->text);
    x->lost = true;
}

/* A failure is retried by the timer, because another program may give the port up. */
static void job_port_open(struct job_ports *d, struct job_port *x)
{
    struct err e = {0};

    if (x->open || x->port.node == x->port.container)
        return;
    if ((x->way || forward_hold(&x->way, d->loop, d->addr, x->port.node, &e) == 0) &&
        forward_open(x->way, x->port.container, &e) == 0) {
        x->open = true;
        x->lost = false;
        return;
    }
    job_port_lost(x, &e);
    timer_start(d->again, AGAIN_MS, 0);
}

/* The job has no run now: the port stays held, so that the next run finds it free. */
static void job_port_shut(struct job_port *x)
{
    struct err e = {0};

    if (!x->open)
        return;
    x->open = false;
    if (forward_shut(x->way, &e) < 0)
        job_port_lost(x, &e);
}

void job_ports_start(struct job_ports *d, struct run_key key, const struct port_pair *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct job_port *x = job_port_find(d, p[i].node);
        if (!x) {
            vec_push(&d->all, ((struct job_port){.job = key.job, .port = p[i]}));
            x = &vec_last(&d->all);
        }
        if (x->job == key.job)
            job_port_open(d, x);
        else
            log_warn("ports", "job %llu cannot use port %d: job %llu uses it",
                     (unsigned long long)key.job, p[i].node, (unsigned long long)x->job);
    }
}

void job_ports_start_texts(struct job_ports *d, struct run_key key, char *const *ports)
{
    struct port_pair pair;

    for (; ports && *ports; ports++)
        if (port_pair_parse(str_of(*ports), &pair))
            job_ports_start(d, key, &pair, 1);
}

void job_ports_look(struct job_ports *d)
{
    for (size_t i = 0; i < d->all.n;) {
        struct job_port *x = &d->all.p[i];
        struct run_key run = {0};
        /* The core does not know a claim, and would call its job ended. */
        if (x->job & CLAIM) {
            i++;
            continue;
        }
        if (!core_job_active(d->core, x->job, &run)) {
            forward_free(x->way);
            vec_remove(&d->all, i);
            continue;
        }
        if (run.run)
            job_port_open(d, x);
        else
            job_port_shut(x);
        i++;
    }
}

size_t job_ports_count(const struct job_ports *d)
{
    return d->all.n;
}

bool port_pair_parse(struct str text, struct port_pair *out)
{
    struct str to, node = str_cut(text, ':', &to);
    int64_t a, b;

    if (!str_to_i64(node, &a) || !str_to_i64(to, &b) || a < 1 || b < 1 || a > 65535 || b > 65535)
        return false;
    *out = (struct port_pair){(int)a, (int)b};
    return true;
}
