/* test_gpu.c - devices from look to look, whose process is whose, how much memory is whose */
#include "backend/local/gpu_priv.h"
#include "base/file.h"
#include "shepherd/tree.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#define MIB (INT64_C(1) << 20)
enum { MARK = 0xabc };
#define MARK_TEXT "0000000000000abc"

/* ---- attribution ---- */

/* Pids 100 … 199 are run 1.1, 200 … 299 run 2.3, 900 is gone, all others are strangers. */
static enum gpu_owner owner(void *arg, int32_t pid, struct run_key *out)
{
    (void)arg;
    *out = pid < 200 ? (struct run_key){1, 1} : (struct run_key){2, 3};
    return pid == 900                 ? GPU_OWNER_UNCLEAR
           : pid >= 100 && pid <= 299 ? GPU_OWNER_RUN
                                      : GPU_OWNER_STRANGER;
}

static void look_init(struct gpu_look *l, size_t n)
{
    *l = (struct gpu_look){0};
    for (size_t i = 0; i < n; i++) {
        struct device *d = gpu_look_device(l, DEVICE_NVIDIA, (int32_t)i);
        snprintf(d->uuid, sizeof(d->uuid), "GPU-%zu", i);
        snprintf(d->kind, sizeof(d->kind), "Test");
        d->mem_bytes = 16384 * MIB;
        d->used_bytes = 0;
    }
}

static void test_memory_of_runs(void **state)
{
    struct gpu_look l;

    (void)state;
    look_init(&l, 3);
    gpu_look_process(&l, 100, 0, 1000 * MIB);
    gpu_look_process(&l, 101, 0, 500 * MIB);
    gpu_look_process(&l, 200, 0, 4000 * MIB);
    gpu_look_process(&l, 100, 1, 1200 * MIB);
    gpu_look_process(&l, 7, 1, 300 * MIB);
    gpu_look_process(&l, 900, 1, 9000 * MIB);
    gpu_attribute(&l, owner, NULL);
    assert_int_equal(l.runs.n, 2);
    assert_int_equal(l.runs.p[0].key.job, 1);
    assert_int_equal(l.runs.p[0].bytes, 1500 * MIB); /* the fuller of its two devices */
    assert_int_equal(l.runs.p[1].key.run, 3);
    assert_int_equal(l.runs.p[1].bytes, 4000 * MIB);
    assert_int_equal(l.devices.p[0].foreign_bytes, 0);
    assert_int_equal(l.devices.p[1].foreign_bytes, 300 * MIB); /* pid 900 is in doubt */
    assert_int_equal(l.devices.p[2].foreign_bytes, 0);
    gpu_attribute(&l, owner, NULL); /* again: nothing is counted twice */
    assert_int_equal(l.runs.n, 2);
    gpu_look_done(&l);
}

static void test_process_in_two_lists(void **state)
{
    struct gpu_look l;

    (void)state;
    look_init(&l, 2);
    gpu_look_process(&l, 100, 0, 1000 * MIB);
    gpu_look_process(&l, 100, 0, 1100 * MIB); /* compute and graphics */
    gpu_look_process(&l, 100, 1, 50 * MIB);
    assert_int_equal(l.procs.n, 2);
    gpu_attribute(&l, owner, NULL);
    assert_int_equal(l.runs.p[0].bytes, 1100 * MIB);
    gpu_look_done(&l);
}

static void test_memory_not_told(void **state)
{
    struct gpu_look l;

    (void)state;
    look_init(&l, 2);
    l.devices.p[0].used_bytes = 9000 * MIB;
    gpu_look_process(&l, 100, 0, 2000 * MIB);
    gpu_look_process(&l, 5, 0, -1); /* a stranger of unknown size: what is left is its */
    l.devices.p[1].used_bytes = 9000 * MIB;
    gpu_look_process(&l, 101, 1, -1); /* ours of unknown size: nothing can be said */
    gpu_look_process(&l, 5, 1, -1);
    gpu_attribute(&l, owner, NULL);
    assert_int_equal(l.devices.p[0].foreign_bytes, (9000 - 2000 - 512) * MIB);
    assert_int_equal(l.devices.p[1].foreign_bytes, 0);
    assert_int_equal(l.runs.n, 1);
    assert_int_equal(l.runs.p[0].bytes, 2000 * MIB);
    gpu_look_done(&l);
}

