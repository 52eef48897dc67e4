/* test_manifest.c - trees as text */
#include "archive/manifest_priv.h"
#include "base/util.h"
#include "unit.h"

#define REST "123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HASH "0" REST

/* Texts by their number: the hash is HASH with the number in front. */
struct shelf {
    char *texts[10];
    size_t count;
};

static int put(void *ctx, const struct buf *text, char hash[CAS_HEX], struct err *e)
{
    struct shelf *s = ctx;

    (void)e;
    memcpy(hash, HASH, CAS_HEX);
    hash[0] = (char)('0' + s->count);
    s->texts[s->count++] = xstrndup(text->p, text->n);
    return 0;
}

static int get(void *ctx, const char *hash, char **text, size_t *n, struct err *e)
{
    struct shelf *s = ctx;
    size_t i = (size_t)(hash[0] - '0');

    if (i >= s->count)
        return err_set(e, ERR_NOT_FOUND, "lost");
    *text = xstrdup(s->texts[i]);
    *n = strlen(*text);
    return 0;
}

static void add(struct manifest *m, char type, const char *path, const char *target)
{
    struct manifest_entry n = {.type = type,
                               .mode = type == 'd' ? 0755 : 0644,
                               .mtime_ns = -5,
                               .size = type == 'f' ? 12 : 0,
                               .hash = HASH,
                               .path = xstrdup(path),
                               .target = xstrdup(target)};

    manifest_push(m, n);
}

TEST(there_and_back)
{
    static const char *const paths[] = {"", "a", "a/deep", "a/deep/x y", "a/z", "a-b", "b\n"};
    struct manifest m = {0}, back = {0};
    struct shelf shelf = {0};
    char root[CAS_HEX];
    struct err e = {0};

    add(&m, 'l', "b\n", "../%");
    add(&m, 'f', "a-b", NULL);
    add(&m, 'd', "a", NULL);
    add(&m, 'f', "a/z", NULL);
    add(&m, 'd', "a/deep", NULL);
    add(&m, 'd', "", NULL);
    add(&m, 'f', "a/deep/x y", NULL);
    manifest_sort(&m);
    assert_int_equal(manifest_write(&m, put, &shelf, root, &e), 0);
    assert_int_equal(shelf.count, 3);
    assert_string_equal(shelf.texts[0], "berth tree 1\nd 755 -5 .\nf 644 -5 12 " HASH " x%20y\n");
    assert_string_equal(shelf.texts[2], "berth tree 1\nd 755 -5 .\nt 1" REST " a\nf 644 -5 12 " HASH
                                        " a-b\nl -5 ../%25 b%0a\n");
    assert_int_equal(manifest_read(str_of(shelf.texts[2]), get, &shelf, &back, &e), 0);
    assert_int_equal(back.entries.n, 7);
    for (size_t i = 0; i < 7; i++)
        assert_string_equal(back.entries.p[i].path, paths[i]);
    assert_string_equal(back.entries.p[6].target, "../%");
    assert_int_equal(manifest_bytes(&back), 36);
    manifest_done(&m);
    manifest_done(&back);
    for (size_t i = 0; i < shelf.count; i++)
        free(shelf.texts[i]);
}

TEST(nonsense_is_refused)
{
#define TOP "berth tree 1\nd 755 1 .\n"
    static const char *const bad[] = {
        "",
        "berth tree 2\nd 755 1 .\n",
        "berth tree 1\n",
        "berth tree 1\nd 755 1 a\n",
        TOP "f 644 1 1 " HASH " ..\n",                      // out
        TOP "f 644 1 1 " HASH " a/b\n",                     // below
        TOP "f 644 1 1 " HASH " b\nf 644 1 1 " HASH " a\n", // order
        TOP "f 644 1 1 " HASH " a\nf 644 1 1 " HASH " a\n", // twice
        TOP "f 799 1 1 " HASH " a\n",
        TOP "f 644 x 1 " HASH " a\n",
        TOP "f 644 1 -1 " HASH " a\n",
        TOP "f 644 1 1 0123 a\n",
        TOP "f 644 1 1 " HASH " a%0\n",
        TOP "f 644 1 1 " HASH " a%00b\n",
        TOP "f 644 1 1 " HASH "\n",
        TOP "d 755 1 a\n",
        TOP "q 755 1 a\n",
        TOP "t " HASH " ..\n",
        TOP "t 9" REST " a\n", // lost
        TOP "t 0" REST " a\n", // round and round
    };
    char loop[] = TOP "t 0" REST " a\n";
    struct shelf shelf = {.texts = {loop}, .count = 1};

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct manifest m = {0};
        struct err e = {0};
        assert_int_equal(manifest_read(str_of(bad[i]), get, &shelf, &m, &e), -1);
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
