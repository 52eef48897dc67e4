/* Where connections come from: unix and TCP sockets, their limit, TLS, who is asking. */
#include "rig.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

struct place {
    struct rig rig;
    char dir[64];
    char sock[96];
};

static int setup(void **state)
{
    struct place *p = xcalloc(1, sizeof(*p));
    struct http_limits lim = rig_limits;

    lim.connections = 3;
    rig_init(&p->rig, &lim);
    snprintf(p->dir, sizeof(p->dir), "/tmp/test_http_listen.XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->sock, sizeof(p->sock), "%s/sock", p->dir);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    AUTO_FREE char *rm = xasprintf("rm -rf '%s'", p->dir);
    FILE *f;

    rig_done(&p->rig);
    assert_int_equal(access(p->sock, F_OK), -1); /* removed with the listener */
    f = popen(rm, "r");
    pclose(f);
    free(p);
    return 0;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static int connect_tcp(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void test_unix(void **state)
{
    struct place *p = *state;
    struct err e;
    struct stat st;
    char want[80];

    assert_int_equal(http_server_listen_unix(p->rig.server, p->sock, 0600, &e), 0);
    assert_int_equal(stat(p->sock, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    int fd = connect_unix(p->sock);
    rig_send(&p->rig, fd, "GET /peer HTTP/1.1\r\nHost: h\r\n\r\n");
    struct answer a = rig_answer(&p->rig, fd);
    snprintf(want, sizeof(want), "1 %u %u %d", getuid(), getgid(), getpid());
    assert_string_equal(buf_str(&a.body).p, want);
    answer_done(&a);
    close(fd);
}

static void test_unix_mode_and_conflicts(void **state)
{
    struct place *p = *state;
    struct err e;
    struct stat st;
    AUTO_FREE char *plain = xasprintf("%s/plain", p->dir);
    AUTO_FREE char *missing = xasprintf("%s/no/sock", p->dir);

    /* A stale socket: bound once, nobody listens. */
    int stale = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", p->sock);
    assert_int_equal(bind(stale, (struct sockaddr *)&a, sizeof(a)), 0);
    close(stale);
    mode_t mask = umask(077);
    assert_int_equal(http_server_listen_unix(p->rig.server, p->sock, 0666, &e), 0);
    umask(mask);
    assert_int_equal(stat(p->sock, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666);
    /* A live one. */
    assert_int_equal(http_server_listen_unix(p->rig.server, p->sock, 0600, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_non_null(strstr(e.text, p->sock));
    close(open(plain, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(http_server_listen_unix(p->rig.server, plain, 0600, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_int_equal(access(plain, F_OK), 0); /* left alone */
    assert_int_equal(http_server_listen_unix(p->rig.server, missing, 0600, &e), -1);
}

static void test_successor_keeps_its_socket(void **state)
{
    struct place *p = *state;
    struct rig other;
    struct err e;

    assert_int_equal(http_server_listen_unix(p->rig.server, p->sock, 0600, &e), 0);
    assert_int_equal(unlink(p->sock), 0);
    rig_init(&other, NULL);
    assert_int_equal(http_server_listen_unix(other.server, p->sock, 0600, &e), 0);
    int fd = rig_connect(&p->rig);
    http_server_shutdown(p->rig.server, 0, NULL, NULL);
    assert_true(rig_is_closed(&p->rig, fd, 5000));
    close(fd);
    rig_turn(&p->rig, 5);
    p->rig.done = true;
    assert_int_equal(access(p->sock, F_OK), 0);
    fd = connect_unix(p->sock);
    assert_int_equal(rig_status(&other, fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"), 200);
    close(fd);
    rig_done(&other);
}

static void test_long_path(void **state)
{
    struct place *p = *state;
    AUTO(buf) struct buf b = {0};
    struct err e;

    buf_adds(&b, p->dir);
    for (int i = 0; i < 10; i++) {
        buf_addf(&b, "/a-rather-long-directory-name-%d", i);
        assert_int_equal(mkdir(b.p, 0700), 0);
    }
    buf_adds(&b, "/sock");
    assert_true(b.n > 300);
    assert_int_equal(http_server_listen_unix(p->rig.server, b.p, 0600, &e), 0);
    assert_int_equal(http_server_listen_unix(p->rig.server, b.p, 0600, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
}

static void test_tcp(void **state)
{
    struct place *p = *state;
    struct err e;
    int port = 0, again = 0;

    assert_int_equal(http_server_listen_tcp(p->rig.server, "127.0.0.1", 0, NULL, NULL, &port, &e),
                     0);
    assert_true(port > 0);
    int fd = connect_tcp(port);
    rig_send(&p->rig, fd, "GET /peer HTTP/1.1\r\nHost: h\r\n\r\n");
    struct answer a = rig_answer(&p->rig, fd);
    assert_string_equal(buf_str(&a.body).p, "0 0 0 0");
    answer_done(&a);
    /* A client that asks for less than it sends still reads why. */
    assert_int_equal(rig_status(&p->rig, fd,
                                "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: "
                                "100000\r\n\r\nxxxxxxxxxxxxxxxxxxxxxxx"),
                     413);
    close(fd);
    assert_int_equal(
        http_server_listen_tcp(p->rig.server, "127.0.0.1", port, NULL, NULL, &again, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_int_equal(http_server_listen_tcp(p->rig.server, "localhost", 0, NULL, NULL, NULL, &e),
                     -1);
    assert_int_equal(e.code, ERR_INVALID);
    assert_int_equal(
        http_server_listen_tcp(p->rig.server, "127.0.0.1", 65536, NULL, NULL, NULL, &e), -1);
    rig_turn(&p->rig, 1);
}

static void test_connection_limit(void **state)
{
    struct place *p = *state;
    struct err e;
    int fds[6];

    assert_int_equal(http_server_listen_unix(p->rig.server, p->sock, 0600, &e), 0);
    for (int i = 0; i < 6; i++) {
        fds[i] = connect_unix(p->sock);
        rig_send(&p->rig, fds[i], "GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
        rig_turn(&p->rig, 5);
    }
    assert_int_equal(p->rig.held_n, 3);
    assert_int_equal(http_server_stats(p->rig.server).connections_open, 3);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    for (int i = 0; i < 200000 && p->rig.held_n < 6; i++)
        rig_turn(&p->rig, 5);
    assert_int_equal(p->rig.held_n, 6); /* the others were let in */
    for (int i = 3; i < 6; i++)
        close(fds[i]);
}

/* ---- TLS, with the openssl command line as the other side ---- */

static bool run(const char *cmd)
{
    FILE *f = popen(cmd, "r");
    char line[256];

    while (f && fgets(line, sizeof(line), f))
        ;
    return f && pclose(f) == 0;
}

static bool make_cert(struct place *p)
{
    AUTO_FREE char *cmd = xasprintf(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 "
        "-keyout %s/key.pem -out %s/cert.pem 2>/dev/null",
        p->dir, p->dir);

    return run(cmd);
}

/* Turns the loop while the command runs, and gives back what it printed. */
static char *run_beside(struct place *p, const char *cmd)
{
    struct buf out = {0};
    FILE *f = popen(cmd, "r");
    char block[4096];

    assert_non_null(f);
    fcntl(fileno(f), F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 10000; i++) {
        ssize_t n = read(fileno(f), block, sizeof(block));
        if (n == 0)
            break;
        if (n > 0)
            buf_add(&out, block, (size_t)n);
        loop_run_once(p->rig.loop, false);
        poll(NULL, 0, 1);
    }
    pclose(f);
    return buf_take(&out, NULL);
}

static void test_tls(void **state)
{
    struct place *p = *state;
    struct err e;
    int port = 0;

    if (!make_cert(p))
        skip();
    AUTO_FREE char *cert = xasprintf("%s/cert.pem", p->dir);
    AUTO_FREE char *key = xasprintf("%s/key.pem", p->dir);
    assert_int_equal(http_server_listen_tcp(p->rig.server, "127.0.0.1", 0, cert, key, &port, &e),
                     0);
    AUTO_FREE char *cmd = xasprintf(
        "printf 'GET /one HTTP/1.1\\r\\nHost: h\\r\\n\\r\\nGET /text?n=100000 HTTP/1.1\\r\\n"
        "Host: h\\r\\nConnection: close\\r\\n\\r\\n' | openssl s_client -quiet "
        "-verify_return_error "
        "-CAfile %s -connect 127.0.0.1:%d 2>&1",
        cert, port);
    AUTO_FREE char *out = run_beside(p, cmd);
    assert_non_null(strstr(out, "GET /one [] -"));
    assert_non_null(strstr(out, "Content-Length: 100000"));
    assert_true(strlen(out) > 100000);
    /* TLS 1.1 is refused. */
    AUTO_FREE char *old = xasprintf("openssl s_client -tls1_1 -cipher ALL@SECLEVEL=0 "
                                    "-connect 127.0.0.1:%d </dev/null 2>&1",
                                    port);
    AUTO_FREE char *refused = run_beside(p, old);
    assert_null(strstr(refused, "HTTP/1.1"));
    assert_non_null(strstr(refused, "alert"));
    /* Plain HTTP on the TLS port ends quickly and harms nobody. */
    int fd = connect_tcp(port);
    rig_send(&p->rig, fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_true(rig_is_closed(&p->rig, fd, 5000));
    close(fd);
    /* A handshake that never comes counts as a slow head. */
    struct rig hasty;
    struct http_limits lim = rig_limits;
    lim.head_ms = 100; /* idle_ms is 20 s */
    rig_init(&hasty, &lim);
    assert_int_equal(http_server_listen_tcp(hasty.server, "127.0.0.1", 0, cert, key, &port, &e), 0);
    fd = connect_tcp(port);
    assert_true(rig_is_closed(&hasty, fd, 5000));
    close(fd);
    rig_done(&hasty);
}

static void test_tls_files(void **state)
{
    struct place *p = *state;
    struct err e;
    AUTO_FREE char *cert = xasprintf("%s/cert.pem", p->dir);

    assert_int_equal(
        http_server_listen_tcp(p->rig.server, "127.0.0.1", 0, "/nonexistent", "/none", NULL, &e),
        -1);
    assert_non_null(strstr(e.text, "/nonexistent"));
    if (!make_cert(p))
        skip();
    assert_int_equal(http_server_listen_tcp(p->rig.server, "127.0.0.1", 0, cert, NULL, NULL, &e),
                     -1);
    assert_non_null(strstr(e.text, "private key"));
    assert_int_equal(http_server_listen_tcp(p->rig.server, "127.0.0.1", 0, cert, cert, NULL, &e),
                     -1);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_unix),
        T(test_unix_mode_and_conflicts),
        T(test_successor_keeps_its_socket),
        T(test_long_path),
        T(test_tcp),
        T(test_connection_limit),
        T(test_tls),
        T(test_tls_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
