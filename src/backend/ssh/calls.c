/* calls.c - see calls.h
 *
 * A call reads from its descriptor while fewer than WINDOW bytes are on their way unacknowledged,
 * and acknowledges what its descriptor took.  The end of the descriptor ends the call; the end told
 * by the other side is carried out when everything that came before was written.
 */
#include "backend/ssh/calls.h"
#include "base/util.h"
#include "io/loop.h"
#include <errno.h>
#include <sys/socket.h>

enum { WINDOW = 256 << 10 };

/* One connection that is carried.  It owns fd, which is a non-blocking socket. */
struct call {
    struct calls *all;
    uint64_t number;
    int fd;
    struct watch *watch;
    struct buf out; /* for the descriptor */
    size_t unacked; /* sent to the other side */
    bool ending;    /* nothing more will come from there */
};

static void forwarded_call_free(struct call *k)
{
    map_u64_del(&k->all->open, k->number);
    watch_free(k->watch);
    close(k->fd);
    buf_done(&k->out);
    free(k);
}

static void calls_put(struct calls *c, enum wire_type type, uint64_t number, int64_t value)
{
    wire_put_op(c->out, type, &(struct wire_op){.key.job = number, .value = value});
}

static void watch_again(struct call *k)
{
    int events =
        (k->unacked < WINDOW && !k->ending ? WATCH_READ : 0) | (k->out.n ? WATCH_WRITE : 0);

    if (events)
        watch_start(k->watch, events);
    else
        watch_stop(k->watch);
}

/* False when the call is over. */
static bool call_write(struct call *k)
{
    size_t took = 0;

    while (took < k->out.n) {
        ssize_t n = send(k->fd, k->out.p + took, k->out.n - took, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            k->ending = true;
        if (n < 0)
            break;
        took += (size_t)n;
    }
    if (k->ending && took < k->out.n && errno != EAGAIN)
        buf_reset(&k->out); /* nobody reads it */
    else
        buf_consume(&k->out, took);
    if (took)
        calls_put(k->all, WIRE_CALL_ACK, k->number, (int64_t)took);
    return !(k->ending && k->out.n == 0);
}

/* False when the call is over.  Reads at most what is left of the window. */
static bool call_read(struct call *k)
{
    struct calls *c = k->all;
    static char text[WIRE_PIECE];
    ssize_t n = recv(k->fd, text, MIN(sizeof(text), WINDOW - k->unacked), 0);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0)
        return false;
    k->unacked += (size_t)n;
    return wire_put_op_text(c->out, WIRE_CALL_BYTES, &(struct wire_op){.key = {k->number, 1, 0}},
                            (struct str){text, (size_t)n});
}

/* For an end on this side: the other end is told, then k is freed. */
static void hang_up(struct call *k)
{
    calls_put(k->all, WIRE_CALL_END, k->number, 0);
    forwarded_call_free(k);
}

static void call_on_poll(void *arg, int events, int error)
{
    struct call *k = arg;
    struct calls *c = k->all;

    if (error || ((events & WATCH_READ) && !call_read(k)) ||
        ((events & WATCH_WRITE) && !call_write(k)))
        hang_up(k);
    else
        watch_again(k);
    c->send(c->arg);
}

/* ---- from outside ---- */

void calls_init(struct calls *c, struct loop *l, struct buf *out, void (*send)(void *), void *arg)
{
    *c = (struct calls){.loop = l, .out = out, .send = send, .arg = arg};
}

void calls_done(struct calls *c)
{
    size_t it = 0;
    void *val;

    while ((val = map_u64_each(&c->open, &it))) {
        forwarded_call_free(val);
        it = 0; /* the table changed */
    }
    map_u64_done(&c->open);
}

/* Takes fd also on failure. */
static bool calls_add(struct calls *c, uint64_t number, int fd)
{
    struct call *k = xcalloc(1, sizeof(*k));

    k->all = c;
    k->number = number;
    k->fd = fd;
    k->watch = watch_new(c->loop, fd, call_on_poll, k);
    buf_init(&k->out, 2 * WINDOW);
    if (!k->watch) {
        close(fd);
        free(k);
        return false;
    }
    map_u64_put(&c->open, number, k);
    watch_start(k->watch, WATCH_READ);
    return true;
}

bool calls_make_take(struct calls *c, int fd)
{
    uint64_t number = c->last + 1;

    if (c->open.n >= CALLS_MAX) {
        close(fd);
        return false;
    }
    if (!calls_add(c, number, fd))
        return false;
    c->last = number;
    calls_put(c, WIRE_CALL, number, 0);
    c->send(c->arg);
    return true;
}

void calls_refuse(struct calls *c, uint64_t number)
{
    calls_put(c, WIRE_CALL_END, number, 0);
    c->send(c->arg);
}

void calls_add_take(struct calls *c, uint64_t number, int fd)
{
    if (map_u64_get(&c->open, number) || c->open.n >= CALLS_MAX) {
        close(fd);
        calls_refuse(c, number);
    } else if (!calls_add(c, number, fd)) {
        calls_refuse(c, number);
    }
}

/* The buffer holds two windows, so a peer that honours the window never overflows it. */
static void call_on_bytes(struct call *k, struct str bytes)
{
    if (!buf_add(&k->out, bytes.p, bytes.n) || !call_write(k)) {
        hang_up(k); /* it sent more than its window, or nobody listens */
        return;
    }
    watch_again(k);
}

bool calls_take(struct calls *c, enum wire_type type, struct str body)
{
    struct wire_op op;
    struct str bytes = {"", 0};

    if (type == WIRE_CALL_BYTES ? !wire_get_op_text(body, &op, &bytes) : !wire_get_op(body, &op))
        return false;
    struct call *k = map_u64_get(&c->open, op.key.job);
    if (!k)
        return true; /* it has ended here meanwhile */
    if (type == WIRE_CALL_BYTES) {
        call_on_bytes(k, bytes);
    } else if (type == WIRE_CALL_ACK) {
        k->unacked -= MIN(k->unacked, (size_t)MAX(op.value, 0));
        watch_again(k);
    } else {
        k->ending = true;
        if (!call_write(k))
            forwarded_call_free(k);
        else
            watch_again(k);
    }
    c->send(c->arg);
    return true;
}
