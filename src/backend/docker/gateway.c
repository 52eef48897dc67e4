/* gateway.c - a way from the network of a container to a port of the host's loopback
 *
 * The training library speaks TCP to an address it is given, and the daemon listens on loopback
 * alone.  Inside a container loopback is the container itself; so the process of the run listens on
 * the host's address in that network, where only its containers come from, and carries every
 * connection on.  It does so from a thread, since its main part may be busy with the engine.
 */
#include "backend/docker/docker_priv.h"
#include "base/util.h"
#include "base/vec.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>

/* Connections at once, bytes per direction, and pending connections of the listener. */
enum { WAYS_MAX = 256, PIECE = 16 << 10, BACKLOG = 64 };

struct side { /* bytes on their way from one socket to the other */
    char bytes[PIECE];
    size_t from, to;
    bool ended, told; /* no more will come; and the other side knows */
};
struct way {
    int fd[2];
    struct side side[2]; /* side[i] came from fd[i] */
};
struct gateway {
    int listener, to;
    VEC(struct way *) ways;
};

bool gateway_address(const struct json *network, char out[64])
{
    const struct json *list = json_get(json_get(network, "IPAM"), "Config");

    for (size_t i = 0; i < json_len(list); i++) {
        const struct json *gateway = json_get(json_at(list, i), "Gateway"),
                          *subnet = json_get(json_at(list, i), "Subnet");
        struct in_addr a;
        struct str bits, net;

        if (json_type(gateway) == JSON_STR) {
            snprintf(out, 64, STR_FMT, STR_ARG(json_str(gateway)));
            if (inet_pton(AF_INET, out, &a) == 1)
                return true;
        }
        if (json_type(subnet) != JSON_STR)
            continue;
        net = str_cut(json_str(subnet), '/', &bits); /* without one said, it is the first */
        snprintf(out, 64, STR_FMT, STR_ARG(net));
        if (inet_pton(AF_INET, out, &a) != 1)
            continue;
        a.s_addr = htonl(ntohl(a.s_addr) + 1);
        return inet_ntop(AF_INET, &a, out, 64) != NULL;
    }
    return false;
}

static void way_free(struct way *w)
{
    close(w->fd[0]);
    if (w->fd[1] >= 0)
        close(w->fd[1]);
    free(w);
}

/* Connecting blocks, but only to loopback, which answers or refuses at once. */
static void accept_one(struct gateway *g)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)g->to),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    AUTO_FD from = accept4(g->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    AUTO_FD to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (from < 0 || to < 0 || g->ways.n == WAYS_MAX ||
        connect(to, (struct sockaddr *)&at, sizeof(at)) < 0)
        return; /* the daemon is away: the library tries again */
    struct way *w = xcalloc(1, sizeof(*w));
    w->fd[0] = TAKE_FD(from);
    w->fd[1] = TAKE_FD(to);
    vec_push(&g->ways, w);
}

/* One step from fd[i] to the other; false when the way is broken. */
static bool carry(struct way *w, int i)
{
    struct side *s = &w->side[i];

    if (!s->ended && s->from == s->to) {
        ssize_t n = recv(w->fd[i], s->bytes, PIECE, MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        s->ended = n == 0;
        s->from = 0;
        s->to = n > 0 ? (size_t)n : 0;
    }
    if (s->from < s->to) {
        ssize_t n =
            send(w->fd[!i], s->bytes + s->from, s->to - s->from, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        s->from += n > 0 ? (size_t)n : 0;
    }
    if (s->ended && s->from == s->to && !s->told) {
        shutdown(w->fd[!i], SHUT_WR);
        s->told = true;
    }
    return true;
}

/* 0 = nothing to wait for on this socket now. */
static short wants(const struct way *w, int i)
{
    bool reads = !w->side[i].ended && w->side[i].from == w->side[i].to;
    bool writes = w->side[!i].from < w->side[!i].to;

    return (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
}

static void gateway_turn(struct gateway *g)
{
    struct pollfd fds[1 + 2 * WAYS_MAX];
    size_t n = g->ways.n;

    fds[0] = (struct pollfd){.fd = g->listener, .events = POLLIN};
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) {
            short events = wants(g->ways.p[i], k); /* nothing wanted: do not wake for its end */
            fds[1 + 2 * i + (size_t)k] =
                (struct pollfd){.fd = events ? g->ways.p[i]->fd[k] : -1, .events = events};
        }
    if (poll(fds, 1 + 2 * n, -1) < 0)
        return;
    for (size_t i = n; i-- > 0;) {
        struct way *w = g->ways.p[i];
        bool ok = carry(w, 0) && carry(w, 1);
        if (ok && !(w->side[0].told && w->side[1].told))
            continue;
        way_free(w);
        vec_remove(&g->ways, i);
    }
    if (fds[0].revents)
        accept_one(g);
}

/* Never returns: it ends with the process. */
static void *gateway_thread(void *arg)
{
    for (;;)
        gateway_turn(arg);
    return NULL;
}

static int listen_on(const char *addr, int *out_port, struct err *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof(at);
    int yes = 1;
    AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (inet_pton(AF_INET, addr, &at.sin_addr) != 1)
        return err_set(e, ERR_INVALID, "'%.60s' is not an address", addr);
    /* The bridge of a network need not be there before its first container. */
    if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &yes, sizeof(yes)) < 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) < 0)
        return err_sys(e, "cannot listen on %s", addr);
    *out_port = ntohs(at.sin_port);
    return TAKE_FD(fd);
}

int gateway_open(const char *addr, int to, int *out_port, struct err *e)
{
    struct gateway *g;
    pthread_t thread;
    int fd = listen_on(addr, out_port, e);

    if (fd < 0)
        return -1;
    g = xcalloc(1, sizeof(*g));
    g->listener = fd;
    g->to = to;
    if (pthread_create(&thread, NULL, gateway_thread, g) != 0) {
        close(fd);
        free(g);
        return err_set(e, ERR_INTERNAL, "cannot start a thread");
    }
    pthread_detach(thread);
    return 0;
}
