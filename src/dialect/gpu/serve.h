/* serve.h - options the GPU scheduler adds to `berth serve` */
#pragma once
#include "cli/opt.h"

/* As parsed from the command line; NULL and unset = the default. */
struct gpu_serve_opts {
    const char *library, *torch_backend;
    struct opt_num log_limit;
    bool on_cpu;
};
extern const struct opt_group gpu_serve_group;
/* dialect.serve_check */
int gpu_serve_check(const void *opts, struct err *e);
