/* join.c - an atlas-server that joins another one: REDIS_HOST and REDIS_PORT
 *
 * With the original, schedulers that name the same Redis share one queue, and each hands requests
 * about a job to the one that has it.  Here the variables name the scheduler port of another
 * atlas-server: this one then has no queue and runs nothing; its scheduler, tracker, dashboard and
 * API ports lead there, byte for byte, so that users may talk to either.
 *
 * To the other server every request comes from us.  So whoever calls from this host must be who
 * may call a server of ours: the same user, or root.
 */
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "dialect/atlas/home.h"
#include "dialect/atlas/server.h"
#include "host/home.h"
#include "io/forward.h"
#include "io/http_client.h"
#include "io/http_server.h"
#include "io/loop.h"
#include "request/auth.h"
#include <stdio.h>

enum { DOORS = 4, GRACE_MS = 1000 };

/* A server that joined another one.  A door is NULL when its port equals that of an earlier door.
 */
struct joined {
    struct loop *loop;
    struct forward *doors[DOORS];
    struct http_server *control; /* the socket of the home: for stop */
    int lock;
    char name[120];
};

/* ---- which one ---- */

/* Without REDIS_HOST the server has its own queue: out->port stays 0. */
int atlas_join_read(struct atlas_join *out, struct err *e)
{
    const char *host = getenv("REDIS_HOST"), *port = getenv("REDIS_PORT");
    int64_t n = ATLAS_SCHEDULER_PORT;

    *out = (struct atlas_join){0};
    if (!host || !*host)
        return 0;
    if (port && *port && (!str_to_i64(str_of(port), &n) || n < 1 || n > 65535))
        return err_set(e, ERR_INVALID, "REDIS_PORT '%.40s' is not a port from 1 to 65535", port);
    if (atlas_address("REDIS_HOST", host, out->addr, sizeof(out->addr), e) < 0)
        return -1;
    out->port = (int)n;
    snprintf(out->name, sizeof(out->name), "%.100s:%d", host, out->port);
    return 0;
}

/* Is it one of ours? */
static int join_probe(const struct atlas_join *j, struct err *e)
{
    bool v6 = strchr(j->addr, ':') != NULL;
    AUTO_FREE char *target =
        xasprintf("http://%s%s%s:%d", v6 ? "[" : "", j->addr, v6 ? "]" : "", j->port);
    struct http_client *c = http_client_new(target, NULL, NULL);
    struct http_response r = {0};
    struct err why = {0};
    int rc = http_call(c, "GET", "/", NULL, STR(""), &r, &why);
    bool ours = rc == 0 && r.status == 200 &&
                str_starts(buf_str(&r.body), STR("Foundations Atlas scheduler"));

    http_response_done(&r);
    http_client_free(c);
    if (ours)
        return 0;
    return err_set(e, ERR_UNAVAILABLE,
                   "REDIS_HOST must name the scheduler port of another atlas-server, and %s is "
                   "none (%.60s); unset REDIS_HOST to run a queue here",
                   j->name, rc < 0 ? why.text : "another answer");
}

/* ---- who ---- */

/* Only the user of this server, or root, may use the other server through it. */
static bool admit(void *arg, int fd)
{
    struct http_peer peer;
    uint32_t uid;

    (void)arg;
    if (!http_peer_of(fd, &peer))
        return false;
    if (!peer.local || (auth_peer_owner(&peer, &uid) && (uid == 0 || uid == geteuid())))
        return true;
    log_warn("atlas", "refused a connection of another user of this host");
    return false;
}

/* The socket of the home answers `atlas-server stop`, and nothing else. */
static void on_request(void *self, struct http_req *r)
{
    struct joined *x = self;
    const struct http_peer *peer = http_peer(r);
    struct err e = {0};

    if (str_eq_c(http_method(r), "POST") && str_eq_c(http_path(r), "/v1/shutdown") &&
        (peer->uid == 0 || peer->uid == geteuid())) {
        http_reply(r, 202, "application/json", STR("{}\n"));
        loop_stop(x->loop);
        return;
    }
    err_set(&e, ERR_UNAVAILABLE,
            "this server has joined the Atlas server at %s; send the request to that server",
            x->name);
    http_reply_err(r, &e);
}

/* ---- life ---- */

/* Ports that are equal are opened once. */
static int open_doors(struct joined *x, const struct atlas_opts *o, const struct atlas_join *j,
                      struct err *e)
{
    const int ports[DOORS] = {o->conf.scheduler_port, o->conf.dashboard_port, o->conf.tracker_port,
                              o->conf.api_port};

    for (size_t i = 0; i < DOORS; i++) {
        bool again = false;
        for (size_t k = 0; k < i; k++)
            again |= ports[k] == ports[i];
        if (again)
            continue;
        if (forward_hold(&x->doors[i], x->loop, o->conf.addr, ports[i], e) < 0 ||
            forward_lead(x->doors[i], j->addr, admit, x, e) < 0 ||
            forward_open(x->doors[i], j->port, e) < 0)
            return -1;
    }
    return 0;
}

/* The lock of the home is taken, so that no second server starts on it. */
int atlas_join_open(struct joined **out, struct loop *l, const struct atlas_opts *o,
                    const struct atlas_join *j, const char *database, struct err *e)
{
    if (o->conf.authenticate)
        return err_set(
            e, ERR_INVALID,
            "-p has no effect on a server that joins another; start the server at %s with -p",
            j->name);
    struct joined *x = xcalloc(1, sizeof(*x));
    AUTO_FREE char *sock = path_join(database, "sock");

    x->loop = l;
    x->lock = -1;
    snprintf(x->name, sizeof(x->name), "%s", j->name);
    x->control = http_server_new(l, &http_limits_default,
                                 (struct http_handler){.request = on_request, .self = x});
    if (join_probe(j, e) < 0 || home_lock(database, &x->lock, e) < 0 ||
        http_server_listen_unix(x->control, sock, 0600, e) < 0 || open_doors(x, o, j, e) < 0) {
        atlas_join_close(x);
        return -1;
    }
    *out = x;
    return 0;
}

static void join_on_down(void *arg)
{
    loop_stop(((struct joined *)arg)->loop);
}

/* Open connections get a second to end. */
void atlas_join_close(struct joined *x)
{
    http_server_shutdown(x->control, GRACE_MS, join_on_down, x);
    loop_run(x->loop);
    http_server_free(x->control);
    for (size_t i = 0; i < DOORS; i++)
        forward_free(x->doors[i]);
    if (x->lock >= 0)
        close(x->lock);
    free(x);
}
