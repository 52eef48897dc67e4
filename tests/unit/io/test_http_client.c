/* The blocking client against our server on a thread of its own, both ways, and against liars. */
#include "base/log.h"
#include "io/http_client.h"
#include "rig.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

struct host {
    pthread_t thread;
    struct loop *loop;
    struct http_server *server;
    char dir[64], sock[96], cert[96], key[96];
    int port, tls_port; /* tls_port 0: no openssl command here */
    struct http_client *client;
};

static void on_request(void *self UNUSED, struct http_req *r)
{
    struct str path = http_path(r);

    if (str_eq_c(path, "/echo")) {
        http_reply_header(r, "ETag", "\"e1\"");
        http_reply(r, 200, "application/json", http_body(r));
    } else if (str_eq_c(path, "/who")) {
        AUTO(buf) struct buf b = {0};
        buf_addf(&b, STR_FMT " %s|%s|%s", STR_ARG(http_method(r)),
                 http_header(r, "authorization").p,
                 http_header(r, "content-type").p ? http_header(r, "content-type").p : "-",
                 http_header(r, "x-one").p ? http_header(r, "x-one").p : "-");
        http_reply(r, 200, "text/plain", buf_str(&b));
    } else if (str_eq_c(path, "/big")) {
        char *p = xmalloc(5000000);
        memset(p, 'z', 5000000);
        http_reply_take(r, 200, "text/plain", p, 5000000);
    } else if (str_eq_c(path, "/stream")) {
        http_stream_begin(r, 200, "text/event-stream");
        for (int i = 0; i < 50; i++) {
            AUTO(buf) struct buf b = {0};
            sse_format(&b, (uint64_t)i, "n", STR("x"));
            http_stream_write(r, buf_str(&b));
        }
        http_stream_end(r);
    } else if (str_eq_c(path, "/endless")) {
        http_stream_begin(r, 200, "text/event-stream");
        http_stream_write(r, STR("first"));
    } else {
        struct err e;
        err_set(&e, ERR_NOT_FOUND, "there is no " STR_FMT, STR_ARG(path));
        http_reply_err(r, &e);
    }
}

static void *serve(void *arg)
{
    loop_run(((struct host *)arg)->loop);
    return NULL;
}

static bool make_cert(struct host *h)
{
    AUTO_FREE char *cmd = xasprintf(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 "
        "-keyout %s -out %s 2>/dev/null",
        h->key, h->cert);
    FILE *f = popen(cmd, "r");

    return f && pclose(f) == 0;
}

static int setup(void **state)
{
    struct host *h = xcalloc(1, sizeof(*h));
    struct err e;

    log_setup(LOG_ERROR_, false, 2);
    snprintf(h->dir, sizeof(h->dir), "/tmp/test_http_client.XXXXXX");
    assert_non_null(mkdtemp(h->dir));
    snprintf(h->sock, sizeof(h->sock), "%s/sock", h->dir);
    snprintf(h->cert, sizeof(h->cert), "%s/cert.pem", h->dir);
    snprintf(h->key, sizeof(h->key), "%s/key.pem", h->dir);
    h->loop = loop_new();
    h->server = http_server_new(h->loop, NULL, (struct http_handler){.request = on_request});
    assert_int_equal(http_server_listen_unix(h->server, h->sock, 0600, &e), 0);
    assert_int_equal(http_server_listen_tcp(h->server, "127.0.0.1", 0, NULL, NULL, &h->port, &e),
                     0);
    if (make_cert(h))
        assert_int_equal(
            http_server_listen_tcp(h->server, "127.0.0.1", 0, h->cert, h->key, &h->tls_port, &e),
            0);
    assert_int_equal(pthread_create(&h->thread, NULL, serve, h), 0);
    AUTO_FREE char *target = xasprintf("unix:%s", h->sock);
    h->client = http_client_new(target, "secret", NULL);
    *state = h;
    return 0;
}

static void on_done(void *arg)
{
    loop_stop(((struct host *)arg)->loop);
}

static void start_shutdown(void *arg)
{
    struct host *h = arg;

    http_server_shutdown(h->server, 0, on_done, h);
}

