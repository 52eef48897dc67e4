/* test_hash.c - checksums against their published values */
#include "base/hash.h"
#include "base/util.h"
#include "unit.h"
#include <stdio.h>
#include <string.h>

TEST(crc32c_known_values)
{
    uint8_t bytes[32];

    assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(crc32c(0, "", 0), 0);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, 32), 0x8A9136AA);
    memset(bytes, 0xFF, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, 32), 0x62A8AB43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(crc32c(0, bytes, 32), 0x46DD794E);
}

TEST(crc32c_in_pieces_and_by_table)
{
    uint8_t bytes[300];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 37);
    uint32_t whole = crc32c(0, bytes, sizeof(bytes));
    for (size_t cut = 0; cut <= sizeof(bytes); cut += 7) {
        uint32_t part = crc32c(0, bytes, cut);
        assert_int_equal(crc32c(part, bytes + cut, sizeof(bytes) - cut), whole);
        assert_int_equal(crc32c_portable(0, bytes, cut), part);
    }
}

TEST(siphash_reference_vectors)
{
    uint8_t key[16], in[64];

    for (int i = 0; i < 16; i++)
        key[i] = (uint8_t)i;
    for (int i = 0; i < 64; i++)
        in[i] = (uint8_t)i;
    assert_true(siphash24(key, in, 0) == 0x726fdb47dd0e0e31u);
    assert_true(siphash24(key, in, 1) == 0x74f839c593dc67fdu);
    assert_true(siphash24(key, in, 8) == 0x93f5f5799a932462u);
    assert_true(siphash24(key, in, 15) == 0xa129ca6149be45e5u);
}

static void check_hex(const uint8_t digest[32], const char *want)
{
    char hex[65];

    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(hex, want);
}

static void check_sha(const char *text, const char *want)
{
    struct sha256 s;
    uint8_t out[32];

    sha256_init(&s);
    sha256_add(&s, text, strlen(text));
    sha256_end(&s, out);
    check_hex(out, want);
}

TEST(sha256_known_values)
{
    check_sha("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sha("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(sha256_in_pieces)
{
    struct sha256 s;
    uint8_t out[32];

    sha256_init(&s);
    for (int i = 0; i < 1000000; i += 125)
        sha256_add(
            &s,
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            125);
    sha256_end(&s, out);
    check_hex(out, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void check_blake2b(const char *text, size_t step, const char *want)
{
    struct blake2b b;
    uint8_t out[32];
    size_t n = strlen(text);

    blake2b_init(&b);
    for (size_t at = 0; at < n; at += step)
        blake2b_add(&b, text + at, n - at < step ? n - at : step);
    blake2b_end(&b, out);
    check_hex(out, want);
}

/* Python's hashlib.blake2b(…, digest_size=32) */
TEST(blake2b_known_values)
{
    char block[257];

    memset(block, 'a', 256);
    block[256] = '\0';
    check_blake2b("", 1, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
    check_blake2b("abc", 1, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    for (size_t step = 1; step < 300; step += 37)
        check_blake2b(block, step,
                      "eae4d3a7627549b383179dc18049964f91a6fed14c9f3fb26705eda3eeda5558");
    block[128] = '\0';
    check_blake2b(block, 100, "ae2aa48507885c4c950fb809b2076f959cde9f8ea6da260d9a3587df33dac450");
}

/* RFC 4231, cases 1, 2 and 6. */
TEST(hmac_known_values)
{
    uint8_t key[131], out[32];

    memset(key, 0x0b, 20);
    hmac_sha256(key, 20, "Hi There", 8, out);
    check_hex(out, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, out);
    check_hex(out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    hmac_sha256(key, sizeof(key), "Test Using Larger Than Block-Size Key - Hash Key First", 54,
                out);
    check_hex(out, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(constant_time_comparison)
{
    assert_true(equal_const_time("abc", "abc", 3));
    assert_false(equal_const_time("abc", "abd", 3));
    assert_true(equal_const_time("abc", "xyz", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_known_values),
        cmocka_unit_test(crc32c_in_pieces_and_by_table),
        cmocka_unit_test(siphash_reference_vectors),
        cmocka_unit_test(sha256_known_values),
        cmocka_unit_test(sha256_in_pieces),
        cmocka_unit_test(blake2b_known_values),
        cmocka_unit_test(hmac_known_values),
        cmocka_unit_test(constant_time_comparison),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
