/* test_manifest.c - trees as text */
#include "archive/manifest_priv.h"
#include "base/util.h"
#include "unit.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(there_and_back)
{
    static const char text[] = "berth tree 1\n"
                               "d 755 1000 .\n"
                               "d 755 1000 a\n"
                               "f 644 -5 12 " HASH " a/x%20y\n"
                               "f 600 7 0 " HASH " a-b\n"
                               "l 9 ../%25 b%0a\n";
    struct manifest m = {0};
    AUTO(buf) struct buf out = {0};
    struct err e = {0};

    assert_int_equal(manifest_parse(STR(text), &m, &e), 0);
    assert_int_equal(m.entries.n, 5);
    assert_string_equal(m.entries.p[2].path, "a/x y");
    assert_string_equal(m.entries.p[4].path, "b\n");
    assert_string_equal(m.entries.p[4].target, "../%");
    assert_int_equal(manifest_bytes(&m), 12);
    manifest_sort(&m);
    manifest_format(&m, &out);
    assert_string_equal(out.p, text);
    manifest_done(&m);
}

TEST(nonsense_is_refused)
{
    static const char *const bad[] = {
        "",
        "berth tree 2\nd 755 1 .\n",
        "berth tree 1\n",
        "berth tree 1\nd 755 1 a\n",                       // no root
        "berth tree 1\nd 755 1 .\nd 755 1 ../x\n",         // out
        "berth tree 1\nd 755 1 .\nd 755 1 /x\n",           // absolute
        "berth tree 1\nd 755 1 .\nd 755 1 b\nd 755 1 a\n", // order
        "berth tree 1\nd 755 1 .\nd 755 1 a\nd 755 1 a\n", // twice
        "berth tree 1\nd 755 1 .\nd 799 1 a\n",
        "berth tree 1\nd 755 1 .\nd 755 x a\n",
        "berth tree 1\nd 755 1 .\nf 644 1 -1 " HASH " a\n",
        "berth tree 1\nd 755 1 .\nf 644 1 1 0123 a\n",
        "berth tree 1\nd 755 1 .\nd 755 1 a%0\n",
        "berth tree 1\nd 755 1 .\nd 755 1 a%00b\n",
        "berth tree 1\nd 755 1 .\nq 755 1 a\n",
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct manifest m = {0};
        struct err e = {0};
        assert_int_equal(manifest_parse(str_of(bad[i]), &m, &e), -1);
        assert_true(e.text[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests_name("manifest", tests, NULL, NULL);
}
