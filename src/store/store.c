/* store.c - a store as the program sees it: open, the ledger, turns, figures
 *
 * Owns: the batch being gathered on the loop thread, and joining writer, readers and launches.
 */
#include "base/fault.h"
#include "base/util.h"
#include "store/query_priv.h"
#include "store/store_priv.h"
#include "store/study_view.h"
#include "store/track.h"
#include <sys/stat.h>

static void no_notify(void *arg)
{
    (void)arg;
}

int store_open(struct store **out, const char *path, store_notify_fn notify, void *arg,
               struct err *e)
{
    return store_open_home(out, path, NULL, notify, arg, e);
}

int store_open_home(struct store **out, const char *path, struct store_home *home,
                    store_notify_fn notify, void *arg, struct err *e)
{
    struct store *s = xcalloc(1, sizeof(*s));

    if (writer_start(&s->writer, path, home, notify ? notify : no_notify, arg, e) < 0) {
        free(s);
        return -1;
    }
    s->path = xstrdup(path);
    pool_init(&s->pool, path);
    back_check_init(&s->check, &s->writer);
    s->gather = batch_new();
    point_init(&s->point, path);
    s->launches = launch_cache_new(&s->point);
    s->names = param_names_new();
    *out = s;
    return 0;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    store_flush(s);
    back_check_done(&s->check);
    /* Readers are closed before the writer: the last checkpoint cannot empty a log that somebody
     * reads. */
    launch_cache_free(s->launches);
    param_names_free(s->names);
    point_done(&s->point);
    pool_done(&s->pool);
    writer_stop(&s->writer);
    batch_free(s->gather);
    free(s->path);
    free(s);
}

/* ---- the ledger ---- */

static void ledger_stage(void *self, const struct change *c)
{
    struct store *s = self;
    batch_stage(s->gather, c);
}

static void ledger_barrier(void *self, ledger_done_fn fn, void *arg)
{
    struct store *s = self;
    vec_push(&s->gather->barriers,
             ((struct barrier){.pos = s->gather->changes.n, .fn = fn, .arg = arg}));
}

static int ledger_load(void *self, const struct load_sink *sink, struct err *e)
{
    return store_load(self, sink, e);
}

static int ledger_read_launch(void *self, uint64_t job, struct launch *out, struct err *e)
{
    struct store *s = self;

    return launch_read(s->launches, job, out, e);
}

static int ledger_read_job(void *self, uint64_t job, struct job_record *out, struct err *e)
{
    struct store *s = self;

    return point_job(&s->point, job, out, e);
}

static int ledger_read_deps(void *self, uint64_t job, uint64_t **out, size_t *out_n, struct err *e)
{
    struct store *s = self;

    return point_deps(&s->point, job, out, out_n, e);
}

static int ledger_read_metric(void *self, uint64_t job, struct str name, struct metric_facts *out,
                              struct err *e)
{
    struct store *s = self;

    return point_metric(&s->point, job, name, out, e);
}

struct ledger_points {
    ledger_point_fn fn;
    void *arg;
};

static bool ledger_point(void *arg, const struct point_view *v)
{
    const struct ledger_points *x = arg;

    if (!v->is_text)
        x->fn(x->arg, &(struct series_point){v->step, v->at_ms, v->value});
    return true;
}

static int ledger_read_points(void *self, uint64_t job, struct str name, ledger_point_fn fn,
                              void *arg, struct err *e)
{
    struct ledger_points x = {fn, arg};

    return store_points(self, job, name, 0, 0, ledger_point, &x, e);
}

struct ledger_trials {
    void (*fn)(void *arg, const struct trial_row *r);
    void *arg;
};

static bool ledger_trial(void *arg, const struct trial_row *r)
{
    const struct ledger_trials *x = arg;

    x->fn(x->arg, r);
    return true;
}

static int ledger_read_trials(void *self, uint64_t study,
                              void (*fn)(void *arg, const struct trial_row *r), void *arg,
                              struct err *e)
{
    struct ledger_trials x = {fn, arg};

    return store_trials(self, study, 0, INT32_MAX, ledger_trial, &x, e);
}

