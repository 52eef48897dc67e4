/* fuzz_http.c - arbitrary bytes, cut into arbitrary pieces, at the HTTP server
 *
 * The first byte seeds how the rest is cut and how the handler behaves (answer at once, later, as a
 * stream); the rest goes over a real socket pair.  Whatever the bytes are, the connection must end
 * with the client, each request must reach the handler at most once, and what comes back must be
 * whole replies.
 */
#include "base/log.h"
#include "base/util.h"
#include "io/http_server.h"
#include "io/loop.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct loop *loop;
static struct http_server *server;
static struct http_req *held; /* at most one per connection, and there is one connection */
static uint32_t dice;

static uint32_t roll(uint32_t below)
{
    dice = dice * 1664525u + 1013904223u;
    return (dice >> 16) % below;
}

static void on_gone(void *arg UNUSED, struct http_req *r)
{
    ASSERT(r == held);
    held = NULL;
}

static void answer(struct http_req *r)
{
    struct err e;

    switch (roll(5)) {
    case 0:
        http_reply(r, 200, "text/plain", http_path(r));
        break;
    case 1:
        err_set(&e, ERR_INVALID, STR_FMT, STR_ARG(http_query(r)));
        http_reply_err(r, &e);
        break;
    case 2: {
        size_t body_n;
        char *body = http_body_take(r, &body_n);
        http_reply_take(r, 200, "application/json", body, body_n);
        break;
    }
    case 3:
        if (!http_not_modified(r, "\"tag\""))
            http_reply(r, 204, NULL, STR(""));
        break;
    default:
        http_reply_fd_take(r, -1, "text/plain");
    }
}

static void on_request(void *self UNUSED, struct http_req *r)
{
    static const char *const names[] = {"host", "content-length", "range", "accept-encoding"};

    ASSERT(held == NULL);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct str v = http_header(r, names[i]);
        ASSERT(v.p == NULL || v.p[v.n] == '\0');
    }
    struct str path = http_path(r);
    ASSERT(path.n > 0 && strlen(path.p) == path.n && str_is_utf8(path));
    const char *p = http_param(r, "a");
    ASSERT(p == NULL || str_is_utf8(str_of(p)));
    ASSERT(http_body(r).n <= 4096);
    sse_resume_id(r);
    switch (roll(4)) {
    case 0:
        held = r;
        http_on_gone(r, on_gone, NULL);
        break;
    case 1:
        http_stream_begin(r, 200, "text/event-stream");
        http_stream_write(r, http_body(r));
        http_stream_write(r, path);
        http_stream_end(r);
        break;
    default:
        answer(r);
    }
}

static void setup(void)
{
    struct http_limits lim = http_limits_default;

    lim.head_bytes = 2048;
    lim.body_bytes = 4096;
    log_setup(LOG_ERROR_, false, 2);
    loop = loop_new();
    server = http_server_new(loop, &lim, (struct http_handler){.request = on_request});
}

/* Replies on the wire start with a status line we know; more is checked by the unit tests. */
static void drain(int fd, bool *seen)
{
    char block[64 * 1024];
    ssize_t n;

    while ((n = recv(fd, block, sizeof(block), MSG_DONTWAIT)) > 0) {
        ASSERT(*seen || (n >= 9 && memcmp(block, "HTTP/1.1 ", 9) == 0));
        *seen = true;
    }
}

static void turn(int fd, bool *seen)
{
    loop_run_once(loop, false);
    drain(fd, seen);
    if (held && roll(2) == 0) {
        struct http_req *r = held;
        held = NULL;
        answer(r);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    int pair[2];
    struct err e;
    bool seen = false;

    if (n == 0)
        return 0;
    if (!loop)
        setup();
    dice = data[0];
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    ASSERT(http_server_adopt_take(server, pair[1], &e) == 0);
    for (size_t at = 1; at < n;) {
        size_t piece = roll(3) == 0 ? 1 + roll(8) : 1 + roll(4096);
        ssize_t sent = send(pair[0], data + at, MIN(piece, n - at), MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            break;
        at += sent > 0 ? (size_t)sent : 0;
        turn(pair[0], &seen);
    }
    for (int i = 0; i < 8; i++)
        turn(pair[0], &seen);
    close(pair[0]);
    for (int i = 0; i < 100 && http_server_stats(server).connections_open > 0; i++)
        loop_run_once(loop, false);
    ASSERT(http_server_stats(server).connections_open == 0);
    ASSERT(held == NULL);
    return 0;
}
