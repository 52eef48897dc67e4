/* connect.c - the life of the connection to one host
 *
 * Idle → (programs read) → dialing → uploading, when they are not there → greeting → up → leaving →
 * idle.  The timer of the idle state is the back-off: a second, doubling to a minute, from the
 * start again after a connection that was good.  What cannot get better soon (a changed host key, a
 * wrong password) waits the longest at once.
 *
 * Leaving: ssh's stdin is closed and its last words are read until it has gone, so that the reason
 * is complete.  If it does not go, it is killed.
 */
#include "backend/ssh/ssh_priv.h"
#include "base/file.h"
#include "base/rand.h"
#include "base/util.h"
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>

enum {
    BACKOFF_MIN_MS = 1000,
    BACKOFF_MAX_MS = 60000,
    STEADY_MS = 10000,      /* a connection that lasted so long was a good one */
    HANDSHAKE_MS = 30000,   /* beyond the time-out of connecting: login, shell, first words */
    LEAVE_MS = 3000,        /* for ssh to go by itself */
    CLOSE_MS = 1000,        /* the same when we are closed */
    ALIVE_MS = 15000,       /* between two questions whether the other side is there */
    SILENCE_MS = 45000,     /* no answer for so long: it is not */
    READ_BYTES = 256 << 10, /* in one go, and then others have their turn */
    SAID_MAX = 16 << 10,
    OUT_MAX_BYTES = 256 << 20,
    FRAMES_MAX = 100, /* in one go: a thousand ends at once are a quarter of a second of work */
};

static void connect_dial(void *arg);

/* ---- leaving ---- */

/* Starts the timer for the next attempt and doubles the delay for the one after it. */
static void back_off(struct backend *b)
{
    if (b->link.trouble.lasting)
        b->link.backoff_ms = BACKOFF_MAX_MS;
    b->link.backoff_ms = MIN(MAX(b->link.backoff_ms, BACKOFF_MIN_MS), BACKOFF_MAX_MS);
    timer_start(b->link.timer, b->link.backoff_ms, 0);
    b->link.again_ms = loop_mono_ms(b->loop) + b->link.backoff_ms;
    b->link.backoff_ms *= 2;
}

/* ssh has exited.  The reason that we gave for leaving stands, unless ssh names one that lasts. */
static void gone(struct backend *b, int status)
{
    struct trouble said;

    trouble_of(&b->conf, buf_str(&b->link.said), status, &said);
    if (!b->link.trouble.text[0] || said.lasting)
        b->link.trouble = said;
    child_close(b);
    buf_reset(&b->link.in);
    buf_reset(&b->link.out);
    buf_reset(&b->link.said);
    b->link.out_sent = 0;
    b->link.state = SSH_IDLE;
    back_off(b);
    ssh_on_away(b);
}

static void read_said(struct backend *b)
{
    char text[4096];
    ssize_t n;

    while ((n = read(b->link.child.errs, text, sizeof(text))) > 0) {
        if (b->link.said.n + (size_t)n > SAID_MAX) /* the latest words tell */
            buf_consume(&b->link.said, MIN(b->link.said.n, (size_t)n));
        buf_add(&b->link.said, text, (size_t)n);
    }
    if (n == 0)
        watch_stop(b->link.child.errs_watch);
}

/* The pidfd is readable once the process has ended; stderr is then read to its end first. */
static void on_ssh_exit(void *arg, int events UNUSED, int error UNUSED)
{
    struct backend *b = arg;
    int status = 0;

    if (waitpid(b->link.child.pid, &status, WNOHANG) == 0)
        return;
    b->link.child.pid = 0;
    read_said(b);
    if (b->link.state != SSH_LEAVING)
        connect_drop(b, false, "%s", "");
    gone(b, status);
}

void connect_drop(struct backend *b, bool lasting, const char *fmt, ...)
{
    if (b->link.state == SSH_LEAVING || b->link.state == SSH_IDLE)
        return;
    b->link.trouble = (struct trouble){.lasting = lasting};
    FORMAT_ARGS(b->link.trouble.text, fmt);
    if (b->link.state == SSH_UP && loop_mono_ms(b->loop) - b->link.up_since_ms > STEADY_MS)
        b->link.backoff_ms = 0;
    b->link.state = SSH_LEAVING;
    assets_abort(b);
    calls_done(&b->calls);
    timer_stop(b->link.more_timer);
    timer_stop(b->link.alive_timer);
    watch_free(TAKE(b->link.child.in_watch));
    if (b->link.child.in >= 0)
        close(TAKE_FD(b->link.child.in));
    watch_stop(b->link.child.out_watch);
    timer_start(b->link.timer, LEAVE_MS, 0);
}

/* ---- speaking ---- */

