/* lane.c - queues with rules: a limit, strict order, and places that people change
 *
 * Owns: what is recorded of such queues, and the order people gave to the jobs in them.
 *
 * The order of waiting jobs is priority, age, number.  To move a job, the ages of the jobs of its
 * queue are dealt out anew in the wanted order: nobody gets older than the oldest was, and who is
 * submitted later stays behind all of them.  The order is recorded as a list of numbers; after a
 * restart the ages are dealt out again by it.
 */
#include "core/core_priv.h"
#include <stdlib.h>

#define FACT_PREFIX "queue."

struct lane_record {
    char *name;
    VEC(uint64_t) order; /* as last given; jobs that left since are skipped */
};

void lanes_free(struct core *c)
{
    struct str name;
    void *val;

    for (size_t it = 0; map_str_next(&c->lanes, &it, &name, &val);) {
        struct lane_record *l = val;
        vec_done(&l->order);
        free(l->name);
        free(l);
    }
    map_str_done(&c->lanes);
}

static struct lane_record *lane_record(struct core *c, struct str name)
{
    struct lane_record *l = map_str_get(&c->lanes, name);

    if (!l) {
        l = xcalloc(1, sizeof(*l));
        l->name = xstrndup(name.p, name.n);
        map_str_put(&c->lanes, name, l);
    }
    return l;
}

/* ---- what is recorded ---- */

/* Records rules and order together, as one fact per queue. */
static void lane_stage(struct core *c, const struct lane_record *l, const struct caller *who)
{
    struct queue_rules r = queue_rules_of(c->queue, core_queue_index(c, str_of(l->name)));
    struct json *j = json_new_object(), *order = json_new_array();
    AUTO_FREE char *name = xasprintf(FACT_PREFIX "%s", l->name);

    json_set_take(j, "strict", json_new_bool(r.strict));
    json_set_take(j, "backfill", json_new_bool(r.backfill));
    json_set_int(j, "limit", r.limit);
    for (size_t i = 0; i < l->order.n; i++)
        json_push_take(order, json_new_int((int64_t)l->order.p[i]));
    json_set_take(j, "order", order);
    AUTO_FREE char *text = json_text(j);
    json_free(j);
    core_stage(c, &(struct change){CHANGE_BY(c, who, CHANGE_FACT),
                                   .fact = {.name = str_of(name), .value = str_of(text)}});
}

bool lane_recall(struct core *c, struct str name, struct str text)
{
    struct str prefix = STR(FACT_PREFIX);
    struct json *j = NULL;
    struct err e;

    if (!str_starts(name, prefix))
        return false;
    struct str queue = {name.p + prefix.n, name.n - prefix.n};
    if (json_parse(text, "rules of a queue", &j, &e) < 0)
        return true; /* without them it is an ordinary queue */
    struct queue_rules r = {.strict = json_bool(json_get(j, "strict")),
                            .backfill = json_bool(json_get(j, "backfill")),
                            .limit = (int32_t)json_int(json_get(j, "limit"))};
    const struct json *order = json_get(j, "order");
    struct lane_record *l = lane_record(c, queue);
    queue_set_rules(c->queue, core_queue_index(c, queue), &r);
    vec_clear(&l->order);
    for (size_t i = 0; i < json_len(order); i++)
        vec_push(&l->order, (uint64_t)json_int(json_at(order, i)));
    json_free(j);
    return true;
}

/* ---- order ---- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* These jobs, none of which is in the queue right now, come one behind the other. */
static void deal_ages(struct job **jobs, size_t n)
{
    int64_t *ages = xmalloc((n + 1) * sizeof(*ages));

    for (size_t i = 0; i < n; i++)
        ages[i] = jobs[i]->wait.since_ms;
    qsort(ages, n, sizeof(*ages), by_value);
    for (size_t i = n; i-- > 0;) {
        if (i + 1 < n)
            ages[i] = MIN(ages[i], ages[i + 1] - 1);
        jobs[i]->wait.since_ms = ages[i];
    }
    free(ages);
}

void lane_restored(struct core *c)
{
    struct str name;
    void *val;

    for (size_t it = 0; map_str_next(&c->lanes, &it, &name, &val);) {
        struct lane_record *l = val;
        VEC(struct job *) jobs = {0};
        for (size_t i = 0; i < l->order.n; i++) {
            struct job *j = core_job(c, l->order.p[i]);
            if (j && j->state == JOB_QUEUED)
                vec_push(&jobs, j);
        }
        for (size_t i = 1; i < jobs.n; i++)
            jobs.p[i]->wait.priority = jobs.p[0]->wait.priority;
        deal_ages(jobs.p, jobs.n);
        vec_done(&jobs);
    }
}

static int by_turn(const void *a, const void *b)
{
    const struct job *x = *(struct job *const *)a, *y = *(struct job *const *)b;

    return wait_item_before(&x->wait, &y->wait) ? -1 : 1;
}

