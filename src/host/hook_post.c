/* hook_post.c - messages to webhooks and to Slack, on the loop
 *
 * Owns: the requests under way, each at most POST_MS.  Redirects are not followed: the receiver is
 * the one whose address the hook names.
 *
 * Slack is told through an incoming webhook, whose URL is a secret, or with the token of an app
 * (chat.postMessage).  A hook has its own secret, or uses that of the home ($BERTH_SLACK).
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/util.h"
#include "host/hook_send.h"
#include "io/fetch.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

enum { POST_MS = 10000, ANSWER_BYTES = 64 << 10, SERVERS_MAX = 8 };

/* A server that messages were sent to.  Its fetcher is kept, because a new one for https reads the
 * certificates of all authorities again, which takes tens of milliseconds of the loop. */
struct hook_server {
    char *url; /* without a path */
    struct fetcher *fetcher;
    size_t requests; /* under way */
    LIST_ENTRY(hook_server) entry;
};
LIST_HEAD(hook_server_list, hook_server);

/* What requests share; one per host. */
struct hook_sender {
    struct loop *loop;
    struct hook_server_list servers; /* the newest first */
    struct hook_request *posts;      /* under way */
    char *slack_secret, *slack_api;  /* of hooks without a secret; NULL = none */
};
/* One POST.  `body` lives as long as the request, because the fetcher borrows its bytes. */
struct hook_request {
    struct hook_sender *sender;
    struct hook_server *server;
    struct fetch *fetch;
    struct buf body;
    bool slack;
    hook_sent_fn done;
    void *arg;
    struct hook_request *next; /* of the same sender */
};

/* Also ends a request that is under way: its answer is then never reported. */
static void request_free(struct hook_request *r)
{
    struct hook_request **at = &r->sender->posts;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    fetch_cancel(r->fetch);
    r->server->requests--;
    buf_done(&r->body);
    free(r);
}

static void server_free(struct hook_server *v)
{
    LIST_REMOVE(v, entry);
    fetcher_free(v->fetcher);
    free(v->url);
    free(v);
}

/* The server of this URL; beyond SERVERS_MAX the oldest one without a request is dropped. */
static struct hook_server *server_of(struct hook_sender *s, struct str url)
{
    struct hook_server *v = NULL, *idle = NULL;
    size_t n = 0;

    LIST_FOREACH (v, &s->servers, entry) {
        if (str_eq_c(url, v->url))
            return v;
        n++;
        if (!v->requests)
            idle = v;
    }
    if (n >= SERVERS_MAX && idle)
        server_free(idle);
    v = xcalloc(1, sizeof(*v));
    v->url = xstrndup(url.p, url.n);
    v->fetcher = fetcher_new(s->loop, v->url, NULL, NULL);
    LIST_INSERT_HEAD(&s->servers, v, entry);
    return v;
}

struct hook_sender *hook_sender_new(struct loop *l)
{
    const char *secret = getenv("BERTH_SLACK"), *api = getenv("BERTH_SLACK_API");
    struct hook_sender *s = xcalloc(1, sizeof(*s));

    s->loop = l;
    hook_slack_default(s, secret, api);
    return s;
}

void hook_slack_default(struct hook_sender *s, const char *secret, const char *api)
{
    free(s->slack_secret);
    free(s->slack_api);
    s->slack_secret = xstrdup(secret && *secret ? secret : NULL);
    s->slack_api = xstrdup(api && *api ? api : "https://slack.com/api");
}

void hook_sender_shut(struct hook_sender *s)
{
    while (s && s->posts)
        request_free(s->posts);
    while (s && LIST_FIRST(&s->servers))
        server_free(LIST_FIRST(&s->servers));
}

void hook_sender_free(struct hook_sender *s)
{
    if (!s)
        return;
    hook_sender_shut(s);
    free(s->slack_secret);
    free(s->slack_api);
    free(s);
}

/* chat.postMessage answers 200 also when it refuses; an incoming webhook says "ok".  What Slack
 * refuses by name (no such channel, bad token) it refuses again: ERR_INVALID ends the message. */
static int slack_verdict(const struct http_response *a, struct err *e)
{
    AUTO(json) struct json *reply = NULL;
    struct err unread;

    if (a->status != 200 || json_parse(buf_str(&a->body), "reply", &reply, &unread) < 0 ||
        json_type(reply) != JSON_OBJECT || json_bool(json_get(reply, "ok")))
        return 0;
    const struct json *why = json_get(reply, "error");
    struct str text = json_type(why) == JSON_STR ? json_str(why) : STR("no reason");
    return err_set(e, str_eq_c(text, "ratelimited") ? ERR_UNAVAILABLE : ERR_INVALID,
                   "Slack refuses the message: %.*s", (int)MIN(text.n, 60), text.p);
}

/* Reports the result once.  A status outside of 2xx is retried: a receiver that is being restarted
 * answers with 5xx, and a message is given up after HOOK_GIVE_UP_MS anyway. */
