/* test_seal.c - ChaCha20-Poly1305 against RFC 8439 and against OpenSSL; texts that are sealed */
#include "base/rand.h"
#include "base/seal.h"
#include "base/util.h"
#include "unit.h"
#include <stdio.h>
#ifdef HAVE_OPENSSL
#include <openssl/evp.h>
#endif

static void unhex(const char *text, uint8_t *out)
{
    for (size_t i = 0; text[2 * i]; i++) {
        unsigned v;
        assert_int_equal(sscanf(text + 2 * i, "%2x", &v), 1);
        out[i] = (uint8_t)v;
    }
}

static struct str bytes_of(const uint8_t *p, size_t n)
{
    return (struct str){(const char *)p, n};
}

/* RFC 8439, section 2.8.2. */
TEST(rfc_8439_example)
{
    static const char text[] = "Ladies and Gentlemen of the class of '99: If I could offer you "
                               "only one tip for the future, sunscreen would be it.";
    uint8_t key[32], nonce[12], bound[12], want[114], out[114], tag[16], want_tag[16], back[114];

    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)(0x80 + i);
    unhex("070000004041424344454647", nonce);
    unhex("50515253c0c1c2c3c4c5c6c7", bound);
    unhex("d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
          "3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"
          "92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
          "3ff4def08e4b7a9de576d26586cec64b6116",
          want);
    unhex("1ae10b594f09e26a7e902ecbd0600691", want_tag);
    seal_lock(key, nonce, bytes_of(bound, 12), (struct str){text, 114}, out, tag);
    assert_memory_equal(out, want, sizeof(want));
    assert_memory_equal(tag, want_tag, sizeof(tag));
    assert_true(seal_unlock(key, nonce, bytes_of(bound, 12), bytes_of(out, 114), tag, back));
    assert_memory_equal(back, text, sizeof(back));
}

/* RFC 8439, appendix A.5. */
TEST(rfc_8439_decryption)
{
    uint8_t key[32], nonce[12], bound[12], in[265], tag[16], out[265];

    unhex("1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0", key);
    unhex("000000000102030405060708", nonce);
    unhex("f33388860000000000004e91", bound);
    unhex("64a0861575861af460f062c79be643bd5e805cfd345cf389f108670ac76c8cb24c6cfc18755d43eea09ee9"
          "4e382d26b0bdb7b73c321b0100d4f03b7f355894cf332f830e710b97ce98c8a84abd0b948114ad176e008d"
          "33bd60f982b1ff37c8559797a06ef4f0ef61c186324e2b3506383606907b6a7c02b0f9f6157b53c867e4b9"
          "166c767b804d46a59b5216cde7a4e99040c5a40433225ee282a1b0a06c523eaf4534d7f83fa1155b004771"
          "8cbc546a0d072b04b3564eea1b422273f548271a0bb2316053fa76991955ebd63159434ecebb4e466dae5a"
          "1073a6727627097a1049e617d91d361094fa68f0ff77987130305beaba2eda04df997b714d6c6f2c29a6ad"
          "5cb4022b02709b",
          in);
    unhex("eead9d67890cbb22392336fea1851f38", tag);
    assert_true(seal_unlock(key, nonce, bytes_of(bound, 12), bytes_of(in, 265), tag, out));
    assert_memory_equal(
        out, "Internet-Drafts are draft documents valid for a maximum of six months", 69);
    tag[15] ^= 1;
    assert_false(seal_unlock(key, nonce, bytes_of(bound, 12), bytes_of(in, 265), tag, out));
    assert_int_equal(out[0], 0);
}

#ifdef HAVE_OPENSSL
static void openssl_lock(const uint8_t *key, const uint8_t *nonce, struct str bound, struct str in,
                         uint8_t *out, uint8_t *tag)
{
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int n;

    assert_int_equal(EVP_EncryptInit_ex(c, EVP_chacha20_poly1305(), NULL, key, nonce), 1);
    assert_int_equal(EVP_EncryptUpdate(c, NULL, &n, (const uint8_t *)bound.p, (int)bound.n), 1);
    assert_int_equal(EVP_EncryptUpdate(c, out, &n, (const uint8_t *)in.p, (int)in.n), 1);
    assert_int_equal(EVP_EncryptFinal_ex(c, out + n, &n), 1);
    assert_int_equal(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, 16, tag), 1);
    EVP_CIPHER_CTX_free(c);
}
#endif