static int ledger_read_due(void *self, int64_t now_ms, size_t max, delivery_fn fn, void *arg,
                           struct hook_due *out, struct err *e)
{
    struct store *s = self;
    struct db *d = point_db(&s->point, e);

    return d ? hooks_due(d, now_ms, max, fn, arg, out, e) : -1;
}

static uint64_t ledger_hook_serial(void *self)
{
    struct store *s = self;

    return atomic_load(&s->writer.hook_serial);
}

static int ledger_read_hook(void *self, uint64_t hook, delivery_fn fn, void *arg, struct err *e)
{
    struct store *s = self;
    struct db *d = point_db(&s->point, e);

    return d ? hook_read(d, hook, fn, arg, e) : -1;
}

static bool ledger_healthy(void *self)
{
    struct store *s = self;

    return atomic_load(&s->writer.healthy);
}

static struct err ledger_trouble(void *self)
{
    struct store *s = self;

    pthread_mutex_lock(&s->writer.lock);
    struct err e = s->writer.trouble;
    pthread_mutex_unlock(&s->writer.lock);
    return e;
}

struct ledger store_ledger(struct store *s)
{
    return (struct ledger){
        .self = s,
        .stage = ledger_stage,
        .barrier = ledger_barrier,
        .load = ledger_load,
        .read_launch = ledger_read_launch,
        .read_job = ledger_read_job,
        .read_deps = ledger_read_deps,
        .read_metric = ledger_read_metric,
        .read_points = ledger_read_points,
        .read_trials = ledger_read_trials,
        .read_due = ledger_read_due,
        .hook_serial = ledger_hook_serial,
        .read_hook = ledger_read_hook,
        .healthy = ledger_healthy,
        .trouble = ledger_trouble,
    };
}

/* ---- turns ---- */

/* Whoever waits for the changes of a batch is told. */
static void batch_answer(struct batch *b)
{
    for (size_t i = 0; i < b->barriers.n; i++)
        b->barriers.p[i].fn(b->barriers.p[i].arg, b->barriers.p[i].refused);
}

void store_flush(struct store *s)
{
    static int64_t flushes;

    if (batch_empty(s->gather))
        return;
    struct batch *b = TAKE(s->gather);
    s->gather = batch_new();
    /* The mistake that tests of histories must find. */
    if (fault_every("BERTH_FAULT_ANSWER_EARLY", &flushes)) {
        batch_answer(b);
        b->barriers.n = 0;
    }
    writer_queue_take(&s->writer, b);
}

void store_drain(struct store *s)
{
    pthread_mutex_lock(&s->writer.lock);
    struct batch *list = TAKE(s->writer.done);
    pthread_mutex_unlock(&s->writer.lock);
    while (list) {
        struct batch *b = list;
        list = b->next;
        batch_answer(b);
        batch_free(b);
    }
}

bool store_busy(const struct store *s)
{
    struct writer *w = (struct writer *)&s->writer;
    pthread_mutex_lock(&w->lock);
    bool busy = w->queue || w->working || w->done;
    pthread_mutex_unlock(&w->lock);
    return busy;
}

void store_idle(struct store *s)
{
    pthread_mutex_lock(&s->writer.lock);
    s->writer.idle_asked = true;
    pthread_mutex_unlock(&s->writer.lock);
    pthread_cond_signal(&s->writer.wake);
}

static int64_t file_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

uint64_t store_last_event(const struct store *s)
{
    struct writer *w = (struct writer *)&s->writer;

    pthread_mutex_lock(&w->lock);
    uint64_t last = w->stats.last_event;
    pthread_mutex_unlock(&w->lock);
    return last;
}

struct store_stats store_stats(const struct store *s)
{
    struct writer *w = (struct writer *)&s->writer;
    AUTO_FREE char *wal = xasprintf("%s-wal", s->path);

    pthread_mutex_lock(&w->lock);
    struct store_stats out = w->stats;
    pthread_mutex_unlock(&w->lock);
    out.db_bytes = file_bytes(s->path);
    out.wal_bytes = file_bytes(wal);
    return out;
}
