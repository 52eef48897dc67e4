/* old_jobs.c - finished jobs past their keeping time, and the files of removed jobs
 *
 * Both may be thousands, so the search and the deletion run on worker threads.
 */
#include "backend/container.h"
#include "base/log.h"
#include "host/host_priv.h"
#include <stdlib.h>
#include <unistd.h>

enum { RETAIN_PIECE = 1000 }; /* jobs removed at a time, so that no commit gets large */

/* Filled on a worker thread by old_search_work, freed on the loop thread by old_search_done. */
struct old_search {
    struct host *h;
    uint64_t jobs[RETAIN_PIECE];
    size_t n;
    struct err e;
    int result;
};

/* Worker thread.  Jobs beyond RETAIN_PIECE wait for the next search. */
static void old_search_work(void *arg)
{
    struct old_search *s = arg;
    int64_t before = clock_wall(&clock_system) - s->h->conf.retain_ms;

    s->result = store_retain(s->h->store, before, RETAIN_PIECE, s->jobs, &s->n, &s->e);
}

static void old_jobs_removed(void *arg, const struct err *e, const struct acted *r)
{
    (void)arg;
    (void)r;
    if (e)
        log_warn("host", "cannot remove jobs past their retention time: %s", e->text);
}

/* Loop thread.  The jobs are removed as if an admin had asked for it: the core checks their states
 * again and then calls old_jobs_discard. */
static void old_search_done(void *arg)
{
    struct old_search *s = arg;

    s->h->works--;
    const struct caller self = {.uid = s->h->env.uid, .admin = true, .user = "retention"};

    if (s->result < 0)
        log_warn("host", "cannot search for jobs past their retention time: %s", s->e.text);
    else if (s->n)
        core_remove(s->h->core, s->jobs, s->n, &self, old_jobs_removed, NULL);
    free(s);
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
