/* job_json.c - a job as JSON
 *
 * Owns: the one form in which a job leaves the program.
 *
 * Bytes go straight into the buffer, without a tree and without printf: a page of 10 000 jobs is
 * 250 000 members.  Params and command are kept as JSON text in the store and pass through.
 *
 * duration_ms is null until the job has ended: whoever shows a clock has `started`, and a running
 * job's record keeps its ETag.
 */
#include "api/job_json.h"
#include "base/clock.h"
#include "base/util.h"
#include "core/core.h"

static void put_i64(struct buf *b, int64_t v)
{
    char text[24];
    size_t at = sizeof(text);
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

    do {
        text[--at] = (char)('0' + u % 10);
        u /= 10;
    } while (u > 0);
    if (v < 0)
        text[--at] = '-';
    buf_add(b, text + at, sizeof(text) - at);
}

void put_gpus(struct buf *b, const char *key, const struct gpu_set *s)
{
    buf_adds(b, key);
    if (gpu_set_empty(s)) {
        buf_adds(b, "null");
        return;
    }
    buf_addc(b, '"');
    gpu_set_format(s, b);
    buf_addc(b, '"');
}

void put_raw(struct buf *b, const char *key, struct str json)
{
    buf_adds(b, key);
    buf_add(b, json.p, json.n);
}

void put_str(struct buf *b, const char *key, struct str s)
{
    buf_adds(b, key);
    buf_add_json_str(b, s);
}

void put_null(struct buf *b, const char *key)
{
    put_raw(b, key, STR("null"));
}

void put_str_or_null(struct buf *b, const char *key, struct str s)
{
    if (s.n > 0)
        put_str(b, key, s);
    else
        put_null(b, key);
}

void put_int(struct buf *b, const char *key, int64_t v)
{
    buf_adds(b, key);
    put_i64(b, v);
}

void put_bool(struct buf *b, const char *key, bool v)
{
    put_raw(b, key, v ? STR("true") : STR("false"));
}

void put_double(struct buf *b, const char *key, double v)
{
    buf_adds(b, key);
    buf_add_json_double(b, v);
}

void put_time(struct buf *b, const char *key, int64_t wall_ms)
{
    char text[TIME_TEXT_MAX];

    if (wall_ms == 0) {
        put_null(b, key);
        return;
    }
    time_format_utc(wall_ms, text);
    buf_adds(b, key);
    buf_addc(b, '"');
    buf_adds(b, text);
    buf_addc(b, '"');
}

void put_id(struct buf *b, const char *key, struct id id)
{
    char text[ID_TEXT_MAX];

    id_format(id, text);
    buf_adds(b, key);
    buf_addc(b, '"');
    buf_add(b, text, ID_TEXT_LEN);
    buf_addc(b, '"');
}

void put_mcpu(struct buf *b, const char *key, int64_t mcpu)
{
    char frac[4] = {(char)('0' + mcpu / 100 % 10), (char)('0' + mcpu / 10 % 10),
                    (char)('0' + mcpu % 10), 0};
    size_t n = 3;

    put_int(b, key, mcpu / 1000);
    while (n > 0 && frac[n - 1] == '0')
        n--;
    if (n > 0) {
        buf_addc(b, '.');
        buf_add(b, frac, n);
    }
}

void put_counts(struct buf *b, const uint64_t counts[JOB_STATE_MAX])
{
    for (int i = 0; i < JOB_STATE_MAX; i++) {
        if (i > 0)
            buf_addc(b, ',');
        buf_addc(b, '"');
        buf_adds(b, job_state_name(job_states[i]));
        put_int(b, "\":", (int64_t)counts[job_states[i]]);
    }
}

static void put_what(struct buf *b, const struct job_view *v)
{
    put_id(b, "{\"id\":", v->id);
    put_int(b, ",\"number\":", (int64_t)v->seq);
    put_str(b, ",\"name\":", v->name);
    put_str(b, ",\"state\":", str_of(job_state_name(v->state)));
    if (v->exit_code >= 0)
        put_int(b, ",\"exit_code\":", v->exit_code);
    else
        put_null(b, ",\"exit_code\":");
    put_str_or_null(b, ",\"reason\":", v->reason);
    put_str(b, ",\"project\":", v->project);
    put_str(b, ",\"queue\":", v->queue);
    put_str(b, ",\"user\":", v->user);
    put_raw(b, ",\"params\":", v->params.n ? v->params : STR("{}"));
    put_raw(b, ",\"command\":", v->command.n ? v->command : STR("null"));
    put_int(b, ",\"priority\":", v->priority);
    put_int(b, ",\"attempt\":", v->attempt);
}

static void put_batch(struct buf *b, const struct job_view *v)
{
    if (v->batch == 0) {
        buf_adds(b, ",\"batch\":null,\"batch_name\":null,\"index\":null");
        return;
    }
    put_id(b, ",\"batch\":", v->batch_id);
    put_str_or_null(b, ",\"batch_name\":", v->batch_name);
    put_int(b, ",\"index\":", v->index);
}

/* What is recorded of its training; nothing for jobs that do not train. */
static void put_training(struct buf *b, struct str recorded)
{
    struct core_training_past p;

    if (!recorded.n || !core_training_parse(recorded, &p)) {
        put_null(b, ",\"training\":");
        return;
    }
    put_int(b, ",\"training\":{\"epochs\":", p.epochs);
    put_int(b, ",\"done\":", p.done);
    put_int(b, ",\"attempts\":", p.attempts);
    put_int(b, ",\"preemptions\":", p.preemptions);
    put_int(b, ",\"reserved_bytes\":", p.reserved_bytes);
    put_int(b, ",\"measured_bytes\":", p.measured_bytes);
    put_double(b, ",\"epoch_s\":", p.epoch_s);
    put_double(b, ",\"step_s\":", p.step_s);
    put_bool(b, ",\"early\":", p.early);
    put_bool(b, ",\"complete\":", p.complete);
    buf_addc(b, '}');
}

void job_json_open(struct buf *b, const struct job_view *v)
{
    put_what(b, v);
    put_batch(b, v);
    put_time(b, ",\"created\":", v->created_ms);
    put_time(b, ",\"started\":", v->started_ms);
    put_time(b, ",\"ended\":", v->ended_ms);
    if (v->started_ms && v->ended_ms)
        put_int(b, ",\"duration_ms\":", MAX(v->ended_ms - v->started_ms, 0));
    else
        put_null(b, ",\"duration_ms\":");
    put_int(b, ",\"max_rss_bytes\":", v->max_rss_bytes);
    put_int(b, ",\"cpu_ms\":", v->cpu_ms);
    put_mcpu(b, ",\"cpus\":", v->need.mcpu);
    put_int(b, ",\"mem_bytes\":", v->need.mem_bytes);
    put_int(b, ",\"gpus\":", v->need.gpus);
    put_bool(b, ",\"cancel_requested\":", v->cancel_requested);
    put_training(b, v->training);
    put_null(b, ",\"gpu\":");
}

void job_json(struct buf *b, const struct job_view *v)
{
    job_json_open(b, v);
    buf_addc(b, '}');
}
