/* link_daemon.c - the link to a daemon: requests over its socket, and its stream of events
 *
 * Everything goes through the asynchronous client of the loop (io/fetch.h).  A connection that
 * breaks is the business of sched.c, which asks again, says after which event listening resumes,
 * and repeats what was not answered.
 */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/view.h"
#include "dialect/hyperctl/link.h"
#include "io/fetch.h"
#include "io/sse.h"
#include <stdio.h>

enum { PATH_TEXT_MAX = 4096, JOBS_PAGE = 1000 };

struct daemon_call;
struct daemon_link {
    struct hyper_link link;
    struct fetcher *fetcher;
    struct daemon_call *calls; /* under way */
    /* The stream. */
    struct fetch *stream; /* NULL = muted */
    struct sse sse;
    int status;
    /* The request that keeps the queue open; as above. */
    struct {
        struct fetch *stream;
        struct sse sse;
        int status;
        hyper_done_fn done; /* until the head has come */
        void *arg;
    } keep;
};

/* ---- a request under way ---- */

/* Reads the answer (NULL = empty).  A request that is answered ends with daemon_call_end. */
typedef void (*daemon_answer_fn)(struct daemon_call *c, const struct json *answer);

/* One request, from daemon_call_new to daemon_call_end.  `body` lives as long as the request,
 * because the fetch borrows it.  A list consists of several fetches, one after the other; `answer`
 * is then replaced between them. */
struct daemon_call {
    struct daemon_call *prev, *next;
    struct daemon_link *d;
    struct fetch *fetch;
    char *body;
    daemon_answer_fn answer;
    hyper_done_fn done;
    void *arg;
    /* Of list: the rows of the queue, and the records of the jobs with their runs. */
    hyper_event_fn row;
    bool places;
    struct json *rows, *jobs;
    hyper_node_fn node; /* of nodes */
};

/* Enters the call into the list of the link, so that daemon_close can answer it. */
static struct daemon_call *daemon_call_new(struct hyper_link *l, daemon_answer_fn answer,
                                           hyper_done_fn done, void *arg)
{
    struct daemon_call *c = xcalloc(1, sizeof(*c));
    struct daemon_link *d = (struct daemon_link *)l;

    *c = (struct daemon_call){.d = d, .answer = answer, .done = done, .arg = arg, .next = d->calls};
    if (d->calls)
        d->calls->prev = c;
    d->calls = c;
    return c;
}

/* The caller may close the link in `done`, so nothing of the call is used afterwards. */
static void daemon_call_end(struct daemon_call *c, const struct err *e, uint64_t number)
{
    hyper_done_fn done = c->done;
    void *arg = c->arg;

    *(c->prev ? &c->prev->next : &c->d->calls) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    json_free(c->rows);
    json_free(c->jobs);
    free(c->body);
    free(c);
    done(arg, e, number);
}

/* A fetch has ended.  An error of any kind ends the call; sched.c decides what is repeated. */
static void daemon_on_answer(void *arg, struct http_response *r, const struct err *why)
{
    struct daemon_call *c = arg;
    AUTO(json) struct json *answer = NULL;
    struct err e = {0};

    c->fetch = NULL;
    if (why)
        e = *why;
    else if (r->status >= 400)
        http_response_err(r, &e);
    else if (r->body.n)
        json_parse(buf_str(&r->body), "the daemon's answer", &answer, &e);
    if (e.code != ERR_NONE)
        daemon_call_end(c, &e, 0);
    else
        c->answer(c, answer);
}

/* Takes the body; `key` is the idempotency key, or NULL. */
static void daemon_send(struct daemon_call *c, const char *method, const char *path,
                        char *body_take, const char *key)
{
    char line[128];
    /* The key of a batch says all there is to say of the request, as in link_here.c: the
     * environment of a scheduler that was started again may differ. */
    const char *headers[] = {"Content-Type: application/json", key ? line : NULL,
                             "Idempotency-Fingerprint: hyperctl", NULL};

    snprintf(line, sizeof(line), "Idempotency-Key: %s", key ? key : "");
    free(c->body);
    c->body = body_take;
    c->fetch = fetch_collect(
        c->d->fetcher,
        &(struct http_request){
            .method = method, .path = path, .headers = headers, .body = str_of(c->body)},
        NULL, daemon_on_answer, c);
}

