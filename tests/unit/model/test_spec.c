/* test_spec.c - specs that are read, specs that are refused and with what words, round trips */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "model/spec.h"
#include <stdio.h>

static struct json *tree(const char *text)
{
    struct json *j = NULL;
    struct err e = {0};

    if (json_parse(str_of(text), "test", &j, &e) < 0)
        fail_msg("%s: %s", text, e.text);
    return j;
}

static struct spec *parsed(const char *text)
{
    struct json *j = tree(text);
    struct spec *s = NULL;
    struct err e = {0};

    if (spec_parse(j, "", &s, &e) < 0)
        fail_msg("%s: %s", text, e.text);
    json_free(j);
    return s;
}

static void refused(const char *text, const char *path, const char *message)
{
    struct json *j = tree(text);
    struct spec *s = (struct spec *)&j;
    struct err e = {0};

    assert_int_equal(spec_parse(j, path, &s, &e), -1);
    assert_ptr_equal(s, &j); /* untouched */
    if (!strstr(e.text, message))
        fail_msg("\"%s\" is not in \"%s\"", message, e.text);
    assert_int_not_equal(e.code, ERR_NONE);
    json_free(j);
}

static void defaults(void **state)
{
    struct spec *s = parsed("{\"command\": \"python train.py\"}");

    (void)state;
    assert_string_equal(s->name, "train.py");
    assert_string_equal(s->project, "default");
    assert_string_equal(s->queue, "default");
    assert_string_equal(s->command.shell, "python train.py");
    assert_null(s->command.argv);
    assert_int_equal(s->need.slots, 1);
    assert_int_equal(s->need.mcpu, 0);
    assert_null(s->command.cwd);
    assert_non_null(s->command.env);
    assert_null(s->command.env[0]);
    assert_int_equal(s->limits.timeout_ms, 0);
    assert_int_equal(s->limits.grace_ms, 10000);
    assert_int_equal(s->backoff_ms, 1000);
    assert_int_equal(s->retries, 0);
    assert_false(s->split_output);
    spec_free(s);
}

static void everything(void **state)
{
    struct spec *s = parsed(
        "{\"name\":\"n\",\"project\":\"p\",\"queue\":\"q\",\"command\":[\"./a "
        "b\",\"--lr\",0.1,7,true],"
        "\"cwd\":\"/tmp\",\"env\":{\"B\":\"x=y\",\"A1\":2,\"A\":0.10,\"C\":true},"
        "\"resources\":{\"cpus\":2,\"mem\":\"4G\",\"gpus\":1,\"slots\":3},\"timeout\":\"2h\","
        "\"grace\":1.5,"
        "\"retries\":2,\"backoff\":\"500ms\",\"priority\":-5,\"split_output\":true,"
        "\"params\":{\"a\":1},\"after\":[\"x\"],\"slots\":4}");

    (void)state;
    assert_string_equal(s->name, "n");
    assert_string_equal(s->project, "p");
    assert_string_equal(s->queue, "q");
    assert_string_equal(s->command.argv[0], "./a b");
    assert_string_equal(s->command.argv[2], "0.1");
    assert_string_equal(s->command.argv[3], "7");
    assert_string_equal(s->command.argv[4], "true");
    assert_null(s->command.argv[5]);
    assert_string_equal(s->command.cwd, "/tmp");
    assert_string_equal(s->command.env[0], "A=0.10");
    assert_string_equal(s->command.env[1], "A1=2");
    assert_string_equal(s->command.env[2], "B=x=y");
    assert_string_equal(s->command.env[3], "C=true");
    assert_null(s->command.env[4]);
    assert_int_equal(s->need.mcpu, 2000);
    assert_int_equal(s->need.mem_bytes, INT64_C(4) << 30);
    assert_int_equal(s->need.gpus, 1);
    assert_int_equal(s->need.slots, 3);
    assert_int_equal(s->limits.timeout_ms, 7200000);
    assert_int_equal(s->limits.grace_ms, 1500);
    assert_int_equal(s->backoff_ms, 500);
    assert_int_equal(s->retries, 2);
    assert_int_equal(s->priority, -5);
    assert_true(s->split_output);
    spec_free(s);
}

static void flat_forms(void **state)
{
    struct spec *s =
        parsed("{\"command\":[\"x\"],\"cpus\":\"500m\",\"mem\":\"512M\",\"gpus\":2,\"name\":null}");

    (void)state;
    assert_int_equal(s->need.mcpu, 500);
    assert_int_equal(s->need.mem_bytes, 512 << 20);
    assert_int_equal(s->need.gpus, 2);
    spec_free(s);
    refused("{\"command\":[\"x\"],\"cpus\":1,\"resources\":{\"cpus\":2}}", "", "given twice");
}

