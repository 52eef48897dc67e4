#include "rig.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define SIZES                                                                                      \
    .head_bytes = 4096, .body_bytes = 64 * 1024, .connections = 32, .stream_bytes = 256 * 1024

const struct http_limits rig_limits = {
    SIZES, .head_ms = 20000, .body_ms = 20000, .idle_ms = 20000, .write_ms = 20000,
};

const struct http_limits rig_hasty = {
    SIZES, .head_ms = 200, .body_ms = 200, .idle_ms = 400, .write_ms = 200,
};

static void on_gone(void *arg, struct http_req *req)
{
    struct rig *r = arg;

    r->gone++;
    for (size_t i = 0; i < r->held_n; i++) {
        if (r->held[i] == req)
            r->held[i] = NULL;
    }
}

static void on_drain(void *arg, struct http_req *req UNUSED)
{
    ((struct rig *)arg)->drained++;
}

static void hold(struct rig *r, struct http_req *req)
{
    assert_true(r->held_n < RIG_HELD_MAX);
    r->held[r->held_n++] = req;
}

static void reply_text(struct http_req *req, size_t n)
{
    char *p = xmalloc(n + 1);

    for (size_t i = 0; i < n; i++)
        p[i] = (char)('a' + i / 7 % 26);
    http_reply_take(req, 200, "text/plain", p, n);
}

static void reply_peer(struct http_req *req)
{
    char text[80];
    const struct http_peer *p = http_peer(req);

    snprintf(text, sizeof(text), "%d %u %u %d", p->is_unix, p->uid, p->gid, p->pid);
    http_reply(req, 200, "text/plain", str_of(text));
}

static void on_request(void *self, struct http_req *req)
{
    struct rig *r = self;
    struct str path = http_path(req);

    r->requests++;
    if (str_eq_c(path, "/echo")) {
        size_t n;
        char *body = http_body_take(req, &n);
        http_reply_take(req, 200, "application/octet-stream", body, n);
    } else if (str_eq_c(path, "/hold")) {
        http_on_gone(req, on_gone, r);
        hold(r, req);
    } else if (str_eq_c(path, "/orphan")) {
        hold(r, req);
    } else if (str_eq_c(path, "/stream")) {
        http_on_gone(req, on_gone, r);
        http_on_drain(req, on_drain, r);
        hold(r, req);
        http_stream_begin(req, 200, "text/event-stream");
    } else if (str_eq_c(path, "/text")) {
        int64_t n = 0;
        const char *want = http_param(req, "n");
        str_to_i64(str_of(want ? want : "0"), &n);
        reply_text(req, (size_t)n);
    } else if (str_eq_c(path, "/file")) {
        http_reply_fd_take(req, r->file ? open(r->file, O_RDONLY | O_CLOEXEC) : -1, "text/plain");
    } else if (str_eq_c(path, "/peer")) {
        reply_peer(req);
    } else if (str_eq_c(path, "/none")) {
        http_reply(req, 204, NULL, STR(""));
    } else if (str_eq_c(path, "/etag")) {
        if (!http_not_modified(req, "\"v7\""))
            http_reply(req, 200, "text/plain", STR("seven"));
    } else if (str_eq_c(path, "/error")) {
        struct err e;
        err_set(&e, ERR_CONFLICT, "say \"please\"");
        http_reply_err(req, &e);
    } else if (str_eq_c(path, "/resume")) {
        char text[32];
        snprintf(text, sizeof(text), "%llu", (unsigned long long)sse_resume_id(req));
        http_reply(req, 200, "text/plain", str_of(text));
    } else {
        AUTO(buf) struct buf b = {0};
        const char *p = http_param(req, "p");
        buf_addf(&b, STR_FMT " " STR_FMT " [" STR_FMT "] %s " STR_FMT, STR_ARG(http_method(req)),
                 STR_ARG(path), STR_ARG(http_query(req)), p ? p : "-",
                 STR_ARG(http_header(req, "x-test")));
        http_reply(req, 200, "text/plain", buf_str(&b));
    }
}

static size_t body_max(void *self UNUSED, struct http_req *req)
{
    return str_eq_c(http_path(req), "/large") ? 1024 * 1024 : rig_limits.body_bytes;
}

void rig_init(struct rig *r, const struct http_limits *lim)
{
    log_setup(LOG_ERROR_, false, 2); /* slow callbacks under a sanitizer are no news */
    *r = (struct rig){.loop = loop_new()};
    r->server = http_server_new(
        r->loop, lim ? lim : &rig_limits,
        (struct http_handler){.request = on_request, .body_max = body_max, .self = r});
}

static void on_done(void *arg)
{
    ((struct rig *)arg)->done = true;
}

void rig_done(struct rig *r)
{
    if (!r->done)
        http_server_shutdown(r->server, 0, on_done, r);
    assert_true(rig_until(r, &r->done, 60000));
    http_server_free(r->server);
    loop_free(r->loop);
}

void rig_turn(struct rig *r, int ms)
{
    int64_t end = clock_mono(&clock_system) + ms;

    /* A crowded machine may let all of ms pass within one turn: ten are enough for anything that
     * waits for nothing but the loop. */
    for (int turns = 0; turns < 10 || clock_mono(&clock_system) < end; turns++) {
        loop_run_once(r->loop, false);
        if (ms > 0)
            poll(NULL, 0, 1);
        else
            return;
    }
}

bool rig_until(struct rig *r, const bool *flag, int ms)
{
    int64_t end = clock_mono(&clock_system) + ms;

    while (!*flag && clock_mono(&clock_system) < end) {
        loop_run_once(r->loop, false);
        if (!*flag)
            poll(NULL, 0, 1);
    }
    return *flag;
}