/* Every length around the blocks of both algorithms; half of the bytes are extreme, since carries
 * are where Poly1305 goes wrong. */
TEST(agrees_with_openssl)
{
#ifdef HAVE_OPENSSL
    struct rng r;

    rng_seed(&r, 8439);
    for (size_t round = 0; round < 4000; round++) {
        uint8_t key[32], nonce[12], in[300], bound[40], a[300], b[300], ta[16], tb[16];
        struct {
            uint8_t *p;
            size_t n;
        } all[] = {{key, 32}, {nonce, 12}, {in, 300}, {bound, 40}};
        for (size_t i = 0; i < ARRAY_SIZE(all); i++)
            for (size_t k = 0; k < all[i].n; k++)
                all[i].p[k] = rng_below(&r, 2) ? 0xff : (uint8_t)rng_next(&r);
        struct str text = bytes_of(in, round % 300), to = bytes_of(bound, round % 41);
        seal_lock(key, nonce, to, text, a, ta);
        openssl_lock(key, nonce, to, text, b, tb);
        assert_memory_equal(a, b, text.n);
        assert_memory_equal(ta, tb, 16);
        assert_true(seal_unlock(key, nonce, to, bytes_of(a, text.n), ta, a));
        assert_memory_equal(a, in, text.n);
    }
#else
    skip();
#endif
}

/* RFC 5869 with SHA-256, no salt and 32 bytes, computed with another program. */
TEST(derived_keys_differ_by_label)
{
    uint8_t secret[32], a[32], b[32], again[32];

    memset(secret, 7, sizeof(secret));
    seal_derive(secret, "one", a);
    seal_derive(secret, "two", b);
    seal_derive(secret, "one", again);
    assert_memory_not_equal(a, b, 32);
    assert_memory_equal(a, again, 32);
    uint8_t want[32];
    unhex("ff21ed6f978c1380d82eea35761c85809cd062322f8e297ed4f1aa8d82b2f013", want);
    assert_memory_equal(a, want, 32);
}

TEST(texts)
{
    uint8_t key[32], other[32];

    memset(key, 1, sizeof(key));
    memset(other, 2, sizeof(other));
    AUTO_FREE char *text = seal_text(key, STR("HF_TOKEN"), STR("hf_abc"));
    AUTO_FREE char *same = seal_text(key, STR("HF_TOKEN"), STR("hf_abc"));
    AUTO_FREE char *moved = seal_text(key, STR("WANDB_API_KEY"), STR("hf_abc"));
    AUTO_FREE char *empty = seal_text(key, STR("HF_TOKEN"), STR(""));

    assert_true(seal_is_text(str_of(text)));
    assert_string_equal(text, same);
    assert_string_not_equal(text, moved);
    assert_null(strstr(text, "hf_abc"));
    AUTO_FREE char *back = seal_open_text(key, STR("HF_TOKEN"), str_of(text));
    AUTO_FREE char *none = seal_open_text(key, STR("HF_TOKEN"), str_of(empty));
    assert_string_equal(back, "hf_abc");
    assert_string_equal(none, "");
    assert_null(seal_open_text(other, STR("HF_TOKEN"), str_of(text)));
    assert_null(seal_open_text(key, STR("WANDB_API_KEY"), str_of(text)));
    assert_null(seal_open_text(key, STR("HF_TOKEN"), STR("hf_abc")));
    for (size_t i = 0; text[i]; i++) { /* every digit counts, and so does the length */
        char was = text[i];
        assert_null(seal_open_text(key, STR("HF_TOKEN"), (struct str){text, i}));
        text[i] = was == '0' ? '1' : '0';
        assert_null(seal_open_text(key, STR("HF_TOKEN"), str_of(text)));
        text[i] = was;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc_8439_example),
        cmocka_unit_test(rfc_8439_decryption),
        cmocka_unit_test(agrees_with_openssl),
        cmocka_unit_test(derived_keys_differ_by_label),
        cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests_name("seal", tests, NULL, NULL);
}
