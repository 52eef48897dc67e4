/* cluster.h - a small world for planner tests: nodes, waiting jobs, runs that come and go */
#pragma once
#include "base/util.h"
#include "sched/plan.h"

enum { WORLD_NODES = 4, WORLD_JOBS = 4096 };
struct world {
    struct node nodes[WORLD_NODES];
    struct usage usage[WORLD_NODES];
    struct device devices[WORLD_NODES][8];
    size_t n_nodes;
    struct queue *queue;
    struct wait_item items[WORLD_JOBS]; /* item i is job i + 1 */
    size_t n_items;
    VEC(struct plan_run) runs;
    decisions out;
    int64_t now_ms, patience_ms;
    size_t max_starts;
    uint32_t uid; /* owner of the jobs added next */
};

static inline void world_init(struct world *w)
{
    *w = (struct world){
        .queue = queue_new(NULL), .now_ms = 1000000, .patience_ms = 300000, .max_starts = 1000};
}

/* Before the first job: so many of each user run at once. */
static inline void world_limit_users(struct world *w, int32_t max)
{
    queue_free(w->queue);
    w->queue = queue_new(&(struct limit_conf){.per_user = max});
}

static inline void world_done(struct world *w)
{
    queue_free(w->queue);
    vec_done(&w->runs);
    vec_done(&w->out);
}

static inline struct node *world_node(struct world *w, int32_t slots, int32_t cpus,
                                      int64_t mem_bytes, size_t gpus)
{
    size_t k = w->n_nodes++;
    struct node *n = &w->nodes[k];

    ASSERT(k < WORLD_NODES && gpus <= 8);
    *n = (struct node){.slots = slots, .mcpu = cpus * INT64_C(1000), .mem_bytes = mem_bytes};
    n->name[0] = (char)('a' + k);
    for (size_t i = 0; i < gpus; i++)
        w->devices[k][i].index = (int32_t)i;
    n->devices = w->devices[k];
    n->n_devices = gpus;
    return n;
}

/* Job numbers count from 1 in the order of adding; each is a millisecond younger. */
static inline struct wait_item *world_add(struct world *w, struct resources need, int32_t priority,
                                          uint64_t batch, int32_t batch_slots, uint32_t named_queue)
{
    size_t i = w->n_items++;
    struct wait_item *it = &w->items[i];

    ASSERT(i < WORLD_JOBS);
    *it = (struct wait_item){
        .job = i + 1,
        .since_ms = w->now_ms - 1000 + (int64_t)i,
        .priority = priority,
        .shape = queue_shape_take(w->queue, &(struct shape){.need = need,
                                                            .queue = named_queue,
                                                            .uid = w->uid,
                                                            .batch = batch,
                                                            .batch_max = batch_slots})};
    queue_push(w->queue, it);
    return it;
}

static inline struct wait_item *world_job(struct world *w, struct resources need)
{
    return world_add(w, need, 0, 0, 0, 0);
}

static inline struct plan_input world_input(const struct world *w)
{
    return (struct plan_input){.now_ms = w->now_ms,
                               .nodes = w->nodes,
                               .usage = w->usage,
                               .n_nodes = w->n_nodes,
                               .runs = w->runs.p,
                               .n_runs = w->runs.n,
                               .queue = w->queue,
                               .max_starts = w->max_starts,
                               .patience_ms = w->patience_ms};
}

/* Plans and lets everything decided run; w->out is what was decided. */
static inline size_t world_plan(struct world *w)
{
    struct plan_input s = world_input(w);

    vec_clear(&w->out);
    plan(&s, &w->out);
    for (size_t i = 0; i < w->out.n; i++) {
        const struct decision *d = &w->out.p[i];
        const struct wait_item *it = &w->items[d->job - 1];
        const struct shape *shape = queue_shape_at(w->queue, it->shape);
        struct plan_run r = {.key = {d->job, 1},
                             .node = d->node,
                             .need = shape->need,
                             .gpus = d->gpus,
                             .priority = it->priority,
                             .started_ms = w->now_ms};
        if (it->limit_s)
            r.ends_by_ms = w->now_ms + (int64_t)it->limit_s * 1000;
        usage_add(&w->usage[d->node], &shape->need, &d->gpus);
        queue_count_running(w->queue, it->shape, 1);
        vec_push(&w->runs, r);
    }
    return w->out.n;
}

static inline void world_end(struct world *w, size_t run)
{
    struct plan_run r = w->runs.p[run];

    usage_sub(&w->usage[r.node], &r.need, &r.gpus);
    queue_count_running(w->queue, w->items[r.key.job - 1].shape, -1);
    vec_remove(&w->runs, run);
}
