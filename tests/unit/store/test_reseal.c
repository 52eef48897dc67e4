/* test_reseal.c - secrets of older programs are sealed once, and nothing of them is left */
#include "base/json.h"
#include "model/vault.h"
#include "store/db_priv.h"
#include "unit_store.h"
#include <string.h>

#define CLEAR "hunter2-in-the-clear"
enum { FILE_MAX = 64 << 20 };

static struct vault *vault(void)
{
    static const uint8_t key[32] = {7};
    struct vault *v = NULL;
    struct err e = {0};

    assert_int_equal(vault_new(key, NULL, &v, &e), 0);
    return v;
}

/* Makes rows as a program before sealing wrote them; the store is closed afterwards. */
static void make_old(struct fixture *f)
{
    struct err e = {0};
    struct db d;

    submit_n(f, 1);
    submit_n(f, 1);
    store_close(f->store);
    f->store = NULL;
    assert_int_equal(db_open(&d, f->path, DB_WRITER, &e), 0);
    assert_int_equal(
        db_exec(&d,
                "DELETE FROM fact WHERE name = 'secrets.sealed'; UPDATE spec SET sealed = NULL;"
                "UPDATE spec SET body = '{\"command\":[\"a\"],\"env\":{\"A\":\"1\",\"HF_TOKEN\":"
                "\"" CLEAR "\"},\"extra\":{\"environment\":[\"HF_TOKEN=" CLEAR "\"]}}'"
                " WHERE seq = 1;"
                "INSERT INTO schedule(uid, gid, user, name, def, paused, created_ms, settled_s)"
                " VALUES(0, 0, 'ann', 'plain', '{\"cron\":\"* * * * *\",\"job\":{\"env\":"
                "{\"HF_TOKEN\":\"" CLEAR "\"}}}', 0, 1, 1),"
                " (0, 0, 'ann', 'told', '{\"dialect\":\"other\",\"word\":\"" CLEAR "\"}', 0, 1, 1);"
                "INSERT INTO hook(uid, gid, user, name, action, filter, secret, events, wait_ms,"
                " scope, everyone, enabled, seen_job) VALUES(0, 0, 'ann', 'team', 'mail:a@b', '',"
                " '" CLEAR "', 1, 0, 0, 0, 1, 0);"
                "CREATE TABLE gone(a TEXT); INSERT INTO gone SELECT replace(hex(zeroblob(2000)),"
                " '00', '" CLEAR "'); DROP TABLE gone",
                &e),
        0);
    no_err(&e);
    db_done(&d);
}

/* The form of a dialect, which the store does not know. */
static void seal_other(void *arg, struct json *def)
{
    AUTO_FREE char *text = vault_seal_text(arg, "word", json_get_str(def, "word"));

    json_del(def, "word");
    struct json *sealed = json_new_object();
    json_set_str(sealed, "word", text);
    json_set_take(def, "sealed", sealed);
}

static struct store_seal reopen_sealing(struct fixture *f, struct vault *v)
{
    struct store_seal seal = {.vault = v, .schedule = seal_other, .arg = v};
    struct store_home home = {.seal = &seal};
    struct err e = {0};

    store_close(f->store);
    f->store = NULL;
    if (store_open_home(&f->store, f->path, &home, NULL, NULL, &e) < 0)
        fail_msg("%s", e.text);
    f->ledger = store_ledger(f->store);
    return seal;
}

/* Is the text in a file of the database? */
static bool on_disk(const struct fixture *f, const char *text)
{
    static const char *const ends[] = {"", "-wal"};

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        AUTO_FREE char *path = xasprintf("%s%s", f->path, ends[i]), *bytes = NULL;
        struct err e = {0};
        size_t n = 0;
        if (file_read_all(path, FILE_MAX, &bytes, &n, &e) == 0 &&
            memmem(bytes, n, text, strlen(text)))
            return true;
    }
    return false;
}

static char *text_of(struct fixture *f, const char *sql)
{
    struct err e = {0};
    struct db d;

    assert_int_equal(db_open(&d, f->path, DB_READER, &e), 0);
    sqlite3_stmt *st = db_query_text(&d, &e, sql, NULL, 0);
    assert_int_equal(db_step(&d, st, &e), 1);
    char *text = xstrndup(column_str(st, 0).p, column_str(st, 0).n);
    db_done(&d);
    return text;
}