static void on_writable(void *arg, int events UNUSED, int error UNUSED)
{
    struct backend *b = arg;

    connect_send(b);
    if (b->link.state == SSH_UPLOADING)
        bootstrap_feed(b);
    else if (b->link.state == SSH_UP)
        assets_more(b);
}

void connect_send(struct backend *b)
{
    if (b->link.taking)
        return;
    while (b->link.child.in >= 0 && b->link.out_sent < b->link.out.n) {
        ssize_t n = write(b->link.child.in, b->link.out.p + b->link.out_sent,
                          b->link.out.n - b->link.out_sent);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            if (errno == EAGAIN)
                watch_start(b->link.child.in_watch, WATCH_WRITE);
            return; /* broken: the exit of ssh will tell */
        }
        b->link.out_sent += (size_t)n;
    }
    buf_reset(&b->link.out);
    b->link.out_sent = 0;
    if (!b->link.child.in_watch)
        return;
    /* Whoever waits for room is woken, even when the pipe never was full. */
    if (bootstrap_waits(b) || (b->link.state == SSH_UP && assets_wait(b)))
        watch_start(b->link.child.in_watch, WATCH_WRITE);
    else
        watch_stop(b->link.child.in_watch);
}

/* True when more complete frames may be left.  Also stops when a frame ended the connection. */
static bool take_some(struct backend *b)
{
    struct str rest = buf_str(&b->link.in);
    struct frame_head head;
    struct str body;
    int got = 1, n = 0;

    while (n++ < FRAMES_MAX && (got = wire_next(rest, &head, &body)) == 1) {
        if (!facts_take(b, &head, body)) {
            got = -1;
            break;
        }
        rest.p += head.n;
        rest.n -= head.n;
        if (b->link.state != SSH_UP && b->link.state != SSH_GREETING)
            return false;
    }
    buf_consume(&b->link.in, b->link.in.n - rest.n);
    if (got < 0)
        connect_drop(b, true, "%s", "berth-far sent a malformed message");
    return got == 1;
}

/* What is left waits for the next turn, and nothing more is read meanwhile. */
static void take_frames(void *arg)
{
    struct backend *b = arg;

    b->link.taking = true;
    bool more = take_some(b);
    b->link.taking = false;
    connect_send(b);
    if (b->link.state != SSH_UP && b->link.state != SSH_GREETING)
        return;
    if (more) {
        watch_stop(b->link.child.out_watch);
        timer_start(b->link.more_timer, 0, 0);
    } else {
        watch_start(b->link.child.out_watch, WATCH_READ);
    }
}

/* One read per call, so that a busy node does not keep the loop from other work. */
static void on_readable(void *arg, int events UNUSED, int error UNUSED)
{
    struct backend *b = arg;
    char *to = buf_reserve(&b->link.in, READ_BYTES);
    ssize_t n = to ? read(b->link.child.out, to, READ_BYTES) : 0;

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        connect_drop(b, false, "%s", "");
        return;
    }
    b->link.heard_ms = loop_mono_ms(b->loop);
    b->link.in.n += (size_t)n;
    b->link.in.p[b->link.in.n] = 0;
    if (!bootstrap_read(b))
        return;
    if (b->link.state == SSH_GREETING || b->link.state == SSH_UP)
        take_frames(b);
}

static void on_said(void *arg, int events UNUSED, int error UNUSED)
{
    read_said(arg);
}

/* Both the handshake and an open connection: whoever is silent for too long is given up. */
static void on_alive(void *arg)
{
    struct backend *b = arg;
    int64_t silent = loop_mono_ms(b->loop) - b->link.heard_ms;
    AUTO_FREE char *where = ssh_conf_where(&b->conf);

    if (b->link.state != SSH_UP) {
        if (silent > HANDSHAKE_MS + b->conf.connect_timeout_s * 1000) {
            connect_drop(b, false, "%.100s does not answer (time-out)", where);
            child_kill(b);
        }
        return;
    }
    if (silent > SILENCE_MS) {
        connect_drop(b, false, "%.100s has not answered for %lld s", where,
                     (long long)silent / 1000);
        child_kill(b);
        return;
    }
    wire_put_op(&b->link.out, WIRE_PING, &(struct wire_op){0});
    connect_send(b);
}

/* ---- dialing ---- */

static void watch_child(struct backend *b)
{
    struct ssh_child *c = &b->link.child;

    c->in_watch = watch_new(b->loop, c->in, on_writable, b);
    c->out_watch = watch_new(b->loop, c->out, on_readable, b);
    c->errs_watch = watch_new(b->loop, c->errs, on_said, b);
    c->exit_watch = watch_new(b->loop, c->pidfd, on_ssh_exit, b);
    watch_start(c->out_watch, WATCH_READ);
    watch_start(c->errs_watch, WATCH_READ);
    watch_start(c->exit_watch, WATCH_READ);
}

