/* trainers.c - jobs that train, as they behave: ranks in step, epochs reported, stops obeyed
 *
 * Each rank asks whether to stop, computes an epoch together with the others, reports it and waits
 * for the acknowledgement; then rank 0 saves.  Requests and answers get lost and are repeated, as
 * the library does.  No rank may stop while another goes on: it would wait for ever.
 *
 * Scripts are killed at every point.  A run that is told to go on after n epochs loads the
 * snapshot, whose weights must have seen each of these n; and when all is done each epoch is in
 * them.
 */
#include "sim/sim.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

static void blame(struct world *w, const char *what, uint64_t job)
{
    if (!w->failure[0])
        snprintf(w->failure, sizeof(w->failure), "%s (job %llu)", what, (unsigned long long)job);
}

struct journey *world_journey(struct world *w, uint64_t job)
{
    while (w->journeys.n < job)
        vec_push(&w->journeys, (struct journey){0});
    return &w->journeys.p[job - 1];
}

static bool lost(struct world *w)
{
    return rng_below(w->rng, 8) == 0;
}

static uint32_t epochs_before(int32_t n)
{
    return (UINT32_C(1) << n) - 1;
}

void trainer_begin(struct world *w, struct exec *x)
{
    uint32_t snapshot = world_journey(w, x->key.job)->snapshot;

    if ((snapshot & epochs_before(x->from)) != epochs_before(x->from))
        blame(w, "the counter says more than the weights have seen", x->key.job);
    x->weights = x->from ? snapshot : 0;
    for (int i = 0; i < x->n_ranks; i++)
        x->ranks[i] = (struct rank){x->from < x->epochs ? RANK_ASKS : RANK_FINISHED, x->from};
    for (int i = 0; i < MAX_EPOCHS; i++)
        x->said[i] = -1;
    x->end_at = INT64_MAX;
    if (rng_below(w->rng, 10) == 0) { /* a bug in its script */
        x->end_at = w->now + (int64_t)rng_below(w->rng, 500);
        x->outcome.wait_status = 3 << 8;
    } else {
        x->outcome.wait_status = 0;
    }
}

/* ---- asking ---- */

static void ask(struct world *w, struct exec *x, struct rank *r)
{
    bool first = r == &x->ranks[0], known = false, stop;

    /* The library of old says neither how many nor who; it runs on one device here or there. */
    if (w->core && first)
        core_epoch_begins(w->core, x->key.job, x->n_ranks == 1 && x->key.job % 2 ? -1 : r->epoch);
    stop = w->core && core_has_to_stop(w->core, x->key.job, &known);
    if (!known || lost(w))
        return; /* it asks again */
    if (x->said[r->epoch] >= 0 && x->said[r->epoch] != stop)
        blame(w, "two ranks were told different things in one epoch", x->key.job);
    x->said[r->epoch] = stop;
    r->state = stop && r->epoch < x->epochs - 1 ? RANK_STOPPED : RANK_COMPUTES;
    if (first && w->planted == PLANT_LATE_SAVE && r->state == RANK_COMPUTES)
        r->state = RANK_SAVES;
}

/* ---- saving ---- */

/* Whole or not at all, as a file that is renamed when it is complete. */
static void save_snapshot(struct world *w, struct exec *x, struct rank *r)
{
    world_journey(w, x->key.job)->snapshot = x->weights;
    if (r->epoch == x->epochs)
        r->state = RANK_FINISHED;
    else
        r->state = w->planted == PLANT_LATE_SAVE ? RANK_COMPUTES : RANK_ASKS;
}

/* ---- computing ---- */

/* An epoch ends for all at once: nobody gets through while another has not begun it. */
static void compute(struct world *w, struct exec *x, struct rank *r)
{
    for (int i = 0; i < x->n_ranks; i++) {
        const struct rank *o = &x->ranks[i];
        if (o->state == RANK_STOPPED && o->epoch <= r->epoch)
            blame(w, "a rank stopped alone", x->key.job);
        bool begun = o->state != RANK_ASKS && o->state != RANK_SAVES;
        if (o->epoch < r->epoch || (o->epoch == r->epoch && !begun))
            return;
    }
    r->state = RANK_REPORTS;
    x->weights |= UINT32_C(1) << r->epoch;
}

/* ---- reporting ---- */

struct report {
    struct world *w;
    struct run_key key;
    int rank;
    int32_t epoch;
};

/* Rank 0 saves for all. */
static enum rank_state after_epoch(const struct world *w, const struct exec *x, int rank)
{
    bool over = x->ranks[rank].epoch == x->epochs;

