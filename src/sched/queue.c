/* queue.c - one heap of waiting jobs per shape
 *
 * Owns: the heaps, which shapes have something waiting, what is paused, how much of each limited
 * batch runs.  Does not own the items: each is a member of the job it stands for.
 *
 * Order: priority, then age, then number; so it is total, and taking something out and putting it
 * back changes nothing.  An item knows its place (pos), so that a cancelled job leaves in
 * O(log n).
 */
#include "sched/queue_priv.h"

enum { NO_PLACE = UINT32_MAX };

struct shape_key { /* hashed as bytes: no padding may be left unset */
    struct resources need;
    uint64_t batch;
    int32_t batch_slots;
    uint32_t named_queue;
    uint64_t avoid, nodes;
};
_Static_assert(sizeof(struct shape_key) == 56, "padding would be hashed");

bool wait_item_before(const struct wait_item *a, const struct wait_item *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (a->since_ms != b->since_ms)
        return a->since_ms < b->since_ms;
    return a->job < b->job;
}

struct queue *queue_new(void)
{
    return xcalloc(1, sizeof(struct queue));
}

static void batch_free(struct batch *b)
{
    vec_done(&b->shapes);
    free(b);
}

void queue_free(struct queue *q)
{
    size_t it = 0;
    uint64_t key;
    void *b;

    if (!q)
        return;
    for (size_t i = 0; i < q->shapes.n; i++)
        vec_done(&q->shapes.p[i].heap);
    while (map_u64_next(&q->batches, &it, &key, &b))
        batch_free(b);
    for (it = 0; map_u64_next(&q->lanes, &it, &key, &b);)
        free(b);
    map_u64_done(&q->lanes);
    vec_done(&q->shapes);
    vec_done(&q->active);
    vec_done(&q->free_list);
    for (size_t i = 0; i < q->nodes.n; i++)
        free(q->nodes.p[i]);
    vec_done(&q->nodes);
    map_str_done(&q->index);
    map_u64_done(&q->batches);
    map_u64_done(&q->paused);
    free(q);
}

/* ---- shapes ---- */

static struct batch *batch_get(struct queue *q, uint64_t id)
{
    struct batch *b = map_u64_get(&q->batches, id);

    if (!b) {
        b = xcalloc(1, sizeof(*b));
        map_u64_put(&q->batches, id, b);
    }
    return b;
}

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

static struct shape_key key_of(struct queue *q, const struct shape *s)
{
    return (struct shape_key){s->need,        s->batch, s->batch_slots,
                              s->named_queue, s->avoid, nodes_place(q, str_of(s->nodes))};
}

static uint32_t shape_place(struct queue *q)
{
    if (q->free_list.n)
        return vec_pop(&q->free_list);
    vec_push(&q->shapes, (struct shape_slot){0});
    return (uint32_t)q->shapes.n - 1;
}

uint32_t queue_shape(struct queue *q, const struct resources *need, uint64_t batch,
                     int32_t batch_slots, uint32_t named_queue)
{
    return queue_shape_where(q, need, batch, batch_slots, named_queue, STR(""), 0);
}

uint32_t queue_shape_where(struct queue *q, const struct resources *need, uint64_t batch,
                           int32_t batch_slots, uint32_t named_queue, struct str nodes,
                           uint64_t avoid)
{
    bool limited = batch && batch_slots > 0;
    struct shape_key key = {*need, limited ? batch : 0,  limited ? batch_slots : 0, named_queue,
                            avoid, nodes_place(q, nodes)};
    struct str bytes = {(const char *)&key, sizeof(key)};
    uintptr_t known = (uintptr_t)map_str_get(&q->index, bytes);

    if (known)
        return (uint32_t)(known - 1);
    uint32_t at = shape_place(q);
    struct shape_slot *s = &q->shapes.p[at];
    *s = (struct shape_slot){.active_at = NO_PLACE};
    s->pub.need = *need;
    s->pub.batch = key.batch;
    s->pub.batch_slots = key.batch_slots;
    s->pub.named_queue = named_queue;
    s->pub.paused = queue_paused(q, named_queue);
    s->lane = map_u64_get(&q->lanes, named_queue);
    s->pub.avoid = avoid;
    s->pub.nodes = key.nodes ? q->nodes.p[key.nodes - 1] : "";
    if (limited) {
        s->batch = batch_get(q, batch);
        s->pub.batch_running = s->batch->running;
        vec_push(&s->batch->shapes, at);
    }
    map_str_put(&q->index, bytes, (void *)(uintptr_t)(at + 1));
    return at;
}

const struct shape *queue_shape_at(const struct queue *q, uint32_t shape)
{
    ASSERT(shape < q->shapes.n);
    return &q->shapes.p[shape].pub;
}

size_t queue_shapes(const struct queue *q)
{
    return q->shapes.n;
}

/* ---- heap of one shape ---- */

static void put(struct shape_slot *s, size_t at, struct wait_item *it)
{
    s->heap.p[at] = it;
    it->pos = (uint32_t)at;
}

static void sift_up(struct shape_slot *s, size_t at, struct wait_item *it)
{
    while (at > 0) {
        size_t up = (at - 1) / 2;
        if (!wait_item_before(it, s->heap.p[up]))
            break;
        put(s, at, s->heap.p[up]);
        at = up;
    }
    put(s, at, it);
}

