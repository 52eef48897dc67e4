/* handles.c - timers, descriptors, signals and worker threads of a loop
 *
 * Every handle is a heap struct with the libuv handle as its first member; freeing one closes the
 * handle and releases the memory in the close callback, one turn later.  No callback follows a
 * free.
 */
#include "base/util.h"
#include "io/loop_priv.h"

static void handle_on_closed(uv_handle_t *h)
{
    free(h);
}

/* ---- timers ---- */

struct timer {
    uv_timer_t uv;
    loop_fn fn;
    void *arg;
};

static void handle_on_timer(uv_timer_t *h)
{
    const struct timer *t = (const struct timer *)h;

    loop_call(t->fn, t->arg, "timer");
}

struct timer *timer_new(struct loop *l, loop_fn fn, void *arg)
{
    struct timer *t = xcalloc(1, sizeof(*t));

    uv_timer_init(loop_uv(l), &t->uv);
    t->fn = fn;
    t->arg = arg;
    return t;
}

void timer_start(struct timer *t, int64_t after_ms, int64_t repeat_ms)
{
    uv_timer_start(&t->uv, handle_on_timer, (uint64_t)MAX(after_ms, 0),
                   (uint64_t)MAX(repeat_ms, 0));
}

void timer_stop(struct timer *t)
{
    uv_timer_stop(&t->uv);
}

void timer_free(struct timer *t)
{
    if (t)
        uv_close((uv_handle_t *)&t->uv, handle_on_closed);
}

/* ---- descriptors ---- */

struct watch {
    uv_poll_t uv;
    watch_fn fn;
    void *arg;
};

static void handle_on_poll(uv_poll_t *h, int status, int events)
{
    struct watch *w = (struct watch *)h;
    watch_fn fn = w->fn;
    uint64_t t0 = uv_hrtime();

    fn(w->arg, (events & UV_READABLE ? WATCH_READ : 0) | (events & UV_WRITABLE ? WATCH_WRITE : 0),
       MIN(status, 0));
    loop_timed(t0, "watch", fn);
}

struct watch *watch_new(struct loop *l, int fd, watch_fn fn, void *arg)
{
    struct watch *w = xcalloc(1, sizeof(*w));

    if (uv_poll_init(loop_uv(l), &w->uv, fd) < 0) {
        free(w);
        return NULL;
    }
    w->fn = fn;
    w->arg = arg;
    return w;
}

void watch_start(struct watch *w, int events)
{
    int uv_events =
        (events & WATCH_READ ? UV_READABLE : 0) | (events & WATCH_WRITE ? UV_WRITABLE : 0);

    uv_poll_start(&w->uv, uv_events, handle_on_poll);
}

void watch_stop(struct watch *w)
{
    uv_poll_stop(&w->uv);
}

void watch_free(struct watch *w)
{
    if (!w)
        return;
    /* uv_poll_stop takes the descriptor out of the epoll set at once.  Closing it would not be
     * enough: a child between vfork and exec holds a copy, and the entry would stay armed. */
    uv_poll_stop(&w->uv);
    uv_close((uv_handle_t *)&w->uv, handle_on_closed);
}

/* ---- signals ---- */

struct signal_watch {
    uv_signal_t uv;
    loop_fn fn;
    void *arg;
};

static void handle_on_signal(uv_signal_t *h, int signo UNUSED)
{
    const struct signal_watch *s = (const struct signal_watch *)h;

    loop_call(s->fn, s->arg, "signal");
}

struct signal_watch *signal_watch_new(struct loop *l, int signo, loop_fn fn, void *arg)
{
    struct signal_watch *s = xcalloc(1, sizeof(*s));

    uv_signal_init(loop_uv(l), &s->uv);
    s->fn = fn;
    s->arg = arg;
    ASSERT(uv_signal_start(&s->uv, handle_on_signal, signo) == 0);
    uv_unref((uv_handle_t *)&s->uv); /* waiting for a signal alone keeps no loop running */
    return s;
}

void signal_watch_free(struct signal_watch *s)
{
    if (s)
        uv_close((uv_handle_t *)&s->uv, handle_on_closed);
}

/* ---- worker threads ---- */

/* One job for a worker thread.  The loop thread makes and frees it. */
struct work {
    uv_work_t uv;
    loop_fn run, done;
    void *arg;
};

static void on_work(uv_work_t *h)
{
    struct work *w = (struct work *)h;

    w->run(w->arg);
}

/* On the loop thread.  The work is done even when the loop is being freed, so `done` always
 * runs and can free arg. */
static void on_work_done(uv_work_t *h, int status UNUSED)
{
    struct work *w = (struct work *)h;

    loop_call(w->done, w->arg, "work");
    free(w);
}

void work_submit(struct loop *l, loop_fn run, loop_fn done, void *arg)
{
    struct work *w = xcalloc(1, sizeof(*w));

    w->run = run;
    w->done = done;
    w->arg = arg;
    ASSERT(uv_queue_work(loop_uv(l), &w->uv, on_work, on_work_done) == 0);
}