/* A daemon_answer_fn for requests whose status says everything. */
static void daemon_done(struct daemon_call *c, const struct json *answer)
{
    (void)answer;
    daemon_call_end(c, NULL, 0);
}

/* A request whose answer says nothing more.  Takes path and body.  Names of queues and nodes stand
 * in paths as they are: Hyperctl makes them of letters, digits, dots and dashes. */
static void daemon_tell(struct hyper_link *l, const char *method, char *path_take, char *body_take,
                        hyper_done_fn done, void *arg)
{
    daemon_send(daemon_call_new(l, daemon_done, done, arg), method, path_take, body_take, NULL);
    free(path_take);
}

/* ---- events ---- */

/* False ends the parsing of the piece at hand: the receiver has muted the link. */
static bool daemon_on_sse(void *arg, const struct sse_event *sse)
{
    struct daemon_link *d = arg;
    struct hyper_event ev = {.seq = sse->id};
    AUTO(json) struct json *j = NULL;
    struct err e;

    if (json_parse(sse->data, "event", &j, &e) < 0 ||
        !hyper_event_read(text_of(j, "kind"), json_get(j, "data"), &ev))
        return true;
    ev.first = (uint64_t)int_of(j, "job");
    ev.last = (uint64_t)int_of(j, "last");
    ev.at_ms = time_of(j, "at");
    if (ev.first)
        d->link.conf.event(d->link.conf.arg, &ev);
    return d->stream != NULL;
}

static void daemon_on_head(void *arg, const struct http_response *r)
{
    ((struct daemon_link *)arg)->status = r->status;
}

/* The body of an answer that is no stream, such as an error, is dropped. */
static void daemon_on_piece(void *arg, struct str piece)
{
    struct daemon_link *d = arg;

    if (d->status == 200 && d->stream)
        sse_feed(&d->sse, piece);
}

/* A stream has no end of its own: the daemon left, or the connection broke. */
static void daemon_on_stream_end(void *arg, const struct err *why)
{
    struct daemon_link *d = arg;
    struct err e = {0};

    d->stream = NULL;
    sse_done(&d->sse);
    if (why)
        e = *why;
    else
        err_set(&e, ERR_UNAVAILABLE, "the daemon ended the stream of events (status %d)",
                d->status);
    d->link.conf.gone(d->link.conf.arg, &e);
}

/* A parser of its own for each stream: an event that was cut off in the middle is sent again. */
static void daemon_listen(struct hyper_link *l, uint64_t after)
{
    static const struct fetch_fns fns = {
        .head = daemon_on_head, .body = daemon_on_piece, .done = daemon_on_stream_end};
    struct daemon_link *d = (struct daemon_link *)l;
    char path[80];

    snprintf(path, sizeof(path), "/v1/events?after=%llu", (unsigned long long)after);
    sse_init(&d->sse, daemon_on_sse, d);
    d->status = 0;
    d->stream = fetch_start(d->fetcher, &(struct http_request){.method = "GET", .path = path}, NULL,
                            &fns, d);
}

/* May be called from inside an event: daemon_on_sse then ends the parsing. */
static void daemon_mute(struct hyper_link *l)
{
    struct daemon_link *d = (struct daemon_link *)l;

    if (!d->stream)
        return;
    fetch_cancel(TAKE(d->stream));
    sse_done(&d->sse);
}

static void daemon_greeted(struct daemon_call *c, const struct json *answer)
{
    daemon_call_end(c, NULL, (uint64_t)int_of(answer, "last_event"));
}

