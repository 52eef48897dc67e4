/* gpu_watch.c - looks at the GPUs now and then, on a thread of its own
 *
 * Owns: when to look, the thread, and the node's devices after a look.
 *
 * A driver may take seconds to answer, or never answer again.  So no worker thread of the loop is
 * lent to it, of which there are few and whose end a shutdown waits for: one thread does nothing
 * else.  There is one look at a time; while it is under way no other is asked for.  At the end a
 * thread that hangs is left behind with what it holds, which is nobody else's.
 *
 * The loop asks by a condition variable and is told by an eventfd.  `looker` is shared under its
 * lock; `look` and the sources belong to the thread while `busy`, to the loop otherwise.
 */
#include "backend/local/gpu_priv.h"
#include "backend/local/local_priv.h"
#include "base/clock.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>

enum {
    BUSY_MS = 2000, /* between looks while runs may hold devices */
    IDLE_MS = 30000,
    SOON_MS = 200,     /* after a run began: it allocates soon, but not at once */
    FIRST_MS = 5000,   /* so long may the first look take before the node opens without it */
    SLOW_MS = 30000,   /* then an operator should know */
    PERIOD_MIN_MS = 10 /* of BERTH_GPU_PERIOD_MS, which tests set */
};

struct looker {
    pthread_mutex_t lock;
    pthread_cond_t asked_or_closed, done;
    bool asked, busy, closed;
    int fd; /* eventfd: a look is complete */
    struct gpu_run *runs;
    size_t n_runs;
    struct gpu_look look;
    struct gpu_sources sources;
    struct gpu_procs *procs;
};

/* The side of the loop.  started: a look has been applied to the node.  told_slow, told_more:
 * the operator was told, once. */
struct gpu_watch {
    struct gpu_watch_conf conf;
    struct looker *looker;
    pthread_t thread;
    struct watch *watch;
    struct timer *timer;
    int64_t busy_ms, asked_ms;
    bool busy, started, told_slow, told_more;
    char *excluded;
};

/* ---- the thread ---- */

static void looker_free(struct looker *k)
{
    gpu_sources_close(&k->sources);
    gpu_procs_free(k->procs);
    gpu_look_done(&k->look);
    free(k->runs);
    close(k->fd);
    pthread_cond_destroy(&k->asked_or_closed);
    pthread_cond_destroy(&k->done);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

static enum gpu_owner watch_process_owner(void *arg, int32_t pid, struct run_key *out)
{
    return gpu_procs_owner(arg, pid, out);
}

/* On the thread; may block for as long as the driver likes. */
static void looker_look(struct looker *k)
{
    gpu_procs_runs(k->procs, k->runs, k->n_runs);
    gpu_sources_read(&k->sources, &k->look);
    gpu_attribute(&k->look, watch_process_owner, k->procs);
    gpu_procs_sweep(k->procs);
}

/* The next question; false: there will be none. */
static bool await(struct looker *k)
{
    pthread_mutex_lock(&k->lock);
    while (!k->asked && !k->closed)
        pthread_cond_wait(&k->asked_or_closed, &k->lock);
    k->asked = false;
    k->busy = !k->closed;
    bool go = k->busy;
    pthread_mutex_unlock(&k->lock);
    return go;
}

/* False: nobody waits for it any more. */
static bool looker_answer(struct looker *k)
{
    const uint64_t one = 1;

    pthread_mutex_lock(&k->lock);
    bool wanted = !k->closed;
    k->busy = false;
    pthread_cond_signal(&k->done);
    if (wanted && write(k->fd, &one, sizeof(one)) < 0)
        ASSERT(errno == EAGAIN); /* it is readable already */
    pthread_mutex_unlock(&k->lock);
    return wanted;
}

static void *looker_thread(void *arg)
{
    struct looker *k = arg;

    pthread_setname_np(pthread_self(), "berth-gpu");
    while (await(k)) {
        if (!k->sources.n && !k->sources.lacking[0])
            gpu_sources_open(&k->sources);
        looker_look(k);
        if (!looker_answer(k))
            break;
    }
    looker_free(k);
    return NULL;
}

static struct looker *looker_new(uint64_t home_mark)
{
    struct looker *k = xcalloc(1, sizeof(*k));
    pthread_condattr_t mono;

    k->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (k->fd < 0) {
        free(k);
        return NULL;
    }
    pthread_condattr_init(&mono);
    pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->asked_or_closed, NULL);
    pthread_cond_init(&k->done, &mono);
    pthread_condattr_destroy(&mono);
    k->procs = gpu_procs_new(home_mark, "/proc");
    return k;
}

