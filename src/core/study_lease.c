/* study_lease.c - trials whose clients vanish
 *
 * A client may ask for trials under a lease: it then gives a sign of life within so many seconds, a
 * report or a renewal.  A trial whose lease has ended waits, and the next client that asks gets it
 * with the same parameters.  Each handing out has a number, its hold; a client that comes back too
 * late names an old one and is refused, so that a trial has one result.  As long as nobody has
 * taken the trial over, the late client may still renew it or tell its result.
 *
 * The engine does not learn of any of this: the trial stays in flight.  Only a trial that was lost
 * HOLDS_MAX times is told as failed, since it may be what ends its clients.
 */
#include "core/study_priv.h"

enum { HOLDS_MAX = 4 };

void studies_look_at(struct core *c, int64_t at_ms)
{
    if (c->studies.look_ms < 0 || at_ms < c->studies.look_ms)
        c->studies.look_ms = at_ms;
}

static struct study_lease *lease_of(const struct study *s, uint64_t number)
{
    for (size_t i = 0; i < s->leases.n; i++)
        if (s->leases.p[i].number == number)
            return &s->leases.p[i];
    return NULL;
}

static void lease_count(struct core *c, struct study *s, uint64_t number)
{
    int64_t until = core_mono(c) + (int64_t)s->trials.p[number - 1].lease_s * 1000;
    struct study_lease *l = lease_of(s, number);

    if (l)
        l->until_ms = until;
    else
        vec_push(&s->leases, ((struct study_lease){number, until}));
    studies_look_at(c, until);
}

void study_lease_begin(struct core *c, struct study *s, uint64_t number, int32_t lease_s)
{
    struct study_trial *t = &s->trials.p[number - 1];

    t->lease_s = lease_s;
    t->hold += lease_s || t->hold;
    if (lease_s)
        lease_count(c, s, number);
}

void study_lease_end(struct study *s, uint64_t number)
{
    for (size_t i = 0; i < s->leases.n; i++)
        if (s->leases.p[i].number == number) {
            vec_remove(&s->leases, i);
            return;
        }
}

void study_leases_restored(struct core *c, struct study *s)
{
    for (uint64_t n = 1; s->engine && n <= s->trials.n; n++)
        if (s->trials.p[n - 1].state == TRIAL_RUNNING && s->trials.p[n - 1].lease_s)
            lease_count(c, s, n);
}

bool study_holds(const struct study *s, uint64_t number, uint32_t hold)
{
    const struct study_trial *t = &s->trials.p[number - 1];

    return hold ? hold == t->hold : t->hold <= 1; /* one that was never lost needs no name */
}

/* It waits for the next client, or for its turn to be told as failed. */
static void lease_lost(struct core *c, struct study *s, uint64_t number)
{
    struct study_trial *t = &s->trials.p[number - 1];

    if (t->hold >= HOLDS_MAX) {
        struct study_call *x = xcalloc(1, sizeof(*x));
        *x = (struct study_call){.kind = CALL_VANISHED, .number = number};
        vec_push(&s->calls, x);
        return;
    }
    s->counts[t->state]--;
    t->state = TRIAL_WAITING;
    s->counts[t->state]++;
    struct trial_row row = study_trial_row(s, number);
    core_stage(c, &(struct change){.kind = CHANGE_TRIAL, .at_ms = core_wall(c), .trial.row = row});
}

int64_t study_leases_look(struct core *c, struct study *s, int64_t now)
{
    int64_t next = -1;

    for (size_t i = 0; i < s->leases.n;) {
        struct study_lease l = s->leases.p[i];
        if (l.until_ms > now) {
            next = next < 0 ? l.until_ms : MIN(next, l.until_ms);
            i++;
            continue;
        }
        vec_remove(&s->leases, i);
        lease_lost(c, s, l.number);
    }
    if (s->calls.n)
        study_go_on(c, s);
    return next;
}

void study_vanished_result(struct core *c, struct study *s, uint64_t number)
{
    const struct study_trial *t = &s->trials.p[number - 1];
    struct err e = {0};

    if (t->state != TRIAL_RUNNING || lease_of(s, number))
        return; /* its client has come back meanwhile */
    err_set(&e, ERR_INVALID, "%u clients had this trial and vanished, the last for %d s", t->hold,
            t->lease_s);
    study_result_tell(
        c, s,
        &(struct study_result){.number = number, .state = TRIAL_FAILED, .reason = str_of(e.text)});
}

/* A trial that waits is its client's again. */
static void lease_back(struct core *c, struct study *s, uint64_t number)
{
    struct study_trial *t = &s->trials.p[number - 1];

    lease_count(c, s, number);
    if (t->state != TRIAL_WAITING)
        return;
    s->counts[t->state]--;
    t->state = TRIAL_RUNNING;
    s->counts[t->state]++;
    struct trial_row row = study_trial_row(s, number);
    core_stage(c, &(struct change){.kind = CHANGE_TRIAL, .at_ms = core_wall(c), .trial.row = row});
}

int core_study_renew(struct core *c, uint64_t seq, const struct study_holding *held, size_t n,
                     const struct caller *who, bool *out_lost, struct err *e)
{
    struct study *s = study_of_caller(c, seq, who, e);

    if (!s || study_wake_now(c, s, e) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (held[i].number < 1 || held[i].number > s->trials.n)
            return err_set(e, ERR_NOT_FOUND, "there is no trial %llu; the last one is %zu",
                           (unsigned long long)held[i].number, s->trials.n);
    for (size_t i = 0; i < n; i++) {
        const struct study_trial *t = &s->trials.p[held[i].number - 1];
        bool open = t->state == TRIAL_RUNNING || (t->state == TRIAL_WAITING && t->hold);
        out_lost[i] = !open || !study_holds(s, held[i].number, held[i].hold);
        if (!out_lost[i] && t->lease_s)
            lease_back(c, s, held[i].number);
    }
    return 0;
}
