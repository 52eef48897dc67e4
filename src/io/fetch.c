/* fetch.c - the life of a fetch: begin, limits, pause, end
 *
 * Owns: fetchers, fetches and their timers.  The bytes travel in fetch_unix.c and fetch_curl.c.
 *
 * Callbacks of the owner may do anything, also free the fetcher, while llhttp or libcurl are in the
 * middle of an answer.  So what would pull the ground away from under them waits in the list `todo`
 * for the kick timer: begin, resume, and the memory of cancelled fetches.
 */
#include "io/fetch.h"
#include "base/util.h"
#include "io/fetch_priv.h"

enum { CONNECT_MS = 10000 };
static const size_t COLLECT_BYTES = (size_t)64 << 20;

/* ---- todo ---- */

static struct fetch_list *fetch_list_of(struct fetch *x)
{
    return x->in_todo ? &x->owner->todo : &x->owner->live;
}

static void fetch_move(struct fetch *x, bool to_todo)
{
    TAILQ_REMOVE(fetch_list_of(x), x, entry);
    x->in_todo = to_todo;
    TAILQ_INSERT_TAIL(fetch_list_of(x), x, entry);
    if (to_todo)
        fetcher_kick(x->owner, 0);
}

static void fetch_free(struct fetch *x)
{
    if (!x->ended) {
        x->owner->over->end(x, false);
        TAILQ_REMOVE(fetch_list_of(x), x, entry);
    }
    timer_free(x->timer);
    http_response_done(&x->answer);
    free(x);
}

void fetcher_kick(struct fetcher *f, int64_t after_ms)
{
    timer_start(f->kick, after_ms, 0);
}

/* What callbacks add to the list meanwhile starts the timer again; nothing but this function takes
 * a fetch out of it while callbacks run, so `next` stays valid. */
static void fetcher_on_kick(void *arg)
{
    struct fetcher *f = arg;

    fetcher_enter(f);
    for (struct fetch *x = TAILQ_FIRST(&f->todo), *next; x; x = next) {
        struct err e = {0};
        next = TAILQ_NEXT(x, entry);
        if (x->cancelled) {
            fetch_free(x);
            continue;
        }
        int rc = x->begun ? 0 : f->over->begin(x, &e);
        if (rc > 0)
            continue;
        fetch_move(x, false);
        if (rc < 0)
            fetch_finish(x, &e);
        else if (x->begun && !x->paused)
            f->over->resume(x);
        else
            x->begun = true;
    }
    fetcher_leave(f);
}

/* ---- fetchers ---- */

static const struct fetch_transport *transport_of(const char *target)
{
    return strncmp(target, "unix:", 5) == 0 ? &fetch_over_unix : &fetch_over_curl;
}

struct fetcher *fetcher_new(struct loop *l, const char *target, const char *token,
                            const char *ca_file)
{
    struct fetcher *f = xcalloc(1, sizeof(*f));

    f->loop = l;
    f->over = transport_of(target);
    f->target = xstrdup(target);
    f->token = xstrdup(token);
    f->ca_file = xstrdup(ca_file);
    TAILQ_INIT(&f->todo);
    TAILQ_INIT(&f->live);
    f->kick = timer_new(l, fetcher_on_kick, f);
    return f;
}

static void fetcher_destroy(struct fetcher *f)
{
    struct fetch *x;

    while ((x = TAILQ_FIRST(&f->todo)) || (x = TAILQ_FIRST(&f->live)))
        fetch_free(x);
    f->over->close(f);
    timer_free(f->kick);
    free(f->target);
    free(f->token);
    free(f->ca_file);
    free(f);
}

void fetcher_free(struct fetcher *f)
{
    struct fetch *x;

    if (!f)
        return;
    f->freed = true;
    TAILQ_FOREACH (x, &f->live, entry)
        x->cancelled = true;
    TAILQ_FOREACH (x, &f->todo, entry)
        x->cancelled = true;
    if (!f->inside)
        fetcher_destroy(f);
}

void fetcher_enter(struct fetcher *f)
{
    f->inside++;
}

void fetcher_leave(struct fetcher *f)
{
    if (--f->inside == 0 && f->freed)
        fetcher_destroy(f);
}

/* ---- time limits ---- */

/* The end of the limit that runs out first, 0 when none runs. */
static int64_t fetch_deadline(const struct fetch *x)
{
    int64_t total = x->limits.total_ms ? x->started_ms + x->limits.total_ms : 0;
    int64_t idle = x->limits.idle_ms && !x->paused ? x->heard_ms + x->limits.idle_ms : 0;

    return total && idle ? MIN(total, idle) : total + idle;
}

