/* reference.c - the policies that berth is compared with
 *
 *   fifo  in order of arrival; the first that does not fit holds up all behind it
 *   srtf  by estimated time left; goes down the order while devices are free, running jobs that
 *         find no room are asked to stop
 *   las   as srtf, ordered by queue and arrival: a job that held two device hours sinks into the
 *         second queue
 *   pack  in order of arrival; without a free device next to the running job of equal size with
 *         which both together are expected to be fastest
 *
 * All take the GPU count a job asks for.  A waiting job's key does not change while it waits, so
 * the waiting stay sorted and a plan looks at no more of them than there are devices to give.
 * srtf and las plan again at every epoch end while somebody waits: that is when the order of
 * running jobs moves.
 */
#include "simulate/world_priv.h"

enum kind { FIFO, SRTF, LAS, PACK };
/* LAS_SECOND_QUEUE is added to the arrival and exceeds every arrival, so the second queue comes
 * last. */
static const double LAS_SECONDS = 7200, LAS_SECOND_QUEUE = 1e13, PAIR_GUESS = 0.62;

struct reference {
    struct world *w;
    enum kind kind;
    VEC(uint32_t) waiting; /* by key, then by number */
    VEC(uint32_t) order;   /* the running by key, scratch of a plan */
    VEC(uint32_t) plan;    /* the waiting that are to start, best first */
    bool *known;           /* was this rate measured?  As the rates of the table */
    bool due;              /* something happened that calls for a plan */
};

/* ---- who comes first ---- */
/* Seconds left alone: the estimate until an epoch was measured, then exact. */
static double time_left(const struct world *w, uint32_t job)
{
    const struct actor *a = &w->actors[job];
    double steps_left = (a->epochs - a->done) * a->epoch_steps;

    if (a->running) {
        double up = MAX(0, w->now_s - MAX(a->since_s, a->ready_s)) * a->rate;
        steps_left -= a->epoch_steps - a->epoch_left + up;
    }
    if (a->first.known)
        return steps_left / world_rate(w, job, world_job(w, job)->gpus, NULL, 0);
    return a->guess_s * steps_left / world_job(w, job)->steps;
}

/* The smaller key comes first.  Only srtf and las have keys that move while a job runs. */
static double reference_key(const struct reference *r, uint32_t job)
{
    const struct actor *a = &r->w->actors[job];
    double arrival = world_job(r->w, job)->arrival_s;

    switch (r->kind) {
    case SRTF:
        return time_left(r->w, job);
    case LAS: {
        double held = a->attained_s + (a->running ? (r->w->now_s - a->since_s) * a->n : 0);
        return arrival + (held < LAS_SECONDS ? 0 : LAS_SECOND_QUEUE);
    }
    default:
        return arrival;
    }
}

static bool comes_before(const struct actor *all, uint32_t a, uint32_t b)
{
    return all[a].key != all[b].key ? all[a].key < all[b].key : a < b;
}

/* Where the job stands, or would stand, among the waiting. */
static size_t waiting_place(const struct reference *r, uint32_t job)
{
    size_t lo = 0, hi = r->waiting.n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (comes_before(r->w->actors, r->waiting.p[mid], job))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Fixes the key and inserts at the place of the key. */
static void wait_in_line(struct reference *r, uint32_t job)
{
    r->w->actors[job].key = reference_key(r, job);
    size_t at = waiting_place(r, job);
    vec_push(&r->waiting, job);
    memmove(r->waiting.p + at + 1, r->waiting.p + at,
            (r->waiting.n - 1 - at) * sizeof(*r->waiting.p));
    r->waiting.p[at] = job;
}

static void leave_line(struct reference *r, uint32_t job)
{
    size_t at = waiting_place(r, job);

    ASSERT(r->waiting.p[at] == job);
    vec_remove(&r->waiting, at);
}

static void reference_start(struct reference *r, uint32_t job, const struct gpu_set *devices)
{
    leave_line(r, job);
    world_start(r->w, job, devices);
}

/* ---- fifo, srtf, las ---- */
static int reference_by_key(const void *a, const void *b, void *arg)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return comes_before(arg, x, y) ? -1 : x != y;
}

