/* A submission as a job of ours: every result must be a job the model accepts. */
#include "../unit.h"
#include "base/util.h"
#include "dialect/gpu/translate.h"
#include "model/spec.h"

static struct arena mem;
static const struct gpu_world world = {.max_gpus = 4,
                                       .max_mem_bytes = INT64_C(16000) << 20,
                                       .python = "python3",
                                       .snapshots_dir = "/var/lib/berth/snapshots/alice",
                                       .datasets_dir = "/home/alice/datasets",
                                       .user = "alice",
                                       .home = "/home/alice"};

static int translate(const char *text, const struct gpu_world *w, struct json **form, struct err *e)
{
    struct json *j = NULL;
    struct gpu_submission s;

    *e = (struct err){0};
    assert_int_equal(json_parse(str_of(text), "test", &j, e), 0);
    assert_int_equal(gpu_submission_read(j, false, &mem, &s, e), 0);
    json_free(j);
    int rc = gpu_translate(&s, w, form, e);
    gpu_submission_done(&s);
    return rc;
}

/* The job, as the model reads it. */
static struct spec *job_of(const char *text, const struct gpu_world *w)
{
    struct json *form = NULL;
    struct spec *s = NULL;
    struct err e;

    if (translate(text, w, &form, &e) < 0 || spec_parse(form, "", &s, &e) < 0)
        fail_msg("%s: %s", text, e.text);
    json_free(form);
    return s;
}

static bool has_env(const struct spec *s, const char *pair)
{
    for (char **v = s->command.env; *v; v++)
        if (!strcmp(*v, pair))
            return true;
    return false;
}

TEST(a_small_one)
{
    struct spec *s = job_of("{\"jobName\":\"a\",\"scriptPath\":\"/custom/t.py\"}", &world);

    assert_string_equal(s->name, "a");
    assert_string_equal(s->command.argv[0], "python3");
    assert_string_equal(s->command.argv[1], "/custom/t.py");
    assert_int_equal(s->need.gpus, 1);
    assert_int_equal(s->train.gpus_max, 0);
    assert_int_equal(s->train.epochs, 0);
    assert_int_equal(s->train.gpu_mem_bytes, 0);
    assert_int_equal(s->train.share, GPU_SHARE_YES);
    assert_int_equal(s->train.launch, LAUNCH_NODE);
    assert_int_equal(s->priority, 0);
    assert_string_equal(s->origin.dialect, GPU_DIALECT);
    assert_string_equal(s->container.mounts[0], "/var/lib/berth/snapshots/alice:/snapshots");
    assert_string_equal(s->container.mounts[1], "/home/alice/datasets:/data");
    assert_null(s->container.mounts[2]);
    assert_null(s->container.ports);
    assert_true(has_env(s, "HOME=/home/alice"));
    assert_true(has_env(s, "USER=alice"));
    assert_true(has_env(s, "PYTHONUNBUFFERED=1"));
    spec_free(s);
}

TEST(a_full_one)
{
    struct spec *s = job_of(
        "{\"jobName\":\"b\",\"scriptPath\":\"/custom/t.py\",\"directoryToMount\":\"/home/a/code\","
        "\"snapshotsDir\":\"/srv/s\",\"batchSize\":32,\"trainingSetSize\":50000,\"maxEpochs\":9,"
        "\"isSingleGPU\":false,\"disableGPUSharing\":true,\"estimatedMemory\":5000,"
        "\"portMapping\":\"31346:6006\",\"estNHours\":1.5,\"priority\":5,\"maxRetries\":2,"
        "\"deadline\":\"2026-11-20T08:00:00Z\",\"launch\":\"gpu\",\"env\":{\"PATH\":\"/opt\"},"
        "\"environment\":{\"PATH\":\"/bin\",\"LANG\":\"C\"}}",
        &world);

    assert_int_equal(s->train.gpus_max, 4);
    assert_int_equal(s->train.gpu_mem_bytes, INT64_C(5000) << 20);
    assert_int_equal(s->train.share, GPU_SHARE_NO);
    assert_int_equal(s->train.epochs, 9);
    assert_int_equal(s->train.estimate_ms, 5400000);
    assert_int_equal(s->train.launch, LAUNCH_GPU);
    assert_true(s->train.deadline_ms > 0);
    assert_int_equal(s->priority, 2);
    assert_int_equal(s->retries, 2);
    assert_string_equal(s->command.cwd, "/home/a/code");
    assert_string_equal(s->container.mounts[0], "/home/a/code:/custom");
    assert_string_equal(s->container.mounts[1], "/srv/s:/snapshots");
    assert_string_equal(s->container.ports[0], "31346:6006");
    assert_true(has_env(s, "PATH=/opt")); /* what was asked for wins over what was there */
    assert_true(has_env(s, "LANG=C"));
    struct json *extra = NULL;
    struct err e;
    assert_int_equal(json_parse(str_of(s->origin.extra), "extra", &extra, &e), 0);
    assert_int_equal(json_int(json_get(extra, "batchSize")), 32);
    assert_false(json_has(extra, "env"));
    json_free(extra);
    spec_free(s);
}

TEST(images_keep_their_python)
{
    struct spec *s = job_of(
        "{\"jobName\":\"c\",\"dockerImage\":\"img\",\"scriptPath\":\"/custom/t.py\"}", &world);

    assert_string_equal(s->container.image, "img");
    assert_string_equal(s->command.argv[0], "python");
    spec_free(s);
    s = job_of("{\"jobName\":\"c\",\"dockerImage\":\"img\"}", &world);
    assert_string_equal(s->container.image, "img");
    spec_free(s);
}

TEST(no_gpu_is_large_enough)
{
    struct json *form = NULL;
    struct gpu_world unknown = world;
    struct err e;
    const char *text = "{\"jobName\":\"a\",\"scriptPath\":\"t\",\"estimatedMemory\":16001}";

    assert_int_equal(translate(text, &world, &form, &e), -1);
    assert_non_null(strstr(e.text, "estimatedMemory '16001'"));
    assert_non_null(strstr(e.text, "16000 MiB"));
    unknown.max_mem_bytes = 0;
    unknown.max_gpus = 0;
    assert_int_equal(translate(text, &unknown, &form, &e), 0);
    json_free(form);
}

TEST(families)
{
    struct spec *a = job_of("{\"jobName\":\"a\",\"scriptPath\":\"/custom/t.py\",\"batchSize\":1,"
                            "\"trainingSetSize\":9,\"maxEpochs\":1,\"directoryToMount\":\"/x\"}",
                            &world);
    struct spec *b =
        job_of("{\"jobName\":\"other\",\"scriptPath\":\"/custom/t.py\",\"batchSize\":1,"
               "\"trainingSetSize\":9,\"maxEpochs\":7,\"directoryToMount\":\"/x\"}",
               &world);
    struct spec *c = job_of("{\"jobName\":\"a\",\"scriptPath\":\"/custom/t.py\",\"batchSize\":2,"
                            "\"trainingSetSize\":9,\"maxEpochs\":1,\"directoryToMount\":\"/x\"}",
                            &world);

    assert_string_equal(a->train.family, b->train.family);
    assert_string_not_equal(a->train.family, c->train.family);
    spec_free(a);
    spec_free(b);
    spec_free(c);
}

static int teardown(void **state)
{
    (void)state;
    arena_done(&mem);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_one),
        cmocka_unit_test(a_full_one),
        cmocka_unit_test(images_keep_their_python),
        cmocka_unit_test(no_gpu_is_large_enough),
        cmocka_unit_test(families),
    };

    return cmocka_run_group_tests(tests, NULL, teardown);
}
