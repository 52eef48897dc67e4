/* follow.c - staying with a job until it ends
 *
 * Owns: waiting.  The event stream of the job is read from its first event on; whenever it tells of
 * an end the record is asked whether that was the last one (a retry makes an end a mere episode).
 * Nothing is polled for a single job; a batch is summed up a few times a second.
 */
#include "cli/follow.h"
#include "base/clock.h"
#include "base/util.h"
#include "cli/list.h"
#include "cli/view.h"
#include "io/sse.h"
#include "model/job.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

/* A batch is asked for after 20 ms first and every 250 ms later.  124 is the status of timeout(1).
 */
enum { NAP_MS = 20, BATCH_MS = 250, EXIT_TIMEOUT = 124, PATH_BYTES = 1 << 16 };
enum { TAIL_FIRST = 64 << 10, TAIL_MAX = 64 << 20 };

static bool tells_of_end(struct str kind)
{
    enum job_state s;

    return str_starts(kind, STR("job.")) &&
           job_state_parse((struct str){kind.p + 4, kind.n - 4}, &s) && job_state_final(s);
}

/* False stops the stream: this event is news. */
static bool follow_on_event(void *arg, const struct sse_event *ev)
{
    const bool *start_too = arg;

    return !tells_of_end(ev->kind) && !(*start_too && str_eq_c(ev->kind, "job.running"));
}

int follow_news(struct cli *c, int64_t number, bool start_too, uint64_t *last, struct err *e)
{
    char path[96];
    struct sse s;
    int status = 0;

    snprintf(path, sizeof(path), "/v1/events?job=%lld&after=%llu", (long long)number,
             (unsigned long long)*last);
    sse_init(&s, follow_on_event, &start_too);
    int rc = http_call_stream(c->http, "GET", path, NULL, STR(""), &status, sse_feed, &s, e);
    *last = MAX(*last, s.last_id);
    sse_done(&s);
    if (rc < 0 && e->code != ERR_UNAVAILABLE)
        return -1;
    if (rc < 0 || status != 200) /* the next question finds out what is wrong */
        poll(NULL, 0, NAP_MS);
    return 0;
}

int follow_end(struct cli *c, const char *ref, struct json **out, struct err *e)
{
    uint64_t last = 0;
    /* Scripts are not told that the command waits. */
    bool said = !c->err.is_tty;

    for (;;) {
        struct json *job = NULL;
        if (resource_get(c, "jobs", ref, "", &job, e) < 0)
            return -1;
        if (job_final(job)) {
            *out = job;
            return 0;
        }
        int64_t number = int_of(job, "number");
        if (!said)
            cli_say("waiting for job %lld, which is " STR_FMT, (long long)number,
                    STR_ARG(text_of(job, "state")));
        said = true;
        json_free(job);
        if (follow_news(c, number, false, &last, e) < 0)
            return -1;
    }
}

static void highest_of_page(void *arg, const struct json *items)
{
    int *status = arg;

    for (size_t i = 0; i < json_len(items); i++)
        *status = MAX(*status, job_exit_status(json_at(items, i)));
}

/* Succeeded jobs have status 0, so only the others are asked for. */
int follow_batch(struct cli *c, const char *batch, int *out_status, struct err *e)
{
    const struct list_query active = {NULL, "active", NULL, -1},
                            bad = {NULL, "failed,cancelled,lost", NULL, -1};

    *out_status = 0;
    c->opt.batch = batch;
    for (int nap = NAP_MS;; nap = MIN(nap * 2, BATCH_MS)) {
        AUTO(json) struct json *counts = NULL;
        if (list_counts(c, &active, &counts, e) < 0)
            return -1;
        if (!int_of(counts, "total"))
            return list_pages(c, &bad, highest_of_page, out_status, NULL, e);
        poll(NULL, 0, nap);
    }
}

/* A signal handler, so that the deadline also holds while a call to the daemon blocks.  It may use
 * async-signal-safe functions only. */
static void on_alarm(int signo UNUSED)
{
    static const char text[] = "berth: timed out; the jobs have not ended and keep running\n";

    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(EXIT_TIMEOUT);
}

void follow_deadline(int64_t timeout_ms)
{
    struct sigaction sa = {.sa_handler = on_alarm};
    struct itimerval it = {
        .it_value = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000}};

    if (timeout_ms <= 0)
        return;
    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &it, NULL);
}