/* ---- asking ---- */

static void watch_request_look(struct gpu_watch *w)
{
    struct looker *k = w->looker;

    free(k->runs);
    k->runs = NULL;
    k->n_runs = 0;
    w->conf.runs(w->conf.arg, &k->runs, &k->n_runs);
    w->asked_ms = clock_mono(&clock_system);
    pthread_mutex_lock(&k->lock);
    k->asked = true;
    k->busy = true; /* from here on it is the thread's */
    pthread_cond_signal(&k->asked_or_closed);
    pthread_mutex_unlock(&k->lock);
}

/* While it is true, look, runs and sources must not be touched by the loop. */
static bool under_way(struct gpu_watch *w)
{
    pthread_mutex_lock(&w->looker->lock);
    bool busy = w->looker->busy;
    pthread_mutex_unlock(&w->looker->lock);
    return busy;
}

__attribute__((format(printf, 2, 3))) static void watch_notice(struct gpu_watch *w, const char *fmt,
                                                               ...)
{
    char text[400];

    FORMAT_ARGS(text, fmt);
    w->conf.notice(w->conf.arg, text);
}

/* Milliseconds until the next look: short while runs may hold devices. */
static int64_t period(const struct gpu_watch *w)
{
    return w->busy ? w->busy_ms : MAX(IDLE_MS, w->busy_ms);
}

/* A look that is still under way is never asked for a second time. */
static void on_due(void *arg)
{
    struct gpu_watch *w = arg;

    if (!under_way(w)) {
        watch_request_look(w);
    } else if (!w->told_slow && clock_mono(&clock_system) - w->asked_ms >= SLOW_MS) {
        w->told_slow = true;
        watch_notice(
            w,
            "the GPU driver has not answered for %d s: memory and load of the GPUs are as they "
            "were then; nvidia-smi or dmesg may tell more",
            SLOW_MS / 1000);
    }
    timer_start(w->timer, period(w), 0); /* when it answers, this is put off */
}

/* ---- answers ---- */

/* Is this word the index or the UUID of the device? */
static bool names(struct str word, const struct device *d)
{
    int64_t index;

    return str_to_i64(word, &index) ? index == d->index : str_eq_c(word, d->uuid);
}

/* After every update, because an update overwrites the state of the device. */
static void apply_exclusion(struct gpu_watch *w)
{
    struct node *n = w->conf.node;

    for (struct str rest = str_of(w->excluded); rest.n;) {
        struct str word = str_trim(str_cut(rest, ',', &rest));
        for (size_t i = 0; i < n->n_devices; i++) {
            struct device *d = &n->devices[i];
            if (d->state == DEVICE_LOST || !names(word, d))
                continue;
            d->state = DEVICE_EXCLUDED;
            snprintf(d->trouble, sizeof(d->trouble), "excluded by the configuration of the daemon");
        }
    }
}

static void tell_more(struct gpu_watch *w)
{
    const struct gpu_look *l = &w->looker->look;

    if (w->told_more || w->conf.gpus >= 0 || l->devices.n <= w->conf.node->n_devices)
        return;
    w->told_more = true;
    watch_notice(
        w, "%zu GPUs answer now, %zu did when the daemon started; restart it to use all of them",
        l->devices.n, w->conf.node->n_devices);
}

static void on_looked(void *arg, int events UNUSED, int error UNUSED)
{
    struct gpu_watch *w = arg;
    uint64_t n;

    if (read(w->looker->fd, &n, sizeof(n)) < 0 || under_way(w))
        return;
    if (w->told_slow)
        watch_notice(w, "the GPU driver answers again");
    w->told_slow = false;
    for (size_t i = 0; !w->started && i < w->conf.node->n_devices; i++)
        if (w->conf.node->devices[i].state == DEVICE_LOST)
            w->conf.node->devices[i].state = DEVICE_UNSEEN; /* so that it is told once */
    w->started = true;
    gpu_node_update(w->conf.node, &w->looker->look, clock_wall(&clock_system), w->conf.notice,
                    w->conf.arg);
    apply_exclusion(w);
    tell_more(w);
    timer_start(w->timer, period(w), 0);
    w->conf.looked(w->conf.arg, w->looker->look.runs.p, w->looker->look.runs.n);
}

