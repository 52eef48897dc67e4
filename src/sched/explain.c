/* explain.c - why a job waits, found by asking the planner itself
 *
 * A pass is run as plan() would, then undone.  So "would start now" is said exactly of what plan()
 * would start.  For the others the room left after that pass tells what is lacking.
 */
#include "base/units.h"
#include "sched/plan_priv.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* The node that comes nearest: the fewest kinds lacking, then the smallest share of the node. */
static double distance(const struct node *n, const struct resources *lack)
{
    return (lack->slots > 0) + (lack->mcpu > 0) + (lack->mem_bytes > 0) + (lack->gpus > 0) +
           (double)lack->slots / (4.0 * MAX(n->slots, 1)) +
           (double)lack->mcpu / (4.0 * (double)MAX(n->mcpu, 1));
}

static struct gpu_set used_gpus(const struct node *n, const struct node_room *r)
{
    struct gpu_set used = node_gpus(n);

    gpu_set_subtract(&used, &r->gpus);
    return used;
}

static struct usage used_of(const struct pass *p, size_t k)
{
    const struct node *n = &p->s->nodes[k];
    const struct node_room *r = &p->nodes[k];

    return (struct usage){.slots = n->slots - r->room.slots,
                          .mcpu = n->mcpu - r->room.mcpu,
                          .mem_bytes = n->mem_bytes - r->room.mem_bytes,
                          .gpus = used_gpus(n, r)};
}

/* Among the nodes that are open, or those large enough, or all; false when there is none.  Of those
 * large enough, what is lacking now; else what is lacking for ever. */
static bool nearest(const struct pass *p, const struct shape *shape, bool open_only,
                    bool large_enough, struct wait_reason *w)
{
    static const struct usage nothing;
    const struct resources *need = &shape->need;
    double least = 0;
    bool found = false;

    for (size_t k = 0; k < p->s->n_nodes; k++) {
        const struct node *n = &p->s->nodes[k];
        struct usage used = large_enough ? used_of(p, k) : nothing;
        struct resources lack = resources_missing(n, &used, need);
        double d = distance(n, &lack);

        if ((open_only && !p->nodes[k].open) || (large_enough && !resources_ever_fit(n, need)) ||
            !n->slots || !shape_allows(p->s, shape, k))
            continue;
        if (!found || d < least) {
            found = true;
            least = d;
            w->missing = lack;
            w->used = used_of(p, k);
            w->node = (uint32_t)k;
        }
    }
    return found;
}

/* Of several things that are lacking, the one that is hardest to get is named. */
static enum wait_kind scarcest(const struct resources *lack)
{
    if (lack->gpus)
        return WAIT_GPUS;
    if (lack->mem_bytes)
        return WAIT_MEMORY;
    return lack->mcpu ? WAIT_CPUS : WAIT_SLOTS;
}

/* It fits somewhere, yet was not started: that room is kept for another. */
static bool reserved(const struct pass *p, const struct shape *shape, struct wait_reason *w)
{
    for (size_t k = 0; k < p->s->n_nodes; k++) {
        const struct node_room *n = &p->nodes[k];
        if (!n->open || !n->hold.it || !room_fits(n, &shape->need) || !shape_allows(p->s, shape, k))
            continue;
        w->kind = WAIT_RESERVED;
        w->node = (uint32_t)k;
        w->other = n->hold.it->job;
        w->until_ms = room_by(p, k, &n->hold.need);
        return true;
    }
    return false;
}

/* Would it fit on one that is away?  Nothing is known of the size of one never reached. */
static bool away(const struct pass *p, const struct shape *shape, struct wait_reason *w)
{
    for (size_t k = 0; k < p->s->n_nodes; k++) {
        const struct node *n = &p->s->nodes[k];
        if (!n->away || n->drained || (n->slots && !resources_ever_fit(n, &shape->need)) ||
            !shape_allows(p->s, shape, k))
            continue;
        w->kind = WAIT_NODE_AWAY;
        w->node = (uint32_t)k;
        w->until_ms = n->again_ms;
        return true;
    }
    return false;
}

/* It names nodes of which there is none, or none it could run on. */
static bool nowhere(const struct pass *p, const struct shape *shape)
{
    for (size_t k = 0; k < p->s->n_nodes; k++)
        if (p->s->nodes[k].slots && shape_allows(p->s, shape, k))
            return false;
    return shape->nodes.n > 0;
}

/* A node that the job may use, but its user may not. */
static bool no_account(const struct pass *p, const struct shape *shape, struct wait_reason *w)
{
    for (size_t k = 0; k < p->s->n_nodes; k++) {
        const struct node *n = &p->s->nodes[k];
        if (node_admits(n, shape->uid) || !shape_names(p->s, shape, k) ||
            (n->slots && !resources_ever_fit(n, &shape->need)))
            continue;
        w->kind = WAIT_NO_ACCOUNT;
        w->node = (uint32_t)k;
        return true;
    }
    return false;
}

