/* notify.c - posts messages about jobs to a channel of Slack
 *
 * Owns: one thread, which reads the events of the store as clients do and posts messages
 * (chat.postMessage), and the file `slack-told` with the number of the last event that was posted.
 *
 * The events of the store are the queue of messages: no job waits for Slack, and events that
 * happened while Slack could not be reached are still there.  Of a backlog only the newest hundred
 * are posted.  The number is written before its message is sent: a server that is killed in between
 * loses one message and never posts one twice.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/json_out.h"
#include "base/log.h"
#include "base/util.h"
#include "dialect/atlas/notify_priv.h"
#include "io/http_client.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum {
    BACKLOG_MAX = 100,
    PAGE = 500,
    RANGE_MAX = 1000, /* jobs of one event; Atlas' come one by one */
    CALL_MS = 15000,
    AGAIN_S = 2, /* before the second try, when Slack does not say */
    AGAIN_MAX_S = 60,
    NOTE_MS = 5000, /* the number of events nobody is told of is written this often at most */
};

struct notify {
    struct atlas *a;
    char *path;
    struct http_client *slack;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop, look; /* under the lock */
    atomic_bool ended;
    /* The thread's own. */
    uint64_t seen, written; /* events read; the number in the file */
    int64_t written_ms, call_ends_ms;
    VEC(struct notice) backlog;
    size_t dropped, lost;
};

/* ---- waiting ---- */

static bool notify_stopped(struct notify *n)
{
    pthread_mutex_lock(&n->lock);
    bool stop = n->stop;
    pthread_mutex_unlock(&n->lock);
    return stop;
}

/* Waits until there may be new events; false: the server shuts down. */
static bool wait_for_look(struct notify *n)
{
    pthread_mutex_lock(&n->lock);
    while (!n->look && !n->stop)
        pthread_cond_wait(&n->wake, &n->lock);
    n->look = false;
    bool go_on = !n->stop;
    pthread_mutex_unlock(&n->lock);
    return go_on;
}

/* Waits s seconds, or until the server shuts down. */
static void pause_s(struct notify *n, int64_t s)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += s;
    pthread_mutex_lock(&n->lock);
    while (!n->stop && pthread_cond_timedwait(&n->wake, &n->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&n->lock);
}

/* A failure is only logged: at worst a message is posted twice after a restart. */
static void notify_write_number(struct notify *n, uint64_t event)
{
    char text[24];
    struct err e = {0};
    int len = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)event);

    if (event == n->written)
        return;
    n->written = event;
    n->written_ms = clock_mono(&clock_system);
    if (file_write_atomic(n->path, text, (size_t)len, 0600, &e) < 0)
        log_warn("atlas", "%s", e.text);
}

/* ---- sending ---- */

/* Ends a call to Slack at the shutdown, or when it takes too long. */
static bool call_over(void *arg)
{
    struct notify *n = arg;

    return notify_stopped(n) || clock_mono(&clock_system) > n->call_ends_ms;
}

/* 0 = posted; 1 = try again after *again seconds; -1 = do not try again. */
static int notify_post(struct notify *n, struct str body, int64_t *again, struct err *e)
{
    static const char *const headers[] = {"Content-Type: application/json; charset=utf-8", NULL};
    struct http_response r = {0};
    AUTO(json) struct json *reply = NULL;
    int64_t asked;

    *again = AGAIN_S;
    n->call_ends_ms = clock_mono(&clock_system) + CALL_MS;
    /* A request that was sent may have been accepted even when no answer came: only a refused
     * connection is tried again. */
    if (http_call(n->slack, "POST", "/chat.postMessage", headers, body, &r, e) < 0)
        return e->sys == ECONNREFUSED ? 1 : -1;
    int status = r.status;
    if (str_to_i64(str_of(r.retry_after), &asked) && asked >= 0)
        *again = MIN(asked, (int64_t)AGAIN_MAX_S);
    bool read = json_parse(buf_str(&r.body), "reply", &reply, e) == 0;
    http_response_done(&r);
    const struct json *why = read ? json_get(reply, "error") : NULL;
    bool ok = read && status == 200 && json_bool(json_get(reply, "ok"));
    err_set(e, ERR_UNAVAILABLE, "Slack answered with status %d %.60s", status,
            json_type(why) == JSON_STR ? json_str(why).p : "");
    bool busy = status == 429 || status >= 500 ||
                (json_type(why) == JSON_STR && str_eq_c(json_str(why), "ratelimited"));
    return ok ? 0 : busy ? 1 : -1;
}

