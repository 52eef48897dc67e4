/* loop.c - the loop itself: turns, the hooks at their end, posts from other threads
 *
 * Owns: the uv_loop_t, the queue of posted calls, the hooks, the shared read buffer.
 * Does not own: timers, watches, signals and work (handles.c).
 *
 * A turn of libuv is: timers, prepare, sleep in epoll, I/O callbacks, closes.  The hooks sit in
 * `prepare`, so everything the callbacks of a turn staged is handed on before the loop sleeps.  A
 * run that ends skips the next `prepare`, so the hooks run once more after it.
 */
#include "base/log.h"
#include "base/util.h"
#include "base/vec.h"
#include "io/loop_priv.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

enum { HOOKS_MAX = 8 };
static const uint64_t SLOW_LOG_NS = 1000000000; /* one line a second, with a count of the others */

struct call {
    loop_fn fn;
    void *arg;
};

struct loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_prepare_t prepare;
    pthread_mutex_t lock; /* guards posted */
    VEC(struct call) posted;
    struct call hooks[HOOKS_MAX];
    size_t hooks_n;
    char *read_buf;
};

/* CPU time of this thread when the turn began, as it was at most a millisecond before: tells a
 * callback that worked from one that waited (for a disk, or for a processor on a crowded machine).
 * Asking at every turn would be a system call for each of them. */
static _Thread_local uint64_t turn_cpu_ns, turn_cpu_at_ms;

_Thread_local bool loop_slow_is_fine;

static uint64_t thread_cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* At most one line a second, except for callbacks that took ten times too long; the next line
 * says how many were left out. */
void loop_log_slow(uint64_t ns, const char *kind, void (*fn)(void))
{
    static _Thread_local uint64_t last, hidden;
    Dl_info info = {0};
    const char *name = "?";
    uintptr_t at = (uintptr_t)fn;
    uint64_t now = uv_hrtime();

    if (loop_slow_is_fine)
        return;
    if (last != 0 && now - last < SLOW_LOG_NS && ns < 10 * (uint64_t)LOOP_SLOW_NS) {
        hidden++;
        return;
    }
    /* Static functions have no name at run time; the offset is what addr2line takes. */
    if (dladdr((void *)fn, &info) && info.dli_fbase)
        at -= (uintptr_t)info.dli_fbase;
    if (info.dli_sname && info.dli_saddr == (void *)fn)
        name = info.dli_sname;
    log_warn("io",
             "%s callback took too long ms=%.1f turn_cpu_ms=%.1f name=%s address=%#lx more=%llu",
             kind, (double)ns / 1e6, (double)(thread_cpu_ns() - turn_cpu_ns) / 1e6, name,
             (unsigned long)at, (unsigned long long)hidden);
    last = now;
    hidden = 0;
}

void loop_call(loop_fn fn, void *arg, const char *kind)
{
    uint64_t t0 = uv_hrtime();

    fn(arg);
    loop_timed(t0, kind, fn);
}

static void run_hooks(struct loop *l)
{
    /* A hook may remove itself or another one: the list is walked by position, and one that
     * moved down is met at the next turn. */
    for (size_t i = 0; i < l->hooks_n; i++)
        loop_call(l->hooks[i].fn, l->hooks[i].arg, "turn end");
}

static void on_prepare(uv_prepare_t *h)
{
    uint64_t now = uv_now(h->loop);

    run_hooks(h->data);
    if (now != turn_cpu_at_ms) {
        turn_cpu_at_ms = now;
        turn_cpu_ns = thread_cpu_ns();
    }
}

/* The queue is taken as a whole, so a posted call may post again without a deadlock. */
static void run_posted(struct loop *l)
{
    pthread_mutex_lock(&l->lock);
    __typeof__(l->posted) todo = l->posted;
    l->posted = (__typeof__(l->posted)){0};
    pthread_mutex_unlock(&l->lock);
    for (size_t i = 0; i < todo.n; i++)
        loop_call(todo.p[i].fn, todo.p[i].arg, "posted");
    vec_done(&todo);
}

