/* foundations_stream.c - a submitted job's log as it grows, and how the job ended
 *
 * Owns: everything between "Job submitted" and the last line.  The log is read over HTTP from where
 * it was left off, so a server that restarts costs nothing but a pause.  Lines of the job go to
 * stdout as they are; the lines about it only when it starts to speak and when it has ended.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/foundations.h"
#include <poll.h>
#include <stdio.h>

/* A job counts as removed only after VANISHED_LOOKS answers that say so. */
enum { PATIENCE_MS = 15000, NAP_MS = 250, VANISHED_LOOKS = 3 };
enum ending { STILL_OPEN, COMPLETED, FAILED, RUNNING_ON, UNKNOWN, VANISHED };

struct stream {
    struct foundations *f;
    const char *id;
    int64_t at;       /* bytes of the log that were shown */
    int64_t heard_ms; /* when there was news last */
    bool at_line_start, spoke, closed;
    int status; /* of the call under way */
    int vanished;
    char state[16];   /* as last told */
    char reason[240]; /* that the log does not tell: why it waits or has failed; "" = none */
};

static bool stream_on_bytes(void *arg, struct str piece)
{
    struct stream *s = arg;
    struct err e;

    if (s->status != 200)
        return false;
    if (!s->spoke)
        found_log(s->f, FOUND_INFO, "Job running, streaming logs.");
    s->spoke = true;
    s->heard_ms = clock_mono(&clock_system);
    s->at_line_start = piece.p[piece.n - 1] == '\n';
    s->closed = fd_write_all(STDOUT_FILENO, piece.p, piece.n, &e) < 0;
    s->at += (int64_t)piece.n;
    return !s->closed;
}

/* follow=1 keeps the answer open until the job ends. */
static int read_log(struct stream *s, struct err *e)
{
    AUTO(buf) struct buf path = {0};
    char query[64];

    snprintf(query, sizeof(query), "/logs?offset=%lld&follow=1", (long long)s->at);
    found_job_path(&path, "/jobs/", s->id, query);
    found_step(s->f, "GET %s", path.p);
    s->status = 0;
    return http_call_stream(s->f->http, "GET", path.p, NULL, STR(""), &s->status, stream_on_bytes,
                            s, e);
}

/* The reason is news of its own, unless it is the ordinary end of a program, or stands for the log
 * of a job that never ran. */
static void stream_note_reason(struct stream *s, const struct json *job)
{
    struct str reason = json_get_str(job, "reason");
    bool plain = str_starts(reason, STR("exit status")) || !json_get(job, "start_time");

    if (plain || str_eq_c(reason, s->reason))
        return;
    snprintf(s->reason, sizeof(s->reason), STR_FMT, STR_ARG(reason));
    s->heard_ms = clock_mono(&clock_system);
    if (!s->reason[0])
        return;
    if (!s->at_line_start)
        (void)!write(STDOUT_FILENO, "\n", 1);
    s->at_line_start = true;
    found_log(s->f, str_eq_c(json_get_str(job, "status"), "failed") ? FOUND_ERROR : FOUND_WARNING,
              "Job '%s': %s", s->id, s->reason);
}

/* What the scheduler says of the job now. */
static enum ending stream_ask_log(struct stream *s)
{
    AUTO(json) struct json *job = NULL;
    struct err e = {0};

    if (found_job(s->f, s->id, &job, &e) < 0) {
        s->state[0] = '\0';
        if (e.code == ERR_NOT_FOUND)
            return ++s->vanished >= VANISHED_LOOKS ? VANISHED : STILL_OPEN;
        return STILL_OPEN;
    }
    struct str now = json_get_str(job, "status");
    if (!str_eq_c(now, s->state))
        s->heard_ms = clock_mono(&clock_system);
    snprintf(s->state, sizeof(s->state), STR_FMT, (int)MIN(now.n, sizeof(s->state) - 1), now.p);
    s->vanished = 0;
    stream_note_reason(s, job);
    return str_eq_c(now, "completed") ? COMPLETED : str_eq_c(now, "failed") ? FAILED : STILL_OPEN;
}

/* A queued job may wait for days, and so may one whose archive waits for space: silence is no sign
 * of trouble. */
static bool waits(const struct stream *s)
{
    return !strcmp(s->state, "queued") || !strcmp(s->state, "pending") || s->reason[0];
}

/* The log from its first byte to its last; a job that waits may do so for days. */
static enum ending stream_follow(struct stream *s)
{
    struct err e = {0};

    s->heard_ms = clock_mono(&clock_system);
    for (;;) {
        (void)read_log(s, &e);
        if (s->closed)
            return COMPLETED;
        int64_t before = s->at;
        enum ending end = stream_ask_log(s);
        if (end == COMPLETED || end == FAILED)
            (void)read_log(s, &e); /* what came between the two answers */
        if (end != STILL_OPEN && (end == VANISHED || s->at == before))
            return end;
        if (!waits(s) && clock_mono(&clock_system) - s->heard_ms > PATIENCE_MS)
            return strcmp(s->state, "running") ? UNKNOWN : RUNNING_ON;
        poll(NULL, 0, NAP_MS);
    }
}

/* The last line of the job may lack its newline; the lines about the job begin on one of their own.
 */
static void tell_end(struct stream *s, enum ending end)
{
    struct foundations *f = s->f;

    if (!s->at_line_start)
        (void)!write(STDOUT_FILENO, "\n", 1);
    if (end == COMPLETED)
        found_log(f, FOUND_INFO, "Job '%s' has completed.", s->id);
    else if (end == FAILED)
        found_log(f, FOUND_ERROR, "Job '%s' has failed.", s->id);
    else if (end == RUNNING_ON)
        found_log(f, FOUND_INFO,
                  "Job '%s' is still running; `foundations get logs` shows the rest of its log.",
                  s->id);
    else if (end == VANISHED)
        found_log(f, FOUND_INFO,
                  "Job '%s' cannot be found any more; it was possibly removed from the queue.",
                  s->id);
    else
        found_log(
            f, FOUND_WARNING,
            "The status of job '%s' is unknown: the scheduler does not tell; try `foundations "
            "get logs` later.",
            s->id);
}

int found_stream(struct foundations *f, const char *id, bool fail_on_job_error)
{
    struct stream s = {.f = f, .id = id, .at_line_start = true};

    found_log(f, FOUND_INFO,
              "Job queued. Ctrl-C to stop streaming - job will not be interrupted or cancelled.");
    found_leave_on_interrupt();
    enum ending end = stream_follow(&s);
    if (s.closed)
        return 0;
    tell_end(&s, end);
    return fail_on_job_error && end == FAILED ? 1 : 0;
}