static void default_names(void **state)
{
    static const struct {
        const char *command, *name;
    } cases[] = {
        {"\"./src/train.py --lr 1\"", "train.py"},
        {"\"python3 -u src/train.py --lr 1\"", "train.py"},
        {"[\"/usr/bin/python3.11\", \"-W\", \"ignore\", \"fit.py\"]", "fit.py"},
        {"\"env A=1 python -m pkg.train\"", "pkg.train"},
        {"[\"python3\", \"-c\", \"print(1)\"]", "python3"},
        {"[\"bash\", \"-c\", \"echo x\"]", "bash"},
        {"\"bash -x run.sh\"", "run.sh"},
        {"\"uv run train.py\"", "train.py"},
        {"[\"python\"]", "python"},
        {"\"python-train x\"", "python-train"},
        {"\"sh; echo y\"", "sh"},
        {"\"  A=1 B=2 /usr/bin/make all\"", "make"},
        {"\"(cd x && y)\"", "job"},
        {"[\"/bin/echo\", \"a\"]", "echo"},
        {"[\"a/\"]", "a/"},
        {"[\"\\u0001\"]", "job"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[200];
        snprintf(text, sizeof(text), "{\"command\": %s}", cases[i].command);
        struct spec *s = parsed(text);
        assert_string_equal(s->name, cases[i].name);
        spec_free(s);
    }
}

static void messages(void **state)
{
    (void)state;
    refused("{\"command\":\"x\",\"resources\":{\"cpu\":1}}", "jobs[3].",
            "jobs[3].resources.cpu: unknown key; did you mean \"cpus\"?");
    refused("{\"command\":\"x\",\"timout\":1}", "",
            "timout: unknown key; did you mean \"timeout\"?");
    refused("{\"command\":\"x\",\"cpu\":1}", "", "cpu: unknown key; did you mean \"cpus\"?");
    refused("{\"command\":\"x\",\"zzzzzzzz\":1}", "",
            "zzzzzzzz: unknown key; see `berth schema job`");
    refused("{}", "jobs[0].", "jobs[0].command: is missing");
    refused("[]", "", "a job is a map");
    refused("{\"command\":[]}", "", "command: is an empty list");
    refused("{\"command\":\"  \"}", "", "command: is empty");
    refused("{\"command\":[\"\"]}", "", "command[0]: is empty");
    refused("{\"command\":[\"a\",[]]}", "", "command[1]: ");
    refused("{\"command\":[\"a\",null]}", "", "command[1]: ");
    refused("{\"command\":7}", "", "command: 7 is a");
    refused("{\"command\":\"a\\u0000b\"}", "", "NUL");
    refused("{\"command\":[\"a\\u0000b\"]}", "", "NUL");
    refused("{\"command\":\"x\",\"name\":\"\"}", "", "name: is 0 bytes long; 1 to 200");
    refused("{\"command\":\"x\",\"name\":\"a\\nb\"}", "", "control character");
    refused("{\"command\":\"x\",\"cwd\":\"rel\"}", "", "cwd: \"rel\" is not absolute");
    refused("{\"command\":\"x\",\"env\":[]}", "", "env: [] is");
    refused("{\"command\":\"x\",\"env\":{\"A=B\":1}}", "", "not a variable name");
    refused("{\"command\":\"x\",\"env\":{\"A\":{}}}", "", "env.A: {");
    refused("{\"command\":\"x\",\"env\":{\"A\":null}}", "", "env.A: null");
    refused("{\"command\":\"x\",\"retries\":1001}", "", "retries: 1001 is out of range; 0 to 1000");
    refused("{\"command\":\"x\",\"retries\":\"2\"}", "", "retries: \"2\" is a");
    refused("{\"command\":\"x\",\"priority\":-1000001}", "", "-1000000 to 1000000");
    refused("{\"command\":\"x\",\"mem\":4}", "", "add a unit, as in 4G");
    refused("{\"command\":\"x\",\"mem\":\"4Q\"}", "", "mem: ");
    refused("{\"command\":\"x\",\"cpus\":-1}", "", "cpus: -1 is out of range");
    refused("{\"command\":\"x\",\"cpus\":1e300}", "", "out of range");
    refused("{\"command\":\"x\",\"timeout\":\"soon\"}", "", "timeout: ");
    refused("{\"command\":\"x\",\"timeout\":-1}", "", "timeout: -1 is out of range; 0 to");
    refused("{\"command\":\"x\",\"backoff\":\"2h\"}", "",
            "backoff: \"2h\" is out of range; 0 to 1h");
    refused("{\"command\":\"x\",\"resources\":{\"gpus\":1025}}", "",
            "resources.gpus: 1025 is out of range");
    refused("{\"command\":\"x\",\"resources\":{\"slots\":0}}", "",
            "resources.slots: 0 is out of range");
    refused("{\"command\":\"x\",\"resources\":4}", "", "resources: 4 is");
    refused("{\"command\":\"x\",\"split_output\":1}", "", "split_output: 1 is");
    refused("{\"command\":\"x\",\"nice\":20}", "", "nice: ");
    refused("{\"command\":\"x\",\"log_limit\":\"1K\"}", "", "log_limit: is less than 64K");
}

static void training_keys(void **state)
{
    struct spec *s =
        parsed("{\"command\":[\"python\",\"train.py\"],\"resources\":{\"gpus\":2,\"gpus_max\":8,"
               "\"gpu_mem\":\"6G\",\"gpu_share\":false},\"epochs\":90,\"estimate\":\"3h\","
               "\"deadline\":\"2026-11-20T08:00:00Z\",\"preempt_signal\":\"SIGUSR1\","
               "\"checkpoint\":\"out/last.pt\",\"family\":\"resnet\",\"image\":\"torch:2\","
               "\"mounts\":[\"/data:/data:ro\"],\"ports\":[\"31346:6006\",\"31347:7007\"],"
               "\"launch\":\"gpu\",\"dialect\":\"d\",\"extra\":{\"a\":[1,2]}}");
    const struct training *t = &s->train;

    (void)state;
    assert_int_equal(s->need.gpus, 2);
    assert_int_equal(t->gpus_max, 8);
    assert_int_equal(t->gpu_mem_bytes, INT64_C(6) << 30);
    assert_int_equal(t->share, GPU_SHARE_NO);
    assert_false(spec_shares(s));
    assert_int_equal(t->epochs, 90);
    assert_int_equal(t->estimate_ms, 3 * 3600 * 1000);
    assert_int_equal(t->deadline_ms, INT64_C(1795161600000));
    assert_int_equal(t->preempt_signal, 10);
    assert_string_equal(t->checkpoint, "out/last.pt");
    assert_string_equal(s->container.mounts[0], "/data:/data:ro");
    assert_string_equal(s->container.ports[1], "31347:7007");
    assert_null(s->container.ports[2]);
    assert_int_equal(t->launch, LAUNCH_GPU);
    assert_string_equal(s->origin.extra, "{\"a\":[1,2]}");
    assert_true(spec_trains(s));
    spec_free(s);
    s = parsed("{\"command\":\"x\",\"gpus\":1,\"gpu_mem\":\"1G\"}");
    assert_true(spec_shares(s));
    spec_free(s);
    s = parsed("{\"command\":\"x\",\"gpus\":1}");
    assert_false(spec_shares(s));
    spec_free(s);
    s = parsed("{\"command\":\"x\"}");
    assert_false(spec_trains(s));
    spec_free(s);
}

static void training_messages(void **state)
{
    (void)state;
    refused("{\"command\":\"x\",\"gpus\":4,\"gpus_max\":2}", "", "gpus_max: 2 is less than gpus");
    refused("{\"command\":\"x\",\"gpu_mem\":\"1G\"}", "", "gpus: is missing");
    refused("{\"command\":\"x\",\"launch\":\"gpu\"}", "", "gpus: is missing");
    refused("{\"command\":\"x\",\"launch\":\"all\"}", "", "launch: \"all\" is neither");
    refused("{\"command\":\"x\",\"preempt_signal\":\"USR1\"}", "", "needs a checkpoint");
    refused("{\"command\":\"x\",\"checkpoint\":\"c\",\"preempt_signal\":\"KILL\"}", "",
            "preempt_signal: \"KILL\" cannot be caught");
    refused("{\"command\":\"x\",\"checkpoint\":\"c\",\"preempt_signal\":\"FOO\"}", "",
            "preempt_signal: \"FOO\" is not a signal");
    refused("{\"command\":\"x\",\"deadline\":\"soon\"}", "", "deadline: \"soon\" is not a time");
    refused("{\"command\":\"x\",\"deadline\":7}", "", "deadline: 7 is");
    refused("{\"command\":\"x\",\"mounts\":[\"data:/data\"]}", "", "mounts: \"data:/data\" is not");
    refused("{\"command\":\"x\",\"mounts\":\"/a:/b\"}", "", "mounts: ");
    refused("{\"command\":\"x\",\"ports\":[\"0:1\"]}", "", "ports: \"0:1\" is not");
    refused("{\"command\":\"x\",\"ports\":[\"80:1\",\"80:2\"]}", "", "same port of the node");
    refused("{\"command\":\"x\",\"extra\":[]}", "", "extra: [] is");
    refused("{\"command\":\"x\",\"gpu_share\":1}", "", "gpu_share: 1 is");
    refused("{\"command\":\"x\",\"epochs\":-1}", "", "epochs: -1 is out of range");
    refused("{\"command\":\"x\",\"epoch\":1}", "", "did you mean \"epochs\"?");
}

static void family_is(const char *text, const char *want)
{
    struct spec *s = parsed(text);
    struct buf b;

    buf_init(&b, 1000);
    spec_family(s, &b);
    assert_string_equal(buf_str(&b).p, want);
    buf_done(&b);
    spec_free(s);
}

static void families(void **state)
{
    (void)state;
    family_is("{\"command\":\"x\",\"family\":\"f\"}", "f");
    family_is("{\"command\":[\"python\",\"t.py\",\"--lr\",\"1\"],\"cwd\":\"/w\"}",
              " /w python t.py");
    family_is("{\"command\":\"python t.py --lr 1 --batch-size 32\",\"image\":\"i\"}",
              "i  python t.py #32");
    family_is("{\"command\":\"python t.py --batch_size=32 --lr 2\",\"image\":\"i\"}",
              "i  python t.py #32");
    family_is("{\"command\":\"x\",\"env\":{\"BATCH_SIZE\":8}}", "  x #8");
}

static void too_long(void **state)
{
    size_t n = 131072;
    char *text = xmalloc(n + 100);

    (void)state;
    snprintf(text, 100, "{\"command\":\"");
    memset(text + 12, 'x', n);
    snprintf(text + 12 + n, 10, "\"}");
    refused(text, "", "at most 131071 can be handed to a program");
    free(text);
}

static void round_trip(void **state)
{
    static const char *const texts[] = {
        "{\"command\":\"a b\"}",
        "{\"command\":[\"a\",\"b\\nc\",\"\"],\"name\":\"é\"}",
        "{\"command\":\"x\",\"env\":{\"Z\":\"1\",\"A\":\"=\"},\"cwd\":\"/"
        "\",\"cpus\":0.25,\"mem\":\"1.5G\"}",
        "{\"command\":\"x\",\"timeout\":\"1h30m\",\"grace\":0,\"backoff\":0,\"retries\":3,"
        "\"retry_lost\":2,\"priority\":9,"
        "\"split_output\":true,\"nice\":-3,\"log_limit\":\"64M\",\"resources\":{\"slots\":2,"
        "\"gpus\":1}}",
        "{\"command\":\"x\",\"gpus\":1,\"gpus_max\":4,\"gpu_mem\":\"1G\",\"gpu_share\":false,"
        "\"epochs\":3,\"estimate\":\"90s\",\"deadline\":\"2026-11-20T08:00:00+01:00\","
        "\"preempt_signal\":12,\"checkpoint\":\"/c\",\"mounts\":[\"/a:/b\"],"
        "\"ports\":[\"1:2\"],\"launch\":\"gpu\",\"dialect\":\"d\",\"image\":\"i\","
        "\"family\":\"f\",\"extra\":{\"k\":1}}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct spec *a = parsed(texts[i]);
        struct json *ja = spec_to_json(a);
        AUTO_FREE char *ta = json_text(ja);
        struct spec *b = parsed(ta);
        struct json *jb = spec_to_json(b);
        assert_true(json_equal(ja, jb));
        assert_int_equal(a->limits.grace_ms, b->limits.grace_ms);
        assert_int_equal(a->backoff_ms, b->backoff_ms);
        assert_int_equal(a->limits.timeout_ms, b->limits.timeout_ms);
        assert_memory_equal(&a->need, &b->need, sizeof(struct resources));
        assert_memory_equal(&a->train, &b->train, offsetof(struct training, checkpoint));
        json_free(ja);
        json_free(jb);
        spec_free(a);
        spec_free(b);
    }
    spec_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),          cmocka_unit_test(everything),
        cmocka_unit_test(flat_forms),        cmocka_unit_test(default_names),
        cmocka_unit_test(messages),          cmocka_unit_test(too_long),
        cmocka_unit_test(round_trip),        cmocka_unit_test(training_keys),
        cmocka_unit_test(training_messages), cmocka_unit_test(families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
