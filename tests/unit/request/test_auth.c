/* Who is asking, and which routes that opens. */
#include "request/auth.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char token[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const uint8_t secret[32] = {1, 2, 3};

struct fixture {
    struct core *core;
    struct auth *auth;
};

/* There is one job: number 7. */
static const struct id job_id = {1, 2};

static int read_one_job(void *self, uint64_t job, struct job_record *out, struct err *e)
{
    (void)self;
    if (job != 7)
        return err_set(e, ERR_NOT_FOUND, "there is no such job");
    *out = (struct job_record){.seq = job, .id = job_id};
    return 0;
}

static int setup(void **state)
{
    static struct fixture f;
    struct core_conf c = {.clock = clock_system,
                          .ledger = {.read_job = read_one_job},
                          .home = {.dir = "/nowhere", .secret = secret, .uid = 1000}};

    f = (struct fixture){.core = core_new(&c)};
    f.auth = auth_new(f.core, token, 1000, false);
    f.auth->gid = 1001;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    auth_free(f->auth);
    core_free(f->core);
    return 0;
}

static const struct http_peer tcp = {0};

static struct http_peer unix_peer(uid_t uid)
{
    return (struct http_peer){.is_unix = true, .uid = uid, .gid = uid + 1};
}

static enum err_code ask(struct fixture *f, struct http_peer peer, const char *header,
                         struct who *out)
{
    struct err e = {0};

    *out = (struct who){0};
    auth_identify(f->auth, &peer, str_of(header), out, &e);
    return e.code;
}

static void test_owner_and_root(void **state)
{
    struct fixture *f = *state;
    struct who w;

    assert_int_equal(ask(f, unix_peer(1000), NULL, &w), ERR_NONE);
    assert_true(w.known && w.caller.admin);
    assert_int_equal(ask(f, unix_peer(0), NULL, &w), ERR_NONE);
    assert_true(w.caller.admin);
    assert_int_equal(w.caller.uid, 1000); /* root at a user's daemon works for the user */
    assert_int_equal(w.caller.gid, 1001);
}

static void test_stranger(void **state)
{
    struct fixture *f = *state;
    struct who w;

    assert_int_equal(ask(f, unix_peer(65534), NULL, &w), ERR_DENIED);
    assert_false(w.known);
    f->auth->multi_user = true;
    assert_int_equal(ask(f, unix_peer(65534), NULL, &w), ERR_NONE);
    assert_true(w.known && !w.caller.admin);
    assert_int_equal(w.caller.uid, 65534);
    assert_int_equal(w.caller.gid, 65535);
    assert_int_equal(ask(f, unix_peer(0), NULL, &w), ERR_NONE);
    assert_int_equal(w.caller.uid, 0);
}

static void test_bearer(void **state)
{
    static const char *const bad[] = {"",
                                      "Bearer",
                                      "Bearer ",
                                      "Basic Zm9vOmJhcg==",
                                      "Bearer x",
                                      "bearer 0123456789abcdef0123456789abcdef0123456789"
                                      "abcdef0123456789abcdee",
                                      "Bearer 0123456789abcdef"};
    struct fixture *f = *state;
    struct who w;
    char header[128];

    assert_int_equal(ask(f, tcp, NULL, &w), ERR_UNAUTHENTICATED);
    snprintf(header, sizeof(header), "bEaReR  %s ", token);
    assert_int_equal(ask(f, tcp, header, &w), ERR_NONE);
    assert_true(w.known && w.caller.admin && w.token.job == 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(ask(f, tcp, bad[i], &w), ERR_UNAUTHENTICATED);
        /* A wrong proof is refused even where none would have been needed. */
        assert_int_equal(ask(f, unix_peer(1000), bad[i], &w), ERR_UNAUTHENTICATED);
        assert_false(w.known);
    }
    f->auth->token[0] = 0; /* no token made yet: nothing matches it */
    assert_int_equal(ask(f, tcp, "Bearer ", &w), ERR_UNAUTHENTICATED);
}

static void test_job_token(void **state)
{
    struct fixture *f = *state;
    char text[JOB_TOKEN_MAX], header[JOB_TOKEN_MAX + 16];
    struct err e = {0};
    struct who w;

    core_job_token(f->core, core_run_key(f->core, 8, job_id, 2), text);
    snprintf(header, sizeof(header), "Bearer %s", text);
    assert_int_equal(ask(f, tcp, header, &w), ERR_UNAUTHENTICATED);
    core_job_token(f->core, core_run_key(f->core, 7, (struct id){3, 4}, 2), text);
    snprintf(header, sizeof(header), "Bearer %s", text);
    assert_int_equal(ask(f, tcp, header, &w), ERR_UNAUTHENTICATED);
    core_job_token(f->core, core_run_key(f->core, 7, job_id, 2), text);
    snprintf(header, sizeof(header), "Bearer %s", text);
    assert_int_equal(ask(f, tcp, header, &w), ERR_NONE);
    assert_true(w.known && !w.caller.admin);
    assert_int_equal(w.token.job, 7);
    assert_int_equal(w.token.run, 2);
    assert_int_equal(auth_allows(AUTH_JOB, &w, &e), 0);
    assert_int_equal(auth_allows(AUTH_READ, &w, &e), -1);
    assert_int_equal(e.code, ERR_DENIED);
    assert_int_equal(auth_allows(AUTH_WRITE, &w, &e), -1);
    assert_int_equal(auth_allows(AUTH_ADMIN, &w, &e), -1);
    header[strlen(header) - 1] ^= 1;
    assert_int_equal(ask(f, tcp, header, &w), ERR_UNAUTHENTICATED);
}

static void test_classes(void **state)
{
    struct who nobody = {0}, person = {.known = true}, admin = {.known = true};
    struct err e = {0};

    (void)state;
    admin.caller.admin = true;
    assert_int_equal(auth_allows(AUTH_PUBLIC, &nobody, &e), 0);
    assert_int_equal(auth_allows(AUTH_READ, &nobody, &e), -1);
    assert_int_equal(e.code, ERR_UNAUTHENTICATED);
    assert_int_equal(auth_allows(AUTH_READ, &person, &e), 0);
    assert_int_equal(auth_allows(AUTH_WRITE, &person, &e), 0);
    assert_int_equal(auth_allows(AUTH_ADMIN, &person, &e), -1);
    assert_int_equal(e.code, ERR_DENIED);
    assert_int_equal(auth_allows(AUTH_ADMIN, &admin, &e), 0);
}

static void test_names(void **state)
{
    struct fixture *f = *state;
    struct who w = {0};
    char name[64];

    auth_name_lookup(0, name);
    assert_string_equal(name, "root");
    auth_name_lookup(4123456789u, name); /* nobody has this number: it stands for itself */
    assert_string_equal(name, "4123456789");
    assert_false(auth_name_find(f->auth, &w));
    auth_name_add(f->auth, 0, "root");
    auth_name_add(f->auth, 0, "other"); /* the first answer stays */
    assert_true(auth_name_find(f->auth, &w));
    assert_string_equal(w.caller.user, "root");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_owner_and_root), T(test_stranger), T(test_bearer),
        T(test_job_token),      T(test_classes),  T(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
