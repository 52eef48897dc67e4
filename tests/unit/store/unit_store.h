/* unit_store.h - cmocka and a store for each test */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fixture.h"

static inline int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    struct err e = {0};

    if (!fixture_open(f, &e))
        fail_msg("%s", e.text);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    fixture_close(f);
    free(f);
    return 0;
}

#define with_store(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static inline void sync_ok(struct fixture *f)
{
    struct err e = fixture_sync(f);
    if (e.code)
        fail_msg("%s", e.text);
}

static inline void no_err(const struct err *e)
{
    if (e->code)
        fail_msg("%s", e->text);
}

/* One job, or n of one spec; the number of the first. */
static inline uint64_t submit_n(struct fixture *f, size_t n)
{
    uint64_t first = f->next_job;
    stage_submit(f, built_new(f, n, 1));
    sync_ok(f);
    return first;
}

static inline void run_to_end(struct fixture *f, uint64_t job, uint32_t run, int status)
{
    stage_run_new(f, job, run);
    stage_run_started(f, job, run);
    stage_run_ended(f, job, run, status);
}

/* A copy of the view of one job; its text is in `text`. */
struct seen {
    struct job_view v;
    char name[64], project[64], params[128], reason[256], command[128], batch_name[64];
};

static inline void keep_text(char *out, size_t n, struct str s)
{
    snprintf(out, n, STR_FMT, STR_ARG(s));
}

static inline bool see(void *arg, const struct job_view *v)
{
    struct seen *s = arg;
    s->v = *v;
    keep_text(s->name, sizeof(s->name), v->name);
    keep_text(s->project, sizeof(s->project), v->project);
    keep_text(s->params, sizeof(s->params), v->params);
    keep_text(s->reason, sizeof(s->reason), v->reason);
    keep_text(s->command, sizeof(s->command), v->origin.command);
    keep_text(s->batch_name, sizeof(s->batch_name), v->batch.name);
    return true;
}

static inline struct seen view_of(struct fixture *f, uint64_t job)
{
    struct seen s = {0};
    struct err e = {0};

    if (store_job(f->store, job, see, &s, &e) < 0)
        fail_msg("%s", e.text);
    return s;
}

static inline void check_sound(struct fixture *f)
{
    struct buf b;
    struct err e = {0};

    buf_init(&b, 1 << 20);
    if (store_check(f->path, &b, &e) < 0)
        fail_msg("%s", e.text);
    if (b.n)
        fail_msg("store_check: %s", b.p);
    buf_done(&b);
}
