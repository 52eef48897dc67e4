/* A job as Atlas' clients describe it: every result must be a job the model accepts. */
#include "../unit.h"
#include "base/util.h"
#include "dialect/atlas/translate.h"
#include "model/spec.h"

#define ID "45540b52-ffe2-44ab-9838-db467d3499c0"

static char *const environment[] = {(char *)"PATH=/usr/bin", (char *)"SECRET=1", (char *)"LC_ALL=C",
                                    NULL};
static const struct atlas_world world = {.home = "/home/ada/.foundations",
                                         .python = "/usr/bin/python3",
                                         .mounts = true,
                                         .gpus = 2,
                                         .mem_bytes = INT64_C(16) << 30,
                                         .environ_ = environment};

static struct json *form_of(const char *spec, int gpus, const struct atlas_world *w, struct err *e)
{
    AUTO_FREE char *text = xasprintf("{\"job_id\":\"" ID "\",\"spec\":%s,\"metadata\":{"
                                     "\"project_name\":\"iris\",\"username\":\"ada\"},\"gpu_spec\":"
                                     "{\"num_gpus\":%d}}",
                                     spec, gpus);
    struct json *body = NULL, *form = NULL;
    struct atlas_submission s;

    *e = (struct err){0};
    assert_int_equal(json_parse(str_of(text), "test", &body, e), 0);
    if (atlas_submission_read(body, &s, e) == 0)
        atlas_translate(&s, w, &form, e);
    json_free(body);
    return form;
}

static struct spec *job_of(const char *spec, int gpus, const struct atlas_world *w)
{
    struct err e;
    struct json *form = form_of(spec, gpus, w, &e);
    struct spec *s = NULL;

    if (!form || spec_parse(form, "", &s, &e) < 0)
        fail_msg("%s: %s", spec, e.text);
    json_free(form);
    return s;
}

static const char *env_of(const struct spec *s, const char *key)
{
    size_t n = strlen(key);

    for (char **v = s->command.env; *v; v++)
        if (!strncmp(*v, key, n) && (*v)[n] == '=')
            return *v + n + 1;
    return NULL;
}

static bool mounts(const struct spec *s, const char *text)
{
    for (char **m = s->container.mounts; m && *m; m++)
        if (!strcmp(*m, text))
            return true;
    return false;
}

TEST(the_built_in_worker)
{
    struct spec *s =
        job_of("{\"command\":[\"main.py\",\"--lr\",\"-x\"],\"environment\":{\"A\":\"b\","
               "\"PYTHONPATH\":\"/job/\",\"N\":3}}",
               0, &world);

    assert_string_equal(s->command.argv[0], "main.py");
    assert_string_equal(s->command.argv[2], "-x");
    assert_string_equal(s->project, "iris");
    assert_string_equal(s->queue, "atlas");
    assert_string_equal(env_of(s, "FOUNDATIONS_JOB_ID"), ID);
    assert_string_equal(env_of(s, "FOUNDATIONS_USER"), "ada");
    assert_string_equal(env_of(s, "PYTHONPATH"),
                        "/home/ada/.foundations/local_docker_scheduler/work_dir/" ID "/");
    assert_string_equal(env_of(s, "FOUNDATIONS_HOME"), "/home/ada/.foundations");
    assert_string_equal(env_of(s, "A"), "b");
    assert_string_equal(env_of(s, "N"), "3");
    assert_string_equal(env_of(s, "PATH"), "/usr/bin");
    assert_null(env_of(s, "SECRET"));
    assert_null(s->container.image);
    assert_int_equal(s->limits.grace_ms, 5000);
    assert_int_equal(s->limits.log_limit_bytes, 1 << 30);
    assert_true(mounts(s, "/home/ada/.foundations/local_docker_scheduler/work_dir/" ID ":/job"));
    assert_non_null(strstr(s->origin.extra, "\"run\":\"script\""));
    spec_free(s);
}

