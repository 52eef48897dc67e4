/* test_gzip.c - what was packed comes out again, and damage is seen */
#include "archive/gzip_priv.h"
#include "base/rand.h"
#include "base/util.h"
#include "rig.h"
#include "unit.h"

static int to_buf(void *ctx, const void *p, size_t n, struct err *e)
{
    return buf_add(ctx, p, n) ? 0 : err_set(e, ERR_LIMIT, "full");
}

static int gunzip_all(const struct buf *packed, size_t step, struct buf *out, struct err *e)
{
    struct gunzip *g = gunzip_new(to_buf, out);
    int rc = 0;

    for (size_t at = 0; at < packed->n && rc == 0; at += step)
        rc = gunzip_add(g, packed->p + at, MIN(step, packed->n - at), e);
    if (rc == 0)
        rc = gunzip_end(g, e);
    gunzip_free(g);
    return rc;
}

/* Runs of zeros, text and random bytes, so that compressed and stored pieces follow each other. */
static void mixture(struct buf *out, size_t n, uint64_t seed)
{
    struct rng r;

    rng_seed(&r, seed);
    while (out->n < n) {
        size_t run = rng_below(&r, 200000);
        uint64_t kind = rng_below(&r, 4);
        for (size_t i = 0; i < run; i++)
            buf_addc(out, kind == 0   ? '\0'
                          : kind == 1 ? (char)rng_next(&r)
                          : kind == 2 ? "the quick brown fox jumps "[i % 26]
                                      : (char)('a' + rng_below(&r, 8)));
    }
}

static void check_round(const struct buf *plain, size_t step)
{
    AUTO(buf) struct buf packed = {0}, back = {0};
    struct err e = {0};

    tar_gzip(plain, &packed);
    assert_int_equal(gunzip_all(&packed, step, &back, &e), 0);
    assert_int_equal(back.n, plain->n);
    assert_true(plain->n == 0 || memcmp(back.p, plain->p, plain->n) == 0);
}

TEST(all_kinds_come_back)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        AUTO(buf) struct buf plain = {0};
        mixture(&plain, (size_t)1 << (seed + 8), seed);
        check_round(&plain, seed % 3 ? 1 << 20 : 777);
    }
}

TEST(small_ones_come_back)
{
    for (size_t n = 0; n < 300; n++) {
        AUTO(buf) struct buf plain = {0};
        for (size_t i = 0; i < n; i++)
            buf_addc(&plain, (char)(i * i % 11));
        check_round(&plain, 13);
    }
}

TEST(random_bytes_are_stored_and_text_is_not)
{
    AUTO(buf) struct buf noise = {0}, text = {0}, packed = {0};
    struct rng r;

    rng_seed(&r, 5);
    for (int i = 0; i < 1 << 20; i++) {
        buf_addc(&noise, (char)rng_next(&r));
        buf_addc(&text, "for (size_t i = 0; i < n; i++)\n"[(i + i / 900) % 31]);
    }
    tar_gzip(&noise, &packed);
    assert_in_range(packed.n, 1 << 20, (1 << 20) + 1000);
    buf_reset(&packed);
    tar_gzip(&text, &packed);
    assert_true(packed.n < (1 << 20) / 10);
}

TEST(several_members_are_one)
{
    AUTO(buf) struct buf a = {0}, packed = {0}, back = {0};
    struct err e = {0};

    buf_adds(&a, "hello ");
    tar_gzip(&a, &packed);
    tar_gzip(&a, &packed);
    assert_int_equal(gunzip_all(&packed, 1, &back, &e), 0);
    assert_string_equal(back.p, "hello hello ");
}

TEST(damage_is_seen)
{
    AUTO(buf) struct buf plain = {0}, packed = {0};
    struct err e = {0};

    mixture(&plain, 100000, 3);
    tar_gzip(&plain, &packed);
    for (size_t at = 10; at < packed.n; at += packed.n / 50) {
        AUTO(buf) struct buf back = {0};
        packed.p[at] ^= 4;
        assert_int_equal(gunzip_all(&packed, 4096, &back, &e), -1);
        packed.p[at] ^= 4;
    }
    for (size_t cut = 0; cut < packed.n; cut += packed.n / 50 + 1) {
        AUTO(buf) struct buf back = {0};
        struct buf part = {.p = packed.p, .n = cut};
        assert_int_equal(gunzip_all(&part, 4096, &back, &e), -1);
        assert_true(e.text[0]);
    }
}

TEST(other_files_are_named)
{
    AUTO(buf) struct buf zip = {0}, back = {0};
    struct err e = {0};

    buf_adds(&zip, "PK\3\4 this is no gzip file");
    assert_int_equal(gunzip_all(&zip, 100, &back, &e), -1);
    assert_string_equal(e.text, "the archive is not a gzip file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kinds_come_back),
        cmocka_unit_test(small_ones_come_back),
        cmocka_unit_test(random_bytes_are_stored_and_text_is_not),
        cmocka_unit_test(several_members_are_one),
        cmocka_unit_test(damage_is_seen),
        cmocka_unit_test(other_files_are_named),
    };
    return cmocka_run_group_tests_name("gzip", tests, NULL, NULL);
}
