/* trouble.c - when the machine cannot: begin, end, and what happens in between
 *
 * Troubles of the job store begin and end with its health.  The others are found by the host or by
 * the start of a run, and the host is asked every second whether they last (core_ops.trouble).
 *
 * Changes that cannot be refused are kept until the store takes them; whoever asked for them is
 * told after a second.
 */
#include "core/trouble.h"
#include "core/core_priv.h"
#include <errno.h>
#include <stdio.h>

enum { PROBE_MS = 1000, ANSWER_MS = 1000 };

/* A request that waits for its commit. */
struct trouble_wait {
    struct trouble_wait *prev, *next;
    struct core *c;
    int64_t since_ms; /* monotonic */
    const char *meanwhile;
    ledger_done_fn fn;
    void *arg;
    bool listed; /* false: it was answered, and only its commit is waited for */
};

static const struct {
    const char *name, *what;
} kinds[TROUBLE_KINDS] = {
#define X(up, low, what) {#low, what},
    TROUBLE_LIST(X)
#undef X
};

const char *trouble_name(enum trouble_kind k)
{
    return kinds[k].name;
}

enum trouble_kind trouble_of_errno(int sys)
{
    switch (sys) {
    case ENOSPC:
    case EDQUOT:
        return TROUBLE_DISK_FULL;
    case EIO:
        return TROUBLE_IO_ERROR;
    case EMFILE:
    case ENFILE:
        return TROUBLE_NO_DESCRIPTORS;
    default:
        return TROUBLE_KINDS;
    }
}

enum err_code trouble_code(enum trouble_kind k)
{
    return k == TROUBLE_DISK_FULL || k == TROUBLE_NO_INODES ? ERR_FULL : ERR_UNAVAILABLE;
}

static enum trouble_kind kind_of(const struct err *e)
{
    enum trouble_kind k = trouble_of_errno(e->sys);

    if (k != TROUBLE_KINDS)
        return k;
    return e->code == ERR_FULL ? TROUBLE_DISK_FULL
           : e->sys == ENOENT  ? TROUBLE_DATABASE_GONE
                               : TROUBLE_DATABASE;
}

__attribute__((format(printf, 2, 3))) static void trouble_notice(struct core *c, const char *fmt,
                                                                 ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (c->conf.ops->notice)
        c->conf.ops->notice(c->conf.self, str_of(text));
    if (c->conf.ops->troubled)
        c->conf.ops->troubled(c->conf.self, str_of(text));
}

void core_trouble_hit(struct core *c, enum trouble_kind k, const char *text)
{
    struct trouble *t = &c->trouble.of[k];

    t->hits++;
    if (t->on)
        return;
    *t = (struct trouble){.on = true, .since_ms = core_mono(c), .hits = t->hits};
    snprintf(t->text, sizeof(t->text), "%s", text[0] ? text : kinds[k].what);
    c->trouble.probe_ms = core_mono(c) + PROBE_MS;
    trouble_notice(c, "%s: %s (nothing starts and submissions are refused until this is over)",
                   kinds[k].name, t->text);
}

static void trouble_end(struct core *c, enum trouble_kind k)
{
    struct trouble *t = &c->trouble.of[k];

    trouble_notice(c, "%s: over after %.1f s; %llu operations had failed", kinds[k].name,
                   (double)(core_mono(c) - t->since_ms) / 1000, (unsigned long long)t->hits);
    *t = (struct trouble){0};
    c->dirty = true;
}

const struct trouble *core_trouble(const struct core *c, enum trouble_kind k)
{
    return &c->trouble.of[k];
}

const struct trouble *core_in_trouble(const struct core *c, enum trouble_kind *out)
{
    for (int k = 0; k < TROUBLE_KINDS; k++)
        if (c->trouble.of[k].on) {
            if (out)
                *out = (enum trouble_kind)k;
            return &c->trouble.of[k];
        }
    return NULL;
}

/* Does the host say that it lasts? */
static bool lasts(const struct core *c, enum trouble_kind k)
{
    return c->conf.ops->trouble && c->conf.ops->trouble(c->conf.self, k);
}

bool trouble_blames(struct core *c, int sys)
{
    enum trouble_kind k = trouble_of_errno(sys);

    if (k == TROUBLE_DISK_FULL && lasts(c, TROUBLE_NO_INODES))
        k = TROUBLE_NO_INODES;
    if (k == TROUBLE_KINDS || !lasts(c, k))
        return false;
    core_trouble_hit(c, k, "");
    return true;
}

/* ---- requests that wait for their commit ---- */

static void wait_unlist(struct trouble_wait *w)
{
    struct core_trouble *t = &w->c->trouble;

    *(w->prev ? &w->prev->next : &t->first) = w->next;
    *(w->next ? &w->next->prev : &t->last) = w->prev;
    w->listed = false;
}

static void on_committed(void *arg, const struct err *e)
{
    struct trouble_wait *w = arg;

    if (w->listed) {
        wait_unlist(w);
        w->fn(w->arg, e);
    }
    free(w);
}

void trouble_barrier(struct core *c, const char *meanwhile, ledger_done_fn fn, void *arg)
{
    struct trouble_wait *w = xmalloc(sizeof(*w)), *last = c->trouble.last;

    *w = (struct trouble_wait){.prev = last,
                               .c = c,
                               .since_ms = core_mono(c),
                               .meanwhile = meanwhile,
                               .fn = fn,
                               .arg = arg,
                               .listed = true};
    *(last ? &last->next : &c->trouble.first) = w;
    c->trouble.last = w;
    core_barrier(c, on_committed, w);
}

/* The store takes no changes because of k. */
static void answer_waiting(struct core *c, enum trouble_kind k)
{
    int64_t before_ms = core_mono(c) - ANSWER_MS;

    while (c->trouble.first && c->trouble.first->since_ms <= before_ms) {
        struct trouble_wait *w = c->trouble.first;
        struct err e = {0};
        err_set(&e, trouble_code(k), "%s (%s)", kinds[k].what, w->meanwhile);
        wait_unlist(w);
        w->fn(w->arg, &e);
    }
}

bool trouble_turn(struct core *c)
{
    struct ledger *led = &c->conf.ledger;
    bool healthy = led->healthy(led->self);
    enum trouble_kind store = TROUBLE_KINDS;

    if (!healthy) {
        struct err e = led->trouble ? led->trouble(led->self) : (struct err){.code = ERR_FULL};
        store = kind_of(&e);
        if (!c->trouble.of[store].on) {
            core_trouble_hit(c, store, e.text);
            c->trouble.of[store].hits--; /* the submissions that were refused count themselves */
        }
        answer_waiting(c, store);
    }
    if (!core_in_trouble(c, NULL))
        return false;
    bool probe = core_mono(c) >= c->trouble.probe_ms;
    for (int k = 0; k < TROUBLE_KINDS; k++) {
        bool of_store = k == TROUBLE_DATABASE || k == TROUBLE_DATABASE_GONE;
        if (c->trouble.of[k].on && k != (int)store &&
            (of_store || probe || !c->conf.ops->trouble) && !lasts(c, (enum trouble_kind)k))
            trouble_end(c, (enum trouble_kind)k);
    }
    if (probe)
        c->trouble.probe_ms = core_mono(c) + PROBE_MS;
    return core_in_trouble(c, NULL) != NULL;
}

int64_t trouble_next_wake(const struct core *c)
{
    const struct trouble_wait *w = c->trouble.first;

    if (!core_in_trouble(c, NULL))
        return -1;
    return w ? MIN(c->trouble.probe_ms, w->since_ms + ANSWER_MS) : c->trouble.probe_ms;
}
