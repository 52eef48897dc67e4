/* routes.h - the HTTP API on a batch's port
 *
 * Answers are those users' programs know, byte for byte: every answer of the API is status 200 with
 * a `code`, regular ones indented by four, errors on one line; what is no route at all is 404.
 */
#pragma once
#include "dialect/hyperctl/batch.h"
#include "io/http_server.h"

struct hyper_routes;
struct loop;
struct hyper_routes_conf {
    struct loop *loop;
    const struct hyper_batch *batch;
    const char *token; /* NULL = none; may stand in front of every path */
    bool token_needed; /* on TCP; a client of the unix socket needs none */
    /* A running job shall be ended; hyper_routes_killed or _refused follows. */
    void (*kill)(void *arg, size_t job);
    void *arg;
};
struct hyper_routes *hyper_routes_new(const struct hyper_routes_conf *c);
/* The address shown in the summary, known once the port is open; borrowed. */
void hyper_routes_set_portal(struct hyper_routes *h, const char *portal);
/* The scheduler is about to go: nothing is killed from now on. */
void hyper_routes_shut(struct hyper_routes *h);
/* A worker thread has a request: run the loop until this is false, then free. */
bool hyper_routes_busy(const struct hyper_routes *h);
void hyper_routes_free(struct hyper_routes *h); /* after the server is down */
struct http_handler hyper_routes_handler(struct hyper_routes *h);
/* The job has ended: the requests to kill it are answered. */
void hyper_routes_killed(struct hyper_routes *h, size_t job);
/* The scheduler did not kill the job; the waiting requests get `why`. */
void hyper_routes_refused(struct hyper_routes *h, size_t job, const char *why);
