/* The small grammars: escapes, dates, entity tags, ranges, codings. */
#include "io/http_client.h"
#include "io/http_priv.h"
#include "rig.h"
#include <string.h>

static void decodes(const char *in, bool plus, const char *want)
{
    char out[64];
    size_t n = 0;
    bool ok = url_decode(str_of(in), plus, out, &n);

    if (ok != (want != NULL))
        fail_msg("%s: %d", in, ok);
    if (want) {
        assert_int_equal(n, strlen(want));
        assert_memory_equal(out, want, n);
    }
}

static void test_url(void **state UNUSED)
{
    decodes("", false, "");
    decodes("a%20b", false, "a b");
    decodes("%41", false, "A");
    decodes("a+b", false, "a+b");
    decodes("a+b", true, "a b");
    decodes("%e2%82%ac", false, "\xE2\x82\xAC");
    decodes("%", false, NULL);
    decodes("%4", false, NULL);
    decodes("%4g", false, NULL);
    decodes("a%00", false, NULL);
    decodes("%80", false, NULL);
    decodes("%ed%a0%80", false, NULL); /* a surrogate */

    AUTO(buf) struct buf b = {0};
    url_encode(&b, STR("a b/~-._\xE2%9"));
    assert_string_equal(b.p, "a%20b%2F~-._%E2%259");
}

static void test_date(void **state UNUSED)
{
    char text[32];
    time_t t = 0;

    http_date_format(784111777, text);
    assert_string_equal(text, "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_true(http_date_parse(str_of(text), &t));
    assert_int_equal(t, 784111777);
    assert_false(http_date_parse(STR("Sunday, 06-Nov-94 08:49:37 GMT"), &t));
    assert_false(http_date_parse(STR("Sun, 06 Nov 1994 08:49:37 CET"), &t));
    assert_false(http_date_parse(STR("Sun, 06 Xxx 1994 08:49:37 GMT"), &t));
    assert_false(http_date_parse(STR("Sun, xx Nov 1994 08:49:37 GMT"), &t));
    assert_false(http_date_parse(STR(""), &t));
}

static void test_etag(void **state UNUSED)
{
    struct str tag = STR("\"a\"");

    assert_true(http_etag_matches(STR("\"a\""), tag));
    assert_true(http_etag_matches(STR("\"b\", \"a\""), tag));
    assert_true(http_etag_matches(STR("W/\"a\""), tag));
    assert_true(http_etag_matches(STR("\"a\""), STR("W/\"a\"")));
    assert_true(http_etag_matches(STR("*"), tag));
    assert_false(http_etag_matches(STR("\"b\""), tag));
    assert_false(http_etag_matches(STR("a"), tag));
    assert_false(http_etag_matches(STR(""), tag));
    assert_false(http_etag_matches(STR(",,"), tag));
}

static void range(const char *text, uint64_t size, int want, uint64_t from, uint64_t to)
{
    uint64_t a = 0, b = 0;
    int got = http_range_parse(str_of(text), size, &a, &b);

    if (got != want || a != from || b != to)
        fail_msg("%s of %llu: %d %llu-%llu", text, (unsigned long long)size, got,
                 (unsigned long long)a, (unsigned long long)b);
}

static void test_range(void **state UNUSED)
{
    range("bytes=0-9", 100, 1, 0, 9);
    range("bytes=90-200", 100, 1, 90, 99);
    range("bytes=90-", 100, 1, 90, 99);
    range("bytes=-10", 100, 1, 90, 99);
    range("bytes=-200", 100, 1, 0, 99);
    range("bytes=99-99", 100, 1, 99, 99);
    range("bytes=100-", 100, -1, 0, 0);
    range("bytes=-0", 100, -1, 0, 0);
    range("bytes=-1", 0, -1, 0, 0);
    range("bytes=0-", 0, -1, 0, 0);
    range("bytes=9-1", 100, -1, 0, 0);
    range("bytes=", 100, -1, 0, 0);
    range("bytes=x", 100, -1, 0, 0);
    range("bytes=1-x", 100, -1, 0, 0);
    range("bytes=+1-2", 100, -1, 0, 0);
    range("bytes=99999999999999999999-", 100, -1, 0, 0);
    range("bytes=0-1,3-4", 100, 0, 0, 0);
    range("lines=0-1", 100, 0, 0, 0);
}

static void test_coding(void **state UNUSED)
{
    assert_int_equal(http_coding_pick(STR("gzip, deflate, br, zstd")), CODING_ZSTD);
    assert_int_equal(http_coding_pick(STR("gzip, deflate")), CODING_GZIP);
    assert_int_equal(http_coding_pick(STR("GZIP;q=0.5")), CODING_GZIP);
    assert_int_equal(http_coding_pick(STR("gzip;q=0, zstd;q=0.0")), CODING_NONE);
    assert_int_equal(http_coding_pick(STR("gzip;q=1.0, zstd;q=0.1")), CODING_GZIP);
    assert_int_equal(http_coding_pick(STR("identity")), CODING_NONE);
    assert_int_equal(http_coding_pick(STR("")), CODING_NONE);
    assert_true(http_type_compresses("application/json"));
    assert_true(http_type_compresses("text/plain; charset=utf-8"));
    assert_true(http_type_compresses("application/problem+json"));
    assert_false(http_type_compresses("application/octet-stream"));
    assert_false(http_type_compresses("image/png"));
    assert_false(http_type_compresses(NULL));
}

static void test_sse(void **state UNUSED)
{
    AUTO(buf) struct buf b = {0};

    sse_format(&b, 7, "job", STR("one\ntwo\r\nthree\rfour"));
    assert_string_equal(b.p,
                        "id: 7\nevent: job\ndata: one\ndata: two\ndata: three\ndata: four\n\n");
    buf_reset(&b);
    sse_format(&b, 8, "x", STR(""));
    assert_string_equal(b.p, "id: 8\nevent: x\ndata: \n\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_url),   cmocka_unit_test(test_date),   cmocka_unit_test(test_etag),
        cmocka_unit_test(test_range), cmocka_unit_test(test_coding), cmocka_unit_test(test_sse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
