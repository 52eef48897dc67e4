/* prop_sched.c - what must hold of every plan, in random worlds
 *
 * A world of up to four nodes lives through a random history: jobs come, are cancelled, start, end;
 * queues are paused, nodes drained, time passes.  Every plan in it is checked against the rules
 * spelled out here once more, in the simplest way.
 */
#include "cluster.h"
#include "prop.h"
#include "sched/queue_priv.h"

enum { CHECKED_JOBS = 120 };

static struct resources some_need(struct prop *p)
{
    return (struct resources){.slots = (int32_t)prop_int(p, 1, 3),
                              .mcpu = prop_int(p, 0, 4) * 1000,
                              .mem_bytes = prop_int(p, 0, 4) * 256,
                              .gpus = (int32_t)prop_int(p, 0, 2)};
}

static void some_nodes(struct prop *p, struct world *w)
{
    size_t n = 1 + prop_choice(p, WORLD_NODES - 1);

    for (size_t i = 0; i < n; i++)
        world_node(w, (int32_t)prop_int(p, 1, 6), (int32_t)prop_int(p, 1, 8),
                   prop_int(p, 0, 8) * 256, prop_choice(p, 4));
}

static void some_job(struct prop *p, struct world *w)
{
    uint64_t batch = prop_choice(p, 3);
    struct wait_item *it;

    if (w->n_items == CHECKED_JOBS)
        return;
    w->uid = (uint32_t)prop_choice(p, 2);
    it = world_add(w, some_need(p), (int32_t)prop_int(p, 0, 2), batch, (int32_t)batch,
                   (uint32_t)prop_choice(p, 1));
    it->limit_s = (uint32_t)prop_choice(p, 3) * 200;
}

/* ---- rules ---- */

/* The world as it is, for the report of a failing case. */
static void tell(struct prop *p, const struct world *w)
{
    for (size_t k = 0; k < w->n_nodes; k++)
        prop_note(p, "node %zu%s: %d slots %ld mcpu %ld bytes %zu gpus; used %d %ld %ld %lx", k,
                  w->nodes[k].drained ? " drained" : "", w->nodes[k].slots, w->nodes[k].mcpu,
                  w->nodes[k].mem_bytes, w->nodes[k].n_devices, w->usage[k].slots, w->usage[k].mcpu,
                  w->usage[k].mem_bytes, w->usage[k].gpus.w[0]);
    for (size_t i = 0; i < w->n_items; i++) {
        const struct wait_item *it = &w->items[i];
        const struct shape *s = queue_shape_at(w->queue, it->shape);
        prop_note(p,
                  "job %lu%s: %d slots %ld mcpu %ld bytes %d gpus, priority %d, waited %ld ms, "
                  "limit %u s, batch %lu",
                  it->job, queue_contains(w->queue, it) ? " waits" : "", s->need.slots,
                  s->need.mcpu, s->need.mem_bytes, s->need.gpus, it->priority,
                  w->now_ms - it->since_ms, it->limit_s, s->batch);
    }
}

static bool waiting(const struct world *w, size_t i)
{
    return queue_contains(w->queue, &w->items[i]);
}

static bool nothing_over_committed(struct prop *p, const struct world *w)
{
    struct usage sum[WORLD_NODES] = {0};

    for (size_t i = 0; i < w->runs.n; i++) {
        const struct plan_run *r = &w->runs.p[i];
        if (!prop_check(p, !gpu_set_overlap(&sum[r->node].gpus, &r->gpus),
                        "a device was given to two runs") ||
            !prop_check(p, gpu_set_count(&r->gpus) == r->need.gpus,
                        "job %lu got the wrong number of GPUs", r->key.job))
            return false;
        usage_add(&sum[r->node], &r->need, &r->gpus);
    }
    for (size_t k = 0; k < w->n_nodes; k++) {
        const struct node *n = &w->nodes[k];
        if (!prop_check(p, !memcmp(&sum[k], &w->usage[k], sizeof(sum[k])),
                        "usage does not add up") ||
            !prop_check(p,
                        sum[k].slots <= n->slots && sum[k].mcpu <= n->mcpu &&
                            sum[k].mem_bytes <= n->mem_bytes &&
                            gpu_set_count(&sum[k].gpus) <= (int32_t)n->n_devices,
                        "node %s is over-committed", n->name))
            return false;
    }
    return true;
}

