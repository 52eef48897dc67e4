/* state_json.c - a job as scheduler-state shows it
 *
 * Owns: the names of the states in this dialect and the keys of a row.  Pure.
 */
#include "api/job_json.h"
#include "base/util.h"
#include "dialect/gpu/state.h"
#include <stdio.h>

enum { MIB = 1 << 20 };

void gpu_job_facts_done(struct gpu_job_facts *f)
{
    FREE_EACH(f->name, f->user, f->reason, f->node, f->waiting);
    json_free(f->spec);
    *f = (struct gpu_job_facts){0};
}

/* A job that waits again was preempted when its last run made room or was lost, and not when it
 * failed and is tried again. */
static bool was_preempted(const struct gpu_job_facts *f)
{
    if (!f->runs.starts || !f->runs.ended)
        return false;
    switch (f->runs.why) {
    case RUN_END_EXITED:
        return f->runs.exit_code == 0;
    case RUN_END_CANCELLED:
    case RUN_END_SUPERVISOR_KILLED:
    case RUN_END_NODE_LOST:
        return true;
    default:
        return false;
    }
}

const char *gpu_job_state(const struct gpu_job_facts *f)
{
    switch (f->state) {
    case JOB_QUEUED:
    case JOB_HELD:
    case JOB_STARTING:
        return was_preempted(f) ? "preempted" : "pending";
    case JOB_RUNNING:
        return f->has_view && f->view.stopping ? "stopping" : "running";
    case JOB_STOPPING:
        return "stopping";
    case JOB_SUCCEEDED:
        return "finished";
    case JOB_CANCELLED:
        return "cancelled";
    default:
        return "failed";
    }
}

/* NULL for the zero id, which stands for "none". */
static const char *id_uuid_text(struct id id, char out[ID_UUID_MAX])
{
    if (id.hi == 0 && id.lo == 0)
        return NULL;
    id_format_uuid(id, out);
    return out;
}

/* It was submitted to run without one. */
static bool on_cpu(const struct gpu_job_facts *f)
{
    return json_bool(json_get(json_get(f->spec, "extra"), "noGPU"));
}

/* Of a job that the planner of GPUs does not know: there is none for it, it wants none, or it waits
 * for its next attempt. */
static void wait_unplanned(const struct gpu_job_facts *f, char *out, size_t n)
{
    if (f->no_gpus && !on_cpu(f))
        snprintf(
            out, n,
            "no GPU: no node has one; a job submitted with --no_gpu runs on CPUs, and `berth "
            "serve --gpu-jobs-on-cpu` runs there jobs without --estimated_memory and --launch gpu");
    else if (f->waiting)
        snprintf(out, n, "the host: %s", f->waiting);
    else
        snprintf(out, n, "%s",
                 f->reason && f->reason[0] ? f->reason : "the job waits for its next attempt");
}

/* The word before a colon is shown beside the state: "pending (memory)". */
void gpu_wait_text(const struct gpu_job_facts *f, char *out, size_t n)
{
    static const char *const sentences[] = {
        [GPU_WAIT_NOTHING] = "the job starts with the next plan",
        [GPU_WAIT_GPUS] = "no GPU: all suitable GPUs are in use",
        [GPU_WAIT_MEMORY] =
            "memory: beside their running jobs the GPUs have too little free memory",
        [GPU_WAIT_CROWDED] = "memory: every GPU is shared by the largest number of jobs allowed",
        [GPU_WAIT_NO_SHARE] = "sharing off: this job or the running jobs do not share their GPUs",
        [GPU_WAIT_BEHIND] =
            "others come first: jobs that are shorter or of higher priority get the GPUs",
        [GPU_WAIT_HOST] = "the host: no slot, CPU or memory is free, or the queue is paused",
        [GPU_WAIT_CLOSED] = "the node takes no jobs: the node is drained or has no usable GPU",
    };
    char id[ID_UUID_MAX];
    const char *who = id_uuid_text(f->wait_for, id);

    out[0] = 0;
    if (f->state == JOB_STARTING)
        snprintf(out, n, "the processes of the job are starting");
    if (f->state == JOB_HELD)
        snprintf(out, n, "the job is held; `berth release` lets it start");
    if (f->state != JOB_QUEUED)
        return;
    if (!f->has_view)
        wait_unplanned(f, out, n);
    else if (f->view.wait == GPU_WAIT_RESERVED)
        snprintf(out, n, "reservation: GPUs are reserved for %s, which has waited too long",
                 who ? who : "a job");
    else
        snprintf(out, n, "%s", sentences[f->view.wait]);
}

/* ---- the row ---- */

/* "2s": two GPUs, shared with other jobs; null while the job does not run. */
static void put_gpu_count(struct buf *b, const struct gpu_job_facts *f)
{
    char text[24] = "";
    bool runs = f->state == JOB_RUNNING || f->state == JOB_STARTING || f->state == JOB_STOPPING;
    int32_t n = !runs         ? 0
                : f->has_view ? gpu_set_count(&f->view.devices)
                              : gpu_set_count(&f->runs.gpus);

    if (n > 0 || (runs && on_cpu(f)))
        snprintf(text, sizeof(text), "%d%s", n, f->has_view && f->view.n_with > 0 ? "s" : "");
    jw_str_or_null(b, "gpus", str_of(text));
}

