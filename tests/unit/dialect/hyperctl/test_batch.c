/* test_batch.c - batch files, their scripts, templates and views */
#include "../../base/unit.h"
#include "base/util.h"
#include "dialect/hyperctl/generate.h"
#include "dialect/hyperctl/layout.h"
#include "dialect/hyperctl/views.h"
#include <stdlib.h>

static struct hyper_batch *load(const char *text)
{
    struct json *j = NULL;
    struct hyper_batch *b = NULL;
    struct err e = {0};

    if (json_parse(str_of(text), "t", &j, &e) < 0 || hyper_batch_parse(j, "/cwd", &b, &e) < 0)
        fail_msg("%s", e.text);
    json_free(j);
    return b;
}

static void refused(const char *text, const char *want)
{
    struct json *j = NULL;
    struct hyper_batch *b = NULL;
    struct err e = {0};

    assert_int_equal(json_parse(str_of(text), "t", &j, &e), 0);
    if (hyper_batch_parse(j, "/cwd", &b, &e) == 0)
        fail_msg("accepted: %s", text);
    if (!strstr(e.text, want))
        fail_msg("\"%s\" does not say \"%s\"", e.text, want);
    assert_null(b);
    json_free(j);
}

TEST(defaults)
{
    struct hyper_batch *b = load("{\"jobs\":[{\"params\":{},\"command\":\"c\"}]}");

    assert_int_equal(strlen(b->name), HYPER_ID_LEN);
    assert_true(b->name_was_made && b->exit_on_finish && b->independent_tmp && !b->remote);
    assert_string_equal(b->host, "localhost");
    assert_int_equal(b->port, 8060);
    assert_int_equal(b->slots, 1);
    assert_true(b->interval_ms == 5000);
    assert_int_equal(strlen(b->jobs.p[0].name), HYPER_ID_LEN);
    assert_int_equal(b->warnings.n, 0);
    hyper_batch_free(b);
}

TEST(three_forms)
{
    struct hyper_batch *b = load(
        "{\"name\":\"n\",\"job_command\":\"all\",\"command\":\"lower\",\"daemon\":{\"host\":"
        "\"h\",\"port\":1,\"exit_on_finish\":false},\"jobs\":["
        "{\"name\":\"own\",\"params\":{},\"command\":\"c\",\"execution\":{\"command\":\"e\"}},"
        "{\"name\":\"old\",\"params\":{},\"execution\":{\"command\":\"e\",\"data_dir\":\"d\","
        "\"working_dir\":\"$W/x\"}},{\"name\":\"shared\",\"params\":{},\"output_dir\":\"/o\"}]}");

    assert_string_equal(b->jobs.p[0].command, "c");
    assert_string_equal(b->jobs.p[1].command, "e");
    assert_string_equal(b->jobs.p[1].data_dir, "/cwd/d");
    assert_string_equal(b->jobs.p[1].working_dir, "$W/x");
    assert_string_equal(b->jobs.p[2].command, "all");
    assert_string_equal(b->jobs.p[2].data_dir, "/o");
    assert_string_equal(b->host, "h");
    assert_int_equal(b->port, 1);
    assert_false(b->exit_on_finish);
    assert_ptr_equal(hyper_batch_find(b, STR("old")), &b->jobs.p[1]);
    assert_null(hyper_batch_find(b, STR("none")));
    hyper_batch_free(b);
}

TEST(tilde)
{
    setenv("HOME", "/h", 1);
    struct hyper_batch *b =
        load("{\"batches_data_dir\":\"~/b\",\"jobs\":[{\"params\":{},\"command\":"
             "\"c\",\"working_dir\":\"~\"}]}");
    assert_string_equal(b->batches_data_dir, "/h/b");
    assert_string_equal(b->jobs.p[0].working_dir, "/h");
    hyper_batch_free(b);
}

