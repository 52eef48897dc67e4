/* multipart/form-data in pieces of every size; and the small formats of the dialect. */
#include "../unit.h"
#include "base/buf.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/listing_priv.h"
#include "dialect/atlas/multipart.h"

static struct buf seen;

static int on_begin(void *arg, const char *name, const char *file, struct err *e)
{
    (void)arg;
    (void)e;
    buf_addf(&seen, "<%s|%s>", name, file);
    return 0;
}

static int on_data(void *arg, struct str bytes, struct err *e)
{
    (void)arg;
    (void)e;
    buf_add(&seen, bytes.p, bytes.n);
    return 0;
}

static int on_end(void *arg, struct err *e)
{
    (void)arg;
    (void)e;
    buf_adds(&seen, "</>");
    return 0;
}

static const struct multipart_events events = {on_begin, on_data, on_end, NULL};

static int read_in(const char *type, struct str body, size_t piece, struct err *e)
{
    struct multipart m;

    buf_reset(&seen);
    *e = (struct err){0};
    if (multipart_init(&m, str_of(type), e) < 0)
        return -1;
    while (body.n > 0) {
        size_t n = MIN(piece, body.n);
        if (multipart_feed(&m, (struct str){body.p, n}, &events, e) < 0)
            return -1;
        body = (struct str){body.p + n, body.n - n};
    }
    return multipart_complete(&m) ? 1 : 0;
}

TEST(in_pieces_of_any_size)
{
    static const char body[] =
        "ignored\r\n--XyZ\r\nContent-Disposition: form-data; name=\"job_bundle\"; "
        "filename=\"a.tgz\"\r\nContent-Type: application/gzip\r\n\r\n\r\n--Xy\r\r\n--XyY\n\r\n"
        "\r\n--XyZ\r\ncontent-disposition: form-data; name=other\r\n\r\nv\r\n--XyZ--\r\nrest";
    struct err e;

    buf_init(&seen, 1 << 16);
    for (size_t piece = 1; piece < sizeof(body); piece++) {
        assert_int_equal(read_in("multipart/form-data; boundary=XyZ", STR(body), piece, &e), 1);
        assert_string_equal(seen.p, "<job_bundle|a.tgz>\r\n--Xy\r\r\n--XyY\n\r\n</><other|>v</>");
    }
    assert_int_equal(read_in("Multipart/Form-Data; boundary=\"XyZ\"", STR(body), 7, &e), 1);
    buf_done(&seen);
}

TEST(mistakes)
{
    struct err e;

    buf_init(&seen, 1 << 16);
    assert_int_equal(read_in("text/plain", STR("x"), 1, &e), -1);
    assert_int_equal(read_in("multipart/form-data", STR("x"), 1, &e), -1);
    assert_int_equal(read_in("multipart/form-data; boundary=", STR("x"), 1, &e), -1);
    assert_int_equal(read_in("multipart/form-data; boundary=a", STR("--a\r\n\r\nx"), 9, &e), -1);
    assert_int_equal(read_in("multipart/form-data; boundary=a", STR("--a?"), 9, &e), -1);
    assert_int_equal(read_in("multipart/form-data; boundary=a",
                             STR("--a\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\nx"), 9,
                             &e),
                     0);
    assert_int_equal(read_in("multipart/form-data; boundary=a", STR(""), 9, &e), 0);
    buf_done(&seen);
}

TEST(a_pickle)
{
    static const char *const names[] = {"a", "b\xc3\xa9"};
    struct buf b;

    buf_init(&b, 1000);
    atlas_pickle_list(&b, names, 2);
    assert_int_equal(b.n, 3 + 1 + 6 + 8 + 2);
    assert_memory_equal(b.p,
                        "\x80\x02](X\x01\0\0\0aX\x03\0\0\0b\xc3\xa9"
                        "e.",
                        b.n);
    buf_done(&b);
}

TEST(times_of_the_listing)
{
    int64_t ms;
    char text[48];

    assert_true(atlas_date_parse("11_16_2026_03_30", &ms));
    assert_int_equal(ms, INT64_C(1794799800000));
    assert_false(atlas_date_parse("13_16_2026_03_30", &ms));
    assert_false(atlas_date_parse("11_16_2026_03_30x", &ms));
    assert_false(atlas_date_parse("", &ms));
    assert_true(atlas_duration_parse("1_2_3_4", &ms));
    assert_int_equal(ms, ((1 * 24 + 2) * 60 + 3) * 60000 + 4000);
    assert_false(atlas_duration_parse("1_2_3", &ms));
    atlas_duration_format(93784000, text);
    assert_string_equal(text, "1d2h3m4s");
    atlas_duration_format(5999, text);
    assert_string_equal(text, "0d0h0m5s");
    assert_string_equal(atlas_artifact_type("a.PNG"), "image");
    assert_string_equal(atlas_artifact_type("a.wav"), "audio");
    assert_string_equal(atlas_artifact_type("png"), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_pieces_of_any_size),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(a_pickle),
        cmocka_unit_test(times_of_the_listing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