/* Something of this shape was just started. */
static bool limits_are_kept(struct prop *p, const struct world *w, uint32_t shape)
{
    for (int k = 0; k < LIMIT_KINDS; k++) {
        const struct group *g = w->queue->shapes.p[shape].groups[k];
        const struct limit *l = g ? &g->limit : NULL;
        if (l && (!prop_check(p, !l->paused, "a job started from a paused queue") ||
                  !prop_check(p, !l->max || l->running <= l->max, "%s: %d run of %d", limit_word(l),
                              l->running, l->max) ||
                  !prop_check(p, !l->planned, "a plan is over and still counted")))
            return false;
    }
    return true;
}

/* Of what was just started: nothing that was held back, and nothing before an older equal. */
static bool starts_are_rightful(struct prop *p, const struct world *w)
{
    for (size_t i = 0; i < w->out.n; i++) {
        const struct decision *d = &w->out.p[i];
        const struct wait_item *it = &w->items[d->job - 1];
        if (!prop_check(p, !w->nodes[d->node].drained, "job %lu started on a drained node",
                        d->job) ||
            !limits_are_kept(p, w, it->shape))
            return false;
        for (size_t k = 0; k < w->n_items; k++)
            if (waiting(w, k) && w->items[k].shape == it->shape &&
                !prop_check(p, wait_item_before(it, &w->items[k]), "job %lu overtook its equal %lu",
                            d->job, w->items[k].job))
                return false;
    }
    return true;
}

static bool has_room(const struct world *w, const struct wait_item *it)
{
    for (size_t k = 0; k < w->n_nodes; k++)
        if (!w->nodes[k].drained &&
            resources_fit(&w->nodes[k], &w->usage[k], &queue_shape_at(w->queue, it->shape)->need))
            return true;
    return false;
}

/* Who still waits has a reason, and it is the one explain names. */
static bool reasons_are_true(struct prop *p, const struct world *w)
{
    struct plan_input s = world_input(w);

    for (size_t i = 0; i < w->n_items; i++) {
        struct wait_item *it = (struct wait_item *)(uintptr_t)&w->items[i];
        if (!waiting(w, i))
            continue;
        struct wait_reason r = plan_explain(&s, it);
        const struct limit *refusal = queue_refusal(w->queue, it->shape);
        bool ok;
        switch (r.kind) {
        case WAIT_LIMIT:
            ok = refusal && refusal->kind == r.limit.kind;
            break;
        case WAIT_RESERVED:
            ok = has_room(w, it) && r.other != it->job;
            break;
        case WAIT_SLOTS:
        case WAIT_CPUS:
        case WAIT_MEMORY:
        case WAIT_GPUS:
            ok = !has_room(w, it);
            break;
        case WAIT_NODE_DRAINED:
        case WAIT_NEVER_FITS:
            ok = !has_room(w, it);
            break;
        default:
            ok = false;
        }
        char text[300];
        wait_reason_text(&r, &s, text, sizeof(text));
        if (!ok)
            tell(p, w);
        if (!prop_check(p, ok, "job %lu allegedly %s", it->job, text))
            return false;
    }
    return true;
}

/* "would start now" exactly of what plan() then starts. */
static bool plan_does_what_explain_says(struct prop *p, struct world *w)
{
    bool said[CHECKED_JOBS] = {false}, was[CHECKED_JOBS] = {false};
    struct plan_input s = world_input(w);

    for (size_t i = 0; i < w->n_items; i++) {
        if (!waiting(w, i))
            continue;
        struct wait_reason r = plan_explain(&s, &w->items[i]);
        size_t ahead = 0;
        for (size_t k = 0; k < w->n_items; k++)
            ahead += waiting(w, k) && wait_item_before(&w->items[k], &w->items[i]);
        was[i] = true;
        said[i] = r.kind == WAIT_NOTHING;
        if (!prop_check(p, r.ahead == ahead, "job %zu has %zu ahead, not %zu", i + 1, ahead,
                        r.ahead))
            return false;
    }
    world_plan(w);
    for (size_t i = 0; i < w->n_items; i++)
        if (was[i] && !prop_check(p, said[i] == !waiting(w, i), "job %zu: explain said %s", i + 1,
                                  said[i] ? "it starts" : "it waits"))
            return false;
    return true;
}

