/* fuzz_trace.c - traces and tables: what is read is a trace that every policy can play
 *
 * The first byte says how: with or without a table, which window, what load.
 */
#include "base/util.h"
#include "simulate/sim.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char table_text[] =
    "{\"a\": {\"1\": {\"alone\": 3, \"a\": 2, \"b\": 1}, \"2\": {\"alone\": 5, \"a\": 3}},"
    " \"b\": {\"1\": {\"alone\": 2, \"a\": 1}}}";
enum { GPUS = 4, JOBS_PLAYED = 20 };

static void check_jobs(const struct sim_trace *t, const struct sim_table *table)
{
    double last = 0;

    for (size_t i = 0; i < t->jobs.n; i++) {
        const struct sim_job *j = &t->jobs.p[i];
        ASSERT(j->name && j->gpus >= 1 && j->gpus <= GPUS);
        ASSERT(j->arrival_s >= last && isfinite(j->arrival_s) && isfinite(j->deadline_s));
        ASSERT(j->isolated_s > 0 && j->steps > 0 && isfinite(j->isolated_s * j->steps));
        ASSERT(j->priority >= -2 && j->priority <= 2 && j->epochs >= 0);
        ASSERT(!table || sim_table_rate(table, (uint32_t)j->type, j->gpus, SIM_ALONE) > 0);
        last = j->arrival_s;
    }
}

/* Epochs cost an event each: only traces that are over soon are played. */
static bool is_short(const struct sim_trace *t)
{
    for (size_t i = 0; i < t->jobs.n; i++)
        if (t->jobs.p[i].epochs > 50)
            return false;
    return true;
}

static void play(const struct sim_trace *t, const struct sim_table *table, uint8_t how)
{
    static const char *const names[] = {"fifo", "srtf", "las", "pack"};
    struct sim_conf conf = {.table = table,
                            .gpus = GPUS,
                            .epoch_s = 1e8,
                            .restart_s = 60,
                            .share = 2,
                            .noise = how & 8 ? 1 : 0};
    struct sim_result r;
    struct err e = {0};

    ASSERT(sim_run(t, &conf, names[how >> 4 & 3], &r, &e) == 0);
    for (size_t i = 0; i < t->jobs.n; i++)
        ASSERT(r.jobs[i].attempts >= 1 && r.jobs[i].end_s >= t->jobs.p[i].arrival_s);
    sim_result_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t how = n ? data[0] : 0;
    struct str text = {(const char *)data + (n > 0), n - (n > 0)};
    struct sim_table table = {0}, other = {0};
    struct sim_trace t = {0};
    struct err e = {0};

    ASSERT(sim_table_parse(STR(table_text), "t", &table, &e) == 0);
    if (how & 1 && sim_table_parse(text, "f", &other, &e) < 0)
        ASSERT(e.code && e.text[0]);
    e = (struct err){0};
    const struct sim_table *used = how & 2 ? &table : NULL;
    if (sim_trace_parse(text, "f", &t, &e) < 0 ||
        sim_trace_cut(&t, how & 4 ? 1 : 0, JOBS_PLAYED, &e) < 0 ||
        sim_trace_bind(&t, used, GPUS, how, "f", &e) < 0) {
        ASSERT(e.code && e.text[0]);
    } else {
        if (how & 128)
            sim_trace_load(&t, GPUS, 0.9);
        check_jobs(&t, used);
        if (is_short(&t))
            play(&t, used, how);
    }
    sim_trace_done(&t);
    sim_table_done(&table);
    sim_table_done(&other);
    return 0;
}