TEST(machines)
{
    struct hyper_batch *b = load(
        "{\"jobs\":[],\"backend\":{\"type\":\"remote\",\"machines\":[{\"connection\":{\"hostname\":"
        "\"a\",\"username\":\"u\",\"password\":\"p\",\"host_keys\":\"accept-new\"},\"slots\":3,"
        "\"environments\":{\"A\":1}},{\"hostname\":\"b\",\"username\":\"v\",\"port\":2222,"
        "\"ssh_rsa_file\":\"/k\"}]}}");

    assert_true(b->remote && b->has_password);
    assert_int_equal(b->machines.n, 2);
    assert_int_equal(b->machines.p[0].port, 22);
    assert_int_equal(b->machines.p[0].slots, 3);
    assert_true(b->machines.p[0].accept_new && !b->machines.p[1].accept_new);
    assert_int_equal(b->machines.p[1].port, 2222);
    assert_string_equal(b->machines.p[1].key_file, "/k");
    hyper_batch_free(b);
    refused("{\"jobs\":[],\"backend\":{\"type\":\"remote\",\"machines\":[]}}",
            "machines is missing");
    refused("{\"jobs\":[],\"backend\":{\"type\":\"remote\",\"machines\":[{\"connection\":{"
            "\"hostname\":\"-oProxyCommand=x\",\"username\":\"u\"}}]}}",
            "may not begin with a dash");
    refused("{\"jobs\":[],\"backend\":{\"type\":\"remote\",\"machines\":[{\"connection\":{"
            "\"hostname\":\"h\",\"username\":\"u\"},\"colour\":1}]}}",
            "unexpected keyword argument 'colour'");
}

#define REMOTE(machines)                                                                           \
    "{\"jobs\":[],\"backend\":{\"type\":\"remote\",\"machines\":[" machines "]}}"

TEST(machines_of_one_login_are_one)
{
    struct hyper_batch *b =
        load(REMOTE("{\"connection\":{\"hostname\":\"h\",\"username\":\"u\"}},"
                    "{\"hostname\":\"h\",\"username\":\"u\",\"slots\":2},"
                    "{\"connection\":{\"hostname\":\"h\",\"username\":\"u\",\"port\":2222}},"
                    "{\"connection\":{\"hostname\":\"h\",\"username\":\"v\"}},"
                    "{\"connection\":{\"hostname\":\"fe80::1%eth0\",\"username\":\"u\"}}"));

    assert_int_equal(b->machines.n, 4);
    assert_int_equal(b->machines.p[0].slots, 3);
    assert_string_equal(b->machines.p[0].node, "hyperctl.h");
    assert_string_equal(b->machines.p[1].node, "hyperctl.h-2222");
    assert_string_equal(b->machines.p[2].node, "hyperctl.h-22");
    assert_string_equal(b->machines.p[3].node, "hyperctl.fe80--1-eth0");
    assert_ptr_equal(hyper_batch_machine(b, "hyperctl.h-22"), &b->machines.p[2]);
    assert_null(hyper_batch_machine(b, "x"));
    assert_null(hyper_batch_machine(b, NULL));
    hyper_batch_free(b);
    refused(REMOTE("{\"hostname\":\"h\",\"username\":\"u\"},"
                   "{\"hostname\":\"h\",\"username\":\"u\",\"data_dir\":\"/x\"}"),
            "machines[1] is u@h once more");
    refused(REMOTE("{\"hostname\":\"h;id\",\"username\":\"u\"}"), "hostname contains ';'");
    refused(REMOTE("{\"hostname\":\"h\",\"username\":\"u@x\"}"), "username contains '@'");
    refused(REMOTE("{\"hostname\":\"-oProxyCommand\",\"username\":\"u\"}"), "begin with a dash");
    refused(REMOTE("{\"hostname\":\"h\",\"username\":\"u\",\"host_key\":\"a\\nb\"}"),
            "more than one line");
}

TEST(a_password_may_stand_in_a_variable)
{
    setenv("HYPER_TEST_PASSWORD", "secret", 1);
    struct hyper_batch *b = load(
        REMOTE("{\"hostname\":\"h\",\"username\":\"u\",\"password_env\":\"HYPER_TEST_PASSWORD\"}"));
    assert_string_equal(b->machines.p[0].password, "secret");
    assert_false(b->has_password); /* the file holds none */
    hyper_batch_free(b);
    unsetenv("HYPER_TEST_PASSWORD");
    refused(
        REMOTE("{\"hostname\":\"h\",\"username\":\"u\",\"password_env\":\"HYPER_TEST_PASSWORD\"}"),
        "HYPER_TEST_PASSWORD, which is not set");
}