/* ---- the node's devices ---- */

static char noticed[2000];

static void notice(void *arg, const char *text)
{
    size_t n = strlen(noticed);

    (void)arg;
    snprintf(noticed + n, sizeof(noticed) - n, "%s\n", text);
}

static void update(struct node *n, const struct gpu_look *l, int64_t at)
{
    noticed[0] = 0;
    gpu_node_update(n, l, at, notice, NULL);
}

static void test_lost_and_back(void **state)
{
    struct node n = {0};
    struct gpu_look l;

    (void)state;
    look_init(&l, 3);
    gpu_node_init(&n, &l, -1);
    assert_int_equal(n.n_devices, 3);
    update(&n, &l, 1000);
    assert_string_equal(noticed, "");
    assert_int_equal(n.devices[1].seen_ms, 1000);
    l.devices.p[1].state = DEVICE_LOST;
    l.devices.p[1].mem_bytes = 0;
    snprintf(l.devices.p[1].trouble, sizeof(l.devices.p[1].trouble), "GPU is lost");
    update(&n, &l, 2000);
    assert_non_null(strstr(noticed, "GPU 1 (Test, GPU-1) is lost: GPU is lost"));
    assert_int_equal(n.devices[1].state, DEVICE_LOST);
    assert_int_equal(n.devices[1].seen_ms, 1000);
    assert_int_equal(n.devices[1].mem_bytes, 16384 * MIB);
    update(&n, &l, 3000);
    assert_string_equal(noticed, ""); /* once is enough */
    l.devices.p[1].state = DEVICE_OK;
    update(&n, &l, 4000);
    assert_string_equal(noticed, "GPU 1 (Test, GPU-1) is back\n");
    gpu_look_done(&l);
    free(n.devices);
}

/* A driver that lists fewer devices renumbers the others; they keep their places here. */
static void test_missing(void **state)
{
    struct node n = {0};
    struct gpu_look l;

    (void)state;
    look_init(&l, 3);
    gpu_node_init(&n, &l, -1);
    vec_remove(&l.devices, 0);
    l.devices.p[0].ordinal = 0;
    l.devices.p[0].busy_percent = 77;
    update(&n, &l, 1000);
    assert_int_equal(n.devices[0].state, DEVICE_LOST);
    assert_non_null(strstr(noticed, "does not list it any more"));
    assert_int_equal(n.devices[1].busy_percent, 77);
    assert_string_equal(n.devices[1].uuid, "GPU-1");
    assert_int_equal(n.devices[1].index, 1);
    gpu_look_done(&l);
    free(n.devices);
}

static void test_lost_at_start(void **state)
{
    struct node n = {0};
    struct gpu_look l;

    (void)state;
    look_init(&l, 2);
    l.devices.p[1].state = DEVICE_LOST;
    l.devices.p[1].uuid[0] = 0;
    gpu_node_init(&n, &l, -1);
    assert_string_equal(n.devices[1].uuid, "gpu-1");
    update(&n, &l, 1000);
    assert_int_equal(n.devices[1].state, DEVICE_LOST);
    l.devices.p[1].state = DEVICE_OK;
    snprintf(l.devices.p[1].uuid, sizeof(l.devices.p[1].uuid), "GPU-late");
    update(&n, &l, 2000);
    assert_string_equal(n.devices[1].uuid, "GPU-late");
    assert_non_null(strstr(noticed, "is back"));
    gpu_look_done(&l);
    free(n.devices);
}

