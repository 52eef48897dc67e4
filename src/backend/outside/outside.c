/* outside.c - runs that somebody else started
 *
 * A program that was started by hand, by a notebook or by another scheduler may be a job as well:
 * it says so, reports under its token, and says how it ended.  Nothing is started here and nothing
 * is killed.  A process of this machine is watched by its pid and start time; it is gone when the
 * kernel says so.  Of any other it is only known when it was last heard of: after a long silence it
 * counts as lost.
 *
 * The node has no room, so the planner never gives it anything; core/outside.c does.  Whether an
 * end was told is core's business: a process that is gone is reported as lost, and what its spool
 * says of its end comes before that.
 */
#include "backend/backend.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/vec.h"
#include "io/loop.h"
#include "shepherd/proc_stat.h"
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>

enum {
    LOOK_MS = 1000,
    SILENCE_MS = 10 * 60 * 1000, /* thirty heartbeats of the library */
    STOPPED_SILENCE_MS = 60 * 1000,
};

struct guest {
    struct backend *b;
    struct run_key key;
    int64_t pid, pid_start; /* pid 0: not of this machine */
    int64_t heard_ms, silence_ms;
    struct watch *watch;
    int pidfd;
    bool told, over;
};
struct backend {
    const struct backend_events *ev;
    void *owner;
    struct loop *loop;
    struct timer *look;
    struct node node;
    struct map_u64 guests;     /* by job: it has one run at a time */
    VEC(struct guest *) fresh; /* whose start was not told yet */
};

static bool start_time(int64_t pid, int64_t *out)
{
    char path[64];
    AUTO_FREE char *text = NULL;
    struct proc_stat st;

    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    if (file_read_all(path, 4096, &text, NULL, NULL) < 0 || !proc_stat_parse(text, &st) ||
        st.state == 'Z' || st.state == 'X')
        return false;
    *out = (int64_t)st.start;
    return true;
}

static struct guest *find(struct backend *b, struct run_key key)
{
    struct guest *g = map_u64_get(&b->guests, key.job);

    return g && run_key_eq(g->key, key) ? g : NULL;
}

static void unwatch(struct guest *g)
{
    watch_free(TAKE(g->watch));
    if (g->pidfd >= 0)
        close(TAKE_FD(g->pidfd));
}

static void gone(struct guest *g, const char *why)
{
    struct backend *b = g->b;
    const struct run_outcome o = {.why = RUN_END_NODE_LOST, .ended_ms = clock_wall(&clock_system)};

    if (g->over)
        return;
    g->over = true;
    unwatch(g);
    b->ev->ended(b->owner, g->key, &o, str_of(why));
}

static bool still_there(const struct guest *g)
{
    int64_t start;

    return start_time(g->pid, &start) && (!g->pid_start || start == g->pid_start);
}

static void on_pidfd(void *arg, int events, int error)
{
    (void)events;
    (void)error;
    gone(arg, "its process ended without saying how");
}

/* By the kernel where it can (5.3), otherwise looked at now and then. */
static void watch_pid(struct guest *g)
{
    g->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)g->pid, 0);
    if (g->pidfd < 0)
        return;
    g->watch = watch_new(g->b->loop, g->pidfd, on_pidfd, g);
    if (g->watch)
        watch_start(g->watch, WATCH_READ);
}

static void tell_start(struct guest *g)
{
    struct backend *b = g->b;

    if (g->told || g->over)
        return;
    g->told = true;
    if (g->pid && !still_there(g)) {
        gone(g, "its process had ended before it could be watched");
        return;
    }
    if (g->pid)
        watch_pid(g);
    /* Without a pid it still counts as seen, also after the next restart. */
    b->ev->started(b->owner, g->key, g->pid ? g->pid : -1, g->pid_start, clock_wall(&clock_system));
}

static void on_look(void *arg)
{
    struct backend *b = arg;
    int64_t now = loop_mono_ms(b->loop);
    VEC(struct run_key) keys = {0};
    uint64_t job;
    void *val;

    for (size_t i = 0; i < b->fresh.n; i++)
        vec_push(&keys, b->fresh.p[i]->key);
    vec_clear(&b->fresh);
    for (size_t i = 0; i < keys.n; i++)
        if (find(b, keys.p[i]))
            tell_start(find(b, keys.p[i]));
    vec_clear(&keys);
    for (size_t it = 0; map_u64_next(&b->guests, &it, &job, &val);)
        vec_push(&keys, ((struct guest *)val)->key);
    for (size_t i = 0; i < keys.n; i++) { /* the table may change with every end that is told */
        struct guest *g = find(b, keys.p[i]);
        if (!g || g->over)
            continue;
        if (g->pid && !g->watch && !still_there(g))
            gone(g, "its process ended without saying how");
        else if (!g->pid && now - g->heard_ms > g->silence_ms)
            gone(g, "nothing was heard of it for a long time");
    }
    vec_done(&keys);
}

