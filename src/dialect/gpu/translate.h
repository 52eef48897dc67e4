/* translate.h - a submission of this dialect as a job of ours */
#pragma once
#include "dialect/gpu/submission.h"

#define GPU_DIALECT "gpu-scheduler"

/* What the translation has to know of the host and of the user. */
struct gpu_world {
    int32_t max_gpus;          /* of one node: an elastic job may get so many */
    int64_t max_mem_bytes;     /* of the largest device; 0 = not known */
    bool on_cpu;               /* without GPUs a job runs on CPUs, if it names no GPU memory */
    const char *python;        /* the interpreter of scripts: "python3" */
    const char *snapshots_dir; /* for users who name none */
    const char *datasets_dir;  /* NULL = the user has none */
    int64_t log_limit_bytes;   /* 0 = none */
    const char *user, *home;   /* of the submitter; home NULL = not known */
};
/* *out: the job form, yours.  ERR_INVALID: no GPU here can ever hold it. */
int gpu_translate(const struct gpu_submission *s, const struct gpu_world *w, struct json **out,
                  struct err *e);
