/* doors.c - ports of the host that lead to jobs
 *
 * Owns: which port belongs to which job.
 *
 * Without containers a job listens on this very host.  A mapping of a port to itself needs no
 * forwarding, and we must keep off it: it is only kept in the list, so that no second job asks for
 * it.
 */
#include "dialect/gpu/doors.h"
#include "base/log.h"
#include "base/util.h"
#include "base/vec.h"
#include "core/core.h"
#include "io/forward.h"
#include "io/loop.h"
#include <stdio.h>

enum { AGAIN_MS = 1000 }; /* a port that was lost is tried again after this */
#define CLAIM (UINT64_C(1) << 63)

struct door {
    uint64_t job; /* or a claim */
    struct gpu_port port;
    struct forward *way; /* NULL: to itself, or lost */
    bool open, lost;
};
struct doors {
    struct loop *loop;
    struct core *core;
    char addr[64];
    VEC(struct door) all;
    uint64_t claims;
    struct timer *again;
};

static void on_again(void *arg)
{
    doors_look(arg);
}

struct doors *doors_new(struct loop *l, struct core *c, const char *addr)
{
    struct doors *d = xcalloc(1, sizeof(*d));

    d->loop = l;
    d->core = c;
    snprintf(d->addr, sizeof(d->addr), "%s", addr);
    d->again = timer_new(l, on_again, d);
    return d;
}

void doors_free(struct doors *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->all.n; i++)
        forward_free(d->all.p[i].way);
    vec_done(&d->all);
    timer_free(d->again);
    free(d);
}

static struct door *find(struct doors *d, int node_port)
{
    for (size_t i = 0; i < d->all.n; i++)
        if (d->all.p[i].port.node == node_port)
            return &d->all.p[i];
    return NULL;
}

static int claim_one(struct doors *d, struct gpu_port p, uint64_t claim, struct err *e)
{
    struct door door = {.job = claim, .port = p};

    if (find(d, p.node))
        return err_set(e, ERR_CONFLICT, "nodePort %d: another job has it until it ends", p.node);
    if (p.node != p.container && forward_hold(&door.way, d->loop, d->addr, p.node, e) < 0)
        return err_wrap(e, "nodePort %d", p.node);
    vec_push(&d->all, door);
    return 0;
}

int doors_claim(struct doors *d, const struct gpu_port *p, size_t n, uint64_t *out_claim,
                struct err *e)
{
    uint64_t claim = CLAIM | ++d->claims;

    for (size_t i = 0; i < n; i++)
        if (claim_one(d, p[i], claim, e) < 0) {
            doors_drop(d, claim);
            return -1;
        }
    *out_claim = claim;
    return 0;
}

void doors_assign(struct doors *d, uint64_t claim, uint64_t job)
{
    for (size_t i = 0; i < d->all.n; i++)
        if (d->all.p[i].job == claim)
            d->all.p[i].job = job;
}

void doors_drop(struct doors *d, uint64_t job)
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
static void lost(struct door *x, const struct err *e)
{
    if (!x->lost)
        log_warn("ports", "job %llu: %s; tried again while it runs", (unsigned long long)x->job,
                 e->text);
    x->lost = true;
}

static void door_open(struct doors *d, struct door *x)
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
    lost(x, &e);
    timer_start(d->again, AGAIN_MS, 0);
}

static void door_shut(struct door *x)
{
    struct err e = {0};

    if (!x->open)
        return;
    x->open = false;
    if (forward_shut(x->way, &e) < 0)
        lost(x, &e);
}

void doors_start(struct doors *d, struct run_key key, const struct gpu_port *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct door *x = find(d, p[i].node);
        if (!x) {
            vec_push(&d->all, ((struct door){.job = key.job, .port = p[i]}));
            x = &vec_last(&d->all);
        }
        if (x->job == key.job)
            door_open(d, x);
        else
            log_warn("ports", "job %llu cannot have port %d: job %llu has it",
                     (unsigned long long)key.job, p[i].node, (unsigned long long)x->job);
    }
}

void doors_look(struct doors *d)
{
    for (size_t i = 0; i < d->all.n;) {
        struct door *x = &d->all.p[i];
        struct run_key run = {0};
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
            door_open(d, x);
        else
            door_shut(x);
        i++;
    }
}

size_t doors_count(const struct doors *d)
{
    return d->all.n;
}

bool port_pair_parse(struct str text, struct gpu_port *out)
{
    struct str to, node = str_cut(text, ':', &to);
    int64_t a, b;

    if (!str_to_i64(node, &a) || !str_to_i64(to, &b) || a < 1 || b < 1 || a > 65535 || b > 65535)
        return false;
    *out = (struct gpu_port){(int)a, (int)b};
    return true;
}