static bool plan_and_check(struct prop *p, struct world *w)
{
    int rounds = 0;

    do {
        if (!plan_does_what_explain_says(p, w) || !nothing_over_committed(p, w) ||
            !starts_are_rightful(p, w))
            return false;
        /* Twice, as a reservation may find a better node once the others have started. */
    } while (w->out.n && rounds++ < 10);
    return prop_check(p, !w->out.n, "planning does not come to rest") && reasons_are_true(p, w);
}

/* ---- a history ---- */

static bool one_step(struct prop *p, struct world *w)
{
    size_t i;

    switch (prop_choice(p, 7)) {
    case 0:
    case 1:
    case 2:
        some_job(p, w);
        return true;
    case 3:
        return plan_and_check(p, w);
    case 4:
        if (w->runs.n)
            world_end(w, prop_choice(p, w->runs.n - 1));
        return true;
    case 5:
        w->now_ms += (int64_t)prop_choice(p, 4) * 100000;
        return true;
    case 6:
        i = w->n_items ? prop_choice(p, w->n_items - 1) : 0;
        if (w->n_items && waiting(w, i))
            queue_remove(w->queue, &w->items[i]);
        return true;
    default:
        i = prop_choice(p, w->n_nodes);
        if (i < w->n_nodes)
            w->nodes[i].drained = !w->nodes[i].drained;
        else
            queue_set_paused(w->queue, 1, !queue_paused(w->queue, 1));
        return true;
    }
}

/* Everything lifted, whatever can run at all runs in the end, and nothing is held afterwards. */
static bool drains(struct prop *p, struct world *w)
{
    static const struct usage nothing;

    queue_set_paused(w->queue, 1, false);
    for (size_t k = 0; k < w->n_nodes; k++)
        w->nodes[k].drained = false;
    do {
        while (w->runs.n)
            world_end(w, w->runs.n - 1);
        if (!plan_and_check(p, w))
            return false;
    } while (w->runs.n);
    for (size_t k = 0; k < w->n_nodes; k++)
        if (!prop_check(p, !memcmp(&w->usage[k], &nothing, sizeof(nothing)),
                        "node %zu is not empty", k))
            return false;
    for (size_t i = 0; i < w->n_items; i++)
        for (size_t k = 0; waiting(w, i) && k < w->n_nodes; k++)
            if (!prop_check(p,
                            !resources_ever_fit(&w->nodes[k],
                                                &queue_shape_at(w->queue, w->items[i].shape)->need),
                            "job %zu was left behind", i + 1))
                return false;
    return prop_check(p, w->runs.n == 0, "runs are left");
}

static bool any_history(struct prop *p, void *ctx)
{
    struct world *w = ctx;
    size_t steps = prop_size(p, 150);
    bool ok = true;

    world_init(w);
    if (prop_bool(p))
        world_limit_users(w, (int32_t)prop_int(p, 1, 3));
    some_nodes(p, w);
    for (size_t i = 0; i < steps && ok; i++)
        ok = one_step(p, w);
    ok = ok && drains(p, w);
    world_done(w);
    return ok;
}

/* ---- more room ---- */

/* While nobody's patience is over: in the order of the queue, the first job about which two plans
 * differ is one that the larger node starts.  (A mere count would be wrong: one large job may take
 * the place of three.)  For jobs of one shape it follows that the larger node starts all the
 * smaller one does. */
static bool more_room_serves_the_first_better(struct prop *p, void *ctx)
{
    struct world *w = ctx;
    bool chosen[2][CHECKED_JOBS] = {{false}};
    struct node big;
    size_t n, first = SIZE_MAX;

    world_init(w);
    some_nodes(p, w);
    w->n_nodes = 1;
    n = prop_size(p, 40);
    struct resources same = some_need(p);
    bool one_shape = prop_bool(p);
    for (size_t i = 0; i < n; i++)
        world_add(w, one_shape ? same : some_need(p), (int32_t)prop_int(p, 0, 2), 0, 0, 0);
    big = w->nodes[0];
    big.slots += (int32_t)prop_int(p, 0, 3);
    big.mcpu += prop_int(p, 0, 4) * 1000;
    big.mem_bytes += prop_int(p, 0, 4) * 256;
    for (int k = 0; k < 2; k++) {
        struct plan_input s = world_input(w);
        vec_clear(&w->out);
        s.nodes = k ? &big : &w->nodes[0];
        plan(&s, &w->out);
        for (size_t i = 0; i < w->out.n; i++)
            chosen[k][w->out.p[i].job - 1] = true;
        for (size_t i = 0; i < w->out.n; i++) /* as core does with what it could not record */
            queue_push(w->queue, &w->items[w->out.p[i].job - 1]);
    }
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        if (one_shape)
            ok =
                ok && prop_check(p, chosen[1][i] || !chosen[0][i], "job %zu lost its place", i + 1);
        if (chosen[0][i] != chosen[1][i] &&
            (first == SIZE_MAX || wait_item_before(&w->items[i], &w->items[first])))
            first = i;
    }
    if (ok && first != SIZE_MAX && !chosen[1][first])
        tell(p, w);
    ok = ok && prop_check(p, first == SIZE_MAX || chosen[1][first],
                          "job %zu starts only with less room", first + 1);
    world_done(w);
    return ok;
}