static bool waits_in(const struct core *c, const struct job *j, uint32_t queue)
{
    return j->state == JOB_QUEUED && j->hold == HOLD_NONE && !j->run &&
           queue_shape_at(c->queue, j->wait.shape)->queue == queue;
}

typedef VEC(struct job *) job_list;

static void list_waiting(const struct core *c, uint32_t queue, job_list *out)
{
    void *val;

    for (size_t it = 0; (val = map_u64_each(&c->jobs.by_number, &it));)
        if (waits_in(c, val, queue))
            vec_push(out, (struct job *)val);
    if (out->n)
        qsort(out->p, out->n, sizeof(*out->p), by_turn);
}

size_t core_queue_list(const struct core *c, struct str queue, uint64_t **out)
{
    uintptr_t known = (uintptr_t)map_str_get(&c->queues, queue);
    job_list jobs = {0};

    if (known)
        list_waiting(c, (uint32_t)known, &jobs);
    *out = xmalloc((jobs.n + 1) * sizeof(**out));
    for (size_t i = 0; i < jobs.n; i++)
        (*out)[i] = jobs.p[i]->wait.job;
    size_t n = jobs.n;
    vec_done(&jobs);
    return n;
}

static const char *queue_name(const struct core *c, uint32_t queue, struct str *out)
{
    void *val;

    for (size_t it = 0; map_str_next(&c->queues, &it, out, &val);)
        if ((uintptr_t)val == queue)
            return out->p;
    return NULL;
}

/* A request about a job whose run was sent ahead: it is carried out when the host has answered. */
struct lane_move {
    struct core *c;
    size_t place;
    struct caller who;
    core_act_fn done;
    void *arg;
};

static void lane_move_go_on(void *arg, struct job *j)
{
    struct lane_move *m = arg;

    if (j)
        core_queue_move(m->c, j->wait.job, m->place, &m->who, m->done, m->arg);
    free(m);
}

void core_queue_move(struct core *c, uint64_t job, size_t place, const struct caller *who,
                     core_act_fn done, void *arg)
{
    struct job *j = core_job(c, job);
    uint32_t queue = j ? queue_shape_at(c->queue, j->wait.shape)->queue : 0;
    struct str name;
    struct err e = {0};
    job_list jobs = {0};

    if (!j || (!waits_in(c, j, queue) && j->hold != HOLD_AHEAD) || !queue_name(c, queue, &name)) {
        err_set(&e, ERR_NOT_FOUND, "job %llu does not wait in a queue", (unsigned long long)job);
        done(arg, &e, NULL);
        return;
    }
    if (!caller_sees(who, j->uid)) {
        err_set(&e, ERR_DENIED, "job %llu is another user's", (unsigned long long)job);
        done(arg, &e, NULL);
        return;
    }
    if (j->hold == HOLD_AHEAD) {
        struct lane_move *m = xmalloc(sizeof(*m));
        *m = (struct lane_move){c, place, *who, done, arg};
        ahead_then(c, j, lane_move_go_on, m);
        return;
    }
    list_waiting(c, queue, &jobs);
    place = MIN(place, jobs.n - 1);
    for (size_t i = 0; i < jobs.n; i++) {
        queue_remove(c->queue, &jobs.p[i]->wait);
        /* One order for all: what sets them apart is their place now. */
        jobs.p[i]->wait.priority = jobs.p[0]->wait.priority;
    }
    for (size_t from = 0; from < jobs.n; from++)
        if (jobs.p[from] == j) {
            vec_remove(&jobs, from);
            break;
        }
    vec_push(&jobs, j); /* room for one more, then from the back to its place */
    for (size_t i = jobs.n - 1; i > place; i--) {
        jobs.p[i] = jobs.p[i - 1];
        jobs.p[i - 1] = j;
    }
    deal_ages(jobs.p, jobs.n);
    struct lane_record *l = lane_record(c, name);
    vec_clear(&l->order);
    for (size_t i = 0; i < jobs.n; i++) {
        queue_push(c->queue, &jobs.p[i]->wait);
        vec_push(&l->order, jobs.p[i]->wait.job);
    }
    vec_done(&jobs);
    lane_stage(c, l, who);
    c->dirty = true;
    track_answer(c, done, arg);
}

/* ---- rules ---- */

void core_queue_rules(struct core *c, struct str queue, const struct queue_rules *r,
                      const struct caller *who, core_act_fn done, void *arg)
{
    struct err e = {0};

    if (!who->admin) {
        err_set(&e, ERR_DENIED, "only the owner of this daemon may change the rules of a queue");
        done(arg, &e, NULL);
        return;
    }
    queue_set_rules(c->queue, core_queue_index(c, queue), r);
    lane_stage(c, lane_record(c, queue), who);
    c->dirty = true;
    track_answer(c, done, arg);
}

struct queue_rules core_queue_rules_of(const struct core *c, struct str queue)
{
    uintptr_t known = (uintptr_t)map_str_get(&c->queues, queue);

    return known ? queue_rules_of(c->queue, (uint32_t)known) : (struct queue_rules){0};
}
