/* part.c - the GPU scheduler's part of a daemon: its routes, its library port
 *
 * Owns: the address of the library port.
 *
 * Jobs keep the address of the library port in their environment and outlive the daemon, so the
 * port is chosen once and written down in the home.  It is taken from below the range from which
 * the kernel gives ports to outgoing connections: one of those could have it when we come back.
 */
#include "base/file.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/util.h"
#include "dialect/gpu/dialect_priv.h"
#include "dialect/gpu/translate.h"
#include "io/forward.h"
#include <stdio.h>

enum {
    /* PORT_TRIES: after so many ports in use the kernel chooses one. */
    PORT_FIRST = 18000,
    PORT_COUNT = 11000, /* below 30000, where Kubernetes puts its node ports */
    PORT_TRIES = 200,
    SHUT_GRACE_MS = 1000,
    SUBMIT_BODY_MAX = 4 << 20,
};

static const struct route routes[] = {
    {"POST", "/submit", gpu_submit, AUTH_WRITE, SUBMIT_BODY_MAX},
    {"GET", "/" GPU_DIALECT "/jobs", gpu_state, AUTH_READ},
    {"GET", "/" GPU_DIALECT "/jobs/{ref}", gpu_state, AUTH_READ},
};

/* The home's own server answers the messages of libraries too, for jobs that use its socket. */
static void gpu_serve(struct gpu_dialect *d, struct request_server *requests)
{
    request_server_add(
        requests, &(struct service){.routes = routes, .n_routes = ARRAY_SIZE(routes), .self = d});
    request_server_add(requests, &(struct service){.routes = gpu_library_routes,
                                                   .n_routes = gpu_library_n_routes,
                                                   .self = d,
                                                   .fail = gpu_library_fail});
}

/* ---- the library port ---- */

/* Listens and notes the address that jobs are given. */
static int library_listen_at(struct gpu_dialect *d, const char *addr, int port, struct err *e)
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

/* The port of the last daemon of this home; 0 when there is none. */
static int library_kept_port(const char *path)
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

/* Random, so that several homes on one host seldom meet. */
static int library_new_port(void)
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

/* The port of the last daemon, or a new one that is written down for the next. */
static int library_listen_kept(struct gpu_dialect *d, struct err *e)
{
    AUTO_FREE char *path = path_join(d->env.home, "library-port");
    int port = library_kept_port(path);
    char text[16];

    /* Running jobs have this port in their environment. */
    if (port && library_listen_at(d, "127.0.0.1", port, e) == 0)
        return 0;
    if (port)
        log_warn("library", "%s; running jobs cannot report until their next start", e->text);
    if (library_listen_at(d, "127.0.0.1", library_new_port(), e) < 0)
        return -1;
    int n = snprintf(text, sizeof(text), "%s\n", strrchr(d->endpoint, ':') + 1);
    return file_write_atomic(path, text, (size_t)n, 0600, e);
}

static int library_listen(void *self, struct http_server *home, struct err *e)
{
    struct gpu_dialect *d = self;

    (void)home;
    d->port_requests = request_server_new(&(struct request_conf){.loop = d->env.loop,
                                                                 .store = d->env.store,
                                                                 .auth = d->env.auth,
                                                                 .names = d->env.public_names});
    request_server_add(d->port_requests, &(struct service){.routes = gpu_library_routes,
                                                           .n_routes = gpu_library_n_routes,
                                                           .self = d,
                                                           .identify = gpu_library_identify,
                                                           .fail = gpu_library_fail});
    d->library = http_server_new(d->env.loop, &http_limits_default,
                                 request_server_handler(d->port_requests));
    if (*d->library_addr ? library_listen_at(d, d->library_addr, d->library_port, e) < 0
                         : library_listen_kept(d, e) < 0)
        return err_wrap(e, "opening the library port");
    /* From now on new runs get this address in their environment. */
    core_set_endpoint(d->env.core, d->endpoint);
    return 0;
}

/* ---- life ---- */

/* Adds the routes; the port is opened later, by library_listen. */
static int gpu_open(const struct host_env *env, const void *conf, void **self, struct err *e)
{
    struct gpu_dialect *d = xcalloc(1, sizeof(*d));

    (void)e;
    d->env = *env;
    if (conf)
        gpu_serve_apply(conf, d);
    gpu_serve(d, env->requests);
    *self = d;
    return 0;
}

static void library_down(void *arg)
{
    ((struct gpu_dialect *)arg)->library_down = true;
}

/* First step of closing: no new requests; the second is gpu_free once gpu_busy says no. */
static void gpu_shut(void *self)
{
    struct gpu_dialect *d = self;

    if (d->closing)
        return;
    d->closing = true;
    if (d->port_requests)
        request_server_shut(d->port_requests);
    if (d->library)
        http_server_shutdown(d->library, SHUT_GRACE_MS, library_down, d);
    else
        d->library_down = true;
}

/* True while a connection or a request may still use d. */
static bool gpu_busy(const void *self)
{
    const struct gpu_dialect *d = self;

    return !d->library_down || (d->port_requests && request_server_busy(d->port_requests));
}

/* After gpu_busy has said no. */
static void gpu_free(void *self)
{
    struct gpu_dialect *d = self;

    if (d->library)
        http_server_free(d->library);
    request_server_free(d->port_requests);
    gpu_library_done(d);
    free(d->endpoint);
    free(d->torch_backend);
    free(d);
}

const struct host_part gpu_part = {
    .name = GPU_DIALECT,
    .open = gpu_open,
    .listen = library_listen,
    .launch = gpu_launch,
    .shut = gpu_shut,
    .busy = gpu_busy,
    .free = gpu_free,
};