static void test_nothing_is_left(void **state)
{
    struct fixture *f = *state;
    struct vault *v = vault();
    struct json *sealed = NULL, *def = NULL;
    struct err e = {0};
    char *open = NULL;

    make_old(f);
    assert_true(on_disk(f, CLEAR));
    struct store_seal seal = reopen_sealing(f, v);
    no_err(&seal.trouble);
    assert_int_equal(seal.sealed, 4);
    assert_false(on_disk(f, CLEAR));

    AUTO_FREE char *body = text_of(f, "SELECT body FROM spec WHERE seq = 1"),
                   *hidden = text_of(f, "SELECT sealed FROM spec WHERE seq = 1"),
                   *other = text_of(f, "SELECT count(*) FROM spec WHERE sealed IS NULL");
    assert_string_equal(body, "{\"command\":[\"a\"],\"env\":{\"A\":\"1\"},\"extra\":{"
                              "\"environment\":[\"HF_TOKEN=***\"]},\"secrets\":[\"HF_TOKEN\"]}");
    assert_int_equal(json_parse(str_of(hidden), "sealed", &sealed, &e), 0);
    assert_int_equal(vault_open(v, "HF_TOKEN", json_get_str(sealed, "HF_TOKEN"), &open, &e), 0);
    assert_string_equal(open, CLEAR);
    assert_string_equal(other, "1"); /* the spec without secrets was not touched */
    free(open);

    AUTO_FREE char *plain = text_of(f, "SELECT def FROM schedule WHERE name = 'plain'"),
                   *told = text_of(f, "SELECT def FROM schedule WHERE name = 'told'"),
                   *hook = text_of(f, "SELECT secret FROM hook");
    assert_int_equal(json_parse(str_of(plain), "def", &def, &e), 0);
    struct json *job = json_copy(json_get(def, "job"));
    assert_int_equal(vault_open_tree(v, job, &e), 0);
    assert_string_equal(json_get_str(json_get(job, "env"), "HF_TOKEN").p, CLEAR);
    assert_non_null(strstr(told, "\"sealed\":"));
    assert_int_equal(vault_open_text(v, VAULT_OF_HOOK, str_of(hook), &open, &e), 0);
    assert_string_equal(open, CLEAR);
    free(open);
    json_free(job);
    json_free(def);
    json_free(sealed);
    vault_free(v);
}

/* A reader that keeps the log from being emptied stands for a crash before the end. */
static void test_an_interrupted_pass_is_repeated(void **state)
{
    struct fixture *f = *state;
    struct vault *v = vault();
    struct err e = {0};
    struct db reader;
    int64_t n;

    make_old(f);
    assert_int_equal(db_open(&reader, f->path, DB_READER, &e), 0);
    assert_int_equal(db_exec(&reader, "BEGIN", &e), 0);
    assert_int_equal(db_int(&reader, "SELECT count(*) FROM spec", &n, &e), 0);
    struct store_seal seal = reopen_sealing(f, v);
    assert_int_equal(seal.trouble.code, ERR_UNAVAILABLE);
    assert_true(on_disk(f, CLEAR));
    db_done(&reader);

    seal = reopen_sealing(f, v);
    no_err(&seal.trouble);
    assert_int_equal(seal.sealed, 0); /* the rows were done */
    assert_false(on_disk(f, CLEAR));
    vault_free(v);
}

static void test_happens_once(void **state)
{
    struct fixture *f = *state;
    struct vault *v = vault();
    struct store_seal seal = reopen_sealing(f, v);
    struct err e = {0};
    struct db d;

    no_err(&seal.trouble);
    submit_n(f, 1);
    store_close(f->store);
    f->store = NULL;
    assert_int_equal(db_open(&d, f->path, DB_WRITER, &e), 0);
    assert_int_equal(db_exec(&d,
                             "UPDATE spec SET sealed = NULL, body ="
                             " '{\"env\":{\"HF_TOKEN\":\"" CLEAR "\"}}'",
                             &e),
                     0);
    db_done(&d);
    seal = reopen_sealing(f, v);
    no_err(&seal.trouble);
    assert_int_equal(seal.sealed, 0);
    vault_free(v);
}

/* More rows than one transaction takes. */
static void test_many_rows(void **state)
{
    struct fixture *f = *state;
    struct vault *v = vault();
    struct err e = {0};
    struct db d;

    stage_submit(f, built_new(f, 2500, 2500));
    sync_ok(f);
    store_close(f->store);
    f->store = NULL;
    assert_int_equal(db_open(&d, f->path, DB_WRITER, &e), 0);
    assert_int_equal(db_exec(&d,
                             "UPDATE spec SET sealed = NULL, body = '{\"env\":{\"A_KEY\":\"" CLEAR
                             "'||seq||'\"}}'",
                             &e),
                     0);
    db_done(&d);
    struct store_seal seal = reopen_sealing(f, v);
    no_err(&seal.trouble);
    assert_int_equal(seal.sealed, 2500);
    assert_false(on_disk(f, CLEAR));
    vault_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_nothing_is_left),
        with_store(test_an_interrupted_pass_is_repeated),
        with_store(test_happens_once),
        with_store(test_many_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
