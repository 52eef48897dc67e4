/* test_trace.c - traces of every layout, windows and loads of them, and broken ones */
#include "case.h"

#define HEADER "job,arrival,type,gpus,steps,isolated_s\n"

static void our_own_layout(void **state)
{
    struct sim_conf conf = plain_conf(4);
    struct sim_trace t = trace_of("isolated_s,type,gpus,arrival,job,steps,note,deadline,priority\n"
                                  "600,conv,1,50,late,6000,x,900,2\n"
                                  "1200,text,2,0,early,,,,\n",
                                  &conf);

    (void)state;
    assert_int_equal(t.jobs.n, 2);
    assert_string_equal(t.layout, "berth");
    assert_string_equal(t.jobs.p[0].name, "early"); /* by arrival */
    assert_true(t.jobs.p[0].steps == 1200);
    assert_true(t.jobs.p[0].deadline_s == 0 && t.jobs.p[0].priority == 0);
    assert_true(t.jobs.p[1].arrival_s == 50 && t.jobs.p[1].steps == 6000);
    assert_true(t.jobs.p[1].deadline_s == 900 && t.jobs.p[1].priority == 2);
    assert_int_equal(t.types.n, 2);
    sim_trace_done(&t);
}

static void logs_of_clusters(void **state)
{
    struct sim_conf conf = plain_conf(4);
    struct sim_trace t = trace_of("timestamp,duration,num_gpus,gpu_time,cluster\n"
                                  "2017-10-03 05:58:42,3600,2,7200,vc1\n"
                                  "2017-10-03 05:57:42,90.5,16,0,vc1\n"
                                  "2017-10-03 06:00:00,100,0,0,vc2\n"
                                  "2017-10-03 06:00:00,,1,0,vc2\n",
                                  &conf);

    (void)state;
    assert_string_equal(t.layout, "philly");
    assert_int_equal(t.jobs.n, 2);
    assert_int_equal(t.skipped, 2);
    assert_int_equal(t.clipped, 1);
    assert_true(t.jobs.p[0].arrival_s == 0 && t.jobs.p[0].isolated_s == 90.5);
    assert_int_equal(t.jobs.p[0].gpus, 4);
    assert_true(t.jobs.p[1].arrival_s == 60);
    sim_trace_done(&t);

    t = trace_of("job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,"
                 "plan_gpu,gpu_type\n"
                 "a,worker,2,Terminated,1000.0,4600.0,600,29.2,100.0,V100\n"
                 "b,worker,1,Terminated,1010,1610,600,29.2,25.0,MISC\n"
                 "c,worker,1,Failed,1010,1610,600,29.2,100,MISC\n"
                 "d,worker,1,Terminated,1010,,600,29.2,100,MISC\n",
                 &conf);
    assert_string_equal(t.layout, "alibaba-2020");
    assert_int_equal(t.jobs.n, 2);
    assert_int_equal(t.jobs.p[0].gpus, 2);
    assert_int_equal(t.jobs.p[1].gpus, 1); /* a quarter of a GPU holds one */
    assert_true(t.jobs.p[1].isolated_s == 600);
    sim_trace_done(&t);

    t = trace_of("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
                 "creation_time,deletion_time,scheduled_time\n"
                 "pod-0,12000,16384,1,460,,LS,Running,100,1300,300\n"
                 "pod-1,6000,12288,0,0,,LS,Running,0,12537496,0.0\n"
                 "pod-2,6000,12288,2,1000,,BE,Failed,150,750,\n",
                 &conf);
    assert_string_equal(t.layout, "alibaba-2023");
    assert_int_equal(t.jobs.n, 2);
    assert_true(t.jobs.p[0].isolated_s == 1000); /* from where it was scheduled */
    assert_true(t.jobs.p[1].isolated_s == 600 && t.jobs.p[1].arrival_s == 50);
    sim_trace_done(&t);
}

static void logs_get_types_of_the_table_by_chance(void **state)
{
    struct sim_table table = table_of(SMALL_TABLE);
    struct sim_conf conf = plain_conf(4);

    (void)state;
    conf.table = &table;
    struct sim_trace t =
        trace_of("timestamp,duration,num_gpus\n0,600,4\n1,600,1\n2,600,2\n", &conf);
    for (size_t i = 0; i < t.jobs.n; i++) {
        const struct sim_job *j = &t.jobs.p[i];
        double rate = sim_table_rate(&table, (uint32_t)j->type, j->gpus, SIM_ALONE);
        assert_true(rate > 0 && j->steps == 600 * rate);
    }
    assert_int_equal(t.jobs.p[0].gpus, 2); /* the largest count of the table */
    assert_int_equal(t.clipped, 1);
    sim_trace_done(&t);
    sim_table_done(&table);
}

