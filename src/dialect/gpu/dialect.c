/* dialect.c - the GPU scheduler's interface put together: its routes, its library port
 *
 * Owns: the address of the library port.
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
    SUBMIT_BODY_MAX = 4 << 20,
};

static const struct route routes[] = {
    {"POST", "/submit", gpu_submit, AUTH_WRITE, SUBMIT_BODY_MAX},
    {"GET", "/" GPU_DIALECT "/jobs", gpu_state, AUTH_READ},
    {"GET", "/" GPU_DIALECT "/jobs/{ref}", gpu_state, AUTH_READ},
};

void gpu_dialect_serve(struct gpu_dialect *d, struct request_server *requests)
{
    d->requests = requests;
    request_server_add(
        requests, &(struct service){.routes = routes, .n_routes = ARRAY_SIZE(routes), .self = d});
    request_server_add(requests, &(struct service){.routes = gpu_library_routes,
                                                   .n_routes = gpu_library_n_routes,
                                                   .self = d,
                                                   .fail = gpu_library_fail});
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
    d->port_requests = request_server_new(&(struct request_conf){
        .loop = d->conf.loop, .store = d->conf.store, .auth = request_server_auth(d->requests)});
    request_server_add(d->port_requests, &(struct service){.routes = gpu_library_routes,
                                                           .n_routes = gpu_library_n_routes,
                                                           .self = d,
                                                           .identify = gpu_library_identify,
                                                           .fail = gpu_library_fail});
    d->library = http_server_new(d->conf.loop, &http_limits_default,
                                 request_server_handler(d->port_requests));
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
    if (d->port_requests)
        request_server_shut(d->port_requests);
    if (d->library)
        http_server_shutdown(d->library, SHUT_GRACE_MS, on_library_down, d);
    else
        d->library_down = true;
}

bool gpu_dialect_busy(const struct gpu_dialect *d)
{
    return !d->library_down || (d->port_requests && request_server_busy(d->port_requests));
}

void gpu_dialect_free(struct gpu_dialect *d)
{
    if (!d)
        return;
    if (d->library)
        http_server_free(d->library);
    request_server_free(d->port_requests);
    doors_free(d->doors);
    gpu_library_done(d);
    free(d->endpoint);
    free((char *)d->conf.home);
    free((char *)d->conf.backend);
    free(d);
}