/* One second try at most: later messages would wait for a third. */
static void notify_send(struct notify *n, const struct notice *what)
{
    AUTO(buf) struct buf body = {0};
    struct err e = {0};
    int64_t again;

    buf_init(&body, 64 << 10);
    jw_object(&body, NULL);
    jw_text(&body, "channel", what->channel);
    jw_text(&body, "text", what->text);
    jw_end_object(&body);
    int rc = notify_post(n, buf_str(&body), &again, &e);
    if (rc == 1 && !notify_stopped(n)) {
        pause_s(n, again);
        if (!notify_stopped(n))
            rc = notify_post(n, buf_str(&body), &again, &e);
    }
    if (rc == 0 && n->lost)
        log_info("atlas", "Slack accepts messages again; %zu messages were lost", n->lost);
    else if (rc != 0 && !n->lost)
        log_warn("atlas", "cannot post to Slack: %s", e.text);
    n->lost = rc == 0 ? 0 : n->lost + 1;
}

/* ---- reading ---- */

struct found {
    uint64_t event, job;
    enum notice_kind kind;
};
struct reading {
    struct notify *n;
    size_t rows;
    VEC(struct found) found; /* looked up when the page is read: that takes another connection */
};

/* One event may stand for a range of jobs. */
static bool notify_on_event(void *arg, const struct event_view *v)
{
    struct reading *r = arg;
    enum notice_kind kind = notice_kind_of(v->kind);
    uint64_t last = MIN(v->last, v->first + RANGE_MAX);

    r->rows++;
    r->n->seen = v->seq;
    for (uint64_t job = v->first; kind && job && job <= last; job++)
        vec_push(&r->found, ((struct found){v->seq, job, kind}));
    return true;
}

/* A full backlog drops its oldest message. */
static void notify_keep(struct notify *n, struct notice what)
{
    if (n->backlog.n == BACKLOG_MAX) {
        notice_done(&n->backlog.p[0]);
        vec_remove(&n->backlog, 0);
        n->dropped++;
    }
    vec_push(&n->backlog, what);
}

/* Reads all events since the last one and puts their messages into the backlog. */
static void notify_gather(struct notify *n)
{
    struct reading r = {.n = n};
    struct err e = {0};

    do {
        r.rows = 0;
        vec_clear(&r.found);
        if (store_events(n->a->conf.store, n->seen, PAGE, 0, notify_on_event, &r, &e) < 0) {
            log_warn("atlas", "reading events for Slack: %s", e.text);
            break;
        }
        for (size_t i = 0; i < r.found.n; i++) {
            struct notice what = {.event = r.found.p[i].event};
            if (notice_make(n->a, r.found.p[i].job, r.found.p[i].kind, &what))
                notify_keep(n, what);
        }
    } while (r.rows == PAGE && !notify_stopped(n));
    vec_done(&r.found);
    if (n->dropped)
        log_warn("atlas", "Slack is too slow; %zu older messages were dropped", n->dropped);
    n->dropped = 0;
}

static void notify_on_ended(void *arg)
{
    (void)arg;
}

/* Runs until the shutdown.  Events without a message move the number too, at most every NOTE_MS. */
static void *notify_thread(void *arg)
{
    struct notify *n = arg;

    while (wait_for_look(n)) {
        notify_gather(n);
        while (n->backlog.n && !notify_stopped(n)) {
            struct notice what = n->backlog.p[0];
            vec_remove(&n->backlog, 0);
            notify_write_number(n, what.event);
            notify_send(n, &what);
            notice_done(&what);
        }
        if (!n->backlog.n && clock_mono(&clock_system) - n->written_ms >= NOTE_MS)
            notify_write_number(n, n->seen);
    }
    if (!n->backlog.n)
        notify_write_number(n, n->seen);
    atomic_store(&n->ended, true);
    loop_post(n->a->conf.loop, notify_on_ended, NULL); /* who waits for that looks again */
    return NULL;
}