TEST(mistakes)
{
    refused("1", "a batch is an object");
    refused("{}", "jobs is missing");
    refused("{\"jobs\":{}}", "write a list of jobs");
    refused("{\"jobs\":[1]}", "jobs[0] is a whole number");
    refused("{\"jobs\":[{\"name\":\"x\",\"params\":{}}]}", "job 'x' has no command");
    refused("{\"jobs\":[{\"name\":true,\"command\":\"c\"}]}", "job name must be a text");
    refused("{\"jobs\":[{\"name\":\"x\",\"command\":\"c\",\"assets\":\"f\"}]}", "assets is");
    refused("{\"jobs\":[{\"name\":\"x\",\"command\":\"c\",\"resource\":1}]}", "resource is");
    refused("{\"name\":\"a\\u0000b\",\"jobs\":[]}", "NUL");
    refused("{\"jobs\":[],\"scheduler\":{\"interval\":-1}}", "positive callback_time");
    refused("{\"jobs\":[],\"backend\":{\"slots\":0}}", "backend.slots");
}

static void check_script(const char *json, const char *wants, const char *never)
{
    struct hyper_batch *b = load(json);
    struct hyper_layout l;
    AUTO(buf) struct buf text = {0};
    struct err e = {0};
    size_t left;

    hyper_layout_init(&l, "/none/of/this");
    assert_int_equal(hyper_layout_restore(&l, b, &left, &e), 0);
    buf_init(&text, 1 << 20);
    hyper_script(&text, b, &b->jobs.p[0], "http://p");
    if (!strstr(text.p, wants))
        fail_msg("%s\ndoes not hold\n%s", text.p, wants);
    if (never && strstr(text.p, never))
        fail_msg("%s\nholds\n%s", text.p, never);
    hyper_layout_done(&l);
    hyper_batch_free(b);
}

TEST(scripts)
{
    check_script(
        "{\"jobs\":[{\"name\":\"n $(x) `y` \\\" \\\\ $HOME\",\"params\":{},\"command\":\"c\"}]}",
        "export HYPERCTL_JOB_NAME=\"n \\$(x) \\`y\\` \\\" \\\\ \\$HOME\"\n", NULL);
    check_script("{\"jobs\":[{\"name\":\"n\",\"params\":{},\"command\":\"c\"}],\"backend\":{"
                 "\"environments\":{\"P\":\"/x:$P:${Q_1}:$(z):${R:-1}:$1:$\",\"T\":true}}}",
                 "export P=\"/x:$P:${Q_1}:\\$(z):\\${R:-1}:\\$1:\\$\"\nexport T=\"True\"\n", NULL);
    check_script("{\"jobs\":[{\"name\":\"$n\",\"params\":{},\"command\":\"a; b # {\"}]}",
                 "cd \"/none/of/this/\\$n\" || exit 1\na; b # {\n", NULL);
    check_script(
        "{\"jobs\":[{\"name\":\"n\",\"params\":{},\"working_dir\":\"/w/$X\",\"command\":\"c\"}]}",
        "cd \"/w/$X\" || exit 1\nc\n", NULL);
    check_script(
        "{\"independent_tmp\":false,\"jobs\":[{\"name\":\"n\",\"params\":{},\"command\":\"c\"}]}",
        "exec >\"/none/of/this/n/stdout\" 2>\"/none/of/this/n/stderr\"\n", "export TMP");
}

#define FAR_JOB(job)                                                                               \
    "{\"jobs\":[{\"name\":\"n\",\"params\":{},\"command\":\"c\"" job                               \
    "}],\"backend\":{\"type\":\"remote\",\"machines\":[{\"hostname\":\"h1\",\"username\":\"u\","   \
    "\"environments\":{\"A\":\"two words\",\"P\":\"/x:$P\"}},"                                     \
    "{\"hostname\":\"h2\",\"username\":\"u\"}]}}"

