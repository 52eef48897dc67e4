/* test_engine.c - the job model and the reference policies, on schedules worked out by hand */
#include "base/rand.h"
#include "case.h"
#include <math.h>

#define HEADER "job,arrival,type,gpus,steps,isolated_s\n"

static struct sim_result play(const struct sim_trace *t, const struct sim_conf *conf,
                              const char *policy)
{
    struct sim_result r;
    struct err e = {0};

    if (sim_run(t, conf, policy, &r, &e) < 0)
        fail_msg("%s", e.text);
    return r;
}

static void ran(const struct sim_result *r, size_t job, double start, double end, int attempts)
{
    assert_float_equal(r->jobs[job].start_s, start, 1e-3);
    assert_float_equal(r->jobs[job].end_s, end, 1e-3);
    assert_int_equal(r->jobs[job].attempts, attempts);
}

static void fifo_waits_its_turn(void **state)
{
    struct sim_conf conf = plain_conf(2);
    struct sim_trace t = trace_of(HEADER "a,0,x,1,,1200\nb,10,x,2,,600\nc,20,x,1,,600\n", &conf);
    struct sim_result r = play(&t, &conf, "fifo");

    (void)state;
    ran(&r, 0, 0, 1230, 1); /* a first start costs half of a restart */
    ran(&r, 1, 1230, 1860, 1);
    ran(&r, 2, 1860, 2490, 1); /* there was a device for it, but b came first */
    assert_float_equal(r.jobs[1].gpu_s, 2 * 630, 1e-3);
    assert_float_equal(r.summary.avg_jct_s, (1230 + 1850 + 2470) / 3.0, 1e-3);
    assert_float_equal(r.summary.makespan_s, 2490, 1e-3);
    assert_float_equal(r.summary.utilisation, (1230 + 1260 + 630) / (2 * 2490.0), 1e-6);
    assert_int_equal(r.summary.restarts, 0);
    sim_result_done(&r);
    sim_trace_done(&t);
}

static void srtf_stops_the_longer_at_its_epoch_end(void **state)
{
    struct sim_conf conf = plain_conf(1);
    struct sim_trace t = trace_of(HEADER "long,0,x,1,,6000\nshort,100,x,1,,1200\n", &conf);
    struct sim_result r = play(&t, &conf, "srtf");

    (void)state;
    ran(&r, 1, 630, 1860, 1);
    ran(&r, 0, 0, 1860 + 60 + 9 * 600, 2);
    assert_int_equal(r.summary.restarts, 1);
    assert_int_equal(r.jobs[0].stops, 1);
    assert_int_equal(r.summary.stops_per_hour_max, 1);
    /* the long one ended within twice its time, the short one did not need to */
    assert_float_equal(r.summary.tardy2x_s, 0, 1e-6);
    sim_result_done(&r);
    sim_trace_done(&t);
}

static void nobody_stops_with_one_epoch_left(void **state)
{
    struct sim_conf conf = plain_conf(1);
    struct sim_trace t =
        trace_of("arrival,gpus,isolated_s,epochs\n0,1,6000,2\n100,1,60,2\n", &conf);
    struct sim_result r = play(&t, &conf, "srtf");

    (void)state;
    ran(&r, 0, 0, 6030, 1);
    ran(&r, 1, 6030, 6120, 1);
    sim_result_done(&r);
    sim_trace_done(&t);
}

static void las_lets_the_young_pass(void **state)
{
    struct sim_conf conf = plain_conf(1);
    struct sim_trace t = trace_of(HEADER "old,0,x,1,,12000\nyoung,100,x,1,,12000\n", &conf);
    struct sim_result r = play(&t, &conf, "las");

    (void)state;
    /* two device hours are over in the 12th epoch; the flag is raised at its end, and heard at the
     * end of the next */
    assert_float_equal(r.jobs[1].start_s, 30 + 13 * 600, 1e-3);
    /* then both are old, and the older one is first again after young's two hours */
    assert_true(r.jobs[0].end_s < r.jobs[1].end_s);
    assert_int_equal(r.jobs[0].attempts, 2);
    sim_result_done(&r);
    sim_trace_done(&t);
}

static void pack_shares_what_is_taken(void **state)
{
    struct sim_table table = table_of(SMALL_TABLE);
    struct sim_conf conf = plain_conf(1);

    (void)state;
    conf.table = &table;
    struct sim_trace t = trace_of(HEADER "a,0,conv,1,12000,1200\nw,5,wide,1,3000,600\n"
                                         "b,30,text,1,12000,600\n",
                                  &conf);
    struct sim_result r = play(&t, &conf, "pack");
    /* b comes when a is up; it is up itself at 60.  15 steps a second beside a: 12000 in 800 s.
     * a does 8 a second until b is gone at 860, then 10. */
    ran(&r, 2, 30, 860, 1);
    ran(&r, 0, 0, 860 + (12000 - 8 * 830) / 10.0, 1);
    ran(&r, 1, r.jobs[0].end_s, r.jobs[0].end_s + 630, 1); /* fits with nobody */
    assert_float_equal(r.busy_s, r.summary.makespan_s, 1e-3);
    sim_result_done(&r);
    sim_trace_done(&t);
    sim_table_done(&table);
}

