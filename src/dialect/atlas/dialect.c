/* dialect.c - Atlas' interface put together: its routes, opening and closing
 *
 * Owns: the table of routes, opening and closing.
 *
 * Every path answers on every port (the original had a proxy for each, and clients know them all);
 * on the port of archives a path that is none of ours names a file of an archive.
 */
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "dialect/atlas/atlas_priv.h"
#include <stdio.h>

static const struct route routes[] = {
    {"GET", "/", atlas_hello, AUTH_PUBLIC},
    {"POST", "/job_bundle", atlas_upload_end, AUTH_WRITE, SIZE_MAX / 2,
     ROUTE_PIECES}, /* what is unpacked has limits of its own */
    {"POST", "/job_bundle/contents", atlas_contents_ask, AUTH_WRITE},
    {"GET", "/job_bundle/{id}", atlas_bundle_get, AUTH_READ},
    {"DELETE", "/job_bundle/{id}", atlas_bundle_delete, AUTH_WRITE},
    {"POST", "/queued_jobs", atlas_enqueue, AUTH_WRITE},
    {"GET", "/queued_jobs", atlas_queue_list, AUTH_READ},
    {"GET", "/queued_jobs/{id}", atlas_queue_get, AUTH_READ},
    {"DELETE", "/queued_jobs/{id}", atlas_queue_delete, AUTH_WRITE},
    {"PATCH", "/queued_jobs/{id}", atlas_queue_patch, AUTH_WRITE},
    {"GET", "/running_jobs", atlas_jobs_list, AUTH_READ},
    {"GET", "/completed_jobs", atlas_jobs_list, AUTH_READ},
    {"GET", "/failed_jobs", atlas_jobs_list, AUTH_READ},
    {"GET", "/running_jobs/{id}/logs", atlas_jobs_logs, AUTH_READ},
    {"GET", "/completed_jobs/{id}/logs", atlas_jobs_logs, AUTH_READ},
    {"GET", "/failed_jobs/{id}/logs", atlas_jobs_logs, AUTH_READ},
    {"GET", "/running_jobs/{id}/container_id", atlas_jobs_container, AUTH_READ},
    {"DELETE", "/running_jobs/{id}", atlas_jobs_stop, AUTH_WRITE},
    {"DELETE", "/completed_jobs/{id}", atlas_jobs_delete, AUTH_WRITE},
    {"DELETE", "/failed_jobs/{id}", atlas_jobs_delete, AUTH_WRITE},
    {"GET", "/jobs/{id}", atlas_job_get, AUTH_READ},
    {"GET", "/jobs/{id}/logs", atlas_job_tail, AUTH_READ},
    {"GET", "/workers", atlas_workers_list, AUTH_READ},
    {"POST", "/workers", atlas_workers_add, AUTH_WRITE},
    {"DELETE", "/workers/{id}", atlas_workers_remove, AUTH_WRITE},
    {"GET", "/scheduled_jobs", atlas_scheduled_list, AUTH_READ},
    {"POST", "/scheduled_jobs", atlas_scheduled_post, AUTH_WRITE},
    {"GET", "/scheduled_jobs/{id}", atlas_scheduled_get, AUTH_READ},
    {"PUT", "/scheduled_jobs/{id}", atlas_scheduled_put, AUTH_WRITE},
    {"PATCH", "/scheduled_jobs/{id}", atlas_scheduled_patch, AUTH_WRITE},
    {"DELETE", "/scheduled_jobs/{id}", atlas_scheduled_delete, AUTH_WRITE},
    {"GET", "/archive/{file...}", atlas_archive_file, AUTH_READ},
    {"GET", "/{file...}", atlas_archive_file, AUTH_READ, 0, ROUTE_PORT},
    {"GET", "/api/v2beta/jobs/{file...}", atlas_files_get, AUTH_READ},
    {"PUT", "/api/v2beta/jobs/{file...}", atlas_files_put, AUTH_WRITE, ATLAS_FILE_MAX},
};

void atlas_work(struct call *c, call_work_fn work, call_fn then)
{
    call_keep_body(c);
    call_work(c, work, then);
}

static bool atlas_has_port(void *self, uint16_t port)
{
    const struct atlas *a = self;

    for (size_t i = 0; i < ARRAY_SIZE(a->ports); i++)
        if (a->ports[i] == port)
            return true;
    return false;
}

/* Two tables of routes that share everything else; the table that is added last is searched
 * first. */
static void atlas_serve(struct atlas *a)
{
    const struct service main = {.routes = routes,
                                 .n_routes = ARRAY_SIZE(routes),
                                 .self = a,
                                 .body_max = ATLAS_BODY_MAX,
                                 .extra = sizeof(struct atlas_note),
                                 .port = (uint16_t)a->conf.archive_port,
                                 .has_port = atlas_has_port,
                                 .identify = atlas_identify,
                                 .begin = atlas_upload_begin,
                                 .piece = upload_piece};
    struct service tracker = main;

    tracker.routes = atlas_tracker_routes;
    tracker.n_routes = atlas_tracker_n_routes;
    request_server_add(a->conf.requests, &tracker);
    request_server_add(a->conf.requests, &main);
}

void atlas_hello(struct call *c)
{
    c->type = "text/plain; charset=utf-8";
    buf_adds(&c->out, "Foundations Atlas scheduler: see /queued_jobs, /running_jobs, "
                      "/completed_jobs and /api/v2beta/projects\n");
    call_reply(c);
}

/* ---- life ---- */

/* Strings of the configuration are copied: the caller's may go. */
int atlas_open(const struct atlas_conf *c, struct atlas **out, struct err *e)
{
    struct atlas *a = xcalloc(1, sizeof(*a));
    AUTO_FREE char *contents = path_join(c->home, ATLAS_DIR_CONTENTS);

    a->uploads.max = ATLAS_UPLOADS_MAX;
    a->conf = *c;
    a->conf.home = xstrdup(c->home);
    a->conf.program = xstrdup(c->program);
    a->conf.python = xstrdup(c->python);
    a->conf.tensorboard_url = xstrdup(c->tensorboard_url);
    a->archive_dir = path_join(c->home, ATLAS_DIR_ARCHIVE);
    a->work_dir = path_join(c->home, ATLAS_DIR_WORK);
    if (atlas_home_make(c->home, 0, NULL, NULL, e) < 0 || cas_open(contents, &a->cas, e) < 0) {
        atlas_free(a);
        return err_wrap(e, "opening the Atlas home");
    }
    atlas_serve(a);
    *out = a;
    return 0;
}

/* Requests that wait for an archive are answered with what exists now. */
void atlas_shut(void *self)
{
    struct atlas *a = self;

    a->closing = true;
    atlas_waiting_look(a);
}

void atlas_free(void *self)
{
    struct atlas *a = self;

    if (!a)
        return;
    if (a->cas)
        cas_close(a->cas);
    vec_done(&a->live);
    vec_done(&a->full);
    vec_done(&a->workers);
    vec_done(&a->waiting);
    vec_done(&a->uploads.waiting);
    free(a->archive_dir);
    free(a->work_dir);
    free((char *)a->conf.home);
    free((char *)a->conf.program);
    free((char *)a->conf.python);
    free((char *)a->conf.tensorboard_url);
    free(a);
}
