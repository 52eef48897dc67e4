/* fixture.h - a store in a temporary directory, and changes as the controller makes them */
#pragma once
#include "base/arena.h"
#include "base/file.h"
#include "base/util.h"
#include "base/vec.h"
#include "store/query.h"
#include "store/store.h"
#include "store/track.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct fixture {
    char dir[128];
    char *path;
    struct store *store;
    struct ledger ledger;
    uint64_t next_job, next_spec, next_batch;
    int64_t now_ms;
};

/* ---- submissions: everything lives in one arena behind the struct ---- */
struct built {
    struct submission s; /* first: the store frees through it */
    struct arena a;
};

static inline void built_free(struct submission *s)
{
    struct built *b = (struct built *)s;
    arena_done(&b->a);
    free(b);
}

static inline struct str built_str(struct built *b, const char *text)
{
    return str_of(arena_strdup(&b->a, text));
}

/* n jobs over n_specs specs (1, or n: one each), with params {"lr":…,"depth":…}. */
static inline struct built *built_new(struct fixture *f, size_t n, size_t n_specs)
{
    static const char body[] =
        "{\"name\":\"train\",\"project\":\"default\",\"command\":[\"python\",\"train.py\",\"--lr\","
        "\"{lr}\"],\"resources\":{\"cpus\":1},\"env\":{\"PATH\":\"/usr/local/bin:/usr/bin:/bin\","
        "\"HOME\":\"/home/ann\",\"LANG\":\"C.UTF-8\",\"PYTHONUNBUFFERED\":\"1\"}}";
    struct built *b = xcalloc(1, sizeof(*b));
    struct rng rng;

    rng_seed(&rng, f->next_job);
    struct id id = id_make(f->now_ms, &rng);
    b->s.free_fn = built_free;
    b->s.n_specs = n_specs;
    b->s.user = STR("ann");
    b->s.uid = b->s.gid = 1000;
    b->s.specs = arena_alloc(&b->a, n_specs * sizeof(*b->s.specs));
    for (size_t i = 0; i < n_specs; i++)
        b->s.specs[i] = (struct spec_row){
            .seq = f->next_spec++,
            .body = STR(body),
            .name = STR("train"),
            .project = STR("default"),
            .queue = STR("default"),
            .need = {.mcpu = 1000, .slots = 1},
            .backoff_ms = 1000,
            .retries = 2,
            .retry_lost = 1,
        };
    b->s.n_jobs = n;
    b->s.jobs = arena_alloc(&b->a, n * sizeof(*b->s.jobs));
    for (size_t i = 0; i < n; i++) {
        char *params =
            arena_printf(&b->a, "{\"lr\":%g,\"depth\":%zu}", (double)(i % 1000) / 1000, i % 7);
        b->s.jobs[i] = (struct job_row){
            .seq = f->next_job++,
            .id = id_add(id, i),
            .spec = b->s.specs[n_specs == 1 ? 0 : i].seq,
            .index = (int64_t)i,
            .params = str_of(params),
        };
    }
    return b;
}

static inline void built_batch(struct fixture *f, struct built *b, const char *name, int32_t slots)
{
    struct rng rng;

    rng_seed(&rng, 77 + f->next_batch);
    b->s.batch = (struct batch_row){
        .seq = f->next_batch++,
        .id = id_make(f->now_ms, &rng),
        .name = built_str(b, name),
        .project = STR("default"),
        .slots = slots,
        .uid = 1000,
        .first_job = b->s.jobs[0].seq,
        .n_jobs = b->s.n_jobs,
    };
    for (size_t i = 0; i < b->s.n_jobs; i++)
        b->s.jobs[i].batch = b->s.batch.seq;
}

/* ---- the store ---- */
static inline bool fixture_reopen(struct fixture *f, struct err *e)
{
    store_close(f->store);
    f->store = NULL;
    if (store_open(&f->store, f->path, NULL, NULL, e) < 0)
        return false;
    f->ledger = store_ledger(f->store);
    return true;
}

static inline bool fixture_open_in(struct fixture *f, const char *parent, struct err *e)
{
    *f = (struct fixture){.next_job = 1, .next_spec = 1, .next_batch = 1, .now_ms = 1700000000000};
    snprintf(f->dir, sizeof(f->dir), "%s/berth-store-XXXXXX", parent);
    if (!mkdtemp(f->dir)) {
        err_sys(e, "cannot make %s", f->dir);
        return false;
    }
    f->path = path_join(f->dir, "berth.db");
    return fixture_reopen(f, e);
}