static void test_configured_count(void **state)
{
    struct node n = {0};
    struct gpu_look l;

    (void)state;
    look_init(&l, 3);
    gpu_node_init(&n, &l, 2);
    assert_int_equal(n.n_devices, 2);
    update(&n, &l, 1000);
    assert_string_equal(n.devices[1].uuid, "GPU-1");
    free(n.devices);
    gpu_node_init(&n, &l, 5);
    assert_int_equal(n.n_devices, 5);
    assert_string_equal(n.devices[4].uuid, "gpu-4");
    assert_int_equal(n.devices[4].state, DEVICE_UNSEEN);
    update(&n, &l, 1000);
    assert_int_equal(n.devices[4].state, DEVICE_UNSEEN); /* a number in a file cannot get lost */
    assert_string_equal(noticed, "");
    free(n.devices);
    gpu_node_init(&n, NULL, -1);
    assert_int_equal(n.n_devices, 0);
    free(n.devices);
    gpu_look_done(&l);
}

/* ---- processes ---- */

static char proc_dir[64];

static void put(int pid, const char *name, const void *text, size_t n)
{
    AUTO_FREE char *dir = xasprintf("%s/%d", proc_dir, pid), *path = xasprintf("%s/%s", dir, name);

    assert_int_equal(dir_make_all(dir, 0755, NULL), 0);
    assert_int_equal(file_write_atomic(path, text, n, 0644, NULL), 0);
}

static void put_process(int pid, int ppid, uint64_t start, const char *cgroup, const char *mark)
{
    AUTO_FREE char *stat_line =
        xasprintf("%d (a) b) S %d 1 1 0 0 0 0 0 0 0 0 0 0 0 20 0 1 0 %llu 0", pid, ppid,
                  (unsigned long long)start);
    AUTO_FREE char *groups = xasprintf("5:memory:/x\n0::%s\n", cgroup);
    struct buf env;

    buf_init(&env, 4096);
    buf_add(&env, "PATH=/bin", 10);
    if (mark) {
        buf_addf(&env, TREE_MARK_NAME "=%s", mark);
        buf_addc(&env, 0);
    }
    put(pid, "stat", stat_line, strlen(stat_line));
    put(pid, "cgroup", groups, strlen(groups));
    put(pid, "environ", env.p, env.n);
    buf_done(&env);
}

static int setup_proc(void **state)
{
    (void)state;
    snprintf(proc_dir, sizeof(proc_dir), "/tmp/berth-gpu-XXXXXX");
    return mkdtemp(proc_dir) ? 0 : -1;
}

static int teardown_proc(void **state)
{
    (void)state;
    return dir_remove_tree(proc_dir, NULL);
}

static void assert_owner(struct gpu_procs *p, int pid, uint64_t job, uint32_t run)
{
    struct run_key key;

    assert_int_equal(gpu_procs_owner(p, pid, &key), GPU_OWNER_RUN);
    assert_int_equal(key.job, job);
    assert_int_equal(key.run, run);
}

static void test_owners(void **state)
{
    struct gpu_procs *p = gpu_procs_new(MARK, proc_dir);
    const struct gpu_run runs[] = {{{7, 1}, 100, 50}, {{8, 2}, 200, 50}, {{9, 1}, 300, 50}};
    struct run_key key;

    (void)state;
    put_process(99, 1, 10, "/", NULL);   /* supervisor of 7.1 */
    put_process(100, 99, 20, "/", NULL); /* its command */
    put_process(101, 100, 30, "/", NULL);
    put_process(102, 101, 31, "/", NULL);
    put_process(103, 99, 32, "/", NULL); /* an orphan, back at the supervisor */
    put_process(200, 1, 20, "/", NULL);
    put_process(210, 1, 40, "/a/berth-" MARK_TEXT ".8.2/sub", NULL);
    put_process(220, 1, 40, "/", MARK_TEXT ".8.2");
    put_process(230, 1, 40, "/a/berth-0000000000000def.8.2", "0000000000000def.8.2");
    put_process(300, 1, 90, "/", NULL); /* a later process with the pid of 9.1 */
    put_process(301, 300, 91, "/", NULL);
    put_process(400, 1, 40, "/", NULL);
    gpu_procs_runs(p, runs, ARRAY_SIZE(runs));
    assert_owner(p, 100, 7, 1);
    assert_owner(p, 102, 7, 1);
    assert_owner(p, 103, 7, 1);
    assert_owner(p, 210, 8, 2);
    assert_owner(p, 220, 8, 2);
    assert_int_equal(gpu_procs_owner(p, 230, &key), GPU_OWNER_STRANGER); /* of another home */
    assert_int_equal(gpu_procs_owner(p, 301, &key), GPU_OWNER_STRANGER);
    assert_int_equal(gpu_procs_owner(p, 400, &key), GPU_OWNER_STRANGER);
    gpu_procs_free(p);
}

