/* http_client_curl.c - http:// and https:// through libcurl, opened on first use
 *
 * Linked, libcurl would bring thirty libraries into every command.  The prototypes and numbers
 * below are our own (its interface has been stable since 2006), so building needs no header of it.
 */
#include "base/util.h"
#include "io/http_client_priv.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

struct curl_slist;

/* The functions of libcurl, in the order of the names in curl_load. */
static struct {
    int (*global_init)(long flags);
    void *(*easy_init)(void);
    int (*easy_setopt)(void *h, int option, ...);
    int (*easy_perform)(void *h);
    int (*easy_getinfo)(void *h, int info, ...);
    void (*easy_reset)(void *h);
    void (*easy_cleanup)(void *h);
    const char *(*easy_strerror)(int code);
    struct curl_slist *(*slist_append)(struct curl_slist *l, const char *s);
    void (*slist_free_all)(struct curl_slist *l);
} curl;
static bool loaded;

enum {
    OPT_NOPROGRESS = 43,
    OPT_NOBODY = 44,
    OPT_UPLOAD = 46,
    OPT_CONNECTTIMEOUT_MS = 156,
    OPT_TCP_KEEPALIVE = 213,
    OPT_WRITEDATA = 10001,
    OPT_URL = 10002,
    OPT_READDATA = 10009,
    OPT_PROXY = 10004,
    OPT_ERRORBUFFER = 10010,
    OPT_POSTFIELDS = 10015,
    OPT_USERAGENT = 10018,
    OPT_HTTPHEADER = 10023,
    OPT_HEADERDATA = 10029,
    OPT_CUSTOMREQUEST = 10036,
    OPT_XFERINFODATA = 10057,
    OPT_CAINFO = 10065,
    OPT_ACCEPT_ENCODING = 10102,
    OPT_PROTOCOLS_STR = 10318,
    OPT_WRITEFUNCTION = 20011,
    OPT_READFUNCTION = 20012,
    OPT_HEADERFUNCTION = 20079,
    OPT_XFERINFOFUNCTION = 20219,
    OPT_POSTFIELDSIZE_LARGE = 30120,
    INFO_RESPONSE_CODE = 0x200002,
    CODE_NO_PROXY = 5,
    CODE_NO_CONNECTION = 7, /* 6 in between: no such host */
    CODE_WRITE_ERROR = 23,
    CODE_ABORTED_BY_CALLBACK = 42,
    READ_ABORT = 0x10000000, /* what a read callback returns to end the transfer */
    GLOBAL_ALL = 3,
    ERROR_TEXT_MAX = 256,
};

/* Opens the library once per process and never closes it.  0, or -1 with an error that names
 * the package to install. */
static int curl_load(struct err *e)
{
    static const char *const names[] = {
        "curl_global_init",  "curl_easy_init",      "curl_easy_setopt",  "curl_easy_perform",
        "curl_easy_getinfo", "curl_easy_reset",     "curl_easy_cleanup", "curl_easy_strerror",
        "curl_slist_append", "curl_slist_free_all",
    };
    void *found[ARRAY_SIZE(names)];

    _Static_assert(sizeof(curl) == sizeof(found), "one name per function, in order");
    if (loaded)
        return 0;
    void *lib = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        lib = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return err_set(e, ERR_UNAVAILABLE,
                       "a remote server needs libcurl and libcurl.so.4 cannot be opened; install "
                       "libcurl4");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (!(found[i] = dlsym(lib, names[i]))) {
            dlclose(lib);
            return err_set(e, ERR_UNAVAILABLE, "libcurl has no function %s; install libcurl4",
                           names[i]);
        }
    }
    memcpy(&curl, found, sizeof(curl));
    if (curl.global_init(GLOBAL_ALL) != 0)
        return err_set(e, ERR_UNAVAILABLE, "libcurl cannot be started");
    loaded = true;
    return 0;
}

/* What libcurl's callbacks get.  Lives on the stack of http_curl_call. */
struct transfer {
    struct http_client *c;
    struct http_ask *ask;
};

/* The status is known to libcurl before the first byte of body, and after the call for replies
 * without a body. */
static void tell_status(struct transfer *t)
{
    long status = 0;

    curl.easy_getinfo(t->c->curl, INFO_RESPONSE_CODE, &status);
    t->ask->out->status = (int)status;
    if (t->ask->live_status)
        *t->ask->live_status = (int)status;
}

/* A result other than n makes libcurl end the call with CODE_WRITE_ERROR; `stopped` then tells
 * an end that the caller wanted from a failure. */
static size_t curl_on_bytes(char *p, size_t size, size_t count, void *arg)
{
    struct transfer *t = arg;
    size_t n = size * count;

    if (t->ask->out->status == 0)
        tell_status(t);
    if (t->ask->on_bytes(t->ask->arg, (struct str){p, n}))
        return n;
    t->ask->stopped = true;
    return 0;
}

static size_t curl_on_read(char *p, size_t size, size_t count, void *arg)
{
    struct transfer *t = arg;
    ssize_t n = t->ask->request.source->fill(t->ask->request.source->arg, p, size * count);

    return n < 0 ? (size_t)READ_ABORT : (size_t)n;
}

/* Not zero ends the call. */
static int curl_on_progress(void *arg, int64_t down_total, int64_t down, int64_t up_total,
                            int64_t up)
{
    struct transfer *t = arg;

    (void)down_total, (void)down, (void)up_total, (void)up;
    return t->c->asked(t->c->asked_arg);
}

