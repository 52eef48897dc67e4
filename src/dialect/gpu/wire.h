/* wire.h - what the library of a job sends: paths and bodies */
#pragma once
#include "base/err.h"
#include "base/str.h"
#include "core/core.h"

enum gpu_message {
    GPU_MESSAGE_STOP,          /* GET /has_to_stop/ID */
    GPU_MESSAGE_PROFILE,       /* POST /profiling/ID: heartbeat or epoch record */
    GPU_MESSAGE_EPOCH,         /* POST /end_epoch/ID */
    GPU_MESSAGE_END,           /* POST /signal_end/ID */
    GPU_MESSAGE_PROFILING_END, /* POST /signal_end_profiling/ID/CONFIG: of version 0.1.0; ignored */
    GPU_MESSAGE_NONE,          /* no path of ours */
};
enum { GPU_BODY_MAX = 64 << 10 };

struct gpu_report {
    int64_t done;
    struct core_profile profile;
};
/* *out_method: what this path takes.  *out_id borrows from the path. */
enum gpu_message gpu_message_of(struct str path, struct str *out_id, const char **out_method);
/* ERR_INVALID: too long, not JSON, or a number that cannot be. */
int gpu_report_read(enum gpu_message m, struct str body, struct gpu_report *out, struct err *e);
