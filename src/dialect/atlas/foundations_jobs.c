/* foundations_jobs.c - foundations get logs, stop, clear-queue and delete: jobs that are there
 *
 * The state decides what may be done; a job that waits for a worker to come up counts as queued,
 * one that failed as completed where only the end matters.
 */
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/foundations.h"
#include "dialect/atlas/home.h"
#include <stdio.h>

enum { STATE_MAX = 24 };

int found_known_job(struct foundations *f, const struct found_opts *o, struct json **out)
{
    struct err e = {0};

    *out = NULL;
    if (found_connect(f, f->cwd, o->ops.p[0], NULL))
        return 1;
    if (strspn(o->ops.p[1], "0123456789abcdefABCDEF-_") != strlen(o->ops.p[1]))
        err_set(&e, ERR_NOT_FOUND, "not a job id");
    else
        (void)found_job(f, o->ops.p[1], out, &e);
    struct str whole = json_get_str(*out, "job_id");
    if (whole.n > 0 && whole.n < sizeof(f->job_id)) {
        snprintf(f->job_id, sizeof(f->job_id), STR_FMT, STR_ARG(whole));
        o->ops.p[1] = f->job_id; /* the beginning of an id is enough */
    }
    if (e.code == ERR_NOT_FOUND) {
        found_say(f, "Error: Job `%s` does not exist in environment `%s`", o->ops.p[1],
                  o->ops.p[0]);
        return 1;
    }
    return *out ? 0 : found_fail(f, &e);
}

/* Why a job that has ended is still shown as running. */
static void found_tell_waiting(struct foundations *f, const struct found_opts *o)
{
    AUTO(json) struct json *job = NULL;
    struct err e;

    if (found_job(f, o->ops.p[1], &job, &e) < 0 ||
        !str_eq_c(json_get_str(job, "status"), "running"))
        return;
    struct str reason = json_get_str(job, "reason");
    if (reason.n)
        found_log(f, FOUND_WARNING, "Job '%s': " STR_FMT, o->ops.p[1], STR_ARG(reason));
}

/* 0 = state is filled in; 1 = there is no such job, or no answer, and that was said. */
static int found_job_state(struct foundations *f, const struct found_opts *o, char state[STATE_MAX])
{
    AUTO(json) struct json *job = NULL;

    if (found_known_job(f, o, &job))
        return 1;
    struct str now = json_get_str(job, "status");
    if (!now.n)
        now = STR("unknown");
    if (str_eq_c(now, "pending"))
        now = STR("queued");
    snprintf(state, STATE_MAX, STR_FMT, (int)MIN(now.n, STATE_MAX - 1), now.p);
    return 0;
}

/* ---- get logs ---- */

/* `refusal` gets the body of an answer that is no log. */
struct copying {
    int status;
    struct buf refusal;
};

static bool logs_on_bytes(void *arg, struct str piece)
{
    struct copying *k = arg;
    struct err e;

    if (k->status != 200)
        return buf_add(&k->refusal, piece.p, piece.n);
    return fd_write_all(STDOUT_FILENO, piece.p, piece.n, &e) == 0;
}

/* The log is copied as it arrives, without keeping it in memory. */
int found_get_logs(struct foundations *f, const struct found_opts *o)
{
    AUTO(buf) struct buf path = {0};
    struct copying k = {0};
    struct err e = {0};
    char state[STATE_MAX];

    if (found_job_state(f, o, state))
        return 1;
    if (!strcmp(state, "queued")) {
        found_say(f, "Error: Job `%s` is queued and has not produced any logs yet", o->ops.p[1]);
        return 1;
    }
    buf_init(&k.refusal, 64 << 10);
    found_job_path(&path, "/jobs/", o->ops.p[1], "/logs?offset=0");
    found_step(f, "GET %s", path.p);
    int rc =
        http_call_stream(f->http, "GET", path.p, NULL, STR(""), &k.status, logs_on_bytes, &k, &e);
    if (rc < 0)
        found_unreachable(&e);
    else if (k.status != 200) {
        struct http_response r = {.status = k.status, .body = k.refusal};
        rc = http_response_err(&r, &e);
    }
    buf_done(&k.refusal);
    if (rc == 0)
        found_tell_waiting(f, o);
    return rc < 0 ? found_fail(f, &e) : 0;
}

/* ---- stop, delete, clear-queue ---- */

static int remove_at(struct foundations *f, const char *where, const char *id, const char *query,
                     struct err *e)
{
    AUTO(buf) struct buf path = {0};

    found_job_path(&path, where, id, query);
    return found_call(f, "DELETE", path.p, NULL, NULL, e);
}

int found_stop(struct foundations *f, const struct found_opts *o)
{
    struct err e = {0};
    char state[STATE_MAX];

    if (found_job_state(f, o, state))
        return 1;
    if (strcmp(state, "running")) {
        found_say(f, "Error: Job `%s` is %s and cannot be stopped", o->ops.p[1],
                  strcmp(state, "failed") ? state : "completed");
        return 1;
    }
    if (remove_at(f, "/running_jobs/", o->ops.p[1], "", &e) < 0) {
        found_step(f, "%s", e.text);
        found_say(f, "Error stopping job %s", o->ops.p[1]);
        return 1;
    }
    return found_say(f, "Stopped running job %s", o->ops.p[1]);
}

int found_delete(struct foundations *f, const struct found_opts *o)
{
    struct err e = {0};
    char state[STATE_MAX];

    if (found_job_state(f, o, state))
        return 1;
    if (strcmp(state, "completed") && strcmp(state, "failed")) {
        found_say(f, "Error: Job `%s` has status `%s` and cannot be deleted", o->ops.p[1], state);
        return 1;
    }
    if (remove_at(f, "/completed_jobs/", o->ops.p[1], "", &e) < 0) {
        found_step(f, "%s", e.text);
        found_say(f,
                  "Error: Job %s could not be deleted completely (%s); look for what is left of it "
                  "under ~/.foundations/job_data/",
                  o->ops.p[1], e.text);
        return 1;
    }
    return found_say(f, "Job %s successfully deleted", o->ops.p[1]);
}

/* Removes the first job until there is none; jobs that arrive meanwhile go too. */
int found_clear_queue(struct foundations *f, const struct found_opts *o)
{
    struct err e = {0};
    long long n = 0;

    if (found_connect(f, f->cwd, o->ops.p[0], NULL))
        return 1;
    while (remove_at(f, "/queued_jobs/", "0", o->purge_bundles ? "?purge=1" : "", &e) == 0)
        n++;
    if (e.code != ERR_NOT_FOUND)
        return found_fail(f, &e);
    return found_say(f, "Removed %lld job(s) from queue", n);
}
