/* Every variable of the table, and the cases of one device, several, and several nodes. */
#include "../unit.h"
#include "base/json.h"
#include "base/map.h"
#include "base/util.h"
#include "dialect/gpu/env.h"

static struct map_str seen;

static void keep(void *arg, const char *key, const char *value)
{
    (void)arg;
    assert_null(map_str_get(&seen, str_of(key))); /* nothing is said twice */
    map_str_put(&seen, str_of(key), xstrdup(value));
}

static const char *get(const char *key)
{
    return map_str_get(&seen, str_of(key));
}

static void forget(void)
{
    struct str key;
    void *v;

    for (size_t it = 0; map_str_next(&seen, &it, &key, &v);)
        free(v);
    map_str_done(&seen);
    seen = (struct map_str){0};
}

static int teardown(void **state)
{
    (void)state;
    forget();
    return 0;
}

static struct gpu_env_facts facts(void)
{
    static const char *const nodes[] = {"alpha"}, *const addrs[] = {"127.0.0.1"};

    return (struct gpu_env_facts){.job_uuid = "9f3c2a1b-0400-0000-0193-2a7be1c8d5f0",
                                  .nodes = nodes,
                                  .addrs = addrs,
                                  .n_nodes = 1,
                                  .n_gpus = 1,
                                  .driver = true,
                                  .master_port = 29501,
                                  .epochs = 20,
                                  .batch_size = 64,
                                  .training_set_size = 60000,
                                  .reserved_bytes = INT64_C(5000) << 20,
                                  .attempt = 1,
                                  .share = 1,
                                  .endpoint = "127.0.0.1:18123",
                                  .token = "7.1.abc"};
}

static void make(const struct gpu_env_facts *f)
{
    forget();
    gpu_job_env(f, keep, NULL);
}

TEST(one_gpu)
{
    static const char *const want[][2] = {
        {"MASTER_PORT", "29501"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"WORLD_SIZE", "1"},
        {"NODE_RANK", "0"},
        {"TF_CONFIG", "{\"cluster\": {\"worker\": [\"127.0.0.1:29501\"]}, \"task\": {\"type\": "
                      "\"worker\", \"index\": 0}}"},
        {"JOB_UUID", "9f3c2a1b-0400-0000-0193-2a7be1c8d5f0"},
        {"JOB_RESTARTED", "FALSE"},
        {"RESERVED_MEM", "5000"},
        {"EPOCHS_DONE", "0"},
        {"HEARTBEAT_FREQ", "234"},
        {"NODELIST", "alpha"},
        {"NUM_GPUS", "1"},
        {"NUM_NODES", "1"},
        {"PL_TORCH_DISTRIBUTED_BACKEND", "nccl"},
        {"BATCH_SIZE", "64"},
        {"EPOCHS_TO_BE_DONE", "20"},
        {"TRAINING_SET_SIZE", "60000"},
        {"SCHED_ENDPOINT", "127.0.0.1:18123"},
        {"SCHED_TOKEN", "7.1.abc"},
        {"SCHED_ATTEMPT", "1"},
        {"SCHED_SHARE", "1"},
    };
    struct gpu_env_facts f = facts();

    make(&f);
    for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
        if (!get(want[i][0]))
            fail_msg("%s is missing", want[i][0]);
        assert_string_equal(get(want[i][0]), want[i][1]);
    }
    assert_int_equal(seen.n, ARRAY_SIZE(want)); /* and nothing else: no RANK, no LOCAL_RANK */
    assert_null(get("RANK"));
    assert_null(get("LOCAL_RANK"));
}

TEST(several_gpus_on_one_node)
{
    struct gpu_env_facts f = facts();

    f.n_gpus = 4;
    f.share = 2;
    make(&f);
    assert_string_equal(get("NUM_GPUS"), "4");
    assert_string_equal(get("WORLD_SIZE"), "1"); /* of nodes, not of processes */
    assert_string_equal(get("NUM_NODES"), "1");
    assert_string_equal(get("SCHED_SHARE"), "2");
}

TEST(several_nodes)
{
    static const char *const nodes[] = {"n1", "n2", "n3"}, *const addrs[] = {"10.0.0.1", "10.0.0.2",
                                                                             "10.0.0.3"};
    struct gpu_env_facts f = facts();
    struct json *tf = NULL;
    struct err e;

    f.nodes = nodes;
    f.addrs = addrs;
    f.n_nodes = 3;
    f.n_gpus = 2;
    f.node_rank = 1;
    f.backend = "gloo";
    make(&f);
    assert_string_equal(get("NODELIST"), "n1,n2,n3");
    assert_string_equal(get("MASTER_ADDR"), "10.0.0.1");
    assert_string_equal(get("WORLD_SIZE"), "3");
    assert_string_equal(get("NUM_NODES"), "3");
    assert_string_equal(get("NODE_RANK"), "1");
    assert_string_equal(get("PL_TORCH_DISTRIBUTED_BACKEND"), "gloo");
    assert_int_equal(json_parse(str_of(get("TF_CONFIG")), "TF_CONFIG", &tf, &e), 0);
    const struct json *workers = json_get(json_get(tf, "cluster"), "worker");
    assert_int_equal(json_len(workers), 3);
    assert_true(str_eq_c(json_str(json_at(workers, 2)), "10.0.0.3:29501"));
    assert_int_equal(json_int(json_get(json_get(tf, "task"), "index")), 1);
    json_free(tf);
}