TEST(volumes_and_the_standard_image)
{
    static const char text[] =
        "{\"command\":\"main.py\",\"image\":\"us.gcr.io/atlas-ce/worker:latest\",\"volumes\":{"
        "\"/a\":{\"bind\":\"/b\",\"mode\":\"ro\"},\"/c\":{\"bind\":\"/d\"},"
        "\"/their/place/" ID "\":{\"bind\":\"/job\",\"mode\":\"rw\"}}}";
    struct atlas_world bare = world;
    struct spec *s = job_of(text, 0, &world);

    assert_null(s->container.image);
    assert_true(mounts(s, "/a:/b:ro"));
    assert_true(mounts(s, "/c:/d"));
    assert_false(mounts(s, "/their/place/" ID ":/job"));
    spec_free(s);
    bare.mounts = false;
    s = job_of(text, 0, &bare);
    assert_null(s->container.mounts);
    spec_free(s);
}

TEST(an_image_of_its_own)
{
    struct spec *s =
        job_of("{\"command\":[\"main.py\"],\"image\":\"mine:1\",\"entrypoint\":[\"python\"],"
               "\"mem_limit\":1073741824,\"environment\":[\"K=V=W\"]}",
               0, &world);

    assert_string_equal(s->container.image, "mine:1");
    assert_string_equal(env_of(s, "PYTHONPATH"), "/job/");
    assert_string_equal(env_of(s, "FOUNDATIONS_HOME"), "/root/.foundations/");
    assert_string_equal(env_of(s, "K"), "V=W");
    assert_null(env_of(s, "PATH")); /* the image's own */
    assert_true(mounts(s,
                       "/home/ada/.foundations/config/local_docker_scheduler/worker_config:/root/"
                       ".foundations/config"));
    assert_non_null(strstr(s->container.options, "\"/job/job_source\""));
    assert_non_null(strstr(s->container.options, "foundations-atlas"));
    assert_non_null(strstr(s->container.options, "\"python\""));
    assert_int_equal(s->need.mem_bytes, 1 << 30);
    spec_free(s);
}

TEST(an_entrypoint_takes_the_place_of_the_start_script)
{
    struct spec *s = job_of("{\"command\":[\"a\"],\"entrypoint\":[\"/bin/sh\",\"-c\"]}", 0, &world);

    assert_string_equal(s->command.argv[0], "/bin/sh");
    assert_string_equal(s->command.argv[2], "a");
    assert_non_null(strstr(s->origin.extra, "\"run\":\"exec\""));
    spec_free(s);
    spec_free(job_of("{}", 0, &world)); /* no command: python with nothing to do */
}

TEST(gpus)
{
    struct spec *s = job_of("{\"command\":[\"a\"]}", 2, &world);

    assert_int_equal(s->need.gpus, 2);
    assert_false(spec_shares(s));
    spec_free(s);
    s = job_of("{\"command\":[\"a\"]}", 3, &world);
    assert_int_equal(s->need.gpus, 0);
    assert_non_null(strstr(s->origin.extra, "Job '" ID "' expects to use more GPUs (3) than "
                                            "available (2), removing from the queue"));
    spec_free(s);
}

static void refused(const char *spec, const char *why)
{
    struct err e;
    struct json *form = form_of(spec, 0, &world, &e);

    if (form)
        fail_msg("taken: %s", spec);
    if (!strstr(e.text, why))
        fail_msg("'%s' does not say '%s'", e.text, why);
}

TEST(mistakes_name_the_place)
{
    refused("{\"command\":7}", "spec.command");
    refused("{\"command\":[[]]}", "spec.command[0]");
    refused("{\"command\":[\"a\"],\"environment\":3}", "spec.environment");
    refused("{\"command\":[\"a\"],\"environment\":[\"novalue\"]}", "spec.environment[0]");
    refused("{\"command\":[\"a\"],\"volumes\":{\"/a\":{}}}", "bind");
    refused("{\"command\":[\"a\"],\"volumes\":{\"a\":{\"bind\":\"/b\"}}}", "absolute");
    refused("{\"command\":[\"a\"],\"mem_limit\":\"lots\"}", "mem_limit");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_built_in_worker),
        cmocka_unit_test(volumes_and_the_standard_image),
        cmocka_unit_test(an_image_of_its_own),
        cmocka_unit_test(an_entrypoint_takes_the_place_of_the_start_script),
        cmocka_unit_test(gpus),
        cmocka_unit_test(mistakes_name_the_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
