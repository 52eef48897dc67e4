/* test_vault.c - names of secrets, and forms whose secrets were taken out */
#include "base/seal.h"
#include "base/util.h"
#include "model/vault.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TEST(name) static void name(void **state __attribute__((unused)))

static const uint8_t one_home[32] = {1}, other_home[32] = {2};

static struct vault *vault_of(const uint8_t secret[32], const char *names)
{
    struct vault *v = NULL;
    struct err e;

    assert_int_equal(vault_new(secret, names, &v, &e), 0);
    return v;
}

static struct json *parsed(const char *text)
{
    struct json *j = NULL;
    struct err e;

    assert_int_equal(json_parse(str_of(text), "text", &j, &e), 0);
    return j;
}

static bool hides(const struct vault *v, const char *own, const char *name)
{
    return vault_hides(v, str_of(own), str_of(name));
}

TEST(default_names)
{
    static const char *const hidden[] = {"WANDB_API_KEY",
                                         "HF_TOKEN",
                                         "MLFLOW_TRACKING_PASSWORD",
                                         "AWS_SECRET_ACCESS_KEY",
                                         "AWS_ACCESS_KEY_ID",
                                         "github_token",
                                         "DB_PASSWD",
                                         "GOOGLE_APPLICATION_CREDENTIALS",
                                         "OPENAI_APIKEY",
                                         "MYSQL_PWD",
                                         "TOKEN",
                                         "SSH_PASSPHRASE",
                                         "GH_PAT"};
    static const char *const plain[] = {
        "KEYBOARD",  "SSH_AUTH_SOCK", "XDG_SESSION_ID", "PATH",
        "PWD",       "OLDPWD",        "MONKEY",         "TOKENIZERS_PARALLELISM",
        "PATTERN",   "KEY_REPEAT",    "SSH_ASKPASS",    "",
        "PYTHONPATH"};
    struct vault *v = vault_of(one_home, NULL);

    for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
        assert_true(hides(v, "", hidden[i]));
    for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
        assert_false(hides(v, "", plain[i]));
    vault_free(v);
}

TEST(the_last_name_decides)
{
    struct vault *v = vault_of(one_home, "!*,LICENSE_?,*_TOKEN,!GIT_TOKEN");
    struct err e;

    assert_false(hides(v, "", "DB_PASSWORD"));
    assert_true(hides(v, "", "license_a"));
    assert_false(hides(v, "", "LICENSE_AB"));
    assert_true(hides(v, "", "HF_TOKEN"));
    assert_false(hides(v, "", "GIT_TOKEN"));
    assert_true(hides(v, "GIT_*", "GIT_TOKEN")); /* the job decides before the home */
    assert_false(hides(v, "HF_*,!HF_TOKEN", "HF_TOKEN"));
    vault_free(v);
    assert_int_equal(vault_new(one_home, "A,b=c", &v, &e), -1);
    assert_int_equal(vault_new(one_home, "A,,B", &v, &e), -1);
}

