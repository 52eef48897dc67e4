/* live.c - jobs that have a working directory: which worker each is on, and its archive at the end
 *
 * Owns: the list of such jobs and the numbers of the workers.
 *
 * A job comes onto the list when it is started, or when a restart finds its directory.  Once the
 * controller knows it as ended, its files are archived on a worker thread; only then does Atlas
 * show the job as ended, because clients read the archive as soon as they see that.  Nothing of
 * this is recorded: while the working directory exists, the job is still to be archived.
 */
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/atlas_priv.h"
#include <dirent.h>
#include <stdio.h>

/* Few jobs have a working directory at one time, so a list is enough. */
struct atlas_live *atlas_live_find(struct atlas *a, uint64_t job)
{
    for (size_t i = 0; i < a->live.n; i++)
        if (a->live.p[i].job == job)
            return &a->live.p[i];
    return NULL;
}

/* The first worker without a job; -1 when all are busy. */
static int32_t idle_worker(const struct atlas *a)
{
    for (size_t i = 0; i < a->workers.n; i++) {
        bool taken = false;
        for (size_t k = 0; k < a->live.n; k++)
            taken |= a->live.p[k].worker == a->workers.p[i] && !a->live.p[k].archiving;
        if (!taken)
            return a->workers.p[i];
    }
    return -1;
}

/* A job that is started again while it is on the list keeps its worker. */
struct atlas_live *atlas_live_add(struct atlas *a, uint64_t job, const char *id)
{
    struct atlas_live *l = atlas_live_find(a, job);

    if (!l) {
        vec_push(&a->live, ((struct atlas_live){.job = job, .worker = idle_worker(a)}));
        l = &vec_last(&a->live);
        snprintf(l->id, sizeof(l->id), "%s", id);
    }
    return l;
}

/* Numbers begin at 0 and have no gaps after a start. */
int32_t atlas_workers_set(struct atlas *a, int32_t n)
{
    vec_clear(&a->workers);
    for (int32_t i = 0; i < n; i++)
        vec_push(&a->workers, i);
    return n;
}

/* ---- archives ---- */

struct archiving {
    struct atlas *a;
    uint64_t job; /* 0 = of a job that is not known any more: its directory only goes */
    char id[ATLAS_ID_MAX];
    struct err err;
    int rc;
};

/* Files that a container wrote as root are removed with the help of the host. */
static void archive_work(void *arg)
{
    struct archiving *x = arg;

    AUTO_FREE char *dir = path_join(x->a->work_dir, x->id);
    x->rc = x->job ? atlas_archive_job(x->a->conf.home, x->a->cas, x->id, &x->err)
                   : dir_remove_tree(dir, &x->err);
    if (x->rc < 0 && x->err.code == ERR_DENIED)
        x->rc = host_clean_dir(x->a->conf.env, dir, &x->err);
}

/* A job whose archive failed leaves the list too: its working directory is tried again at the
 * next start. */
static void archive_done(void *arg)
{
    struct archiving *x = arg;
    struct atlas *a = x->a;

    request_server_release(a->conf.requests);
    if (x->rc < 0)
        log_warn("atlas", "job %s: %s", x->id, x->err.text);
    for (size_t i = 0; i < a->live.n; i++)
        if (a->live.p[i].job == x->job && a->live.p[i].archiving) {
            vec_remove(&a->live, i);
            break;
        }
    free(x);
    atlas_waiting_look(a);
}

/* The server stays busy until the worker thread is done. */
static void archive_start(struct atlas *a, uint64_t job, const char *id)
{
    struct archiving *x = xcalloc(1, sizeof(*x));

    x->a = a;
    x->job = job;
    snprintf(x->id, sizeof(x->id), "%s", id);
    request_server_hold(a->conf.requests);
    work_submit(a->conf.loop, archive_work, archive_done, x);
}

/* A job is taken once: `archiving` stays set until archive_done removes the entry. */
void atlas_live_look(struct atlas *a)
{
    for (size_t i = 0; i < a->live.n; i++) {
        struct atlas_live *l = &a->live.p[i];
        if (l->archiving || core_job_active(a->conf.core, l->job, NULL))
            continue;
        l->archiving = true;
        archive_start(a, l->job, l->id);
    }
}

/* Called after every commit of the store; both calls are cheap when nothing has changed. */
void atlas_committed(void *self)
{
    struct atlas *a = self;

    if (!a->closing)
        atlas_live_look(a);
    atlas_notify_look(a->notify);
}

/* ---- after a restart ---- */

/* A working directory whose job is unknown only goes. */
static void live_resume(struct atlas *a, const char *id)
{
    uint64_t job;
    struct err e;

    if (atlas_resolve(a->conf.store, id, &job, &e) == 0)
        atlas_live_add(a, job, id);
    else if (e.code == ERR_NOT_FOUND)
        archive_start(a, 0, id);
    else
        log_warn("atlas", "looking for job %s: %s", id, e.text);
}

/* There is nobody to answer: a failure is logged. */
static void on_rules(void *arg, const struct err *e, const struct acted *r)
{
    (void)arg;
    (void)r;
    if (e)
        log_warn("atlas", "setting the number of workers: %s", e->text);
}

/* The number of workers comes from atlas-server, or from the last limit of the queue. */
void atlas_recovered(void *self)
{
    struct atlas *a = self;
    const struct caller server = {.uid = a->conf.uid, .admin = true, .user = "atlas-server"};
    struct queue_rules was = core_queue_rules_of(a->conf.core, STR(ATLAS_QUEUE));
    int32_t n = a->conf.workers ? a->conf.workers : was.limit ? was.limit : 1;
    struct queue_rules rules = {.strict = true,
                                .backfill = a->conf.workers ? a->conf.backfill : was.backfill,
                                .limit = atlas_workers_set(a, n)};
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    DIR *d = opendir(a->work_dir);

    core_queue_rules(a->conf.core, STR(ATLAS_QUEUE), &rules, &server, on_rules, NULL);
    if (a->conf.workers) { /* the node has slots for any number of workers: not for others */
        struct queue_rules others = {.limit = (int32_t)cpus};
        core_queue_rules(a->conf.core, STR("default"), &others, &server, on_rules, NULL);
    }
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (atlas_id_ok(entry->d_name))
            live_resume(a, entry->d_name);
    if (d)
        closedir(d);
    atlas_live_look(a);
    atlas_schedules_recover(a);
    atlas_notify_open(a);
}
