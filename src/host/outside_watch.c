/* outside_watch.c - is a process that berth has not started still alive?
 *
 * Owns: the table of watched processes.  Nothing is started and nothing is killed here; a stop is
 * a SIGTERM to a process whose pid and start time are those that were recorded.
 * Does not own: how such a run ends (core/outside.c).  A process that is gone is reported once, and
 * core then reads the rest of its spool, which may hold the end the process wrote itself.
 */
#include "host/outside_watch.h"
#include "base/file.h"
#include "base/map.h"
#include "base/proc_stat.h"
#include "base/vec.h"
#include "io/loop.h"
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>

enum {
    LOOK_MS = 1000,
    SILENCE_MS = 10 * 60 * 1000, /* thirty heartbeats of the library */
    STOPPED_SILENCE_MS = 60 * 1000,
};

struct watched {
    struct outside_watch *w;
    struct run_key key;
    int64_t pid, pid_start; /* pid 0: a process of another machine */
    /* Monotonic time of the last request, and how long the process may then be silent. */
    int64_t heard_ms, silence_ms;
    struct watch *watch;
    int pidfd;
    bool reported; /* core was told that the process is gone */
};
struct outside_watch {
    struct loop *loop;
    struct core *core;
    struct timer *look;
    struct map_u64 all; /* by job: a job has one run at a time */
};

static bool pid_start_time(void *self, int64_t pid, int64_t *out)
{
    char path[64];
    AUTO_FREE char *text = NULL;
    struct proc_stat st;

    (void)self;
    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    if (file_read_all(path, 4096, &text, NULL, NULL) < 0 || !proc_stat_parse(text, &st) ||
        st.state == 'Z' || st.state == 'X')
        return false;
    *out = (int64_t)st.start;
    return true;
}

static struct watched *watched_find(struct outside_watch *w, struct run_key key)
{
    struct watched *p = map_u64_get(&w->all, key.job);

    return p && run_key_eq(p->key, key) ? p : NULL;
}

static void watched_release(struct watched *p)
{
    watch_free(TAKE(p->watch));
    if (p->pidfd >= 0)
        close(TAKE_FD(p->pidfd));
}

static void watched_free(void *val)
{
    watched_release(val);
    free(val);
}

/* The entry may be freed by the report: nothing may use `p` afterwards. */
static void watched_gone(struct watched *p, const char *why)
{
    if (p->reported)
        return;
    p->reported = true;
    watched_release(p);
    core_outside_gone(p->w->core, p->key, str_of(why));
}

/* The start time tells a reused pid from the watched process; 0 = the start time is not known. */
static bool watched_alive(const struct watched *p)
{
    int64_t start;

    return pid_start_time(NULL, p->pid, &start) && (!p->pid_start || start == p->pid_start);
}

static void on_pidfd(void *arg, int events, int error)
{
    (void)events;
    (void)error;
    watched_gone(arg, "its process ended without reporting a result");
}

static void outside_on_look(void *arg)
{
    struct outside_watch *w = arg;
    int64_t now = loop_mono_ms(w->loop);
    VEC(struct run_key) keys = {0};
    struct watched *p;

    for (size_t it = 0; (p = map_u64_each(&w->all, &it));)
        vec_push(&keys, p->key);
    for (size_t i = 0; i < keys.n; i++) { /* each report may change the table */
        p = watched_find(w, keys.p[i]);
        if (!p || p->reported)
            continue;
        if (p->pid && !p->watch && !watched_alive(p))
            watched_gone(p, "its process ended without reporting a result");
        else if (!p->pid && now - p->heard_ms > p->silence_ms)
            watched_gone(p, "it sent no report for a long time");
    }
    vec_done(&keys);
}

/* The kernel reports the end where it has pidfds (5.3).  Without them, and when the process has
 * ended already, the timer finds out. */
static void watched_open_pidfd(struct watched *p)
{
    if (!watched_alive(p))
        return;
    p->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)p->pid, 0);
    if (p->pidfd < 0)
        return;
    p->watch = watch_new(p->w->loop, p->pidfd, on_pidfd, p);
    if (p->watch)
        watch_start(p->watch, WATCH_READ);
}

static void watch_begin(void *self, struct run_key key, const struct outside_process *of)
{
    struct outside_watch *w = self;
    struct watched *p;

    if (watched_find(w, key))
        return;
    p = xcalloc(1, sizeof(*p));
    *p = (struct watched){.w = w,
                          .key = key,
                          .pid = MAX(of->pid, (int64_t)0),
                          .pid_start = of->pid_start,
                          .pidfd = -1,
                          .silence_ms = of->silence_ms > 0 ? of->silence_ms : SILENCE_MS,
                          .heard_ms = loop_mono_ms(w->loop)};
    map_u64_put(&w->all, key.job, p);
    if (p->pid)
        watched_open_pidfd(p);
    timer_start(w->look, 0, LOOK_MS); /* a process that is gone is reported from the loop */
}

static void watch_heard(void *self, struct run_key key)
{
    struct watched *p = watched_find(self, key);

    if (p)
        p->heard_ms = loop_mono_ms(p->w->loop);
}

/* The process is asked, not forced: it is somebody else's.  The API checked that the process is
 * the job owner's when the job began. */
static void watch_stop_process(void *self, struct run_key key)
{
    struct watched *p = watched_find(self, key);

    if (!p || p->reported)
        return;
    p->silence_ms = MIN(p->silence_ms, (int64_t)STOPPED_SILENCE_MS);
    if (p->pid && watched_alive(p))
        kill((pid_t)p->pid, SIGTERM);
}

static void watch_end(void *self, struct run_key key)
{
    struct outside_watch *w = self;
    struct watched *p = watched_find(w, key);

    if (!p)
        return;
    map_u64_del(&w->all, key.job);
    watched_free(p);
    if (!w->all.n)
        timer_stop(w->look);
}

const struct outside_ops outside_watch_ops = {
    .pid_start = pid_start_time,
    .begin = watch_begin,
    .heard = watch_heard,
    .stop = watch_stop_process,
    .end = watch_end,
};

struct outside_watch *outside_watch_new(struct loop *l, struct core *c)
{
    struct outside_watch *w = xcalloc(1, sizeof(*w));

    *w = (struct outside_watch){.loop = l, .core = c};
    w->look = timer_new(l, outside_on_look, w);
    return w;
}

void outside_watch_free(struct outside_watch *w)
{
    if (!w)
        return;
    timer_free(w->look);
    map_u64_clear(&w->all, watched_free);
    free(w);
}
