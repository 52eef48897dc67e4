/* test_node_conf.c - settings of nodes as users give them (backend/node_conf.h) */
#include "backend/node_conf.h"
#include "base/util.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int conf_read(const char *text, struct json **out, struct err *e)
{
    struct json *said = NULL;

    assert_int_equal(json_parse(str_of(text), "said", &said, e), 0);
    int rc = node_conf_read(said, out, e);
    json_free(said);
    return rc;
}

static void settings_are_translated(void **state)
{
    static const struct {
        const char *said, *conf;
    } cases[] = {
        {"{\"url\":\"ssh://ada@gpu7:2222\"}",
         "{\"url\":\"ssh://ada@gpu7:2222\",\"name\":\"gpu7\"}"},
        {"{\"url\":\"gpu7\"}", "{\"url\":\"ssh://gpu7\",\"name\":\"gpu7\"}"},
        {"{\"url\":\"ada@gpu7:22\"}", "{\"url\":\"ssh://ada@gpu7:22\",\"name\":\"gpu7\"}"},
        {"{\"url\":\"ssh://[::1]:22\",\"name\":\"six\"}",
         "{\"url\":\"ssh://[::1]:22\",\"name\":\"six\"}"},
        {"{\"url\":\"a\",\"cpus\":1.5,\"mem\":\"2K\",\"gpus\":1,\"slots\":null}",
         "{\"url\":\"ssh://a\",\"mcpu\":1500,\"mem_bytes\":2048,\"gpus\":1,\"name\":\"a\"}"},
        {"{\"url\":\"a\",\"accept_new\":true,\"connect_timeout\":5}",
         "{\"url\":\"ssh://a\",\"accept_new\":true,\"connect_timeout\":5,\"name\":\"a\"}"},
        {"{\"url\":\"a\",\"as\":[\"ann=a\",\"%u\"]}",
         "{\"url\":\"ssh://a\",\"as\":[\"ann=a\",\"%u\"],\"name\":\"a\"}"},
        {"{\"url\":\"a\",\"recorded\":false,\"password\":\"p\"}",
         "{\"url\":\"ssh://a\",\"recorded\":false,\"password\":\"p\",\"name\":\"a\"}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct json *conf = NULL;
        struct err e = {0};
        if (conf_read(cases[i].said, &conf, &e) < 0)
            fail_msg("%s: %s", cases[i].said, e.text);
        AUTO_FREE char *text = json_text(conf);
        assert_string_equal(text, cases[i].conf);
        json_free(conf);
    }
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *said, *part;
    } cases[] = {
        {"[]", "an object with a url"},
        {"{\"name\":\"a\"}", "an object with a url"},
        {"{\"url\":7}", "url: must be a text"},
        {"{\"url\":\"a\",\"as\":\"ann=a\"}", "as: must be a list"},
        {"{\"url\":\"a\",\"as\":[\"ann=a\",7]}", "as: must be a text"},
        {"{\"url\":\"\"}", "url: must be a text"},
        {"{\"url\":\"ftp://x\"}", "'ftp://x' is not the address of a node"},
        {"{\"url\":\"local://x\"}", "'local://x' is not the address of a node"},
        {"{\"url\":\"null://x\"}", "'null://x' is not the address of a node"},
        {"{\"url\":\"x\",\"slot\":1}", "slot: unknown key; did you mean \"slots\"?"},
        {"{\"url\":\"x\",\"identify\":\"k\"}", "did you mean \"identity\"?"},
        {"{\"url\":\"x\",\"slots\":-1}", "slots: must be a number from 0 to 1000000"},
        {"{\"url\":\"x\",\"accept_new\":1}", "accept_new: must be true or false"},
        {"{\"url\":\"x\",\"password\":\"p\"}",
         "password: the record of a node cannot hold secrets"},
        {"{\"url\":\"x\",\"agent\":\"p\"}", "agent: the record of a node cannot hold this key"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct json *conf = NULL;
        struct err e = {0};
        assert_int_equal(conf_read(cases[i].said, &conf, &e), -1);
        assert_null(conf);
        if (!strstr(e.text, cases[i].part))
            fail_msg("%s says \"%s\"", cases[i].said, e.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_translated),
        cmocka_unit_test(mistakes_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