/* What was found stays with a process when its ancestors end, but not with its pid. */
static void test_owner_kept(void **state)
{
    struct gpu_procs *p = gpu_procs_new(MARK, proc_dir);
    const struct gpu_run runs[] = {{{7, 1}, 100, 50}};
    AUTO_FREE char *gone = xasprintf("%s/101", proc_dir);

    (void)state;
    put_process(100, 1, 20, "/", NULL);
    put_process(101, 100, 21, "/", NULL);
    put_process(102, 101, 22, "/", NULL);
    gpu_procs_runs(p, runs, 1);
    assert_owner(p, 102, 7, 1);
    assert_int_equal(dir_remove_tree(gone, NULL), 0);
    put_process(102, 1, 22, "/", NULL);
    gpu_procs_sweep(p);
    assert_owner(p, 102, 7, 1);
    put_process(102, 1, 60, "/", NULL);
    struct run_key key;
    assert_int_equal(gpu_procs_owner(p, 102, &key), GPU_OWNER_STRANGER);
    gpu_procs_free(p);
}

static void test_doubt(void **state)
{
    struct gpu_procs *p = gpu_procs_new(MARK, proc_dir);
    const struct gpu_run runs[] = {{{7, 1}, 100, 50}, {{8, 1}, 0, 0}};
    struct run_key key;

    (void)state;
    put_process(100, 1, 20, "/", NULL);
    put_process(150, 1, 40, "/", MARK_TEXT ".8.1");
    gpu_procs_runs(p, runs, 1);
    assert_int_equal(gpu_procs_owner(p, 555, &key), GPU_OWNER_UNCLEAR); /* no such process */
    assert_int_equal(gpu_procs_owner(p, 150, &key), GPU_OWNER_UNCLEAR); /* a run we do not know */
    gpu_procs_sweep(p);
    assert_int_equal(gpu_procs_owner(p, 555, &key), GPU_OWNER_STRANGER);
    gpu_procs_runs(p, runs, 2);
    assert_owner(p, 150, 8, 1);
    gpu_procs_sweep(p);
    gpu_procs_runs(p, runs, 1); /* it ended, the process did not */
    assert_int_equal(gpu_procs_owner(p, 150, &key), GPU_OWNER_STRANGER);
    gpu_procs_free(p);
}

/* Nobody charges a stranger's run by setting a variable. */
static void test_other_user(void **state)
{
    struct gpu_procs *p = gpu_procs_new(MARK, proc_dir);
    const struct gpu_run runs[] = {{{7, 1}, 100, 50}};
    AUTO_FREE char *dir = xasprintf("%s/150", proc_dir);
    struct run_key key;

    (void)state;
    put_process(100, 1, 20, "/", NULL);
    put_process(150, 1, 40, "/", MARK_TEXT ".7.1");
    if (chown(dir, 12345, 12345) < 0)
        skip(); /* only root can play two users */
    gpu_procs_runs(p, runs, 1);
    assert_int_equal(gpu_procs_owner(p, 150, &key), GPU_OWNER_STRANGER);
    gpu_procs_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_of_runs),
        cmocka_unit_test(test_process_in_two_lists),
        cmocka_unit_test(test_memory_not_told),
        cmocka_unit_test(test_lost_and_back),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_lost_at_start),
        cmocka_unit_test(test_configured_count),
        cmocka_unit_test_setup_teardown(test_owners, setup_proc, teardown_proc),
        cmocka_unit_test_setup_teardown(test_owner_kept, setup_proc, teardown_proc),
        cmocka_unit_test_setup_teardown(test_doubt, setup_proc, teardown_proc),
        cmocka_unit_test_setup_teardown(test_other_user, setup_proc, teardown_proc),
    };

    return cmocka_run_group_tests_name("gpu", tests, NULL, NULL);
}
