/* fetch_curl.c - fetches from URLs: libcurl's multi interface on watches and a timer
 *
 * Linked, libcurl would bring thirty libraries into every command, so it is opened on first use, on
 * a worker thread (5 to 10 ms).  The prototypes and numbers below are our own (its interface has
 * been stable since 2006), so building needs no header of it.
 *
 * A fetcher has one multi handle, which keeps its connections.  libcurl says which descriptors and
 * which time it waits for; we tell it what happened.  It must not be called from inside its
 * callbacks: fetch.c keeps what must wait.  HTTP/1.1 is asked for, because with HTTP/2 libcurl
 * would buffer 32 MB for a stream that is paused.
 */
#include "base/util.h"
#include "io/address.h"
#include "io/fetch_priv.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>

struct curl_slist {
    char *data;
    struct curl_slist *next;
};
struct curl_address {
    int family, type, protocol;
    unsigned n;
    struct sockaddr addr;
};
struct curl_msg {
    int kind; /* 1 = done, the only one */
    void *easy;
    union {
        void *whatever;
        int result;
    } data;
};

/* result, name, parameters */
#define CURL_FUNCTIONS(X)                                                                          \
    X(int, global_init, (long flags))                                                              \
    X(void *, easy_init, (void))                                                                   \
    X(int, easy_setopt, (void *, int option, ...))                                                 \
    X(int, easy_getinfo, (void *, int info, ...))                                                  \
    X(int, easy_pause, (void *, int what))                                                         \
    X(void, easy_cleanup, (void *))                                                                \
    X(const char *, easy_strerror, (int code))                                                     \
    X(void *, multi_init, (void))                                                                  \
    X(int, multi_setopt, (void *, int option, ...))                                                \
    X(int, multi_add_handle, (void *, void *easy))                                                 \
    X(int, multi_remove_handle, (void *, void *easy))                                              \
    X(int, multi_assign, (void *, int fd, void *data))                                             \
    X(int, multi_socket_action, (void *, int fd, int events, int *running))                        \
    X(struct curl_msg *, multi_info_read, (void *, int *left))                                     \
    X(int, multi_cleanup, (void *))

static struct {
#define X(result, name, params) result(*name) params;
    CURL_FUNCTIONS(X)
#undef X
} curl;
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool loaded; /* set under load_lock, read by anybody */

enum {
    OPT_NOBODY = 44,
    OPT_UPLOAD = 46,
    OPT_FRESH_CONNECT = 74,
    OPT_FORBID_REUSE = 75,
    OPT_HTTP_VERSION = 84,
    OPT_CONNECTTIMEOUT_MS = 156,
    OPT_TCP_KEEPALIVE = 213,
    OPT_TCP_KEEPIDLE = 214,
    OPT_TCP_KEEPINTVL = 215,
    OPT_SUPPRESS_CONNECT_HEADERS = 265,
    OPT_QUICK_EXIT = 322,
    OPT_WRITEDATA = 10001,
    OPT_URL = 10002,
    OPT_PROXY = 10004,
    OPT_READDATA = 10009,
    OPT_ERRORBUFFER = 10010,
    OPT_POSTFIELDS = 10015,
    OPT_USERAGENT = 10018,
    OPT_HTTPHEADER = 10023,
    OPT_HEADERDATA = 10029,
    OPT_CUSTOMREQUEST = 10036,
    OPT_CAINFO = 10065,
    OPT_CAPATH = 10097,
    OPT_ACCEPT_ENCODING = 10102,
    OPT_PRIVATE = 10103,
    OPT_PROTOCOLS_STR = 10318,
    OPT_WRITEFUNCTION = 20011,
    OPT_READFUNCTION = 20012,
    OPT_HEADERFUNCTION = 20079,
    OPT_OPENSOCKETFUNCTION = 20163,
    OPT_POSTFIELDSIZE_LARGE = 30120,
    MULTI_SOCKETDATA = 10002,
    MULTI_TIMERDATA = 10005,
    MULTI_SOCKETFUNCTION = 20001,
    MULTI_TIMERFUNCTION = 20004,
    INFO_PRIVATE = 0x100015,
    INFO_RESPONSE_CODE = 0x200002,
    HTTP_1_1 = 2,
    GLOBAL_ALL = 3,
    CODE_NO_PROXY = 5,
    CODE_NO_CONNECTION = 7, /* 6 in between: no such host */
    CODE_ABORTED_BY_CALLBACK = 42,
    POLL_REMOVE = 4,
    EVENT_READ = 1, /* POLL_IN and CSELECT_IN are the same number, and so are the next two */
    EVENT_WRITE = 2,
    EVENT_ERROR = 4,
    EVENT_TIMEOUT_FD = -1,
    WRITE_PAUSE = 0x10000001, /* what a write callback returns: not now, hand it over again */
    READ_ABORT = 0x10000000,  /* what a read callback returns to end the transfer */
    ERROR_TEXT_MAX = 256,
    KEEPALIVE_S = 30, /* a peer that vanished is noticed in five minutes, whatever the limits */
};

