/* test_as_rule.c - which login on a node is whose */
#include "backend/ssh/as_rule.h"
#include "base/util.h"
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { OWNER = 4242, ANN = 1234567, BOB = 1234568 };

static int rules_of(struct as_rules *r, const char *list, struct err *e)
{
    struct json *j = NULL;

    assert_int_equal(json_parse(str_of(list), "list", &j, e), 0);
    int rc = as_rules_read(r, j, OWNER, e);
    json_free(j);
    return rc;
}

static void goes_to(const struct as_rules *r, uint32_t uid, const char *url, const char *want)
{
    struct err e = {0};
    AUTO_FREE char *got = as_rules_url(r, uid, str_of(url), &e);

    if (want) {
        assert_non_null(got);
        assert_string_equal(got, want);
    } else {
        assert_null(got);
        assert_int_equal(e.code, ERR_DENIED);
    }
}

static void users_have_logins(void **state)
{
    struct as_rules r;
    struct err e;

    (void)state;
    assert_int_equal(rules_of(&r, "[\"1234567=al\",\"1234568=bob@far:2222\"]", &e), 0);
    goes_to(&r, ANN, "ssh://me@gpu7:22", "ssh://al@gpu7:22");
    goes_to(&r, ANN, "ssh://gpu7", "ssh://al@gpu7");
    goes_to(&r, BOB, "ssh://gpu7", "ssh://bob@far:2222");
    goes_to(&r, 77, "ssh://gpu7", NULL);
    const struct node n = {.users = &r.users};
    assert_true(node_admits(&n, OWNER) && node_admits(&n, ANN) && node_admits(&n, BOB));
    assert_false(node_admits(&n, 77));
    as_rules_done(&r);
}

static void nobody_else_without_rules(void **state)
{
    struct as_rules r;
    struct err e;

    (void)state;
    assert_int_equal(as_rules_read(&r, NULL, OWNER, &e), 0);
    const struct node n = {.users = &r.users};
    assert_true(node_admits(&n, OWNER));
    assert_false(node_admits(&n, ANN));
    goes_to(&r, ANN, "ssh://gpu7", NULL);
    as_rules_done(&r);
}

/* root has a name everywhere; a uid without one has no account by this rule. */
static void everybody_under_their_own_name(void **state)
{
    struct as_rules r;
    struct err e;

    (void)state;
    assert_int_equal(rules_of(&r, "[\"%u\",\"1234567=al\"]", &e), 0);
    goes_to(&r, 0, "ssh://x@gpu7", "ssh://root@gpu7");
    goes_to(&r, ANN, "ssh://x@gpu7", "ssh://al@gpu7");
    goes_to(&r, 4000000001u, "ssh://x@gpu7", NULL);
    assert_true(r.users.all);
    as_rules_done(&r);
    assert_int_equal(rules_of(&r, "[\"%u-lab@far\"]", &e), 0);
    goes_to(&r, 0, "ssh://x@gpu7", "ssh://root-lab@far");
    as_rules_done(&r);
    assert_int_equal(rules_of(&r, "[\"root=toor\"]", &e), 0);
    goes_to(&r, 0, "ssh://gpu7", "ssh://toor@gpu7");
    as_rules_done(&r);
}

static void mistakes_in_rules(void **state)
{
    static const char *const bad[] = {
        "ann",     "=x",      "0=",           "0=-oProxyCommand=x",
        "0=a b",   "0=a/b",   "0=a@-h",       "0=@h",
        "0=a@h:x", "0=a:b@h", "%u@",          "%u?x",
        "0=a\\nb", "-1=x",    "4294967295=x", "no such user=x",
    };
    struct as_rules r;
    struct err e;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        AUTO_FREE char *list = xasprintf("[\"%s\"]", bad[i]);
        if (rules_of(&r, list, &e) == 0)
            fail_msg("'%s' was accepted", bad[i]);
        assert_int_equal(e.code, ERR_INVALID);
        as_rules_done(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_have_logins),
        cmocka_unit_test(nobody_else_without_rules),
        cmocka_unit_test(everybody_under_their_own_name),
        cmocka_unit_test(mistakes_in_rules),
    };
    return cmocka_run_group_tests_name("as_rule", tests, NULL, NULL);
}
