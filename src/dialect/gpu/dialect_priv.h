/* dialect_priv.h - what the files of this dialect share */
#pragma once
#include "base/map.h"
#include "dialect/gpu/dialect.h"
#include "dialect/gpu/doors.h"
#include "dialect/gpu/submission.h"
#include "io/loop.h"
#include "request/auth.h"
#include "store/query.h"

struct gpu_dialect {
    struct gpu_dialect_conf conf; /* home and backend are copies */
    struct http_handler next;     /* who gets what is not ours */
    struct http_server *library;
    char *endpoint;
    struct doors *doors;
    struct map_u64 known; /* id, folded → struct known: the number of a job by its id */
    size_t working;       /* calls with a worker thread */
    bool closing, library_down;
};

/* A request on its way to a worker thread and back; first member of each kind's own struct. */
struct gpu_call {
    struct gpu_dialect *d;
    struct http_req *req; /* NULL once the client left; loop thread only */
    struct who who;
    struct err err;
    int (*work)(struct gpu_call *c); /* fills err and returns -1 */
    void (*then)(struct gpu_call *c);
    void (*done)(struct gpu_call *c); /* frees what the kind holds; may be NULL */
};
/* `size` bytes, zeroed; the caller is known to be `who`. */
void *gpu_call_new(struct gpu_dialect *d, struct http_req *r, const struct who *who, size_t size);
/* work on a worker thread, which also finds the caller's name, then `then`. */
void gpu_call_work(struct gpu_call *c);
void gpu_call_free(struct gpu_call *c);
void gpu_call_fail(struct gpu_call *c, const struct err *e); /* answers and frees */
struct http_req *gpu_call_take_req(struct gpu_call *c);
/* Who asks?  -1: refused and answered. */
int gpu_identify(struct gpu_dialect *d, struct http_req *r, enum auth_class cls, struct who *out);

/* submit.c: POST /submit */
void gpu_submit(struct gpu_dialect *d, struct http_req *r);
/* state.c: GET /gpu-scheduler/jobs and /gpu-scheduler/jobs/REF */
void gpu_state(struct gpu_dialect *d, struct http_req *r, struct str ref);
/* library.c */
bool gpu_library_takes(struct http_req *r);
/* `own`: it came on the library port. */
void gpu_library_request(struct gpu_dialect *d, struct http_req *r, bool own);
void gpu_library_done(struct gpu_dialect *d);

/* access.c: may this user do that with a directory?  Worker thread.  `uid` is the daemon's own
 * unless it is root. */
enum { GPU_MAY_READ = 4, GPU_MAY_WRITE = 2 };
int gpu_dir_check(const char *path, uint32_t uid, uint32_t gid, int may, struct err *e);