/* The running by their keys of now. */
static void sort_running(struct reference *r)
{
    struct world *w = r->w;

    vec_clear(&r->order);
    for (size_t i = 0; i < w->running.n; i++) {
        uint32_t job = w->running.p[i];
        w->actors[job].key = reference_key(r, job);
        vec_push(&r->order, job);
    }
    if (r->order.n)
        qsort_r(r->order.p, r->order.n, sizeof(*r->order.p), reference_by_key, w->actors);
}

/* Goes down running and waiting together, in order, while devices are left. */
static void plan_by_key(struct reference *r)
{
    struct world *w = r->w;
    int32_t left = w->conf->gpus;
    size_t i = 0, k = 0;

    sort_running(r);
    vec_clear(&r->plan);
    /* All running jobs are looked at, to set or clear their stop flags; of the waiting only as
     * many as there are devices. */
    while (i < r->order.n || (k < r->waiting.n && left > 0)) {
        bool waits = i == r->order.n || (k < r->waiting.n && left > 0 &&
                                         comes_before(w->actors, r->waiting.p[k], r->order.p[i]));
        uint32_t job = waits ? r->waiting.p[k++] : r->order.p[i++];
        bool fits = world_job(w, job)->gpus <= left;
        left -= fits ? world_job(w, job)->gpus : 0;
        if (waits && fits)
            vec_push(&r->plan, job);
        else if (!waits)
            w->actors[job].stop = !fits;
    }
}

static void plan_fifo(struct reference *r)
{
    int32_t left = r->w->n_free;

    vec_clear(&r->plan);
    for (size_t k = 0; k < r->waiting.n; k++) {
        int32_t n = world_job(r->w, r->waiting.p[k])->gpus;
        if (n > left)
            return;
        left -= n;
        vec_push(&r->plan, r->waiting.p[k]);
    }
}

/* Those of the plan for which there is room now; the others keep their place in it. */
static void reference_apply(struct reference *r)
{
    struct world *w = r->w;
    size_t kept = 0;

    for (size_t i = 0; i < r->plan.n; i++) {
        uint32_t job = r->plan.p[i];
        int32_t n = world_job(w, job)->gpus;
        struct gpu_set devices;
        if (n > w->n_free) {
            r->plan.p[kept++] = job;
            continue;
        }
        world_free_devices(w, n, &devices);
        reference_start(r, job, &devices);
    }
    r->plan.n = kept;
}

/* ---- pack ---- */
static size_t rate_index(const struct world *w, uint32_t job, int32_t other)
{
    const struct sim_table *t = w->conf->table;
    const struct sim_job *j = world_job(w, job);
    size_t c = 0;

    while (t->counts[c] != j->gpus)
        c++;
    return ((size_t)j->type * (size_t)t->n_counts + c) * (t->types.n + 1) + (size_t)(other + 1);
}

/* Speed next to the other, against alone, as far as anybody measured it. */
static double expected_speed(const struct reference *r, uint32_t job, uint32_t other)
{
    const struct world *w = r->w;
    const struct actor *a = &w->actors[job];
    int32_t n = world_job(w, job)->gpus;
    double base = 0;

    if (!w->conf->table)
        return PAIR_GUESS;
    bool alone = r->known[rate_index(w, job, SIM_ALONE)];
    if (alone)
        base = world_rate(w, job, n, NULL, 0);
    else if (a->first.known)
        base = a->first.rate / (a->first.paired ? PAIR_GUESS : 1);
    if (base > 0 && r->known[rate_index(w, job, world_job(w, other)->type)])
        return world_rate(w, job, n, &other, 1) / base;
    /* Written out: sums of such guesses tie, and their last bit decides as in the reference. */
    return alone ? PAIR_GUESS * world_rate(w, job, n, NULL, 0) / base : PAIR_GUESS;
}

