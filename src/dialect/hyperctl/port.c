/* port.c - the batch's port: which addresses, the token, listening
 *
 * The port is bound on what server.host resolves to, or on server.bind.  On loopback all
 * processes of the batch's user may ask, as jobs always could; on any other address a token must
 * stand in front of the path, and it travels to the jobs inside the portal they are given.
 */
#include "base/file.h"
#include "base/rand.h"
#include "base/util.h"
#include "dialect/hyperctl/run.h"
#include "io/http_server.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/stat.h>

enum { TOKEN_HEX = 32, CLOSE_GRACE_MS = 1000, ADDRESSES_MAX = 8 };

/* A numeric address to bind. */
struct address {
    char text[INET6_ADDRSTRLEN];
    bool loopback;
};

static bool address_is_loopback(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr);
}

/* At most ADDRESSES_MAX addresses of the name; 0 when it cannot be resolved. */
static size_t address_resolve(const char *name, struct address out[ADDRESSES_MAX])
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    size_t n = 0;

    if (getaddrinfo(name, NULL, &hints, &list) != 0)
        return 0;
    for (struct addrinfo *a = list; a && n < ADDRESSES_MAX; a = a->ai_next) {
        if (a->ai_family != AF_INET && a->ai_family != AF_INET6)
            continue;
        if (getnameinfo(a->ai_addr, a->ai_addrlen, out[n].text, sizeof(out[n].text), NULL, 0,
                        NI_NUMERICHOST) != 0)
            continue;
        out[n++].loopback = address_is_loopback(a->ai_addr);
    }
    freeaddrinfo(list);
    return n;
}

/* server.host is what jobs are told; server.bind is where the port listens when that differs. */
static const char *bind_name(const struct hyper_batch *b)
{
    return b->bind && *b->bind ? b->bind : b->host;
}

static int find_addresses(const struct hyper_batch *b, struct address out[ADDRESSES_MAX],
                          size_t *out_n, struct err *e)
{
    *out_n = address_resolve(bind_name(b), out);
    if (*out_n)
        return 0;
    return err_set(e, ERR_INVALID,
                   "server.%s '%.80s' cannot be resolved; write an address of this machine",
                   b->bind ? "bind" : "host", bind_name(b));
}

/* Kept over re-runs, so that portals in old scripts stay valid. */
static int load_token(struct hyper_port *p, const struct hyper_layout *l, struct err *e)
{
    AUTO_FREE char *path = hyper_layout_own(l, "token"), *text = NULL;
    uint8_t raw[TOKEN_HEX];
    size_t n;

    if (file_read_all(path, 1024, &text, &n, e) == 0 && n == TOKEN_HEX &&
        strspn(text, "0123456789abcdef") == TOKEN_HEX) {
        p->token = TAKE(text);
        return 0;
    }
    random_bytes(raw, sizeof(raw));
    p->token = xcalloc(1, TOKEN_HEX + 1);
    for (size_t i = 0; i < TOKEN_HEX; i++)
        p->token[i] = "0123456789abcdef"[raw[i] & 15];
    return file_write_atomic(path, p->token, TOKEN_HEX, 0600, e);
}

int hyper_port_prepare(struct hyper_port *p, const struct hyper_batch *b,
                       const struct hyper_layout *l, struct err *e)
{
    struct address list[ADDRESSES_MAX];
    size_t n;

    if (find_addresses(b, list, &n, e) < 0)
        return -1;
    /* Only when all addresses are loopback ones nobody from outside can connect. */
    p->loopback = true;
    for (size_t i = 0; i < n; i++)
        p->loopback = p->loopback && list[i].loopback;
    return p->loopback ? 0 : load_token(p, l, e);
}

/* Names the key of the batch file that helps. */
static int listen_error(const struct hyper_batch *b, const struct address *a, struct err *e)
{
    if (e->sys == EADDRINUSE)
        return err_set(
            e, ERR_CONFLICT,
            "Address already in use: port %d of %.60s; set server.port in the batch file", b->port,
            a->text);
    if (e->sys == EADDRNOTAVAIL)
        return err_set(e, ERR_INVALID,
                       "server.host '%.80s' is not an address of this machine; set server.bind to "
                       "one that is",
                       b->host);
    return -1;
}

int hyper_port_listen(struct hyper_port *p, const struct hyper_batch *b,
                      const struct hyper_layout *l, struct err *e)
{
    AUTO_FREE char *sock = hyper_layout_own(l, "sock");
    struct address list[ADDRESSES_MAX];
    size_t n, bound = 0;

    if (find_addresses(b, list, &n, e) < 0)
        return -1;
    p->port = b->port;
    for (size_t i = 0; i < n; i++) {
        if (http_server_listen_tcp(p->http, list[i].text, p->port, NULL, NULL, &p->port, e) == 0)
            bound++;
        else if (e->sys == EADDRINUSE || i + 1 == n + bound) /* one family may be missing */
            return listen_error(b, &list[i], e);
    }
    if (!bound)
        return listen_error(b, &list[0], e);
    unlink(sock); /* the batch is locked by us, so whoever made this one is gone */
    if (http_server_listen_unix(p->http, sock, 0600, e) < 0)
        return -1;
    p->portal = hyper_portal(b->host, p->port, NULL);
    p->job_portal = hyper_portal(b->host, p->port, p->token);
    return 0;
}

static void port_on_down(void *arg)
{
    *(bool *)arg = true;
}

/* Runs the loop until all connections are closed; p may be only half open. */
void hyper_port_close(struct hyper_port *p, struct loop *loop, const struct hyper_layout *l)
{
    AUTO_FREE char *sock = hyper_layout_own(l, "sock");
    bool down = false;

    if (p->http) {
        if (p->portal)
            unlink(sock);
        http_server_shutdown(p->http, CLOSE_GRACE_MS, port_on_down, &down);
        while (!down)
            loop_run_once(loop, true);
        http_server_free(p->http);
    }
    free(p->portal);
    free(p->job_portal);
    free(p->token);
}
