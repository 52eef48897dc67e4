/* test_gpu_sources.c - what is read from NVML of three ages, ROCm SMI and sysfs; the watch on it */
#include "backend/local/gpu_priv.h"
#include "base/clock.h"
#include "base/file.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define MIB (INT64_C(1) << 20)

static char dir[64], file[96];

static void say(const char *text)
{
    assert_int_equal(file_write_atomic(file, text, strlen(text), 0644, NULL), 0);
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/berth-gpu-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(file, sizeof(file), "%s/state", dir);
    setenv("FAKE_NVML_STATE", file, 1);
    setenv("FAKE_ROCM_STATE", file, 1);
    setenv("BERTH_NVML_LIBRARY", getenv("FAKE_NVML"), 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unsetenv("BERTH_SYSFS_ROOT");
    unsetenv("BERTH_PROC_ROOT");
    unsetenv("BERTH_ROCM_LIBRARY");
    unsetenv("BERTH_GPU_PERIOD_MS");
    return dir_remove_tree(dir, NULL);
}

static const char two[] = "driver 535.1\n"
                          "gpu GPU-aa 40960 name=NVIDIA_A100 used=400 busy=33 power=61000\n"
                          "gpu GPU-bb 16384 # a comment\n"
                          "proc 10 0 1000\nproc 11 0 - mps\nproc 10 0 1100 graphics\n"
                          "proc 12 1 5\nproc 13 1 6\n";

static void read_with(const char *library, struct gpu_look *l)
{
    struct err e = {0};

    setenv("BERTH_NVML_LIBRARY", getenv(library), 1);
    void *n = gpu_nvml.open(&e);
    if (!n)
        fail_msg("%s", e.text);
    gpu_look_clear(l);
    gpu_nvml.read(n, l);
    gpu_nvml.close(n);
}

static void assert_two(const struct gpu_look *l)
{
    assert_int_equal(l->devices.n, 2);
    assert_string_equal(l->devices.p[0].uuid, "GPU-aa");
    assert_string_equal(l->devices.p[0].kind, "NVIDIA A100");
    assert_int_equal(l->devices.p[0].mem_bytes, 40960 * MIB);
    assert_int_equal(l->devices.p[0].busy_percent, 33);
    assert_int_equal(l->devices.p[0].power_mw, 61000);
    assert_int_equal(l->devices.p[0].vendor, DEVICE_NVIDIA);
    assert_int_equal(l->devices.p[1].power_mw, -1);
    assert_int_equal(l->devices.p[1].ordinal, 1);
    const struct gpu_proc *last = &l->procs.p[l->procs.n - 1];
    assert_int_equal(last->pid, 13);
    assert_int_equal(last->bytes, 6 * MIB);
    assert_int_equal(l->procs.p[0].pid, 10);
    assert_int_equal(l->procs.p[0].bytes, 1100 * MIB);
}

static void test_nvml_ages(void **state)
{
    struct gpu_look l = {0};

    (void)state;
    say(two);
    read_with("FAKE_NVML", &l);
    assert_two(&l);
    assert_int_equal(l.procs.n, 4);
    assert_int_equal(l.procs.p[1].bytes, -1); /* not told */
    assert_non_null(strstr(l.drivers, "driver 535.1"));
    read_with("FAKE_NVML_V2", &l);
    assert_two(&l);
    assert_int_equal(l.procs.n, 3); /* it has no list of MPS clients */
    read_with("FAKE_NVML_V1", &l);
    assert_two(&l);
    assert_int_equal(l.procs.n, 3);
    gpu_look_done(&l);
}

static void test_nvml_odd_entries(void **state)
{
    struct gpu_look l = {0};
    struct buf b;

    (void)state;
    buf_init(&b, 4096);
    buf_adds(&b, "entry 32\n");
    buf_adds(&b, two);
    say(b.p);
    buf_done(&b);
    read_with("FAKE_NVML", &l);
    assert_int_equal(l.procs.p[l.procs.n - 1].pid, 13);
    assert_int_equal(l.procs.p[l.procs.n - 1].bytes, 6 * MIB);
    gpu_look_done(&l);
}

static void test_entries(void **state)
{
    const uint32_t ok[8] = {77, 0, 4096, 0, 78, 0, 0xffffffff, 0xffffffff};
    const uint32_t bad[8] = {77, 0, 4096, 0, 0, 0, 78, 0};

    (void)state;
    assert_true(nvml_entries_plausible(ok, 2, 16, 4096));
    assert_false(nvml_entries_plausible(ok, 2, 16, 4095));
    assert_false(nvml_entries_plausible(bad, 2, 16, 1 << 30));
    assert_true(nvml_entries_plausible(bad, 0, 24, 0));
}

static void test_nvml_mig(void **state)
{
    struct gpu_look l = {0};

    (void)state;
    say("gpu GPU-aa 40960 mig=1\nmig 0 MIG-1 4864 used=15\nmig 0 MIG-2 9856\ngpu GPU-bb 16384\n"
        "proc 10 0.1 1000\nproc 11 1 50\n");
    read_with("FAKE_NVML", &l);
    assert_int_equal(l.devices.n, 3);
    assert_string_equal(l.devices.p[0].uuid, "MIG-1");
    assert_int_equal(l.devices.p[0].mem_bytes, 4864 * MIB);
    assert_int_equal(l.devices.p[0].busy_percent, -1);
    assert_int_equal(l.devices.p[0].state, DEVICE_OK);
    assert_string_equal(l.devices.p[1].uuid, "MIG-2");
    assert_int_equal(l.devices.p[1].used_bytes, 1000 * MIB);
    assert_string_equal(l.devices.p[2].uuid, "GPU-bb");
    assert_int_equal(l.procs.n, 2);
    assert_int_equal(l.procs.p[0].device, 1);
    assert_int_equal(l.procs.p[1].device, 2);
    gpu_look_done(&l);
}

static void test_nvml_faults(void **state)
{
    struct gpu_look l = {0};
    struct err e = {0};
    void *n = gpu_nvml.open(&e);

    (void)state;
    assert_non_null(n);
    say("gpu GPU-aa 40960\ngpu GPU-bb 16384\nerror handle 0 15\n");
    gpu_nvml.read(n, &l); /* never seen before: nothing but its place is known */
    assert_int_equal(l.devices.p[0].state, DEVICE_LOST);
    assert_string_equal(l.devices.p[0].uuid, "");
    assert_string_equal(l.devices.p[0].trouble, "GPU is lost");
    say("gpu GPU-aa 40960\ngpu GPU-bb 16384\n");
    gpu_look_clear(&l);
    gpu_nvml.read(n, &l);
    assert_int_equal(l.devices.p[0].state, DEVICE_OK);
    say("gpu GPU-aa 40960\ngpu GPU-bb 16384\nerror all 0 15\nerror busy 1 3\nerror processes 1 "
        "4\n");
    gpu_look_clear(&l);
    gpu_nvml.read(n, &l);
    assert_int_equal(l.devices.n, 2);
    assert_int_equal(l.devices.p[0].state, DEVICE_LOST);
    assert_string_equal(l.devices.p[0].uuid, "GPU-aa"); /* known from before */
    assert_int_equal(l.devices.p[0].mem_bytes, 40960 * MIB);
    assert_int_equal(l.devices.p[1].state, DEVICE_OK); /* not supported, not allowed: no fault */
    assert_int_equal(l.devices.p[1].busy_percent, -1);
    say("gpu GPU-aa 40960\ngpu GPU-bb 16384\nerror memory 1 999\n");
    gpu_look_clear(&l);
    gpu_nvml.read(n, &l);
    assert_int_equal(l.devices.p[0].state, DEVICE_OK);
    assert_int_equal(l.devices.p[1].state, DEVICE_LOST);
    say("gpu GPU-aa 40960 mode=2\nerror memory 0 3\n");
    gpu_look_clear(&l);
    gpu_nvml.read(n, &l);
    assert_int_equal(l.devices.p[0].state, DEVICE_EXCLUDED);
    say("error all * 9\n");
    gpu_look_clear(&l);
    gpu_nvml.read(n, &l);
    assert_int_equal(l.devices.n, 0);
    assert_non_null(strstr(l.drivers, "Driver Not Loaded"));
    say("gpu GPU-aa 40960\n"); /* loaded again */
    gpu_look_clear(&l);
    gpu_nvml.read(n, &l);
    assert_int_equal(l.devices.n, 1);
    gpu_nvml.close(n);
    gpu_look_done(&l);
}

static void test_nvml_absent(void **state)
{
    struct err e = {0};

    (void)state;
    setenv("BERTH_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1", 1);
    assert_null(gpu_nvml.open(&e));
    assert_non_null(strstr(e.text, "/nowhere/libnvidia-ml.so.1"));
    setenv("BERTH_NVML_LIBRARY", getenv("FAKE_ROCM"), 1);
    assert_null(gpu_nvml.open(&e));
    assert_non_null(strstr(e.text, "it is not NVIDIA's library"));
}

static void test_rocm(void **state)
{
    struct gpu_look l = {0};
    struct err e = {0};

    (void)state;
    setenv("BERTH_ROCM_LIBRARY", getenv("FAKE_ROCM"), 1);
    say("gpu a1b2 65536 1000 45\ngpu 0 65536 0 0\nproc 10 0 600\nproc 10 1 200\nproc 11 0 10\n");
    void *r = gpu_rocm.open(&e);
    if (!r)
        fail_msg("%s", e.text);
    gpu_rocm.read(r, &l);
    gpu_rocm.close(r);
    assert_int_equal(l.devices.n, 2);
    assert_string_equal(l.devices.p[0].uuid, "GPU-000000000000a1b2");
    assert_string_equal(l.devices.p[1].uuid, "amd-1");
    assert_int_equal(l.devices.p[0].vendor, DEVICE_AMD);
    assert_int_equal(l.devices.p[0].mem_bytes, 65536 * MIB);
    assert_int_equal(l.devices.p[0].busy_percent, 45);
    assert_int_equal(l.procs.n, 3);
    int64_t sum = 0;
    for (size_t i = 0; i < 3; i++)
        sum += l.procs.p[i].pid == 10 ? l.procs.p[i].bytes : 0;
    assert_int_equal(sum, 800 * MIB);
    say("");
    assert_null(gpu_rocm.open(&e));
    gpu_look_done(&l);
}

static void put(const char *path, const char *text)
{
    AUTO_FREE char *full = path_join(dir, path), *parent = xstrdup(full);

    *strrchr(parent, '/') = 0;
    assert_int_equal(dir_make_all(parent, 0755, NULL), 0);
    assert_int_equal(file_write_atomic(full, text, strlen(text), 0644, NULL), 0);
}

static void put_card(int n, const char *vendor, const char *total, const char *used)
{
    static const char *const names[] = {"vendor", "mem_info_vram_total", "mem_info_vram_used",
                                        "gpu_busy_percent", "uevent"};
    AUTO_FREE char *slot = xasprintf("DRIVER=amdgpu\nPCI_SLOT_NAME=0000:%02d:00.0\n", n);
    const char *texts[] = {vendor, total, used, "21\n", slot};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        AUTO_FREE char *path = xasprintf("class/drm/card%d/device/%s", n, names[i]);
        if (texts[i])
            put(path, texts[i]);
    }
}