/* ---- life ---- */

/* The last event that was posted; without a record, only new events count. */
static uint64_t last_told(struct notify *n)
{
    AUTO_FREE char *text = NULL;
    uint64_t newest = store_last_event(n->a->conf.store);
    struct err e = {0};
    size_t len;
    int64_t told;

    if (file_read_all(n->path, 64, &text, &len, &e) == 0 &&
        str_to_i64(str_trim((struct str){text, len}), &told) && told >= 0 &&
        (uint64_t)told <= newest)
        return n->written = (uint64_t)told;
    return newest;
}

/* The token goes into a header line, so it may hold printable ASCII only. */
static bool token_ok(const char *token)
{
    for (const char *p = token; *p; p++)
        if (*p <= ' ' || *p > '~')
            return false;
    return true;
}

/* The condition uses the monotonic clock, so that setting the clock does not stretch a wait. */
static struct notify *notify_new(struct atlas *a, char *path_take, const char *token)
{
    const char *url = getenv("FOUNDATIONS_SLACK_URL");
    struct notify *n = xcalloc(1, sizeof(*n));
    pthread_condattr_t attr;

    n->a = a;
    n->path = path_take;
    n->slack = http_client_new(url && *url ? url : "https://slack.com/api", token, NULL);
    http_client_interrupt(n->slack, call_over, n);
    pthread_mutex_init(&n->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&n->wake, &attr);
    pthread_condattr_destroy(&attr);
    n->seen = last_told(n);
    n->look = true;
    return n;
}

/* Without a token there is no thread. */
void atlas_notify_open(struct atlas *a)
{
    const char *token = getenv("FOUNDATIONS_SLACK_TOKEN");
    AUTO_FREE char *path = path_join(a->conf.home, ATLAS_DIR_DATABASE "/slack-told");

    if (!token || !*token || !token_ok(token)) {
        if (token && *token)
            log_warn(
                "atlas",
                "FOUNDATIONS_SLACK_TOKEN is not a token: it contains spaces or control characters");
        unlink(path); /* when a token is set again, events from before are not posted */
        return;
    }
    struct notify *n = notify_new(a, TAKE(path), token);
    notify_write_number(n, n->seen);
    if (pthread_create(&n->thread, NULL, notify_thread, n) != 0) {
        log_warn("atlas", "cannot start a thread; no messages are posted to Slack");
        n->a = NULL;
        atlas_notify_free(n);
        return;
    }
    a->notify = n;
}

/* Wakes the thread with one of its flags set. */
static void notify_wake(struct notify *n, bool look, bool stop)
{
    if (!n)
        return;
    pthread_mutex_lock(&n->lock);
    n->look |= look;
    n->stop |= stop;
    pthread_cond_signal(&n->wake);
    pthread_mutex_unlock(&n->lock);
}

void atlas_notify_look(struct notify *n)
{
    notify_wake(n, true, false);
}

void atlas_notify_shut(struct notify *n)
{
    notify_wake(n, false, true);
}

/* The host runs its loop on until this is false. */
bool atlas_notify_busy(const struct notify *n)
{
    return n && !atomic_load(&n->ended);
}

/* The thread has ended, or was never started (then n->a is NULL). */
void atlas_notify_free(struct notify *n)
{
    if (!n)
        return;
    if (n->a)
        pthread_join(n->thread, NULL);
    for (size_t i = 0; i < n->backlog.n; i++)
        notice_done(&n->backlog.p[i]);
    vec_done(&n->backlog);
    http_client_free(n->slack);
    pthread_cond_destroy(&n->wake);
    pthread_mutex_destroy(&n->lock);
    free(n->path);
    free(n);
}