void gpu_watch_busy(struct gpu_watch *w, bool busy)
{
    if (!w || w->busy == busy)
        return;
    w->busy = busy;
    if (!under_way(w))
        timer_start(w->timer, MIN(SOON_MS, w->busy_ms), 0);
}

/* ---- opening ---- */

/* A word that names nothing is a mistake, unless a device has not told its name yet. */
static int check_exclusion(const struct node *n, const char *words, struct err *e)
{
    for (struct str rest = str_of(words); rest.n;) {
        struct str word = str_trim(str_cut(rest, ',', &rest));
        bool found = !word.n;
        for (size_t i = 0; i < n->n_devices; i++)
            found |= names(word, &n->devices[i]) || n->devices[i].state == DEVICE_LOST ||
                     n->devices[i].state == DEVICE_UNSEEN;
        if (!found)
            return err_set(e, ERR_INVALID,
                           "there is no GPU '" STR_FMT "' to exclude; `berth nodes` shows them",
                           (int)MIN(word.n, 60), word.p);
    }
    return 0;
}

/* The first look, if it comes in time. */
static bool wait_first(struct gpu_watch *w)
{
    struct looker *k = w->looker;
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += FIRST_MS / 1000;
    pthread_mutex_lock(&k->lock);
    while (k->busy && pthread_cond_timedwait(&k->done, &k->lock, &until) == 0)
        ;
    bool done = !k->busy;
    pthread_mutex_unlock(&k->lock);
    return done;
}

static int64_t busy_period(void)
{
    const char *said = getenv("BERTH_GPU_PERIOD_MS");
    int64_t ms;

    return said && str_to_i64(str_of(said), &ms) && ms >= PERIOD_MIN_MS ? ms : BUSY_MS;
}

static int looker_start(struct gpu_watch *w, struct err *e)
{
    w->looker = looker_new(w->conf.home_mark);
    if (!w->looker)
        return err_sys(e, "cannot watch the GPUs");
    int rc = pthread_create(&w->thread, NULL, looker_thread, w->looker);
    if (rc != 0) {
        looker_free(w->looker);
        w->looker = NULL;
        errno = rc;
        return err_sys(e, "cannot start a thread to watch the GPUs");
    }
    return 0;
}

int gpu_watch_open(struct gpu_watch **out, const struct gpu_watch_conf *conf, struct err *e)
{
    *out = NULL;
    if (conf->gpus == 0 || !gpu_sources_likely()) {
        gpu_node_init(conf->node, NULL, conf->gpus);
        return check_exclusion(conf->node, conf->exclude, e);
    }
    struct gpu_watch *w = xcalloc(1, sizeof(*w));
    w->conf = *conf;
    w->busy_ms = busy_period();
    if (looker_start(w, e) < 0) {
        free(w);
        return -1;
    }
    watch_request_look(w);
    bool seen = wait_first(w), blind = !seen || !w->looker->sources.n;
    gpu_node_init(conf->node, seen ? &w->looker->look : NULL,
                  blind && conf->gpus < 0 ? detect_driver_gpus() : conf->gpus);
    w->timer = timer_new(conf->loop, on_due, w);
    w->watch = watch_new(conf->loop, w->looker->fd, on_looked, w);
    ASSERT(w->watch);
    watch_start(w->watch, WATCH_READ);
    timer_start(w->timer, period(w), 0);
    if (!seen)
        watch_notice(w, "the GPU driver has not answered for %d s; the daemon starts without it",
                     FIRST_MS / 1000);
    if (check_exclusion(conf->node, conf->exclude, e) < 0) {
        gpu_watch_close(w);
        return -1;
    }
    w->excluded = xstrdup(conf->exclude);
    w->conf.exclude = NULL;
    apply_exclusion(w);
    *out = w;
    return 0;
}

void gpu_watch_close(struct gpu_watch *w)
{
    if (!w)
        return;
    struct looker *k = w->looker;

    watch_free(w->watch);
    timer_free(w->timer);
    pthread_mutex_lock(&k->lock);
    k->closed = true;
    bool hangs = k->busy;
    pthread_cond_signal(&k->asked_or_closed);
    pthread_mutex_unlock(&k->lock);
    if (hangs)
        pthread_detach(w->thread);
    else
        pthread_join(w->thread, NULL);
    free(w->excluded);
    free(w);
}
