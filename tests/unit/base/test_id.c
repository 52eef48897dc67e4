/* test_id.c - time-ordered identifiers */
#include "base/id.h"
#include "base/util.h"
#include "unit.h"
#include <string.h>

TEST(known_texts)
{
    char text[ID_TEXT_MAX];

    id_format((struct id){0, 0}, text);
    assert_string_equal(text, "00000000000000000000000000");
    id_format((struct id){UINT64_MAX, UINT64_MAX}, text);
    assert_string_equal(text, "7zzzzzzzzzzzzzzzzzzzzzzzzz");
    id_format((struct id){0, 32 * 31 + 10}, text);
    assert_string_equal(text, "000000000000000000000000za");
}

TEST(reads_either_case_and_look_alikes)
{
    struct id a, b;

    assert_true(id_parse(STR("01hzy3k9qjw5xv8t2b6c4n7m0p"), &a));
    assert_true(id_parse(STR("01HZY3K9QJW5XV8T2B6C4N7M0P"), &b));
    assert_int_equal(id_cmp(a, b), 0);
    assert_true(id_parse(STR("olhzy3k9qjw5xv8t2b6c4n7mop"), &b));
    assert_int_equal(id_cmp(a, b), 0);
    assert_false(id_parse(STR("01hzy3k9qjw5xv8t2b6c4n7m0"), &b));
    assert_false(id_parse(STR("01hzy3k9qjw5xv8t2b6c4n7m0pp"), &b));
    assert_false(id_parse(STR("81hzy3k9qjw5xv8t2b6c4n7m0p"), &b));
    assert_false(id_parse(STR("u1hzy3k9qjw5xv8t2b6c4n7m0p"), &b));
    assert_false(id_parse(STR("01hzy3k9qjw5xv8t2b6c4n7m0u"), &b));
    assert_false(id_parse((struct str){"01hzy3k9qjw5xv8t2b6c4n7m0\0", 26}, &b));
}

TEST(prefixes_name_ranges)
{
    struct id lo, hi, id;
    char text[ID_TEXT_MAX];

    assert_true(id_parse(STR("01hzy3k9qjw5xv8t2b6c4n7m0p"), &id));
    id_format(id, text);
    for (size_t n = 1; n <= ID_TEXT_LEN; n++) {
        assert_true(id_parse_prefix((struct str){text, n}, &lo, &hi));
        assert_true(id_cmp(lo, id) <= 0 && id_cmp(id, hi) <= 0);
        assert_int_equal(id_cmp(lo, hi) == 0, n == ID_TEXT_LEN);
    }
    assert_false(id_parse_prefix(STR(""), &lo, &hi));
    assert_false(id_parse_prefix(STR("8"), &lo, &hi));
    assert_false(id_parse_prefix(STR("0-"), &lo, &hi));
}

/* The random half comes first: a beginning names a range of that half, whatever the other is. */
TEST(beginnings_of_uuids_name_ranges_of_halves)
{
    struct id id = {0x0123456789abcdefu, 0xfedcba9876543210u}, lo, hi;
    char text[ID_UUID_MAX];

    id_format_uuid(id, text);
    for (size_t n = 1; n <= ID_UUID_LEN; n++) {
        assert_true(id_parse_uuid_prefix((struct str){text, n}, &lo, &hi));
        assert_true(lo.lo <= id.lo && id.lo <= hi.lo && lo.hi <= id.hi && id.hi <= hi.hi);
        assert_int_equal(lo.lo == hi.lo, n >= 18); /* sixteen digits and two dashes */
        assert_int_equal(lo.hi == hi.hi, n == ID_UUID_LEN);
    }
    assert_true(id_parse_uuid_prefix(STR("FEDC"), &lo, &hi));
    assert_true(lo.lo == 0xfedc000000000000u && hi.lo == 0xfedcffffffffffffu);
    assert_false(id_parse_uuid_prefix(STR(""), &lo, &hi));
    assert_false(id_parse_uuid_prefix(STR("fedcx"), &lo, &hi));
    assert_false(id_parse_uuid_prefix(STR("fedcba987"), &lo, &hi));
    assert_false(id_parse_uuid_prefix(STR("fedcba98-7654-3210-0123-456789abcdef0"), &lo, &hi));
}

TEST(as_uuids)
{
    struct id id = {0x0123456789abcdefu, 0xfedcba9876543210u}, got, lo, hi;
    char text[ID_UUID_MAX];

    id_format_uuid(id, text);
    assert_string_equal(text, "fedcba98-7654-3210-0123-456789abcdef");
    assert_true(id_parse(str_of(text), &got));
    assert_int_equal(id_cmp(id, got), 0);
    assert_true(id_parse(STR("FEDCBA98-7654-3210-0123-456789ABCDEF"), &got));
    assert_int_equal(id_cmp(id, got), 0);
    assert_true(id_parse_prefix(str_of(text), &lo, &hi));
    assert_int_equal(id_cmp(lo, hi), 0);
    assert_false(id_parse(STR("fedcba98-7654-3210-0123-456789abcde"), &got));
    assert_false(id_parse(STR("fedcba98-7654-3210-0123-456789abcdeg"), &got));
    assert_false(id_parse(STR("fedcba9-87654-3210-0123-456789abcdef"), &got));
}

TEST(made_in_time_order)
{
    struct rng r;
    struct id before = {0};

    rng_seed(&r, 3);
    for (int64_t ms = 1700000000000; ms < 1700000001000; ms++) {
        struct id id = id_make(ms, &r);
        assert_true(id_cmp(before, id) < 0);
        assert_true((int64_t)(id.hi >> 16) == ms);
        assert_int_equal(id.lo & 0xFFFFFF, 0);
        before = id;
    }
}

TEST(array_members_are_consecutive)
{
    struct rng r;

    rng_seed(&r, 3);
    struct id base = id_make(1700000000000, &r);
    struct id last = id_add(base, (1 << 24) - 1);
    assert_int_equal(base.hi, last.hi);
    assert_true(last.lo - base.lo == (1 << 24) - 1);
    struct id carried = id_add((struct id){1, UINT64_MAX}, 2);
    assert_true(carried.hi == 2 && carried.lo == 1);
}

TEST(bytes_sort_like_ids)
{
    struct rng r;
    uint8_t a[16], b[16];

    rng_seed(&r, 5);
    for (int i = 0; i < 1000; i++) {
        struct id x = {rng_next(&r), rng_next(&r)}, y = {rng_next(&r), rng_next(&r)};
        id_to_bytes(x, a);
        id_to_bytes(y, b);
        assert_int_equal(memcmp(a, b, 16) < 0, id_cmp(x, y) < 0);
        assert_int_equal(id_cmp(id_from_bytes(a), x), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts),
        cmocka_unit_test(reads_either_case_and_look_alikes),
        cmocka_unit_test(prefixes_name_ranges),
        cmocka_unit_test(as_uuids),
        cmocka_unit_test(beginnings_of_uuids_name_ranges_of_halves),
        cmocka_unit_test(made_in_time_order),
        cmocka_unit_test(array_members_are_consecutive),
        cmocka_unit_test(bytes_sort_like_ids),
    };
    return cmocka_run_group_tests_name("id", tests, NULL, NULL);
}