static void put_client(const char *pid, const char *fd, const char *text)
{
    AUTO_FREE char *info = xasprintf("proc/%s/fdinfo/%s", pid, fd),
                   *fds = xasprintf("%s/proc/%s/fd", dir, pid), *link = path_join(fds, fd);

    put(info, text);
    assert_int_equal(dir_make_all(fds, 0755, NULL), 0);
    assert_int_equal(symlink("/dev/dri/renderD128", link), 0);
}

static void test_sysfs(void **state)
{
    struct gpu_look l = {0};
    struct err e = {0};
    AUTO_FREE char *proc = path_join(dir, "proc");

    (void)state;
    setenv("BERTH_SYSFS_ROOT", dir, 1);
    setenv("BERTH_PROC_ROOT", proc, 1);
    assert_null(gpu_sysfs.open(&e)); /* no card at all */
    put_card(0, "0x8086\n", "1\n", "1\n");
    put_card(2, "0x1002\n", "17163091968\n", "1048576\n");
    put_card(10, "0x1002\n", "8589934592\n", "0\n");
    put("class/drm/card2/device/unique_id", "365628c172834d70\n");
    put("class/drm/card2/device/product_name", "Instinct MI210\n");
    put("class/drm/card2/device/hwmon/hwmon3/power1_average", "41000000\n");
    put("class/drm/card2-DP-1/status", "connected\n");
    put_client("33", "5",
               "pos: 0\ndrm-driver:\tamdgpu\ndrm-client-id:\t7\ndrm-pdev:\t0000:02:00.0\n"
               "drm-memory-vram:\t2048 KiB\n");
    put_client("33", "6", "drm-client-id:\t7\ndrm-pdev:\t0000:02:00.0\ndrm-memory-vram: 2 MiB\n");
    put_client("33", "9", "drm-client-id:\t8\ndrm-pdev:\t0000:10:00.0\ndrm-memory-vram: 3 MiB\n");
    put_client("34", "5", "drm-pdev:\t0000:10:00.0\n");
    void *s = gpu_sysfs.open(&e);
    assert_non_null(s);
    gpu_sysfs.read(s, &l);
    assert_int_equal(l.devices.n, 2);
    assert_string_equal(l.devices.p[0].uuid, "GPU-365628c172834d70");
    assert_string_equal(l.devices.p[0].kind, "Instinct MI210");
    assert_int_equal(l.devices.p[0].mem_bytes, 17163091968);
    assert_int_equal(l.devices.p[0].used_bytes, MIB);
    assert_int_equal(l.devices.p[0].busy_percent, 21);
    assert_int_equal(l.devices.p[0].power_mw, 41000);
    assert_string_equal(l.devices.p[1].uuid, "amd-0000:10:00.0"); /* 10 after 2 */
    assert_int_equal(l.procs.n, 2);
    assert_int_equal(l.procs.p[0].pid, 33);
    assert_int_equal(l.procs.p[0].bytes, 2 * MIB); /* one client, two descriptors */
    assert_int_equal(l.procs.p[1].bytes, 3 * MIB);
    put("class/drm/card10/device/mem_info_vram_used", "garbage\n");
    gpu_look_clear(&l);
    gpu_sysfs.read(s, &l);
    assert_int_equal(l.devices.p[1].state, DEVICE_LOST);
    gpu_sysfs.close(s);
    gpu_look_done(&l);
}

