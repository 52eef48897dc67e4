/* stray_runs.c - runs of jobs that the database does not know
 *
 * After a restore, jobs that were submitted since the backup are forgotten, but their runs may
 * still be there.  Nobody adopts them, because no job has their key.  They are left alone, with
 * their files, and the log names them: what to do with them is for people to decide.
 */
#include "backend/live_runs.h"
#include "base/file.h"
#include "base/log.h"
#include "host/host_priv.h"
#include "store/query.h"

struct stray_look {
    struct host *h;
    char *dir;
    struct err e;
};

static bool keep_id(void *arg, const struct job_view *v)
{
    *(struct id *)arg = v->id;
    return false;
}

/* Worker thread. */
static void stray_check(void *arg, struct run_key key, pid_t supervisor UNUSED, pid_t pid)
{
    struct stray_look *k = arg;
    char text[RUN_KEY_TEXT_MAX];
    struct id id = {0};
    struct err e = {0};
    int rc = store_job(k->h->store, key.job, keep_id, &id, &e);

    if (rc < 0 ? e.code != ERR_NOT_FOUND
               : run_key_eq(key, core_run_key(k->h->core, key.job, id, key.run)))
        return;
    run_key_format(key, text);
    log_warn("host",
             "run %s (pid %d) belongs to a job that the database does not know; it is left running "
             "and its files stay; end it with 'kill %d'",
             text, (int)pid, (int)pid);
}

static void stray_look_work(void *arg)
{
    struct stray_look *k = arg;

    if (live_runs(k->dir, stray_check, k, &k->e) < 0)
        log_warn("host", "cannot look for runs of unknown jobs: %s", k->e.text);
}

static void stray_look_done(void *arg)
{
    struct stray_look *k = arg;

    k->h->works--;
    free(k->dir);
    free(k);
}

void stray_runs_look(struct host *h)
{
    struct stray_look *k = xcalloc(1, sizeof(*k));

    k->h = h;
    k->dir = path_join(h->paths.home, "shepherd");
    h->works++;
    work_submit(h->loop, stray_look_work, stray_look_done, k);
}