TEST(scripts_for_other_machines)
{
    check_script(FAR_JOB(""), "export HYPERCTL_JOB_DATA_DIR=\"$PWD\"\n", "/none/of/this");
    check_script(FAR_JOB(""), "export HYPERCTL_JOB_PARAMS_FILE=\"$PWD/params.json\"\n", "exec >");
    check_script(FAR_JOB(""),
                 "case \"$BERTH_NODE\" in\n\"hyperctl.h1\")\nexport A=\"two words\"\n"
                 "export P=\"/x:$P\"\n;;\nesac\n",
                 "h2");
    check_script(FAR_JOB(""), "fi\nc\n", "cd ");
    check_script(FAR_JOB(",\"working_dir\":\"~/w $(x)\""), "cd \"$HOME/w \\$(x)\" || exit 1\nc\n",
                 NULL);
    check_script(FAR_JOB(",\"working_dir\":\"rel\""), "cd \"rel\" || exit 1\nc\n", NULL);
}

TEST(templates)
{
    struct json *t = NULL, *out = NULL;
    struct err e = {0};

    assert_int_equal(
        hyper_template_parse(STR("params: {a: [1, 2], b: [x, y, z]}\ncommand: c\nname: n\n"), "t",
                             &t, &e),
        0);
    assert_int_equal(hyper_generate(t, "9", &out, &e), 0);
    assert_int_equal(json_len(json_get(out, "jobs")), 6);
    AUTO_FREE char *second = json_text(json_get(json_at(json_get(out, "jobs"), 1), "params"));
    AUTO_FREE char *fourth = json_text(json_get(json_at(json_get(out, "jobs"), 3), "params"));
    assert_string_equal(second, "{\"a\":1,\"b\":\"y\"}");
    assert_string_equal(fourth, "{\"a\":2,\"b\":\"x\"}");
    struct hyper_batch *b = NULL;
    assert_int_equal(hyper_batch_parse(out, "/", &b, &e), 0); /* what is generated can be run */
    hyper_batch_free(b);
    json_free(t);
    json_free(out);
}

TEST(views)
{
    struct hyper_batch *b = load(
        "{\"jobs\":[{\"name\":\"a\",\"params\":{},\"command\":\"c\"},{\"name\":\"b\",\"params\":{},"
        "\"command\":\"c\"},{\"name\":\"c\",\"params\":{},\"command\":\"c\"}]}");
    const struct hyper_view_conf conf = {1, 2, 5};

    struct json *v = hyper_views_json(b, &conf);
    AUTO_FREE char *empty = json_text(v);
    assert_string_equal(empty, "{\"status\":{\"init\":3,\"running\":0,\"succeed\":0,\"failed\":0},"
                               "\"tail\":[],\"histogram\":[],\"timeline\":[],\"nodes\":[]}");
    json_free(v);
    for (size_t i = 0; i < 2; i++) {
        b->jobs.p[i].status = i ? HYPER_FAILED : HYPER_SUCCEED;
        b->jobs.p[i].started_ms = 1000;
        b->jobs.p[i].ended_ms = 2000 + (int64_t)i * 2000;
    }
    v = hyper_views_json(b, &conf);
    AUTO_FREE char *tail = json_text(json_get(v, "tail"));
    assert_string_equal(
        tail, "[{\"name\":\"b\",\"status\":\"failed\",\"end_datetime\":4.0,\"elapsed\":3.0}]");
    AUTO_FREE char *histogram = json_text(json_get(v, "histogram"));
    assert_string_equal(
        histogram, "[{\"from\":1.0,\"to\":2.0,\"count\":1},{\"from\":2.0,\"to\":3.0,\"count\":1}]");
    assert_int_equal(json_len(json_get(v, "timeline")), 2);
    AUTO_FREE char *nodes = json_text(json_get(v, "nodes"));
    assert_string_equal(nodes,
                        "[{\"node\":\"localhost\",\"running\":0,\"succeed\":1,\"failed\":1}]");
    json_free(v);
    hyper_batch_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(three_forms),
        cmocka_unit_test(tilde),
        cmocka_unit_test(machines),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(scripts),
        cmocka_unit_test(templates),
        cmocka_unit_test(views),
        cmocka_unit_test(machines_of_one_login_are_one),
        cmocka_unit_test(a_password_may_stand_in_a_variable),
        cmocka_unit_test(scripts_for_other_machines),
    };
    return cmocka_run_group_tests_name("hyperctl_batch", tests, NULL, NULL);
}
