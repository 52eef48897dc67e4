/* test_gpu_env.c - how devices are named to a job */
#include "model/gpu_env.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static char said[400];

static void set(void *arg, const char *key, const char *value)
{
    size_t n = strlen(said);

    (void)arg;
    snprintf(said + n, sizeof(said) - n, "%s=%s;", key, value);
}

static const char *env_of(struct device *d, size_t n, struct gpu_set devices)
{
    struct node node = {.devices = d, .n_devices = n};

    said[0] = 0;
    gpu_env(&node, &devices, set, NULL);
    return said;
}

static void test_uuids(void **state)
{
    struct device d[] = {{.uuid = "GPU-a", .vendor = DEVICE_NVIDIA},
                         {.uuid = "GPU-b", .vendor = DEVICE_NVIDIA, .ordinal = 1},
                         {.uuid = "MIG-c", .vendor = DEVICE_NVIDIA, .ordinal = 2}};

    (void)state;
    assert_string_equal(env_of(d, 3, (struct gpu_set){{6}}),
                        "CUDA_VISIBLE_DEVICES=GPU-b,MIG-c;NVIDIA_VISIBLE_DEVICES=GPU-b,MIG-c;");
    assert_string_equal(env_of(d, 3, (struct gpu_set){{0}}), "");
    assert_string_equal(env_of(d, 1, (struct gpu_set){{6}}), ""); /* no such devices */
}

static void test_numbers(void **state)
{
    struct device d[] = {{.uuid = "gpu-0"},
                         {.uuid = "gpu-1", .ordinal = 1},
                         {.uuid = "GPU-b", .vendor = DEVICE_NVIDIA, .ordinal = 2}};

    (void)state;
    assert_string_equal(env_of(d, 3, (struct gpu_set){{3}}),
                        "CUDA_VISIBLE_DEVICES=0,1;NVIDIA_VISIBLE_DEVICES=0,1;");
    assert_string_equal(env_of(d, 3, (struct gpu_set){{6}}),
                        "CUDA_VISIBLE_DEVICES=1,2;NVIDIA_VISIBLE_DEVICES=1,2;"); /* never mixed */
}

static void test_amd(void **state)
{
    struct device d[] = {{.uuid = "GPU-365628c172834d70", .vendor = DEVICE_AMD},
                         {.uuid = "amd-0000:03:00.0", .vendor = DEVICE_AMD, .ordinal = 1},
                         {.uuid = "GPU-n", .vendor = DEVICE_NVIDIA}};

    (void)state;
    assert_string_equal(env_of(d, 3, (struct gpu_set){{1}}),
                        "ROCR_VISIBLE_DEVICES=GPU-365628c172834d70;");
    assert_string_equal(env_of(d, 3, (struct gpu_set){{2}}), "ROCR_VISIBLE_DEVICES=1;");
    assert_string_equal(env_of(d, 3, (struct gpu_set){{5}}),
                        "CUDA_VISIBLE_DEVICES=GPU-n;NVIDIA_VISIBLE_DEVICES=GPU-n;"
                        "ROCR_VISIBLE_DEVICES=GPU-365628c172834d70;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uuids),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_amd),
    };

    return cmocka_run_group_tests_name("gpu_env", tests, NULL, NULL);
}