static void test_drm_client(void **state)
{
    struct drm_client c;

    (void)state;
    assert_true(drm_client_parse(
        STR("drm-pdev: 0000:03:00.0\ndrm-memory-vram: 4096\ndrm-resident-vram: 8 KiB"), &c));
    assert_int_equal(c.vram_bytes, 8192);
    assert_int_equal(c.id, -1);
    assert_false(drm_client_parse(STR("drm-memory-vram: 4096\n"), &c));
    assert_false(drm_client_parse(STR("drm-pdev: 0000:03:00.0\n"), &c));
    assert_true(drm_client_parse(
        STR("drm-pdev: x\ndrm-memory-vram: 9223372036854775807 KiB\ndrm-client-id: z"), &c));
    assert_int_equal(c.vram_bytes, INT64_MAX);
    assert_true(drm_client_parse(STR("drm-pdev: x\ndrm-memory-vram: -5 KiB\n"), &c));
    assert_int_equal(c.vram_bytes, 0);
}

/* ---- the watch ---- */

struct seen {
    struct node node;
    int looks;
    struct buf notices;
};

static void no_runs(void *arg, struct gpu_run **out, size_t *n)
{
    (void)arg;
    (void)out;
    (void)n;
}

static void on_looked(void *arg, const struct run_memory *runs, size_t n)
{
    (void)runs;
    assert_int_equal(n, 0);
    ((struct seen *)arg)->looks++;
}

