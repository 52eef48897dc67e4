/* dialect.c - the GPU scheduler's interface put together: paths, calls, library port
 *
 * Owns: which request goes where, the life of a call, the address of the library port.
 *
 * Jobs keep the address of the library port in their environment and outlive the daemon, so the
 * port is chosen once and written down in the home.  It is taken from below the range from which
 * the kernel gives ports to outgoing connections: one of those could have it when we come back.
 */
#include "dialect/gpu/dialect.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/util.h"
#include "dialect/gpu/dialect_priv.h"
#include "dialect/gpu/translate.h"
#include "dialect/gpu/wire.h"
#include "io/forward.h"
#include <stdio.h>

enum {
    PORT_FIRST = 18000,
    PORT_COUNT = 11000, /* below 30000, where Kubernetes puts its node ports */
    PORT_TRIES = 200,
    SHUT_GRACE_MS = 1000,
    BODY_READ_MAX = 1 << 20, /* what is larger than GPU_BODY_MAX should hear so from us */
    SUBMIT_BODY_MAX = 4 << 20,
};

/* ---- calls ---- */

static void on_gone(void *arg, struct http_req *r)
{
    struct gpu_call *c = arg;

    (void)r;
    c->req = NULL;
}

void *gpu_call_new(struct gpu_dialect *d, struct http_req *r, const struct who *who, size_t size)
{
    struct gpu_call *c = xcalloc(1, size);

    c->d = d;
    c->req = r;
    c->who = *who;
    http_on_gone(r, on_gone, c);
    return c;
}

struct http_req *gpu_call_take_req(struct gpu_call *c)
{
    struct http_req *r = c->req;

    if (r)
        http_on_gone(r, NULL, NULL);
    c->req = NULL;
    return r;
}

void gpu_call_free(struct gpu_call *c)
{
    gpu_call_take_req(c);
    if (c->done)
        c->done(c);
    free(c);
}

void gpu_call_fail(struct gpu_call *c, const struct err *e)
{
    struct http_req *r = gpu_call_take_req(c);

    if (r) {
        if (err_retryable(e->code))
            http_reply_header(r, "Retry-After", "1");
        http_reply_err(r, e);
    }
    gpu_call_free(c);
}

static void on_work(void *arg)
{
    struct gpu_call *c = arg;

    if (c->work(c) < 0 && !c->err.code)
        err_set(&c->err, ERR_INTERNAL, "a request failed without a reason; this is a bug");
}

static void on_worked(void *arg)
{
    struct gpu_call *c = arg;

    c->d->working--;
    c->then(c);
}

void gpu_call_work(struct gpu_call *c)
{
    c->d->working++;
    work_submit(c->d->conf.loop, on_work, on_worked, c);
}

int gpu_identify(struct gpu_dialect *d, struct http_req *r, enum auth_class cls, struct who *out)
{
    struct err e = {0};

    if (auth_identify(d->conf.auth, http_peer(r), http_header(r, "authorization"), out, &e) < 0 ||
        auth_allows(cls, out, &e) < 0) {
        if (e.code == ERR_UNAUTHENTICATED)
            http_reply_header(r, "WWW-Authenticate", "Bearer realm=\"berth\"");
        http_reply_err(r, &e);
        return -1;
    }
    return 0;
}

/* ---- requests ---- */

enum route { ROUTE_OTHER, ROUTE_SUBMIT, ROUTE_JOBS, ROUTE_LIBRARY };

static enum route route_of(struct http_req *r, struct str *out_ref)
{
    static const char jobs[] = "/" GPU_DIALECT "/jobs";
    struct str path = http_path(r), rest;

    *out_ref = (struct str){NULL, 0};
    if (str_eq_c(path, "/submit"))
        return ROUTE_SUBMIT;
    if (str_starts(path, STR(jobs))) {
        rest = (struct str){path.p + sizeof(jobs) - 1, path.n - (sizeof(jobs) - 1)};
        if (rest.n > 1 && rest.p[0] == '/' && !memchr(rest.p + 1, '/', rest.n - 1))
            *out_ref = (struct str){rest.p + 1, rest.n - 1};
        else if (rest.n > 0)
            return ROUTE_OTHER;
        return ROUTE_JOBS;
    }
    return gpu_library_takes(r) ? ROUTE_LIBRARY : ROUTE_OTHER;
}

static void only(struct http_req *r, const char *method)
{
    http_reply_header(r, "Allow", method);
    http_reply(r, 405, "application/json",
               STR("{\"error\":{\"code\":\"invalid\",\"message\":\"not with this method\"}}"));
}

static void on_request(void *self, struct http_req *r)
{
    struct gpu_dialect *d = self;
    struct str ref;
    struct err e = {0};
    enum route to = route_of(r, &ref);

    if (to != ROUTE_OTHER && d->closing) {
        err_set(&e, ERR_UNAVAILABLE, "the daemon is shutting down; try again in a moment");
        http_reply_err(r, &e);
        return;
    }
    switch (to) {
    case ROUTE_SUBMIT:
        if (str_eq_c(http_method(r), "POST"))
            gpu_submit(d, r);
        else
            only(r, "POST");
        return;
    case ROUTE_JOBS:
        if (str_eq_c(http_method(r), "GET"))
            gpu_state(d, r, ref);
        else
            only(r, "GET");
        return;
    case ROUTE_LIBRARY:
        gpu_library_request(d, r, false);
        return;
    case ROUTE_OTHER:
        break;
    }
    d->next.request(d->next.self, r);
}

