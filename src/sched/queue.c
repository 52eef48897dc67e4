/* queue.c - one heap of waiting jobs per shape
 *
 * Owns: the heaps, which shapes have something waiting, and the limits that shapes count against.
 * Does not own the items: each is a member of the job it stands for.
 *
 * Order: priority, then age, then number; so it is total, and taking something out and putting it
 * back changes nothing.  An item knows its place (pos), so that a cancelled job leaves in
 * O(log n).
 */
#include "base/heap.h"
#include "sched/queue_priv.h"

enum { NO_PLACE = UINT32_MAX };

/* Hashed as bytes: no padding may be left unset. */
struct shape_key {
    struct resources need;
    uint64_t batch, user; /* numbers of their groups; 0 = none */
    int32_t batch_max;
    uint32_t queue;
    uint64_t avoid, unfit, nodes;
};
_Static_assert(sizeof(struct shape_key) == 72, "padding would be hashed");

bool wait_item_before(const struct wait_item *a, const struct wait_item *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (a->since_ms != b->since_ms)
        return a->since_ms < b->since_ms;
    return a->job < b->job;
}

struct queue *queue_new(const struct limit_conf *conf)
{
    struct queue *q = xcalloc(1, sizeof(struct queue));

    if (conf)
        q->conf = *conf;
    return q;
}

void queue_free(struct queue *q)
{
    if (!q)
        return;
    for (size_t i = 0; i < q->shapes.n; i++)
        vec_done(&q->shapes.p[i].heap);
    for (int k = 0; k < LIMIT_KINDS; k++)
        map_u64_clear(&q->groups[k], free);
    for (size_t i = 0; i < q->nodes.n; i++)
        free(q->nodes.p[i]);
    map_str_done(&q->index);
    FREE_EACH(q->shapes.p, q->active.p, q->free_list.p, q->nodes.p, q);
}

/* ---- groups: what is limited ---- */

/* Made on first use, without a limit. */
static struct group *group_get(struct queue *q, enum limit_kind kind, uint64_t number)
{
    struct group *g = map_u64_get(&q->groups[kind], number);

    if (!g) {
        g = xcalloc(1, sizeof(*g));
        g->limit.kind = kind;
        map_u64_put(&q->groups[kind], number, g);
    }
    return g;
}

/* For questions: a queue that nobody has used yet has no limit, no rules and is not paused. */
static const struct group *group_find(const struct queue *q, enum limit_kind kind, uint64_t number)
{
    static const struct group none;
    const struct group *g = map_u64_get(&q->groups[kind], number);

    return g ? g : &none;
}

static void group_join(struct queue *q, struct shape_slot *s, enum limit_kind kind, uint64_t number,
                       int32_t max)
{
    struct group *g = group_get(q, kind, number);

    if (kind != LIMIT_QUEUE) /* whose limit is one of its rules */
        g->limit.max = max;
    g->shapes++;
    s->groups[kind] = g;
}

static void group_leave(struct queue *q, struct shape_slot *s, enum limit_kind kind,
                        uint64_t number)
{
    struct group *g = s->groups[kind];

    s->groups[kind] = NULL;
    if (!g || --g->shapes || kind == LIMIT_QUEUE)
        return;
    /* Whoever drops the last shape has counted its runs down before, or the limit would be
     * forgotten while jobs still run against it. */
    ASSERT(!g->limit.running);
    free(map_u64_del(&q->groups[kind], number));
}

/* ---- shapes ---- */

/* There are few: whoever names nodes names the same ones again. */
static uint64_t nodes_place(struct queue *q, struct str nodes)
{
    size_t i = 0;

    if (!nodes.n)
        return 0;
    while (i < q->nodes.n && !str_eq_c(nodes, q->nodes.p[i]))
        i++;
    if (i == q->nodes.n)
        vec_push(&q->nodes, xstrndup(nodes.p, nodes.n));
    return i + 1;
}

static struct shape_key shape_key_of(struct queue *q, const struct shape *s)
{
    bool limited = s->batch && s->batch_max > 0;