static int teardown(void **state)
{
    struct host *h = *state;

    http_client_free(h->client);
    loop_post(h->loop, start_shutdown, h);
    pthread_join(h->thread, NULL);
    http_server_free(h->server);
    loop_free(h->loop);
    unlink(h->cert);
    unlink(h->key);
    rmdir(h->dir);
    free(h);
    return 0;
}

static void call(struct http_client *c, const char *method, const char *path, struct str body,
                 int status, const char *want)
{
    struct http_response r;
    struct err e = {0};

    if (http_call(c, method, path, NULL, body, &r, &e) < 0)
        fail_msg("%s %s: %s", method, path, e.text);
    assert_int_equal(r.status, status);
    if (want)
        assert_string_equal(buf_str(&r.body).p, want);
    http_response_done(&r);
}

struct pieces {
    struct buf all;
    int stop_after, n;
};

static bool on_piece(void *arg, struct str piece)
{
    struct pieces *p = arg;

    buf_add(&p->all, piece.p, piece.n);
    return ++p->n != p->stop_after;
}

/* What every transport has to do alike. */
static void check(struct http_client *c)
{
    struct http_response r;
    struct err e = {0};
    int status = 0;
    const char *headers[] = {"X-One: 1", NULL};

    call(c, "POST", "/echo", STR("{\"a\":1}"), 200, "{\"a\":1}");
    call(c, "GET", "/who", STR(""), 200, "GET Bearer secret|-|-");
    call(c, "DELETE", "/who", STR(""), 200, NULL);
    call(c, "PUT", "/who", STR("x"), 200, "PUT Bearer secret|application/json|-");
    assert_int_equal(http_call(c, "GET", "/who", headers, STR(""), &r, &e), 0);
    assert_string_equal(r.body.p, "GET Bearer secret|-|1");
    http_response_done(&r);

    AUTO_FREE char *big = xmalloc(300000);
    memset(big, 'q', 300000);
    assert_int_equal(http_call(c, "POST", "/echo", NULL, (struct str){big, 300000}, &r, &e), 0);
    assert_int_equal(r.body.n, 300000);
    assert_string_equal(r.etag, "\"e1\"");
    assert_string_equal(r.content_type, "application/json");
    http_response_done(&r);
    assert_int_equal(http_call(c, "GET", "/big", NULL, STR(""), &r, &e), 0);
    assert_int_equal(r.body.n, 5000000);
    http_response_done(&r);
    assert_int_equal(http_call(c, "HEAD", "/echo", NULL, STR(""), &r, &e), 0);
    assert_int_equal(r.status, 200);
    http_response_done(&r);

    assert_int_equal(http_call(c, "GET", "/nope", NULL, STR(""), &r, &e), 0);
    assert_int_equal(r.status, 404);
    assert_int_equal(http_response_err(&r, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    assert_string_equal(e.text, "there is no /nope");
    http_response_done(&r);

    struct pieces p = {0};
    assert_int_equal(
        http_call_stream(c, "GET", "/stream", NULL, STR(""), &status, on_piece, &p, &e), 0);
    assert_int_equal(status, 200);
    assert_non_null(strstr(p.all.p, "id: 49\n"));
    buf_done(&p.all);
    p = (struct pieces){.stop_after = 1};
    assert_int_equal(
        http_call_stream(c, "GET", "/endless", NULL, STR(""), &status, on_piece, &p, &e), 0);
    assert_string_equal(p.all.p, "first");
    buf_done(&p.all);
    call(c, "GET", "/who", STR(""), 200, NULL); /* and it goes on */

    /* More than the server takes: its reason arrives although it stopped reading. */
    size_t n = 3 * 1024 * 1024;
    AUTO_FREE char *huge = xcalloc(1, n);
    assert_int_equal(http_call(c, "POST", "/echo", NULL, (struct str){huge, n}, &r, &e), 0);
    assert_int_equal(r.status, 413);
    http_response_done(&r);
}

static void test_unix(void **state)
{
    check(((struct host *)*state)->client);
}

static void test_tcp(void **state)
{
    struct host *h = *state;
    AUTO_FREE char *target = xasprintf("http://127.0.0.1:%d/", h->port);
    struct http_client *c = http_client_new(target, "secret", NULL);

    setenv("http_proxy", "http://127.0.0.1:1", 1); /* loopback never goes through a proxy */
    check(c);
    unsetenv("http_proxy");
    http_client_free(c);
}

static void test_tls(void **state)
{
    struct host *h = *state;
    struct http_response r;
    struct err e;

    if (!h->tls_port)
        skip();
    AUTO_FREE char *target = xasprintf("https://127.0.0.1:%d", h->tls_port);
    struct http_client *c = http_client_new(target, "secret", h->cert);
    check(c);
    http_client_free(c);
    c = http_client_new(target, NULL, NULL); /* an unknown authority */
    assert_int_equal(http_call(c, "GET", "/who", NULL, STR(""), &r, &e), -1);
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(e.text, target));
    http_client_free(c);
}

static void fails(const char *target, enum err_code code, const char *say)
{
    struct http_client *c = http_client_new(target, NULL, NULL);
    struct http_response r;
    struct err e = {0};

    assert_int_equal(http_call(c, "GET", "/", NULL, STR(""), &r, &e), -1);
    assert_int_equal(e.code, code);
    if (!strstr(e.text, say))
        fail_msg("'%s' does not say '%s'", e.text, say);
    http_client_free(c);
}

static void test_nobody_there(void **state)
{
    struct host *h = *state;
    AUTO_FREE char *missing = xasprintf("unix:%s/none", h->dir);

    fails(missing, ERR_UNAVAILABLE, "no server answers at");
    fails("http://127.0.0.1:1", ERR_UNAVAILABLE, "http://127.0.0.1:1");
    fails("ftp://x", ERR_INVALID, "names no server");
    fails("", ERR_INVALID, "names no server");
}

struct liar {
    int fd;
    const char *says;
};

static void *lie(void *arg)
{
    struct liar *l = arg;
    AUTO_FD fd = accept(l->fd, NULL, NULL);
    char block[1024];

    if (recv(fd, block, sizeof(block), 0) > 0)
        send(fd, l->says, strlen(l->says), MSG_NOSIGNAL);
    return NULL;
}

static int listen_at(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    unlink(path);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static pthread_barrier_t closed;

/* Two requests on one connection, which it then closes, and one on another. */
static void *answer_thrice(void *arg)
{
    static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    const struct liar *l = arg;
    char block[1024];
    int fd = accept(l->fd, NULL, NULL);

    for (int i = 0; i < 3; i++) {
        if (recv(fd, block, sizeof(block), 0) > 0)
            send(fd, ok, strlen(ok), MSG_NOSIGNAL);
        if (i != 1)
            continue;
        close(fd);
        pthread_barrier_wait(&closed);
        fd = accept(l->fd, NULL, NULL);
    }
    close(fd);
    return NULL;
}

static void test_kept_connection(void **state)
{
    struct host *h = *state;
    AUTO_FREE char *target = xasprintf("unix:%s/liar", h->dir);
    struct liar l = {listen_at(target + 5), NULL};
    struct http_client *c = http_client_new(target, NULL, NULL);
    pthread_t t;

    pthread_barrier_init(&closed, NULL, 2);
    assert_int_equal(pthread_create(&t, NULL, answer_thrice, &l), 0);
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            pthread_barrier_wait(&closed);
        call(c, "GET", "/", STR(""), 200, "");
    }
    pthread_join(t, NULL);
    pthread_barrier_destroy(&closed);
    http_client_free(c);
    unlink(target + 5);
    close(l.fd);
}

static void test_liars(void **state)
{
    struct host *h = *state;
    static const struct {
        const char *says;
        int status; /* 0: an error */
        const char *body;
    } cases[] = {
        {"", 0, NULL},
        {"SSH-2.0-OpenSSH\r\n", 0, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", 0, NULL},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", 0, NULL},
        {"HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end"},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x"},
        {"HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_FREE char *target = xasprintf("unix:%s/liar", h->dir);
        struct http_response r;
        struct err e = {0};
        pthread_t t;
        struct liar l = {listen_at(target + 5), cases[i].says};

        assert_int_equal(pthread_create(&t, NULL, lie, &l), 0);
        struct http_client *c = http_client_new(target, NULL, NULL);
        int result = http_call(c, "GET", "/", NULL, STR(""), &r, &e);
        pthread_join(t, NULL);
        if (cases[i].status == 0) {
            assert_int_equal(result, -1);
            assert_int_equal(e.code, ERR_UNAVAILABLE);
        } else {
            assert_int_equal(result, 0);
            assert_int_equal(r.status, cases[i].status);
            assert_string_equal(buf_str(&r.body).p, cases[i].body);
            http_response_done(&r);
        }
        http_client_free(c);
        unlink(target + 5);
        close(l.fd);
    }
}

static void error_of(int status, const char *body, enum err_code code, const char *text)
{
    struct http_response r = {.status = status};
    struct err e = {0};

    buf_adds(&r.body, body);
    assert_int_equal(http_response_err(&r, &e), -1);
    assert_int_equal(e.code, code);
    assert_non_null(strstr(e.text, text));
    http_response_done(&r);
}

static void test_error_documents(void **state UNUSED)
{
    struct http_response ok = {.status = 204};
    struct err e;

    assert_int_equal(http_response_err(&ok, &e), 0);
    error_of(409, "{\"error\":{\"code\":\"conflict\",\"message\":\"taken\"}}", ERR_CONFLICT,
             "taken");
    error_of(403, "{\"error\":{\"code\":\"martian\",\"message\":\"no\"}}", ERR_DENIED, "no");
    error_of(502, "<html>", ERR_INTERNAL, "502");
    error_of(404, "", ERR_NOT_FOUND, "404");
    error_of(418, "[]", ERR_INVALID, "418");
    error_of(500, "{\"error\":7}", ERR_INTERNAL, "500");
}

/* ---- a body that is made while it is sent ---- */

struct made {
    size_t left;     /* bytes to come */
    size_t fails_at; /* -1 is returned when so many are left; 0 = never */
};

static ssize_t make_bytes(void *arg, char *p, size_t n)
{
    struct made *m = arg;

    if (m->fails_at && m->left <= m->fails_at)
        return -1;
    n = MIN(MIN(n, m->left), (size_t)1000);
    memset(p, 'b', n);
    m->left -= n;
    return (ssize_t)n;
}

static bool always(void *arg UNUSED)
{
    return true;
}

static void upload(struct http_client *c)
{
    struct made m = {.left = 300000};
    struct http_source source = {make_bytes, &m};
    struct http_response r = {0};
    struct err e = {0};

    assert_int_equal(http_call_upload(c, "POST", "/echo", NULL, &source, &r, &e), 0);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.body.n, 300000);
    assert_int_equal(strspn(r.body.p, "b"), 300000);
    http_response_done(&r);
    /* One that cannot be made to its end is not sent as if it were. */
    m = (struct made){.left = 300000, .fails_at = 100000};
    assert_int_equal(http_call_upload(c, "POST", "/echo", NULL, &source, &r, &e), -1);
    assert_int_equal(e.code, ERR_BUSY);
    /* The client is good for the next. */
    m = (struct made){.left = 0};
    assert_int_equal(http_call_upload(c, "POST", "/echo", NULL, &source, &r, &e), 0);
    assert_int_equal(r.body.n, 0);
    http_response_done(&r);
}

static void test_upload(void **state)
{
    struct host *h = *state;
    AUTO_FREE char *target = xasprintf("http://127.0.0.1:%d", h->port);
    struct http_client *c = http_client_new(target, NULL, NULL);
    struct http_response r = {0};
    struct err e = {0};
    int status = 0;

    upload(h->client);
    if (http_call(c, "GET", "/who", NULL, STR(""), &r, &e) < 0 && strstr(e.text, "libcurl")) {
        http_client_free(c);
        skip(); /* not installed here */
    }
    http_response_done(&r);
    upload(c);
    /* Somebody asks for the end of a call that would not end. */
    struct pieces p = {0};
    http_client_interrupt(c, always, NULL);
    assert_int_equal(
        http_call_stream(c, "GET", "/endless", NULL, STR(""), &status, on_piece, &p, &e), -1);
    assert_int_equal(e.code, ERR_BUSY);
    buf_done(&p.all);
    http_client_interrupt(c, NULL, NULL);
    assert_int_equal(http_call(c, "GET", "/who", NULL, STR(""), &r, &e), 0);
    http_response_done(&r);
    http_client_free(c);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_unix),
        T(test_tcp),
        T(test_tls),
        T(test_nobody_there),
        T(test_kept_connection),
        T(test_liars),
        T(test_upload),
        cmocka_unit_test(test_error_documents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