static void sift_down(struct shape_slot *s, size_t at, struct wait_item *it)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= s->heap.n)
            break;
        if (child + 1 < s->heap.n && wait_item_before(s->heap.p[child + 1], s->heap.p[child]))
            child++;
        if (!wait_item_before(s->heap.p[child], it))
            break;
        put(s, at, s->heap.p[child]);
        at = child;
    }
    put(s, at, it);
}

static void set_active(struct queue *q, struct shape_slot *s)
{
    s->active_at = (uint32_t)q->active.n;
    vec_push(&q->active, (uint32_t)(s - q->shapes.p));
}

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
    sift_up(s, s->heap.n - 1, it);
    if (s->heap.n == 1)
        set_active(q, s);
    q->count++;
}

void queue_remove(struct queue *q, struct wait_item *it)
{
    ASSERT(queue_contains(q, it));
    struct shape_slot *s = &q->shapes.p[it->shape];
    size_t at = it->pos;
    struct wait_item *last = vec_pop(&s->heap);

    if (last != it) {
        if (at > 0 && wait_item_before(last, s->heap.p[(at - 1) / 2]))
            sift_up(s, at, last);
        else
            sift_down(s, at, last);
    }
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

/* ---- rules of named queues ---- */

static struct lane *lane_get(struct queue *q, uint32_t named_queue)
{
    struct lane *l = map_u64_get(&q->lanes, named_queue);

    if (l)
        return l;
    l = xcalloc(1, sizeof(*l));
    map_u64_put(&q->lanes, named_queue, l);
    for (size_t i = 0; i < q->shapes.n; i++)
        if (q->shapes.p[i].pub.named_queue == named_queue)
            q->shapes.p[i].lane = l;
    return l;
}

void queue_set_rules(struct queue *q, uint32_t named_queue, const struct queue_rules *r)
{
    lane_get(q, named_queue)->rules = *r;
}

struct queue_rules queue_rules_of(const struct queue *q, uint32_t named_queue)
{
    const struct lane *l = map_u64_get(&q->lanes, named_queue);

    return l ? l->rules : (struct queue_rules){0};
}

void queue_running(struct queue *q, uint32_t named_queue, int32_t delta)
{
    struct lane *l = lane_get(q, named_queue);

    l->running += delta;
    ASSERT(l->running >= 0);
}

struct wait_item *queue_first(const struct queue *q, uint32_t named_queue)
{
    struct wait_item *first = NULL;

    for (size_t i = 0; i < q->active.n; i++) {
        const struct shape_slot *s = &q->shapes.p[q->active.p[i]];
        if (s->pub.named_queue == named_queue && (!first || wait_item_before(s->heap.p[0], first)))
            first = s->heap.p[0];
    }
    return first;
}

bool queue_lets(const struct queue *q, const struct wait_item *it)
{
    const struct shape_slot *s = &q->shapes.p[it->shape];

    return lane_open(s->lane) &&
           (!lane_strict(s->lane) || queue_first(q, s->pub.named_queue) == it);
}

/* ---- pause, batches ---- */

void queue_set_paused(struct queue *q, uint32_t named_queue, bool paused)
{
    if (paused)
        map_u64_put(&q->paused, named_queue, q);
    else
        map_u64_del(&q->paused, named_queue);
    for (size_t i = 0; i < q->shapes.n; i++)
        if (q->shapes.p[i].pub.named_queue == named_queue)
            q->shapes.p[i].pub.paused = paused;
}

bool queue_paused(const struct queue *q, uint32_t named_queue)
{
    return map_u64_get(&q->paused, named_queue) != NULL;
}

void queue_batch_running(struct queue *q, uint64_t batch, int32_t delta)
{
    struct batch *b;

    if (!batch)
        return;
    b = batch_get(q, batch);
    b->running += delta;
    ASSERT(b->running >= 0);
    for (size_t i = 0; i < b->shapes.n; i++)
        q->shapes.p[b->shapes.p[i]].pub.batch_running = b->running;
    if (!b->running && !b->shapes.n) /* has no limit: nobody asks */
        batch_free(map_u64_del(&q->batches, batch));
}

void queue_batch_forget(struct queue *q, uint64_t batch)
{
    struct batch *b = batch ? map_u64_del(&q->batches, batch) : NULL;

    if (!b)
        return;
    for (size_t i = 0; i < b->shapes.n; i++) {
        struct shape_slot *s = &q->shapes.p[b->shapes.p[i]];
        struct shape_key key = key_of(q, &s->pub);

        ASSERT(!s->heap.n);
        map_str_del(&q->index, (struct str){(const char *)&key, sizeof(key)});
        vec_done(&s->heap);
        s->batch = NULL;
        vec_push(&q->free_list, b->shapes.p[i]);
    }
    batch_free(b);
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

struct wait_item *queue_find(const struct queue *q, uint64_t job)
{
    for (size_t i = 0; i < q->active.n; i++) {
        const struct shape_slot *s = &q->shapes.p[q->active.p[i]];
        for (size_t k = 0; k < s->heap.n; k++)
            if (s->heap.p[k]->job == job)
                return s->heap.p[k];
    }
    return NULL;
}
