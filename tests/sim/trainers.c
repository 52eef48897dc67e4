/* trainers.c - jobs that train, as they behave: ranks in step, epochs reported, stops obeyed
 *
 * Each rank asks whether to stop, computes an epoch together with the others, reports it and waits
 * for the acknowledgement.  Requests and answers get lost and are repeated, as the library does.
 * What was acknowledged to any rank must never be computed again, and no rank may stop while
 * another goes on: it would wait for ever.
 */
#include "sim/sim.h"
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

void trainer_begin(struct world *w, struct exec *x)
{
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
    bool known = false, stop = w->core && core_has_to_stop(w->core, x->key.job, &known);

    if (!known || lost(w))
        return; /* it asks again */
    if (x->said[r->epoch] >= 0 && x->said[r->epoch] != stop)
        blame(w, "two ranks were told different things in one epoch", x->key.job);
    x->said[r->epoch] = stop;
    r->state = stop && r->epoch < x->epochs - 1 ? RANK_STOPPED : RANK_COMPUTES;
}

/* ---- computing ---- */

/* An epoch ends for all at once: nobody gets through while another has not begun it. */
static void compute(struct world *w, struct exec *x, struct rank *r)
{
    for (int i = 0; i < x->n_ranks; i++) {
        const struct rank *o = &x->ranks[i];
        if (o->state == RANK_STOPPED && o->epoch <= r->epoch)
            blame(w, "a rank stopped alone", x->key.job);
        if (o->epoch < r->epoch || (o->epoch == r->epoch && o->state == RANK_ASKS))
            return;
    }
    r->state = RANK_REPORTS;
}

/* ---- reporting ---- */

struct report {
    struct world *w;
    struct run_key key;
    int rank;
    int32_t epoch;
};

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
            r->state = r->epoch == x->epochs ? RANK_FINISHED : RANK_ASKS;
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
    world_finish(w, i, RUN_END_EXITED, 0);
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
        maybe_exit(w, i);
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
