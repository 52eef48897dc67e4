/* serve.c - options the GPU scheduler adds to `berth serve` */
#include "dialect/gpu/serve.h"
#include "base/util.h"
#include "dialect/gpu/dialect_priv.h"
#include "io/address.h"
#include "model/spec.h"

enum { LOG_LIMIT_BYTES = 1 << 30 }; /* without --gpu-log-limit */

#define SERVE(member) offsetof(struct gpu_serve_opts, member)
static const struct opt serve_opts[] = {
    {"library-listen", 0, OPT_TEXT, "ADDR:PORT", SERVE(library),
     "where training jobs report their epochs (default: a port of loopback, kept in the home)",
     COMPLETE_NONE, NULL},
    {"torch-backend", 0, OPT_TEXT, "NAME", SERVE(torch_backend),
     "PL_TORCH_DISTRIBUTED_BACKEND of run-scheduler jobs that name none (default: nccl on GPUs, "
     "gloo without a GPU driver)",
     COMPLETE_NONE, NULL},
    {"gpu-jobs-on-cpu", 0, OPT_FLAG, NULL, SERVE(on_cpu),
     "while no node has a GPU, run jobs of run-scheduler without --estimated_memory on CPUs",
     COMPLETE_NONE, NULL},
    {"gpu-log-limit", 0, OPT_SIZE, "SIZE", SERVE(log_limit),
     "drop the middle of logs of run-scheduler jobs above this size; 0 keeps all (default 1G)",
     COMPLETE_NONE, NULL},
};
const struct opt_group gpu_serve_group = {"GPU scheduler", serve_opts, ARRAY_SIZE(serve_opts),
                                          false};

int gpu_serve_check(const void *opts, struct err *e)
{
    const struct gpu_serve_opts *o = opts;
    char addr[GPU_ADDR_MAX];
    int port;

    if (o->log_limit.set && o->log_limit.v && o->log_limit.v < SPEC_LOG_LIMIT_MIN)
        return err_set(e, ERR_INVALID, "--gpu-log-limit must be 0 or at least 64K");
    if (o->torch_backend && (!*o->torch_backend || strpbrk(o->torch_backend, " \t\n")))
        return err_set(e, ERR_INVALID, "--torch-backend '%.60s' is not a name; write nccl or gloo",
                       o->torch_backend);
    if (!o->library)
        return 0;
    return listen_addr_parse("--library-listen", o->library, addr, sizeof(addr), &port, e);
}

/* The options were checked: the address can be read without an error. */
void gpu_serve_apply(const struct gpu_serve_opts *o, struct gpu_dialect *d)
{
    struct err e = {0};

    d->log_limit_bytes = o->log_limit.set ? o->log_limit.v : LOG_LIMIT_BYTES;
    d->torch_backend = xstrdup(o->torch_backend);
    d->on_cpu = o->on_cpu;
    if (o->library)
        listen_addr_parse("", o->library, d->library_addr, sizeof(d->library_addr),
                          &d->library_port, &e);
}
