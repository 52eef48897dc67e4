/* train_port.c - the ports by which the processes of a run find each other
 *
 * Owns: which ports of the range are given out.  A run has its ports until it ends, also across a
 * restart of the daemon: its record names them.
 *
 * The ports of a run follow one another: one for a run of one process, one for each process of a
 * run with one process per GPU, since TensorFlow has every worker listen on a port of its own.
 * torch.distributed needs the first one only.
 */
#include "core/train_priv.h"

enum { PORT_FIRST = 23000, PORT_LAST = 26999 };

static bool port_usable(const struct core *c, int port)
{
    return !map_u64_get(&c->gpu.ports, (uint64_t)port) &&
           (!c->conf.ops->port_free || c->conf.ops->port_free(c->conf.self, port));
}

/* How many of the ports from `first` on are usable, at most n. */
static int ports_usable(const struct core *c, int first, int n)
{
    int k = 0;

    while (k < n && port_usable(c, first + k))
        k++;
    return k;
}

/* A set: the values mean nothing. */
static void ports_mark(struct core *c, const struct train *t)
{
    for (int k = 0; k < t->n_ports; k++)
        map_u64_put(&c->gpu.ports, (uint64_t)t->port + (uint64_t)k, c);
}

/* A job of Berth itself that uses no GPUs needs none; what a dialect tells its jobs has one. */
static int ports_wanted(const struct train_spec *s, const struct run *r)
{
    if (!s->gpus && !s->dialect)
        return 0;
    return s->per_gpu ? gpu_set_count(&r->gpus) : 1;
}

void train_ports_take(struct core *c, struct train *t, const struct run *r)
{
    bool said = c->conf.gpu.master_port_first > 0;
    int first = said ? c->conf.gpu.master_port_first : PORT_FIRST;
    int last = said ? c->conf.gpu.master_port_last : PORT_LAST;
    int want = ports_wanted(t->spec, r), places = last - first + 1 - want + 1;

    train_ports_release(c, t);
    for (int i = 0; want && i < places; i++) {
        int port = first + (int)((t->job * 7 + t->run + (uint64_t)i) % (uint64_t)places);
        if (ports_usable(c, port, want) < want)
            continue;
        t->port = port;
        t->n_ports = want;
        ports_mark(c, t);
        return;
    }
}

void train_ports_release(struct core *c, struct train *t)
{
    for (int k = 0; k < t->n_ports; k++)
        map_u64_del(&c->gpu.ports, (uint64_t)t->port + (uint64_t)k);
    t->port = t->n_ports = 0;
}

void train_ports_restore(struct core *c, struct train *t)
{
    ports_mark(c, t);
}