static void windows_and_loads(void **state)
{
    struct sim_conf conf = plain_conf(2);
    struct sim_trace t = trace_of("arrival,gpus,isolated_s,deadline\n0,1,100,\n100,1,100,150\n"
                                  "200,2,50,\n300,1,100,900\n",
                                  &conf);
    struct err e = {0};

    (void)state;
    assert_int_equal(sim_trace_cut(&t, 1, 10, &e), 0);
    assert_int_equal(t.jobs.n, 3);
    assert_true(t.jobs.p[0].arrival_s == 0 && t.jobs.p[0].deadline_s == 50);
    assert_true(t.jobs.p[2].arrival_s == 200 && t.jobs.p[2].deadline_s == 800);
    sim_trace_load(&t, 2, 0.5); /* 300 GPU seconds on 2 at half load: 300 s */
    assert_true(t.jobs.p[1].arrival_s == 150 && t.jobs.p[2].arrival_s == 300);
    assert_true(t.jobs.p[2].deadline_s == 900);
    assert_int_equal(sim_trace_cut(&t, 3, 1, &e), -1);
    assert_string_equal(e.text, "the trace has 3 jobs, there is no number 3; count from 0");
    sim_trace_done(&t);
}

static void refused(const char *text, const struct sim_table *table, const char *why)
{
    struct sim_trace t = {0};
    struct err e = {0};
    int rc = sim_trace_parse(str_of(text), "t.csv", &t, &e);

    if (rc == 0)
        rc = sim_trace_bind(&t, table, 4, 0, "t.csv", &e);
    assert_int_equal(rc, -1);
    assert_string_equal(e.text, why);
    sim_trace_done(&t);
}

static void broken_traces_are_named(void **state)
{
    struct sim_table table = table_of(SMALL_TABLE);

    (void)state;
    refused("", NULL,
            "t.csv:1:1: the first line must name the columns of a known layout, such as "
            "job,arrival,type,gpus,steps,isolated_s (berth help simulate lists them)");
    refused("a,b\n1,2\n", NULL,
            "t.csv:1:1: the first line must name the columns of a known layout, such as "
            "job,arrival,type,gpus,steps,isolated_s (berth help simulate lists them)");
    refused(HEADER, NULL,
            "t.csv:1:1: the trace holds no job that used a GPU; give at least one row");
    refused(HEADER "a,0,conv,1,10,60\nb,soon,conv,1,10,60\n", NULL,
            "t.csv:3:3: column arrival: \"soon\" is not usable; give seconds, 0 or more");
    refused(HEADER "a,0,conv,1,10\n", NULL,
            "t.csv:2:14: column isolated_s: \"\" is not usable; give the seconds it runs alone on "
            "its GPUs, above 0");
    refused(HEADER "a,0,conv,0,10,60\n", NULL,
            "t.csv:2:10: column gpus: \"0\" is not usable; give 1 to 1024");
    refused(HEADER "a,0,conv,1,nan,60\n", NULL,
            "t.csv:2:12: column steps: \"nan\" is not usable; give the number of steps, above 0");
    refused(HEADER "a,0,conv,8,10,60\n", NULL,
            "t.csv:2:10: column gpus: job a wants 8 GPUs and there are 4; raise --gpus");
    refused(HEADER "a,0,conf,1,10,60\n", &table,
            "t.csv:2: column type: \"conf\" is not in the table; did you mean \"conv\"?");
    refused(
        HEADER "a,0,text,2,10,60\n", &table,
        "t.csv:2:10: column gpus: the table has no rate of \"text\" on 2 GPUs; add it or change "
        "the count");
    refused("timestamp,duration,num_gpus\nyesterday,1,1\n", NULL,
            "t.csv:2:1: column timestamp: \"yesterday\" is not usable; give seconds or a time such "
            "as 2017-10-03 05:58:42");
    sim_table_done(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_own_layout),
        cmocka_unit_test(logs_of_clusters),
        cmocka_unit_test(logs_get_types_of_the_table_by_chance),
        cmocka_unit_test(windows_and_loads),
        cmocka_unit_test(broken_traces_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
