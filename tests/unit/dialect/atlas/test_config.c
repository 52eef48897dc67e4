/* The YAML files of Atlas, and the skeleton of its home. */
#include "../unit.h"
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/config.h"
#include "dialect/atlas/home.h"
#include <stdio.h>
#include <stdlib.h>

static char warned[1000];

static void on_warning(void *arg, const char *text)
{
    (void)arg;
    snprintf(warned, sizeof(warned), "%s", text);
}

static struct json *job(const char *text)
{
    struct json *j = NULL;
    struct err e = {0};

    warned[0] = 0;
    if (atlas_config_parse(str_of(text), "job.config.yaml", ATLAS_CONFIG_JOB, on_warning, NULL, &j,
                           &e) < 0)
        fail_msg("%s", e.text);
    return j;
}

static void refused(const char *text, const char *why)
{
    struct json *j = NULL;
    struct err e = {0};

    if (atlas_config_parse(str_of(text), "job.config.yaml", ATLAS_CONFIG_JOB, on_warning, NULL, &j,
                           &e) == 0)
        fail_msg("taken: %s", text);
    if (!strstr(e.text, why))
        fail_msg("'%s' does not say '%s'", e.text, why);
    assert_null(j);
}

TEST(what_the_document_shows)
{
    struct json *j = job("project_name: 'my-atlas-project'\nlog_level: INFO\nnum_gpus: 1\nworker:\n"
                         "  image: us.gcr.io/atlas-ce/worker:latest\n"
                         "  volumes:\n    /my/local/path:\n      bind: /my/container/path\n"
                         "      mode: rw\n  environment:\n    MY_ENV_VAR: MY_VALUE\n");

    assert_string_equal(warned, "");
    assert_int_equal(json_int(json_get(j, "num_gpus")), 1);
    json_free(j);
    json_free(job("")); /* an empty file says nothing */
    json_free(job("# only a comment\n"));
}

TEST(unknown_keys_are_warnings)
{
    struct json *j = job("projct_name: a\n");

    assert_non_null(strstr(warned, "projct_name"));
    assert_non_null(strstr(warned, "did you mean 'project_name'"));
    json_free(j);
    j = job("worker:\n  imag: a\n");
    assert_non_null(strstr(warned, "worker.imag"));
    json_free(j);
}

TEST(wrong_types_are_errors)
{
    refused("num_gpus: many\n", "num_gpus must be");
    refused("project_name: [a]\n", "project_name must be");
    refused("worker: 7\n", "worker must be");
    refused("- a\n- b\n", "must hold keys");
    refused("worker:\n  volumes:\n    /a: /b\n", "bind");
    refused("worker:\n  volumes:\n    /a: {bind: /b, mode: wild}\n", "rw or ro");
    refused("worker:\n  volumes:\n    a: {bind: /b}\n", "absolute");
}

TEST(broken_text_names_the_place)
{
    refused("project_name: a\n\tnum_gpus: 1\n", "job.config.yaml:2");
    refused("a: [1, 2\n", "job.config.yaml:");
}

static int64_t ram(const char *text)
{
    struct json *j = NULL;
    struct err e = {0};
    int64_t bytes = -1;

    assert_int_equal(json_parse(str_of(text), "ram", &j, &e), 0);
    if (atlas_ram_bytes(j, &bytes, &e) < 0)
        bytes = -1;
    json_free(j);
    return bytes;
}

TEST(memory)
{
    assert_int_equal(ram("2"), INT64_C(2) << 30);
    assert_int_equal(ram("0.5"), 512 << 20);
    assert_int_equal(ram("0.000000000000001"), 1); /* 0 would be no limit */
    assert_int_equal(ram("1048576"), 1 << 20);
    assert_int_equal(ram("\"512m\""), 512 << 20);
    assert_int_equal(ram("\"1gb\""), 1 << 30);
    assert_int_equal(ram("0"), -1);
    assert_int_equal(ram("-1"), -1);
    assert_int_equal(ram("\"lots\""), -1);
    assert_int_equal(ram("[]"), -1);
}