TEST(secrets_leave_the_form)
{
    struct vault *v = vault_of(one_home, NULL);
    struct err e = {0};
    struct json *sealed = NULL,
                *form = parsed(
                    "{\"command\":\"true\",\"env\":{\"HF_TOKEN\":\"abc\",\"A\":\"1\","
                    "\"MINE\":\"def\"},\"secrets\":[\"MINE\",\"!X_KEY\"],\"extra\":"
                    "{\"environment\":{\"HF_TOKEN\":\"abc\"},\"env\":[\"MINE=def\",\"A=1\"]}}");

    assert_int_equal(vault_seal_form(v, form, &sealed, &e), 0);
    AUTO_FREE char *text = json_text(form), *hidden = json_text(sealed);
    assert_string_equal(text,
                        "{\"command\":\"true\",\"env\":{\"A\":\"1\"},\"secrets\":[\"!X_KEY\","
                        "\"HF_TOKEN\",\"MINE\"],\"extra\":{\"environment\":{\"HF_TOKEN\":\"***\"},"
                        "\"env\":[\"MINE=***\",\"A=1\"]}}");
    assert_null(strstr(hidden, "abc"));
    char *value = NULL;
    assert_int_equal(vault_open(v, "MINE", json_get_str(sealed, "MINE"), &value, &e), 0);
    assert_string_equal(value, "def");
    free(value);
    struct vault *other = vault_of(other_home, NULL);
    assert_int_equal(vault_open(other, "MINE", json_get_str(sealed, "MINE"), &value, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_non_null(strstr(e.text, "MINE"));
    json_free(form);
    json_free(sealed);
    vault_free(v);
    vault_free(other);
}

TEST(equal_specs_stay_equal)
{
    struct vault *v = vault_of(one_home, NULL);
    char *texts[2];
    struct err e;

    for (int i = 0; i < 2; i++) {
        struct json *form = parsed("{\"env\":{\"HF_TOKEN\":\"abc\"}}"), *sealed = NULL;
        assert_int_equal(vault_seal_form(v, form, &sealed, &e), 0);
        texts[i] = json_text(sealed);
        json_free(form);
        json_free(sealed);
    }
    assert_string_equal(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
    vault_free(v);
}

TEST(a_name_without_a_value)
{
    struct vault *v = vault_of(one_home, NULL);
    struct json *sealed = NULL, *form = parsed("{\"env\":{\"A\":\"1\"},\"secrets\":[\"B\"]}");
    struct err e = {0};

    assert_int_equal(vault_seal_form(v, form, &sealed, &e), -1);
    assert_non_null(strstr(e.text, "env has no variable B"));
    json_free(form);
    form =
        parsed("{\"env\":{\"A\":\"1\"},\"secrets\":[\"B*\",\"!C\"]}"); /* these may match nothing */
    assert_int_equal(vault_seal_form(v, form, &sealed, &e), 0);
    assert_null(sealed);
    json_free(form);
    vault_free(v);
}

TEST(jobs_of_schedules)
{
    static const char text[] = "{\"command\":\"true\",\"env\":{\"HF_TOKEN\":\"abc\"},\"jobs\":[{"
                               "\"env\":{\"A_KEY\":\"def\",\"B\":\"1\"}},{\"name\":\"x\"}]}";
    struct vault *v = vault_of(one_home, NULL), *other = vault_of(other_home, NULL);
    struct json *job = parsed(text);
    struct err e = {0};

    assert_int_equal(vault_seal_tree(v, job, &e), 0);
    AUTO_FREE char *stored = json_text(job);
    assert_null(strstr(stored, "abc"));
    assert_null(strstr(stored, "def"));
    assert_non_null(strstr(stored, SEAL_MARK));
    struct json *shown = json_copy(job), *wrong = json_copy(job);
    vault_strip_tree(shown);
    AUTO_FREE char *told = json_text(shown);
    assert_null(strstr(told, SEAL_MARK));
    assert_non_null(strstr(told, "A_KEY"));
    assert_int_equal(vault_open_tree(other, wrong, &e), -1);
    assert_int_equal(vault_open_tree(v, job, &e), 0);
    assert_string_equal(json_get_str(json_get(job, "env"), "HF_TOKEN").p, "abc");
    const struct json *first = json_at(json_get(job, "jobs"), 0);
    assert_string_equal(json_get_str(json_get(first, "env"), "A_KEY").p, "def");
    json_free(job);
    json_free(shown);
    json_free(wrong);
    vault_free(v);
    vault_free(other);
}

TEST(texts_of_older_programs)
{
    struct vault *v = vault_of(one_home, NULL);
    AUTO_FREE char *sealed = vault_seal_text(v, "a hook", STR("s3cret"));
    char *open = NULL;
    struct err e;

    assert_int_equal(vault_open_text(v, "a hook", str_of(sealed), &open, &e), 0);
    assert_string_equal(open, "s3cret");
    free(open);
    assert_int_equal(vault_open_text(v, "a hook", STR("in the clear"), &open, &e), 0);
    assert_string_equal(open, "in the clear");
    free(open);
    assert_int_equal(vault_open_text(v, "another", str_of(sealed), &open, &e), -1);
    vault_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_names),           cmocka_unit_test(the_last_name_decides),
        cmocka_unit_test(secrets_leave_the_form),  cmocka_unit_test(equal_specs_stay_equal),
        cmocka_unit_test(a_name_without_a_value),  cmocka_unit_test(jobs_of_schedules),
        cmocka_unit_test(texts_of_older_programs),
    };
    return cmocka_run_group_tests_name("vault", tests, NULL, NULL);
}