/* Reported while the job runs; after a run that did not end well, those whose snapshot exists. */
static void put_epochs(struct buf *b, const struct gpu_job_facts *f)
{
    char text[64] = "";
    const struct json *asked = json_get(f->spec, "epochs");
    int32_t told = json_type(asked) == JSON_INT ? (int32_t)json_int(asked) : 0;
    int32_t max = f->has_view                     ? f->view.epochs
                  : f->has_past && f->past.epochs ? f->past.epochs
                                                  : told; /* until its first attempt */
    int32_t done = f->has_past ? f->past.done : f->has_view ? f->view.epochs_done : 0;

    if (max > 0)
        snprintf(text, sizeof(text), "%d/%d", done, max);
    jw_str_or_null(b, "epochs", str_of(text));
    jw_int(b, "epochs_done", done);
    jw_int(b, "max_epochs", max);
}

/* 0 stands for "not known" in the planner's view. */
static void put_positive(struct buf *b, const char *key, double v)
{
    if (v > 0)
        jw_double(b, key, v);
    else
        jw_null(b, key);
}

static void put_times(struct buf *b, const struct gpu_job_facts *f, int64_t now_ms)
{
    int64_t ran = f->runs.ran_ms;

    if (f->runs.running_since_ms)
        ran += MAX(now_ms - f->runs.running_since_ms, 0);
    jw_time(b, "submitted", f->created_ms);
    jw_time(b, "ended", f->ended_ms);
    jw_double(b, "runtime_s", (double)ran / 1000);
    /* Predictions of an ended job would be left over from before its end. */
    bool active = !job_state_final(f->state) && f->has_view;
    put_positive(b, "left_s", active ? f->view.left_s : 0);
    jw_time(b, "starts", active && !f->view.running ? f->view.start.at : 0);
    jw_time(b, "finishes", active ? f->view.finish.at : 0);
    jw_time(b, "finishes_from", active ? f->view.finish.lo : 0);
    jw_time(b, "finishes_to", active ? f->view.finish.hi : 0);
}

/* The submission as it was sent, under the column names of scheduler-state. */
static void put_asked(struct buf *b, const struct gpu_job_facts *f)
{
    static const char *const keys[][2] = {
        {"image", "dockerImage"},
        {"script", "scriptPath"},
        {"custom_dir", "directoryToMount"},
        {"snapshots_dir", "snapshotsDir"},
        {"batch_size", "batchSize"},
        {"training_set_size", "trainingSetSize"},
        {"single_gpu", "isSingleGPU"},
        {"no_sharing", "disableGPUSharing"},
        {"estimated_memory", "estimatedMemory"},
        {"ports", "portMapping"},
        {"estimate_hours", "estNHours"},
        {"deadline", "deadline"},
        {"max_retries", "maxRetries"},
        {"launch", "launch"},
        {"torch_backend", "torchBackend"},
        {"no_gpu", "noGPU"},
    };
    const struct json *extra = json_get(f->spec, "extra");

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        jw_json(b, keys[i][0], json_get(extra, keys[i][1]));
    /* Jobs of other interfaces may have priorities outside of the five of this one. */
    jw_int(b, "priority", MIN(MAX(f->priority + 3, 1), 5));
}

static void put_with(struct buf *b, const struct gpu_job_facts *f)
{
    char id[ID_UUID_MAX];

    jw_array(b, "shares_with");
    for (int32_t i = 0; f->has_view && i < f->view.n_with; i++)
        if (id_uuid_text(f->with[i], id))
            jw_text(b, NULL, id);
    jw_end_array(b);
}

/* Measurements of an active job come from the planner, of an ended job from its record. */
static void put_measured(struct buf *b, const struct gpu_job_facts *f)
{
    bool view = f->has_view, past = f->has_past;
    int64_t measured = view ? f->view.measured_bytes : past ? f->past.measured_bytes : 0;
    int64_t reserved = view && f->view.reserved_bytes ? f->view.reserved_bytes
                       : past                         ? f->past.reserved_bytes
                                                      : 0;
    char wait[400];

    jw_int(b, "measured_memory", measured / MIB);
    jw_int(b, "reserved", reserved / MIB);
    put_positive(b, "estimate_now_hours", view ? f->view.estimate_s / 3600 : 0);
    jw_double(b, "overrun", view ? f->view.overrun : 0);
    jw_int(b, "attempts", f->runs.starts);
    jw_int(b, "preemptions", past ? f->past.preemptions : view ? f->view.preemptions : 0);
    put_positive(b, "epoch_s", past ? f->past.epoch_s : 0);
    put_positive(b, "step_s", past ? f->past.step_s : 0);
    put_with(b, f);
    gpu_wait_text(f, wait, sizeof(wait));
    jw_str_or_null(b, "wait_reason", str_of(wait));
    jw_bool(b, "early", past && f->past.early && f->state == JOB_SUCCEEDED);
}

void gpu_job_json(struct buf *b, const struct gpu_job_facts *f, int64_t now_ms)
{
    char id[ID_UUID_MAX];

    id_format_uuid(f->id, id);
    jw_object(b, NULL);
    jw_text(b, "id", id);
    jw_int(b, "number", (int64_t)f->number);
    jw_text(b, "name", f->name);
    jw_text(b, "user", f->user);
    jw_text(b, "state", gpu_job_state(f));
    put_epochs(b, f);
    put_gpu_count(b, f);
    jw_str_or_null(b, "node", str_of(f->node));
    put_times(b, f, now_ms);
    put_asked(b, f);
    put_measured(b, f);
    jw_int_or_null(b, "exit", f->exit_code, f->exit_code >= 0 && job_state_final(f->state));
    jw_str_or_null(b, "reason", str_of(f->reason));
    jw_end_object(b);
}
