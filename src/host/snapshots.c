/* snapshots.c - removes snapshots that no job names any more
 *
 * Owns: the sweep over the stores of all users, on a worker thread.
 *
 * A sweep follows each removal of jobs and each start of the daemon, at most one at a time.  A
 * store that is in use (an upload, the start of a run) is looked at again ten seconds later.
 */
#include "api/api.h"
#include "archive/cas.h"
#include "archive/snapshot.h"
#include "base/file.h"
#include "base/log.h"
#include "host/host_priv.h"
#include "store/query.h"
#include <dirent.h>
#include <sys/stat.h>

enum { SWEEP_AGAIN_MS = 10 * 1000 };

/* Belongs to the loop thread, except `busy`, which the worker thread sets while `working` is true.
 */
struct snapshot_sweep {
    struct host *h;
    struct timer *again;
    bool working, wanted; /* wanted: jobs were removed while a sweep was under way */
    bool busy;            /* a store was in use */
};

/* What sweep_used needs: where to look, and whose rights to take on again afterwards. */
struct sweep_question {
    const struct host *h;
    struct snapshot_owner owner;
    bool claimed; /* a job that is being recorded may name a snapshot */
};

/* The store of jobs may be opened anew for this, which is for the daemon's own user only.  The
 * sweep of a user's store goes on with the rights of that user. */
static int sweep_used(void *arg, const char *id)
{
    struct sweep_question *q = arg;
    struct err e;

    /* Asked before the store: a job that is counted no longer is in the store. */
    q->claimed |= api_claims_snapshots(q->h->api);
    if (q->claimed)
        return -1;
    snapshot_as_self();
    int rc = store_snapshot_used(q->h->store, id, &e);
    return snapshot_as(q->owner, &e) < 0 ? -1 : rc;
}

/* A store in use is tried again later; any other failure is logged and waits for the next removal
 * of jobs or the next start of the daemon. */
static void sweep_store(struct snapshot_sweep *s, struct snapshot_owner owner)
{
    struct sweep_question q = {.h = s->h, .owner = owner};
    struct err e = {0};
    struct cas *cas;

    if (snapshot_store_open(s->h->paths.home, owner, &cas, &e) == 0) {
        int rc = snapshot_as(owner, &e);
        if (rc == 0)
            rc = snapshot_collect(cas, sweep_used, &q, &e);
        snapshot_as_self();
        cas_close(cas);
        s->busy |= q.claimed;
        if (rc == 0)
            return;
    }
    if (e.code == ERR_BUSY)
        s->busy = true;
    else
        log_warn("host", "removing snapshots of user %u: %s", owner.uid, e.text);
}

/* Worker thread.  The name of each store is the uid of its user; the gid is that of the directory.
 */
static void sweep_work(void *arg)
{
    struct snapshot_sweep *s = arg;
    AUTO_FREE char *parent = path_join(s->h->paths.home, "snapshots");
    DIR *d = opendir(parent);

    for (struct dirent *n; d && (n = readdir(d));) {
        struct stat st;
        int64_t uid;
        if (str_to_i64(str_of(n->d_name), &uid) && fstatat(dirfd(d), n->d_name, &st, 0) == 0)
            sweep_store(s, (struct snapshot_owner){(uint32_t)uid, (uint32_t)st.st_gid});
    }
    if (d)
        closedir(d);
}

static void sweep_start(struct snapshot_sweep *s);

/* Loop thread.  `wanted` wins over `busy`, because a new sweep looks at every store. */
static void sweep_done(void *arg)
{
    struct snapshot_sweep *s = arg;

    s->working = false;
    s->h->works--;
    if (s->h->ends.shut)
        return;
    if (s->wanted)
        sweep_start(s);
    else if (s->busy)
        timer_start(s->again, SWEEP_AGAIN_MS, 0);
}

static void sweep_start(struct snapshot_sweep *s)
{
    s->working = true;
    s->wanted = s->busy = false;
    s->h->works++;
    work_submit(s->h->loop, sweep_work, sweep_done, s);
}

static void sweep_again(void *arg)
{
    snapshots_look(((struct snapshot_sweep *)arg)->h);
}

void snapshots_look(struct host *h)
{
    if (!h->sweep) {
        AUTO_FREE char *parent = path_join(h->paths.home, "snapshots");
        if (access(parent, F_OK) < 0)
            return; /* nobody ever took one */
        h->sweep = xcalloc(1, sizeof(*h->sweep));
        h->sweep->h = h;
        h->sweep->again = timer_new(h->loop, sweep_again, h->sweep);
    }
    if (h->sweep->working)
        h->sweep->wanted = true;
    else
        sweep_start(h->sweep);
}

void snapshots_shut(struct host *h)
{
    if (!h->sweep)
        return;
    timer_free(h->sweep->again);
    free(TAKE(h->sweep));
}
