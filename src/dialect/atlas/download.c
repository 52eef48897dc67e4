/* download.c - GET and DELETE /job_bundle: the archive of a job as a tgz
 *
 * Owns: requests that wait for an archive to be complete.
 */
#include "request/download.h"
#include "archive/tgz.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/atlas_priv.h"

/* ---- waiting for an archive ---- */

static void bundle_start(struct call *c);

/* Goes through the requests that wait for an archive; those of clients that left are dropped.  Loop
 * thread: when such a request arrives, after every commit, and when the server closes. */
void atlas_waiting_look(struct atlas *a)
{
    for (size_t i = 0; i < a->waiting.n;) {
        struct call *c = a->waiting.p[i];
        if (c->req && !a->closing && core_job_ending(a->conf.core, atlas_note(c)->job)) {
            i++;
            continue;
        }
        vec_remove(&a->waiting, i);
        if (!c->req)
            call_free(c);
        else
            bundle_start(c);
    }
}

/* ---- a tgz ---- */

/* The tar has the id of the job as its top directory. */
static int bundle_work(struct call *c)
{
    struct tgz **out = c->data;
    char tree[ATLAS_TREE_MAX];

    if (!atlas_id_ok(c->arg[0].p))
        return err_set(&c->err, ERR_NOT_FOUND, "there is no job '%.60s'", c->arg[0].p);
    atlas_archive_tree(c->arg[0].p, tree);
    if (tgz_open_tree(call_atlas(c)->cas, tree, c->arg[0].p, NULL, out, &c->err) < 0) {
        if (c->err.code == ERR_NOT_FOUND)
            err_set(&c->err, ERR_NOT_FOUND, "job %.40s has no archive", c->arg[0].p);
        return -1;
    }
    return 0;
}

static void bundle_then(struct call *c)
{
    download_tgz(c, TAKE(*(struct tgz **)c->data), NULL, geteuid(), c->arg[0].p);
}

static void bundle_start(struct call *c)
{
    c->data = call_alloc(c, sizeof(struct tgz *));
    atlas_work(c, bundle_work, bundle_then);
}

/* An id without a job has no archive either; bundle_work says so. */
static int bundle_find(struct call *c)
{
    struct err unknown;

    atlas_resolve(call_atlas(c)->conf.store, c->arg[0].p, &atlas_note(c)->job, &unknown);
    return 0;
}

static void bundle_found(struct call *c)
{
    vec_push(&call_atlas(c)->waiting, c);
    atlas_waiting_look(call_atlas(c));
}

/* GET /job_bundle/JOB.  While the archive is being made, the request waits. */
void atlas_bundle_get(struct call *c)
{
    atlas_work(c, bundle_find, bundle_found);
}

/* ---- a bundle whose job was never submitted ---- */

/* Worker thread.  The bundle of a job that was submitted belongs to the job. */
static int drop_work(struct call *c)
{
    AUTO(atlas_job) struct atlas_job j = {0};
    char tree[ATLAS_TREE_MAX];

    if (atlas_job_find(c, c->arg[0], &j) == 0)
        return err_set(&c->err, ERR_CONFLICT, "job %.40s was submitted; delete the job instead",
                       c->arg[0].p);
    if (c->err.code != ERR_NOT_FOUND || !atlas_id_ok(c->arg[0].p))
        return -1;
    c->err = (struct err){0};
    atlas_bundle_tree(c->arg[0].p, tree);
    if (!cas_has_tree(call_atlas(c)->cas, tree))
        return err_set(&c->err, ERR_NOT_FOUND, "there is no bundle %.40s", c->arg[0].p);
    c->status = 204;
    return cas_drop_tree(call_atlas(c)->cas, tree, &c->err);
}

/* DELETE /job_bundle/JOB: clients take a bundle back when the submission failed. */
void atlas_bundle_delete(struct call *c)
{
    atlas_work(c, drop_work, NULL);
}