/* GET /v1 costs the daemon nothing and shows that it serves requests. */
static void daemon_hello(struct hyper_link *l, hyper_done_fn done, void *arg)
{
    daemon_send(daemon_call_new(l, daemon_greeted, done, arg), "GET", "/v1", NULL, NULL);
}

/* ---- the jobs of the queue ---- */

/* All rows are here: they are told, oldest first. */
static void daemon_list_end(struct daemon_call *c)
{
    const struct json *all = c->places ? c->jobs : c->rows;

    for (size_t i = 0; i < json_len(all); i++) {
        const struct json *j = json_at(all, i), *code = json_get(j, "exit_code");
        const struct json *runs = json_get(j, "runs");
        const struct json *run = json_len(runs) ? json_at(runs, json_len(runs) - 1) : NULL;
        struct hyper_event f = {.first = (uint64_t)int_of(j, "number"),
                                .last = (uint64_t)int_of(j, "number"),
                                .exit_code = json_type(code) == JSON_INT ? (int)json_int(code) : -1,
                                .run = (uint32_t)int_of(run, "run"),
                                .node = text_of(run, "node"),
                                .name = text_of(j, "name"),
                                .started_ms = time_of(j, "started")};
        if (!job_state_parse(text_of(j, "state"), &f.state) || !id_parse(text_of(j, "id"), &f.id))
            continue;
        f.at_ms = job_state_final(f.state) ? time_of(j, "ended") : f.started_ms;
        c->row(c->arg, &f);
    }
    daemon_call_end(c, NULL, 0);
}

static void daemon_ask_runs(struct daemon_call *c);

/* c->jobs grows by one record for each row of c->rows, in the same order. */
static void daemon_on_job(struct daemon_call *c, const struct json *answer)
{
    json_push_take(c->jobs, json_copy(answer));
    daemon_ask_runs(c);
}

/* A list does not tell where jobs run: each of them is asked for. */
static void daemon_ask_runs(struct daemon_call *c)
{
    size_t at = json_len(c->jobs);
    char path[48];

    if (!c->places || at == json_len(c->rows)) {
        daemon_list_end(c);
        return;
    }
    c->answer = daemon_on_job;
    snprintf(path, sizeof(path), "/v1/jobs/%lld",
             (long long)int_of(json_at(c->rows, at), "number"));
    daemon_send(c, "GET", path, NULL, NULL);
}

/* An empty cursor asks for the first page. */
static void daemon_ask_page(struct daemon_call *c, struct str cursor)
{
    AUTO(buf) struct buf path = {0};

    buf_init(&path, PATH_TEXT_MAX);
    buf_addf(&path, "/v1/jobs?sort=id&limit=%d&queue=%s&cursor=", JOBS_PAGE, c->d->link.conf.queue);
    url_encode(&path, cursor);
    daemon_send(c, "GET", path.p, NULL, NULL);
}

static void daemon_on_page(struct daemon_call *c, const struct json *answer)
{
    const struct json *items = json_get(answer, "items");
    struct str next = text_of(answer, "next");

    for (size_t i = 0; i < json_len(items); i++)
        json_push_take(c->rows, json_copy(json_at(items, i)));
    if (next.n)
        daemon_ask_page(c, next);
    else
        daemon_ask_runs(c);
}

static void daemon_list(struct hyper_link *l, bool places, hyper_event_fn row, hyper_done_fn done,
                        void *arg)
{
    struct daemon_call *c = daemon_call_new(l, daemon_on_page, done, arg);

    c->row = row;
    c->places = places;
    c->rows = json_new_array();
    c->jobs = json_new_array();
    daemon_ask_page(c, STR(""));
}

/* ---- jobs and the queue ---- */