/* ssh could not even be started: no program, no descriptors.  It counts as lasting. */
static void not_possible(struct backend *b, const struct err *e)
{
    b->link.trouble = (struct trouble){.lasting = true};
    snprintf(b->link.trouble.text, sizeof(b->link.trouble.text), "%.159s", e->text);
    b->link.state = SSH_IDLE;
    back_off(b);
    ssh_on_away(b);
}

/* On the loop, after the worker has read the programs.  The state differs from SSH_PREPARING
 * when the connection was given up meanwhile. */
static void on_programs(void *arg)
{
    struct backend *b = arg;
    struct err e = b->link.programs->e;
    AUTO_FREE char *script = e.code ? NULL : bootstrap_script(b);

    if (b->link.state != SSH_PREPARING)
        return;
    if (e.code || child_start(b, script, &e) < 0) {
        not_possible(b, &e);
        return;
    }
    b->link.state = SSH_DIALING;
    b->link.trouble = (struct trouble){0};
    b->link.heard_ms = loop_mono_ms(b->loop);
    watch_child(b);
    timer_start(b->link.alive_timer, ALIVE_MS, ALIVE_MS);
}

static void connect_dial(void *arg)
{
    struct backend *b = arg;

    if (b->link.state == SSH_LEAVING) { /* it was asked to go and did not */
        child_kill(b);
        return;
    }
    if (b->link.state != SSH_IDLE)
        return;
    b->link.state = SSH_PREPARING;
    programs_load(b, on_programs);
}

/* Only for a node that was reachable before: a new run is no reason to shorten the back-off of a
 * host that has never answered or that refuses the login. */
void connect_now(struct backend *b)
{
    if (b->link.state == SSH_IDLE && b->link.was_up && !b->link.trouble.lasting)
        timer_start(b->link.timer, 0, 0);
}

/* ---- opening and closing ---- */

/* A name for this home that no other has: its runs on other hosts belong to it. */
static int read_controller(struct backend *b, struct err *e)
{
    AUTO_FREE char *path = path_join(b->home, "controller"), *text = NULL;
    uint8_t bytes[10];
    char fresh[2 * sizeof(bytes) + 2];
    size_t n, at = 0;

    if (file_read_all(path, 64, &text, &n, NULL) < 0 || n < 8) {
        random_bytes(bytes, sizeof(bytes));
        for (size_t i = 0; i < sizeof(bytes); i++)
            at += (size_t)snprintf(fresh + at, sizeof(fresh) - at, "%02x", bytes[i]);
        fresh[at++] = '\n';
        if (file_write_atomic(path, fresh, at, 0600, e) < 0)
            return -1;
        free(text);
        text = xstrndup(fresh, at);
        n = at;
    }
    struct str id = str_trim((struct str){text, n});
    at = (size_t)snprintf(b->controller, sizeof(b->controller), "%.*s-", (int)MIN(id.n, 24), id.p);
    for (const char *p = b->conf.name; *p && at < sizeof(b->controller) - 1; p++)
        b->controller[at++] =
            (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ? *p
                                                                                             : '_';
    b->controller[at] = 0;
    return 0;
}

static void connect_send_calls(void *arg)
{
    connect_send(arg);
}

int connect_open(struct backend *b, struct err *e)
{
    calls_init(&b->calls, b->loop, &b->link.out, connect_send_calls, b);
    buf_init(&b->link.in, WIRE_FRAME_MAX + READ_BYTES + 1);
    buf_init(&b->link.out, OUT_MAX_BYTES);
    buf_init(&b->link.said, SAID_MAX + 1);
    if (read_controller(b, e) < 0)
        return -1;
    b->link.timer = timer_new(b->loop, connect_dial, b);
    b->link.alive_timer = timer_new(b->loop, on_alive, b);
    b->link.more_timer = timer_new(b->loop, take_frames, b);
    timer_start(b->link.timer, 0, 0);
    return 0;
}

/* What was said last, such as that outcomes are settled, should arrive. */
static void connect_wait_for_end(struct backend *b)
{
    struct pollfd p = {.fd = b->link.child.pidfd, .events = POLLIN};

    if (b->link.child.pid <= 0)
        return;
    connect_send(b);
    watch_free(TAKE(b->link.child.in_watch));
    if (b->link.child.in >= 0)
        close(TAKE_FD(b->link.child.in));
    if (b->link.state != SSH_UP || poll(&p, 1, CLOSE_MS) <= 0)
        child_kill(b);
    waitpid(b->link.child.pid, NULL, 0);
}

void connect_close(struct backend *b)
{
    programs_drop(b);
    assets_abort(b);
    calls_done(&b->calls);
    connect_wait_for_end(b);
    child_close(b);
    timer_free(b->link.timer);
    timer_free(b->link.alive_timer);
    timer_free(b->link.more_timer);
    buf_done(&b->link.in);
    buf_done(&b->link.out);
    buf_done(&b->link.said);
}