/* heard_ms moves with every piece, the timer does not: here is where it catches up. */
static void fetch_on_timer(void *arg)
{
    struct fetch *x = arg;
    struct fetcher *f = x->owner;
    int64_t end = fetch_deadline(x), left = end - loop_mono_ms(f->loop);
    struct err e = {0};

    if (x->cancelled || !end)
        return;
    /* A loop that was busy for long must not mistake its own delay for the server's: it looks once
     * for bytes that are there already. */
    if (left > 0 || !x->looked) {
        x->looked = left <= 0;
        timer_start(x->timer, MAX(left, 1), 0);
        return;
    }
    bool total = x->limits.total_ms && end == x->started_ms + x->limits.total_ms;
    err_set(&e, ERR_UNAVAILABLE,
            total ? "the request to %s was not answered within %lld ms"
                  : "%s sent nothing for %lld ms",
            f->target, (long long)(total ? x->limits.total_ms : x->limits.idle_ms));
    fetcher_enter(f);
    fetch_finish(x, &e);
    fetcher_leave(f);
}

/* ---- fetches ---- */

static struct fetch *fetch_new(struct fetcher *f, const struct http_request *q,
                               const struct fetch_limits *lim, void *arg)
{
    struct fetch *x = xcalloc(1, sizeof(*x));
    struct http_request full = *q;

    ASSERT(!f->freed);
    x->owner = f;
    x->arg = arg;
    if (lim)
        x->limits = *lim;
    if (!x->limits.connect_ms)
        x->limits.connect_ms = CONNECT_MS;
    x->started_ms = x->heard_ms = loop_mono_ms(f->loop);
    if (fetch_deadline(x)) {
        x->timer = timer_new(f->loop, fetch_on_timer, x);
        timer_start(x->timer, fetch_deadline(x) - x->started_ms, 0);
    }
    if (!full.token)
        full.token = f->token;
    f->over->prepare(x, &full);
    x->in_todo = true;
    TAILQ_INSERT_TAIL(&f->todo, x, entry);
    fetcher_kick(f, 0);
    return x;
}

struct fetch *fetch_start(struct fetcher *f, const struct http_request *q,
                          const struct fetch_limits *lim, const struct fetch_fns *fns, void *arg)
{
    struct fetch *x = fetch_new(f, q, lim, arg);

    x->fns = fns;
    return x;
}

struct fetch *fetch_collect(struct fetcher *f, const struct http_request *q,
                            const struct fetch_limits *lim, fetch_collected_fn fn, void *arg)
{
    struct fetch *x = fetch_new(f, q, lim, arg);

    x->collected = fn;
    buf_init(&x->answer.body, x->limits.body_bytes ? x->limits.body_bytes : COLLECT_BYTES);
    return x;
}

void fetch_cancel(struct fetch *x)
{
    if (!x || x->ended || x->cancelled)
        return;
    x->cancelled = true;
    if (!x->owner->inside)
        fetch_free(x);
    else if (!x->in_todo)
        fetch_move(x, true);
}

void fetch_pause(struct fetch *x, bool paused)
{
    if (x->ended || x->cancelled || x->paused == paused)
        return;
    x->paused = paused;
    x->heard_ms = loop_mono_ms(x->owner->loop);
    if (x->timer && fetch_deadline(x))
        timer_start(x->timer, fetch_deadline(x) - x->heard_ms, 0);
    if (!paused && x->begun && !x->in_todo)
        fetch_move(x, true);
    else if (paused && x->begun && x->owner->over->pause)
        x->owner->over->pause(x);
}

/* ---- what comes back ---- */

void fetch_got_head(struct fetch *x, int status)
{
    x->heard_ms = loop_mono_ms(x->owner->loop);
    x->answer.status = status;
    if (!x->cancelled && x->fns && x->fns->head)
        x->fns->head(x->arg, &x->answer);
}

bool fetch_got_piece(struct fetch *x, struct str piece)
{
    x->heard_ms = loop_mono_ms(x->owner->loop);
    if (x->cancelled)
        return false;
    if (x->collected)
        return buf_add(&x->answer.body, piece.p, piece.n);
    if (x->fns->body)
        x->fns->body(x->arg, piece);
    return !x->cancelled;
}

void fetch_begin_again(struct fetch *x)
{
    x->begun = false;
    if (!x->in_todo)
        fetch_move(x, true);
}

void fetch_finish(struct fetch *x, const struct err *why)
{
    struct fetcher *f = x->owner;
    struct err too_long = {0};

    ASSERT(f->inside && !x->cancelled);
    if (x->answer.body.overflow) {
        err_set(&too_long, ERR_LIMIT, "the answer of %s is longer than %zu bytes", f->target,
                x->answer.body.max);
        why = &too_long;
    }
    f->over->end(x, !why);
    TAILQ_REMOVE(fetch_list_of(x), x, entry);
    x->ended = true;
    if (x->collected)
        x->collected(x->arg, why ? NULL : &x->answer, why);
    else
        x->fns->done(x->arg, why);
    fetch_free(x);
}