TEST(the_standard_worker_by_any_host_and_tag)
{
    assert_true(atlas_image_is_standard(STR("us.gcr.io/atlas-ce/worker:latest")));
    assert_true(atlas_image_is_standard(STR("atlas-ce/worker")));
    assert_true(atlas_image_is_standard(STR("localhost:5001/dessa-atlas/worker-gpu:1.0")));
    assert_true(atlas_image_is_standard(STR("x/atlas-ce/worker@sha256:00")));
    assert_false(atlas_image_is_standard(STR("myCustomWorker:latest")));
    assert_false(atlas_image_is_standard(STR("my-atlas-ce/worker")));
    assert_false(atlas_image_is_standard(STR("atlas-ce/worker/mine")));
}

TEST(worker_blocks_are_laid_over_key_by_key)
{
    struct json *a = NULL, *b = NULL;
    struct err e = {0};

    json_parse(STR("{\"image\":\"a\",\"volumes\":{\"/x\":1,\"/y\":2}}"), "a", &a, &e);
    json_parse(STR("{\"volumes\":{\"/z\":3}}"), "b", &b, &e);
    struct json *m = atlas_worker_merge(a, b);
    AUTO_FREE char *text = json_text(m);
    assert_string_equal(text, "{\"image\":\"a\",\"volumes\":{\"/z\":3}}");
    json_free(m);
    json_free(a);
    json_free(b);
}

TEST(ids_that_may_become_paths)
{
    assert_true(atlas_id_ok("45540b52-ffe2-44ab-9838-db467d3499c0"));
    assert_false(atlas_id_ok("45540b52-ffe2-44ab-9838-db467d3499c"));
    assert_false(atlas_id_ok("../../../../../../../../../../../../"));
    assert_false(atlas_id_ok(""));
}

TEST(a_home_is_made_once)
{
    char dir[] = "/tmp/atlas-home-XXXXXX";
    struct err e = {0};

    assert_non_null(mkdtemp(dir));
    assert_int_equal(atlas_home_make(dir, 0, NULL, NULL, &e), 0);
    AUTO_FREE char *path = path_join(dir, "config/submission/scheduler.config.yaml");
    AUTO_FREE char *exec = path_join(dir, "config/execution/default.config.yaml");
    struct json *j = NULL;
    warned[0] = 0;
    assert_int_equal(atlas_config_read(path, ATLAS_CONFIG_SUBMISSION, on_warning, NULL, &j, &e), 0);
    assert_string_equal(json_str(json_get(j, "scheduler_url")).p, "http://localhost:5000");
    json_free(j);
    assert_int_equal(atlas_config_read(exec, ATLAS_CONFIG_EXECUTION, on_warning, NULL, &j, &e), 0);
    assert_non_null(json_get(json_get(j, "results_config"), "archive_end_point"));
    json_free(j);
    assert_string_equal(warned, "");
    assert_int_equal(file_write_atomic(path, "mine: 1\n", 8, 0644, &e), 0);
    assert_int_equal(atlas_home_make(dir, 0, NULL, NULL, &e), 0);
    AUTO_FREE char *text = NULL;
    size_t n;
    assert_int_equal(file_read_all(path, 1000, &text, &n, &e), 0);
    assert_string_equal(text, "mine: 1\n");
    assert_int_equal(dir_remove_tree(dir, &e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_document_shows),
        cmocka_unit_test(unknown_keys_are_warnings),
        cmocka_unit_test(wrong_types_are_errors),
        cmocka_unit_test(broken_text_names_the_place),
        cmocka_unit_test(memory),
        cmocka_unit_test(the_standard_worker_by_any_host_and_tag),
        cmocka_unit_test(worker_blocks_are_laid_over_key_by_key),
        cmocka_unit_test(ids_that_may_become_paths),
        cmocka_unit_test(a_home_is_made_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