static size_t curl_on_header(char *p, size_t size, size_t count, void *arg)
{
    struct transfer *t = arg;
    struct str value, name = str_cut((struct str){p, size * count}, ':', &value);

    http_response_header(t->ask->out, str_trim(name), str_trim(value));
    return size * count;
}

/* A proxy from the environment cannot reach this host's own loopback. */
static bool target_is_loopback(const char *target)
{
    const char *host = strstr(target, "://");

    host = host ? host + 3 : target;
    return strncmp(host, "127.", 4) == 0 || strncmp(host, "[::1]", 5) == 0 ||
           strncmp(host, "localhost", 9) == 0;
}

static struct curl_slist *header_list(const struct http_ask *a)
{
    struct curl_slist *list = curl.slist_append(NULL, "Expect:"); /* no pause before a body */
    const struct http_request *q = &a->request;

    if (q->token && !http_request_has_header(q, "authorization")) {
        AUTO_FREE char *line = xasprintf("Authorization: Bearer %s", q->token);
        list = curl.slist_append(list, line);
    }
    if (q->body.n > 0 && !http_request_has_header(q, "content-type"))
        list = curl.slist_append(list, "Content-Type: application/json");
    if (q->source)
        list = curl.slist_append(list, "Transfer-Encoding: chunked");
    for (const char *const *h = q->headers; h && *h; h++)
        list = curl.slist_append(list, *h);
    return list;
}

static void set_options(struct http_client *c, struct transfer *t, const char *url,
                        struct curl_slist *headers, char *why)
{
    void *h = c->curl;
    const struct http_ask *a = t->ask;
    const struct http_request *q = &a->request;

    curl.easy_reset(h); /* keeps connections */
    curl.easy_setopt(h, OPT_URL, url);
    curl.easy_setopt(h, OPT_PROTOCOLS_STR, "http,https"); /* unknown before 7.85: harmless */
    curl.easy_setopt(h, OPT_CONNECTTIMEOUT_MS, 10000L);
    curl.easy_setopt(h, OPT_TCP_KEEPALIVE, 1L);
    curl.easy_setopt(h, OPT_USERAGENT, "berth");
    curl.easy_setopt(h, OPT_ACCEPT_ENCODING, "");
    curl.easy_setopt(h, OPT_HTTPHEADER, headers);
    curl.easy_setopt(h, OPT_ERRORBUFFER, why);
    curl.easy_setopt(h, OPT_WRITEFUNCTION, curl_on_bytes);
    curl.easy_setopt(h, OPT_WRITEDATA, t);
    curl.easy_setopt(h, OPT_HEADERFUNCTION, curl_on_header);
    curl.easy_setopt(h, OPT_HEADERDATA, t);
    if (c->ca_file)
        curl.easy_setopt(h, OPT_CAINFO, c->ca_file);
    if (target_is_loopback(c->target))
        curl.easy_setopt(h, OPT_PROXY, ""); /* whatever http_proxy says */
    if (c->asked) {
        curl.easy_setopt(h, OPT_XFERINFOFUNCTION, curl_on_progress);
        curl.easy_setopt(h, OPT_XFERINFODATA, t);
        curl.easy_setopt(h, OPT_NOPROGRESS, 0L);
    }
    if (q->source) {
        curl.easy_setopt(h, OPT_UPLOAD, 1L);
        curl.easy_setopt(h, OPT_READFUNCTION, curl_on_read);
        curl.easy_setopt(h, OPT_READDATA, t);
    } else if (strcmp(q->method, "HEAD") == 0) {
        curl.easy_setopt(h, OPT_NOBODY, 1L);
    } else if (q->body.n > 0 || strcmp(q->method, "GET") != 0) {
        curl.easy_setopt(h, OPT_POSTFIELDSIZE_LARGE, (int64_t)q->body.n);
        curl.easy_setopt(h, OPT_POSTFIELDS, q->body.n > 0 ? q->body.p : "");
    }
    curl.easy_setopt(h, OPT_CUSTOMREQUEST, q->method);
}

int http_curl_call(struct http_client *c, struct http_ask *a, struct err *e)
{
    char why[ERROR_TEXT_MAX] = "";
    struct transfer t = {c, a};

    if (strncmp(c->target, "http://", 7) != 0 && strncmp(c->target, "https://", 8) != 0)
        return err_set(e, ERR_INVALID,
                       "'%s' names no server; write unix:PATH, http://HOST:PORT or "
                       "https://HOST:PORT",
                       c->target);
    if (curl_load(e) < 0)
        return -1;
    if (!c->curl)
        c->curl = curl.easy_init();
    ASSERT(c->curl);
    AUTO_FREE char *url = xasprintf("%s%s", c->target, a->request.path);
    struct curl_slist *headers = header_list(a);
    set_options(c, &t, url, headers, why);
    int code = curl.easy_perform(c->curl);
    tell_status(&t);
    curl.slist_free_all(headers);
    curl.easy_reset(c->curl); /* nothing of this call stays referenced */
    if (code == 0 || (code == CODE_WRITE_ERROR && a->stopped))
        return 0;
    if (code == CODE_ABORTED_BY_CALLBACK)
        return err_set(e, ERR_BUSY, "the call to %s was interrupted", c->target);
    err_set(e, ERR_UNAVAILABLE, "cannot reach %s: %s", c->target,
            why[0] ? why : curl.easy_strerror(code));
    if (e && code >= CODE_NO_PROXY && code <= CODE_NO_CONNECTION)
        e->sys = ECONNREFUSED;
    return -1;
}

void http_curl_close(struct http_client *c)
{
    if (c->curl)
        curl.easy_cleanup(TAKE(c->curl));
}