/* f->via */
struct curl_multi {
    void *multi;
    struct timer *timer;
    struct curl_loading *loading; /* or NULL */
};
/* x->via.  What libcurl borrows while the request is under way. */
struct curl_fetch {
    void *easy; /* NULL before it began */
    char *url, *method;
    struct curl_slist *lines;
    struct str body;
    const struct http_source *source;
    bool repeatable;
    bool has_head;
    char why[ERROR_TEXT_MAX];
};
/* A descriptor that libcurl waits for. */
struct curl_socket {
    struct fetcher *owner;
    int fd;
    struct watch *watch;
};

/* ---- the library ---- */

/* Opens the library once per process and never closes it.  The error names the package to
 * install. */
static int curl_load(struct err *e)
{
    int rc = 0;

    pthread_mutex_lock(&load_lock);
    void *lib = loaded ? NULL : dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!loaded && !lib)
        lib = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!loaded && !lib)
        rc = err_set(e, ERR_UNAVAILABLE,
                     "a remote server needs libcurl and libcurl.so.4 cannot be opened; install "
                     "libcurl4");
#define X(result, name, params)                                                                    \
    if (lib && rc == 0 && !(curl.name = (result(*) params)dlsym(lib, "curl_" #name)))              \
        rc = err_set(e, ERR_UNAVAILABLE, "libcurl has no function curl_%s; install libcurl4",      \
                     #name);
    CURL_FUNCTIONS(X)
#undef X
    if (lib && rc == 0 && curl.global_init(GLOBAL_ALL) != 0)
        rc = err_set(e, ERR_UNAVAILABLE, "libcurl cannot be started");
    if (rc == 0)
        loaded = true;
    pthread_mutex_unlock(&load_lock);
    return rc;
}

/* The library being opened on a worker thread. */
struct curl_loading {
    struct fetcher *owner; /* NULL: freed meanwhile */
    bool over;
    int rc;
    struct err e;
};

static void curl_load_work(void *arg)
{
    struct curl_loading *l = arg;

    l->rc = curl_load(&l->e);
}

static void curl_load_done(void *arg)
{
    struct curl_loading *l = arg;

    l->over = true;
    if (l->owner)
        fetcher_kick(l->owner, 0);
    else
        free(l);
}

/* 0 = the library can be used, 1 = not yet, -1 = it cannot be opened; the next fetch tries again.
 */
static int curl_ready(struct fetcher *f, struct err *e)
{
    struct curl_multi *m = f->via;

    if (m->multi)
        return 0;
    if (!loaded && !m->loading) {
        m->loading = xcalloc(1, sizeof(*m->loading));
        m->loading->owner = f;
        work_submit(f->loop, curl_load_work, curl_load_done, m->loading);
    }
    if (m->loading && !m->loading->over)
        return 1;
    AUTO_FREE struct curl_loading *l = TAKE(m->loading);
    if (l && l->rc < 0)
        *e = l->e;
    return l ? l->rc : 0;
}

/* ---- what libcurl waits for ---- */

/* Ends the transfers that libcurl has ended. */
static void curl_reap(struct fetcher *f)
{
    struct curl_multi *m = f->via;
    struct curl_msg *msg;
    int left;

    while ((msg = curl.multi_info_read(m->multi, &left))) {
        struct fetch *x = NULL;
        int code = msg->data.result;
        curl.easy_getinfo(msg->easy, INFO_PRIVATE, &x);
        if (x->cancelled)
            continue;
        struct curl_fetch *c = x->via;
        struct err e = {0};
        if (code == CODE_ABORTED_BY_CALLBACK)
            err_set(&e, ERR_BUSY, "the body of the request to %s was not produced to its end",
                    f->target);
        else
            err_set(&e, ERR_UNAVAILABLE, "cannot reach %s: %s", f->target,
                    c->why[0] ? c->why : curl.easy_strerror(code));
        if (code >= CODE_NO_PROXY && code <= CODE_NO_CONNECTION)
            e.sys = ECONNREFUSED;
        fetch_finish(x, code == 0 ? NULL : &e);
    }
}

static void curl_act(struct fetcher *f, int fd, int events)
{
    struct curl_multi *m = f->via;
    int running;

    fetcher_enter(f);
    curl.multi_socket_action(m->multi, fd, events, &running);
    curl_reap(f);
    fetcher_leave(f);
}

static void curl_on_ready(void *arg, int events, int error)
{
    struct curl_socket *s = arg;

    curl_act(s->owner, s->fd,
             (events & WATCH_READ ? EVENT_READ : 0) | (events & WATCH_WRITE ? EVENT_WRITE : 0) |
                 (error ? EVENT_ERROR : 0));
}

static void curl_on_timer(void *arg)
{
    curl_act(arg, EVENT_TIMEOUT_FD, 0);
}

static int curl_on_socket(void *easy UNUSED, int fd, int what, void *arg, void *socket)
{
    struct fetcher *f = arg;
    struct curl_multi *m = f->via;
    struct curl_socket *s = socket;

    if (what == POLL_REMOVE) {
        if (s)
            watch_free(s->watch);
        free(s);
        return 0;
    }
    if (!s) {
        s = xcalloc(1, sizeof(*s));
        *s = (struct curl_socket){f, fd, watch_new(f->loop, fd, curl_on_ready, s)};
        ASSERT(s->watch);
        curl.multi_assign(m->multi, fd, s);
    }
    watch_start(s->watch,
                (what & EVENT_READ ? WATCH_READ : 0) | (what & EVENT_WRITE ? WATCH_WRITE : 0));
    return 0;
}

static int curl_on_timeout(void *multi UNUSED, long ms, void *arg)
{
    struct curl_multi *m = ((struct fetcher *)arg)->via;

    if (ms < 0)
        timer_stop(m->timer);
    else
        timer_start(m->timer, ms, 0);
    return 0;
}

/* ---- one transfer ---- */

static size_t curl_on_header(char *p, size_t size, size_t count, void *arg)
{
    struct fetch *x = arg;
    struct curl_fetch *c = x->via;
    struct str value, line = {p, size * count}, name = str_cut(line, ':', &value);
    long status = 0;

    if (c->has_head || x->cancelled) /* trailers of a chunked body come here too */
        return line.n;
    if (str_trim(line).n) {
        http_response_header(&x->answer, str_trim(name), str_trim(value));
        return line.n;
    }
    curl.easy_getinfo(c->easy, INFO_RESPONSE_CODE, &status);
    if (status >= 200) { /* else an interim answer */
        c->has_head = true;
        fetch_got_head(x, (int)status);
    }
    return line.n;
}

/* A result other than n or WRITE_PAUSE makes libcurl end the transfer. */
static size_t curl_on_bytes(char *p, size_t size, size_t count, void *arg)
{
    struct fetch *x = arg;
    size_t n = size * count;

    if (x->paused && !x->cancelled)
        return WRITE_PAUSE;
    return fetch_got_piece(x, (struct str){p, n}) ? n : 0;
}

static size_t curl_on_read(char *p, size_t size, size_t count, void *arg)
{
    struct fetch *x = arg;
    const struct http_source *s = ((struct curl_fetch *)x->via)->source;
    ssize_t n = x->cancelled ? -1 : s->fill(s->arg, p, size * count);

    return n < 0 ? (size_t)READ_ABORT : (size_t)n;
}

/* libcurl's own sockets stay open in every program that the process starts. */
static int curl_open_socket(void *arg UNUSED, int purpose UNUSED, struct curl_address *a)
{
    return socket(a->family, a->type | SOCK_CLOEXEC, a->protocol);
}

static void curl_add_line(struct curl_fetch *c, char *line)
{
    struct curl_slist *l = xcalloc(1, sizeof(*l)), **end = &c->lines;

    l->data = line;
    while (*end)
        end = &(*end)->next;
    *end = l;
}

static void curl_prepare(struct fetch *x, const struct http_request *q)
{
    struct curl_fetch *c = x->via = xcalloc(1, sizeof(*c));
    struct str base = str_of(x->owner->target);

    while (base.n && base.p[base.n - 1] == '/')
        base.n--; /* the path brings its own */
    c->url = xasprintf(STR_FMT "%s", STR_ARG(base), q->path);
    c->method = xstrdup(q->method);
    c->body = q->body;
    c->source = q->source;
    c->repeatable = http_request_repeatable(q);
    curl_add_line(c, xstrdup("Expect:")); /* no pause before a body */
    if (q->token && !http_request_has_header(q, "authorization"))
        curl_add_line(c, xasprintf("Authorization: Bearer %s", q->token));
    if (q->body.n > 0 && !http_request_has_header(q, "content-type"))
        curl_add_line(c, xstrdup("Content-Type: application/json"));
    if (q->source)
        curl_add_line(c, xstrdup("Transfer-Encoding: chunked"));
    for (const char *const *h = q->headers; h && *h; h++)
        curl_add_line(c, xstrdup(*h));
}

static void curl_set_body(struct curl_fetch *c, struct fetch *x)
{
    void *h = c->easy;

    if (c->source) {
        curl.easy_setopt(h, OPT_UPLOAD, 1L);
        curl.easy_setopt(h, OPT_READFUNCTION, curl_on_read);
        curl.easy_setopt(h, OPT_READDATA, x);
    } else if (strcmp(c->method, "HEAD") == 0) {
        curl.easy_setopt(h, OPT_NOBODY, 1L);
    } else if (c->body.n > 0 || strcmp(c->method, "GET") != 0) {
        curl.easy_setopt(h, OPT_POSTFIELDSIZE_LARGE, (int64_t)c->body.n);
        curl.easy_setopt(h, OPT_POSTFIELDS, c->body.n > 0 ? c->body.p : "");
    }
    curl.easy_setopt(h, OPT_CUSTOMREQUEST, c->method);
}

static void curl_set_options(struct fetch *x)
{
    struct curl_fetch *c = x->via;
    void *h = c->easy;

    curl.easy_setopt(h, OPT_URL, c->url);
    curl.easy_setopt(h, OPT_PRIVATE, x);
    curl.easy_setopt(h, OPT_PROTOCOLS_STR, "http,https"); /* unknown before 7.85: harmless */
    curl.easy_setopt(h, OPT_HTTP_VERSION, (long)HTTP_1_1);
    curl.easy_setopt(h, OPT_OPENSOCKETFUNCTION, curl_open_socket);
    curl.easy_setopt(h, OPT_QUICK_EXIT, 1L); /* a cancelled fetch does not wait for the resolver */
    curl.easy_setopt(h, OPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl.easy_setopt(h, OPT_CONNECTTIMEOUT_MS, (long)x->limits.connect_ms);
    curl.easy_setopt(h, OPT_TCP_KEEPALIVE, 1L);
    curl.easy_setopt(h, OPT_TCP_KEEPIDLE, (long)KEEPALIVE_S);
    curl.easy_setopt(h, OPT_TCP_KEEPINTVL, (long)KEEPALIVE_S);
    curl.easy_setopt(h, OPT_USERAGENT, "berth");
    curl.easy_setopt(h, OPT_ACCEPT_ENCODING, "");
    curl.easy_setopt(h, OPT_HTTPHEADER, c->lines);
    curl.easy_setopt(h, OPT_ERRORBUFFER, c->why);
    curl.easy_setopt(h, OPT_WRITEFUNCTION, curl_on_bytes);
    curl.easy_setopt(h, OPT_WRITEDATA, x);
    curl.easy_setopt(h, OPT_HEADERFUNCTION, curl_on_header);
    curl.easy_setopt(h, OPT_HEADERDATA, x);
    if (x->owner->ca_file)
        curl.easy_setopt(h, OPT_CAINFO, x->owner->ca_file);
    /* No directory beside that file, or the file of the system: its authorities would be trusted
     * too, and libcurl would read all of them again for each connection (30 ms). */
    curl.easy_setopt(h, OPT_CAPATH, NULL);
    if (url_is_loopback(c->url))
        curl.easy_setopt(h, OPT_PROXY, ""); /* a proxy cannot reach this host's own loopback */
    if (!c->repeatable) {
        /* libcurl sends any request again when a kept connection was closed: so none is used. */
        curl.easy_setopt(h, OPT_FRESH_CONNECT, 1L);
        curl.easy_setopt(h, OPT_FORBID_REUSE, 1L);
    }
    curl_set_body(c, x);
}

/* ---- the transport ---- */

static int curl_begin(struct fetch *x, struct err *e)
{
    struct fetcher *f = x->owner;
    struct curl_fetch *c = x->via;
    struct curl_multi *m = f->via ? f->via : (f->via = xcalloc(1, sizeof(*m)));

    if (strncmp(f->target, "http://", 7) != 0 && strncmp(f->target, "https://", 8) != 0)
        return err_set(e, ERR_INVALID,
                       "'%s' names no server; write unix:PATH, http://HOST:PORT or "
                       "https://HOST:PORT",
                       f->target);
    int rc = curl_ready(f, e);
    if (rc != 0)
        return rc;
    if (!m->multi) {
        m->multi = curl.multi_init();
        ASSERT(m->multi);
        m->timer = timer_new(f->loop, curl_on_timer, f);
        curl.multi_setopt(m->multi, MULTI_SOCKETFUNCTION, curl_on_socket);
        curl.multi_setopt(m->multi, MULTI_SOCKETDATA, f);
        curl.multi_setopt(m->multi, MULTI_TIMERFUNCTION, curl_on_timeout);
        curl.multi_setopt(m->multi, MULTI_TIMERDATA, f);
    }
    c->easy = curl.easy_init();
    ASSERT(c->easy);
    curl_set_options(x);
    curl.multi_add_handle(m->multi, c->easy);
    return 0;
}

/* May hand over bytes before it returns. */
static void curl_resume(struct fetch *x)
{
    curl.easy_pause(((struct curl_fetch *)x->via)->easy, 0);
}

static void curl_end(struct fetch *x, bool whole UNUSED)
{
    struct curl_fetch *c = x->via;

    if (c->easy) {
        curl.multi_remove_handle(((struct curl_multi *)x->owner->via)->multi, c->easy);
        curl.easy_cleanup(c->easy);
    }
    for (struct curl_slist *l = c->lines, *next; l; l = next) {
        next = l->next;
        free(l->data);
        free(l);
    }
    free(c->url);
    free(c->method);
    free(TAKE(x->via));
}

static void curl_close(struct fetcher *f)
{
    struct curl_multi *m = f->via;

    if (!m)
        return;
    if (m->multi)
        curl.multi_cleanup(m->multi);
    timer_free(m->timer);
    if (m->loading && !m->loading->over)
        m->loading->owner = NULL;
    else
        free(m->loading);
    free(m);
}

const struct fetch_transport fetch_over_curl = {curl_prepare, curl_begin, NULL,
                                                curl_resume,  curl_end,   curl_close};
