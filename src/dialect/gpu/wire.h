/* wire.h - what the library of a job sends */
#pragma once
#include "base/err.h"
#include "base/str.h"
#include "core/core.h"

enum gpu_message {
    GPU_MESSAGE_STOP,          /* has the job to stop? */
    GPU_MESSAGE_PROFILE,       /* heartbeat or epoch record */
    GPU_MESSAGE_EPOCH,         /* an epoch is complete */
    GPU_MESSAGE_END,           /* the job is about to exit */
    GPU_MESSAGE_PROFILING_END, /* of version 0.1.0; ignored */
};
enum { GPU_BODY_MAX = 64 << 10 };

struct gpu_report {
    /* Epochs that are complete, of GPU_MESSAGE_EPOCH. */
    int64_t done;
    /* Of GPU_MESSAGE_PROFILE; zero for other messages. */
    struct core_profile profile;
};
/* ERR_INVALID: too long, not JSON, or a number that cannot be. */
int gpu_report_read(enum gpu_message m, struct str body, struct gpu_report *out, struct err *e);
