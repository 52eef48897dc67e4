/* run_one.c - berth run -- COMMAND: its output here, its status ours
 *
 * Owns: staying with one job.  This thread copies the job's output; a second one watches for Ctrl-C
 * and says why the job waits, when it does so for more than two seconds.  A job that is tried again
 * is followed through all its runs.
 */
#include "base/util.h"
#include "cli/follow.h"
#include "cli/run.h"
#include "cli/view.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum {
    EXPLAIN_FIRST_MS = 2000,
    EXPLAIN_MORE_MS = 5000,
    NAP_MS = 50,
    EXIT_PIPE = 141,
    EXIT_INTERRUPTED = 130
};

struct one {
    struct run_session *s;
    char ref[24];
    int64_t number;
    bool quiet;
    atomic_bool started;         /* output may come: no more talk about waiting */
    atomic_bool over, cancelled; /* cancelled: by Ctrl-C here */
    int stop[2];                 /* written when the watcher should leave */
};

/* ---- the second thread ---- */

/* Second thread.  `said` is the reason that was printed last: the same reason is not repeated. */
static void say_why(struct one *o, struct http_client *http, char *said, size_t n)
{
    AUTO_FREE char *path = xasprintf("/v1/jobs/%s/explain", o->ref);
    struct http_response r;
    AUTO(json) struct json *j = NULL;
    struct err e;

    if (atomic_load(&o->started) || o->quiet ||
        http_call(http, "GET", path, NULL, STR(""), &r, &e) < 0)
        return;
    if (r.status == 200 && json_parse(buf_str(&r.body), "answer", &j, &e) == 0 &&
        json_bool(json_get(j, "waiting"))) {
        struct str text = text_of(j, "text");
        if (!str_eq_c(text, said))
            cli_say("job %s waits: " STR_FMT, o->ref, STR_ARG(text));
        snprintf(said, n, STR_FMT, STR_ARG(text));
    }
    http_response_done(&r);
}

/* Second thread, at the first Ctrl-C.  The main thread keeps copying until the job has ended. */
static void cancel_now(struct one *o, struct http_client *http)
{
    AUTO_FREE char *path = xasprintf("/v1/jobs/%s/cancel", o->ref);
    struct http_response r = {0};
    struct err e;

    atomic_store(&o->cancelled, true);
    cli_say("cancelling job %s; press Ctrl-C again to exit at once", o->ref);
    if (http_call(http, "POST", path, NULL, STR(""), &r, &e) < 0)
        cli_say("cannot cancel the job: %s", e.text);
    http_response_done(&r);
}

/* Reads Ctrl-C and explains long waits on a connection of its own, since the main thread blocks in
 * the stream of the output. */
static void *watcher(void *arg)
{
    struct one *o = arg;
    struct http_client *http = cli_connect_again(o->s->c);
    struct pollfd p[] = {{o->s->interrupts[0], POLLIN, 0}, {o->stop[0], POLLIN, 0}};
    int wait_ms = EXPLAIN_FIRST_MS;
    char said[400] = "";

    for (int interrupts = 0; http;) {
        int n = poll(p, 2, wait_ms);
        char byte;
        if (p[1].revents)
            break;
        if (n == 0) {
            say_why(o, http, said, sizeof(said));
            wait_ms = EXPLAIN_MORE_MS;
        } else if (n > 0 && read(o->s->interrupts[0], &byte, 1) == 1) {
            if (++interrupts > 1)
                run_session_abandon(o->s);
            cancel_now(o, http);
        }
    }
    http_client_free(http);
    return NULL;
}

/* Standard error of a job with split output, on a connection of its own. */
struct errors {
    struct one *o;
    int64_t run;
};

/* Third thread, for split output only.  Resumes behind the last byte after a change of the daemon.
 */
static void *copy_errors(void *arg)
{
    struct errors *x = arg;
    struct http_client *http = cli_connect_again(x->o->s->c);
    struct follow_log f = {
        .ref = x->o->ref, .run = x->run, .err_file = true, .follow = true, .fd = STDERR_FILENO};
    struct err e;

    while (http && follow_log(http, &f, &e) < 0 && e.code == ERR_UNAVAILABLE &&
           !atomic_load(&x->o->over))
        poll(NULL, 0, NAP_MS);
    http_client_free(http);
    return NULL;
}