    return (struct shape_key){.need = s->need,
                              .batch = limited ? s->batch : 0,
                              .user = q->conf.per_user || q->conf.users_apart ? (uint64_t)s->uid + 1
                                                                              : 0,
                              .batch_max = limited ? s->batch_max : 0,
                              .queue = s->queue,
                              .avoid = s->avoid,
                              .unfit = s->unfit,
                              .nodes = nodes_place(q, s->nodes)};
}

static uint32_t shape_place(struct queue *q)
{
    if (q->free_list.n)
        return vec_pop(&q->free_list);
    vec_push(&q->shapes, (struct shape_slot){0});
    return (uint32_t)q->shapes.n - 1;
}

uint32_t queue_shape_take(struct queue *q, const struct shape *facts)
{
    struct shape_key key = shape_key_of(q, facts);
    struct str bytes = {(const char *)&key, sizeof(key)};
    uintptr_t known = (uintptr_t)map_str_get(&q->index, bytes);

    if (known) {
        q->shapes.p[known - 1].takes++;
        return (uint32_t)(known - 1);
    }
    uint32_t at = shape_place(q);
    struct shape_slot *s = &q->shapes.p[at];
    *s = (struct shape_slot){.pub = *facts, .active_at = NO_PLACE, .takes = 1};
    s->pub.nodes = key.nodes ? str_of(q->nodes.p[key.nodes - 1]) : STR("");
    group_join(q, s, LIMIT_QUEUE, key.queue, 0);
    if (key.batch)
        group_join(q, s, LIMIT_BATCH, key.batch, key.batch_max);
    if (q->conf.per_user)
        group_join(q, s, LIMIT_USER, key.user, q->conf.per_user);
    map_str_put(&q->index, bytes, (void *)(uintptr_t)(at + 1));
    return at;
}

void queue_shape_drop(struct queue *q, uint32_t shape)
{
    struct shape_slot *s = &q->shapes.p[shape];

    ASSERT(shape < q->shapes.n && s->takes);
    if (--s->takes)
        return;
    ASSERT(!s->heap.n);
    struct shape_key key = shape_key_of(q, &s->pub);
    map_str_del(&q->index, (struct str){(const char *)&key, sizeof(key)});
    group_leave(q, s, LIMIT_QUEUE, key.queue);
    group_leave(q, s, LIMIT_BATCH, key.batch);
    group_leave(q, s, LIMIT_USER, key.user);
    vec_done(&s->heap);
    vec_push(&q->free_list, shape);
}

const struct shape *queue_shape_at(const struct queue *q, uint32_t shape)
{
    ASSERT(shape < q->shapes.n);
    return &q->shapes.p[shape].pub;
}

/* ---- heap of one shape ---- */

static bool waiting_before(struct wait_item *const *a, struct wait_item *const *b)
{
    return wait_item_before(*a, *b);
}

static void waiting_placed(struct wait_item *const *it, size_t at)
{
    (*it)->pos = (uint32_t)at;
}

HEAP_DEFINE(waiting, struct wait_item *, waiting_before, waiting_placed)

static void set_active(struct queue *q, struct shape_slot *s)
{
    s->active_at = (uint32_t)q->active.n;
    vec_push(&q->active, (uint32_t)(s - q->shapes.p));
}

/* The last active shape moves into the gap: `active` is in no order. */
static void set_idle(struct queue *q, struct shape_slot *s)
{
    uint32_t last = vec_pop(&q->active);

    if (s->active_at < q->active.n) {
        q->active.p[s->active_at] = last;
        q->shapes.p[last].active_at = s->active_at;
    }
    s->active_at = NO_PLACE;
}

void queue_push(struct queue *q, struct wait_item *it)
{
    ASSERT(it->shape < q->shapes.n);
    struct shape_slot *s = &q->shapes.p[it->shape];

    vec_push(&s->heap, it);
    waiting_fix(s->heap.p, s->heap.n, s->heap.n - 1);
    if (s->heap.n == 1)
        set_active(q, s);
    q->count++;
}

void queue_remove(struct queue *q, struct wait_item *it)
{
    ASSERT(queue_contains(q, it));
    struct shape_slot *s = &q->shapes.p[it->shape];

    waiting_remove(s->heap.p, &s->heap.n, it->pos);
    if (!s->heap.n)
        set_idle(q, s);
    it->pos = NO_PLACE;
    q->count--;
}