/* A reply has a batch, or "first" and "count", or the "number" of one job. */
int follow_submitted(struct cli *c, const struct json *reply, int64_t timeout_ms)
{
    struct str batch = text_of(reply, "batch");
    struct err e = {0};
    int status = 0;

    follow_deadline(timeout_ms);
    if (batch.n) {
        AUTO_FREE char *id = xstrndup(batch.p, batch.n);
        return follow_batch(c, id, &status, &e) < 0 ? cli_fail(&e) : status;
    }
    int64_t first = json_has(reply, "number") ? int_of(reply, "number") : int_of(reply, "first");
    int64_t count = json_has(reply, "count") ? int_of(reply, "count") : 1;
    for (int64_t i = 0; i < count; i++) {
        AUTO(json) struct json *job = NULL;
        char ref[24];
        snprintf(ref, sizeof(ref), "%lld", (long long)(first + i));
        if (follow_end(c, ref, &job, &e) < 0)
            return cli_fail(&e);
        status = MAX(status, job_exit_status(job));
    }
    return status;
}

/* ---- output ---- */

struct copying {
    struct follow_log *f;
    const int *status;
    struct http_response *refusal; /* body of a status of 400 and more */
};

/* False ends the stream.  k->status is known before the first byte of the body arrives. */
static bool on_bytes(void *arg, struct str piece)
{
    struct copying *k = arg;

    if (*k->status >= 400)
        return buf_add(&k->refusal->body, piece.p, piece.n);
    while (piece.n) {
        ssize_t n = write(k->f->fd, piece.p, piece.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            k->f->closed = true;
            return false;
        }
        k->f->at += n;
        if (n > 0)
            k->f->last = piece.p[n - 1];
        piece = (struct str){piece.p + n, piece.n - (size_t)n};
    }
    return true;
}

/* The path of its log; `path` is made fresh.  A followed log takes the offset as a parameter;
 * otherwise a Range header has it. */
static void log_path(struct buf *path, const struct follow_log *f)
{
    resource_path(path, "jobs", f->ref, "/logs");
    query_add(path, "stream", f->err_file ? "err" : "out");
    if (f->run)
        query_add_int(path, "run", f->run);
    query_add(path, "follow", f->follow ? "1" : NULL);
    if (f->follow && f->at)
        query_add_int(path, "offset", f->at);
}

int follow_log(struct http_client *http, struct follow_log *f, struct err *e)
{
    AUTO(buf) struct buf path = {0};
    struct http_response refusal = {0};
    int status = 0;
    struct copying k = {f, &status, &refusal};
    char range[64];
    const char *headers[] = {range, NULL};

    log_path(&path, f);
    buf_init(&refusal.body, PATH_BYTES);
    snprintf(range, sizeof(range), "Range: bytes=%lld-", (long long)f->at);
    int rc = http_call_stream(http, "GET", path.p, f->at && !f->follow ? headers : NULL, STR(""),
                              &status, on_bytes, &k, e);
    /* 416: everything was read already. */
    if (rc == 0 && status >= 400 && status != 416) {
        refusal.status = status;
        rc = http_response_err(&refusal, e);
    }
    http_response_done(&refusal);
    return rc;
}

/* ---- the end of a log without the rest of it: larger and larger pieces are asked for ---- */

/* Where the last n lines of text begin; false when they begin before it. */
static bool lines_start(struct str text, int64_t n, size_t *out)
{
    size_t i = text.n;

    if (i && text.p[i - 1] == '\n')
        i--;
    for (; i > 0; i--)
        if (text.p[i - 1] == '\n' && --n == 0) {
            *out = i;
            return true;
        }
    *out = 0;
    return false;
}

/* The last `want` bytes.  A file without any has no such range: then it is asked for whole. */
static int fetch_tail(struct cli *c, const struct follow_log *f, size_t want,
                      struct http_response *out, struct err *e)
{
    const struct follow_log whole = {.ref = f->ref, .run = f->run, .err_file = f->err_file};
    AUTO(buf) struct buf path = {0};
    char range[64];
    const char *headers[] = {range, NULL};

    log_path(&path, &whole);
    snprintf(range, sizeof(range), "Range: bytes=-%zu", want);
    if (cli_fetch(c, "GET", path.p, headers, STR(""), out, e) == 0)
        return 0;
    return e->code == ERR_INVALID ? cli_fetch(c, "GET", path.p, NULL, STR(""), out, e) : -1;
}

/* *at comes from Content-Range: the log may have grown since, and those bytes follow later. */
int log_tail(struct cli *c, const struct follow_log *f, int64_t lines, struct buf *out, int64_t *at,
             struct err *e)
{
    for (size_t want = TAIL_FIRST;; want *= 4) {
        long long first = 0, last = -1;
        struct http_response r;
        size_t start;

        if (fetch_tail(c, f, want, &r, e) < 0)
            return -1;
        bool enough = lines_start(buf_str(&r.body), lines, &start);
        if (!enough && r.body.n >= want && want < TAIL_MAX) {
            http_response_done(&r);
            continue;
        }
        bool part = sscanf(r.content_range, "bytes %lld-%lld", &first, &last) == 2;
        *at = part ? last + 1 : (int64_t)r.body.n;
        if (lines > 0)
            buf_add(out, r.body.p + start, r.body.n - start);
        http_response_done(&r);
        return 0;
    }
}
