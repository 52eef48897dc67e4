/* dialect.h - the GPU scheduler's own interface beside ours: submissions, library, listing
 *
 * One instance per home.  Its routes are on the home's server; the messages of training libraries
 * it also takes on a port of its own, whose address jobs know (SCHED_ENDPOINT) and which therefore
 * stays the same for the life of the home. docs/gpu-scheduler.md is the user's view.
 */
#pragma once
#include "core/core.h"
#include "io/http_server.h"

struct request_server;
struct store;
struct gpu_dialect;
struct gpu_dialect_conf {
    struct loop *loop;
    struct core *core;
    struct store *store;
    const char *home;
    uint32_t uid;            /* the daemon's */
    bool mounts;             /* the backend can mount directories for a run */
    const char *ports_addr;  /* where ports of jobs are opened; NULL = everywhere */
    bool multi_user;         /* others submit too: who speaks for a job must be its owner */
    int64_t log_limit_bytes; /* of a job submitted here; 0 = none */
    const char *backend;     /* of torch.distributed; NULL = nccl */
};
struct gpu_dialect *gpu_dialect_new(const struct gpu_dialect_conf *c);
void gpu_dialect_free(struct gpu_dialect *d);
/* Adds its routes to the home's server. */
void gpu_dialect_serve(struct gpu_dialect *d, struct request_server *requests);
/* Opens the library port.  addr NULL: loopback and the port kept in the home, or a new one. */
int gpu_dialect_listen(struct gpu_dialect *d, const char *addr, int port, struct err *e);
const char *gpu_dialect_endpoint(const struct gpu_dialect *d); /* host:port; NULL = not open */
/* Jobs with ports from before a restart get them back. */
void gpu_dialect_recover(struct gpu_dialect *d);
void gpu_dialect_committed(struct gpu_dialect *d); /* after every commit */
/* The two steps of closing; in between run the loop while gpu_dialect_busy. */
void gpu_dialect_shut(struct gpu_dialect *d);
bool gpu_dialect_busy(const struct gpu_dialect *d);

/* core_ops.decorate */
int gpu_dialect_decorate(struct gpu_dialect *d, const struct launch *l,
                         const struct launch_facts *f, struct env_sink *out, struct err *e);
/* core_ops.opening */
void gpu_dialect_opening(struct gpu_dialect *d, struct run_key key, char *const *ports);
