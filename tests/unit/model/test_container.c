/* test_container.c - the key `container`: accepted, refused and with what words, written again */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "model/spec.h"

static int parse(const char *container, struct spec **out, struct err *e)
{
    AUTO_FREE char *text =
        xasprintf("{\"command\":\"true\",\"image\":\"i\",\"container\":%s}", container);
    struct json *j = NULL;

    assert_int_equal(json_parse(str_of(text), "test", &j, e), 0);
    int rc = spec_parse(j, "jobs[1].", out, e);
    json_free(j);
    return rc;
}

static void test_accepted(void **state)
{
    static const struct {
        const char *written, *kept;
    } cases[] = {
        {"{\"shm_size\":\"1G\",\"user\":\"root\"}", "{\"user\":\"root\",\"shm_size\":1073741824}"},
        {"{\"entrypoint\":\"\",\"init\":false,\"pull\":\"never\"}",
         "{\"entrypoint\":\"\",\"pull\":\"never\",\"init\":false}"},
        {"{\"entrypoint\":[\"a\",\"b c\"],\"labels\":{\"x\":1,\"y\":true}}",
         "{\"entrypoint\":[\"a\",\"b c\"],\"labels\":{\"x\":\"1\",\"y\":\"true\"}}"},
        {"{\"user\":1000,\"network\":null,\"workdir\":\"/w\"}",
         "{\"workdir\":\"/w\",\"user\":\"1000\"}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct spec *s = NULL, *again = NULL;
        struct err e = {0};
        if (parse(cases[i].written, &s, &e) < 0)
            fail_msg("%s", e.text);
        assert_string_equal(s->container.options, cases[i].kept);
        struct json *j = spec_to_json(s);
        assert_int_equal(spec_parse(j, "", &again, &e), 0);
        assert_string_equal(again->container.options, cases[i].kept);
        json_free(j);
        spec_free(s);
        spec_free(again);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *written, *message;
    } cases[] = {
        {"[]", "jobs[1].container: [] is a list; write a map, as in container: {network: host}"},
        {"{\"netwrok\":\"host\"}",
         "jobs[1].container.netwrok: unknown key; did you mean \"network\"?"},
        {"{\"workdir\":\"w\"}",
         "jobs[1].container.workdir: \"w\" is not absolute; write a path that starts with /"},
        {"{\"init\":1}", "jobs[1].container.init: 1 is a whole number; write true or false"},
        {"{\"pull\":\"often\"}",
         "jobs[1].container.pull: \"often\" is none of missing, always and never"},
        {"{\"shm_size\":5}", "jobs[1].container.shm_size: 5 is out of range; write a size, as 8G"},
        {"{\"entrypoint\":[1]}",
         "jobs[1].container.entrypoint: 1 is a whole number; write texts in the list"},
        {"{\"labels\":{\"berth.home\":\"x\"}}",
         "jobs[1].container.labels: \"berth.home\" cannot be set: labels have names other than "
         "berth.*, and texts"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct spec *s = NULL;
        struct err e = {0};
        assert_int_equal(parse(cases[i].written, &s, &e), -1);
        assert_string_equal(e.text, cases[i].message);
    }
}

static void test_needs_an_image(void **state)
{
    struct json *j = NULL;
    struct spec *s = NULL;
    struct err e = {0};

    (void)state;
    json_parse(STR("{\"command\":\"true\",\"container\":{\"init\":true}}"), "test", &j, &e);
    assert_int_equal(spec_parse(j, "", &s, &e), -1);
    assert_string_equal(e.text, "container: says how an image is run; name it, as image: python:3");
    json_free(j);
}

/* nice is the one key that no container engine supports. */
static void keys_that_containers_refuse(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"{\"command\":\"x\",\"image\":\"i\",\"timeout\":\"1h\",\"nice\":0}", ""},
        {"{\"command\":\"x\",\"image\":\"i\",\"nice\":5}",
         "nice: container engines cannot set it; leave it out or set cpus instead"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct json *j = NULL;
        struct spec *s = NULL;
        struct err e = {0};
        assert_int_equal(json_parse(str_of(cases[i].text), "spec", &j, &e), 0);
        assert_int_equal(spec_parse(j, "", &s, &e), 0);
        assert_int_equal(spec_check_image(s, &e), cases[i].why[0] ? -1 : 0);
        assert_string_equal(e.text, cases[i].why);
        spec_free(s);
        json_free(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_that_containers_refuse),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_needs_an_image),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