bool queue_contains(const struct queue *q, const struct wait_item *it)
{
    if (it->shape >= q->shapes.n)
        return false;
    const struct shape_slot *s = &q->shapes.p[it->shape];
    return it->pos < s->heap.n && s->heap.p[it->pos] == it;
}

struct wait_item *queue_head(const struct queue *q, uint32_t shape)
{
    ASSERT(shape < q->shapes.n);
    const struct shape_slot *s = &q->shapes.p[shape];
    return s->heap.n ? s->heap.p[0] : NULL;
}

size_t queue_count(const struct queue *q)
{
    return q->count;
}

size_t queue_count_shape(const struct queue *q, uint32_t shape)
{
    ASSERT(shape < q->shapes.n);
    return q->shapes.p[shape].heap.n;
}

/* ---- limits, pause and order ---- */

void queue_set_rules(struct queue *q, uint32_t named_queue, const struct queue_rules *r)
{
    struct group *g = group_get(q, LIMIT_QUEUE, named_queue);

    g->strict = r->strict;
    g->backfill = r->backfill;
    g->limit.max = r->limit;
}

struct queue_rules queue_rules_of(const struct queue *q, uint32_t named_queue)
{
    const struct group *g = group_find(q, LIMIT_QUEUE, named_queue);

    return (struct queue_rules){g->strict, g->backfill, g->limit.max};
}

void queue_set_paused(struct queue *q, uint32_t named_queue, bool paused)
{
    group_get(q, LIMIT_QUEUE, named_queue)->limit.paused = paused;
}

bool queue_paused(const struct queue *q, uint32_t named_queue)
{
    return group_find(q, LIMIT_QUEUE, named_queue)->limit.paused;
}

void queue_set_kept(struct queue *q, uint32_t named_queue, bool kept)
{
    group_get(q, LIMIT_QUEUE, named_queue)->limit.kept = kept;
}

int32_t queue_keepers(struct queue *q, uint32_t named_queue, int32_t change)
{
    return group_get(q, LIMIT_QUEUE, named_queue)->limit.keepers += change;
}

bool queue_active(const struct queue *q, uint32_t named_queue)
{
    const struct limit *l = &group_find(q, LIMIT_QUEUE, named_queue)->limit;

    return !l->paused && (!l->kept || l->keepers);
}

void queue_count_running(struct queue *q, uint32_t shape, int32_t delta)
{
    ASSERT(shape < q->shapes.n);
    for (int k = 0; k < LIMIT_KINDS; k++) {
        struct group *g = q->shapes.p[shape].groups[k];
        if (!g)
            continue;
        g->limit.running += delta;
        ASSERT(g->limit.running >= 0);
    }
}

const struct limit *queue_refusal(const struct queue *q, uint32_t shape)
{
    ASSERT(shape < q->shapes.n);
    return shape_refusal(&q->shapes.p[shape]);
}

struct wait_item *queue_first(const struct queue *q, uint32_t named_queue)
{
    struct wait_item *first = NULL;

    for (size_t i = 0; i < q->active.n; i++) {
        const struct shape_slot *s = &q->shapes.p[q->active.p[i]];
        if (s->pub.queue == named_queue && (!first || wait_item_before(s->heap.p[0], first)))
            first = s->heap.p[0];
    }
    return first;
}

bool queue_may_start(const struct queue *q, const struct wait_item *it)
{
    const struct shape_slot *s = &q->shapes.p[it->shape];

    return !shape_refusal(s) && (!shape_strict(s) || queue_first(q, s->pub.queue) == it);
}

/* ---- questions ---- */

/* Below an item that is not before `it` nothing is, so the walk touches what it counts and the rim.
 */
static size_t count_before(const struct shape_slot *s, size_t at, const struct wait_item *it)
{
    size_t n = 0;

    /* Along the right spine in a loop, left children by recursion: the depth is log2 n. */
    while (at < s->heap.n && wait_item_before(s->heap.p[at], it)) {
        n += 1 + count_before(s, 2 * at + 1, it);
        at = 2 * at + 2;
    }
    return n;
}

size_t queue_ahead(const struct queue *q, const struct wait_item *it)
{
    size_t n = 0;

    for (size_t i = 0; i < q->active.n; i++)
        n += count_before(&q->shapes.p[q->active.p[i]], 0, it);
    return n;
}
