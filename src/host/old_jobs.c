/* old_jobs.c - finished jobs past their keeping time, and the files of removed jobs
 *
 * Outputs go first: they are what fills a disk.  The record of the job (parameters, metrics, runs)
 * stays for a time of grace, as long again but at most a week, and goes then.
 *
 * Both may be thousands, so the search and the deletion run on worker threads.  The records go
 * through the core, a few with each turn.
 */
#include "backend/container.h"
#include "base/file.h"
#include "base/log.h"
#include "host/host_priv.h"
#include "model/retain_clock.h"
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    RETAIN_PIECE = 1000, /* jobs of one search, so that the next daemon repeats little of it */
    RETAIN_TURN = 100,   /* jobs removed with one turn of the loop, which reads each of them */
    EVENTS_PER_JOB =
        16, /* events are forgotten in proportion to jobs, so that no commit gets large */
};

#define FACT_CLOCK "retain.clock"
#define FACT_OUTPUTS "retain.outputs"
#define GRACE_MAX_MS (INT64_C(7) * 86400000)

/* Filled on a worker thread by old_search_work, freed on the loop thread when the jobs are gone. */
struct old_search {
    struct host *h;
    /* Jobs whose outputs go, and jobs that are to go; each with its last run. */
    struct run_key outputs[RETAIN_PIECE], jobs[RETAIN_PIECE];
    size_t n_outputs, n;
    size_t asked, gone; /* of jobs: asked of the core; really gone, which stand first then */
    bool doubted;       /* the clock is not believed; jump_ms is how far it is ahead */
    int64_t jump_ms;
    struct err e;
    int result;
};

static struct clock_reading clock_read(void)
{
    struct clock_reading r = {.wall_ms = clock_wall(&clock_system)};
    AUTO_FREE char *id = NULL;
    struct timespec t;
    size_t n;

    clock_gettime(CLOCK_BOOTTIME, &t);
    r.up_ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    if (file_read_all("/proc/sys/kernel/random/boot_id", 100, &id, &n, NULL) == 0)
        snprintf(r.boot, sizeof(r.boot), "%.*s", (int)strcspn(id, "\n"), id);
    return r;
}

/* Is the clock to be believed?  The readings are kept in the store; before there were any, the
 * newest event is one. */
static int clock_believed(struct old_search *s, struct clock_reading *now, bool *out)
{
    AUTO(buf) struct buf text;
    struct retain_clock k = {0};

    buf_init(&text, 512);
    *now = clock_read();
    if (store_fact(s->h->store, FACT_CLOCK, &text, &s->e) < 0)
        return -1;
    retain_clock_parse(buf_str(&text), &k);
    if (!k.known && store_last_time(s->h->store, &k.believed.wall_ms, &s->e) < 0)
        return -1;
    k.known |= k.believed.wall_ms > 0;
    s->jump_ms = k.known ? clock_reading_jump(&k.believed, now) : 0;
    *out = retain_clock_look(&k, now);
    buf_reset(&text);
    retain_clock_format(&k, &text);
    store_fact_set(s->h->store, FACT_CLOCK, buf_str(&text), now->wall_ms);
    return 0;
}

/* Finds the jobs whose outputs go now.  Kept in the store: jobs that ended before from_ms have none
 * any more, and of those that ended from then until before_ms (0 = nobody has looked) the jobs up
 * to `after` have none either.  A crash before the files are removed leaves them until the job
 * goes. */
static int old_outputs_find(struct old_search *s, int64_t before_ms, int64_t now_ms)
{
    AUTO(buf) struct buf text;
    struct ended_span span = {0};
    long long from = 0, before = 0;
    unsigned long long after = 0;

    buf_init(&text, 128);
    if (store_fact(s->h->store, FACT_OUTPUTS, &text, &s->e) < 0)
        return -1;
    if (text.n && sscanf(buf_str(&text).p, "%lld %lld %llu", &from, &before, &after) == 3)
        span = (struct ended_span){from, before, after};
    if (!span.before_ms)
        span.before_ms = before_ms;
    if (store_ended(s->h->store, &span, RETAIN_PIECE, s->outputs, &s->n_outputs, &s->e) < 0)
        return -1;
    if (s->n_outputs == RETAIN_PIECE)
        span.after = s->outputs[RETAIN_PIECE - 1].job;
    else
        span = (struct ended_span){.from_ms = MAX(span.from_ms, span.before_ms)};
    buf_reset(&text);
    buf_addf(&text, "%lld %lld %llu", (long long)span.from_ms, (long long)span.before_ms,
             (unsigned long long)span.after);
    store_fact_set(s->h->store, FACT_OUTPUTS, buf_str(&text), now_ms);
    return 0;
}

/* Worker thread.  Jobs beyond RETAIN_PIECE wait for the next search. */
static void old_search_work(void *arg)
{
    struct old_search *s = arg;
    int64_t keep_ms = s->h->conf.retain_ms, before_ms;
    struct clock_reading now;
    bool believed;

    s->result = clock_believed(s, &now, &believed);
    s->doubted = s->result == 0 && !believed;
    if (s->result == 0 && believed)
        s->result = old_outputs_find(s, now.wall_ms - keep_ms, now.wall_ms);
    if (s->result < 0 || !believed)
        return;
    before_ms = now.wall_ms - keep_ms - MIN(keep_ms, GRACE_MAX_MS);
    s->result = store_ended(s->h->store, &(struct ended_span){.before_ms = before_ms}, RETAIN_PIECE,
                            s->jobs, &s->n, &s->e);
    if (s->result == 0)
        store_forget(s->h->store, before_ms, (int64_t)RETAIN_PIECE * EVENTS_PER_JOB);
}