/* Several jobs are answered with "first", a single one with "number". */
static void daemon_submitted(struct daemon_call *c, const struct json *answer)
{
    bool several = json_has(answer, "first");
    const char *key = several ? "first" : "number";

    if (!id_parse(text_of(answer, several ? "first_id" : "id"), &c->d->link.submitted)) {
        struct err e = {0};
        err_set(&e, ERR_INTERNAL, "the daemon's answer to a submission has no id");
        daemon_call_end(c, &e, 0);
        return;
    }
    daemon_call_end(c, NULL, (uint64_t)int_of(answer, key));
}

static void daemon_submit(struct hyper_link *l, struct json *body_take, const char *batch,
                          const char *key, hyper_done_fn done, void *arg)
{
    AUTO(json) struct json *body = body_take;
    AUTO(buf) struct buf path = {0};

    buf_init(&path, PATH_TEXT_MAX);
    buf_adds(&path, "/v1/jobs");
    query_add(&path, "batch", batch);
    daemon_send(daemon_call_new(l, daemon_submitted, done, arg), "POST", path.p, json_text(body),
                key);
}

static void daemon_cancel(struct hyper_link *l, const uint64_t *jobs, size_t n, hyper_done_fn done,
                          void *arg)
{
    AUTO(json) struct json *body = json_new_object();
    struct json *list = json_new_array();

    for (size_t i = 0; i < n; i++)
        json_push_take(list, json_new_int((int64_t)jobs[i]));
    json_set_take(body, "jobs", list);
    daemon_tell(l, "POST", xstrdup("/v1/jobs/cancel"), json_text(body), done, arg);
}

static void daemon_pause(struct hyper_link *l, bool paused, hyper_done_fn done, void *arg)
{
    daemon_tell(l, "POST",
                xasprintf("/v1/queues/%s/%s", l->conf.queue, paused ? "pause" : "resume"), NULL,
                done, arg);
}

static void daemon_retry(struct hyper_link *l, uint64_t job, hyper_done_fn done, void *arg)
{
    daemon_tell(l, "POST", xasprintf("/v1/jobs/%llu/retry", (unsigned long long)job), NULL, done,
                arg);
}

/* ---- keeping the queue ---- */

/* The head of the answer says that the queue is kept.  A daemon that knows no such request, or does
 * not let this user keep queues, is used as it is: jobs that fail without the port are repeated. */
static void daemon_keep_answer(struct daemon_link *d, const struct err *e)
{
    hyper_done_fn done = TAKE(d->keep.done);

    if (done)
        done(d->keep.arg, e, 0);
}

static void keep_on_head(void *arg, const struct http_response *r)
{
    struct daemon_link *d = arg;

    d->keep.status = r->status;
    daemon_keep_answer(d, NULL);
}

static bool keep_on_sse(void *arg, const struct sse_event *ev)
{
    struct daemon_link *d = arg;

    d->link.conf.troubled(d->link.conf.arg, ev->data);
    return d->keep.stream != NULL;
}

static void keep_on_piece(void *arg, struct str piece)
{
    struct daemon_link *d = arg;

    if (d->keep.status == 200 && d->keep.stream)
        sse_feed(&d->keep.sse, piece);
}

/* The daemon left: listening ends as well, if that has not been noticed yet. */
static void keep_on_end(void *arg, const struct err *why)
{
    struct daemon_link *d = arg;
    bool was = d->keep.status == 200 && !d->keep.done;
    struct err e = {0};

    d->keep.stream = NULL;
    sse_done(&d->keep.sse);
    if (why)
        e = *why;
    else
        err_set(&e, ERR_UNAVAILABLE, "the daemon does not keep the queue any more");
    daemon_keep_answer(d, &e);
    if (was && d->stream) {
        daemon_mute(&d->link);
        d->link.conf.gone(d->link.conf.arg, &e);
    }
}

static void daemon_unkeep(struct daemon_link *d)
{
    if (!d->keep.stream)
        return;
    fetch_cancel(TAKE(d->keep.stream));
    sse_done(&d->keep.sse);
}

