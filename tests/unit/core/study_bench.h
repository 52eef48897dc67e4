/* study_bench.h - a controller with studies for tests: asks, tells, proposals that wait */
#pragma once
#include "base/util.h"
#include "core/bench.h"
#include "core/study.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct caller owner = {.uid = 1000, .user = "ada"};
static const struct caller stranger = {.uid = 2000, .user = "eve"};
#define TWO                                                                                        \
    "{\"space\": {\"x\": {\"uniform\": [0, 1]}}, \"objective\": [{\"minimize\": \"loss\"}, "       \
    "{\"maximize\": \"acc\"}]"

#define SPACE "{\"space\": {\"x\": {\"uniform\": [0, 1]}}, \"objective\": {\"minimize\": \"loss\"}"

/* Proposals that wait for the test, and what ops->trial does. */
struct held {
    void (*work)(void *), (*done)(void *);
    void *x;
};
static struct {
    VEC(struct held) held;
    bool hold;          /* keep proposals */
    enum err_code fail; /* 0 = make the job */
    int trials;         /* calls of ops->trial */
    /* Of the last answer. */
    size_t told, points, answers;
    uint64_t first; /* its first point */
    uint32_t turn;  /* its hold */
    size_t leased;
    char params[80];
    bool exhausted;
    struct err err;
} t;

static inline bool on_offload(void *self, void (*work)(void *), void (*done)(void *), void *x)
{
    (void)self;
    if (t.hold)
        vec_push(&t.held, ((struct held){work, done, x}));
    return t.hold;
}

static inline void let_go(struct bench *b)
{
    t.hold = false;
    while (t.held.n) {
        struct held h = t.held.p[0];
        vec_remove(&t.held, 0);
        h.work(h.x);
        h.done(h.x);
    }
    bench_settle(b, 0);
}

struct one {
    struct submission s;
    struct spec_row spec;
    struct job_row job;
};

static inline void free_one(struct submission *s)
{
    free(s);
}

static inline void on_trial(void *self, struct trial_launch *l)
{
    struct one *x = xcalloc(1, sizeof(*x));
    struct err e = {0};

    (void)self;
    t.trials++;
    if (t.fail) {
        err_set(&e, t.fail, "no such directory");
        free(x);
        core_trial_take(l, NULL, &e);
        return;
    }
    x->spec = (struct spec_row){.body = STR("{}"),
                                .name = STR("n"),
                                .project = STR("p"),
                                .queue = STR("default"),
                                .need = {.slots = 1}};
    x->s = (struct submission){
        .specs = &x->spec, .n_specs = 1, .jobs = &x->job, .n_jobs = 1, .free_fn = free_one};
    core_trial_take(l, &x->s, NULL);
}

static const struct core_ops ops = {.offload = on_offload, .trial = on_trial};

static inline int setup(void **state)
{
    struct bench *b = bench_new(&(struct core_conf){.ops = &ops}, 1, 2);

    memset(&t, 0, sizeof(t));
    bench_boot(b);
    *state = b;
    return 0;
}

static inline int teardown(void **state)
{
    bench_free(*state);
    vec_done(&t.held);
    return 0;
}

static inline void on_acted(void *arg, const struct err *e, const struct acted *r)
{
    (void)arg;
    (void)r;
    t.answers++;
    t.err = e ? *e : (struct err){0};
}

static inline void on_answer(void *arg, const struct err *e, const struct study_answer *r)
{
    (void)arg;
    t.answers++;
    t.err = e ? *e : (struct err){0};
    t.told = r ? r->told : 0;
    t.points = r ? r->n : 0;
    t.first = r && r->n ? r->points[0].number : 0;
    t.turn = r && r->n ? r->points[0].hold : 0;
    t.leased = r ? r->leased : 0;
    snprintf(t.params, sizeof(t.params), "%s", r && r->n ? r->points[0].params : "");
    t.exhausted = r && r->exhausted;
}

static inline const struct study *add(struct bench *b, const char *name, const char *def)
{
    AUTO(json) struct json *j = NULL;
    struct err e;

    assert_int_equal(json_parse(str_of(def), "definition", &j, &e), 0);
    core_study_add(b->core, str_of(name), j, 0, &owner, on_acted, b);
    bench_settle(b, 0);
    return core_study_find(b->core, str_of(name), owner.uid);
}

static inline void exchange(struct bench *b, const struct study *s, const struct study_result *r,
                            size_t n, size_t want, const struct caller *who)
{
    core_study_exchange(b->core, s->seq, r, n, &(struct study_ask){want, 0}, who, on_answer, b);
}

/* Asks for a trial under a lease of ten seconds. */
static inline void ask_leased(struct bench *b, const struct study *s)
{
    core_study_exchange(b->core, s->seq, NULL, 0, &(struct study_ask){1, 10}, &owner, on_answer, b);
    bench_settle(b, 0);
}

static inline void tell_held(struct bench *b, const struct study *s, uint64_t number, uint32_t hold)
{
    struct study_result r = {
        .number = number, .state = TRIAL_DONE, .values = {1}, .n_values = 1, .hold = hold};

    exchange(b, s, &r, 1, 0, &owner);
    bench_settle(b, 0);
}

static inline bool renew_held(struct bench *b, const struct study *s, uint64_t number,
                              uint32_t hold)
{
    bool lost = false;
    struct err e;

    assert_int_equal(core_study_renew(b->core, s->seq, &(struct study_holding){number, hold}, 1,
                                      &owner, &lost, &e),
                     0);
    return !lost;
}

static inline void pass_seconds(struct bench *b, int n)
{
    world_advance(&b->world, n * 1000);
    bench_settle(b, 0);
}
