/* run_file.c - berth run FILE: the same file again means the same batch again
 *
 * Owns: what is remembered of a file.  Its jobs are found by an idempotency key made of the file's
 * path and what it describes, without the environment and the number of slots: those may differ
 * from one terminal to the next.  One small file in the home, sweeps/KEY, says how often the file
 * was begun anew (--again) and whether Ctrl-C ended it: then what was cancelled is run after all.
 */
#include "base/file.h"
#include "base/hash.h"
#include "base/util.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "cli/view.h"
#include <stdio.h>

enum { HASH_HEX = 32, STATE_MAX = 64 };

/* What is known about earlier runs of this file, kept in a small file in the home.  generation is
 * part of the idempotency key: --again increments it and so makes a new batch. */
struct memory {
    char hash[HASH_HEX + 1];
    char *path;
    int generation;
    bool interrupted;
};

/* The same file with the same contents is the same batch.  The environment and --slots do not
 * count: a sweep must be resumable from another shell and with more slots. */
static void identify(const struct json *spec, const char *file, char out[HASH_HEX + 1])
{
    AUTO(json) struct json *copy = json_copy(spec);
    uint8_t digest[32];
    struct sha256 h;
    AUTO_FREE char *path = path_from_here(file);

    json_del(copy, "env");
    json_del(copy, "slots");
    AUTO_FREE char *text = json_text(copy);
    sha256_init(&h);
    sha256_add(&h, path, strlen(path) + 1);
    sha256_add(&h, text, strlen(text));
    sha256_end(&h, digest);
    for (size_t i = 0; i < HASH_HEX / 2; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* No file, or one that cannot be read, counts as a file that was never run. */
static void recall(struct memory *m)
{
    AUTO_FREE char *text = NULL;
    size_t n;
    struct err e;
    int interrupted = 0;

    if (file_read_all(m->path, STATE_MAX, &text, &n, &e) == 0 &&
        sscanf(text, "%d %d", &m->generation, &interrupted) == 2)
        m->interrupted = interrupted != 0;
}

/* With --again this is written before the jobs are submitted: a command that is killed in between
 * finds the same jobs the next time. */
static int remember(const struct memory *m, struct err *e)
{
    AUTO_FREE char *dir = xstrndup(m->path, (size_t)(strrchr(m->path, '/') - m->path));
    char text[STATE_MAX];
    int n = snprintf(text, sizeof(text), "%d %d\n", m->generation, m->interrupted);

    if (dir_make_all(dir, 0700, e) < 0)
        return -1;
    return file_write_atomic(m->path, text, (size_t)n, 0600, e);
}

static int file_submit(struct run_session *s, const struct json *spec, const struct memory *m,
                       const char *given_key, struct json **reply, bool *is_new, struct err *e)
{
    AUTO_FREE char *key =
        given_key ? xstrdup(given_key) : xasprintf("run-%s-%d", m->hash, m->generation);

    /* A key of ours is a hash of the file. */
    struct jobspec_key k = {.key = key, .print = given_key ? NULL : key};
    return jobspec_submit(s->c, spec, &k, reply, is_new, e);
}

/* Submitted, or found.  Jobs that were removed since are submitted afresh. */
static int find_or_submit(struct run_session *s, const struct run_opts *o, const struct json *spec,
                          struct memory *m, struct json **reply, bool *is_new, struct err *e)
{
    int rc = file_submit(s, spec, m, o->job.key, reply, is_new, e);

    if (rc == 0 || e->code != ERR_CONFLICT || o->job.key)
        return rc;
    m->generation++;
    m->interrupted = false;
    if (remember(m, e) < 0)
        return -1;
    return file_submit(s, spec, m, NULL, reply, is_new, e);
}

/* Retries the jobs of the batch that are in these states; *out_done is how many there were. */
static int retry_states(struct run_session *s, const char *batch, const char *states,
                        int64_t *out_done, struct err *e)
{
    AUTO(json) struct json *body = json_new_object(), *reply = NULL;

    json_set_str(body, "batch", batch);
    json_set_str(body, "state", states);
    int rc = cli_post(s->c, "/v1/jobs/retry", body, &reply, e);
    *out_done = rc == 0 ? int_of(reply, "done") : 0;
    return rc;
}

static int active_of(struct run_session *s, const char *batch, struct json **counts,
                     int64_t *out_active, struct err *e)
{
    if (cli_getf(s->c, counts, e, "/v1/jobs/summary?batch=%s", batch) < 0)
        return -1;
    *out_active = int_of(*counts, "total") - counts_done(*counts);
    return 0;
}

/* A batch from before: what is left of it, plus what is to be tried again.  *out_go: there is. */
static int resume(struct run_session *s, const struct run_opts *o, struct memory *m,
                  const char *batch, bool *out_go, struct err *e)
{
    AUTO(json) struct json *counts = NULL;
    int64_t again = 0, active = 0;
    const char *states = o->retry_failed && m->interrupted ? "failed,lost,cancelled"
                         : o->retry_failed                 ? "failed,lost"
                         : m->interrupted                  ? "cancelled"
                                                           : NULL;

    /* Counted first: what is tried again may be done before anybody looks. */
    if (active_of(s, batch, &counts, &active, e) < 0)
        return -1;
    int64_t done = counts_done(counts), total = int_of(counts, "total");
    if (states && retry_states(s, batch, states, &again, e) < 0)
        return -1;
    if (m->interrupted) {
        m->interrupted = false;
        if (remember(m, e) < 0)
            return -1;
    }
    *out_go = active > 0 || again > 0;
    if (*out_go && !o->quiet)
        cli_say("resuming: %lld of %lld job%s ended before", (long long)(done - again),
                (long long)total, plural_end(total));
    return 0;
}

/* is_new false: the jobs were submitted by an earlier command, and this one resumes them. */
static int run_many(struct run_session *s, const struct run_opts *o, struct memory *m,
                    const struct json *reply, bool is_new, const char *file)
{
    struct str id = text_of(reply, "batch");
    AUTO_FREE char *batch = xstrndup(id.p, id.n);
    bool go = true, interrupted = false;
    struct err e = {0};

    if (!is_new && resume(s, o, m, batch, &go, &e) < 0)
        return cli_fail(&e);
    if (!go) {
        int rc = run_batch_table(s, o, batch, -1);
        if (!o->quiet)
            cli_say("all jobs of %s have already ended; --again runs them again%s", file,
                    rc ? ", --retry-failed runs only the failed jobs again" : "");
        return rc;
    }
    int rc = run_batch(s, o, reply, &interrupted);
    if (interrupted) {
        m->interrupted = true;
        if (remember(m, &e) < 0)
            return cli_fail(&e);
        cli_say("interrupted; the same command resumes the remaining jobs");
    }
    return rc;
}

/* A file with one job in it is run like a command. */
static int run_single(struct run_session *s, const struct run_opts *o, const struct json *spec,
                      const struct json *reply, bool is_new, const char *file)
{
    AUTO_FREE char *path = xasprintf("/v1/jobs/%lld", (long long)int_of(reply, "number"));
    AUTO_FREE char *again = xasprintf("%s/retry", path);
    AUTO(json) struct json *job = NULL;
    struct err e = {0};
    char text[400];

    if (!is_new) {
        if (cli_get(s->c, path, &job, &e) < 0)
            return cli_fail(&e);
        int status = job_exit_status(job);
        bool final = job_final(job);
        job_outcome_text(job, text, sizeof(text));
        if (final && !(status && o->retry_failed)) {
            cli_say("the job of %s has already ended: it %s; --again runs it again", file, text);
            return status;
        }
        if (final && cli_post(s->c, again, NULL, NULL, &e) < 0)
            return cli_fail(&e);
    }
    return run_job(s, o->quiet, int_of(reply, "number"), json_bool(json_get(spec, "split_output")));
}

int run_file(struct run_session *s, const struct run_opts *o, const struct json *spec,
             const char *file)
{
    struct memory m = {0};
    AUTO(json) struct json *reply = NULL;
    struct err e = {0};
    bool is_new = true;
    int rc;

    identify(spec, file, m.hash);
    m.path = xasprintf("%s/sweeps/%s", s->c->home, m.hash);
    recall(&m);
    if (o->again) {
        m.generation++;
        m.interrupted = false;
    }
    if ((o->again && remember(&m, &e) < 0) ||
        find_or_submit(s, o, spec, &m, &reply, &is_new, &e) < 0)
        rc = cli_fail(&e);
    else if (json_has(reply, "count"))
        rc = run_many(s, o, &m, reply, is_new, file);
    else
        rc = run_single(s, o, spec, reply, is_new, file);
    free(m.path);
    return rc;
}