static inline bool fixture_open(struct fixture *f, struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    return fixture_open_in(f, tmp ? tmp : "/tmp", e);
}

static inline void fixture_close(struct fixture *f)
{
    store_close(f->store);
    if (f->dir[0])
        dir_remove_tree(f->dir, NULL);
    free(f->path);
    *f = (struct fixture){0};
}

static inline void fixture_stage(struct fixture *f, const struct change *c)
{
    f->ledger.stage(f->ledger.self, c);
}

/* What a barrier heard. */
struct heard {
    bool called;
    struct err e; /* code 0 = durable */
};

static inline void on_heard(void *arg, const struct err *e)
{
    struct heard *h = arg;
    h->called = true;
    if (e)
        h->e = *e;
}

/* Flushes and waits until all that was staged is durable or refused. */
static inline struct err fixture_sync(struct fixture *f)
{
    struct heard h = {0};

    f->ledger.barrier(f->ledger.self, on_heard, &h);
    store_flush(f->store);
    while (!h.called) {
        usleep(50);
        store_drain(f->store);
    }
    return h.e;
}

static inline void stage_submit(struct fixture *f, struct built *b)
{
    fixture_stage(
        f, &(struct change){
               .kind = CHANGE_SUBMIT, .at_ms = f->now_ms, .user = STR("ann"), .submission = &b->s});
}

static inline void stage_run_new(struct fixture *f, uint64_t job, uint32_t run)
{
    fixture_stage(
        f, &(struct change){.kind = CHANGE_RUN_NEW,
                            .at_ms = f->now_ms,
                            .run_new = {.key = {job, run}, .node = STR("local"), .journal = 1}});
}

static inline void stage_run_started(struct fixture *f, uint64_t job, uint32_t run)
{
    fixture_stage(
        f, &(struct change){.kind = CHANGE_RUN_STARTED,
                            .at_ms = f->now_ms + 1,
                            .run_started = {.key = {job, run}, .pid = 4242, .pid_start = 99}});
}

static inline void stage_points(struct fixture *f, uint64_t job, uint32_t run, const char *name,
                                const struct series_point *p, size_t n)
{
    AUTO(buf) struct buf block = {0};

    buf_init(&block, 1 << 20);
    series_pack(&block, p, n);
    fixture_stage(
        f, &(struct change){
               .kind = CHANGE_POINTS,
               .points = {.key = {job, run}, .name = str_of(name), .block = buf_str(&block)}});
}

static inline void stage_point(struct fixture *f, uint64_t job, const char *name, int64_t step,
                               double value)
{
    stage_points(f, job, 1, name, &(struct series_point){step, f->now_ms, value}, 1);
}

static inline void stage_point_text(struct fixture *f, uint64_t job, const char *name,
                                    const char *text)
{
    fixture_stage(f, &(struct change){.kind = CHANGE_TEXT_POINT,
                                      .text_point = {.key = {job, 1},
                                                     .name = str_of(name),
                                                     .step = 4,
                                                     .text = str_of(text)}});
}

static inline void stage_mark(struct fixture *f, uint64_t job, char kind, const char *name,
                              int64_t step, const char *text)
{
    fixture_stage(f, &(struct change){.kind = CHANGE_MARK,
                                      .at_ms = f->now_ms,
                                      .mark = {.key = {job, 1},
                                               .kind = kind,
                                               .name = str_of(name),
                                               .step = step,
                                               .text = str_of(text)}});
}

/* The exit status decides between succeeded and failed. */
static inline void stage_run_ended(struct fixture *f, uint64_t job, uint32_t run, int status)
{
    fixture_stage(f, &(struct change){.kind = CHANGE_RUN_ENDED,
                                      .at_ms = f->now_ms + 5,
                                      .run_ended = {.key = {job, run},
                                                    .next = status ? JOB_FAILED : JOB_SUCCEEDED,
                                                    .outcome = {.why = RUN_END_EXITED,
                                                                .wait_status = status << 8,
                                                                .started_ms = f->now_ms + 1,
                                                                .ended_ms = f->now_ms + 5,
                                                                .max_rss_bytes = 1 << 20,
                                                                .cpu_user_ms = 3,
                                                                .cpu_sys_ms = 1}}});
}