static struct guest *guest_new(struct backend *b, struct run_key key)
{
    struct guest *g = xcalloc(1, sizeof(*g));

    *g = (struct guest){.b = b,
                        .key = key,
                        .pidfd = -1,
                        .silence_ms = SILENCE_MS,
                        .heard_ms = loop_mono_ms(b->loop)};
    map_u64_put(&b->guests, key.job, g);
    vec_push(&b->fresh, g);
    timer_start(b->look, 0, LOOK_MS); /* told from the loop, never from within a call */
    return g;
}

static void guest_free(struct guest *g)
{
    struct backend *b = g->b;

    for (size_t i = 0; i < b->fresh.n; i++)
        if (b->fresh.p[i] == g)
            vec_remove(&b->fresh, i);
    unwatch(g);
    free(g);
}

/* ---- the class ---- */

static int outside_open(struct backend **out, const char *home, const struct json *conf,
                        struct loop *l, const struct backend_events *ev, void *owner, struct err *e)
{
    struct backend *b = xcalloc(1, sizeof(*b));

    (void)home;
    (void)conf;
    (void)e;
    *b = (struct backend){.ev = ev, .owner = owner, .loop = l, .node = {.name = "outside"}};
    b->look = timer_new(l, on_look, b);
    *out = b;
    return 0;
}

static void outside_close(struct backend *b)
{
    uint64_t job;
    void *val;

    timer_free(b->look);
    for (size_t it = 0; map_u64_next(&b->guests, &it, &job, &val);)
        guest_free(val);
    map_u64_done(&b->guests);
    vec_done(&b->fresh);
    free(b);
}

static const struct node *outside_node(struct backend *b)
{
    return &b->node;
}

static uint32_t outside_journal(struct backend *b)
{
    (void)b;
    return 0;
}

static const char *variable(char *const *envp, const char *key)
{
    size_t n = strlen(key);

    for (; envp && *envp; envp++)
        if (!strncmp(*envp, key, n) && (*envp)[n] == '=')
            return *envp + n + 1;
    return "";
}

static int outside_start(struct backend *b, const struct run_start *r, struct err *e)
{
    struct guest *g = find(b, r->key);
    int64_t v;

    (void)e;
    if (g)
        return 0;
    g = guest_new(b, r->key);
    if (str_to_i64(str_of(variable(r->envp, OUTSIDE_PID)), &v) && v > 0)
        g->pid = v;
    if (g->pid)
        start_time(g->pid, &g->pid_start);
    if (str_to_i64(str_of(variable(r->envp, OUTSIDE_SILENCE)), &v) && v > 0)
        g->silence_ms = v;
    return 0;
}

/* Asked, not forced: the process is somebody else's.  That it is that of the job's owner was
 * checked when it came, and pid and start time say that it still is the same. */
static void outside_stop(struct backend *b, struct run_key key, int64_t grace_ms)
{
    struct guest *g = find(b, key);

    (void)grace_ms;
    if (!g || g->over)
        return;
    g->silence_ms = MIN(g->silence_ms, (int64_t)STOPPED_SILENCE_MS);
    if (g->pid && still_there(g))
        kill((pid_t)g->pid, SIGTERM);
}

static void outside_signal(struct backend *b, struct run_key key, int signo)
{
    struct guest *g = find(b, key);

    if (g && !signo)
        g->heard_ms = loop_mono_ms(b->loop);
}

static void outside_adopt(struct backend *b, const struct run_belief *runs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (find(b, runs[i].key))
            continue;
        struct guest *g = guest_new(b, runs[i].key);
        g->pid = MAX(runs[i].pid, (int64_t)0);
        g->pid_start = runs[i].pid_start;
    }
}

static void outside_settled(struct backend *b, struct run_key key)
{
    struct guest *g = find(b, key);

    if (!g)
        return;
    map_u64_del(&b->guests, key.job);
    guest_free(g);
    if (!b->guests.n)
        timer_stop(b->look);
}

const struct backend_class backend_outside = {
    .name = "outside",
    .outside = true,
    .open = outside_open,
    .close = outside_close,
    .node = outside_node,
    .journal = outside_journal,
    .start = outside_start,
    .stop = outside_stop,
    .signal = outside_signal,
    .adopt = outside_adopt,
    .settled = outside_settled,
};