static void on_wake(uv_async_t *h)
{
    run_posted(h->data);
}

static bool has_posted(struct loop *l)
{
    pthread_mutex_lock(&l->lock);
    bool any = l->posted.n > 0;
    pthread_mutex_unlock(&l->lock);
    return any;
}

struct loop *loop_new(void)
{
    struct loop *l = xcalloc(1, sizeof(*l));

    /* libuv writes with write(2): a peer that left must be an error of that one connection. */
    signal(SIGPIPE, SIG_IGN);
    ASSERT(uv_loop_init(&l->uv) == 0);
    ASSERT(uv_async_init(&l->uv, &l->wake, on_wake) == 0);
    ASSERT(uv_prepare_init(&l->uv, &l->prepare) == 0);
    l->wake.data = l->prepare.data = l;
    uv_prepare_start(&l->prepare, on_prepare);
    uv_unref((uv_handle_t *)&l->wake);
    uv_unref((uv_handle_t *)&l->prepare);
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

static void check_closing(uv_handle_t *h, void *arg UNUSED)
{
    ASSERT(uv_is_closing(h));
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    uv_close((uv_handle_t *)&l->wake, NULL);
    uv_close((uv_handle_t *)&l->prepare, NULL);
    uv_walk(&l->uv, check_closing, NULL); /* a forgotten handle would make the next line wait */
    uv_run(&l->uv, UV_RUN_DEFAULT);
    ASSERT(uv_loop_close(&l->uv) == 0);
    pthread_mutex_destroy(&l->lock);
    vec_done(&l->posted);
    free(l->read_buf);
    free(l);
}

void loop_run(struct loop *l)
{
    for (;;) {
        bool stopped = uv_run(&l->uv, UV_RUN_DEFAULT) != 0;
        run_hooks(l);
        /* What other threads posted counts as work left, although the wake handle does not. */
        if (stopped || (!uv_loop_alive(&l->uv) && !has_posted(l)))
            return;
        run_posted(l);
    }
}

void loop_run_once(struct loop *l, bool block)
{
    /* Posts and signals count here even when nothing else is there to wait for. */
    uv_ref((uv_handle_t *)&l->wake);
    uv_run(&l->uv, block ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    uv_unref((uv_handle_t *)&l->wake);
    run_hooks(l);
}

void loop_stop(struct loop *l)
{
    uv_stop(&l->uv);
}

int64_t loop_mono_ms(struct loop *l)
{
    return (int64_t)uv_now(&l->uv);
}

void loop_post(struct loop *l, loop_fn fn, void *arg)
{
    pthread_mutex_lock(&l->lock);
    bool first = l->posted.n == 0;
    vec_push(&l->posted, ((struct call){fn, arg}));
    /* Under the lock, so that loop_free cannot come between; one wake per batch is enough. */
    if (first)
        uv_async_send(&l->wake);
    pthread_mutex_unlock(&l->lock);
}

void loop_on_turn_end(struct loop *l, loop_fn fn, void *arg)
{
    ASSERT(l->hooks_n < HOOKS_MAX);
    l->hooks[l->hooks_n++] = (struct call){fn, arg};
}

void loop_off_turn_end(struct loop *l, loop_fn fn, void *arg)
{
    for (size_t i = 0; i < l->hooks_n; i++) {
        if (l->hooks[i].fn != fn || l->hooks[i].arg != arg)
            continue;
        l->hooks_n--;
        memmove(l->hooks + i, l->hooks + i + 1, (l->hooks_n - i) * sizeof(l->hooks[0]));
        return;
    }
}

uv_loop_t *loop_uv(struct loop *l)
{
    return &l->uv;
}

char *loop_read_buf(struct loop *l)
{
    if (!l->read_buf)
        l->read_buf = xmalloc(LOOP_READ_BYTES);
    return l->read_buf;
}
