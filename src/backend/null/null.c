/* null.c - the smallest backend: accepts every run and ends it at once with success
 *
 * Executes nothing and keeps nothing on disk.  It is the starting point for a backend that hands
 * runs to another queueing system (submit in start, cancel in stop, look up in adopt), and the
 * contract test runs against it as against the others, so that backend.h is known to need no edit
 * in another room.  No URL names this class: a user's job must never succeed without running.
 */
#include "backend/backend.h"
#include "base/clock.h"
#include "base/util.h"
#include "base/vec.h"
#include "io/loop.h"
#include <stdio.h>

/* A run is PENDING until the timer reports it, then REPORTED until core has stored the outcome. */
enum null_state { NULL_PENDING, NULL_REPORTED };
struct null_run {
    struct run_key key;
    enum null_state state;
    bool unknown;   /* adopted, but never started here: absent() is due */
    bool cancelled; /* stopped before it was reported */
};
struct backend {
    const struct backend_events *ev;
    void *owner;
    struct timer *report; /* events must not be called from within a call of the class */
    struct node node;
    VEC(struct null_run) runs;
};

static struct null_run *null_find(struct backend *b, struct run_key key)
{
    for (size_t i = 0; i < b->runs.n; i++)
        if (b->runs.p[i].key.job == key.job && b->runs.p[i].key.run == key.run)
            return &b->runs.p[i];
    return NULL;
}

/* Also settled(): the outcome is durable, so the run may be forgotten. */
static void null_forget(struct backend *b, struct run_key key)
{
    struct null_run *r = null_find(b, key);

    if (!r)
        return;
    size_t at = (size_t)(r - b->runs.p);
    memmove(r, r + 1, (b->runs.n - at - 1) * sizeof(*r));
    b->runs.n--;
}

static void null_report_one(struct backend *b, struct null_run r)
{
    const int64_t now = clock_wall(&clock_system);
    const struct run_outcome o = {.why = r.cancelled ? RUN_END_CANCELLED : RUN_END_EXITED,
                                  .started_ms = now,
                                  .ended_ms = now};

    if (r.unknown) {
        null_forget(b, r.key); /* absent: core may start the same key again */
        b->ev->absent(b->owner, r.key);
        return;
    }
    if (!r.cancelled)
        b->ev->started(b->owner, r.key, 0, 0, now);
    b->ev->ended(b->owner, r.key, &o, STR(""));
}

/* Every event can call start, stop, adopt or settled and thereby move the list, so each round looks
 * for the first pending run anew and works with a copy.  Runs are reported in the order in which
 * they came, which also satisfies run_start.after. */
static void null_report(void *arg)
{
    struct backend *b = arg;

    for (size_t i = 0; i < b->runs.n;) {
        if (b->runs.p[i].state == NULL_REPORTED) {
            i++;
            continue;
        }
        b->runs.p[i].state = NULL_REPORTED;
        null_report_one(b, b->runs.p[i]);
        i = 0;
    }
}

static int null_open(struct backend **out, const char *home, const struct json *conf,
                     struct loop *l, const struct backend_events *ev, void *owner, struct err *e)
{
    struct backend *b = xcalloc(1, sizeof(*b));

    (void)home;
    (void)conf;
    (void)e;
    b->ev = ev;
    b->owner = owner;
    b->report = timer_new(l, null_report, b);
    b->node = (struct node){.slots = 1, .mcpu = 1000, .mem_bytes = INT64_C(1) << 30};
    snprintf(b->node.name, sizeof(b->node.name), "null");
    *out = b;
    return 0;
}

static void null_close(struct backend *b)
{
    timer_free(b->report);
    vec_done(&b->runs);
    free(b);
}

static const struct node *null_node(struct backend *b)
{
    return &b->node;
}

/* No journal file exists; one generation for ever. */
static uint32_t null_journal(struct backend *b)
{
    (void)b;
    return 1;
}

static int null_start(struct backend *b, const struct run_start *r, struct err *e)
{
    (void)e;
    if (!null_find(b, r->key)) /* a second start of the same key does nothing */
        vec_push(&b->runs, ((struct null_run){.key = r->key}));
    timer_start(b->report, 0, 0);
    return 0;
}

/* A run that was reported has ended already; a stop then does nothing. */
static void null_stop(struct backend *b, struct run_key key, int64_t grace_ms)
{
    struct null_run *r = null_find(b, key);

    (void)grace_ms;
    if (r && r->state == NULL_PENDING)
        r->cancelled = true;
}

/* No run is ever running between two events, so no signal has a receiver. */
static void null_signal(struct backend *b, struct run_key key, int signo)
{
    (void)b;
    (void)key;
    (void)signo;
}

static void null_adopt(struct backend *b, const struct run_belief *runs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!null_find(b, runs[i].key))
            vec_push(&b->runs, ((struct null_run){.key = runs[i].key, .unknown = true}));
    timer_start(b->report, 0, 0);
}

const struct backend_class backend_null = {
    .name = "null",
    .open = null_open,
    .close = null_close,
    .node = null_node,
    .journal = null_journal,
    .start = null_start,
    .stop = null_stop,
    .signal = null_signal,
    .adopt = null_adopt,
    .settled = null_forget,
};
