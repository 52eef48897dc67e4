/* state.h - a job as scheduler-state shows it */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "core/core.h"
#include "store/query.h"

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
    /* of its runs */
    int32_t starts;                   /* that really ran */
    int64_t ran_ms, running_since_ms; /* 0 = does not run */
    enum run_end last_why;
    int last_exit;
    bool last_ended;
    struct gpu_set last_gpus;
    /* of the controller */
    bool has_view, has_past;
    struct gpu_view view;
    struct core_training_past past;
    struct id with[GPU_SHARE_MAX - 1], wait_for; /* zero = none */
};
void gpu_job_facts_done(struct gpu_job_facts *f);
/* "pending", "running", "stopping", "preempted", "finished", "failed", "cancelled" */
const char *gpu_job_state(const struct gpu_job_facts *f);
/* Why a waiting job waits, one sentence; "" when it does not. */
void gpu_wait_text(const struct gpu_job_facts *f, char *out, size_t n);
void gpu_job_json(struct buf *b, const struct gpu_job_facts *f, int64_t now_ms);