static void on_notice(void *arg, const char *text)
{
    buf_addf(&((struct seen *)arg)->notices, "%s\n", text);
}

static void tick(void *arg)
{
    (void)arg;
}

static void test_watch(void **state)
{
    struct loop *loop = loop_new();
    struct timer *pulse = timer_new(loop, tick, NULL);
    struct seen s = {0};
    struct gpu_watch *w;
    struct err e = {0};
    struct gpu_watch_conf conf = {.loop = loop,
                                  .node = &s.node,
                                  .gpus = -1,
                                  .exclude = "GPU-bb",
                                  .runs = no_runs,
                                  .looked = on_looked,
                                  .notice = on_notice,
                                  .arg = &s};

    (void)state;
    buf_init(&s.notices, 1 << 16);
    setenv("BERTH_GPU_PERIOD_MS", "10", 1);
    say(two);
    assert_int_equal(gpu_watch_open(&w, &conf, &e), 0);
    assert_int_equal(s.node.n_devices, 2); /* at once: core needs to know */
    assert_int_equal(s.node.devices[1].state, DEVICE_EXCLUDED);
    gpu_watch_busy(w, true);
    timer_start(pulse, 5, 5);
    while (s.looks < 3)
        loop_run_once(loop, true);
    assert_int_equal(s.node.devices[1].state, DEVICE_EXCLUDED);
    say("gpu GPU-aa 40960\ngpu GPU-bb 16384\nerror all 0 15\n");
    while (s.node.devices[0].state != DEVICE_LOST)
        loop_run_once(loop, true);
    assert_non_null(strstr(s.notices.p, "GPU 0 (NVIDIA A100, GPU-aa) is lost"));
    say("gpu GPU-aa 40960\ngpu GPU-bb 16384\ndelay 3600000\n");
    int64_t t0 = clock_mono(&clock_system);
    while (clock_mono(&clock_system) - t0 < 200)
        loop_run_once(loop, true);
    int looks = s.looks; /* and now the thread hangs */
    gpu_watch_close(w);
    assert_int_equal(s.looks, looks);
    timer_free(pulse);
    loop_free(loop);
    buf_done(&s.notices);
    free(s.node.devices);
}

static void test_watch_exclusion_typo(void **state)
{
    struct loop *loop = loop_new();
    struct seen s = {0};
    struct gpu_watch *w;
    struct err e = {0};
    struct gpu_watch_conf conf = {.loop = loop,
                                  .node = &s.node,
                                  .gpus = -1,
                                  .exclude = "1, GPU-xx",
                                  .runs = no_runs,
                                  .looked = on_looked,
                                  .notice = on_notice,
                                  .arg = &s};

    (void)state;
    say(two);
    assert_int_equal(gpu_watch_open(&w, &conf, &e), -1);
    assert_non_null(strstr(e.text, "no GPU 'GPU-xx'"));
    loop_free(loop);
    free(s.node.devices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nvml_ages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nvml_odd_entries, setup, teardown),
        cmocka_unit_test(test_entries),
        cmocka_unit_test_setup_teardown(test_nvml_mig, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nvml_faults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nvml_absent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rocm, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sysfs, setup, teardown),
        cmocka_unit_test(test_drm_client),
        cmocka_unit_test_setup_teardown(test_watch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_watch_exclusion_typo, setup, teardown),
    };

    return cmocka_run_group_tests_name("gpu_sources", tests, NULL, NULL);
}
