/* test_cgroup.c - where groups are made and what is written, on stand-in directories
 *
 * The real thing is met in tests/unit/backend/test_local.c, where this host allows it.
 */
#include "base/file.h"
#include "base/util.h"
#include "shepherd/cgroup.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

static void put(const char *path, const char *text)
{
    AUTO_FREE char *full = path_join(root, path), *dir = xstrdup(full);

    *strrchr(dir, '/') = 0;
    assert_int_equal(dir_make_all(dir, 0755, NULL), 0);
    assert_int_equal(file_write_atomic(full, text, strlen(text), 0644, NULL), 0);
}

static char *get(const char *path)
{
    AUTO_FREE char *full = path_join(root, path);
    char *text = NULL;
    size_t n;

    return file_read_all(full, 4096, &text, &n, NULL) < 0 ? xstrdup("(missing)") : text;
}

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/berth-cgroup-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return dir_remove_tree(root, NULL);
}

static void probe(struct cgroup_host *h)
{
    AUTO_FREE char *proc = path_join(root, "proc");

    cgroup_probe(h, proc);
}

static void test_v2_takes_the_parent(void **state)
{
    struct cgroup_host h;
    struct cgroup c;
    AUTO_FREE char *mounts = xasprintf("30 23 0:26 / %s/cg rw,nosuid - cgroup2 cgroup2 rw\n", root);

    (void)state;
    put("proc/mountinfo", mounts);
    put("proc/cgroup", "0::/user.slice/app.slice/term.scope\n");
    put("cg/user.slice/app.slice/term.scope/cgroup.controllers", "memory pids\n");
    put("cg/user.slice/app.slice/cgroup.controllers", "cpu memory pids\n");
    put("cg/user.slice/app.slice/cgroup.subtree_control", "cpu memory pids\n");
    probe(&h);
    assert_int_equal(h.version, 2);
    assert_non_null(strstr(h.mem, "/cg/user.slice/app.slice"));
    assert_null(strstr(h.mem, "term.scope"));
    cgroup_name(&h, "berth-x.1.1", &c);
    put("cg/user.slice/app.slice/berth-x.1.1/memory.max", "");
    put("cg/user.slice/app.slice/berth-x.1.1/memory.oom.group", "");
    put("cg/user.slice/app.slice/berth-x.1.1/cpu.weight", "");
    put("cg/user.slice/app.slice/berth-x.1.1/cpu.max", "");
    assert_true(cgroup_make(&c, &(struct cgroup_limits){4096 << 10, 1500, true}));
    AUTO_FREE char *mem = get("cg/user.slice/app.slice/berth-x.1.1/memory.max");
    AUTO_FREE char *weight = get("cg/user.slice/app.slice/berth-x.1.1/cpu.weight");
    AUTO_FREE char *max = get("cg/user.slice/app.slice/berth-x.1.1/cpu.max");
    assert_string_equal(mem, "4194304");
    assert_string_equal(weight, "150");
    assert_string_equal(max, "150000 100000");
    assert_int_equal(cgroup_peak_bytes(&c), 0);
    put("cg/user.slice/app.slice/berth-x.1.1/memory.peak", "123456\n");
    put("cg/user.slice/app.slice/berth-x.1.1/memory.events", "low 0\noom 1\noom_kill 2\n");
    assert_int_equal(cgroup_peak_bytes(&c), 123456);
    assert_true(cgroup_saw_oom(&c));
}

static void test_v1(void **state)
{
    struct cgroup_host h;
    struct cgroup c;
    AUTO_FREE char *mounts = xasprintf("32 31 0:29 / %s/v1/cpu rw - cgroup cgroup rw,cpu\n"
                                       "35 31 0:32 / %s/v1/memory rw - cgroup cgroup rw,memory\n"
                                       "41 31 0:38 / %s/unified rw - cgroup2 cgroup2 rw\n",
                                       root, root, root);

    (void)state;
    put("proc/mountinfo", mounts);
    put("proc/cgroup", "4:memory:/jobs\n1:cpu:/\n0::/\n");
    put("unified/cgroup.controllers", "\n");
    put("v1/memory/jobs/x", "");
    put("v1/cpu/x", "");
    probe(&h);
    assert_int_equal(h.version, 1);
    cgroup_name(&h, "g", &c);
    put("v1/memory/jobs/g/memory.limit_in_bytes", "");
    put("v1/cpu/g/cpu.shares", "");
    assert_true(cgroup_make(&c, &(struct cgroup_limits){1 << 20, 500, false}));
    AUTO_FREE char *mem = get("v1/memory/jobs/g/memory.limit_in_bytes");
    AUTO_FREE char *shares = get("v1/cpu/g/cpu.shares");
    assert_string_equal(mem, "1048576");
    assert_string_equal(shares, "512");
    put("v1/memory/jobs/g/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    put("v1/memory/jobs/g/memory.max_usage_in_bytes", "777\n");
    assert_true(cgroup_saw_oom(&c));
    assert_int_equal(cgroup_peak_bytes(&c), 777);
}

static void test_container_root(void **state)
{
    struct cgroup_host h;
    AUTO_FREE char *mounts =
        xasprintf("35 31 0:32 /docker/abc %s/memory rw - cgroup cgroup rw,memory\n", root);

    (void)state;
    put("proc/mountinfo", mounts);
    put("proc/cgroup", "4:memory:/docker/abc/sub\n");
    put("memory/sub/x", "");
    probe(&h);
    assert_int_equal(h.version, 1);
    assert_non_null(strstr(h.mem, "/memory/sub"));
}

static bool two_is_used(void *arg, const char *rest)
{
    (void)arg;
    return strcmp(rest, "2.1") == 0;
}

static void test_sweep(void **state)
{
    struct cgroup_host h = {.version = 1};
    AUTO_FREE char *one = path_join(root, "berth-x.1.1"), *two = path_join(root, "berth-x.2.1");
    AUTO_FREE char *other = path_join(root, "berth-y.1.1"), *full = path_join(root, "berth-x.3.1");

    (void)state;
    snprintf(h.mem, sizeof(h.mem), "%s", root);
    put("berth-x.3.1/member", "");
    assert_int_equal(mkdir(one, 0755) + mkdir(two, 0755) + mkdir(other, 0755), 0);
    cgroup_sweep(&h, "berth-x.", two_is_used, NULL);
    assert_int_equal(access(one, F_OK), -1);
    assert_int_equal(access(two, F_OK), 0);
    assert_int_equal(access(other, F_OK), 0);
    assert_int_equal(access(full, F_OK), 0);
}

static void test_nowhere(void **state)
{
    struct cgroup_host h;
    struct cgroup c;

    (void)state;
    probe(&h); /* no such files */
    assert_int_equal(h.version, 0);
    put("proc/mountinfo", "nonsense\n1 2 3\n - \n");
    put("proc/cgroup", ":::\n0:\n\n");
    probe(&h);
    assert_int_equal(h.version, 0);
    cgroup_name(&h, "g", &c);
    assert_false(cgroup_make(&c, &(struct cgroup_limits){1 << 20, 500, false}));
    assert_int_equal(cgroup_kill(&c), 0);
    assert_false(cgroup_saw_oom(&c));
    cgroup_join(&c);
    cgroup_remove(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_v2_takes_the_parent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_v1, setup, teardown),
        cmocka_unit_test_setup_teardown(test_container_root, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sweep, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nowhere, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
