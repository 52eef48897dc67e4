/* state.h - a job as scheduler-state shows it */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "core/core.h"
#include "store/query.h"

/* The runs of a job, summed up. */
struct gpu_run_facts {
    int32_t starts;           /* runs whose command began */
    int64_t ran_ms;           /* of all runs that ended */
    int64_t running_since_ms; /* 0 = the job does not run */
    /* Of the last run. */
    enum run_end why;
    int exit_code;
    bool ended;
    struct gpu_set gpus;
};
/* Everything that is shown, gathered from the store and from the controller. */
struct gpu_job_facts {
    uint64_t number;
    struct id id;
    char *name, *user, *reason, *node;
    uint32_t uid;
    enum job_state state;
    int exit_code; /* -1 = none */
    int64_t created_ms, ended_ms;
    int32_t priority;
    struct json *spec; /* the job form; NULL when it could not be read */
    struct gpu_run_facts runs;
    /* of the controller */
    bool has_view, has_past;
    struct gpu_view view;
    struct core_training_past past;
    struct id with[GPU_SHARE_MAX - 1], wait_for; /* zero = none */
    bool no_gpus;                                /* no node has a GPU */
    char *waiting; /* why, of a job that the planner of GPUs does not know; NULL = not asked */
};
/* Frees the members; the struct is zeroed. */
void gpu_job_facts_done(struct gpu_job_facts *f);
/* "pending", "running", "stopping", "preempted", "finished", "failed", "cancelled" */
const char *gpu_job_state(const struct gpu_job_facts *f);
/* Why a waiting job waits, one sentence; "" when it does not. */
void gpu_wait_text(const struct gpu_job_facts *f, char *out, size_t n);
/* Appends one row.  now_ms (wall clock) is for the run time of a job that runs. */
void gpu_job_json(struct buf *b, const struct gpu_job_facts *f, int64_t now_ms);