/* Each process of each node is a worker with a port of its own; `berth __ranks` sets the index. */
TEST(one_process_per_gpu)
{
    static const char *const nodes[] = {"n1", "n2"}, *const addrs[] = {"10.0.0.1", "10.0.0.2"};
    struct gpu_env_facts f = facts();

    f.n_gpus = f.n_ranks = 2;
    make(&f);
    assert_string_equal(get("MASTER_PORT"), "29501");
    assert_string_equal(get("TF_CONFIG"),
                        "{\"cluster\": {\"worker\": [\"127.0.0.1:29501\", \"127.0.0.1:29502\"]}, "
                        "\"task\": {\"type\": \"worker\", \"index\": 0}}");
    f.nodes = nodes;
    f.addrs = addrs;
    f.n_nodes = 2;
    f.node_rank = 1;
    make(&f);
    assert_string_equal(get("TF_CONFIG"),
                        "{\"cluster\": {\"worker\": [\"10.0.0.1:29501\", \"10.0.0.1:29502\", "
                        "\"10.0.0.2:29501\", \"10.0.0.2:29502\"]}, "
                        "\"task\": {\"type\": \"worker\", \"index\": 2}}");
}

/* Nobody divides by the number of GPUs, and those that others use are not seen. */
TEST(no_gpu)
{
    struct gpu_env_facts f = facts();

    f.n_gpus = 0;
    f.driver = false;
    make(&f);
    assert_string_equal(get("NUM_GPUS"), "1");
    assert_string_equal(get("CUDA_VISIBLE_DEVICES"), "");
    assert_string_equal(get("ROCR_VISIBLE_DEVICES"), "");
    assert_string_equal(get("PL_TORCH_DISTRIBUTED_BACKEND"), "gloo");
    f.backend = "mpi";
    make(&f);
    assert_string_equal(get("PL_TORCH_DISTRIBUTED_BACKEND"), "mpi");
}

TEST(restarts)
{
    struct gpu_env_facts f = facts();

    f.attempt = 2;
    f.restarted = true;
    make(&f);
    assert_string_equal(get("JOB_RESTARTED"), "FALSE"); /* no epoch was done: nothing to load */
    f.epochs_done = 3;
    make(&f);
    assert_string_equal(get("JOB_RESTARTED"), "TRUE");
    assert_string_equal(get("EPOCHS_DONE"), "3");
    assert_string_equal(get("EPOCHS_TO_BE_DONE"), "20"); /* the total, not the rest */
    assert_string_equal(get("SCHED_ATTEMPT"), "2");
    f.restarted = false;
    make(&f);
    assert_string_equal(get("JOB_RESTARTED"), "FALSE");
}

TEST(a_job_that_tells_nothing_can_still_divide)
{
    struct gpu_env_facts f = facts();

    f.epochs = f.batch_size = f.training_set_size = f.reserved_bytes = 0;
    f.endpoint = f.token = NULL;
    make(&f);
    assert_string_equal(get("EPOCHS_TO_BE_DONE"), "1");
    assert_string_equal(get("BATCH_SIZE"), "1");
    assert_string_equal(get("TRAINING_SET_SIZE"), "1");
    assert_string_equal(get("RESERVED_MEM"), "0");
    assert_string_equal(get("HEARTBEAT_FREQ"), "10");
    assert_null(get("SCHED_ENDPOINT"));
    assert_null(get("SCHED_TOKEN"));
}

TEST(heartbeats)
{
    struct gpu_env_facts f = facts();

    f.training_set_size = 60; /* less than one step */
    assert_int_equal(gpu_heartbeat(&f), 10);
    f.training_set_size = 64 * 80;
    assert_int_equal(gpu_heartbeat(&f), 20);
    f.n_gpus = 2;
    assert_int_equal(gpu_heartbeat(&f), 10);
    f.training_set_size = INT64_C(1000000000000000);
    assert_int_equal(gpu_heartbeat(&f), 500);
    f.heartbeat = 7;
    make(&f);
    assert_string_equal(get("HEARTBEAT_FREQ"), "7");
}

TEST(roots_where_nothing_can_be_mounted)
{
    struct gpu_env_facts f = facts();

    f.root_custom = "/home/a/code";
    f.root_snapshots = "/srv/snapshots";
    make(&f);
    assert_string_equal(get("SCHED_ROOT_CUSTOM"), "/home/a/code");
    assert_string_equal(get("SCHED_ROOT_SNAPSHOTS"), "/srv/snapshots");
    assert_null(get("SCHED_ROOT_DATA"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_gpu),
        cmocka_unit_test(several_gpus_on_one_node),
        cmocka_unit_test(several_nodes),
        cmocka_unit_test(one_process_per_gpu),
        cmocka_unit_test(no_gpu),
        cmocka_unit_test(restarts),
        cmocka_unit_test(a_job_that_tells_nothing_can_still_divide),
        cmocka_unit_test(heartbeats),
        cmocka_unit_test(roots_where_nothing_can_be_mounted),
    };

    return cmocka_run_group_tests(tests, NULL, teardown);
}
