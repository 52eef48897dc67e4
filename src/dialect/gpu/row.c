/* row.c - the GPU scheduler: its commands, its part of the daemon */
#include "cli/opt.h"
#include "dialect/dialect.h"
#include "dialect/gpu/cmd.h"
#include "dialect/gpu/dialect_priv.h"
#include "dialect/gpu/serve.h"
#include "dialect/gpu/translate.h"

static const struct command *const commands[] = {
    &cmd_run_scheduler,        &cmd_scheduler_state,    &cmd_scheduler_situation,
    &cmd_scheduler_cancel_job, &cmd_scheduler_get_logs, NULL,
};

extern const struct dialect dialect_gpu;
const struct dialect dialect_gpu = {
    .name = GPU_DIALECT,
    .title = "GPU scheduler",
    .commands = commands,
    .part = &gpu_part,
    .serve = &gpu_serve_group,
    .serve_size = sizeof(struct gpu_serve_opts),
    .serve_check = gpu_serve_check,
};
