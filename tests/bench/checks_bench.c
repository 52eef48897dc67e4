/* checks_bench.c - what it costs to decide who a caller is and what the caller may do
 *
 *   checks_bench        prints "CALLER MICROSECONDS" for each kind of caller
 *
 * All of it that a request passes before its handler runs: who is calling, is the request meant for
 * this server, may the caller, how much does the caller have under way; and the test of visibility
 * for one job.  The request comes over TCP, with the headers of a page.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "io/loop.h"
#include "request/request_priv.h"
#include "request/session.h"
#include "request/site.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

enum { ROUNDS = 5, TIMES = 20000, USER = 4000 };

static const char owner_token[] =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

struct bench {
    struct loop *loop;
    struct auth *auth;
    struct core *core;
    struct request_server *requests;
};

struct bench_caller {
    const char *name;
    struct http_peer peer;
    char header[160]; /* Authorization, or Cookie of a session */
    bool session;
};

/* The checks of request/server.c, in its order. */
static bool bench_checks(struct bench *b, struct http_req *r, const struct bench_caller *by)
{
    struct who w = {0};
    struct err e;
    uint64_t key = 0;

    if (by->session) {
        if (!session_read(b->auth, str_of(by->header), clock_wall(&clock_system), &w.caller) ||
            site_own_page(r, &e) < 0)
            return false;
        w.known = w.session = true;
    } else if (auth_identify(b->auth, &by->peer,
                             by->header[0] ? str_of(by->header) : (struct str){0}, &w, &e) < 0) {
        return false;
    }
    if (site_check(r, NULL, w.proved, &e) < 0 || auth_allows(AUTH_JOB, &w, &e) < 0 ||
        share_call_begin(b->requests, r, &key, &e) < 0)
        return false;
    auth_name_find(b->auth, &w);
    bool sees = caller_sees(&w.caller, w.caller.uid);
    share_call_end(b->requests, key);
    return sees;
}

static double bench_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* The best of some rounds. */
static void bench_measure(struct bench *b, struct http_req *r, const struct bench_caller *by)
{
    double best = 1e9;

    for (int round = 0; round < ROUNDS; round++) {
        double began = bench_now_us();
        for (int i = 0; i < TIMES; i++)
            ASSERT(bench_checks(b, r, by));
        best = MIN(best, (bench_now_us() - began) / TIMES);
    }
    printf("%s %.3f\n", by->name, best);
}

static void bench_on_request(void *self, struct http_req *r)
{
    struct bench *b = self;
    struct bench_caller job = {.name = "job"}, page = {.name = "session", .session = true};
    struct bench_caller owner = {.name = "owner", .peer = {.is_unix = true, .uid = b->auth->uid}};
    struct bench_caller user = {.name = "user", .peer = {.is_unix = true, .uid = USER}};
    struct bench_caller token = {.name = "token"};
    char text[SESSION_MAX];

    snprintf(token.header, sizeof(token.header), "Bearer %s", owner_token);
    core_job_token(b->core, (struct run_key){7, 1}, text);
    snprintf(job.header, sizeof(job.header), "Bearer %s", text);
    session_make(b->auth, &(struct caller){.uid = USER, .gid = USER}, clock_wall(&clock_system),
                 text);
    snprintf(page.header, sizeof(page.header), "theme=dark; " SESSION_COOKIE "=%s", text);
    bench_measure(b, r, &owner);
    bench_measure(b, r, &user);
    bench_measure(b, r, &token);
    bench_measure(b, r, &job);
    bench_measure(b, r, &page);
    http_reply(r, 204, NULL, STR(""));
    loop_stop(b->loop);
}

static struct http_share bench_share(void *self, const struct http_peer *p)
{
    return share_of_peer(((struct bench *)self)->requests, p);
}

static void bench_on_down(void *arg)
{
    loop_stop(((struct bench *)arg)->loop);
}

static int bench_connect(int port)
{
    static const char text[] = "GET /v1/jobs/7 HTTP/1.1\r\nHost: localhost\r\n"
                               "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n"
                               "User-Agent: Mozilla/5.0\r\nAccept: */*\r\n\r\n";
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ||
        write(fd, text, sizeof(text) - 1) != sizeof(text) - 1)
        exit(1);
    return fd;
}

int main(void)
{
    static const uint8_t secret[32] = {1, 2, 3};
    struct core_conf conf = {.clock = clock_system,
                             .home = {.dir = "/nowhere", .secret = secret, .uid = 1000}};
    struct bench b = {.loop = loop_new(), .core = core_new(&conf)};
    struct err e = {0};
    int port = 0;

    log_setup(LOG_ERROR_, false, STDERR_FILENO); /* the measurement is one long callback */
    b.auth = auth_new(b.core, owner_token, 1000, true);
    auth_set_secret(b.auth, secret);
    auth_name_add(b.auth, USER, "user");
    b.requests = request_server_new(&(struct request_conf){.loop = b.loop, .auth = b.auth});
    struct http_server *s = http_server_new(
        b.loop, NULL,
        (struct http_handler){.request = bench_on_request, .self = &b, .share = bench_share});
    if (http_server_listen_tcp(s, "127.0.0.1", 0, NULL, NULL, &port, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    AUTO_FD fd = bench_connect(port);
    loop_run(b.loop);
    http_server_shutdown(s, 0, bench_on_down, &b);
    loop_run(b.loop);
    http_server_free(s);
    request_server_free(b.requests);
    auth_free(b.auth);
    core_free(b.core);
    loop_free(b.loop);
    return 0;
}
