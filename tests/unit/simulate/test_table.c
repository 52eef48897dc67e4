/* test_table.c - tables of speeds: what they say, and what is wrong with broken ones */
#include "case.h"

static void rates_alone_and_in_pairs(void **state)
{
    struct sim_table t = table_of(SMALL_TABLE);
    int32_t conv = sim_table_find(&t, "conv"), text = sim_table_find(&t, "text");
    int32_t wide = sim_table_find(&t, "wide");

    (void)state;
    assert_int_equal(t.n_counts, 2);
    assert_true(sim_table_rate(&t, (uint32_t)conv, 2, SIM_ALONE) == 18);
    assert_true(sim_table_rate(&t, (uint32_t)conv, 1, text) == 8);
    assert_true(sim_table_rate(&t, (uint32_t)text, 1, conv) == 15);
    /* 0, not listed, and a count nobody measured are all: not so */
    assert_true(sim_table_rate(&t, (uint32_t)conv, 1, wide) == 0);
    assert_true(sim_table_rate(&t, (uint32_t)wide, 1, conv) == 0);
    assert_true(sim_table_rate(&t, (uint32_t)text, 2, SIM_ALONE) == 0);
    assert_true(sim_table_rate(&t, (uint32_t)conv, 4, SIM_ALONE) == 0);
    assert_int_equal(sim_table_find(&t, "none"), -1);
    sim_table_done(&t);
}

static void refused(const char *text, const char *why)
{
    struct sim_table t = {0};
    struct err e = {0};

    assert_int_equal(sim_table_parse(str_of(text), "t.json", &t, &e), -1);
    assert_string_equal(e.text, why);
    assert_null(t.rates);
}

static void broken_tables_are_named(void **state)
{
    (void)state;
    refused("[]", "t.json: a table is an object: {\"type\": {\"gpus\": {\"alone\": steps/s}}}");
    refused("{}", "t.json: the table names no types");
    refused("{\"a\": 1}", "t.json: \"a\" must be an object of GPU counts, such as {\"1\": "
                          "{\"alone\": 12.5}}");
    refused("{\"a\": {\"two\": {\"alone\": 1}}}",
            "t.json: \"a\".\"two\" is no GPU count; use 1 to 1024");
    refused("{\"a\": {\"1\": {\"alone\": 0}}}",
            "t.json: \"a\".\"1\" has no rate \"alone\" above 0");
    refused("{\"a\": {\"1\": {\"alone\": 2, \"a\": -1}}}",
            "t.json: \"a\".\"1\".\"a\" must be steps per second, 0 or more");
    refused("{\"a\": {\"1\": 3}}", "t.json: \"a\".\"1\" must be an object of rates");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_alone_and_in_pairs),
        cmocka_unit_test(broken_tables_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
