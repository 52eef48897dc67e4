/* http_server_bench.c - a server that answers 1 KB of JSON, and counts what it cost
 *
 *   http_server_bench PORT [SOCKET]      wrk -t1 -c64 -d5 http://127.0.0.1:PORT/
 *
 * /          1 KB of JSON         /stream   an event stream that stays open and silent
 * /stats     requests, CPU microseconds per request since the last look, resident KB
 * SIGTERM    shuts down and prints the same
 */
#include "base/buf.h"
#include "base/util.h"
#include "io/http_server.h"
#include "io/loop.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct bench {
    struct loop *loop;
    struct http_server *server;
    char body[1025];
    uint64_t requests;
    double cpu_us;
};

static double cpu_us(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static long resident_kb(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f) {
        if (fscanf(f, "%*d %ld", &pages) != 1)
            pages = 0;
        fclose(f);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void report(struct bench *b, char *out, size_t cap)
{
    struct http_server_stats s = http_server_stats(b->server);
    double cpu = cpu_us();
    uint64_t n = s.requests - b->requests;

    snprintf(out, cap,
             "requests %llu count\ncpu_per_request %.2f us\nresident %ld KB\nstreams %llu count\n",
             (unsigned long long)n, n ? (cpu - b->cpu_us) / (double)n : 0, resident_kb(),
             (unsigned long long)s.streams_open);
    b->requests = s.requests;
    b->cpu_us = cpu;
}

static void on_request(void *self, struct http_req *r)
{
    struct bench *b = self;
    struct str path = http_path(r);
    char text[256];

    if (path.n == 1) {
        http_reply(r, 200, "application/json", (struct str){b->body, 1024});
    } else if (strcmp(path.p, "/stream") == 0) {
        http_stream_begin(r, 200, "text/event-stream");
    } else if (strcmp(path.p, "/stats") == 0) {
        report(b, text, sizeof(text));
        http_reply(r, 200, "text/plain", str_of(text));
    } else {
        struct err e;
        err_set(&e, ERR_NOT_FOUND, "no such path");
        http_reply_err(r, &e);
    }
}

static void on_done(void *arg)
{
    loop_stop(((struct bench *)arg)->loop);
}

static void on_term(void *arg)
{
    struct bench *b = arg;

    http_server_shutdown(b->server, 1000, on_done, b);
}

int main(int argc, char **argv)
{
    struct err e;
    int port = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    struct bench b = {.loop = loop_new()};
    char text[256];

    memset(b.body, 'x', 1024);
    memcpy(b.body, "{\"data\":\"", 9);
    memcpy(b.body + 1022, "\"}", 2);
    b.server =
        http_server_new(b.loop, NULL, (struct http_handler){.request = on_request, .self = &b});
    if (http_server_listen_tcp(b.server, "127.0.0.1", port, NULL, NULL, &port, &e) < 0 ||
        (argc > 2 && http_server_listen_unix(b.server, argv[2], 0600, &e) < 0)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    struct signal_watch *term = signal_watch_new(b.loop, SIGTERM, on_term, &b);
    printf("http://127.0.0.1:%d/\n", port);
    fflush(stdout);
    loop_run(b.loop);
    report(&b, text, sizeof(text));
    fputs(text, stdout);
    signal_watch_free(term);
    http_server_free(b.server);
    loop_free(b.loop);
    return 0;
}
