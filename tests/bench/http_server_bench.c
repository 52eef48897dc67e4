/* http_server_bench.c - our server with a handler that answers 1 KB of JSON
 *
 *   http_server_bench PORT [SOCKET]      wrk -t1 -c64 -d5 http://127.0.0.1:PORT/
 *
 * What it cost is asked of the kernel by http_bench.py.  SIGTERM shuts it down.
 */
#include "io/http_server.h"
#include "io/loop.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct bench {
    struct loop *loop;
    struct http_server *server;
    char body[1024];
};

static void on_request(void *self, struct http_req *r)
{
    struct bench *b = self;

    http_reply(r, 200, "application/json", (struct str){b->body, sizeof(b->body)});
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

    memset(b.body, 'x', sizeof(b.body));
    memcpy(b.body, "{\"data\":\"", 9);
    memcpy(b.body + sizeof(b.body) - 2, "\"}", 2);
    b.server =
        http_server_new(b.loop, NULL, (struct http_handler){.request = on_request, .self = &b});
    if (http_server_listen_tcp(b.server, "127.0.0.1", port, NULL, NULL, &port, &e) < 0 ||
        (argc > 2 && http_server_listen_unix(b.server, argv[2], 0600, &e) < 0)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    struct signal_watch *term = signal_watch_new(b.loop, SIGTERM, on_term, &b);
    loop_run(b.loop);
    signal_watch_free(term);
    http_server_free(b.server);
    loop_free(b.loop);
    return 0;
}