static void daemon_keep(struct hyper_link *l, hyper_done_fn done, void *arg)
{
    static const struct fetch_fns fns = {
        .head = keep_on_head, .body = keep_on_piece, .done = keep_on_end};
    struct daemon_link *d = (struct daemon_link *)l;

    if (d->keep.stream && d->keep.status == 200) {
        done(arg, NULL, 0);
        return;
    }
    daemon_unkeep(d);
    AUTO_FREE char *path = xasprintf("/v1/queues/%s/keep", l->conf.queue);
    d->keep.done = done;
    d->keep.arg = arg;
    d->keep.status = 0;
    sse_init(&d->keep.sse, keep_on_sse, d);
    d->keep.stream = fetch_start(d->fetcher, &(struct http_request){.method = "POST", .path = path},
                                 NULL, &fns, d);
}

/* ---- nodes ---- */

/* retry_in_ms is null unless the daemon waits before its next attempt to connect. */
static void daemon_nodes_answer(struct daemon_call *c, const struct json *answer)
{
    const struct json *items = json_get(answer, "items");

    for (size_t i = 0; i < json_len(items); i++) {
        const struct json *n = json_at(items, i);
        c->node(c->arg, &(struct hyper_node){.name = text_of(n, "name"),
                                             .trouble = text_of(n, "trouble"),
                                             .away = str_eq_c(text_of(n, "state"), "away"),
                                             .failed = json_get(n, "retry_in_ms") != NULL});
    }
    daemon_call_end(c, NULL, 0);
}

static void daemon_nodes(struct hyper_link *l, hyper_node_fn row, hyper_done_fn done, void *arg)
{
    struct daemon_call *c = daemon_call_new(l, daemon_nodes_answer, done, arg);

    c->node = row;
    daemon_send(c, "GET", "/v1/nodes", NULL, NULL);
}

static void daemon_lend(struct hyper_link *l, const struct json *conf, hyper_done_fn done,
                        void *arg)
{
    daemon_tell(l, "POST", xstrdup("/v1/nodes"), json_text(conf), done, arg);
}

static void daemon_forget(struct hyper_link *l, struct str node, bool force, hyper_done_fn done,
                          void *arg)
{
    daemon_tell(l, "DELETE",
                xasprintf("/v1/nodes/" STR_FMT "%s", STR_ARG(node), force ? "?force=1" : ""), NULL,
                done, arg);
}

/* ---- the link ---- */

/* Answers of the daemon are not waited for: what it was told it does. */
static void daemon_close(struct hyper_link *l)
{
    struct daemon_link *d = (struct daemon_link *)l;
    struct err e = {0};

    daemon_mute(l);
    daemon_unkeep(d);
    d->keep.done = NULL;
    err_set(&e, ERR_UNAVAILABLE, "the connection to the daemon was closed");
    while (d->calls) {
        fetch_cancel(d->calls->fetch);
        daemon_call_end(d->calls, &e, 0);
    }
    fetcher_free(d->fetcher);
    free(d);
}

static const struct hyper_link_ops daemon_ops = {.stays = true,
                                                 .hello = daemon_hello,
                                                 .listen = daemon_listen,
                                                 .mute = daemon_mute,
                                                 .list = daemon_list,
                                                 .submit = daemon_submit,
                                                 .cancel = daemon_cancel,
                                                 .pause = daemon_pause,
                                                 .keep = daemon_keep,
                                                 .retry = daemon_retry,
                                                 .nodes = daemon_nodes,
                                                 .lend = daemon_lend,
                                                 .forget = daemon_forget,
                                                 .close = daemon_close};

struct hyper_link *hyper_link_daemon(const struct hyper_link_conf *c)
{
    struct daemon_link *d = xcalloc(1, sizeof(*d));
    AUTO_FREE char *target = xasprintf("unix:%s/sock", c->home);

    d->link = (struct hyper_link){&daemon_ops, *c};
    d->fetcher = fetcher_new(c->loop, target, NULL, NULL);
    return &d->link;
}
