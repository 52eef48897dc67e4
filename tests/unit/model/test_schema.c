/* test_schema.c - the schema is JSON, names every key the parser takes and no other */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "model/spec_priv.h"

static struct json *tree(const char *text)
{
    struct json *j = NULL;
    struct err e = {0};

    if (json_parse(str_of(text), "schema", &j, &e) < 0)
        fail_msg("%s", e.text);
    return j;
}

static void names_what_the_parser_takes(void **state)
{
    struct json *job = tree(spec_schema()), *sweep = tree(spec_sweep_schema());
    const struct json *props = json_get(job, "properties"), *all = json_get(sweep, "properties");

    (void)state;
    for (size_t i = 0; i < n_spec_keys; i++) {
        const struct json *p = json_get(all, spec_keys[i].name);
        assert_non_null(p);
        assert_non_null(json_get(p, "description"));
        assert_true(json_has(props, spec_keys[i].name) || spec_keys[i].sweep);
    }
    assert_true(json_has(props, "params"));
    assert_false(json_has(props, "jobs"));
    assert_false(json_has(props, "array"));
    assert_true(json_has(props, "cpus"));
    const struct json *need = json_get(json_get(props, "resources"), "properties");
    assert_int_equal(json_len(need), n_resource_keys);
    const struct json *entry = json_get(json_get(json_get(all, "jobs"), "items"), "properties");
    assert_true(json_has(entry, "command"));
    assert_false(json_has(entry, "jobs"));
    assert_false(json_bool(json_get(job, "additionalProperties")));
    assert_int_equal(json_int(json_get(json_get(props, "retries"), "maximum")), SPEC_RETRIES_MAX);
    assert_int_equal(json_int(json_get(json_get(props, "grace"), "default")), 10);
    json_free(job);
    json_free(sweep);
}

/* A key the schema names is never "unknown" to the parser. */
static void the_parser_takes_what_it_names(void **state)
{
    struct json *job = tree(spec_schema());

    (void)state;
    for (struct json_it it = {0}; json_next(json_get(job, "properties"), &it);) {
        struct json *j = json_new_object();
        struct spec *s = NULL;
        struct err e = {0};
        json_set_str(j, "command", "x");
        json_set_take(j, it.key, json_new_array());
        if (spec_parse(j, "", &s, &e) < 0)
            assert_null(strstr(e.text, "unknown key"));
        spec_free(s);
        json_free(j);
    }
    json_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_what_the_parser_takes),
        cmocka_unit_test(the_parser_takes_what_it_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