    if (rank == 0 && (over || w->planted != PLANT_LATE_SAVE))
        return RANK_SAVES;
    return over ? RANK_FINISHED : RANK_ASKS;
}

static void on_answer(void *arg, const struct err *e, const struct acted *a)
{
    struct report *p = arg;
    struct exec *x = world_find(p->w, p->key);
    struct rank *r = x && x->live ? &x->ranks[p->rank] : NULL;
    struct journey *j = world_journey(p->w, p->key.job);

    (void)a;
    if (!e)
        j->acked = MAX(j->acked, p->epoch + 1);
    if (r && r->state == RANK_WAITS && r->epoch == p->epoch) {
        if (e || lost(p->w)) {
            r->state = RANK_REPORTS;
        } else {
            r->epoch++;
            r->state = after_epoch(p->w, x, p->rank);
        }
    }
    free(p);
}

static void report(struct world *w, struct exec *x, int rank)
{
    struct rank *r = &x->ranks[rank];
    struct journey *j = world_journey(w, x->key.job);
    struct report *p;

    if (!w->core || lost(w))
        return;
    p = xmalloc(sizeof(*p));
    *p = (struct report){w, x->key, rank, r->epoch};
    r->state = RANK_WAITS;
    j->reported = MAX(j->reported, r->epoch + 1);
    core_epoch_done(w->core, x->key.job, r->epoch + 1, on_answer, p);
}

/* ---- a step ---- */

static void maybe_exit(struct world *w, size_t i)
{
    struct exec *x = &w->execs.p[i];
    int stopped = 0;

    for (int k = 0; k < x->n_ranks; k++) {
        if (x->ranks[k].state < RANK_STOPPED)
            return;
        stopped += x->ranks[k].state == RANK_STOPPED;
    }
    x->made_room = stopped > 0;
    if (x->made_room)
        world_journey(w, x->key.job)->obeyed = x->ranks[0].epoch;
    else if (x->weights != epochs_before(x->epochs))
        blame(w, "the weights have not seen every epoch", x->key.job);
    world_finish(w, i, RUN_END_EXITED, 0);
}

/* The kernel kills it, or its supervisor goes and takes it along. */
static void maybe_kill(struct world *w, size_t i)
{
    struct exec *x = &w->execs.p[i];

    if (!x->live || rng_below(w->rng, 24))
        return;
    w->kills[x->ranks[0].state]++;
    if (rng_below(w->rng, 2))
        world_finish(w, i, RUN_END_EXITED, SIGKILL);
    else
        world_finish(w, i, RUN_END_SUPERVISOR_KILLED, 0);
}

void world_train(struct world *w)
{
    size_t n = 0, pick;

    for (size_t i = 0; i < w->execs.n; i++)
        n += w->execs.p[i].live && w->execs.p[i].epochs;
    if (!n)
        return;
    pick = rng_below(w->rng, n);
    for (size_t i = 0; i < w->execs.n; i++) {
        struct exec *x = &w->execs.p[i];
        if (!x->live || !x->epochs || pick-- > 0)
            continue;
        int k = (int)rng_below(w->rng, (uint64_t)x->n_ranks);
        struct rank *r = &x->ranks[k];
        if (r->state == RANK_ASKS)
            ask(w, x, r);
        else if (r->state == RANK_COMPUTES)
            compute(w, x, r);
        else if (r->state == RANK_REPORTS)
            report(w, x, k);
        else if (r->state == RANK_SAVES)
            save_snapshot(w, x, r);
        maybe_exit(w, i);
        maybe_kill(w, i);
        return;
    }
}

/* ---- signals ---- */

/* It saves and ends, or it does not listen. */
void trainer_signal(struct world *w, struct exec *x)
{
    if (!x->live || !x->checkpoint || rng_below(w->rng, 3) == 0)
        return;
    while (w->saved.n <= (size_t)x->checkpoint)
        vec_push(&w->saved, 0);
    w->saved.p[x->checkpoint] = w->now;
    x->made_room = true;
    x->end_at = w->now + (int64_t)rng_below(w->rng, 30);
    x->outcome = (struct run_outcome){.why = RUN_END_EXITED, .started_ms = x->outcome.started_ms};
}

int64_t world_file_time(void *self, const char *path)
{
    struct world *w = self;
    int64_t n;

    if (!str_to_i64(str_of(path + strlen("/ckpt/")), &n) || (size_t)n >= w->saved.n)
        return -1;
    return w->saved.p[n] ? w->saved.p[n] + SIM_EPOCH_MS : -1;
}