static void lack_of_room(const struct pass *p, const struct shape *shape, struct wait_reason *w)
{
    w->node = UINT32_MAX;
    if (!nearest(p, shape, false, true, w)) {
        if (away(p, shape, w) || no_account(p, shape, w))
            return;
        w->kind = nowhere(p, shape) ? WAIT_NO_SUCH_NODE : WAIT_NEVER_FITS;
        w->nodes = shape->nodes;
        nearest(p, shape, false, false, w);
    } else if (!nearest(p, shape, true, true, w)) {
        if (!away(p, shape, w))
            w->kind = WAIT_NODE_DRAINED;
    } else if (!reserved(p, shape, w)) {
        w->kind = scarcest(&w->missing);
        w->until_ms = room_by(p, w->node, &shape->need);
    }
}

/* A strict queue with room for one more: does another come before it? */
static bool in_turn(const struct pass *p, const struct shape_slot *shape,
                    const struct wait_item *it, struct wait_reason *w)
{
    const struct wait_item *first;

    if (w->kind == WAIT_NEVER_FITS || w->kind == WAIT_NO_SUCH_NODE || w->kind == WAIT_NO_ACCOUNT ||
        !shape_strict(shape) || shape_refusal(shape))
        return false;
    first = queue_first(p->s->queue, shape->pub.queue);
    if (!first || first == it)
        return false;
    *w = (struct wait_reason){.kind = WAIT_TURN, .ahead = w->ahead, .other = first->job};
    return true;
}

static void explain_look(const struct pass *p, const struct wait_item *it, struct wait_reason *w)
{
    const struct shape_slot *shape = &p->s->queue->shapes.p[it->shape];

    for (size_t i = 0; i < p->starts.n; i++)
        if (p->starts.p[i].it == it)
            return;
    lack_of_room(p, &shape->pub, w);
    if (in_turn(p, shape, it, w))
        return;
    if (w->kind == WAIT_NEVER_FITS || w->kind == WAIT_NO_SUCH_NODE || w->kind == WAIT_NO_ACCOUNT ||
        w->kind == WAIT_NODE_DRAINED || w->kind == WAIT_NODE_AWAY || !shape_refusal(shape))
        return;
    *w =
        (struct wait_reason){.kind = WAIT_LIMIT, .ahead = w->ahead, .limit = *shape_refusal(shape)};
}

struct wait_reason plan_explain(const struct plan_input *s, struct wait_item *it)
{
    struct wait_reason w = {.kind = WAIT_NOTHING};
    struct pass p;

    if (!queue_contains(s->queue, it))
        return (struct wait_reason){.kind = WAIT_NOT_QUEUED};
    w.ahead = queue_ahead(s->queue, it);
    pass_run(&p, s, SIZE_MAX);
    explain_look(&p, it, &w);
    pass_undo(&p);
    pass_done(&p);
    return w;
}

/* ---- sentences ---- */

struct text {
    char *p;
    size_t n, used;
};

__attribute__((format(printf, 2, 3))) static void explain_add(struct text *t, const char *fmt, ...)
{
    va_list ap;
    int k;

    if (t->used >= t->n)
        return;
    va_start(ap, fmt);
    k = vsnprintf(t->p + t->used, t->n - t->used, fmt, ap);
    va_end(ap);
    t->used += k > 0 ? (size_t)k : 0;
}

static const char *cpus_text(int64_t mcpu, char out[UNIT_TEXT_MAX])
{
    if (mcpu % 1000)
        snprintf(out, UNIT_TEXT_MAX, "%.3g", (double)mcpu / 1000);
    else
        snprintf(out, UNIT_TEXT_MAX, "%" PRId64, mcpu / 1000);
    return out;
}

