/* http_client_unix.c - HTTP over a unix socket, in a few blocking calls
 *
 * Every command line call takes this way: socket, connect, one send, and receives until the answer
 * is whole.  Nothing else is loaded or set up.  A kept connection that the server closed meanwhile
 * is noticed before it is used again, so no request is ever sent twice.
 */
#include "base/util.h"
#include "io/http_client_priv.h"
#include "io/unix_addr.h"
#include <errno.h>
#include <string.h>

void http_unix_close(struct http_client *c)
{
    if (c->fd >= 0)
        close(TAKE_FD(c->fd));
}

static int client_connect(struct http_client *c, struct err *e)
{
    char byte;

    /* Anything to read on an idle connection can only be its end. */
    if (c->fd >= 0 && (recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN))
        http_unix_close(c);
    if (c->fd >= 0)
        return 0;
    c->fd = unix_connect(c->path, 0);
    if (c->fd >= 0)
        return 0;
    int sys = errno;
    err_set(e, ERR_UNAVAILABLE, "no server answers at %s (%s)", c->path, strerror(sys));
    if (e)
        e->sys = sys;
    return -1;
}

static void unix_on_header(void *arg, struct str name, struct str value)
{
    struct http_ask *a = arg;

    http_response_header(a->out, name, value);
}

static void unix_on_head(void *arg, int status)
{
    struct http_ask *a = arg;

    a->out->status = status;
    if (a->live_status)
        *a->live_status = status;
}

static bool on_piece(void *arg, struct str piece)
{
    struct http_ask *a = arg;

    return a->on_bytes(a->arg, piece);
}

int http_unix_call(struct http_client *c, struct http_ask *a, struct err *e)
{
    static const struct http_exchange_fns fns = {unix_on_header, unix_on_head, on_piece};

    if (client_connect(c, e) < 0)
        return -1;
    struct http_exchange *x = http_exchange_new(&a->request, &fns, a);
    int more = http_exchange_send(x, c->fd, e) < 0 ? -1 : 1;
    while (more == 1)
        more = http_exchange_receive(x, c->fd, 0, e);
    if (more < 0)
        err_wrap(e, "the server at %s", c->path);
    a->stopped = http_exchange_stopped(x);
    if (!http_exchange_reusable(x))
        http_unix_close(c);
    http_exchange_free(x);
    return more;
}