/* ---- patience ---- */

enum { STEP_MS = 10000, LONGEST_MS = 600000 };

/* What runs in it ends when its time is over; `ends` stands beside w->runs. */
struct life {
    struct world *w;
    VEC(int64_t) ends;
};

static void life_plan(struct prop *p, struct life *l)
{
    size_t before = l->w->runs.n;

    world_plan(l->w);
    for (size_t i = before; i < l->w->runs.n; i++) {
        int64_t takes = prop_int(p, 1, LONGEST_MS / STEP_MS) * STEP_MS;
        const struct wait_item *it = &l->w->items[l->w->runs.p[i].key.job - 1];
        if (it->limit_s)
            takes = MIN(takes, (int64_t)it->limit_s * 1000);
        vec_push(&l->ends, l->w->now_ms + takes);
    }
}

static void life_step(struct life *l)
{
    l->w->now_ms += STEP_MS;
    for (size_t i = l->w->runs.n; i-- > 0;) {
        if (l->ends.p[i] > l->w->now_ms)
            continue;
        world_end(l->w, i);
        vec_remove(&l->ends, i);
    }
}

static struct resources small_need(struct prop *p)
{
    return (struct resources){.slots = 1,
                              .mcpu = prop_int(p, 0, 2) * 700,
                              .mem_bytes = prop_int(p, 0, 2) * 90,
                              .gpus = (int32_t)prop_int(p, 0, 1)};
}

static struct resources large_need(struct prop *p)
{
    return (struct resources){.slots = (int32_t)prop_int(p, 1, 6),
                              .mcpu = prop_int(p, 0, 8) * 1000,
                              .mem_bytes = prop_int(p, 0, 10) * 100,
                              .gpus = (int32_t)prop_int(p, 0, 4)};
}

/* Small jobs without end, each at most ten minutes; the large one starts when its patience and the
 * longest run are over, no later. */
static bool nobody_starves(struct prop *p, void *ctx)
{
    struct life l = {.w = ctx};
    struct world *w = l.w;
    struct wait_item *large;
    bool ok = true;
    int64_t due;

    world_init(w);
    world_node(w, 8, 8, 1000, 4);
    for (int i = 0; i < 30; i++) { /* older than the large one, and all but some running */
        world_job(w, small_need(p));
        life_plan(p, &l);
    }
    for (size_t i = 0; i < w->n_items; i++)
        if (queue_contains(w->queue, &w->items[i]))
            queue_remove(w->queue, &w->items[i]);
    large = world_job(w, large_need(p));
    due = w->now_ms + w->patience_ms + LONGEST_MS + 2 * STEP_MS;
    while (ok && queue_contains(w->queue, large)) {
        for (int i = 0; i < 4; i++) {
            struct wait_item *it = world_job(w, small_need(p));
            it->limit_s = prop_bool(p) ? (uint32_t)prop_int(p, 1, 6) * 100 : 0;
        }
        life_plan(p, &l);
        life_step(&l);
        if (w->now_ms > due)
            tell(p, w);
        ok = prop_check(p, w->now_ms <= due, "the large job still waits");
    }
    vec_done(&l.ends);
    world_done(w);
    return ok;
}

int main(void)
{
    static struct world w;

    prop_run("every plan keeps the rules and explain tells the truth", 3000, any_history, &w);
    prop_run("more room serves the first in order better", 3000, more_room_serves_the_first_better,
             &w);
    prop_run("nobody starves", 1000, nobody_starves, &w);
    return prop_end();
}