/* ---- this thread ---- */

static int job_record(struct one *o, struct json **out, struct err *e)
{
    return cli_getf(o->s->c, out, e, "/v1/jobs/%s", o->ref);
}

/* One run from its first byte to its end.  The host may change hands on the way. */
static int copy_run(struct one *o, int64_t run, bool split, bool *out_closed, struct err *e)
{
    struct follow_log f = {.ref = o->ref, .run = run, .follow = true, .fd = STDOUT_FILENO};
    struct errors x = {o, run};
    pthread_t errors;
    bool helper = split && pthread_create(&errors, NULL, copy_errors, &x) == 0;
    int rc;

    while ((rc = follow_log(o->s->c->http, &f, e)) < 0 && e->code == ERR_UNAVAILABLE) {
        AUTO(json) struct json *job = NULL;
        poll(NULL, 0, NAP_MS);
        if ((rc = job_record(o, &job, e)) < 0)
            break;
    }
    if (helper)
        pthread_join(errors, NULL);
    *out_closed = f.closed;
    return rc;
}

/* Nobody reads the output any more: the job ends as a program with a closed pipe would. */
static int close_pipe(struct one *o)
{
    AUTO_FREE char *path = xasprintf("/v1/jobs/%s/cancel", o->ref);
    AUTO(json) struct json *job = NULL;
    struct err e;

    if (cli_post(o->s->c, path, NULL, NULL, &e) == 0)
        follow_end(o->s->c, o->ref, &job, &e);
    return EXIT_PIPE;
}

/* Returns the exit status.  `copied` is the last run whose output was printed in full; a retry
 * makes `attempt` larger than that. */
static int one_stay(struct one *o, bool split, struct err *e)
{
    int64_t copied = 0;
    uint64_t last = 0;
    char text[400];

    for (;;) {
        AUTO(json) struct json *job = NULL;
        bool closed = false;
        if (job_record(o, &job, e) < 0)
            return cli_fail(e);
        int64_t attempt = int_of(job, "attempt");
        bool final = job_final(job), queued = str_eq_c(text_of(job, "state"), "queued");
        int status = job_exit_status(job);
        job_outcome_text(job, text, sizeof(text));
        if (copied < attempt) {
            atomic_store(&o->started, true);
            if (copy_run(o, ++copied, split, &closed, e) < 0)
                return cli_fail(e);
            if (closed)
                return close_pipe(o);
            continue;
        }
        if (final) {
            if (status && !o->quiet)
                cli_say("job %s %s", o->ref, text);
            return atomic_load(&o->cancelled) && status ? EXIT_INTERRUPTED : status;
        }
        if (queued)
            atomic_store(&o->started, false);
        if (follow_news(o->s->c, o->number, copied < attempt || queued, &last, e) < 0)
            return cli_fail(e);
    }
}

/* The second thread is joined before `o` goes out of scope; closing stop[1] wakes it. */
int run_job(struct run_session *s, bool quiet, int64_t number, bool split)
{
    struct one o = {.s = s, .number = number, .quiet = quiet, .stop = {-1, -1}};
    pthread_t thread;
    struct err e = {0};

    snprintf(o.ref, sizeof(o.ref), "%lld", (long long)number);
    if (pipe2(o.stop, O_CLOEXEC) < 0) {
        err_sys(&e, "cannot create a pipe");
        return cli_fail(&e);
    }
    bool watched = pthread_create(&thread, NULL, watcher, &o) == 0;
    int rc = one_stay(&o, split, &e);
    atomic_store(&o.over, true);
    close(o.stop[1]);
    if (watched)
        pthread_join(thread, NULL);
    close(o.stop[0]);
    return rc;
}

int run_one(struct run_session *s, const struct run_opts *o, const struct json *spec,
            const char *key)
{
    AUTO(json) struct json *reply = NULL;
    struct err e = {0};

    if (jobspec_submit(s->c, spec, &(struct jobspec_key){.key = key}, &reply, NULL, &e) < 0)
        return cli_fail(&e);
    int64_t number = int_of(reply, json_has(reply, "number") ? "number" : "first");
    return json_has(reply, "count") && int_of(reply, "count") > 1
               ? run_batch(s, o, reply, NULL)
               : run_job(s, o->quiet, number, json_bool(json_get(spec, "split_output")));
}
