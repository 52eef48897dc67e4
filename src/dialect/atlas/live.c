/* live.c - which job each worker of Atlas runs, and the archive of a job's files at its end
 *
 * Owns: the list of jobs on workers, and the numbers of the workers.
 *
 * The archive is the end step of a run (host/part.h), so the core shows a job as ended only when
 * its archive is complete; clients read the archive as soon as they see that.
 */
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/atlas_priv.h"
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>

/* ---- workers ---- */

/* Entries of runs that have ended are dropped when somebody looks.  Few jobs are on workers at one
 * time, so a list is enough. */
static void live_prune(struct atlas *a)
{
    for (size_t i = 0; i < a->live.n;) {
        uint64_t job = a->live.p[i].job;
        struct run_key key;
        if (core_job_active(a->conf.core, job, &key) && key.run &&
            !core_job_ending(a->conf.core, job))
            i++;
        else
            vec_remove(&a->live, i);
    }
}

const struct atlas_live *atlas_on_worker(struct atlas *a, int32_t worker)
{
    live_prune(a);
    for (size_t i = 0; i < a->live.n; i++)
        if (a->live.p[i].worker == worker)
            return &a->live.p[i];
    return NULL;
}

/* The first worker without a job; -1 when all are busy. */
static int32_t idle_worker(struct atlas *a)
{
    for (size_t i = 0; i < a->workers.n; i++)
        if (!atlas_on_worker(a, a->workers.p[i]))
            return a->workers.p[i];
    return -1;
}

void atlas_live_add(struct atlas *a, uint64_t job, const char *id)
{
    struct atlas_live l = {.job = job, .worker = idle_worker(a)};

    for (size_t i = 0; i < a->live.n; i++)
        if (a->live.p[i].job == job)
            return; /* its start is repeated: it keeps its worker */
    snprintf(l.id, sizeof(l.id), "%s", id);
    vec_push(&a->live, l);
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

/* Worker thread.  Files that a container wrote as root are removed with the help of the host. */
static int live_archive(struct atlas *a, const char *id, const atomic_bool *cancel, struct err *e)
{
    AUTO_FREE char *dir = path_join(a->work_dir, id);

    if (atlas_archive_job(a->conf.home, a->cas, id, cancel, e) == 0)
        return 0;
    return e->code == ERR_DENIED ? host_clean_dir(a->conf.env, dir, e) : -1;
}

/* The archives that wait for space, for whoever asks for their jobs.  The lock is all they need:
 * there are none while the disk has space. */
static pthread_mutex_t full_lock = PTHREAD_MUTEX_INITIALIZER;

static void note_full(struct atlas *a, const char *id, const struct err *e)
{
    struct atlas_full x = {0};

    snprintf(x.id, sizeof(x.id), "%s", id);
    if (e)
        snprintf(x.text, sizeof(x.text), "its archive waits for space on the disk: %s", e->text);
    pthread_mutex_lock(&full_lock);
    for (size_t i = 0; i < a->full.n; i++)
        if (!strcmp(a->full.p[i].id, id)) {
            vec_remove(&a->full, i);
            break;
        }
    if (e)
        vec_push(&a->full, x);
    pthread_mutex_unlock(&full_lock);
}

bool atlas_archive_waits(struct atlas *a, const char *id, struct atlas_full *out)
{
    bool found = false;

    pthread_mutex_lock(&full_lock);
    for (size_t i = 0; i < a->full.n && !found; i++)
        if ((found = !strcmp(a->full.p[i].id, id)))
            *out = a->full.p[i];
    pthread_mutex_unlock(&full_lock);
    return found;
}

/* Without space on the disk the host calls again. */
int atlas_ended(void *self, const struct host_ended *job, struct err *e)
{
    char id[ATLAS_ID_MAX];

    atlas_id_format(job->id, str_of(job->name), id);
    int rc = live_archive(self, id, job->cancel, e);
    note_full(self, id, rc < 0 && e->code == ERR_FULL && !*job->cancel ? e : NULL);
    return rc;
}

void atlas_committed(void *self)
{
    struct atlas *a = self;

    atlas_waiting_look(a);
}

/* ---- after a restart ---- */

/* A working directory without an active job: its archive failed, or its job was removed. */
struct leftover {
    struct atlas *a;
    bool known; /* there is such a job; otherwise the directory is only removed */
    char id[ATLAS_ID_MAX];
};

/* Worker thread.  Of a removed job only the directory is left; of any other the archive is made
 * now. */
static void leftover_work(void *arg)
{
    struct leftover *x = arg;
    AUTO_FREE char *dir = path_join(x->a->work_dir, x->id);
    struct err e = {0};
    int rc = x->known ? live_archive(x->a, x->id, NULL, &e) : dir_remove_tree(dir, &e);

    if (rc < 0)
        log_warn("atlas", "job %s: %s", x->id, e.text);
}

static void leftover_done(void *arg)
{
    struct leftover *x = arg;

    request_server_release(x->a->conf.requests);
    free(x);
}

/* A job that runs is on a worker; a job that waits gets its directory again when it starts. */
static void live_resume(struct atlas *a, const char *id)
{
    uint64_t job;
    struct run_key key;
    struct err e;
    int rc = atlas_resolve(a->conf.store, id, &job, &e);

    if (rc < 0 && e.code != ERR_NOT_FOUND) {
        log_warn("atlas", "looking for job %s: %s", id, e.text);
    } else if (rc == 0 && core_job_active(a->conf.core, job, &key)) {
        if (key.run)
            atlas_live_add(a, job, id);
    } else {
        struct leftover *x = xcalloc(1, sizeof(*x));
        x->a = a;
        x->known = rc == 0;
        snprintf(x->id, sizeof(x->id), "%.*s", ATLAS_ID_MAX - 1, id);
        request_server_hold(a->conf.requests); /* the server stays busy until the thread is done */
        work_submit(a->conf.loop, leftover_work, leftover_done, x);
    }
}

/* There is nobody to answer: a failure is logged. */
static void rules_set(void *arg, const struct err *e, const struct acted *r)
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

    core_queue_rules(a->conf.core, STR(ATLAS_QUEUE), &rules, &server, rules_set, NULL);
    if (a->conf.workers) { /* the node has slots for any number of workers: not for others */
        struct queue_rules others = {.limit = (int32_t)cpus};
        core_queue_rules(a->conf.core, STR("default"), &others, &server, rules_set, NULL);
    }
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (atlas_id_ok(entry->d_name))
            live_resume(a, entry->d_name);
    if (d)
        closedir(d);
    atlas_schedules_recover(a);
}
