/* dialect_priv.h - what the files of this dialect share */
#pragma once
#include "base/map.h"
#include "dialect/gpu/serve.h"
#include "dialect/gpu/submission.h"
#include "host/job_ports.h"
#include "host/part.h"
#include "io/loop.h"
#include "request/service.h"
#include "store/query.h"

enum { GPU_ADDR_MAX = 64 };

/* One for each daemon; everything in it belongs to the loop thread. */
struct gpu_dialect {
    struct host_env env;
    struct request_server *port_requests; /* of the library port */
    /* NULL until the part listens. */
    struct http_server *library;
    char library_addr[GPU_ADDR_MAX]; /* "" = loopback, the port kept in the home */
    int library_port;
    char *endpoint;          /* host:port of the library port; NULL = not open */
    int64_t log_limit_bytes; /* of a job submitted here; 0 = none */
    char *torch_backend;     /* of torch.distributed; NULL = what suits the run */
    bool on_cpu;             /* jobs run on CPUs where there is no GPU */
    struct map_u64 known;    /* id, folded → struct known: the number of a job by its id */
    /* closing: gpu_shut was called.  library_down: no connection of the library port is left. */
    bool closing, library_down;
};

static inline struct gpu_dialect *call_gpu(const struct call *c)
{
    return c->self;
}

extern const struct host_part gpu_part; /* part.c */
/* start.c: sets the variables of a run when it starts.  Loop thread.  -1 fails the start. */
int gpu_launch(void *self, const struct launch *l, const struct launch_facts *f,
               struct launch_extras *out, struct err *e);
/* serve.c: options of `berth serve`, which were checked, become members of d. */
void gpu_serve_apply(const struct gpu_serve_opts *o, struct gpu_dialect *d);

void gpu_submit(struct call *c); /* submit.c: POST /submit */
void gpu_state(struct call *c); /* state.c: GET /gpu-scheduler/jobs and /gpu-scheduler/jobs/{ref} */

/* library.c: the messages of training libraries, on the home's server and on the port of their own
 */
extern const struct route gpu_library_routes[];
extern const size_t gpu_library_n_routes;
void gpu_library_fail(struct http_req *r, int status, const struct err *e); /* a line of text */
/* On its own port a process of this host needs no proof: the library of old shows none. */
int gpu_library_identify(void *self, struct http_req *r, struct who *out, struct err *e);
void gpu_library_done(struct gpu_dialect *d);

/* access.c: may this user do that with a directory?  Worker thread.  `uid` is the daemon's own
 * unless it is root. */
enum { GPU_MAY_READ = 4, GPU_MAY_WRITE = 2 };
int gpu_dir_check(const char *path, uint32_t uid, uint32_t gid, int may, struct err *e);