static const char *bytes_text(int64_t bytes, char out[UNIT_TEXT_MAX])
{
    size_format(bytes, out);
    return out;
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void add_lack(struct text *t, const struct wait_reason *w, const struct node *n)
{
    const struct usage *u = &w->used;
    const struct resources *lack = &w->missing;
    int32_t gpus = (int32_t)n->n_devices;
    char a[UNIT_TEXT_MAX], b[UNIT_TEXT_MAX], c[UNIT_TEXT_MAX];

    switch (w->kind) {
    case WAIT_GPUS:
        explain_add(t, "waits for %d more GPU%s on %s: %d of %d are in use", lack->gpus,
                    plural(lack->gpus), n->name, gpu_set_count(&u->gpus), gpus);
        return;
    case WAIT_MEMORY:
        explain_add(t, "waits for %s more memory on %s: %s of %s are taken",
                    bytes_text(lack->mem_bytes, a), n->name, bytes_text(u->mem_bytes, b),
                    bytes_text(n->mem_bytes, c));
        return;
    case WAIT_CPUS:
        explain_add(t, "waits for %s more CPU%s on %s: %s of %s are in use",
                    cpus_text(lack->mcpu, a), plural(lack->mcpu == 1000 ? 1 : 2), n->name,
                    cpus_text(u->mcpu, b), cpus_text(n->mcpu, c));
        return;
    default:
        explain_add(t, "waits for %d more slot%s on %s: %d of %d are in use", lack->slots,
                    plural(lack->slots), n->name, u->slots, n->slots);
    }
}

static void add_never(struct text *t, const struct wait_reason *w, const struct node *n)
{
    const struct resources *lack = &w->missing;
    int32_t gpus = (int32_t)n->n_devices;
    char a[UNIT_TEXT_MAX], b[UNIT_TEXT_MAX];

    if (lack->gpus && !gpus)
        explain_add(
            t,
            "asks for %d GPU%s but the nearest node, %s, has none: add a node with GPUs, or "
            "submit the job without GPUs",
            lack->gpus, plural(lack->gpus), n->name);
    else if (lack->gpus)
        explain_add(t,
                    "asks for %d GPU%s but the nearest node, %s, has %d: lower gpus or add a node",
                    gpus + lack->gpus, plural(gpus + lack->gpus), n->name, gpus);
    else if (lack->mem_bytes)
        explain_add(
            t, "asks for %s of memory but the nearest node, %s, has %s: lower mem or add a node",
            bytes_text(n->mem_bytes + lack->mem_bytes, a), n->name, bytes_text(n->mem_bytes, b));
    else if (lack->mcpu)
        explain_add(t,
                    "asks for %s CPUs but the nearest node, %s, has %s: lower cpus or add a node",
                    cpus_text(n->mcpu + lack->mcpu, a), n->name, cpus_text(n->mcpu, b));
    else
        explain_add(t,
                    "asks for %d slots but the nearest node, %s, has %d: lower slots or add a node",
                    n->slots + lack->slots, n->name, n->slots);
}

/* When room may come, and how many are served first. */
static void add_outlook(struct text *t, const struct wait_reason *w, const struct plan_input *s)
{
    char in[UNIT_TEXT_MAX];

    if (w->until_ms) {
        duration_format(MAX(w->until_ms - s->now_ms, 0), in);
        explain_add(t, "; runs that end within %s at the latest make room", in);
    }
    if (w->ahead)
        explain_add(t, "; %zu job%s before it", w->ahead, w->ahead == 1 ? " is" : "s are");
}

void wait_reason_text(const struct wait_reason *w, const struct plan_input *s, char *out, size_t n)
{
    static const struct node no_node = {.name = "any node"};
    bool known = w->node < s->n_nodes;
    const struct node *node = known ? &s->nodes[w->node] : &no_node;
    struct text t = {out, n, 0};
    char in[UNIT_TEXT_MAX];

    switch (w->kind) {
    case WAIT_NOTHING:
        explain_add(&t, "would start now");
        return;
    case WAIT_NOT_QUEUED:
        explain_add(&t, "is not waiting in the queue");
        return;
    case WAIT_DEPENDENCY:
        explain_add(&t, "waits for job %" PRIu64 " to succeed", w->other);
        return;
    case WAIT_BACKOFF:
        duration_format(MAX(w->until_ms - s->now_ms, 0), in);
        explain_add(&t, "failed; Berth retries it in %s", in);
        return;
    case WAIT_HELD:
        explain_add(&t, "starts after `berth release`");
        return;
    case WAIT_LIMIT:
        limit_text(&w->limit, w->user ? w->user : "", out, n);
        t.used = strlen(out);
        break;
    case WAIT_TURN:
        explain_add(&t, "jobs of its queue start in order, and job %" PRIu64 " comes first",
                    w->other);
        break;
    case WAIT_RESERVED:
        explain_add(&t,
                    "room on %s is reserved for job %" PRIu64
                    ", which comes first and has waited long; a shorter timeout could let this job "
                    "start earlier",
                    node->name, w->other);
        break;
    case WAIT_NODE_DRAINED:
        explain_add(&t, "%s is drained and starts nothing new: resume it, or add a node",
                    node->name);
        return;
    case WAIT_NODE_AWAY:
        explain_add(&t, "waits: node %s is away", node->name);
        if (node->trouble[0])
            explain_add(&t, " (%s)", node->trouble);
        if (w->until_ms > s->now_ms) {
            duration_format(w->until_ms - s->now_ms, in);
            explain_add(&t, ", next attempt in %s", in);
        }
        return;
    case WAIT_NO_SUCH_NODE:
        explain_add(&t,
                    "is restricted to node '%.*s', which does not exist; add the node or resubmit "
                    "without --node",
                    (int)MIN(w->nodes.n, (size_t)120), w->nodes.p);
        return;
    case WAIT_NO_ACCOUNT:
        explain_add(&t,
                    "node %s has no account for user %s; the owner can add one: remove the node, "
                    "then berth node add … --as %s=LOGIN",
                    node->name, w->user ? w->user : "", w->user ? w->user : "USER");
        return;
    case WAIT_NEVER_FITS:
        if (known)
            add_never(&t, w, node);
        else
            explain_add(&t, "there is no node to run on: add one");
        return;
    case WAIT_SLOTS:
    case WAIT_CPUS:
    case WAIT_MEMORY:
    case WAIT_GPUS:
        add_lack(&t, w, node);
        break;
    }
    add_outlook(&t, w, s);
}