static void post_on_answer(void *arg, struct http_response *a, const struct err *why)
{
    struct hook_request *r = arg;
    hook_sent_fn done = r->done;
    void *done_arg = r->arg;
    struct err e = {0};
    int rc = 0;

    if (why) {
        e = *why;
        rc = -1;
    } else if (a->status < 200 || a->status > 299) {
        rc = err_set(&e, ERR_UNAVAILABLE, "the receiver answered with status %d", a->status);
    } else if (r->slack) {
        rc = slack_verdict(a, &e);
    }
    /* The request is gone before `done` is called, so `done` may shut the sender. */
    request_free(r);
    done(done_arg, rc < 0 ? &e : NULL);
}

/* The request takes the body.  `url` is cut into server and path. */
static void post_start(struct hook_sender *s, const char *url, const char *token, bool slack,
                       const char *const *headers, struct buf *body_take, hook_sent_fn done,
                       void *arg)
{
    struct hook_request *r = xcalloc(1, sizeof(*r));
    const char *host = strstr(url, "://"), *path = host ? strchr(host + 3, '/') : NULL;
    struct str server = {url, path ? (size_t)(path - url) : strlen(url)};

    *r = (struct hook_request){
        .sender = s, .slack = slack, .done = done, .arg = arg, .next = s->posts};
    r->body = *body_take;
    *body_take = (struct buf){0};
    s->posts = r;
    r->server = server_of(s, server);
    r->server->requests++;
    r->fetch = fetch_collect(
        r->server->fetcher,
        &(struct http_request){.method = "POST",
                               .path = path ? path : "/",
                               .headers = headers,
                               .token = token,
                               .body = buf_str(&r->body)},
        &(struct fetch_limits){.total_ms = POST_MS, .body_bytes = ANSWER_BYTES}, post_on_answer, r);
}

/* ---- webhook ---- */

/* The receiver checks X-Berth-Signature with the secret of the hook, refuses an old
 * X-Berth-Timestamp, and recognises a repeated message by X-Berth-Delivery. */
static void webhook_post(struct hook_sender *s, const struct hook_letter *l,
                         const struct hook_message *m, struct str url, hook_sent_fn done, void *arg)
{
    int64_t now_s = clock_wall(&clock_system) / 1000;
    char time[64], signature[HOOK_SIGNATURE_MAX + 32] = "";
    AUTO_FREE char *text = xstrndup(url.p, url.n), *id = xasprintf("X-Berth-Delivery: %s", m->id);
    AUTO_FREE char *event = xasprintf("X-Berth-Event: %s", hook_event_name(m->d.event));
    AUTO(buf) struct buf body = {0};

    buf_init(&body, l->json.n + 1);
    buf_add(&body, l->json.p, l->json.n);
    snprintf(time, sizeof(time), "X-Berth-Timestamp: %lld", (long long)now_s);
    if (m->d.secret.n) {
        char mac[HOOK_SIGNATURE_MAX];
        hook_sign(m->d.secret, now_s, buf_str(&body), mac);
        snprintf(signature, sizeof(signature), "X-Berth-Signature: %s", mac);
    }
    const char *headers[] = {"Content-Type: application/json", time, id, event,
                             signature[0] ? signature : NULL,  NULL};
    post_start(s, text, NULL, false, headers, &body, done, arg);
}

/* ---- Slack ---- */

/* The form of the secret decides the way: a URL is an incoming webhook, everything else is the
 * token of an app, which goes into the header Authorization. */
static void slack_post(struct hook_sender *s, const struct hook_letter *l,
                       const struct hook_message *m, struct str channel, hook_sent_fn done,
                       void *arg)
{
    static const char *const headers[] = {"Content-Type: application/json; charset=utf-8", NULL};
    AUTO_FREE char *own = xstrndup(m->d.secret.p, m->d.secret.n);
    const char *secret = *own ? own : s->slack_secret;
    AUTO(buf) struct buf body = {0};
    struct err e = {0};

    if (!secret || !*secret) {
        err_set(&e, ERR_UNAVAILABLE,
                "no secret for Slack: give the hook the URL of an incoming webhook or the token of "
                "an app, or set BERTH_SLACK for the daemon");
        done(arg, &e);
        return;
    }
    buf_init(&body, 64 << 10);
    jw_object(&body, NULL);
    jw_str(&body, "channel", channel);
    jw_str(&body, "text", buf_str(&l->slack));
    jw_end_object(&body);
    if (!strncmp(secret, "http", 4)) {
        post_start(s, secret, NULL, true, headers, &body, done, arg);
        return;
    }
    AUTO_FREE char *url = xasprintf("%s/chat.postMessage", s->slack_api);
    post_start(s, url, secret, true, headers, &body, done, arg);
}

void hook_post(struct hook_sender *s, const struct hook_letter *l, const struct hook_message *m,
               enum hook_kind kind, struct str target, hook_sent_fn done, void *arg)
{
    if (kind == HOOK_SLACK)
        slack_post(s, l, m, target, done, arg);
    else
        webhook_post(s, l, m, target, done, arg);
}