/* Ties go to the job that started first, so the choice does not depend on the order of
 * `running`. */
static bool best_mate(const struct reference *r, uint32_t job, uint32_t *out)
{
    const struct world *w = r->w;
    double best = -1;

    for (size_t i = 0; i < w->running.n; i++) {
        uint32_t other = w->running.p[i];
        const struct actor *a = &w->actors[other];
        if (a->n_mates || a->n != world_job(w, job)->gpus || !world_fits(w, job, other, a->n))
            continue;
        double sum = expected_speed(r, job, other) + expected_speed(r, other, job);
        if (sum > best || (sum == best && a->started_seq < w->actors[*out].started_seq)) {
            best = sum;
            *out = other;
        }
    }
    return best >= 0;
}

static void plan_pack(struct reference *r)
{
    struct world *w = r->w;

    for (size_t k = 0; k < r->waiting.n;) {
        uint32_t job = r->waiting.p[k], mate = 0;
        struct gpu_set devices;
        if (world_job(w, job)->gpus <= w->n_free)
            world_free_devices(w, world_job(w, job)->gpus, &devices);
        else if (best_mate(r, job, &mate))
            devices = w->actors[mate].devices;
        else {
            k++;
            continue;
        }
        reference_start(r, job, &devices);
    }
}

/* ---- what the world tells ---- */
static void *open_kind(struct world *w, enum kind kind)
{
    struct reference *r = xcalloc(1, sizeof(*r));
    const struct sim_table *t = w->conf->table;

    r->w = w;
    r->kind = kind;
    if (t)
        r->known = xcalloc(t->types.n * (size_t)t->n_counts * (t->types.n + 1), sizeof(bool));
    return r;
}

static void close_reference(void *self)
{
    struct reference *r = self;

    vec_done(&r->waiting);
    vec_done(&r->order);
    vec_done(&r->plan);
    free(r->known);
    free(r);
}

static int reference_arrived(void *self, uint32_t job, struct err *e UNUSED)
{
    struct reference *r = self;

    wait_in_line(r, job);
    r->due = true;
    return 0;
}

static void reference_epoch(void *self, uint32_t job, double epoch_s UNUSED)
{
    struct reference *r = self;
    struct actor *a = &r->w->actors[job];

    if (r->w->conf->table)
        r->known[rate_index(r->w, job,
                            a->n_mates ? world_job(r->w, a->mates[0])->type : SIM_ALONE)] = true;
    if (!a->first.known) {
        a->first.known = true;
        a->first.rate = a->rate;
        a->first.paired = a->n_mates > 0;
    }
    r->due |= (r->kind == SRTF || r->kind == LAS) && r->waiting.n && !a->stop;
}

static void reference_halted(void *self, uint32_t job)
{
    wait_in_line(self, job);
}

static void reference_finished(void *self, uint32_t job UNUSED)
{
    ((struct reference *)self)->due = true;
}

static int reference_turn(void *self, struct err *e UNUSED)
{
    struct reference *r = self;

    if (r->due && (r->waiting.n || r->kind == SRTF || r->kind == LAS)) {
        double since = world_timer(r->w);
        if (r->kind == PACK)
            plan_pack(r);
        else if (r->kind == FIFO)
            plan_fifo(r);
        else
            plan_by_key(r);
        world_planned(r->w, since);
    }
    r->due = false;
    reference_apply(r);
    return 0;
}

#define REFERENCE(name, kind)                                                                      \
    static void *open_##name(struct world *w, struct err *e UNUSED)                                \
    {                                                                                              \
        return open_kind(w, kind);                                                                 \
    }                                                                                              \
    const struct policy policy_##name = {                                                          \
        open_##name,      close_reference,    reference_arrived, reference_epoch,                  \
        reference_halted, reference_finished, reference_turn,    NULL}
REFERENCE(fifo, FIFO);
REFERENCE(srtf, SRTF);
REFERENCE(las, LAS);
REFERENCE(pack, PACK);