static void without_a_table_company_costs_38_percent(void **state)
{
    struct sim_conf conf = plain_conf(2);
    struct sim_trace t = trace_of(HEADER "a,0,x,2,,6200\nb,30,x,2,,6200\n", &conf);
    struct sim_result r = play(&t, &conf, "pack");

    (void)state;
    /* a alone from 30 on, with b at 0.62: 10 000 s together if b had come up at once */
    assert_float_equal(r.jobs[0].end_s, 30 + 10000, 1e-3);
    assert_true(r.jobs[1].end_s > r.jobs[0].end_s);
    assert_float_equal(r.jobs[0].gpu_s + r.jobs[1].gpu_s, r.busy_s, 1e-3);
    sim_result_done(&r);
    sim_trace_done(&t);
}

static void unknown_policies_are_refused(void **state)
{
    struct sim_conf conf = plain_conf(2);
    struct sim_trace t = trace_of(HEADER "a,0,x,2,,6200\n", &conf);
    struct sim_result r;
    struct err e = {0};

    (void)state;
    assert_int_equal(sim_run(&t, &conf, "lifo", &r, &e), -1);
    assert_string_equal(e.text, "there is no policy lifo; use berth, fifo, srtf, las or pack");
    sim_trace_done(&t);
}

/* ---- any trace, any policy ---- */
static struct sim_trace random_trace(struct rng *rng, const struct sim_conf *conf, size_t n)
{
    AUTO(buf) struct buf b = {0};
    double at = 0;

    buf_init(&b, 1 << 20);
    buf_adds(&b, HEADER);
    for (size_t i = 0; i < n; i++) {
        int gpus = rng_below(rng, 3) ? 1 : 2;
        const char *type = gpus == 1 && rng_below(rng, 2) ? "text"
                           : rng_below(rng, 4)            ? "conv"
                                                          : "wide";
        buf_addf(&b, "j%zu,%.1f,%s,%d,,%.1f\n", i, at, type, gpus, 60 * exp(rng_unit(rng) * 6));
        at += rng_unit(rng) * 2400;
    }
    return trace_of(b.p, conf);
}

/* No device has more jobs than places, and bars that share one agree on how many they are. */
static void check_bars(const struct sim_result *r, const struct sim_conf *conf)
{
    for (size_t i = 0; i < r->bars.n; i++) {
        const struct sim_bar *x = &r->bars.p[i];
        assert_true(x->places <= conf->share && x->place < x->places);
        for (size_t k = 0; k < i; k++) {
            const struct sim_bar *y = &r->bars.p[k];
            if (x->to_s <= y->from_s + 1e-9 || y->to_s <= x->from_s + 1e-9 ||
                !gpu_set_overlap(&x->devices, &y->devices))
                continue;
            assert_true(gpu_set_equal(&x->devices, &y->devices));
            assert_int_equal(x->places, y->places);
            assert_int_not_equal(x->place, y->place);
        }
    }
}

static void check_jobs(const struct sim_trace *t, const struct sim_result *r)
{
    double held = 0;

    for (size_t i = 0; i < t->jobs.n; i++) {
        const struct sim_outcome *o = &r->jobs[i];
        assert_true(o->start_s >= t->jobs.p[i].arrival_s && o->end_s > o->start_s);
        assert_int_equal(o->attempts, o->stops + 1);
        held += o->gpu_s;
    }
    assert_float_equal(held, r->busy_s, 1e-6 * r->busy_s);
    assert_true(r->summary.utilisation > 0 && r->summary.utilisation <= 1 + 1e-9);
}

static void every_policy_keeps_the_rules(void **state)
{
    struct sim_table table = table_of(SMALL_TABLE);
    struct sim_conf conf = plain_conf(4);
    struct rng rng;

    (void)state;
    conf.table = &table;
    conf.record = true;
    conf.noise = 1;
    rng_seed(&rng, 7);
    for (int round = 0; round < 12; round++) {
        struct sim_trace t = random_trace(&rng, &conf, 60);
        conf.elastic = round % 2;
        conf.seed = (uint64_t)round;
        for (size_t p = 0; sim_policies[p].name; p++) {
            struct sim_result r = play(&t, &conf, sim_policies[p].name);
            struct sim_result again = play(&t, &conf, sim_policies[p].name);
            check_bars(&r, &conf);
            check_jobs(&t, &r);
            assert_memory_equal(r.jobs, again.jobs, t.jobs.n * sizeof(*r.jobs));
            sim_result_done(&r);
            sim_result_done(&again);
        }
        sim_trace_done(&t);
    }
    sim_table_done(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fifo_waits_its_turn),
        cmocka_unit_test(srtf_stops_the_longer_at_its_epoch_end),
        cmocka_unit_test(nobody_stops_with_one_epoch_left),
        cmocka_unit_test(las_lets_the_young_pass),
        cmocka_unit_test(pack_shares_what_is_taken),
        cmocka_unit_test(without_a_table_company_costs_38_percent),
        cmocka_unit_test(unknown_policies_are_refused),
        cmocka_unit_test(every_policy_keeps_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
