/* foundations_submit.c - foundations submit: a directory becomes a job
 *
 * The steps and their lines are in the order users know: look, estimate, bundle, upload, enqueue,
 * stream.  Until the job is enqueued Ctrl-C, or any failure, leaves nothing behind on either side.
 */
#include "base/util.h"
#include "dialect/atlas/foundations.h"
#include <stdio.h>

/* One warning, for the largest bound that is exceeded. */
static void warn_size(struct foundations *f, int64_t bytes)
{
    static const int bounds[] = {500, 100, 50};

    for (size_t i = 0; i < ARRAY_SIZE(bounds); i++)
        if (bytes > (int64_t)bounds[i] << 20) {
            found_log(f, FOUND_WARNING,
                      "Directory size is larger than %dMB! Name what the job does not need in a "
                      ".foundationsignore file, or keep it elsewhere. Ctrl-C to cancel.",
                      bounds[i]);
            return;
        }
}

/* Ctrl-C is only noted while a job is being sent, so each step looks for it. */
static int check_interrupt(struct err *e)
{
    return found_interrupted(NULL) ? err_set(e, ERR_BUSY, "interrupted") : 0;
}

static int enqueue(struct foundations *f, const struct found_job *j, struct err *e)
{
    AUTO(json) struct json *body = json_new_object();
    struct json *gpus = json_new_object();

    json_set_str(body, "job_id", j->id);
    json_set_take(body, "spec", json_copy(j->spec));
    json_set_take(body, "metadata", json_copy(j->metadata));
    json_set_int(gpus, "num_gpus", j->num_gpus);
    json_set_take(body, "gpu_spec", gpus);
    return found_call(f, "POST", "/queued_jobs", body, NULL, e);
}

/* Removes the bundle of a job that was not enqueued; errors do not matter, since a second
 * failure would hide the first. */
static void foundations_take_back(struct foundations *f, const struct found_job *j)
{
    AUTO(buf) struct buf path = {0};
    struct err ignored;

    http_client_interrupt(f->http, NULL, NULL);
    found_job_path(&path, "/job_bundle/", j->id, "");
    (void)found_call(f, "DELETE", path.p, NULL, NULL, &ignored);
}

/* Up to the moment the scheduler has the job. */
static int send_job(struct foundations *f, const struct found_job *j, struct err *e)
{
    int64_t bytes = 0;

    http_client_interrupt(f->http, found_interrupted, NULL);
    found_log(f, FOUND_INFO, "Job submission started. Ctrl-C to cancel.");
    /* A server that does not answer is found before the directory is read. */
    if (found_call(f, "GET", "/", NULL, NULL, e) < 0)
        return -1;
    found_log(f, FOUND_INFO,
              "Preparing to bundle contents of %s for execution. Estimating bundle size.", j->dir);
    if (found_bundle_estimate(f, j->dir, &bytes, e) < 0)
        return -1;
    warn_size(f, bytes);
    if (check_interrupt(e) < 0)
        return -1;
    found_log(f, FOUND_INFO, "Bundling job contents.");
    int rc = found_bundle_upload(f, j, bytes, e);
    if (rc == 0)
        rc = check_interrupt(e);
    /* From here on the answer is awaited: a job is either submitted, and told, or it is not. */
    http_client_interrupt(f->http, NULL, NULL);
    if (rc == 0)
        rc = enqueue(f, j, e);
    if (rc < 0)
        foundations_take_back(f, j);
    return rc;
}

/* DISABLE_LOG_STREAMING wins over the option. */
static bool wants_stream(const struct found_opts *o)
{
    const char *off = getenv("DISABLE_LOG_STREAMING");

    if (off && strcmp(off, "False"))
        return false;
    return !o->stream_job_logs || !strcmp(o->stream_job_logs, "True");
}

/* The exit status.  The config of the directory wins over that of the home, so the directory is
 * known before the scheduler. */
static int foundations_submit_job(struct foundations *f, const struct found_opts *o,
                                  struct found_job *j)
{
    AUTO(json) struct json *conf = NULL;
    struct err e = {0};

    if (found_connect(f, j->dir, o->ops.p[0], &conf))
        return 1;
    if (found_job_make(f, o, conf, j, &e) < 0)
        return found_fail(f, &e);
    found_catch_interrupt();
    if (send_job(f, j, &e) < 0) {
        if (!found_interrupted(NULL))
            return found_fail(f, &e);
        found_log(f, FOUND_INFO, "Job submission cancelled; nothing was queued.");
        return EXIT_INTERRUPTED;
    }
    found_log(f, FOUND_INFO, "Job submitted with ID '%s'.", j->id);
    return wants_stream(o) ? found_stream(f, j->id, o->fail_on_job_error) : 0;
}

int found_submit(struct foundations *f, const struct found_opts *o)
{
    struct found_job j = {0};
    struct err e = {0};

    if (chdir(o->ops.p[1]) < 0) {
        err_sys(&e, "cannot enter job directory `%s`", o->ops.p[1]);
        return found_fail(f, &e);
    }
    j.dir = realpath(".", NULL);
    if (!j.dir) {
        err_sys(&e, "cannot tell where job directory `%s` is", o->ops.p[1]);
        return found_fail(f, &e);
    }
    int status = foundations_submit_job(f, o, &j);
    found_job_done(&j);
    return status;
}
