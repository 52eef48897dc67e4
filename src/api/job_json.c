/* job_json.c - a job as JSON
 *
 * Owns: the one form in which a job leaves the program.
 *
 * Params and command are kept as JSON text in the store and pass through.
 *
 * duration_ms is null until the job has ended.  A client that shows a running clock uses `started`;
 * so the record of a running job stays the same and keeps its ETag.
 */
#include "api/job_json.h"
#include "base/clock.h"
#include "base/util.h"
#include "core/core.h"

void jw_gpus(struct buf *b, const char *key, const struct gpu_set *s)
{
    AUTO(buf) struct buf text = {0};

    if (!gpu_set_empty(s))
        gpu_set_format(s, &text);
    jw_str_or_null(b, key, buf_str(&text));
}

/* Written without a double, so that no rounding error shows: 100 is 0.1. */
void jw_mcpu(struct buf *b, const char *key, int64_t mcpu)
{
    char frac[4] = {(char)('0' + mcpu / 100 % 10), (char)('0' + mcpu / 10 % 10),
                    (char)('0' + mcpu % 10), 0};
    size_t n = 3;

    jw_int(b, key, mcpu / 1000);
    while (n > 0 && frac[n - 1] == '0')
        n--;
    if (n > 0) {
        buf_addc(b, '.');
        buf_add(b, frac, n);
    }
}

void jw_counts(struct buf *b, const uint64_t counts[JOB_STATE_MAX])
{
    for (int i = 0; i < JOB_STATE_MAX; i++)
        jw_int(b, job_state_name(job_states[i]), (int64_t)counts[job_states[i]]);
}

/* Identity and outcome: the first members of JOB_JSON_KEYS. */
static void put_what(struct buf *b, const struct job_view *v)
{
    jw_object(b, NULL);
    jw_id(b, "id", v->id);
    jw_int(b, "number", (int64_t)v->seq);
    jw_str(b, "name", v->name);
    jw_text(b, "state", job_state_name(v->state));
    jw_int_or_null(b, "exit_code", v->exit_code, v->exit_code >= 0);
    jw_str_or_null(b, "reason", v->reason);
    jw_str(b, "project", v->project);
    jw_str(b, "queue", v->queue);
    jw_str(b, "user", v->user);
    jw_raw(b, "params", v->params.n ? v->params : STR("{}"));
    jw_raw(b, "command", v->origin.command.n ? v->origin.command : STR("null"));
    jw_int(b, "priority", v->priority);
    jw_int(b, "attempt", v->attempt);
    jw_str_or_null(b, "schedule", v->origin.schedule);
}

static void put_batch(struct buf *b, const struct job_view *v)
{
    if (v->batch.seq == 0) {
        jw_null(b, "batch");
        jw_null(b, "batch_name");
        jw_null(b, "index");
        return;
    }
    jw_id(b, "batch", v->batch.id);
    jw_str_or_null(b, "batch_name", v->batch.name);
    jw_int(b, "index", v->batch.index);
}

/* The recorded progress of a training; null for jobs that do not train. */
static void job_put_training(struct buf *b, struct str recorded)
{
    struct core_training_past p;

    if (!recorded.n || !core_training_parse(recorded, &p)) {
        jw_null(b, "training");
        return;
    }
    jw_object(b, "training");
    jw_int(b, "epochs", p.epochs);
    jw_int(b, "done", p.done);
    jw_int(b, "confirmed", p.confirmed);
    jw_int(b, "attempts", p.attempts);
    jw_int(b, "preemptions", p.preemptions);
    jw_int(b, "reserved_bytes", p.reserved_bytes);
    jw_int(b, "measured_bytes", p.measured_bytes);
    jw_double(b, "epoch_s", p.epoch_s);
    jw_double(b, "step_s", p.step_s);
    jw_bool(b, "early", p.early);
    jw_bool(b, "complete", p.complete);
    jw_end_object(b);
}

void job_json_begin(struct buf *b, const struct job_view *v)
{
    put_what(b, v);
    put_batch(b, v);
    jw_time(b, "created", v->created_ms);
    jw_time(b, "started", v->started_ms);
    jw_time(b, "ended", v->ended_ms);
    jw_int_or_null(b, "duration_ms", MAX(v->ended_ms - v->started_ms, 0),
                   v->started_ms && v->ended_ms);
    jw_int(b, "ran_ms", v->ran_ms);
    jw_int(b, "max_rss_bytes", v->usage.max_rss_bytes);
    jw_int(b, "cpu_ms", v->usage.cpu_ms);
    jw_mcpu(b, "cpus", v->need.mcpu);
    jw_int(b, "mem_bytes", v->need.mem_bytes);
    jw_int(b, "gpus", v->need.gpus);
    jw_bool(b, "cancel_requested", v->cancel_requested);
    job_put_training(b, v->training);
}

void job_json_open(struct buf *b, const struct job_view *v)
{
    job_json_begin(b, v);
    jw_null(b, "gpu");
}

void job_json(struct buf *b, const struct job_view *v)
{
    job_json_open(b, v);
    jw_end_object(b);
}
