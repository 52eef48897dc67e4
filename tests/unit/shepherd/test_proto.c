/* test_proto.c - frames: what is written can be read, and nothing else can */
#include "base/rand.h"
#include "base/util.h"
#include "run_start_equal.h"
#include "shepherd/proto.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static char *W(const char *s)
{
    return (char *)(uintptr_t)s;
}

static struct proto_start sample(void)
{
    static char *argv[4], *envp[3], *mounts[3];
    static const uint32_t groups[] = {7, 8, 9};

    argv[0] = W("python");
    argv[1] = W("");
    argv[2] = W("train.py");
    envp[0] = W("A=1");
    envp[1] = W("B=two words");
    mounts[0] = W("/home/a:/custom");
    mounts[1] = W("/srv/data:/data:ro");
    return (struct proto_start){.offset = 4096,
                                .run = {.key = {12, 3},
                                        .journal = 2,
                                        .after = {11, 1},
                                        .limits = {.timeout_ms = 1000, .grace_ms = 50},
                                        .groups = {groups, 3},
                                        .cwd = "/tmp",
                                        .log_path = "/var/log/x",
                                        .run_dir = "/run/x",
                                        .params_json = STR("{\"a\":1}"),
                                        .argv = argv,
                                        .envp = envp,
                                        .mounts = mounts}};
}

static void test_start_round_trip(void **state)
{
    struct proto_start in = sample(), out = {0};
    struct frame_head head;
    struct str body;
    AUTO(buf) struct buf b = {0};

    (void)state;
    buf_init(&b, 1 << 20);
    assert_true(proto_put_start(&b, &in));
    assert_int_equal(proto_next(buf_str(&b), &head, &body), 1);
    assert_int_equal(head.type, PROTO_START);
    assert_int_equal(head.n, b.n);
    for (int i = 0; i < 2; i++) { /* the second time into used memory */
        assert_true(proto_get_start(body, &out));
        assert_int_equal(out.offset, 4096);
        assert_true(run_start_equal(&in.run, &out.run));
        assert_null(out.run.envp[3]); /* the spare place of the marker */
        assert_null(out.run.err_path);
    }
    proto_set_start_offset(buf_str(&b), 99);
    assert_true(proto_get_start(body, &out));
    assert_int_equal(out.offset, 99);
    proto_start_done(&out);
}

static void test_every_cut_is_refused(void **state)
{
    struct proto_start in = sample(), out = {0};
    struct frame_head head;
    struct str body;
    AUTO(buf) struct buf b = {0};

    (void)state;
    buf_init(&b, 1 << 20);
    assert_true(proto_put_start(&b, &in));
    for (size_t n = 0; n < b.n; n++)
        assert_int_equal(proto_next((struct str){b.p, n}, &head, &body), 0);
    assert_int_equal(proto_next(buf_str(&b), &head, &body), 1);
    for (size_t n = 0; n < body.n; n++) {
        AUTO_FREE char *exact = xmalloc(n + 1); /* so that ASan sees a read too far */
        memcpy(exact, body.p, n);
        assert_false(proto_get_start((struct str){exact, n}, &out));
    }
    proto_start_done(&out);
}

static void test_noise_is_survived(void **state)
{
    struct proto_start in = sample(), out = {0};
    struct frame_head head;
    struct str body;
    struct rng rng;
    AUTO(buf) struct buf b = {0};

    (void)state;
    rng_seed(&rng, 1);
    buf_init(&b, 1 << 20);
    assert_true(proto_put_start(&b, &in));
    for (int i = 0; i < 20000; i++) {
        AUTO_FREE char *copy = xmalloc(b.n);
        memcpy(copy, b.p, b.n);
        for (int k = 0; k < 3; k++)
            copy[rng_below(&rng, b.n)] = (char)rng_next(&rng);
        if (proto_next((struct str){copy, b.n}, &head, &body) == 1)
            proto_get_start(body, &out);
    }
    proto_start_done(&out);
}

static void test_heads(void **state)
{
    struct frame_head head = {.n = 4, .type = PROTO_STOP}, got;
    struct proto_op op = {.key = {1, 2, 3}, .value = -1}, back;
    struct str body;
    AUTO(buf) struct buf b = {0};

    (void)state;
    assert_int_equal(proto_next((struct str){(char *)&head, sizeof(head)}, &got, &body), -1);
    head.n = PROTO_FRAME_MAX + 1;
    assert_int_equal(proto_next((struct str){(char *)&head, sizeof(head)}, &got, &body), -1);
    head = (struct frame_head){.n = sizeof(head), .type = PROTO_TYPE_MAX};
    assert_int_equal(proto_next((struct str){(char *)&head, sizeof(head)}, &got, &body), -1);
    buf_init(&b, 4096);
    assert_true(proto_put_op(&b, PROTO_STOP, &op));
    assert_true(proto_put_text(&b, PROTO_NOTICE, STR("hello")));
    assert_int_equal(proto_next(buf_str(&b), &got, &body), 1);
    assert_true(proto_get_op(body, &back));
    assert_int_equal(back.value, -1);
    assert_true(run_key_eq(back.key, op.key));
    buf_consume(&b, got.n);
    assert_int_equal(proto_next(buf_str(&b), &got, &body), 1);
    assert_true(str_eq_c(body, "hello"));
    assert_false(proto_get_op(body, &back));
    buf_consume(&b, got.n);
    assert_int_equal(b.n, 0);
}

static void test_too_large_leaves_nothing(void **state)
{
    struct proto_start in = sample();
    AUTO(buf) struct buf b = {0};

    (void)state;
    buf_init(&b, 100);
    assert_true(proto_put_text(&b, PROTO_NOTICE, STR("x")));
    size_t n = b.n;
    assert_false(proto_put_start(&b, &in));
    assert_int_equal(b.n, n);
    assert_true(proto_put_text(&b, PROTO_NOTICE, STR("y")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_round_trip),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_noise_is_survived),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_too_large_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