int rig_connect(struct rig *r)
{
    int pair[2];
    struct err e;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(http_server_adopt_take(r->server, pair[1], &e), 0);
    return pair[0];
}

void rig_send_n(struct rig *r, int fd, const void *p, size_t n)
{
    const char *at = p;

    while (n > 0) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return; /* the server closed: the test sees it when it reads */
        if (sent > 0) {
            at += sent;
            n -= (size_t)sent;
        }
        loop_run_once(r->loop, false);
    }
}

void rig_send(struct rig *r, int fd, const char *bytes)
{
    rig_send_n(r, fd, bytes, strlen(bytes));
}

/* One byte more into b; false at the end of the connection or of patience. */
static bool more(struct rig *r, int fd, struct buf *b, int64_t end)
{
    while (clock_mono(&clock_system) < end) {
        char c;
        ssize_t n = recv(fd, &c, 1, 0);
        if (n == 1)
            return buf_addc(b, c);
        if (n == 0 || errno != EAGAIN)
            return false;
        loop_run_once(r->loop, false);
    }
    return false;
}

static bool more_n(struct rig *r, int fd, struct buf *b, size_t n, int64_t end)
{
    while (n > 0) {
        char *to = buf_reserve(b, n);
        ssize_t got = recv(fd, to, n, 0);
        if (got > 0) {
            b->n += (size_t)got;
            b->p[b->n] = 0;
            n -= (size_t)got;
            continue;
        }
        if (got == 0 || errno != EAGAIN || clock_mono(&clock_system) > end)
            return false;
        loop_run_once(r->loop, false);
    }
    return true;
}

static bool read_chunks(struct rig *r, int fd, struct buf *body, int64_t end)
{
    for (;;) {
        AUTO(buf) struct buf line = {0};
        do {
            if (!more(r, fd, &line, end))
                return false;
        } while (line.p[line.n - 1] != '\n');
        size_t n = strtoul(line.p, NULL, 16);
        AUTO(buf) struct buf crlf = {0};
        if (!more_n(r, fd, body, n, end) || !more_n(r, fd, &crlf, 2, end))
            return false;
        if (n == 0)
            return true;
    }
}

static struct answer read_answer(struct rig *r, int fd, bool no_body)
{
    struct answer a = {0};
    struct buf head = {0};
    int64_t end = clock_mono(&clock_system) + 10000;

    while (head.n < 4 || memcmp(head.p + head.n - 4, "\r\n\r\n", 4) != 0) {
        if (!more(r, fd, &head, end)) {
            buf_done(&head);
            return a;
        }
    }
    a.head = buf_take(&head, NULL);
    assert_int_equal(sscanf(a.head, "HTTP/1.1 %d ", &a.status), 1);
    AUTO_FREE char *length = answer_header(&a, "Content-Length");
    AUTO_FREE char *coding = answer_header(&a, "Transfer-Encoding");
    if (no_body || a.status == 204 || a.status == 304 || a.status == 100)
        a.whole = true;
    else if (coding)
        a.whole = read_chunks(r, fd, &a.body, end);
    else if (length)
        a.whole = more_n(r, fd, &a.body, strtoul(length, NULL, 10), end);
    else
        while (more(r, fd, &a.body, end))
            ;
    return a;
}

struct answer rig_answer(struct rig *r, int fd)
{
    return read_answer(r, fd, false);
}

struct answer rig_answer_head(struct rig *r, int fd)
{
    return read_answer(r, fd, true);
}

void answer_done(struct answer *a)
{
    free(a->head);
    buf_done(&a->body);
}

char *answer_header(const struct answer *a, const char *name)
{
    size_t n = strlen(name);

    for (const char *line = strstr(a->head, "\r\n"); line && line[2]; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, n) == 0 && line[n] == ':') {
            const char *value = line + n + 1 + strspn(line + n + 1, " ");
            return xstrndup(value, strcspn(value, "\r"));
        }
    }
    return NULL;
}

int rig_status(struct rig *r, int fd, const char *request)
{
    rig_send(r, fd, request);
    struct answer a = rig_answer(r, fd);
    int status = a.status;
    answer_done(&a);
    return status;
}

bool rig_is_closed(struct rig *r, int fd, int ms)
{
    int64_t end = clock_mono(&clock_system) + ms;
    char c;

    while (clock_mono(&clock_system) < end) {
        ssize_t n = recv(fd, &c, 1, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return true;
        loop_run_once(r->loop, false);
        poll(NULL, 0, 1);
    }
    return false;
}

char *rig_read(struct rig *r, int fd, int ms, size_t *out_n)
{
    struct buf b = {0};
    int64_t end = clock_mono(&clock_system) + ms;

    while (clock_mono(&clock_system) < end) {
        char block[16 * 1024];
        ssize_t n = recv(fd, block, sizeof(block), 0);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        if (n > 0)
            buf_add(&b, block, (size_t)n);
        else
            loop_run_once(r->loop, false);
    }
    return buf_take(&b, out_n);
}

int one_setup_with(void **state, const struct http_limits *lim)
{
    struct one *o = xcalloc(1, sizeof(*o));

    rig_init(&o->rig, lim);
    o->fd = rig_connect(&o->rig);
    *state = o;
    return 0;
}

int one_setup(void **state)
{
    return one_setup_with(state, &rig_limits);
}

int one_setup_hasty(void **state)
{
    return one_setup_with(state, &rig_hasty);
}

int one_teardown(void **state)
{
    struct one *o = *state;

    if (o->fd >= 0)
        close(o->fd);
    rig_done(&o->rig);
    free(o);
    return 0;
}