static bool is_known(struct gpu_dialect *d, struct http_req *r)
{
    struct who who;
    struct err e;

    return auth_identify(d->conf.auth, http_peer(r), http_header(r, "authorization"), &who, &e) ==
           0;
}

/* Called when only the head is there: strangers may not make us keep large bodies. */
static size_t on_body_max(void *self, struct http_req *r)
{
    struct gpu_dialect *d = self;
    struct str ref;

    switch (route_of(r, &ref)) {
    case ROUTE_SUBMIT:
        return is_known(d, r) ? SUBMIT_BODY_MAX : GPU_BODY_MAX;
    case ROUTE_JOBS:
    case ROUTE_LIBRARY:
        return BODY_READ_MAX;
    case ROUTE_OTHER:
        break;
    }
    return d->next.body_max(d->next.self, r);
}

struct http_handler gpu_dialect_handler(struct gpu_dialect *d, struct http_handler next)
{
    d->next = next;
    return (struct http_handler){.request = on_request, .body_max = on_body_max, .self = d};
}

static void on_library_request(void *self, struct http_req *r)
{
    struct gpu_dialect *d = self;

    if (d->closing)
        http_reply(r, 503, "text/plain; charset=utf-8", STR("shutting down\n"));
    else
        gpu_library_request(d, r, true);
}

static size_t on_library_body_max(void *self, struct http_req *r)
{
    (void)self;
    (void)r;
    return BODY_READ_MAX;
}

/* ---- the library port ---- */

static int listen_at(struct gpu_dialect *d, const char *addr, int port, struct err *e)
{
    bool v6 = strchr(addr, ':') != NULL;
    int got = 0;

    if (http_server_listen_tcp(d->library, addr, port, NULL, NULL, &got, e) < 0)
        return -1;
    free(d->endpoint);
    /* Bound to every address, it is reached at loopback by those who run here. */
    if (!strcmp(addr, "0.0.0.0") || !strcmp(addr, "::"))
        d->endpoint = xasprintf("127.0.0.1:%d", got);
    else
        d->endpoint = xasprintf(v6 ? "[%s]:%d" : "%s:%d", addr, got);
    return 0;
}

static int kept_port(const char *path)
{
    AUTO_FREE char *text = NULL;
    size_t n;
    int64_t port;
    struct err e;

    if (file_read_all(path, 64, &text, &n, &e) < 0 ||
        !str_to_i64(str_trim((struct str){text, n}), &port) || port < 1 || port > 65535)
        return 0;
    return (int)port;
}

static int new_port(void)
{
    uint32_t r[PORT_TRIES];

    random_bytes(r, sizeof(r));
    for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
        int port = PORT_FIRST + (int)(r[i] % PORT_COUNT);
        if (port_is_free("127.0.0.1", port))
            return port;
    }
    return 0; /* the kernel's choice */
}

static int listen_kept(struct gpu_dialect *d, struct err *e)
{
    AUTO_FREE char *path = path_join(d->conf.home, "library-port");
    int port = kept_port(path);
    char text[16];

    if (port && listen_at(d, "127.0.0.1", port, e) == 0)
        return 0;
    if (port)
        log_warn("library", "%s; jobs that run cannot report until they start again", e->text);
    if (listen_at(d, "127.0.0.1", new_port(), e) < 0)
        return -1;
    int n = snprintf(text, sizeof(text), "%s\n", strrchr(d->endpoint, ':') + 1);
    return file_write_atomic(path, text, (size_t)n, 0600, e);
}

int gpu_dialect_listen(struct gpu_dialect *d, const char *addr, int port, struct err *e)
{
    d->library = http_server_new(d->conf.loop, &http_limits_default,
                                 (struct http_handler){.request = on_library_request,
                                                       .body_max = on_library_body_max,
                                                       .self = d});
    if (addr ? listen_at(d, addr, port, e) < 0 : listen_kept(d, e) < 0)
        return err_wrap(e, "opening the library port");
    core_set_endpoint(d->conf.core, d->endpoint);
    return 0;
}

const char *gpu_dialect_endpoint(const struct gpu_dialect *d)
{
    return d->endpoint;
}

/* ---- life ---- */

void gpu_dialect_committed(struct gpu_dialect *d)
{
    if (doors_count(d->doors))
        doors_look(d->doors);
}

struct gpu_dialect *gpu_dialect_new(const struct gpu_dialect_conf *c)
{
    struct gpu_dialect *d = xcalloc(1, sizeof(*d));

    d->conf = *c;
    d->conf.home = xstrdup(c->home);
    d->conf.backend = c->backend ? xstrdup(c->backend) : NULL;
    d->doors = doors_new(c->loop, c->core, c->ports_addr ? c->ports_addr : "0.0.0.0");
    return d;
}

static void on_library_down(void *arg)
{
    ((struct gpu_dialect *)arg)->library_down = true;
}

void gpu_dialect_shut(struct gpu_dialect *d)
{
    if (d->closing)
        return;
    d->closing = true;
    if (d->library)
        http_server_shutdown(d->library, SHUT_GRACE_MS, on_library_down, d);
    else
        d->library_down = true;
}

bool gpu_dialect_busy(const struct gpu_dialect *d)
{
    return d->working > 0 || !d->library_down;
}

void gpu_dialect_free(struct gpu_dialect *d)
{
    if (!d)
        return;
    if (d->library)
        http_server_free(d->library);
    doors_free(d->doors);
    gpu_library_done(d);
    free(d->endpoint);
    free((char *)d->conf.home);
    free((char *)d->conf.backend);
    free(d);
}