/* "1-5, 9, 12"; what does not fit is left out. */
static void list_numbers(const struct run_key *jobs, size_t n, struct buf *out)
{
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && jobs[end].job == jobs[i].job + (end - i); end++)
            ;
        if (out->n > 200) {
            buf_adds(out, ", …");
            return;
        }
        buf_addf(out, "%s%llu", i ? ", " : "", (unsigned long long)jobs[i].job);
        if (end > i + 1)
            buf_addf(out, "-%llu", (unsigned long long)jobs[end - 1].job);
    }
}

static void old_jobs_say(const char *what, const struct run_key *jobs, size_t n)
{
    AUTO(buf) struct buf numbers;

    if (!n)
        return;
    buf_init(&numbers, 512);
    list_numbers(jobs, n, &numbers);
    log_info("host", "--retain removed %s%zu job%s: %s", what, n, n == 1 ? "" : "s",
             buf_str(&numbers).p);
}

/* ---- the jobs go ---- */

static void on_old_removed(void *arg, const struct err *e, const struct acted *r);

/* Loop thread.  Asks the core for the next few, and ends when there are none. */
static void old_remove_next(struct old_search *s)
{
    static const struct caller berth = {.admin = true};
    uint64_t numbers[RETAIN_TURN];
    size_t n = 0;

    while (n < RETAIN_TURN && s->asked < s->n)
        numbers[n++] = s->jobs[s->asked++].job;
    if (n) {
        core_remove(s->h->core, numbers, n, &berth, on_old_removed, s);
        return;
    }
    old_jobs_say("", s->jobs, s->gone);
    free(s);
}

/* The core has removed their files, too. */
static void on_old_removed(void *arg, const struct err *e, const struct acted *r)
{
    struct old_search *s = arg;

    if (e) {
        log_warn("host", "cannot remove jobs past their retention time: %s", e->text);
    } else {
        memcpy(s->jobs + s->gone, r->removed, r->n_removed * sizeof(*s->jobs));
        s->gone += r->n_removed;
    }
    if (e || s->h->closing)
        s->asked = s->n;
    old_remove_next(s);
}

/* Loop thread. */
static void old_search_done(void *arg)
{
    struct old_search *s = arg;

    s->h->works--;
    if (s->result < 0) {
        log_warn("host", "cannot remove jobs past their retention time: %s", s->e.text);
    } else if (s->doubted && !s->h->health.clock_doubted) {
        log_warn("host",
                 "--retain removes nothing: the clock is %lld days ahead of the last record, and "
                 "less time than that has passed; it goes on after a day with a steady clock",
                 (long long)(s->jump_ms / 86400000));
    }
    /* Also after a failure: what was found before it is recorded as gone. */
    old_jobs_say("the outputs of ", s->outputs, s->n_outputs);
    if (s->n_outputs)
        old_jobs_discard(s->h, s->outputs, s->n_outputs);
    s->h->health.clock_doubted = s->doubted;
    if (s->result < 0 || s->h->closing)
        s->asked = s->n;
    old_remove_next(s);
}

void old_jobs_look(void *arg)
{
    struct old_search *s = xcalloc(1, sizeof(*s));

    s->h = arg;
    s->h->works++; /* host_close waits for the search, which reads the store */
    work_submit(s->h->loop, old_search_work, old_search_done, s);
}

/* ---- files of removed jobs ---- */

/* Each key names the last run of a removed job; its earlier runs have files, too. */
struct discard {
    struct host *h;
    size_t n;
    struct run_key keys[];
};

/* Worker thread.  Errors are ignored: the job is gone from the store, and a file that stays costs
 * only space. */
static void discard_run(struct host *h, struct run_key key)
{
    AUTO_FREE char *out = core_log_path(h->core, key), *errs = core_err_path(h->core, key),
                   *dir = core_run_dir(h->core, key);
    struct err e = {0};

    unlink(out);
    unlink(errs);
    container_clean_dir(h->conf.engine, NULL, dir, &e); /* not all in it need be ours */
}

static void discard_files_work(void *arg)
{
    struct discard *d = arg;

    for (size_t i = 0; i < d->n; i++)
        for (uint32_t run = 1; run <= d->keys[i].run; run++)
            discard_run(d->h, (struct run_key){d->keys[i].job, run, d->keys[i].tag});
}

/* Loop thread.  The jobs are gone from the store by now, so their snapshots may be unused. */
static void discard_done(void *arg)
{
    struct discard *d = arg;

    d->h->works--;
    if (!d->h->ends.shut)
        snapshots_look(d->h);
    free(d);
}

void old_jobs_discard(void *arg, const struct run_key *last, size_t n)
{
    struct host *h = arg;
    struct discard *d = xmalloc(sizeof(*d) + n * sizeof(*last));

    *d = (struct discard){h, n};
    memcpy(d->keys, last, n * sizeof(*last));
    h->works++;
    work_submit(h->loop, discard_files_work, discard_done, d);
}
